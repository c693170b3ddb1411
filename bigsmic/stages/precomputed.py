"""The neighbour graph from a sparse matrix of affinities or of distances, without features.

It replaces scan, route and neighbors. Positions are row numbers, and row blocks are ranges of rows.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError, RunMismatchError
from bigsmic.numerics.graph.signatures import row_signatures
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.store import checksum
from bigsmic.types import Floats, Integers

SIGNATURES = "signatures"


def run(job: Job) -> None:
    """Write the graph of a matrix of affinities, or the lists of a matrix of distances."""
    context = job.context
    verify(job)
    affinity = context.settings.kernel == "precomputed"
    job.fill("scan", context.source_blocks, _scan)
    job.run_steps(SIGNATURES, [0], _sign)
    if not job.complete("graph", context.blocks):
        job.fill("graph" if affinity else "lists", context.blocks, _graph if affinity else _lists)


def verify(job: Job) -> None:
    """Check the blocks of the matrix that have been read against the matrix.

    Raises
    ------
    RunMismatchError
        It is another matrix.
    """
    known = [s for s in job.context.source_blocks if job.run.done("scan", s)]
    job.map_blocks("verify", known, _verify)


def _sums(rows: Any) -> list[int]:
    return [checksum(rows.indptr), checksum(rows.indices), checksum(rows.data)]


def _verify(context: Context, s: int) -> None:
    _refuse_changed(context, s, context.source.read(*context.source_bounds[s : s + 2]))


def _refuse_changed(context: Context, s: int, rows: Any) -> None:
    if context.run.info("scan", s)["crc32"] != _sums(rows):
        raise RunMismatchError(
            f"input: the matrix is not the one that {context.run.location} was started with; give another out="
        )


def _scan(context: Context, s: int) -> None:
    lo, hi = (int(b) for b in context.source_bounds[s : s + 2])
    counts = np.zeros(len(context.source_bounds) - 1, np.int64)
    counts[s] = hi - lo
    context.run.write("route", s, {"home": np.full(hi - lo, s, np.int32), "counts": counts})
    context.run.write("rows", s, {"rows": np.arange(lo, hi)})
    context.run.write("scan", s, {}, info={"crc32": _sums(context.source.read(lo, hi))})


def _sign(job: Job, block: int) -> None:
    """Write signatures of the rows, as the matrix is not kept, and another one may have its rows in another order."""
    context = job.context

    def blocks() -> Iterator[tuple[int, Any]]:
        for lo, hi in pairwise(context.source_bounds.tolist()):
            yield lo, context.source.read(lo, hi)

    job.run.write(SIGNATURES, block, {"rows": row_signatures(blocks, context.n)})


def signatures(context: Context) -> Integers:
    """Signatures of the rows, as :func:`~bigsmic.numerics.graph.signatures.row_signatures` returns them.

    Raises
    ------
    RunError
        The run has none, as those of earlier versions and results that were pickled.
    """
    found: Integers = context.run.read(SIGNATURES, 0, "rows")
    return found


def _entries(context: Context, p: int) -> tuple[int, int, Integers, Integers, Floats]:
    """Entries of one block off the diagonal, by row."""
    lo, hi = (int(b) for b in context.layout.bounds[p : p + 2])
    rows = context.source.read(lo, hi)
    _refuse_changed(context, p, rows)
    row = np.repeat(np.arange(hi - lo), np.diff(rows.indptr))
    off = rows.indices != row + lo
    return lo, hi, row[off], rows.indices[off].astype(np.int64), rows.data[off]


def _graph(context: Context, p: int) -> None:
    """Store affinities w as ``-log(w / max w)`` in place of squared distances, so that the kernel is ``exp(-d2)``."""
    lo, hi, row, column, data = _entries(context, p)
    kept = data > 0
    row, column = row[kept], column[kept]
    squares = minus_log(data[kept], context.source.largest)
    outside = (column < lo) | (column >= hi)
    halo = np.unique(column[outside])
    local = np.where(outside, hi - lo + np.searchsorted(halo, column), column - lo).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=hi - lo))])
    ranks = np.ones(len(row), np.uint16)
    arrays = {"halo": halo, "indptr": indptr, "indices": local, "sq_distances": squares, "ranks": ranks}
    arrays["sigma"] = np.full((1, hi - lo), np.inf, np.float32)
    info = {"in_degree": [hi - lo, 0, 0.0, 0.0, 0.0], "largest": float(context.source.largest)}
    context.run.write("graph", p, arrays, parts={"sigma": [0, 1]}, info=info)


def minus_log(affinity: Floats, largest: float) -> NDArray[np.float32]:
    """``-log(w / largest)``, at least 0, float32."""
    return np.maximum(-np.log(np.asarray(affinity, np.float64) / largest), 0).astype(np.float32)


def _lists(context: Context, p: int) -> None:
    lo, hi, row, column, data = _entries(context, p)
    indices, squares = nearest_entries(row, column, data, hi - lo, context.settings.n_neighbors)
    if (indices[:, 0] < 0).any():
        lonely = lo + int(np.flatnonzero(indices[:, 0] < 0)[0])
        raise InputError(f"input: row {lonely} of the distance graph has no neighbour; build it with more neighbours")
    context.run.write("lists", p, {"indices": indices, "squares": squares})


def nearest_entries(row: Integers, column: Integers, distances: Floats, n_rows: int, k: int) -> tuple[Integers, Floats]:
    """Lists of the k nearest of each row of a sparse matrix, by (distance, column).

    Returns
    -------
    indices : ndarray of int64, shape (n_rows, k)
        -1 if the row has fewer.
    squares : ndarray of float32, shape (n_rows, k)
    """
    order = np.lexsort((column, distances, row))
    row, column, distances = row[order], column[order], distances[order]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    kept = place < k
    indices, squares = np.full((n_rows, k), -1), np.full((n_rows, k), np.inf, np.float32)
    indices[row[kept], place[kept]] = column[kept]
    squares[row[kept], place[kept]] = np.square(distances[kept].astype(np.float64))
    return indices, squares
