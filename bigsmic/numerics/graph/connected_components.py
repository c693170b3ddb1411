"""Connected components of the neighbour graph, by a union-find that takes one block of rows after the other."""

from typing import Any

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.graph.neighbor_graph import GraphBlock
from bigsmic.types import Integers


def new_forest(n: int) -> Integers:
    """Parent array of a union-find in which every row is its own component; int32 if that is enough."""
    return np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)


def join_block(forest: Integers, graph: GraphBlock, t: int) -> None:
    """Unite in place the ends of the block's edges of the t-graph; the smallest row is the root."""
    _join(forest, graph.lo, graph.hi - graph.lo, graph.halo, graph.indptr, graph.indices, graph.ranks, t)


@compiled
def _join(  # noqa: PLR0913
    forest: Integers, lo: int, b: int, halo: Integers, indptr: Integers, indices: Integers, ranks: Integers, t: int
) -> None:
    """Unite the ends of every edge of rank at most t of rows ``lo`` to ``lo + b``; see :func:`join_block`.

    `forest` (n,) has the parent of every row; `indptr` (b + 1,), `indices` and `ranks` (entries,), `halo` (h,).
    """
    for i in range(b):
        for e in range(indptr[i], indptr[i + 1]):
            if ranks[e] > t:
                continue
            j = indices[e]
            other = lo + j if j < b else halo[j - b]
            if other < lo + i:  # the mirror image of an edge unites the same rows
                x, y = _root(forest, lo + i), _root(forest, other)
                if x < y:
                    forest[y] = x
                elif y < x:
                    forest[x] = y


@compiled
def _root(forest: Any, i: int) -> Any:
    """Root of row i in `forest` (n,), whose path is halved on the way."""
    while forest[i] != i:
        forest[i] = forest[forest[i]]
        i = forest[i]
    return i


@compiled
def _flatten(forest: Integers) -> None:
    """Make every row of `forest` (n,) a child of its root; parents come before their children."""
    for i in range(len(forest)):
        forest[i] = forest[forest[i]]


def flattened(forest: Integers) -> Integers:
    """Smallest row of the component of every row, int, shape (n,): `forest`, flattened in place."""
    _flatten(forest)
    return forest


def component_labels(forest: Integers) -> tuple[Integers, Integers, Integers]:
    """Number the components by size, largest first, ties by smallest row.

    Parameters
    ----------
    forest : ndarray of int, shape (n,)
        After :func:`join_block` of every block; flattened in place.

    Returns
    -------
    labels : ndarray of int64, shape (n,)
    sizes : ndarray of int64, shape (n_components,), descending
    first : ndarray of int64, shape (n_components,)
        Smallest row of each.
    """
    # a root is the smallest of its tree, so parents are final when their children are reached
    _flatten(forest)
    roots, inverse, sizes = np.unique(forest, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    number = np.empty(len(roots), np.int64)
    number[order] = np.arange(len(roots))
    return number[inverse], sizes[order], roots[order].astype(np.int64)
