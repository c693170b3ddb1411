"""number: how many clusters the data show, and whether fewer are to be joined by the graph or by distance."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling import blobs, consensus, cuts, noise
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.valleys import LEAST_SIGN, THRESHOLD, ValleyTree
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import connectivity, dense_parts, density, drawn_clusters, graph_parts, linked_groups
from bigsmic.stages import valleys as valley_stage
from bigsmic.stages.labeling_specs import specs_of
from bigsmic.stages.labelings import Merging, Reader
from bigsmic.stages.shown_number import (
    NUMBER,
    PLAIN,
    PLAIN_OF_ONE_VOICE,
    are_some_more,
    counted,
    is_shown,
)
from bigsmic.stages.valley_trees import VALLEYS, valley_tree_of, weights_between
from bigsmic.stages.wider_columns import FULL, have_copies
from bigsmic.types import Floats, Integers

COLLAPSED = 0.1
"""Difference in modularity from the best labeling beyond which the number of clusters of a labeling is ignored."""
NEARLY_LARGEST = 0.02
"""Difference in modularity from the largest up to which more clusters than are shown may be preferred."""
NEARLY_AGREED = 0.05
"""Difference in agreement from the largest up to which a smaller number of clusters is preferred."""
LEAST_AGREED = 0.7
"""Agreement from which another number of clusters may be preferred to the one shown, and merges be undone in order."""
ONE_BY_DENSITY = 0.97
"""Agreement of labelings that are cut by density, from which the clusters are bent if cuts by valleys do not agree."""
JOINED_GAIN = 0.004
"""Difference in modularity from which clusters joined by distance are better than those joined by density."""

DEEP = 2 * THRESHOLD
"""Z of a valley that is no gap by chance between rows along a curve."""

ValleyTrees = Sequence[ValleyTree]


def count(job: Job) -> int | None:
    """Number of clusters that the data show; None if they show none. The stage ``number`` has the evidence."""
    if not Merging.VALLEYS.numbers(job.context):
        return None
    job.run_steps(NUMBER, [0], _count)
    return counted(job.run)


def that_miss_valleys(context: Context, n_clusters: int) -> list[int]:
    """Labelings merged by valleys that miss one between clusters that most of them show; none if most do not."""
    run = context.run
    if not (run.done(NUMBER, 0) and is_shown(run, n_clusters)):
        return []
    trees = {b: valley_tree_of(context, specs_of(context)[b]) for b in Merging.VALLEYS.numbers(context)}
    return [b for b, tree in trees.items() if tree.n_clusters < n_clusters]


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


class _Evidence(NamedTuple):
    """What the labelings say of every number of clusters.

    Parameters
    ----------
    by_valleys : list of ValleyTree, length B
    by_density : list of MergeTree, length B
    shared : _Shared
    curve : dict of str to ndarray
        ``numbers`` of clusters, and for each of them ``weakest``, ``stability`` and ``modularity``.
    shown : int
        Number of clusters that the labelings show.
    drawn_rows : DrawnRows
        From which the shapes of clusters are known.
    along_curves, doubtful : bool
        Whether rows lie along curves, and whether valleys are no evidence alone.
    on_pieces : bool
        Whether the clusters shown are pieces of curves, or of dense parts; looked at if labelings do not agree on them,
        or the number is open.
    bent : DenseParts or None
        Dense parts of the graph that are clusters in the place of those shown; or one, of which these are pieces.
    """

    by_valleys: ValleyTrees
    by_density: Sequence[MergeTree]
    shared: _Shared
    curve: dict[str, NDArray[Any]]
    shown: int
    drawn_rows: drawn_clusters.DrawnRows
    along_curves: bool = False
    doubtful: bool = False
    on_pieces: bool = False
    bent: dense_parts.DenseParts | None = None

    @property
    def trees(self) -> list[MergeTree]:
        """Trees of valleys."""
        return [found.tree for found in self.by_valleys]

    def drawn(self, trees: Sequence[MergeTree], n_clusters: int) -> drawn_clusters.DrawnClusters:
        """Drawn rows in the clusters of the trees' cuts."""
        return drawn_clusters.clusters(self.drawn_rows, trees, (self.shared.rows, self.shared.sizes), n_clusters)

    def shape(self, job: Job, trees: Sequence[MergeTree], n_clusters: int) -> dict[str, float | None]:
        """Shares of the two largest clusters of the trees' cuts, and clumpiness of the largest, if it dominates."""
        if n_clusters < 2:
            return {"largest": 1.0, "second": 0.0, "clumpiness": None}
        return drawn_clusters.shape(job, self.drawn(trees, n_clusters))

    @property
    def n_columns(self) -> int:
        """Number of groups that all trees of valleys have."""
        return _n_columns(self.by_valleys)

    @property
    def is_one_curve(self) -> bool:
        """Whether the clusters shown are pieces of a single curve."""
        return self.bent is not None and len(self.bent.roots) == 1

    @property
    def dense(self) -> dense_parts.DenseParts | None:
        """Dense parts that may be the answer, as there are several."""
        return None if self.is_one_curve else self.bent

    @property
    def agreement(self) -> float:
        """How much labelings agree on the clusters shown; 1 where these are outside a given range."""
        return self.at("stability", self.shown, 1.0)

    @property
    def disagree(self) -> bool:
        """Whether labelings do not agree plainly on the clusters shown."""
        return self.agreement < PLAIN

    @property
    def most_modular(self) -> int:
        """Number of clusters of largest modularity."""
        return int(self.curve["numbers"][np.argmax(self.curve["modularity"])])

    @property
    def are_nearly_modular(self) -> NDArray[np.bool_]:
        """Whether clusters have nearly the largest modularity, for each number."""
        modularity = self.curve["modularity"]
        return modularity >= modularity.max() - NEARLY_LARGEST

    def at(self, name: str, n_clusters: int, missing: float) -> float:
        """Entry of the curve for a number of clusters; `missing` if it has none."""
        return float(self.curve[name][self.curve["numbers"] == n_clusters].sum() if self.has(n_clusters) else missing)

    def has(self, n_clusters: int) -> bool:
        """Whether the curve has a number of clusters."""
        return bool((self.curve["numbers"] == n_clusters).any())


