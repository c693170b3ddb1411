"""Actors on Dask workers: long-lived state, and direct exchange of rows between workers.

On every worker a task *holds* an actor as long as its group exists, so that the scheduler knows that the worker is
busy. Calls go to all actors at once, over the client's own connections to the workers, or through the scheduler where
it cannot connect to them. Actors exchange arrays over Dask's connections between workers, with its TLS. If a worker
dies, its actor is lost: the group ends, and `work` is called again with a new one, and continues from what is in the
run directory.
"""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from distributed import get_worker, secede
from distributed.core import Status, send_recv
from distributed.protocol import to_serialize
from numpy.typing import NDArray

from bigsmic.engines.base import TaskOptions
from bigsmic.engines.dask_losses import Losses
from bigsmic.engines.dask_tasks import CONNECT_SECONDS, Payload, task_key
from bigsmic.engines.memory import keep_memory, release_memory
from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import BigsmicError, ClusterError
from bigsmic.numerics.row_blocks import Shard, close, join_sums, run_calls

PING_SECONDS = 5
"""Seconds after which a waiting worker asks whether the sender is alive."""
PEER_SECONDS = 10
"""Seconds that a peer may take to accept a connection."""
REACH_SECONDS = 2
"""Seconds that a worker may take to accept one from the client; calls pass through the scheduler otherwise."""
OPEN_SECONDS = 120
"""Seconds that a worker may take to start holding an actor, once all are known to hold theirs."""
LOOK_SECONDS = 5
"""Seconds between looks at workers that have no free thread for an actor yet."""
TAKEN = "taken"
"""A worker's answer to rows that it has accepted; Dask answers None to messages without a handler."""


class LostWorkerError(ClusterError):
    """A worker that held an actor was lost."""


