"""Rows that a partition has cut off from the cluster that they belong to."""

import numpy as np

from bigsmic.types import Floats, Integers


def rows_cut_off(counts: Floats, halves: Integers) -> float:
    """Rows of all clusters that are the smaller half of a cluster, with some other one.

    Parameters
    ----------
    counts : ndarray of float64, shape (c,)
        Rows of each cluster; of two with as many, the one of larger number is the smaller one.
    halves : ndarray of int, shape (p, 2)
        Pairs of clusters that are halves of one.

    Returns
    -------
    n_rows : float
        The sum over clusters. A chain of halves is not taken for one cluster: a small one may lie between two others.
    """
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    first, second = halves.T
    smaller = np.where(rank[first] > rank[second], first, second)
    return float(counts[np.unique(smaller)].sum())
