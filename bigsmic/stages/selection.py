"""select: consensus and choice of labelings, and LSMI of those that it may choose, or that are reported."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import consensus as numerics
from bigsmic.numerics.mutual_information.lsmi_scores import LSMIScore, first_equal, join_sweeps, score_one
from bigsmic.numerics.mutual_information.lsmi_sums import LSMIDesign, LSMISettings, LSMISums, block_sums
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import choice, consensus, mi_samples, ratings, valleys
from bigsmic.stages.labeling_specs import eigenvector_sets_of, numbers_of, specs_of
from bigsmic.stages.labelings import Reader, read_labels
from bigsmic.types import Integers

CONSENSUS = -1
"""Stands for the consensus in place of a labeling's number."""


def run(job: Job, n_gammas: int | None = None) -> None:
    """Compare the labelings, and score those that LSMI may choose, or the result and the medoid labeling.

    Parameters
    ----------
    job : Job
    n_gammas : int, optional
        Widths per pass, as planned for the memory limit; all at once by default. The scores do not depend on it.
    """
    consensus.agree(job)
    is_open = len(eigenvector_sets_of(job.context)) > 1 and job.context.settings.selection == "consensus"
    if is_open:
        ratings.rate(job)
    if specs_of(job.context).valley_sets:
        valleys.test(job, {w: partial(consensus.voted, w=w) for w in choice.rivals(job.context)})
    if is_open:
        choice.decide(job)
    if not job.context.settings.precomputed:
        score(job, n_gammas)


def score(job: Job, n_gammas: int | None = None) -> None:
    """Estimate the LSMI of labelings; see :func:`run`."""
    job.run_steps("scores", [0], partial(_score, n_gammas=n_gammas))


def _score(job: Job, block: int, n_gammas: int | None) -> None:
    context = job.context
    design, center_labels = mi_samples.drawn_design(job, "scores", _wanted(context), _labels)
    count = context.settings.n_lsmi_rows(context.n)
    drawn = None if count == context.n else draw_rows(context.n, count, context.settings.seed, "lsmi")
    estimate = partial(_estimates, job, labels=center_labels, drawn=drawn)
    sweeps = design.sweeps(n_gammas or len(design.gammas))
    is_shared = context.settings.shares_lsmi_width
    scores = _like_medoids(job, estimate, sweeps) if is_shared else estimate(range(len(center_labels)), sweeps)
    info = {"rows": count, "centers": design.n_centers, "numbers": _scored(context)}
    job.run.write("scores", 0, _table(scores, design), info=info)


def _estimates(
    job: Job, chosen: Sequence[int], sweeps: Sequence[LSMIDesign], labels: Integers, drawn: Integers | None
) -> list[LSMIScore]:
    """Scores of some of the scored labelings, each with the width and the ridge of least cross-validated loss."""
    own, parts = labels[chosen], []
    for sweep in sweeps:
        task = partial(_sums, drawn=drawn, design=sweep, chosen=chosen)
        sums = job.sum_blocks("scores", job.context.blocks, task)
        first = first_equal(sums, own)
        distinct = np.unique(first).tolist()
        found = job.map_here(partial(_score_one, sums=sums, labels=own, design=sweep), distinct)
        scores = dict(zip(distinct, found, strict=True))
        parts.append([scores[b] for b in first.tolist()])
    return [join_sweeps(list(of_one)) for of_one in zip(*parts, strict=True)]


def _like_medoids(job: Job, estimate: Callable[..., list[LSMIScore]], sweeps: Sequence[LSMIDesign]) -> list[LSMIScore]:
    """Scores of all labelings with one width and ridge for each number of clusters: those of its medoid labeling."""
    same = [of_one.tolist() for of_one in numbers_of(job.context)]
    medoids = [consensus.medoid(job, of_one) for of_one in same]
    full = dict(zip(medoids, estimate(medoids, sweeps), strict=True))
    groups: dict[tuple[float, float], list[int]] = {}
    for of_one, medoid in zip(same, medoids, strict=True):
        rest = groups.setdefault((full[medoid].gamma, full[medoid].delta), [])
        rest += [b for b in of_one if b != medoid]
    for (gamma, delta), rest in groups.items():
        one = replace(sweeps[0], gammas=np.array([gamma]), deltas=np.array([delta]))
        full |= dict(zip(rest, estimate(rest, [one]), strict=True)) if rest else {}
    return [full[b] for b in range(len(full))]


def _scored(context: Context) -> list[int]:
    """Numbers of the labelings that are scored, and :data:`CONSENSUS`."""
    return context.cached(
        "scored", lambda: _most_telling(context) if context.settings.reports_lsmi else specs_of(context).candidates
    )


def _most_telling(context: Context) -> list[int]:
    """The medoid labeling, and the consensus if that is the result."""
    numbers = specs_of(context).candidates
    medoid = numbers[numerics.medoid(context.run.read(consensus.STAGE, 0, "ari")[np.ix_(numbers, numbers)])]
    return [medoid, CONSENSUS] if choice.chosen(context) is None else [medoid]


def _score_one(b: int, sums: LSMISums, labels: Integers, design: LSMIDesign) -> LSMIScore:
    return score_one(sums, b, labels[b], design)


def _wanted(context: Context) -> LSMISettings:
    """Settings of the estimate."""
    settings = context.settings
    return replace(
        LSMISettings.paper() if settings.preset == "paper" else LSMISettings(),
        n_centers=settings.n_centers,
        n_folds=min(5, context.n),
        seed=settings.seed,
    )


def _labels(context: Context, p: int, rows: Any, chosen: Sequence[int] | None = None) -> Integers:
    """Labels of some rows of a block under the scored labelings, or some of these."""
    numbers = _scored(context) if chosen is None else [_scored(context)[i] for i in chosen]
    return np.stack([_scored_labels(context, p, b, rows) for b in numbers]).astype(np.int32)


def _scored_labels(context: Context, p: int, b: int, rows: Any) -> Integers:
    if b != CONSENSUS:
        return read_labels(context, p, b)[rows]
    return consensus.most_voted(context, p, choice.chosen_set(context), rows)


def _sums(context: Context, p: int, drawn: Integers | None, design: LSMIDesign, chosen: Sequence[int]) -> LSMISums:
    read = context.run.reader("rows", p)
    rows = read("rows")
    taken = slice(None) if drawn is None else np.isin(rows, drawn)
    labels = _labels(context, p, taken, chosen)
    return block_sums(read("X")[taken], rows[taken], labels, design, n_classes=_most_labels(context))


def _most_labels(context: Context) -> int:
    """Largest number of labels of a labeling; one merged by valleys may have more than there are clusters."""
    found = (Reader(context, specs_of(context)[b]).n_groups for b in _scored(context) if b != CONSENSUS)
    return context.cached("most_labels", lambda: max(context.settings.n_clusters, *found))


def _table(scores: Sequence[LSMIScore], design: LSMIDesign) -> dict[str, Any]:
    """Arrays of the stage; losses that were not computed are NaN."""
    columns = {name: np.array([getattr(s, name) for s in scores]) for name in ("lsmi", "gamma", "delta", "cv")}
    uncovered = np.array([len(score.without_center) for score in scores])
    tables = np.full((len(scores), len(design.gammas), len(design.deltas)), np.nan)
    for table, score in zip(tables, scores, strict=True):
        if score.cv_table.shape == table.shape:
            table[:] = score.cv_table
        else:
            table[design.gammas == score.gamma, design.deltas == score.delta] = score.cv
    grids = {"gammas": design.gammas, "deltas": design.deltas}
    return columns | {"classes_without_center": uncovered, "cv_table": tables} | grids