def _count(job: Job, block: int) -> None:
    context = job.context
    evidence, noted = _evidence(job)
    shown, (least, most) = evidence.shown, _range(context, evidence.n_columns)
    parts, shape = _checked_parts(job, _parts_of_graph(context, evidence), evidence)
    other = None if parts else _other_number(job, evidence)
    by_groups = int(np.clip(parts or other or shown, least, most))
    n_clusters = max(by_groups, linked_groups.least_clusters(context)) if by_groups > 1 else by_groups
    if n_clusters != parts:
        shape = evidence.shape(job, evidence.trees, n_clusters)
    clear = by_groups > 1 and not _differ(evidence, n_clusters, other, parts) and not drawn_clusters.dominates(shape)
    clear = clear and not (evidence.is_one_curve and parts is None)
    joined = _joined(context, evidence) if clear and not parts and not evidence.on_pieces else []
    info = noted | {"n_clusters": n_clusters, "clear": clear} | shape
    info |= {"parts": parts, "surer": other, "joined": joined, "parts_disputed": _are_disputed(parts, evidence)}
    dense = evidence.dense if parts else None
    part_of = np.zeros(0, np.int64)
    if dense:
        part_of = np.concatenate(_part_of_groups(evidence, dense))
        job.fill(density.DENSE_PARTS, [0], partial(density.write_parts, limit=info["sparse"], roots=dense.roots))
    info |= {"one_curve": evidence.is_one_curve, "dense_parts": dense is not None}
    info |= {"hidden": _may_hide(context, evidence, clear, parts), "on_pieces": evidence.on_pieces}
    info |= _of_links(context, n_clusters, by_groups)
    job.run.write(NUMBER, block, evidence.curve | {"part_of": part_of}, info=info)


