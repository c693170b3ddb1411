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
    NumPy hands such a product to BLAS's ``syrk``, and OpenBLAS's kernels for some processors compute on lanes of their
    buffers that no entry of A is in. What they find there can set the flag of an invalid operation, with every entry of
    the result as it should be (numpy issue 24067, OpenBLAS issue 1924): NumPy's warning of it says nothing here, and
    is left out. Where A has NaN, so has G.
    """
    with np.errstate(invalid="ignore"):
        return A.T @ A
