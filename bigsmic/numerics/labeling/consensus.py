"""Merge trees of over-segmented labelings, and their consensus.

Few eigenvectors cannot follow clusters that differ in size, shape or density. So a labeling starts from m > c soft
columns (`rotation.posterior_rotated`), merges them by the density ratio that the objective of SMIC is made of (`gram`,
`merge_tree`), and lets single rows move to where their neighbours are (`numerics.labeling.local_moving`). Single
labelings are fragile; several of them, merged by the same rule, are not (`label_gram`, `consensus_tree`, `vote`).

Functions take one block of rows; those that return sums say what to do with the total.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.labeling.metrics import adjusted_rand_index, contingency
from bigsmic.numerics.labeling.rotation import Assignment
from bigsmic.numerics.self_product import self_product
from bigsmic.types import Floats, Integers

AGREED = 0.4
"""Stability below which labelings do not agree on what the clusters are."""
NEGLIGIBLE_MEAN = 1e-12
_SMALLEST_RATIO = 1e-12
_GRAM_ROWS = 4096


# -- merging columns


def gram(Q: Floats) -> Floats:
    """``Q'Q`` of one block of soft posteriors.

    Parameters
    ----------
    Q : ndarray of float32, shape (b, m)
        Rows sum to 1.

    Returns
    -------
    sums : ndarray of float64, shape (m, m)
        The total over blocks, divided by the number of rows, is the G of `merge_tree`.
    """
    total = np.zeros((Q.shape[1], Q.shape[1]))
    for start in range(0, len(Q), _GRAM_ROWS):
        rows = Q[start : start + _GRAM_ROWS].astype(np.float64)
        total += self_product(rows)
    return total


@dataclass(frozen=True)
class MergeTree:
    """Every merge of m columns down to one group.

    Parameters
    ----------
    n_columns : int
        m, dropped columns included.
    columns : ndarray of int64, shape (k,), ascending
        The columns that take part; the others have no mass to speak of.
    merges : ndarray of int64, shape (k - 1, 2)
        In order; a group is named by its smallest column, and the first of the two is the smaller.
    ratios : ndarray of float64, shape (k - 1,)
        The density ratio at each merge.
    """

    n_columns: int
    columns: np.ndarray
    merges: np.ndarray
    ratios: np.ndarray

    def cut(self, n_groups: int) -> Integers:
        """Group of each column when `n_groups` are left.

        Parameters
        ----------
        n_groups : int
            From 1 to the number of columns that take part.

        Returns
        -------
        groups : ndarray of int64, shape (m,)
            Numbered in the order of their smallest columns; -1 for dropped columns.

        Raises
        ------
        InputError
        """
        if not 1 <= n_groups <= len(self.columns):
            raise InputError(
                f"cut: got n_groups={n_groups}, the tree has 1 to {len(self.columns)}; over-segment into more columns"
            )
        above, name = {z: y for y, z in self.merges[: len(self.columns) - n_groups].tolist()}, list[int]()
        for column in range(self.n_columns):  # a group is named by its smallest column: that name is there
            name.append(name[above[column]] if column in above else column)
        groups = np.full(self.n_columns, -1)
        groups[self.columns] = np.unique(np.array(name)[self.columns], return_inverse=True)[1]
        return groups

    def linkage(self) -> NDArray[np.float64]:
        """Linkage matrix as scipy's hierarchy functions read it; leaf i is ``columns[i]``.

        Returns
        -------
        Z : ndarray of float64, shape (k - 1, 4)
            Heights are the running maximum of ``-log ratio``, from 0 up; ratios below 1e-12 count as 1e-12. The last
            column counts leaves, since scipy refuses any other weight there; `sizes` counts rows.
        """
        node = {int(column): leaf for leaf, column in enumerate(self.columns)}
        heights = np.maximum.accumulate(-np.log(np.maximum(self.ratios, _SMALLEST_RATIO)))
        Z = np.empty((len(self.merges), 4))
        for step, (y, z) in enumerate(self.merges.tolist()):
            Z[step, :2] = sorted((node[y], node[z]))
            node[y] = len(self.columns) + step
        Z[:, 2] = heights - heights[:1]
        Z[:, 3] = self.sizes(np.ones(self.n_columns, dtype=np.int64))
        return Z

    def sizes(self, counts: Integers) -> Integers:
        """Rows in the group that each merge makes.

        Parameters
        ----------
        counts : ndarray of int, shape (m,)
            Rows per column.

        Returns
        -------
        sizes : ndarray of int64, shape (k - 1,)
        """
        total, sizes = np.array(counts, dtype=np.int64), np.empty(len(self.merges), dtype=np.int64)
        for step, (y, z) in enumerate(self.merges):
            total[y] += total[z]
            sizes[step] = total[y]
        return sizes


def merge_tree(G: Floats, power: float = 1.0) -> MergeTree:
    """Merge, until one group is left, the two groups with the largest density ratio.

    ``r_yz = G_yz / (p_y p_z)^a``, ``p = G 1``. At a = 1 it is ``p(y, z) / (p(y) p(z))`` of two posteriors seen at one
    point. Rows and columns of G add on a merge, and so does p.

    Parameters
    ----------
    G : ndarray of float64, shape (m, m)
        Mean of ``q q'`` over rows, symmetric, not negative.
    power : float
        a; above 1 it favours merging small groups.

    Returns
    -------
    MergeTree
        Equal ratios are merged in the order of their smaller, then of their larger column. Columns with p
        below 1e-12 are dropped.

    Notes
    -----
    O(m^2) per merge, in a few vectorised operations; 0.13 s at m = 1,000.
    """
    G = (G + G.T) / 2
    n_columns, p = len(G), G.sum(axis=1)
    columns = np.flatnonzero(p >= NEGLIGIBLE_MEAN)
    G, p = G[np.ix_(columns, columns)], p[columns]
    ratio = G / np.multiply.outer(p, p) ** power
    np.fill_diagonal(ratio, -np.inf)
    merges = np.empty((max(0, len(p) - 1), 2), dtype=np.int64)
    ratios = np.empty(len(merges))
    for step in range(len(merges)):
        y, z = divmod(int(np.argmax(ratio)), len(p))
        merges[step], ratios[step] = (y, z), ratio[y, z]
        _absorb(G, p, y, z)
        _update_ratios(ratio, G[y] / (p[y] * p) ** power, y, z)
    return MergeTree(n_columns, columns, columns[merges], ratios)


def _absorb(G: Floats, p: Floats, y: int, z: int) -> None:
    G[y] += G[z]
    G[:, y] += G[:, z]
    p[y] += p[z]


def _update_ratios(ratio: Floats, row: Floats, y: int, z: int) -> None:
    merged = np.isneginf(ratio[y]) & np.isneginf(ratio[z])
    ratio[z] = ratio[:, z] = -np.inf
    ratio[y] = ratio[:, y] = np.where(merged, -np.inf, row)
    ratio[y, y] = ratio[y, z] = ratio[z, y] = -np.inf


def group_columns(Q: Floats, groups: Integers, n_groups: int) -> Floats:
    """Posterior of each group: the sum of its columns, in the order of the columns.

    Parameters
    ----------
    Q : ndarray of float32, shape (b, m)
        Rows sum to 1.
    groups : ndarray of int, shape (m,)
        Group of each column; columns of group -1 are left out, and rows brought back to sum 1.
    n_groups : int

    Returns
    -------
    P : ndarray of float32, shape (b, n_groups)
        Flat in rows that have all of their mass in columns left out.
    """
    total = np.zeros((len(Q), n_groups))
    _add_columns(frozen(Q, np.float32), frozen(groups, np.int64), total)
    mass = total.sum(axis=1, keepdims=True)
    total = np.divide(total, mass, out=np.full_like(total, 1.0 / n_groups), where=mass > 0.0)
    return total.astype(np.float32)


@compiled
def _add_columns(Q: Any, groups: Any, total: Floats) -> None:
    """``total[i, groups[y]] += Q[i, y]`` where the group is not -1; Q (b, m), groups (m,), total (b, n_groups)."""
    for i in range(Q.shape[0]):
        for y in range(Q.shape[1]):
            if groups[y] >= 0:
                total[i, groups[y]] += Q[i, y]


def merged_assignment(assignment: Assignment, groups: Integers, n_groups: int) -> Assignment:
    """Posteriors and labels of the groups, before any move.

    Parameters
    ----------
    assignment : Assignment
        Over m columns, from `rotation.posterior_rotated`.
    groups : ndarray of int, shape (m,)
        From `MergeTree.cut`.
    n_groups : int

    Returns
    -------
    Assignment
        Over `n_groups` columns; flat in rows without mass, whatever the sizes of the groups.
    """
    posterior = group_columns(assignment.posterior, groups, n_groups)
    posterior[~assignment.has_mass] = 1.0 / n_groups
    return Assignment(posterior, assignment.has_mass, np.argmax(posterior, axis=1).astype(np.int32))


def cut_labels(Q: Floats, tree: MergeTree, n_groups: list[int]) -> Integers:
    """Labels of one block at several cuts of the tree, in one pass over the columns.

    Parameters
    ----------
    Q : ndarray of float32, shape (b, m)
    tree : MergeTree
    n_groups : sequence of int, shape (g,)

    Returns
    -------
    labels : ndarray of int32, shape (b, g)
        ``labels[:, j]`` is the argmax of the posterior grouped by ``tree.cut(n_groups[j])``.
    """
    finest_first = np.argsort(n_groups, kind="stable")[::-1]
    steps = len(tree.columns) - np.asarray(n_groups, dtype=np.int64)[finest_first]
    winners = np.empty((len(Q), len(steps)), dtype=np.int64)
    _winning_columns(frozen(Q, np.float32), tree.columns, tree.merges, steps, winners)
    labels = np.empty(winners.shape, dtype=np.int32)
    for place, j in enumerate(finest_first):
        labels[:, j] = tree.cut(n_groups[j])[winners[:, place]]
    return labels


@compiled
def _winning_columns(Q: Any, columns: Integers, merges: Integers, steps: Integers, winners: Integers) -> None:
    """Write to ``winners[i, j]`` a column of the group of largest mass of row i after ``steps[j]`` merges.

    Q is (b, m), `columns` (m,), `merges` (m - 1, 2), `steps` (g,) ascending, `winners` (b, g).
    """
    mass = np.empty(Q.shape[1])
    for i in range(Q.shape[0]):
        best = columns[0]
        for y in columns:
            mass[y] = Q[i, y]
            if mass[y] > mass[best]:
                best = y
        done = 0
        for cut in range(len(steps)):
            for step in range(done, steps[cut]):
                y, z = merges[step, 0], merges[step, 1]
                mass[y] += mass[z]
                # only the group that grew can overtake; it inherits the lead of either of its parts
                if best == z or mass[y] > mass[best] or (mass[y] == mass[best] and y < best):
                    best = y
            done = steps[cut]
            winners[i, cut] = best


# -- consensus


def label_gram(labels: Integers, sizes: Any) -> Integers:
    """Rows per pair of (labeling, label), over one block: the Gram matrix of the indicator columns.

    Parameters
    ----------
    labels : ndarray of int, shape (b, B)
        One column per labeling, values in ``0..sizes[j] - 1``.
    sizes : sequence of int, length B

    Returns
    -------
    sums : ndarray of int64, shape (S, S), S = sum(sizes)
        Block (j, l) is the contingency table of labelings j and l; add over blocks.
    """
    at = label_offsets(sizes)
    sums = np.zeros((at[-1], at[-1]), dtype=np.int64)
    for j, other in zip(*np.triu_indices(len(sizes)), strict=True):
        table = contingency(labels[:, j], labels[:, other], sizes[j], sizes[other])
        sums[at[j] : at[j + 1], at[other] : at[other + 1]] = table
        sums[at[other] : at[other + 1], at[j] : at[j + 1]] = table.T
    return sums


def label_offsets(sizes: Sequence[int]) -> Integers:
    """First indicator column of each labeling, and the number of them all: ``(0, s_0, s_0 + s_1, ..)``."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])


