"""Label propagation between votes, neighbours and links, and predictions for linked rows by their neighbours.

That a labeling satisfies the links says little about its quality, as it was computed with them. A linked row is
therefore also labelled by its neighbours without links, which no link has influenced; the links that these labels
violate compare labelings. The consensus of the best labelings may violate links again; its rows then move to the labels
that votes, neighbours and links together favour.

Functions take one block of rows.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.constraints.links import Links, link_entries, places, without_links
from bigsmic.numerics.graph import added_edges, affinity
from bigsmic.numerics.graph.affinity import KernelBlock, column_positions
from bigsmic.types import Floats, Integers

UNKNOWN = -1
"""Label of a row without a labelled neighbour."""


def free_neighbours(block: KernelBlock, links: Links) -> tuple[csr_array, Integers]:
    """Weights between the linked rows of one block and rows without links.

    Parameters
    ----------
    block : bigsmic.numerics.graph.affinity.KernelBlock
    links : bigsmic.numerics.constraints.links.Links
        Numbered like the rows of the kernel.

    Returns
    -------
    weights : csr_array, shape (l, m)
        For the l linked rows of the block, ascending.
    positions : ndarray of int64, shape (m,), ascending
        Their neighbours without links.
    """
    place, height = places(block, links), block.hi - block.lo
    columns = column_positions(block)
    entries = (block.data, block.indices, block.indptr)
    whole = csr_array(entries, shape=(height, len(columns)))[np.flatnonzero(place[:height] >= 0)]
    touched = np.unique(whole.indices)
    touched = touched[place[touched] < 0]
    touched = touched[np.argsort(columns[touched])]
    return csr_array(whole[:, touched]), columns[touched].astype(np.int64)


def predicted(weights: csr_array, labels: Integers, n_clusters: int) -> Integers:
    """Label of the largest weight among the neighbours without links.

    Parameters
    ----------
    weights : csr_array, shape (l, m)
        From :func:`free_neighbours`.
    labels : ndarray of int, shape (m,)
        Of the rows without links.
    n_clusters : int

    Returns
    -------
    labels : ndarray of int64, shape (l,)
        The smallest among equals; :data:`UNKNOWN` for rows without such neighbours.
    """
    of_label = csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)), shape=(len(labels), n_clusters))
    found = (weights.astype(np.float64) @ of_label).toarray()
    return np.where(found.any(axis=1), found.argmax(axis=1), UNKNOWN)


def pull(block: KernelBlock, links: Links) -> KernelBlock:
    """Weights of other rows' labels in propagation, for one block: ``D^-1 W + M - C``, without the part of groups.

    Parameters
    ----------
    block : bigsmic.numerics.graph.affinity.KernelBlock
        Rows of the kernel, with or without links.
    links : bigsmic.numerics.constraints.links.Links
        Numbered like the rows of the kernel.

    Returns
    -------
    block : bigsmic.numerics.graph.affinity.KernelBlock
        W without linked pairs, its row sums D, must-links 1 and cannot-links -1.
    """
    plain = without_links(block, links)
    degree = affinity.degree(plain)
    share = np.repeat(1 / np.where(degree > 0, degree, 1), np.diff(plain.indptr))
    found = plain._replace(data=(share * plain.data).astype(np.float32))
    for pairs, sign in ((links.must, 1), (links.cannot, -1)):
        source, target, weights = link_entries(plain.lo, plain.hi, links, pairs)
        found = added_edges.with_edges(found, source, target, sign * weights)
    return found


def group_pull(counts: Floats, links: Links) -> Floats:
    """Weights of each label in propagation for the rows of each group.

    Parameters
    ----------
    counts : ndarray of float64, shape (n_groups, c)
        Rows of each group with each label.
    links : bigsmic.numerics.constraints.links.Links

    Returns
    -------
    pull : ndarray of float64, shape (n_groups, c)
        Rows of the same group minus those of groups apart. A row is in its own group, and must not be counted for
        itself.
    """
    found = counts.copy()
    for first, second in (links.apart.T, links.apart.T[::-1]):
        np.subtract.at(found, first, counts[second])
    return found


def propagate(
    block: KernelBlock, labels: Integers, ballots: Integers, group: Integers, pulls: Floats, movable: NDArray[np.bool_]
) -> Integers:
    """Move each movable row of one block to its label of largest total weight, all at once.

    Row i goes to ``argmax_y [ v_iy + sum_j W_ij [l_j = y] / d_i + m_iy - q_iy ]``: the share of the labelings of the
    consensus that vote for y, the share of its neighbours, and the numbers of rows with label y that it is must-linked
    and cannot-linked with.

    Parameters
    ----------
    block : bigsmic.numerics.graph.affinity.KernelBlock
        From :func:`pull`.
    labels : ndarray of int32, shape (b + h,)
        Labels before the sweep, of the block's own rows and then of its halo.
    ballots : ndarray of int, shape (b, B)
        Label that each labeling votes for, -1 for none.
    group : ndarray of int64, shape (b,)
        -1 for rows in no group.
    pulls : ndarray of float64, shape (n_groups, c)
        From :func:`group_pull`.
    movable : ndarray of bool, shape (b,)

    Returns
    -------
    labels : ndarray of int32, shape (b,)
        A row stays unless another label is strictly better; the smallest label among equals.
    """
    moved = labels[: block.hi - block.lo].astype(np.int32)
    _propagate(block[3:], np.asarray(labels, np.int32), (ballots, group, pulls), np.flatnonzero(movable), moved)
    return moved


@compiled
def _propagate(
    csr: tuple[Integers, Integers, Floats],
    labels: Integers,
    heard: tuple[Integers, Integers, Floats],
    rows: Integers,
    moved: Integers,
) -> None:
    """Write to ``moved[i]``, i of `rows`, the label of largest gain, if it is larger than that of ``labels[i]``.

    `csr` is ``indptr (b + 1,), indices, data (entries,)``, `labels` (b + h,), and `heard` is ``ballots (b, B),
    group (b,), pulls (n_groups, c)``; see :func:`propagate`.
    """
    indptr, indices, data = csr
    ballots, group, pulls = heard
    vote = 1.0 / ballots.shape[1]
    gains = np.empty(pulls.shape[1])
    for i in rows:
        own = labels[i]
        gains[:] = 0.0
        if group[i] >= 0:
            gains += pulls[group[i]]
            gains[own] -= 1.0
        for y in ballots[i]:
            if y >= 0:
                gains[y] += vote
        for entry in range(indptr[i], indptr[i + 1]):
            gains[labels[indices[entry]]] += data[entry]
        best = np.argmax(gains)
        if gains[best] > gains[own]:
            moved[i] = best
