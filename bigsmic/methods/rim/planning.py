"""Plan of a fit by RIM: memory, disk and work of every stage."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bigsmic.numerics.objectives.rim.linear import TILE_ROWS
from bigsmic.runtime import planning
from bigsmic.runtime.context import BLOCK_CACHE_BYTES
from bigsmic.runtime.planning import Size, StagePlan
from bigsmic.stages.rim.minibatches import READERS
from bigsmic.stages.rim.search import LEAST_STEPS

START_ROWS = 10_000  # of the sample on which categories are found
ROWS_BYTES = 256 << 20  # largest size of scaled rows that stay in memory; otherwise rows are read again


@dataclass(frozen=True, repr=False)
class Plan(planning.Plan):
    """Plan of a fit by RIM.

    Parameters
    ----------
    rows_in_memory : bool
        Whether scaled rows stay in memory after they were read.
    posteriors_in_memory : bool
        Whether the second pass for an exact gradient uses the posteriors of the first.
    """

    rows_in_memory: bool = False
    posteriors_in_memory: bool = False


def plan(
    size: Size,
    settings: Any,
    memory_limit: int | None,
    n_threads: int,
    checkpoints: bool,
    adapted: Callable[..., Any] = tuple,
) -> Plan:
    """Plan a fit: blocks of rows with their posteriors, and the classifier.

    Arrays that grow with the rows, scaled rows and posteriors for exact gradients, are kept only if there is room.
    ``adapted(stages)`` returns the stages of a method that has additional ones.

    Raises
    ------
    PlanError
        A stage does not fit; the message names the remedy.
    """
    limit = planning.limit_of(memory_limit)
    exact = not settings.by_batches(size.n) or settings.polish > 0
    few = 4 * size.n * size.d <= ROWS_BYTES
    for rows, posteriors in ((True, True), (False, True), (True, False), (False, False)):
        if rows <= few and posteriors <= exact:
            described = adapted(_described(size, settings, rows, posteriors))
            if all(stage.peak_bytes <= limit for stage in described):
                break
    planned = planning.widened(described, limit, n_threads)
    plan = Plan(size, limit, planned, min(size.n, START_ROWS), checkpoints=checkpoints)
    return replace(plan, rows_in_memory=rows, posteriors_in_memory=posteriors)


def _described(size: Size, settings: Any, rows_in_memory: bool, posteriors_in_memory: bool) -> tuple[StagePlan, ...]:
    """Figures of every stage."""
    n, d = size.n, size.d
    bounds = size.source_bounds
    rows, n_blocks = int(bounds[1]), len(bounds) - 1
    k = max(settings.first_categories(n), settings.n_clusters or 1)
    held = size.held_rows
    wanted = min(n, START_ROWS)
    block = rows * d * (size.itemsize + 4) + TILE_ROWS * 16 * k + 32 * (d + 1) * k
    kept = 4 * held * d if rows_in_memory else min(4 * n * d, BLOCK_CACHE_BYTES)
    posteriors = 4 * held * k if posteriors_in_memory else 0
    group = 2 * min(4 * n * d, size.block_sizes.pool_bytes + 4 * rows * d) + READERS * rows * d * (size.itemsize + 4)
    # a batch as it is drawn, and with the labelled rows that are in every one, a quarter as many
    batch = min(n, settings.batch_size) * (10 * d + 20 * k)
    passes = 10 * max(1.0, LEAST_STEPS * settings.batch_size / n)
    is_least = k == max(2, settings.n_clusters or 0)
    fewer = "ask for fewer clusters" if is_least else f"give n_init_categories below {k}"
    return (
        planning.scan_stage(size, wanted),
        planning.StagePlan(
            "start", 1, size.band_bytes + 12 * wanted * d, wanted * 8 * d, flops=2.0 * wanted * d * k * 30
        ),
        planning.StagePlan(
            "ascent",
            n_blocks,
            int(size.band_bytes + kept + posteriors + group + batch),
            block,
            flops=4.0 * n * d * k * passes,
            disk_bytes=400 * (d + 1) * k,
            remedy=f"{fewer}, or a smaller batch_size",
        ),
        planning.StagePlan(
            "output",
            n_blocks,
            size.band_bytes + kept,
            block + rows * (8 * d + 16 * k),
            flops=4.0 * n * d * k,
            disk_bytes=4 * n * (k + 1),
            remedy=fewer,
        ),
    )
