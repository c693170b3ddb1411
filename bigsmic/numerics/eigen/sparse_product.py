"""Products of sparse row blocks with few dense columns, limited by memory bandwidth.

A row of the result is a sum of rows of the operand, eight or more columns at once in vector registers. To this end
the rows that a block touches, its own and then those of its halo, are first copied side by side, `LANES` columns wide:
every entry of the block is then one load, one product and one sum, without a branch.

Every column is summed in the order of the entries, product and sum rounded one after the other, never fused: the bits
do not depend on the processor, on the number of columns, or on which of them are multiplied together.
"""

from typing import Any, NamedTuple

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.lanes import cut, load, load_part, minus, plus, store, times, zeros
from bigsmic.types import Floats


class Rows(NamedTuple):
    """The rows of the operand that one block needs, and their places.

    Parameters
    ----------
    X : ndarray, shape (n, w)
        C-ordered, as all dense arrays here.
    foreign : ndarray, shape (f, w)
        Rows of other shards, numbered after those of X.
    own : slice
        Rows of X that belong to the block.
    halo : ndarray of int, shape (h,)
        Numbers, in X and `foreign`, of the rows of its halo.
    """

    X: np.ndarray
    foreign: np.ndarray
    own: slice
    halo: np.ndarray


def multiply(block: KernelBlock, factors: tuple[float, float, float], rows: Rows, Y: Floats, out: Floats) -> None:
    """One row block of ``out = a K X - b X - g Y``, all dense arrays C-ordered and of one dtype.

    Parameters
    ----------
    block : bigsmic.numerics.graph.affinity.KernelBlock
    factors : tuple of float
        a, b, g.
    rows : Rows
        Of X.
    Y, out : ndarray, shape (hi - lo, w)
        They may be the same.
    """
    csr = (frozen(block.indptr), frozen(block.indices), frozen(block.data, out.dtype))
    numbers = tuple(out.dtype.type(factor) for factor in factors)
    for columns, lanes in cut(out.shape[1]):
        X = _side_by_side(rows, columns, lanes)
        if len(lanes) == out.shape[1]:
            _multiply(csr, numbers, (X, Y), out, lanes)
            continue
        filled = np.zeros((len(out), len(lanes)), out.dtype)
        filled[:, : columns.stop - columns.start] = Y[:, columns]
        _multiply(csr, numbers, (X, filled), filled, lanes)
        out[:, columns] = filled[:, : columns.stop - columns.start]


def _side_by_side(rows: Rows, columns: slice, lanes: tuple[bool, ...]) -> Floats:
    """Own rows and then the halo, padded with zeros; shape (hi - lo + h, lanes)."""
    height, width = rows.own.stop - rows.own.start, columns.stop - columns.start
    found = (np.empty if width == len(lanes) else np.zeros)((height + len(rows.halo), len(lanes)), rows.X.dtype)
    found[:height, :width] = rows.X[rows.own, columns]
    sources, halo, taken = (rows.X, rows.foreign), frozen(rows.halo), found[height:]
    if width == len(lanes):
        _take(sources, columns.start, halo, taken, lanes)
    else:
        inside = rows.halo < len(rows.X)
        taken[inside, :width] = rows.X[rows.halo[inside], columns]
        taken[~inside, :width] = rows.foreign[rows.halo[~inside] - len(rows.X), columns]
    return found


@compiled
def _take(sources: tuple[Floats, Floats], start: int, where: Any, taken: Floats, lanes: tuple[bool, ...]) -> None:
    """``taken[i] = [X; foreign][where[i], start : start + lanes]``; X is (n, w), foreign (f, w), taken (h, lanes).

    With one load and one store a row, a processor waits for several distant rows at once.
    """
    X, foreign = sources
    n, zero = len(X), zeros(X, lanes)
    for i in range(len(where)):
        j = where[i]
        if j < n:
            store(taken, i, load_part(X, j, start, zero))
        else:
            store(taken, i, load_part(foreign, j - n, start, zero))


@compiled
def _multiply(
    csr: tuple[Any, Any, Any],
    factors: Any,
    operands: tuple[Floats, Floats],
    out: Floats,
    lanes: tuple[bool, ...],
) -> None:
    """``out[i] = a sum_p data[p] X[indices[p]] - b X[i] - g Y[i]``, p from ``indptr[i]`` to ``indptr[i + 1]``.

    `csr` is ``indptr (b + 1,), indices, data (entries,)``; X is (b + h, lanes), Y and out are (b, lanes). The sum of a
    row stays in vector registers; the length of the tuple `lanes` gives their number to the compiler.
    """
    indptr, indices, data = csr
    a, b, g = factors
    X, Y = operands
    for i in range(len(out)):
        total = zero = zeros(X, lanes)
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):  # unsigned: no index counts from the end
            total = plus(total, times(load(X, indices[p], zero), data[p]))
        total = minus(times(total, a), times(load(X, i, zero), b))
        store(out, i, minus(total, times(load(Y, i, zero), g)))
