"""Rows of sparse matrices: feature vectors such as counts, or precomputed affinities or distances."""

from itertools import pairwise
from typing import Any

import numpy as np

from bigsmic.errors import InputError, NonFiniteError
from bigsmic.store.objects import checksum
from bigsmic.store.sources.base import Source

FARTHEST = float(np.sqrt(np.finfo(np.float32).max))
"""Largest distance whose square is in the range of float32."""
STRIPS = 16  # in which a matrix is compared with its transpose: copies of the whole would be five times the matrix


class SparseRows(Source):
    """Rows of a sparse matrix in memory.

    Parameters
    ----------
    matrix : csr_array, shape (m, n)
    name : str
    """

    def __init__(self, matrix: Any, name: str = "sparse matrix") -> None:
        super().__init__(matrix, name)

    @property
    def matrix_bytes(self) -> int:
        """Bytes of the matrix."""
        return int(sum(part.nbytes for part in (self.array.indptr, self.array.indices, self.array.data)))

    def origin(self) -> Any:
        """Return a checksum of the entries."""
        parts = (self.array.indptr, self.array.indices, self.array.data)
        return f"crc32 {[checksum(part) for part in parts]}"

    def read(self, lo: int, hi: int) -> Any:
        """Return rows ``lo:hi``, sparse."""
        return self.array[lo:hi]


def canonical_csr(matrix: Any) -> Any:
    """Rows of a matrix with sorted entries, one for each place: csr_array. The matrix stays as it is."""
    from scipy.sparse import csr_array

    rows = csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()  # which else has the buffers of the matrix
        rows.sum_duplicates()
    return rows


def check_real_entries(dtype: np.dtype[Any], what: str) -> None:
    """Raise InputError unless entries are real numbers."""
    if dtype.kind not in "fiub":
        raise InputError(f"{what} has entries of dtype {dtype}; give real numbers, such as absolute values")


class SparseSource(SparseRows):
    """A square sparse matrix of affinities, or of distances, between n rows.

    Parameters
    ----------
    matrix : sparse matrix or array, shape (n, n)
    what : {"affinity", "distance"}
        An affinity must be symmetric.

    Raises
    ------
    InputError, NonFiniteError
    """

    def __init__(self, matrix: Any, what: str) -> None:
        from scipy.sparse import issparse

        if not issparse(matrix) or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            shape = getattr(matrix, "shape", None)
            raise InputError(
                f"input: a precomputed {what} must be a sparse square matrix, got {type(matrix)} of {shape}; give "
                "scipy.sparse.csr_array(matrix) of one row and column for each row"
            )
        check_real_entries(matrix.dtype, f"input: a precomputed {what}")
        rows = canonical_csr(matrix)
        super().__init__(rows, f"sparse {what}")
        if not np.isfinite(rows.data).all():
            raise NonFiniteError(f"input: the sparse {what} contains NaN or infinity; remove those entries")
        if rows.nnz == 0 or rows.data.min() < 0:
            raise InputError(f"input: a precomputed {what} must have at least one entry, and no negative ones")
        if what == "distance" and rows.data.max() > FARTHEST:
            raise InputError(
                f"input: the largest distance is {rows.data.max():.3g}, and squares are float32, at most those of "
                f"{FARTHEST:.3g}; divide all distances by one number, which changes no cluster"
            )
        if what == "affinity" and _asymmetry(rows) > 1e-6 * rows.data.max():
            raise InputError("input: the precomputed affinity is not symmetric; pass (A + A.T) / 2")

    @property
    def largest(self) -> float:
        """Largest entry."""
        return float(self.array.data.max())


def _asymmetry(rows: Any) -> float:
    """Largest difference between entries and those of the transpose."""
    bounds = np.linspace(0, rows.shape[0], min(STRIPS, rows.shape[0]) + 1).astype(np.int64).tolist()
    return max(float(abs(rows[lo:hi] - rows[:, lo:hi].T).max()) for lo, hi in pairwise(bounds))
