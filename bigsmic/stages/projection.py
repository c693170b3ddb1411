"""projection: principal axes of the scaled rows, whose components take the place of many columns.

Distances over many columns add the noise of all of them: among a thousand, most of which tell no cluster from another,
the nearest rows are hardly nearer than others. The leading components keep what columns have in common.
"""

from functools import partial

import numpy as np

from bigsmic.numerics.principal_axes import left_out_remainders, principal_axes, remainders
from bigsmic.runtime.context import PROJECTION, Context
from bigsmic.runtime.job import Job
from bigsmic.types import Floats

LEFT_OUT_ROWS = 8192
"""Rows of the sample, at most, of which what axes leave is measured with axes of other rows: half of these."""


def run(job: Job) -> None:
    """Compute the axes from the sample of the scan, unless rows have few columns, or were routed without axes."""
    context = job.context
    if context.settings.n_axes(context.d) and not job.run.done("cells", 0):
        job.run_steps(PROJECTION, [0], _find_axes)


def _find_axes(job: Job, block: int) -> None:
    context = job.context
    wanted = context.settings.n_axes(context.d)
    ((axes, info),) = job.map_here(partial(_axes_of, n_axes=wanted), [context.read_sample()])
    job.run.write(PROJECTION, block, {"axes": axes}, info=info)


def _axes_of(sample: Floats, n_axes: int) -> tuple[Floats, dict[str, float]]:
    """Axes, and the root mean squares of what they leave of rows: of others, and of the sample."""
    axes = principal_axes(sample, n_axes)[1].astype(np.float64)
    some = sample[:: -(-len(sample) // LEFT_OUT_ROWS)]
    left = {"remainder": left_out_remainders(some, n_axes), "sample_remainder": remainders(sample, axes)}
    return axes, {name: float(np.sqrt(np.square(norms).mean())) for name, norms in left.items()}


def usual_remainders(context: Context) -> tuple[float, float] | None:
    """Root mean squares of what components leave of new rows, and of the sample; None if columns stay."""
    if not (context.settings.n_axes(context.d) and context.run.done(PROJECTION, 0)):
        return None
    info = context.run.info(PROJECTION, 0)
    return (info["remainder"], info["sample_remainder"]) if info else None  # which earlier runs have not noted
