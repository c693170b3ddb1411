"""Memory of a solve."""

import numpy as np
from numpy.typing import DTypeLike

from bigsmic.numerics.eigen.block_vectors import PANEL
from bigsmic.numerics.eigen.lanczos_state import LanczosParams
from bigsmic.types import Integers


def solve_bytes(
    bounds: Integers,
    params: LanczosParams,
    *,
    n_threads: int = 1,
    dtype: DTypeLike = np.float32,
    basis_on_disk: bool = False,
) -> int:
    """Return the peak memory of a solve in this process in bytes, without kernel blocks.

    Parameters
    ----------
    bounds : array_like of int, shape (p + 1,)
        Row blocks.
    params : LanczosParams
    n_threads : int
    dtype : dtype
    basis_on_disk : bool

    Returns
    -------
    n_bytes : int
        The basis (on disk: one block of it per thread), two n x b blocks, and per thread the rows that a product needs,
        of a block and of a halo as large, tiles and their results.
    """
    heights, itemsize, b = np.diff(bounds), np.dtype(dtype).itemsize, params.block_width
    n, tallest, dimension = int(np.sum(heights)), int(np.max(heights)), params.size(int(np.sum(heights)))
    basis = n_threads * 2 * tallest * dimension if basis_on_disk else n * dimension
    per_thread = tallest * (4 * b + 2) + PANEL * (dimension + 3 * b)
    small = 8 * (len(heights) + 8) * (dimension + b) * b + 64 * dimension**2
    return int(itemsize * (basis + 2 * n * b + n_threads * per_thread) + 16 * n_threads * tallest + small)
