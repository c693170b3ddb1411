"""Plan of a fit: memory, disk and work of every stage, predicted before the first task runs.

Every figure is a function of shape and settings. The memory limit determines how many tasks run concurrently, whether
basis and kernel stay in memory or on disk, and how many LSMI widths share a pass. It changes no label.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from bigsmic.engines.memory import FREED_BYTES, MOST_FREED_BYTES, machine_memory
from bigsmic.errors import PlanError
from bigsmic.numerics.row_blocks import MAX_TASKS
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.runtime.duration import Duration
from bigsmic.runtime.plan_text import plan_page
from bigsmic.store import SparseSource
from bigsmic.tables import rendered
from bigsmic.types import Integers

INTERPRETER_BYTES = 320 << 20
"""Memory of Python with NumPy, SciPy, numba, scikit-learn and Zarr: 210 MiB at the end of a fit, and 100 MiB more if
numba compiles functions that its cache lacks, as in the first fit after installation, as the compiler stays in
memory."""
EDGES_PER_NEIGHBOR = 1.6  # undirected edges of a t-graph per row and neighbour; measured up to 1.55
HELD = 1.5  # rows of a shard and of its halo, over an even share
LENT, LENT_ROWS, LENT_POWER = 0.75, 5e4, 0.1
"""Rows of others that all workers need together, over the rows, for each doubling of the workers: measured up to .73
with t = 10 and so many rows. The share falls with this power of the rows, or faster. Clusters that are apart need far
fewer if each lies on one worker."""
GHOSTS = 2.0  # copies of a row that routing makes; measured up to 1.93
WORK = ("flops", "disk_bytes", "passes", "traffic_bytes")
"""Figures of a stage that add up if it runs several times."""


@dataclass(frozen=True)
class GraphSize:
    """Size of a graph that is given in place of rows.

    Parameters
    ----------
    entries : int
        Stored entries of its matrix.
    block_entries : int
        Those of the block of rows that has most.
    matrix_bytes : int
        Bytes of the matrix in the memory of this process, during the whole fit.
    """

    entries: int
    block_entries: int
    matrix_bytes: int = 0

    @classmethod
    def of(cls, source: SparseSource, n: int, block_sizes: BlockSizes) -> Self:
        """Size of a graph like that of a source, but of n rows."""
        bounds, share = block_sizes.graph_bounds(source.shape[0]), n / source.shape[0]
        counts = np.diff(source.array.indptr[bounds].astype(np.int64))
        return cls(int(share * counts.sum()), int(counts.max()), int(share * source.matrix_bytes))


@dataclass(frozen=True)
class Size:
    """Size of the input and number of workers.

    Parameters
    ----------
    n, d : int
        Rows and columns.
    itemsize : int
        Bytes of an entry as stored.
    band_bytes : int
        Memory that reading the input takes in addition to the rows asked for.
    n_workers : int
        Processes among which row blocks that stay in memory are distributed.
    block_sizes : BlockSizes
        Sizes of the blocks into which the input is cut.
    workers_per_machine : int
        Of these processes, those that share the memory bandwidth of a machine, at most.
    graph : GraphSize or None
        Size of the graph, if the input is one.
    """

    n: int
    d: int
    itemsize: int = 4
    band_bytes: int = 0
    n_workers: int = 1
    block_sizes: BlockSizes = field(default_factory=BlockSizes)
    workers_per_machine: int = 1
    graph: GraphSize | None = None

    @property
    def source_bounds(self) -> Integers:
        """Bounds of the blocks of input rows."""
        if self.graph:
            return self.block_sizes.graph_bounds(self.n)
        return self.block_sizes.source_bounds(self.n, self.d)

    @property
    def values(self) -> int:
        """Numbers that the input has."""
        return self.graph.entries if self.graph else self.n * self.d

    @property
    def held_rows(self) -> int:
        """Rows of the largest shard, and of its halo."""
        return self.n if self.n_workers == 1 else min(self.n, math.ceil(HELD * self.n / self.n_workers))


@dataclass(frozen=True)
class StagePlan:
    """Predicted memory, disk and work of one stage.

    Parameters
    ----------
    name : str
    tasks : int
        Number of tasks.
    fixed_bytes : int
        Memory in addition to that of the tasks.
    task_bytes : int
        Memory of one task.
    max_concurrency : int
        Concurrent tasks.
    flops : float
        Approximate number of floating-point operations.
    disk_bytes : int
        Bytes that the stage writes.
    passes : int
        Number of maps and sums over its blocks.
    traffic_bytes : int
        What workers send each other.
    remedy : str
        How a caller can make the stage need less memory, for a message; empty if only a larger limit helps.
    """

    name: str
    tasks: int
    fixed_bytes: int
    task_bytes: int
    max_concurrency: int = 1
    flops: float = 0.0
    disk_bytes: int = 0
    passes: int = 1
    traffic_bytes: int = 0
    remedy: str = ""

    @property
    def scheduler_tasks(self) -> int:
        """Largest number of tasks for a cluster's scheduler: ``passes (1 + min(blocks, 256))``, whatever the rows."""
        return self.passes * (1 + min(self.tasks, MAX_TASKS))

    @property
    def peak_bytes(self) -> int:
        """Predicted peak of the process during the stage."""
        return INTERPRETER_BYTES + self.fixed_bytes + self.max_concurrency * self.task_bytes


