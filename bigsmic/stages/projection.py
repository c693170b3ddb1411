"""projection: principal axes of the scaled rows, whose components take the place of many columns.

Distances over many columns add the noise of all of them: among a thousand, most of which tell no cluster from another,
the nearest rows are hardly nearer than others. The leading components keep what columns have in common.
"""

import numpy as np

from bigsmic.numerics.principal_axes import principal_axes
from bigsmic.runtime.context import PROJECTION
from bigsmic.runtime.job import Job


def run(job: Job) -> None:
    """Compute the axes from the sample of the scan, unless rows have few columns, or were routed without axes."""
    context = job.context
    if context.settings.n_axes(context.d) and not job.run.done("cells", 0):
        job.run_steps(PROJECTION, [0], _find_axes)


def _find_axes(job: Job, block: int) -> None:
    context = job.context
    wanted = context.settings.n_axes(context.d)
    ((_, axes),) = job.map_here(lambda sample: principal_axes(sample, n_axes=wanted), [context.read_sample()])
    job.run.write(PROJECTION, block, {"axes": axes.astype(np.float64)})
