"""assign: labelings of the rows, by rotation of eigenvectors and merging and moving of over-segmented labels."""

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics import class_sums
from bigsmic.numerics.graph import neighbor_graph
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import consensus, local_moving, rotation
from bigsmic.numerics.labeling.merge_tree import MergeTree, gram, merge_tree
from bigsmic.numerics.row_blocks import Group, Halo, Shard, tiles
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import kernel_matrix
from bigsmic.stages.eigenvectors import basis_name
from bigsmic.stages.graph import read_graph
from bigsmic.stages.graph_parts import falls_apart
from bigsmic.stages.labeling_specs import Eigenproblem, LabelingSpec, eigenproblems, specs_of
from bigsmic.stages.shown_number import (
    are_dense_parts,
    are_joined,
    are_parts,
    dense_parts,
    is_shown,
)
from bigsmic.stages.valley_trees import TREE_FIELDS, number_of, parted, valley_tree_of
from bigsmic.types import Floats, Integers

ROTATION_ROWS = 1000  # from which a rotation is computed; eight per column if there are many columns
MERGED_ITERATIONS, FEWEST_ITERATIONS = 12, 8  # bounds of the steps of a rotation whose columns are merged
MANY_COLUMNS = 128  # from which on such a rotation takes fewer steps, as each takes longer
MOVED = ("merge", "valleys")
TILE_ROWS = 4096  # whose posteriors over all columns are computed at a time
GRAM_BYTES = 16 << 20  # of the Gram matrices that are summed in one pass; one that is larger is summed alone


def run(job: Job) -> None:
    """Compute every labeling."""
    context = job.context
    frames(job)
    for merging in (Merging.VALLEYS, Merging.DENSITY):
        if merging.numbers(context):
            job.fill(merging.assigned, context.blocks, partial(_assign, merging=merging))
            for eigenproblem in eigenproblems(context.settings):
                if not job.complete(merging.labeling(eigenproblem), context.blocks):
                    _finish(job, eigenproblem, merging)


class Merging(Enum):
    """Kinds of labelings by the rule that merges their columns; each kind has its own stages.

    Labelings merged by valleys are computed first, and if these agree on the labels, no others are.
    """

    DENSITY = ""
    VALLEYS = ".groups"

    @classmethod
    def of(cls, spec: LabelingSpec) -> "Merging":
        """The kind of a labeling."""
        return cls.VALLEYS if spec.assignment == "valleys" else cls.DENSITY

    def numbers(self, context: Context) -> list[int]:
        """Numbers of the labelings of this kind."""
        return [b for b, spec in enumerate(specs_of(context)) if Merging.of(spec) == self]

    @property
    def assigned(self) -> str:
        """Stage of the labels before local moving."""
        return f"assigned{self.value}"

    def labeling(self, eigenproblem: Eigenproblem) -> str:
        """Stage of the final labels of an eigenproblem's labelings."""
        return f"labeling{self.value}.{eigenproblem.name}"


# -- frames: signs or rotation of a basis, and the tree that merges its columns


def frames(job: Job) -> None:
    """Compute the frame of every labeling, which is the same for any number of clusters."""
    every = dict.fromkeys(spec.frame for spec in specs_of(job.context))
    todo = [spec for spec in every if not job.run.done(frame_name(spec), 0)]
    turned = [spec for spec in todo if spec.assignment != "paper"]
    rotations = job.map_here(_rotation, _samples(job, turned))
    for spec in todo:
        if spec.assignment == "paper":
            _orient(job, spec)
    of_frame = dict(zip(turned, rotations, strict=True))
    for spec, R in of_frame.items():
        if spec.assignment != "merge":
            job.run.write(frame_name(spec), 0, {"R": R})
    for batch in gram_batches([spec for spec in turned if spec.assignment == "merge"]):
        _merge(job, {spec: of_frame[spec] for spec in batch})