def _evidence(job: Job) -> tuple[_Evidence, dict[str, Any]]:
    """The evidence, and what of it the stage notes."""
    context = job.context
    specs = [specs_of(context)[b] for b in Merging.VALLEYS.numbers(context)]
    found = [valley_tree_of(context, spec) for spec in specs]
    by_density = [Reader(context, spec).tree for spec in specs]
    sizes = [spec.n_eigenvectors for spec in specs]
    rows = job.sum_blocks(NUMBER, context.blocks, partial(valley_stage.group_gram, sizes=sizes))
    shared = _Shared(rows, sizes, [weights_between(context, spec) for spec in specs])
    shown, common, agreed = _shown(found, shared)
    n_columns = _n_columns(found)
    least, most = _range(context, n_columns)
    numbers = np.arange(max(2, least), max(2, least, min(most, n_columns) + 1))
    stability, by_size = _agreements(found, shared, numbers, shown)
    left_open = not context.settings.number_given
    along_curves = left_open and graph_parts.lie_along_curves(context)
    doubtful = along_curves or (left_open and have_copies(context))
    at_shown = numbers == shown
    stability[at_shown] = np.maximum(stability[at_shown], 0.0 if doubtful else agreed)
    curve = {"stability": stability} | _curve(found, by_density, shared, numbers)
    evidence = _Evidence(found, by_density, shared, curve, shown, drawn_clusters.draw(job), along_curves, doubtful)
    if shown > 1 and (evidence.disagree or left_open):
        on_pieces, bent = _pieces(job, evidence)
        evidence = evidence._replace(on_pieces=on_pieces, bent=bent, doubtful=doubtful or (left_open and on_pieces))
    votes = [tree.n_clusters for tree in found]
    noted = {
        "noise": noise.share(evidence.drawn_rows.sigma),
        "sparse": noise.distance(evidence.drawn_rows.sigma, noise.AMID),
        "shown": shown,
        "votes": votes,
        "columns": sizes[0],
        "common": common,
        "by_size": by_size,
    }
    return evidence, noted | {"agreement": evidence.agreement}


def _pieces(job: Job, evidence: _Evidence) -> tuple[bool, dense_parts.DenseParts | None]:
    """Whether the clusters shown are pieces of curves, and dense parts, if those that are no dense part are pieces.

    Clusters that all labelings part by deep valleys are not pieces of one that is bent. Nor are dense parts looked for
    with links, which they do not know, or if most rows have copies, which may be parts of their own.
    """
    found = evidence.drawn(evidence.trees, evidence.shown)
    are_sure = not evidence.disagree and evidence.at("weakest", evidence.shown, 0.0) >= DEEP
    may_bend = not (are_sure or job.context.settings.propagates or have_copies(job.context))
    disputed = evidence.agreement < consensus.AGREED and not job.context.settings.number_given
    bent = dense_parts.of_pieces(job, found, disputed) if may_bend else None
    if bent and any(len(np.unique(of)) < len(bent.roots) for of in _part_of_groups(evidence, bent)):
        bent = None  # a part without a group in some labeling would have no posterior
    return bent is not None or drawn_clusters.pieces(job, found).are_of_curves(), bent


def _n_columns(found: ValleyTrees) -> int:
    return min(len(of_one.tree.columns) for of_one in found)


def _range(context: Context, n_columns: int) -> tuple[int, int]:
    """The least and the largest number of clusters that may be the answer."""
    return context.settings.open_from or 1, context.settings.open_to or n_columns


