"""The objective of a linear classifier: sums and gradients of a block of rows, tile by tile."""

from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bigsmic.numerics.objectives.rim.logits import (
    EVERY_ROW,
    Information,
    Reference,
    Weighting,
    information,
    log_softmax,
    logit_gradient,
)
from bigsmic.numerics.products import row_product
from bigsmic.types import Floats, Integers

TILE_ROWS = 2048  # rows whose posteriors fit in the cache, and few enough for float32 sums


class Linear(NamedTuple):
    """A linear classifier: ``z = W' x + b``.

    Parameters
    ----------
    W : ndarray of float, shape (d, k)
    b : ndarray of float, shape (k,)
    """

    W: np.ndarray
    b: np.ndarray

    @classmethod
    def zeros(cls, d: int, k: int, dtype: DTypeLike = np.float32) -> "Linear":
        """All categories equally probable everywhere."""
        return cls(np.zeros((d, k), dtype), np.zeros(k, dtype))

    @classmethod
    def of_vector(cls, vector: Floats, d: int, dtype: DTypeLike = np.float32) -> "Linear":
        """From W and b in one vector, of length (d + 1) k."""
        theta = np.asarray(vector).reshape(d + 1, -1).astype(dtype)
        return cls(theta[:-1], theta[-1])

    @property
    def vector(self) -> Floats:
        """W and b in one vector of float64."""
        return np.concatenate([self.W, self.b[None]]).astype(np.float64).ravel()

    @property
    def n_categories(self) -> int:
        """Number of categories, k."""
        return len(self.b)

    def columns(self, kept: NDArray[np.bool_] | Integers) -> "Linear":
        """A copy with some of the categories only: a mask, or their numbers."""
        return Linear(np.ascontiguousarray(self.W[:, kept]), np.ascontiguousarray(self.b[kept]))

    def logits(self, X: Floats) -> Floats:
        """``X W + b``, shape (b, k)."""
        found = X @ self.W
        found += self.b
        return found

    def row_logits(self, X: Floats) -> Floats:
        """The same of the dtype of X from sums in float64: a row has the same bits whatever rows come with it."""
        found, W = np.empty((len(X), self.n_categories), X.dtype), self.W.astype(np.float64)
        for rows in tiles(len(X)):
            found[rows] = row_product(X[rows].astype(np.float64), W) + self.b
        return found


def penalty(model: Linear, reg: float) -> float:
    """``R = reg |W|^2``, without biases."""
    return float(reg * np.square(model.W, dtype=np.float64).sum())


def linear_information(
    X: Floats, model: Linear, weighting: Weighting = EVERY_ROW, log_posterior: Floats | None = None
) -> Information:
    """Sums of a block of rows.

    Parameters
    ----------
    X : ndarray of float, shape (b, d)
    model : Linear
        Of the same dtype.
    weighting : Weighting
    log_posterior : ndarray of the same dtype, shape (b, k), optional
        Output for the logarithms of the posteriors.

    Returns
    -------
    sums : Information
    """
    parts = []
    for rows in tiles(len(X)):
        logs, posterior = log_softmax(model.logits(X[rows]))
        if log_posterior is not None:
            log_posterior[rows] = logs
        parts.append(information(logs, posterior, weighting[rows]))
    return reduce(add, parts)


def summed_information(log_posterior: Floats, posterior: Floats, weighting: Weighting = EVERY_ROW) -> Information:
    """The same sums of a block of rows whose posteriors are known.

    Parameters
    ----------
    log_posterior, posterior : ndarray of float, shape (b, k)
    weighting : Weighting

    Returns
    -------
    sums : Information
    """
    parts = [information(log_posterior[rows], posterior[rows], weighting[rows]) for rows in tiles(len(posterior))]
    return reduce(add, parts)


def linear_gradient(
    X: Floats,
    model: Linear,
    reference: Reference,
    weighting: Weighting = EVERY_ROW,
    log_posterior: Floats | None = None,
) -> Floats:
    """Sum over a block of rows of ``(x_i, 1) (dF/dz_i)'``: products in the dtype of the rows, sums in float64.

    Parameters
    ----------
    X : ndarray of float, shape (b, d)
    model : Linear
        Of the same dtype.
    reference : Reference
    weighting : Weighting
    log_posterior : ndarray of the same dtype, shape (b, k), optional
        Output of :func:`linear_information` for the same classifier; it saves time and does not change the bits of the
        sum.

    Returns
    -------
    gradient : ndarray of float64, shape (d + 1, k)
        Without the penalty.
    """
    total = np.zeros((X.shape[1] + 1, model.n_categories))
    for rows in tiles(len(X)):
        logs = log_softmax(model.logits(X[rows]))[0] if log_posterior is None else log_posterior[rows].copy()
        gradient = logit_gradient(logs, np.exp(logs), reference, weighting[rows])
        total[:-1] += X[rows].T @ gradient
        total[-1] += gradient.sum(axis=0)
    return total


def penalised(gradient: Floats, model: Linear, reg: float) -> Floats:
    """dF/d(W, b) as one vector, from the sum over all blocks of :func:`linear_gradient`."""
    gradient = gradient.copy()
    gradient[:-1] -= 2 * reg * model.W
    return gradient.ravel()


def tiles(b: int) -> list[slice]:
    """Slices of `TILE_ROWS` rows each that cover b rows."""
    return [slice(lo, min(lo + TILE_ROWS, b)) for lo in range(0, b, TILE_ROWS)]
