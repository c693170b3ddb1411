"""stderr for reports that nobody may be there to read: a fit goes on if they cannot be written.

A log can lie on a disk that is full, a pipe can have lost its reader, and a terminal can be closed while a fit runs.
"""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class _Unfailing:
    """A stream whose failures to write are ignored; everything else is that of the stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, or nothing if that fails."""
        with suppress(OSError, ValueError):  # the latter from a stream that was closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is held back, or nothing if that fails."""
        with suppress(OSError, ValueError):  # the latter from a stream that was closed
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def stderr_console() -> "Console":
    """Console that writes to the present stderr, and raises nothing if that fails."""
    from rich.console import Console

    stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)  # not the stand-in while a bar is shown
    file: Any = None if stream is None else _Unfailing(stream)
    return Console(file=file, stderr=True)
