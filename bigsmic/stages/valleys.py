"""valleys: merging of groups without a valley between them, and evidence for the labels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.labeling import consensus, local_moving, outliers, valleys
from bigsmic.numerics.labeling.between_groups import GroupSums, between_axes, group_sums
from bigsmic.numerics.labeling.group_moments import GroupMoments, group_moments
from bigsmic.numerics.labeling.groups import N_AXES, NEIGHBOR_WEIGHT, Groups, is_drawn
from bigsmic.numerics.labeling.outliers import Fence
from bigsmic.numerics.labeling.pair_weights import pair_weights
from bigsmic.numerics.labeling.resolution import along_axes, steps_of
from bigsmic.numerics.labeling.valleys import ValleyTree
from bigsmic.numerics.principal_axes import principal_axes
from bigsmic.numerics.products import product
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import crowding, density, kernel_matrix, linked_groups
from bigsmic.stages.labeling_specs import Eigenproblem, eigenvector_sets_of, specs_of
from bigsmic.stages.labelings import (
    Merging,
    StoredLabels,
    adopt,
    groups_by_valleys,
    merged_name,
    read_groups,
)
from bigsmic.stages.linked_groups import ReadLabels
from bigsmic.stages.shown_number import PLAIN, PLAIN_OF_ONE_VOICE, are_dense_parts
from bigsmic.stages.valley_trees import VALLEY_FIELDS, VALLEYS
from bigsmic.types import Floats, Integers

AXES, COMPONENTS, EVIDENCE = "axes", "components_of_rows", "evidence"
TEMPORARY = (AXES, COMPONENTS)  # stages that are deleted when a fit has ended
N_COMPONENTS = 2 * N_AXES
"""Principal components among which the axes are chosen."""


class LabelSource(NamedTuple):
    """Source of labels of all rows, which define groups.

    Parameters
    ----------
    n_groups : int
        Number of labels, from 0.
    graph : Eigenproblem
        Its weights determine which groups are neighbours.
    read : callable
        ``read(context, p)`` gives the labels of row block p, int32, shape (b,).
    """

    n_groups: int
    graph: Eigenproblem
    read: ReadLabels


# -- over-segmented labelings are merged


def merge_groups(job: Job) -> None:
    """Compute the trees that merge the groups of labelings by valleys; the stage ``valleys``."""
    if Merging.VALLEYS.numbers(job.context):
        job.run_steps(VALLEYS, [0], _merge_groups)


def _merge_groups(job: Job, block: int) -> None:
    specs = specs_of(job.context)
    sources = [
        LabelSource(specs[b].n_eigenvectors, specs[b].eigenproblem.graph, partial(read_groups, b=b))
        for b in Merging.VALLEYS.numbers(job.context)
    ]
    groups = gather(job, sources)
    arrays = {f"weights.{i}": one.weights.copy() for i, one in enumerate(groups)}
    info: dict[str, Any] = {}
    if linked_groups.has_links(job.context):
        linked = _linked(job, groups)
        info["unlinked"] = [found.n_clusters for found in job.map_here(valleys.valley_tree, groups)]
        groups = linked
    trees, threshold = _trees(job, groups)
    for i, found in enumerate(trees):
        values = *found.tree_arrays, found.weakest
        arrays |= {f"{name}.{i}": value for name, value in zip(VALLEY_FIELDS, values, strict=True)}
        arrays[f"gains.{i}"] = found.gains
    info |= {
        "threshold": threshold,
        "n_clusters": [found.n_clusters for found in trees],
        "nearest": [found.by_distance.merges[len(found.tree.columns) - found.n_clusters :].tolist() for found in trees],
    }
    job.run.write(VALLEYS, block, arrays, info=info)


def _trees(job: Job, groups: Sequence[Groups]) -> tuple[list[ValleyTree], float]:
    """Trees of the labelings, and the standard errors of a valley that parts the clusters that these show.

    Among few rows, fewer are enough if the labelings plainly agree on the clusters that they separate.
    """
    *fewer, most = valleys.thresholds(job.context.n, groups[0].on_a_line)
    if not fewer:
        return job.map_here(valleys.valley_tree, groups), most
    sizes = [len(one.weights) for one in groups]
    rows = job.sum_blocks(VALLEYS, job.context.blocks, partial(group_gram, sizes=sizes))
    for threshold in fewer:
        copies = [one.with_links(one.links) for one in groups]
        trees = job.map_here(partial(valleys.valley_tree, threshold=threshold), copies)
        if _agree(rows, trees):
            return trees, threshold
    return job.map_here(valleys.valley_tree, groups), most


def _agree(rows: Integers, trees: Sequence[ValleyTree]) -> bool:
    """Whether labelings plainly agree on the clusters that each of them shows, or on as many as most of them show."""
    numbers = [found.n_clusters for found in trees]
    most, votes = Counter(numbers).most_common(1)[0]
    if min(numbers) > 1:
        agreement = _agreement(rows, trees, numbers)
        if agreement >= (PLAIN_OF_ONE_VOICE if votes == len(trees) else PLAIN):
            return True
    return most > 1 and 2 * votes > len(trees) and _agreement(rows, trees, [most] * len(trees)) >= PLAIN


def _agreement(rows: Integers, trees: Sequence[ValleyTree], numbers: Sequence[int]) -> float:
    """How much labelings agree on so many clusters of each."""
    cut = [found.tree.cut(n_clusters) for found, n_clusters in zip(trees, numbers, strict=True)]
    return consensus.stability(consensus.pairwise_ari(*consensus.merged_gram(rows, cut)))


def group_gram(context: Context, p: int, sizes: Sequence[int], reach: float = np.inf) -> Integers:
    """Number of rows of one block shared by every two groups of the labelings merged by valleys.

    Rows count that are at most so far from their neighbours.
    """
    return consensus.label_gram(all_groups(context, p)[density.within(context, p, reach)], sizes)


def all_groups(context: Context, p: int) -> Integers:
    """Groups of the rows of one block in all labelings merged by valleys: int32, shape (b, B)."""
    return np.stack([read_groups(context, p, b) for b in Merging.VALLEYS.numbers(context)], axis=1)


def _linked(job: Job, groups: Sequence[Groups]) -> list[Groups]:
    """Groups of the labelings with the links between them."""
    return [one.with_links(counts) for one, counts in zip(groups, links_between(job, VALLEYS), strict=True)]


def links_between(job: Job, stage: str) -> list[Floats]:
    """Must-links and cannot-links between the groups of each labeling: float64, shapes (2, m, m)."""
    numbers = Merging.VALLEYS.numbers(job.context)
    sizes = [specs_of(job.context)[b].n_eigenvectors for b in numbers]
    return linked_groups.between(job, stage, [partial(read_groups, b=b) for b in numbers], sizes)


def cut(job: Job) -> None:
    """Cut every tree of valleys at the number of clusters, and move rows, or label dense parts: stages ``merged``."""
    context = job.context
    for b in Merging.VALLEYS.numbers(context):
        spec = specs_of(context)[b]
        if not job.complete(merged_name(spec), context.blocks):
            kernel_matrix.prepare(job, spec.eigenproblem)
            make = partial(MergedLabels, b=b, in_memory=job.plan.kernel_in_memory)
            job.run_actors(merged_name(spec), make, partial(_move, context))


def _move(context: Context, group: Group) -> None:
    missing = int(group.call_sum(("begin_merged",)).item())
    if are_dense_parts(context.run, context.settings.n_clusters):
        adopt(context, group, 0, missing)
    else:
        resolution = local_moving.resolution_of(group.call_sum(("label_sums",))[1])
        local_moving.local_moves(group, (resolution,))
    group.call(("write_merged",))


class MergedLabels(StoredLabels):
    """Labels of the rows of one shard during local moving, after groups were merged by valleys.

    Parameters
    ----------
    context : Context
    shard : Shard
    b : int
        Number of the labeling.
    in_memory : bool
        Whether the kernel is kept in memory.
    """

    def __init__(self, context: Context, shard: Shard, b: int, in_memory: bool) -> None:
        self.b, self.spec = b, specs_of(context)[b]
        super().__init__(context, shard, self.spec.eigenproblem, in_memory)

    def begin_merged(self) -> Integers:
        """Start from the clusters into which groups are merged; return the number of rows without one, shape (1,).

        Where these are dense parts, rows start from their own part, and sparse rows, and others in none, without one.
        """
        context, c = self.context, self.context.settings.n_clusters
        if are_dense_parts(context.run, c):
            self.start([np.concatenate([density.read_parts(context, p) for p in self.shard.blocks])], [c])
        else:
            of_group = groups_by_valleys(context, self.spec)
            labels = [of_group[read_groups(context, p, self.b)] for p in self.shard.blocks]
            self.start([np.concatenate(labels)], [int(of_group.max()) + 1])
        return self.n_missing()

    def write_merged(self) -> None:
        """Write the labels of the blocks that the run lacks."""

        def task(p: int) -> None:
            if not self.context.run.done(merged_name(self.spec), p):
                self.context.run.write(merged_name(self.spec), p, {"labels": self._of_block(p, 0)})

        self.shard.for_each_block(task)


# -- evidence for the labels of an eigenvector set


def test(job: Job, labels_of: Mapping[int, ReadLabels]) -> None:
    """Test every two neighbouring clusters of eigenvector sets; the stage ``evidence``, one block for each set.

    Parameters
    ----------
    job : Job
    labels_of : dict of int to callable
        By number of the eigenvector set: ``f(context, p)`` gives the labels of row block p.
    """
    todo = {w: read for w, read in labels_of.items() if not job.run.done(EVIDENCE, w)}
    if not todo:
        return
    c, of_set = job.context.settings.n_clusters, eigenvector_sets_of(job.context)
    graph = max((specs_of(job.context)[b].eigenproblem.graph for b in of_set[next(iter(todo))]), key=lambda g: g.t)
    sources = [LabelSource(c, graph, read) for w, read in todo.items()]
    for w, found in zip(todo, job.map_here(_tested, gather(job, sources)), strict=True):
        job.run.write(EVIDENCE, w, found)


def _tested(groups: Groups) -> dict[str, NDArray[Any]]:
    pairs, depth, z, kurtosis = valleys.valleys_between(groups)
    return {"pairs": pairs, "depth": depth, "z": z, "kurtosis": kurtosis, "counts": groups.counts}


# -- groups: sums over all rows, and a sample


def gather(job: Job, sources: Sequence[LabelSource]) -> list[Groups]:
    """Groups of the labels of each source, for merging and testing.

    Parameters
    ----------
    job : Job
    sources : list of LabelSource

    Returns
    -------
    groups : list of Groups
    """
    find_axes(job)
    blocks = job.context.blocks
    for graph in _graphs(sources):
        kernel_matrix.prepare(job, graph)
    make = partial(SourceLabels, sources=sources, in_memory=job.plan.kernel_in_memory)
    weights = job.run_actors(VALLEYS, make, partial(_pair_weights, sources))
    moments = job.sum_blocks(VALLEYS, blocks, partial(_moments, sources=sources))
    drawn = job.map_blocks(VALLEYS, blocks, partial(_samples, sources=sources, counts=moments.counts))
    samples = list(zip(*drawn, strict=True))  # for each source, its parts in all blocks
    del drawn
    groups, resolution = [], job.run.read(AXES, 0, "resolution")
    for i, source in enumerate(sources):
        of_source = [np.concatenate(parts) for parts in zip(*samples[i], strict=True)]
        samples[i] = ()  # freed before the next one, as together they are large
        own = GroupMoments(*(array[i, : source.n_groups] for array in moments))
        own_weights = weights[i][: source.n_groups, : source.n_groups]
        neighbor_weight = NEIGHBOR_WEIGHT * crowding.factor(job.context, source.graph)
        groups.append(Groups(own, own_weights, of_source, resolution, neighbor_weight))
    return groups


def find_axes(job: Job) -> None:
    """Find axes in which the groups of the labelings differ; stages ``axes`` and ``components_of_rows``."""
    job.run_steps(AXES, [0], _find_axes)
    job.fill(COMPONENTS, job.context.blocks, _write_components)


def _find_axes(job: Job, block: int) -> None:
    """Principal axes of the sample of the scan and, of more than are wanted, those in which groups differ most."""
    context, numbers = job.context, Merging.VALLEYS.numbers(job.context)
    sample = context.read_sample()
    fence = outliers.fence(sample)
    within = outliers.drawn_in(sample, fence)
    ((mean, axes),) = job.map_here(partial(principal_axes, n_axes=N_COMPONENTS), [within])
    if numbers and axes.shape[1] > N_AXES:
        sums = job.sum_blocks(
            VALLEYS, context.blocks, partial(_group_sums, fence=fence, mean=mean, axes=axes, numbers=numbers)
        )
        axes = axes @ between_axes(sums, N_AXES)
    axes = axes[:, :N_AXES]
    resolution = along_axes(steps_of(sample), axes)
    arrays = {"mean": mean, "axes": axes, "resolution": resolution, "middle": fence.middle}
    job.run.write(AXES, block, arrays, info={"reach": fence.reach if fence.reach < np.inf else None})


def _group_sums(
    context: Context, p: int, fence: Fence, mean: Floats, axes: Floats, numbers: Sequence[int]
) -> GroupSums:
    """Sums of the groups of several labelings in the given axes, of the rows of one block."""
    n_groups = max(specs_of(context)[b].n_eigenvectors for b in numbers)
    P = product(outliers.drawn_in(context.run.read("rows", p, "X"), fence) - mean, axes)
    return group_sums(P, [read_groups(context, p, b) for b in numbers], n_groups)


def _write_components(context: Context, p: int) -> None:
    """Write the components of one block, as several passes read them, which are fewer than the columns."""
    fence, mean, axes = context.cached(AXES, lambda: _read_axes(context))
    X = outliers.drawn_in(context.run.read("rows", p, "X"), fence)
    context.run.write(COMPONENTS, p, {"P": product(X - mean, axes)})


def _read_axes(context: Context) -> tuple[Fence, Floats, Floats]:
    """The fence, the mean and the axes."""
    read, reach = context.run.reader(AXES, 0), context.run.info(AXES, 0)["reach"]
    return Fence(read("middle"), np.inf if reach is None else reach), read("mean"), read("axes")


def components(context: Context, p: int) -> Floats:
    """Components of the rows of one block along the axes, float32, shape (b, r); see :func:`find_axes`."""
    return context.run.read(COMPONENTS, p, "P")


def _widest(sources: Sequence[LabelSource]) -> int:
    return max(source.n_groups for source in sources)


def _moments(context: Context, p: int, sources: Sequence[LabelSource]) -> GroupMoments:
    P = components(context, p)
    found = [group_moments(P, source.read(context, p), _widest(sources)) for source in sources]
    return GroupMoments(*(np.stack(arrays) for arrays in zip(*found, strict=True)))


def _samples(
    context: Context, p: int, sources: Sequence[LabelSource], counts: Floats
) -> list[tuple[Floats, Floats, Integers]]:
    """Components, hashes and labels of the sampled rows of one block, by source."""
    P, found = components(context, p), []
    uniform = row_uniform(context.settings.seed, VALLEYS, context.run.read("rows", p, "rows"))
    for source, of_groups in zip(sources, counts, strict=True):
        labels = source.read(context, p)
        drawn = is_drawn(uniform, of_groups[labels])
        found.append((P[drawn], uniform[drawn], labels[drawn]))
    return found


def _graphs(sources: Sequence[LabelSource]) -> list[Eigenproblem]:
    return list(dict.fromkeys(source.graph for source in sources))


def _pair_weights(sources: Sequence[LabelSource], group: Group) -> list[Floats]:
    """Weights between the groups of every source, each on its graph: list of float64, shape (m, m)."""
    found: list[Any] = [None] * len(sources)
    for graph in _graphs(sources):
        numbers = [i for i, source in enumerate(sources) if source.graph == graph]
        for i, weights in zip(numbers, group.call_sum(("pair_weights", graph, numbers)), strict=True):
            found[i] = weights
    return found


class SourceLabels:
    """Labels of the rows of one shard under every source.

    Parameters
    ----------
    context : Context
    shard : Shard
    sources : list of LabelSource
    in_memory : bool
        Whether the kernel is kept in memory.
    """

    def __init__(self, context: Context, shard: Shard, sources: Sequence[LabelSource], in_memory: bool) -> None:
        self.context, self.shard, self.m, self.in_memory = context, shard, _widest(sources), in_memory
        self.labels = np.empty((shard.n_rows, len(sources)), np.int32)
        for p in shard.blocks:
            for i, source in enumerate(sources):
                self.labels[shard.rows(p), i] = source.read(context, p)

    def pair_weights(self, graph: Eigenproblem, numbers: Sequence[int]) -> Floats:
        """Sums of `pair_weights.pair_weights` for some sources on one graph: float64, shape (n_sources, m, m)."""
        load = kernel_matrix.loader(self.context, self.shard, kernel_matrix.weights_name(graph), self.in_memory)
        halo = self.shard.halo(lambda p: load(p).halo)
        extended = halo.extend(self.labels)

        def task(p: int) -> Floats:
            block = load(p)
            known = halo.around(p, block.halo, extended)
            return np.stack([pair_weights(block, known[:, i], self.m) for i in numbers])

        return self.shard.sum_over_blocks(task)
