"""Equal rows, which count as one point in neighbour lists.

A table of integers or of categories may have many rows with the same values. If all t neighbours of a row were its
copies, they would be a part of the graph of their own, and such parts would be the clusters. So a row lists one of its
copies, and then the nearest rows that differ from it and from each other.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.types import Floats, Integers

_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_MINUS_ZERO = np.uint32(0x80000000)


def first_equal(X: Floats) -> NDArray[np.int64]:
    """Number of the first row that is equal to each row.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)

    Returns
    -------
    first : ndarray of int64, shape (m,)
        ``first[i] <= i``, and ``X[first[i]] == X[i]``.
    """
    X = frozen(X)
    keys = _keys(X.view(np.uint32))
    first = np.empty(len(X), np.int64)
    _find_first(X, keys, np.argsort(keys, kind="stable"), first)
    return first


def find_equal(X: Floats, Y: Floats) -> NDArray[np.int64]:
    """Number of the first row of Y that is equal to each row of X; -1 where there is none.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    Y : ndarray of float32, shape (m, d)

    Returns
    -------
    equal : ndarray of int64, shape (b,)
    """
    first = first_equal(np.concatenate([Y, X]))[len(Y) :]
    return np.where(first < len(Y), first, -1)


class Points(NamedTuple):
    """Rows that stand for their copies.

    Parameters
    ----------
    first : ndarray of int64, shape (m,)
        The first row equal to each.
    nearby : ndarray of int64, shape (m,)
        The first row equal to each and at home in the same cell, as cells share the copies of a point that has more
        of them than a cell holds.
    """

    first: NDArray[np.int64]
    nearby: NDArray[np.int64]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows that are compared with others, ascending."""
        return np.flatnonzero(self.nearby == np.arange(len(self.nearby)))

    def cells(self, member_cells: Integers) -> NDArray[np.int32]:
        """Cells of the rows that are compared, shape (m, r); -1 for others."""
        if len(self.rows) < len(member_cells):
            member_cells = np.where((self.nearby == np.arange(len(self.nearby)))[:, None], member_cells, -1)
        return np.ascontiguousarray(member_cells, np.int32)


def find_points(X: Floats, homes: Integers, k: int) -> Points:
    """Find the first of equal rows, unless so few rows differ that lists of k would be short: then each is a point.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    homes : ndarray of int32, shape (m,)
        Home cells, -1 for one of another group.
    k : int
    """
    own, first = np.arange(len(X)), first_equal(X)
    n_distinct = np.count_nonzero(first == own)
    if n_distinct == len(X) or n_distinct <= k:
        return Points(own, own)
    _, at, inverse = np.unique(first * (np.int64(2) + homes.max()) + homes + 1, return_index=True, return_inverse=True)
    return Points(first, at[inverse])


def list_copies(indices: Integers, squares: Floats, points: Points) -> None:
    """Complete the lists of equal rows, of which only the first in each cell has been compared with other rows.

    Every one of them lists another copy, at distance 0, and then the neighbours of the first in its cell: so a point
    has as many edges to other points as its copies have together.

    Parameters
    ----------
    indices : ndarray of int32, shape (m, k)
    squares : ndarray of float32, shape (m, k)
        Changed in place.
    points : Points
    """
    first, nearby = points
    own = np.arange(len(first))
    copies = np.flatnonzero(first != own)
    firsts, at = np.unique(first[copies], return_index=True)
    indices[copies], squares[copies] = indices[nearby[copies]], squares[nearby[copies]]
    listed = np.where(nearby == own, first, nearby)[copies]
    for rows, others in ((copies, listed), (firsts, copies[at])):
        is_new = indices[rows, 0] != others  # a row that has met few others was compared with all points
        rows = rows[is_new]
        indices[rows, 1:], squares[rows, 1:] = indices[rows, :-1], squares[rows, :-1]
        indices[rows, 0], squares[rows, 0] = others[is_new], 0


@compiled
def _keys(words: Any) -> Any:
    """A number for each row of words (m, d): the same for equal rows, for two others by chance in 2^64; int64, (m,).

    Four chains of products, each over every fourth word, as a product waits for the one before it. They start from
    different numbers, or zeros in one would count as zeros in another.
    """
    keys, chains = np.empty(len(words), np.int64), np.empty(4, np.uint64)
    for i in range(len(words)):
        for p in range(4):
            chains[p] = _FACTOR >> np.uint64(p)
        for p in range(words.shape[1]):
            word = words[i, p]
            if word != _MINUS_ZERO:  # which equals zero
                chains[p & 3] ^= np.uint64(word)
            chains[p & 3] *= _FACTOR
            chains[p & 3] ^= chains[p & 3] >> _SHIFT
        key = np.uint64(0)
        for p in range(4):
            key = (key ^ chains[p]) * _FACTOR
            key ^= key >> _SHIFT
        keys[i] = np.int64(key)
    return keys


@compiled
def _find_first(X: Any, keys: Any, order: Integers, first: Integers) -> None:
    """Write the first equal row of each to `first` (m,); `order` (m,) sorts the `keys` (m,) of X (m, d), stably."""
    for place in range(len(order)):
        i = order[place]
        first[i] = i
        if place > 0 and keys[i] == keys[order[place - 1]]:
            before, is_equal = first[order[place - 1]], True
            for p in range(X.shape[1]):
                is_equal &= X[i, p] == X[before, p]
            if is_equal:
                first[i] = before
