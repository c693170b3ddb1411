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
TIED = 1e-3
"""Spread below which most distances are equal, as between rows of integers, so that the median deviation is useless."""
MEDIAN_TO_DEVIATION = 1.4826
MEAN_TO_DEVIATION = 1.2533
"""Standard deviations of a Gaussian in one median, or mean, absolute deviation."""


class Spacing(NamedTuple):
    """Distances between neighbours in every cluster.

    Parameters
    ----------
    center, spread : ndarray of float64, shape (c,)
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
    log_sigma: Floats, labels: Integers, n_clusters: int, in_common: NDArray[np.bool_]
) -> tuple[Spacing, Spacing]:
    """Centre and spread of the log distances of every cluster.

    With M and S the centre and spread of all rows, a cluster with a centre above ``M + 2 S`` is considered to consist
    of noise: its rows are compared with M and S. So are those of a cluster without distances above 0.

    Parameters
    ----------
    log_sigma : ndarray of float64, shape (s,)
        Of sampled rows.
    labels : ndarray of int, shape (s,)
    n_clusters : int
    in_common : ndarray of bool, shape (s,)
        Rows that belong to the sample of all rows.

    Returns
    -------
    of_clusters : Spacing
    of_all : Spacing
        M and S, of shape ().
    """
    of_all = _center_and_spread(log_sigma[in_common])
    found = [_center_and_spread(log_sigma[labels == y]) for y in range(n_clusters)]
    limit = of_all.center + SPARSE * of_all.spread
    taken = [of_all if one.center > limit or np.isinf(one.center) else one for one in found]
    return Spacing(*(np.array(values, np.float64) for values in zip(*taken, strict=True))), of_all


def for_scores(spacing: Spacing) -> Spacing:
    """Spacing by which rows are scored: with spreads of at least :data:`LEAST_OF_SCORES`."""
    return spacing._replace(spread=np.maximum(spacing.spread, LEAST_OF_SCORES))


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


def is_amid(log_sigma: Floats, labels: Integers, spacing: Spacing) -> NDArray[np.bool_]:
    """Whether each row lies well inside its cluster, at most :data:`AMID` spreads above the centre; bool, (b,).

    Parameters are those of :func:`scores`.
    """
    found: NDArray[np.bool_] = log_sigma <= spacing.center[labels] + AMID * spacing.spread[labels]
    return found


def is_noise(scores: Floats) -> NDArray[np.bool_]:
    """Whether rows with these scores are in no cluster: ndarray of bool, shape (b,)."""
    return scores > 0.5
