"""SMIC, the default method: scan -> route -> neighbors -> graph -> eigen -> assign -> valleys -> select -> output."""

from dataclasses import replace
from typing import Any

from bigsmic.errors import InputError
from bigsmic.methods.smic.diagnostics import smic_summary
from bigsmic.methods.smic.pages import pages
from bigsmic.methods.smic.planning import plan_fit as plan
from bigsmic.methods.smic.result import SMICResult as Result
from bigsmic.methods.smic.work import works
from bigsmic.numerics.labeling.valleys import THRESHOLD
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.settings.sequences import cut_set
from bigsmic.settings.smic import Settings
from bigsmic.stages import (
    bent_clusters,
    choice,
    distinct,
    graph_parts,
    graph_pipeline,
    kernel_matrix,
    labelings,
    number,
    out_of_sample,
    output,
    selection,
    shown_number,
    update_log,
    valleys,
    wider_columns,
)
from bigsmic.stages.labeling_specs import (
    cut_specs,
    eigenproblems,
    eigenvector_sets,
    eigenvector_sets_of,
    specs_of,
    valley_columns,
)
from bigsmic.store import Overlay, Run
from bigsmic.validation import CLUSTERS
from bigsmic.warning import warn

__all__ = ["Result", "Settings", "choose", "cut_run", "model", "pages", "plan", "run", "summary", "temporary", "works"]

OF_ONE_NUMBER = (
    *("assigned", "scores", "consensus", "eigenvector_sets", choice.STAGE),
    *("gaussians", "draft", "outvoted", "final", "sharpness"),
    *("spacing", "noise_scores", "numbering", "names", "output"),
    *update_log.AFTER_FIT,
)
"""Stages that depend on the number of clusters."""


def temporary(settings: Settings) -> tuple[str, ...]:
    """Stages that are deleted when a fit has ended."""
    return (*graph_pipeline.temporary(settings), *valleys.TEMPORARY)


def run(job: Job) -> None:
    """Run the stages of a fit; each runs the blocks that the ledger lacks."""
    if not graph_pipeline.scan_rows(job):
        return
    graph_pipeline.build_graph(job)
    job = _attempt(bent_clusters.resumed(job))
    if not job.context.settings.undecided:
        choose(job)
        _warn_of_other_number(job.context)


def _attempt(job: Job) -> Job:
    """The job with the number of clusters, or plain labels, that the data show; the same job if they show none."""
    job = _plain(wider_columns.suited(job))
    graph_pipeline.solve(job)
    if not job.context.settings.undecided:
        return job
    with job.timed("assign"):
        labelings.frames(job)
    return _decided(job)


def _label(job: Job) -> None:
    """Compute all labelings, and count the groups that valleys separate, if some labelings are merged by valleys."""
    with job.timed("assign"):
        labelings.run(job)
    if specs_of(job.context).by_valleys:
        with job.timed("valleys"):
            valleys.merge_groups(job)
            number.count(job)


def _plain(job: Job) -> Job:
    """The job with labels from valleys alone, if they show the requested number of clusters; else the same job.

    Most of a fit's time is spent on labelings with several numbers of columns, which are needed only if clusters touch.
    """
    first = _by_valleys(job)
    if first is None:
        return job
    wanted, found = (specs_of(one.context).most_eigenvectors for one in (job, first))
    graph_pipeline.solve(first, wanted)
    wider = wider_columns.for_parts(job, first)
    if wider:
        graph_pipeline.solve(wider)
        first = wider
    _label(first)
    again = bent_clusters.begin_again(job)
    if again:
        return _plain(again)
    if _are_plain(job):
        return first
    if wanted > found:
        wider_columns.begin(job, first.context, wanted)
    return wider_columns.resumed(job)


