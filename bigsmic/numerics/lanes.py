"""Rows of numbers in vector registers, and blocks of as many rows as registers hold.

Numba has no vector types, and keeps the sums of a plain loop in memory; the functions here use LLVM's vectors directly.
Product and sum are rounded one after the other, never fused: the bits do not depend on the processor.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import types
from numpy.typing import DTypeLike

LANES = (32, 16, 8)
"""Numbers of columns that are computed together: the largest that fits; the last columns are padded with zeros."""

HEIGHT = 8
"""Rows of a block: of 16 vector registers, eight hold sums of eight numbers each, and there is room for operands."""

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


class Block(types.Type):
    """Numba type of :data:`HEIGHT` rows."""

    def __init__(self, row: Lanes) -> None:
        self.row = row
        super().__init__(f"Block({row})")


@extending.register_model(Block)
class _BlockModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, block: Block) -> None:
        super().__init__(manager, block, ir.ArrayType(manager.lookup(block.row).get_value_type(), HEIGHT))


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
        return builder.fmul(args[0], _everywhere(builder, args[1], args[0].type))

    return row(row, row.dtype), generate


@_intrinsic
def plus(typing: Any, row: Lanes, other: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Sum of two rows."""
    return row(row, row), lambda context, builder, signature, args: builder.fadd(*args)


@_intrinsic
def minus(typing: Any, row: Lanes, other: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Difference of two rows."""
    return row(row, row), lambda context, builder, signature, args: builder.fsub(*args)


@_intrinsic
def zero_block(typing: Any, like: Lanes) -> tuple[Any, Callable[..., Any]]:
    """A block of zeros, with rows like this one."""
    block = Block(like)
    return block(like), lambda context, builder, signature, args: ir.Constant(context.get_value_type(block), None)


@_intrinsic
def load_block(typing: Any, X: Any, i: Any, like: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Rows i, i + 1, ... of X, whose width must be that of `like`."""
    block = Block(like)

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any, Any]) -> Any:
        places = _places(context, builder, (X, i, like), args)
        found = ir.Constant(context.get_value_type(block), ir.Undefined)
        for row, place in enumerate(places):
            found = builder.insert_value(found, builder.load(place, align=_itemsize(X)), row)
        return found

    return block(X, i, like), generate


@_intrinsic
def store_block(typing: Any, X: Any, i: Any, block: Block) -> tuple[Any, Callable[..., Any]]:
    """Write a block to rows i, i + 1, ... of X."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, Any, Any]) -> Any:
        for row, place in enumerate(_places(context, builder, (X, i, block.row), args)):
            builder.store(builder.extract_value(args[2], row), place, align=_itemsize(X))
        return context.get_dummy_value()

    return types.none(X, i, block), generate


@_intrinsic
def plus_outer(typing: Any, block: Block, V: Any, j: Any, i: Any, row: Lanes) -> tuple[Any, Callable[..., Any]]:
    """Row p of the block plus ``V[j + p, i]`` times the row."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, ...]) -> Any:
        found, row = args[0], args[4]
        for p, factor in enumerate(_down(context, builder, (V, j, i), args[1:4])):
            term = builder.fmul(row, _everywhere(builder, factor, row.type))
            found = builder.insert_value(found, builder.fadd(builder.extract_value(found, p), term), p)
        return found

    return block(block, V, j, i, row), generate


@_intrinsic
def minus_mixture(typing: Any, row: Lanes, V: Any, j: Any, i: Any, block: Block) -> tuple[Any, Callable[..., Any]]:
    """The row minus the sum over p of ``V[j + p, i]`` times row p of the block."""

    def generate(context: Any, builder: Any, signature: Any, args: tuple[Any, ...]) -> Any:
        vector, terms = args[0].type, []
        for p, factor in enumerate(_down(context, builder, (V, j, i), args[1:4])):
            terms.append(builder.fmul(builder.extract_value(args[4], p), _everywhere(builder, factor, vector)))
        return builder.fsub(args[0], functools.reduce(builder.fadd, terms))

    return row(row, V, j, i, block), generate


def _down(context: Any, builder: Any, kinds: tuple[Any, Any, Any], args: tuple[Any, Any, Any]) -> Iterator[Any]:
    """Yield the numbers ``V[j, i], V[j + 1, i], ...``, as many as a block has rows; `kinds` and `args` of V, j, i."""
    array, row, column = kinds
    V = context.make_array(array)(context, builder, args[0])
    width = builder.extract_value(V.shape, 1)
    place = builder.add(builder.mul(_as_wide(builder, args[1], row), width), _as_wide(builder, args[2], column))
    for _ in range(HEIGHT):
        yield builder.load(builder.gep(V.data, [place]), align=_itemsize(array))
        place = builder.add(place, width)


def _everywhere(builder: Any, number: Any, vector: Any) -> Any:
    """A vector of this type with the number in all lanes."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None))


def _places(context: Any, builder: Any, kinds: tuple[Any, Any, Lanes], args: tuple[Any, Any, Any]) -> Iterator[Any]:
    """Yield pointers to rows i, i + 1, ... of X, as many as a block has; see `_place`."""
    array, index, row = kinds
    first = _as_wide(builder, args[1], index)
    for p in range(HEIGHT):
        i = builder.add(first, ir.Constant(ir.IntType(64), p))
        yield _place(context, builder, (array, types.uint64, row), (args[0], i, None))


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
