"""Weights of the graph between groups of rows."""

from typing import Any

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.types import Floats, Integers


def pair_weights(block: KernelBlock, labels: Integers, n_groups: int) -> Floats:
    """Weight between every two groups, over one block of rows.

    Parameters
    ----------
    block : KernelBlock
        Rows of W, the kernel before normalisation.
    labels : ndarray of int, shape (b + h,)
        Groups of the block's own rows and then of its halo.
    n_groups : int

    Returns
    -------
    weights : ndarray of float64, shape (m, m)
        ``sum of W_ij`` over rows i of one group and j of the other; add over blocks. Row sums are the degree sums.
    """
    weights = np.zeros((n_groups, n_groups))
    _add_pairs(block.indptr, block.indices, block.data, frozen(labels, np.int32), weights)
    return weights


@compiled
def _add_pairs(indptr: Integers, indices: Integers, data: Floats, labels: Any, weights: Floats) -> None:
    for i in range(len(indptr) - 1):
        for entry in range(indptr[i], indptr[i + 1]):
            weights[labels[i], labels[indices[entry]]] += data[entry]
