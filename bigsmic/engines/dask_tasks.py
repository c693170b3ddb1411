"""Payloads that are sent to Dask workers, and functions that run on workers and on the scheduler."""

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle
from typing import Any, NamedTuple

import dask
from distributed import get_worker
from distributed.protocol import pickle

from bigsmic.engines.memory import keep_memory, machine_memory, peak_memory, release_memory, share_arena
from bigsmic.engines.processor import Processor
from bigsmic.errors import ClusterError, RunError
from bigsmic.numerics.one_thread import one_thread
from bigsmic.numerics.row_blocks import TreeSum
from bigsmic.store.reopenable import drop_decoded
from bigsmic.version import versions

CONNECT_SECONDS = 20
"""Seconds that a scheduler may take to answer."""
DEATHS = 3
"""Number of workers that a block may kill before the fit fails."""
OF_FITS = "bigsmic_limit_of_deaths"
"""Attribute of a scheduler with its own limit, and the clients of the fits that have set another."""
_LOADED = uuid.uuid4().hex
CARRIERS = ("dask", "distributed")
"""Packages whose versions can change labels or pickles."""


# -- on the workers


class SharedTask(NamedTuple):
    """Task that is called for many blocks.

    Parameters
    ----------
    task : callable
    name : str
    max_concurrency : int or None
    """

    task: Callable[..., Any]
    name: str
    max_concurrency: int | None

    def __call__(self, block: Any) -> Any:
        """Run the task on one block, and report its start to the scheduler."""
        worker = get_worker()
        worker.log_event(topic_of(self.name), (worker.address, block))
        return self.task(block)


@dataclass(frozen=True)
class Payload:
    """A pickled object whose contents are hidden in logs.

    Parameters
    ----------
    pickled : bytes
    """

    pickled: bytes

    @classmethod
    def of(cls, value: Any) -> "Payload":
        """Pickle a value."""
        return cls(pickle.dumps(value))

    def load(self) -> Any:
        """Return the value."""
        return pickle.loads(self.pickled)

    def __repr__(self) -> str:
        return f"Payload({len(self.pickled)} bytes)"


@dataclass(frozen=True)
class PackedTask:
    """A `SharedTask` as it travels to workers, which must run the same versions.

    Parameters
    ----------
    payload : Payload
        Of the fields of the task.
    wanted : dict of str to str
        Versions of packages.
    """

    payload: Payload
    wanted: dict[str, str]

    def load(self) -> SharedTask:
        """Unpickle the task on a worker."""
        refuse_other_versions(self.wanted, versions_here(), get_worker().address)
        keep_memory()
        share_arena()
        return SharedTask(*self.payload.load())


def _loaded(task: SharedTask | PackedTask) -> SharedTask:
    return task.load() if isinstance(task, PackedTask) else task


def run_each(task: SharedTask | PackedTask, blocks: Sequence[Any]) -> None:
    """Run a task on some blocks, for effect."""
    shared = _loaded(task)
    with slots(shared.max_concurrency):
        for block in blocks:
            shared(block)


def run_collect(task: SharedTask | PackedTask, blocks: Sequence[Any]) -> list[Any]:
    """Values of a task on some blocks, in order."""
    shared = _loaded(task)
    with slots(shared.max_concurrency):
        return [shared(block) for block in blocks]


def run_sum(task: SharedTask | PackedTask, blocks: Sequence[Any], start: int, n: int) -> TreeSum:
    """Part of the sum of n terms: values of a task on some blocks, which are the terms from `start` on."""
    tree, shared = TreeSum(n), _loaded(task)
    with slots(shared.max_concurrency):
        for i, block in enumerate(blocks, start):
            tree.add(i, shared(block))
    return tree


def joined(*parts: TreeSum) -> TreeSum:
    """Several parts of one sum, together."""
    tree = TreeSum(parts[0].sizes[0])
    for part in parts:
        tree.join(part)
    return tree


_gates: dict[int, threading.Semaphore] = {}
_gates_lock = threading.Lock()


@contextmanager
def slots(max_concurrency: int | None) -> Iterator[None]:
    """Limit concurrent tasks of this process to `max_concurrency`, and BLAS to one thread."""
    with _gates_lock:
        gate: Any = (
            nullcontext()
            if max_concurrency is None
            else _gates.setdefault(max_concurrency, threading.Semaphore(max_concurrency))
        )
    with gate, one_thread():
        yield


def sees(payload: Payload) -> bool:
    """Whether this worker can read a run."""
    try:
        return bool(payload.load().identity)
    except RunError:
        return False


def facts_here(dask_worker: Any = None) -> dict[str, Any]:
    """Versions, host, threads, memory and processor of this worker."""
    worker = dask_worker or get_worker()
    host = worker.address.rsplit(":", 1)[0]
    limit, limited_by = _limit(worker)
    return {
        "versions": versions_here(),
        "host": host,
        "threads": worker.state.nthreads,
        "limit": limit,
        "limited_by": limited_by,
        "machine": machine_memory(),
        "processor": Processor.here(),
    }


