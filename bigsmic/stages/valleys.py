"""valleys: groups of rows are merged where no valley parts them: how many clusters the data show, and how surely."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows, row_uniform
from bigsmic.numerics.labeling import blobs, consensus, local_moving, valleys
from bigsmic.numerics.labeling.components import principal_axes
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import kernel_matrix
from bigsmic.stages.labeling_specs import Eigenproblem, LabelingSpec, eigenvector_sets_of, specs_of
from bigsmic.stages.labelings import (
    VALLEY_FIELDS,
    VALLEYS,
    Reader,
    StoredLabels,
    groups_by_valleys,
    merged_name,
    read_groups,
    valley_tree_of,
)
from bigsmic.store import Run
from bigsmic.types import Floats, Integers

AXES, NUMBER, EVIDENCE = "axes", "number", "evidence"
COLLAPSED = 0.1
"""Modularity below that of the best labeling from which on the number of clusters of another one is not heard."""
SHAPE_ROWS = 20_000
"""Rows, drawn by hash, on which the largest cluster is compared with a blob."""


ReadLabels = Callable[[Context, int], Integers]
Trees = Sequence[valleys.ValleyTree]


class LabelSource(NamedTuple):
    """Labels of all rows that groups are made of.

    Parameters
    ----------
    name : str
    n_groups : int
        Labels that it gives, from 0.
    graph : Eigenproblem
        By whose weights groups are neighbours.
    read : callable
        ``read(context, p)`` gives the labels of row block p, int32, shape (b,).
    """

    name: str
    n_groups: int
    graph: Eigenproblem
    read: ReadLabels


def _numbers(context: Context) -> list[int]:
    """Numbers of the labelings that are read by valleys."""
    return [b for b, spec in enumerate(specs_of(context)) if spec.assignment == "valleys"]


# -- over-segmented labelings are merged


def merge_groups(job: Job) -> None:
    """Find the trees that merge the groups of every labeling that is read by valleys; the stage ``valleys``."""
    if _numbers(job.context):
        job.run_steps(VALLEYS, [0], _merge_groups)


def _merge_groups(job: Job, block: int) -> None:
    specs = specs_of(job.context)
    sources = [
        LabelSource(specs[b].name, specs[b].n_eigenvectors, specs[b].eigenproblem.graph, partial(read_groups, b=b))
        for b in _numbers(job.context)
    ]
    groups = gather(job, sources)
    arrays = {f"weights.{i}": one.weights.copy() for i, one in enumerate(groups)}
    trees = job.map_here(valleys.valley_tree, groups)
    for i, found in enumerate(trees):
        values = *found.tree_arrays, found.weakest
        arrays |= {f"{name}.{i}": value for name, value in zip(VALLEY_FIELDS, values, strict=True)}
    job.run.write(VALLEYS, block, arrays, info={"n_clusters": [found.n_clusters for found in trees]})


def cut(job: Job) -> None:
    """Cut every tree of valleys at the number of clusters, and let rows move; the stages ``merged``."""
    context = job.context
    specs = [specs_of(context)[b] for b in _numbers(context)]
    for b, spec in zip(_numbers(context), specs, strict=True):
        if not job.complete(merged_name(spec), context.blocks):
            kernel_matrix.prepare(job, spec.eigenproblem)
            make = partial(MergedLabels, b=b, in_memory=job.plan.kernel_in_memory)
            job.run_actors(merged_name(spec), make, _move)


def _move(group: Group) -> None:
    group.call(("begin",))
    local_moving.local_moves(group)
    group.call(("write_labels",))


class MergedLabels(StoredLabels):
    """Labels of the rows of one shard whose groups are merged by valleys, on the move.

    Parameters
    ----------
    context : Context
    shard : Shard
    b : int
        Number of the labeling.
    in_memory : bool
        Whether the kernel is held in memory.
    """

    def __init__(self, context: Context, shard: Shard, b: int, in_memory: bool) -> None:
        self.b, self.spec = b, specs_of(context)[b]
        super().__init__(context, shard, self.spec.eigenproblem, in_memory)

    def begin(self) -> None:  # type: ignore[override]
        """Begin with the clusters that groups are merged into."""
        of_group = groups_by_valleys(self.context, self.spec)
        labels = [of_group[read_groups(self.context, p, self.b)] for p in self.shard.blocks]
        self.start(np.concatenate(labels), int(of_group.max()) + 1)

    def write_labels(self) -> None:
        """Write the labels of the blocks that the run lacks."""

        def task(p: int) -> None:
            if not self.context.run.done(merged_name(self.spec), p):
                self.context.run.write(merged_name(self.spec), p, {"labels": self.labels[self.shard.rows(p)]})

        self.shard.for_each_block(task)


# -- how many clusters


def count(job: Job) -> int | None:
    """Number of clusters that the data show; None where they show none. The stage ``number`` has the evidence."""
    if not _numbers(job.context):
        return None
    job.run_steps(NUMBER, [0], _count)
    return counted(job.run)


def counted(run: Run) -> int | None:
    """What :func:`count` found; None also where it was not asked."""
    info = run.info(NUMBER, 0) if run.done(NUMBER, 0) else {"clear": False}
    return info["n_clusters"] if info["clear"] else None


def weakest_shown(run: Run) -> float:
    """Z of the weakest valley between the groups that :func:`count` found, median over labelings."""
    numbers = run.read(NUMBER, 0, "numbers")
    return float(run.read(NUMBER, 0, "weakest")[numbers == run.info(NUMBER, 0)["n_clusters"]].min(initial=np.inf))


def _count(job: Job, block: int) -> None:
    context = job.context
    specs = [specs_of(context)[b] for b in _numbers(context)]
    trees = [valley_tree_of(context, spec) for spec in specs]
    sizes = [spec.n_eigenvectors for spec in specs]
    total = job.sum_blocks(NUMBER, context.blocks, partial(_group_gram, sizes=sizes))
    votes = [tree.n_clusters for tree in trees]
    counted_votes = _of_whole_labelings(context, specs, trees)
    least = context.settings.open_from or 1
    most = context.settings.open_to or min(len(tree.tree.columns) for tree in trees)
    n_clusters = int(np.clip(int(np.median(counted_votes)), least, most))
    curve = _curve(trees, total, sizes, range(max(2, least), most + 1))
    curve["modularity"] = _modularity(context, specs, curve["numbers"])
    shape = _largest(job, trees, total, sizes, n_clusters) if n_clusters > 1 else {"largest": 1.0, "second": 0.0}
    clear = n_clusters > 1 and not _is_one_and_crumbs(shape)
    info = {"n_clusters": n_clusters, "clear": bool(clear), "votes": votes, "columns": sizes[0]} | shape
    job.run.write(NUMBER, block, curve, info=info)


def _group_gram(context: Context, p: int, sizes: Sequence[int]) -> Integers:
    """Rows that every two groups of the labelings share, of one block."""
    return consensus.label_gram(_all_groups(context, p), sizes)


def _all_groups(context: Context, p: int) -> Integers:
    return np.stack([read_groups(context, p, b) for b in _numbers(context)], axis=1)


def _curve(trees: Trees, total: Integers, sizes: Sequence[int], numbers: Iterable[int]) -> dict[str, NDArray[Any]]:
    """For each number of clusters: z of the weakest valley, median over labelings, and how well the cuts agree."""
    numbers = [k for k in numbers if all(k <= len(tree.tree.columns) for tree in trees)]
    agree = [consensus.pairwise_ari(*valleys.merged_gram(total, sizes, _cuts(trees, k))) for k in numbers]
    weakest = np.array([[tree.weakest[k] for tree in trees] for k in numbers]).reshape(len(numbers), len(trees))
    return {
        "numbers": np.array(numbers, np.int64),
        "weakest": np.median(weakest, axis=1),
        "stability": np.array([consensus.stability(ari) for ari in agree]),
    }


def _of_whole_labelings(context: Context, specs: Sequence[LabelingSpec], trees: Trees) -> list[int]:
    """Votes of the labelings but for those that have collapsed: merged into much less modularity than the best."""
    modularity = np.array(
        [
            _modularity_of(context, i, tree.tree.cut(min(tree.n_clusters, len(tree.tree.columns))))
            for i, tree in enumerate(trees)
        ]
    )
    kept = modularity >= modularity.max() - COLLAPSED
    return [tree.n_clusters for tree, keep in zip(trees, kept, strict=True) if keep]


def _modularity_of(context: Context, i: int, of_group: Integers) -> float:
    """Modularity of the groups of the i-th labeling that is read by valleys, merged."""
    W, known = context.run.read(VALLEYS, 0, f"weights.{i}"), of_group >= 0
    A = np.eye(of_group.max() + 1)[of_group[known]]
    between = A.T @ W[np.ix_(known, known)] @ A
    return float(local_moving.modularity(np.stack([np.diag(between), between.sum(axis=1)])))


def _modularity(context: Context, specs: Sequence[LabelingSpec], numbers: Integers) -> Floats:
    """Modularity of the groups of every labeling, cut by density at each number of clusters: mean over labelings."""
    trees = [Reader(context, spec).tree for spec in specs]
    found = [
        np.mean([_modularity_of(context, i, tree.cut(min(k, len(tree.columns)))) for i, tree in enumerate(trees)])
        for k in numbers.tolist()
    ]
    return np.array(found, np.float64)


def _cuts(trees: Trees, k: int) -> list[Integers]:
    return [tree.tree.cut(min(k, len(tree.tree.columns))) for tree in trees]


def _largest(job: Job, trees: Trees, total: Integers, sizes: Sequence[int], n_clusters: int) -> dict[str, float]:
    """Shares of the two largest clusters, and how clumped the largest is; see :func:`blobs.clumpiness`."""
    cuts = _cuts(trees, n_clusters)
    gram, merged = valleys.merged_gram(total, sizes, cuts)
    classes = consensus.consensus_tree(gram, merged)
    classes = classes.cut(min(n_clusters, len(classes.columns)))
    rows = draw_rows(job.context.n, SHAPE_ROWS, job.context.settings.seed, NUMBER)
    job.run_steps(AXES, [0], _find_axes)
    parts = job.map_blocks(NUMBER, job.context.blocks, partial(_drawn, rows=rows))
    P, groups = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    labels = np.stack([cut[column] for cut, column in zip(cuts, groups.T, strict=True)], axis=1)
    won = consensus.vote(labels, merged, classes, classes.max() + 1).argmax(axis=1)
    shares = np.sort(np.bincount(won, minlength=2))[::-1] / len(won)
    of_largest = P[won == np.bincount(won).argmax()]
    (clumpiness,) = job.map_here(partial(blobs.clumpiness, seed=job.context.settings.seed), [of_largest])
    return {"largest": float(shares[0]), "second": float(shares[1]), "clumpiness": clumpiness}


def _drawn(context: Context, p: int, rows: Integers) -> tuple[Floats, Integers]:
    """Components and groups of the rows of one block that are drawn."""
    drawn = np.isin(context.run.read("rows", p, "rows"), rows)
    return components(context, p)[drawn], _all_groups(context, p)[drawn]


def _is_one_and_crumbs(shape: Mapping[str, float]) -> bool:
    """Whether one cluster has most rows, none of the others a fair share, and the one is no blob."""
    return (
        shape["largest"] > blobs.LARGEST
        and shape["second"] < blobs.CRUMB * shape["largest"]
        and shape["clumpiness"] > blobs.CLUMPED
    )


# -- evidence for the labels of an eigenvector set


def test(job: Job, labels_of: Mapping[int, ReadLabels]) -> None:
    """Test every two neighbouring clusters of some eigenvector sets; the stage ``evidence``, a block for each.

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
    sources = [LabelSource(str(w), c, graph, read) for w, read in todo.items()]
    for w, found in zip(todo, job.map_here(_tested, gather(job, sources)), strict=True):
        job.run.write(EVIDENCE, w, found)