def _by_valleys(job: Job) -> Job | None:
    """The job with only the labelings merged by valleys; None if there are none, or all labelings are needed.

    All are also needed after the stages were repeated with more columns, as the first ones did not determine the
    labels; but not if the parts of the graph are more than the columns that the others read.
    """
    settings, n = job.context.settings, job.context.n
    if not settings.begins_with_valleys:
        return None
    if wider_columns.are_for_parts(job.run):
        return wider_columns.resumed(job)
    n_columns = 0 if job.run.done(wider_columns.WIDER, 0) else valley_columns(settings, n)
    return job.under(settings.by_valleys(n_columns)) if n_columns else None


def _are_plain(job: Job) -> bool:
    """Whether a given number of clusters has labels from valleys alone."""
    run = job.run
    return wider_columns.are_for_parts(run) or shown_number.is_plain(run, job.context.settings.n_clusters)


def _decided(job: Job) -> Job:
    """The job with the number of clusters that the data show; the same job if they show no valleys."""
    settings = job.context.settings
    if not specs_of(job.context).by_valleys or distinct.are_few(job.context):
        return job
    found = job.under(settings.decided(settings.n_clusters))
    _label(found)
    again = bent_clusters.begin_again(job)
    if again:
        return _attempt(again)
    wider = wider_columns.widened(job, found)
    if wider:
        graph_pipeline.solve(wider)
        return _decided(wider)
    n_clusters = shown_number.counted(job.run)
    return job.under(_with_number(settings, job.run, n_clusters)) if n_clusters else job


def _with_number(settings: Settings, run: Run, n_clusters: int) -> Settings:
    """Settings of an open fit with the number of clusters that it found.

    If the labelings that showed it do not agree on the clusters, all are computed, as if it had been given.
    """
    found: Settings = settings.decided(n_clusters, shown_number.is_disputed(run, n_clusters))
    return replace(found, columns_read=_columns_read(run))


def choose(job: Job) -> None:
    """Compute labels from the eigenvectors, for one number of clusters."""
    _label(job)
    if specs_of(job.context).by_valleys:
        with job.timed("valleys"):
            valleys.cut(job)
    with job.timed("select"):
        selection.run(job, job.plan.n_gammas)
        kernel_matrix.drop_weights(job)
    with job.timed("output"):
        output.run(job)


def _warn_of_other_number(context: Context) -> None:
    """Warn if all labelings clearly show another number of clusters than the requested one."""
    c, shown = context.settings.n_clusters, shown_number.counted(context.run)
    if not context.settings.reads_valleys or shown in (None, c) or not context.settings.number_given:
        return
    weakest = choice.weakest_valley(context) if c > shown else -shown_number.weakest_shown(context.run)
    limit = THRESHOLD / 2 if c > shown else -1.5 * THRESHOLD
    if weakest < limit and set(context.run.info(shown_number.NUMBER, 0)["votes"]) == {shown}:
        warn(
            f"{CLUSTERS}: got {c}, but the data show {shown} groups that valleys separate; see the "
            "result's valleys, or leave c out"
        )


def summary(job: Job) -> dict[str, Any]:
    """Diagnostics of the stages, with the number of clusters if the fit found it."""
    first = _by_valleys(job)
    if first and _are_plain(job):
        return smic_summary(first) | {"plain": True}
    job = wider_columns.resumed(job)
    settings, shown = job.context.settings, shown_number.counted(job.run)
    if not (settings.undecided and shown):
        # of few distinct rows valleys are not tested, but the number of columns is theirs all the same
        read = {"columns_read": settings.columns_read} if settings.undecided and settings.columns_read else {}
        return smic_summary(job) | read
    found = _with_number(settings, job.run, shown)
    return smic_summary(job.under(found)) | {"n_clusters": shown, "disputed": found.disputed}


def model(context: Context) -> out_of_sample.Model:
    """Model of a finished fit, for predictions."""
    return out_of_sample.Model(context)