class WorkerGroup:
    """The client's side of a group of actors on workers.

    Parameters
    ----------
    engine : ClusterEngine
    make : callable
        ``make(shard)`` returns an actor.
    bounds : ndarray of int64, shape (n_blocks + 1,)
    options : TaskOptions
    """

    def __init__(self, engine: Any, make: Callable[..., Any], bounds: Any, options: TaskOptions) -> None:
        self.engine, self.client, self.options, self.token = engine, engine.client, options, uuid.uuid4().hex
        self.workers, self.cuts = engine.split_blocks(bounds)
        self.bounds, self.saved = bounds, False
        payload = Payload.of((make, bounds))
        group = (self.token, self.workers, self.cuts, options.max_concurrency)
        self.holders = [
            self.client.submit(
                _hold, payload, group, j, workers=[worker], key=task_key(f"{options.name} actor"), pure=False, retries=0
            )
            for j, worker in enumerate(self.workers)
        ]

    @classmethod
    def run_actors(
        cls,
        engine: Any,
        make: Callable[..., Any],
        bounds: Any,
        work: Callable[..., Any],
        options: TaskOptions,
    ) -> Any:
        """Return ``work(group)``; see :meth:`bigsmic.engines.base.Engine.run_actors`."""
        losses, wanted = Losses(options.name), 1
        while True:
            engine.await_workers(wanted)
            group = cls(engine, make, bounds, options)
            try:
                group.begin()
                return work(group)
            except LostWorkerError as error:
                losses.count(error, group.saved, engine.retired(group.workers))
            finally:
                group.close()
            wanted = len(group.workers)

    def call_sum(self, *calls: tuple[Any, ...]) -> Any:
        """Make calls on every actor, in one round, and return the sum of what the last one returns."""
        return join_sums(self.call(*calls))

    def begin(self) -> None:
        """Create the actors, as soon as every worker has a thread that holds its own: it may have other tasks first."""
        deadline = time.monotonic() + OPEN_SECONDS
        while waiting := [j for j, holds in enumerate(self._run(_holds)) if not holds]:
            statuses = self.engine.statuses()
            for j in waiting:
                status = statuses.get(self.workers[j], "gone")
                in_time = status == "running" or (status == "paused" and time.monotonic() < deadline)
                if not in_time or self.holders[j].status == "error":
                    raise LostWorkerError(f"{self.workers[j]}, which is {status}, does not hold its actor")
        self._run(_call, None)
        self.directly = reaches(self.engine, self.workers)

    def call(self, *calls: tuple[Any, ...]) -> list[Any]:
        """Make calls on every actor, in one round, and return what the last one returns, one value per host."""
        payload = Payload.of(calls)
        found = self._to_workers(payload) if self.directly else self._run(_call, payload)
        self.saved = self.saved or any(call[0] == "save" for call in calls)
        return found

    def _to_workers(self, payload: Payload) -> list[Any]:
        """Make calls over the client's own connections to the workers, in half the time."""
        message = {"op": "bigsmic_call", "token": self.token, "calls": payload.pickled}
        try:
            answers = self.client.sync(_ask_each, self.client.rpc, self.workers, message)
        except Exception as error:  # of a client that is closed
            raise self._disconnected(error) from error
        return self._without_errors(dict(zip(self.workers, answers, strict=True)))

    def _run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run a function on the workers, through the scheduler."""
        try:
            found = self.client.run(function, self.token, *arguments, workers=self.workers, on_error="return")
        except Exception as error:
            raise self._disconnected(error) from error
        return self._without_errors(found)

    def _disconnected(self, error: Exception) -> ClusterError:
        return ClusterError(
            f"{self.options.name}: the connection to the scheduler was lost ({error}); the same call resumes from the "
            "last checkpoint"
        )

    def _without_errors(self, found: dict[str, Any]) -> list[Any]:
        """Values in the order of the workers; raise an error if one is an exception."""
        errors = [value for value in found.values() if isinstance(value, Exception)]
        if errors:
            self._raise(errors, {worker for worker, value in found.items() if isinstance(value, OSError)})
        return [found[worker] for worker in self.workers]

    def _raise(self, errors: list[Exception], unreachable: set[str]) -> NoReturn:
        """Raise the error of an actor, in preference to those of others that only waited for it."""
        for error in errors:
            if not isinstance(error, LostWorkerError) and (
                isinstance(error, BigsmicError) or not isinstance(error, OSError)
            ):
                raise error
        lost = [j for j, worker in enumerate(self.workers) if worker in unreachable] or range(len(self.workers))
        first, last = self.cuts[min(lost)], self.cuts[max(lost) + 1]
        rows = f"blocks {first} to {last - 1}, positions {self.bounds[first]} to {self.bounds[last] - 1}"
        raise LostWorkerError(f"a worker that held some of {rows} was lost") from errors[0]

    def close(self) -> None:
        """Close the actors."""
        if self.client.status != "running":
            return
        try:
            alive = sorted({*self.workers} & {*self.engine.workers()})  # connecting to a dead one takes half a minute
            self.client.run(_end, self.token, workers=alive, on_error="ignore")
            self.client.cancel(self.holders, force=True)
        except Exception:  # the scheduler has ended, and with it the tasks that held the actors
            return


def reaches(engine: Any, workers: Sequence[str]) -> bool:
    """Whether the client can connect to all of these workers, as one outside of their network cannot."""
    unknown = [worker for worker in workers if worker not in engine.reached]
    found = engine.client.sync(_can_connect, engine.client.rpc, unknown)
    engine.reached |= dict(zip(unknown, found, strict=True))
    return all(engine.reached[worker] for worker in workers)


async def _can_connect(pool: Any, workers: Sequence[str]) -> list[bool]:
    async def one(address: str) -> bool:
        try:
            comm = await pool.connect(address, timeout=REACH_SECONDS)
        except (OSError, ValueError):  # ValueError for addresses of a protocol that is not known here
            return False
        pool.reuse(address, comm)
        return True

    return await asyncio.gather(*[one(address) for address in workers])


async def _ask_each(pool: Any, workers: Sequence[str], message: dict[str, Any]) -> list[Any]:
    """Answers of workers to a message, or the exceptions that these have raised, or that reaching them has."""

    async def one(address: str) -> Any:
        try:
            return Payload(await _ask(pool, address, **message)).load()
        except Exception as error:
            if pool.status is not Status.running:
                raise  # the client is closed, and no worker is lost
            return error

    return await asyncio.gather(*[one(address) for address in workers])


async def _ask(pool: Any, address: str, **message: Any) -> Any:
    """Send a message to a worker, and wait for its answer, with a shorter time-out than Dask's for the connection."""
    comm = await pool.connect(address, timeout=PEER_SECONDS)
    try:
        return await send_recv(comm, **message)
    finally:
        pool.reuse(address, comm)


# -- on the workers


