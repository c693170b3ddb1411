"""Objects that are pickled as the call that opens them, and are opened once in each process.

A task brings its Run and its Source along. What is pickled is a name and how to open the thing, never what it has
read; a process keeps the last few that it has opened, so that a task finds the connections, and the chunks that were
decoded, of the task before.
"""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

KEPT = 8
"""Opened objects that a process remembers."""

_lock = threading.Lock()
_opened: OrderedDict[str, Any] = OrderedDict()


class Shared:
    """Pickles as ``opener(*arguments)`` of :meth:`recipe`, under a name that is new with every object."""

    _name: str | None = None

    def recipe(self) -> Any:
        """Return (opener, arguments) that make the like of this object in another process."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        with _lock:
            self._name = self._name or uuid.uuid4().hex
        return _open, (self._name, *self.recipe())


def _open(name: str, opener: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with _lock:
        if name not in _opened:
            found = opener(*arguments)
            found._name = name
            _opened[name] = found
            while len(_opened) > KEPT:
                _opened.popitem(last=False)
        _opened.move_to_end(name)
        return _opened[name]