@dataclass(frozen=True, repr=False)
class Plan:
    """Predicted memory, disk and work of a fit, stage by stage; its ``repr`` is the table of ``bigsmic plan``.

    Parameters
    ----------
    size : Size
    memory_limit : int
        Bytes that the process may use.
    stages : dict of str to StagePlan
    sample_rows : int
        Rows that the scan draws for the cells.
    n_gammas : int
        LSMI widths per pass.
    basis_in_memory, kernel_in_memory : bool
        Whether the eigensolver keeps its basis, and the matrix, in memory.
    vectors_in_memory : bool
        Whether it keeps all vectors between two products in memory, or only those that are multiplied.
    basis_bytes : int
        Bytes of a basis on disk that stay in memory: its first blocks.
    checkpoints : bool
        Whether long solves write checkpoints.
    decoded : str
        Description of how stored numbers are decoded; empty if they are used as they are.
    scale : str or None
        Scaling of the columns; "auto" if the scan, which reads the rows, is to choose it.
    duration : Duration or None
        How long the fit is expected to take; None for methods without measured rates.
    held_bytes : int
        Bytes of a temporary run directory that stay in memory instead of on disk, at most.
    """

    size: Size
    memory_limit: int
    stages: dict[str, StagePlan]
    sample_rows: int
    n_gammas: int = 1
    basis_in_memory: bool = True
    kernel_in_memory: bool = True
    vectors_in_memory: bool = True
    basis_bytes: int = 0
    checkpoints: bool = True
    decoded: str = ""
    scale: str | None = None
    duration: Duration | None = None
    held_bytes: int = 0

    def __repr__(self) -> str:
        return rendered(plan_page(self))

    @property
    def scheduler_tasks(self) -> int:
        """Largest number of tasks for a cluster's scheduler."""
        return sum(stage.scheduler_tasks for stage in self.stages.values())

    def max_concurrency(self, stage: str) -> int:
        """Concurrent tasks of a stage."""
        return self.stages[stage].max_concurrency

    @property
    def peak_bytes(self) -> int:
        """Predicted peak of the process."""
        return self.held_bytes + max(stage.peak_bytes for stage in self.stages.values())

    @property
    def kept_bytes(self) -> int:
        """Freed memory that the process may keep for its next arrays: what the limit leaves, within bounds."""
        return max(FREED_BYTES, min(MOST_FREED_BYTES, self.memory_limit - self.peak_bytes))

    @property
    def disk_bytes(self) -> int:
        """Predicted size of the run directory at its largest."""
        return sum(stage.disk_bytes for stage in self.stages.values())

    @property
    def traffic_bytes(self) -> int:
        """What workers send each other, beside what they write to the run directory and read there."""
        return sum(stage.traffic_bytes for stage in self.stages.values())


