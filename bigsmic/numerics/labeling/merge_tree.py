"""Merge trees: every merge of the columns of a labeling down to one group, by how much rows they share.

`gram` gives the sums of one block of soft posteriors, `merge_tree` the merges; `MergeTree.cut` gives the groups.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.numerics.products import self_product
from bigsmic.types import Floats, Integers

NEGLIGIBLE_MEAN = 1e-12
_SMALLEST_RATIO = 1e-12
_GRAM_ROWS = 4096


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
        The density ratio at each merge, or another similarity.
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
        self._check(n_groups)
        above, name = {z: y for y, z in self.merges[: len(self.columns) - n_groups].tolist()}, list[int]()
        for column in range(self.n_columns):  # a group is named by its smallest column: that name is there
            name.append(name[above[column]] if column in above else column)
        groups = np.full(self.n_columns, -1)
        groups[self.columns] = np.unique(np.array(name)[self.columns], return_inverse=True)[1]
        return groups

    def ending_in(self, merges: Sequence[Sequence[int]]) -> "MergeTree":
        """The tree with other merges in place of as many last ones.

        Parameters
        ----------
        merges : sequence of pairs of int
            At most k - 1.

        Returns
        -------
        MergeTree
            The ratios stay.
        """
        last = np.array(merges, np.int64).reshape(-1, 2)
        return replace(self, merges=np.concatenate([self.merges[: len(self.merges) - len(last)], last]))

    def undone_by(self, n_groups: int, scores: Floats) -> "MergeTree":
        """The tree with the merges down to `n_groups` in another order: the last ones are undone by largest score.

        Of the last merges within these groups, the one of largest score comes last; of those left without it, again the
        one of largest score comes before it, and so on. Merges with an infinite ratio come first.

        Parameters
        ----------
        n_groups : int
            From 1 to the number of columns that take part.
        scores : ndarray of float64, shape (k - 1,)
            Of each merge, as of :meth:`smaller_parts`; of equal ones, the later merge is undone first.

        Returns
        -------
        MergeTree
            A cut into more than `n_groups` parts those groups by largest score. The ratios go with the merges.

        Raises
        ------
        InputError
        """
        self._check(n_groups)
        n_steps = len(self.columns) - n_groups
        last = dict[int, int]()  # of each group so far
        order, before = list[tuple[bool, float, int]](), list[list[int]]()
        for step, (y, z) in enumerate(self.merges[:n_steps].tolist()):
            order.append((bool(np.isinf(self.ratios[step])), -float(scores[step]), -step))
            before.append([last.pop(name) for name in (y, z) if name in last])
            last[y] = step
        heap, steps = [order[step] for step in last.values()], list[int]()
        heapq.heapify(heap)
        while heap:
            steps.append(-heapq.heappop(heap)[-1])
            for earlier in before[steps[-1]]:
                heapq.heappush(heap, order[earlier])
        at = np.array([*reversed(steps), *range(n_steps, len(self.merges))], np.int64)
        return replace(self, merges=self.merges[at], ratios=self.ratios[at])

    def smaller_parts(self, sizes: Floats) -> Floats:
        """Size of the smaller of the two groups of each merge, float64, shape (k - 1,); sizes of columns (m,) add."""
        total, found = sizes.astype(np.float64), np.empty(len(self.merges))
        for step, (y, z) in enumerate(self.merges.tolist()):
            found[step] = min(total[y], total[z])
            total[y] += total[z]
        return found

    def _check(self, n_groups: int) -> None:
        if not 1 <= n_groups <= len(self.columns):
            raise InputError(
                f"cut: got n_groups={n_groups}, the tree has 1 to {len(self.columns)}; over-segment into more columns"
            )

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
    O(m) per merge, as the largest ratio of every row is kept, and O(m^2) where most rows lose theirs.
    """
    G = G + G.T  # in place from here on, as each of these may have hundreds of MiB
    G /= 2
    n_columns, p = len(G), G.sum(axis=1)
    columns = np.flatnonzero(p >= NEGLIGIBLE_MEAN)
    if len(columns) < n_columns:
        G, p = G[np.ix_(columns, columns)], p[columns]
    ratio = np.multiply.outer(p, p)
    ratio **= power
    np.divide(G, ratio, out=ratio)
    np.fill_diagonal(ratio, -np.inf)
    merges = np.empty((max(0, len(p) - 1), 2), dtype=np.int64)
    ratios = np.empty(len(merges))
    largest = _RowMaxima(ratio)
    for step in range(len(merges)):
        y, z = largest.place()
        merges[step], ratios[step] = (y, z), ratio[y, z]
        _absorb(G, p, y, z)
        _update_ratios(ratio, G[y] / (p[y] * p) ** power, y, z)
        largest.updated(y, z)
    return MergeTree(n_columns, columns, columns[merges], ratios)


class _RowMaxima:
    """The largest entry of every row of a symmetric matrix, kept up as two rows and columns change."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix
        self.at = matrix.argmax(axis=1) if matrix.size else np.zeros(0, np.int64)
        self.values = matrix[np.arange(len(matrix)), self.at]

    def place(self) -> tuple[int, int]:
        """Place of the largest entry, the first in the order of rows among equals."""
        y = int(self.values.argmax())
        return y, int(self.at[y])

    def updated(self, y: int, z: int) -> None:
        """Take in that row and column y have other entries, and z have none any more."""
        column = self.matrix[y]  # symmetric
        stale = (self.at == y) | (self.at == z)
        stale[y] = stale[z] = True
        gained = (column > self.values) | ((column == self.values) & (y < self.at))
        self.at[gained], self.values[gained] = y, column[gained]
        for row in np.flatnonzero(stale & ~gained).tolist():
            self.at[row] = at = self.matrix[row].argmax()
            self.values[row] = self.matrix[row, at]


def _absorb(G: Floats, p: Floats, y: int, z: int) -> None:
    G[y] += G[z]
    G[:, y] += G[:, z]
    p[y] += p[z]


def _update_ratios(ratio: Floats, row: Floats, y: int, z: int) -> None:
    merged = np.isneginf(ratio[y]) & np.isneginf(ratio[z])
    ratio[z] = ratio[:, z] = -np.inf
    ratio[y] = ratio[:, y] = np.where(merged, -np.inf, row)
    ratio[y, y] = ratio[y, z] = ratio[z, y] = -np.inf
