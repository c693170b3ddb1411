"""3SMIC: SMIC with must-links and cannot-links; it has the stages of SMIC with another matrix and another choice.

The matrix of every eigenproblem is U of `numerics.constraints.links`. Labelings are rated by information and by the
links that they violate; the labels of the consensus of the best ones are propagated.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.methods.sections.semisupervised import pages
from bigsmic.methods.smic import diagnostics as smic_diagnostics
from bigsmic.methods.smic.planning import plan as smic_plan
from bigsmic.methods.smic.result import LabelingsResult
from bigsmic.methods.smic.tree_cuts import cut
from bigsmic.numerics.constraints.links import make_links
from bigsmic.runtime import planning
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.planning import Plan
from bigsmic.settings.semisupervised import FEW_ROWS, FEW_T, Settings
from bigsmic.stages import (
    consensus,
    distinct,
    graph_pipeline,
    kernel_matrix,
    labelings,
    link_propagation,
    link_scores,
    links,
    number,
    nystrom,
    out_of_sample,
    output,
    selection,
    shown_number,
    update_log,
    valleys,
    wider_columns,
)
from bigsmic.stages.labeling_specs import (
    Eigenproblem,
    LabelingSpecs,
    eigenproblems,
    numbers_of,
    specs_of,
    valley_columns,
)
from bigsmic.store import Overlay, Run
from bigsmic.store.side_inputs import read_array
from bigsmic.types import Floats, Integers, StorageOptions
from bigsmic.validation import CLUSTERS

__all__ = ["Result", "Settings", "admit", "choose", "cut_run", "model", "pages", "plan", "run", "summary", "temporary"]

OF_ONE_NUMBER = (
    *("assigned", "scores", "kept", "consensus", "propagated", "violated"),
    *("final", "sharpness", valleys.EVIDENCE, "numbering", "names", "output"),
    *update_log.AFTER_FIT,
)
"""Stages that depend on the number of clusters."""


def temporary(settings: Any) -> tuple[str, ...]:
    """Stages that are deleted when a fit has ended."""
    return (*graph_pipeline.temporary(settings), *valleys.TEMPORARY)


def admit(
    settings: Any, given: Mapping[str, Any], n_rows: int, storage_options: StorageOptions = None
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Read and check the links.

    Parameters
    ----------
    settings : Settings
    given : dict
        Options by name; links and labels as arrays or files, see :func:`bigsmic.store.side_inputs.read_array`.
    n_rows : int
    storage_options : dict, optional

    Returns
    -------
    settings : Settings
        Without link_weights that the links do not need; with the default t for few rows, if none was given.
    side_inputs : dict of str to ndarray
        Fields of :class:`bigsmic.numerics.constraints.links.Links`.

    Raises
    ------
    InputError
        See :func:`bigsmic.numerics.constraints.links.make_links`.
    """
    must, cannot, labels = (read_array(name, given.get(name), storage_options) for name in settings.side_inputs)
    most = settings.n_clusters
    allowed = None if settings.valleys and not settings.open_to else range(settings.open_from or most, most + 1)
    found = make_links(n_rows, allowed, must=must, cannot=cannot, labels=labels, close=settings.close_links)
    if given.get("t") is None and n_rows <= FEW_ROWS:
        settings, _ = replace(settings, t=FEW_T).fitted_to(n_rows)
    sizes = found.sizes
    if not (len(found.must) or (sizes > 1).any()):
        settings = replace(settings, gamma=settings.gamma[:1])
    if not (len(found.cannot) or len(found.apart)):
        settings = replace(settings, eta=settings.eta[:1])
    return settings, {name: getattr(found, name) for name in links.FIELDS}


def run(job: Job) -> None:
    """Run the stages of SMIC up to the eigenvectors, with links in every kernel, and then the choice."""
    if not graph_pipeline.scan_rows(job):
        return
    graph_pipeline.build_graph(job)
    with job.timed("graph"):
        links.run(job)
    if may_count(job.context):
        job = _decided(wider_columns.resumed(job))
    else:
        job = _open(job)
        graph_pipeline.solve(job)
    choose(job)


