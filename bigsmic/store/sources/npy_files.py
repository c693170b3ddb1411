"""Rows of ``.npy`` files on local disks, read as ranges of bytes.

A file is read, not mapped: mapped pages count as memory of the process until the system drops them, and if a mapped
file is truncated, the process is killed.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError, StorageError
from bigsmic.store.destinations import canonical_location
from bigsmic.store.objects import is_local
from bigsmic.store.redaction import shown
from bigsmic.store.reopenable import Shared
from bigsmic.store.sources.base import Source

MAGIC = np.lib.format.MAGIC_PREFIX
SUFFIX = ".npy"


class NpySource(Shared, Source):
    """Rows of a two-dimensional array in a ``.npy`` file.

    Parameters
    ----------
    path : str
        Absolute.

    Raises
    ------
    InputError
        It is not such a file, is truncated, or contains Python objects.
    """

    travels = True

    def __init__(self, path: Any) -> None:
        header = _header(path)
        self._path, self._offset, self._by_columns = path, header.offset, not header.flags.c_contiguous
        super().__init__(_Shaped(header), path)

    def recipe(self) -> Any:
        """Return how a task in another process opens the same file."""
        return NpySource, (self._path,)

    @property
    def places(self) -> list[str]:
        """Path of the file."""
        return [self._path]

    def origin(self) -> Any:
        """Return the path of the file."""
        return canonical_location(self._path)

    def read(self, lo: int, hi: int) -> Any:
        """Return rows ``lo:hi`` as a C-ordered ndarray of the stored dtype."""
        n, d = self.shape
        try:
            with open(self._path, "rb") as file:
                if not self._by_columns:
                    return self._entries(file, lo * d, (hi - lo) * d, lo).reshape(hi - lo, d)
                rows = np.empty((hi - lo, d), self.dtype)
                for j in range(d):
                    rows[:, j] = self._entries(file, j * n + lo, hi - lo, lo)
                return rows
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(
                error.errno,
                f"input: rows {lo}:{hi} of {self.name} could not be read ({error.strerror}); check the file",
            ) from error

    def _entries(self, file: Any, first: int, count: int, row: Any) -> Any:
        """Consecutive entries of the file."""
        file.seek(self._offset + first * self.dtype.itemsize)
        found = np.fromfile(file, self.dtype, count)
        if len(found) < count:
            raise StorageError(
                f"input: rows from {row} on of {self.name} could not be read: the file was truncated after it was "
                "opened; restore it"
            )
        return found


class _Shaped:
    """Shape and dtype of an array that is not in memory."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.shape, self.dtype = array.shape, array.dtype


def _header(path: str) -> Any:
    """A memory map of the file, of which only the header is read."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise InputError(
            f"input: {shown(path)!r} could not be opened as an array of NumPy ({error}); "
            "write it again with numpy.save, of one array of numbers"
        ) from None


def is_npy(location: Any) -> bool:
    """Whether a location is a ``.npy`` file, by its name or by the first bytes of a local file.

    Raises
    ------
    InputError
        It is a ``.npy`` file behind a URL.
    """
    named = os.path.splitext(location.partition("?")[0])[1].lower() == SUFFIX
    if not is_local(location):
        if named:
            raise InputError(
                f"input: {shown(location)!r} is a .npy file behind a URL, and those are read from local disks only; "
                "copy it to a local path, or write it as Zarr: "
                "zarr.create_array(url, data=numpy.load(path, mmap_mode='r'))"
            )
        return False
    return os.path.isfile(location) and (named or _begins_as_npy(location))


def _begins_as_npy(path: Any) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
