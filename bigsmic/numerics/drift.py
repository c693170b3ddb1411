"""Tests of whether new rows differ from those of a fit by more than stretches of the fit differ from each other.

Successive windows of a recording are dependent, so that their number does not tell how much shares and means vary. The
fitted rows are cut into batches as long as the stretch of new rows: without drift, the new rows are one more batch, so
that they are compared with the variation between batches. The length of the dependence need not be known, as with batch
means in simulation [1]_.

References
----------
.. [1] Law, Kelton, "Confidence intervals for steady-state simulations: I", Operations Research 32(6), 1984.
"""

from typing import NamedTuple

import numpy as np

from bigsmic.types import Floats

LEVEL = 0.001
"""Significance level of each test. Tails are longer than assumed if an update has few regimes; with this level, fewer
than one update in a hundred gives a false alarm."""
LEAST_BATCHES = 6
LEAST_CLUSTER_ROWS = 5
"""Least number of sampled rows of a cluster in a batch for its mean to be compared."""
LEAST_UPDATES = 8
"""Least number of earlier updates for confidence to be compared."""
RECENT_UPDATES = 8
"""Number of updates whose shares are compared together: if regimes last long, one update has too few of them."""
MARGIN = 0.2
"""A logarithm that exceeds those of all batches by less than this is not called drift, however small its probability by
Student's t. If an update has few regimes, distances have longer tails."""
LEAST_DEVIATION = 0.05
"""Least standard deviation of the logarithms of distances between batches."""


class Batches(NamedTuple):
    """Statistics of K stretches of rows; new rows are one stretch.

    Parameters
    ----------
    counts : ndarray of float64, shape (K, c)
        Rows of every cluster.
    sampled : ndarray of float64, shape (K, c) or (K, c + 1)
        Sampled rows of every cluster, from which `sums` is computed; the last of c + 1 are those in no cluster.
    sums : ndarray of float64, shape (K, c, d)
        Sums of the scaled rows.
    novel : ndarray of float64, shape (K,)
        Sampled rows of a novelty above 1, also in no cluster: a regime that the fit has not seen may be noise.
    """

    counts: np.ndarray
    sampled: np.ndarray
    sums: np.ndarray
    novel: np.ndarray


def shares(reference: Batches, new: Batches, length: float) -> dict[str, float]:
    """Compare shares of clusters: chi-square with an effective sample size estimated from the batches.

    ``S = 4 sum_y (sqrt q_y - sqrt p_y)^2`` [1]_, q being the shares of the new rows, p those of the batches; the mean
    of the same distance between each batch and the others gives the number of independent rows that a batch is worth,
    ``n_eff = (c - 1) / mean S``. Then ``n_eff S / (c - 1)`` is compared with the F distribution, whose first degrees of
    freedom follow from the variance of the batches' distances. The square roots of the distances are compared as well,
    and the larger p is taken.

    Parameters
    ----------
    reference, new : Batches
        Of K stretches, and of one.
    length : float
        New rows, in lengths of a batch.

    Returns
    -------
    found : dict
        ``p``, ``chi_square``, ``n_eff``, the ``cluster`` whose share has changed most, this share ``before`` and
        ``now``.

    References
    ----------
    .. [1] Freeman, Tukey, "Transformations related to the angular and the square root", Annals of Mathematical
       Statistics 21(4), 1950. Unlike Pearson's, its chi-square is not dominated by a rare cluster.
    """
    n_batches = len(reference.counts)
    c = int(((reference.counts.sum(axis=0) > 0) | (new.counts[0] > 0)).sum())
    p = reference.counts.sum(axis=0) / reference.counts.sum()
    of_batch = reference.counts / np.maximum(reference.counts.sum(axis=1, keepdims=True), 1)
    q = new.counts[0] / new.counts.sum()
    others = (of_batch.sum(axis=0) - of_batch) / (n_batches - 1)
    distances = _freeman_tukey(of_batch, others).sum(axis=1) * (n_batches - 1) / n_batches
    changes = _freeman_tukey(q, p)
    distance = changes.sum() / (1 / length + 1 / n_batches)
    usual = max(float(distances.mean()), 1e-12)
    freedom = float(np.clip(2 * usual**2 / max(distances.var(), 1e-24), 1, max(c - 1, 1)))
    y = int(np.argmax(changes))
    by_roots = _tail(np.sqrt(distances / usual), np.sqrt(distance / usual), 1.0, LEAST_DEVIATION)
    return {
        "p": max(_f_tail(distance / usual, freedom, freedom * (n_batches - 1)), by_roots),
        "chi_square": float(distance / usual * max(c - 1, 1)),
        "n_eff": float(max(c - 1, 1) / usual),
        "cluster": y,
        "before": float(p[y]),
        "now": float(q[y]),
    }


def recent_shares(reference: Batches, new: Batches, before: Floats, length: float) -> dict[str, float]:
    """Compare shares of clusters over the new rows and those of earlier updates together; see :func:`shares`.

    An update of m rows in regimes that last h rows is worth about ``m / 2 h`` independent rows, and ten of these do not
    show that a share has halved. Several updates are worth the sum of theirs.

    Parameters
    ----------
    reference, new, length
        As in :func:`shares`.
    before : ndarray of float64, shape (updates, c)
        Rows of every cluster in earlier updates, of which the last ones are used.

    Returns
    -------
    found : dict
        As in :func:`shares`, and the number of updates, ``nights``.
    """
    before = before[1 - RECENT_UPDATES :]
    counts = new.counts + before.sum(axis=0)
    together = new._replace(counts=counts)
    found = shares(reference, together, length * counts.sum() / new.counts.sum())
    return found | {"nights": len(before) + 1}


