"""distinct: labels of trivial fits: a single cluster, or one for each distinct row, or for several of few.

If there are no more distinct rows than requested clusters, a graph, an eigenvector or a k-means start would separate
equal rows by their position, so that any method would return arbitrary clusters. If there are no more of them than a
row has neighbours, a graph connects a row with its copies only, and would separate these; the distinct rows are then
joined instead.
"""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import AbsentResultError, ConvergenceWarning, InputError
from bigsmic.numerics import distinct
from bigsmic.numerics.distinct import Distinct
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import links, rowwise_output
from bigsmic.store import Run
from bigsmic.types import Floats, Integers
from bigsmic.validation import CLUSTERS
from bigsmic.warning import warn

STAGE = "distinct"
FEW = 20
"""Most distinct rows that are joined, if most rows have copies: the neighbours of a row would be copies otherwise."""


def counted(job: Job, is_all: bool = False, joins: bool = False) -> int | None:
    """Number of distinct rows, if no larger than the requested number of clusters; else None.

    Parameters
    ----------
    job : Job
    is_all : bool
        Whether the distinct rows are then the clusters, and no stage searches for others.
    joins : bool
        Whether they are joined, too, if there are a few more.

    Warns
    -----
    ConvergenceWarning
        There are fewer distinct rows than requested clusters.
    """
    context = job.context
    c = context.settings.n_clusters
    if c is None or c == 1 or context.settings.precomputed:
        return None
    most = _most(context)
    if not job.run.done(STAGE, 0) and _in_sample(context, most + 1) > most:
        return None
    job.run_steps(STAGE, [0], partial(_write, is_all=is_all, joins=joins))
    k = job.run.info(STAGE, 0)["rows"]
    if k < c and not context.settings.undecided:
        _refuse_names(job, k, c)
        warn(
            f"{CLUSTERS}: got {c} clusters, but no more than {k} rows differ after scaling; each of these is a "
            f"cluster, and equal rows are in one: labels are below {k}",
            ConvergenceWarning,
        )
    return k if k <= c else None


def _most(context: Context) -> int:
    """Number of distinct rows up to which they are counted."""
    return max(context.settings.n_clusters, FEW)


def _in_sample(context: Context, limit: int) -> int:
    """Number of distinct rows of the sample, at most `limit`; few rows are enough, unless most are equal."""
    found = Distinct(np.empty((0, context.d), np.float32), limit)
    for s in context.source_blocks:
        found += Distinct(context.column_scaler.apply(context.scan(s, "sample")[0]), limit)
        if len(found) == limit:
            break
    return len(found)


