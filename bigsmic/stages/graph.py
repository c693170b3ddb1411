"""graph: the symmetric neighbour graph, from edges exchanged between row blocks, and its components for every t."""

from functools import partial

import numpy as np

from bigsmic.numerics.graph import connected_components, neighbor_graph
from bigsmic.numerics.graph.neighbor_graph import Edges, GraphBlock
from bigsmic.numerics.graph.neighbor_lists import tth_squares
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import hubs
from bigsmic.stages.shuffle import senders
from bigsmic.types import Integers


def run(job: Job) -> None:
    """Build the graph and count its components."""
    context = job.context
    if not job.complete("graph", context.blocks):
        job.fill("edges", context.blocks, _export)
        job.fill("graph", context.blocks, partial(_assemble, sent_by=senders(job, "edges", "target")))
    job.run.drop("edges", context.blocks)
    job.run.drop(hubs.LISTS, context.blocks)
    job.run.drop(hubs.CHOSEN, context.blocks)
    job.fill("components", [0], _components)


def _export(context: Context, p: int) -> None:
    """Write the edges that end in other blocks, in one part per block."""
    read, lo = context.run.reader(hubs.lists_name(context), p), context.layout.bounds[p]
    edges = neighbor_graph.outgoing_edges(lo, read("indices"), read("squares"))
    bounds = np.searchsorted(edges.target, context.layout.bounds)
    context.run.write("edges", p, edges._asdict(), parts=dict.fromkeys(edges._fields, bounds))


def _assemble(context: Context, p: int, sent_by: list[Integers]) -> None:
    read, lo = context.run.reader(hubs.lists_name(context), p), int(context.layout.bounds[p])
    indices, squares = read("indices"), read("squares")
    from_blocks = sent_by[p] if len(sent_by[p]) else [p]  # its own, without edges, for the dtypes
    sent = context.run.gather("edges", from_blocks, Edges._fields, p)
    incoming = Edges(*map(np.concatenate, zip(*sent, strict=True)))
    graph = neighbor_graph.assemble(lo, indices, squares, incoming)
    arrays = {name: getattr(graph, name) for name in ("halo", "indptr", "indices", "sq_distances", "ranks")}
    if hubs.are_chosen(context):
        arrays |= {name: read(name) for name in ("scale", "sigma", "reach")}
    else:
        arrays["sigma"] = np.sqrt(np.stack([tth_squares(squares, t) for t in context.settings.t]))
    of_each_t = {name: np.arange(len(arrays[name]) + 1) for name in ("sigma", "reach") if name in arrays}
    info = {"in_degree": _in_degree_sums(lo, indices, incoming)}
    context.run.write("graph", p, arrays, parts=of_each_t, info=info)


def _in_degree_sums(lo: int, indices: Integers, incoming: Edges) -> list[float]:
    """Number of rows, of rows in no list, and sums of the first three powers of the in-degrees among ten neighbours."""
    nearest = indices[:, : hubs.HUB_NEIGHBORS].ravel() - lo
    inside = nearest[(nearest >= 0) & (nearest < len(indices))]
    outside = incoming.target[incoming.ranks <= hubs.HUB_NEIGHBORS] - lo
    degree = np.bincount(np.concatenate([inside, outside]), minlength=len(indices)).astype(np.float64)
    return [len(degree), int((degree == 0).sum()), degree.sum(), (degree**2).sum(), (degree**3).sum()]


def read_graph(context: Context, p: int) -> GraphBlock:
    """Return one block of the graph."""
    read = context.run.reader("graph", p)
    lo, hi = (int(b) for b in context.layout.bounds[p : p + 2])
    arrays = [read(name) for name in ("halo", "indptr", "indices", "sq_distances", "ranks")]
    return GraphBlock(lo, hi, *arrays)


def _components(context: Context, block: int) -> None:
    """Number the components of the t-graph, for each t of the fit."""
    forests = [connected_components.new_forest(context.n) for _ in context.settings.t]
    for p in context.blocks:
        graph = read_graph(context, p)
        for t, forest in zip(context.settings.t, forests, strict=True):
            connected_components.join_block(forest, graph, t)
    arrays, counts = {}, {}
    for t in context.settings.t:
        labels, sizes, first = connected_components.component_labels(forests.pop(0))
        counts[str(t)] = len(sizes)
        arrays[f"labels.t{t}"] = labels.astype(context.position_dtype)
        arrays |= {f"sizes.t{t}": sizes, f"first.t{t}": first}
    parts = {name: context.layout.bounds for name in arrays if name.startswith("labels")}
    context.run.write("components", block, arrays, parts=parts, info={"count": counts})
