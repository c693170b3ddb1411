"""How far rows are from their neighbours, and the components of the graph of rows that are not sparse: dense_parts."""

import itertools

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph import affinity
from bigsmic.numerics.graph.affinity import GraphBlock
from bigsmic.runtime.context import Context
from bigsmic.stages.graph import read_graph
from bigsmic.types import Floats, Integers

DENSE_PARTS = "dense_parts"
NONE = -1
"""Part of a sparse row, and of a row in a component that is no part."""


def distances(context: Context, p: int) -> Floats:
    """Distance of every row of a block to its neighbour of the largest t, float32."""
    found: Floats = context.run.read("graph", p, "sigma", _largest(context))[0]
    return found


def within(context: Context, p: int, reach: float) -> NDArray[np.bool_] | slice:
    """The rows of a block that are at most so far from their neighbours, as an index; all if the reach is infinite."""
    return distances(context, p) <= reach if reach < np.inf else slice(None)


def are_sparse(context: Context, positions: Integers, limit: float) -> NDArray[np.bool_]:
    """Whether rows at ascending positions are farther than `limit` from their neighbours of the largest t."""
    far: NDArray[np.bool_] = (
        context.at(f"sigma {_largest(context)}", lambda p: distances(context, p), positions) > limit
    )
    return far


def components(context: Context, limit: float) -> Integers:
    """Smallest position of the component of every row, int, shape (n,), in the graph without sparse rows.

    A sparse row is a component. All edges count: with fewer, a curve of some thousand rows falls apart where a few of
    them are missing by chance.
    """
    forest, widest = affinity.new_forest(context.n), context.settings.n_neighbors
    for p in context.blocks:
        affinity.join_block(forest, _without_sparse(context, read_graph(context, p), limit), widest)
    return affinity.flattened(forest)


def write_parts(context: Context, block: int, limit: float, roots: Integers) -> None:
    """Write the number of the dense part of every row; the stage ``dense_parts``.

    Parameters
    ----------
    context : Context
    block : int
        0.
    limit : float
        Distance above which rows are sparse.
    roots : ndarray of int64, ascending
        Smallest position in each part.
    """
    found, part = components(context, limit), np.empty(context.n, np.int16)
    for lo, hi in itertools.pairwise(context.layout.bounds.tolist()):
        place = np.searchsorted(roots, found[lo:hi]).clip(max=len(roots) - 1)
        part[lo:hi] = np.where(roots[place] == found[lo:hi], place, NONE)
    context.run.write(DENSE_PARTS, block, {"part": part}, parts={"part": context.layout.bounds})


def read_parts(context: Context, p: int) -> Integers:
    """Number of the dense part of every row of one block, int16; :data:`NONE` for rows in none."""
    return context.run.read(DENSE_PARTS, 0, "part", p)


def _without_sparse(context: Context, graph: GraphBlock, limit: float) -> GraphBlock:
    """The block, with a rank beyond all of those of edges to or from sparse rows."""
    places = np.arange(graph.lo, graph.hi), graph.halo
    sparse = np.concatenate([are_sparse(context, at, limit) for at in places])
    ends = sparse[graph.indices] | np.repeat(sparse[: graph.hi - graph.lo], np.diff(graph.indptr))
    return graph._replace(ranks=np.where(ends, np.iinfo(graph.ranks.dtype).max, graph.ranks))


def _largest(context: Context) -> int:
    return context.settings.t.index(max(context.settings.t))
