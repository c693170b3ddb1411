"""The engine that runs tasks on threads of this process.

A task is a function of one block that returns a small value or nothing; bulk data go through the store. BLAS runs on
one thread inside each task. :mod:`bigsmic.engines.dask` has the same operations on a Dask cluster.
"""

import numbers
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any, Self

from bigsmic.engines.base import DEFAULT, Engine, Resources, TaskOptions
from bigsmic.engines.memory import address_room, peak_memory, release_memory
from bigsmic.errors import InputError
from bigsmic.numerics.one_thread import ONE_THREAD
from bigsmic.numerics.row_blocks import LocalGroup, Shard, TreeSum, close
from bigsmic.types import StrPath


def check_threads(n_threads: object) -> None:
    """Refuse an invalid number of threads.

    Raises
    ------
    InputError
    """
    if not isinstance(n_threads, numbers.Integral) or isinstance(n_threads, bool) or n_threads < 1:
        raise InputError(f"n_threads: got {n_threads!r}; give an integer of at least 1, or None for all processors")


class ThreadEngine:
    """Runs tasks on threads of this process.

    Parameters
    ----------
    n_threads : int
        Concurrent tasks. BLAS and LAPACK are limited to one thread each while the engine is open.
    """

    def __init__(self, n_threads: int = 1):
        check_threads(n_threads)
        self.n_threads = int(n_threads)
        room = address_room()
        limited_by = "" if room is None else "that limit is what `ulimit -v` leaves to this process: raise it"
        self.resources = Resources(n_threads=self.n_threads, memory_limit=room, limited_by=limited_by)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        ONE_THREAD.acquire()
        self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="bigsmic")
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._pool is not None
        try:
            self._pool.shutdown(wait=True, cancel_futures=True)
        finally:  # a second interruption would leave BLAS on one thread until the process ends
            ONE_THREAD.release()

    def usage(self) -> tuple[float, int]:
        """CPU seconds so far, and the largest resident set in bytes."""
        return time.process_time(), peak_memory()

    def recorded(self, path: StrPath | None) -> AbstractContextManager[None]:
        """Context manager that records nothing; see :meth:`bigsmic.engines.dask.ClusterEngine.recorded`.

        Raises
        ------
        InputError
            A report was asked for.
        """
        if path is not None:
            raise InputError(
                "performance_report: only a Dask cluster makes a report, and this fit would run on threads of one "
                "process; give client= or scheduler=, or leave performance_report out"
            )
        return nullcontext()

    def reach(self, source: Any, run: Any, bounds: Any) -> Any:
        """Return the same source, as tasks can read it; see :meth:`bigsmic.engines.dask.ClusterEngine.reach`."""
        return source

    def for_each(self, task: Callable[[Any], Any], blocks: Iterable[Any], options: TaskOptions = DEFAULT) -> None:
        """Run `task` on every block; after an error, no further task is started."""
        deque(self._run(task, blocks, options), maxlen=0)

    def map(self, task: Callable[[Any], Any], blocks: Iterable[Any], options: TaskOptions = DEFAULT) -> list[Any]:
        """Return ``[task(b) for b in blocks]``."""
        blocks = list(blocks)
        values = [None] * len(blocks)
        for i, value in self._run(task, blocks, options):
            values[i] = value
        return values

    def reduce(self, task: Callable[[Any], Any], blocks: Iterable[Any], options: TaskOptions = DEFAULT) -> Any:
        """Return the sum over blocks along the fixed tree; terms are added as soon as both exist."""
        blocks = list(blocks)
        tree, lock = TreeSum(len(blocks)), threading.Lock()

        def add(numbered: tuple[int, Any]) -> None:
            i, block = numbered
            term = task(block)
            with lock:  # by the thread that has computed it, so that no terms wait for the caller
                tree.add(i, term)

        self.for_each(add, enumerate(blocks), options)
        return tree.total()

    def run_actors(
        self, make: Callable[[Shard], Any], bounds: Any, work: Callable[[Any], Any], options: TaskOptions = DEFAULT
    ) -> Any:
        """Return ``work(group)`` for one actor that has all blocks."""
        engine = self if options.max_concurrency is None else Narrowed(self, options.max_concurrency)
        actor = make(Shard(engine, bounds, range(len(bounds) - 1)))
        try:
            return work(LocalGroup(actor))
        finally:
            close(actor)
            del actor
            release_memory()  # or it stays in arenas of threads that the next actor does not use

    def _run(
        self, task: Callable[[Any], Any], blocks: Iterable[Any], options: TaskOptions
    ) -> Iterator[tuple[int, Any]]:
        for i, value in self._unordered(task, blocks, options.max_concurrency):
            if options.tick is not None:
                options.tick()
            yield i, value

    def _unordered(
        self, task: Callable[[Any], Any], blocks: Iterable[Any], max_concurrency: int | None
    ) -> Iterator[tuple[int, Any]]:
        max_concurrency = self.n_threads if max_concurrency is None else max(1, min(max_concurrency, self.n_threads))
        if max_concurrency == 1 or self._pool is None:
            yield from ((i, task(block)) for i, block in enumerate(blocks))
            return
        blocks = list(blocks)
        if len(blocks) < 2:  # a small input has one block, and a round of it costs less than to wake a thread
            yield from ((i, task(block)) for i, block in enumerate(blocks))
            return
        shared = _SharedBlocks(task, blocks)
        threads = [self._pool.submit(shared.work) for _ in range(min(max_concurrency, len(blocks)))]
        try:
            yield from shared.results()
        finally:
            shared.ended = True
            wait(threads)
            shared.drop()


