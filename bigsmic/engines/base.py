"""Protocol of engines: operations over blocks, and actors that keep state between calls."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from bigsmic.numerics.row_blocks import Shard
from bigsmic.types import StrPath


@dataclass(frozen=True)
class TaskOptions:
    """Options of the tasks of one operation; they do not change results.

    Parameters
    ----------
    name : str
        Name of the tasks in dashboards and messages.
    max_concurrency : int, optional
        Concurrent tasks in one process; by default its number of threads.
    tick : callable, optional
        Called without arguments after each task.
    """

    name: str = "task"
    max_concurrency: int | None = None
    tick: Callable[[], None] | None = None


DEFAULT = TaskOptions()


@dataclass(frozen=True)
class Resources:
    """Resources available to a fit.

    Parameters
    ----------
    n_workers : int
        Processes that share nothing but the store.
    n_threads : int
        Concurrent tasks in each process.
    memory_limit : int, optional
        Bytes that each process may use; None for the memory of the machine.
    workers_per_machine : int
        Processes that share the memory bandwidth of a machine, at most.
    limited_by : str
        What sets `memory_limit` and how to raise it, for a message; empty without such a limit.
    """

    n_workers: int = 1
    n_threads: int = 1
    memory_limit: int | None = None
    workers_per_machine: int = 1
    limited_by: str = ""


class Engine(Protocol):
    """Runs the tasks of stages; to be used in a ``with`` block."""

    resources: Resources

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def recorded(self, path: StrPath | None) -> AbstractContextManager[None]:
        """Context manager in which Dask writes a performance report to an HTML file; None for no report.

        Raises
        ------
        InputError
            The engine cannot write a report, or the path cannot be written; nothing has run.
        """
        ...

    def reach(self, source: Any, run: Any, bounds: Any) -> Any:
        """Return a :class:`~bigsmic.store.Source` of the same rows that tasks can read.

        Rows in the memory of this process may be copied into the run, in blocks of `bounds`, int64 (n_blocks + 1,).

        Raises
        ------
        RunError
            Tasks cannot see the run directory.
        """
        ...

    def usage(self) -> tuple[float, int]:
        """CPU seconds of all workers so far, and the largest resident set of one of them in bytes."""
        ...

    def for_each(self, task: Callable[[Any], Any], blocks: Iterable[Any], options: TaskOptions = DEFAULT) -> None:
        """Run `task` on every block."""
        ...

    def map(self, task: Callable[[Any], Any], blocks: Iterable[Any], options: TaskOptions = DEFAULT) -> list[Any]:
        """Return ``[task(b) for b in blocks]``."""
        ...

    def reduce(self, task: Callable[[Any], Any], blocks: Iterable[Any], options: TaskOptions = DEFAULT) -> Any:
        """Return the sum of ``task(b)`` over the blocks, added along the tree of `TreeSum`."""
        ...

    def run_actors(
        self, make: Callable[[Shard], Any], bounds: Any, work: Callable[[Any], Any], options: TaskOptions = DEFAULT
    ) -> Any:
        """Return ``work(group)`` for actors ``make(shard)`` that share the row blocks and keep state between calls.

        If a worker is lost, `work` is called again with new actors.
        """
        ...