def _limit(worker: Any) -> tuple[int | None, str]:
    """Bytes that tasks on a worker may fill, by its own configuration of Dask, and what says so; None if nothing does.

    Above its pause fraction a worker begins no task, and above that of termination its nanny kills it. Those of target
    and spill count less: a worker only moves results of tasks to disk, of which a fit has few, and goes on.
    """
    memory = worker.memory_manager
    if not memory.memory_limit:
        return None, ""
    fractions = [memory.memory_pause_fraction]
    if worker.nanny:
        fractions.append(dask.config.get("distributed.worker.memory.terminate", False))
    share = min([1.0, *(float(fraction) for fraction in fractions if fraction)])
    above = ", above which Dask pauses or ends it" if share < 1 else ""
    whole = f"the {memory.memory_limit >> 20}MiB of a worker"
    return int(share * memory.memory_limit), f"that limit is {share:g} of {whole}{above}: give workers more memory"


class Usage(NamedTuple):
    """CPU time and peak memory of a worker.

    Parameters
    ----------
    process : str
        Name of the worker's process; see :func:`process_here`.
    cpu : float
        Seconds.
    peak : int
        Bytes.
    processor : Processor
    """

    process: str
    cpu: float
    peak: int
    processor: Processor


def process_here() -> str:
    """Name of this process, which no other one has, on any machine; a copy of it by fork has another number."""
    return f"{_LOADED}-{os.getpid()}"


def usage_here() -> Usage:
    """Usage of this process, after it has returned what memory it can."""
    drop_decoded()
    release_memory()
    return Usage(process_here(), time.process_time(), peak_memory(), Processor.here())


def versions_here() -> dict[str, str]:
    """Versions of the packages that must be the same on all workers."""
    return versions(*CARRIERS) | {"python": ".".join(str(part) for part in sys.version_info[:2])}


def refuse_other_versions(here: dict[str, str], there: dict[str, str], worker: str) -> None:
    """Raise ClusterError if a worker has other versions than this process."""
    differing = [name for name in here if here[name] != there.get(name)]
    if differing:
        lines = ", ".join(f"{name} {there.get(name)} there and {here[name]} here" for name in differing)
        raise ClusterError(f"cluster: {worker} has {lines}; labels could differ: install the same versions everywhere")


# -- on the scheduler


def limit_deaths(client: str, fit: str, begins: bool, dask_scheduler: Any = None) -> None:
    """Limit the workers that a task may kill while a fit runs, from its begin to its end.

    Fits may overlap: the scheduler's own limit, of before the first one, holds again when the last one has ended, or
    lost its client.
    """
    own, fits = getattr(dask_scheduler, OF_FITS, (dask_scheduler.allowed_failures, {}))
    fits = {one: of for one, of in fits.items() if of in dask_scheduler.clients and one != fit}
    if begins:
        fits[fit] = client
    if fits:
        dask_scheduler.allowed_failures = DEATHS - 1
        setattr(dask_scheduler, OF_FITS, (own, fits))
    elif hasattr(dask_scheduler, OF_FITS):
        dask_scheduler.allowed_failures = own
        delattr(dask_scheduler, OF_FITS)


def draws_reports() -> bool:
    """Whether bokeh, which makes reports, is installed."""
    return find_spec("bokeh") is not None


def worker_statuses(dask_scheduler: Any = None) -> dict[str, str]:
    """Statuses of all workers, by address."""
    return {address: worker.status.name for address, worker in dask_scheduler.workers.items()}


def running_workers(dask_scheduler: Any = None) -> dict[str, int]:
    """Number of threads of the workers that accept tasks, by address, in order."""
    workers = sorted(dask_scheduler.workers.items())
    return {address: worker.nthreads for address, worker in workers if worker.status.name == "running"}


def move_from_paused(keys: Sequence[Any], dask_scheduler: Any = None) -> None:
    """Give others what paused workers have not begun of these tasks and of those that they depend on.

    Dask moves tasks away from busy workers only, and a paused one with a single task is not busy.
    """
    running = [worker for _, worker in sorted(dask_scheduler.workers.items()) if worker.status.name == "running"]
    stealing = dask_scheduler.extensions.get("stealing")
    if not running or stealing is None:
        return
    tasks, takers = dask_scheduler.tasks, cycle(running)
    left, seen = [tasks[key] for key in keys if key in tasks], set()
    while left:
        task = left.pop()
        if task in seen:
            continue
        seen.add(task)
        left += task.dependencies
        if (holder := task.processing_on) is not None and holder.status.name == "paused":
            stealing.move_task_request(task, holder, next(takers))  # which a worker that has begun it declines


def task_key(name: str) -> str:
    """Key of a task; dashboards show the name in it."""
    return f"{name.replace(' ', '_')}-{uuid.uuid4().hex}"


def topic_of(name: str) -> str:
    """Topic of the scheduler's log of started blocks."""
    return f"bigsmic {name}"