class _SharedBlocks:
    """Blocks that several threads take one after the other, each as soon as it is free, whatever the caller does.

    Parameters
    ----------
    task : callable
    blocks : sequence

    Attributes
    ----------
    ended : bool
        Whether threads are to take no further block.
    """

    def __init__(self, task: Callable[[Any], Any], blocks: Sequence[Any]) -> None:
        self._task, self._n_blocks, self.ended = task, len(blocks), False
        self._todo, self._lock = iter(enumerate(blocks)), threading.Lock()
        self._results: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()

    def work(self) -> None:
        """Run the task on blocks until none is left; the loop of a thread."""
        while (taken := self._next()) is not None:
            i, block = taken
            try:
                self._results.put((i, self._task(block), None))
            except BaseException as error:
                self.ended = True
                self._results.put((i, None, error))

    def results(self) -> Iterator[tuple[int, Any]]:
        """Yield the number and the value of each block, in the order in which they end; raise the error of a task."""
        for _ in range(self._n_blocks):
            i, value, error = self._results.get()
            try:
                if error is not None:
                    raise error
            finally:
                del error  # which has this function in its traceback, and would refer to itself
            yield i, value

    def drop(self) -> None:
        """Drop results that nobody has taken, such as a second error, which has this object in its traceback."""
        self._results = SimpleQueue()

    def _next(self) -> tuple[int, Any] | None:
        with self._lock:
            return None if self.ended else next(self._todo, None)


class Narrowed:
    """An engine that runs at most `max_concurrency` tasks at once.

    Parameters
    ----------
    engine : Engine
    max_concurrency : int
    """

    def __init__(self, engine: Engine, max_concurrency: int):
        self.engine, self.options = engine, TaskOptions(max_concurrency=max_concurrency)

    def for_each(self, task: Callable[[Any], Any], blocks: Iterable[Any]) -> None:
        """Run `task` on every block."""
        self.engine.for_each(task, blocks, self.options)

    def map(self, task: Callable[[Any], Any], blocks: Iterable[Any]) -> list[Any]:
        """Return ``[task(b) for b in blocks]``."""
        return self.engine.map(task, blocks, self.options)

    def reduce(self, task: Callable[[Any], Any], blocks: Iterable[Any]) -> Any:
        """Return the sum over the blocks along the fixed tree."""
        return self.engine.reduce(task, blocks, self.options)
