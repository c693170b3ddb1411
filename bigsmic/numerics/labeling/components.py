"""Leading principal components of a sample."""

import numpy as np
from sklearn.utils.extmath import randomized_svd

_N_ITERATIONS = 4  # of the subspace iteration: directions, not their order, is what is wanted


def principal_axes(X, n_axes):
    """Mean, and axes of largest variance.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    n_axes : int

    Returns
    -------
    mean : ndarray of float32, shape (d,)
    axes : ndarray of float32, shape (d, r), r = min(n_axes, d)
        Orthonormal; the unit vectors where there are no more columns than axes are wanted.
    """
    mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
    d = X.shape[1]
    if d <= n_axes:
        return mean, np.eye(d, dtype=np.float32)
    _, _, Vt = randomized_svd(X - mean, min(n_axes, len(X)), n_iter=_N_ITERATIONS, random_state=0)
    return mean, np.ascontiguousarray(Vt.T, dtype=np.float32)
