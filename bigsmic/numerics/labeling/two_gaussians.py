"""How much better two Gaussians describe what the merges of a tree join, than one does."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.types import Floats, Integers

N_STEPS, CONVERGED = 50, 1e-5
"""Steps of expectation maximisation at most, and increase of the log likelihood per row from which on they go on."""
MOST_ROWS, FEWEST_ROWS = 6000, 100
"""Rows of a cluster that are looked at, in the mean, and how many of each of its groups are at least."""
LEAST_SHARE = 0.01
"""Share of a row that belongs to a part, below which the part is looked at without it."""
REACH, N_BINS = 4.0, 80
"""Standard deviations about the mean in which rows are counted, those beyond at the ends; and intervals of these."""
_NOTHING = 1e-12


class Line(NamedTuple):
    """Line along which two groups are compared, and where they are on it.

    Parameters
    ----------
    direction : ndarray of float64, shape (r,)
    first, second : float
        Means of the groups; that of the second is the larger one.
    share : float
        Of the rows of both that are in the second.
    """

    direction: Floats
    first: float
    second: float
    share: float


class Sample(NamedTuple):
    """Some rows of a group.

    Parameters
    ----------
    P : ndarray of float, shape (s, r)
    uniform : ndarray of float64, shape (s,)
        A number in [0, 1) per row, from a hash of it.
    n_rows : float
        Rows that these represent.
    """

    P: NDArray[np.floating]
    uniform: Floats
    n_rows: float

    def thinned(self, n_drawn: float) -> "Sample":
        """About so many of the rows, if there are more: the same ones in any order of rows."""
        drawn = self.uniform * self.n_rows < n_drawn
        return self._replace(P=self.P[drawn], uniform=self.uniform[drawn]) if drawn.any() else self


class _Part(NamedTuple):
    """Part of a cluster of rows P (N, r), each of some column (N,): which rows, and how many each represents (s,)."""

    P: Floats
    columns: Integers
    rows: Integers
    weights: Floats

    def of(self, shares: Floats) -> "_Part":
        """What has these shares (s,) of the rows."""
        kept = shares >= LEAST_SHARE
        return self._replace(rows=self.rows[kept], weights=self.weights[kept] * shares[kept])

    def match(self, shares: Floats, first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
        """Difference between two sets of columns (m,) in their mean share (s,); not a number if one has no row."""
        columns = self.columns[self.rows]
        of_first, of_second = (self.weights * members[columns] for members in (first, second))
        totals = float(of_first.sum()), float(of_second.sum())
        return float(shares @ of_second) / totals[1] - float(shares @ of_first) / totals[0] if all(totals) else math.nan


def log_likelihood_gains(
    tree: MergeTree, n_clusters: int, lines: Mapping[int, Line], samples: Mapping[int, Sample]
) -> Floats:
    """Log likelihood of two Gaussians of one variance, minus that of one, for the rows that each merge joins.

    ``max sum_x n(x) log(p N(x; a, v) + (1 - p) N(x; b, v)) - max sum_x n(x) log N(x; c, u)``, by expectation
    maximisation from the two groups, x along their line. Halves of a Gaussian gain nothing; two of the same size whose
    means are D standard deviations apart gain .002 per row for D = 1.5, .010 for 2, and .063 for 3.

    Half of a Gaussian has a sharp border, is none, and would gain. So what is parted again has of every row of the
    whole the share that the Gaussian has there which it was parted by. The Gaussians may be others than the two groups:
    the gain counts times ``m^2``, m the difference between the groups in their mean share of the second Gaussian.

    Parameters
    ----------
    tree : MergeTree
    n_clusters : int
        Merges down to these are looked at.
    lines : dict of int to Line
        By number of the merge; those without a line have no gain.
    samples : dict of int to Sample
        By column of the tree.

    Returns
    -------
    gains : ndarray of float64, shape (k - 1,)
        0 unless the gain of the rows looked at is more than what the two further parameters are worth by Schwarz's
        criterion, the log of their number; and for the last ``n_clusters - 1`` merges.
    """
    gains, n_steps = np.zeros(len(tree.merges)), len(tree.columns) - n_clusters
    if n_steps <= 0:
        return gains
    joined, parts = _joined(tree), _clusters(tree, n_clusters, samples)
    for step in range(n_steps - 1, -1, -1):
        y, z = tree.merges[step].tolist()
        if step not in lines or y not in parts:
            continue
        part, (direction, *start) = parts.pop(y), lines[step]
        gain, shares = _parted((part.P @ direction)[part.rows], part.weights, *start)
        match, s = part.match(shares, *joined[step]), len(part.rows)
        gain *= match**2 if match > 0 else 0.0
        gains[step] = part.weights.sum() * gain if gain > math.log(s) / s else 0.0
        found = {y: part.of(1 - shares), z: part.of(shares)}
        parts |= {name: half for name, half in found.items() if len(half.rows)}
    return gains


def _joined(tree: MergeTree) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Whether each column (m,) is in the first, and in the second of the groups that each merge joins."""
    groups, joined = np.eye(tree.n_columns, dtype=bool), []
    for y, z in tree.merges.tolist():
        joined.append((groups[y].copy(), groups[z]))
        groups[y] |= groups[z]
    return joined


