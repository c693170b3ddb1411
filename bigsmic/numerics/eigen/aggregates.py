"""Aggregates: connected groups of rows, of which a small matrix is made that has about the same slow modes.

Along curves and in planes, the largest eigenvalues of the normalised kernel N crowd below 1, and their eigenvectors
vary slowly: they are nearly constant, but for the roots of degrees, on small groups of neighbouring rows. With P the
matrix whose columns are ``D^1/2 1_aggregate`` of unit length, the eigenvectors of ``P' N P``, times P, approximate
those of N ([1]_).

References
----------
.. [1] Vanek, Mandel and Brezina, "Algebraic multigrid by smoothed aggregation for second and fourth order elliptic
   problems", Computing 56, 1996. doi 10.1007/BF02238511
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array, diags_array
from scipy.sparse.linalg import eigsh

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.hashing import generator
from bigsmic.numerics.row_blocks import Shard
from bigsmic.types import Floats, Integers

STRONG = 0.1
"""Share of the largest weight of a row from which on a neighbour may be in its aggregate: no edges between parts."""
SHIFT, TOLERANCE = 0.001, 1e-6
"""Distance of the shift of the inverse iteration for the coarse matrix from the largest value, and its relative
tolerance."""
LEAST_GAIN = 0.9
"""Share of the groups that may be left by a round of joining; if more are, it was the last."""


def aggregate(block: KernelBlock, most: int) -> NDArray[np.int32]:
    """Join neighbouring rows of a block, and then neighbouring groups, until at most `most` are left.

    Parameters
    ----------
    block : KernelBlock
    most : int

    Returns
    -------
    groups : ndarray of int32, shape (b,)
        Group of each row, from 0. There may be more if the block falls into more parts.
    """
    b = block.hi - block.lo
    W = csr_array((block.data, block.indices, block.indptr), shape=(b, b + len(block.halo)))[:, :b]
    groups = np.arange(b, dtype=np.int32)
    while W.shape[0] > most:
        joined = np.full(W.shape[0], -1, np.int32)
        count = _join(W.indptr, W.indices, W.data, joined)
        if count > LEAST_GAIN * len(joined):
            break
        groups = joined[groups]
        P = csr_array((np.ones(len(joined), np.float32), (np.arange(len(joined)), joined)))
        W = csr_array(P.T @ W @ P)
    return groups


@compiled
def _join(indptr: Integers, indices: Integers, data: Floats, groups: Integers) -> int:
    """Write the group of each row to `groups` (m,), -1 before: one that has none begins one, with neighbours."""
    count = 0
    for i in range(len(groups)):
        if groups[i] >= 0:
            continue
        largest = np.float32(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                largest = max(largest, data[e])
        groups[i] = count
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if groups[j] < 0 and data[e] >= STRONG * largest:
                groups[j] = count
        count += 1
    return count


class Aggregates:
    """Aggregates of the rows of one shard.

    Parameters
    ----------
    shard : Shard
    load : callable
        ``load(p)`` returns :class:`~bigsmic.numerics.graph.affinity.KernelBlock` p of N.
    degree : callable
        ``degree(p)`` returns the row sums of the weights, float64, shape (b,).
    most : int
        Aggregates of all rows, about.
    """

    def __init__(
        self, shard: Shard, load: Callable[[int], KernelBlock], degree: Callable[[int], Floats], most: int
    ) -> None:
        self._shard, self._load = shard, load
        self._groups = np.empty(shard.n_rows, np.int32)
        self._roots = np.empty(shard.n_rows)
        n = shard.bounds[-1]

        def task(p: int) -> None:
            rows = shard.rows(p)
            share = max(1, int(most * (rows.stop - rows.start) // n))
            self._groups[rows], self._roots[rows] = aggregate(load(p), share), np.sqrt(degree(p))

        shard.for_each_block(task)

    def counts(self) -> Any:
        """Number of aggregates of each block, summed over shards: int64, shape (n_blocks,)."""

        def task(p: int) -> Integers:
            found = np.zeros(len(self._shard.bounds) - 1, np.int64)
            found[p] = self._groups[self._shard.rows(p)].max() + 1
            return found

        return self._shard.sum_over_blocks(task)

    def number(self, starts: Integers) -> None:
        """Give aggregates numbers that count from ``starts[p]`` in block p."""
        for p in self._shard.blocks:
            self._groups[self._shard.rows(p)] += np.int32(starts[p])

    def mass(self, m: int) -> Any:
        """Degree sum of each of m aggregates, summed over shards: float64, shape (m,)."""

        def task(p: int) -> NDArray[Any]:
            rows = self._shard.rows(p)
            return np.bincount(self._groups[rows], self._roots[rows] ** 2, m)

        return self._shard.sum_over_blocks(task)

    def weights(self, m: int) -> Any:
        """Weight between every two of m aggregates, summed over shards: sparse, float64, shape (m, m)."""
        halo = self._shard.halo(lambda p: self._load(p).halo)
        extended = halo.extend(self._groups), halo.extend(self._roots)

        def task(p: int) -> csr_array:
            block = self._load(p)
            groups, roots = (halo.around(p, block.halo, of_rows) for of_rows in extended)
            rows = np.repeat(np.arange(block.hi - block.lo), np.diff(block.indptr))
            values = block.data * roots[rows] * roots[block.indices]
            return csr_array(coo_array((values, (groups[rows], groups[block.indices])), shape=(m, m)))

        return self._shard.sum_over_blocks(task)

    def prolonged(self, p: int, U: Floats) -> NDArray[np.float32]:
        """Rows of block p of ``P D_aggregates^1/2 U``, U (m, k): float32, shape (b, k)."""
        rows = self._shard.rows(p)
        return np.asfortranarray(self._roots[rows, None] * U[self._groups[rows]], dtype=np.float32)


def coarse_eigenvectors(
    weights: csr_array, mass: Floats, n_known: int, k: int, largest: float = 1.0
) -> tuple[Floats, Floats]:
    """Largest eigenpairs of the coarse matrix ``A_yz = W_yz / sqrt(mass_y mass_z)`` after the first `n_known`.

    They are those of ``(A - s I)^-1`` nearest to s, which is beyond all: few steps, however they crowd, and a sparse
    factorisation.

    Parameters
    ----------
    weights : csr_array, shape (m, m)
    mass : ndarray of float64, shape (m,)
    n_known, k : int
        Their sum is less than m.
    largest : float
        Of the values of N, about.

    Returns
    -------
    values : ndarray of float64, shape (k,), descending
        As Ritz values of N, they are no larger than its eigenvalues.
    U : ndarray of float64, shape (m, k)
        Eigenvectors, as :meth:`Aggregates.prolonged` takes them.
    """
    roots = diags_array(1.0 / np.sqrt(mass))
    A, start = csc_array(roots @ weights @ roots), generator(0, "aggregates").standard_normal(len(mass))
    values, U = eigsh(A, n_known + k, sigma=largest + SHIFT, v0=start, tol=TOLERANCE)
    order = np.argsort(-values, kind="stable")[n_known:]
    return values[order], U[:, order] / np.sqrt(mass)[:, None]
