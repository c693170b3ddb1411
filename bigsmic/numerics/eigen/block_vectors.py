"""The rows of the eigensolver: kernel blocks, basis and working block over fixed row blocks.

:class:`RowSpace` implements `numerics.eigen.space.Space` for the rows of one shard, :class:`GroupSpace` for those of
all shards of a group, which may be on several workers. At any time a worker holds in memory at most two blocks of
vectors (n x b each), the last one, the working one or what comes between, and per thread one kernel block and one block
of the basis, unless the whole basis is in memory. Where memory is shorter still, it holds one block, and the other in
files. Dense work runs over tiles of rows that stay in cache, in float32 (or float64), and its results are added up in
float64. All bounds are fixed, so that results do not depend on threads or on where vectors are stored.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.basis import Basis
from bigsmic.numerics.eigen.chebyshev import Filter
from bigsmic.numerics.eigen.spare_vectors import SpareVectors, StoredVectors, spare_vectors
from bigsmic.numerics.eigen.sparse_product import Rows, multiply
from bigsmic.numerics.eigen.tall_products import gram, inner, subtract
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.row_blocks import Group, Shard, tiles
from bigsmic.types import Floats

PANEL = 1024  # rows of a tile: with a hundred columns, it stays in a processor's cache while it is rotated
CHECKED = 8


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
    spare : Basis, optional
        Storage for a second block of vectors, by default memory.

    Notes
    -----
    To resume, pass the stored basis and the number of its columns, and call :meth:`reopen`.
    """

    def __init__(
        self,
        shard: Shard,
        product: Product,
        basis: Basis,
        seed: int = 0,
        n_columns: int = 0,
        spare: Basis | None = None,
    ) -> None:
        self.shard, self.product, self.basis, self.seed = shard, product, basis, seed
        self.n_columns, self.spare = n_columns, spare
        self.n_rows = int(shard.bounds[-1])
        self.eps = float(np.finfo(basis.dtype).eps)
        self._last = self._empty(0)
        self._work = self._last
        self._stored_work: StoredVectors | None = None

    def reopen(self, width: int) -> None:
        """Take the last `width` columns of the basis as its last block, as after a restart."""
        self.take(self.n_columns - width, width)

    def take(self, start: int, width: int) -> None:
        """``V_last <- V[:, start:start + width]``."""
        self._last = self._empty(0)  # frees it before there is another
        self._last = self._empty(width)
        self.shard.for_each_block(lambda p: self._copy_last(p, start))

    def apply(self, filter: Filter) -> Floats:
        """``W <- p(K) V_last`` by the Chebyshev recurrence, one map per degree; return the moments.

        V_last is given up.
        """
        self._work = self._filtered([filter])
        return self.shard.sum_over_blocks(lambda p: self._moments(p, self._work[self.shard.rows(p)]))

    def filter(self, filters: Sequence[Filter], start: int, width: int) -> None:
        """``V[:, start:start + width] <- p(K) V[:, start:start + width]``, p the product of some filters."""
        self.take(start, width)
        found = self._filtered(filters)
        self.shard.for_each_block(lambda p: self._write(p, start, np.asfortranarray(found[self.shard.rows(p)])))

    def project(self, S: Floats, Q: Floats) -> Floats:
        """``W <- (W - V S) Q``; return the moments."""
        S, Q = self._cast(S), self._cast(Q)

        def task(p: int, own: Floats) -> tuple[Floats, Floats]:
            V = self._read(p, 0, self.n_columns)
            subtract(V, S, own)
            projected = own @ Q
            return projected, _moments(V, projected)

        return self._rebuild_work(Q.shape[1], task, self.shard.sum_over_blocks)

    def draw(self, n_kept: int, n_new: int, key: int) -> Any:
        """``W <- [first n_kept columns of W, n_new hashed random ones]``; return the moments."""

        def task(p: int, own: Floats) -> tuple[Floats, Floats]:
            drawn = np.empty((len(own), n_kept + n_new), own.dtype)
            drawn[:, :n_kept] = own[:, :n_kept]
            for j in range(n_new):
                uniform = row_uniform(self.seed, f"lanczos {key} {j}", self.shard.positions(p))
                drawn[:, n_kept + j] = uniform - 0.5
            return drawn, self._moments(p, drawn)

        return self._rebuild_work(n_kept + n_new, task, self.shard.sum_over_blocks)

    def recall(self, Q: Floats, start: int) -> Any:
        """``W <- V[:, start:] Q``, drop those columns; return the moments. V_last is given up."""
        stop, self.n_columns = self.n_columns, start
        self._last = self._empty(0)
        self._drop_work()
        self._work, Q = self._empty(Q.shape[1]), self._cast(Q)

        def task(p: int, _: Floats) -> tuple[Floats, Floats]:
            recalled = self._read(p, start, stop) @ Q
            return recalled, self._moments(p, recalled)

        return self._rebuild_work(Q.shape[1], task, self.shard.sum_over_blocks)

    def append(self, Q: Floats) -> None:
        """``V_last <- W Q``, ``V <- [V, V_last]``; W is given up."""
        if self.n_columns + Q.shape[1] > self.basis.capacity:
            raise InputError(
                f"basis: {self.n_columns + Q.shape[1]} columns do not fit its capacity of {self.basis.capacity}; "
                "make it LanczosParams.size(n)"
            )
        self._last, Q = self._empty(0), self._cast(Q)

        def task(p: int, own: Floats) -> tuple[Floats, None]:
            appended = own @ Q
            self._write(p, self.n_columns, np.asfortranarray(appended))
            return appended, None

        self._rebuild_work(Q.shape[1], task, self.shard.for_each_block)
        self._last, self._work = self._work, self._last
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

        V_last is given up.

        Parameters
        ----------
        values : ndarray of float64, shape (c,)
            theta.
        start : int

        Returns
        -------
        squares : ndarray of float64, shape (c,)
        """
        self._set_work_aside()
        self.take(start, len(values))
        values, operand = values.astype(self.basis.dtype), self.product.operand(self._last)

        def task(p: int) -> Floats:
            own = self._last[self.shard.rows(p)]
            difference = np.empty_like(own)
            self.product.multiply(p, (1, 0, 0), operand, own, difference)
            difference -= own * values
            return np.diag(gram(difference))

        squares: Floats = self.shard.sum_over_blocks(task)
        self._last = self._empty(0)
        return squares

    def residual_norms(self, values: Floats, start: int) -> Floats:
        """True residual norms of the columns from `start` on; see `squared_residuals`. The shard must have all rows."""
        return residual_norms(self.squared_residuals, values, start)

    def _filtered(self, filters: Sequence[Filter]) -> Floats:
        """V_last, which is given up, after some filters; W is given up first."""
        newer = self._last
        self._last = self._empty(0)
        self._drop_work()
        older = self._second_block(newer.shape[1])
        for filter in filters:
            for j in range(filter.degree):
                newer = self._recur(filter, older, newer, is_first=j == 0)
        return newer

    def _recur(self, filter: Filter, older: SpareVectors, newer: Floats, is_first: bool) -> Floats:
        """``(2/h) (K - c) newer - older``; in the first step ``(1/h) (K - c) newer``. Then `older` holds `newer`."""
        factor = (1.0 if is_first else 2.0) / filter.half_width
        factors = (factor, factor * filter.center, 0.0 if is_first else 1.0)
        operand = self.product.operand(newer)

        def task(p: int) -> None:
            result = older.room(p) if is_first else older.read(p)
            subtracted = newer[self.shard.rows(p)] if is_first else result
            self.product.multiply(p, factors, operand, subtracted, result)
            older.write(p, result)

        self.shard.for_each_block(task)
        return older.exchanged(newer)

    def _copy_last(self, p: int, start: int) -> None:
        self._last[self.shard.rows(p)] = self._read(p, start, start + self._last.shape[1])

    def _rebuild_work(
        self,
        width: int,
        task: Callable[[int, Floats], tuple[Floats, Any]],
        over_blocks: Callable[[Callable[[int], Any]], Any],
    ) -> Any:
        """Replace W by `width` columns.

        ``task(p, W[rows])`` returns the new rows of a block and a value; `over_blocks` goes over the blocks, and
        makes of the values what is returned.
        """
        self._fetch_work()
        new = None if width == self._work.shape[1] else self._second_block(width)

        def of_block(p: int) -> Any:
            own = self._work[self.shard.rows(p)]
            rows, value = task(p, own)
            if new is None:
                own[...] = rows
            else:
                new.write(p, rows)
            return value

        found = over_blocks(of_block)
        if new is not None:
            self._work = self._empty(0)  # frees it before the other is read
            self._work = new.taken()
        return found

    def _second_block(self, width: int) -> SpareVectors:
        return spare_vectors(self.shard, width, self.basis.dtype, self.spare)

    def _set_work_aside(self) -> None:
        """Free the memory of W until it is needed again, if there are files for it."""
        if self.spare is None or self._stored_work is not None:
            return
        stored = StoredVectors(self.shard, self.spare, self._work.shape[1])
        self.shard.for_each_block(lambda p: stored.write(p, self._work[self.shard.rows(p)]))
        self._work, self._stored_work = self._empty(0), stored

    def _fetch_work(self) -> None:
        """Have W in memory."""
        if self._stored_work is not None:
            self._work, self._stored_work = self._stored_work.taken(), None

    def _drop_work(self) -> None:
        """Give W up."""
        self._work, self._stored_work = self._empty(0), None

    def _moments(self, p: int, own: Floats) -> Floats:
        return _moments(self._read(p, 0, self.n_columns), own)

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
    n_rows : int
        Rows of all shards.
    dtype : dtype
        Of the basis.
    """

    def __init__(self, group: Group, n_rows: int, dtype: DTypeLike = np.float32) -> None:
        self.group, self.n_rows, self.n_columns = group, n_rows, 0
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

    def filter(self, filters: Sequence[Filter], start: int, width: int) -> None:
        """``V[:, start:start + width] <- p(K) V[:, start:start + width]``, p the product of some filters."""
        self.finish(("filter", filters, start, width))  # now: many calls at once would take too long

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
