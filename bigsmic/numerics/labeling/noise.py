"""Rows in no cluster: their neighbours are much farther away than those of the other rows of their cluster."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.types import Floats, Integers

THRESHOLD = 4.0
"""Spreads above the centre of its cluster at which a row is noise."""
AMID = 2.0
"""Spreads above the centre of its cluster up to which a row lies well inside it."""
SPARSE = 2.0
"""Spreads of all rows above their centre at which a whole cluster is too sparse to be a measure for its rows."""
FAR_OUT = 3.0
"""Spreads of all rows above their centre beyond which a row is left out of the kernel, if such rows are trimmed."""
LEAST_SPREAD = 0.05
"""Least spread of log distances: distances to neighbours vary by at least a twentieth, even if a sample does not."""
LEAST_OF_SCORES = 0.2
"""Least spread by which rows are scored, so that noise is at least exp(.8) = 2.2 times as far from its neighbours as is
usual in its cluster. With many columns, distances vary so little that rows which only err, such as a spike on which
another one falls, would be noise at a distance of 1.2 times the usual one."""
BIN, WINDOW = 0.1, 3
"""Width of a bin of log distances, and bins whose rows are counted together: of distances up to 1.35 times as large."""
CERTAIN, WITHOUT_ANY = 4.0, 2.0
"""Standard errors by which noise must stand out beyond a gap, and those that must be left without any one cluster."""
DEPTH = 0.3
"""Share of these rows by which the gap must have fewer."""
TIED = 1e-3
"""Spread below which most distances are equal, as between rows of integers, so that the median deviation is useless."""
MEDIAN_TO_DEVIATION = 1.4826
MEAN_TO_DEVIATION = 1.2533
"""Standard deviations of a Gaussian in one median, or mean, absolute deviation."""


class Spacing(NamedTuple):
    """Distances between neighbours in every cluster.

    Parameters
    ----------
    center, spread : ndarray of float64, shape (c,), or () for a single cluster or all rows
        Median of the log distance to the t-th neighbour, and its standard deviation, estimated from the median absolute
        deviation. An infinite centre means that nothing is known, and no row is noise.
    """

    center: np.ndarray
    spread: np.ndarray


def log_distance(sigma: Any) -> Floats:
    """Natural logarithm of distances to the t-th neighbour, float64; -inf for a row that has t copies."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(sigma, np.float64))


def spacing(
    log_sigma: Floats, labels: Integers, in_common: NDArray[np.bool_], n_clusters: int
) -> tuple[Spacing, Spacing]:
    """Centre and spread of the log distances of every cluster.

    With M and S the centre and spread of all rows, a cluster with a centre m above ``M + 2 S`` is considered to consist
    of noise: its rows are compared with M and S. So are those of a cluster without distances above 0. If most rows are
    noise then, as m is above ``M + 4 S``, so are all that are not much nearer to others: down to ``m - .8``, which is
    four times the least spread by which rows are scored.

    Parameters
    ----------
    log_sigma : ndarray of float64, shape (s,)
        Of sampled rows.
    labels : ndarray of int, shape (s,)
    in_common : ndarray of bool, shape (s,)
        Rows that belong to the sample of all rows.
    n_clusters : int

    Returns
    -------
    of_clusters : Spacing
    of_all : Spacing
        M and S, of shape ().
    """
    of_all = _center_and_spread(log_sigma[in_common])
    found = [_center_and_spread(log_sigma[labels == y]) for y in range(n_clusters)]
    taken = [_measure(one, of_all) for one in found]
    return Spacing(*(np.array(values, np.float64) for values in zip(*taken, strict=True))), of_all


def _measure(own: Spacing, of_all: Spacing) -> Spacing:
    """Centre and spread with which the rows of a cluster are compared: its own, unless it may consist of noise."""
    if own.center <= of_all.center + SPARSE * of_all.spread:
        return own
    limit = of_all.center + THRESHOLD * np.maximum(of_all.spread, LEAST_OF_SCORES)
    inner = own.center - THRESHOLD * LEAST_OF_SCORES
    if inner < limit < own.center:
        return Spacing(inner - THRESHOLD * LEAST_OF_SCORES, np.array(LEAST_OF_SCORES))
    return of_all


