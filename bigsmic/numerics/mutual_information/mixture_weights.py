"""Maximum-likelihood weights of a mixture of given components."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from bigsmic.numerics.products import self_product
from bigsmic.types import Floats

TOLERANCE = 1e-8
"""Duality gap, in nats, at which the iteration stops."""
_MAX_STEPS = 200
_EM_STEPS = 5
_HALVINGS = 12
_RIDGE = 1e-10  # of the largest diagonal entry, as two coincident Gaussians make the Hessian singular
_LEAST_RATIO = 1e-100  # its inverse can still be squared


class MixtureWeights(NamedTuple):
    """Weights, their mean log likelihood, and the duality gap, which bounds what other weights could gain."""

    weights: np.ndarray
    value: float
    gap: float


def mixture_weights(R: Floats, tops: Floats, tol: float = TOLERANCE) -> MixtureWeights:
    """Maximise ``mean_i log(R w)_i`` over w of at least 0 and sum 1.

    Gradient projection in the metric of the Hessian on ``mean_i log(R w)_i - sum w``, whose maximum has sum 1 by
    itself: every step is a non-negative least-squares problem, as in [1]_, or one of expectation and maximisation if
    that does not ascend. With ``g_l = mean_i R_il / (R w)_i`` the optimality conditions are ``g_l = 1`` where ``w_l >
    0`` and ``g_l <= 1`` elsewhere, and ``max g - 1`` bounds the distance from the maximum.

    Parameters
    ----------
    R : ndarray of float64, shape (n, k)
        At least 0, the largest of each row 1.
    tops : ndarray of float64, shape (n,)
        Logarithm of the divisor of each row.
    tol : float
        Gap at which to stop.

    Returns
    -------
    MixtureWeights

    References
    ----------
    .. [1] Kim, Carbonetto, Stephens, Anitescu, "A fast algorithm for maximum likelihood estimation of mixture
       proportions using sequential quadratic programming", J. Computational and Graphical Statistics 29, 2020.
       doi:10.1080/10618600.2019.1689985
    """
    n, k = R.shape
    w = np.full(k, 1.0 / k)
    if n == 0:  # nothing to fit
        return MixtureWeights(w, 0.0, 0.0)
    for step in range(_MAX_STEPS):
        Q = R / (R @ w)[:, None]
        gradient = Q.mean(axis=0)
        if gradient.max() - 1 <= tol:
            break
        better = None if step < _EM_STEPS else _newton_step(R, Q, w, gradient)
        w = w * gradient if better is None else better
        w /= w.sum()
    ratio = R @ w
    gap = float((R / ratio[:, None]).mean(axis=0).max() - 1)
    return MixtureWeights(w, float(np.mean(np.log(ratio) + tops)), max(gap, 0.0))


def _newton_step(R: Floats, Q: Floats, w: Floats, gradient: Floats) -> Floats | None:
    """Next weights, or None if the line search finds no gain.

    With ``H = Q'Q / n`` the quadratic model at w has its maximum over v >= 0 where
    ``v' H v / 2 - (2 g - 1)' v`` is least: non-negative least squares on a Cholesky factor of H.
    """
    n = len(R)
    H = self_product(Q) / n
    H[np.diag_indices_from(H)] += _RIDGE * H.diagonal().max()
    try:
        factor = cholesky(H, lower=True, check_finite=False)
        target = solve_triangular(factor, 2 * gradient - 1, lower=True, check_finite=False)
        direction = nnls(factor.T, target)[0] - w
    except (np.linalg.LinAlgError, RuntimeError):  # not definite, or too many changes of the active set
        return None
    ratio, change = R @ w, R @ direction
    slope = (gradient - 1) @ direction
    length = 1.0
    for _ in range(_HALVINGS):
        ahead = ratio + length * change
        gain = np.log(ahead / ratio).mean() - length * direction.sum() if ahead.min() > _LEAST_RATIO else -np.inf
        if gain > 1e-4 * length * slope:
            return np.maximum(w + length * direction, 0.0)
        length /= 2
    return None
