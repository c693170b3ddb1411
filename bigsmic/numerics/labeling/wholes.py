"""Rows that lie in the wrong one of several clusters, if some pairs of clusters are parts of one whole."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bigsmic.types import Integers


def rows_split(counts: Integers, pairs: Integers) -> int:
    """Rows outside the largest part of their whole.

    Parameters
    ----------
    counts : ndarray of int64, shape (c,)
        Rows of each cluster.
    pairs : ndarray of int, shape (p, 2)
        Clusters that are parts of one whole, as are those that a chain of pairs joins.

    Returns
    -------
    n_rows : int
    """
    return int(counts.sum() - _of_wholes(counts[:, None], pairs, np.maximum).sum())


def rows_lumped(shared: Integers, pairs: Integers) -> int:
    """Rows that another partition has in one cluster with more rows of another whole.

    Parameters
    ----------
    shared : ndarray of int64, shape (c, k)
        Rows of each cluster that the other partition has in each of its own.
    pairs : ndarray of int, shape (p, 2)
        As for :func:`rows_split`.

    Returns
    -------
    n_rows : int
    """
    return int(shared.sum() - _of_wholes(shared, pairs, np.add).max(axis=0).sum())


def _of_wholes(values: Integers, pairs: Integers, ufunc: np.ufunc) -> Integers:
    """Sums, or largest values, over the parts of each whole: int64, shape (wholes, k)."""
    c = len(values)
    tied = coo_array((np.ones(len(pairs), np.int8), tuple(pairs.T)), shape=(c, c))
    n_wholes, whole = connected_components(tied, directed=False)
    found = np.zeros((n_wholes, values.shape[1]), np.int64)
    ufunc.at(found, whole, values)
    return found
