"""The objective as a function of logits: sums over rows, its value, and its gradient at a row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bigsmic.types import Floats, Integers

LEAST_INFORMATION = 1e-3
"""Nats per row between rows and categories, below which labels are the argmax of noise."""
_TINY = 1e-300
_STEEPEST = 20.0  # exponent of a power law


class Weighting(NamedTuple):
    """Weights and labels of rows; None if every row has weight 1, or none has a label.

    Parameters
    ----------
    weights : ndarray of float, shape (b,), or None
        At least 0.
    labels : ndarray of int, shape (b,), or None
        Known categories; -1 where there is none.
    """

    weights: np.ndarray | None = None
    labels: np.ndarray | None = None

    def __getitem__(self, rows: Any) -> "Weighting":  # type: ignore[override]
        """The same for some of the rows; `rows` is a slice or an array of row numbers."""
        return Weighting(*(None if array is None else array[rows] for array in (self.weights, self.labels)))

    def unlabelled(self, b: int, dtype: DTypeLike) -> Floats:
        """Weights (b,) of rows in the information: their own for unlabelled rows, 0 for labelled ones."""
        weights = np.ones(b, dtype) if self.weights is None else self.weights.astype(dtype)
        return weights if self.labels is None else np.where(self.labels < 0, weights, 0).astype(dtype)

    def labelled(self, b: int, dtype: DTypeLike) -> tuple[Integers, Integers, Floats]:
        """Numbers of the labelled rows, their labels and their weights."""
        if self.labels is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, dtype)
        rows = np.flatnonzero(self.labels >= 0)
        weights = np.ones(len(rows), dtype) if self.weights is None else self.weights[rows].astype(dtype)
        return rows, self.labels[rows], weights


EVERY_ROW = Weighting()


class Information(NamedTuple):
    """Sums over rows from which the objective follows; those of blocks add.

    Parameters
    ----------
    weight : ndarray of float64, shape ()
        Sum of the weights of the unlabelled rows.
    mass : ndarray of float64, shape (k,)
        ``sum_i p_i`` over the unlabelled rows, weighted.
    negentropy : ndarray of float64, shape ()
        ``sum_i sum_k p_ik log p_ik`` over them, weighted.
    counts : ndarray of int64, shape (k,)
        Rows, labelled or not, for which the category is the most probable; shape (0,) for minibatches, where they are
        not counted.
    log_likelihood : ndarray of float64, shape ()
        ``sum_i log p(y_i|x_i)`` over the labelled rows, weighted.
    """

    weight: np.ndarray
    mass: np.ndarray
    negentropy: np.ndarray
    counts: np.ndarray
    log_likelihood: np.ndarray

    def __add__(self, other: "Information") -> "Information":  # type: ignore[override]
        return Information(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def marginal(self) -> Floats:
        """Mean posterior ``p^``, float64, shape (k,); uniform where every row is labelled."""
        k = len(self.mass)
        return self.mass / self.weight if self.weight > 0 else np.full(k, 1 / k)

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Categories that are the most probable one of some row: bool, shape (k,)."""
        return self.counts > 0