def may_count(context: Context) -> bool:
    """Whether the number of clusters is open, and rows are enough and distinct enough to find it."""
    settings = context.settings
    return settings.reads_valleys and valley_columns(settings, context.n) > 0 and not distinct.are_few(context)


def _open(job: Job) -> Job:
    """The job that leaves the number of clusters open; the same job if it was given."""
    settings = job.context.settings
    return job.under(settings.curved()) if settings.undecided else job


def _decided(job: Job) -> Job:
    """The job with the number of clusters that valleys and links show; else the job that leaves it open."""
    graph_pipeline.solve(max(_open(job), job, key=lambda one: specs_of(one.context).most_eigenvectors))
    with job.timed("assign"):
        labelings.frames(job)
    found = job.under(job.context.settings.counted())
    with found.timed("assign"):
        labelings.run(found)
    with found.timed("valleys"):
        valleys.merge_groups(found)
        n_clusters = number.count(found)
    wider = wider_columns.widened(job, found)
    if wider:
        return _decided(wider)
    return _with_number(job, n_clusters) if n_clusters else _open(job)


def _with_number(job: Job, n_clusters: int) -> Job:
    """The job with the number of clusters that was found, and a plan for it."""
    n_columns = valley_columns(job.context.settings, job.context.n)
    if n_clusters > n_columns:
        raise InputError(
            f"{CLUSTERS}: links need at least {n_clusters} clusters, and no more than {n_columns} are looked for; "
            "give c"
        )
    return job.replanned(job.context.settings.decided(n_clusters, n_columns))


def plan(
    size: planning.Size,
    settings: Any,
    memory_limit: int | None = None,
    n_threads: int = 1,
    checkpoints: bool = True,
) -> Plan:
    """Plan a fit; see :func:`bigsmic.methods.smic.planning.plan`.

    If the number of clusters is open, the plan has room for finding it, for labels with as many clusters as may be
    found, and for the curve.
    """
    plan_one = partial(smic_plan, size, memory_limit=memory_limit, n_threads=n_threads, checkpoints=checkpoints)
    if not settings.undecided:
        return plan_one(settings)
    n_columns = valley_columns(settings, size.n)
    if not n_columns:
        return plan_one(settings.curved())
    parts = settings, settings.decided(min(settings.n_clusters, n_columns), n_columns), settings.curved()
    return planning.joined([plan_one(part) for part in parts], ("assign", "select"), n_threads)


def choose(job: Job) -> None:
    """Compute labels, or the curve over numbers of clusters, from the eigenvectors."""
    with job.timed("assign"):
        labelings.run(job)
    with job.timed("select"):
        selection.score(job, job.plan.n_gammas)
        link_scores.run(job)
        if not job.context.settings.undecided:
            consensus.agree(job)
            link_propagation.run(job)
    if job.context.settings.undecided:
        return
    if job.context.settings.reads_valleys:
        with job.timed("valleys"):
            valleys.test(job, {0: link_propagation.read_labels})
    with job.timed("output"):
        nystrom.run(job)
        kernel_matrix.drop_weights(job)
        output.run(job)


def summary(job: Job) -> dict[str, Any]:
    """Diagnostics of the stages, with weights and violated links of every candidate."""
    job, of_number = _as_it_ended(job)
    context = job.context
    found = smic_diagnostics.smic_summary(job) | of_number
    if context.settings.n_clusters == 1:
        return found
    read = context.run.reader("kept", 0)
    rows = [
        {"link_gamma": spec.eigenproblem.link_weights.gamma, "link_eta": spec.eigenproblem.link_weights.eta}
        | {name: int(read(name)[b]) for name in ("n_violated", "n_held_out")}
        | {"criterion": float(read("criterion")[b])}
        for b, spec in enumerate(specs_of(context))
    ]
    if context.settings.undecided:
        links_of = {"n_links": job.run.info("kept", 0)["n_links"]}
        return found | {"links": links_of, "curve": _curve(context, read, rows)}
    candidates = [one | row for one, row in zip(found["candidates"], rows, strict=True)]
    return found | {"candidates": candidates, "links": job.run.info("violated", 0)}


