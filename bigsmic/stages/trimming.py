"""trimmed: outlying rows with ``trim=True``, whose weights are tiny, so that they follow their neighbours."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import noise
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.types import Floats, Integers

TRIMMED = "trimmed"
SAMPLE_ROWS = 20_000  # drawn by hash from all rows to determine the distance beyond which a row is outlying
WEIGHT = 1e-4
"""Factor of the weights of such a row: small compared with those of others, and enough to keep the graph connected."""


def run(job: Job) -> None:
    """Find the distance to the t-th neighbour, largest t, above which rows are trimmed; the stage ``trimmed``."""
    if job.context.settings.trims:
        job.run_steps(TRIMMED, [0], _find_limit)


def _find_limit(job: Job, block: int) -> None:
    rows = draw_rows(job.context.n, SAMPLE_ROWS, job.context.settings.seed, TRIMMED)
    drawn = job.map_blocks(TRIMMED, job.context.blocks, partial(_sample, rows=rows))
    limit = noise.distance_far_out(np.concatenate(drawn))
    total = int(job.sum_blocks(TRIMMED, job.context.blocks, partial(_count, limit=limit)))
    job.run.write(TRIMMED, block, {"limit": np.array(limit)}, info={"rows": total})


def _sample(context: Context, p: int, rows: Integers) -> Floats:
    return _distances(context, p)[np.isin(context.run.read("rows", p, "rows"), rows)]


def _count(context: Context, p: int, limit: float) -> int:
    return int(np.count_nonzero(_distances(context, p) > limit))


def _distances(context: Context, p: int) -> Floats:
    """Distance of every row of a block to its neighbour of the largest t, float32."""
    found: Floats = context.run.read("graph", p, "sigma", _largest(context))[0]
    return found


def _largest(context: Context) -> int:
    return context.settings.t.index(max(context.settings.t))


def factors(context: Context, positions: Integers) -> NDArray[np.float32]:
    """Factors of the weights of rows at ascending positions, float32: 1, or a tiny one for trimmed rows."""
    i = _largest(context)
    limit = context.cached(TRIMMED, lambda: context.run.read(TRIMMED, 0, "limit"))
    far = context.at(f"sigma {i}", lambda p: _distances(context, p), positions) > limit
    return np.where(far, np.float32(WEIGHT), np.float32(1))
