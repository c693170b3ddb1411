"""Coarsening of a graph: every row joins one of some chosen rows, and affinities are added up.

Chosen rows own themselves. A row without owner takes that of the neighbour to which its affinity is largest, in rounds
from the chosen rows outwards. The affinity of two chosen rows is the sum of those between the rows that they own. If
all rows are chosen, the graph is unchanged.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.types import Floats, Integers


def adopted(block: KernelBlock, owners: Integers) -> Integers:
    """Owners of the rows of one block after one round.

    Parameters
    ----------
    block : KernelBlock
    owners : ndarray of int32, shape (b + h,)
        Of the block's own rows, then of its halo; negative for none.

    Returns
    -------
    owners : ndarray of int32, shape (b,)
        Still negative if no neighbour has an owner; the first among equal affinities.
    """
    own = owners[: block.hi - block.lo].copy()
    _adopt(block.indptr, block.indices, block.data, owners, own)
    return own


@compiled
def _adopt(indptr: Integers, indices: Integers, data: Floats, owners: Integers, own: Integers) -> None:
    """Write to ``own[i]``, where negative, the owner of the neighbour of row i with the largest affinity.

    `indptr` (b + 1,), `indices` and `data` (entries,), `owners` (b + h,), `own` (b,).
    """
    for i in range(len(own)):
        if own[i] >= 0:
            continue
        largest = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            if owners[indices[e]] >= 0 and data[e] > largest:
                largest = data[e]
                own[i] = owners[indices[e]]


def owner_affinities(block: KernelBlock, owners: Integers, n_owners: int) -> csr_array:
    """Affinities between owners, over the rows of one block.

    Parameters
    ----------
    block : KernelBlock
    owners : ndarray of int32, shape (b + h,)
        As in :func:`adopted`; rows without owner are ignored.
    n_owners : int
        m.

    Returns
    -------
    affinities : csr_array of float64, shape (m, m)
        Without a diagonal; add over blocks.
    """
    row = np.repeat(owners[: block.hi - block.lo], np.diff(block.indptr))
    column = owners[block.indices]
    kept = (row >= 0) & (column >= 0) & (row != column)
    data = block.data[kept].astype(np.float64)
    return coo_array((data, (row[kept], column[kept])), shape=(n_owners, n_owners)).tocsr()


def strongest(affinities: csr_array, most: int) -> csr_array:
    """Keep the largest entries of every row.

    Parameters
    ----------
    affinities : csr_array, shape (m, m)
    most : int
        Entries of a row that are kept; among equal ones those of smaller columns.

    Returns
    -------
    affinities : csr_array, shape (m, m)
    """
    heights = np.diff(affinities.indptr)
    if heights.max(initial=0) <= most:
        return affinities
    row = np.repeat(np.arange(len(heights)), heights)
    order = np.lexsort((affinities.indices, -affinities.data, row))
    place = np.arange(len(order)) - affinities.indptr[row]
    kept = np.sort(order[place < most])
    indptr = np.append(0, np.cumsum(np.minimum(heights, most)))
    return csr_array((affinities.data[kept], affinities.indices[kept], indptr), shape=affinities.shape)


def transition_shares(affinities: csr_array, n_first: int, n_shares: int) -> csr_array:
    """Joint probabilities for t-SNE [1]_ from affinities: transition probabilities of one and two steps, symmetrised.

    ``S = D^-1 A``, ``T = (S + S S) / 2`` without its diagonal, rows rescaled to sum 1, ``P = (T + T') / 2m``. One step
    alone reaches so few rows that evenly spread rows would form many small fragments in the map.

    Parameters
    ----------
    affinities : csr_array, shape (m, m)
        Need not be symmetric, as entries may have been left out.
    n_first, n_shares : int
        Numbers of largest entries that are kept in a row of S and of T.

    Returns
    -------
    shares : csr_array of float64, shape (m, m)
        Symmetric; the sum is 1, or less by the share of rows without an entry.

    References
    ----------
    .. [1] van der Maaten, Hinton, "Visualizing data using t-SNE", JMLR 9 (2008), section 2.
    """
    S = _steps(strongest(affinities, n_first))
    T = csr_array(S + S @ S)
    T.setdiag(0)
    T.eliminate_zeros()
    T.sort_indices()
    T = _steps(strongest(T, n_shares))
    return csr_array((T + T.T) / (2 * len(T.indptr[1:])))


def _steps(affinities: csr_array) -> csr_array:
    """Rows divided by their sums: ``D^-1 A``."""
    total = np.asarray(affinities.sum(axis=1)).ravel()
    steps = affinities.astype(np.float64)
    steps.data /= np.repeat(np.where(total > 0, total, 1), np.diff(affinities.indptr))
    return steps
