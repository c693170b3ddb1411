"""The two streams of a command: results on stdout, progress, warnings and errors on stderr."""

import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bigsmic.errors import BigsmicWarning, InputError, PlanError, StorageError
from bigsmic.runtime.stderr import stderr_console

if TYPE_CHECKING:
    from bigsmic.tables import Page

FILE_WIDTH = 200  # of output to a file or pipe: tables are as narrow as possible there, and are not folded


class Screen:
    """Output of a command.

    Parameters
    ----------
    as_json : bool
        Results as one JSON document instead of text.
    quiet : bool
        No progress and no text.
    debug : bool
        Show errors with their traceback.
    translate : callable, optional
        ``translate(message, leads)`` returns a message with options as they are typed; `leads` tells whether the
        message may begin with the name of an option.
    """

    def __init__(
        self,
        as_json: bool = False,
        quiet: bool = False,
        debug: bool = False,
        translate: Callable[..., str] = lambda message, leads: message,
    ) -> None:
        self.as_json, self.quiet, self.debug, self._translate = as_json, quiet, debug, translate
        self.stdout, self.stderr = Console(), stderr_console()
        if not self.stdout.is_terminal:
            self.stdout.width = FILE_WIDTH

    def write(self, document: Any) -> None:
        """Write the JSON document, if JSON was asked for."""
        if self.as_json:
            with _insisting_on_stdout():
                self.stdout.file.write(json.dumps(_without_nan(document)) + "\n")
                self.stdout.file.flush()

    def say(self, page: "Page") -> None:
        """Show lines and tables, unless JSON or quiet was asked for."""
        if not (self.as_json or self.quiet):
            with _insisting_on_stdout():
                for item in page:
                    self.stdout.print(item, markup=False, highlight=False, soft_wrap=isinstance(item, str))

    def give(self, document: Any, page: "Page") -> None:
        """Write the document, and show the page; both are made before, so that a failure writes a document alone."""
        self.write(document)
        self.say(page)

    def fail(self, error: BaseException, message: str, code: int) -> None:
        """Show an error."""
        if self.debug:
            self.stderr.file.write("".join(traceback.format_exception(error)))
        message = _in_one_line(self._translate(message, isinstance(error, InputError | PlanError)))
        document = {"type": type(error).__name__, "message": message, "exit_code": code}
        with suppress(StorageError):
            self.write({"error": document})
        self._complain("error", message)

    def _complain(self, kind: str, message: str) -> None:
        self.stderr.print(f"bigsmic: {kind}: {message}", markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def warnings_in_one_line(self) -> Iterator[None]:
        """Show warnings in one line each, like errors; bigsmic's own are always shown."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", BigsmicWarning)
            warnings.showwarning = lambda message, *where, **more: self._complain(
                "warning", _in_one_line(self._translate(str(message), True))
            )
            yield


@contextmanager
def _insisting_on_stdout() -> Iterator[None]:
    """Raise StorageError if stdout cannot be written, and keep the interpreter from writing to it again at exit."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise StorageError(
            f"stdout: the result could not be written ({error.strerror}); the work under --out is finished, and the "
            "same command writes to stdout again"
        ) from error


def _in_one_line(message: str) -> str:
    """The message without ends of lines, as programs that read logs take every line for another message."""
    first, *others = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    for line in others:
        first += f" {line}" if first.endswith((":", ";", ",", ".")) else f"; {line}"
    return first


def _without_nan(content: Any) -> Any:
    """The content with null in place of NaN and infinity, which JSON lacks."""
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
