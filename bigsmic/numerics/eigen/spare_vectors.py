"""Vectors that are read and written row block by row block only: in memory or, where that is short, in files.

A product needs all rows of its operand, at random. What is subtracted from it, and what it gives, is needed one row
block after the other, and so may lie on disk.
"""

from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from bigsmic.numerics.eigen.basis import Basis
from bigsmic.numerics.row_blocks import Shard
from bigsmic.types import Floats


class SpareVectors(Protocol):
    """A few vectors over the rows of a shard, beside those that are in memory."""

    def read(self, p: int) -> np.ndarray:
        """Rows of block p, shape (b, w), C-ordered; the caller may write into them."""
        ...

    def room(self, p: int) -> np.ndarray:
        """Array for rows of block p, with any content."""
        ...

    def write(self, p: int, rows: np.ndarray) -> None:
        """Store rows of block p, which may be those of `read` or `room`."""
        ...

    def exchanged(self, X: np.ndarray) -> np.ndarray:
        """Return these vectors in memory, shape (rows of the shard, w), and hold X, of that shape, from now on.

        X belongs to these vectors afterwards, and may be what is returned.
        """
        ...

    def taken(self) -> np.ndarray:
        """Return these vectors in memory, and hold none."""
        ...


def spare_vectors(shard: Shard, width: int, dtype: DTypeLike, files: Basis | None) -> SpareVectors:
    """Vectors in these files, whose row blocks are those of the shard; in memory without files."""
    return VectorsInMemory(shard, width, dtype) if files is None else StoredVectors(shard, files, width)


class VectorsInMemory:
    """Vectors in memory.

    Parameters
    ----------
    shard : Shard
    width : int
    dtype : dtype
    """

    def __init__(self, shard: Shard, width: int, dtype: DTypeLike) -> None:
        self._shard, self._X = shard, np.empty((shard.n_rows, width), dtype)

    def read(self, p: int) -> Floats:
        """Return a view."""
        return self._X[self._shard.rows(p)]

    room = read

    def write(self, p: int, rows: Floats) -> None:
        """Store the rows; nothing to do for those of a view."""
        own = self._X[self._shard.rows(p)]
        if not np.may_share_memory(own, rows):
            own[...] = rows

    def exchanged(self, X: Floats) -> Floats:
        """Return the array, and hold the other."""
        self._X, found = X, self._X
        return found

    def taken(self) -> Floats:
        """Return the array."""
        return self.exchanged(self._X[:0])


class StoredVectors:
    """Vectors in files.

    Parameters
    ----------
    shard : Shard
    files : Basis
        Its row blocks are those of the shard.
    width : int
    """

    def __init__(self, shard: Shard, files: Basis, width: int) -> None:
        self._shard, self._files, self._width = shard, files, width

    def read(self, p: int) -> Floats:
        """Read the rows."""
        return np.ascontiguousarray(self._files.read(p - self._shard.blocks.start, 0, self._width))

    def room(self, p: int) -> Floats:
        """Return a new array."""
        rows = self._shard.rows(p)
        return np.empty((rows.stop - rows.start, self._width), self._files.dtype)

    def write(self, p: int, rows: Floats) -> None:
        """Write the rows."""
        self._files.write(p - self._shard.blocks.start, 0, rows)

    def exchanged(self, X: Floats) -> Floats:
        """Exchange X and the files, block by block; X is returned."""

        def task(p: int) -> None:
            own, found = X[self._shard.rows(p)], self.read(p)
            self.write(p, own)
            own[...] = found

        self._shard.for_each_block(task)
        return X

    def taken(self) -> Floats:
        """Read all rows."""
        X = np.empty((self._shard.n_rows, self._width), self._files.dtype)

        def task(p: int) -> None:
            X[self._shard.rows(p)] = self.read(p)

        self._shard.for_each_block(task)
        return X
