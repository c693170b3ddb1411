"""Must-links and cannot-links between rows, and the operator that combines them with a kernel.

M holds the must-links (unit diagonal), C the cannot-links (zero diagonal), K' the kernel with a 1 at every must-link,
a 0 at every cannot-link and a unit diagonal. The clustering maximises an information, and the maximiser follows from
the top eigenvectors of [1]_

    U = K' (2 I + 2 gamma M + gamma^2 M^2 - 2 eta C + eta^2 C^2) K' = K' ((I + gamma M)^2 + (I - eta C)^2) K'

U is never formed. As few rows have links, ``(I + gamma M)^2 + (I - eta C)^2`` is a multiple of the identity except for
a small matrix on these rows. Groups of rows that belong together, such as rows of one known label, enter as indicators,
``M = .. + G G'`` and ``C = .. + G A G'``, and never as pairs.

References
----------
.. [1] Calandriello, Niu, Sugiyama, "Semi-supervised information-maximization clustering", Neural Networks 57, 2014.
   doi:10.1016/j.neunet.2014.05.016
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bigsmic.errors import InputError
from bigsmic.numerics.constraints.consistency import Quotient, ascending, distinct
from bigsmic.numerics.graph.added_edges import with_edges
from bigsmic.numerics.graph.affinity import KernelBlock, column_positions
from bigsmic.types import Floats, Integers

UNLABELLED = -1
SHOWN = 3  # invalid pairs that an error lists

NO_PAIRS = np.zeros((0, 2), np.int64)


@dataclass(frozen=True, eq=False)
class Links:
    """Validated links between rows: distinct, and without contradiction. Made by :func:`make_links`.

    Pairs and groups number the rows that have links, ``0 .. T - 1``, in the order of `rows`.

    Parameters
    ----------
    n_rows : int
        Rows of the data.
    rows : ndarray of int64, shape (T,), ascending
        The rows that have links.
    must, cannot : ndarray of int64, shape (m, 2) and (q, 2)
        Each pair once, smaller end first, in ascending order.
    group : ndarray of int64, shape (T,)
        Rows of one group are must-linked with each other; -1 for rows in no group.
    apart : ndarray of int64, shape (a, 2)
        Pairs of groups whose rows are cannot-linked; smaller first, each pair once.
    """

    n_rows: int
    rows: np.ndarray
    must: np.ndarray
    cannot: np.ndarray
    group: np.ndarray
    apart: np.ndarray

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.group.max(initial=-1)) + 1

    @property
    def sizes(self) -> Integers:
        """Rows of each group, int64, shape (n_groups,)."""
        return np.bincount(self.group[self.group >= 0], minlength=self.n_groups)

    @property
    def n_links(self) -> int:
        """Number of linked pairs, each counted once: those given and those that groups imply."""
        sizes = self.sizes
        within = int((sizes * (sizes - 1) // 2).sum())
        between = int((sizes[self.apart[:, 0]] * sizes[self.apart[:, 1]]).sum())
        return within + between + int((~self.grouped(self.must)).sum() + (~self.grouped(self.cannot)).sum())

    def grouped(self, pairs: Integers) -> NDArray[np.bool_]:
        """Whether groups imply each pair; bool, shape (len(pairs),)."""
        first, second = self.group[pairs[:, 0]], self.group[pairs[:, 1]]
        low, high = np.minimum(first, second), np.maximum(first, second)
        both = low >= 0
        return both & ((low == high) | (_index_in(self._apart_keys, low * self.n_groups + high) >= 0))

    @property
    def _apart_keys(self) -> Integers:
        return np.sort(self.apart[:, 0] * self.n_groups + self.apart[:, 1])

    def among(self, chosen: Any) -> "Links":
        """The links between some of the linked rows.

        Parameters
        ----------
        chosen : ndarray of bool, shape (T,)

        Returns
        -------
        links : Links
            Between the chosen rows, including those left without any link.
        """
        number = np.cumsum(chosen) - 1
        must, cannot = (number[pairs[chosen[pairs].all(axis=1)]] for pairs in (self.must, self.cannot))
        members = chosen & (self.group >= 0)
        left, number_of_group = np.unique(self.group[members], return_inverse=True)
        group = np.full(len(self.rows), UNLABELLED, np.int64)
        group[members] = number_of_group
        apart = np.searchsorted(left, self.apart[np.isin(self.apart, left).all(axis=1)])
        return Links(self.n_rows, self.rows[chosen], must, cannot, group[chosen], apart)

    def reordered(self, positions: Integers) -> "Links":
        """The same links with rows renumbered.

        Parameters
        ----------
        positions : ndarray of int64, shape (T,)
            New number of each row of `rows`.

        Returns
        -------
        links : Links
        """
        order = np.argsort(positions, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return replace(
            self,
            rows=np.asarray(positions, np.int64)[order],
            must=distinct(place[self.must]),
            cannot=distinct(place[self.cannot]),
            group=self.group[order],
        )


def make_links(
    n_rows: int,
    n_clusters: int | range | None,
    *,
    must: Any = None,
    cannot: Any = None,
    labels: Any = None,
    close: bool = False,
) -> Links:
    """Check links, and turn known labels into groups.

    Parameters
    ----------
    n_rows : int
    n_clusters : int, range or None
        A range if any number of clusters in it is allowed, None if any at all is.
    must, cannot : array_like of int, shape (m, 2), optional
        Pairs of row numbers. A pair that is given several times, either way round, counts once.
    labels : array_like of int, shape (n_rows,), optional
        Known labels, -1 where there is none. They determine which rows belong together and which do not, but not the
        numbers of the clusters.
    close : bool
        Add the implied links. Rows that a chain of must-links connects are must-linked with each other, and
        cannot-linked with every row connected to one with which any of them has a cannot-link. For two clusters, rows
        that are both cannot-linked with a third are must-linked.

    Returns
    -------
    links : Links

    Raises
    ------
    InputError
        Links are not pairs of integers, are out of range, or link a row with itself; a cannot-link is between rows that
        a chain of must-links and equal labels connects; links join the rows to fewer groups than clusters; or it is
        found that no labeling with `n_clusters` clusters satisfies all links. The message names the rows.

    Notes
    -----
    Whether some labeling satisfies all links is a question of graph coloring. It is decided exactly for two clusters,
    and for more if removing rows with fewer than `n_clusters` links one after the other leaves nothing. Otherwise a
    coloring is searched for; if the search has not ended after
    :data:`~bigsmic.numerics.constraints.consistency.COLORING_STEPS` steps, the links are accepted.
    """
    must = _checked_pairs("must_links", must, n_rows)
    cannot = _checked_pairs("cannot_links", cannot, n_rows)
    labelled, group_of_labelled = _checked_labels(labels, n_rows)
    rows = ascending(np.concatenate([must.ravel(), cannot.ravel(), labelled]))
    group = np.full(len(rows), UNLABELLED, np.int64)
    group[np.searchsorted(rows, labelled)] = group_of_labelled
    apart = np.stack(np.triu_indices(int(group.max(initial=-1)) + 1, 1), axis=1)
    links = Links(n_rows, rows, np.searchsorted(rows, must), np.searchsorted(rows, cannot), group, apart)
    quotient = Quotient.of(links)
    quotient.refuse_contradictions()
    least, most = (n_clusters[0], n_clusters[-1]) if isinstance(n_clusters, range) else (n_clusters, n_clusters)
    if least is not None and most is not None:
        quotient.refuse_too_few_groups(least)
        quotient.refuse_infeasible(most)
    return quotient.closed(most) if close else links


def _checked_pairs(name: str, pairs: Any, n_rows: int) -> Integers:
    """Distinct pairs, smaller end first, ascending."""
    if pairs is None:
        return NO_PAIRS
    pairs = np.asarray(pairs)
    if pairs.size == 0 and pairs.ndim <= 2:
        return NO_PAIRS
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"{name}: got {pairs.dtype} of shape {pairs.shape}, but needs integers of shape (m, 2); give one pair "
            "of row numbers for each link"
        )
    outside = ((pairs < 0) | (pairs >= n_rows)).any(axis=1)
    if outside.any():
        raise InputError(
            f"{name}: {_shown(pairs, outside)} out of range for {n_rows} rows; rows are numbered 0 to {n_rows - 1}"
        )
    selves = pairs[:, 0] == pairs[:, 1]
    if selves.any():
        raise InputError(f"{name}: {_shown(pairs, selves)} link a row with itself; leave such pairs out")
    return distinct(pairs.astype(np.int64))


def _checked_labels(labels: Any, n_rows: int) -> tuple[Integers, Integers]:
    """Rows that have a label, ascending, and the number of each one's group."""
    if labels is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    labels = np.asarray(labels)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise InputError(
            f"labels: got {labels.dtype} of shape {labels.shape}, but needs integers of shape ({n_rows},); give -1 to "
            "rows whose label is unknown"
        )
    if labels.min(initial=0) < UNLABELLED:
        raise InputError(f"labels: got {labels.min()}; a label is at least 0, and -1 marks a row without a known one")
    labelled = np.flatnonzero(labels != UNLABELLED)
    return labelled, np.unique(labels[labelled], return_inverse=True)[1].astype(np.int64)


