"""Objects that are pickled as the call that opens them, and are opened once in each process.

Tasks are pickled with their Run and Source. The pickle contains a name and the call that opens the object, never data.
A process keeps the last few objects that it has opened, so that a task can use the connections of the previous one, and
its decoded chunks, until it opens another object: no plan has the chunks of earlier archives.
"""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

KEPT = 8
"""Opened objects that a process keeps."""

_lock = threading.Lock()
_opened: OrderedDict[str, Any] = OrderedDict()


class Shared:
    """Base class of objects that pickle as ``opener(*arguments)`` of :meth:`recipe`, with a unique name."""

    _name: str | None = None

    def recipe(self) -> Any:
        """Return (opener, arguments) that open the same in another process."""
        raise NotImplementedError

    def drop_decoded(self) -> None:
        """Drop decoded chunks, if there are any and none is being decoded."""

    def __reduce__(self) -> tuple[Any, ...]:
        with _lock:
            self._name = self._name or uuid.uuid4().hex
        return _open, (self._name, *self.recipe())


def drop_decoded() -> None:
    """Drop the decoded chunks of all objects that this process has opened."""
    with _lock:
        for found in _opened.values():
            found.drop_decoded()


def _open(name: str, opener: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with _lock:
        if name not in _opened:
            for earlier in _opened.values():
                earlier.drop_decoded()
            found = opener(*arguments)
            found._name = name
            _opened[name] = found
            while len(_opened) > KEPT:
                _opened.popitem(last=False)
        _opened.move_to_end(name)
        return _opened[name]
