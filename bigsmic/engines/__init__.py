"""Engines that run tasks: threads of this process, or a Dask cluster."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from bigsmic.engines.base import Engine, Resources
from bigsmic.engines.threads import ThreadEngine, check_threads
from bigsmic.errors import InputError
from bigsmic.numerics.one_thread import one_thread
from bigsmic.types import Client


def open_engine(client: Client = None, scheduler: str | None = None, n_threads: int = 1) -> Engine:
    """Engine for a fit: the cluster that is given or whose client is active, else threads of this process.

    Parameters
    ----------
    client : distributed.Client, False, or None
        False for threads of this process, even if a client is active.
    scheduler : str, optional
        Address of a scheduler.
    n_threads : int
        Threads of this process.

    Returns
    -------
    engine : ThreadEngine or ClusterEngine
        To be used in a ``with`` block.

    Raises
    ------
    InputError
        `n_threads` is less than 1, `client` is no client, closed or asynchronous, or a scheduler is given as well.
    ClusterError
        No scheduler answers at the address.
    """
    check_threads(n_threads)
    if client is not None and scheduler is not None:
        raise InputError(
            f"scheduler: got it together with client={client!r}, but each determines where tasks run; give one of them"
        )
    if client is not None and client is not False and not callable(getattr(client, "run_on_scheduler", None)):
        raise InputError(
            f"client: got {client!r}; give a distributed.Client, False for threads of this process, or an address as "
            "scheduler="
        )
    if client is False or (client is None and scheduler is None and "distributed" not in sys.modules):
        return ThreadEngine(n_threads)  # no client can be active, and importing distributed takes a second
    from bigsmic.engines.dask import ClusterEngine
    from bigsmic.engines.dask_clients import connect

    found, owned = connect(client, scheduler)
    return ThreadEngine(n_threads) if found is None else ClusterEngine(found, owned)


def choose_engine(
    engine: Engine | None, client: Client = None, scheduler: str | None = None, n_threads: int | None = None
) -> AbstractContextManager[Engine]:
    """Context manager that opens an engine: the given one, or that of :func:`open_engine`.

    While a given engine is open, BLAS uses one thread in this process, as equal labels to the bit require; the engine
    itself must ensure the same in other processes.

    Raises
    ------
    InputError
        `engine` lacks a part of the protocol, or is combined with a client, scheduler or number of threads.
    ClusterError
        No scheduler answers at the address.
    """
    if engine is None:
        return _opened(open_engine(client, scheduler, 1 if n_threads is None else n_threads))
    _refuse_what_is_no_engine(engine)
    beside = {"client": client or None, "scheduler": scheduler, "n_threads": n_threads}
    given = [f"{name}=" for name, value in beside.items() if value is not None]
    if given:
        raise InputError(
            f"engine: got {', '.join(given)} together with it, but each of these determines where tasks run; give one "
            "of them"
        )
    return _opened(_limited(engine))


def engine_for_rows(travels: bool, engine: Engine | None = None, **where: Any) -> AbstractContextManager[Engine]:
    """Context in which the engine for some rows is open: threads of this process where no other one can read them.

    Parameters
    ----------
    travels : bool
        Whether other processes can read the rows.
    engine, **where
        As of :func:`choose_engine`.

    Raises
    ------
    InputError, ClusterError
        As of :func:`choose_engine`.
    """
    if travels:
        return choose_engine(engine, **where)
    return choose_engine(None, False, n_threads=where.get("n_threads"))


@contextmanager
def _opened(engine: AbstractContextManager[Engine]) -> Iterator[Engine]:
    """Open an engine, and leave NumPy at its defaults meanwhile: tiny numbers are zero, whatever the caller has set."""
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"), engine as opened:
        yield opened


@contextmanager
def _limited(engine: Engine) -> Iterator[Engine]:
    with one_thread(), engine as opened:
        yield opened


PROTOCOL = tuple(
    name
    for name, member in vars(Engine).items()
    if callable(member) and (not name.startswith("_") or name in ("__enter__", "__exit__"))
)
"""Methods that an engine must have in addition to `resources`."""


def _refuse_what_is_no_engine(engine: Any) -> None:
    if isinstance(engine, type):
        raise InputError(f"engine: got the class {engine.__name__}; give an instance of it")
    lacking = [name for name in PROTOCOL if not callable(getattr(engine, name, None))]
    if not isinstance(getattr(engine, "resources", None), Resources):
        lacking.append("resources (a bigsmic.engines.base.Resources)")
    if lacking:
        name, parts = type(engine).__name__, ", ".join(lacking)
        raise InputError(f"engine: {name} lacks {parts}; see bigsmic.engines.base.Engine")