def _shown(pairs: NDArray[Any], bad: NDArray[np.bool_]) -> str:
    """The first invalid pairs and their number, as text."""
    first = ", ".join(f"({i}, {j})" for i, j in pairs[bad][:SHOWN].tolist())
    count = int(bad.sum())
    return f"pair {first}" if count == 1 else f"{count} pairs, such as {first},"


def _index_in(known: Integers, values: Integers) -> Integers:
    """Index of each value in the ascending array `known`, -1 if it does not occur; int64, shape of `values`."""
    if len(known) == 0:
        return np.full(values.shape, -1)
    at = np.searchsorted(known, values).clip(max=len(known) - 1)
    return np.where(known[at] == values, at, -1)


# -- products


class LinkAlgebra:
    """Products with M and C on linked rows; on all other rows M is the identity, and C is zero.

    Parameters
    ----------
    links : Links

    Notes
    -----
    Time and memory grow with the number of given pairs and of rows in groups, times the columns of the operand, but not
    with the pairs that groups imply.
    """

    def __init__(self, links: Links) -> None:
        n_linked, members = len(links.rows), np.flatnonzero(links.group >= 0)
        self.links = links
        self._must = _symmetric(links.must[~links.grouped(links.must)], n_linked)
        self._cannot = _symmetric(links.cannot[~links.grouped(links.cannot)], n_linked)
        self._apart = _symmetric(links.apart, links.n_groups)
        ones, shape = np.ones(len(members)), (n_linked, links.n_groups)
        self._groups = csr_array((ones, (members, links.group[members])), shape=shape)
        self._is_member = (links.group >= 0).astype(np.float64)[:, None]

    def tied(self, W: Floats) -> Floats:
        """``(M - I) W`` on linked rows: for each row, the sum over the rows must-linked with it.

        Parameters
        ----------
        W : ndarray of float64, shape (T, b)

        Returns
        -------
        product : ndarray of float64, shape (T, b)
        """
        return self._must @ W + self.within_groups(W)

    def barred(self, W: Floats) -> Floats:
        """``C W`` on linked rows; shapes as in :meth:`tied`."""
        return self._cannot @ W + self._groups @ (self._apart @ (self._groups.T @ W))

    def within_groups(self, W: Floats) -> Floats:
        """``(G G' - diag) W``: the part of :meth:`tied` that comes from groups."""
        return self._groups @ (self._groups.T @ W) - self._is_member * W

    def middle(self, W: Floats, link_weights: "LinkWeights") -> Floats:
        """``((I + gamma M)^2 + (I - eta C)^2) W`` on linked rows, which needs no other rows.

        Parameters
        ----------
        W : ndarray of float64, shape (T, b)
        link_weights : LinkWeights

        Returns
        -------
        product : ndarray of float64, shape (T, b)
        """
        gamma, eta = link_weights
        nearer, apart = W, W
        for _ in range(2):
            nearer = (1 + gamma) * nearer + gamma * self.tied(nearer)
            apart = apart - eta * self.barred(apart)
        return nearer + apart


