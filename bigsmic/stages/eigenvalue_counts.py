"""eigenvalue_counts: about how many parts the graph has, before any eigenvectors are computed."""

from functools import partial
from typing import Any

import numpy as np

from bigsmic.numerics.eigen import eigenvalue_counts
from bigsmic.numerics.eigen.eigenvalue_counts import SignVectors
from bigsmic.numerics.row_blocks import Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import eigenvectors, kernel_matrix
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems
from bigsmic.store import Run

EIGENVALUE_COUNTS = "eigenvalue_counts"
NEAR, FAR = 0.1, 0.2
"""Angles whose cosines, .995 and .98, are compared: eigenvalues above are those of the parts of a graph."""
PLATEAU = 1.5
"""Largest quotient of the two counts if the graph has parts. On rows spread evenly over d dimensions it is 2^d, as
there the distance of the m-th eigenvalue from 1 grows as m^(2/d)."""


def find(job: Job) -> None:
    """Count the eigenvalues of the first eigenproblem, if it is the normalised kernel without links."""
    first = eigenproblems(job.context.settings)[0]
    if first.kernel == "normalized" and first.link_weights is None and not first.shrinkage:
        job.run_steps(EIGENVALUE_COUNTS, [0], partial(_count, eigenproblem=first))


def parts(run: Run) -> int:
    """About how many parts the graph has, once they were counted; 0 if it does not fall into parts."""
    if not run.done(EIGENVALUE_COUNTS, 0):
        return 0
    near, far = run.read(EIGENVALUE_COUNTS, 0, "counts")
    return round(far) if 0 < far <= PLATEAU * near else 0


def _count(job: Job, block: int, eigenproblem: Eigenproblem) -> None:
    kernel_matrix.prepare(job, eigenproblem)
    kernel_matrix.normalise(job, eigenproblem)
    make = partial(_sign_vectors, eigenproblem=eigenproblem, in_memory=job.plan.kernel_in_memory)
    traces = job.run_actors(EIGENVALUE_COUNTS, make, lambda group: eigenvalue_counts.traces(group, job.context.n))
    angles = np.array([NEAR, FAR])
    counts = eigenvalue_counts.counts(traces, angles)
    job.run.write(EIGENVALUE_COUNTS, block, {"angles": angles, "counts": counts})


def _sign_vectors(context: Context, shard: Shard, eigenproblem: Eigenproblem, in_memory: bool) -> Any:
    load = kernel_matrix.loader(context, shard, kernel_matrix.matrix_name(eigenproblem), in_memory)
    return SignVectors(shard, eigenvectors.product_of(context, shard, eigenproblem, load), context.settings.seed)
