"""Axes of the leading principal components of a sample."""

import numpy as np

from bigsmic.numerics.hashing import generator
from bigsmic.numerics.products import row_product
from bigsmic.types import Floats

_N_ITERATIONS, _N_MORE = 5, 10  # iterations, and columns in addition to those wanted


def principal_axes(X: Floats, n_axes: int) -> tuple[Floats, Floats]:
    """Mean, and axes of largest variance, by subspace iteration from a random start [1]_.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    n_axes : int

    Returns
    -------
    mean : ndarray of float32, shape (d,)
    axes : ndarray of float32, shape (d, r), r = min(n_axes, d)
        Orthonormal; the unit vectors if there are no more columns than wanted axes.

    References
    ----------
    .. [1] Halko, Martinsson, Tropp, "Finding structure with randomness", SIAM Review 53 (2011). doi:10.1137/090771806
    """
    mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
    d = X.shape[1]
    if d <= n_axes:
        return mean, np.eye(d, dtype=np.float32)
    centred = X - mean
    Q = generator(0, "axes").standard_normal((d, min(n_axes + _N_MORE, d)), dtype=np.float32)
    for _ in range(_N_ITERATIONS):
        Q = np.linalg.qr(centred.T @ (centred @ Q))[0]
    Vt = np.linalg.svd(centred @ Q, full_matrices=False)[2][:n_axes]
    return mean, np.ascontiguousarray(Q @ Vt.T)


def remainders(X: Floats, axes: Floats) -> Floats:
    """Norms of what axes do not span of rows, ``|x - A A' x|``.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (b, d)
    axes : ndarray of float32 or float64, shape (d, r)
        A, with orthonormal columns.

    Returns
    -------
    norms : ndarray of float64, shape (b,)
    """
    components = row_product(X, axes)
    squares = [np.einsum("ij,ij->i", Z, Z, dtype=np.float64) for Z in (X, components)]
    return np.sqrt(np.maximum(squares[0] - squares[1], 0))


def over_all_columns(distances: Floats, remainders: Floats | float, usual: float) -> Floats:
    """Distances of components with what these leave of both rows, as if that of any two rows were orthogonal.

    ``d'^2 = d^2 + q^2 + u^2``

    Parameters
    ----------
    distances : ndarray of float, shape (b,) or ()
        d, to a neighbour.
    remainders : ndarray of float, shape (b,), or float
        q, norms of what components leave of the rows.
    usual : float
        u, the root mean square of such norms, for the neighbour.

    Returns
    -------
    distances : ndarray of float64, of the same shape
        d'
    """
    d, q = np.asarray(distances, np.float64), np.asarray(remainders, np.float64)
    found: Floats = np.sqrt(d * d + q * q + usual * usual)
    return found


def left_out_remainders(X: Floats, n_axes: int) -> Floats:
    """Remainders of a sample with the axes of its other half.

    Axes of few rows with many columns follow the rows from which they are computed, of which they leave less than of
    others.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    n_axes : int

    Returns
    -------
    norms : ndarray of float64, shape (m,)
        Those of the even rows, then those of the odd ones.
    """
    halves = X[::2], X[1::2]
    others = [remainders(X, principal_axes(other, n_axes)[1]) for X, other in zip(halves, halves[::-1], strict=True)]
    return np.concatenate(others)