class LinkWeights(NamedTuple):
    """Strengths of must-links and cannot-links.

    Parameters
    ----------
    gamma, eta : float
        Weights of must-links and of cannot-links, at least 0. With more than two clusters eta is 0, as two rows that
        are both cannot-linked with a third need not belong together then.
    """

    gamma: float = 0.0
    eta: float = 0.0

    @property
    def elsewhere(self) -> float:
        """``(1 + gamma)^2 + 1``: the factor of :meth:`LinkAlgebra.middle` on rows without links."""
        return (1 + self.gamma) ** 2 + 1


def _symmetric(pairs: Integers, n: int) -> csr_array:
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n))


# -- the kernel with links


def linked_block(block: KernelBlock, links: Links) -> KernelBlock:
    """The sparse part of one row block of K': without diagonal, and without the pairs that groups imply.

    Must-links are 1, cannot-links 0. Pairs within a group are 1 in K', and are added by
    :meth:`LinkAlgebra.within_groups`.

    Parameters
    ----------
    block : KernelBlock
        Zero diagonal.
    links : Links
        Numbered like the rows of the kernel.

    Returns
    -------
    linked : KernelBlock
    """
    return with_edges(without_links(block, links), *link_entries(block.lo, block.hi, links, links.must))


def without_links(block: KernelBlock, links: Links) -> KernelBlock:
    """One row block of a kernel without the entries of linked pairs; arguments as in :func:`linked_block`."""
    place = places(block, links)
    rows = np.repeat(np.arange(block.hi - block.lo), np.diff(block.indptr))
    ends = np.stack([place[rows], place[block.indices]], axis=1)
    both = np.flatnonzero((ends >= 0).all(axis=1))
    kept = np.ones(len(rows), bool)
    kept[both] = ~_is_linked(ends[both], links)
    indptr = np.concatenate([[0], np.cumsum(kept)])[block.indptr]
    return block._replace(indptr=indptr, indices=block.indices[kept], data=block.data[kept])


