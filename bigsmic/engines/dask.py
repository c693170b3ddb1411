"""The engine for Dask clusters.

An operation is submitted as few tasks, at most :data:`~bigsmic.numerics.row_blocks.MAX_TASKS`, whatever the number of
blocks: a task processes a range of consecutive blocks; those of sums are nodes of the fixed tree. Small inputs are sent
with each of the tasks; large ones once per operation, as the result of another task, which the scheduler computes again
if its worker is lost. Workers share only the store.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from distributed import Client, Future, as_completed, performance_report, rejoin, secede
from distributed.scheduler import KilledWorker
from distributed.worker import thread_state

from bigsmic.engines.base import DEFAULT, Resources, TaskOptions
from bigsmic.engines.dask_reports import refuse_others
from bigsmic.engines.dask_tasks import (
    CONNECT_SECONDS,
    DEATHS,
    PackedTask,
    Payload,
    draws_reports,
    facts_here,
    joined,
    limit_deaths,
    process_here,
    refuse_other_versions,
    run_collect,
    run_each,
    run_sum,
    running_workers,
    sees,
    task_key,
    topic_of,
    usage_here,
    versions_here,
    worker_statuses,
)
from bigsmic.engines.paused_workers import PausedWorkers
from bigsmic.engines.processor import Processor, differences
from bigsmic.errors import BigsmicError, ClusterError, InputError, LostBlocksError, RunError
from bigsmic.numerics.row_blocks import shares, split_blocks, stretches
from bigsmic.store import stage_input
from bigsmic.warning import warn

WORKER_SECONDS = 300
"""Seconds to wait for the first worker of a cluster."""
RETURN_SECONDS = 10
"""Seconds to wait for lost workers to return, before their blocks are given to others."""
WATCH_SECONDS = 30
"""Seconds between checks of workers that report nothing."""
SUMS_PER_THREAD = 4  # partial sums kept in the memory of a worker
JOINED = 8  # partial sums that one task adds
SENT_WITH_TASKS = 1 << 20
"""Largest input of an operation, in bytes over all of its tasks, that is sent with each task. One that is sent once is
the result of a task: few tasks that depend on it would all run on the worker that has it, and wait for it first."""

AnyFuture: TypeAlias = "Future[Any]"
"""Quoted, as Future is not generic in older versions of distributed."""


def within_task() -> bool:
    """Whether the caller is a task on a thread of a worker."""
    return getattr(thread_state, "key", None) is not None


class ClusterEngine:
    """Engine that runs tasks on the workers of a Dask cluster.

    If it is opened within a Dask task, that task secedes from its worker's threads while the engine is open, as in
    ``dask.compute``, as the tasks that it waits for may have to run there.

    Parameters
    ----------
    client : distributed.Client
    owned : bool
        Whether to close the client at the end.

    Raises
    ------
    ClusterError
        There is no worker, or workers have other versions of packages that can change labels.
    """

    def __init__(self, client: Client, owned: bool = False) -> None:
        self.client, self._owned = client, owned
        self._token = task_key("fit")
        self._cpu: dict[str, float] = {}
        self._known: set[tuple[object, ...]] = set()
        self.reached: dict[str, bool] = {}  # workers that actors' calls could, or could not, reach directly
        self._seceded = False

    def __enter__(self) -> Self:
        try:
            self._seceded = _secede()
            self.resources = self._look()
            self.client.run_on_scheduler(limit_deaths, self.client.id, self._token, True)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(Exception):  # the scheduler may have ended, and its settings with it
            if self.client.status == "running":
                self.client.run_on_scheduler(limit_deaths, self.client.id, self._token, False)
        self._close()

    def _close(self) -> None:
        try:
            if self._owned:
                self.client.close(timeout=CONNECT_SECONDS)
        finally:
            if self._seceded:
                rejoin()

    def _look(self) -> Resources:
        """Resources of the workers, which must exist and have the same package versions."""
        try:
            self.await_workers()
            found = self.client.run(facts_here, on_error="return")  # as workers may leave at this moment
            facts = {worker: fact for worker, fact in found.items() if not isinstance(fact, OSError)}
            for fact in facts.values():
                if isinstance(fact, Exception):
                    raise fact
        except (ImportError, AttributeError) as error:
            raise ClusterError(
                f"cluster: workers have another version of bigsmic, or none ({error}); "
                "install the same version on all of them"
            ) from error
        except OSError as error:
            raise ClusterError(
                f"cluster: the scheduler {self.address} does not answer ({error}); check that it runs"
            ) from error
        if not facts:
            raise ClusterError(f"cluster: the workers of {self.address} do not answer; see their logs")
        here = versions_here()
        for worker, fact in facts.items():
            refuse_other_versions(here, fact["versions"], worker)
        self._warn_of_other_processors([fact["processor"] for fact in facts.values()])
        per_host: dict[str, int] = {}
        for fact in facts.values():
            per_host[fact["host"]] = per_host.get(fact["host"], 0) + 1
        limit, limited_by = min(
            (fact["limit"] or int(0.75 * fact["machine"] / per_host[fact["host"]]), fact["limited_by"])
            for fact in facts.values()
        )
        n_threads = max(fact["threads"] for fact in facts.values())
        return Resources(len(facts), n_threads, limit, max(per_host.values()), limited_by)

    def _warn_of_other_processors(self, found: Sequence[Processor]) -> None:
        """Warn, once for each type, of workers whose processors compute other bits."""
        types = {processor.bits for processor in found}
        text = differences(Processor.here(), found)
        if not text or types <= self._known:
            return
        self._known |= types
        warn(
            f"cluster: processors of several types: {text}. Their floating-point sums differ in the last bits, so "
            "that labels may depend on the distribution of tasks: use machines of one type if labels must be "
            "reproducible"
        )

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        return str(self.client.scheduler.address) if self.client.scheduler else "the scheduler"

    @contextmanager
    def recorded(self, path: Any) -> Iterator[None]:
        """Context manager in which Dask writes an HTML report of the run, even if the run fails.

        Parameters
        ----------
        path : str or Path, optional
            None for no report.

        Raises
        ------
        InputError
            The report cannot be written; nothing has run.
        """
        if path is None:
            yield
            return
        folder = Path(path).absolute().parent
        if not os.access(folder, os.W_OK):
            raise InputError(f"performance_report: cannot write to {folder}; give a path in an existing folder")
        refuse_others(Path(path))
        if not self.client.run_on_scheduler(draws_reports):
            raise InputError(
                "performance_report: the scheduler lacks bokeh, which makes the report; install bokeh "
                "where the scheduler runs"
            )
        report = performance_report(os.fspath(path))
        with self.client.as_current():
            report.__enter__()
        try:
            yield
        except BaseException:
            with suppress(Exception):  # an error of the report must not hide that of the run
                self._end_report(report)
            raise
        try:
            self._end_report(report)
        except Exception as error:  # a full disk, say, must not cost a run that has ended
            warn(
                f"performance_report: {path} could not be written ({error}); the run itself has ended, without a report"
            )

    def _end_report(self, report: Any) -> None:
        with self.client.as_current():
            report.__exit__(None, None, None)

    def reach(self, source: Any, run: Any, bounds: Any) -> Any:
        """Return a source that workers can read; rows in the memory of this process are copied into the run.

        Parameters
        ----------
        source : Source
        run : Run
            Or another object of the store that tasks write to, with an `identity` and a `location`.
        bounds : ndarray of int64
            Row ranges that tasks will ask for.

        Raises
        ------
        RunError
            A worker cannot see the run directory.
        """
        payload = Payload.of(run)
        futures = {
            worker: self.client.submit(sees, payload, workers=[worker], key=task_key("look"), pure=False)
            for worker in self.workers()
        }
        seeing = [self._answer(worker, future) for worker, future in futures.items()]
        if False in seeing:
            raise RunError(
                f"cluster: {seeing.count(False)} of {len(futures)} workers cannot find {run.location}; give an out= "
                "on storage that all workers share, such as a shared file system or s3://"
            )
        return source if source is None or source.travels else stage_input(source, run, bounds)

    def usage(self) -> tuple[float, int]:
        """CPU seconds of this process and the workers, and the largest resident set of a present worker.

        For a lost worker, its CPU seconds at the last request are counted.
        """
        try:
            found = self.client.run(usage_here, on_error="ignore").values()
        except Exception as error:
            raise self._lost("cluster", error) from error
        self._warn_of_other_processors([usage.processor for usage in found])  # of workers that have joined since, too
        self._cpu |= {usage.process: usage.cpu for usage in found}
        cpu = self._cpu | {process_here(): time.process_time()}  # workers of this process are in it
        return sum(cpu.values()), max((usage.peak for usage in found), default=0)

    def _answer(self, worker: Any, future: AnyFuture) -> Any:
        """Result of a task that was sent to one worker; None if the worker leaves before it answers."""
        while True:
            try:
                return future.result(timeout=1)
            except TimeoutError:
                if future.done():  # just after the time-out; or the task itself raised a TimeoutError
                    return future.result()
                if worker not in self.workers():
                    return None

    def await_workers(self, wanted: int = 1) -> None:
        """Wait until there is a worker, and for a limited time for `wanted` of them.

        It submits a task, so that adaptive clusters start a worker.

        Raises
        ------
        ClusterError
        """
        try:
            with self._connected("cluster"):
                self.client.submit(facts_here, pure=False, key=task_key("look")).result(timeout=WORKER_SECONDS)
        except TimeoutError:
            raise ClusterError(
                f"cluster: {self.address} has had no free worker for {WORKER_SECONDS} s; start workers, wait for busy "
                "ones, or give more memory to those that Dask has paused"
            ) from None
        deadline = time.monotonic() + RETURN_SECONDS
        while len(self.workers()) < wanted and time.monotonic() < deadline:
            time.sleep(0.2)

    def workers(self) -> dict[str, int]:
        """Number of threads of the workers that accept tasks, by address."""
        return self._on_scheduler(running_workers)

    def statuses(self) -> dict[str, str]:
        """Statuses of all workers, such as running and paused, by address."""
        return self._on_scheduler(worker_statuses)

    def retired(self, workers: Sequence[str]) -> bool:
        """Whether all missing workers were retired, and none has died."""
        statuses = self.statuses()
        gone = [worker for worker in workers if statuses.get(worker) != "running"]
        return bool(gone) and all(statuses.get(w) == "closing_gracefully" or self._was_removed(w) for w in gone)

    def _on_scheduler(self, function: Callable[..., Any]) -> Any:
        try:
            return self.client.run_on_scheduler(function)
        except Exception as error:  # of which there are many, while a client closes as well
            raise self._lost("cluster", error) from error

    @contextmanager
    def _connected(self, during: str) -> Iterator[None]:
        """Context in which errors of a client that has lost its connection, or is closed, are a ClusterError."""
        try:
            yield
        except Exception as error:
            if self.client.status == "running" or isinstance(error, BigsmicError):
                raise
            raise self._lost(during, error) from error

    def _lost(self, during: str, error: Exception) -> ClusterError:
        return ClusterError(
            f"{during}: the connection to {self.address} was lost ({error}); finished blocks are kept, and the same "
            "call resumes"
        )

    def _was_removed(self, worker: Any) -> bool:
        """Whether the scheduler removed a worker on purpose."""
        with self._connected("cluster"):
            events = [event for _, event in self.client.get_events(worker) if isinstance(event, dict)]
        return any(event.get("expected") for event in events if event.get("action") == "remove-worker")

    # -- tasks over blocks

    def for_each(self, task: Callable[..., Any], blocks: Any, options: TaskOptions = DEFAULT) -> None:
        """Run `task` on every block; after an error, no further task is started."""
        self._in_pieces(run_each, task, list(blocks), options, keep=False)

    def map(self, task: Callable[..., Any], blocks: Any, options: TaskOptions = DEFAULT) -> list[Any]:
        """Return ``[task(b) for b in blocks]``."""
        found = self._in_pieces(run_collect, task, list(blocks), options)
        return [value for values in found for value in values]

    def reduce(self, task: Callable[..., Any], blocks: Any, options: TaskOptions = DEFAULT) -> Any:
        """Return the sum over blocks along the fixed tree; workers add, and this process receives one sum."""
        blocks = list(blocks)
        pieces = stretches(len(blocks), max(1, SUMS_PER_THREAD * sum(self.workers().values())))
        shared = self._share(task, options, len(pieces))
        numbers = [[blocks[i] for i in piece] for piece in pieces]
        starts = [piece.start for piece in pieces]
        futures = [
            self._submit(options, run_sum, shared, of_run, start, len(blocks))
            for of_run, start in zip(numbers, starts, strict=True)
        ]
        level = list(futures)
        while len(level) > 1:
            parts = [level[i : i + JOINED] for i in range(0, len(level), JOINED)]
            level = [
                self.client.submit(joined, *part, key=task_key(f"{options.name} sum"), pure=False) for part in parts
            ]
        self._gather(futures, numbers, options, keep=False)
        for _ in self._completed(level):
            pass
        return self._result(level[0], options, blocks).total()

    def run_actors(
        self, make: Callable[..., Any], bounds: Any, work: Callable[..., Any], options: TaskOptions = DEFAULT
    ) -> Any:
        """Return ``work(group)`` for actors on all workers; if some are lost, repeat on the remaining ones."""
        from bigsmic.engines.dask_actors import WorkerGroup

        return WorkerGroup.run_actors(self, make, np.asarray(bounds, np.int64), work, options)

    def split_blocks(self, bounds: Any) -> tuple[list[str], list[int]]:
        """Addresses of the workers, and the bounds of their ranges of row blocks."""
        workers = list(self.workers())
        cuts = split_blocks(np.diff(bounds), len(workers))
        return workers[: len(cuts) - 1], cuts

    # -- tasks

    def _in_pieces(
        self,
        run_task: Callable[..., Any],
        task: Callable[..., Any],
        blocks: Any,
        options: TaskOptions,
        keep: bool = True,
    ) -> list[Any]:
        if not blocks:
            return []
        pieces = shares(len(blocks), max(1, sum(self.workers().values())))
        shared = self._share(task, options, len(pieces))
        numbers = [[blocks[i] for i in piece] for piece in pieces]
        return self._gather(
            [self._submit(options, run_task, shared, of_run) for of_run in numbers], numbers, options, keep
        )

    def _share(self, task: Callable[..., Any], options: TaskOptions, n: int) -> "AnyFuture | PackedTask":
        """What n tasks of an operation have in common: itself if it is small, else sent to the workers once."""
        packed = PackedTask(Payload.of((task, options.name, options.max_concurrency)), versions_here())
        if n * len(packed.payload.pickled) <= SENT_WITH_TASKS:
            return packed
        with self._connected(options.name):
            return self.client.submit(packed.load, key=task_key(f"{options.name} begin"), pure=False)

    def _submit(self, options: TaskOptions, function: Callable[..., Any], *arguments: Any) -> AnyFuture:
        with self._connected(options.name):
            return self.client.submit(function, *arguments, key=task_key(options.name), pure=False)

    def _gather(
        self, futures: list[AnyFuture], numbers: list[list[Any]], options: TaskOptions, keep: bool = True
    ) -> list[Any]:
        """Results in order, fetched in one request; ticks after each task."""
        places = {future.key: i for i, future in enumerate(futures)}
        try:
            for future in self._completed(futures):
                i = places[future.key]
                if future.status != "finished":
                    self._result(future, options, numbers[i])
                if options.tick is not None:
                    for _ in numbers[i]:
                        options.tick()
        except BaseException:
            self.client.cancel(futures, force=True) if self.client.status == "running" else None
            raise
        return self._results(futures, numbers, options) if keep else []

    def _results(self, futures: list[AnyFuture], numbers: list[list[Any]], options: TaskOptions) -> list[Any]:
        """Results of finished tasks: in one request, or one by one if some were lost since."""
        with suppress(Exception):
            return self.client.gather(futures)
        return [self._result(future, options, of_run) for future, of_run in zip(futures, numbers, strict=True)]

    def _completed(self, futures: list[AnyFuture]) -> Iterator[AnyFuture]:
        """Yield futures as they finish, and see to workers that are paused; ClusterError if all are."""
        pending, watch = dict.fromkeys(futures), PausedWorkers(self.client, self.address)
        while pending:
            loop = self.client.loop  # as this client need not be the default one
            done = as_completed(pending, loop=loop, timeout=WATCH_SECONDS)
            while (future := _next(done)) is not None:
                del pending[future]
                yield future
            if pending:
                with self._connected("cluster"):
                    watch.look([future.key for future in pending])

    def _result(self, future: AnyFuture, options: TaskOptions, blocks: Any) -> Any:
        try:
            return future.result(timeout=CONNECT_SECONDS if future.status in ("cancelled", "lost") else None)
        except KilledWorker as error:
            blamed = self._blamed(options.name, blocks, error.last_worker.address)
            raise LostBlocksError(
                f"{options.name}: {DEATHS} workers died while they ran block {blamed}; see the log of "
                f"{error.last_worker.address}",
                options.name,
                [blamed],
            ) from error
        except Exception as error:
            if future.status in ("cancelled", "lost"):
                raise self._lost(options.name, error) from error
            raise

    def _blamed(self, name: str, blocks: Any, worker: Any) -> Any:
        """The block that a dead worker was running, not those that were queued or finished there."""
        with suppress(Exception):
            begun = [event for _, event in self.client.get_events(topic_of(name))]
            running = [block for address, block in begun if address == worker][-self.resources.n_threads :]
            times = Counter(block for _, block in begun)
            return max(running, key=lambda block: times[block])
        return blocks[0]


def _next(completed: Any) -> "AnyFuture | None":
    """The next finished future; None if there is none in time."""
    try:
        return next(completed, None)
    except TimeoutError:
        return None


def _secede() -> bool:
    """Secede from the threads of this task's worker; return whether the task was on one of them."""
    if not within_task():
        return False
    with suppress(KeyError):  # it has seceded already
        secede()
        return True
    return False
