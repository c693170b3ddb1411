"""Clusters of one labeling that continue those of another: pairs, splits and merges from tables of counts.

Two tables count rows by both labels: `stayed` counts the rows of the earlier labeling, `came` those of the later one.
They are the same table if both labelings have the same rows.
"""

import numpy as np

from bigsmic.types import Floats, Integers

LEAST_OVERLAP = 0.5
"""Least overlap at which a cluster continues another one."""
MOST = 0.5
"""Least share of its rows at which a cluster lies in another one."""
NOTICED = 0.05
"""Least share of its rows at which a part of a cluster is reported."""


def overlap(stayed: Integers, came: Integers) -> Floats:
    """Overlap of two clusters: harmonic mean of the shares of their rows that are in the other one.

    If both tables are the same, ``2 T[i, j] / (rows of i + rows of j)``, the Dice index.

    Parameters
    ----------
    stayed, came : ndarray of int, shape (a, b)

    Returns
    -------
    overlap : ndarray of float64, shape (a, b), in [0, 1]
        0 for clusters without rows.
    """
    left, right = _shares(stayed, 1), _shares(came, 0)
    return np.divide(2 * left * right, left + right, out=np.zeros(left.shape), where=left * right > 0)


def continued(stayed: Integers, came: Integers, least: float = LEAST_OVERLAP) -> Integers:
    """The earlier cluster that each later one continues: the assignment of largest sum of overlaps.

    Parameters
    ----------
    stayed, came : ndarray of int, shape (a, b)
    least : float
        Pairs of smaller overlap are not matched.

    Returns
    -------
    earlier : ndarray of int64, shape (b,)
        -1 for a new cluster.
    """
    from scipy.optimize import linear_sum_assignment

    found = overlap(stayed, came)
    weights = np.where(found >= least, found, 0.0)
    pairs = [(i, j) for i, j in zip(*linear_sum_assignment(weights, maximize=True), strict=True) if weights[i, j] > 0]
    earlier = np.full(weights.shape[1], -1, np.int64)
    for i, j in pairs:
        earlier[j] = i
    return earlier


def splits(stayed: Integers, came: Integers) -> dict[int, list[int]]:
    """Earlier clusters that were split into several clusters, which consist mostly of their rows: dict of lists."""
    parts = (_shares(stayed, 1) >= NOTICED) & (_shares(came, 0) >= MOST)
    return {i: np.flatnonzero(row).tolist() for i, row in enumerate(parts) if row.sum() > 1}


def merges(stayed: Integers, came: Integers) -> dict[int, list[int]]:
    """Later clusters that contain most of the rows of several earlier ones: dict of int to list of int."""
    return splits(came.T, stayed.T)


def numbered(earlier: Integers, first_free: int) -> Integers:
    """Numbers of the later clusters: those of the clusters that they continue, or new ones from `first_free` on.

    Parameters
    ----------
    earlier : ndarray of int64, shape (b,)
        From :func:`continued`.
    first_free : int

    Returns
    -------
    numbers : ndarray of int64, shape (b,)
    """
    is_new = earlier < 0
    return np.where(is_new, first_free - 1 + np.cumsum(is_new), earlier)


def _shares(table: Integers, axis: int) -> Floats:
    """Shares of the rows of every cluster; 0 for one without rows."""
    total = table.sum(axis=axis, keepdims=True)
    return np.divide(table, total, out=np.zeros(table.shape), where=total > 0)