def _other_number(job: Job, evidence: _Evidence) -> int | None:
    """Number of clusters that is better than the one shown; None if that is best, or nothing tells."""
    if evidence.doubtful or job.context.settings.propagates or not evidence.has(evidence.shown):
        return None
    are_too_few = _are_too_few(job, evidence)
    if not (evidence.disagree or are_too_few):
        return None
    found = _surest(evidence, FULL * evidence.n_columns, beyond=are_too_few)
    return found if found != evidence.shown else None


def _surest(evidence: _Evidence, most: float, beyond: bool = False) -> int | None:
    """Number of clusters, at least the one shown, that labelings agree on most, or nearly so; None if on none.

    It is at most that of largest modularity, beyond which large clusters are cut, and may not exceed `most`. None also
    if labelings show one cluster: then nothing tells that there are more. `beyond` leaves out the one shown.
    """
    shown, numbers, stability = evidence.shown, evidence.curve["numbers"], evidence.curve["stability"]
    last, at = evidence.most_modular, numbers == shown
    more = (shown < numbers) & (numbers <= last) & evidence.are_nearly_modular & (last <= most)
    among = more if beyond else at | more
    if not (at.any() and among.any()):
        return None
    first = np.flatnonzero(among & (stability >= stability[among].max() - NEARLY_AGREED))[0]
    return int(numbers[first]) if stability[first] >= (0.0 if beyond else LEAST_AGREED) else None


def _are_too_few(job: Job, evidence: _Evidence) -> bool:
    """Whether there are more clusters than are shown, though labelings may agree on these.

    Where clusters have few rows in many columns, the valleys between them are just too shallow, and they are merged.
    The next valley has some depth then, more clusters have clearly more modularity, and the largest cluster is no blob.
    In a plane, or on a line, all of this may be so of a single one.
    """
    shown, context = evidence.shown, job.context
    next_z = evidence.at("weakest", shown + 1, 0.0)
    nearly = evidence.are_nearly_modular[evidence.curve["numbers"] == shown].any()
    if shown < 2 or nearly or not (THRESHOLD / 2 <= next_z < np.inf) or not graph_parts.are_solid(context, shown):
        return False
    return drawn_clusters.clumpiness(job, evidence.drawn(evidence.trees, shown)) > blobs.CLEARLY_CLUMPED


def _differ(evidence: _Evidence, n_clusters: int, other: int | None, parts: int | None) -> bool:
    """Whether labelings do not agree on the answer; a number from the range or from links is none of theirs."""
    if n_clusters == parts or n_clusters not in (evidence.shown, other):
        return False
    return evidence.at("stability", n_clusters, 1.0) < (PLAIN if evidence.doubtful else consensus.AGREED)


def _may_hide(context: Context, evidence: _Evidence, clear: bool, parts: int | None) -> bool:
    """Whether columns may be too few to see the clusters: without a plain answer, as many have most modularity."""
    may = (evidence.disagree or not clear) and evidence.shown > 1
    may &= not (parts or context.settings.propagates or evidence.along_curves or evidence.on_pieces)
    return may and evidence.most_modular > FULL * evidence.n_columns


def _bent(context: Context, evidence: _Evidence) -> int | None:
    """Number of clusters that bend around each other, below the one shown; None if there are none.

    It is the largest number at which labelings agree if cut by density. If cut by valleys, they do not: lines between
    the groups of a bent cluster cross others, or nothing, and each labeling has other groups. The graph must have some
    eigengap there.
    """
    fewer = evidence.curve["numbers"] < evidence.shown
    numbers = evidence.curve["numbers"][fewer]
    agreed = np.flatnonzero(evidence.shared.agreements(evidence.by_density, numbers) >= ONE_BY_DENSITY)
    if len(agreed) == 0 or evidence.curve["stability"][fewer][agreed[-1]] >= PLAIN:
        return None
    n_parts = int(numbers[agreed[-1]])
    return n_parts if graph_parts.have_gap(context, n_parts) else None


