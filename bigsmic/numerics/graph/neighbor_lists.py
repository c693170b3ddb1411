"""Lists of neighbours: none yet, those found in different places merged, and the distances that they tell."""

from typing import Any

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.types import Floats, Integers


def empty_lists(m: int, k: int) -> tuple[Integers, Floats]:
    """Lists of m rows without a neighbour: indices -1, int64, and distances inf, float32, of shape (m, k)."""
    return np.full((m, k), -1, np.int64), np.full((m, k), np.inf, np.float32)


def tth_squares(squares: Floats, t: int) -> Floats:
    """Squared distance to the t-th neighbour, or to the last one of a row with fewer."""
    found = np.isfinite(squares[:, :t]).sum(axis=1)
    return squares[np.arange(len(squares)), np.maximum(found, 1) - 1]


def merge_neighbors(lists: list[tuple[Integers, Floats]]) -> tuple[Integers, Floats]:
    """Merge neighbour lists of the same rows that were found in different places.

    Parameters
    ----------
    lists : sequence of (indices, squares)
        ``indices`` is an ndarray of int, shape (m, k), -1 where there is none, in one numbering for all lists;
        ``squares`` an ndarray of float32, shape (m, k), ascending along each row.

    Returns
    -------
    indices : ndarray of the first list's dtype, shape (m, k)
        The k best, each once, by (distance, index).
    squares : ndarray of float32, shape (m, k)
    """
    (indices, squares), *others = lists
    dtype, indices = indices.dtype, indices.astype(np.int64)
    for other_indices, other_squares in others:
        one = frozen(indices), frozen(squares)
        other = frozen(other_indices, np.int64), frozen(other_squares)
        indices, squares = empty_lists(*indices.shape)
        _merge(one, other, indices, squares)
    return indices.astype(dtype, copy=False), squares


@compiled
def _merge(one: tuple[Any, Any], other: tuple[Any, Any], indices: Integers, squares: Floats) -> None:
    """Merge two ascending lists of each row, by (distance, index), into ``indices, squares``; an index is taken once.

    `one` and `other` are ``indices (m, k), squares (m, k)``, and so are the results.
    """
    k = indices.shape[1]
    for i in range(len(indices)):
        a, b, found = 0, 0, 0
        while found < k and (a < k or b < k):
            first = b >= k
            if a < k and b < k:
                x, y = one[1][i, a], other[1][i, b]
                first = x < y or (x == y and one[0][i, a] <= other[0][i, b])
            source, at = (one, a) if first else (other, b)
            a, b = a + first, b + (not first)
            index, known = source[0][i, at], False
            for t in range(found):
                known |= indices[i, t] == index
            if index >= 0 and not known:
                indices[i, found], squares[i, found] = index, source[1][i, at]
                found += 1