def _freeman_tukey(shares: Floats, expected: Floats) -> Floats:
    """``4 (sqrt q - sqrt p)^2`` of every cluster; the sum over clusters, times the rows, is a chi-square."""
    return 4 * np.square(np.sqrt(shares) - np.sqrt(expected))


def novelty(reference: Batches, new: Batches, length: float) -> dict[str, float]:
    """Compare the share of novel rows, by its logarithm: that of the new rows above those of the batches.

    Where the batches have next to no novel rows, logarithms do not vary, and one row would be drift. So the probability
    of as many rows by chance, at a share of ``(m + 1) / (n + 2)`` for m novel ones of n, is computed as well, and the
    larger p is taken.

    Returns
    -------
    found : dict
        ``p``, the share ``before`` and ``now``.
    """
    n = reference.sampled.sum(axis=1)
    n_now = new.sampled.sum()
    now = float(new.novel[0] / n_now)
    logs = np.log((reference.novel + 0.5) / (n + 1)), np.log((new.novel[0] + 0.5) / (n_now + 1))
    by_chance = _binomial_tail(new.novel[0], n_now, (reference.novel.sum() + 1) / (n.sum() + 2))
    p = max(_tail(*logs, length, LEAST_DEVIATION), by_chance)
    return {"p": p, "before": float(reference.novel.sum() / max(n.sum(), 1)), "now": now}


def shift(reference: Batches, new: Batches, spreads: Floats, length: float) -> dict[str, float]:
    """Compare means of the columns within clusters: their distance from those of the batches.

    ``D = sum_y w_y mean_j ((m_yj - M_yj) / s_yj)^2``, m being the means of a sample of the new rows, M those of all
    batches, s the spreads within clusters and w the shares of the sample. For a batch, M is the mean of the other
    batches. Logarithms of D are compared.

    Parameters
    ----------
    reference, new, length
        As in :func:`shares`.
    spreads : ndarray of float64, shape (c, d)

    Returns
    -------
    found : dict
        ``p``; the ``cluster`` and ``column`` that have shifted most, and ``by`` how many spreads.
    """
    sums, c = reference.sums, reference.sums.shape[1]
    sampled = reference.sampled[:, :c]
    total, rows = sums.sum(axis=0), sampled.sum(axis=0)
    batches = [_distance(sums[k], sampled[k], total - sums[k], rows - sampled[k], spreads) for k in range(len(sums))]
    known = np.array([distance for distance, _ in batches if distance > 0])
    distance, moved = _distance(new.sums[0], new.sampled[0, :c], total, rows, spreads)
    if len(known) < LEAST_BATCHES or not distance > 0:
        return {"p": 1.0, "cluster": 0, "column": 0, "by": 0.0}
    y, j = np.unravel_index(np.argmax(np.abs(moved)), moved.shape)
    p = _tail(np.log(known), np.log(distance), length, LEAST_DEVIATION)
    return {"p": p, "cluster": int(y), "column": int(j), "by": float(moved[y, j])}


def _distance(
    sums: Floats, rows: Floats, other_sums: Floats, other_rows: Floats, spreads: Floats
) -> tuple[float, Floats]:
    """Weighted squared distance between means, and the shifts in units of spreads, 0 for clusters with few rows."""
    used = (rows >= LEAST_CLUSTER_ROWS) & (other_rows >= LEAST_CLUSTER_ROWS)
    mean, other = (s / np.maximum(n, 1)[:, None] for s, n in ((sums, rows), (other_sums, other_rows)))
    moved = np.where(used[:, None], (mean - other) / spreads, 0.0)
    weights = np.where(used, rows, 0) / max(rows[used].sum(), 1)
    return float((weights * np.square(moved).mean(axis=1)).sum()), moved


def confidence(before: Floats, now: float) -> dict[str, float | None]:
    """Compare the mean of the largest posterior with that of earlier updates, if these are enough.

    Parameters
    ----------
    before : ndarray of float64, shape (updates,)
    now : float

    Returns
    -------
    found : dict
        ``p``, the mean ``before`` and ``now``.
    """
    enough = len(before) >= LEAST_UPDATES
    p = _tail(np.log1p(1e-6 - np.asarray(before)), np.log1p(1e-6 - now), 1.0, LEAST_DEVIATION) if enough else 1.0
    return {"p": p, "before": float(np.mean(before)) if len(before) else None, "now": float(now)}


def _tail(before: Floats, now: float, length: float, least: float) -> float:
    """Probability of a value as large as `now`, by Student's prediction interval of `before`; 1 within their range."""
    from scipy.special import stdtr

    if now <= np.max(before) + MARGIN:
        return 1.0
    n = len(before)
    deviation = max(float(np.std(before, ddof=1)), least)
    t = (now - np.mean(before)) / (deviation * np.sqrt(1 / length + 1 / n))
    return float(stdtr(n - 1, -t))


def _binomial_tail(count: float, n: float, share: float) -> float:
    """Probability of at least so many of n rows, each with that share."""
    from scipy.special import betainc

    return float(betainc(count, n - count + 1, share)) if count > 0 else 1.0


def _f_tail(value: float, first: float, second: float) -> float:
    from scipy.special import fdtrc

    return float(fdtrc(first, second, value))
