"""Scaled rows, their weights and their labels, block by block."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.objectives.rim.logits import EVERY_ROW, Weighting
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job


def scaled(context: Context, s: int) -> NDArray[np.float32]:
    """Scaled rows of one block of input, float32; cached if this process may keep all of them."""
    if 4 * context.n * context.d <= context.block_cache.limit:
        return context.block_cache.get(("scaled", s), partial(context.scaled_block, s))
    return context.scaled_block(s)


def keep_rows(context: Context) -> None:
    """Cache scaled rows in this process from now on."""
    context.block_cache.limit = max(context.block_cache.limit, 4 * context.n * context.d)


def weighting(context: Context, s: int) -> Weighting:
    """Weights and labels of one block of input."""
    names = side_inputs(context)
    if not names:
        return EVERY_ROW
    read = context.run.reader("side_inputs", s)
    return Weighting(*(read(name) if name in names else None for name in ("sample_weight", "labels")))


def labels(context: Context, s: int) -> NDArray[np.int32]:
    """Known labels of one block of input; empty if there are none."""
    return context.run.read("side_inputs", s, "labels") if "labels" in side_inputs(context) else np.empty(0, np.int32)


def side_inputs(context: Context) -> dict[str, Any]:
    """Names of the side inputs."""
    return context.run.identity["input"].get("side_inputs", {})


def keep_side_inputs(job: Job) -> None:
    """Write the side inputs to the run directory, block by block."""
    context = job.context
    for s in context.source_blocks if job.side_inputs else ():
        lo, hi = context.source_bounds[s : s + 2]
        if not job.run.done("side_inputs", s):
            job.run.write("side_inputs", s, {name: array[lo:hi] for name, array in job.side_inputs.items()})


def n_known(context: Context) -> int:
    """Number of categories of known labels, which stay first, alive or not."""
    return len(with_labels(context))


def with_labels(context: Context) -> NDArray[np.bool_]:
    """Whether any row has the label of each category of known labels, bool, shape (n_known,)."""
    if "labels" not in side_inputs(context):
        return np.zeros(0, bool)
    found = [np.unique(context.run.read("side_inputs", s, "labels")) for s in context.source_blocks]
    return np.bincount(np.concatenate(found) + 1)[1:] > 0
