"""The rows of the eigensolver: kernel blocks, basis and working block over fixed row blocks.

:class:`RowSpace` implements `numerics.eigen.space.Space` for the rows of one shard, :class:`GroupSpace` for those of
all shards of a group, which may be on several workers. At any time a worker holds in memory the last block and the
working block (n x b each), and per thread one kernel block and one block of the basis, unless the whole basis is in
memory. Dense work runs over tiles of rows that stay in cache, in float32 (or float64), and its results are added up in
float64. All bounds are fixed, so that results do not depend on threads or on where the basis is stored.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.chebyshev import Filter
from bigsmic.numerics.eigen.sparse_product import Rows, multiply
from bigsmic.numerics.eigen.tall_products import gram, inner, subtract
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.row_blocks import Group, Shard, tiles
from bigsmic.types import Floats, Integers

PANEL = 1024  # rows of a tile: with a hundred columns, it stays in a processor's cache while it is rotated
CHECKED = 8


class Basis(Protocol):
    """Storage of the columns of V: one Fortran-ordered array per row block of a shard.

    Attributes
    ----------
    bounds : ndarray of int64, shape (p + 1,)
        Block i of the shard is ``bounds[i]:bounds[i + 1]``.
    capacity : int
        Number of columns that fit.
    dtype : dtype
        float32 or float64.
    """

    bounds: np.ndarray
    capacity: int
    dtype: np.dtype

    def read(self, block: int, start: int, stop: int) -> np.ndarray:
        """Return columns ``start:stop`` of a block, Fortran-ordered; the caller may write into it."""
        ...

    def write(self, block: int, start: int, columns: np.ndarray) -> None:
        """Store `columns` from column `start` on."""
        ...

    def close(self) -> None:
        """Delete the files of the basis, if there are any."""
        ...


class MemoryBasis:
    """A basis in memory.

    Parameters
    ----------
    bounds : array_like of int, shape (p + 1,)
    capacity : int
    dtype : dtype, default float32
    """

    def __init__(self, bounds: Integers | list[int], capacity: int, dtype: DTypeLike = np.float32) -> None:
        self.bounds = np.asarray(bounds, dtype=np.int64)
        self.capacity = capacity
        self.dtype = np.dtype(dtype)
        self._blocks = [np.zeros((m, capacity), self.dtype, order="F") for m in np.diff(self.bounds)]

    def read(self, block: int, start: int, stop: int) -> Floats:
        """Return a view of the columns."""
        return self._blocks[block][:, start:stop]

    def write(self, block: int, start: int, columns: Floats) -> None:
        """Store the columns; nothing to do for those that were changed in place."""
        target = self._blocks[block][:, start : start + columns.shape[1]]
        if not np.may_share_memory(target, columns):
            target[...] = columns

    def close(self) -> None:
        """Nothing to do for a basis in memory."""


class SplitBasis:
    """A basis whose first row blocks lie in one place, and the others in another.

    Parameters
    ----------
    first, rest : Basis
        Of one capacity and dtype; `rest` counts its blocks and rows from 0.
    """

    def __init__(self, first: Basis, rest: Basis) -> None:
        self.bounds = np.concatenate([first.bounds, first.bounds[-1] + rest.bounds[1:]])
        self.capacity, self.dtype = first.capacity, first.dtype
        self._places, self._n_first = (first, rest), len(first.bounds) - 1

    def _at(self, block: int) -> tuple[Basis, int]:
        first, rest = self._places
        return (first, block) if block < self._n_first else (rest, block - self._n_first)

    def read(self, block: int, start: int, stop: int) -> Floats:
        """Return the columns, a view where the place gives one."""
        place, own = self._at(block)
        return place.read(own, start, stop)

    def write(self, block: int, start: int, columns: Floats) -> None:
        """Store the columns."""
        place, own = self._at(block)
        place.write(own, start, columns)

    def close(self) -> None:
        """Close both places."""
        for place in self._places:
            place.close()


class Product(Protocol):
    """Protocol of the matrix of an eigenproblem, multiplied with the rows of one shard."""

    def operand(self, X: np.ndarray) -> Any:
        """Operand of products with X, including rows of other shards; X has shape (rows of the shard, w)."""
        ...

    def multiply(
        self, p: int, factors: tuple[float, float, float], operand: Any, Y: np.ndarray, out: np.ndarray
    ) -> None:
        """One row block of ``out = a K X - b X - g Y``; `factors` are a, b, g, and `out` may be Y."""
        ...


class KernelProduct:
    """A sparse matrix in row blocks.

    Parameters
    ----------
    shard : Shard
    load_block : callable
        ``load_block(p)`` returns :class:`bigsmic.numerics.graph.affinity.KernelBlock` p; it may read the block anew
        each time.
    """

    def __init__(self, shard: Shard, load_block: Callable[..., Any]) -> None:
        self.shard, self.load_block = shard, load_block
        self._halo = shard.halo(lambda p: load_block(p).halo)

    def operand(self, X: Floats) -> tuple[Floats, Floats]:
        """X, and the rows of other shards that blocks of this shard need, without a copy of X."""
        return X, self._halo.foreign(X)

    def multiply(
        self, p: int, factors: tuple[float, float, float], operand: tuple[Floats, Floats], Y: Floats, out: Floats
    ) -> None:
        """One row block of ``out = a K X - b X - g Y``."""
        block, (X, foreign) = self.load_block(p), operand
        rows = Rows(X, foreign, self.shard.rows(p), self._halo.local(p, block.halo))
        multiply(block, factors, rows, Y, out)


class WithDiagonal(KernelProduct):
    """A sparse kernel with ones on its diagonal, which its blocks leave out."""

    def multiply(
        self, p: int, factors: tuple[float, float, float], operand: tuple[Floats, Floats], Y: Floats, out: Floats
    ) -> None:
        """One row block of ``out = a (K + I) X - b X - g Y``."""
        a, b, g = factors
        super().multiply(p, (a, b - a, g), operand, Y, out)


class RowSpace:
    """Kernel, basis and working block of the rows of one shard.

    Sums are over the rows of this shard; they are complete if the shard has all rows.

    Parameters
    ----------
    shard : Shard
    product : Product
        The matrix.
    basis : Basis
        Storage for the columns of V; its row blocks are those of the shard.
    seed : int
        Seed of the hashed random columns.
    n_columns : int
        Columns that the basis already holds: known eigenvectors, then a warm start.

    Notes
    -----
    To resume, pass the stored basis and the number of its columns, and call :meth:`reopen`.
    """

    def __init__(self, shard: Shard, product: Product, basis: Basis, seed: int = 0, n_columns: int = 0) -> None:
        self.shard, self.product, self.basis, self.seed = shard, product, basis, seed
        self.n_columns = n_columns
        self.n_rows = int(shard.bounds[-1])
        self.eps = float(np.finfo(basis.dtype).eps)
        self._last = self._empty(0)
        self._work = self._last

    def reopen(self, width: int) -> None:
        """Take the last `width` columns of the basis as its last block, as after a restart."""
        self.take(self.n_columns - width, width)

    def take(self, start: int, width: int) -> None:
        """``V_last <- V[:, start:start + width]``."""
        self._last = self._empty(width)
        self.shard.for_each_block(lambda p: self._copy_last(p, start))

    def put(self, start: int) -> None:
        """``V[:, start:] <- W``, as many columns as W has."""
        self.shard.for_each_block(lambda p: self._write(p, start, np.asfortranarray(self._work[self.shard.rows(p)])))

    def apply(self, filter: Filter) -> Floats:
        """``W <- p(K) V_last`` by the Chebyshev recurrence, one map per degree; return the moments."""
        older, newer = None, self._last
        self._last = self._work = self._empty(0)  # frees both, so that the recurrence keeps two arrays, not four
        for _ in range(filter.degree):
            older, newer = newer, self._recur(filter, older, newer)
        self._work = newer
        return self.shard.sum_over_blocks(self._moments)

    def project(self, S: Floats, Q: Floats) -> Floats:
        """``W <- (W - V S) Q``; return the moments."""
        S, Q, old = self._cast(S), self._cast(Q), self._work
        self._work = old if Q.shape[0] == Q.shape[1] else self._empty(Q.shape[1])
        return self.shard.sum_over_blocks(lambda p: self._project_block(p, old, S, Q))

    def draw(self, n_kept: int, n_new: int, key: int) -> Any:
        """``W <- [first n_kept columns of W, n_new hashed random ones]``; return the moments."""
        old = self._work
        self._work = self._empty(n_kept + n_new)

        def task(p: int) -> Floats:
            rows, positions = self.shard.rows(p), self.shard.positions(p)
            self._work[rows, :n_kept] = old[rows, :n_kept]
            for j in range(n_new):
                self._work[rows, n_kept + j] = row_uniform(self.seed, f"lanczos {key} {j}", positions) - 0.5
            return self._moments(p)

        return self.shard.sum_over_blocks(task)

    def recall(self, Q: Floats, start: int) -> Any:
        """``W <- V[:, start:] Q``, drop those columns; return the moments."""
        stop, self.n_columns = self.n_columns, start
        self._work, Q = self._empty(Q.shape[1]), self._cast(Q)

        def task(p: int) -> Floats:
            self._work[self.shard.rows(p)] = self._read(p, start, stop) @ Q
            return self._moments(p)

        return self.shard.sum_over_blocks(task)

    def append(self, Q: Floats) -> None:
        """``V_last <- W Q``, ``V <- [V, V_last]``."""
        if self.n_columns + Q.shape[1] > self.basis.capacity:
            raise InputError(
                f"basis: {self.n_columns + Q.shape[1]} columns do not fit its capacity of {self.basis.capacity}; "
                "make it LanczosParams.size(n)"
            )
        Q, self._last = self._cast(Q), self._empty(Q.shape[1])

        def task(p: int) -> None:
            rows = self.shard.rows(p)
            np.matmul(self._work[rows], Q, out=self._last[rows])
            self._write(p, self.n_columns, np.asfortranarray(self._last[rows]))

        self.shard.for_each_block(task)
        self.n_columns += Q.shape[1]

    def rotate(self, Q: Floats, start: int) -> None:
        """``V <- [V[:, :start], V[:, start:] Q]``, in place."""
        Qt, stop, width = self._cast(Q.T), self.n_columns, Q.shape[1]

        def task(p: int) -> None:
            columns = self._read(p, start, stop)
            for tile in tiles(len(columns), PANEL):
                columns[tile, :width] = (Qt @ columns[tile].T).T
            self._write(p, start, columns[:, :width])

        self.shard.for_each_block(task)
        self.n_columns = start + width

    def column_sums(self) -> Any:
        """Return the sums of each column of V, plain and with hashed weights; float64, shape (2, k)."""

        def task(p: int) -> Floats:
            V = self._read(p, 0, self.n_columns)
            weights = row_uniform(self.seed, "lanczos signs", self.shard.positions(p))
            return np.stack([V.sum(axis=0, dtype=np.float64), _weighted_sums(V, weights)])

        return self.shard.sum_over_blocks(task)

    def squared_residuals(self, values: Floats, start: int) -> Floats:
        """Squared residual norms ``|K v - theta v|^2`` of the columns from `start` on, one for each value.

        Parameters
        ----------
        values : ndarray of float64, shape (c,)
            theta.
        start : int

        Returns
        -------
        squares : ndarray of float64, shape (c,)
        """
        self.take(start, len(values))
        values, operand = values.astype(self.basis.dtype), self.product.operand(self._last)

        def task(p: int) -> Floats:
            own = self._last[self.shard.rows(p)]
            difference = np.empty_like(own)
            self.product.multiply(p, (1, 0, 0), operand, own, difference)
            difference -= own * values
            return np.diag(gram(difference))

        return self.shard.sum_over_blocks(task)

    def residual_norms(self, values: Floats, start: int) -> Floats:
        """True residual norms of the columns from `start` on; see `squared_residuals`. The shard must have all rows."""
        return residual_norms(self.squared_residuals, values, start)

    def _recur(self, filter: Filter, older: Floats | None, newer: Floats) -> Floats:
        """``(2/h) (K - c) newer - older``, in place of `older`; in the first step ``(1/h) (K - c) newer``."""
        factor = (1.0 if older is None else 2.0) / filter.half_width
        factors = (factor, factor * filter.center, 0.0 if older is None else 1.0)
        result, older = (self._empty(newer.shape[1]), newer) if older is None else (older, older)
        operand = self.product.operand(newer)

        def task(p: int) -> None:
            rows = self.shard.rows(p)
            self.product.multiply(p, factors, operand, older[rows], result[rows])

        self.shard.for_each_block(task)
        return result

    def _copy_last(self, p: int, start: int) -> None:
        self._last[self.shard.rows(p)] = self._read(p, start, start + self._last.shape[1])

    def _moments(self, p: int) -> Floats:
        return _moments(self._read(p, 0, self.n_columns), self._work[self.shard.rows(p)])

    def _project_block(self, p: int, old: Floats, S: Floats, Q: Floats) -> Floats:
        rows = self.shard.rows(p)
        V = self._read(p, 0, self.n_columns)
        subtract(V, S, old[rows])
        self._work[rows] = old[rows] @ Q
        return _moments(V, self._work[rows])

    def _empty(self, width: int) -> Floats:
        return np.empty((self.shard.n_rows, width), self.basis.dtype)

    def _cast(self, A: Floats) -> Floats:
        return np.ascontiguousarray(A, dtype=self.basis.dtype)

    def _read(self, p: int, start: int, stop: int) -> Floats:
        return self.basis.read(p - self.shard.blocks.start, start, stop)

    def _write(self, p: int, start: int, columns: Floats) -> None:
        self.basis.write(p - self.shard.blocks.start, start, columns)


class GroupSpace:
    """The rows of all shards of a group, whose actors are :class:`RowSpace` or pass its calls on.

    Calls that return nothing are sent together with the next call that returns a value: a step of the eigensolver takes
    two rounds, and one more for every further pass of orthogonalisation.

    Parameters
    ----------
    group : Group
    n_rows, n_columns : int
        Rows of all shards, and columns that the basis already holds.
    dtype : dtype
        Of the basis.
    """

    def __init__(self, group: Group, n_rows: int, n_columns: int = 0, dtype: DTypeLike = np.float32) -> None:
        self.group, self.n_rows, self.n_columns = group, n_rows, n_columns
        self.eps = float(np.finfo(dtype).eps)
        self._waiting: list[tuple[Any, ...]] = []

    def apply(self, filter: Filter) -> Floats:
        """``W <- p(K) V_last``; return the moments."""
        return self._sum("apply", filter)

    def project(self, S: Floats, Q: Floats) -> Floats:
        """``W <- (W - V S) Q``; return the moments."""
        return self._sum("project", S, Q)

    def draw(self, n_kept: int, n_new: int, key: int) -> Floats:
        """``W <- [first n_kept columns of W, n_new hashed random ones]``; return the moments."""
        return self._sum("draw", n_kept, n_new, key)

    def recall(self, Q: Floats, start: int) -> Floats:
        """``W <- V[:, start:] Q``, drop those columns; return the moments."""
        self.n_columns = start
        return self._sum("recall", Q, start)

    def take(self, start: int, width: int) -> None:
        """``V_last <- V[:, start:start + width]``."""
        self._waiting.append(("take", start, width))

    def put(self, start: int) -> None:
        """``V[:, start:] <- W``, as many columns as W has."""
        self._waiting.append(("put", start))

    def append(self, Q: Floats) -> None:
        """``V_last <- W Q``, ``V <- [V, V_last]``."""
        self._waiting.append(("append", Q))
        self.n_columns += Q.shape[1]

    def rotate(self, Q: Floats, start: int) -> None:
        """``V <- [V[:, :start], V[:, start:] Q]``."""
        self._waiting.append(("rotate", Q, start))
        self.n_columns = start + Q.shape[1]

    def column_sums(self) -> Floats:
        """Return the sums of each column of V, plain and with hashed weights; float64, shape (2, k)."""
        return self._sum("column_sums")

    def residual_norms(self, values: Floats, start: int) -> Floats:
        """True residual norms ``|K v - theta v|`` of the columns from `start` on, one for each value."""
        return residual_norms(lambda *part: self._sum("squared_residuals", *part), values, start)

    def finish(self, *calls: tuple[Any, ...]) -> None:
        """Make the pending calls, and then `calls`, on every actor."""
        calls, self._waiting = (*self._waiting, *calls), []
        self.group.call(*calls)

    def _sum(self, *call: Any) -> Floats:
        calls, self._waiting = (*self._waiting, call), []
        return self.group.call_sum(*calls)


def residual_norms(squared_residuals: Callable[..., Any], values: Floats, start: int) -> Floats:
    """Residual norms of many columns, a few at a time to bound memory.

    Parameters
    ----------
    squared_residuals : callable
        ``squared_residuals(values, start)``; see :meth:`RowSpace.squared_residuals`.
    values : ndarray of float64, shape (c,)
    start : int

    Returns
    -------
    norms : ndarray of float64, shape (c,)
    """
    parts = [slice(j, min(j + CHECKED, len(values))) for j in range(0, len(values), CHECKED)]
    squares = [squared_residuals(values[part], start + part.start) for part in parts]
    return np.sqrt(np.concatenate([np.zeros(0), *squares]))


def _moments(V: Floats, W: Floats) -> Floats:
    return np.concatenate([inner(V, W), gram(W)])


def _weighted_sums(V: Floats, weights: Floats) -> Any:
    return sum(weights[tile] @ V[tile].astype(np.float64) for tile in tiles(len(V), PANEL))
