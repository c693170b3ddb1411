"""Storage for the columns of a basis, over fixed row blocks."""

from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from bigsmic.types import Floats, Integers


class Basis(Protocol):
    """Storage of the columns of V: one Fortran-ordered array per row block of a shard.

    Attributes
    ----------
    bounds : ndarray of int64, shape (p + 1,)
        Block i of the shard is ``bounds[i]:bounds[i + 1]``.
    capacity : int
        Number of columns that fit.
    dtype : dtype
        float32 or float64.
    """

    bounds: np.ndarray
    capacity: int
    dtype: np.dtype

    def read(self, block: int, start: int, stop: int) -> np.ndarray:
        """Return columns ``start:stop`` of a block, Fortran-ordered; the caller may write into it."""
        ...

    def write(self, block: int, start: int, columns: np.ndarray) -> None:
        """Store `columns` from column `start` on."""
        ...

    def close(self) -> None:
        """Delete the files of the basis, if there are any."""
        ...


class MemoryBasis:
    """A basis in memory.

    Parameters
    ----------
    bounds : array_like of int, shape (p + 1,)
    capacity : int
    dtype : dtype, default float32
    """

    def __init__(self, bounds: Integers | list[int], capacity: int, dtype: DTypeLike = np.float32) -> None:
        self.bounds = np.asarray(bounds, dtype=np.int64)
        self.capacity = capacity
        self.dtype = np.dtype(dtype)
        self._blocks = [np.zeros((m, capacity), self.dtype, order="F") for m in np.diff(self.bounds)]

    def read(self, block: int, start: int, stop: int) -> Floats:
        """Return a view of the columns."""
        return self._blocks[block][:, start:stop]

    def write(self, block: int, start: int, columns: Floats) -> None:
        """Store the columns; nothing to do for those that were changed in place."""
        target = self._blocks[block][:, start : start + columns.shape[1]]
        if not np.may_share_memory(target, columns):
            target[...] = columns

    def close(self) -> None:
        """Nothing to do for a basis in memory."""


class SplitBasis:
    """A basis whose first row blocks lie in one place, and the others in another.

    Parameters
    ----------
    first, rest : Basis
        Of one capacity and dtype; `rest` counts its blocks and rows from 0.
    """

    def __init__(self, first: Basis, rest: Basis) -> None:
        self.bounds = np.concatenate([first.bounds, first.bounds[-1] + rest.bounds[1:]])
        self.capacity, self.dtype = first.capacity, first.dtype
        self._places, self._n_first = (first, rest), len(first.bounds) - 1

    def _at(self, block: int) -> tuple[Basis, int]:
        first, rest = self._places
        return (first, block) if block < self._n_first else (rest, block - self._n_first)

    def read(self, block: int, start: int, stop: int) -> Floats:
        """Return the columns, a view where the place gives one."""
        place, own = self._at(block)
        return place.read(own, start, stop)

    def write(self, block: int, start: int, columns: Floats) -> None:
        """Store the columns."""
        place, own = self._at(block)
        place.write(own, start, columns)

    def close(self) -> None:
        """Close both places."""
        for place in self._places:
            place.close()
