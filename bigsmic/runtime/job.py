"""One fit at work: a context, the engine that runs its tasks, and the plan that they keep to."""

import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bigsmic.engines.base import Engine, TaskOptions
from bigsmic.engines.memory import release_memory
from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import CorruptBlockError, LostBlocksError
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context, _releasing
from bigsmic.runtime.progress import ticks
from bigsmic.store import Run


@dataclass
class Job:
    """A context together with the place where its tasks run.

    Parameters
    ----------
    context : Context
    engine : Engine
    plan : Plan
        How many tasks of each stage may run at once, and what stays in memory.
    progress : callable, optional
        ``progress(stage, done, total)``.
    beside : dict of str to ndarray
        What came beside the rows, such as labels of some of them; tasks read it from the run directory.
    """

    context: Context
    engine: Engine
    plan: Any
    progress: Callable[[str, int, int], None] | None = None
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    side_inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def run(self):
        """The run directory."""
        return self.context.run

    def under(self, settings):
        """The same job as stages see it that have other settings."""
        return replace(self, context=self.context.under(settings))

    @contextmanager
    def timed(self, stage: str):
        """Note what a stage costs, and give it the max_concurrency that the plan allows."""
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
            self.context.forget("sample")
            release_memory()

    def complete(self, stage: str, blocks: Iterable[int]):
        """Whether the ledger has all of `blocks`."""
        return not self.run.missing(stage, blocks)

    def fill(self, stage: str, blocks: Iterable[int], task: Callable[[Context, int], Any]):
        """Run `task` on the blocks that the ledger lacks."""
        blocks = list(blocks)
        todo = self.run.missing(stage, blocks)
        if todo:
            options = self._options(stage, len(blocks), len(blocks) - len(todo))
            with self._naming_lost(stage, todo), _releasing():
                self.engine.for_each(partial(_fill, task, stage, self.context), todo, options)

    @contextmanager
    def _naming_lost(self, stage, blocks):
        """Say which rows kill their workers."""
        try:
            yield
        except LostBlocksError as error:
            block = (error.blocks or blocks)[0]
            rows = self.context.rows_of(stage, block)
            raise LostBlocksError(
                f"{stage}: block {block}, {rows}, killed every worker that ran it; {error}", stage, [block]
            ) from error

    def run_steps(self, stage: str, blocks: Iterable[int], step: Callable[["Job", int], None]):
        """Run steps that the ledger lacks one after the other, here; each may spread tasks of its own."""
        for b in blocks:
            if not self.run.done(stage, b):
                step(self, b)

    def map_blocks(self, stage: str, blocks: Iterable[Any], task: Callable[[Context, Any], Any]):
        """Return what `task` makes of each block."""
        blocks = list(blocks)
        with _releasing():
            return self.engine.map(partial(task, self.context), blocks, self._options(stage, len(blocks)))

    def sum_blocks(self, stage: str, blocks: Iterable[int], task: Callable[[Context, int], Any]):
        """Return the sum over blocks, along the fixed tree."""
        blocks = list(blocks)
        with _releasing():
            return self.engine.reduce(partial(task, self.context), blocks, self._options(stage, len(blocks)))

    def map_here(self, task: Callable[[Any], Any], items: Iterable[Any]):
        """Return what `task` makes of each item, on threads of this process: small algebra on what has been summed."""
        with ThreadEngine(self._max_concurrency) as engine:
            return engine.map(task, items)

    def run_actors(self, stage: str, make: Callable[[Context, Shard], Any], work: Callable[[Group], Any], bounds=None):
        """Return ``work(group)``, the group being actors ``make(context, shard)`` that shard out the row blocks.

        The row blocks are those of the layout, or have other `bounds`. When a place is lost, `work` begins again with
        new actors; what it has written to the run directory it finds there.
        """
        options = TaskOptions(stage, self._max_concurrency)
        bounds = self.context.layout.bounds if bounds is None else bounds
        return self.engine.run_actors(partial(make, self.context), bounds, work, options)

    def report(self, stage: str, done: int, total: int):
        """Say what is done of a stage, if anybody wants to know."""
        if self.progress is not None:
            self.progress(stage, done, total)

    @property
    def _max_concurrency(self):
        return self.plan.max_concurrency(self._stage)

    def _options(self, stage, total, done=0):
        return TaskOptions(stage, self._max_concurrency, ticks(self.progress, stage, total, done))


def _fill(task, stage, context, block):
    """Run a task, unless the place that had it before was lost only after it had finished."""
    if not context.run.done(stage, block):
        task(context, block)


def with_repair(run: Run, work: Callable[[], Any], attempts: int = 3):
    """Run `work`; a corrupt block is struck off the ledger and `work` run again, which redoes what is missing."""
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
                    f"{error}: it was made {attempts - 1} times in this call and is damaged again, so the disk may be "
                    "failing; give another out=",
                    *block,
                ) from error
            run.forget(*block)
