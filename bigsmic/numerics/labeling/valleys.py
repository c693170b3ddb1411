"""Valleys between groups of rows: a test, and the tree that merges groups which none parts.

Two groups are looked at along the line that tells them apart best. If the density of both together has a valley
between their peaks, and one deeper than chance makes it, they are two clusters; else they are parts of one. A tree
merges groups, most strongly tied ones first, until every two neighbours are separated: what is left are the clusters
that the data show.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling.groups import Groups
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.nearest_means import NearestMeans, smallest
from bigsmic.numerics.labeling.two_gaussians import Line, log_likelihood_gains
from bigsmic.types import Floats, Integers

THRESHOLD = 4.0
"""Standard errors from which on a valley is one, among many rows."""
FEWER = 2.0, 3.0
"""Those that may be enough among few rows."""
MANY_ROWS = 1000
"""Rows from which on there are many."""
LEAST_SIGN = 0.25
"""Standard errors from which on there is any sign of a valley."""
NEARLY = 0.875
"""Share of the threshold from which on a valley is nearly one, so that a merge across it may hide others."""
SCATTERED = 4.0
"""Times the variance of its neighbours, median, from which on a group may be no part of any cluster."""
SMALLEST_GROUP, SMALLEST_ROWS = 3, 20
"""Rows of the smallest group that stays: a 200th of all, but no less than the first and no more than the second."""
_NOTHING = 1e-12

Merge = tuple[int, int, float]
"""Two groups to merge, the smaller number first, and the score by which they were chosen."""


class ValleyTree(NamedTuple):
    """A tree of groups, and where it stops to merge what no valley separates.

    Parameters
    ----------
    tree : MergeTree
        Its ratios are the scores by which pairs were chosen.
    n_clusters : int
        Groups left when every two neighbours are separated by a valley.
    weakest : ndarray of float64, shape (k + 1,)
        z of the weakest valley between neighbours, by number of groups left; infinite where none are neighbours.
    by_distance : MergeTree
        The same merges down to `n_clusters`, and then those of the nearest means (:class:`Nearest`).
    gains : ndarray of float64, shape (k - 1,)
        How much better two Gaussians describe what each merge joins than one does: see
        :func:`~bigsmic.numerics.labeling.two_gaussians.log_likelihood_gains`; 0 for groups with links between them.
    """

    tree: MergeTree
    n_clusters: int
    weakest: np.ndarray
    by_distance: MergeTree
    gains: np.ndarray

    @property
    def tree_arrays(self) -> tuple[Integers, Integers, Floats]:
        """Columns, merges and ratios of the tree."""
        return self.tree.columns, self.tree.merges, self.tree.ratios

    def by_shape(self, n_clusters: int, sizes: Floats) -> MergeTree:
        """The tree whose cuts above `n_clusters` part those of these clusters that two Gaussians describe better.

        Where no valley is left, the order of merges says nothing of clusters: the last ones join halves of the largest.
        When two Gaussians describe none better, the smallest groups are parted: what has too few rows to show a valley
        is small.

        Parameters
        ----------
        n_clusters : int
            That labelings show; if this one shows more, its own number counts.
        sizes : ndarray of float64, shape (m,)
            Size of each group.
        """
        scores = np.where(self.gains > 0, self.gains, -self.tree.smaller_parts(sizes))
        return self.tree.undone_by(min(max(n_clusters, self.n_clusters), len(self.tree.columns)), scores)


def thresholds(n_rows: int, on_a_line: bool = False) -> list[float]:
    """Standard errors from which on a valley may be one, ascending; the first ones only if labelings agree on it.

    Those of a valley between two clusters grow with the root of their rows, and fifteen rows have hardly four, however
    far they are from all others. So fewer may be enough among few rows, and no fewer than the same valley would have
    there that has four among :data:`MANY_ROWS`. On a line, all labelings have the same gaps, and agree wherever these
    are by chance: two are too few.
    """
    least = max(THRESHOLD * math.sqrt(n_rows / MANY_ROWS), FEWER[-1 if on_a_line else 0])
    return sorted({min(max(fewer, least), THRESHOLD) for fewer in (*FEWER, THRESHOLD)})


def valley_tree(groups: Groups, threshold: float = THRESHOLD) -> ValleyTree:
    """Merge groups, the most strongly tied of those that no valley separates first; then the others.

    Among neighbours with ``z < threshold`` the two of largest ``min(1, depth exp(2 error)) W_yz / sqrt(s_y s_z)`` are
    merged, s the degree sums. When none is left, the number of groups is that of the clusters; the tree goes on without
    the condition, and when no two groups are neighbours, with those whose means are nearest (:class:`Nearest`).
    Before any test, groups of copies of one row are merged, and groups of very few rows are given to the one they are
    tied to most.

    Rows that are of no cluster, sums of two spikes say, make groups that lie between many others and are much wider
    than they. Merged with such a group, a cluster is separated from none of these any more, and one after the other
    follows. So what merges with a group that is `scattered` among its neighbours takes its rows, but is looked at
    without them. A wide cluster is not touched by this: valleys separate it from its neighbours. A scattered group that
    is separated from all, too, is none if it has fewer rows than half of the others and is less held together than any.

    A merge of two clusters between which the valley is just too shallow may hide others, as neighbours of one are not
    separated from both. Merge then follows on merge, down to few groups that are plainly separated. So if all groups
    are nearly separated (:data:`NEARLY`), and merges of them leave a weaker valley, the clusters are those before; of
    several such places, those with the deepest valleys. Groups with links between them are merged to the end.

    Links outvote valleys. Two groups are not merged if cannot-links between them outnumber must-links by more than
    chance (:meth:`Groups.are_barred`): some rows are in a wrong group, and a single link of such a row is no reason.
    When all others are separated, groups with more must-links than cannot-links are merged, those with the most first.
    That comes last, as one link of a row in a wrong group would join two clusters while groups are small.

    Parameters
    ----------
    groups : Groups
        Is used up.
    threshold : float

    Returns
    -------
    ValleyTree
    """
    columns = groups.alive
    merges = _join_copies(groups) + _absorb_small(groups)
    ratios, lines, samples = [np.inf] * len(merges), dict[int, Line](), groups.samples_of_groups
    pairs = _Pairs(groups)
    scattered = _scattered(groups, pairs.near)
    weakest, n_clusters, nearest = np.full(len(columns) + 1, np.inf), 0, list[tuple[int, int]]()
    hidden = _HiddenValleys(threshold)
    for left in range(len(groups.alive), 1, -1):
        weakest[left] = pairs.weakest()
        if not n_clusters and not groups.links.any():
            hidden.look(left, weakest[left], groups)
        found = None
        if not n_clusters:
            found = pairs.best(threshold) or pairs.stray(scattered) or pairs.most_linked()
            if not found:
                n_clusters, nearest = hidden.before or (left, _nearest_merges(groups))
        y, z, ratio = found or pairs.next()
        merges.append((y, z))
        ratios.append(ratio)
        line = groups.line(y, z)
        if line and not groups.are_linked(y, z):
            lines[len(merges) - 1] = line
        if scattered[y] != scattered[z]:
            groups.leave_out(y if scattered[y] else z)
        scattered[y] &= scattered[z]
        groups.merge(y, z)
        pairs.merged(y, z)
    if not n_clusters:
        n_clusters, nearest = hidden.before or (1, nearest)
    tree = MergeTree(len(groups.counts), columns, np.array(merges, np.int64).reshape(-1, 2), np.array(ratios))
    gains = log_likelihood_gains(tree, n_clusters, lines, samples)
    return ValleyTree(tree, n_clusters, weakest, tree.ending_in(nearest), gains)


class _HiddenValleys:
    """Finds merges that hide valleys: groups that were nearly separated, and are less so after it.

    Parameters
    ----------
    threshold : float

    Attributes
    ----------
    before : pair of int and list of pairs of int, or None
        Number of groups before such a merge, those of the deepest valleys, and merges of the nearest from there on.
    """

    def __init__(self, threshold: float) -> None:
        self.before: tuple[int, list[tuple[int, int]]] | None = None
        self._found: tuple[int, list[tuple[int, int]]] | None = None
        self._deepest, self._threshold = NEARLY * threshold, threshold

    def look(self, n_groups: int, weakest: float, groups: Groups) -> None:
        """Take in the groups that are left, and the z of their weakest valley."""
        if weakest < self._deepest:
            self.before = self._found
        elif weakest < self._threshold:
            self._deepest, self._found = weakest, (n_groups, _nearest_merges(groups))


def _nearest_merges(groups: Groups) -> list[tuple[int, int]]:
    """Merges of the nearest two groups until one is left."""
    left, merges = groups.with_links(groups.links), list[tuple[int, int]]()
    left.samples = [(P[:0], uniform[:0]) for P, uniform in groups.samples]  # distances are those of means
    nearest = Nearest(left)
    while len(left.alive) > 1:
        merges.append(nearest.pair())
        left.merge(*merges[-1])
        nearest.merged(*merges[-1])
    return merges


class Nearest(NearestMeans):
    """Distances of groups by Ward's criterion; groups that cannot-links bar from being one are merged after all others.

    Parameters
    ----------
    groups : Groups
        In which the groups are merged.
    """

    def __init__(self, groups: Groups) -> None:
        super().__init__(groups.moments.counts, groups.moments.sums)
        self.groups = groups

    def pair(self) -> tuple[int, int]:
        """The two groups to merge."""
        if not self.groups.links.any():
            return super().pair()
        added = self.added.copy()
        first, second = np.nonzero(np.isfinite(added))
        later = self.groups.are_barred(first, second)
        added[first[later], second[later]] += self.added[first, second].max()
        return smallest(added)


def _join_copies(groups: Groups) -> list[tuple[int, int]]:
    """Merge groups whose rows are all copies of one row, which need not be neighbours; return the merges."""
    first, merges = list[tuple[int, Floats]](), []
    for y in groups.alive.tolist():
        P = groups.samples[y][0]
        if not len(P) or not (_are_same(P[-1:], P[0]) and _are_same(P, P[0])):  # one differs in nearly all groups
            continue
        joined = next((z for z, row in first if _are_same(P[:1], row)), None)
        if joined is None:
            first.append((y, P[0]))
            continue
        merges.append((joined, y))
        groups.merge(joined, y)
    return merges


def _are_same(P: Floats, row: Floats) -> bool:
    """Whether all rows are equal to one, but for rounding."""
    return bool(np.abs(P - row).max(initial=0.0) <= 4 * np.finfo(np.float32).eps * np.linalg.norm(row))


def _absorb_small(groups: Groups) -> list[tuple[int, int]]:
    """Merge groups of few rows, smallest first, into those they are tied to most; return the merges."""
    least = min(SMALLEST_ROWS, max(SMALLEST_GROUP, groups.counts.sum() / 200))
    merges = []
    while len(alive := groups.alive) > 1:
        y = int(alive[np.argmin(groups.counts[alive])])
        if groups.counts[y] >= least:
            break
        others = alive[alive != y]
        z = int(others[np.argmax(groups.weights[y, others])])
        merges.append((min(y, z), max(y, z)))
        groups.merge(*merges[-1])
    return merges


def _scattered(groups: Groups, near: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether groups are much wider than their neighbours: bool, shape (m,). On a line, those in tails always are."""
    if groups.on_a_line:
        return np.zeros(len(near), bool)
    near, variances = near | near.T, groups.variances
    typical = np.array([np.median(variances[others]) if others.any() else np.inf for others in near])
    return variances > SCATTERED * typical