def consensus_tree(sums: Integers, sizes: list[int]) -> MergeTree:
    """Merge tree of the indicator columns of all labelings, each row's divided by their number B.

    Parameters
    ----------
    sums : ndarray of int64, shape (S, S)
        Total of `label_gram`.
    sizes : sequence of int, length B

    Returns
    -------
    MergeTree
        Over S columns; labels that no row has are dropped.
    """
    n_rows = np.trace(sums) / len(sizes)
    return merge_tree(sums / (n_rows * len(sizes) ** 2))


def pairwise_ari(sums: Integers, sizes: list[int]) -> Floats:
    """Compare every two labelings by adjusted Rand index.

    Parameters
    ----------
    sums : ndarray of int64, shape (S, S)
        Total of `label_gram`.
    sizes : sequence of int, length B

    Returns
    -------
    ari : ndarray of float64, shape (B, B)
        Ones on the diagonal.
    """
    cuts = label_offsets(sizes)[1:-1]
    tables = [np.split(band, cuts, axis=1) for band in np.split(sums, cuts, axis=0)]
    ari = np.eye(len(sizes))
    for j, other in zip(*np.triu_indices(len(sizes), 1), strict=True):
        ari[j, other] = ari[other, j] = adjusted_rand_index(tables[j][other])
    return ari


