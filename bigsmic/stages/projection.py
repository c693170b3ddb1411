"""projection: principal axes of the scaled rows, whose components take the place of many columns.

Distances over many columns add the noise of all of them: among a thousand, most of which tell no cluster from another,
the nearest rows are hardly nearer than others. The leading components keep what columns have in common.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics import principal_axes
from bigsmic.runtime.context import PROJECTION, Context
from bigsmic.runtime.job import Job
from bigsmic.types import Floats

REMAINDERS = "remainders"
LEFT_OUT_ROWS = 8192
"""Rows of the sample, at most, of which what axes leave is measured with axes of other rows: half of these."""


def run(job: Job) -> None:
    """Compute the axes from the sample of the scan, unless rows have few columns."""
    if job.context.settings.n_axes(job.context.d):
        job.run_steps(PROJECTION, [0], _find_axes)


def _find_axes(job: Job, block: int) -> None:
    context = job.context
    wanted = context.settings.n_axes(context.d)
    ((axes, info),) = job.map_here(partial(_axes_of, n_axes=wanted), [context.read_sample()])
    job.run.write(PROJECTION, block, {"axes": axes}, info=info)


def _axes_of(sample: Floats, n_axes: int) -> tuple[Floats, dict[str, float]]:
    """Axes, and the root mean squares of what they leave of rows: of others, and of the sample."""
    axes = principal_axes.principal_axes(sample, n_axes)[1].astype(np.float64)
    some = sample[:: -(-len(sample) // LEFT_OUT_ROWS)]
    left = {
        "remainder": principal_axes.left_out_remainders(some, n_axes),
        "sample_remainder": principal_axes.remainders(sample, axes),
    }
    return axes, {name: float(np.sqrt(np.square(norms).mean())) for name, norms in left.items()}


def usual_remainders(context: Context) -> tuple[float, float] | None:
    """Root mean squares of what components leave of new rows, and of the sample; None if columns stay."""
    if not (context.settings.n_axes(context.d) and context.run.done(PROJECTION, 0)):
        return None
    info = context.run.info(PROJECTION, 0)
    return info["remainder"], info["sample_remainder"]


def remainders_of(context: Context, stored: NDArray[Any], fitted: bool = False) -> Floats | None:
    """Norms of what components leave of stored rows, float64, shape (b,); None if columns stay.

    They leave less of fitted rows than of others; the norms of these are made as large as those of others.
    """
    usual = usual_remainders(context)
    if usual is None:
        return None
    norms: Floats = context.scaler.remainders(stored).astype(np.float64)
    of_others, of_sample = usual
    return norms * (of_others / of_sample) if fitted and of_sample else norms


def over_all_columns(context: Context, distances: Floats, remainders: Floats | None = None) -> Floats:
    """Distances between components of rows and their neighbours, with what these leave of both; shape (b,) or ().

    `remainders` are those of the rows, usual ones if not given. Without components, distances are over all columns
    already, and returned as they are; otherwise, in float64.
    """
    usual = usual_remainders(context)
    if usual is None:
        return distances
    return principal_axes.over_all_columns(distances, usual[0] if remainders is None else remainders, usual[0])


def fill_remainders(job: Job) -> None:
    """Write the remainders of all rows, which takes one more pass over the input; nothing if columns stay."""
    if usual_remainders(job.context) is not None:
        job.fill(REMAINDERS, job.context.source_blocks, _write_remainders)


def _write_remainders(context: Context, s: int) -> None:
    """Write the remainders of one block of input, in a part for each row block in which its rows are at home."""
    norms = remainders_of(context, context.input_block(s), fitted=True)
    home = context.layout.block_of_group[context.run.read("route", s, "home")]
    order = np.argsort(home, kind="stable")
    bounds = np.searchsorted(home[order], np.arange(len(context.blocks) + 1))
    context.run.write(REMAINDERS, s, {"norm": np.asarray(norms, np.float32)[order]}, parts={"norm": bounds})


def read_remainders(context: Context, p: int) -> Floats | None:
    """Remainders of the rows of one row block; None if columns stay."""
    if usual_remainders(context) is None:
        return None
    return np.concatenate([context.run.read(REMAINDERS, s, "norm", p) for s in context.source_blocks])
