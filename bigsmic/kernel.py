"""placeholder"""
from typing import NamedTuple

import numpy as np


class KernelBlock(NamedTuple):
    """Rows ``lo:hi`` of a sparse symmetric matrix, columns numbered locally.

    Column ``j < hi - lo`` stands for row ``lo + j`` of the whole; column ``hi - lo + h`` for row ``halo[h]``.

    Parameters
    ----------
    lo, hi : int
        Half-open range of positions (rows in cell order).
    halo : ndarray of int64, shape (h,), ascending
        The rows outside ``lo:hi`` that the block touches.
    indptr : ndarray of int64, shape (hi - lo + 1,)
    indices : ndarray of int32, shape (nnz,)
        Local column numbers, ascending in each row.
    data : ndarray of float32, shape (nnz,)
    """

    lo: int
    hi: int
    halo: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