def _clusters(tree: MergeTree, n_clusters: int, samples: Mapping[int, Sample]) -> dict[int, _Part]:
    """Rows of each cluster, by its smallest column."""
    cluster_of, found = tree.cut(n_clusters), {}
    for cluster in range(n_clusters):
        members = np.flatnonzero(cluster_of == cluster).tolist()
        own = {column: samples[column] for column in members if column in samples}
        total = sum(sample.n_rows for sample in own.values())
        own = {y: one.thinned(max(MOST_ROWS * one.n_rows / total, FEWEST_ROWS)) for y, one in own.items()}
        if own:
            counts = [len(one.P) for one in own.values()]
            weights = np.repeat([one.n_rows / len(one.P) for one in own.values()], counts)
            P = np.concatenate([one.P for one in own.values()], dtype=np.float64)
            found[members[0]] = _Part(P, np.repeat(list(own), counts), np.arange(len(P)), weights)
    return found


def _parted(x: Floats, weights: Floats, first: float, second: float, share: float) -> tuple[float, Floats]:
    """Gain of two Gaussians per row of values x (s,), and the share of the second at each of them: float64, shape (s,).

    They start at `first` and `second`, which has `share` of the rows.
    """
    mean = float(np.average(x, weights=weights))
    deviation = math.sqrt(np.average((x - mean) ** 2, weights=weights))
    if not deviation > _NOTHING * (abs(first) + abs(second) + abs(mean)):
        return 0.0, np.full(len(x), share)
    at = np.clip((x - mean) / deviation + REACH, 0.0, 2 * REACH) * (N_BINS / (2 * REACH))
    bins = np.minimum(at.astype(np.int64), N_BINS - 1)
    density = np.bincount(bins, weights, N_BINS) / weights.sum()
    gain, posterior = _maximised(density, (first - mean) / deviation, (second - mean) / deviation, share)
    return gain, posterior[bins]


@compiled
def _maximised(density: Floats, low: float, high: float, p: float) -> tuple[float, Floats]:
    """Gain of two Gaussians per row, and the share of the second at each interval: float64, shape (N_BINS,).

    Rows have mean 0 and variance 1; intervals widen both a little, and one Gaussian alike.
    """
    width = 2 * REACH / N_BINS
    x = (np.arange(N_BINS) + 0.5) * width - REACH
    least, center = width**2 / 12, np.sum(density * x)
    spread = max(np.sum(density * (x - center) ** 2), least)
    variance = max(spread - p * (1 - p) * (high - low) ** 2, least)
    posterior, likelihood, before = np.empty(N_BINS), 0.0, -math.inf
    for _ in range(N_STEPS):
        likelihood = -math.log(variance) / 2
        for k in range(N_BINS):
            to_high = math.log(p) - (x[k] - high) ** 2 / (2 * variance)
            to_low = math.log(1 - p) - (x[k] - low) ** 2 / (2 * variance)
            larger = max(to_high, to_low)
            both = larger + math.log(math.exp(to_high - larger) + math.exp(to_low - larger))
            posterior[k] = math.exp(to_high - both)
            likelihood += density[k] * both
        of_high = np.sum(density * posterior)
        if likelihood < before + CONVERGED or not _NOTHING < of_high < 1 - _NOTHING:
            break
        before = likelihood
        p, sum_high = of_high, np.sum(density * posterior * x)
        low, high = (center - sum_high) / (1 - p), sum_high / p
        variance = max(np.sum(density * (posterior * (x - high) ** 2 + (1 - posterior) * (x - low) ** 2)), least)
    return likelihood + (math.log(spread) + 1) / 2, posterior
