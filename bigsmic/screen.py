"""The two streams of a command: results on stdout, progress and complaints on stderr."""

import json
import math
import threading
import time
import traceback
import warnings
from contextlib import contextmanager, nullcontext

from rich.console import Console

from bigsmic.errors import BigsmicWarning

STAGES = {
    "simulate": ("simulate",),
    "scan": ("verify", "scan"),
    "climb": ("start", "restart.climb", "objective", "gradient"),
    "route": ("cells", "pieces"),
    "neighbors": ("rows", "neighbors", "lists", "recall"),
    "graph": ("edges", "graph", "components", "repair"),
    "eigen": ("weights", "degree", "matrix", "eigen"),
    "assign": ("frames", "assigned", "labeling"),
    "select": ("scores", "consensus", "windows"),
    "output": ("final", "sharpness", "output"),
}
"""Stages in order, each with the steps that report progress; a step may return in a later stage."""

FILE_WIDTH = 200  # of what does not go to a terminal: tables are as narrow as they can be, and are not folded
LOG_SECONDS = 60  # where there is no terminal, a stage that goes on says so this often


class Screen:
    """What a command says.

    Parameters
    ----------
    as_json : bool
        Results as one JSON document instead of text.
    quiet : bool
        No progress and no text.
    debug : bool
        Errors with their traceback.
    """

    def __init__(self, as_json=False, quiet=False, debug=False):
        self.as_json, self.quiet, self.debug = as_json, quiet, debug
        self.stdout, self.stderr = Console(), Console(stderr=True)
        if not self.stdout.is_terminal:
            self.stdout.width = FILE_WIDTH

    def write(self, document):
        """Write the JSON document, if that is what was asked for."""
        if self.as_json:
            self.stdout.file.write(json.dumps(_without_nan(document)) + "\n")

    def say(self, page):
        """Show lines and tables, if a person is to read them."""
        if not (self.as_json or self.quiet):
            for item in page:
                self.stdout.print(item, markup=False, highlight=False, soft_wrap=isinstance(item, str))

    def fail(self, error, message, code):
        """Say what ended the command."""
        if self.debug:
            self.stderr.file.write("".join(traceback.format_exception(error)))
        self.write({"error": {"type": type(error).__name__, "message": str(error) or message, "exit_code": code}})
        self._complain("error", message)

    def _complain(self, kind, message):
        self.stderr.print(f"bigsmic: {kind}: {message}", markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def warnings_in_one_line(self):
        """Show warnings as errors are shown; those of bigsmic always."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", BigsmicWarning)
            warnings.showwarning = lambda message, *where, **more: self._complain("warning", message)
            yield

    def progress(self):
        """Context of a function ``progress(step, done, total)``, or of None."""
        if self.quiet:
            return nullcontext()
        return _bars(self.stderr) if self.stderr.is_terminal else nullcontext(_Log(self.stderr))


def stage_of(step, current):
    """Stage that a step belongs to, given the stage so far; ``"matrix.normalized.t3"`` is of the step ``matrix``."""
    name, order = step.replace(".", " ").split()[0], list(STAGES)
    stage = next((stage for stage, steps in STAGES.items() if name in steps), current or name)
    if current in order and order.index(stage) < order.index(current):
        return current
    return stage


class _Log:
    """A line where a stage begins, and another every minute that it lasts."""

    def __init__(self, console):
        self._console, self._lock = console, threading.Lock()
        self._start, self._said, self._stage = time.monotonic(), 0.0, ""

    def __call__(self, step, done, total):
        with self._lock:
            stage, now = stage_of(step, self._stage), time.monotonic()
            if stage == self._stage and now - self._said < LOG_SECONDS:
                return
            detail = f": {step} {done}/{total}" if stage == self._stage else ""
            self._stage, self._said = stage, now
            self._console.print(f"{now - self._start:8.1f} s  {stage}{detail}", markup=False, highlight=False)


@contextmanager
def _bars(console):
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        bars = _Bars(progress)
        yield bars
        bars.finish()


class _Bars:
    """A bar a stage, which fills once for each of the stage's steps."""

    def __init__(self, progress):
        self._progress, self._lock = progress, threading.Lock()
        self._stage, self._task = "", None

    def __call__(self, step, done, total):
        with self._lock:
            stage = stage_of(step, self._stage)
            if stage != self._stage:
                self.finish()
                self._stage, self._task = stage, self._progress.add_task(stage, total=None, detail="")
            # a full bar would stop the stage's clock, and there may be further steps
            completed = min(done, total - 0.01)
            self._progress.update(self._task, completed=completed, total=total, detail=f"{step} {done}/{total}")

    def finish(self):
        """Fill the bar of the stage that has ended."""
        if self._task is not None:
            self._progress.update(self._task, completed=1, total=1, detail="")


def _without_nan(content):
    """The same with null for NaN and infinity, which JSON does not know."""
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
