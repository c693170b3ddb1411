"""Products of a matrix with its own transpose."""

import numpy as np

from bigsmic.types import Floats


def self_product(A: Floats) -> Floats:
    """``A' A``.

    Parameters
    ----------
    A : ndarray of float, shape (n, m)

    Returns
    -------
    G : ndarray, shape (m, m), of the dtype of A

    Notes
    -----
    NumPy calls BLAS's ``syrk`` for such a product, and OpenBLAS's kernels for some processors also compute on unused
    lanes of their buffers. The values there can set the flag of an invalid operation although every entry of the result
    is right (numpy issue 24067, OpenBLAS issue 1924). NumPy's warning is therefore suppressed. If A has NaN, so has G.
    """
    with np.errstate(invalid="ignore"):
        return A.T @ A
