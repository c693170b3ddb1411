"""Distinct rows, up to a number of them, and clusters of few."""

import numpy as np

from bigsmic.numerics.labeling.nearest_means import NearestMeans
from bigsmic.types import Floats, Integers

_TILE_ROWS = 256  # of the first tile, which is enough if most rows differ


class Distinct:
    """Distinct rows, at most `limit` of them, in lexicographic order; adds up over blocks.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    limit : int
        If there are more distinct rows, only their number is known to exceed the limit.
    """

    def __init__(self, X: Floats, limit: int) -> None:
        self.limit = limit
        found: list[np.ndarray] = []
        lo, step = 0, _TILE_ROWS
        while lo < len(X) and len(found) < limit:
            rest = X[lo : lo + step]
            for row in found:
                rest = _others(rest, row)
            while len(rest) and len(found) < limit:
                found.append(rest[0].copy())  # a view would keep all rows of this turn
                rest = _others(rest, rest[0])
            lo, step = lo + step, 2 * step
        rows = np.array(found, np.float32).reshape(-1, X.shape[1]) + np.float32(0)  # -0 becomes 0
        self.rows = rows[np.lexsort(rows.T[::-1])]

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: "Distinct") -> "Distinct":
        """Distinct rows of both."""
        return Distinct(np.concatenate([self.rows, other.rows]), self.limit)


def _others(X: Floats, row: Floats) -> Floats:
    return X[(row != X).any(axis=1)]


def nearest(X: Floats, rows: Floats) -> Integers:
    """Number of the nearest distinct row, which is the equal one if there is one.

    The result for a row does not depend on the other rows.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    rows : ndarray of float32, shape (k, d)
        No two of them equal.

    Returns
    -------
    labels : ndarray of int32, shape (b,)
    """
    labels, least = np.zeros(len(X), np.int32), np.full(len(X), np.inf)
    for k, row in enumerate(rows):
        squares = np.square(X - row, dtype=np.float64).sum(axis=1)
        squares[(row == X).all(axis=1)] = -1  # as rounding can make the distance of unequal rows 0
        labels[squares < least] = k
        least = np.minimum(least, squares)
    return labels


def joined(rows: Floats, counts: Integers, n_clusters: int) -> Integers:
    """Clusters of distinct rows that have copies: those nearest by Ward's criterion are merged; see `NearestMeans`.

    Parameters
    ----------
    rows : ndarray of float32, shape (k, d)
    counts : ndarray of int64, shape (k,)
        Copies of each row.
    n_clusters : int
        At most k.

    Returns
    -------
    clusters : ndarray of int32, shape (k,)
        Cluster of each distinct row, numbered by their first rows.
    """
    n, clusters = counts.astype(np.float64), np.arange(len(rows))
    sums = n[:, np.newaxis] * rows
    nearest_means = NearestMeans(n, sums)
    for _ in range(len(rows) - n_clusters):
        y, z = nearest_means.pair()
        for array in (n, sums):
            array[y] += array[z]
            array[z] = 0
        clusters[clusters == z] = y
        nearest_means.merged(y, z)
    return np.unique(clusters, return_inverse=True)[1].astype(np.int32)
