"""The first classifier: k-means centres of a sample, and a few steps of logistic regression on their cells."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bigsmic.numerics.class_sums import class_sums
from bigsmic.numerics.hashing import generator
from bigsmic.numerics.objectives.rim.linear import (
    Linear,
    linear_gradient,
    linear_information,
    penalised,
    penalty,
    tiles,
)
from bigsmic.numerics.objectives.rim.logits import Reference, Weighting
from bigsmic.numerics.one_thread import one_thread
from bigsmic.types import Floats, Integers

START_STEPS = 3  # of the supervised classifier; few, so that boundaries are soft and categories can die
LLOYD_STEPS = 10


def first_centers(X: Floats, k: int, seed: int, known: Floats | None = None) -> tuple[Floats, Integers]:
    """k-means centres of a sample, the initial categories; those that win no row are left out.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    k : int
        Centres, the known ones included.
    seed : int
    known : ndarray of float32, shape (l, d), optional
        Given centres, such as means of labelled classes, which come first and stay fixed. NaN for a class without a
        labelled row: its centre is found like those of the other categories.

    Returns
    -------
    centers : ndarray of float32, shape (at most max(k, l), d)
    labels : ndarray of int64, shape (m,)
    """
    given: Any = np.isfinite(np.empty((0, 1)) if known is None else known).all(axis=1)
    centers, labels = _centers(X, k, seed, None if known is None else known[given])
    return (centers, labels) if given.all() else _numbered(X, centers, labels, given)


def class_means(sums: Floats) -> NDArray[np.float32]:
    """Mean of the rows of each class, from :func:`~bigsmic.numerics.class_sums.class_sums`; NaN for one without rows.

    Parameters
    ----------
    sums : ndarray of float64, shape (l, d + 1)
        Sums of the rows of each class, and their number.

    Returns
    -------
    means : ndarray of float32, shape (l, d)
    """
    return (sums[:, :-1] / np.where(sums[:, -1:] > 0, sums[:, -1:], np.nan)).astype(np.float32)


def _numbered(X: Floats, centers: Floats, labels: Integers, given: NDArray[np.bool_]) -> tuple[Floats, Integers]:
    """Centres in the order of the known classes, those that were found in the places of classes without a given one.

    If too few were found, the mean of all rows takes the place of a centre, which wins no row.
    """
    places = np.flatnonzero(given)
    free = np.setdiff1d(np.arange(len(given) + len(centers)), places)
    number = np.concatenate([places, free])[: len(centers)]
    numbered = np.tile(X.mean(axis=0), (max(len(given), int(number.max(initial=-1)) + 1), 1))
    numbered[number] = centers
    return numbered, number[labels]


def _centers(X: Floats, k: int, seed: int, known: Floats | None) -> tuple[Floats, Integers]:
    """k-means centres, of which the known ones come first and stay fixed, and labels."""
    n_known = 0 if known is None else len(known)
    centers = _spread(X, k, generator(seed, "first_centers"), known)
    for _ in range(LLOYD_STEPS):
        labels = _nearest(X, centers)
        sums = class_sums(X, labels, len(centers))
        means = sums[:, :-1] / np.maximum(sums[:, -1:], 1)
        means[:n_known] = centers[:n_known]
        kept = sums[:, -1] > 0
        kept[:n_known] = True
        centers = means[kept].astype(np.float32)
    labels = _nearest(X, centers)
    kept = np.bincount(labels, minlength=len(centers)) > 0
    kept[:n_known] = True
    return centers[kept], (np.cumsum(kept) - 1)[labels]


def _spread(X: Floats, k: int, rng: np.random.Generator, known: Floats | None) -> Floats:
    """Known centres, and rows by greedy k-means++ (Arthur and Vassilvitskii 2007; the variant of scikit-learn).

    Of a few rows drawn with a probability that grows with the squared distance from earlier centres, the one that
    leaves the smallest sum of squares. A single draw puts two centres into one cluster where the sum is spread thin.
    """
    centers = [X[rng.integers(len(X))]] if known is None or not len(known) else list(known)
    distance = np.min([_squares(X, center) for center in centers], axis=0)
    draws, lengths = 2 + int(np.log(k)), np.einsum("ij,ij->i", X, X)
    while len(centers) < k and distance.sum() > 0:
        total = np.cumsum(distance, dtype=np.float64)
        drawn = np.searchsorted(total, rng.random(draws) * total[-1], side="right")
        tried = X[np.minimum(drawn, len(X) - 1)]
        centers.append(tried[np.argmin(_sums_of_squares(X, lengths, tried, distance))])
        np.minimum(distance, _squares(X, centers[-1]), out=distance)
    return np.array(centers, np.float32)


def _sums_of_squares(X: Floats, lengths: Floats, tried: Floats, distance: Floats) -> Floats:
    """What each of the tried rows (t, d) would leave of the sum of squared distances, but for rounding: float64, (t,).

    `lengths` (m,) are the squared lengths of rows X, `distance` (m,) their squared distances from the nearest centre.
    """
    sums, of_tried = np.zeros(len(tried)), np.einsum("ij,ij->i", tried, tried)
    for rows in tiles(len(X)):
        squares = lengths[rows, None] + of_tried - 2 * (X[rows] @ tried.T)
        sums += np.minimum(distance[rows, None], squares).sum(axis=0, dtype=np.float64)
    return sums


def _squares(X: Floats, row: Floats) -> Floats:
    """Squared distances from one row, exactly 0 where they coincide."""
    apart = X - row
    return np.einsum("ij,ij->i", apart, apart)


def _nearest(X: Floats, centers: Floats) -> Integers:
    norms = np.einsum("ij,ij->i", centers, centers)
    return np.concatenate([(norms - 2 * (X[rows] @ centers.T)).argmin(axis=1) for rows in tiles(len(X))])


def ordered_by_prior(labels: Integers, k: int, prior: Any) -> Integers:
    """Labels with the numbers of the categories exchanged so that larger ones have the larger share of a prior.

    The objective is largest then, and an ascent does not exchange categories that lie apart.

    Parameters
    ----------
    labels : ndarray of int, shape (m,)
    k : int
        Categories.
    prior : None, "power" or sequence of float, at least k
        Labels are as they were unless it has a share for each category.

    Returns
    -------
    labels : ndarray of int64, shape (m,)
    """
    if prior is None or isinstance(prior, str):
        return labels
    number = np.empty(k, np.int64)
    by_size = np.argsort(-np.bincount(labels, minlength=k), kind="stable")
    number[by_size] = np.argsort(-np.asarray(prior)[:k], kind="stable")
    return number[labels]


def supervised_start(X: Floats, labels: Integers, k: int, reg: float) -> Linear:
    """A few steps of the supervised classifier towards given labels, from all categories equal.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    labels : ndarray of int, shape (m,)
    k : int
    reg : float

    Returns
    -------
    model : Linear
    """
    weighting = Weighting(np.full(len(X), 1 / len(X), np.float32), labels)
    nothing = Reference(np.zeros(k), 0.0)

    def loss(vector: Floats) -> tuple[float, Floats]:
        model = Linear.of_vector(vector, X.shape[1])
        sums = linear_information(X, model, weighting)
        slope = linear_gradient(X, model, nothing, weighting)
        return penalty(model, reg) - float(sums.log_likelihood), -penalised(slope, model, reg)

    with one_thread():
        start = Linear.zeros(X.shape[1], k).vector
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": START_STEPS})
    return Linear.of_vector(found.x, X.shape[1])
