"""distinct: where no more rows differ than there are to be clusters, each of them is one, whatever the method.

A graph, an eigenvector or a k-means start would tell equal rows apart by their place, and make up clusters.
"""

import warnings
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from bigsmic.errors import ConvergenceWarning, InputError
from bigsmic.numerics import distinct
from bigsmic.numerics.distinct import Distinct
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import rowwise_output

STAGE = "distinct"


def counted(job: Job, is_all=False):
    """Number of rows that differ, where they are no more than the clusters that are asked for; else None.

    Parameters
    ----------
    job : Job
    is_all : bool
        Whether they are the clusters then, and no stage finds others.

    Warns
    -----
    ConvergenceWarning
        They are fewer.
    """
    context = job.context
    c = context.settings.n_clusters
    if c is None or c == 1 or context.settings.precomputed:
        return None
    if not job.run.done(STAGE, 0) and _in_sample(context, c + 1) > c:
        return None
    job.run_steps(STAGE, [0], partial(_write, is_all=is_all))
    k = job.run.info(STAGE, 0)["rows"]
    if k < c and not context.settings.undecided:
        _refuse_names(context, k, c)
        warnings.warn(
            f"c: got {c} clusters, but no more than {k} rows differ after scaling; each of these is a cluster, and "
            f"equal rows are in one: labels are below {k}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return k if k <= c else None


def _in_sample(context, limit):
    """Rows of the sample that differ, `limit` at most: the first ones will do, unless most rows are equal."""
    found = Distinct(np.empty((0, context.d), np.float32), limit)
    for s in context.source_blocks:
        found += Distinct(context.scaler.apply(context.scan(s, "sample")[0]), limit)
        if len(found) == limit:
            break
    return len(found)


def _write(job, block, is_all):
    limit = job.context.settings.n_clusters + 1
    found = job.sum_blocks(STAGE, job.context.source_blocks, partial(_distinct, limit=limit))
    job.run.write(STAGE, block, {"X": found.rows}, info={"rows": len(found), "is_all": is_all and len(found) < limit})


def _distinct(context: Context, s: int, limit: int):
    return Distinct(context.scaled_block(s), limit)


def _refuse_names(context, k, c):
    """Links and known labels ask for clusters that equal rows cannot make."""
    if _names(context):
        raise InputError(
            f"c: got {c} clusters with {', '.join(_names(context))}, but no more than {k} rows differ; "
            f"ask for {k} at most"
        )


def settle(job: Job):
    """Label the rows, if no more of them differ than there are to be clusters; whether that was all there is to do."""
    context = job.context
    is_all = not context.settings.undecided and not _names(context)
    with job.timed("scan"):
        k = counted(job, is_all)
    if k is None or not is_all:
        return False
    with job.timed("output"):
        rowwise_output.create_arrays(context, ("labels", "posterior", "agreement"), k)
        job.fill("output", context.source_blocks, _label)
    return True


def _names(context):
    """What came beside the rows and tells equal ones apart."""
    return sorted(set(context.run.identity["input"].get("side_inputs", ())) - {"sample_weight"})


def fewer(job: Job):
    """The job, asked for no more clusters than there are rows that differ, for methods whose model must know."""
    with job.timed("scan"):
        k = counted(job)
    if k is None or k == job.context.settings.n_clusters:
        return job
    return job.under(replace(job.context.settings, n_clusters=k))


def _label(context: Context, s: int):
    posterior, labels = Model(context)(context.scaled_block(s))
    rowwise_output.write(
        context, s, {"labels": labels, "posterior": posterior, "agreement": np.ones(len(labels), np.float32)}
    )


def summary(context: Context):
    """How many clusters there are, where it was not as many as were asked for; empty elsewhere."""
    if not context.run.done(STAGE, 0) or context.settings.undecided:
        return {}
    k = context.run.info(STAGE, 0)["rows"]
    return {"n_clusters": k} if k < context.settings.n_clusters else {}


def is_all(context: Context):
    """Whether the clusters of a finished fit are its distinct rows, and nothing else was found."""
    return context.run.done(STAGE, 0) and context.run.info(STAGE, 0)["is_all"]


def refuse_cut(run, n_clusters=0):
    """Raise InputError for what a fit of equal rows has not: trees, or more clusters than distinct rows."""
    if not run.done(STAGE, 0):
        return
    info = run.info(STAGE, 0)
    if info["is_all"] or n_clusters > info["rows"]:
        raise InputError(
            f"cut: no more than {info['rows']} rows of the fit differ, and each of these is a cluster; "
            f"fit again for fewer clusters than {info['rows']}"
        )


class Model:
    """New rows are in the cluster of the distinct row that is nearest.

    Parameters
    ----------
    context : Context
    """

    reads: ClassVar = {STAGE: ("X",)}

    def __init__(self, context):
        self.rows = context.run.read(STAGE, 0, "X")
        self.n_clusters = len(self.rows)

    def __call__(self, X):
        """Posteriors, 0 or 1, and labels."""
        labels = distinct.nearest(X, self.rows)
        return np.eye(self.n_clusters, dtype=np.float32)[labels], labels
