"""valleys: merging of groups without a valley between them, and evidence for the number of clusters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows, row_uniform
from bigsmic.numerics.labeling import blobs, consensus, local_moving, valleys
from bigsmic.numerics.labeling.components import principal_axes
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import eigenvectors, kernel_matrix, linked_groups
from bigsmic.stages.labeling_specs import Eigenproblem, eigenvector_sets_of, specs_of
from bigsmic.stages.labelings import (
    NUMBER,
    VALLEY_FIELDS,
    VALLEYS,
    Merging,
    Reader,
    StoredLabels,
    groups_by_valleys,
    is_near,
    is_shown,
    merged_name,
    read_groups,
    valley_tree_of,
)
from bigsmic.store import Run
from bigsmic.types import Floats, Integers

AXES, COMPONENTS, EVIDENCE = "axes", "components_of_rows", "evidence"
TEMPORARY = (AXES, COMPONENTS)  # stages that are deleted when a fit has ended
COLLAPSED = 0.1
"""Difference in modularity from the best labeling beyond which the number of clusters of a labeling is ignored."""
PLAIN = 0.9
"""Mean adjusted Rand index between the labelings, cut at the requested number, from which no others are needed."""
PLAIN_OF_ONE_VOICE = 0.8
"""The same where all of them show that number, or about that."""
FEWER_AGREED = 0.8
"""The same at a smaller number that they show, from which trees of valleys may cut off those beyond it."""
SHAPE_ROWS = 20_000
"""Number of rows, drawn by hash, on which the largest cluster is compared with a blob."""


ReadLabels = Callable[[Context, int], Integers]
Trees = Sequence[valleys.ValleyTree]


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
    info = {}
    if linked_groups.has_links(job.context):
        linked = _linked(job, groups)
        info["unlinked"] = [found.n_clusters for found in job.map_here(valleys.valley_tree, groups)]
        groups = linked
    trees = job.map_here(valleys.valley_tree, groups)
    for i, found in enumerate(trees):
        values = *found.tree_arrays, found.weakest
        arrays |= {f"{name}.{i}": value for name, value in zip(VALLEY_FIELDS, values, strict=True)}
    job.run.write(VALLEYS, block, arrays, info={"n_clusters": [found.n_clusters for found in trees]} | info)


def _linked(job: Job, groups: Sequence[valleys.Groups]) -> list[valleys.Groups]:
    """Groups of the labelings with the links between them."""
    return [one.with_links(counts) for one, counts in zip(groups, _links(job, VALLEYS), strict=True)]


def _links(job: Job, stage: str) -> list[Floats]:
    """Must-links and cannot-links between the groups of each labeling: float64, shapes (2, m, m)."""
    numbers = Merging.VALLEYS.numbers(job.context)
    sizes = [specs_of(job.context)[b].n_eigenvectors for b in numbers]
    return linked_groups.between(job, stage, [partial(read_groups, b=b) for b in numbers], sizes)


def cut(job: Job) -> None:
    """Cut every tree of valleys at the number of clusters, and move rows; the stages ``merged``."""
    context = job.context
    for b in Merging.VALLEYS.numbers(context):
        spec = specs_of(context)[b]
        if not job.complete(merged_name(spec), context.blocks):
            kernel_matrix.prepare(job, spec.eigenproblem)
            make = partial(MergedLabels, b=b, in_memory=job.plan.kernel_in_memory)
            job.run_actors(merged_name(spec), make, _move)


def _move(group: Group) -> None:
    group.call(("begin_merged",))
    local_moving.local_moves(group)
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

    def begin_merged(self) -> None:
        """Start from the clusters into which groups are merged."""
        of_group = groups_by_valleys(self.context, self.spec)
        labels = [of_group[read_groups(self.context, p, self.b)] for p in self.shard.blocks]
        self.start([np.concatenate(labels)], [int(of_group.max()) + 1])

    def write_merged(self) -> None:
        """Write the labels of the blocks that the run lacks."""

        def task(p: int) -> None:
            if not self.context.run.done(merged_name(self.spec), p):
                self.context.run.write(merged_name(self.spec), p, {"labels": self._of_block(p, 0)})

        self.shard.for_each_block(task)


# -- how many clusters


def count(job: Job) -> int | None:
    """Number of clusters that the data show; None if they show none. The stage ``number`` has the evidence."""
    if not Merging.VALLEYS.numbers(job.context):
        return None
    job.run_steps(NUMBER, [0], _count)
    return counted(job.run)


def counted(run: Run) -> int | None:
    """Result of :func:`count`; None also if it was not called."""
    info = run.info(NUMBER, 0) if run.done(NUMBER, 0) else {"clear": False}
    return info["n_clusters"] if info["clear"] else None


def is_plain(run: Run, n_clusters: int) -> bool:
    """Whether the data show as many clusters, and the labelings agree on which ones they are."""
    if are_apart(run, n_clusters):
        return True
    if counted(run) is None or not is_shown(run, n_clusters):
        return False
    votes = run.info(NUMBER, 0)["votes"]
    one_voice = all(is_near(vote, n_clusters) for vote in votes)
    return _agreement_at(run, n_clusters) >= (PLAIN_OF_ONE_VOICE if one_voice else PLAIN)


def are_apart(run: Run, n_clusters: int) -> bool:
    """Whether more clusters than that are left when no two of them touch: only distances tell which ones to join.

    All labelings must show it, and none if the clusters are bent: their parts are no clusters, and means tell nothing.
    """
    if counted(run) is None or run.info(NUMBER, 0).get("parts"):
        return False
    trees = range(len(run.info(VALLEYS, 0)["n_clusters"]))
    weakest = [run.read(VALLEYS, 0, f"weakest.{i}")[n_clusters + 1 :] for i in trees]
    return all(of_one[:1].max(initial=-np.inf) == np.inf for of_one in weakest)


def are_fewer(run: Run, n_clusters: int) -> bool:
    """Whether the labelings agree which clusters the data show, and these are fewer, but more than half as many."""
    shown = counted(run)
    return shown is not None and shown < n_clusters < 2 * shown and _agreement_at(run, shown) >= FEWER_AGREED


def _agreement_at(run: Run, n_clusters: int) -> float:
    """Mean adjusted Rand index between the labelings, cut at so many clusters."""
    return float(run.read(NUMBER, 0, "stability")[run.read(NUMBER, 0, "numbers") == n_clusters].min(initial=1.0))


def weakest_shown(run: Run) -> float:
    """Z of the weakest valley between the groups that :func:`count` found, median over labelings."""
    numbers = run.read(NUMBER, 0, "numbers")
    return float(run.read(NUMBER, 0, "weakest")[numbers == run.info(NUMBER, 0)["n_clusters"]].min(initial=np.inf))


def _count(job: Job, block: int) -> None:
    context = job.context
    specs = [specs_of(context)[b] for b in Merging.VALLEYS.numbers(context)]
    trees = [valley_tree_of(context, spec) for spec in specs]
    sizes = [spec.n_eigenvectors for spec in specs]
    total = job.sum_blocks(NUMBER, context.blocks, partial(_group_gram, sizes=sizes))
    votes = [tree.n_clusters for tree in trees]
    weights = [context.run.read(VALLEYS, 0, f"weights.{i}") for i in range(len(trees))]
    whole = _of_whole_labelings(trees, weights)
    least = context.settings.open_from or 1
    most = context.settings.open_to or min(len(tree.tree.columns) for tree in trees)
    shown = int(np.median(whole))
    curve = _curve(trees, total, sizes, range(max(2, least), most + 1))
    agreement = float(curve["stability"][curve["numbers"] == shown].min(initial=1.0))
    by_density = [Reader(context, spec).tree for spec in specs]
    parts = eigenvectors.clear_parts(context, shown) if agreement < PLAIN else None
    if parts and _n_kept(job, by_density, parts) < _n_kept(job, [tree.tree for tree in trees], shown):
        parts = None
    by_groups = int(np.clip(parts or shown, least, most))
    n_clusters = max(by_groups, linked_groups.least_clusters(context)) if by_groups > 1 else by_groups
    curve["modularity"] = _modularity(by_density, weights, curve["numbers"])
    found = by_density if n_clusters == parts else [tree.tree for tree in trees]
    shape = _largest(job, found, total, sizes, n_clusters)
    differ = n_clusters == shown and agreement < consensus.AGREED
    clear = by_groups > 1 and not differ and not (shape["clumpiness"] or 0.0) > blobs.CLUMPED
    info = {"shown": shown, "n_clusters": n_clusters, "clear": clear, "votes": votes, "columns": sizes[0]}
    info |= shape | {"agreement": agreement, "parts": parts} | _of_links(context, n_clusters, by_groups)
    job.run.write(NUMBER, block, curve, info=info)


def _n_kept(job: Job, trees: Sequence[MergeTree], k: int) -> float:
    """Must-links minus cannot-links within the clusters of the trees' cuts, twice the sum over labelings.

    A cut with more of them violates fewer links.
    """
    cuts = zip(_cuts(trees, k), _links(job, NUMBER), strict=True)
    return float(sum((must - cannot)[np.equal.outer(of, of)].sum() for of, (must, cannot) in cuts))


def _of_links(context: Context, n_clusters: int, by_groups: int) -> dict[str, Any]:
    """What links change: the number that valleys show without them, and whether they force the number that is found."""
    unlinked = context.run.info(VALLEYS, 0).get("unlinked")
    return {"unlinked": int(np.median(unlinked)), "forced": n_clusters > by_groups} if unlinked else {}


def _group_gram(context: Context, p: int, sizes: Sequence[int]) -> Integers:
    """Number of rows of one block shared by every two groups of the labelings."""
    return consensus.label_gram(_all_groups(context, p), sizes)


def _all_groups(context: Context, p: int) -> Integers:
    return np.stack([read_groups(context, p, b) for b in Merging.VALLEYS.numbers(context)], axis=1)


def _curve(trees: Trees, total: Integers, sizes: Sequence[int], numbers: Iterable[int]) -> dict[str, NDArray[Any]]:
    """For each number of clusters: z of the weakest valley, median over labelings, and agreement of the cuts."""
    numbers = [k for k in numbers if all(k <= len(tree.tree.columns) for tree in trees)]
    agree = [
        consensus.pairwise_ari(*valleys.merged_gram(total, sizes, _cuts([tree.tree for tree in trees], k)))
        for k in numbers
    ]
    weakest = np.array([[tree.weakest[k] for tree in trees] for k in numbers]).reshape(len(numbers), len(trees))
    return {
        "numbers": np.array(numbers, np.int64),
        "weakest": np.median(weakest, axis=1),
        "stability": np.array([consensus.stability(ari) for ari in agree]),
    }


def _of_whole_labelings(trees: Trees, weights: Sequence[Floats]) -> list[int]:
    """Votes of the labelings, without collapsed ones, whose modularity is much smaller than that of the best."""
    cuts = [tree.tree.cut(min(tree.n_clusters, len(tree.tree.columns))) for tree in trees]
    modularity = [_modularity_of(W, of_group) for W, of_group in zip(weights, cuts, strict=True)]
    least = max(modularity) - COLLAPSED
    return [tree.n_clusters for tree, found in zip(trees, modularity, strict=True) if found >= least]


def _modularity_of(W: Floats, of_group: Integers) -> float:
    """Modularity of merged groups, with weights W between the groups."""
    known = of_group >= 0
    A = np.eye(of_group.max() + 1)[of_group[known]]
    between = A.T @ W[np.ix_(known, known)] @ A
    return float(local_moving.modularity(np.stack([np.diag(between), between.sum(axis=1)])))


def _modularity(trees: Sequence[MergeTree], weights: Sequence[Floats], numbers: Integers) -> Floats:
    """Modularity of the groups of every labeling, cut by density at each number of clusters: mean over labelings."""
    found = np.zeros(len(numbers))
    for tree, W in zip(trees, weights, strict=True):
        found += [_modularity_of(W, tree.cut(min(k, len(tree.columns)))) for k in numbers.tolist()]
    return found / len(trees)


def _cuts(trees: Sequence[MergeTree], k: int) -> list[Integers]:
    return [tree.cut(min(k, len(tree.columns))) for tree in trees]


def _largest(
    job: Job, trees: Sequence[MergeTree], total: Integers, sizes: Sequence[int], n_clusters: int
) -> dict[str, float | None]:
    """Shares of the two largest clusters of the trees' cuts, and clumpiness of the largest, if it dominates."""
    if n_clusters < 2:
        return {"largest": 1.0, "second": 0.0, "clumpiness": None}
    cuts = _cuts(trees, n_clusters)
    gram, merged = valleys.merged_gram(total, sizes, cuts)
    tree = consensus.consensus_tree(gram, merged)
    classes = tree.cut(min(n_clusters, len(tree.columns)))
    rows = draw_rows(job.context.n, SHAPE_ROWS, job.context.settings.seed, NUMBER)
    find_axes(job)
    parts = job.map_blocks(NUMBER, job.context.blocks, partial(_drawn, rows=rows))
    P, groups = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    labels = np.stack([cut[column] for cut, column in zip(cuts, groups.T, strict=True)], axis=1)
    won = consensus.vote(labels, merged, classes, classes.max() + 1).argmax(axis=1)
    counts = np.bincount(won, minlength=2)
    largest, second = np.sort(counts / len(won))[::-1][:2].tolist()
    found = {"largest": largest, "second": second, "clumpiness": None}
    if largest > blobs.LARGEST and second < blobs.CRUMB * largest:
        clumpiness = partial(blobs.clumpiness, seed=job.context.settings.seed)
        (found["clumpiness"],) = job.map_here(clumpiness, [P[won == counts.argmax()]])
    return found


