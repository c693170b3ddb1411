"""Valleys between groups of rows: a test, and the tree that merges groups which none parts.

Two groups are looked at along the line that tells them apart best. If the density of both together has a valley
between their peaks, and one deeper than chance makes it, they are two clusters; else they are parts of one. A tree
merges groups, most strongly tied ones first, until every two neighbours are separated: what is left are the clusters
that the data show.

Groups are known by sums over rows (:func:`~bigsmic.numerics.labeling.group_moments.group_moments`,
:func:`~bigsmic.numerics.labeling.pair_weights.pair_weights`), and by a sample of each
(:func:`is_drawn`).
"""

import math
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling.density_valley import NO_VALLEY, Valley, between, excess_kurtosis
from bigsmic.numerics.labeling.fisher import fisher_direction
from bigsmic.numerics.labeling.group_moments import GroupMoments
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.nearest_means import NearestMeans, smallest
from bigsmic.types import Floats, Integers

THRESHOLD = 4.0
"""Standard errors from which on a valley is one."""
LEAST_SIGN = 0.25
"""Standard errors from which on there is any sign of a valley."""
NEARLY = 0.875
"""Share of the threshold from which on a valley is nearly one, so that a merge across it may hide others."""
SAMPLE_ROWS = 3000
"""Rows of a group, in the mean, on which valleys are looked for."""
N_AXES = 30
"""Directions in which groups are compared, at most: :func:`~bigsmic.numerics.labeling.between_groups.between_axes`."""
PRIOR_ROWS = 60.0
"""Rows that the covariance within all groups counts for beside those of a pair."""
RIDGE = 0.05
"""Of the mean variance, added to every one of a pair's."""
NEIGHBOR_WEIGHT = 0.002
"""Share of the smaller degree sum of two groups that has to lie between them, for the two to be neighbours."""
SCATTERED = 4.0
"""Times the variance of its neighbours, median, from which on a group may be no part of any cluster."""
BARRING = 1.4
"""Cannot-links beyond the must-links, over the square root of all links, that bar two groups from being one: two links
if these agree, and five if one must-link is against them."""
SMALLEST_GROUP, SMALLEST_ROWS = 3, 20
"""Rows of the smallest group that stays: a 200th of all, but no less than the first and no more than the second."""
_NOTHING = 1e-12


def is_drawn(uniform: Floats, group_rows: Floats | float) -> NDArray[np.bool_]:
    """Whether a row is in the sample of its group.

    Parameters
    ----------
    uniform : ndarray of float64, shape (b,)
        A number in [0, 1) per row, from a hash of it.
    group_rows : ndarray of float64, shape (b,)
        Rows of the group that the row is in.

    Returns
    -------
    drawn : ndarray of bool, shape (b,)
        The sample of a union of groups is part of their samples, so that groups can be merged without another draw.
    """
    return uniform * np.maximum(group_rows, 1.0) < SAMPLE_ROWS


