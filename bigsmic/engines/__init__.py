"""Where tasks run: threads of this process, or the workers of a Dask cluster; the only door to Dask."""

import sys

from bigsmic.engines.base import Engine
from bigsmic.engines.threads import ThreadEngine, check_threads
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
