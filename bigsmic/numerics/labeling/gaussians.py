"""Gaussians of the clusters, which relabel rows on which labelings disagree or that clearly lie in another cluster.

A graph finds clusters of any shape, but assigns a row to the cluster of its neighbours. The neighbours of an outlying
row, such as a sum of two spikes, belong to several clusters. The shapes of the clusters are more informative about such
rows. So a row gets the label

    argmax_y  log(v_y + e^-10) + log p_y(x),    p_y = n_y N(x; m_y, S_y),

with v_y the share of the labelings that vote for y, and n_y, m_y and S_y the number, mean and covariance of the
cluster's rows in leading principal components. A row on which all labelings agree moves only if the odds exceed e^10.

Whether Gaussians describe the clusters is tested on rows that lie well inside their clusters: if Gaussians confuse more
than a few of them between two clusters, they are not used between these two. Rows on which all labelings agree would
not show it: of two clusters that bend around each other, they leave out the ends.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling.group_moments import GroupMoments
from bigsmic.numerics.labeling.groups import RIDGE
from bigsmic.types import Floats, Integers

LEAST_VOTE = np.exp(-10.0)
"""Share of the votes assumed for a cluster without a vote."""
CONFUSED = 0.05
"""Largest share of a cluster's inner rows that Gaussians may assign to another one and still be used."""
FEWEST_ROWS = 2
"""Least rows per component for the covariance of a cluster to be estimated."""
_NOTHING = 1e-12  # share of the variance of all rows, for clusters that have none


class Gaussians(NamedTuple):
    """Gaussian of every cluster.

    Parameters
    ----------
    means : ndarray of float64, shape (c, r)
    whiteners : ndarray of float64, shape (c, r, r)
        ``|A_y (x - m_y)|^2`` is the squared Mahalanobis distance.
    offsets : ndarray of float64, shape (c,)
        ``log n_y - log|S_y| / 2``; -inf for a cluster of too few rows, or whose moments have no covariance.
    """

    means: np.ndarray
    whiteners: np.ndarray
    offsets: np.ndarray


def of_moments(moments: GroupMoments) -> Gaussians:
    """Gaussians of clusters from their moments.

    Parameters
    ----------
    moments : GroupMoments

    Returns
    -------
    Gaussians
    """
    c, r = moments.sums.shape
    least = _NOTHING * (_variance(moments) or 1.0)
    means, whiteners, offsets = np.zeros((c, r)), np.zeros((c, r, r)), np.full(c, -np.inf)
    for y in np.flatnonzero(moments.counts >= max(2, FEWEST_ROWS * r)):
        n = moments.counts[y]
        means[y] = moments.sums[y] / n
        S = moments.outers[y] / n - np.outer(means[y], means[y])
        S[np.diag_indices(r)] += max(RIDGE * np.trace(S) / r, least)
        try:
            L = np.linalg.cholesky(S)
        except np.linalg.LinAlgError:  # rows so far out that the difference of the moments is rounding
            continue
        whiteners[y] = np.linalg.inv(L)
        offsets[y] = np.log(n) - np.log(np.diag(L)).sum()
    return Gaussians(means, whiteners, offsets)


def _variance(moments: GroupMoments) -> float:
    """Mean variance of a component over the rows of all clusters; their unit is that of the rows, whatever it is."""
    n = max(float(moments.counts.sum()), 1.0)
    squares = float(np.trace(moments.outers.sum(axis=0))) / n
    return max(squares - float(np.square(moments.sums.sum(axis=0) / n).sum()), 0.0) / moments.sums.shape[1]


def log_densities(P: Floats, gaussians: Gaussians) -> Floats:
    """``log p_y(x)`` up to a constant; float64, shape (b, c).

    Parameters
    ----------
    P : ndarray of float32, shape (b, r)
        Principal components of the rows.
    gaussians : Gaussians
    """
    found = np.full((len(P), len(gaussians.offsets)), -np.inf)
    P = P.astype(np.float64)
    for y in np.flatnonzero(np.isfinite(gaussians.offsets)):
        z = (P - gaussians.means[y]) @ gaussians.whiteners[y].T
        found[:, y] = gaussians.offsets[y] - 0.5 * np.einsum("ij,ij->i", z, z)
    return found


def confusion(labels: Integers, densities: Floats) -> Integers:
    """Count the rows of each cluster that Gaussians alone assign to each: int64, shape (c, c); add over blocks.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
        Of rows whose clusters have Gaussians.
    densities : ndarray of float64, shape (b, c)
        From :func:`log_densities`.
    """
    c = densities.shape[1]
    pairs = labels.astype(np.int64) * c + densities.argmax(axis=1)
    return np.bincount(pairs, minlength=c * c).reshape(c, c)


def believed(confused: Integers) -> NDArray[np.bool_]:
    """Whether Gaussians are used between two clusters: bool, shape (c, c).

    Parameters
    ----------
    confused : ndarray of int64, shape (c, c)
        Total of :func:`confusion`.
    """
    shares = confused / np.maximum(confused.sum(axis=1, keepdims=True), 1)
    told = confused.sum(axis=1) > 0
    few = np.maximum(shares, shares.T) <= CONFUSED
    return few & told & told[:, None]


def moved(labels: Integers, votes: Floats, densities: Floats, may_move: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Labels of rows after relabelling by Gaussians.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
    votes : ndarray of float, shape (b, c)
        Shares of the labelings that vote for each cluster.
    densities : ndarray of float64, shape (b, c)
        From :func:`log_densities`.
    may_move : ndarray of bool, shape (c, c)
        From :func:`believed`.

    Returns
    -------
    labels : ndarray of int32, shape (b,)
    """
    found = (np.log(votes + LEAST_VOTE) + densities).argmax(axis=1)
    return np.where(may_move[labels, found], found, labels).astype(np.int32)


def halved(posterior: Floats, labels: Integers, changed: NDArray[np.bool_]) -> Floats:
    """Posteriors in which the new cluster of a row that moved gets one half, and the former posterior the other half.

    Parameters
    ----------
    posterior : ndarray of float32, shape (b, c)
    labels : ndarray of int, shape (b,)
    changed : ndarray of bool, shape (b,)

    Returns
    -------
    posterior : ndarray of float32, shape (b, c)
    """
    found, rows = posterior.copy(), np.flatnonzero(changed)
    found[rows] *= np.float32(0.5)
    found[rows, labels[rows]] += np.float32(0.5)
    return found
