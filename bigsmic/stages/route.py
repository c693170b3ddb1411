"""cells and route: k-means cells of the sample, and copies of every row in the groups of its nearest cells.

The rows of a block of input are written once, ordered by group, so that a group later reads one range of bytes of each
block. So no chunk has two writers, and none is read, changed and written back.
"""

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph.cells import Cells, PartitionSettings, build_cells, route
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import hubs
from bigsmic.types import Floats, Integers

HOME, RANK, ROW, FIRST_CELL = 0, 1, 2, 3
"""Columns of the tags of a routed row: home group, rank among the block's rows of that home, row within the block, and
then the cells of the group to which it belongs (-1 for a cell of another group)."""


def run(job: Job) -> None:
    """Compute the cells, and route every row."""
    context, blocks = job.context, list(job.context.source_blocks)
    job.fill("cells", [0], _build_cells)
    if len(job.run.missing("routed_rows", blocks)) == len(blocks) > len(job.run.missing("route", blocks)):
        job.fill("route", blocks, _find_homes)  # not the routed rows, which were deleted and may not be needed again
        if searched(context):
            return
    for s in job.run.missing("route", blocks):
        job.run.forget("routed_rows", s)  # as both are written together
    job.fill("routed_rows", blocks, _route)


def searched(context: Context) -> bool:
    """Whether every row was routed, and every row block has its rows and its lists, or artifacts made from them."""
    run = context.run
    once = run.done("cells", 0) and run.done("recall", 0) and run.done(hubs.HUBS, 0)
    if not once or run.missing("route", context.source_blocks):
        return False
    lists = hubs.lists_name(context)
    return all(run.done("rows", p) and (run.done(lists, p) or run.done("graph", p)) for p in context.blocks)


def partition_settings(context: Context) -> PartitionSettings:
    """Settings of the partition of the rows into cells and groups."""
    return context.block_sizes.partition(context.n, context.d, context.settings.seed)


def read_cells(context: Context) -> Cells:
    """The hierarchy of cells; read once."""
    return context.cached("cells", lambda: _read_cells(context))


def _read_cells(context: Context) -> Cells:
    read = context.run.reader("cells", 0)
    return Cells.from_arrays({name: read(name) for name in context.run.entry("cells", 0)["arrays"]})


def _build_cells(context: Context, block: int) -> None:
    context.run.write("cells", block, build_cells(context.read_sample(), partition_settings(context)).to_arrays())


def _route(context: Context, s: int) -> None:
    X, cells = _nearest_cells(context, s)
    hierarchy = read_cells(context)
    n_groups = hierarchy.n_groups
    source, group, tags = route_rows(hierarchy.group[cells], cells, n_groups)
    bounds = np.searchsorted(group, np.arange(n_groups + 1))
    context.run.write("routed_rows", s, {"X": X[source], "tags": tags}, parts={"X": bounds, "tags": bounds})
    _write_homes(context, s, cells)


def _find_homes(context: Context, s: int) -> None:
    _write_homes(context, s, _nearest_cells(context, s)[1])


def _nearest_cells(context: Context, s: int) -> tuple[Floats, Integers]:
    lo, hi = context.source_bounds[s : s + 2]
    X = context.scaled_block(s)
    return X, route(X, np.arange(lo, hi), read_cells(context), partition_settings(context).overlap)


def _write_homes(context: Context, s: int, cells: Integers) -> None:
    hierarchy = read_cells(context)
    home = hierarchy.group[cells[:, 0]]
    context.run.write("route", s, {"home": home, "counts": np.bincount(home, minlength=hierarchy.n_groups)})


def route_rows(groups: Integers, cells: Integers, n_groups: int) -> tuple[Integers, Integers, NDArray[np.int32]]:
    """Order the rows of one block by the groups to which they are routed.

    Parameters
    ----------
    groups, cells : ndarray of int, shape (b, r)
        Group of each of a row's nearest cells, and the cells, nearest first.
    n_groups : int

    Returns
    -------
    source : ndarray of int64, shape (m,)
        Row of the block of each routed copy, ascending within a group.
    group : ndarray of int64, shape (m,), ascending
    tags : ndarray of int32, shape (m, 3 + r)
    """
    b, r = groups.shape
    keys = np.unique((groups.astype(np.int64) * b + np.arange(b)[:, None]).ravel())
    group, source = keys // b, keys % b
    tags = np.empty((len(keys), FIRST_CELL + r), np.int32)
    tags[:, HOME] = groups[source, 0]
    tags[:, RANK] = rank_within(groups[:, 0], n_groups)[source]
    tags[:, ROW] = source
    tags[:, FIRST_CELL:] = np.where(groups[source] == group[:, None], cells[source], -1)
    return source, group, tags


def rank_within(groups: Integers, n_groups: int) -> Integers:
    """Number of earlier entries with the same group, shape (b,)."""
    order = np.argsort(groups, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=n_groups))])
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - starts[groups[order]]
    return rank
