"""assign: every labeling of the fit: bases turned, read, over-segmented ones merged and moved."""

from functools import cached_property, partial

import numpy as np

from bigsmic.numerics import moments
from bigsmic.numerics.graph import affinity
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import consensus, local_moving, rotation
from bigsmic.numerics.row_blocks import panels
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import kernel_matrix
from bigsmic.stages.eigenvectors import falls_apart
from bigsmic.stages.graph import read_graph
from bigsmic.stages.labeling_specs import problems

ROTATION_ROWS = 1000  # on which a rotation is found; eight a column where columns are many
PANEL_ROWS = 4096  # whose posteriors over all columns are held at a time
TREE_FIELDS = ("columns", "merges", "ratios")


def run(job: Job):
    """Make every labeling."""
    context = job.context
    frames(job)
    job.fill("assigned", context.blocks, _assign)
    for problem in problems(context.settings):
        if not job.complete(labeling_name(problem), context.blocks):
            _finish(job, problem)


# -- frames: what turns a basis into posteriors, signs or a rotation, and the tree that merges its columns


def frames(job: Job):
    """Find the frame of every labeling; the same for every number of clusters that it is cut into."""
    todo = [reading for reading in job.context.readings if not job.run.done(frame_name(reading), 0)]
    turned = [reading for reading in todo if reading.assignment != "paper"]
    rotations = job.here(rotation.rotation, [_sample(job, reading) for reading in turned])
    for reading in todo:
        if reading.assignment == "paper":
            _orient(job, reading)
    for reading, R in zip(turned, rotations, strict=True):
        _merge(job, reading, R)


def frame_name(reading):
    """Stage of what turns eigenvectors into a labeling."""
    return f"frame.{reading.name}"


def _orient(job: Job, reading):
    """Find the sign of each eigenvector."""
    name = frame_name(reading)
    signs, positive_sums = rotation.orient(job.sum(name, job.context.blocks, partial(_column_sums, reading=reading)))
    job.run.write(name, 0, {"signs": signs, "positive_sums": positive_sums})


def _sample(job: Job, reading):
    """Rows, drawn by hash, on which the rotation of a labeling is found."""
    n_rows = max(ROTATION_ROWS, 8 * reading.width)
    rows = draw_rows(job.context.n, n_rows, job.context.settings.seed, "rotation")
    task = partial(_drawn, reading=reading, rows=rows)
    return np.concatenate(job.collect(frame_name(reading), job.context.blocks, task))


def _merge(job: Job, reading, R):
    """Write the rotation, and the tree that merges its columns where there are more of them than clusters."""
    context, name, arrays = job.context, frame_name(reading), {"R": R}
    if reading.assignment == "merge":
        total = job.sum(name, context.blocks, partial(_gram, reading=reading, R=R))
        tree = consensus.merge_tree(total[:-1] / context.n, context.settings.merge_power)
        arrays |= {field: getattr(tree, field) for field in TREE_FIELDS} | {"counts": total[-1]}
    job.run.write(name, 0, arrays)


def _column_sums(context: Context, p: int, reading):
    return rotation.column_sums(read_basis(context, reading, p))


def _drawn(context: Context, p: int, reading, rows):
    return read_basis(context, reading, p)[np.isin(context.run.read("rows", p, "rows"), rows)]


def _gram(context: Context, p: int, reading, R):
    """Gram matrix of the columns' posteriors, and below it the rows of which each column has the largest."""
    V, m = read_basis(context, reading, p), reading.width
    total = np.zeros((m + 1, m))
    for rows in panels(len(V), PANEL_ROWS):
        found = rotation.posterior_rotated(V[rows], R)
        total += np.vstack([consensus.gram(found.posterior), np.bincount(found.labels, minlength=m)])
    return total


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
        read = context.run.reader(frame_name(self.reading), 0)
        if self.reading.assignment == "paper":
            self.signs, self.positive_sums = read("signs"), read("positive_sums")
            return
        self.R = read("R")
        if self.reading.assignment == "merge":
            self.tree = consensus.MergeTree(self.reading.width, *(read(name) for name in TREE_FIELDS))
            self.counts = read("counts")
            self.groups = self.tree.cut(min(context.settings.n_clusters, len(self.tree.columns)))

    @property
    def n_groups(self):
        """Labels that it gives."""
        return int(self.groups.max()) + 1 if self.reading.assignment == "merge" else self.reading.width

    def columns(self, V):
        """Posteriors over the columns that are read, before merging."""
        if self.reading.assignment == "paper":
            return rotation.posterior_paper(V, self.signs, self.positive_sums, self.prior)
        return rotation.posterior_rotated(V, self.R)

    def __call__(self, V):
        """Posteriors and labels over the groups."""
        found = self.columns(V)
        if self.reading.assignment == "merge":
            return consensus.merged_assignment(found, self.groups, self.n_groups)
        return found


def _assign(context: Context, p: int):
    """Labels of one block under every labeling before any move, -1 where no eigenvector has mass."""
    labels = np.empty((len(context.readings), context.layout.heights[p]), np.int32)
    for b in range(len(labels)):
        _read_labels(context, p, b, labels[b])
    info = {"without_mass": (labels < 0).sum(axis=1).tolist()}
    context.run.write("assigned", p, {"labels": labels}, parts={"labels": np.arange(len(labels) + 1)}, info=info)


def _read_labels(context: Context, p: int, b: int, labels):
    """Fill in the labels of labeling `b`; its basis goes before the next one is read."""
    reader, V = Reader(context, b), read_basis(context, context.readings[b], p)
    for rows in panels(len(V), PANEL_ROWS):
        found = reader(V[rows])
        labels[rows] = np.where(found.has_mass, found.labels, -1)


