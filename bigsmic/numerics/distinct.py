"""Distinct rows, up to a number of them."""

from typing import Any

import numpy as np

from bigsmic.types import Floats, Integers

_TILE_ROWS = 256  # of the first tile, which is enough if most rows differ


class Distinct:
    """Distinct rows, at most `limit` of them, in lexicographic order; adds up over blocks.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    limit : int
        If there are more distinct rows, only their number is known to exceed the limit.
    """

    def __init__(self, X: Floats, limit: int) -> None:
        self.limit = limit
        found: list[np.ndarray] = []
        lo, step = 0, _TILE_ROWS
        while lo < len(X) and len(found) < limit:
            rest = X[lo : lo + step]
            for row in found:
                rest = _others(rest, row)
            while len(rest) and len(found) < limit:
                found.append(rest[0])
                rest = _others(rest, rest[0])
            lo, step = lo + step, 2 * step
        rows = np.array(found, np.float32).reshape(-1, X.shape[1]) + np.float32(0)  # -0 becomes 0
        self.rows = rows[np.lexsort(rows.T[::-1])]

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: "Distinct") -> "Distinct":
        """Distinct rows of both."""
        return Distinct(np.concatenate([self.rows, other.rows]), self.limit)


def _others(X: Floats, row: Floats) -> Floats:
    return X[(row != X).any(axis=1)]


def nearest(X: Floats, rows: Integers) -> Any:
    """Number of the nearest distinct row, which is the equal one if there is one.

    The result for a row does not depend on the other rows.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    rows : ndarray of float32, shape (k, d)
        No two of them equal.

    Returns
    -------
    labels : ndarray of int32, shape (b,)
    """
    labels, least = np.zeros(len(X), np.int32), np.full(len(X), np.inf)
    for k, row in enumerate(rows):
        squares = np.square(X - row, dtype=np.float64).sum(axis=1)
        squares[(row == X).all(axis=1)] = -1  # as rounding can make the distance of unequal rows 0
        labels[squares < least] = k
        least = np.minimum(least, squares)
    return labels