def log_softmax(logits: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the posteriors, and the posteriors; the logits are overwritten.

    Parameters
    ----------
    logits : ndarray of float, shape (b, k)

    Returns
    -------
    log_posterior, posterior : ndarray of the same dtype, shape (b, k)
    """
    logits -= logits.max(axis=1, keepdims=True)
    posterior = np.exp(logits)
    total = posterior.sum(axis=1, keepdims=True)
    posterior /= total
    logits -= np.log(total)
    return logits, posterior


def information(log_posterior: Floats, posterior: Floats, weighting: Any = EVERY_ROW) -> Information:
    """Sums of some rows.

    Parameters
    ----------
    log_posterior, posterior : ndarray of float, shape (b, k)
        From :func:`log_softmax`. At most a few thousand rows, as they are added in their dtype.
    weighting : Weighting

    Returns
    -------
    sums : Information
    """
    b, k = posterior.shape
    weights = weighting.unlabelled(b, posterior.dtype)
    rows, labels, label_weights = weighting.labelled(b, posterior.dtype)
    counts = np.bincount(posterior.argmax(axis=1), minlength=k)
    likelihood = np.dot(label_weights, log_posterior[rows, labels])
    entropies = np.einsum("ij,ij->i", posterior, log_posterior)
    found = (weights.sum(dtype=np.float64), weights @ posterior, weights @ entropies, counts, likelihood)
    return Information(*(np.asarray(f, np.int64 if f is counts else np.float64) for f in found))


def log_reference(marginal: Floats, prior: Any = None) -> Floats:
    """Logarithm of the prior D at every category; 0 without one, as ``-KL`` is then the entropy.

    Parameters
    ----------
    marginal : ndarray of float64, shape (k,)
    prior : None, ndarray of float64, shape (k,), or "power"
        "power": ``D_k`` is a power of the rank of category k, with the exponent of least ``KL(p^ || D)``. As D is
        optimal, ``dF/dD = 0``, and gradients are those for a given D.

    Returns
    -------
    log_prior : ndarray of float64, shape (k,)
    """
    if prior is None:
        return np.zeros(len(marginal))
    if isinstance(prior, str):
        return _power_law(marginal)[0]
    return np.log(prior)


def power_exponent(marginal: Floats) -> float:
    """Exponent a of the power law ``rank^-a`` of least ``KL(p^ || D)``."""
    return _power_law(marginal)[1]


def _power_law(marginal: Floats) -> tuple[Floats, float]:
    """Logarithms of the power law nearest to the marginal, and its exponent, the zero of an increasing function."""
    k = len(marginal)
    rank = np.empty(k)
    rank[np.argsort(-marginal, kind="stable")] = np.arange(1, k + 1)
    logs = np.log(rank)
    wanted, low, high = float(marginal @ logs) / max(float(marginal.sum()), _TINY), 0.0, _STEEPEST
    for _ in range(50):
        middle = (low + high) / 2
        law = np.exp(-middle * logs)
        low, high = (middle, high) if law @ logs > wanted * law.sum() else (low, middle)
    return -low * logs - np.log(np.exp(-low * logs).sum()), low


def objective(sums: Any, prior: Any = None, tau: float = 1.0) -> float:
    """F without its penalty.

    Parameters
    ----------
    sums : Information
        Of all rows.
    prior
        As in :func:`log_reference`.
    tau : float
        Weight of the information against the labels.

    Returns
    -------
    F : float
    """
    p = sums.marginal
    if sums.weight == 0:
        return float(sums.log_likelihood)
    divergence = p @ (np.log(np.maximum(p, _TINY)) - log_reference(p, prior))
    return float(tau * (sums.negentropy / sums.weight - divergence) + sums.log_likelihood)


class Reference(NamedTuple):
    """Quantities of all rows in the gradient at one row.

    Parameters
    ----------
    log_ratio : ndarray of float, shape (k,)
        ``log(p^_k / D_k)``.
    information : float
        Factor of a row's information: tau over the weight of the unlabelled rows.
    likelihood : float
        Factor of a labelled row's log-likelihood.
    """

    log_ratio: np.ndarray
    information: float
    likelihood: float = 1.0

    @classmethod
    def of(
        cls, sums: Information, prior: Floats | str | None = None, tau: float = 1.0, likelihood: float = 1.0
    ) -> "Reference":
        """From the sums over all rows, or over a batch."""
        p = sums.marginal
        log_ratio = np.log(np.maximum(p, _TINY)) - log_reference(p, prior)
        return cls(log_ratio, tau / float(sums.weight) if sums.weight > 0 else 0.0, likelihood)


def logit_gradient(
    log_posterior: Floats, posterior: Floats, reference: Reference, weighting: Any = EVERY_ROW
) -> Floats:
    """dF/dz of some rows; the logarithms of their posteriors are overwritten.

    With ``a_k = log(p_k D_k / p^_k)``: ``dF/dz_k = tau w_i / W p_k (a_k - sum_j p_j a_j)`` at an unlabelled row, and
    ``w_i (1[k = y_i] - p_k)`` at a labelled one.

    Parameters
    ----------
    log_posterior, posterior : ndarray of float, shape (b, k)
    reference : Reference
    weighting : Weighting

    Returns
    -------
    gradient : ndarray of the same dtype, shape (b, k)
    """
    b, dtype = len(posterior), posterior.dtype
    gradient = log_posterior
    gradient -= reference.log_ratio.astype(dtype)
    gradient -= np.einsum("ij,ij->i", posterior, gradient)[:, None]
    gradient *= posterior
    if weighting.weights is None and weighting.labels is None:
        gradient *= dtype.type(reference.information)
        return gradient
    gradient *= (weighting.unlabelled(b, dtype) * dtype.type(reference.information))[:, None]
    rows, labels, label_weights = weighting.labelled(b, dtype)
    if len(rows):
        supervised = -posterior[rows]
        supervised[np.arange(len(rows)), labels] += 1
        gradient[rows] = supervised * (label_weights * dtype.type(reference.likelihood))[:, None]
    return gradient
