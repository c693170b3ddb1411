"""assign: every labeling of the fit: bases turned, read, over-segmented ones merged and moved."""

from functools import partial

import numpy as np

from bigsmic import kernel, merge, moments, smic
from bigsmic.context import Context, Job
from bigsmic.engine import Narrowed
from bigsmic.information import draw_rows
from bigsmic.stages import matrix
from bigsmic.stages.graph import read_graph

ROTATION_ROWS = 1000  # on which a rotation is found; eight a column where columns are many
PANEL_ROWS = 4096
TREE_FIELDS = ("columns", "merges", "ratios")


def run(job: Job):
    """Make every labeling."""
    context = job.context
    frames(job)
    job.fill("assigned", context.blocks, _assign)
    job.steps("labeling", range(len(context.readings)), _finish)


# -- frames: what turns a basis into posteriors, signs or a rotation, and the tree that merges its columns


def frames(job: Job):
    """Find the frame of every labeling; the same for every number of clusters that it is cut into."""
    for reading in job.context.readings:
        job.steps(_frame_name(reading), [0], partial(_frame, reading=reading))


def _frame_name(reading):
    return f"frame.{reading.name}"


def _frame(job: Job, block: int, reading):
    context, name = job.context, _frame_name(reading)
    if reading.assignment == "paper":
        sums = job.sum(name, context.blocks, lambda c, p: smic.column_sums(read_basis(c, reading, p)))
        signs, positive_sums = smic.orient(sums)
        context.run.write(name, 0, {"signs": signs, "positive_sums": positive_sums})
        return
    n_rows = max(ROTATION_ROWS, 8 * reading.width)
    rows = draw_rows(context.n, n_rows, context.settings.seed, "rotation")
    sample = np.concatenate(job.collect(name, context.blocks, lambda c, p: _drawn(c, reading, p, rows)))
    arrays = {"R": smic.rotation(sample)}
    if reading.assignment == "merge":
        total = job.sum(name, context.blocks, lambda c, p: _gram(c, reading, p, arrays["R"]))
        tree = merge.merge_tree(total[:-1] / context.n, context.settings.merge_power)
        arrays |= {field: getattr(tree, field) for field in TREE_FIELDS} | {"counts": total[-1]}
    context.run.write(name, 0, arrays)


def _drawn(context: Context, reading, p: int, rows):
    return read_basis(context, reading, p)[np.isin(context.run.read("rows", p, "rows"), rows)]


def _gram(context: Context, reading, p: int, R):
    """Gram matrix of the columns' posteriors, and below it the rows of which each column has the largest."""
    V, m = read_basis(context, reading, p), reading.width
    total = np.zeros((m + 1, m))
    for rows in panels(len(V)):
        found = smic.posterior_rotated(V[rows], R)
        total += np.vstack([merge.gram(found.posterior), np.bincount(found.labels, minlength=m)])
    return total


def panels(n_rows):
    """Ranges of rows whose posteriors over all columns are held at a time."""
    return [slice(lo, lo + PANEL_ROWS) for lo in range(0, n_rows, PANEL_ROWS)]


def read_basis(context: Context, reading, p: int):
    """The eigenvectors that a labeling reads, at one block of rows: float32, shape (b, width)."""
    return context.run.read(f"basis.{reading.problem.name}", p, "V")[:, : reading.width]


class Reader:
    """Turns rows of a basis into what labeling `b` makes of them, before any move.

    Parameters
    ----------
    context : Context
    b : int
    """

    def __init__(self, context: Context, b: int):
        self.reading, self.prior = context.readings[b], context.settings.prior
        read = context.run.reader(_frame_name(self.reading), 0)
        if self.reading.assignment == "paper":
            self.signs, self.positive_sums = read("signs"), read("positive_sums")
            return
        self.R = read("R")
        if self.reading.assignment == "merge":
            self.tree = merge.MergeTree(self.reading.width, *(read(name) for name in TREE_FIELDS))
            self.counts = read("counts")
            self.groups = self.tree.cut(min(context.settings.n_clusters, len(self.tree.columns)))

    @property
    def n_groups(self):
        """Labels that it gives."""
        return int(self.groups.max()) + 1 if self.reading.assignment == "merge" else self.reading.width

    def columns(self, V):
        """Posteriors over the columns that are read, before merging."""
        if self.reading.assignment == "paper":
            return smic.posterior_paper(V, self.signs, self.positive_sums, self.prior)
        return smic.posterior_rotated(V, self.R)

    def __call__(self, V):
        """Posteriors and labels over the groups."""
        found = self.columns(V)
        if self.reading.assignment == "merge":
            return merge.merged_assignment(found, self.groups, self.n_groups)
        return found


