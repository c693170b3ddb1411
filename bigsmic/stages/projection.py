"""projection: principal axes of the scaled rows, whose components take the place of many columns.

Distances over many columns add the noise of all of them: among a thousand, most of which tell no cluster from another,
the nearest rows are hardly nearer than others. The leading components keep what columns have in common.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling import novelty
from bigsmic.numerics.principal_axes import left_out_remainders, principal_axes
from bigsmic.runtime.context import PROJECTION, Context
from bigsmic.runtime.job import Job
from bigsmic.types import Floats


def run(job: Job) -> None:
    """Compute the axes from the sample of the scan, unless rows have few columns, or were routed without axes."""
    context = job.context
    if context.settings.n_axes(context.d) and not job.run.done("cells", 0):
        job.run_steps(PROJECTION, [0], _find_axes)


def _find_axes(job: Job, block: int) -> None:
    context = job.context
    wanted = context.settings.n_axes(context.d)
    ((axes, limit),) = job.map_here(partial(_axes_of, n_axes=wanted), [context.read_sample()])
    job.run.write(PROJECTION, block, {"axes": axes}, info={"remainder": limit})


def _axes_of(sample: Floats, n_axes: int) -> tuple[Floats, float]:
    """Axes, and the norm of what they leave of a row that corresponds to a novelty of 1."""
    limit = novelty.remainder_limit(left_out_remainders(sample, n_axes), sample)
    return principal_axes(sample, n_axes)[1].astype(np.float64), limit


def has_remainders(context: Context) -> bool:
    """Whether components take the place of columns, and what they usually leave of a row is known."""
    components = context.settings.n_axes(context.d) and context.run.done(PROJECTION, 0)
    return bool(components) and "remainder" in context.run.info(PROJECTION, 0)  # not in earlier runs


def remainder_novelty(context: Context, stored: NDArray[Any]) -> NDArray[np.float32]:
    """Novelty of what components leave of stored rows, shape (b,); 0 if columns stay, or the usual is not known."""
    if not has_remainders(context):
        return np.zeros(len(stored), np.float32)
    limit = np.float32(context.run.info(PROJECTION, 0)["remainder"])
    found: NDArray[np.float32] = context.scaler.remainders(stored) / limit
    return found
