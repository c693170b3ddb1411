"""Bytes by key of a temporary run, in memory as far as there is room, and else in its directory.

A fit writes thousands of small objects, and as files these take longer than what they contain. So small ones are held,
and large ones are files. Only this process can know the run, until somebody is told its location or a task in another
process opens it: then :meth:`HeldBytes.settle` writes the files.
"""

import itertools
import os
import threading
import weakref
from typing import Any

from bigsmic.store.objects import LocalBytes, storage_errors

HELD_BYTES = 16 << 20
"""Room of one run."""
ALL_HELD_BYTES = 64 << 20
"""Room of all runs of this process together, as results may be many, and live long."""
LARGEST_SHARE = 1 / 16
"""Most that one object may take of the room that is left: a large one would take the place of many small ones."""

_runs: "weakref.WeakValueDictionary[str, HeldBytes]" = weakref.WeakValueDictionary()


class HeldBytes(LocalBytes):
    """Bytes by key, each object either in memory or a file.

    Parameters
    ----------
    root : str
        Must exist.
    room : int
        Bytes that are held at most.
    """

    def __init__(self, root: str, room: int) -> None:
        super().__init__(root)
        self._room, self._size = room, 0
        self._held: dict[str, dict[str, bytes]] = {}  # by stage, as whole stages are listed and deleted
        self._files: set[str] = set()
        self._lock = threading.RLock()

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self._size

    def get(self, key: str, start: int | None = None, stop: int | None = None) -> Any:
        """Return the bytes, or a range of them as a read-only view; None if there are none."""
        data = self._of_stage(key).get(key)
        if data is None:
            return super().get(key, start, stop)
        return data if start is None else memoryview(data)[start:stop]

    def set(self, key: str, data: Any) -> None:
        """Write the bytes, all of them or none."""
        size = memoryview(data).nbytes
        with self._lock:
            left = self._room - self._size + self._size_of(key)
            if key not in self._files and size <= LARGEST_SHARE * left:
                self._size += size - self._size_of(key)
                self._held.setdefault(_stage(key), {})[key] = memoryview(data).tobytes()
                return
            self._files.add(key)
            if key in self._of_stage(key):  # which readers find until the file is there
                super().set(key, data)
                self._release(key)
                return
        super().set(key, data)

    def delete(self, key: str) -> None:
        """Delete the key, if it exists."""
        with self._lock:
            if not self._release(key):
                super().delete(key)
                self._files.discard(key)

    def delete_tree(self, prefix: str) -> None:
        """Delete everything under a prefix."""
        with self._lock:
            for key in self._under(prefix):
                self._release(key)
            super().delete_tree(prefix)
            self._files = {key for key in self._files if not key.startswith(f"{prefix}/")}

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the non-empty folders one level below a prefix, in order."""
        depth = len(prefix) + 1 if prefix else 0
        below = [key[depth:].partition("/") for key in self._under(prefix)]
        return sorted({*super().folders(prefix), *(name for name, slash, _ in below if slash)})

    def settle(self) -> None:
        """Write what is in memory to files, as all that comes later; nothing if the directory was deleted."""
        with self._lock:
            self._room = 0
            if not os.path.isdir(self._root):
                return
            for key in self._under(""):
                super().set(key, self._of_stage(key)[key])
                self._release(key)
                self._files.add(key)

    def _under(self, prefix: str) -> list[str]:
        with self._lock:
            keys = self._of_stage(prefix) if prefix else itertools.chain.from_iterable(self._held.values())
            return [key for key in keys if not prefix or key.startswith(f"{prefix}/")]

    def _of_stage(self, key: str) -> dict[str, bytes]:
        return self._held.get(_stage(key), {})

    def _size_of(self, key: str) -> int:
        return len(self._of_stage(key).get(key, b""))

    def _release(self, key: str) -> bool:
        """Drop a key from memory; whether it was there."""
        self._size -= self._size_of(key)
        return self._of_stage(key).pop(key, None) is not None


def _stage(key: str) -> str:
    return key.partition("/")[0]


def hold(root: str, room: int) -> HeldBytes:
    """Hold the bytes of a new temporary run, as long as anything refers to them; others find them by `bytes_of`."""
    held = sum(run.size for run in list(_runs.values()))
    _runs[root] = made = HeldBytes(os.fspath(root), max(0, min(room, ALL_HELD_BYTES - held)))
    return made


def bytes_of(root: str) -> LocalBytes:
    """The bytes by key of a local run, wherever they are."""
    return _runs.get(root) or LocalBytes(root)


def settle(objects: Any, location: str) -> None:
    """Write what is in memory to files, if anything is.

    Raises
    ------
    StorageError
        The disk is full, say; the rest stays in memory.
    """
    if isinstance(objects, HeldBytes):
        with storage_errors(f"run: writing to {location}"):
            objects.settle()