class _ActorHost:
    """Host of one actor on its worker, which receives arrays from peers.

    Parameters
    ----------
    worker : distributed.Worker
    group : tuple
        Token, addresses of all workers, bounds of their ranges of blocks, max_concurrency.
    number : int
        Of this host.
    """

    def __init__(self, worker: Any, group: tuple[str, list[str], list[int], int | None], number: int) -> None:
        self.worker, self.number = worker, number
        self.token, self.workers, self.cuts, self.max_concurrency = group
        self.engine = ThreadEngine(self.max_concurrency or worker.state.nthreads)
        self.actor = None
        self.over = threading.Event()
        self._inbox: dict[tuple[int, int], np.ndarray] = {}
        self._arrival = threading.Condition()
        self._failed: str | None = None
        self._step = 0
        self._takers: set[int] = set()

    def make(self, payload: Payload) -> None:
        """Create the actor."""
        keep_memory()
        make, bounds = payload.load()
        blocks = range(self.cuts[self.number], self.cuts[self.number + 1])
        shard = Shard(self.engine.__enter__(), bounds, blocks, self if len(self.workers) > 1 else None)
        shard.scratch = Path(self.worker.local_directory) / f"bigsmic-{self.token}"
        self.actor = make(shard)

    def exchange(self, outgoing: dict[int, NDArray[Any]], senders: Iterable[int]) -> dict[int, NDArray[Any]]:
        """Send arrays to other workers, and wait for theirs, and then until those that were sent are on their way."""
        step, self._step = self._step, self._step + 1
        pushed = self._begin([self._push(j, step, array) for j, array in outgoing.items()])
        pushed.add_done_callback(self._fail_like)
        received = {j: self._await(step, j) for j in senders}
        pushed.result()
        return received

    def _fail_like(self, pushed: Future[Any]) -> None:
        """Wake the thread that waits for rows of peers if they could not be sent its own."""
        if not pushed.cancelled() and (error := pushed.exception()) is not None:
            self.fail(str(error))

    async def _push(self, j: int, step: int, array: NDArray[Any]) -> None:
        """Send rows to a peer, which has to answer only the first time: then it is known to take them."""
        rows = to_serialize(np.ascontiguousarray(array))
        message = {"op": "bigsmic_push", "token": self.token, "sender": self.number, "step": step, "array": rows}
        if j in self._takers:
            await self._ask(j, reply=False, **message)
            return
        deadline = time.monotonic() + OPEN_SECONDS
        while await self._ask(j, **message) != TAKEN:  # None until it has the handler
            if time.monotonic() > deadline:
                raise LostWorkerError(f"{self.workers[j]} does not hold its actor")
            await asyncio.sleep(0.05)
        self._takers.add(j)

    async def _ask(self, j: int, **message: Any) -> Any:
        """Send a message to another host, and wait for its answer."""
        try:
            return await _ask(self.worker.rpc, self.workers[j], **message)
        except (OSError, RuntimeError) as error:  # RuntimeError if the pool of connections is closed
            raise LostWorkerError(f"{self.workers[j]} cannot be reached ({error})") from None

    def _await(self, step: int, sender: int) -> NDArray[Any]:
        deadline = time.monotonic() + OPEN_SECONDS
        with self._arrival:
            while (step, sender) not in self._inbox:
                if self._failed is not None:
                    raise LostWorkerError(self._failed)
                if self._arrival.wait(PING_SECONDS):
                    continue
                goes_on = self._goes_on(sender)
                if goes_on is False or (goes_on is None and time.monotonic() > deadline):
                    raise LostWorkerError(f"the actor on {self.workers[sender]} has failed or ended")
            return self._inbox.pop((step, sender))

    def _goes_on(self, sender: int) -> bool | None:
        """Ask a peer whether its actor still works; None if it has no actor."""
        question = self._ask(sender, op="bigsmic_goes_on", token=self.token)
        self._arrival.release()
        try:
            return self._wait_for([asyncio.wait_for(question, CONNECT_SECONDS)])[0]
        except TimeoutError:
            raise LostWorkerError(f"{self.workers[sender]} does not answer") from None
        finally:
            self._arrival.acquire()

    def _wait_for(self, coroutines: Sequence[Any]) -> list[Any]:
        """Run coroutines on the worker's event loop, from a thread; return their values."""
        return self._begin(coroutines).result()

    def _begin(self, coroutines: Sequence[Any]) -> Future[list[Any]]:
        """The same, but do not wait for them."""
        return asyncio.run_coroutine_threadsafe(_all(coroutines), self.worker.loop.asyncio_loop)

    def receive(self, step: int, sender: int, array: NDArray[Any]) -> None:
        """Receive an array from a peer."""
        with self._arrival:
            self._inbox[step, sender] = array
            self._arrival.notify_all()

    def fail(self, why: str) -> None:
        """Make waiting calls raise an error, as a peer has failed."""
        with self._arrival:
            self._failed = self._failed or why
            self._arrival.notify_all()

    @property
    def goes_on(self) -> bool:
        """Whether the actor has neither failed nor ended."""
        return self._failed is None

    @property
    def leaves(self) -> bool:
        """Whether the worker is closing."""
        return self.worker.status.name.startswith("clos")

    def tell_peers(self) -> None:
        """Tell peers that this worker has failed."""
        others = [j for j in range(len(self.workers)) if j != self.number]
        with suppress(Exception):  # peers detect it by themselves, but later
            self._wait_for([self._ask(j, op="bigsmic_fail", token=self.token, why="a peer failed") for j in others])

    def end(self) -> None:
        """Close the actor."""
        if not self.over.is_set():
            self.over.set()
            self.fail("the group has ended")
            if self.actor is not None:
                close(self.actor)
                self.engine.__exit__()
                self.actor = None
                release_memory()  # or it stays in arenas of threads that the next actor does not use


