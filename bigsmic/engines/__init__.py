"""Where tasks run: threads of this process, or the workers of a Dask cluster; the only door to Dask."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from bigsmic.engines.base import Engine, Resources
from bigsmic.engines.threads import ThreadEngine, check_threads, one_thread
from bigsmic.errors import InputError
from bigsmic.types import Client


def open_engine(client: Client = None, scheduler: str | None = None, n_threads: int = 1) -> Engine:
    """Engine for a fit: on the cluster that is named, or whose client is active, else on threads of this process.

    Parameters
    ----------
    client : distributed.Client, False, or None
        False: threads of this process, whatever client is active.
    scheduler : str, optional
        Address of a scheduler.
    n_threads : int
        Of this process.

    Returns
    -------
    engine : ThreadEngine or ClusterEngine
        To be used in a ``with`` block.

    Raises
    ------
    InputError
        No threads.
    ClusterError
        Nothing answers at the address.
    """
    check_threads(n_threads)
    if client is False or (client is None and scheduler is None and "distributed" not in sys.modules):
        return ThreadEngine(n_threads)  # no client can be active, and the import takes a second
    from bigsmic.engines import dask

    found, owned = dask.connect(client, scheduler)
    return ThreadEngine(n_threads) if found is None else dask.ClusterEngine(found, owned)


def choose_engine(
    engine: Engine | None, client: Client = None, scheduler: str | None = None, n_threads: int | None = None
) -> AbstractContextManager[Engine]:
    """Context in which an engine is open: the one that is given, or that of :func:`open_engine`.

    BLAS keeps to one thread in this process while a given engine is open, as labels to the bit demand; in others it is
    the engine's to see to that.

    Raises
    ------
    InputError
        What is given is no engine; a client, scheduler or number of threads is given beside it.
    ClusterError
        Nothing answers at the address of the scheduler.
    """
    if engine is None:
        return open_engine(client, scheduler, 1 if n_threads is None else n_threads)
    _refuse_what_is_no_engine(engine)
    beside = {"client": client or None, "scheduler": scheduler, "n_threads": n_threads}
    given = [f"{name}=" for name, value in beside.items() if value is not None]
    if given:
        raise InputError(f"engine: got {', '.join(given)} beside it, which says where tasks run; give one of them")
    return _opened(engine)


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
def _opened(engine: Engine) -> Iterator[Engine]:
    with one_thread(), engine as opened:
        yield opened


PROTOCOL = tuple(
    name
    for name, member in vars(Engine).items()
    if callable(member) and (not name.startswith("_") or name in ("__enter__", "__exit__"))
)
"""Methods that an engine must have, beside its `resources`."""


def _refuse_what_is_no_engine(engine: Any) -> None:
    if isinstance(engine, type):
        raise InputError(f"engine: got the class {engine.__name__}; give an object of it")
    lacking = [name for name in PROTOCOL if not callable(getattr(engine, name, None))]
    if not isinstance(getattr(engine, "resources", None), Resources):
        lacking.append("resources (a bigsmic.engines.base.Resources)")
    if lacking:
        name, parts = type(engine).__name__, ", ".join(lacking)
        raise InputError(f"engine: {name} lacks {parts}; bigsmic.engines.base.Engine says what each does")
