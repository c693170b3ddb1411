"""neighbors: exact search inside the cells of each group; lists of ghost rows are merged in their home groups.

After this stage, a row block consists of the rows at home in a group, in input order, with their scaled features and
their lists. If hubs are in the lists of many rows, and many rows in none, neighbours are chosen among more candidates,
which a second search finds; see :mod:`bigsmic.numerics.graph.candidates`.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from bigsmic.numerics.graph import candidates, neighbor_lists, neighbors
from bigsmic.numerics.graph.equal_rows import find_points
from bigsmic.numerics.hashing import draw_rows
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import hubs
from bigsmic.stages.route import FIRST_CELL, HOME, RANK, ROW
from bigsmic.stages.shuffle import senders
from bigsmic.types import Floats, Integers

RECALL_ROWS = 200
RECALL_NEIGHBORS = 10


class Search(NamedTuple):
    """Stages that a search writes, lists by group and merged, and the setting of how many neighbours it finds."""

    by_group: str
    merged: str
    setting: str


NEAREST = Search("neighbors", hubs.LISTS, "n_neighbors")
WIDER = Search("more_neighbors", hubs.CANDIDATES, "n_candidates")


def run(job: Job) -> None:
    """Search every group, then merge the lists that different groups have found for a row; and once more for hubs."""
    context, blocks = job.context, job.context.blocks
    is_known = job.run.done("recall", 0) and job.run.done(hubs.HUBS, 0)
    for_graph = not job.complete("graph", blocks)
    if not is_known or (for_graph and not hubs.are_chosen(context)):
        _find(job, NEAREST)
    job.fill("rows", blocks, _keep)  # those that no search has written
    job.run_steps("recall", [0], _recall)
    job.run_steps(hubs.HUBS, [0], hubs.look)
    if for_graph and hubs.are_chosen(context) and not job.complete(hubs.CHOSEN, blocks):
        job.run.drop(NEAREST.merged, blocks)  # those of the second search take as much disk as there is for both
        _find(job, WIDER)
        job.fill(hubs.CHOSEN, blocks, hubs.choose)
    job.run.drop("routed_rows", context.source_blocks)
    job.run.drop(WIDER.merged, blocks)


def _find(job: Job, search: Search) -> None:
    """Search every group, and merge what groups have found for the rows of every block."""
    blocks = job.context.blocks
    if job.complete(search.merged, blocks):
        return
    job.fill(search.by_group, blocks, partial(_search, search=search))
    sent_by = senders(job, search.by_group, "ghost_positions")
    job.fill(search.merged, blocks, partial(_merge, sent_by=sent_by, search=search))
    job.run.drop(search.by_group, blocks)


def _keep(context: Context, p: int) -> None:
    """Write the rows at home in one group, which LSMI and predictions read."""
    X, rows, _, tags = _gather(context, p)
    _write_rows(context, p, X, rows, tags)


def _write_rows(context: Context, p: int, X: Floats, rows: Integers, tags: Integers) -> None:
    at_home = tags[:, HOME] == context.layout.group_ids[p]
    arrays = {"X": X[at_home], "rows": rows[at_home], "cell": tags[at_home, FIRST_CELL]}
    context.run.write("rows", p, arrays)


def _search(context: Context, p: int, search: Search) -> None:
    """Neighbours among the members of one group, for the rows at home and for the ghosts; and the rows at home."""
    X, rows, positions, tags = _gather(context, p)
    if not context.run.done("rows", p):
        _write_rows(context, p, X, rows, tags)
    asked = context.settings
    count = getattr(asked, search.setting)
    settings = neighbors.NeighborSettings(count, asked.neighbors, asked.seed, asked.n_neighbors)
    indices, squares = neighbors.group_neighbors(X, rows, tags[:, FIRST_CELL:], settings)
    places = np.append(positions, -1).astype(context.position_dtype)  # the last one where there is no neighbour
    at_home = tags[:, HOME] == context.layout.group_ids[p]
    ghosts = np.flatnonzero(~at_home)
    ghosts = ghosts[np.argsort(positions[ghosts], kind="stable")]
    bounds = np.searchsorted(positions[ghosts], context.layout.bounds)
    arrays = {
        "indices": places[indices[at_home]],
        "squares": squares[at_home],
        "ghost_positions": positions[ghosts],
        "ghost_indices": places[indices[ghosts]],
        "ghost_squares": squares[ghosts],
    }
    context.run.write(search.by_group, p, arrays, parts={name: bounds for name in arrays if name.startswith("ghost")})


def _gather(context: Context, p: int) -> tuple[Floats, Integers, Integers, Integers]:
    """Members of one group, in input order: features, row numbers, positions, tags."""
    layout, group = context.layout, context.layout.group_ids[p]
    tags = [found for (found,) in context.run.gather("routed_rows", context.source_blocks, ["tags"], group)]
    counts = [len(t) for t in tags]
    X = np.empty((sum(counts), context.n_features), np.float32)
    rows, positions = np.empty(len(X), np.int64), np.empty(len(X), np.int64)
    at = 0
    for s, (found,) in enumerate(context.run.gather("routed_rows", context.source_blocks, ["X"], group)):
        piece = slice(at, at + counts[s])
        at = piece.stop
        X[piece] = found
        rows[piece] = context.source_bounds[s] + tags[s][:, ROW]
        home = layout.block_of_group[tags[s][:, HOME]]
        positions[piece] = layout.bounds[home] + layout.before[s, home] + tags[s][:, RANK]
    return X, rows, positions, np.concatenate(tags)


def _merge(context: Context, p: int, sent_by: list[Integers], search: Search) -> None:
    """Lists of the rows at home: the best of the neighbours found in this and in other groups."""
    read = context.run.reader(search.by_group, p)
    indices, squares = np.array(read("indices")), np.array(read("squares"))
    ghosts = context.run.gather(search.by_group, sent_by[p], ["ghost_positions", "ghost_indices", "ghost_squares"], p)
    for positions, *found in ghosts:
        at = positions - context.layout.bounds[p]
        lists = [(indices[at], squares[at]), tuple(found)]
        indices[at], squares[at] = neighbor_lists.merge_neighbors(lists)
    arrays = {"indices": indices, "squares": squares}
    arrays |= {"scale": candidates.local_scales(squares)} if search == WIDER else {}
    context.run.write(search.merged, p, arrays)


def _recall(job: Job, block: int) -> None:
    """Compare the lists of some rows with exact search over all of them."""
    context = job.context
    wanted = draw_rows(context.n, RECALL_ROWS, context.settings.seed, "recall")
    k = min(RECALL_NEIGHBORS, context.settings.n_neighbors)
    queries = job.map_blocks("recall", context.blocks, partial(_queries, wanted=wanted, k=k))
    positions, X, squares = (np.concatenate(arrays) for arrays in zip(*queries, strict=True))
    nearest = job.map_blocks("recall", context.blocks, partial(_nearest, X=X, k=k))
    exact = np.sort(np.concatenate(nearest, axis=1), axis=1)[:, 1 : k + 1]
    found = squares <= exact[:, -1:] * (1 + 1e-5)
    context.run.write("recall", 0, {}, info={"recall": float(found.mean()), "at": k, "rows": len(positions)})


def _nearest(context: Context, p: int, X: Floats, k: int) -> Floats:
    """Squared distances from some rows to the k + 1 distinct rows of one block that are nearest to them."""
    rows = context.run.read("rows", p, "X")
    points = find_points(rows, np.zeros(len(rows), np.int32), context.settings.n_neighbors).rows
    return np.sort(neighbors.exact_neighbors(X, rows, k + 1, points)[1], axis=1)


def _queries(context: Context, p: int, wanted: Integers, k: int) -> tuple[Integers, Floats, Floats]:
    read, lists = context.run.reader("rows", p), context.run.reader("lists", p)
    drawn = np.flatnonzero(np.isin(read("rows"), wanted))
    return context.layout.bounds[p] + drawn, read("X")[drawn], lists("squares")[drawn, :k]