class _Pairs:
    """Valleys between all neighbouring groups, kept up as groups are merged."""

    def __init__(self, groups: Groups) -> None:
        m = len(groups.counts)
        self.groups, self.depth, self.z, self.error = groups, np.ones((m, m)), np.full((m, m), np.inf), np.zeros((m, m))
        self.near = np.zeros((m, m), bool)
        self.nearest: Nearest | None = None
        for i, y in enumerate(groups.alive):
            self._test(y, groups.alive[i + 1 :])

    def _test(self, y: int, others: Integers) -> None:
        """Test group y and each of the others."""
        first, second = np.minimum(y, others), np.maximum(y, others)
        near = self.groups.are_neighbors(first, second)
        self.near[first, second] = near
        for at in zip(first[near].tolist(), second[near].tolist(), strict=True):
            self.depth[at], self.z[at], self.error[at] = self.groups.valley(*at)

    def merged(self, y: int, z: int) -> None:
        """Test group y anew, to which z was added."""
        if self.nearest:
            self.nearest.merged(y, z)
        self.near[z] = self.near[:, z] = False
        alive = self.groups.alive
        self._test(y, alive[alive != y])

    def stray(self, scattered: NDArray[np.bool_]) -> Merge | None:
        """A scattered group that is no cluster with the one it is tied to most; None if there is none.

        It has fewer rows than the median of the others, and a smaller share of its weight lies within it than of any.
        """
        groups = self.groups
        within = np.diag(groups.weights) / np.maximum(groups.degrees, _NOTHING)
        others = np.flatnonzero((groups.counts > 0) & ~scattered)
        if not len(others):
            return None
        for z in np.flatnonzero(scattered & (groups.counts > 0)):
            if groups.counts[z] < np.median(groups.counts[others]) and within[z] < within[others].min():
                y = int(others[np.argmax(groups.weights[z, others])])
                ratio = groups.weights[z, y] / math.sqrt(groups.degrees[y] * groups.degrees[z])
                return min(y, int(z)), max(y, int(z)), float(ratio)
        return None

    def most_linked(self) -> Merge | None:
        """The pair with the most must-links beyond its cannot-links; None if no pair has more of them."""
        must, cannot = self.groups.links
        more = np.triu(must - cannot, 1)
        y, z = divmod(int(np.argmax(more)), len(more))
        return (y, z, 0.0) if more[y, z] > 0 else None

    def weakest(self) -> float:
        """Z of the weakest valley between neighbours."""
        return float(self.z[self.near].min(initial=np.inf))

    def next(self) -> Merge:
        """The pair to merge if valleys do not count: neighbours of largest score, or else the nearest two groups."""
        found = self.best(np.inf)
        if found:
            return found
        self.nearest = self.nearest or Nearest(self.groups)
        return *self.nearest.pair(), 0.0

    def best(self, threshold: float) -> Merge | None:
        """Neighbours of largest score with a valley of less than `threshold` between them; None if there are none."""
        groups, s = self.groups, self.groups.degrees
        y, z = np.nonzero(self.near & (self.z < threshold))
        tied = np.maximum(groups.weights[y, z] / np.sqrt(np.maximum(s[y] * s[z], _NOTHING)), _NOTHING)
        depth = np.maximum(self.depth[y, z], _NOTHING if groups.on_a_line else 0.0)  # 0 between narrow groups
        score = np.minimum(1.0, depth * np.exp(2 * self.error[y, z])) * tied
        score[groups.are_barred(y, z)] = 0.0
        if score.max(initial=0.0) > 0:
            at = int(np.argmax(score))
            return int(y[at]), int(z[at]), float(score[at])
        return None


def valleys_between(groups: Groups) -> tuple[Integers, Floats, Floats, Floats]:
    """Every two neighbouring groups, and the valley between them.

    Parameters
    ----------
    groups : Groups

    Returns
    -------
    pairs : ndarray of int64, shape (p, 2)
        Ascending.
    depth, z, kurtosis : ndarray of float64, shape (p,)
    """
    pairs = _Pairs(groups)
    at = np.argwhere(pairs.near)
    where = tuple(at.T)
    return at, pairs.depth[where], pairs.z[where], np.array([groups.kurtosis(y, z) for y, z in at.tolist()])
