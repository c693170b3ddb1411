"""What stages ask of an engine: verbs over blocks, and actors that keep state between calls."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from bigsmic.numerics.row_blocks import Share


@dataclass(frozen=True)
class How:
    """How the tasks of one verb run; nothing here changes what comes out.

    Parameters
    ----------
    name : str
        What dashboards and messages call them.
    width : int, optional
        Tasks at once in one process; by default its threads.
    tick : callable, optional
        Called without arguments when a task is done.
    """

    name: str = "task"
    width: int | None = None
    tick: Callable[[], None] | None = None


DEFAULT = How()


@dataclass(frozen=True)
class Resources:
    """What there is to run on.

    Parameters
    ----------
    n_places : int
        Processes that share nothing but the store.
    n_threads : int
        Tasks at once in each.
    memory_limit : int, optional
        Bytes that each may use; None: what the machine has.
    """

    n_places: int = 1
    n_threads: int = 1
    memory_limit: int | None = None


class Engine(Protocol):
    """What a stage may ask of the place where it runs; to be used in a ``with`` block."""

    resources: Resources

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc) -> None: ...

    def recorded(self, path: str | os.PathLike | None) -> AbstractContextManager[None]:
        """Context in which Dask writes a report of what runs to an HTML file; None: no report.

        Raises
        ------
        InputError
            There is nobody to write it, or no place to write it to; nothing has run.
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
        """CPU seconds of all places so far, and the largest resident set of one of them in bytes."""
        ...

    def each(self, task: Callable[[Any], Any], blocks: Iterable[Any], how: How = DEFAULT) -> None:
        """Run `task` on every block."""
        ...

    def collect(self, task: Callable[[Any], Any], blocks: Iterable[Any], how: How = DEFAULT) -> list:
        """Return ``[task(b) for b in blocks]``."""
        ...

    def sum(self, task: Callable[[Any], Any], blocks: Iterable[Any], how: How = DEFAULT) -> Any:
        """Return the sum of ``task(b)`` over the blocks, added along the tree of :class:`~bigsmic.numerics.row_blocks.TreeSum`."""
        ...

    def reside(self, make: Callable[[Share], Any], bounds: Any, work: Callable[[Any], Any], how: How = DEFAULT) -> Any:
        """Return ``work(group)`` for residents ``make(share)`` that share out row blocks and keep state between calls.

        `work` begins anew, with new residents, when a place is lost.
        """
        ...
