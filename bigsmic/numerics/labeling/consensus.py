"""Merge trees of over-segmented labelings, and their consensus.

Few eigenvectors cannot follow clusters that differ in size, shape or density. So a labeling starts from m > c soft
columns (`rotation.posterior_rotated`), merges them by the density ratio that the objective of SMIC is made of (`gram`,
`merge_tree`), and lets single rows move to where their neighbours are (`numerics.labeling.local_moving`). Single
labelings are fragile; several of them, merged by the same rule, are not (`label_gram`, `consensus_tree`, `vote`).

Functions take one block of rows; the docstrings of those that return sums name the function that takes the total.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.labeling.merge_tree import MergeTree, merge_tree
from bigsmic.numerics.labeling.metrics import adjusted_rand_index, contingency
from bigsmic.numerics.labeling.rotation import Assignment, normalise
from bigsmic.types import Floats, Integers

SAME = 0.4
"""Share of the rows that have either of two labels, from which on these are the same if both have them."""
AGREED = 0.4
"""Stability below which labelings do not agree on what the clusters are."""


def group_columns(Q: Floats, groups: Integers, n_groups: int) -> Floats:
    """Posterior of each group: the sum of its columns, in the order of the columns.

    Parameters
    ----------
    Q : ndarray of float32, shape (b, m)
        Rows sum to 1.
    groups : ndarray of int, shape (m,)
        Group of each column; columns of group -1 are left out, and rows are rescaled to sum 1.
    n_groups : int

    Returns
    -------
    P : ndarray of float32, shape (b, n_groups)
        Uniform in rows whose whole mass is in columns left out.
    """
    total = np.zeros((len(Q), n_groups))
    _add_columns(frozen(Q, np.float32), frozen(groups, np.int64), total)
    normalise(total)
    return total.astype(np.float32)


@compiled
def _add_columns(Q: Any, groups: Any, total: Floats) -> None:
    """``total[i, groups[y]] += Q[i, y]`` where the group is not -1; Q (b, m), groups (m,), total (b, n_groups)."""
    for i in range(Q.shape[0]):
        for y in range(Q.shape[1]):
            if groups[y] >= 0:
                total[i, groups[y]] += Q[i, y]


def merged_assignment(assignment: Assignment, groups: Integers, n_groups: int) -> Assignment:
    """Posteriors and labels of the groups, before local moving.

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
        Over `n_groups` columns; uniform in rows without mass, whatever the sizes of the groups.
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
                # only the group that grew can become the largest; it is if one of its parts was
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
    """First indicator column of each labeling, and the total number of columns: ``(0, s_0, s_0 + s_1, ..)``."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])


def consensus_tree(sums: Integers, sizes: list[int]) -> MergeTree:
    """Merge tree of the indicator columns of all B labelings, divided by B.

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


def overlap_tree(sums: Integers) -> MergeTree:
    """Merge tree of the labels of all labelings by the rows that they share: average linkage of `G_yz / sqrt(n_y n_z)`.

    The similarity is 1 for two labels of the same rows, be they many or few. (The density ratio of `consensus_tree` is
    smaller, the larger the clusters: it merges the copies of a cluster of half of the rows after all others.)

    Parameters
    ----------
    sums : ndarray of int64, shape (S, S)
        G, the total of `label_gram`; n is its diagonal.

    Returns
    -------
    MergeTree
        Over S columns; labels that no row has are dropped.
    """
    from scipy.cluster.hierarchy import linkage  # which not all fits need

    counts = np.diag(sums).astype(np.float64)
    columns = np.flatnonzero(counts)
    distances = 1.0 - sums[np.ix_(columns, columns)] / np.sqrt(np.multiply.outer(counts[columns], counts[columns]))
    distances = distances[np.triu_indices(len(columns), 1)]
    steps = linkage(distances, "average") if len(columns) > 1 else np.empty((0, 4))
    names, merges = list(columns), np.empty((len(steps), 2), np.int64)
    for step, (y, z) in enumerate(steps[:, :2].astype(np.int64).tolist()):
        merges[step] = sorted((names[y], names[z]))
        names.append(merges[step, 0])
    return MergeTree(len(sums), columns, merges, 1.0 - steps[:, 2])


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