def _tested(groups: valleys.Groups) -> dict[str, NDArray[Any]]:
    pairs, depth, z = valleys.valleys_between(groups)
    return {"pairs": pairs, "depth": depth, "z": z, "counts": groups.counts}


# -- what is known of groups: sums over all rows, and a sample


def gather(job: Job, sources: Sequence[LabelSource]) -> list[valleys.Groups]:
    """Groups of the labels of each source, ready to be merged and tested.

    Parameters
    ----------
    job : Job
    sources : list of LabelSource

    Returns
    -------
    groups : list of Groups
    """
    job.run_steps(AXES, [0], _find_axes)
    blocks = job.context.blocks
    for graph in _graphs(sources):
        kernel_matrix.prepare(job, graph)
    make = partial(SourceLabels, sources=sources, in_memory=job.plan.kernel_in_memory)
    weights = job.run_actors(VALLEYS, make, partial(_pair_weights, sources))
    moments = job.sum_blocks(VALLEYS, blocks, partial(_moments, sources=sources))
    return [
        valleys.Groups(
            valleys.GroupMoments(*(array[i, : source.n_groups] for array in moments)),
            weights[i][: source.n_groups, : source.n_groups],
            _sampled(job, source, moments.counts[i]),
        )
        for i, source in enumerate(sources)
    ]


