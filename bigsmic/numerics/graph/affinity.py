"""The neighbour graph in row blocks, and the local-scaling kernel on it.

One graph serves every neighbour number t: an undirected edge keeps its squared distance and its rank, the better
of the two positions at which its ends list each other; it belongs to the t-graph iff its rank is at most t.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.row_blocks import tiles
from bigsmic.types import Floats, Integers

STRIP_ROWS = 8192  # of the graph of a block that are assembled at a time
WEIGHT_FLOOR = 1e-10  # least weight of an edge where weights are normalised by degrees, so that no degree is 0


class GraphBlock(NamedTuple):
    """Rows ``lo:hi`` of the symmetric neighbour graph, columns numbered locally.

    Parameters
    ----------
    lo, hi, halo, indptr, indices
        As in :class:`KernelBlock`.
    sq_distances : ndarray of float32, shape (nnz,)
    ranks : ndarray of uint16, shape (nnz,)
        1 is the nearest.
    """

    lo: int
    hi: int
    halo: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    sq_distances: np.ndarray
    ranks: np.ndarray


class KernelBlock(NamedTuple):
    """Rows ``lo:hi`` of a sparse symmetric matrix, columns numbered locally.

    Column ``j < hi - lo`` stands for row ``lo + j`` of the whole; column ``hi - lo + h`` for row ``halo[h]``.

    Parameters
    ----------
    lo, hi : int
        Half-open range of positions (rows in cell order).
    halo : ndarray of int64, shape (h,), ascending
        The rows outside ``lo:hi`` that the block refers to.
    indptr : ndarray of int64, shape (hi - lo + 1,)
    indices : ndarray of int32, shape (nnz,)
        Local column numbers.
    data : ndarray of float32, shape (nnz,)
    """

    lo: int
    hi: int
    halo: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


def column_positions(block: GraphBlock | KernelBlock) -> Integers:
    """Row that each local column of a block stands for: int64, shape (hi - lo + h,)."""
    return np.concatenate([np.arange(block.lo, block.hi), block.halo])


class Edges(NamedTuple):
    """Directed edges ``source -> target`` between positions, the target listed by the source at `ranks`.

    Parameters
    ----------
    source, target : ndarray of int64, shape (e,)
    sq_distances : ndarray of float32, shape (e,)
    ranks : ndarray of uint16, shape (e,)
    """

    source: np.ndarray
    target: np.ndarray
    sq_distances: np.ndarray
    ranks: np.ndarray


def outgoing_edges(lo: int, indices: Integers, sq_distances: Floats) -> Edges:
    """Edges of one block that end in other blocks, ordered by target.

    Parameters
    ----------
    lo : int
        First position of the block.
    indices : ndarray of int, shape (b, k)
        Positions of the neighbours of rows ``lo:lo + b``, by rank; -1 where there is none.
    sq_distances : ndarray of float32, shape (b, k)

    Returns
    -------
    edges : Edges
    """
    b = len(indices)
    outside = (indices >= 0) & ((indices < lo) | (indices >= lo + b))
    row, column = np.nonzero(outside)
    target = indices[row, column].astype(np.int64)
    order = np.argsort(target, kind="stable")
    row, column, target = row[order], column[order], target[order]
    return Edges(row + lo, target, sq_distances[row, column], (column + 1).astype(np.uint16))


def assemble(lo: int, indices: Integers, sq_distances: Floats, incoming: Edges) -> GraphBlock:
    """Symmetric graph of one block, from its own lists and the incoming edges of other blocks.

    ``rank(i, j) = min(position of j among i's neighbours, position of i among j's)``.

    Parameters
    ----------
    lo : int
    indices : ndarray of int, shape (b, k)
    sq_distances : ndarray of float32, shape (b, k)
    incoming : Edges
        Those whose target lies in the block.

    Returns
    -------
    graph : GraphBlock

    Notes
    -----
    Memory: :func:`assembly_bytes`. Rows are assembled in strips, which bounds what is sorted at a time.
    """
    b = len(indices)
    strips = [_strip(lo, rows, indices, sq_distances, incoming) for rows in tiles(b, STRIP_ROWS)]
    counts, columns, squares, ranks = (np.concatenate(parts) for parts in _by_field(strips))
    outside = (columns < lo) | (columns >= lo + b)
    halo, local = np.unique(columns[outside]), np.empty(len(columns), np.int32)
    local[~outside] = columns[~outside] - lo
    local[outside] = b + np.searchsorted(halo, columns[outside])
    indptr = np.append(0, np.cumsum(counts))
    return GraphBlock(lo, lo + b, halo.astype(np.int64), indptr, local, squares, ranks)


def assembly_bytes(b: int, k: int, entries: float) -> int:
    """Predict the memory of :func:`assemble`, its lists and edges that come in included, in bytes.

    Parameters
    ----------
    b : int
        Rows of the block.
    k : int
        Neighbours of a row.
    entries : float
        Entries of a row of the graph.
    """
    return int(b * (8 * k + 22 * k + 20 * entries) + min(b, STRIP_ROWS) * 64 * entries)


class _Strip(NamedTuple):
    """Some rows of the symmetric graph of a block: entries of each, then columns, squared distances, ranks of all."""

    counts: np.ndarray
    columns: np.ndarray
    squares: np.ndarray
    ranks: np.ndarray


def _by_field(strips: list[_Strip]) -> Iterator[list[NDArray[Any]]]:
    """Arrays of all strips, field by field; a field is let go of once the next one is asked for."""
    fields = [list(arrays) for arrays in zip(*strips, strict=True)]
    strips.clear()
    while fields:
        yield fields.pop(0)


def _strip(lo: int, rows: slice, indices: Integers, sq_distances: Floats, incoming: Edges) -> _Strip:
    """Symmetric graph of some rows of a block, each edge once: what is sorted at a time is the most that a graph takes.

    `rows` is a slice of the block; the other arguments are those of :func:`assemble`.
    """
    b = rows.stop - rows.start
    arriving = Edges(*(array[_within(incoming.target, lo, rows)] for array in incoming))
    span = 1 + int(max(indices.max(initial=lo + len(indices)), arriving.source.max(initial=0)))
    keys, squares, ranks = _directed(lo, rows, indices, sq_distances, arriving, span)
    order = np.argsort(keys, kind="stable")
    keys, squares, ranks = keys[order], squares[order], ranks[order]
    del order
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    own, columns = np.divmod(keys[starts], span)
    ranks = np.minimum.reduceat(ranks, starts) if len(starts) else ranks
    return _Strip(np.bincount(own, minlength=b), columns.astype(indices.dtype), squares[starts], ranks)


def _within(positions: Integers, lo: int, rows: slice) -> NDArray[np.bool_]:
    """Whether positions are of some rows of the block that begins at `lo`."""
    return (positions >= lo + rows.start) & (positions < lo + rows.stop)


def _directed(
    lo: int, rows: slice, indices: Integers, sq_distances: Floats, arriving: Edges, span: int
) -> tuple[NDArray[Any], ...]:
    """Every edge at its ends that lie in a strip: (``row * span + column``, squared distance, rank), rows from 0.

    Of two rows that list each other, the list of the smaller one comes first.
    """
    first = lo + rows.start
    row, place = np.nonzero(indices[rows] >= 0)
    own = row * span + indices[rows][row, place], sq_distances[rows][row, place], _ranks(place)
    row, place = np.nonzero(_within(indices, lo, rows))
    column = indices[row, place].astype(np.int64)
    mirrored = (column - first) * span + row + lo, sq_distances[row, place], _ranks(place)
    smaller, larger = row + lo < column, row + lo > column
    sent = (arriving.target - first) * span + arriving.source, arriving.sq_distances, arriving.ranks
    parts = [[array[smaller] for array in mirrored], own, [array[larger] for array in mirrored], sent]
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def _ranks(place: Integers) -> NDArray[np.uint16]:
    return (place + 1).astype(np.uint16)


# -- kernel


def have_copies(indptr: Integers, sq_distances: Floats) -> NDArray[np.bool_]:
    """Whether rows have a neighbour equal to them: bool, shape (b,); arrays are those of :class:`GraphBlock`."""
    n_equal = _running(sq_distances == 0)[indptr]
    return n_equal[1:] > n_equal[:-1]


def kernel_block(graph: GraphBlock, t: int, weight: Any, sigma_own: Floats, sigma_halo: Floats) -> KernelBlock:
    """Kernel of one block on the edges of the t-graph; zero diagonal.

    Parameters
    ----------
    graph : GraphBlock
    t : int
        Number of neighbours.
    weight : callable
        ``weight(sq_distances, sigma_i, sigma_j)``, elementwise on edges; see :mod:`bigsmic.numerics.graph.weights`.
    sigma_own, sigma_halo : ndarray of float32, shape (hi - lo,) and (h,)
        Distance to the t-th neighbour.

    Returns
    -------
    kernel : KernelBlock
    """
    kept = graph.ranks <= t
    indptr = _running(kept)[graph.indptr]
    indices = graph.indices[kept]
    sigma = np.concatenate([sigma_own, sigma_halo])
    rows = np.repeat(np.arange(graph.hi - graph.lo), np.diff(indptr))
    data = weight(graph.sq_distances[kept], sigma[rows], sigma[indices])
    halo, indices = _compact(graph.halo, indices, graph.hi - graph.lo)
    return KernelBlock(graph.lo, graph.hi, halo, indptr, indices, data)


def _running(kept: NDArray[np.bool_]) -> Integers:
    """Number of kept entries before each entry, in one array, as such arrays are the largest of a block."""
    total = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=total[1:])
    return total


def _compact(halo: Integers, indices: Integers, height: int) -> tuple[Integers, Integers]:
    """Leave out the halo rows that no entry refers to."""
    used = np.zeros(len(halo), bool)
    used[indices[indices >= height] - height] = True
    place = np.concatenate([np.arange(height), height + np.cumsum(used) - 1]).astype(np.int32)
    return halo[used], place[indices]


def with_floor(kernel: KernelBlock) -> KernelBlock:
    """Return the kernel with weights of at least :data:`WEIGHT_FLOOR`, so that no row of it is empty."""
    return kernel._replace(data=np.maximum(kernel.data, kernel.data.dtype.type(WEIGHT_FLOOR)))


def scaled(kernel: Any, factor_own: Any, factor_halo: Any) -> Any:
    """Return the kernel with entries ``K_ij f_i f_j``.

    Parameters
    ----------
    kernel : KernelBlock
    factor_own, factor_halo : ndarray of float32, shape (hi - lo,) and (h,)

    Returns
    -------
    kernel : KernelBlock
    """
    both = np.concatenate([factor_own, factor_halo])
    rows = np.repeat(np.arange(kernel.hi - kernel.lo), np.diff(kernel.indptr))
    return kernel._replace(data=kernel.data * (both[rows] * both[kernel.indices]))


def degree(kernel: KernelBlock) -> NDArray[Any]:
    """Row sums, ``D = diag(K 1)``, float64, shape (hi - lo,)."""
    rows = np.repeat(np.arange(kernel.hi - kernel.lo), np.diff(kernel.indptr))
    return np.bincount(rows, weights=kernel.data, minlength=kernel.hi - kernel.lo)


def normalise(kernel: KernelBlock, degree_own: Floats, degree_halo: Floats) -> KernelBlock:
    """``N = D^-1/2 K D^-1/2`` of one block.

    Parameters
    ----------
    kernel : KernelBlock
    degree_own, degree_halo : ndarray of float64, shape (hi - lo,) and (h,)

    Returns
    -------
    normalised : KernelBlock
    """
    both = np.concatenate([degree_own, degree_halo])
    root = 1 / np.sqrt(np.where(both > 0, both, 1)).astype(kernel.data.dtype)
    rows = np.repeat(np.arange(kernel.hi - kernel.lo), np.diff(kernel.indptr))
    return kernel._replace(data=kernel.data * root[rows] * root[kernel.indices])


def shrunk(degree: Floats, mean: float, shrinkage: float) -> Floats:
    """Degrees shrunk towards their mean: ``(1 - s) d + s mean``.

    Small groups of rows that few edges connect with the rest of the graph have degrees below the mean. If the kernel is
    normalised by plain degrees, they appear as well separated as clusters, and occupy eigenvectors; their number grows
    with n [1]_.

    Parameters
    ----------
    degree : ndarray of float64
    mean : float
        Over all rows.
    shrinkage : float
        s, from 0 to 1.

    Returns
    -------
    degree : ndarray of float64

    References
    ----------
    .. [1] Zhang, Rohe, "Understanding regularized spectral clustering via graph conductance", NeurIPS 2018.
    """
    return (1 - shrinkage) * degree + shrinkage * mean if shrinkage else degree


# -- components


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


# -- labels


def nearest_labelled(graph: Any, labels: Integers) -> Any:
    """Label of the nearest labelled neighbour of every row that has none.

    Parameters
    ----------
    graph : GraphBlock
    labels : ndarray of int32, shape (hi - lo + h,)
        Of the block's own rows, then of its halo; negative where there is none.

    Returns
    -------
    labels : ndarray of int32, shape (hi - lo,)
        Still negative where no neighbour has a label; the first column among equally near ones.
    """
    own = labels[: graph.hi - graph.lo].copy()
    _adopt(graph.indptr, graph.indices, graph.sq_distances, labels, own)
    return own


@compiled
def _adopt(indptr: Any, indices: Integers, squares: Floats, labels: Integers, own: Any) -> None:
    """Write to ``own[i]``, where negative, the label of the nearest labelled neighbour of row i.

    `indptr` (b + 1,), `indices` and `squares` (entries,), `labels` (b + h,), `own` (b,).
    """
    for i in range(len(own)):
        if own[i] >= 0:
            continue
        best = np.inf
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] >= 0 and squares[e] < best:
                best = squares[e]
                own[i] = labels[indices[e]]