class Groups:
    """Groups of rows that can be merged and tested.

    Parameters
    ----------
    moments : GroupMoments
    weights : ndarray of float64, shape (m, m)
        Total of :func:`~bigsmic.numerics.labeling.pair_weights.pair_weights`.
    sample : tuple of ndarray
        Principal components (s, r), uniform numbers (s,) and group (s,) of the rows drawn; see :func:`is_drawn`.
    resolution : ndarray of float64, shape (r, r), optional
        See :func:`~bigsmic.numerics.labeling.resolution.along_axes`; by default, any distance may be a valley.

    Attributes
    ----------
    links : ndarray of float64, shape (2, m, m)
        Must-links and cannot-links between every two groups; see :meth:`with_links`.
    """

    def __init__(
        self,
        moments: GroupMoments,
        weights: Floats,
        sample: tuple[Floats, Floats, Integers] | list[NDArray[Any]],
        resolution: Floats | None = None,
    ) -> None:
        self.resolution = np.zeros((moments.sums.shape[1],) * 2) if resolution is None else resolution
        self.moments = GroupMoments(*(array.copy() for array in moments))
        self.weights = weights.copy()
        self.links = np.zeros((2, *weights.shape))
        self.degrees = weights.sum(axis=1)
        self._scatters: dict[int, tuple[Floats, Floats]] = {}
        self._within = self._shape_within()
        P, uniform, labels = sample
        order = np.argsort(labels, kind="stable")
        cuts = np.searchsorted(labels[order], np.arange(len(weights) + 1))
        rows = [order[cuts[y] : cuts[y + 1]] for y in range(len(weights))]
        self.samples = [(P[at], uniform[at]) for at in rows]

    def with_links(self, links: Floats) -> "Groups":
        """A copy with other links between the groups."""
        found = copy(self)
        found.moments = GroupMoments(*(array.copy() for array in self.moments))
        found.weights, found.degrees, found.links = self.weights.copy(), self.degrees.copy(), links.copy()
        found.samples, found._scatters = [*self.samples], {}
        return found

    @property
    def counts(self) -> Floats:
        """Rows of each group; 0 for one that is merged into another."""
        return self.moments.counts

    @property
    def alive(self) -> Integers:
        """Numbers of the groups that have rows."""
        return np.flatnonzero(self.counts > 0)

    def merge(self, y: int, z: int) -> None:
        """Add group z to group y."""
        for array in self.moments:
            array[y] += array[z]
        for axis in self._between:
            axis[y] += axis[z]
        self.degrees[y] += self.degrees[z]
        self._scatters.pop(y, None)
        P, uniform = (np.concatenate(both) for both in zip(self.samples[y], self.samples[z], strict=True))
        drawn = is_drawn(uniform, self.counts[y])
        self.samples[y] = P[drawn], uniform[drawn]
        self.leave_out(z)

    @property
    def _between(self) -> list[NDArray[Any]]:
        """Weights and links between groups, along either axis."""
        return [axis for counts in (self.weights, *self.links) for axis in (counts, counts.T)]

    def leave_out(self, z: int) -> None:
        """Forget the rows of group z."""
        for array in (*self.moments, *self._between, self.degrees):
            array[z] = 0.0
        self._scatters.pop(z, None)
        P, uniform = self.samples[z]
        self.samples[z] = P[:0], uniform[:0]

    @property
    def variances(self) -> Floats:
        """Total variance of each group, 0 where it has no rows: ndarray of float64, shape (m,)."""
        n = np.maximum(self.counts, 1.0)
        squares = np.trace(self.moments.outers, axis1=1, axis2=2)
        return squares / n - (self.moments.sums**2).sum(axis=1) / n**2

    def are_barred(self, y: Integers, z: Integers) -> NDArray[np.bool_]:
        """Whether cannot-links bar two groups from being one, each of y and of z: bool, shape (p,)."""
        must, cannot = self.links[:, y, z]
        barred: NDArray[np.bool_] = (cannot > must) & (cannot - must >= BARRING * np.sqrt(must + cannot))
        return barred

    def are_neighbors(self, y: Integers, z: Integers) -> NDArray[np.bool_]:
        """Whether enough of the weight of the smaller group lies between two groups, each of y and of z: bool, (p,)."""
        near: NDArray[np.bool_] = self.weights[y, z] > NEIGHBOR_WEIGHT * np.minimum(self.degrees[y], self.degrees[z])
        return near

    def valley(self, y: int, z: int) -> Valley:
        """Look for a valley between two groups, along the direction of Fisher's discriminant.

        ``w = S^-1 (mean_z - mean_y)``, S the pooled covariance of the two, shrunk towards that within all groups as if
        these had :data:`PRIOR_ROWS`, and :data:`RIDGE` of its mean variance.
        """
        line = self._line(y, z)
        return NO_VALLEY if line is None else between(*line)

    def kurtosis(self, y: int, z: int) -> float:
        """Excess kurtosis of both groups together along the same direction; infinite where none is known."""
        line = self._line(y, z)
        return np.inf if line is None else excess_kurtosis(*line[:3])

    def _line(self, y: int, z: int) -> tuple[Floats, Floats, Floats, tuple[float, float], float] | None:
        """Both samples on that line, their numbers of rows and means there, and the distance of neighbouring values."""
        (rows_y, _), (rows_z, _) = self.samples[y], self.samples[z]
        if min(len(rows_y), len(rows_z)) < 2:
            return None
        n, prior = self.counts[[y, z]], (self._within, PRIOR_ROWS)
        w, mean_y, mean_z = fisher_direction(self._scatter(y), self._scatter(z), n.sum(), prior, RIDGE)
        if not np.isfinite(mean_y + mean_z):
            return None
        a, b = (rows.astype(np.float64) @ w for rows in (rows_y, rows_z))
        return a, b, n, (mean_y, mean_z), math.sqrt(max(float(w @ self.resolution @ w), 0.0))

    def _shape_within(self) -> Floats:
        """Covariance within the groups, of mean variance 1, float64, shape (r, r); zeros if no group has a spread."""
        n, sums, outers = self.moments
        means = sums / np.sqrt(np.maximum(n, 1.0))[:, None]
        within: Floats = outers.sum(axis=0) - means.T @ means
        return within * (len(within) / max(float(np.trace(within)), _NOTHING))

    def _scatter(self, y: int) -> tuple[Floats, Floats]:
        """Sum of squared deviations, and mean, of a group."""
        if y not in self._scatters:
            n = self.counts[y]
            mean = self.moments.sums[y] / n
            self._scatters[y] = self.moments.outers[y] - n * np.outer(mean, mean), mean
        return self._scatters[y]


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
    """

    tree: MergeTree
    n_clusters: int
    weakest: np.ndarray
    by_distance: MergeTree

    @property
    def tree_arrays(self) -> tuple[Integers, Integers, Floats]:
        """Columns, merges and ratios of the tree."""
        return self.tree.columns, self.tree.merges, self.tree.ratios

    def by_size(self, n_clusters: int, sizes: Floats) -> MergeTree:
        """The tree whose cuts above `n_clusters` part the smallest groups from these clusters.

        Where no valley is left, the order of merges says nothing of clusters: the last ones join halves of the largest.
        What has too few rows to show a valley is small.

        Parameters
        ----------
        n_clusters : int
            That labelings show; if this one shows more, its own number counts.
        sizes : ndarray of float64, shape (m,)
            Size of each group.
        """
        most = len(self.tree.columns)
        return self.tree.smallest_last(min(max(n_clusters, self.n_clusters), most), sizes)


def valley_tree(groups: Groups, threshold: float = THRESHOLD) -> ValleyTree:
    """Merge groups, the most strongly tied of those that no valley separates first; then the others.

    Among neighbours with ``z < threshold`` the two of largest ``min(1, depth exp(2 error)) W_yz / sqrt(s_y s_z)`` are
    merged, s the degree sums. When none is left, the number of groups is that of the clusters; the tree goes on without
    the condition, and when no two groups are neighbours, with those whose means are nearest (:class:`Nearest`).
    Groups of very few rows are given to the one they are tied to most before any test.

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
    chance, :data:`BARRING`: some rows are in a wrong group, and a single link of such a row is no reason. When all
    others are separated, groups with more must-links than cannot-links are merged, those with the most first. That
    comes last, as one link of a row in a wrong group would join two clusters while groups are small.

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
    merges = _absorb_small(groups)
    ratios = [np.inf] * len(merges)
    pairs = _Pairs(groups)
    scattered = _scattered(groups, pairs.near)
    weakest, n_clusters, nearest = np.full(len(columns) + 1, np.inf), 0, list[tuple[int, int]]()
    hidden = _HiddenValleys(threshold)
    for left in range(len(groups.alive), 1, -1):
        weakest[left] = pairs.weakest()
        if not n_clusters and not groups.links.any():
            hidden.look(left, weakest[left], groups)
        y, z, ratio = pairs.best(threshold) if not n_clusters else (0, 0, 0.0)
        if y == z and not n_clusters:
            y, z, ratio = pairs.stray(scattered)
        if y == z and not n_clusters:
            y, z, ratio = pairs.most_linked()
        if y == z:
            if not n_clusters:
                n_clusters, nearest = hidden.before or (left, _nearest_merges(groups))
            y, z, ratio = pairs.best(np.inf)
        merges.append((y, z))
        ratios.append(ratio)
        if scattered[y] != scattered[z]:
            groups.leave_out(y if scattered[y] else z)
        scattered[y] &= scattered[z]
        groups.merge(y, z)
        pairs.merged(y, z)
    if not n_clusters:
        n_clusters, nearest = hidden.before or (1, nearest)
    tree = MergeTree(len(groups.counts), columns, np.array(merges, np.int64).reshape(-1, 2), np.array(ratios))
    return ValleyTree(tree, n_clusters, weakest, tree.ending_in(nearest))


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
    """The same, but groups that cannot-links bar from being one are merged after all others.

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
    """Whether groups are much wider than their neighbours: bool, shape (m,)."""
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

    def stray(self, scattered: NDArray[np.bool_]) -> tuple[int, int, float]:
        """A scattered group that is no cluster with the one it is tied to most, and how much; as :meth:`best`.

        It has fewer rows than the median of the others, and a smaller share of its weight lies within it than of any.
        """
        groups = self.groups
        within = np.diag(groups.weights) / np.maximum(groups.degrees, _NOTHING)
        others = np.flatnonzero((groups.counts > 0) & ~scattered)
        if not len(others):
            return 0, 0, 0.0
        for z in np.flatnonzero(scattered & (groups.counts > 0)):
            if groups.counts[z] < np.median(groups.counts[others]) and within[z] < within[others].min():
                y = int(others[np.argmax(groups.weights[z, others])])
                ratio = groups.weights[z, y] / math.sqrt(groups.degrees[y] * groups.degrees[z])
                return min(y, int(z)), max(y, int(z)), float(ratio)
        return 0, 0, 0.0

    def most_linked(self) -> tuple[int, int, float]:
        """The pair with the most must-links beyond its cannot-links, if there is one; as :meth:`best`."""
        must, cannot = self.groups.links
        more = np.triu(must - cannot, 1)
        y, z = divmod(int(np.argmax(more)), len(more))
        return (y, z, 0.0) if more[y, z] > 0 else (0, 0, 0.0)

    def weakest(self) -> float:
        """Z of the weakest valley between neighbours."""
        return float(self.z[self.near].min(initial=np.inf))

    def best(self, threshold: float) -> tuple[int, int, float]:
        """The pair to merge and its score; a pair of one group where no neighbours are below the threshold.

        Without a threshold, the nearest two if no neighbours may be merged.
        """
        groups, s = self.groups, self.groups.degrees
        y, z = np.nonzero(self.near & (self.z < threshold))
        tied = groups.weights[y, z] / np.sqrt(np.maximum(s[y] * s[z], _NOTHING))
        score = np.minimum(1.0, self.depth[y, z] * np.exp(2 * self.error[y, z])) * tied
        score[groups.are_barred(y, z)] = 0.0
        if score.max(initial=0.0) > 0:
            at = int(np.argmax(score))
            return int(y[at]), int(z[at]), float(score[at])
        if threshold < np.inf:
            return 0, 0, 0.0
        self.nearest = self.nearest or Nearest(self.groups)
        return *self.nearest.pair(), 0.0


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
