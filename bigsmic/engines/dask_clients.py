"""Clients of Dask clusters: the one that is given, the active one, or a new one for an address."""

from typing import Any

from distributed import Client, get_client
from distributed.comm import get_address_host_port

from bigsmic.engines.dask_tasks import CONNECT_SECONDS
from bigsmic.errors import ClusterError, InputError
from bigsmic.store import scrubbed, shown


def connect(client: Any, scheduler: Any) -> tuple[Any, bool]:
    """Return the client to use, None if there is no cluster, and whether it was created here.

    Parameters
    ----------
    client : distributed.Client, optional
    scheduler : str, optional
        Address such as ``"tcp://host:8786"``. TLS is configured as everywhere in Dask.

    Raises
    ------
    InputError
        The client is closed, or asynchronous, or the address is none.
    ClusterError
        No scheduler answers in time.
    """
    if client is not None:
        return _usable(client), False
    if scheduler is not None:
        return _connected(scheduler), True
    try:
        found = get_client()
    except ValueError:
        return None, False
    return _usable(found), False


def _connected(scheduler: Any) -> Client:
    address = f"{scheduler}" if "://" in f"{scheduler}" else f"tcp://{scheduler}"
    remedy = "give the address that the scheduler prints, such as tcp://host:8786, or tls:// if it requires TLS"
    if hasattr(scheduler, "submit"):
        raise InputError(f"scheduler: got {scheduler!r}; give a client as client=")
    try:
        if isinstance(scheduler, str) and not scheduler.startswith("inproc://"):
            get_address_host_port(scheduler)  # raises at once; a client would retry until its time-out
        return Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (ValueError, TypeError) as error:
        why = scrubbed(str(error), address)
        raise InputError(f"scheduler: got {shown(address)!r}, which is no address ({why}); {remedy}") from None
    except (OSError, RuntimeError) as error:
        why = f"within {CONNECT_SECONDS} s" if isinstance(error, OSError) else "because it cannot be connected to"
        raise ClusterError(
            f"scheduler: {shown(address)!r} did not answer {why} ({scrubbed(str(error), address)}); {remedy}"
        ) from None  # as Dask's message contains the address with its secrets


def _usable(client: Any) -> Any:
    """The client, unless it is closed, or its calls are to be awaited."""
    if client.status in ("closing", "closed"):
        raise InputError(f"client: got {client!r}, which is closed; connect a new distributed.Client")
    if client.asynchronous:
        raise InputError(
            f"client: got {client!r}, which is asynchronous here, and its calls are waited for; call this in a thread, "
            "such as by asyncio.to_thread, with a client of its own, or give client=False for threads of this process"
        )
    return client
