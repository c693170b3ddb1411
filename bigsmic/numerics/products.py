"""Matrix products without the warnings that BLAS raises for nothing.

OpenBLAS's kernels for some processors also compute on lanes of their buffers that hold no operand: ``syrk`` for the
product of a matrix with its own transpose (numpy issue 24067, OpenBLAS issue 1924), and ``sgemv`` for rows of five
values with AVX-512. If what lies there is a signalling NaN, the flag of an invalid operation is set although every
entry of the result is right, and NumPy warns. These functions do not: they are for finite operands, which rows are from
the scan on. NaN in an operand is NaN in the product.
"""

import numpy as np

from bigsmic.types import Floats


def product(A: Floats, B: Floats) -> Floats:
    """``A B``, where a side may be as narrow as a vector.

    Parameters
    ----------
    A : ndarray of float, shape (n, d)
    B : ndarray of float, shape (d, m) or (d,)

    Returns
    -------
    C : ndarray, shape (n, m) or (n,), bit for bit ``A @ B``
    """
    with np.errstate(invalid="ignore"):
        found: Floats = A @ B
    return found


def self_product(A: Floats) -> Floats:
    """``A' A``.

    Parameters
    ----------
    A : ndarray of float, shape (n, m)

    Returns
    -------
    G : ndarray, shape (m, m), of the dtype of A
    """
    return product(A.T, A)