def _drawn(context: Context, p: int, rows: Integers) -> tuple[Floats, Integers]:
    """Components and groups of the drawn rows of one block."""
    drawn = np.isin(context.run.read("rows", p, "rows"), rows)
    return components(context, p)[drawn], _all_groups(context, p)[drawn]


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


def _tested(groups: valleys.Groups) -> dict[str, NDArray[Any]]:
    pairs, depth, z = valleys.valleys_between(groups)
    return {"pairs": pairs, "depth": depth, "z": z, "counts": groups.counts}


# -- groups: sums over all rows, and a sample


def gather(job: Job, sources: Sequence[LabelSource]) -> list[valleys.Groups]:
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
    groups = []
    for i, source in enumerate(sources):
        of_source = [np.concatenate(parts) for parts in zip(*samples[i], strict=True)]
        samples[i] = ()  # freed before the next one, as together they are large
        own = valleys.GroupMoments(*(array[i, : source.n_groups] for array in moments))
        groups.append(valleys.Groups(own, weights[i][: source.n_groups, : source.n_groups], of_source))
    return groups


def find_axes(job: Job) -> None:
    """Find the principal components of the rows; stages ``axes`` and ``components_of_rows``."""
    job.run_steps(AXES, [0], _find_axes)
    job.fill(COMPONENTS, job.context.blocks, _write_components)