def medoid(ari: Floats) -> int:
    """Index of the labeling with the largest median ARI to the others, the first among equals.

    Parameters
    ----------
    ari : ndarray of float64, shape (B, B)
        From `pairwise_ari`.

    Returns
    -------
    int
    """
    return int(np.argmax(np.median(_off_diagonal(ari), axis=1))) if len(ari) > 1 else 0


def stability(ari: Floats) -> float:
    """Mean ARI over pairs of different labelings; 1 for a single one.

    Parameters
    ----------
    ari : ndarray of float64, shape (B, B)
        From `pairwise_ari`.

    Returns
    -------
    float
    """
    return float(_off_diagonal(ari).mean()) if len(ari) > 1 else 1.0


def _off_diagonal(square: Floats) -> Floats:
    n = len(square)
    return square[~np.eye(n, dtype=bool)].reshape(n, n - 1)


def vote(labels: Integers, sizes: list[int], classes: Any, n_classes: int) -> Integers:
    """Count the labelings that put each row into each class of the consensus, over one block.

    Parameters
    ----------
    labels : ndarray of int, shape (b, B)
    sizes : sequence of int, length B
    classes : ndarray of int, shape (S,)
        Class of each indicator column: a cut of `consensus_tree`. -1 casts no vote.
    n_classes : int

    Returns
    -------
    votes : ndarray of int32, shape (b, n_classes)
    """
    votes = np.zeros((len(labels), n_classes), dtype=np.int32)
    columns = np.asarray(labels, dtype=np.int64) + label_offsets(sizes)[:-1]
    _cast(frozen(columns), frozen(classes, np.int64), votes)
    return votes


