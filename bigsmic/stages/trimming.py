"""trimmed: outlying rows, whose weights are made tiny, so that they follow their neighbours.

With ``trim=True`` rows are trimmed as soon as the graph is known; with ``trim="auto"`` after a first attempt whose
clusters are pieces of curves, see :mod:`bigsmic.stages.bent_clusters`.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import noise
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.types import Floats, Integers

TRIMMED = "trimmed"
BEGUN_AGAIN = "begun_again"
"""Stage that is noted once a fit has begun again with trimmed rows."""
SAMPLE_ROWS = 20_000  # drawn by hash from all rows to determine the distance beyond which a row is outlying
WEIGHT = 1e-4
"""Factor of the weights of such a row: small compared with those of others, and enough to keep the graph connected."""


def run(job: Job) -> None:
    """Find the distance to the t-th neighbour, largest t, above which rows are trimmed; the stage ``trimmed``."""
    if are_trimmed(job.context):
        job.run_steps(TRIMMED, [0], _find_limit)


def are_trimmed(context: Context) -> bool:
    """Whether outlying rows are trimmed, as was asked for, or because the fit has begun again."""
    return context.settings.trims or context.run.done(BEGUN_AGAIN, 0)


def _find_limit(job: Job, block: int) -> None:
    limit = noise.distance(_drawn(job), noise.FAR_OUT if job.context.settings.trims else noise.AMID)
    total = int(job.sum_blocks(TRIMMED, job.context.blocks, partial(_count, limit=limit)))
    job.run.write(TRIMMED, block, {"limit": np.array(limit)}, info={"rows": total})


def _drawn(job: Job) -> Floats:
    """Distances of drawn rows to their neighbours of the largest t, float32."""
    rows = draw_rows(job.context.n, SAMPLE_ROWS, job.context.settings.seed, TRIMMED)
    return np.concatenate(job.map_blocks(TRIMMED, job.context.blocks, partial(_sample, rows=rows)))


def _sample(context: Context, p: int, rows: Integers) -> Floats:
    return distances(context, p)[np.isin(context.run.read("rows", p, "rows"), rows)]


def _count(context: Context, p: int, limit: float) -> int:
    return int(np.count_nonzero(distances(context, p) > limit))


def distances(context: Context, p: int) -> Floats:
    """Distance of every row of a block to its neighbour of the largest t, float32."""
    found: Floats = context.run.read("graph", p, "sigma", _largest(context))[0]
    return found


def _largest(context: Context) -> int:
    return context.settings.t.index(max(context.settings.t))


def factors(context: Context, positions: Integers) -> NDArray[np.float32]:
    """Factors of the weights of rows at ascending positions, float32: 1, or a tiny one for trimmed rows."""
    known = context.cached(TRIMMED, lambda: context.run.read(TRIMMED, 0, "limit"))
    return np.where(are_beyond(context, positions, known), np.float32(WEIGHT), np.float32(1))


def are_beyond(context: Context, positions: Integers, limit: float) -> NDArray[np.bool_]:
    """Whether rows at ascending positions are farther than `limit` from their neighbours of the largest t."""
    i = _largest(context)
    far: NDArray[np.bool_] = context.at(f"sigma {i}", lambda p: distances(context, p), positions) > limit
    return far
