"""One writer per run, across hosts: a lease that its holder renews, and that expires if the holder dies.

The lease is the attribute ``lease`` of an empty Zarr group of that name in the run. A process that finds a lease checks
whether its holder is alive. On the same machine the number and start of the process tell at once. On another machine
the lease's time of expiry tells; if that has passed by this host's clock, the process watches whether the lease is
renewed all the same, so that clocks may differ. On local file systems the kernel's lock also decides races; elsewhere a
process that has taken over a lease reads it again after a moment, and the lease belongs to the process that the store
then names.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from bigsmic.errors import RunLockedError, StorageError
from bigsmic.store.processes import is_same, machine, started
from bigsmic.types import StrPath

log = logging.getLogger("bigsmic")

GROUP = "lease"
KEY = f"{GROUP}/zarr.json"

SECONDS = 60.0
"""Seconds for which a lease is valid after it was renewed."""

BEAT = 15.0
"""Seconds from one renewal to the next."""

HASTE = 10.0
"""Seconds for which a request about a lease is retried. The fit's own requests meet a lasting failure anyway."""

PROPAGATE = 1.0
"""Seconds after which a lease that two processes have taken over belongs to the one that wrote last."""


_held: set[str] = set()
"""Leases that this process holds. One that it released may still be stored, if the store did not answer then."""


class Lease:
    """The right to write to a run.

    Parameters
    ----------
    objects : LocalBytes or StoreBytes
        The bytes of the run.
    location : str
        Name of the run in messages.
    folder : str, optional
        The run, if it is a local directory: it is locked by the kernel too.

    Raises
    ------
    RunLockedError
        Another process holds it.
    """

    def __init__(self, objects: Any, location: StrPath, folder: str | None = None) -> None:
        self._objects, self._location = objects.with_patience(HASTE), location
        self._holder = {"id": uuid.uuid4().hex, "pid": os.getpid(), "started": started(os.getpid())} | machine()
        self._lost: dict[str, Any] | None = None
        self._ended = threading.Event()
        self._kernel_lock = None if folder is None else _lock(folder, self._refuse)
        _held.add(self._holder["id"])  # first, as another thread takes over a lease that this process does not hold
        try:
            self._acquire()
            self._thread = threading.Thread(target=self._renew, name="bigsmic-lease", daemon=True)
            self._thread.start()  # an interruption may come while this waits for the thread
        except BaseException:
            self._ended.set()
            _held.discard(self._holder["id"])
            self._unlock()
            raise

    def check(self) -> None:
        """Raise RunLockedError if another process has taken the lease, as it may if this one was stopped."""
        if self._lost is not None:
            raise RunLockedError(
                f"run: {self._location} was taken over by {_name(self._lost)}, as this process had not renewed its "
                f"lease for {SECONDS:.0f} s; leave the run to that process, or give another out="
            )

    def release(self) -> None:
        """Give up the lease; a forked child leaves its parent's alone."""
        if self._ended.is_set() or self._holder["pid"] != os.getpid():
            return
        try:
            self._ended.set()
            _held.discard(self._holder["id"])
            with contextlib.suppress(StorageError, OSError):  # the lease expires by itself
                if self._is_mine(self._read()):
                    self._objects.delete(KEY)
                    self._objects.prune(GROUP)
        finally:  # a second interruption would leave the run locked until the process ends
            self._ended.set()
            self._unlock()

    # -- acquiring

    def _acquire(self) -> None:
        for _ in range(10):
            there = self._read()
            if self._is_mine(there) or (there is None and self._objects.create(KEY, self._node())):
                return
            if there is not None:
                self._refuse_the_living(there)
                self._take_over(there)
                return
        self._refuse(self._read())

    def _refuse_the_living(self, there: Any) -> None:
        """Raise RunLockedError unless the holder of a lease is dead."""
        mine = machine()
        if self._kernel_lock is not None and there.get("boot") == mine.get("boot", "unknown"):
            return  # the same kernel has released the lock, also for a process of another container
        if all(there.get(name) == value for name, value in mine.items()):
            if _lives(there):
                self._refuse(there)
            return
        remaining = min(there.get("until", 0.0) - time.time(), SECONDS)
        if remaining > 0:
            self._refuse(there, f"its lease ends in {remaining:.0f} s unless it is renewed; ")
        log.info("run: %s was being written by %s; watching whether it still is", self._location, _name(there))
        deadline = time.monotonic() + 1.5 * BEAT
        while time.monotonic() < deadline:
            time.sleep(min(1.0, BEAT / 5))
            if self._read() != there:
                self._refuse(self._read())

    def _take_over(self, there: Any) -> None:
        self._write()
        if self._kernel_lock is None or there.get("boot") != self._holder.get("boot", "unknown"):
            time.sleep(PROPAGATE)
            if not self._is_mine(self._read()):
                self._refuse(self._read())
        log.info("run: %s is taken over from %s", self._location, _name(there))

    def _refuse(self, there: Any = None, when: str = "") -> Any:
        there = there or self._read() or {}
        raise RunLockedError(
            f"run: {self._location} is being written by {_name(there)}; {when}wait for it to end, or, for a result of "
            "its own, give another out="
        )

    # -- renewing

    def _renew(self) -> None:
        while not self._ended.wait(BEAT):
            try:
                there = self._read()
                if there is not None and not self._is_mine(there):
                    self._lost = there
                    return
                self._write()
            except Exception as error:  # the fit meets the error too, and renewal must go on
                log.warning("run: the lease of %s could not be renewed (%s)", self._location, error)

    # -- storing

    def _is_mine(self, there: dict[str, float | str] | None) -> bool:
        return there is not None and there.get("id") == self._holder["id"]

    def _node(self) -> bytes:
        lease = self._holder | {"until": round(time.time() + SECONDS, 1)}
        return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"lease": lease}}).encode()

    def _write(self) -> None:
        self._objects.set(KEY, self._node())

    def _read(self) -> dict[str, float | str] | None:
        """Return the stored lease; None if there is none, {} if it is torn."""
        raw = self._objects.get(KEY)
        try:
            return None if raw is None else dict(json.loads(bytes(raw))["attributes"]["lease"])
        except (ValueError, KeyError, TypeError):
            return {}

    def _unlock(self) -> None:
        handle, self._kernel_lock = self._kernel_lock, None
        if handle is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)  # forked children have the handle, too, and would keep the lock
            os.close(handle)


def _name(holder: Any) -> Any:
    return f"process {holder['pid']} on {holder['host']}" if {"pid", "host"} <= set(holder) else "another process"


def _lives(holder: Any) -> bool:
    """Whether a process of this machine still runs; its number may have been given to another one."""
    if holder.get("pid") == os.getpid():
        return holder.get("id") in _held
    return is_same(started(holder.get("pid", -1)), holder.get("started", 0.0))


def _lock(folder: str, refuse: Callable[..., Any]) -> Any:
    """Lock a directory as long as the process lives, and return the handle; None if the file system has no locks."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            refuse()
        return None
    return handle