def in_common(sums: Integers, sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Which labels of each labeling at least half of the other labelings have, too.

    Two labels are the same if they share at least :data:`SAME` of the rows that have either.

    Parameters
    ----------
    sums : ndarray of int64, shape (S, S)
        Total of `label_gram`.
    sizes : sequence of int, length B

    Returns
    -------
    common : ndarray of bool, shape (S,)
        All labels of a single labeling; never one without rows.
    """
    rows = np.diag(sums)
    same = (sums >= SAME * (rows[:, None] + rows - sums)) & (sums > 0)
    n_others = np.logical_or.reduceat(same, label_offsets(sizes)[:-1], axis=1).sum(axis=1) - 1
    return (2 * n_others >= len(sizes) - 1) & (rows > 0)


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


def rows_won(labels: Integers, sizes: Sequence[int], classes: Any, n_classes: int) -> Integers:
    """Rows in which each class has the most votes, over one block; the parameters are those of :func:`vote`.

    Returns
    -------
    counts : ndarray of int64, shape (2, n_classes)
        Rows in which no smaller class has as many votes, and those in which no other class has. Add over blocks.
    """
    counts = np.zeros((2, n_classes), np.int64)
    _count_won(frozen(labels, np.int32), label_offsets(sizes), frozen(classes, np.int64), counts)
    return counts


@compiled
def _count_won(labels: Any, offsets: Integers, classes: Any, counts: Integers) -> None:
    """`rows_won`, without the votes of all rows: a row casts few, and has votes in no other class."""
    votes = np.zeros(counts.shape[1], np.int64)
    for i in range(labels.shape[0]):
        most, first, alone = 0, 0, len(votes) == 1  # without votes, the first of all classes, which are equal
        for j in range(labels.shape[1]):
            y = classes[offsets[j] + labels[i, j]]
            if y < 0:
                continue
            votes[y] += 1
            if votes[y] > most:
                most, first, alone = votes[y], y, True
            elif votes[y] == most:
                first, alone = min(first, y), False
        counts[0, first] += 1
        counts[1, first] += alone
        for j in range(labels.shape[1]):
            y = classes[offsets[j] + labels[i, j]]
            if y >= 0:
                votes[y] = 0


def winners(classes: Integers, counts: Integers) -> Integers:
    """Renumber the classes that win rows; the others cast no vote, which does not change any winner.

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


def consensus_labels(votes: Integers, posterior: Floats, tied: Sequence[int] = ()) -> NDArray[np.int32]:
    """Class with the most votes; ties by posterior, then the smallest class.

    Parameters
    ----------
    votes : ndarray of int, shape (b, c)
    posterior : ndarray of float32, shape (b, c)
    tied : sequence of int
        Classes that win no row alone; each wins its ties, or it could have no rows.

    Returns
    -------
    labels : ndarray of int32, shape (b,)
    """
    leading = votes == votes.max(axis=1, keepdims=True)
    claims = np.where(leading, posterior, -1.0)
    claims[:, list(tied)] += 2.0 * leading[:, list(tied)]
    return claims.argmax(axis=1).astype(np.int32)


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


def merged_gram(sums: Integers, groups: Sequence[Integers]) -> tuple[Integers, list[int]]:
    """Gram matrix of the indicator columns of labelings whose labels are merged.

    Parameters
    ----------
    sums : ndarray of int64, shape (S, S)
        Total of `label_gram`.
    groups : sequence of ndarray of int, length B
        New label of every label of each labeling, S in all.

    Returns
    -------
    sums : ndarray of int64, shape (T, T)
    sizes : list of int
        Labels of each labeling now, T in all.
    """
    merged = [int(group.max()) + 1 for group in groups]
    at = np.concatenate([group + first for group, first in zip(groups, label_offsets(merged)[:-1], strict=True)])
    order = np.argsort(at, kind="stable")
    starts = np.searchsorted(at[order], np.arange(label_offsets(merged)[-1]))
    rows = np.add.reduceat(sums[order], starts, axis=0)
    return np.add.reduceat(rows[:, order], starts, axis=1), merged
