"""Distinct rows, up to a number of them, and clusters of few."""

import numpy as np

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
                found.append(rest[0])
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
    """Clusters of distinct rows that have many copies, by Ward's criterion [1]_.

    The two clusters of least ``n_y n_z / (n_y + n_z) |m_y - m_z|^2`` are joined, with n their rows, copies included,
    and m their means, until `n_clusters` are left.

    Parameters
    ----------
    rows : ndarray of float32, shape (k, d)
    counts : ndarray of int64, shape (k,)
        Copies of each row.
    n_clusters : int

    Returns
    -------
    clusters : ndarray of int32, shape (k,)
        Cluster of each distinct row, numbered by their first rows.

    References
    ----------
    .. [1] Ward, "Hierarchical grouping to optimize an objective function", J. American Statistical Association 58,
       1963. doi:10.1080/01621459.1963.10500845
    """
    means, weights, clusters = rows.astype(np.float64), counts.astype(np.float64), np.arange(len(rows))
    left = list(range(len(rows)))
    while len(left) > n_clusters:
        y, z = (np.array(left)[i] for i in np.triu_indices(len(left), 1))
        squares = np.square(means[y] - means[z]).sum(axis=1)
        least = np.argmin(weights[y] * weights[z] / (weights[y] + weights[z]) * squares)
        kept, gone = y[least], z[least]
        means[kept] = np.average(means[[kept, gone]], axis=0, weights=weights[[kept, gone]])
        weights[kept] += weights[gone]
        clusters[clusters == gone] = kept
        left.remove(gone)
    return np.searchsorted(left, clusters).astype(np.int32)
