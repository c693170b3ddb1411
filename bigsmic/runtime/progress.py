"""Progress of a fit: a line that is redrawn on a terminal, or a line every half minute elsewhere.

A fit reports *steps*, as ``progress(step, done, total)``; the steps of a *stage* are shown together. Steps go over all
rows block by block, except those of :data:`UNITS`. Blocks of an earlier call count as done, but not for the speed.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bigsmic.errors import InputError
from bigsmic.runtime.stderr import stderr_console

STAGES = {
    "simulate": ("simulate",),
    "check": ("check",),
    "scan": ("verify", "scan"),
    "passes": ("passes",),
    "map": ("map",),
    "route": ("cells", "routed_rows", "route"),
    "neighbors": ("rows", "neighbors", "lists", "recall", "hubs", "more_neighbors", "candidates", "chosen"),
    "graph": ("edges", "graph", "components", "repair"),
    "eigen": ("weights", "degree", "matrix", "known", "eigen"),
    "assign": ("frame", "assigned", "labeling"),
    "memberships": ("bandwidth", "tiles", "memberships"),
    "ascent": ("start", "restart", "objective", "gradient", "ascent"),
    "select": ("scores", "choice", "kept", "consensus", "eigenvector_sets", "propagated", "violated"),
    "output": (
        *("gaussians", "draft", "outvoted", "final", "sharpness"),
        *("remainders", "spacing", "noise_scores", "output", "novelty"),
    ),
}
"""Stages of all methods in order, each with the steps that report progress; a step may recur in a later stage."""

UNITS = {"eigen": "vectors", "labeling": "labelings", "ascent": "iterations", "memberships": "iterations"}
"""Units counted by steps that do not go over the rows once."""
LIMITS = ("iterations",)  # units of which there may be fewer than the total
LINE_SECONDS = 30  # between two lines of one stage, without a terminal


def stage_of(step: str, current: str) -> str:
    """Stage of a step, given the stage so far; ``"matrix.normalized.t3"`` belongs to the step ``matrix``."""
    name, order = _first_word(step), list(STAGES)
    ahead = order[order.index(current) :] if current in order else order
    return next((stage for stage in ahead if name in STAGES[stage]), current or name)


def _first_word(step: str) -> str:
    return step.replace(".", " ").split()[0]


class Meter:
    """Speed and remaining time of the current step.

    Parameters
    ----------
    n_rows : int, optional
        Rows that every step goes over.

    Attributes
    ----------
    stage, step : str
    done, total : int
        Number of blocks, or of the units in :data:`UNITS`.
    """

    def __init__(self, n_rows: int | None = None) -> None:
        self.n_rows, self.stage, self.step = n_rows, "", ""
        self.done, self.total = 0, 0

    def __call__(self, step: str, done: int, total: int, now: float) -> bool:
        """Record the progress of a step at a time in seconds; return whether a stage begins."""
        if step != self.step or total != self.total or done < self.done:
            self._begun, self._before = now, done
        begins = stage_of(step, self.stage) != self.stage
        self.stage = stage_of(step, self.stage)
        self.step, self.done, self.total, self._seconds = step, done, total, now - self._begun
        return begins

    @property
    def unit(self) -> str:
        """Unit of the counts."""
        return UNITS.get(_first_word(self.step), "blocks")

    @property
    def rate(self) -> float:
        """Units per second of this step in this call; 0 if not known yet."""
        return (self.done - self._before) / self._seconds if self._seconds > 0 else 0.0

    @property
    def rows_per_second(self) -> float | None:
        """Rows per second; None if the step does not go over the rows."""
        return self.rate * self.n_rows / self.total if self.n_rows and self.unit == "blocks" and self.total else None

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the step ends; None if its speed is not known yet."""
        return (self.total - self.done) / self.rate if self.rate and self.unit not in LIMITS else None

    def __str__(self) -> str:
        parts = [f"{self.step} {self.done:,}/{self.total:,} {self.unit}"]
        if self.rows_per_second:
            parts.append(f"{float(f'{self.rows_per_second:.3g}'):,.0f} rows/s")
        if self.seconds_left:
            parts.append(f"{time_text(self.seconds_left)} left")
        return ", ".join(parts)


def time_text(seconds: float) -> str:
    """Format seconds with at most two units, such as ``"3 min 5 s"``."""
    seconds = math.ceil(seconds)
    for size, unit, smaller, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {name}" if rest else "")
    return f"{seconds} s"


def ticks(progress: Any, step: str, total: int, done: int = 0) -> Callable[[], Any] | None:
    """Report the start of a step, and return a function that reports one more block at each call.

    Parameters
    ----------
    progress : callable or None
    step : str
    total, done : int
        Blocks in all, and blocks done already.

    Returns
    -------
    tick : callable or None
    """
    if progress is None:
        return None
    count = itertools.count(done + 1)
    progress(step, done, total)
    return lambda: progress(step, next(count), total)


def check_progress(progress: Any) -> None:
    """Refuse what is neither a truth value nor a function, nor None.

    Raises
    ------
    InputError
    """
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress: got {progress!r}; give True, False, or a function of (stage, done, total)")


@contextmanager
def reported(progress: Any, n_rows: int | None = None) -> Iterator[Any]:
    """Context manager that gives the requested function ``progress(step, done, total)``, or None.

    Parameters
    ----------
    progress : bool, callable or None
        True for output on stderr.
    n_rows : int, optional

    Raises
    ------
    InputError
    """
    check_progress(progress)
    if progress is None or progress is False:
        yield None
    elif callable(progress):
        yield progress
    else:
        console = stderr_console()
        shown = bars if console.is_terminal and not console.is_jupyter else lines
        with shown(console, n_rows) as report:
            yield report


@contextmanager
def lines(console: Any, n_rows: int | None = None) -> Iterator[Any]:
    """Print a line at the start of a stage, and another one every half minute while it lasts."""
    yield _Lines(console, n_rows)


class _Lines:
    def __init__(self, console: Any, n_rows: int | None) -> None:
        self._console, self._meter = console, Meter(n_rows)
        self._start, self._said = time.monotonic(), 0.0

    def __call__(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        begins = self._meter(step, done, total, now)
        if not begins and now - self._said < LINE_SECONDS:
            return
        self._said = now
        detail = f": {self._meter}" if done or not begins else ""
        text = f"{now - self._start:8.1f} s  {self._meter.stage}{detail}"
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def bars(console: Any, n_rows: int | None = None) -> Iterator[Any]:
    """Show progress as a line that is redrawn, and leave a line with the duration of every finished stage."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description:<9}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console) as shown:
        found = _Bars(shown, n_rows)
        yield found
        found.finish()


class _Bars:
    """One bar per stage, which fills once for each of its steps."""

    def __init__(self, shown: Any, n_rows: int | None) -> None:
        self._shown, self._meter, self._task = shown, Meter(n_rows), None

    def __call__(self, step: str, done: int, total: int) -> None:
        if self._meter(step, done, total, time.monotonic()):
            self.finish()
            self._task = self._shown.add_task(self._meter.stage, total=None, detail="")
        # a full bar would stop the stage's clock, although further steps may follow
        completed = min(done, total - 0.01)
        self._shown.update(self._task, completed=completed, total=total, detail=self._meter)

    def finish(self) -> None:
        """Fill the bar of the finished stage."""
        if self._task is not None:
            self._shown.update(self._task, completed=1, total=1, detail="")
