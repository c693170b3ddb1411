"""Zarr stores that retry transient errors for a limited time, and that refuse absent chunks."""

import asyncio
import errno
import logging
import random
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from zarr.storage import FsspecStore, WrapperStore

from bigsmic.errors import FITS_GO_ON, StorageError
from bigsmic.store.redaction import scrubbed, shown
from bigsmic.types import StorageOptions

log = logging.getLogger("bigsmic")

PATIENCE = 120.0
"""Seconds after which no attempt is started; one that started before may end later."""

RESOLVING = 5.0
"""Seconds in place of PATIENCE where the name of the host is not known, and no request has been answered before."""

ATTEMPTS = 3
"""Least number of attempts, as it may be this process that was stopped for so long."""

SILENCE = 30.0
"""Seconds that the answer to a request may take, in addition to the time that its bytes take at SLOWEST."""

SLOWEST = 1 << 20
"""Bytes per second of the slowest transfer that is not timed out."""

SETTLING = 5.0
"""Longest seconds for which requests that are of no more use are waited for."""

UNKNOWN = 32 << 20
"""Bytes that the time-out allows for if the size of the answer is not known."""

FIRST_PAUSE, LAST_PAUSE = 0.2, 10.0
"""First and longest seconds between attempts. They double, with jitter so that workers do not retry in step."""

_FINAL = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
_SETTLED = "bigsmic-settled"
_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
_FINAL_NUMBERS = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ENAMETOOLONG, errno.EMSGSIZE, errno.ENOSPC)
_PASSING = ("HTTPClientError", "IncompleteReadError", "ResponseParserError", "ConnectionError", "ClientError")
"""Names of errors of botocore and aiohttp, which need not be installed, for failed connections."""


def passes(error: BaseException) -> bool:
    """Whether an error of a file system is transient: a 5xx or 429 response, a reset connection, a timeout."""
    status = getattr(error, "status", None)  # as in aiohttp's ClientResponseError
    if isinstance(status, int):
        return status >= 500 or status == 429
    if isinstance(error, OSError):
        return not isinstance(error, _FINAL) and error.errno not in _FINAL_NUMBERS
    return any(kind.__name__ in _PASSING for kind in type(error).__mro__)


def is_unresolved(error: BaseException | None) -> bool:
    """Whether a request failed because the name of the host could not be resolved."""
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None


def open_store(location: Any, storage_options: StorageOptions = None, read_only: bool = False) -> Any:
    """Open a URL as a store of Zarr.

    Parameters
    ----------
    location : str
        fsspec URL.
    storage_options : dict, optional
    read_only : bool

    Returns
    -------
    store : PatientStore

    Raises
    ------
    ImportError, ValueError
        The protocol is unknown, or its package is not installed.
    """
    options = _asked(location, storage_options or {})
    store = FsspecStore.from_url(location, storage_options=options, read_only=read_only)
    return PatientStore(store, location, storage_options)


def _asked(location: str, options: Any) -> Any:
    """Options for the file system, with its caches and retries off, which hide foreign writes and delays."""
    options = {"use_listings_cache": False} | options
    if location.startswith(("s3://", "s3a://")):
        config = {
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "max_pool_connections": 50,
            "connect_timeout": SILENCE / 2,
            "read_timeout": SILENCE,
        }
        options["config_kwargs"] = config | options.get("config_kwargs", {})
        options.setdefault("max_concurrency", 1)  # with more, s3fs asks for the size of every object before it reads it
    return options


