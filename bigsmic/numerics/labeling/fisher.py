"""Direction of Fisher's discriminant between two groups."""

import math

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.types import Floats

_NOTHING = 1e-12  # share of the squared distance of the means, for groups without variance


@compiled
def fisher_direction(
    y: tuple[Floats, Floats], z: tuple[Floats, Floats], n_rows: float, prior: tuple[Floats, float], ridge: float
) -> tuple[Floats, float, float]:
    """Direction of Fisher's discriminant between groups y and z, and where their means are along it.

    ``w = S^-1 (mean_z - mean_y)``, S the pooled covariance, shrunk towards that within all groups: in as many
    directions as two groups have rows, they look separated in any. One call takes a fifth of the time that NumPy's
    functions take for so small a system, and a tree of groups has thousands.

    Parameters
    ----------
    y, z : tuple of ndarray of float64, shapes (r, r) and (r,)
        Sum of squared deviations of the rows of a group, and their mean.
    n_rows : float
        Rows of both.
    prior : tuple of ndarray of float64, shape (r, r), and float
        Covariance within groups, of mean variance 1, and how many rows it counts for; it is multiplied by the mean
        variance of the two.
    ridge : float
        Share of the mean variance that is added to every variance.

    Returns
    -------
    w : ndarray of float64, shape (r,)
        Of unit length.
    mean_y, mean_z : float
        Not a number if there is no direction, as the means are equal.
    """
    within, weight = prior
    r, S, w, variance = len(z[1]), np.empty_like(within), np.empty(len(z[1])), 0.0
    for k in range(r):
        variance += y[0][k, k] + z[0][k, k]
        w[k] = z[1][k] - y[1][k]
    variance /= r * n_rows
    nothing = _NOTHING * (variance + _inner(w, w))
    for i in range(r):
        for j in range(r):
            S[i, j] = (y[0][i, j] + z[0][i, j] + weight * variance * within[i, j]) / (n_rows + weight)
        S[i, i] += ridge * variance + nothing
    _solve(S, w)
    length = math.sqrt(_inner(w, w))
    if not 0.0 < length < np.inf:
        return w, np.nan, np.nan
    for k in range(r):
        w[k] /= length
    return w, _inner(w, y[1]), _inner(w, z[1])


@compiled
def _inner(x: Floats, y: Floats) -> float:
    """Sum of the products of x (r,) and y (r,)."""
    total = 0.0
    for k in range(len(x)):
        total += x[k] * y[k]
    return total


@compiled
def _solve(S: Floats, w: Floats) -> None:
    """Replace w (r,) by ``S^-1 w``; S (r, r) is symmetric and used up. Its ridge makes pivoting unnecessary."""
    r = len(w)
    for k in range(r):
        for i in range(k + 1, r):
            factor = S[k, i] / S[k, k]
            w[i] -= factor * w[k]
            for j in range(i, r):
                S[i, j] -= factor * S[k, j]
    for k in range(r - 1, -1, -1):
        for j in range(k + 1, r):
            w[k] -= S[k, j] * w[j]
        w[k] /= S[k, k]
