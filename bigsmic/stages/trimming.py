"""trimmed: outlying rows, whose weights are made tiny, so that they follow their neighbours.

With ``trim=True`` rows far out are trimmed as soon as the graph is known. With ``trim="auto"`` sparse rows are, and
those in small components without these, after a first attempt whose clusters are pieces of curves; see
:mod:`bigsmic.stages.bent_clusters`.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import noise
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import density
from bigsmic.types import Floats, Integers

TRIMMED = "trimmed"
BEGUN_AGAIN = "begun_again"
"""Stage that is noted once a fit has begun again with trimmed rows."""
SAMPLE_ROWS = 20_000  # drawn by hash from all rows to determine the distance beyond which a row is outlying
WEIGHT = 1e-4
"""Factor of the weights of such a row: small compared with those of others, and enough to keep the graph connected."""
PART = 0.01
"""Share of the rows from which on a component without sparse rows is not trimmed."""


def run(job: Job) -> None:
    """Find the rows that are trimmed, if any are; the stage ``trimmed``."""
    if are_trimmed(job.context):
        job.run_steps(TRIMMED, [0], _find)


def are_trimmed(context: Context) -> bool:
    """Whether outlying rows are trimmed, as was asked for, or because the fit has begun again."""
    return context.settings.trims or context.cached(BEGUN_AGAIN, lambda: context.run.done(BEGUN_AGAIN, 0))


def stages(context: Context) -> dict[str, None]:
    """Names of the stages that tell which rows are trimmed, with all of their arrays."""
    names = (TRIMMED, BEGUN_AGAIN) if are_trimmed(context) else ()
    return {name: None for name in names if context.run.done(name, 0)}


def _find(job: Job, block: int) -> None:
    if job.context.settings.trims:
        task = partial(_write_far_out, limit=noise.distance(_drawn(job), noise.FAR_OUT))
    else:
        task = partial(_write_sparse, limit=job.run.info(BEGUN_AGAIN, 0)["limit"])
    job.fill(TRIMMED, [block], task)


def _drawn(job: Job) -> Floats:
    """Distances of drawn rows to their neighbours of the largest t, float32."""
    rows = draw_rows(job.context.n, SAMPLE_ROWS, job.context.settings.seed, TRIMMED)
    return np.concatenate(job.map_blocks(TRIMMED, job.context.blocks, partial(_sample, rows=rows)))


def _sample(context: Context, p: int, rows: Integers) -> Floats:
    return density.distances(context, p)[np.isin(context.run.read("rows", p, "rows"), rows)]


def _write_far_out(context: Context, block: int, limit: float) -> None:
    _write(context, block, np.concatenate([density.distances(context, p) > limit for p in context.blocks]))


def _write_sparse(context: Context, block: int, limit: float) -> None:
    (roots,) = density.components(context, density.all_edges(context), [limit])
    are_small = np.bincount(roots) < PART * context.n
    _write(context, block, are_small[roots])


def _write(context: Context, block: int, trimmed: NDArray[np.bool_]) -> None:
    arrays, parts = {"trimmed": trimmed.astype(np.uint8)}, {"trimmed": context.layout.bounds}
    context.run.write(TRIMMED, block, arrays, parts=parts, info={"rows": int(trimmed.sum())})


def rows_at(context: Context, positions: Integers) -> NDArray[np.bool_]:
    """Whether rows at ascending positions are trimmed."""
    return context.at(TRIMMED, lambda p: context.run.read(TRIMMED, 0, "trimmed", p), positions).astype(bool)


def factors(context: Context, positions: Integers) -> NDArray[np.float32]:
    """Factors of the weights of rows at ascending positions, float32: 1, or a tiny one for trimmed rows."""
    return np.where(rows_at(context, positions), np.float32(WEIGHT), np.float32(1))