class PatientStore(WrapperStore[Any]):
    """A store that retries requests for :data:`PATIENCE` seconds, and then raises StorageError.

    Parameters
    ----------
    store : zarr.abc.store.Store
    location : str
        URL of the store.
    storage_options : dict, optional
        Kept out of messages, as are the secrets of the URL.
    patience : float, optional
        Seconds to use instead of :data:`PATIENCE`, and then without a least number of attempts.
    """

    def __init__(
        self, store: Any, location: str = "", storage_options: StorageOptions = None, patience: Any = None
    ) -> None:
        super().__init__(store)
        self._location, self._options, self._patience = location, storage_options, patience
        self._answered = False

    def _with_store(self, store: Any) -> Any:
        return type(self)(store, self._location, self._options, self._patience)

    def with_patience(self, seconds: float) -> Any:
        """Return the same store with another patience."""
        return type(self)(self._store, self._location, self._options, seconds)

    def __str__(self) -> str:
        return shown(self._location)

    def __repr__(self) -> Any:
        return f"PatientStore({shown(self._location)!r})"

    def __eq__(self, other: Any) -> Any:
        return type(self) is type(other) and self._store == other._store

    __hash__ = None  # type: ignore[assignment]

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return the bytes of a key, or a range of them."""
        start, stop = getattr(byte_range, "start", None), getattr(byte_range, "end", None)
        size = UNKNOWN if start is None or stop is None else stop - start
        return await self._ask("reading", key, lambda: self._store.get(key, prototype, byte_range), size)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> Any:
        """Return ranges of bytes of several keys."""
        wanted = list(key_ranges)
        name = wanted[0][0] if wanted else ""
        size = UNKNOWN * max(1, len(wanted))
        return await self._ask("reading", name, lambda: self._store.get_partial_values(prototype, wanted), size)

    async def _get_many(self, requests: Iterable[Any]) -> AsyncGenerator[Any, None]:
        for key, prototype, byte_range in requests:
            yield key, await self.get(key, prototype, byte_range)

    async def exists(self, key: str) -> bool:
        """Whether a key exists."""
        return await self._ask("looking for", key, lambda: self._store.exists(key))

    async def set(self, key: str, value: Any) -> None:
        """Write the bytes of a key: all of them, or none."""
        await self._ask("writing", key, lambda: self._store.set(key, value), len(value))

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Write the bytes of a key unless it exists."""
        await self._ask("writing", key, lambda: self._store.set_if_not_exists(key, value), len(value))

    async def _set_many(self, values: Iterable[tuple[str, Any]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    async def create(self, key: str, value: Any) -> bool:
        """Write the bytes of a key unless it exists, and return whether they were written."""
        fs, path = self._store.fs, f"{self._store.path.rstrip('/')}/{key}"
        try:
            await self._ask("writing", key, lambda: fs._pipe_file(path, value, mode="create"), len(value))
        except FileExistsError:
            return False
        except (TypeError, StorageError) as error:
            if getattr(error, "errno", errno.ENOSYS) != errno.ENOSYS:
                raise
            if await self.exists(key):  # the best that a store without conditions can do
                return False
            await self._ask("writing", key, lambda: fs._pipe_file(path, value), len(value))
        return True

    async def delete(self, key: str) -> None:
        """Delete a key, if it exists."""
        await self._ask("deleting", key, lambda: self._store.delete(key))

    async def delete_dir(self, prefix: str) -> None:
        """Delete all keys below a prefix."""
        await self._ask("deleting", prefix, lambda: self._store.delete_dir(prefix), UNKNOWN)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names one level below a prefix."""
        for name in await self._ask("listing", prefix, lambda: _all(self._store.list_dir(prefix)), UNKNOWN):
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Keys below a prefix."""
        for key in await self._ask("listing", prefix, lambda: _all(self._store.list_prefix(prefix)), UNKNOWN):
            yield key

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        for key in await self._ask("listing", "", lambda: _all(self._store.list()), UNKNOWN):
            yield key

    async def _ask(self, what: str, key: str, request: Callable[[], Awaitable[Any]], size: int = 0) -> Any:
        """Make a request, and retry it until it is answered or :data:`PATIENCE` seconds have passed."""
        begun, pause, attempts = time.monotonic(), FIRST_PAUSE, 0
        patience, least = (PATIENCE, ATTEMPTS) if self._patience is None else (self._patience, 1)
        while True:
            attempts += 1
            try:
                found = await asyncio.wait_for(request(), SILENCE + size / SLOWEST)
                self._answered = True
                return found
            except Exception as error:
                if isinstance(error, FileNotFoundError | FileExistsError):
                    self._answered = True
                    raise
                if isinstance(error, TypeError):
                    raise  # an error of this program
                reason, number = self._scrub(error), getattr(error, "errno", None)
                passing, waited = passes(error), time.monotonic() - begun
                unknown = not self._answered and is_unresolved(error)
            patience = min(patience, RESOLVING) if unknown else patience
            if not passing or (attempts >= least and waited + pause > patience):
                failed = StorageError(
                    f"store: {what} {shown(self._location)}/{key} failed ({attempts} attempts in {waited:.0f} s): "
                    f"{reason}; check the {'URL and the network' if unknown else 'store'}, and run the same command "
                    f"again: {FITS_GO_ON}"
                )
                failed.errno = number
                raise failed
            level = logging.WARNING if attempts == 1 else logging.INFO
            log.log(level, "store: %s %s/%s failed (%s); trying again", what, shown(self._location), key, reason)
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LAST_PAUSE)

    def _scrub(self, error: BaseException) -> Any:
        text = scrubbed(str(error), self._location, self._options)
        return f"{type(error).__name__}: {text}" if text else f"{type(error).__name__}, no answer"


class AbsentChunkError(Exception):
    """Chunks are missing; the arguments are their keys."""


_absent: ContextVar[list[str] | None] = ContextVar("absent", default=None)
"""Keys of absent chunks of the read that goes on in this thread, which its requests inherit."""


@contextmanager
def refusing_absent_chunks() -> Iterator[None]:
    """Raise AbsentChunkError if chunks were absent in reads of a :class:`WholeStore`, when they have ended.

    If a request raised, Zarr would leave the others of its read unfinished, and asyncio would report each of them.
    """
    keys: list[str] = []
    token = _absent.set(keys)
    try:
        yield
    finally:
        _absent.reset(token)
    if keys:
        raise AbsentChunkError(*keys)


def settle() -> None:
    """Wait for the requests that a read has left behind in Zarr's event loop, as Zarr does when a chunk is torn.

    Those of other threads are waited for, too, but none longer than :data:`SETTLING` seconds.
    """
    from zarr.core.sync import sync

    sync(_settled())


async def _settled() -> None:
    this = asyncio.current_task()
    assert this is not None
    this.set_name(_SETTLED)
    others = [task for task in asyncio.all_tasks() if task.get_name() != _SETTLED]  # which would wait for this one
    done, _ = await asyncio.wait(others, timeout=SETTLING) if others else ((), ())
    for task in done:
        if not task.cancelled():
            task.exception()  # asyncio reports those that nobody has asked for


class WholeStore(WrapperStore[Any]):
    """A store that refuses absent chunks, which Zarr would silently read as fill values.

    See :func:`refusing_absent_chunks`; reads outside of it raise at once.
    """

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return the bytes of a key, or a range of them."""
        found = await self._store.get(key, prototype, byte_range)
        if found is None and not key.endswith(_METADATA):
            keys = _absent.get()
            if keys is None:
                raise AbsentChunkError(key)
            keys.append(key)
        return found

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> Any:
        """Return ranges of bytes of several keys."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    def __str__(self) -> str:
        return str(self._store)


async def _all(found: AsyncIterator[str]) -> Any:
    return [name async for name in found]
