"""draft and outvoted: labels of a consensus, and those of rows that their neighbours outvote."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph import neighbor_graph
from bigsmic.numerics.labeling import neighbor_votes as numerics
from bigsmic.numerics.labeling import noise
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import gaussians, kernel_matrix
from bigsmic.stages.labeling_specs import specs_of, widest
from bigsmic.stages.noise import log_distances
from bigsmic.types import Floats, Integers

DRAFT, OUTVOTED = "draft", "outvoted"


def are_counted(context: Context) -> bool:
    """Whether neighbours may outvote a consensus.

    Not where clusters have no shapes, as parts of the graph, between which hardly any neighbours are; nor where
    labelings agree on what valleys show, and few rows lie between clusters.
    """
    specs = specs_of(context)
    return len(specs.valley_sets) < len(specs.sets) and gaussians.read(context) is not None


def run(job: Job) -> NDArray[np.bool_]:
    """Let the neighbours of every row of the draft vote.

    Returns
    -------
    may_leave : ndarray of bool, shape (c,)
        Whether some rows of each cluster stay in it, so that the others may leave.
    """
    job.fill(OUTVOTED, job.context.blocks, _vote)
    staying = job.run.gather(OUTVOTED, job.context.blocks, ["staying"])
    total: Integers = np.sum([counts for (counts,) in staying], axis=0)
    return total > 0


def _vote(context: Context, p: int) -> None:
    kernel, c = kernel_matrix.weights_block(context, widest(context), p), context.settings.n_clusters
    own, around = _labels(context, p), context.at(DRAFT, partial(_labels, context), kernel.halo)
    found = numerics.in_graph(kernel, np.concatenate([own, around]), c)
    read = context.run.reader("graph", p)
    is_bound = neighbor_graph.have_copies(read("indptr"), read("sq_distances"))  # a copy might stay
    may_move = are_inside(context, log_distances(context, p), own) & ~is_bound
    labels = np.where(may_move, found, own)
    context.run.write(OUTVOTED, p, {"labels": labels, "staying": np.bincount(own[labels == own], minlength=c)})


def are_inside(context: Context, log_sigma: Floats, labels: Integers) -> NDArray[np.bool_]:
    """Whether rows are no outliers of their clusters, with neighbours in any: bool, shape (b,)."""
    shapes = gaussians.read(context)
    assert shapes is not None
    return noise.is_amid(log_sigma, labels, shapes.spacing, noise.FAR_OUT)


def _labels(context: Context, p: int) -> Integers:
    labels: Integers = context.run.read(DRAFT, p, "labels")
    return labels


def read(context: Context, p: int, may_leave: NDArray[Any]) -> tuple[Integers, Integers]:
    """Labels of one block in the draft, and after the vote."""
    own = _labels(context, p)
    return own, np.where(may_leave[own], context.run.read(OUTVOTED, p, "labels"), own)


def drop(job: Job) -> None:
    """Delete the draft and the votes."""
    for stage in (DRAFT, OUTVOTED):
        job.run.drop(stage, job.context.blocks)
