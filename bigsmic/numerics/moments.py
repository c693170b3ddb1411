"""Column moments that add up over blocks."""

import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.types import Floats, Integers

_EXACT = 1 << 53  # float64 represents all integers up to this
_TILE_ENTRIES = 1 << 17  # converted to float64 at a time


class Moments(NamedTuple):
    """Number of rows, mean, sum of squared deviations and range of each column.

    Parameters
    ----------
    n : ndarray of int64, shape ()
    mean, m2, low, high : ndarray of float64, shape (d,)

    References
    ----------
    .. [1] Chan, Golub, LeVeque, "Algorithms for computing the sample variance", The American Statistician 37, 1983.
    """

    n: np.ndarray
    mean: np.ndarray
    m2: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __add__(self, other: "Moments") -> "Moments":  # type: ignore[override]
        """Moments of the rows of both; [1]_."""
        n = self.n + other.n
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        m2 = self.m2 + other.m2 + delta**2 * (self.n * other.n / n)
        return Moments(n, mean, m2, np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def reach(self) -> Floats:
        """Largest distance of an entry from the mean of its column: float64, shape (d,)."""
        return np.maximum(self.high - self.mean, self.mean - self.low)


def origin_of(row: NDArray[Any]) -> Integers | None:
    """Integers to subtract from all rows before conversion to floats: entries of a row too large for floats, else 0.

    Parameters
    ----------
    row : ndarray, shape (d,)
        The first row.

    Returns
    -------
    origin : ndarray of the row's dtype, shape (d,), or None
        None if there is nothing to subtract.
    """
    if row.dtype.kind not in "iu" or row.dtype.itemsize < 8:
        return None
    large = (row > _EXACT) | (row < -_EXACT) if row.dtype.kind == "i" else row > _EXACT
    return np.where(large, row, 0).astype(row.dtype) if large.any() else None


def moments(X: Floats, origin: Any = None) -> Moments:
    """Moments of one block of finite rows, shape (b, d), b >= 1, minus an origin; see :func:`origin_of`."""
    return reduce(operator.add, map(_tile_moments, _tiles(X, origin=origin)))


def _tile_moments(tile: Floats) -> Moments:
    mean = tile.mean(axis=0)
    m2 = ((tile - mean) ** 2).sum(axis=0)
    return Moments(np.asarray(len(tile)), mean, m2, tile.min(axis=0), tile.max(axis=0))


def refuse_overflow(m2: Floats) -> None:
    """Refuse sums of squared deviations of columns that are not finite."""
    if not np.isfinite(m2).all():
        raise InputError(
            "input: the sum of squares of a column overflows float64; change the unit of the rows, or drop extreme ones"
        )


def first_nonfinite(X: NDArray[Any]) -> tuple[int, int, int]:
    """Count the entries that are NaN or infinite, and find the first: (count, row, column), -1 if none."""
    if X.dtype.kind != "f":
        return 0, -1, -1
    count, where = 0, (-1, -1)
    for some in row_slices(X):
        bad = ~np.isfinite(X[some])
        if bad.any():
            if not count:
                row, column = np.argwhere(bad)[0]
                where = (int(row) + some.start, int(column))
            count += int(bad.sum())
    return count, *where


def row_slices(X: Floats, multiple: int = 1) -> Iterator[slice]:
    """Some rows at a time, in a multiple of `multiple`."""
    step = max(1, _TILE_ENTRIES // max(1, X.shape[1]) // multiple) * multiple
    return (slice(lo, lo + step) for lo in range(0, len(X), step))


def _tiles(X: Floats, origin: Any = None) -> Iterator[Floats]:
    """Some rows at a time, minus an origin, in float64."""
    tiles = (X[some] for some in row_slices(X))
    return (tile.astype(np.float64, copy=False) if origin is None else less(tile, origin) for tile in tiles)


def less(X: NDArray[Any], origin: Integers | None) -> NDArray[Any]:
    """``X - origin`` in float64, exact where the difference of integers is; X itself without an origin."""
    if origin is None:
        return X
    rough = X.astype(np.float64) - origin.astype(np.float64)
    if X.dtype != origin.dtype:
        return rough
    return np.where(np.abs(rough) < 2.0**62, (X - origin).astype(np.int64), rough)  # which would wrap beyond 2^63
