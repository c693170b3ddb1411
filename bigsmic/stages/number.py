"""number: how many clusters the data show, and whether fewer are to be joined by the graph or by distance."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from bigsmic.numerics.labeling import blobs, consensus, noise
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.metrics import contingency
from bigsmic.numerics.labeling.valleys import MANY_ROWS, THRESHOLD
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import connectivity, dense_parts, density, drawn_clusters, graph_parts, linked_groups
from bigsmic.stages import valleys as valley_stage
from bigsmic.stages.labeling_specs import FULL, specs_of
from bigsmic.stages.labelings import Merging
from bigsmic.stages.number_evidence import LEAST_AGREED, Evidence, compare, open_range
from bigsmic.stages.shown_number import (
    NOISE_FROM,
    NUMBER,
    PLAIN,
    PLAIN_OF_ONE_VOICE,
    REACH,
    counted,
    is_shown,
)
from bigsmic.stages.valley_trees import VALLEYS, valley_tree_of
from bigsmic.stages.wider_columns import have_many_copies
from bigsmic.types import Integers

NEARLY_AGREED = 0.05
"""Difference in agreement from the largest up to which a smaller number of clusters is preferred."""
ONE_BY_DENSITY = 0.97
"""Agreement of labelings that are cut by density, from which the clusters are bent if cuts by valleys do not agree."""
ALL_BUT_EQUAL = 0.97
"""Agreement of labelings from which the clusters shown are no pieces of others if the graph falls into them."""
JOINED_GAIN = 0.004
"""Difference in modularity from which clusters joined by distance are better than those joined by density."""

DEEP = 2 * THRESHOLD
"""Z of a valley that is no gap by chance between rows along a curve, nor among few rows."""


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


def _count(job: Job, block: int) -> None:
    context = job.context
    evidence, noted = _evidence(job)
    shown, (least, most) = evidence.shown, open_range(context, evidence.n_columns)
    parts, shape = _checked_parts(job, _parts_of_graph(job, evidence), evidence)
    other = None if parts else _other_number(job, evidence)
    needed, allowed = linked_groups.least_clusters(context), linked_groups.most_clusters(context)
    by_groups = int(np.clip(parts or other or shown, least, min(most, allowed)))
    n_clusters = max(by_groups, needed) if by_groups > 1 or needed == allowed else by_groups
    if n_clusters != parts:
        shape = evidence.shape(job, evidence.trees, n_clusters)
    clear = by_groups > 1 and not _differ(evidence, n_clusters, other, parts) and not drawn_clusters.dominates(shape)
    clear = clear and not (evidence.is_one_curve and parts is None)
    clear = clear or 1 < needed == allowed  # links alone tell, as where all labels are known
    joined = _joined(context, evidence) if clear and not parts and not evidence.on_pieces else []
    info = noted | {"n_clusters": n_clusters, "clear": clear} | shape
    info |= {"parts": parts, "surer": other, "joined": joined, "parts_disputed": _are_disputed(parts, evidence)}
    dense = evidence.dense if parts else None
    part_of = np.zeros(0, np.int64)
    if dense:
        part_of = np.concatenate(_part_of_groups(evidence, dense))
        job.fill(density.DENSE_PARTS, [0], partial(density.write_parts, **dense.where))
    info |= {"one_curve": evidence.is_one_curve, "dense_parts": dense is not None}
    info |= {"hidden": _may_hide(context, evidence, clear, parts), "on_pieces": evidence.on_pieces}
    info |= {"faint": context.n < MANY_ROWS and evidence.at("weakest", n_clusters, np.inf) < DEEP}
    info |= _of_links(context, n_clusters, by_groups)
    info["parted_from"] = parted_from = evidence.parted_from(max(shown, other or 0))
    curve = evidence.curve | {"stability": evidence.by_shape(parted_from), "part_of": part_of}
    job.run.write(NUMBER, block, curve, info=info)


def _evidence(job: Job) -> tuple[Evidence, dict[str, Any]]:
    """The evidence, and what of it the stage notes.

    If labelings do not agree on the clusters shown, nor plainly on more, and there is noise among these, they are
    compared again without it: each adds it to others. If they do, some of the clusters may be of noise.
    """
    drawn_rows = drawn_clusters.draw(job)
    evidence, noted = compare(job, drawn_rows)
    noise_from = evidence.gap_to_noise()
    if noise_from < np.inf and not evidence.agree_on_some:
        evidence, noted = compare(job, drawn_rows, noise_from)
        noted |= {REACH: noise_from}
    left_open = not job.context.settings.number_given
    if evidence.shown > 1 and (evidence.disagree or left_open):
        on_pieces, bent = _pieces(job, evidence)
        doubtful = evidence.doubtful or (left_open and on_pieces)
        evidence = evidence._replace(on_pieces=on_pieces, bent=bent, doubtful=doubtful)
    sparse = noise.distance(drawn_rows.sigma, noise.AMID)
    noted |= {"noise": noise.share(drawn_rows.sigma), "sparse": sparse, "agreement": evidence.agreement}
    return evidence, noted | ({NOISE_FROM: noise_from} if noise_from < np.inf else {})


def _pieces(job: Job, evidence: Evidence) -> tuple[bool, dense_parts.DenseParts | None]:
    """Whether the clusters shown are pieces of curves, and dense parts, if those that are no dense part are pieces.

    Clusters that all labelings part by deep valleys are not pieces of one that is bent. Nor are dense parts looked for
    with links, which they do not know, or if rows have many copies, which may be parts of their own.
    """
    found = evidence.drawn(evidence.trees, evidence.shown)
    are_sure = not evidence.disagree and evidence.at("weakest", evidence.shown, 0.0) >= DEEP
    may_bend = not (are_sure or job.context.settings.propagates or have_many_copies(job.context))
    disputed = evidence.agreement < consensus.AGREED and not job.context.settings.number_given
    bent = dense_parts.of_pieces(job, found, disputed) if may_bend else None
    if bent and any(len(np.unique(of)) < len(bent.roots) for of in _part_of_groups(evidence, bent)):
        bent = None  # a part without a group in some labeling would have no posterior
    return bent is not None or drawn_clusters.pieces(job, found).are_of_curves(), bent


def _other_number(job: Job, evidence: Evidence) -> int | None:
    """Number of clusters that is better than the one shown; None if that is best, or nothing tells."""
    if evidence.doubtful or job.context.settings.propagates or not evidence.has(evidence.shown):
        return None
    are_too_few = _are_too_few(job, evidence)
    if not (evidence.disagree or are_too_few):
        return None
    found = _surest(evidence, FULL * evidence.n_columns, beyond=are_too_few)
    return found if found != evidence.shown else None


def _surest(evidence: Evidence, most: float, beyond: bool = False) -> int | None:
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


def _are_too_few(job: Job, evidence: Evidence) -> bool:
    """Whether there are more clusters than are shown, though labelings may agree on these.

    Where clusters have few rows in many columns, the valleys between them are just too shallow, and they are merged.
    The next valley has some depth then, more clusters have clearly more modularity, and the largest cluster is no blob.
    In a plane, or on a line, all of this may be so of a single one.
    """
    shown, context = evidence.shown, job.context
    if evidence.reach < np.inf:
        return False  # modularity and shapes are also those of noise
    next_z = evidence.at("weakest", shown + 1, 0.0)
    nearly = evidence.are_nearly_modular[evidence.curve["numbers"] == shown].any()
    if shown < 2 or nearly or not (THRESHOLD / 2 <= next_z < np.inf) or not graph_parts.are_solid(context, shown):
        return False
    return drawn_clusters.clumpiness(job, evidence.drawn(evidence.trees, shown)) > blobs.CLEARLY_CLUMPED


def _differ(evidence: Evidence, n_clusters: int, other: int | None, parts: int | None) -> bool:
    """Whether labelings do not agree on the answer; a number from the range or from links is none of theirs."""
    if n_clusters == parts or n_clusters not in (evidence.shown, other):
        return False
    return evidence.at("stability", n_clusters, 1.0) < (PLAIN if evidence.doubtful else consensus.AGREED)


def _may_hide(context: Context, evidence: Evidence, clear: bool, parts: int | None) -> bool:
    """Whether columns may be too few to see the clusters: without a plain answer, as many have most modularity."""
    may = (evidence.disagree or not clear) and evidence.shown > 1
    may &= not (parts or context.settings.propagates or evidence.along_curves or evidence.on_pieces)
    return may and evidence.most_modular > FULL * evidence.n_columns


def _bent(context: Context, evidence: Evidence) -> int | None:
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


def _parts_of_graph(job: Job, evidence: Evidence) -> int | None:
    """Number of parts by a clear eigengap, or else of bent clusters, that may be the answer; None for none.

    They may if dense parts are bent clusters, if rows lie along curves, or if the clusters shown, on which labelings do
    not agree, are pieces of curves; not if the graph falls into the clusters shown as well, nor if they join blobs.
    """
    context = job.context
    if _are_parts_too(context, evidence):
        return None
    if evidence.dense:
        return len(evidence.dense.roots)
    if not (evidence.on_pieces or evidence.along_curves):
        return None
    found = graph_parts.clear_parts(context, evidence.shown, evidence.along_curves, evidence.is_one_curve)
    if found is not None:
        may_be = evidence.disagree or found < evidence.shown
        return found if may_be and not _join_blobs(job, evidence, found) else None
    may_bend = not context.settings.number_given and evidence.agreement < PLAIN_OF_ONE_VOICE
    return _bent(context, evidence) if may_bend else None


def _are_parts_too(context: Context, evidence: Evidence) -> bool:
    """Whether labelings all but agree on the clusters shown, and the graph falls into these, whatever its fewer parts.

    Labelings cut a bent cluster at different places.
    """
    clear = evidence.agreement >= ALL_BUT_EQUAL
    return clear and graph_parts.have_gap(context, evidence.shown, graph_parts.CLEAR_GAP)


def _join_blobs(job: Job, evidence: Evidence, n_parts: int) -> bool:
    """Whether some part joins several of the clusters shown that are blobs, and not pieces of a curve."""
    shown = evidence.drawn(evidence.trees, evidence.shown)
    parts = evidence.drawn(evidence.by_density, n_parts).labels
    part_of = contingency(shown.labels, parts, shown.labels.max() + 1, n_parts).argmax(axis=1)
    shapes = drawn_clusters.pieces(job, shown)
    several = np.flatnonzero(np.bincount(part_of) > 1)
    return any(shapes.are_blobs(part_of == part) for part in several)


def _checked_parts(job: Job, parts: int | None, evidence: Evidence) -> tuple[int | None, dict[str, float | None]]:
    """The number of parts, and their shape.

    None if they violate more links than the groups, or are one and crumbs.
    """
    if not parts or _n_kept(job, evidence.by_density, parts) < _n_kept(job, evidence.trees, evidence.shown):
        return None, {}
    if evidence.dense:
        return parts, drawn_clusters.shape_of(evidence.dense.sizes)
    shape = evidence.shape(job, evidence.by_density, parts)
    return (None if drawn_clusters.dominates(shape) else parts), shape


def _are_disputed(parts: int | None, evidence: Evidence) -> bool:
    """Whether labelings, cut by density at the number of parts, do not agree on these, and rows do not tell them."""
    if parts is None or evidence.dense:
        return False
    agreements = evidence.shared.agreements
    return agreements(evidence.by_density, np.array([parts])).item() < PLAIN


def _part_of_groups(evidence: Evidence, dense: dense_parts.DenseParts) -> list[Integers]:
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


def _joined(context: Context, evidence: Evidence) -> list[int]:
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
