"""The only door to what runs tasks: verbs over blocks.

A task is a function of one block that returns a small value or nothing; bulk goes through the store.
In process the verbs are a pool of threads, with BLAS on one thread inside each task.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any, Protocol

from threadpoolctl import threadpool_limits


class Engine(Protocol):
    """What a stage may ask of the place where it runs."""

    def each(self, task: Callable[[Any], Any], blocks: Iterable[Any], width: int | None = None) -> None:
        """Run `task` on every block, at most `width` at once."""
        ...

    def collect(self, task: Callable[[Any], Any], blocks: Sequence[Any], width: int | None = None) -> list:
        """Return ``[task(b) for b in blocks]``."""
        ...

    def sum(self, task: Callable[[Any], Any], blocks: Sequence[Any], width: int | None = None) -> Any:
        """Return the sum of ``task(b)`` over the blocks, added along :func:`tree_sum`'s tree."""
        ...


def tree_sum(values: Sequence[Any]) -> Any:
    """Sum along the binary tree over positions, whose shape depends on ``len(values)`` alone.

    Floating-point sums are then the same bit for bit, whoever computed the terms and in whatever order.
    """
    values = list(values)
    while len(values) > 1:
        pairs = [values[i] + values[i + 1] for i in range(0, len(values) - 1, 2)]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


class _OneThread:
    """Holds BLAS and LAPACK to one thread each as long as any engine is open, in whatever order they close."""

    def __init__(self):
        self._lock, self._holders = threading.Lock(), 0

    def acquire(self):
        with self._lock:
            if self._holders == 0:
                self._limits = threadpool_limits(limits=1)
            self._holders += 1

    def release(self):
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._limits.restore_original_limits()


_ONE_THREAD = _OneThread()


class ThreadEngine:
    """Runs tasks on threads of this process.

    Parameters
    ----------
    n_threads : int
        Tasks at once. BLAS and LAPACK are held to one thread each while the engine is open.
    """

    def __init__(self, n_threads: int = 1):
        self.n_threads = max(1, int(n_threads))
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> "ThreadEngine":
        _ONE_THREAD.acquire()
        self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="bigsmic")
        return self

    def __exit__(self, *exc) -> None:
        assert self._pool is not None
        self._pool.shutdown(wait=True, cancel_futures=True)
        _ONE_THREAD.release()

    def each(self, task, blocks, width=None):
        """Run `task` on every block; the first error stops what has not started."""
        deque(self._run(task, blocks, width), maxlen=0)

    def collect(self, task, blocks, width=None):
        """Return ``[task(b) for b in blocks]``."""
        blocks = list(blocks)
        values = [None] * len(blocks)
        for i, value in self._run(task, blocks, width):
            values[i] = value
        return values

    def sum(self, task, blocks, width=None):
        """Return the sum over blocks along the fixed tree, adding as soon as both terms are there."""
        blocks = list(blocks)
        tree = _TreeAccumulator(len(blocks))
        for i, value in self._run(task, blocks, width):
            tree.add(i, value)
        return tree.total()

    def _run(self, task, blocks, width):
        width = self.n_threads if width is None else max(1, min(width, self.n_threads))
        if width == 1 or self._pool is None:
            yield from ((i, task(block)) for i, block in enumerate(blocks))
            return
        pending: dict = {}
        try:
            for i, block in enumerate(blocks):
                pending[self._pool.submit(task, block)] = i
                if len(pending) >= width:
                    yield from _finished(pending)
            while pending:
                yield from _finished(pending)
        finally:
            for future in pending:
                future.cancel()
            wait(pending)


class Narrowed:
    """An engine that runs at most `width` tasks at once.

    Parameters
    ----------
    engine : Engine
    width : int
    """

    def __init__(self, engine: Engine, width: int):
        self.engine, self.width = engine, width

    def each(self, task, blocks, width=None):
        """Run `task` on every block."""
        self.engine.each(task, blocks, width or self.width)

    def collect(self, task, blocks, width=None):
        """Return ``[task(b) for b in blocks]``."""
        return self.engine.collect(task, blocks, width or self.width)

    def sum(self, task, blocks, width=None):
        """Return the sum over the blocks along the fixed tree."""
        return self.engine.sum(task, blocks, width or self.width)


def _finished(pending):
    done, _ = wait(pending, return_when=FIRST_COMPLETED)
    for future in done:
        yield pending.pop(future), future.result()


class _TreeAccumulator:
    """:func:`tree_sum` for terms that arrive in any order, holding as few of them as the tree allows."""

    def __init__(self, n: int):
        self.sizes = [n]
        while self.sizes[-1] > 1:
            self.sizes.append((self.sizes[-1] + 1) // 2)
        self.nodes: dict[tuple[int, int], Any] = {}

    def add(self, i: int, value: Any) -> None:
        level = 0
        while level < len(self.sizes) - 1:
            sibling = i ^ 1
            if sibling >= self.sizes[level]:  # the odd one out moves up alone
                level, i = level + 1, i // 2
                continue
            if (level, sibling) not in self.nodes:
                break
            other = self.nodes.pop((level, sibling))
            value = value + other if i < sibling else other + value
            level, i = level + 1, i // 2
        self.nodes[level, i] = value

    def total(self) -> Any:
        (value,) = self.nodes.values()
        return value
