"""repair: edges that connect the components of every t-graph."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph import connectivity
from bigsmic.numerics.graph.connectivity import Exits
from bigsmic.numerics.hashing import draw_rows, row_hash
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages.graph import read_graph
from bigsmic.types import Floats, Integers

EXITS = 3  # of each component
LEAST_WEIGHT, LEAST_BETWEEN = 0.01, 1e-4  # of an added edge: within a part of the graph, and between parts
SEARCH_PAIRS = 2e10  # of queries and rows; with more, only a sample of the rows is searched


def run(job: Job) -> None:
    """Find the edges that connect the t-graph, for every t."""
    job.run_steps("repair", range(len(job.context.settings.t)), _connect)


def _connect(job: Job, i: int) -> None:
    """Add exits until one component is left; `united` maps components of the graph to the united ones."""
    context = job.context
    t = context.settings.t[i]
    before = left = context.run.info("components", 0)["count"][str(t)]
    found, united = [], np.arange(before)
    while context.settings.repair and left > 1:
        exits = _exits(job, t, united, left)
        if len(exits.source) == 0:  # a precomputed graph has no further edges
            break
        found.append(exits)
        united, left = connectivity.unite(united, exits, *_sizes(context, t))
    source, target, squares = connectivity.both_ways(connectivity.join_exits([*found, connectivity.NO_EXITS]))
    between, n_parts = _between_parts(context, t, source, target, squares)
    arrays = {
        "source": source,
        "target": target,
        "squares": squares,
        "between": between.astype(np.uint8),
        "united": united,
    }
    parts = dict.fromkeys(("source", "target", "squares", "between"), np.searchsorted(source, context.layout.bounds))
    info = {"before": before, "after": left, "edges": len(source) // 2}
    info |= {"between": int(between.sum()) // 2, "parts": n_parts}
    context.run.write("repair", i, arrays, parts=parts, info=info)


def _between_parts(context: Context, t: int, *edges: Any) -> tuple[NDArray[np.bool_], int]:
    """Whether added edges, given by sources, targets and squared distances, connect two parts of the t-graph.

    And the number of parts. It is 1, and no edge connects any, if fewer clusters are wanted, or rows are linked:
    then edges between parts tell which ones are near.
    """
    *ends, squares = edges
    from_, to = (_components_at(context, t, rows)[at] for rows, at in map(_distinct, ends))
    part = connectivity.parts(from_, to, squares, _sizes(context, t)[0])
    n_parts, settings = len(np.unique(part)), context.settings
    if settings.link_weights != (None,) or (settings.number_given and n_parts > settings.n_clusters):
        return np.zeros(len(squares), np.bool_), 1
    return part[from_] != part[to], n_parts


def _distinct(values: Integers) -> tuple[Integers, Integers]:
    distinct, where = np.unique(values, return_inverse=True)
    return distinct, where


def _exits(job: Job, t: int, united: Integers, n_components: int) -> Exits:
    """Shortest edges out of every component except the largest: of the graph, or else found by search."""
    blocks = job.context.blocks
    along = job.map_blocks("repair", blocks, partial(_along, t=t, united=united))
    exits = connectivity.best_exits(connectivity.join_exits(along), EXITS)
    lonely = np.setdiff1d(np.arange(1, n_components), exits.component)
    if len(lonely) == 0 or job.context.settings.precomputed:
        return exits
    return connectivity.join_exits([exits, _searched(job, t, united, lonely)])


def _along(context: Context, p: int, t: int, united: Integers) -> Exits:
    graph = read_graph(context, p)
    own, outside = (united[_components_at(context, t, at)] for at in (np.arange(graph.lo, graph.hi), graph.halo))
    return connectivity.graph_exits(graph, np.concatenate([own, outside]), EXITS)


def _searched(job: Job, t: int, united: Integers, lonely: Integers) -> Exits:
    """Edges out of components without outgoing edges: from three hashed rows of each to the nearest row outside."""
    context, blocks = job.context, job.context.blocks
    members = job.map_blocks("repair", blocks, partial(_members, t=t, united=united, lonely=lonely))
    component, hashes, positions = (np.concatenate(part) for part in zip(*members, strict=True))
    component, _, queries = connectivity.first_of_each(component, hashes, positions, EXITS)
    order = np.argsort(queries)
    component, queries = component[order], queries[order]
    X = np.concatenate(job.map_blocks("repair", blocks, partial(_rows_at, positions=queries)))
    share = max(10_000, int(SEARCH_PAIRS / len(queries)))
    rows = None if share >= context.n else draw_rows(context.n, share, context.settings.seed, "repair")
    search = partial(_search, t=t, queries=(X, component), united=united, drawn=rows)
    found = [np.stack(part) for part in zip(*job.map_blocks("repair", blocks, search), strict=True)]
    best, at = found[0].argmin(axis=0), np.arange(len(queries))
    squares, targets, reached = (array[best, at] for array in found)
    return connectivity.Exits(component, squares, queries, targets, reached)


def _members(context: Context, p: int, t: int, united: Integers, lonely: Integers) -> Any:
    """Rows of one block in some components, the first by hash of each: components, hashes and positions."""
    component = united[_read_components(context, t, p)]
    at = np.flatnonzero(np.isin(component, lonely))
    positions = context.layout.bounds[p] + at
    hashes = row_hash(context.settings.seed, "repair", positions)
    return connectivity.first_of_each(component[at], hashes, positions, EXITS)


def _rows_at(context: Context, p: int, positions: Integers) -> Floats:
    lo, hi = context.layout.bounds[p : p + 2]
    return context.run.read("rows", p, "X")[positions[(positions >= lo) & (positions < hi)] - lo]


def _search(context: Context, p: int, t: int, queries: Any, united: Integers, drawn: Integers | None) -> Exits:
    lo, hi = context.layout.bounds[p : p + 2]
    read = context.run.reader("rows", p)
    X, at = read("X"), np.arange(lo, hi)
    if drawn is not None:
        chosen = np.isin(read("rows"), drawn)
        X, at = X[chosen], at[chosen]
    component = united[_read_components(context, t, p)]
    return connectivity.nearest_outside(queries[0], queries[1], X, component[at - lo], at)


def _sizes(context: Context, t: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows of every component of the t-graph, and the smallest position in it."""
    read = context.run.reader("components", 0)
    return read(f"sizes.t{t}"), read(f"first.t{t}")


