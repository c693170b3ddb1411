"""Job: the context of a fit with the engine that runs its tasks and the plan that limits them."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bigsmic import registry
from bigsmic.engines.base import Engine, TaskOptions
from bigsmic.engines.memory import release_memory
from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import CorruptBlockError, LostBlocksError, PlanError
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.progress import ticks
from bigsmic.store import Run
from bigsmic.types import Integers

OF_INPUT = ("verify", "scan", "routed_rows", "route", "output")  # stages that run over blocks of input


@dataclass
class Job:
    """The context of a fit, with the engine that runs its tasks and the plan that limits them.

    Parameters
    ----------
    context : Context
    engine : Engine
    plan : Plan
        Gives the number of concurrent tasks of each stage, and what stays in memory.
    progress : callable, optional
        ``progress(stage, done, total)``.
    costs : dict
        Seconds and memory of the stages so far.
    side_inputs : dict of str to ndarray
        Auxiliary per-row inputs, such as known labels; tasks read them from the run directory.
    """

    context: Context
    engine: Engine
    plan: Any
    progress: Callable[[str, int, int], None] | None = None
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    side_inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        """The run directory."""
        return self.context.run

    def under(self, settings: Any) -> "Job":
        """The same job with other settings: those with which a method goes on, or those of another method."""
        return replace(self, context=self.context.under(settings))

    def replanned(self, settings: Any) -> "Job":
        """The same job with settings for more eigenvectors than were planned for, and a plan for them within its limit.

        Raises
        ------
        PlanError
            The memory limit does not allow them, as it must not change labels. Finished blocks are kept.
        """
        size, limit, n_threads = self.plan.size, self.plan.memory_limit, self.engine.resources.n_threads
        try:
            plan = registry.of(settings).plan(size, settings, limit, n_threads, self.plan.checkpoints)
        except PlanError as error:
            remedy = "raise the memory limit and resume"
            remedy += ", or give a number of clusters, or a range" if settings.undecided else ""
            raise PlanError(f"{error}; the rows need more eigenvectors than were planned for: {remedy}") from None
        return replace(self.under(settings), plan=plan)

    def afresh(self) -> "Job":
        """The same job with empty caches, so that nothing read before a repair is used after it."""
        return replace(self, context=self.context.afresh())

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Measure the cost of a stage, and run its tasks with the concurrency that the plan allows."""
        self._stage = stage
        wall, (cpu, _) = time.perf_counter(), self.engine.usage()
        try:
            yield
            ended, peak = self.engine.usage()
            cost = self.costs.setdefault(stage, {"wall": 0.0, "cpu": 0.0, "peak_bytes": 0})
            cost["wall"] += time.perf_counter() - wall
            cost["cpu"] += ended - cpu
            cost["peak_bytes"] = max(cost["peak_bytes"], peak)
        finally:
            if self.context.source is not None:
                self.context.source.drop_decoded()  # which other stages have no room for
            release_memory(self.plan.kept_bytes)

    def complete(self, stage: str, blocks: Iterable[int]) -> bool:
        """Whether the ledger has all of `blocks`."""
        return not self.run.missing(stage, blocks)

    def fill(self, stage: str, blocks: Iterable[int], task: Callable[[Context, int], Any]) -> None:
        """Run `task` on the blocks that the ledger lacks."""
        blocks = list(blocks)
        todo = self.run.missing(stage, blocks)
        if todo:
            options = self._options(stage, len(blocks), len(blocks) - len(todo))
            with self._naming_lost(stage, todo), self._releasing():
                self.engine.for_each(partial(_fill, task, stage, self.context), todo, options)

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        """Return freed memory to the system afterwards, as arrays of the next call may not fit into the holes."""
        try:
            yield
        finally:
            release_memory(self.plan.kept_bytes)

    @contextmanager
    def _naming_lost(self, stage: str, blocks: Sequence[int]) -> Iterator[None]:
        """Add to errors the rows of blocks whose tasks killed their workers."""
        try:
            yield
        except LostBlocksError as error:
            block = (error.blocks or blocks)[0]
            rows = _rows_of(self.context, stage, block)
            raise LostBlocksError(
                f"{stage}: block {block}, {rows}, killed every worker that ran it; {error}", stage, [block]
            ) from error

    def run_steps(self, stage: str, blocks: Iterable[int], step: Callable[["Job", int], None]) -> None:
        """Run the steps that the ledger lacks one after the other in this process; a step may run tasks itself."""
        for b in blocks:
            if not self.run.done(stage, b):
                step(self, b)

    def map_blocks(self, stage: str, blocks: Iterable[Any], task: Callable[[Context, Any], Any]) -> list[Any]:
        """Return ``task(context, block)`` of each block, in order."""
        blocks = list(blocks)
        with self._releasing():
            return self.engine.map(partial(task, self.context), blocks, self._options(stage, len(blocks)))

    def sum_blocks(self, stage: str, blocks: Iterable[int], task: Callable[[Context, int], Any]) -> Any:
        """Return the sum of ``task(context, block)`` over the blocks, along the fixed tree."""
        blocks = list(blocks)
        with self._releasing():
            return self.engine.reduce(partial(task, self.context), blocks, self._options(stage, len(blocks)))

    def map_here(self, task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return ``task(item)`` of each item, on threads of this process; for small matrices."""
        with ThreadEngine(self._max_concurrency) as engine:
            return engine.map(task, items)

    def run_actors(
        self,
        stage: str,
        make: Callable[[Context, Shard], Any],
        work: Callable[[Group], Any],
        bounds: Integers | None = None,
    ) -> Any:
        """Return ``work(group)`` for a group of actors ``make(context, shard)`` that share the row blocks.

        The row blocks are those of the layout, or have other `bounds`. If a worker is lost, `work` is called again with
        new actors, and continues from what it has written to the run directory.
        """
        options = TaskOptions(stage, self._max_concurrency)
        bounds = self.context.layout.bounds if bounds is None else bounds
        return self.engine.run_actors(partial(make, self.context), bounds, work, options)

    def report(self, stage: str, done: int, total: int) -> None:
        """Report progress of a stage, if there is a `progress`."""
        if self.progress is not None:
            self.progress(stage, done, total)

    @property
    def _max_concurrency(self) -> int:
        return self.plan.max_concurrency(self._stage)

    def _options(self, stage: str, total: int, done: int = 0) -> TaskOptions:
        return TaskOptions(stage, self._max_concurrency, ticks(self.progress, stage, total, done))


def _rows_of(context: Context, stage: str, block: int) -> str:
    """The rows of a block, for messages."""
    if stage in OF_INPUT:
        lo, hi = context.source_bounds[block : block + 2]
        return f"rows {lo} to {hi - 1}"
    if not context.run.missing("route", context.source_blocks) and block < len(context.blocks):
        lo, hi = context.layout.bounds[block : block + 2]
        return f"positions {lo} to {hi - 1} in cell order"
    return "all rows"


def _fill(task: Callable[..., Any], stage: str, context: Context, block: int) -> None:
    """Run a task, unless its block is done, as by a worker that was lost after it finished."""
    if not context.run.done(stage, block):
        task(context, block)


def with_repair(run: Run, work: Callable[[], Any], attempts: int = 3) -> Any:
    """Run `work`; if a block is corrupt, strike it off the ledger and run `work` again, which computes it anew."""
    seen: dict[tuple[str, int], int] = {}
    while True:
        try:
            return work()
        except CorruptBlockError as error:
            block = (error.stage, error.block)
            seen[block] = seen.get(block, 0) + 1
            if not error.stage:
                raise
            if seen[block] >= attempts:
                raise CorruptBlockError(
                    f"{error}: it was computed {attempts - 1} times in this call and is damaged again, so that the "
                    "disk may be failing; give another out=",
                    *block,
                ) from error
            run.forget(*block)
