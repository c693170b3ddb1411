"""3SMIC: SMIC with must-links and cannot-links; it has the stages of SMIC with another matrix and another choice.

The matrix of every eigenproblem is U of `numerics.constraints.links`. Labelings are rated by information and by the
links that they violate; the labels of the consensus of the best ones are propagated.
"""

import numbers
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.methods.sections.semisupervised import pages
from bigsmic.methods.smic import diagnostics as smic_diagnostics
from bigsmic.methods.smic.planning import plan
from bigsmic.methods.smic.result import LabelingsResult
from bigsmic.methods.smic.tree_cuts import cut
from bigsmic.numerics.constraints.links import make_links
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.settings.semisupervised import FEW_ROWS, FEW_T, Settings
from bigsmic.stages import (
    eigenvectors,
    graph_pipeline,
    kernel_matrix,
    labelings,
    link_propagation,
    link_scores,
    links,
    nystrom,
    out_of_sample,
    output,
    selection,
)
from bigsmic.stages.graph_pipeline import temporary
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems, specs_of
from bigsmic.store import Overlay, Run
from bigsmic.store.side_inputs import read_array
from bigsmic.types import Floats, Integers, StorageOptions

__all__ = ["Result", "Settings", "admit", "choose", "cut_run", "model", "pages", "plan", "run", "summary", "temporary"]

OF_ONE_NUMBER = (
    *("assigned", "scores", "kept", "consensus", "propagated", "violated"),
    *("final", "sharpness", "numbering", "names", "output"),
)
"""Stages that depend on the number of clusters."""


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
    beside : dict of str to ndarray
        Fields of :class:`bigsmic.numerics.constraints.links.Links`.

    Raises
    ------
    InputError
        See :func:`bigsmic.numerics.constraints.links.make_links`.
    """
    must, cannot, labels = (read_array(name, given.get(name), storage_options) for name in settings.side_inputs)
    found = make_links(n_rows, settings.n_clusters, must=must, cannot=cannot, labels=labels, close=settings.close_links)
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
    with job.timed("eigen"):
        eigenvectors.run(job)
    choose(job)


def choose(job: Job) -> None:
    """Compute labels, or the curve over numbers of clusters, from the eigenvectors."""
    with job.timed("assign"):
        labelings.run(job)
    with job.timed("select"):
        selection.score(job, job.plan.n_gammas)
        link_scores.run(job)
        if not job.context.settings.undecided:
            selection.agree(job)
            link_propagation.run(job)
    if not job.context.settings.undecided:
        with job.timed("output"):
            nystrom.run(job)
            kernel_matrix.drop_weights(job)
            output.run(job)


def summary(job: Job) -> dict[str, Any]:
    """Diagnostics of the stages, with weights and violated links of every candidate."""
    context = job.context
    found = smic_diagnostics.smic_summary(job)
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


def _curve(context: Context, read: Callable[..., Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best candidate of every number of clusters."""
    lsmi, score = context.run.read("scores", 0, "lsmi"), read("criterion")
    curve = []
    for same in link_scores.numbers_of(context):
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
    if (
        isinstance(n_clusters, bool)
        or not isinstance(n_clusters, numbers.Integral)
        or n_clusters not in settings.numbers
    ):
        raise InputError(
            f"cut: got {n_clusters} clusters, but this fit allows {settings.numbers[0]} to {settings.numbers[-1]}"
        )
    settings = replace(settings, n_clusters=int(n_clusters), undecided=False, open_from=0, open_to=0, eta=(0.0,))
    own = [labelings.Merging.DENSITY.labeling(eigenproblem) for eigenproblem in eigenproblems(settings)]
    return Overlay.over(base, (*OF_ONE_NUMBER, *own)), settings


class Result(LabelingsResult):
    """Result of a fit with links.

    Attributes
    ----------
    n_links, n_violated : int
        Linked pairs, including those that groups imply, and those that the labels violate.
    violated : dict of str to ndarray
        ``must_links`` and ``cannot_links`` (m, 2): the given pairs that are violated, as row numbers; ``strays``: rows
        of known label, or of a closed group, whose cluster differs from that of most of their group.
    curve : pandas.DataFrame
        For a fit with an open number of clusters: the best candidate for every number, with its LSMI, the LSMI as a
        share of its largest possible value, ``(c - 1) / 2``, and the links that it violates. It is an aid, not a
        decision: the LSMI rises with the number of clusters, and links are violated if clusters are too few or
        link_weights too small.
    """

    _tells: ClassVar = {"violated": None}
    _hint: ClassVar = "curve"

    @cached_property
    def agreement(self) -> Any:
        """Share of the labelings that vote for the label of each row: ndarray of float32, shape (n,)."""
        return np.asarray(self._array("agreement"))

    @property
    def n_links(self) -> Any:
        """Number of linked pairs."""
        return self._links("n_links")

    @property
    def n_violated(self) -> Any:
        """Number of linked pairs that the labels violate."""
        return self._links("n_violated")

    def _links(self, name: str) -> Any:
        return self.diagnostics.get("links", {}).get(name, 0)

    def _choice_lines(self) -> list[str]:
        links = f"  links      {self.n_violated:,} of {self.n_links:,} not kept"
        return [*super()._choice_lines(), links] if self.n_links else super()._choice_lines()

    @property
    def violated(self) -> Any:
        """The links that the labels violate."""
        if self.settings.undecided:
            raise InputError("violated: the number of clusters is open; see curve, then cut(c).violated")
        if self.settings.n_clusters == 1:
            nothing = np.zeros((0, 2), np.int64)
            return {"must_links": nothing, "cannot_links": nothing, "strays": nothing[:, 0]}
        read = self._run.reader("violated", 0)
        return {"must_links": read("must"), "cannot_links": read("cannot"), "strays": read("strays")}

    def cut(self, n_clusters: int) -> Self:
        """Result for one number of clusters, from the eigenvectors of a fit with an open number: no refit.

        With two clusters the weight of cannot-links is 0 here, while a fit for two clusters chooses it.
        """
        run, settings = cut(self._run, self.settings, n_clusters)
        return type(self)(run, settings, temporary=True, base=self)

    @property
    def curve(self) -> Any:
        """Score and violations over numbers of clusters."""
        if not self.settings.undecided:
            raise InputError("curve: the fit was given one number of clusters; give a range, such as c=range(2, 12)")
        return pd.DataFrame(self.diagnostics.get("curve", [])).set_index("n_clusters")