def _assign(context: Context, p: int):
    """Labels of one block under every labeling before any move, -1 where no eigenvector has mass."""
    labels = np.empty((len(context.readings), context.layout.heights[p]), np.int32)
    for b, reading in enumerate(context.readings):
        reader, V = Reader(context, b), read_basis(context, reading, p)
        for rows in panels(len(V)):
            found = reader(V[rows])
            labels[b, rows] = np.where(found.has_mass, found.labels, -1)
    info = {"without_mass": (labels < 0).sum(axis=1).tolist()}
    context.run.write("assigned", p, {"labels": labels}, parts={"labels": np.arange(len(labels) + 1)}, info=info)


def without_mass(context: Context):
    """Rows in which no eigenvector has mass, per labeling."""
    return np.sum([context.run.info("assigned", p)["without_mass"] for p in context.blocks], axis=0)


# -- labels of all rows in one array: rows without mass adopt a label, over-segmented labelings are moved


def _finish(job: Job, b: int):
    context = job.context
    labels = np.concatenate([context.run.read("assigned", p, "labels", b)[0] for p in context.blocks])
    reader = Reader(context, b)
    if (labels < 0).any():
        labels = _adopt(job, labels, reader.n_groups)
    if reader.reading.assignment == "merge":
        labels = moved(job, reader.reading.problem, labels, reader.n_groups)
    context.run.write("labeling", b, {"labels": labels}, parts={"labels": context.layout.bounds})


def read_labels(context: Context, p: int, b: int):
    """Labels of one block under labeling `b`, int32, shape (b,)."""
    return context.run.read("labeling", b, "labels", p)


def moved(job: Job, problem, labels, n_clusters):
    """Labels after local moves on the weights of `problem`."""
    context = job.context
    matrix.prepare(job, problem)
    load = matrix.loader(job, matrix.weights_name(problem))
    engine = Narrowed(job.engine, job.plan.width("assign"))
    rows = np.concatenate([context.run.read("rows", p, "rows") for p in context.blocks])
    settings = merge.MoveSettings(n_clusters, context.settings.seed)
    return merge.local_moves(
        context.blocks,
        labels,
        matrix.read_degree(context, problem),
        rows,
        settings,
        collect=lambda task, blocks: engine.collect(lambda p: task(load(p)), list(blocks)),
    )


def _adopt(job: Job, labels, n_groups):
    """Label rows by their nearest labelled neighbour, again and again; what no path reaches by the nearest mean."""
    missing = np.flatnonzero(labels < 0)
    before = len(missing) + 1
    while 0 < (left := int(np.count_nonzero(labels[missing] < 0))) < before:
        before = left
        labels = np.concatenate(job.collect("labeling", job.context.blocks, partial(_spread, labels=labels)))
    if left and job.context.settings.precomputed:  # no features: the largest cluster
        return np.where(labels < 0, np.bincount(labels[labels >= 0], minlength=1).argmax(), labels).astype(np.int32)
    return labels if left == 0 else _nearest_means(job, labels, n_groups)


def _spread(context: Context, p: int, labels):
    own = labels[context.layout.bounds[p] : context.layout.bounds[p + 1]]
    if (own >= 0).all():
        return own
    graph = read_graph(context, p)
    return kernel.nearest_labelled(graph, np.concatenate([own, labels[graph.halo]]))


def _nearest_means(job: Job, labels, n_groups):
    bounds = job.context.layout.bounds

    def sums(context, p):
        return moments.class_sums(context.run.read("rows", p, "X"), labels[bounds[p] : bounds[p + 1]], n_groups)

    total = job.sum("labeling", job.context.blocks, sums)

    def nearest(context, p):
        own = labels[bounds[p] : bounds[p + 1]].copy()
        missing = own < 0
        if missing.any():
            own[missing] = moments.nearest_mean(context.run.read("rows", p, "X")[missing], total)
        return own

    return np.concatenate(job.collect("labeling", job.context.blocks, nearest))