def _read_components(context: Context, t: int, p: int) -> Integers:
    return context.run.read("components", 0, f"labels.t{t}", p)


def _components_at(context: Context, t: int, positions: Integers) -> Integers:
    """Component of the rows at ascending positions, before the repair."""
    return context.at(f"components {t}", lambda p: _read_components(context, t, p), positions)


def read_components(context: Context, t: int, p: int) -> Integers:
    """Component of every row of one block after the repair; 0 is the largest."""
    i = context.settings.t.index(t)
    if context.run.info("repair", i)["after"] == 1:
        return np.zeros(context.layout.heights[p], np.int32)
    return context.run.read("repair", i, "united")[_read_components(context, t, p)]


def bridges(context: Context, t: int, p: int) -> tuple[Integers, Integers, Floats, Floats]:
    """Added edges whose sources are in one row block: sources, targets, squared distances, and least weights."""
    read = context.run.reader("repair", context.settings.t.index(t))
    source = read("source", p)
    least = np.full(len(source), LEAST_WEIGHT, np.float32)
    if _has_parts(context, t):
        least[read("between", p).astype(bool)] = LEAST_BETWEEN
    return source, read("target", p), read("squares", p), least


def bridges_between_parts(context: Context, t: int, p: int) -> tuple[Integers, Integers]:
    """Sources and targets of the added edges of one row block that connect parts of the t-graph."""
    if not _has_parts(context, t):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    read = context.run.reader("repair", context.settings.t.index(t))
    between = read("between", p).astype(bool)
    return read("source", p)[between], read("target", p)[between]


def _has_parts(context: Context, t: int) -> bool:
    """Whether added edges connect parts of the t-graph."""
    return context.run.info("repair", context.settings.t.index(t))["between"] > 0


def n_untied(context: Context) -> int:
    """Least number, over t, of parts between which edges weigh little; 1 for none."""
    infos = context.run.infos("repair", range(len(context.settings.t)))
    return min(int(info["parts"]) for info in infos)