def without_mass(context: Context):
    """Rows in which no eigenvector has mass, per labeling."""
    return np.sum([info["without_mass"] for info in context.run.infos("assigned", context.blocks)], axis=0)


# -- labels of all rows: those without mass adopt one, over-segmented labelings are moved


def labeling_name(problem):
    """Stage of the labels that the labelings of a problem end with."""
    return f"labeling.{problem.name}"


def read_labels(context: Context, p: int, b: int):
    """Labels of one block under labeling `b`, int32, shape (b,)."""
    problem = context.readings[b].problem
    return context.run.read(labeling_name(problem), p, "labels", _labelings(context, problem).index(b))[0]


def _labelings(context: Context, problem):
    """Numbers of the labelings of a problem."""
    return [b for b, reading in enumerate(context.readings) if reading.problem == problem]


def _finish(job: Job, problem):
    kernel_matrix.prepare(job, problem)
    make = partial(StoredLabels, problem=problem, in_memory=job.plan.kernel_in_memory)
    job.reside(labeling_name(problem), make, lambda group: _label(job, problem, group))


def _label(job: Job, problem, group):
    """Let the residents of a group finish the labelings of a problem, and write them."""
    context, numbers = job.context, _labelings(job.context, problem)
    resolution = 0.0 if falls_apart(context, context.settings.n_clusters) else 1.0
    for done, b in enumerate(numbers):
        job.report(labeling_name(problem), done, len(numbers))
        reader = Reader(context, b)
        missing = group.sum(("begin", b, reader.n_groups))
        if missing:
            _adopt(context, group, missing)
        if reader.reading.assignment == "merge":
            local_moving.local_moves(group, resolution)
        group.gather(("keep",))
    group.gather(("write_labels",))


def _adopt(context: Context, group, missing):
    """Label rows by their nearest labelled neighbour, again and again; what no path reaches by the nearest mean."""
    before, left = missing + 1, missing
    while 0 < left < before:
        before, left = left, group.sum(("adopt",))
    if left and context.settings.precomputed:  # no features: the largest cluster
        group.gather(("fill", int(group.sum(("counts",)).argmax())))
    elif left:
        group.gather(("adopt_nearest_mean", group.sum(("class_sums",))))


class StoredLabels(local_moving.RowMoves):
    """Labels of the rows of one share, whose graph, kernel and features are in the run directory.

    Parameters
    ----------
    context : Context
    share : Share
    problem : Problem
    in_memory : bool
        Whether the kernel is held in memory.
    """

    def __init__(self, context: Context, share, problem, in_memory):
        self.context, self.problem = context, problem
        degrees = [kernel_matrix.read_degree(context, problem, p) for p in share.blocks]
        rows = [context.run.read("rows", p, "rows") for p in share.blocks]
        load = kernel_matrix.loader(context, share, kernel_matrix.weights_name(problem), in_memory)
        super().__init__(share, load, np.concatenate(degrees), np.concatenate(rows), context.settings.seed)
        self.kept: list[np.ndarray] = []

    def begin(self, b, n_groups):
        """Begin with the labels of labeling `b`; return the number of rows that have none."""
        labels = [self.context.run.read("assigned", p, "labels", b)[0] for p in self.share.blocks]
        self.start(np.concatenate(labels), n_groups)
        return self._missing()

    @cached_property
    def graph_halo(self):
        """Rows that the graph touches: more than the kernel does."""
        return self.share.halo(lambda p: read_graph(self.context, p).halo)

    def _missing(self):
        return self.share.sum(lambda p: int(np.count_nonzero(self.labels[self.share.rows(p)] < 0)))

    def adopt(self):
        """Label rows by their nearest labelled neighbour; return the number of rows that are left without."""
        extended, found = self.graph_halo.extend(self.labels), self.labels.copy()

        def task(p):
            own = self.share.rows(p)
            if (self.labels[own] < 0).any():
                graph = read_graph(self.context, p)
                known = self.graph_halo.around(p, graph.halo, extended)
                found[own] = affinity.nearest_labelled(graph, known)

        self.share.each(task)
        self.labels = found
        return self._missing()

    def counts(self):
        """Rows of each label."""

        def task(p):
            own = self.labels[self.share.rows(p)]
            return np.bincount(own[own >= 0], minlength=self.n_clusters)

        return self.share.sum(task)

    def fill(self, label):
        """Give `label` to the rows without one."""
        self.labels = np.where(self.labels < 0, label, self.labels).astype(np.int32)

    def class_sums(self):
        """Sums of the features of each label."""
        return self.share.sum(
            lambda p: moments.class_sums(self._features(p), self.labels[self.share.rows(p)], self.n_clusters)
        )

    def adopt_nearest_mean(self, sums):
        """Give the label of the nearest mean to the rows without one."""

        def task(p):
            own = self.labels[self.share.rows(p)]
            missing = own < 0
            if missing.any():
                own[missing] = moments.nearest_mean(self._features(p)[missing], sums)

        self.share.each(task)

    def _features(self, p):
        return self.context.run.read("rows", p, "X")

    def keep(self):
        """Put these labels aside, and be ready for the next labeling."""
        self.kept.append(self.labels)

    def write_labels(self):
        """Write what was put aside, a part per labeling; what is there was written before a run was cut short."""

        def task(p):
            if self.context.run.done(labeling_name(self.problem), p):
                return
            labels = np.stack([labels[self.share.rows(p)] for labels in self.kept])
            parts = {"labels": np.arange(len(labels) + 1)}
            self.context.run.write(labeling_name(self.problem), p, {"labels": labels}, parts=parts)

        self.share.each(task)
