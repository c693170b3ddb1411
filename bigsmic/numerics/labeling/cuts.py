"""Cuts of merge trees at many numbers of groups: each is computed from the one with one group more.

A merge changes the numbers of pairs that the adjusted Rand index compares, and the sums of modularity, by one row of
a table; to sum the whole table anew at every number takes a hundred times as long where there are hundreds of groups.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from bigsmic.numerics.labeling import local_moving
from bigsmic.numerics.labeling.consensus import label_offsets, stability
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.metrics import adjusted_rand_index_of_pairs
from bigsmic.types import Floats, Integers


def agreements(sums: Integers, sizes: Sequence[int], trees: Sequence[MergeTree], numbers: Integers) -> Floats:
    """Mean adjusted Rand index between labelings whose labels are merged, at several numbers of groups.

    Parameters
    ----------
    sums : ndarray of int64, shape (S, S)
        Total of :func:`~bigsmic.numerics.labeling.consensus.label_gram`, over at most 3e9 rows: 64 bits hold the
        squares.
    sizes : sequence of int, length B
    trees : sequence of MergeTree, length B
        Over the labels of each labeling.
    numbers : ndarray of int, shape (g,)
        From 1; a tree of fewer columns is not merged.

    Returns
    -------
    agreement : ndarray of float64, shape (g,)
        1 for a single labeling.
    """
    first, n_labelings, n_rows = label_offsets(sizes), len(sizes), int(np.trace(sums)) // len(sizes)
    shared = sums.copy()
    squares = np.add.reduceat(np.add.reduceat(sums**2, first[:-1], axis=0), first[:-1], axis=1)  # of tables

    def merge(j: int, y: int, z: int) -> None:
        y, z = int(first[j]) + y, int(first[j]) + z
        both = 2 * np.add.reduceat(shared[y] * shared[z], first[:-1])
        both[j] = 2 * shared[y, y] * shared[z, z]
        squares[j] += both
        squares[:, j] += both
        squares[j, j] -= both[j]
        shared[y] += shared[z]
        shared[:, y] += shared[:, z]
        shared[z] = shared[:, z] = 0

    total, found, ari = n_rows * (n_rows - 1) // 2, np.empty(len(numbers)), np.eye(n_labelings)
    for at, merges in _merges_down(trees, numbers):
        for labeling, pairs in enumerate(merges):
            for y, z in pairs:
                merge(labeling, y, z)
        shared_pairs = [[(int(count) - n_rows) // 2 for count in row] for row in squares]
        for i, j in zip(*np.triu_indices(n_labelings, 1), strict=True):
            both, in_a, in_b = shared_pairs[i][j], shared_pairs[i][i], shared_pairs[j][j]
            ari[i, j] = ari[j, i] = adjusted_rand_index_of_pairs(both, in_a, in_b, total)
        found[at] = stability(ari)
    return found


def modularities(tree: MergeTree, weights: Floats, numbers: Integers) -> Floats:
    """Modularity of the groups of a tree, at several numbers of groups.

    Parameters
    ----------
    tree : MergeTree
    weights : ndarray of float64, shape (m, m)
        Weight between every two columns of the tree.
    numbers : ndarray of int, shape (g,)
        From 1; at more than the tree has columns, none are merged.

    Returns
    -------
    modularity : ndarray of float64, shape (g,)
    """
    between, found = weights.copy(), np.empty(len(numbers))
    dropped = np.setdiff1d(np.arange(len(weights)), tree.columns)
    between[dropped] = between[:, dropped] = 0.0
    degrees = between.sum(axis=1)
    for at, (merges,) in _merges_down([tree], numbers):
        for y, z in merges:
            between[y] += between[z]
            between[:, y] += between[:, z]
            between[z] = between[:, z] = 0.0
            degrees[y] += degrees[z]
            degrees[z] = 0.0
        found[at] = local_moving.modularity(np.stack([np.diag(between), degrees]))
    return found


def shares_within(groups: Integers, weights: Floats) -> Floats:
    """Share of its weight that lies within each group of a cut.

    Parameters
    ----------
    groups : ndarray of int64, shape (m,)
        Group of each column, -1 for dropped columns.
    weights : ndarray of float64, shape (m, m)
        Weight between every two columns.

    Returns
    -------
    shares : ndarray of float64, shape (k,)
        0 for a group without weight.
    """
    kept = np.flatnonzero(groups >= 0)
    indicator = np.zeros((len(kept), groups.max() + 1))
    indicator[np.arange(len(kept)), groups[kept]] = 1.0
    between = indicator.T @ weights[np.ix_(kept, kept)] @ indicator
    total = between.sum(axis=1)
    return np.divide(np.diag(between), total, out=np.zeros(len(total)), where=total > 0)


def _merges_down(trees: Sequence[MergeTree], numbers: Integers) -> Iterator[tuple[int, list[list[list[int]]]]]:
    """Place of each number, the largest first, and merges of each tree that lead there from the one before."""
    done = [0] * len(trees)
    for at in np.argsort(numbers, kind="stable")[::-1].tolist():
        merges = []
        for j, tree in enumerate(trees):
            steps = max(0, len(tree.columns) - int(numbers[at]))
            merges.append(tree.merges[done[j] : steps].tolist())
            done[j] = max(done[j], steps)
        yield at, merges