async def _all(coroutines: Sequence[Any]) -> list[Any]:
    """Wait for all, even after an error; return their values."""
    values = await asyncio.gather(*coroutines, return_exceptions=True)
    for value in values:
        if isinstance(value, BaseException):
            raise value
    return values


_hosts: dict[tuple[str, str], tuple[_ActorHost, Payload]] = {}
"""Hosts by the address of their worker and the token of the group: a process may have several workers."""


def _hold(payload: Payload, group: tuple[str, list[str], list[int], int | None], number: int) -> None:
    """Task that holds an actor until its group ends or the task is cancelled."""
    worker, token = get_worker(), group[0]
    _listen(worker)
    key = worker.get_current_task()
    host, place = _ActorHost(worker, group, number), (worker.address, token)
    _hosts[place] = host, payload
    secede()
    try:
        while not host.over.wait(1.0):
            if host.leaves:  # so that peers need not detect it by themselves
                host.fail(f"{worker.address} leaves")
                host.tell_peers()
            task = worker.state.tasks.get(key)
            if task is None or task.state in ("cancelled", "resumed", "released", "forgotten"):
                break
    finally:
        _hosts.pop(place, None)
        host.end()


def _listen(dask_worker: Any) -> None:
    """Accept the messages of groups; Dask logs those that come before as errors."""
    for op, handler in HANDLERS.items():
        own = update_wrapper(partial(handler, dask_worker), handler)  # with the name, which Dask reads
        dask_worker.handlers.setdefault(op, own)


async def _holds(token: str, dask_worker: Any = None) -> bool:
    """Whether this worker holds its actor, which it may begin to meanwhile; peers' messages are heard from now on."""
    _listen(dask_worker)
    with suppress(LostWorkerError):
        await _opened(dask_worker, token, "", LOOK_SECONDS)
        return True
    return False


async def _call(token: str, payload: Payload | None, dask_worker: Any = None) -> Any:
    """Make calls on this worker's actor, on a thread."""
    host, make = await _opened(dask_worker, token, f"{dask_worker.address} does not hold its actor")

    def run() -> Any:
        try:
            return host.make(make) if payload is None else run_calls(host.actor, payload.load())
        except BaseException as error:
            host.fail(f"{host.worker.address} failed ({error})")
            host.tell_peers()
            if host.leaves:  # errors while a worker shuts down
                raise LostWorkerError(f"{host.worker.address} leaves") from error
            raise

    return await asyncio.get_running_loop().run_in_executor(None, run)


async def _opened(worker: Any, token: str, why: str, seconds: float | None = None) -> tuple[_ActorHost, Payload]:
    """The host on a worker, which may begin later; LostWorkerError with the reason if it does not."""
    deadline = time.monotonic() + (OPEN_SECONDS if seconds is None else seconds)
    while (worker.address, token) not in _hosts:
        if time.monotonic() > deadline:
            raise LostWorkerError(why)
        await asyncio.sleep(0.005)
    return _hosts[worker.address, token]


async def _answer(worker: Any, token: str, calls: bytes) -> bytes:
    """Handler of a worker: make calls on its actor, and return the pickled value, or exception."""
    try:
        value = await _call(token, Payload(calls), worker)
    except Exception as error:
        value = error
    return Payload.of(value).pickled


async def _end(token: str, dask_worker: Any = None) -> None:
    if found := _hosts.get((dask_worker.address, token)):
        await asyncio.get_running_loop().run_in_executor(None, found[0].end)


async def _take(worker: Any, token: str, sender: int, step: int, array: NDArray[Any]) -> str:
    """Handler of a worker: accept rows from a peer, which may arrive before this worker has its actor."""
    host, _ = await _opened(worker, token, "no actor takes these rows")
    host.receive(step, sender, array)
    return TAKEN


async def _stop(worker: Any, token: str, why: str) -> None:
    """Handler of a worker: a peer has failed."""
    if found := _hosts.get((worker.address, token)):
        found[0].fail(why)


async def _goes_on(worker: Any, token: str) -> bool | None:
    """Handler of a worker: whether its actor still works; None without an actor."""
    found = _hosts.get((worker.address, token))
    return found[0].goes_on if found else None


HANDLERS: dict[str, Callable[..., Any]] = {
    "bigsmic_call": _answer,
    "bigsmic_push": _take,
    "bigsmic_fail": _stop,
    "bigsmic_goes_on": _goes_on,
}
