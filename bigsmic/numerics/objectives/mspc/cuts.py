"""The best cut of projections, found by histograms without sorting."""

from typing import Any, NamedTuple

import numpy as np

from bigsmic.numerics.objectives.mspc.questions import Halfspace, Histogram, Node, Steps
from bigsmic.numerics.objectives.mspc.separation import COLUMNS, covariance_of
from bigsmic.types import Floats, Integers

_BINS = 4096  # of projections, in one pass
_CUT_PASSES = 12
_CUT_TOLERANCE = 1e-9  # what a cut between two edges may gain, relatively, and be left alone


def best_cut(node: Node, w: Floats, moments: Floats, reg: float, space: Any = COLUMNS) -> Steps:
    """Halfspace across w that maximises the lower bound of kappa^2; a generator of questions.

    With r the smaller and R the larger share of rows, D the distance of the means along w and V the total variance,

        kappa^2 >= D^2 / (2 V / r - 2 R D^2)

    The bound depends on the number of rows below the cut and their sum alone. A histogram gives both at its edges, and
    an upper bound within each bin; bins that may hold a better cut than the best edge are cut finer, until none gains
    more than 1e-9 of it. So the best cut between any two rows is found without sorting them.

    Parameters
    ----------
    node : Node
    w : ndarray of float64, shape (d,)
    moments : ndarray of float64, shape (d + 1, d + 1)
        Second moments of the node's rows.
    reg : float
    space : Columns

    Returns
    -------
    halfspace : Halfspace
    """
    n, mean, covariance = covariance_of(moments)
    center, deviation = float(mean @ w), np.sqrt(w @ covariance @ w)
    bound = _Bound(n, center, float(w @ space.regularise(covariance, covariance, reg) @ w))
    reach = np.arcsinh(np.sqrt(n))  # no projection is farther than sqrt(n - 1) deviations from the mean
    finer: Floats = center + deviation * np.sinh(np.linspace(-reach, reach, _BINS))
    for _ in range(_CUT_PASSES):
        edges = finer
        counts, sums = yield Histogram(node, w, edges)
        values, ceilings = bound.at_edges(counts, sums), bound.within_bins(counts, sums, edges)
        hopeful = np.flatnonzero(ceilings > values.max() * (1 + _CUT_TOLERANCE))
        finer = _subdivided(edges, hopeful, 1e-13 * deviation)
        if len(finer) == len(edges):
            break
    return Halfspace(w, float(edges[values.argmax()]))


class _Bound(NamedTuple):
    """The lower bound of kappa^2 as a function of a cut.

    Parameters
    ----------
    n : float
        Rows.
    center : float
        Mean of their projections.
    scatter : float
        Regularised variance of their projections.
    """

    n: float
    center: float
    scatter: float

    def __call__(self, below: Floats, deficit: Floats) -> Floats:
        """Bound for `below` rows whose projections fall short of as many means by `deficit` in all."""
        above = self.n - below
        return self._value(deficit / (below * above), np.minimum(below, above), np.maximum(below, above))

    def at_edges(self, counts: Floats, sums: Floats) -> Floats:
        """Bound at each edge, shape (n_edges,)."""
        below, deficit = (running[1:-1] for running in self._running(counts, sums))
        cuts = (below > 0) & (below < self.n)
        values = np.full(len(below), -np.inf)
        values[cuts] = self(below[cuts], deficit[cuts])
        return values

    def within_bins(self, counts: Floats, sums: Floats, edges: Floats) -> Floats:
        """Upper limit of the bound strictly within each bin, -inf where it cannot be cut, shape (n_edges + 1,).

        The deficit is concave in the number of rows below: its slope is the distance below the mean.
        """
        below, deficit = self._running(counts, sums)
        depth = self.center - edges
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rise = deficit[:-1] + counts * np.append(np.inf, depth.clip(0))
            fall = deficit[1:] + counts * np.append((-depth).clip(0), np.inf)
            low, high = below[:-1] + 1, below[1:] - 1
            balance = np.minimum(low * (self.n - low), high * (self.n - high))
            smaller = np.minimum(np.minimum(high, self.n - low), self.n / 2)
            larger = np.maximum(high, self.n - low)
            ceilings = self._value(np.minimum(rise, fall) / balance, smaller, larger)
        return np.where(counts > 1, ceilings, -np.inf)

    def _value(self, distance_per_row: Floats, smaller: Floats, larger: Floats) -> Floats:
        squared = (distance_per_row * self.n) ** 2
        denominator = 2 * self.scatter * self.n / smaller - 2 * larger / self.n * squared
        return np.where(denominator > 0, squared / denominator, np.inf)

    def _running(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        """Rows below each edge and by how much they fall short, from none to all, shape (n_edges + 2,)."""
        below, total = np.append(0, counts.cumsum()), np.append(0, sums.cumsum())
        return below, below * self.center - total


def _subdivided(edges: Floats, bins: Integers, least: Any) -> Floats:
    """Edges with those of the bins that are wider than rounding cut into parts put in between."""
    bins = bins[(bins > 0) & (bins < len(edges))]
    bins = bins[edges[bins] - edges[bins - 1] > least]
    parts = max(2, _BINS // max(1, len(bins)))
    finer = [np.linspace(edges[b - 1], edges[b], parts + 1) for b in bins]
    return np.unique(np.concatenate([edges, *finer]))
