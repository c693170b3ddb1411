"""Affinities between some rows of a finished fit, from the graph of all rows; see the numerics of coarsening."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from bigsmic.numerics.graph import coarsening
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.runtime.context import Context
from bigsmic.stages import kernel_matrix
from bigsmic.stages.labeling_specs import Eigenproblem
from bigsmic.stages.row_access import positions_of
from bigsmic.types import Integers

MOST_ENTRIES = 256
"""Largest number of entries of a row while affinities are added up."""


def coarse_affinities(context: Context, eigenproblem: Eigenproblem, rows: Integers) -> csr_array:
    """Affinities between chosen rows, summed over the rows that they own.

    Parameters
    ----------
    context : Context
    eigenproblem : Eigenproblem
        Its weights are the affinities.
    rows : ndarray of int64, shape (m,), ascending

    Returns
    -------
    affinities : csr_array of float64, shape (m, m)
        In the order of `rows`.

    Notes
    -----
    Every round of adoption is a pass over the blocks of the graph with rows left, and there is one final pass. Memory:
    4 bytes for each row of the fit, a block of the graph, and :data:`MOST_ENTRIES` entries of each chosen row; beyond
    these, the smallest entries are dropped as blocks are added.
    """
    load = partial(kernel_matrix.weights_block, context, eigenproblem)
    owners = np.full(context.n, -1, np.int32)
    owners[positions_of(context, rows)] = np.arange(len(rows))
    while _adopt(context, load, owners):
        pass
    total = csr_array((len(rows), len(rows)))
    for p in context.blocks:
        block = load(p)
        total = total + coarsening.owner_affinities(block, _around(block, owners), len(rows))
        total = coarsening.strongest(total, MOST_ENTRIES)
    return total


def _adopt(context: Context, load: Callable[[int], KernelBlock], owners: Integers) -> bool:
    """Let rows without owner adopt one, in place; return whether any did."""
    found, bounds = {}, context.layout.bounds
    for p in context.blocks:
        own = owners[bounds[p] : bounds[p + 1]]
        if (own < 0).any():
            block = load(p)
            adopted = coarsening.adopted(block, _around(block, owners))
            at = np.flatnonzero((own < 0) & (adopted >= 0))
            found[p] = bounds[p] + at, adopted[at]
    for at, adopted in found.values():  # after all blocks, so that a round does not depend on the cut into blocks
        owners[at] = adopted
    return any(len(at) for at, _ in found.values())


def _around(block: KernelBlock, owners: Integers) -> Integers:
    """Owners of the rows of a block, then of its halo."""
    return np.concatenate([owners[block.lo : block.hi], owners[block.halo]])