def _rotation(of_spec: tuple[LabelingSpec, Floats]) -> Floats:
    """Rotation of the columns of a labeling; less accurate if they are merged, where its last digits do not matter."""
    spec, sample = of_spec
    if spec.assignment in MOVED:
        most = np.clip(MERGED_ITERATIONS * MANY_COLUMNS // sample.shape[1], FEWEST_ITERATIONS, MERGED_ITERATIONS)
        return rotation.rotation(sample, int(most), dtype=np.float32)
    return rotation.rotation(sample)


def frame_name(spec: LabelingSpec) -> str:
    """Stage of the rotation and the merge tree of a labeling."""
    return f"frame.{spec.frame.name}"


def _orient(job: Job, spec: LabelingSpec) -> None:
    """Write the sign of each eigenvector."""
    name = frame_name(spec)
    signs, positive_sums = rotation.orient(job.sum_blocks(name, job.context.blocks, partial(_column_sums, spec=spec)))
    job.run.write(name, 0, {"signs": signs, "positive_sums": positive_sums})


def _samples(job: Job, specs: Sequence[LabelingSpec]) -> list[tuple[LabelingSpec, Floats]]:
    """Rows, drawn by hash, on which the rotation of each labeling is found; those of an eigenproblem in one pass."""
    samples: dict[LabelingSpec, Floats] = {}
    for of_one in _by_eigenproblem(specs):
        task = partial(_drawn, specs=of_one, rows=[_sample_rows(job.context, spec) for spec in of_one])
        parts = job.map_blocks(frame_name(of_one[0]), job.context.blocks, task)
        samples |= dict(zip(of_one, map(np.concatenate, zip(*parts, strict=True)), strict=True))
    return [(spec, samples[spec]) for spec in specs]


def _sample_rows(context: Context, spec: LabelingSpec) -> Integers:
    return draw_rows(context.n, max(ROTATION_ROWS, 8 * spec.n_eigenvectors), context.settings.seed, "rotation")


def _by_eigenproblem(specs: Sequence[LabelingSpec]) -> list[list[LabelingSpec]]:
    """Labelings of each eigenproblem, whose eigenvectors are read for all of them at once."""
    found: dict[Eigenproblem, list[LabelingSpec]] = {}
    for spec in specs:
        found.setdefault(spec.eigenproblem, []).append(spec)
    return list(found.values())


def gram_batches(specs: Sequence[LabelingSpec]) -> Iterator[list[LabelingSpec]]:
    """Labelings of one eigenproblem each, as many as have Gram matrices of `GRAM_BYTES` together, or one."""
    for of_one in _by_eigenproblem(specs):
        batch: list[LabelingSpec] = []
        for spec in of_one:
            if batch and sum(_gram_bytes(other) for other in [*batch, spec]) > GRAM_BYTES:
                yield batch
                batch = []
            batch.append(spec)
        yield batch


def _gram_bytes(spec: LabelingSpec) -> int:
    return 8 * (spec.n_eigenvectors + 1) * spec.n_eigenvectors


def _merge(job: Job, rotations: dict[LabelingSpec, Floats]) -> None:
    """Write the rotations of labelings of one eigenproblem, and the trees that merge the columns of each."""
    context, specs = job.context, list(rotations)
    total = job.sum_blocks(frame_name(specs[0]), context.blocks, partial(_grams, rotations=rotations))
    ends = np.cumsum([_gram_bytes(spec) // 8 for spec in specs])
    for spec, of_one in zip(specs, np.split(total, ends[:-1]), strict=True):
        sums = of_one.reshape(-1, spec.n_eigenvectors)
        tree = merge_tree(sums[:-1] / context.n, context.settings.merge_power)
        arrays = {"R": rotations[spec]} | {field: getattr(tree, field) for field in TREE_FIELDS}
        job.run.write(frame_name(spec), 0, arrays | {"counts": sums[-1]})


def _column_sums(context: Context, p: int, spec: LabelingSpec) -> Floats:
    return rotation.column_sums(read_basis(context, spec, p))


def _drawn(
    context: Context, p: int, specs: Sequence[LabelingSpec], rows: Sequence[Integers]
) -> list[NDArray[np.float32]]:
    """Rows of the eigenvectors of each labeling that are drawn, of one block."""
    V, numbers = _read_widest(context, specs, p), context.run.read("rows", p, "rows")
    return [V[:, : spec.n_eigenvectors][np.isin(numbers, drawn)] for spec, drawn in zip(specs, rows, strict=True)]


def _grams(context: Context, p: int, rotations: dict[LabelingSpec, Floats]) -> Floats:
    """Sums of :func:`_gram` of labelings of one eigenproblem, one after the other, over one block."""
    V = _read_widest(context, list(rotations), p)
    return np.concatenate([_gram(V[:, : spec.n_eigenvectors], R).ravel() for spec, R in rotations.items()])


def _read_widest(context: Context, specs: Sequence[LabelingSpec], p: int) -> Floats:
    return read_basis(context, max(specs, key=lambda spec: spec.n_eigenvectors), p)


def _gram(V: Floats, R: Floats) -> Floats:
    """Gram matrix of the columns' posteriors, and below it the number of rows with the largest posterior in each."""
    m = V.shape[1]
    total = np.zeros((m + 1, m))
    for rows in tiles(len(V), TILE_ROWS):
        found = rotation.posterior_rotated(V[rows], R)
        total += np.vstack([gram(found.posterior), np.bincount(found.labels, minlength=m)])
    return total


def read_basis(context: Context, spec: LabelingSpec, p: int) -> Floats:
    """The eigenvectors that a labeling uses, at one block of rows: float32, shape (b, n_eigenvectors)."""
    return context.run.read(basis_name(spec.eigenproblem), p, "V")[:, : spec.n_eigenvectors]


class Reader:
    """Computes posteriors and labels of a labeling from rows of its basis, before local moving.

    Parameters
    ----------
    context : Context
    spec : LabelingSpec
    """

    def __init__(self, context: Context, spec: LabelingSpec) -> None:
        self.context, self.spec, self.prior = context, spec, context.settings.prior
        read = context.run.reader(frame_name(self.spec), 0)
        if self.spec.assignment == "paper":
            self.signs, self.positive_sums = read("signs"), read("positive_sums")
            return
        self.R = read("R")
        if self.spec.assignment in MOVED:
            self.tree = MergeTree(self.spec.n_eigenvectors, *(read(name) for name in TREE_FIELDS))
            self.counts = read("counts")

    @cached_property
    def groups(self) -> Integers | None:
        """Group of each column that is used; None if columns are not merged."""
        if self.spec.assignment == "merge":
            return self.tree.cut(min(self.context.settings.n_clusters, len(self.tree.columns)))
        return groups_by_valleys(self.context, self.spec) if self.spec.assignment == "valleys" else None

    @property
    def n_groups(self) -> int:
        """Number of labels."""
        return self.spec.n_eigenvectors if self.groups is None else int(self.groups.max()) + 1

    @property
    def n_moved(self) -> int:
        """Number of labels during local moving, after which groups may be merged by valleys."""
        return self.spec.n_eigenvectors if self.spec.assignment == "valleys" else self.n_groups

    def columns(self, V: Floats) -> rotation.Assignment:
        """Posteriors over the columns that are used, before merging."""
        if self.spec.assignment == "paper":
            return rotation.posterior_paper(V, self.signs, self.positive_sums, self.prior)
        return rotation.posterior_rotated(V, self.R)

    def __call__(self, V: Floats) -> rotation.Assignment:
        """Posteriors and labels over the groups."""
        found = self.columns(V)
        return found if self.groups is None else consensus.merged_assignment(found, self.groups, self.n_groups)

    def unmoved(self, V: Floats) -> Integers:
        """Initial labels for local moving, -1 where no eigenvector has mass."""
        if self.spec.assignment == "valleys":
            return rotation.labels_rotated(V, self.R)
        found = self(V)
        return np.where(found.has_mass, found.labels, -1)


def _assign(context: Context, p: int, merging: Merging) -> None:
    """Labels of one block under every labeling of a kind before local moving, -1 where no eigenvector has mass."""
    numbers = merging.numbers(context)
    specs = [specs_of(context)[b] for b in numbers]
    labels = np.empty((len(numbers), context.layout.heights[p]), np.int32)
    for of_one in _by_eigenproblem(specs):
        V = _read_widest(context, of_one, p)
        for spec in of_one:
            _read_labels(context, spec, V[:, : spec.n_eigenvectors], labels[specs.index(spec)])
        del V  # before the next one is read
    info = {"without_mass": (labels < 0).sum(axis=1).tolist()}
    context.run.write(merging.assigned, p, {"labels": labels}, parts={"labels": np.arange(len(labels) + 1)}, info=info)


def _read_labels(context: Context, spec: LabelingSpec, V: Floats, labels: Integers) -> None:
    """Fill in the labels of a labeling of which V has the eigenvectors."""
    reader = Reader(context, spec)
    for rows in tiles(len(V), TILE_ROWS):
        labels[rows] = reader.unmoved(V[rows])


def without_mass(context: Context) -> Integers:
    """Number of rows in which no eigenvector has mass, per labeling."""
    found = np.zeros(len(specs_of(context)), np.int64)
    for merging in Merging:
        if numbers := merging.numbers(context):
            infos = context.run.infos(merging.assigned, context.blocks)
            found[numbers] = np.sum([info["without_mass"] for info in infos], axis=0)
    return found


# -- labels of all rows: those without mass adopt one, over-segmented labelings are moved


def read_labels(context: Context, p: int, b: int) -> Integers:
    """Labels of one block under labeling `b`, int32, shape (b,)."""
    spec = specs_of(context)[b]
    return read_merged(context, p, spec) if spec.assignment == "valleys" else read_groups(context, p, b)


def merged_name(spec: LabelingSpec) -> str:
    """Stage of the labels of a labeling whose groups are merged by valleys."""
    return f"merged.{spec.eigenproblem.name}"


def read_merged(context: Context, p: int, spec: LabelingSpec) -> Integers:
    """Labels of one block under a labeling whose groups are merged by valleys, int32, shape (b,)."""
    return context.run.read(merged_name(spec), p, "labels")


def read_groups(context: Context, p: int, b: int) -> Integers:
    """Labels of one block after local moving in labeling `b`, before merging by valleys: int32, shape (b,)."""
    eigenproblem, merging = specs_of(context)[b].eigenproblem, Merging.of(specs_of(context)[b])
    part = _labelings(context, eigenproblem, merging).index(b)
    return context.run.read(merging.labeling(eigenproblem), p, "labels", part)[0]


def groups_by_valleys(context: Context, spec: LabelingSpec) -> Integers:
    """Cluster of each group of a labeling, from a cut of its tree of valleys: int64, shape (m,).

    Where as many clusters are asked for as labelings show, one that shows more keeps them: the consensus merges what
    others do not know, and no valley. Where the answer is parts of the graph, groups are merged by density, or are of
    dense parts. Where more are asked for than there is any sign of, the clusters are parted by shape.
    """
    if are_dense_parts(context.run, context.settings.n_clusters):
        return dense_parts(context.run, number_of(context, spec), spec.n_eigenvectors)
    if are_parts(context.run, context.settings.n_clusters):
        return Reader(context, spec).tree.cut(context.settings.n_clusters)
    found, n_clusters = valley_tree_of(context, spec), context.settings.n_clusters
    if are_joined(context.run, n_clusters):
        return found.by_distance.cut(n_clusters)
    if is_shown(context.run, n_clusters):
        n_clusters = max(n_clusters, found.n_clusters)
    return parted(context, spec, n_clusters).cut(min(n_clusters, len(found.tree.columns)))


def _labelings(context: Context, eigenproblem: Eigenproblem, merging: Merging) -> list[int]:
    """Numbers of the labelings of an eigenproblem and a kind."""
    return [b for b in merging.numbers(context) if specs_of(context)[b].eigenproblem == eigenproblem]


def _finish(job: Job, eigenproblem: Eigenproblem, merging: Merging) -> None:
    kernel_matrix.prepare(job, eigenproblem)
    make = partial(StoredLabels, eigenproblem=eigenproblem, in_memory=job.plan.kernel_in_memory)
    job.run_actors(merging.labeling(eigenproblem), make, lambda group: _label(job, eigenproblem, merging, group))


def _label(job: Job, eigenproblem: Eigenproblem, merging: Merging, group: Group) -> None:
    """Complete the labelings of an eigenproblem and a kind with the actors of a group, and write them."""
    context, numbers = job.context, _labelings(job.context, eigenproblem, merging)
    readers = [Reader(context, specs_of(context)[b]) for b in numbers]
    missing = group.call_sum(("begin", numbers, [reader.n_moved for reader in readers]))
    for i in np.flatnonzero(missing).tolist():
        adopt(context, group, i, int(missing[i]))
    resolutions = [_resolution(context, reader.spec) for reader in readers]
    if any(resolution is not None for resolution in resolutions):
        local_moving.local_moves(group, resolutions)
    group.call(("write_labels", merging.labeling(eigenproblem)))


def _resolution(context: Context, spec: LabelingSpec) -> float | None:
    """Resolution that the rows of a labeling are moved with; None where they stay."""
    if spec.assignment not in MOVED:
        return None
    return 0.0 if spec.assignment == "merge" and falls_apart(context, context.settings.n_clusters) else 1.0


def adopt(context: Context, group: Group, i: int, missing: int) -> None:
    """Label rows by their nearest labelled neighbour until none changes, and the remaining ones by the nearest mean."""
    before, left = missing + 1, missing
    while 0 < left < before:
        before, left = left, group.call_sum(("adopt", i))
    if left and context.settings.precomputed:  # no features: the largest cluster
        group.call(("fill", i, int(group.call_sum(("counts", i)).argmax())))
    elif left:
        group.call(("adopt_nearest_mean", i, group.call_sum(("class_sums", i))))


class StoredLabels(local_moving.RowMoves):
    """Labels of the rows of one shard, whose graph, kernel and features are in the run directory.

    Parameters
    ----------
    context : Context
    shard : Shard
    eigenproblem : Eigenproblem
    in_memory : bool
        Whether the kernel is kept in memory.
    """

    def __init__(self, context: Context, shard: Shard, eigenproblem: Eigenproblem, in_memory: bool) -> None:
        self.context, self.eigenproblem = context, eigenproblem
        self._graph_halo: Halo | None = None
        degrees = [kernel_matrix.read_degree(context, eigenproblem, p) for p in shard.blocks]
        rows = [context.run.read("rows", p, "rows") for p in shard.blocks]
        load = kernel_matrix.loader(context, shard, kernel_matrix.weights_name(eigenproblem), in_memory)
        super().__init__(shard, load, np.concatenate(degrees), np.concatenate(rows), context.settings.seed)

    def begin(self, numbers: Sequence[int], n_groups: Sequence[int]) -> Integers:
        """Begin with the labels of some labelings; return the number of rows that have none, of each."""
        self.start((self._assigned(b) for b in numbers), n_groups)
        return self.n_missing()

    def n_missing(self) -> Integers:
        """Number of the rows that have no label, of each labeling."""
        return self.shard.sum_over_blocks(lambda p: (self.labels[self.shard.rows(p)] < 0).sum(axis=0))

    def _assigned(self, b: int) -> Integers:
        """Labels of the rows of the shard under labeling `b`, before any move."""
        merging = Merging.of(specs_of(self.context)[b])
        part = merging.numbers(self.context).index(b)
        read = self.context.run.read
        return np.concatenate([read(merging.assigned, p, "labels", part)[0] for p in self.shard.blocks])

    @property
    def graph_halo(self) -> Halo:
        """Rows that the graph refers to, which are more than those of the kernel.

        Actors exchange rows for it. All that are in one process would share the lock of a cached_property, in Python
        3.11, and wait for each other without end.
        """
        if self._graph_halo is None:
            self._graph_halo = self.shard.halo(lambda p: read_graph(self.context, p).halo)
        return self._graph_halo

    def adopt(self, i: int) -> int:
        """Label rows of labeling i by their nearest labelled neighbour; return the number that are left without."""
        before = np.ascontiguousarray(self.labels[:, i], np.int32)
        extended = self.graph_halo.extend(before)

        def task(p: int) -> int:
            own = self.shard.rows(p)
            if (before[own] < 0).any():
                graph = read_graph(self.context, p)
                known = self.graph_halo.around(p, graph.halo, extended)
                self.labels[own, i] = neighbor_graph.nearest_labelled(graph, known)
            return int(np.count_nonzero(self.labels[own, i] < 0))

        return self.shard.sum_over_blocks(task)

    def counts(self, i: int) -> Any:
        """Rows of each label of labeling i."""

        def task(p: int) -> Any:
            own = self.labels[self.shard.rows(p), i]
            return np.bincount(own[own >= 0], minlength=self.n_clusters[i])

        return self.shard.sum_over_blocks(task)

    def fill(self, i: int, label: int) -> None:
        """Give `label` to the rows of labeling i without one."""
        self.labels[self.labels[:, i] < 0, i] = label

    def class_sums(self, i: int) -> Any:
        """Sums of the features of each label of labeling i."""
        return self.shard.sum_over_blocks(
            lambda p: class_sums.class_sums(self._features(p), self._of_block(p, i), int(self.n_clusters[i]))
        )

    def adopt_nearest_mean(self, i: int, sums: NDArray[Any]) -> None:
        """Give the label of the nearest mean to the rows of labeling i without one."""

        def task(p: int) -> None:
            own = self._of_block(p, i)
            missing = own < 0
            if missing.any():
                own[missing] = class_sums.nearest_mean(self._features(p)[missing], sums)
                self.labels[self.shard.rows(p), i] = own

        self.shard.for_each_block(task)

    def _of_block(self, p: int, i: int) -> Integers:
        return self.labels[self.shard.rows(p), i].astype(np.int32)

    def _features(self, p: int) -> Floats:
        return self.context.run.read("rows", p, "X")

    def write_labels(self, name: str) -> None:
        """Write the labels to a stage, one part per labeling, unless an interrupted run has written them."""

        def task(p: int) -> None:
            if self.context.run.done(name, p):
                return
            labels = np.ascontiguousarray(self.labels[self.shard.rows(p)].T, np.int32)
            parts = {"labels": np.arange(len(labels) + 1)}
            self.context.run.write(name, p, {"labels": labels}, parts=parts)

        self.shard.for_each_block(task)
