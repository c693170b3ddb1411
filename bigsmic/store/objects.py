"""Bytes by key, in a local directory or in the store of a Zarr group."""

import contextlib
import errno
import itertools
import os
import re
import shutil
import threading
import traceback
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import FITS_GO_ON, RunError, StorageError
from bigsmic.types import StorageOptions, StrPath

_PARTIAL = re.compile(r"\.([0-9a-f]+-[0-9]+|[0-9a-f]{32})\.partial\Z")  # ours, and Zarr's
_LINK = "run: {} is a symbolic link, which could lead anywhere; a run has no links: remove it"
_WRITER = uuid.uuid4().hex[:12]  # process numbers repeat from host to host

READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Numbers of the errors of a place that may be read only."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a place that has no room."""

REQUESTS = 16
"""Concurrent requests to an object store."""


def checksum(array: Any) -> int:
    """CRC-32 of an array's bytes in C order, as int."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)


def is_local(location: Any) -> bool:
    """Whether a location is a path, and not a URL."""
    return "://" not in location


def absolute(location: StrPath) -> str:
    """Return an absolute path, or the URL as it is; for a file URL, its path. ~ is the home folder."""
    location = os.fspath(location)
    if location.startswith("file://"):
        location = url2pathname(urlsplit(location).path)
    return os.path.abspath(os.path.expanduser(location)) if is_local(location) else location


def store_of(location: StrPath, storage_options: StorageOptions = None, read_only: bool = False) -> Any:
    """Return the store that Zarr opens at a location; storage options apply to URLs only."""
    if is_local(location):
        return location
    from bigsmic.store.retrying import open_store

    return open_store(location, storage_options, read_only)


def remedy_of(error: Exception, address: str, otherwise: str) -> str:
    """What to do about an error at opening a location: install what opens its URLs where that is missing.

    Parameters
    ----------
    error : Exception
    address : str
    otherwise : str
        What to do about any other error.

    Returns
    -------
    remedy : str
    """
    if not isinstance(error, ImportError):
        return otherwise
    protocol = address.rpartition("::")[2].partition("://")[0]
    return "pip install 'bigsmic[s3]'" if protocol.lower() in ("s3", "s3a") else "install what it names"


def is_partial(name: str) -> bool:
    """Whether a file of this name, in a run, was left by a writer that was killed while it wrote."""
    return _PARTIAL.search(name) is not None


def is_first_write(name: str) -> bool:
    """Whether a file of this name was left by a writer that was killed at the metadata of a Zarr node."""
    return is_partial(name) and _PARTIAL.sub("", name) in ("zarr", "zarr.json")


def bytes_at(address: str, storage_options: StorageOptions = None, read_only: bool = False) -> Any:
    """Return the bytes by key at an absolute path, which need not exist yet, or at a URL."""
    store = store_of(address, storage_options, read_only)
    return LocalBytes(address) if is_local(address) else StoreBytes(store)


def remove_tree(path: Any) -> None:
    """Delete what exists of a local directory."""
    try:
        shutil.rmtree(path, ignore_errors=True)
    except KeyboardInterrupt:  # the second one, as a rule: the first ended the work whose files these are
        shutil.rmtree(path, ignore_errors=True)
        raise


def remove_unfinished(path: Any) -> None:
    """Delete a local directory in which an interruption may have left Zarr writing, which would make it again.

    Zarr writes on threads of its own, and an interruption ends only the waiting for them.
    """
    from bigsmic.store.retrying import settle

    try:
        settle()
    finally:
        remove_tree(path)


def write_full(file: Any, array: NDArray[Any]) -> None:
    """Write all bytes of an array to an unbuffered file."""
    view = array.reshape(-1).view(np.uint8).data
    while view:
        view = view[file.write(view) :]


def read_full(file: Any, array: NDArray[np.uint8]) -> int:
    """Fill an array from an unbuffered file; the number of bytes that were there."""
    view, at = array.data, 0
    while at < len(view) and (got := file.readinto(view[at:])):
        at += got
    return at


class LocalBytes:
    """Bytes by key in a local directory. A set is atomic. Zarr's own store would use an event loop.

    Parameters
    ----------
    root : str
        Must exist, and is not made again once it was deleted, so that a late task leaves nothing behind.
    """

    def __init__(self, root: str) -> None:
        self._root = os.fspath(root)  # strings, not Paths, as a fit asks for thousands

    def with_patience(self, seconds: float) -> "LocalBytes":
        """Return the same bytes, as a local file system is not retried."""
        return self

    def get(self, key: str, start: int | None = None, stop: Any = None) -> Any:
        """Return the bytes, or a range of them as a read-only view; None if there are none."""
        try:
            with open(self._path(key), "rb", buffering=0, opener=_open_no_link) as file:
                if start is None:
                    return file.read()
                file.seek(start)
                there = os.fstat(file.fileno()).st_size  # as memory is allocated for all that is asked for
                found = np.empty(max(0, min(stop, there) - start), np.uint8)  # on huge pages where these are offered
                return found[: read_full(file, found)].data.toreadonly()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def set(self, key: str, data: Any) -> None:
        """Write the bytes, all of them or none."""
        path = self._path(key)
        partial = self._partial(path)
        try:
            self._make_folder(os.path.dirname(path))
            with open(partial, "wb", buffering=0, opener=_open_no_link) as file:
                write_full(file, np.frombuffer(data, np.uint8))
            os.replace(partial, path)
        except OSError:
            _unlink(partial)
            raise

    def ensure(self, key: str, data: Any) -> None:
        """Write the bytes, unless they are there, whole; a file costs more than a look."""
        if self.get(key) != data:
            self.set(key, data)

    def create(self, key: str, data: Any) -> bool:
        """Write the bytes and return True, unless the key exists already."""
        path = self._path(key)
        partial = self._partial(path)
        self._make_folder(os.path.dirname(path))
        try:
            Path(partial).write_bytes(data)
            os.link(partial, path)  # fails if the path exists, also on shared file systems
        except FileExistsError:
            return False
        finally:
            _unlink(partial)
        return True

    def _path(self, key: str) -> str:
        """Return the path of a key, and refuse symbolic links on the way, which could lead out of the directory."""
        path = self._root
        *folders, name = key.split("/")
        for folder in folders:
            path = f"{path}/{folder}"
            if os.path.islink(path):
                self._refuse_link(path)
        return f"{path}/{name}"

    def _refuse_link(self, path: Any) -> None:
        raise RunError(_LINK.format(path))

    def refuse_links(self, prefix: str) -> None:
        """Raise RunError if there is a symbolic link at a prefix or below it, before Zarr or others follow it."""
        top = os.path.dirname(self._path(f"{prefix}/any"))
        for folder, folders, names in os.walk(top):
            for name in (*folders, *names):
                if os.path.islink(os.path.join(folder, name)):
                    self._refuse_link(os.path.join(folder, name))

    def _partial(self, path: str) -> str:
        return f"{path}.{_WRITER}{os.getpid():x}-{threading.get_ident()}.partial"

    def _make_folder(self, folder: str) -> None:
        if not os.path.isdir(folder):
            os.stat(self._root)
            os.makedirs(folder, exist_ok=True)

    def delete(self, key: str) -> None:
        """Delete the key, if it exists."""
        _unlink(self._path(key))

    def delete_tree(self, prefix: str) -> None:
        """Delete everything under a prefix."""
        top = self._path(prefix)
        if os.path.islink(top):
            self._refuse_link(top)
        if os.path.exists(top):
            shutil.rmtree(top)

    def prune(self, prefix: str) -> None:
        """Delete the folder of a prefix, if it is empty."""
        with contextlib.suppress(OSError):
            os.rmdir(f"{self._root}/{prefix}")

    def delete_partial(self) -> None:
        """Delete files that were being written when their writer died."""
        for path in Path(self._root).rglob("*.partial"):
            if is_partial(path.name):
                path.unlink(missing_ok=True)

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the non-empty folders one level below a prefix, in order."""
        try:
            with os.scandir(f"{self._root}/{prefix}") as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def names(self) -> list[str]:
        """Return the names of what there is at the top, in order."""
        try:
            return sorted(os.listdir(self._root))
        except FileNotFoundError:
            return []

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> Any:
        """Yield ``function(item) for item in items``."""
        return map(function, items)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _open_no_link(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise RunError(_LINK.format(path)) from None


class StoreBytes:
    """Bytes by key in a store of Zarr.

    Parameters
    ----------
    store : bigsmic.store.retrying.PatientStore
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def with_patience(self, seconds: float) -> Any:
        """Return the same bytes, with requests that are retried for so many seconds only."""
        found = copy(self)
        found._store = self._store.with_patience(seconds)
        return found

    def get(self, key: str, start: int | None = None, stop: Any = None) -> Any:
        """Return the bytes, or a range of them; None if there are none."""
        from zarr.abc.store import RangeByteRequest
        from zarr.core.buffer import default_buffer_prototype

        wanted = None if start is None else RangeByteRequest(start, stop)
        buffer = _waited_for(self._store.get(key, default_buffer_prototype(), wanted))
        return None if buffer is None else buffer.as_numpy_array().data

    def set(self, key: str, data: Any) -> None:
        """Write the bytes."""
        from zarr.core.buffer.cpu import Buffer

        _waited_for(self._store.set(key, Buffer.from_array_like(np.frombuffer(data, np.uint8))))

    def ensure(self, key: str, data: Any) -> None:
        """Write the bytes; a look would be a request, too."""
        self.set(key, data)

    def create(self, key: str, data: Any) -> bool:
        """Write the bytes and return True, unless the key exists already."""
        return _waited_for(self._store.create(key, data))

    def delete(self, key: str) -> None:
        """Delete the bytes."""
        _waited_for(self._store.delete(key))

    def delete_tree(self, prefix: str) -> None:
        """Delete everything under a prefix."""
        _waited_for(self._store.delete_dir(prefix))

    def refuse_links(self, prefix: str) -> None:
        """Nothing to do: an object is where its key says."""

    def prune(self, prefix: str) -> None:
        """Nothing to do: there are no folders."""

    def delete_partial(self) -> None:
        """Nothing to do: objects are whole or absent."""

    def folders(self, prefix: str) -> list[str]:
        """Return the names of what is one level below a prefix, in order."""

        async def names() -> list[str]:
            return [name async for name in self._store.list_dir(prefix)]

        return sorted(_waited_for(names()))

    def names(self) -> list[str]:
        """Return the names of what there is at the top, in order."""
        return self.folders("")

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield ``function(item) for item in items``, in order; several are computed ahead, on threads.

        `function` must not call `map` itself: it would wait for the threads on which it runs.
        """
        pool, items = _requests(), iter(items)
        pending: deque[Any] = deque()
        try:
            for item in itertools.islice(items, REQUESTS):
                pending.append(pool.submit(function, item))
            while pending:
                found = pending.popleft().result()
                pending.extend(pool.submit(function, item) for item in itertools.islice(items, 1))
                yield found
        finally:
            for future in pending:
                future.cancel()


def _waited_for(request: Any) -> Any:
    """The answer to a request of Zarr's, or its error."""
    from zarr.core.sync import sync

    with releasing_errors():
        return sync(request)


@cache
def _requests() -> Any:
    return ThreadPoolExecutor(REQUESTS, thread_name_prefix="bigsmic-store")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_requests.cache_clear)  # threads stay with the parent


@contextlib.contextmanager
def releasing_errors() -> Iterator[None]:
    """Context in which errors that Zarr raises, or that others have replaced, do not refer to themselves.

    The function of Zarr that waits for an answer has its error in a variable, and the error has that function in its
    traceback: a circle, which would keep what all callers have in variables, such as the user's rows, until Python
    looks for circles. It leaves alone what may be of use in a debugger.
    """
    try:
        yield
    except BaseException as error:
        _release(error)
        raise


def _release(error: BaseException | None) -> None:
    from zarr.core.sync import sync

    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code is sync.__code__:
                frame.clear()
        error = error.__cause__ or error.__context__


@contextlib.contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn errors of the file system into a StorageError that names the action."""
    try:
        with releasing_errors():
            yield
    except StorageError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise StorageError(
                error.errno,
                f"{what}: no space left on the device; free some and run the same command again: {FITS_GO_ON}",
            ) from error
        if isinstance(error, IsADirectoryError):
            raise StorageError(
                error.errno,
                f"{what}: {error.filename2 or error.filename} is a directory in the place of a file; delete it, and "
                "run the same command again",
            ) from error
        raise StorageError(error.errno, f"{what}: {error}") from error
