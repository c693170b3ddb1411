"""Rows of numbers in vector registers.

Numba has no vector types, and keeps the sums of a plain loop in memory; the functions here use LLVM's vectors directly.
Product and sum are rounded one after the other, never fused: the bits do not depend on the processor.
"""

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import types
from numpy.typing import DTypeLike

LANES = (32, 16, 8)
"""Numbers of columns that are computed together: the largest that fits; the last columns are padded with zeros."""

_intrinsic: Any = extending.intrinsic  # typed as Any: its own type wrongly declares the generator's parameters


def cut(width: int) -> Iterator[tuple[slice, tuple[bool, ...]]]:
    """Yield ranges of columns, each with a tuple of its padded width, whose type tells the compiler the width."""
    start = 0
    while start < width:
        lanes = next((lanes for lanes in LANES if lanes <= width - start), LANES[-1])
        yield slice(start, min(start + lanes, width)), (False,) * lanes
        start += lanes


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
def zeros(typing: Any, X: Any, lanes: Any) -> tuple[Any, Callable[..., Any]]:
    """As many zeros as `lanes` is long, of the type of X."""
    row = Lanes(X.dtype, lanes.count)
    return row(X, lanes), lambda context, builder, signature, args: ir.Constant(context.get_value_type(row), None)


@_intrinsic
def load(typing: Any, X: Any, i: Any, like: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Row i of X, whose width must be that of `like`; no index is negative."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any, Any]) -> Any:
        place = _place(context, builder, signature.args, args)
        return builder.load(place, align=_itemsize(X))

    return like(X, i, like), generate


@_intrinsic
def load_part(typing: Any, X: Any, i: Any, start: Any, like: Lanes) -> tuple[Any, Callable[..., Any]]:
    """The numbers of row i of X from column `start` on, as many as `like` has; X may be wider."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any, Any, Any]) -> Any:
        array, index, column, _ = signature.args
        X = context.make_array(array)(context, builder, args[0])
        width = builder.extract_value(X.shape, 1)
        first = builder.add(builder.mul(_as_wide(builder, args[1], index), width), _as_wide(builder, args[2], column))
        place = builder.bitcast(builder.gep(X.data, [first]), context.get_value_type(like).as_pointer())
        return builder.load(place, align=_itemsize(array))

    return like(X, i, start, like), generate


@_intrinsic
def store(typing: Any, X: Any, i: Any, row: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Write a row to row i of X."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any, Any]) -> Any:
        builder.store(args[2], _place(context, builder, signature.args, args), align=_itemsize(X))
        return context.get_dummy_value()

    return types.none(X, i, row), generate


@_intrinsic
def times(typing: Any, row: Any, factor: Any) -> tuple[Any, Callable[..., Any]]:
    """Every number times the factor."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any]) -> Any:
        vector, undefined = args[0].type, ir.Constant(args[0].type, ir.Undefined)
        first = builder.insert_element(undefined, args[1], ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
        return builder.fmul(args[0], builder.shuffle_vector(first, undefined, everywhere))

    return row(row, row.dtype), generate


@_intrinsic
def plus(typing: Any, row: Lanes, other: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Sum of two rows."""
    return row(row, row), lambda context, builder, signature, args: builder.fadd(*args)


@_intrinsic
def minus(typing: Any, row: Lanes, other: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Difference of two rows."""
    return row(row, row), lambda context, builder, signature, args: builder.fsub(*args)


def _place(context: Any, builder: Any, kinds: tuple[Any, Any, Lanes], args: tuple[Any, Any, Any]) -> Any:
    """Pointer to row `i` of X, counted without sign; `kinds` and `args` are of X, i and a row."""
    (array, index, row), (X, i) = kinds, args[:2]
    start = context.make_array(array)(context, builder, X).data
    first = builder.gep(start, [builder.mul(_as_wide(builder, i, index), ir.Constant(ir.IntType(64), row.count))])
    return builder.bitcast(first, context.get_value_type(row).as_pointer())


def _as_wide(builder: Any, i: Any, kind: Any) -> Any:
    """An index as 64 bits, without sign."""
    return builder.zext(i, ir.IntType(64)) if kind.bitwidth < 64 else i


def _itemsize(X: Any) -> int:
    return X.dtype.bitwidth // 8