def cut_run(base: Run, settings: Any, n_clusters: int) -> tuple[Overlay, Any]:
    """Make a run on top of a finished one, and settings, for another number of clusters.

    Returns
    -------
    run : Overlay
        In a temporary directory, on top of that of the fit.
    settings : Settings
    """
    context = Context(None, base, settings)
    distinct.refuse_cut(context, n_clusters)
    if n_clusters == settings.n_clusters and (settings.disputed or not settings.open):
        return Overlay.over(base, _of_cut(settings, base)), settings
    if settings.reads_valleys and _are_by_valleys(base, settings, n_clusters):
        return _cut_by_valleys(base, settings, n_clusters)
    trees = cut_specs(settings.as_requested, base.identity["input"]["rows"])
    width = {spec.n_eigenvectors for spec in trees if spec.assignment == "merge"}
    columns = tuple(m for m in _chosen_columns(context, n_clusters) if m >= n_clusters)
    columns = columns or tuple(sorted(m for m in width if m >= n_clusters))
    if not width:
        raise InputError(
            f"cut: got {n_clusters} clusters, but this fit has no over-segmented labeling to cut; fit again with that "
            "number, or with assignment='merge' and more rows"
        )
    if not columns or n_clusters < 2:
        raise InputError(
            f"cut: got {n_clusters} clusters, but this fit has trees of {sorted(width)} columns, which can be cut "
            f"into 2 to {max(width)}: give one of these numbers, or fit with a larger c for more"
        )
    if graph_parts.falls_apart(context, n_clusters):
        columns = tuple(sorted({int(n_clusters), *columns}))
    shown = settings.reads_valleys and shown_number.counted(base) is not None
    settings = replace(settings, n_clusters=int(n_clusters), columns=columns, undecided=False, open_from=0, open_to=0)
    settings = replace(settings, plain=False, disputed=False, valleys=shown)
    settings = replace(settings, columns_read=_columns_read(base) if shown else 0)
    specs = specs_of(Context(None, base, settings))
    frames = [labelings.frame_name(spec) for spec in specs if spec.n_eigenvectors not in width]
    return Overlay.over(base, (*_of_cut(settings, base), *frames)), settings


def _of_cut(settings: Any, base: Run) -> tuple[str, ...]:
    """Stages of a cut that are not those of the fit."""
    specs = specs_of(Context(None, base, settings))
    labeled = (labelings.Merging.DENSITY.labeling(eigenproblem) for eigenproblem in eigenproblems(settings))
    merged = (labelings.merged_name(specs[b]) for b in specs.by_valleys)
    return (*OF_ONE_NUMBER, *labeled, *merged, valleys.EVIDENCE)


def _are_by_valleys(base: Run, settings: Any, n_clusters: int) -> bool:
    """Whether a fit would have its labels by valleys alone: as the number that was found, plainly, or by distance."""
    found = shown_number.counted(base)
    if found is None:
        return False
    is_result = settings.open and found == n_clusters
    return is_result or shown_number.is_plain(base, n_clusters) or shown_number.are_joined(base, n_clusters)


def _cut_by_valleys(base: Run, settings: Any, n_clusters: int) -> tuple[Overlay, Any]:
    """A cut whose labels are those by valleys alone."""
    found = replace(settings.as_requested.by_valleys(_columns_read(base)).decided(int(n_clusters)), plain=False)
    return Overlay.over(base, _of_cut(found, base)), found


def _columns_read(base: Run) -> int:
    """Columns of the labelings of a fit that are merged by valleys."""
    found: int = base.info(shown_number.NUMBER, 0)["columns"]
    return found


def _chosen_columns(context: Context, n_clusters: int) -> list[int]:
    """Columns of the eigenvector set that the fit chose; if c was left open, of one set for so many clusters."""
    settings = context.settings
    if settings.open:
        of_open = eigenvector_sets(settings.as_requested, context.n)
        wanted = {round(factor * n_clusters) for factor in cut_set(settings.widths)}
        return sorted(m for m in wanted if of_open and m <= of_open[0][-1])
    w = 0 if settings.selection != "consensus" else choice.chosen_set(context)
    return sorted({specs_of(context)[b].n_eigenvectors for b in eigenvector_sets_of(context)[w]})