def gap(log_sigma: Floats, labels: Integers, counts: NDArray[Any]) -> float:
    """Log distance between the rows of clusters and noise that lies among them.

    Where rows become sparser towards the borders of their cluster, their number falls with the distance to their
    neighbours. Noise of one density lies at one distance from its neighbours, whichever cluster it was given to. So the
    number, summed over clusters, rises again; and where it is least before, the gap is. Only the clusters are counted
    whose median is below it: those beyond are as sparse as noise.

    Parameters
    ----------
    log_sigma : ndarray of float64, shape (s,)
        Of sampled rows.
    labels : ndarray of int, shape (s,)
    counts : ndarray, shape (c,)
        Rows of each cluster; each of its sampled rows counts for as many as it was drawn from.

    Returns
    -------
    gap : float
        Infinite if the number does not rise by :data:`CERTAIN` standard errors, by :data:`WITHOUT_ANY` without any one
        cluster if there are several, and so that :data:`DEPTH` of the rows are missing in the gap.
    """
    known = np.isfinite(log_sigma)
    log_sigma, labels = log_sigma[known], labels[known]
    if not len(log_sigma):
        return np.inf
    center = np.median(log_sigma)  # so that the bins do not depend on the unit of the rows
    first, last = ((find(log_sigma) - center) / BIN for find in (np.min, np.max))
    edges = center + BIN * np.arange(np.floor(first) - 1, np.ceil(last) + WINDOW + 1)
    medians, drawn = np.full(len(counts), np.inf), np.zeros((len(counts), len(edges) - 1))
    order = np.argsort(labels, kind="stable")
    found, starts = np.unique(labels[order], return_index=True)
    for y, of_cluster in zip(found, np.split(log_sigma[order], starts[1:]), strict=True):
        medians[y], drawn[y] = np.median(of_cluster), _in_bins(of_cluster, edges)
    weights = counts / np.maximum(np.bincount(labels, minlength=len(counts)), 1)
    rows = weights[:, None] * np.lib.stride_tricks.sliding_window_view(drawn, WINDOW, axis=1).sum(axis=2)
    least, fewest = np.inf, np.inf
    for j in range(rows.shape[1] - WINDOW):
        here = medians <= edges[j]
        peak = j + WINDOW + int(np.argmax(rows[here, j + WINDOW :].sum(axis=0)))
        n_rows = rows[here, j].sum()
        if n_rows < fewest and _stands_out(rows[here, peak], rows[here, j], weights[here], len(found) > 1):
            least, fewest = edges[j] + BIN * WINDOW / 2, n_rows
    return float(least)


def _in_bins(values: Floats, edges: Floats) -> Floats:
    """Number of values between edges; equal ones are spread halfway to the next ones, as bins between are not empty."""
    distinct, n = np.unique(values, return_counts=True)
    between = np.concatenate([distinct[:1] - BIN / 2, (distinct[1:] + distinct[:-1]) / 2, distinct[-1:] + BIN / 2])
    return np.diff(np.interp(edges, between, np.append(0, np.cumsum(n))))


def _stands_out(peak: Floats, gap: Floats, weights: Floats, in_several: bool) -> bool:
    """Whether clusters have more rows at the peak than in the gap, and several have, if that is asked; arrays (k,)."""
    if gap.sum() >= (1 - DEPTH) * peak.sum():
        return False
    difference, variance = peak - gap, weights * (peak + gap)
    one = weights.mean()  # as if one more had been drawn: a few rows beyond an empty gap are no evidence
    if difference.sum() < CERTAIN * np.sqrt(variance.sum() + one):
        return False
    without = difference.sum() - difference, variance.sum() - variance
    return not in_several or bool(np.all(without[0] >= WITHOUT_ANY * np.sqrt(without[1] + one)))


