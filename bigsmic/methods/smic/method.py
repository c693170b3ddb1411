"""SMIC, the default method: scan -> route -> neighbors -> graph -> eigen -> assign -> select -> output."""

from dataclasses import replace
from typing import Any

from bigsmic.errors import InputError
from bigsmic.methods.smic.diagnostics import smic_summary as summary
from bigsmic.methods.smic.planning import plan
from bigsmic.methods.smic.result import SMICResult as Result
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.settings.smic import Settings
from bigsmic.stages import (
    distinct,
    eigenvectors,
    graph_pipeline,
    kernel_matrix,
    labelings,
    out_of_sample,
    output,
    selection,
)
from bigsmic.stages.graph_pipeline import temporary
from bigsmic.stages.labeling_specs import eigenproblems, eigenvector_sets_of, labeling_specs, specs_of
from bigsmic.store import Overlay, Run

__all__ = ["Result", "Settings", "choose", "cut_run", "model", "plan", "run", "summary", "temporary"]

OF_ONE_CUT = ("assigned", "scores", "consensus", "eigenvector_sets", "final", "sharpness", "output")
"""Stages that depend on the number of clusters."""


def run(job: Job) -> None:
    """Run the stages of a fit; each does what the ledger lacks."""
    if not graph_pipeline.scan_rows(job):
        return
    graph_pipeline.build_graph(job)
    with job.timed("eigen"):
        eigenvectors.run(job)
    if job.context.settings.undecided:
        with job.timed("assign"):
            labelings.frames(job)
        return
    choose(job)


def choose(job: Job) -> None:
    """Label the rows by their eigenvectors, for one number of clusters."""
    with job.timed("assign"):
        labelings.run(job)
    with job.timed("select"):
        selection.run(job, job.plan.n_gammas)
        kernel_matrix.drop_weights(job)
    with job.timed("output"):
        output.run(job)


def model(context: Context) -> out_of_sample.Model:
    """Model of a finished fit, for predictions."""
    return out_of_sample.Model(context)


def cut_run(base: Run, settings: Any, n_clusters: int) -> tuple[Overlay, Any]:
    """Make a run on top of a finished one, and settings, for another number of clusters.

    Returns
    -------
    run : Overlay
        In a temporary directory over that of the fit.
    settings : Settings
    """
    distinct.refuse_cut(base, n_clusters)
    width = {
        spec.n_eigenvectors
        for spec in labeling_specs(settings, base.identity["input"]["rows"])
        if spec.assignment == "merge"
    }
    context = Context(None, base, settings)
    columns = tuple(m for m in _chosen_columns(context) if m >= n_clusters)
    columns = columns or tuple(sorted(m for m in width if m >= n_clusters))
    if not columns or n_clusters < 2:
        raise InputError(
            f"cut: got {n_clusters} clusters; this fit has trees of {sorted(width)} columns, which cut into 2 to "
            f"{max(width, default=0)}: fit with a larger c for more"
        )
    if eigenvectors.falls_apart(context, n_clusters):
        if settings.undecided or n_clusters != settings.n_clusters:
            columns = tuple(sorted({int(n_clusters), *columns}))
        elif columns == (n_clusters,):
            settings = replace(settings, shrinkage=(0.0,))
    settings = replace(settings, n_clusters=int(n_clusters), columns=columns, undecided=False)
    frames = [
        labelings.frame_name(spec) for spec in labeling_specs(settings, context.n) if spec.n_eigenvectors not in width
    ]
    own = (*OF_ONE_CUT, *frames, *(labelings.labeling_name(eigenproblem) for eigenproblem in eigenproblems(settings)))
    return Overlay.over(base, own), settings


def _chosen_columns(context: Context) -> list[int]:
    """Columns of the eigenvector set that the fit chose; of the first one where it did not."""
    settings = context.settings
    w = 0 if settings.undecided or settings.selection != "consensus" else selection.chosen_set(context)
    return sorted({specs_of(context)[b].n_eigenvectors for b in eigenvector_sets_of(context)[w]})
