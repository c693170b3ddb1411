"""Rows that their neighbours outvote: most of the weight of the kernel leads from them to another cluster."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.row_blocks import tiles
from bigsmic.types import Floats, Integers

MAJORITY = 0.6
"""Share of the weight of a row above which the cluster of its neighbours is its own."""
TILE_ROWS = 4096
"""Rows whose weights by cluster are summed at a time."""


def in_graph(kernel: KernelBlock, labels: Integers, n_clusters: int) -> NDArray[np.int32]:
    """Labels of the rows of one block after a vote of their neighbours in the graph.

    Parameters
    ----------
    kernel : KernelBlock
        Weights before normalisation.
    labels : ndarray of int, shape (b + h,)
        Of the rows of the block, and of those around it.
    n_clusters : int

    Returns
    -------
    labels : ndarray of int32, shape (b,)
        See :func:`after_vote`.
    """
    found = labels[: kernel.hi - kernel.lo].astype(np.int32)
    for rows in tiles(len(found), TILE_ROWS):
        entries = slice(kernel.indptr[rows.start], kernel.indptr[rows.stop])
        of_row = np.repeat(np.arange(rows.stop - rows.start), np.diff(kernel.indptr[rows.start : rows.stop + 1]))
        votes = labels[kernel.indices[entries]]
        found[rows] = after_vote(found[rows], of_row, votes, kernel.data[entries], n_clusters)
    return found


def after_vote(
    labels: Integers, of_row: Integers, votes: Integers, weights: Floats, n_clusters: int
) -> NDArray[np.int32]:
    """Labels of rows after a vote of their neighbours.

    With ``w_iy`` the sum of the weights of row i with its neighbours in cluster y, the label is the y whose ``w_iy`` is
    more than :data:`MAJORITY` of their sum, and that which the row had if there is none.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
    of_row : ndarray of int, shape (m,)
        Row that each neighbour votes for.
    votes : ndarray of int, shape (m,)
        Cluster of each neighbour.
    weights : ndarray of float, shape (m,)
    n_clusters : int

    Returns
    -------
    labels : ndarray of int32, shape (b,)
    """
    shape = len(labels), n_clusters
    sums: NDArray[Any] = np.bincount(of_row * n_clusters + votes, weights, minlength=shape[0] * shape[1]).reshape(shape)
    have_majority = sums.max(axis=1) > MAJORITY * sums.sum(axis=1)
    return np.where(have_majority, sums.argmax(axis=1), labels).astype(np.int32)