def _parts_of_graph(context: Context, evidence: _Evidence) -> int | None:
    """Number of parts by a clear eigengap, or else of bent clusters, that may be the answer; None for none.

    They may if dense parts are bent clusters, if rows lie along curves, or if the clusters shown, on which labelings do
    not agree, are pieces of curves.
    """
    if evidence.dense:
        return len(evidence.dense.roots)
    if not (evidence.on_pieces or evidence.along_curves):
        return None
    found = graph_parts.clear_parts(context, evidence.shown, evidence.along_curves, evidence.is_one_curve)
    if found is not None:
        return found if evidence.disagree or found < evidence.shown else None
    may_bend = not context.settings.number_given and evidence.agreement < PLAIN_OF_ONE_VOICE
    return _bent(context, evidence) if may_bend else None


def _checked_parts(job: Job, parts: int | None, evidence: _Evidence) -> tuple[int | None, dict[str, float | None]]:
    """The number of parts, and their shape.

    None if they violate more links than the groups, or are one and crumbs.
    """
    if not parts or _n_kept(job, evidence.by_density, parts) < _n_kept(job, evidence.trees, evidence.shown):
        return None, {}
    if evidence.dense:
        return parts, drawn_clusters.shape_of(evidence.dense.sizes)
    shape = evidence.shape(job, evidence.by_density, parts)
    return (None if drawn_clusters.dominates(shape) else parts), shape


def _are_disputed(parts: int | None, evidence: _Evidence) -> bool:
    """Whether labelings, cut by density at the number of parts, do not agree on these, and rows do not tell them."""
    if parts is None or evidence.dense:
        return False
    agreements = evidence.shared.agreements
    return agreements(evidence.by_density, np.array([parts])).item() < PLAIN


def _part_of_groups(evidence: _Evidence, dense: dense_parts.DenseParts) -> list[Integers]:
    """Dense part of every group of each labeling."""
    columns = zip(evidence.drawn_rows.groups.T, evidence.shared.weights, strict=True)
    return [dense.of_groups(groups, weights) for groups, weights in columns]


def _n_kept(job: Job, trees: Sequence[MergeTree], k: int) -> float:
    """Must-links minus cannot-links within the clusters of the trees' cuts, twice the sum over labelings.

    A cut with more of them violates fewer links.
    """
    links = zip(drawn_clusters.cut(trees, k), valley_stage.links_between(job, NUMBER), strict=True)
    return float(sum((must - cannot)[np.equal.outer(of, of)].sum() for of, (must, cannot) in links))


def _of_links(context: Context, n_clusters: int, by_groups: int) -> dict[str, Any]:
    """What links change: the number that valleys show without them, and whether they force the number that is found."""
    unlinked = context.run.info(VALLEYS, 0).get("unlinked")
    return {"unlinked": int(np.median(unlinked)), "forced": n_clusters > by_groups} if unlinked else {}


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
    groups = [of for j in whole for of in drawn_clusters.cut([found[j].tree], found[j].n_clusters)]
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


def _joined(context: Context, evidence: _Evidence) -> list[int]:
    """Numbers below the one shown at which the groups that valleys separate are to be joined by distance.

    They are where clusters joined by distance are clearly better than those joined by density, by the modularity of the
    graph itself, and labelings agree more on them; and those below the number of untied parts, as density does not
    tell which of these are near.
    """
    fewer, shared = evidence.curve["numbers"] < evidence.shown, evidence.shared
    numbers, by_distance = evidence.curve["numbers"][fewer], [tree.by_distance for tree in evidence.by_valleys]
    better = shared.modularities(by_distance, numbers) > evidence.curve["modularity"][fewer] + JOINED_GAIN
    surer = shared.agreements(by_distance, numbers) > shared.agreements(evidence.by_density, numbers)
    joined: list[int] = numbers[(better & surer) | (numbers < connectivity.n_untied(context))].tolist()
    return joined
