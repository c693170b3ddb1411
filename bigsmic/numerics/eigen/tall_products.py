"""Products of two tall matrices of which one has few columns, limited by memory bandwidth.

BLAS copies both operands into buffers of its own first, which takes longer here than the arithmetic. These kernels read
every number of the wide operand once, where it is: a block of its columns, and as many sums, stay in vector registers.
On one thread, 580,000 x 96 float32 numbers and eight columns take 13 ms a product, the time of reading them 10 ms;
with BLAS they take 23 to 30 ms (AMD EPYC).

Sums are over tiles of `TILE` rows, each in the precision of the operands, and then over tiles in float64. Their order
depends on nothing else: not on threads, nor on the other columns of the narrow matrix.
"""

from collections.abc import Iterator

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.lanes import (
    HEIGHT,
    load,
    load_block,
    minus_mixture,
    plus_outer,
    store,
    store_block,
    zero_block,
    zeros,
)
from bigsmic.numerics.products import product, self_product
from bigsmic.types import Floats, Integers

TILE = 512  # rows: eight columns of them, and eight sums, stay in the nearest cache
WIDTH = 8
LANES = (False,) * WIDTH


def inner(V: Floats, W: Floats) -> Floats:
    """``V' W``.

    Parameters
    ----------
    V : ndarray of float, shape (n, k)
        Fortran-ordered.
    W : ndarray, shape (n, w)
        C-ordered, of the same dtype, with few columns.

    Returns
    -------
    S : ndarray of float64, shape (k, w)
    """
    rows, kept = _blocks(V)
    found = np.empty((V.shape[1], W.shape[1]))
    for columns, few in _narrow(W):
        sums = np.zeros((_n_padded(V), WIDTH))
        _add_inner(rows, few, sums, np.empty((HEIGHT, WIDTH), W.dtype), LANES)
        found[:, columns] = sums[kept, : columns.stop - columns.start]
    return found


def gram(W: Floats) -> Floats:
    """``W' W``.

    Parameters
    ----------
    W : ndarray of float, shape (n, w)
        C-ordered.

    Returns
    -------
    G : ndarray of float64, shape (w, w)
    """
    n_tiles, w = len(W) // TILE, W.shape[1]
    tiles = W[: n_tiles * TILE].reshape(n_tiles, TILE, w)
    sums = product(tiles.transpose(0, 2, 1), tiles).sum(axis=0, dtype=np.float64)
    return sums + self_product(W[n_tiles * TILE :])


def subtract(V: Floats, S: Floats, W: Floats) -> None:
    """``W <- W - V S``, in place.

    Parameters
    ----------
    V : ndarray of float, shape (n, k)
        Fortran-ordered.
    S : ndarray, shape (k, w)
    W : ndarray, shape (n, w)
        C-ordered, of the same dtype, with few columns.
    """
    rows, kept = _blocks(V)
    for columns, few in _narrow(W):
        width = columns.stop - columns.start
        mixture = np.zeros((_n_padded(V), WIDTH), W.dtype)
        mixture[kept, :width] = S[:, columns]
        _subtract_mixture(rows, mixture, few, LANES)
        if few is not W:
            W[:, columns] = few[:, :width]


def _narrow(W: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield `WIDTH` columns of W at a time, padded with zeros; W itself, if it has as many."""
    if W.shape[1] == WIDTH:
        yield slice(0, WIDTH), W
        return
    for start in range(0, W.shape[1], WIDTH):
        columns = slice(start, min(start + WIDTH, W.shape[1]))
        few = np.zeros((len(W), WIDTH), W.dtype)
        few[:, : columns.stop - start] = W[:, columns]
        yield columns, few


def _n_padded(V: Floats) -> int:
    return -(-V.shape[1] // HEIGHT) * HEIGHT


def _blocks(V: Floats) -> tuple[Floats, Integers]:
    """The columns of V as rows, and their numbers in blocks of `HEIGHT` of them.

    The last block ends with the last column, and its first ones are also in the block before, or, in that of a single
    block, zeros: they do not count.
    """
    n_padded, overlap = _n_padded(V), _n_padded(V) - V.shape[1]
    kept = np.delete(np.arange(n_padded), np.s_[n_padded - HEIGHT : n_padded - HEIGHT + overlap])
    if n_padded > HEIGHT or overlap == 0:
        return frozen(V.T), kept
    return frozen(np.concatenate([np.zeros((overlap, len(V)), V.dtype), V.T])), kept


@compiled
def _add_inner(V: Floats, W: Floats, sums: Floats, part: Floats, lanes: tuple[bool, ...]) -> None:
    """Add ``V W`` to the sums; V is (k, n), W (n, lanes), sums (padded k, lanes), part (HEIGHT, lanes)."""
    n, zero = len(W), zeros(W, lanes)
    for start in range(0, n, TILE):
        for first in range(0, len(sums), HEIGHT):
            column = min(first, len(V) - HEIGHT)
            block = zero_block(zero)
            for i in range(np.uint64(start), np.uint64(min(start + TILE, n))):
                block = plus_outer(block, V, column, i, load(W, i, zero))
            store_block(part, 0, block)
            for p in range(HEIGHT):
                for c in range(part.shape[1]):
                    sums[first + p, c] += part[p, c]


@compiled
def _subtract_mixture(V: Floats, mixture: Floats, W: Floats, lanes: tuple[bool, ...]) -> None:
    """``W <- W - V' mixture``; V is (k, n), mixture (padded k, lanes), W (n, lanes)."""
    n, zero = len(W), zeros(W, lanes)
    for start in range(0, n, TILE):
        for first in range(0, len(mixture), HEIGHT):
            column, block = min(first, len(V) - HEIGHT), load_block(mixture, first, zero)
            for i in range(np.uint64(start), np.uint64(min(start + TILE, n))):
                store(W, i, minus_mixture(load(W, i, zero), V, column, i, block))
