"""Gaussians of the clusters, which have a say where labelings disagree or rows lie plainly in another cluster.

A graph tells clusters of any shape, but gives a row to the cluster of its neighbours; those of a row far out, a sum of
two spikes say, are rows of several clusters. The shape of a cluster tells more of such rows. So a row is given to

    argmax_y  log(v_y + e^-10) + log p_y(x),    p_y = n_y N(x; m_y, S_y),

v_y the share of the labelings that vote for y, and n_y, m_y and S_y rows, mean and covariance of the cluster's rows in
leading principal components. A row all labelings agree on moves only if the odds are over e^10.

Whether clusters have such shapes is seen on rows that labelings agree on and that lie amid their clusters: where
Gaussians confuse more than a few of them between two clusters, they have no say between these.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling.valleys import RIDGE, GroupMoments
from bigsmic.types import Floats, Integers

LEAST_VOTE = np.exp(-10.0)
"""Share of the votes that a cluster without a vote is taken to have."""
CONFUSED = 0.05
"""Share of a cluster's rows, of those that all agree on, that Gaussians may give to another one and yet be believed."""
FEWEST_ROWS = 2
"""Rows per component from which on the covariance of a cluster is one."""
_NOTHING = 1e-12


class Gaussians(NamedTuple):
    """Gaussian of every cluster.

    Parameters
    ----------
    means : ndarray of float64, shape (c, r)
    whiteners : ndarray of float64, shape (c, r, r)
        ``|A_y (x - m_y)|^2`` is the squared Mahalanobis distance.
    offsets : ndarray of float64, shape (c,)
        ``log n_y - log|S_y| / 2``; -inf of a cluster of too few rows.
    """

    means: np.ndarray
    whiteners: np.ndarray
    offsets: np.ndarray


def of_moments(moments: GroupMoments) -> Gaussians:
    """Gaussians of clusters whose rows, sums and outer products are known.

    Parameters
    ----------
    moments : GroupMoments

    Returns
    -------
    Gaussians
    """
    c, r = moments.sums.shape
    means, whiteners, offsets = np.zeros((c, r)), np.zeros((c, r, r)), np.full(c, -np.inf)
    for y in np.flatnonzero(moments.counts >= max(2, FEWEST_ROWS * r)):
        n = moments.counts[y]
        means[y] = moments.sums[y] / n
        S = moments.outers[y] / n - np.outer(means[y], means[y])
        S[np.diag_indices(r)] += RIDGE * np.trace(S) / r + _NOTHING
        L = np.linalg.cholesky(S)
        whiteners[y] = np.linalg.inv(L)
        offsets[y] = np.log(n) - np.log(np.diag(L)).sum()
    return Gaussians(means, whiteners, offsets)


def log_densities(P: Floats, gaussians: Gaussians) -> Floats:
    """``log p_y(x)`` but for a constant; float64, shape (b, c).

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
    """Rows of each cluster that Gaussians alone give to each: int64, shape (c, c); add over blocks.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
        Of rows that are sure, and whose clusters have Gaussians.
    densities : ndarray of float64, shape (b, c)
        Of :func:`log_densities`.
    """
    c = densities.shape[1]
    pairs = labels.astype(np.int64) * c + densities.argmax(axis=1)
    return np.bincount(pairs, minlength=c * c).reshape(c, c)


def believed(confused: Integers) -> NDArray[np.bool_]:
    """Whether Gaussians have a say between two clusters: bool, shape (c, c).

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
    """Labels of rows after Gaussians had their say.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
    votes : ndarray of float, shape (b, c)
        Shares of the labelings that vote for each cluster.
    densities : ndarray of float64, shape (b, c)
        Of :func:`log_densities`.
    may_move : ndarray of bool, shape (c, c)
        Of :func:`believed`.

    Returns
    -------
    labels : ndarray of int32, shape (b,)
    """
    found = (np.log(votes + LEAST_VOTE) + densities).argmax(axis=1)
    return np.where(may_move[labels, found], found, labels).astype(np.int32)


def halved(posterior: Floats, labels: Integers, changed: NDArray[np.bool_]) -> Floats:
    """Posteriors in which the new cluster of a row that moved has one half, and the votes share the other.

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