def _write(job: Job, block: int, is_all: bool, joins: bool) -> None:
    context, blocks, most = job.context, job.context.source_blocks, _most(job.context)
    c = context.settings.n_clusters
    found = job.sum_blocks(STAGE, blocks, partial(_distinct, limit=most + 1))
    k = len(found)
    is_free = not _side_inputs(job)  # with side inputs that are empty, a graph tells as many rows as clusters apart
    arrays = {"X": found.rows}
    info = {"rows": k, "is_exact": k <= most, "is_all": is_all and (k <= c if is_free else k < c)}
    if is_all and is_free and joins and c < k <= min(most, context.n // 2):
        counts = job.sum_blocks(STAGE, blocks, partial(_counts, rows=found.rows))
        arrays["cluster"] = distinct.joined(found.rows, counts, c)
        info |= {"is_all": True, "clusters": c}
    job.run.write(STAGE, block, arrays, info=info)


def _counts(context: Context, s: int, rows: Floats) -> Integers:
    """Copies of each distinct row in one block."""
    return np.bincount(distinct.nearest(context.scaled_columns(s), rows), minlength=len(rows))


def _distinct(context: Context, s: int, limit: int) -> Distinct:
    return Distinct(context.scaled_columns(s), limit)


def _refuse_names(job: Job, k: int, c: int) -> None:
    """Refuse links and known labels that require clusters which equal rows cannot form."""
    if names := _names(job):
        raise InputError(
            f"{CLUSTERS}: got {c} clusters with {', '.join(names)}, but no more than {k} rows differ; ask for {k} at "
            "most"
        )


def is_trivial(job: Job, on_graph: bool) -> bool:
    """Whether a fit is trivial: one cluster is requested, or the clusters are the distinct rows, or several of few."""
    context = job.context
    if context.settings.n_clusters == 1:
        return True
    may_be_all = not context.settings.undecided and not _names(job)
    counted(job, may_be_all, on_graph)
    return may_be_all and is_all(context)


def label(job: Job) -> None:
    """Write labels, posteriors and agreement of a trivial fit."""
    context = job.context
    is_single = context.settings.n_clusters == 1
    k = 1 if is_single else _n_clusters(context.run)
    names = ("labels", "posterior", "agreement", *(["noise"] if context.settings.finds_noise else []))
    rowwise_output.create_arrays(context, names, k)
    job.fill("output", context.source_blocks, _label_single if is_single else _label)


def _label_single(context: Context, s: int) -> None:
    height = int(context.source_bounds[s + 1] - context.source_bounds[s])
    ones = np.ones(height, np.float32)
    found = {"labels": np.zeros(height, np.int32), "posterior": ones[:, None], "agreement": ones}
    rowwise_output.write(context, s, found)


def _names(job: Job) -> list[str]:
    """Names of the side inputs that distinguish equal rows, if there are any."""
    found = _side_inputs(job)
    return sorted({"links" if name in links.FIELDS else name for name in found if np.size(found[name])})


def _side_inputs(job: Job) -> dict[str, NDArray[Any]]:
    """Side inputs that distinguish equal rows; of a method with links also if there are none."""
    return {name: array for name, array in job.side_inputs.items() if name != "sample_weight"}


def fewer(job: Job) -> Job:
    """The job with no more clusters than distinct rows, for methods whose model has a part per cluster."""
    k = counted(job)
    if k is None or k == job.context.settings.n_clusters:
        return job
    return job.under(replace(job.context.settings, n_clusters=k))


def _label(context: Context, s: int) -> None:
    model, X = Model(context), context.scaled_columns(s)
    posterior, labels = model(X)
    found = {"labels": labels, "posterior": posterior, "agreement": np.ones(len(labels), np.float32)}
    if context.settings.finds_noise:
        found["noise"] = model.noise(X)
    rowwise_output.write(context, s, found)


def summary(context: Context) -> dict[str, int]:
    """Number of clusters, if fewer were found than requested; else empty."""
    if not context.run.done(STAGE, 0) or context.settings.undecided:
        return {}
    k = context.run.info(STAGE, 0)["rows"]
    return {"n_clusters": k} if k < context.settings.n_clusters else {}


def is_all(context: Context) -> bool:
    """Whether the clusters of a finished fit are its distinct rows, or several of few."""
    return context.run.done(STAGE, 0) and context.run.info(STAGE, 0)["is_all"]


def _n_clusters(run: Run) -> int:
    """Number of clusters of a trivial fit: the distinct rows, unless these were joined."""
    info = run.info(STAGE, 0)
    found: int = info.get("clusters", info["rows"])
    return found


def are_few(context: Context) -> bool:
    """Whether rows repeat, and there are no more distinct ones than clusters are allowed."""
    if not context.run.done(STAGE, 0):
        return False
    return context.run.info(STAGE, 0)["rows"] <= min(context.settings.n_clusters, context.n - 1)


def refuse_cut(context: Context, n_clusters: int = 0) -> None:
    """Refuse to cut a fit without trees: of a single cluster, or of equal rows, into more clusters than differ."""
    if context.settings.n_clusters == 1 and not context.settings.open:
        raise AbsentResultError(
            "cut: the fit was given a single cluster, and has neither labelings nor trees; fit again, without a number "
            "of clusters or with a larger one"
        )
    if not context.run.done(STAGE, 0):
        return
    info = context.run.info(STAGE, 0)
    if info["is_all"] or (n_clusters > info["rows"] and info["is_exact"]):
        raise InputError(
            f"cut: no more than {info['rows']} rows of the fit differ, and equal rows are in one cluster; fit again, "
            f"for at most {info['rows']} clusters"
        )


class Model:
    """Model that assigns new rows to the cluster of the nearest distinct row.

    Parameters
    ----------
    context : Context
    """

    reads: ClassVar = {STAGE: ("X", "cluster")}

    def __init__(self, context: Context) -> None:
        self.rows = context.run.read(STAGE, 0, "X")
        self.n_clusters = _n_clusters(context.run)
        is_each = self.n_clusters == len(self.rows)
        self.clusters = np.arange(len(self.rows), dtype=np.int32) if is_each else context.run.read(STAGE, 0, "cluster")

    def __call__(self, X: Floats) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Posteriors, 0 or 1, and labels."""
        labels = self.clusters[distinct.nearest(X, self.rows)]
        return np.eye(self.n_clusters, dtype=np.float32)[labels], labels

    def noise(self, X: Floats, remainders: Floats | None = None) -> NDArray[np.float32]:
        """Noise scores: 0, as equal rows have no distances for comparison."""
        return np.zeros(len(X), np.float32)