def _sampled(job: Job, source: LabelSource, counts: Floats) -> tuple[Floats, Floats, Integers]:
    """Components, hashes and labels of the rows drawn from the groups of one source; of all at once they are large."""
    samples = job.map_blocks(VALLEYS, job.context.blocks, partial(_sample, source=source, counts=counts))
    P, uniform, labels = (np.concatenate(parts) for parts in zip(*samples, strict=True))
    return P, uniform, labels


def _find_axes(job: Job, block: int) -> None:
    """Principal axes of the sample of the scan."""
    ((mean, axes),) = job.map_here(partial(principal_axes, n_axes=valleys.N_AXES), [job.context.read_sample()])
    job.run.write(AXES, block, {"mean": mean, "axes": axes})


def components(context: Context, p: int) -> Floats:
    """Leading principal components of the rows of one block, float32, shape (b, r)."""
    mean, axes = context.cached(AXES, lambda: [context.run.read(AXES, 0, name) for name in ("mean", "axes")])
    return (context.run.read("rows", p, "X") - mean) @ axes


def _widest(sources: Sequence[LabelSource]) -> int:
    return max(source.n_groups for source in sources)


def _moments(context: Context, p: int, sources: Sequence[LabelSource]) -> valleys.GroupMoments:
    P = components(context, p)
    found = [valleys.group_moments(P, source.read(context, p), _widest(sources)) for source in sources]
    return valleys.GroupMoments(*(np.stack(arrays) for arrays in zip(*found, strict=True)))


