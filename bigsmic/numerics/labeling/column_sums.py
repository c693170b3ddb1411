"""Mean and spread of every column in every cluster, and the columns that distinguish a cluster from the rest."""

from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from bigsmic.types import Floats, Integers

TILE_ENTRIES = 1 << 20
"""Entries of a block that are converted to float64 at a time."""
LARGEST_EFFECT = 1e5
"""Largest effect; beyond it, sums of squares in float64 cannot tell a column's spread from zero."""
LEAST_ROWS = 32
"""Least number of rows of a tile, as the sums over a tile of very many columns are large themselves."""


class ColumnSums(NamedTuple):
    """Sums over rows, of each cluster; the sum of two is that of all rows.

    Parameters
    ----------
    counts : ndarray of int64, shape (c,)
        Rows of each cluster; rows of label -1 are in none.
    total, squares : ndarray of float64, shape (c, d)
        Sums of the rows minus a center, which all blocks share, and of their squares.
    """

    counts: np.ndarray
    total: np.ndarray
    squares: np.ndarray

    def __add__(self, other: "ColumnSums") -> "ColumnSums":  # type: ignore[override]
        """Sums over the rows of both."""
        return ColumnSums(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def mean(self) -> Floats:
        """Mean of each column in each cluster, minus the center: float64, shape (c, d); nan without rows."""
        return self.total / _or_nan(self.counts)

    @property
    def spread(self) -> Floats:
        """Standard deviation of each column in each cluster: float64, shape (c, d); nan without rows."""
        return np.sqrt(np.maximum(self.squares / _or_nan(self.counts) - self.mean**2, 0))


def _or_nan(counts: Integers) -> Floats:
    return np.where(counts > 0, counts, np.nan)[:, None]


def column_sums(X: Floats, labels: Integers, n_clusters: int, center: Floats) -> ColumnSums:
    """Sums over one block of rows.

    Parameters
    ----------
    X : ndarray, shape (b, d)
        Of any real dtype.
    labels : ndarray of int, shape (b,)
        -1 for none.
    n_clusters : int
    center : ndarray of float64, shape (d,)
        Near the mean of all rows, so that sums of squares keep their digits.

    Returns
    -------
    ColumnSums
        Add over blocks.
    """
    step = max(LEAST_ROWS, TILE_ENTRIES // X.shape[1])
    tiles = (slice(lo, lo + step) for lo in range(0, max(1, len(X)), step))
    return reduce(add, (_tile_sums(X[tile], labels[tile], n_clusters, center) for tile in tiles))


def _tile_sums(X: Floats, labels: Integers, n_clusters: int, center: Floats) -> ColumnSums:
    rows = np.flatnonzero(labels >= 0)
    member = csr_array((np.ones(len(rows)), (labels[rows], np.arange(len(rows)))), shape=(n_clusters, len(rows)))
    centred = X[rows] - center
    total = member @ centred
    squares = member @ np.square(centred, out=centred)
    return ColumnSums(np.bincount(labels[rows], minlength=n_clusters), total, squares)


def effects(sums: ColumnSums) -> Floats:
    """Difference between the means of a column in a cluster and in all other rows, in standard deviations [1]_.

    ``(mean of the cluster - mean of the rest) / sqrt((variance of the cluster + variance of the rest) / 2)``.

    Parameters
    ----------
    sums : ColumnSums
        Over all rows.

    Returns
    -------
    effects : ndarray of float64, shape (c, d)
        Infinite if a column is one constant in the cluster and another in the rest, as far as sums of squares can tell
        (above 1e5). 0 for columns that are constant throughout, and for clusters without rows or with all of them.

    References
    ----------
    .. [1] Cohen, "Statistical power analysis for the behavioral sciences", 2nd ed., 1988, section 2.2.
    """
    rest = ColumnSums(*(field.sum(axis=0) - field for field in sums))
    far = sums.mean - rest.mean
    spread = np.sqrt((sums.spread**2 + rest.spread**2) / 2)
    found = np.divide(far, spread, out=np.copysign(np.inf, far), where=spread > 0)
    found[np.abs(found) > LARGEST_EFFECT] *= np.inf
    found[~(np.abs(far) > 0)] = 0.0  # including nan
    return found
