"""eigenvalue_counts: about how many parts the graph has, before any eigenvectors are computed."""

from functools import partial
from typing import Any

import numpy as np

from bigsmic.numerics.eigen import eigenvalue_counts
from bigsmic.numerics.eigen.eigenvalue_counts import N_VECTORS, SignVectors
from bigsmic.numerics.row_blocks import Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.planning import Plan
from bigsmic.stages import eigenvectors, kernel_matrix
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems
from bigsmic.store import Run

EIGENVALUE_COUNTS = "eigenvalue_counts"
ANGLES = 0.025 * 2.0 ** (np.arange(7) / 2)
"""Angles, to .2, above whose cosines eigenvalues are counted. The more rows, the nearer to 1 are those within parts."""
PLATEAU = 1.2
"""Largest quotient of two successive counts if the eigenvalues are those of parts of the graph. On rows spread evenly
over d dimensions it is 2^(d/2), as there the distance of the m-th eigenvalue from 1 grows as m^(2/d); 1.23 and more was
counted of 1.41 along curves of few rows."""
NEAR = ANGLES[-2]
"""Angle within which most eigenvalues of parts are."""


def find(job: Job) -> None:
    """Count the eigenvalues of the first eigenproblem, if it is the normalised kernel without links."""
    first = eigenproblems(job.context.settings)[0]
    if first.kernel == "normalized" and first.link_weights is None and not first.shrinkage:
        job.run_steps(EIGENVALUE_COUNTS, [0], partial(_count, eigenproblem=first))


def parts(run: Run) -> int:
    """About how many parts the graph has, once they were counted; 0 if it does not fall into parts.

    The estimated count of m parts has a standard error of some sqrt(m / 4), and may be less than that of components,
    which are parts even after they were connected.
    """
    if not run.done(EIGENVALUE_COUNTS, 0):
        return 0
    counts = run.read(EIGENVALUE_COUNTS, 0, "counts")
    plateau = counts[1:][(counts[1:] > 0) & (counts[1:] <= PLATEAU * counts[:-1])]
    return max(round(plateau.max()), run.info(EIGENVALUE_COUNTS, 0)["components"]) if len(plateau) else 0


def may_have_parts(context: Context, n_parts: int) -> bool:
    """Whether the graph may have so many parts, or more: as many eigenvalues, of those found, are nearly 1."""
    values = context.run.read("spectrum", 0, "ritz_values")
    return len(values) >= n_parts and bool(values[n_parts - 1] >= np.cos(NEAR))


def _count(job: Job, block: int, eigenproblem: Eigenproblem) -> None:
    kernel_matrix.prepare(job, eigenproblem)
    kernel_matrix.normalise(job, eigenproblem)
    make = partial(_sign_vectors, eigenproblem=eigenproblem, plan=job.plan)
    traces = job.run_actors(EIGENVALUE_COUNTS, make, lambda group: eigenvalue_counts.traces(group, job.context.n))
    counts = eigenvalue_counts.counts(traces, ANGLES)
    info = {"components": job.run.info("components", 0)["count"][str(eigenproblem.t)]}
    job.run.write(EIGENVALUE_COUNTS, block, {"angles": ANGLES, "counts": counts}, info=info)


def _sign_vectors(context: Context, shard: Shard, eigenproblem: Eigenproblem, plan: Plan) -> Any:
    load = kernel_matrix.loader(context, shard, kernel_matrix.matrix_name(eigenproblem), plan.kernel_in_memory)
    product = eigenvectors.product_of(context, shard, eigenproblem, load)
    in_files = None if plan.vectors_in_memory else eigenvectors.spare_columns(context, shard, "signs", N_VECTORS)
    return SignVectors(shard, product, context.settings.seed, in_files)
