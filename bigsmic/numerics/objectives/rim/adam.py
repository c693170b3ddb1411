"""Ascent by minibatches: the gradient of a batch, and Adam's steps."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.objectives.rim.linear import Linear, penalty, tiles
from bigsmic.numerics.objectives.rim.logits import (
    EVERY_ROW,
    Information,
    Reference,
    Weighting,
    log_softmax,
    logit_gradient,
    objective,
)
from bigsmic.types import Floats, Integers

_BETAS = (0.9, 0.999)  # of Adam


class Aim(NamedTuple):
    """Objective that is maximised.

    Parameters
    ----------
    reg : float
        Of ``reg |W|^2``.
    prior : None, ndarray or "power"
        See :func:`~bigsmic.numerics.objectives.rim.logits.log_reference`.
    tau : float
    """

    reg: float
    prior: np.ndarray | str | None = None
    tau: float = 1.0


class Adam(NamedTuple):
    """State of Adam [1]_: a classifier, and the moments of its gradients.

    Parameters
    ----------
    model : Linear
    first, second : Linear
        Running means of the gradient and of its square.
    steps : int
        Done so far.

    References
    ----------
    .. [1] Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    model: Linear
    first: Linear
    second: Linear
    steps: int = 0

    @classmethod
    def start(cls, model: Linear) -> "Adam":
        """State before the first step."""
        nothing = Linear(np.zeros_like(model.W), np.zeros_like(model.b))
        return cls(model, nothing, nothing)

    def columns(self, kept: NDArray[np.bool_] | Integers) -> "Adam":
        """A copy with some of the categories only: a mask, or their numbers."""
        return Adam(self.model.columns(kept), self.first.columns(kept), self.second.columns(kept), self.steps)

    def step(self, gradient: Linear, rate: float, spread: float = 1.0) -> "Adam":
        """Ascend by about ``rate / (sqrt(d) spread)`` in every weight, and by ``rate / sqrt(d)`` in every bias.

        If `spread` is that of the columns, the logits of a row change by about `rate`, whatever the unit and the number
        of the columns.
        """
        steps = self.steps + 1
        unbias = [1 / (1 - beta**steps) for beta in _BETAS]
        updated = []
        bias_rate = rate / np.sqrt(len(self.model.W))
        rates = (bias_rate / spread, bias_rate)
        for parameter, mean, square, slope, step_size in zip(*self[:3], gradient, rates, strict=True):
            dtype = parameter.dtype.type
            mean = mean + dtype(1 - _BETAS[0]) * (slope - mean)
            square = square + dtype(1 - _BETAS[1]) * (slope * slope - square)
            move = mean * dtype(step_size * unbias[0]) / (np.sqrt(square * dtype(unbias[1])) + dtype(1e-12))
            updated.append((parameter + move, mean, square))
        model, first, second = (Linear(*pair) for pair in zip(*updated, strict=True))
        return Adam(model, first, second, steps)


def spread(X: Floats) -> float:
    """Root mean square of the entries, never 0: the unit of centred rows."""
    return max(float(np.sqrt(np.einsum("ij,ij->", X, X, dtype=np.float64) / X.size)), 1e-12)


def batch_gradient(
    X: Floats, model: Linear, aim: Aim, weighting: Weighting = EVERY_ROW, share: float = 1.0
) -> tuple[float, Linear, Floats]:
    """Objective and gradient of one batch, with the batch's own mean posterior.

    Parameters
    ----------
    X : ndarray of float, shape (b, d)
        Thousands of rows; with fewer, the mean posterior differs more from that of all rows.
    model : Linear
    aim : Aim
    weighting : Weighting
    share : float
        Size of the batch as a share of all rows, by which its labelled rows are weighted to represent all of them.

    Returns
    -------
    F : float
    gradient : Linear
    mass : ndarray of float64, shape (k,)
        Summed posteriors.

    Notes
    -----
    A running mean instead of the batch's own was worse, as it is outdated.
    """
    b, dtype = len(X), X.dtype
    posteriors = np.empty((2, b, model.n_categories), dtype)
    for rows in tiles(b):  # so that the data of one tile stay in the cache
        posteriors[:, rows] = log_softmax(model.logits(X[rows]))
    log_posterior, posterior = posteriors
    sums = _batch_sums(log_posterior, posterior, weighting)
    sums = sums._replace(log_likelihood=sums.log_likelihood / share)
    reference = Reference.of(sums, aim.prior, aim.tau, 1 / share)
    slope = logit_gradient(log_posterior, posterior, reference, weighting)
    W = X.T @ slope
    W -= dtype.type(2 * aim.reg) * model.W
    return objective(sums, aim.prior, aim.tau) - penalty(model, aim.reg), Linear(W, slope.sum(axis=0)), sums.mass


def _batch_sums(log_posterior: Floats, posterior: Floats, weighting: Weighting) -> Information:
    weights = weighting.unlabelled(len(posterior), posterior.dtype)
    rows, labels, label_weights = weighting.labelled(len(posterior), posterior.dtype)
    likelihood = np.dot(label_weights, log_posterior[rows, labels])
    negentropy = np.dot(weights, np.einsum("ij,ij->i", posterior, log_posterior))
    found = (weights.sum(dtype=np.float64), weights @ posterior, negentropy, np.zeros(0), likelihood)
    return Information(*(np.asarray(f, np.float64) for f in found))


def cosine(done: float) -> float:
    """Factor of the learning rate when a share `done` of all steps is done: from 1 to 0."""
    return 0.5 * (1 + np.cos(np.pi * min(done, 1.0)))