@compiled
def _cast(columns: Any, classes: Any, votes: Integers) -> None:
    """``votes[i, classes[columns[i, j]]] += 1`` where it is not -1; columns (b, B), classes (S,), votes (b, c)."""
    for i in range(columns.shape[0]):
        for j in range(columns.shape[1]):
            y = classes[columns[i, j]]
            if y >= 0:
                votes[i, y] += 1


def rows_won(votes: Integers) -> Integers:
    """Rows in which each class has the most votes, over one block.

    Parameters
    ----------
    votes : ndarray of int, shape (b, k)

    Returns
    -------
    counts : ndarray of int64, shape (k,)
        Add over blocks.
    """
    return np.bincount(votes.argmax(axis=1), minlength=votes.shape[1])


def winners(classes: Integers, counts: Integers) -> Integers:
    """Number anew the classes that win rows; the others cast no vote, which changes no winner.

    Parameters
    ----------
    classes : ndarray of int, shape (S,)
        A cut of `consensus_tree` into k classes.
    counts : ndarray of int, shape (k,)
        Total of `rows_won`.

    Returns
    -------
    classes : ndarray of int64, shape (S,)
        -1 for classes without rows.
    """
    number = np.where(counts > 0, np.cumsum(counts > 0) - 1, -1)
    return np.where(classes >= 0, number[classes], -1)


def consensus_labels(votes: Integers, posterior: Floats) -> NDArray[np.int32]:
    """Class with the most votes; ties by posterior, then the smallest class.

    Parameters
    ----------
    votes : ndarray of int, shape (b, c)
    posterior : ndarray of float32, shape (b, c)

    Returns
    -------
    labels : ndarray of int32, shape (b,)
    """
    leading = votes == votes.max(axis=1, keepdims=True)
    return np.argmax(np.where(leading, posterior, -1.0), axis=1).astype(np.int32)


def agreement(votes: Integers, labels: Integers, n_labelings: int) -> Floats:
    """Share of labelings that vote for the row's label.

    Parameters
    ----------
    votes : ndarray of int, shape (b, c)
    labels : ndarray of int, shape (b,)
    n_labelings : int

    Returns
    -------
    share : ndarray of float32, shape (b,), in [0, 1]
    """
    chosen = np.take_along_axis(votes, np.asarray(labels, dtype=np.int64)[:, None], axis=1)[:, 0]
    return (chosen / n_labelings).astype(np.float32)
