"""number: how many clusters the data show, and whether fewer are to be joined by the graph or by distance."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import blobs, consensus, cuts
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.valleys import LEAST_SIGN, ValleyTree
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import connectivity, graph_parts, linked_groups
from bigsmic.stages import valleys as valley_stage
from bigsmic.stages.labeling_specs import specs_of
from bigsmic.stages.labelings import VALLEYS, Merging, Reader, read_groups, valley_tree_of, weights_between
from bigsmic.stages.shown_number import (
    NUMBER,
    are_by_size,
    are_joined,
    are_some_more,
    decisive_votes,
    is_near,
    is_shown,
)
from bigsmic.stages.wider_columns import FULL, have_copies
from bigsmic.store import Run
from bigsmic.types import Floats, Integers

COLLAPSED = 0.1
"""Difference in modularity from the best labeling beyond which the number of clusters of a labeling is ignored."""
NOT_FAR = 0.1
"""Share of a number of clusters by which the median of the votes may differ from it, if half of them are near it."""
PLAIN = 0.9
"""Mean adjusted Rand index between the labelings, cut at some number, at which they plainly agree on the clusters."""
PLAIN_OF_ONE_VOICE = 0.8
"""The same where all of them show that number, or about that."""
AGREED = 0.85
"""The same from which trees of valleys may be preferred where two clusters by density have no valley between them."""
FEWER_AGREED = 0.8
"""The same at a smaller number that they show, from which trees of valleys may cut off those beyond it."""
NEARLY_LARGEST = 0.02
"""Difference in modularity from the largest up to which a number of clusters may be preferred to the one shown."""
NEARLY_AGREED = 0.05
"""Difference in agreement from the largest up to which a smaller number of clusters is preferred."""
LEAST_AGREED = 0.7
"""Agreement from which another number of clusters may be preferred to the one shown, and merges be undone in order."""
ONE_BY_DENSITY = 0.97
"""Agreement of labelings that are cut by density, from which the clusters are bent if cuts by valleys do not agree."""
JOINED_GAIN = 0.004
"""Difference in modularity from which clusters joined by distance are better than those joined by density."""
SHAPE_ROWS = 20_000
"""Number of rows, drawn by hash, on which the largest cluster is compared with a blob."""
RULES = {"asks_agreement": True, "all_vote": True, "weighs_votes": True, "asks_cuts": True}
"""Rules by which later stages read what is found here; runs of earlier versions lack some."""

ValleyTrees = Sequence[ValleyTree]


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
    if counted(run) is None:
        return False
    if are_joined(run, n_clusters):
        return True
    info = run.info(NUMBER, 0)
    votes = decisive_votes(run)
    n_near = sum(is_near(vote, n_clusters) for vote in votes)
    half, one_voice = 2 * n_near >= len(votes), n_near == len(votes)
    is_earlier = "about" not in info  # of a run that an earlier version began
    shown = is_shown(run, n_clusters) if is_earlier else half and is_near(info["shown"], n_clusters, info["about"])
    return shown and _agreement_at(run, n_clusters) >= (PLAIN_OF_ONE_VOICE if one_voice else PLAIN)


def is_disputed(run: Run, n_clusters: int) -> bool:
    """Whether valleys show the number, but the labelings do not agree plainly on the clusters.

    Where the answer is parts of the graph, the eigengap decides the number, but labelings, cut by density into the
    parts, may disagree. Earlier runs, which do not say what is cut by size, have labels by valleys in any case.
    """
    info = run.info(NUMBER, 0)
    if info.get("parts") == n_clusters:
        return bool(info.get("parts_disputed"))
    return "by_size" in info and not is_plain(run, n_clusters)


def are_agreed(run: Run, n_clusters: int) -> bool:
    """Whether the labelings agree on the requested clusters, cut by valleys."""
    return _agreement_at(run, n_clusters) >= AGREED


def asks_agreement(run: Run) -> bool:
    """Whether separated clusters by valleys count only where labelings agree, as in all but earlier runs."""
    return bool(run.info(NUMBER, 0).get("asks_agreement"))


def asks_cuts(run: Run) -> bool:
    """Whether clusters by valleys count where they are few and cut less, as in all but earlier runs."""
    return bool(run.info(NUMBER, 0).get("asks_cuts"))


def are_fewer(run: Run, n_clusters: int) -> bool:
    """Whether the labelings agree which clusters the data show, and those asked for are some more, or cut off these."""
    shown = counted(run)
    if shown is None:
        return False
    if run.info(NUMBER, 0).get("surer"):
        shown = run.info(NUMBER, 0)["shown"]  # those that valleys separate
    more = are_some_more(n_clusters, shown) or are_by_size(run, n_clusters)
    return more and _agreement_at(run, shown) >= FEWER_AGREED


def _agreement_at(run: Run, n_clusters: int) -> float:
    """Mean adjusted Rand index between the labelings, cut at so many clusters; 0 outside the curve."""
    return float(run.read(NUMBER, 0, "stability")[run.read(NUMBER, 0, "numbers") == n_clusters].sum())


def that_miss_valleys(context: Context, n_clusters: int) -> list[int]:
    """Labelings merged by valleys that miss one between clusters that most of them show; none if most do not."""
    run = context.run
    info = run.info(NUMBER, 0) if run.done(NUMBER, 0) else {}
    if not info.get("weighs_votes") or not is_shown(run, n_clusters):  # the first, in earlier runs
        return []
    trees = {b: valley_tree_of(context, specs_of(context)[b]) for b in Merging.VALLEYS.numbers(context)}
    return [b for b, tree in trees.items() if tree.n_clusters < n_clusters]


def weakest_shown(run: Run) -> float:
    """Z of the weakest valley between the groups that :func:`count` found, median over labelings."""
    numbers = run.read(NUMBER, 0, "numbers")
    return float(run.read(NUMBER, 0, "weakest")[numbers == run.info(NUMBER, 0)["n_clusters"]].min(initial=np.inf))


class _Shared(NamedTuple):
    """What is known of the groups of all labelings.

    Parameters
    ----------
    rows : ndarray of int64, shape (S, S)
        Number of rows shared by every two groups.
    sizes : list of int, length B
        Groups of each labeling, S in all.
    weights : list of ndarray of float64, shapes (sizes[j], sizes[j])
        Weight of the graph between every two groups of a labeling.
    """

    rows: np.ndarray
    sizes: list[int]
    weights: list[np.ndarray]

    def agreements(self, trees: Sequence[MergeTree], numbers: Integers) -> Floats:
        """Mean adjusted Rand index between the labelings, cut at each number of clusters."""
        return cuts.agreements(self.rows, self.sizes, trees, numbers)

    def modularities(self, trees: Sequence[MergeTree], numbers: Integers) -> Floats:
        """Modularity of the labelings, cut at each number of clusters: mean over labelings."""
        found = [cuts.modularities(tree, W, numbers) for tree, W in zip(trees, self.weights, strict=True)]
        return np.mean(found, axis=0)


def _count(job: Job, block: int) -> None:
    context = job.context
    specs = [specs_of(context)[b] for b in Merging.VALLEYS.numbers(context)]
    found = [valley_tree_of(context, spec) for spec in specs]
    trees, by_density = [tree.tree for tree in found], [Reader(context, spec).tree for spec in specs]
    sizes, votes = [spec.n_eigenvectors for spec in specs], [tree.n_clusters for tree in found]
    total = job.sum_blocks(NUMBER, context.blocks, partial(_group_gram, sizes=sizes))
    shared = _Shared(total, sizes, [weights_between(context, spec) for spec in specs])
    least = context.settings.open_from or 1
    cut_into = min(len(tree.columns) for tree in trees)
    most = context.settings.open_to or cut_into
    shown, common, agreed = _shown(found, shared)
    numbers = np.arange(max(2, least), max(2, least, min(most, cut_into) + 1))
    stability, by_size = _agreements(found, shared, numbers, shown)
    curve = {"stability": stability} | _curve(found, by_density, shared, numbers)
    propagates, left_open = context.settings.propagates, not context.settings.number_given
    along_curves = left_open and graph_parts.lie_along_curves(context)
    are_doubtful = along_curves or (left_open and have_copies(context))
    at_shown = numbers == shown
    stability[at_shown] = np.maximum(stability[at_shown], 0.0 if are_doubtful else agreed)
    candidate = _candidate(context, by_density, shared, curve, shown, along_curves)
    if not (along_curves and 4 * shown <= cut_into):  # of curves, they agree on pieces
        candidate = _unless_agreed(curve, candidate, shown)
    parts, shape = _checked_parts(job, candidate, shown, trees, by_density, shared)
    agreement = float(stability[at_shown].min(initial=1.0))
    disagree = agreement < PLAIN
    surest = _surest(curve, shown, FULL * cut_into) if disagree and not (propagates or are_doubtful) else None
    surer = surest if not parts and surest != shown else None
    by_groups = int(np.clip(parts or surer or shown, least, most))
    n_clusters = max(by_groups, linked_groups.least_clusters(context)) if by_groups > 1 else by_groups
    if n_clusters != parts:
        shape = _largest(job, trees, shared, n_clusters)
    differ = n_clusters == shown != parts and agreement < (PLAIN if are_doubtful else consensus.AGREED)
    clear = by_groups > 1 and not differ and not _dominates(shape)
    joined = _joined(context, found, by_density, shared, curve, shown) if clear and not parts else []
    info = {"shown": shown, "n_clusters": n_clusters, "clear": clear, "votes": votes, "columns": sizes[0]} | shape
    info |= {"agreement": agreement, "parts": parts, "surer": surer, "joined": joined, "by_size": by_size}
    may_hide = (disagree or not clear) and not (parts or propagates or along_curves) and shown > 1
    info |= {"hidden": may_hide and _most_modular(curve) > FULL * cut_into, "common": common, "about": NOT_FAR}
    info |= {"parts_disputed": _are_disputed(parts, by_density, shared)} | _of_links(context, n_clusters, by_groups)
    job.run.write(NUMBER, block, curve, info=RULES | info)


def _surest(curve: Mapping[str, NDArray[Any]], shown: int, most: float) -> int | None:
    """Number of clusters, at least the one shown, that labelings agree on most, or nearly so; None if on none.

    It is at most that of largest modularity, beyond which large clusters are cut, and may not exceed `most`. None also
    if labelings show one cluster: then nothing tells that there are more.
    """
    numbers, stability, modularity = curve["numbers"], curve["stability"], curve["modularity"]
    last, at = _most_modular(curve), numbers == shown
    if not at.any():
        return None
    more = (shown < numbers) & (numbers <= last) & (modularity >= modularity.max() - NEARLY_LARGEST)
    among = at | more if last <= most else at
    first = np.flatnonzero(among & (stability >= stability[among].max() - NEARLY_AGREED))[0]
    return int(numbers[first]) if stability[first] >= LEAST_AGREED else None


def _most_modular(curve: Mapping[str, NDArray[Any]]) -> int:
    """Number of clusters of largest modularity."""
    return int(curve["numbers"][np.argmax(curve["modularity"])])


def _bent(
    context: Context, by_density: Sequence[MergeTree], shared: _Shared, curve: Mapping[str, NDArray[Any]], shown: int
) -> int | None:
    """Number of clusters that bend around each other, below the one shown; None if there are none.

    It is the largest number at which labelings agree if cut by density. If cut by valleys, they do not: lines between
    the groups of a bent cluster cross others, or nothing, and each labeling has other groups. The graph must have some
    eigengap there.
    """
    fewer = curve["numbers"] < shown
    numbers = curve["numbers"][fewer]
    agreed = np.flatnonzero(shared.agreements(by_density, numbers) >= ONE_BY_DENSITY)
    if len(agreed) == 0 or curve["stability"][fewer][agreed[-1]] >= PLAIN:
        return None
    n_parts = int(numbers[agreed[-1]])
    return n_parts if graph_parts.have_gap(context, n_parts) else None


def _candidate(
    context: Context,
    by_density: Sequence[MergeTree],
    shared: _Shared,
    curve: Mapping[str, NDArray[Any]],
    shown: int,
    along_curves: bool,
) -> int | None:
    """Number of parts that may be the answer, if labelings, cut at the number shown, do not agree; None for none."""
    agreement = float(curve["stability"][curve["numbers"] == shown].min(initial=1.0))
    if agreement < PLAIN or along_curves:
        most = shown if agreement < PLAIN else shown - 1
        candidate = graph_parts.clear_parts(context, most, along_curves)
        if candidate is not None:
            return candidate
    left_open = not context.settings.number_given
    bent = left_open and agreement < PLAIN_OF_ONE_VOICE
    return _bent(context, by_density, shared, curve, shown) if bent else None


def _unless_agreed(curve: Mapping[str, NDArray[Any]], parts: int | None, shown: int) -> int | None:
    """The number of parts; None if labelings plainly agree on more clusters."""
    agreed = curve["numbers"][(curve["stability"] >= PLAIN) & (curve["numbers"] <= shown)]
    return None if parts and parts < agreed.max(initial=0) else parts


def _checked_parts(
    job: Job,
    parts: int | None,
    shown: int,
    trees: Sequence[MergeTree],
    by_density: Sequence[MergeTree],
    shared: _Shared,
) -> tuple[int | None, dict[str, float | None]]:
    """The number of parts, and what :func:`_largest` says of them.

    None if they violate more links than the groups, or are one and crumbs.
    """
    if not parts or _n_kept(job, by_density, parts) < _n_kept(job, trees, shown):
        return None, {}
    shape = _largest(job, by_density, shared, parts)
    return (None if _dominates(shape) else parts), shape


def _are_disputed(parts: int | None, by_density: Sequence[MergeTree], shared: _Shared) -> bool:
    """Whether labelings, cut by density at the number of parts, do not agree on these."""
    return parts is not None and shared.agreements(by_density, np.array([parts])).item() < PLAIN


def _n_kept(job: Job, trees: Sequence[MergeTree], k: int) -> float:
    """Must-links minus cannot-links within the clusters of the trees' cuts, twice the sum over labelings.

    A cut with more of them violates fewer links.
    """
    links = zip(_cuts(trees, k), valley_stage.links_between(job, NUMBER), strict=True)
    return float(sum((must - cannot)[np.equal.outer(of, of)].sum() for of, (must, cannot) in links))


def _of_links(context: Context, n_clusters: int, by_groups: int) -> dict[str, Any]:
    """What links change: the number that valleys show without them, and whether they force the number that is found."""
    unlinked = context.run.info(VALLEYS, 0).get("unlinked")
    return {"unlinked": int(np.median(unlinked)), "forced": n_clusters > by_groups} if unlinked else {}


def _group_gram(context: Context, p: int, sizes: Sequence[int]) -> Integers:
    """Number of rows of one block shared by every two groups of the labelings."""
    return consensus.label_gram(_all_groups(context, p), sizes)


def _all_groups(context: Context, p: int) -> Integers:
    return np.stack([read_groups(context, p, b) for b in Merging.VALLEYS.numbers(context)], axis=1)


def _curve(
    found: ValleyTrees, by_density: Sequence[MergeTree], shared: _Shared, numbers: Integers
) -> dict[str, NDArray[Any]]:
    """For each number of clusters: z of the weakest valley, median over labelings, and modularity.

    The latter is that of the labelings as they are cut by density.
    """
    weakest = np.stack([tree.weakest[numbers] for tree in found], axis=1)
    return {
        "numbers": numbers,
        "weakest": np.median(weakest, axis=1),
        "modularity": shared.modularities(by_density, numbers),
    }


def _agreements(found: ValleyTrees, shared: _Shared, numbers: Integers, shown: int) -> tuple[Floats, list[int]]:
    """Agreement of the labelings at each number, and numbers above the one shown that are cut by size.

    There, most labelings have no sign of a valley if merges are undone, or do not agree, and they agree more if the
    smallest groups are parted from the clusters shown. Far more than are shown are cut so only if labelings plainly
    agree on these.
    """
    stability = shared.agreements([of_one.tree for of_one in found], numbers)
    unsigned = np.median([of_one.weakest[numbers] for of_one in found], axis=0) < LEAST_SIGN
    doubtful = numbers[unsigned | (stability < LEAST_AGREED)].tolist()
    agree = stability[numbers == shown].sum() >= PLAIN
    more = [k for k in doubtful if are_some_more(k, shown) or (agree and k > shown)]
    trees = [of_one.by_size(shown, W.sum(axis=1)) for of_one, W in zip(found, shared.weights, strict=True)]
    by_size = np.zeros(len(numbers))
    by_size[np.isin(numbers, more)] = shared.agreements(trees, np.array(more, np.int64))
    return np.maximum(stability, by_size), numbers[by_size > stability].tolist()


def _whole_labelings(found: ValleyTrees, shared: _Shared) -> list[int]:
    """Labelings but collapsed ones, whose modularity is much smaller than that of the best."""
    modularity = [
        cuts.modularities(tree.tree, W, np.array([tree.n_clusters])).item()
        for tree, W in zip(found, shared.weights, strict=True)
    ]
    least = max(modularity) - COLLAPSED
    return [j for j, reached in enumerate(modularity) if reached >= least]


def _shown(found: ValleyTrees, shared: _Shared) -> tuple[int, list[int], float]:
    """Number of clusters that labelings show; if they plainly agree, those of each that count; and how much they agree.

    Where they agree, each with its own number, clusters count that others have too, and those that are held together
    as well as one of these. Rows that are of no cluster, such as sums of two spikes, are a small cluster in one
    labeling, and not in the next. Without agreement, or if half of the labelings have collapsed, none are told. How
    much they agree is that of the clusters of each, and 0 where labels are not made of these, because half do not show
    the number.
    """
    whole, starts = _whole_labelings(found, shared), consensus.label_offsets(shared.sizes)
    shown = int(np.median([found[j].n_clusters for j in whole]))
    columns = np.concatenate([np.arange(starts[j], starts[j + 1]) for j in whole])
    groups = [cut for j in whole for cut in _cuts([found[j].tree], found[j].n_clusters)]
    sizes = [shared.sizes[j] for j in whole]
    gram, merged = consensus.merged_gram(shared.rows[np.ix_(columns, columns)], sizes, groups)
    agreement = consensus.stability(consensus.pairwise_ari(gram, merged))
    if agreement < PLAIN or 2 * len(whole) <= len(found):
        return shown, [], 0.0
    common = np.split(consensus.in_common(gram, merged), consensus.label_offsets(merged)[1:-1])
    held = [cuts.shares_within(of, shared.weights[j]) for of, j in zip(groups, whole, strict=True)]
    counts = [
        int(np.sum(has | (share >= share[has].min(initial=np.inf)))) for has, share in zip(common, held, strict=True)
    ]
    shown = int(np.median(counts))
    return shown, counts, agreement if 2 * counts.count(shown) >= len(counts) else 0.0


def _joined(
    context: Context,
    found: ValleyTrees,
    by_density: Sequence[MergeTree],
    shared: _Shared,
    curve: Mapping[str, NDArray[Any]],
    shown: int,
) -> list[int]:
    """Numbers below the one shown at which the groups that valleys separate are to be joined by distance.

    They are where clusters joined by distance are clearly better than those joined by density, by the modularity of the
    graph itself, and labelings agree more on them; and those below the number of untied parts, as density does not
    tell which of these are near.
    """
    fewer = curve["numbers"] < shown
    numbers, by_distance = curve["numbers"][fewer], [tree.by_distance for tree in found]
    better = shared.modularities(by_distance, numbers) > curve["modularity"][fewer] + JOINED_GAIN
    surer = shared.agreements(by_distance, numbers) > shared.agreements(by_density, numbers)
    joined: list[int] = numbers[(better & surer) | (numbers < connectivity.n_untied(context))].tolist()
    return joined


def _cuts(trees: Sequence[MergeTree], k: int) -> list[Integers]:
    return [tree.cut(min(k, len(tree.columns))) for tree in trees]


def _largest(job: Job, trees: Sequence[MergeTree], shared: _Shared, n_clusters: int) -> dict[str, float | None]:
    """Shares of the two largest clusters of the trees' cuts, and clumpiness of the largest, if it dominates."""
    if n_clusters < 2:
        return {"largest": 1.0, "second": 0.0, "clumpiness": None}
    groups_of = _cuts(trees, n_clusters)
    gram, merged = consensus.merged_gram(shared.rows, shared.sizes, groups_of)
    tree = consensus.overlap_tree(gram)
    classes = tree.cut(min(n_clusters, len(tree.columns)))
    rows = draw_rows(job.context.n, SHAPE_ROWS, job.context.settings.seed, NUMBER)
    valley_stage.find_axes(job)
    parts = job.map_blocks(NUMBER, job.context.blocks, partial(_drawn, rows=rows))
    P, groups = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    labels = np.stack([cut[column] for cut, column in zip(groups_of, groups.T, strict=True)], axis=1)
    won = consensus.vote(labels, merged, classes, classes.max() + 1).argmax(axis=1)
    counts = np.bincount(won, minlength=2)
    largest, second = np.sort(counts / len(won))[::-1][:2].tolist()
    found = {"largest": largest, "second": second, "clumpiness": None}
    if largest > blobs.LARGEST and second < blobs.CRUMB * largest:
        clumpiness = partial(blobs.clumpiness, seed=job.context.settings.seed)
        (found["clumpiness"],) = job.map_here(clumpiness, [P[won == counts.argmax()]])
    return found


def _dominates(shape: Mapping[str, float | None]) -> bool:
    """Whether the largest cluster has most of the rows, beside crumbs, and is no single blob; see :func:`_largest`."""
    return (shape["clumpiness"] or 0.0) > blobs.CLUMPED


def _drawn(context: Context, p: int, rows: Integers) -> tuple[Floats, Integers]:
    """Components and groups of the drawn rows of one block."""
    drawn = np.isin(context.run.read("rows", p, "rows"), rows)
    return valley_stage.components(context, p)[drawn], _all_groups(context, p)[drawn]
