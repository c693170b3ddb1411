"""The two streams of a command: results on stdout, progress, warnings and errors on stderr."""

import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console

from bigsmic.errors import BigsmicWarning, InputError, PlanError, StorageError

FILE_WIDTH = 200  # of what does not go to a terminal: tables are as narrow as they can be, and are not folded


class Screen:
    """Output of a command.

    Parameters
    ----------
    as_json : bool
        Results as one JSON document instead of text.
    quiet : bool
        No progress and no text.
    debug : bool
        Errors with their traceback.
    translate : callable, optional
        ``translate(message, leads)`` returns a message as the user has to read it; `leads` tells whether what it
        begins with may be an option.
    """

    def __init__(
        self,
        as_json: bool = False,
        quiet: bool = False,
        debug: bool = False,
        translate: Callable[..., str] = lambda message, leads: message,
    ) -> None:
        self.as_json, self.quiet, self.debug, self._translate = as_json, quiet, debug, translate
        self.stdout, self.stderr = Console(), Console(stderr=True)
        if not self.stdout.is_terminal:
            self.stdout.width = FILE_WIDTH

    def write(self, document: Any) -> None:
        """Write the JSON document, if that is what was asked for."""
        if self.as_json:
            with _insisting_on_stdout():
                self.stdout.file.write(json.dumps(_without_nan(document)) + "\n")
                self.stdout.file.flush()

    def say(self, page: Any) -> None:
        """Show lines and tables, if a person is to read them."""
        if not (self.as_json or self.quiet):
            with _insisting_on_stdout():
                for item in page:
                    self.stdout.print(item, markup=False, highlight=False, soft_wrap=isinstance(item, str))

    def fail(self, error: BaseException, message: str, code: Any) -> None:
        """Show the error that ended the command."""
        if self.debug:
            self.stderr.file.write("".join(traceback.format_exception(error)))
        message = self._translate(message, isinstance(error, InputError | PlanError))
        document = {"type": type(error).__name__, "message": message, "exit_code": code}
        with suppress(StorageError):
            self.write({"error": document})
        self._complain("error", message)

    def _complain(self, kind: Any, message: str) -> None:
        self.stderr.print(f"bigsmic: {kind}: {message}", markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def warnings_in_one_line(self) -> Iterator[None]:
        """Show warnings as errors are shown; those of bigsmic always."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", BigsmicWarning)
            warnings.showwarning = lambda message, *where, **more: self._complain(
                "warning", self._translate(str(message), True)
            )
            yield


@contextmanager
def _insisting_on_stdout() -> Iterator[None]:
    """Raise StorageError once where stdout cannot be written: the interpreter would try again when it ends."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise StorageError(
            f"stdout: the result could not be written there ({error.strerror}); what is under --out is finished, the "
            "same command writes to stdout again"
        ) from error


def _without_nan(content: Any) -> Any:
    """The same with null for NaN and infinity, which JSON does not know."""
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