def _find_axes(job: Job, block: int) -> None:
    """Principal axes of the sample of the scan."""
    ((mean, axes),) = job.map_here(partial(principal_axes, n_axes=valleys.N_AXES), [job.context.read_sample()])
    job.run.write(AXES, block, {"mean": mean, "axes": axes})


def _write_components(context: Context, p: int) -> None:
    """Write the components of one block, as several passes read them, which are fewer than the columns."""
    mean, axes = context.cached(AXES, lambda: [context.run.read(AXES, 0, name) for name in ("mean", "axes")])
    context.run.write(COMPONENTS, p, {"P": (context.run.read("rows", p, "X") - mean) @ axes})


def components(context: Context, p: int) -> Floats:
    """Leading principal components of the rows of one block, float32, shape (b, r); see :func:`find_axes`."""
    return context.run.read(COMPONENTS, p, "P")


def _widest(sources: Sequence[LabelSource]) -> int:
    return max(source.n_groups for source in sources)


def _moments(context: Context, p: int, sources: Sequence[LabelSource]) -> valleys.GroupMoments:
    P = components(context, p)
    found = [valleys.group_moments(P, source.read(context, p), _widest(sources)) for source in sources]
    return valleys.GroupMoments(*(np.stack(arrays) for arrays in zip(*found, strict=True)))


def _samples(
    context: Context, p: int, sources: Sequence[LabelSource], counts: Floats
) -> list[tuple[Floats, Floats, Integers]]:
    """Components, hashes and labels of the sampled rows of one block, by source."""
    P, found = components(context, p), []
    uniform = row_uniform(context.settings.seed, VALLEYS, context.run.read("rows", p, "rows"))
    for source, of_groups in zip(sources, counts, strict=True):
        labels = source.read(context, p)
        drawn = valleys.is_drawn(uniform, of_groups[labels])
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
        """Sums of `valleys.pair_weights` for some sources on one graph: float64, shape (n_sources, m, m)."""
        load = kernel_matrix.loader(self.context, self.shard, kernel_matrix.weights_name(graph), self.in_memory)
        halo = self.shard.halo(lambda p: load(p).halo)
        extended = halo.extend(self.labels)

        def task(p: int) -> Floats:
            block = load(p)
            known = halo.around(p, block.halo, extended)
            return np.stack([valleys.pair_weights(block, known[:, i], self.m) for i in numbers])

        return self.shard.sum_over_blocks(task)