def _sample(context: Context, p: int, source: LabelSource, counts: Floats) -> tuple[Floats, Floats, Integers]:
    """Components, hashes and labels of the rows of one block that are in the sample of their group."""
    uniform = row_uniform(context.settings.seed, VALLEYS, context.run.read("rows", p, "rows"))
    labels = source.read(context, p)
    drawn = valleys.is_drawn(uniform, counts[labels])
    return components(context, p)[drawn], uniform[drawn], labels[drawn]


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
        Whether the kernel is held in memory.
    """

    def __init__(self, context: Context, shard: Shard, sources: Sequence[LabelSource], in_memory: bool) -> None:
        self.context, self.shard, self.m, self.in_memory = context, shard, _widest(sources), in_memory
        found = [np.stack([source.read(context, p) for source in sources], axis=1) for p in shard.blocks]
        self.labels = np.concatenate(found).astype(np.int32)

    def pair_weights(self, graph: Eigenproblem, numbers: Sequence[int]) -> Floats:
        """Sums of `valleys.pair_weights` for some sources on one graph: float64, shape (n_sources, m, m)."""
        load = kernel_matrix.loader(self.context, self.shard, kernel_matrix.weights_name(graph), self.in_memory)
        halo = self.shard.halo(lambda p: load(p).halo)
        extended = halo.extend(self.labels)

        def task(p: int) -> Floats:
            block = load(p)
            known = halo.around(p, block.halo, extended)
            return np.stack([valleys.pair_weights(block, known[:, i], self.m) for i in numbers])

        return self.shard.sum_over_blocks(task)
