"""Products of sparse row blocks with few dense columns, limited by memory bandwidth.

A row of the result is a sum of rows of the operand, eight or more columns at once in vector registers. To this end
the rows that a block touches, its own and then those of its halo, are first copied side by side, `LANES` columns wide:
every entry of the block is then one load, one product and one sum, without a branch. Numba has no vector types, and
keeps the sums of a plain loop in memory; the functions of :class:`Lanes` use LLVM's vectors directly.

Every column is summed in the order of the entries, product and sum rounded one after the other, never fused: the bits
do not depend on the processor, on the number of columns, or on which of them are multiplied together.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types
from numpy.typing import DTypeLike

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.types import Floats

LANES = (32, 16, 8)
"""Numbers of columns that are multiplied together: the largest that fits; the last columns are padded with zeros."""


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
    for columns, lanes in _cut(out.shape[1]):
        X = _side_by_side(rows, columns, len(lanes))
        if len(lanes) == out.shape[1]:
            _multiply(csr, numbers, (X, Y), out, lanes)
            continue
        filled = np.zeros((len(out), len(lanes)), out.dtype)
        filled[:, : columns.stop - columns.start] = Y[:, columns]
        _multiply(csr, numbers, (X, filled), filled, lanes)
        out[:, columns] = filled[:, : columns.stop - columns.start]


def _cut(width: int) -> Iterator[tuple[slice, tuple[bool, ...]]]:
    """Ranges of columns, each with a tuple of its padded width, whose type tells the compiler the width."""
    start = 0
    while start < width:
        lanes = next((lanes for lanes in LANES if lanes <= width - start), LANES[-1])
        yield slice(start, min(start + lanes, width)), (False,) * lanes
        start += lanes


def _side_by_side(rows: Rows, columns: slice, lanes: int) -> Floats:
    """Own rows and then the halo, padded with zeros; shape (hi - lo + h, lanes)."""
    height, width = rows.own.stop - rows.own.start, columns.stop - columns.start
    found = (np.empty if width == lanes else np.zeros)((height + len(rows.halo), lanes), rows.X.dtype)
    found[:height, :width] = rows.X[rows.own, columns]
    _take((rows.X, rows.foreign), columns.start, frozen(rows.halo), found[height:], width)
    return found


@compiled
def _take(sources: tuple[Floats, Floats], start: int, where: Any, taken: Floats, width: int) -> None:
    """``taken[i] = [X; foreign][where[i], start : start + width]``; X is (n, w), foreign (f, w), taken (h, lanes)."""
    X, foreign = sources
    n = len(X)
    for i in range(len(where)):
        j = where[i]
        if j < n:
            for c in range(width):
                taken[i, c] = X[j, start + c]
        else:
            for c in range(width):
                taken[i, c] = foreign[j - n, start + c]


# -- rows in vector registers

_intrinsic: Any = extending.intrinsic  # typed as Any: its own type wrongly declares the generator's parameters


class Lanes(types.Type):
    """Numba type of a row of `count` numbers, an LLVM vector."""

    def __init__(self, dtype: DTypeLike, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(f"Lanes({dtype}, {count})")


@extending.register_model(Lanes)
class _LanesModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.dtype).get_value_type(), lanes.count))


@_intrinsic
def _zeros(typing: Any, X: Any, lanes: Any) -> tuple[Any, Callable[..., Any]]:
    """As many zeros as `lanes` is long, of the type of X."""
    row = Lanes(X.dtype, lanes.count)
    return row(X, lanes), lambda context, builder, signature, args: ir.Constant(context.get_value_type(row), None)


@_intrinsic
def _load(typing: Any, X: Any, i: Any, like: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Row i of X, whose width must be that of `like`; no index is negative."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any, Any]) -> Any:
        place = _place(context, builder, signature.args, args)
        return builder.load(place, align=_itemsize(X))

    return like(X, i, like), generate


@_intrinsic
def _store(typing: Any, X: Any, i: Any, row: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Write a row to row i of X."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any, Any]) -> Any:
        builder.store(args[2], _place(context, builder, signature.args, args), align=_itemsize(X))
        return context.get_dummy_value()

    return types.none(X, i, row), generate


@_intrinsic
def _times(typing: Any, row: Any, factor: Any) -> tuple[Any, Callable[..., Any]]:
    """Every number times the factor."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any]) -> Any:
        vector, undefined = args[0].type, ir.Constant(args[0].type, ir.Undefined)
        first = builder.insert_element(undefined, args[1], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
        return builder.fmul(args[0], builder.shuffle_vector(first, undefined, zeros))

    return row(row, row.dtype), generate


@_intrinsic
def _plus(typing: Any, row: Lanes, other: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Sum of two rows."""
    return row(row, row), lambda context, builder, signature, args: builder.fadd(*args)


@_intrinsic
def _minus(typing: Any, row: Lanes, other: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Difference of two rows."""
    return row(row, row), lambda context, builder, signature, args: builder.fsub(*args)


def _place(context: Any, builder: Any, kinds: tuple[Any, Any, Lanes], args: tuple[Any, Any, Any]) -> Any:
    """Pointer to row `i` of X, counted without sign; `kinds` and `args` are of X, i and a row."""
    (array, index, row), (X, i) = kinds, args[:2]
    start = context.make_array(array)(context, builder, X).data
    i = builder.zext(i, ir.IntType(64)) if index.bitwidth < 64 else i
    first = builder.gep(start, [builder.mul(i, ir.Constant(ir.IntType(64), row.count))])
    return builder.bitcast(first, context.get_value_type(row).as_pointer())


def _itemsize(X: Any) -> int:
    return X.dtype.bitwidth // 8


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
        total = zero = _zeros(X, lanes)
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):  # unsigned: no index counts from the end
            total = _plus(total, _times(_load(X, indices[p], zero), data[p]))
        total = _minus(_times(total, a), _times(_load(X, i, zero), b))
        _store(out, i, _minus(total, _times(_load(Y, i, zero), g)))
