"""Connection of the components of a neighbour graph by their shortest outgoing edges.

A graph of k components has the eigenvalue 1 k times. Eigensolvers converge badly on hundreds of equal eigenvalues, and
the eigenvectors only show the components. So every component except the largest gets its few shortest outgoing edges,
and this is repeated until one component is left. Component 0 is the largest.

Large components are parts of the graph, and its eigenvectors are to show them. They cannot if edges between parts weigh
more than the graph does within: along a curve of n rows, the distances of eigenvalues from 1 fall as 1 / n^2. So these
edges get a smaller least weight than those of small components.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bigsmic.numerics.graph.affinity import column_positions
from bigsmic.numerics.graph.neighbor_graph import GraphBlock
from bigsmic.numerics.products import product
from bigsmic.types import Floats, Integers

LARGE, FEWEST_ROWS = 0.05, 25  # share of the rows, and rows, of a component that is a part
_TILE_ENTRIES = 1 << 22  # of a matrix of distances


class Exits(NamedTuple):
    """Edges from components to rows outside of them.

    Parameters
    ----------
    component : ndarray of int64, shape (e,)
        Component of the source.
    sq_distances : ndarray of float32, shape (e,)
    source, target : ndarray of int64, shape (e,)
        Positions.
    reached : ndarray of int64, shape (e,)
        Component of the target.
    """

    component: np.ndarray
    sq_distances: np.ndarray
    source: np.ndarray
    target: np.ndarray
    reached: np.ndarray


NO_EXITS = Exits(*(np.zeros(0, dtype) for dtype in (np.int64, np.float32, np.int64, np.int64, np.int64)))


def best_exits(exits: Exits, n_best: int) -> Exits:
    """Keep the shortest `n_best` of each component, the smallest positions among equals.

    Parameters
    ----------
    exits : Exits
    n_best : int

    Returns
    -------
    exits : Exits
        By component, shortest first.
    """
    order = np.lexsort((exits.target, exits.source, exits.sq_distances, exits.component))
    component = exits.component[order]
    rank = np.arange(len(order)) - np.searchsorted(component, component)
    return Exits(*(array[order][rank < n_best] for array in exits))


def join_exits(parts: list[Exits]) -> Exits:
    """Concatenate several Exits."""
    return Exits(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def graph_exits(graph: GraphBlock, component: Integers, n_best: int) -> Exits:
    """Shortest exits among the edges of one block of a graph, of any rank.

    Parameters
    ----------
    graph : GraphBlock
    component : ndarray of int, shape (hi - lo + h,)
        Of the block's own rows, then of its halo.
    n_best : int

    Returns
    -------
    exits : Exits
        None from component 0.
    """
    height = graph.hi - graph.lo
    rows = np.repeat(np.arange(height), np.diff(graph.indptr))
    leaving = (component[rows] > 0) & (component[rows] != component[graph.indices])
    rows, columns = rows[leaving], graph.indices[leaving]
    positions = column_positions(graph)
    exits = Exits(
        component[rows].astype(np.int64),
        graph.sq_distances[leaving],
        graph.lo + rows.astype(np.int64),
        positions[columns],
        component[columns].astype(np.int64),
    )
    return best_exits(exits, n_best)


def nearest_outside(
    queries: Floats, component: Integers, X: Floats, component_of_X: Integers, positions: Integers
) -> Any:
    """Nearest row of another component for every query, among the rows of one block.

    Parameters
    ----------
    queries : ndarray of float32, shape (q, d)
    component : ndarray of int, shape (q,)
    X : ndarray of float32, shape (b, d)
    component_of_X : ndarray of int, shape (b,)
    positions : ndarray of int64, shape (b,)
        Positions of the rows of X.

    Returns
    -------
    sq_distances : ndarray of float32, shape (q,)
        Infinite where the block has no such row.
    target, reached : ndarray of int64, shape (q,)
        Its position, and its component.
    """
    sq_distances, target = np.full(len(queries), np.inf, np.float32), np.full(len(queries), -1)
    reached = target.copy()
    if not len(X):
        return sq_distances, target, reached
    norms = np.einsum("ij,ij->i", X, X)
    step = max(1, _TILE_ENTRIES // len(X))
    for lo in range(0, len(queries), step):
        tile = slice(lo, lo + step)
        rough = norms - 2 * product(queries[tile], X.T)
        rough[component[tile, None] == component_of_X] = np.inf
        best = rough.argmin(axis=1)
        exact = np.square(queries[tile] - X[best]).sum(axis=1)
        sq_distances[tile] = np.where(np.isinf(rough[np.arange(len(best)), best]), np.inf, exact)
        target[tile], reached[tile] = positions[best], component_of_X[best]
    return sq_distances, target, reached


def unite(united: Integers, exits: Exits, sizes: Integers, first: Integers) -> tuple[Integers, int]:
    """Unite components along exits, and number them again by size.

    Parameters
    ----------
    united : ndarray of int64, shape (n_components,)
        Number of the united component to which each component of the graph belongs so far.
    exits : Exits
        Their components are numbered as in `united`.
    sizes, first : ndarray of int64, shape (n_components,)
        Rows of each component of the graph, and the smallest position in it.

    Returns
    -------
    united : ndarray of int64, shape (n_components,)
        The largest is 0; ties of size go to the component of the smallest position.
    n_left : int
    """
    n_before = int(united.max()) + 1
    ones = np.ones(len(exits.source))
    graph = coo_array((ones, (exits.component, exits.reached)), shape=(n_before, n_before))
    n_left, joined = connected_components(graph, directed=False)
    joined = joined[united]
    total, least = np.bincount(joined, sizes, n_left), np.full(n_left, np.iinfo(np.int64).max)
    np.minimum.at(least, joined, first)
    number = np.empty(n_left, np.int64)
    number[np.lexsort((least, -total))] = np.arange(n_left)
    return number[joined], n_left


def parts(of_source: Integers, of_target: Integers, sq_distances: Floats, sizes: Integers) -> Integers:
    """Parts that components belong to: each has one large component, and small ones by their shortest edges.

    Edges unite components, the shortest first, except two that both have a large one.

    Parameters
    ----------
    of_source, of_target : ndarray of int, shape (e,)
        Components that each edge connects.
    sq_distances : ndarray of float32, shape (e,)
    sizes : ndarray of int64, shape (n_components,)
        Rows of each component.

    Returns
    -------
    parts : ndarray of int64, shape (n_components,)
        One of the components of the part; all 0 if at most one is large.
    """
    is_large = sizes >= max(LARGE * sizes.sum(), FEWEST_ROWS)
    if np.count_nonzero(is_large) < 2:
        return np.zeros(len(sizes), np.int64)
    from scipy.cluster.hierarchy import DisjointSet  # which not all fits need

    united = DisjointSet(range(len(sizes)))
    for edge in np.lexsort((of_target, of_source, sq_distances)):
        a, b = united[int(of_source[edge])], united[int(of_target[edge])]
        if a != b and not (is_large[a] and is_large[b]):
            united.merge(a, b)
            is_large[united[a]] = is_large[a] or is_large[b]
    return np.array([united[i] for i in range(len(sizes))])


def first_of_each(
    component: Integers, hashes: NDArray[Any], positions: Integers, n_first: int
) -> tuple[Integers, Any, Integers]:
    """Keep the `n_first` members of smallest hash of every component.

    Parameters
    ----------
    component, hashes, positions : ndarray, shape (m,)
        Hashes may be any numbers.
    n_first : int

    Returns
    -------
    component, hashes, positions : ndarray
        By component, then hash.
    """
    order = np.lexsort((hashes, component))
    component = component[order]
    kept = np.arange(len(order)) - np.searchsorted(component, component) < n_first
    return component[kept], hashes[order][kept], positions[order][kept]


def both_ways(exits: Exits) -> tuple[Integers, Integers, Floats]:
    """Undirected edges of exits: sources, targets and squared distances, each edge in both directions and once.

    Returns
    -------
    source, target : ndarray of int64, shape (e,), by source, then target
    sq_distances : ndarray of float32, shape (e,)
    """
    source = np.concatenate([exits.source, exits.target])
    target = np.concatenate([exits.target, exits.source])
    squares = np.concatenate([exits.sq_distances, exits.sq_distances])
    order = np.lexsort((target, source))
    source, target, squares = source[order], target[order], squares[order]
    fresh = np.ones(len(source), bool)
    fresh[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    return source[fresh], target[fresh], squares[fresh]
