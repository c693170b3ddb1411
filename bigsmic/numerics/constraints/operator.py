"""Operator U of the eigenproblem with links, as products on row blocks; it is never formed.

K' has two parts, sparse rows and groups of linked rows. ``U X`` takes a product with K' over row blocks; then the
middle factor ``(I + gamma M)^2 + (I - eta C)^2``, on the linked rows, all of which every worker has; then a product
with K' again. U is divided by the value of its middle factor on rows without links, so that its eigenvalues have the
size of those of K'^2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bigsmic.numerics.constraints.links import LinkAlgebra, LinkWeights
from bigsmic.numerics.eigen.block_vectors import KernelProduct
from bigsmic.numerics.row_blocks import Shard
from bigsmic.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class Coupling:
    """The parts of U besides the sparse rows K of the kernel: ``K' = a (K + S (G G' - diag) S) + e I``.

    Parameters
    ----------
    algebra : LinkAlgebra
        For links numbered like the rows of the kernel.
    link_weights : LinkWeights
    factor, diagonal : float
        a and e: 1 and 1 for the plain kernel, 1/2 and 1/2 for the normalised one.
    root : ndarray of float64, shape (T,)
        S at the linked rows: ones, or one over the square root of the degree.
    """

    algebra: LinkAlgebra
    link_weights: LinkWeights
    factor: float
    diagonal: float
    root: np.ndarray

    @property
    def rows(self) -> Integers:
        """Positions of the linked rows, ascending."""
        return self.algebra.links.rows

    def middle(self, W: Floats) -> Floats:
        """The middle factor of U on linked rows, divided by its value on other rows; float64, shape (T, b)."""
        return self.algebra.middle(W, self.link_weights) / self.link_weights.elsewhere

    def groups(self, W: Floats) -> Floats:
        """Contribution of groups to ``K' W`` on linked rows; float64, shape (T, b)."""
        root = self.root[:, None]
        return self.factor * root * self.algebra.within_groups(root * W)


class _Operand(NamedTuple):
    """Operand of the last product of ``U X``: ``Z = middle K' X`` with its halo, X, and the contribution of groups."""

    Z: Any
    X: np.ndarray
    groups: np.ndarray


class LinkedProduct:
    """Product of U with the rows of one shard; see :class:`bigsmic.numerics.eigen.block_vectors.Product`.

    Parameters
    ----------
    shard : Shard
    load_block : callable
        ``load_block(p)`` returns block p of the sparse rows of K', a `numerics.graph.affinity.KernelBlock`.
    coupling : Coupling
    """

    def __init__(self, shard: Shard, load_block: Callable[..., Any], coupling: Coupling) -> None:
        self.shard, self.sparse, self.coupling = shard, KernelProduct(shard, load_block), coupling
        first, nothing = shard.blocks.start, np.empty(0, np.int64)
        self._everywhere = shard.halo(lambda p: coupling.rows if p == first else nothing)
        self._linked = self._everywhere.local(first, coupling.rows)  # their rows in the shard and its halo
        self._cuts = np.searchsorted(coupling.rows, shard.bounds)

    def middle_of(self, X: Floats) -> tuple[Floats, Floats]:
        """``Z = middle K' X``, with the middle factor divided by its value on rows without links.

        Parameters
        ----------
        X : ndarray, shape (rows of the shard, b)

        Returns
        -------
        Z : ndarray, shape (rows of the shard, b)
        at_links : ndarray of float64, shape (T, b)
            Z at all linked rows.
        """
        Y, operand = np.empty_like(X), self.sparse.operand(X)
        groups = self.coupling.groups(self._at_links(X))

        def task(p: int) -> None:
            rows = self.shard.rows(p)
            factors = self.coupling.factor, -self.coupling.diagonal, 0
            self.sparse.multiply(p, factors, operand, X[rows], Y[rows])
            self._add_at_links(p, groups, Y[rows])

        self.shard.for_each_block(task)
        at_links = self.coupling.middle(self._at_links(Y))
        for p in self.shard.blocks:
            where, own = self._links_of(p)
            Y[self.shard.rows(p)][where] = at_links[own]
        return Y, at_links

    def operand(self, X: Floats) -> _Operand:
        """The operand of the last product with K' in ``U X``."""
        Z, at_links = self.middle_of(X)
        return _Operand(self.sparse.operand(Z), X, self.coupling.groups(at_links))

    def multiply(self, p: int, factors: tuple[float, float, float], operand: _Operand, Y: Floats, out: Floats) -> None:
        """One row block of ``out = a U X - b X - g Y``."""
        a, b, g = factors
        factors = a * self.coupling.factor, -a * self.coupling.diagonal, g
        self.sparse.multiply(p, factors, operand.Z, Y, out)
        self._add_at_links(p, a * operand.groups, out)
        if b:
            out -= out.dtype.type(b) * operand.X[self.shard.rows(p)]

    def _at_links(self, X: Floats) -> Floats:
        """X at all linked rows, also those of other shards; float64, shape (T, b)."""
        return self._everywhere.extend(X)[self._linked].astype(np.float64)

    def _links_of(self, p: int) -> tuple[Integers, slice]:
        """Linked rows of one block, counted from its first row, and their range among all linked rows."""
        own = slice(int(self._cuts[p]), int(self._cuts[p + 1]))
        return self.coupling.rows[own] - self.shard.bounds[p], own

    def _add_at_links(self, p: int, values: Floats, out: Floats) -> None:
        where, own = self._links_of(p)
        out[where] += values[own].astype(out.dtype)
