"""scan: one pass over the input for moments, a sample, checksums of blocks, and non-finite entries.

If the scaling of columns is left open, it is chosen here, once.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import NonFiniteError
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.moments import Moments, first_nonfinite, moments, origin_of, refuse_overflow
from bigsmic.numerics.scaling import refuse_without_distances, scaler
from bigsmic.numerics.shared_unit import likeness, need_no_scaling
from bigsmic.numerics.spreads import centers, spreads
from bigsmic.numerics.windows.smoothness import LEAST_ROWS, MOST_COLUMNS, smoothness
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.store import checksum
from bigsmic.warning import warn

SCALING = "scaling"
CHOSEN = ("auto", "mixed")  # scalings for which a sample of the rows is looked at
SAMPLE_BYTES = 64 << 20  # largest size of the sample as float32
LOOKED_AT = 4096  # first rows, which are tested for being samples of a recording


def sample_rows(n: int, d: int, cell_rows: int) -> int:
    """Expected number of rows in the sample: thirty per cell, and at least twenty thousand."""
    return min(n, max(20_000, 30 * (n // cell_rows)), max(1000, SAMPLE_BYTES // (4 * d)))


def run(job: Job) -> None:
    """Scan blocks that have not been scanned, and check the others against the input."""
    context = job.context
    known = verify(job)
    job.fill("scan", context.source_blocks, partial(_scan, wanted=job.plan.sample_rows))
    _refuse_nonfinite(context)
    if not known:
        _warn_of_recording(context)
    if context.settings.scale in CHOSEN:
        job.run_steps(SCALING, [0], _choose_scale)


def verify(job: Job) -> list[int]:
    """Check the blocks of input that have been scanned against the input, and return their numbers.

    Raises
    ------
    RunMismatchError
        The rows are others than those that were scanned.
    """
    known = [s for s in job.context.source_blocks if job.run.done("scan", s)]
    job.map_blocks("verify", known, _verify)
    return known


def _scan(context: Context, s: int, wanted: int) -> None:
    lo, hi = context.source_bounds[s : s + 2]
    X = context.source.read(lo, hi)
    count, row, column = first_nonfinite(X)
    rows = np.arange(lo, hi)
    drawn = row_uniform(context.settings.seed, "sample", rows) < wanted / context.n
    info = {"crc32": checksum(X), "nonfinite": count, "row": int(lo) + row, "column": column}
    arrays = {"sample": X[drawn], "sample_rows": rows[drawn]}
    origin = origin_of(context.source.read(0, 1)[0])
    if origin is not None:
        info["origin"] = origin.tolist()
    if not count:
        with np.errstate(over="ignore", invalid="ignore"):
            arrays |= moments(X, origin)._asdict()
    context.run.write("scan", s, arrays, info=info)


def _choose_scale(job: Job, block: int) -> None:
    """Find by what columns are centred and divided, and store it with the run."""
    context = job.context
    total, asked, sample = context.scanned(Moments), context.settings.scale, context.drawn_rows()
    scale, info = _judged(context, total, sample) if asked == "auto" else (asked, {})
    arrays = {"centers": centers(total, sample, context.origin)}
    info["centred"] = int((arrays["centers"] != total.mean).sum())
    if scale == "mixed":
        own = spreads(total, sample, context.origin)
        arrays["spreads"] = own.all
        info["majority"], info["extremes"] = (int(np.isfinite(values).sum()) for values in own)
        scale = "mixed" if np.isfinite(own.all).any() or asked == "mixed" else "standard"
    chosen = scaler(total, scale, context.origin, arrays.get("spreads"), arrays["centers"])
    refuse_without_distances(total, chosen, sample)
    context.run.write(SCALING, block, arrays, info={"scale": scale} | info)


def _judged(context: Context, total: Moments, sample: NDArray[Any]) -> tuple[str | None, dict[str, Any]]:
    """Scaling of columns of unknown units, and what it is judged by.

    Features of windows are always divided: they may seem to share a unit, as quantiles and bands of a channel are
    adjacent.
    """
    found = likeness(sample, context.origin)
    mixed = context.source.mixed_units
    info = {"sign": None if mixed else found.sign, "mixed_units": mixed} | found._asdict()
    if mixed:
        return "standard", info
    return None if need_no_scaling(found, total) else "mixed", info


def _warn_of_recording(context: Context) -> None:
    """Warn of few columns with smoothly varying rows, as clusters of single samples are only clusters of levels."""
    if context.source.has_windows or context.d > MOST_COLUMNS or context.n < LEAST_ROWS:
        return
    found = smoothness(context.source.read(0, min(LOOKED_AT, int(context.source_bounds[1]))))
    if found.is_recording:
        warn(
            f"input: {context.source.name} looks like a recording: {context.d} columns, and rows that correlate with "
            f"the row before by {found.correlation:.2f}; single samples are clustered by their level alone: describe "
            "windows of the recording by bigsmic.features.windows, or bigsmic windows, and fit those"
        )


def _verify(context: Context, s: int) -> None:
    context.input_block(s)


def _refuse_nonfinite(context: Context) -> None:
    """Refuse rows that no fit can use. They are scanned again when they are mended, and the same call is made again."""
    infos = context.run.infos("scan", context.source_blocks)
    bad = sum(info["nonfinite"] for info in infos)
    if bad:
        first = next(info for info in infos if info["nonfinite"])
        context.run.drop("scan", context.source_blocks)
        share, row = bad / (context.n * context.d), context.source.number(first["row"])
        raise NonFiniteError(
            f"input: {context.source.name} contains NaN or infinity: first at row {row}, column "
            f"{first['column']}; {bad} entries, {share:.2g} of all; drop or impute these rows"
        )
    found = [m2 for (m2,) in context.run.gather("scan", context.source_blocks, ["m2"])]
    if not np.isfinite(found).all():
        context.run.drop("scan", context.source_blocks)
        refuse_overflow(np.concatenate(found))
