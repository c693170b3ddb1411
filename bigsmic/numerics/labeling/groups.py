"""Groups of rows, and whether a valley lies between two of them.

Groups are known by sums over rows (:func:`~bigsmic.numerics.labeling.group_moments.group_moments`,
:func:`~bigsmic.numerics.labeling.pair_weights.pair_weights`), and by a sample of each (:func:`is_drawn`). All of these
can be merged.
"""

import math
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling.density_valley import NO_VALLEY, Valley, between, excess_kurtosis
from bigsmic.numerics.labeling.fisher import fisher_direction
from bigsmic.numerics.labeling.group_moments import GroupMoments
from bigsmic.numerics.labeling.two_gaussians import Line, Sample
from bigsmic.types import Floats, Integers

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
NEIGHBOR_STEPS = 1.5
"""Steps of the columns along the line between the means of two groups, up to which these are neighbours."""
BARRING = 1.4
"""Cannot-links beyond the must-links, over the square root of all links, that bar two groups from being one: two links
if these agree, and five if one must-link is against them."""
_NOTHING, _ROUNDING = 1e-12, 1e-10


def is_drawn(uniform: Floats, group_rows: Floats | float) -> NDArray[np.bool_]:
    """Whether a row is in the sample of its group.

    Parameters
    ----------
    uniform : ndarray of float64, shape (b,)
        A number in [0, 1) per row, from a hash of it.
    group_rows : ndarray of int or float, shape (b,)
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
    neighbor_weight : float
        Share of the smaller degree sum that makes neighbours, less than :data:`NEIGHBOR_WEIGHT` where pieces of a
        cluster are so large that hardly any of their weights lie between them; see :mod:`bigsmic.stages.crowding`.

    Attributes
    ----------
    adjacent : ndarray of float64, shape (m, m)
        Pairs of parts of every two groups that are hardly a step of the columns apart. They are neighbours, though the
        graph may have no edges between them: integers may be nearer to those of equal values in other columns than to
        the next value. On a line, these are the groups with no other between them.
    links : ndarray of float64, shape (2, m, m)
        Must-links and cannot-links between every two groups; see :meth:`with_links`.
    """

    def __init__(
        self,
        moments: GroupMoments,
        weights: Floats,
        sample: tuple[Floats, Floats, Integers] | list[NDArray[Any]],
        resolution: Floats | None = None,
        neighbor_weight: float = NEIGHBOR_WEIGHT,
    ) -> None:
        self.neighbor_weight = neighbor_weight
        self.resolution = np.zeros((moments.sums.shape[1],) * 2) if resolution is None else resolution
        self.moments = GroupMoments(*(array.copy() for array in moments))
        self.weights = weights.copy()
        self.links = np.zeros((2, *weights.shape))
        self.degrees = weights.sum(axis=1)
        self._scatters: dict[int, tuple[Floats, Floats]] = {}
        self._within = self._shape_within()
        self._line_of_all = self._find_line()
        self.adjacent = self._adjacent_groups()
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
        found.adjacent = self.adjacent.copy()
        found.samples, found._scatters = [*self.samples], {}
        return found

    @property
    def counts(self) -> Floats:
        """Rows of each group; 0 for one that is merged into another."""
        return self.moments.counts

    @property
    def on_a_line(self) -> bool:
        """Whether all rows are on one line, as those of a single column are."""
        return self._line_of_all is not None

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
        """Weights, adjacent parts and links between groups, along either axis."""
        return [axis for counts in (self.weights, self.adjacent, *self.links) for axis in (counts, counts.T)]

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

    def are_linked(self, y: int, z: int) -> bool:
        """Whether there are more must-links than cannot-links between two groups."""
        must, cannot = self.links[:, y, z]
        return bool(must > cannot)

    def are_neighbors(self, y: Integers, z: Integers) -> NDArray[np.bool_]:
        """Whether two groups, each of y and of z, are neighbours: bool, shape (p,).

        Enough of the weight of the smaller one lies between them, or parts of them are :attr:`adjacent`.
        """
        tied = self.weights[y, z] > self.neighbor_weight * np.minimum(self.degrees[y], self.degrees[z])
        near: NDArray[np.bool_] = tied | (self.adjacent[y, z] > 0)
        return near

    def valley(self, y: int, z: int) -> Valley:
        """Look for a valley between two groups, along the direction of Fisher's discriminant.

        ``w = S^-1 (mean_z - mean_y)``, S the pooled covariance of the two, shrunk towards that within all groups as if
        these had :data:`PRIOR_ROWS`, and :data:`RIDGE` of its mean variance. Values have a uniform error of a step:
        flags that are equal within the groups would otherwise outweigh any gap in other columns.
        """
        line = self._on_line(y, z)
        return NO_VALLEY if line is None else between(*line)

    def kurtosis(self, y: int, z: int) -> float:
        """Excess kurtosis of both groups together along the same direction; infinite where none is known."""
        line = self._on_line(y, z)
        return np.inf if line is None else excess_kurtosis(*line[:3])

    def line(self, y: int, z: int) -> Line | None:
        """The same direction, and where the two groups are on it; None where none is known."""
        found = self._direction(y, z)
        return None if found is None else Line(*found, self.counts[z] / (self.counts[y] + self.counts[z]))

    @property
    def samples_of_groups(self) -> dict[int, Sample]:
        """Sample of each group that has one."""
        rows = enumerate(self.samples)
        return {y: Sample(P, uniform, float(self.counts[y])) for y, (P, uniform) in rows if len(P)}

    def _on_line(self, y: int, z: int) -> tuple[Floats, Floats, tuple[float, float], tuple[float, float], float] | None:
        """Both samples on that line, their numbers of rows and means there, and the distance of neighbouring values."""
        (rows_y, _), (rows_z, _) = self.samples[y], self.samples[z]
        found = self._direction(y, z)
        if found is None:
            return None
        (w, mean_y, mean_z), n = found, (float(self.counts[y]), float(self.counts[z]))
        a, b = rows_y.astype(np.float64) @ w, rows_z.astype(np.float64) @ w
        return a, b, n, (mean_y, mean_z), math.sqrt(max(float(w @ self.resolution @ w), 0.0))

    def _direction(self, y: int, z: int) -> tuple[Floats, float, float] | None:
        """Direction of Fisher's discriminant, and the mean of each group there; None where none is known."""
        if min(len(self.samples[y][0]), len(self.samples[z][0])) < 2:
            return None
        n, prior = float(self.counts[y]) + float(self.counts[z]), (self._within, PRIOR_ROWS)
        found = fisher_direction(self._scatter(y), self._scatter(z), n, prior, RIDGE)
        return found if math.isfinite(found[1] + found[2]) else None

    @property
    def _error(self) -> Floats:
        """Covariance of a uniform error of a step of each column: float64, shape (r, r)."""
        return self.resolution / 12

    def _shape_within(self) -> Floats:
        """Covariance within the groups, of mean variance 1, float64, shape (r, r); zeros if no group has a spread."""
        n, sums, outers = self.moments
        means = sums / np.sqrt(np.maximum(n, 1.0))[:, None]
        within: Floats = outers.sum(axis=0) - means.T @ means + n.sum() * self._error
        return within * (len(within) / max(float(np.trace(within)), _NOTHING))

    def _adjacent_groups(self) -> Floats:
        """Whether hardly a step of the columns lies between the means of two groups: float64, shape (m, m).

        On a line, whether no other group does: its graph has gaps wherever rows are sparse by chance.
        """
        means = self.moments.sums / np.maximum(self.counts, 1.0)[:, None]
        apart = _squares_between(means, means)
        times_step = np.sqrt(_squares_between(means, means @ self.resolution))  # the distance times the step along it
        adjacent = (apart < NEIGHBOR_STEPS * times_step).astype(np.float64)
        if self._line_of_all is not None:
            alive = self.alive
            order = alive[np.argsort(means[alive] @ self._line_of_all, kind="stable")]
            adjacent[order[:-1], order[1:]] = adjacent[order[1:], order[:-1]] = 1.0
        return adjacent

    def _find_line(self) -> Floats | None:
        """Direction of the line that all rows are on, float64, shape (r,); None if they are on none."""
        n, sums, outers = (array.sum(axis=0) for array in self.moments)
        squares, axes = np.linalg.eigh(outers - np.outer(sums, sums) / max(float(n), 1.0))
        return axes[:, -1] if np.sum(squares > _ROUNDING * squares[-1]) == 1 else None

    def _scatter(self, y: int) -> tuple[Floats, Floats]:
        """Sum of squared deviations, with those of the error of a step, and mean of a group."""
        if y not in self._scatters:
            n = self.counts[y]
            mean = self.moments.sums[y] / n
            self._scatters[y] = self.moments.outers[y] - n * np.outer(mean, mean) + n * self._error, mean
        return self._scatters[y]


def _squares_between(means: Floats, turned: Floats) -> Floats:
    """``(a - b)' R (a - b)`` of every two rows a, b of the means, at least 0; `turned` are ``means R``."""
    products = means @ turned.T
    own = np.diag(products)
    return np.maximum(own[:, None] + own - 2 * products, 0.0)