def for_scores(spacing: Spacing, gap: float = np.inf) -> Spacing:
    """Spacing by which rows are scored: with spreads of at least :data:`LEAST_OF_SCORES`.

    Rows beyond the gap to noise are noise: all of a cluster whose centre is beyond it, and those of others as far as
    spreads this small allow. If they do not, as the centre is near to the gap, it is moved if rows a spread below are
    far enough from it: then it is the median of a cluster and of noise, and not of a sparse cluster.
    """
    known = np.where(np.isinf(spacing.center), -np.inf, spacing.center)
    inner = gap - THRESHOLD * LEAST_OF_SCORES
    is_moved = (known >= gap) | ((known > inner) & (known - spacing.spread <= inner))
    center = np.where(is_moved, inner, spacing.center)
    spread = np.minimum(spacing.spread, (gap - np.where(is_moved, inner, known)) / THRESHOLD)
    return Spacing(center, np.maximum(spread, LEAST_OF_SCORES))


def _center_and_spread(log_sigma: Floats) -> Spacing:
    """Centre and spread of the distances above 0, as rows with t copies are not informative about the others."""
    positive = log_sigma[np.isfinite(log_sigma)]
    if not len(positive):
        return Spacing(np.array(np.inf), np.array(1.0))
    center = np.median(positive)
    deviations = np.abs(positive - center)
    spread = MEDIAN_TO_DEVIATION * np.median(deviations)
    if spread < TIED:
        spread = MEAN_TO_DEVIATION * deviations.mean()
    return Spacing(np.array(center), np.maximum(spread, LEAST_SPREAD))


def distance(sigma: Any, spreads: float) -> float:
    """Distance to the t-th neighbour that is some spreads above the centre: ``exp(M + spreads S)``.

    Parameters
    ----------
    sigma : ndarray of float32, shape (s,)
        Distances of a sample of all rows.
    spreads : float
        Such as :data:`AMID`, or :data:`FAR_OUT`.
    """
    of_all = _center_and_spread(log_distance(sigma))
    return float(np.exp(of_all.center + spreads * of_all.spread))


def share(sigma: Any) -> float:
    """Share of rows that are noise among all rows, :data:`THRESHOLD` spreads above the centre; see :func:`distance`."""
    return float(np.mean(np.asarray(sigma) > distance(sigma, THRESHOLD)))


def scores(log_sigma: Floats, labels: Integers, spacing: Any) -> Floats:
    """Score of how far each row lies outside of its cluster.

    ``logistic((l - m) / s - 4)``, with l the log distance of the row, m and s the centre and spread of its cluster.

    Parameters
    ----------
    log_sigma : ndarray of float64, shape (b,)
    labels : ndarray of int, shape (b,)
    spacing : Spacing
        See :func:`for_scores`.

    Returns
    -------
    scores : ndarray of float32, shape (b,)
        0 to 1; above .5 if the row is noise.
    """
    known = np.isfinite(spacing.center)[labels] & (log_sigma > -np.inf)
    z = np.full(len(log_sigma), -np.inf)
    z[known] = (log_sigma[known] - spacing.center[labels[known]]) / spacing.spread[labels[known]]
    return np.exp(-np.logaddexp(0.0, THRESHOLD - z)).astype(np.float32)


def is_amid(log_sigma: Floats, labels: Integers, spacing: Spacing, spreads: float = AMID) -> NDArray[np.bool_]:
    """Whether each row lies well inside its cluster, at most so many spreads above the centre; bool, (b,).

    Parameters are those of :func:`scores`.
    """
    found: NDArray[np.bool_] = log_sigma <= spacing.center[labels] + spreads * spacing.spread[labels]
    return found


def is_noise(scores: Floats) -> NDArray[np.bool_]:
    """Whether rows with these scores are in no cluster: ndarray of bool, shape (b,)."""
    return scores > 0.5
