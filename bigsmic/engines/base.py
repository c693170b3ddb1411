"""What stages ask of an engine: verbs over blocks, and actors that keep state between calls."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from bigsmic.numerics.row_blocks import Shard
from bigsmic.types import StrPath


@dataclass(frozen=True)
class TaskOptions:
    """How the tasks of one verb run; nothing here changes what comes out.

    Parameters
    ----------
    name : str
        What dashboards and messages call them.
    max_concurrency : int, optional
        Tasks at once in one process; by default its threads.
    tick : callable, optional
        Called without arguments when a task is done.
    """

    name: str = "task"
    max_concurrency: int | None = None
    tick: Callable[[], None] | None = None


DEFAULT = TaskOptions()


@dataclass(frozen=True)
class Resources:
    """What there is to run on.

    Parameters
    ----------
    n_workers : int
        Processes that share nothing but the store.
    n_threads : int
        Tasks at once in each.
    memory_limit : int, optional
        Bytes that each may use; None: what the machine has.
    """

    n_workers: int = 1
    n_threads: int = 1
    memory_limit: int | None = None


class Engine(Protocol):
    """What a stage may ask of the worker where it runs; to be used in a ``with`` block."""

    resources: Resources

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def recorded(self, path: StrPath | None) -> AbstractContextManager[None]:
        """Context in which Dask writes a report of what runs to an HTML file; None: no report.

        Raises
        ------
        InputError
            There is nobody to write it, or no worker to write it to; nothing has run.
        """
        ...

    def reach(self, source: Any, run: Any, bounds: Any) -> Any:
        """Return a :class:`~bigsmic.store.Source` of the same rows that tasks can read.

        Rows in the memory of this process may be copied into the run, in blocks of `bounds`, int64 (n_blocks + 1,).

        Raises
        ------
        RunError
            Tasks would not see the run directory.
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

        `work` begins anew, with new actors, when a worker is lost.
        """
        ...