def joined(plans: Sequence[Plan], repeated: Collection[str], n_threads: int) -> Plan:
    """Plan with room for the parts of one fit, which are planned within one limit.

    Parameters
    ----------
    plans : sequence of Plan
        The first has every stage.
    repeated : collection of str
        Stages that run in every part, and whose work adds up.
    n_threads : int
        Largest number of concurrent tasks.

    Raises
    ------
    PlanError
        A stage does not fit with one task at a time.
    """
    stages = []
    for name in plans[0].stages:
        of_parts = [plan.stages[name] for plan in plans if name in plan.stages]
        total = sum if name in repeated else max
        most = {figure: max(getattr(stage, figure) for stage in of_parts) for figure in ("fixed_bytes", "task_bytes")}
        work = {figure: total([getattr(stage, figure) for stage in of_parts]) for figure in WORK}
        stages.append(replace(of_parts[0], **most, **work))
    return replace(
        plans[0],
        stages=widened(stages, plans[0].memory_limit, n_threads),
        n_gammas=min(plan.n_gammas for plan in plans),
        basis_in_memory=all(plan.basis_in_memory for plan in plans),
        kernel_in_memory=all(plan.kernel_in_memory for plan in plans),
        vectors_in_memory=all(plan.vectors_in_memory for plan in plans),
        basis_bytes=min(plan.basis_bytes for plan in plans),
    )


def limit_of(memory_limit: int | None) -> int:
    """Memory limit in bytes: the given one, or three quarters of the machine's memory."""
    return memory_limit or int(0.75 * machine_memory())


def lent_rows(n: int, n_workers: int) -> int:
    """Rows that workers send to others, in all, whenever the matrix is multiplied or labels move.

    Parameters
    ----------
    n, n_workers : int
    """
    return int(LENT * math.log2(n_workers) * n * min(1.0, LENT_ROWS / n) ** LENT_POWER)


def widened(stages: Iterable[StagePlan], limit: int, n_threads: int) -> dict[str, StagePlan]:
    """Stages by name, each with as many concurrent tasks as memory allows.

    Parameters
    ----------
    stages : sequence of StagePlan
    limit : int
        Bytes that the process may use.
    n_threads : int

    Raises
    ------
    PlanError
        A stage does not fit with one task at a time.
    """
    found = {stage.name: _widened(stage, limit, n_threads) for stage in stages}
    _refuse_what_does_not_fit(found.values(), limit)
    return found


def scan_stage(size: Size, wanted: int) -> StagePlan:
    """Figures of the scan, which reads, checks and sums rows, and gathers a sample of `wanted` rows at the end."""
    n, d = size.n, size.d
    bounds = size.source_bounds
    task = int(bounds[1]) * d * (2 * size.itemsize) + (4 << 20)
    return StagePlan(
        "scan", len(bounds) - 1, size.band_bytes, task, flops=6.0 * n * d, disk_bytes=wanted * d * size.itemsize
    )


def building_bytes(rows: int, n_neighbors: int, t: int) -> float:
    """Bytes for building a kernel block from a block of the graph, mask and running number of its edges included."""
    return rows * EDGES_PER_NEIGHBOR * (n_neighbors * 20 + t * 40)


def _widened(stage: StagePlan, limit: int, n_threads: int) -> StagePlan:
    room = limit - INTERPRETER_BYTES - stage.fixed_bytes
    return replace(stage, max_concurrency=max(1, min(n_threads, room // max(1, stage.task_bytes))))


def _refuse_what_does_not_fit(stages: Iterable[StagePlan], limit: int) -> None:
    worst = max(stages, key=lambda stage: stage.peak_bytes)
    if worst.peak_bytes > limit:
        raise PlanError(
            f"plan: stage {worst.name} needs {_mib(worst.peak_bytes)} with one task at a time, but the memory limit "
            f"is {_mib(limit)}; set memory_limit to at least {_mib(worst.peak_bytes)}"
            + (f", or {worst.remedy}" if worst.remedy else "")
        )


def _mib(size: int) -> str:
    return f"{-(-size // (1 << 20))}MiB"
