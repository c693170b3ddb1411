"""How far rows are from their neighbours, and the components of graphs of rows that are not sparse: dense_parts."""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph import connected_components
from bigsmic.numerics.graph.neighbor_graph import GraphBlock
from bigsmic.runtime.context import Context
from bigsmic.stages.graph import read_graph
from bigsmic.types import Floats, Integers

DENSE_PARTS = "dense_parts"
NONE = -1
"""Part of a sparse row, and of a row in a component that is no part."""
N_NEAR_EDGES = 10
"""Neighbours of a row in a hierarchy of limits."""


def distances(context: Context, p: int) -> Floats:
    """Distance of every row of a block to its neighbour of the largest t, float32."""
    t = context.settings.t
    found: Floats = context.run.read("graph", p, "sigma", t.index(max(t)))[0]
    return found


def within(context: Context, p: int, reach: float) -> NDArray[np.bool_] | slice:
    """The rows of a block that are at most so far from their neighbours, as an index; all if the reach is infinite."""
    return distances(context, p) <= reach if reach < np.inf else slice(None)


def sigma_at(context: Context, t: int, positions: Integers) -> Floats:
    """Distance to the t-th neighbour, at ascending positions, float32."""
    i = context.settings.t.index(t)
    return context.at(f"sigma {i}", lambda p: context.run.read("graph", p, "sigma", i)[0], positions)


class Neighbors(NamedTuple):
    """What makes a row sparse, and which edges count.

    Parameters
    ----------
    t : int
        A row is sparse if its t-th neighbour is farther than a limit.
    n_edges : int
        Neighbours of a row, or rows of which it is a neighbour, to which its edges lead.
    """

    t: int
    n_edges: int


def all_edges(context: Context) -> Neighbors:
    """Distances to the neighbour of the largest t, and all edges.

    With fewer, a curve of some thousand rows falls apart where a few of them are missing by chance.
    """
    return Neighbors(max(context.settings.t), context.settings.n_neighbors)


def near_edges(context: Context) -> Neighbors:
    """Distances to the neighbour of the smallest t, and the shorter edges, for a hierarchy of limits."""
    return Neighbors(min(context.settings.t), N_NEAR_EDGES)


def components(context: Context, neighbors: Neighbors, limits: Iterable[float]) -> Iterator[Integers]:
    """Smallest position of the component of every row, int, shape (n,), in the graph without sparse rows.

    A sparse row is a component. Yields those of one limit after the other, in the same array.

    Parameters
    ----------
    context : Context
    neighbors : Neighbors
    limits : iterable of float, ascending
    """
    forest = connected_components.new_forest(context.n)
    for limit in limits:
        for p in context.blocks:
            graph = _without_sparse(context, read_graph(context, p), neighbors.t, float(limit))
            connected_components.join_block(forest, graph, neighbors.n_edges)
        yield connected_components.flattened(forest)


def write_parts(context: Context, block: int, neighbors: Neighbors, limits: Floats, roots: Integers) -> None:
    """Write the number of the dense part of every row; the stage ``dense_parts``.

    Parameters
    ----------
    context : Context
    block : int
        0.
    neighbors : Neighbors
    limits : ndarray of float64, shape (n_parts,)
        Distances above which rows are sparse, for each part.
    roots : ndarray of int64, shape (n_parts,)
        Smallest position in each part, in the graph of its limit.
    """
    part = np.full(context.n, NONE, np.int16)
    distinct = np.unique(limits)
    for limit, found in zip(distinct, components(context, neighbors, distinct), strict=True):
        here = np.flatnonzero(limits == limit)
        here = here[np.argsort(roots[here])]
        for lo, hi in itertools.pairwise(context.layout.bounds.tolist()):
            place = here[np.searchsorted(roots[here], found[lo:hi]).clip(max=len(here) - 1)]
            part[lo:hi] = np.where(roots[place] == found[lo:hi], place, part[lo:hi])
    context.run.write(DENSE_PARTS, block, {"part": part}, parts={"part": context.layout.bounds})


def read_parts(context: Context, p: int) -> Integers:
    """Number of the dense part of every row of one block, int16; :data:`NONE` for rows in none."""
    return context.run.read(DENSE_PARTS, 0, "part", p)


def _without_sparse(context: Context, graph: GraphBlock, t: int, limit: float) -> GraphBlock:
    """The block, with a rank beyond all of those of edges to or from sparse rows.

    With a float of Python, as the limit is, NumPy compares in float32: in every call the same rows are sparse.
    """
    places = np.arange(graph.lo, graph.hi), graph.halo
    sparse = np.concatenate([sigma_at(context, t, at) > limit for at in places])
    ends = sparse[graph.indices] | np.repeat(sparse[: graph.hi - graph.lo], np.diff(graph.indptr))
    return graph._replace(ranks=np.where(ends, np.iinfo(graph.ranks.dtype).max, graph.ranks))
