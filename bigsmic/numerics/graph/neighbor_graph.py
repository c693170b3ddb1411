"""The neighbour graph in row blocks: the lists of neighbours, made symmetric.

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


class GraphBlock(NamedTuple):
    """Rows ``lo:hi`` of the symmetric neighbour graph, columns numbered locally.

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


def counts_before(kept: NDArray[np.bool_]) -> Integers:
    """Number of kept entries before each entry, in one array, as such arrays are the largest of a block."""
    total = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=total[1:])
    return total


def have_copies(indptr: Integers, sq_distances: Floats) -> NDArray[np.bool_]:
    """Whether rows have a neighbour equal to them: bool, shape (b,); arrays are those of :class:`GraphBlock`."""
    n_equal = counts_before(sq_distances == 0)[indptr]
    return n_equal[1:] > n_equal[:-1]


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