def _as_it_ended(job: Job) -> tuple[Job, dict[str, Any]]:
    """The job as it was when it ended, and the evidence for the number of clusters, if that was left open."""
    if not may_count(job.context):
        return _open(job), {}
    wide, n_clusters = wider_columns.resumed(job), shown_number.counted(job.run)
    evidence = {"valleys": job.run.info(shown_number.NUMBER, 0)}
    if not n_clusters:
        return _open(wide), evidence
    settings = wide.context.settings
    n_columns = valley_columns(settings, job.context.n)
    return job.under(settings.decided(n_clusters, n_columns)), evidence | {"n_clusters": n_clusters}


def _curve(context: Context, read: Callable[..., Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best candidate of every number of clusters."""
    lsmi, score = context.run.read("scores", 0, "lsmi"), read("criterion")
    curve = []
    for same in numbers_of(context):
        b = int(same[np.argmax(score[same])])
        spec = specs_of(context)[b]
        number = spec.n_eigenvectors
        curve.append(
            {"n_clusters": int(number), "lsmi": float(lsmi[b]), "lsmi_of_limit": float(2 * lsmi[b] / (number - 1))}
            | {"kernel": spec.eigenproblem.kernel, "t": spec.eigenproblem.t, "assignment": spec.assignment}
            | rows[b]
        )
    return curve


def model(context: Context) -> "Model":
    """Model of a finished fit, for predictions."""
    return Model(context)


class Model(out_of_sample.Model):
    """Model that extends the eigenvectors of U to new rows by :mod:`bigsmic.stages.nystrom`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.reads |= {"kept": ("taken", "criterion")}

    def _basis_name(self, eigenproblem: Eigenproblem) -> str:
        return nystrom.name(eigenproblem)

    def _basis(self, eigenproblem: Eigenproblem, known: Integers) -> tuple[Floats, Floats]:
        E = self._gather(lambda p: self.context.run.read(self._basis_name(eigenproblem), p, "E"), known)
        return E, np.ones(E.shape[1])


def cut_run(base: Run, settings: Any, n_clusters: int) -> tuple[Overlay, Any]:
    """Make a run on top of that of a finished fit, and settings, for another number of clusters.

    Returns
    -------
    run : Overlay
        In a temporary directory, on top of that of the fit.
    settings : Settings
    """
    numbers_allowed = _numbers_of_cuts(settings)
    if n_clusters not in numbers_allowed:
        raise InputError(f"cut: got {n_clusters} clusters, but {_what_may_be_cut(settings, numbers_allowed)}")
    settings = _cut_settings(settings, int(n_clusters))
    n = base.identity["input"]["rows"]
    frames = [labelings.frame_name(spec) for spec in LabelingSpecs(settings, n)]
    own = [
        *(name for name in frames if not base.done(name, 0)),
        *(labelings.Merging.DENSITY.labeling(eigenproblem) for eigenproblem in eigenproblems(settings)),
        *(nystrom.name(eigenproblem) for eigenproblem in eigenproblems(settings)),
    ]
    return Overlay.over(base, (*OF_ONE_NUMBER, *own)), settings


def _what_may_be_cut(settings: Any, numbers: range) -> str:
    """The numbers into which a fit can be cut, and the remedy, for a message."""
    if not (settings.undecided or settings.open):
        return f"this fit was given {settings.n_clusters}, and cannot be cut: fit again with the other number"
    if not numbers:
        return "this fit has too few columns to be cut: fit again with that number"
    return f"this fit allows {numbers[0]} to {numbers[-1]}: give one of these numbers, or fit again with the other one"


def _numbers_of_cuts(settings: Any) -> range:
    """Numbers of clusters that a fit of an open number can be cut into."""
    if settings.undecided:
        return range(2, settings.n_clusters + 1)
    return range(2, settings.columns_read) if settings.open else range(settings.n_clusters, settings.n_clusters + 1)


def _cut_settings(settings: Any, n_clusters: int) -> Any:
    """Settings of a cut: those of labels with a number that was found, or of the curve, for another number.

    A fit that was given its number can be cut at this one alone, and its labels are then those of the cut.
    """
    if not (settings.undecided or settings.open):
        return settings
    found = settings.curved() if settings.undecided else settings.decided(n_clusters)
    return replace(found, n_clusters=n_clusters, undecided=False, open_from=0, open_to=0, eta=(0.0,))


class Result(LabelingsResult):
    """Result of a fit with links.

    Attributes
    ----------
    n_links, n_violated : int
        Linked pairs, including those that groups imply, and those that the labels violate.
    violated : dict of str to ndarray of int64
        ``must_links`` and ``cannot_links`` (m, 2): the given pairs that are violated, as row numbers; ``strays``: rows
        of known label, or of a closed group, whose cluster differs from that of most of their group, (m,).
    curve : pandas.DataFrame
        For a fit with an open number of clusters: the best candidate for every number, with its LSMI, the LSMI as a
        share of its largest possible value, ``(c - 1) / 2``, and the links that it violates. It is an aid, not a
        decision: the LSMI rises with the number of clusters, and links are violated if clusters are too few or
        link_weights too small.
    """

    _tells: ClassVar = {"violated": None, **LabelingsResult._tells}
    _hint: ClassVar = "curve"

    @property
    def n_links(self) -> int:
        """Number of linked pairs."""
        return self._links("n_links")

    @property
    def n_violated(self) -> int:
        """Number of linked pairs that the labels violate."""
        return self._links("n_violated")

    def _links(self, name: str) -> int:
        return self.diagnostics.get("links", {}).get(name, 0)

    def _choice_lines(self) -> list[str]:
        links = f"  links      {self.n_violated:,} of {self.n_links:,} not kept"
        return [*super()._choice_lines(), links] if self.n_links else super()._choice_lines()

    @property
    def violated(self) -> Any:
        """The links that the labels violate: a dict of ndarrays; InputError if the number of clusters is open."""
        if self.settings.undecided:
            raise InputError("violated: the number of clusters is open; see curve, then cut(c).violated")
        if self.settings.n_clusters == 1 or distinct.is_all(self._context):
            nothing = np.zeros((0, 2), np.int64)
            return {"must_links": nothing, "cannot_links": nothing, "strays": nothing[:, 0]}
        read = self._run.reader("violated", 0)
        return {"must_links": read("must"), "cannot_links": read("cannot"), "strays": read("strays")}

    def cut(self, n_clusters: int) -> Self:
        """Result for one number of clusters, from the eigenvectors of a fit with an open number: no refit.

        With two clusters the weight of cannot-links is 0 here, while a fit for two clusters chooses it.

        Parameters
        ----------
        n_clusters : int
            2 up to the largest number of the range, or 30 with None; where the fit has found a number, below the number
            of eigenvectors. Where it was given one, that number, which gives the labels of the fit.

        Returns
        -------
        result : Result
            In a temporary directory.

        Raises
        ------
        InputError
            The number is no integer or out of range.
        """
        run, settings = cut(self._run, self.settings, n_clusters)
        return type(self)(run, settings, temporary=True, base=self)

    @property
    def curve(self) -> Any:
        """Score and violations by number of clusters: a pandas DataFrame; InputError if the number is not open."""
        if self.settings.found:
            raise InputError("curve: the fit found its number of clusters; valleys.curve has the evidence for it")
        if not self.settings.undecided:
            raise InputError("curve: the fit was given one number of clusters; give a range, such as c=range(2, 12)")
        return pd.DataFrame(self.diagnostics.get("curve", [])).set_index("n_clusters")
