"""Novelty: distances of rows from the rows that determine their labels, relative to the usual distances there.

Where principal components take the place of columns, distances get back what they leave of the rows
(:func:`~bigsmic.numerics.principal_axes.over_all_columns`), so that a row with an artefact to which they are blind is
novel.

Noise and novelty both use the distance of a row to its t-th neighbour. Noise compares it with the distances in its
cluster (:mod:`bigsmic.numerics.labeling.noise`), novelty with those of its neighbours, as local outlier factors do
[1]_. Fitted rows of a sparse background have equally sparse neighbours, and are noise but not novel. A new row beside a
dense cluster is novel at a distance that is usual in a sparse one.

References
----------
.. [1] Breunig, Kriegel, Ng, Sander, "LOF: identifying density-based local outliers", SIGMOD 2000.
   doi:10.1145/342009.335388
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.types import Floats, Integers

SHARE = 0.01
"""Share of the fitted rows that have a novelty above 1."""
FLOOR = 0.1
"""Least usual distance, as a share of the median distance to the t-th neighbour."""
LEAST_LIMIT = 1.0
MOST_TRUSTED = 3.0
"""Largest value of the novelty above which posteriors are tempered."""
LEAST_SPREAD = 0.05
"""Least spread of a column within a cluster, as a share of that over all rows."""
_TILE_ENTRIES = 1 << 20  # of rows that are taken as float64 at a time, several times


class Scale(NamedTuple):
    """Scale of ratios of distances.

    Parameters
    ----------
    limit : float
        Ratio that corresponds to a novelty of 1: the quantile ``1 - SHARE`` of fitted rows, and at least 1.
    floor : float
        Least usual distance.
    """

    limit: float
    floor: float


def floor_of(sigma: Floats) -> float:
    """Least usual distance: a tenth of the median of those above 0; 1 if there are none.

    Parameters
    ----------
    sigma : ndarray of float, shape (m,)
        Distances of sampled rows to their t-th neighbours.
    """
    positive = sigma[sigma > 0]
    return FLOOR * float(np.median(positive)) if len(positive) else 1.0


def limit_of(ratios: Floats) -> float:
    """Ratio that corresponds to a novelty of 1, from the ratios of sampled fitted rows."""
    ratios = ratios[np.isfinite(ratios)]
    return max(float(np.quantile(ratios, 1 - SHARE)), LEAST_LIMIT) if len(ratios) else LEAST_LIMIT


def neighbor_ratios(distances: Floats, neighbor_sigma: Floats, floor: float) -> NDArray[np.float64]:
    """Distance to the t-th neighbour over the mean of those of the neighbours.

    Parameters
    ----------
    distances : ndarray of float, shape (b,)
    neighbor_sigma : ndarray of float, shape (b,)
        Mean distance of the t neighbours to their own t-th neighbours.
    floor : float

    Returns
    -------
    ratios : ndarray of float64, shape (b,)
        1 if both are infinite, as in a graph whose rows have fewer than t neighbours.
    """
    distances, usual = np.asarray(distances, np.float64), np.maximum(neighbor_sigma, floor)
    known = np.isfinite(distances) | np.isfinite(usual)
    return np.divide(distances, usual, out=np.ones(len(distances)), where=known)


class Shapes(NamedTuple):
    """Mean and spread of every column in every cluster, for models without neighbours.

    Parameters
    ----------
    means, spreads : ndarray of float64, shape (c, d)
    """

    means: np.ndarray
    spreads: np.ndarray

    def ratios(self, X: Floats, labels: Integers) -> Floats:
        """Root mean square over columns of the deviation from the cluster's mean, in its spreads: shape (b,)."""
        z = (X - self.means[labels]) / self.spreads[labels]
        return np.sqrt((z * z).mean(axis=1))


def left_out_ratios(X: Floats, labels: Integers, found: Shapes) -> NDArray[np.float64]:
    """Ratios of fitted rows to the shapes of their clusters, each without the row itself.

    The row is left out because a row of a small cluster is nearer to a mean that includes it than a new row is.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    labels : ndarray of int, shape (m,)
    found : Shapes
        Of these rows.

    Returns
    -------
    ratios : ndarray of float64, shape (k,)
        For rows of clusters with at least three rows.
    """
    counts = np.bincount(labels, minlength=len(found.means))
    kept = np.flatnonzero(counts[labels] > 2)
    step = max(1, _TILE_ENTRIES // X.shape[1])  # as several arrays of the rows in float64 would be large
    tiles = (kept[lo : lo + step] for lo in range(0, len(kept), step))
    parts = [_left_out_ratios(X[tile], labels[tile], counts, found) for tile in tiles]
    return np.concatenate([np.zeros(0), *parts])


def _left_out_ratios(X: Floats, labels: Integers, counts: Integers, found: Shapes) -> NDArray[np.float64]:
    X, n = np.asarray(X, np.float64), counts[labels][:, None].astype(np.float64)
    squares, variance = np.square(X - found.means[labels]), np.square(found.spreads[labels])
    without = (n * variance - n / (n - 1) * squares) / (n - 1)
    without = np.maximum(without, np.square(LEAST_SPREAD) * variance)
    return np.sqrt(((n / (n - 1)) ** 2 * squares / without).mean(axis=1))


def shapes(X: Floats, labels: Integers, n_clusters: int) -> Shapes:
    """Shapes of clusters; a cluster without rows gets that of all rows.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    labels : ndarray of int, shape (m,)
    n_clusters : int
    """
    d = X.shape[1]
    n_tiles = max(1, min(X.size // _TILE_ENTRIES, d // 2))  # of two columns or more: sums of one have another order
    bounds = [i * d // n_tiles for i in range(n_tiles + 1)]
    parts = [_shapes(X[:, lo:hi], labels, n_clusters) for lo, hi in pairwise(bounds)]
    return Shapes(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))


def _shapes(X: Floats, labels: Integers, n_clusters: int) -> Shapes:
    X = np.asarray(X, np.float64)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    least = np.where(spread > 0, LEAST_SPREAD * spread, 1.0)
    found = Shapes(np.tile(mean, (n_clusters, 1)), np.tile(np.maximum(spread, least), (n_clusters, 1)))
    for y in np.unique(labels[labels >= 0]):
        part = X[labels == y]
        found.means[y], found.spreads[y] = part.mean(axis=0), np.maximum(part.std(axis=0), least)
    return found


def trusted_of(fitted: Floats) -> float:
    """Novelty up to which posteriors are not tempered: the largest of sampled fitted rows, clipped to 1 to 3.

    Parameters
    ----------
    fitted : ndarray of float, shape (m,)
    """
    return float(np.clip(fitted.max(initial=1.0), 1.0, MOST_TRUSTED))


def tempered(posterior: Floats, novelty: Floats, uniform: Floats) -> Floats:
    """Posteriors, mixed with a uniform one for novel rows.

    ``p' = p / v^2 + (1 - 1 / v^2) u`` for a novelty v above 1; other rows are unchanged to the bit.

    Parameters
    ----------
    posterior : ndarray of float32, shape (b, c)
    novelty : ndarray of float32, shape (b,)
        In units of the trusted novelty.
    uniform : ndarray of float64, shape (c,)
        u: 1 over the number of clusters; 0 for columns without a cluster.

    Returns
    -------
    posterior : ndarray of float32, shape (b, c)
    """
    novel = novelty > 1
    if not novel.any():
        return posterior
    found = posterior.copy()
    trust = (1 / np.square(novelty[novel].astype(np.float64)))[:, None]
    found[novel] = trust * posterior[novel] + (1 - trust) * uniform
    return found
