"""Protocol for the rows of a matrix, a basis and a working block, on which Lanczos operates."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bigsmic.numerics.eigen.chebyshev import Filter


class Space(Protocol):
    """The rows of K, of the basis V (n x k), of its last block and of a working block W (n x w).

    Every method is one map over row blocks, `apply` and `filter` one per degree. *Moments* are the float64 array of
    shape (k + w, w) that stacks V'W on W'W, summed in a fixed order.

    Attributes
    ----------
    n_rows, n_columns : int
        n, and k, the columns now in the basis.
    eps : float
        Spacing of the precision in which rows are stored.
    """

    n_rows: int
    n_columns: int
    eps: float

    def apply(self, filter: Filter) -> np.ndarray:
        """``W <- p(K) V_last``; return the moments. V_last is given up."""
        ...

    def project(self, S: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """``W <- (W - V S) Q``; return the moments."""
        ...

    def draw(self, n_kept: int, n_new: int, key: int) -> np.ndarray:
        """``W <- [first n_kept columns of W, n_new random ones]``, hashed from `key`; return the moments."""
        ...

    def recall(self, Q: np.ndarray, start: int) -> np.ndarray:
        """``W <- V[:, start:] Q``, and ``V <- V[:, :start]``; return the moments. V_last is given up."""
        ...

    def take(self, start: int, width: int) -> None:
        """``V_last <- V[:, start:start + width]``, a block that lies anywhere in V."""
        ...

    def filter(self, filters: Sequence[Filter], start: int, width: int) -> None:
        """``V[:, start:start + width] <- p(K) V[:, start:start + width]``, p the product of some filters.

        W and V_last are given up.
        """
        ...

    def append(self, Q: np.ndarray) -> None:
        """``V_last <- W Q``, ``V <- [V, V_last]``. W is given up."""
        ...

    def rotate(self, Q: np.ndarray, start: int) -> None:
        """``V <- [V[:, :start], V[:, start:] Q]``; W is left alone."""
        ...

    def residual_norms(self, values: np.ndarray, start: int) -> np.ndarray:
        """``|K v - theta v|`` of the columns from `start` on, one for each value.

        W is left alone, V_last is given up.
        """
        ...

    def column_sums(self) -> np.ndarray:
        """Return the sums of each column of V, plain and with hashed weights; shape (2, k)."""
        ...
