"""Matrix products without the warnings that BLAS raises for nothing.

OpenBLAS's kernels for some processors also compute on lanes of their buffers that hold no operand: ``syrk`` for the
product of a matrix with its own transpose (numpy issue 24067, OpenBLAS issue 1924), and ``sgemv`` for rows of five
values with AVX-512. If what lies there is a signalling NaN, the flag of an invalid operation is set although every
entry of the result is right, and NumPy warns. These functions do not: they are for finite operands, which rows are from
the scan on. NaN in an operand is NaN in the product.
"""

import numpy as np

from bigsmic.types import Floats

HEIGHT = 64
"""Rows of a product of :func:`row_product`: a multiple of what BLAS's kernels compute at a time."""


def product(A: Floats, B: Floats) -> Floats:
    """``A B``, where a side may be as narrow as a vector.

    Parameters
    ----------
    A : ndarray of float, shape (..., n, d)
    B : ndarray of float, shape (..., d, m) or (d,)

    Returns
    -------
    C : ndarray, shape (..., n, m) or (..., n), bit for bit ``A @ B``
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


def row_product(A: Floats, B: Floats) -> Floats:
    """``A B``, whose rows have the same bits whatever other rows come with them.

    For single vectors and small matrices, BLAS has other kernels, which round otherwise. So all products have one shape
    and order; the last one has rows of zeros. In float32, its kernels also round rows of one product differently.

    Parameters
    ----------
    A : ndarray of float64, shape (n, d)
    B : ndarray of float64, shape (d, m)

    Returns
    -------
    C : ndarray, shape (n, m), C-ordered
    """
    n, d = A.shape
    whole = n - n % HEIGHT
    rows = np.ascontiguousarray(A)
    found = np.empty((n, B.shape[1]), np.result_type(A, B))
    for lo in range(0, whole, HEIGHT):
        found[lo : lo + HEIGHT] = product(rows[lo : lo + HEIGHT], B)
    if whole < n:
        padded = np.zeros((HEIGHT, d), rows.dtype)
        padded[: n - whole] = rows[whole:]
        found[whole:] = product(padded, B)[: n - whole]
    return found