def places(block: KernelBlock, links: Links) -> Integers:
    """Number among the linked rows of each column of a block, -1 for rows without links; int64, shape (b + h,)."""
    return _index_in(links.rows, column_positions(block))


def _is_linked(pairs: Integers, links: Links) -> NDArray[np.bool_]:
    """Whether pairs of linked rows have a link with each other."""
    T = len(links.rows)
    given = np.sort(np.concatenate([pair[:, 0] * T + pair[:, 1] for pair in (links.must, links.cannot)]))
    low, high = np.sort(pairs, axis=1).T
    return links.grouped(pairs) | (_index_in(given, low * T + high) >= 0)


def link_entries(lo: int, hi: int, links: Links, pairs: Integers) -> tuple[Integers, Integers, Floats]:
    """Given pairs from rows ``lo:hi``, without those that groups imply: sources ascending, targets, weights of 1."""
    pairs = links.rows[pairs[~links.grouped(pairs)]]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[(both[:, 0] >= lo) & (both[:, 0] < hi)]
    source, target = both[np.lexsort((both[:, 1], both[:, 0]))].T
    return source, target, np.ones(len(source), np.float32)


def group_degree(links: Links) -> Floats:
    """Contribution of groups to the row sums of K' without its diagonal; float64, shape (T,)."""
    sizes = np.append(links.sizes, 1)  # the last entry serves rows without a group, whose number is -1
    return (sizes[links.group] - 1).astype(np.float64)


# -- violations


class Violations(NamedTuple):
    """Links that a labeling violates.

    Parameters
    ----------
    n_violated : int
        Violated pairs, each counted once, including those that groups imply.
    n_links : int
        Linked pairs.
    must, cannot : ndarray of int64, shape (m, 2) and (q, 2)
        The given pairs that it violates, as row numbers.
    strays : ndarray of int64, shape (s,)
        Rows of a group whose label differs from the group's most frequent one.
    """

    n_violated: int
    n_links: int
    must: np.ndarray
    cannot: np.ndarray
    strays: np.ndarray


def violations(links: Links, labels: Integers, n_clusters: int) -> Violations:
    """Count and list the links that a labeling violates.

    Parameters
    ----------
    links : Links
    labels : ndarray of int, shape (T,)
        Of the linked rows.
    n_clusters : int

    Returns
    -------
    violations : Violations
    """
    labels = np.asarray(labels)
    together = labels[links.must[:, 0]] == labels[links.must[:, 1]]
    apart = labels[links.cannot[:, 0]] != labels[links.cannot[:, 1]]
    count = int((~together & ~links.grouped(links.must)).sum() + (~apart & ~links.grouped(links.cannot)).sum())
    members = np.flatnonzero(links.group >= 0)
    table = np.zeros((links.n_groups, n_clusters), np.int64)
    np.add.at(table, (links.group[members], labels[members]), 1)
    sizes = table.sum(axis=1)
    count += int((sizes**2 - (table**2).sum(axis=1)).sum()) // 2
    count += int((table[links.apart[:, 0]] * table[links.apart[:, 1]]).sum())
    strays = members[labels[members] != table.argmax(axis=1)[links.group[members]]]
    return Violations(
        count, links.n_links, links.rows[links.must[~together]], links.rows[links.cannot[~apart]], links.rows[strays]
    )


def criterion(lsmi: Any, n_violated: Any, weight: float = 1.0, n_held_out: Any = 0) -> Floats:
    """``LSMI / max LSMI - weight n_violated / max n_violated - n_held_out / max n_held_out`` of candidates.

    All maxima are over the candidates. If no candidate violates a link, that term is 0; if no LSMI is positive, the
    first term is ``LSMI - max LSMI``. Without the last term it is eq. (10) of [1]_.

    Parameters
    ----------
    lsmi : array_like of float, shape (k,)
    n_violated : array_like of int, shape (k,)
    weight : float
        Weight of the links against that of the rows.
    n_held_out : array_like of int, shape (k,), optional
        Links violated by the labels that :func:`bigsmic.numerics.constraints.propagation.predicted` gives.

    Returns
    -------
    score : ndarray of float64, shape (k,)
    """
    lsmi = np.asarray(lsmi, np.float64)
    best = lsmi.max()
    information = lsmi / best if best > 0 else lsmi - best
    return information - weight * _over_largest(n_violated) - _over_largest(n_held_out)


def _over_largest(counts: Any) -> Floats | float:
    counts = np.asarray(counts, np.float64)
    return counts / max(counts.max(), 1.0)
