"""repair: for every t, the edges that make its graph connected."""

import numpy as np

from bigsmic import connect
from bigsmic.context import Context, Job
from bigsmic.hashing import row_hash
from bigsmic.information import draw_rows
from bigsmic.stages.graph import read_graph

EXITS = 3  # of each component
LEAST_WEIGHT = 0.01  # of an added edge
SEARCH_PAIRS = 2e10  # of queries and rows that an exact search compares; above it, against a sample of the rows


def run(job: Job):
    """Find the edges that connect the t-graph, for every t."""
    job.steps("repair", range(len(job.context.settings.t)), _connect)


def _connect(job: Job, i: int):
    context = job.context
    t = context.settings.t[i]
    before = left = context.run.info("components", 0)["count"][str(t)]
    found = []
    component = np.concatenate([_component(context, t, p) for p in context.blocks])
    while context.settings.repair and left > 1:
        exits = _exits(job, component, left)
        if len(exits.source) == 0:  # a precomputed graph holds no way out
            break
        found.append(exits)
        component, left = connect.renumber(component, exits, left)
    nothing = connect.Exits(*(np.zeros(0, dtype) for dtype in (np.int64, np.float32, np.int64, np.int64)))
    source, target, squares = connect.both_ways(connect.join_exits([*found, nothing]))
    arrays = {"source": source, "target": target, "squares": squares}
    parts = dict.fromkeys(arrays, np.searchsorted(source, context.layout.bounds))
    if left > 1:
        arrays["component"], parts["component"] = component, context.layout.bounds
    info = {"before": before, "after": left, "edges": len(source) // 2}
    context.run.write("repair", i, arrays, parts=parts, info=info)


def _exits(job: Job, component, n_components):
    """Best way out of every component but the largest: along the graph, or else by search."""

    def along(c, p):
        graph = read_graph(c, p)
        return connect.graph_exits(graph, component[np.r_[graph.lo : graph.hi, graph.halo]], EXITS)

    exits = connect.best_exits(connect.join_exits(job.collect("repair", job.context.blocks, along)), EXITS)
    lonely = np.setdiff1d(np.arange(1, n_components), exits.component)
    return (
        exits
        if len(lonely) == 0 or job.context.settings.precomputed
        else connect.join_exits([exits, _searched(job, component, lonely)])
    )


def _searched(job: Job, component, lonely):
    """Ways out of components that no edge leaves: from three rows of each, drawn by hash, to the nearest outside."""
    context = job.context
    members = np.flatnonzero(np.isin(component, lonely))
    order = members[np.lexsort((row_hash(context.settings.seed, "repair", members), component[members]))]
    rank = np.arange(len(order)) - np.searchsorted(component[order], component[order])
    queries = np.sort(order[rank < EXITS])
    X = np.concatenate(job.collect("repair", context.blocks, lambda c, p: _rows_at(c, p, queries)))
    share = max(10_000, int(SEARCH_PAIRS / len(queries)))
    drawn = None if share >= context.n else draw_rows(context.n, share, context.settings.seed, "repair")
    found = job.collect("repair", context.blocks, lambda c, p: _search(c, p, (X, component[queries]), component, drawn))
    squares, targets = (np.stack(arrays) for arrays in zip(*found, strict=True))
    best = squares.argmin(axis=0)
    at = np.arange(len(queries))
    return connect.Exits(component[queries].astype(np.int64), squares[best, at], queries, targets[best, at])


def _rows_at(context: Context, p: int, positions):
    lo, hi = context.layout.bounds[p : p + 2]
    return context.run.read("rows", p, "X")[positions[(positions >= lo) & (positions < hi)] - lo]


def _search(context: Context, p: int, queries, component, drawn):
    lo, hi = context.layout.bounds[p : p + 2]
    read = context.run.reader("rows", p)
    X, at = read("X"), np.arange(lo, hi)
    if drawn is not None:
        chosen = np.isin(read("rows"), drawn)
        X, at = X[chosen], at[chosen]
    return connect.nearest_outside(queries[0], queries[1], X, component[at], at)


def _component(context: Context, t: int, p: int):
    return context.run.read("components", 0, f"labels.t{t}", p)


def read_components(context: Context, t: int, p: int):
    """Component of every row of one block after the repair; 0 is the largest."""
    i = context.settings.t.index(t)
    if context.run.info("repair", i)["after"] == 1:
        return np.zeros(context.layout.heights[p], np.int32)
    return context.run.read("repair", i, "component", p)


def bridges(context: Context, t: int, p: int):
    """Added edges that begin in one row block: sources, targets and squared distances."""
    read = context.run.reader("repair", context.settings.t.index(t))
    return read("source", p), read("target", p), read("squares", p)
