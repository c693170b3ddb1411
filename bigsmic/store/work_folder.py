"""A local folder in which one process at a time works: small JSON files, folders, and links to them."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bigsmic.errors import RunError, StorageError
from bigsmic.store.destinations import as_location, refuse_nested
from bigsmic.store.lease import Lease
from bigsmic.store.objects import LocalBytes, absolute, is_local, remove_tree, storage_errors
from bigsmic.types import StrPath

DELETED = ".deleted-"
"""Prefix of the names of folders that are being deleted."""
ZARR = ("zarr.json", ".zarray", ".zgroup")
"""Metadata of a Zarr array or group."""


class WorkFolder:
    """A local folder for the work of one process at a time.

    Parameters
    ----------
    location : str or Path
        Created if it does not exist.

    Raises
    ------
    RunError
        It is a URL, is not a folder, or is or lies within a Zarr array, a Zarr group or a run.
    """

    def __init__(self, location: StrPath) -> None:
        self.path = _admitted(location)
        with storage_errors(f"folder: making {self.path}"):
            os.makedirs(self.path, exist_ok=True)
        self._bytes = LocalBytes(self.path)

    @staticmethod
    def foresee(location: StrPath) -> str:
        """Absolute path of a folder that can be created or written; nothing is created.

        Raises
        ------
        RunError
            As of the constructor.
        StorageError
            Something else is at the path, or there is no permission to write.
        """
        path = _admitted(location)
        refuse_unwritable(path, "folder")
        return path

    def at(self, *names: str) -> str:
        """Absolute path of a name in the folder."""
        return os.path.join(self.path, *names)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder as long as the ``with`` block lasts.

        Raises
        ------
        RunLockedError
            Another process holds the folder.
        """
        with storage_errors(f"folder: the lease of {self.path}"):
            lease = Lease(self._bytes, self.path, self.path)
        try:
            self._bytes.delete_partial()
            self._finish_deleting()
            yield
        finally:
            lease.release()

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Contents of a JSON file; None if it does not exist.

        Raises
        ------
        RunError
            It is not a JSON object.
        """
        raw = self._bytes.get(name)
        if raw is None:
            return None
        try:
            return dict(json.loads(bytes(raw)))
        except (ValueError, TypeError) as error:
            raise RunError(
                f"folder: {self.at(name)} is damaged ({error}); delete it: the next call then begins with a fit"
            ) from None

    def write_json(self, name: str, document: Any) -> None:
        """Write a JSON file atomically, and sync it to disk."""
        with storage_errors(f"folder: writing {self.at(name)}"):
            self._bytes.set(name, json.dumps(document, indent=1).encode())
            _flush(self.at(name))
            _flush(self.path)

    def admit_link(self, link: str) -> None:
        """Raise RunError if something else is where a link would be."""
        if os.path.lexists(self.at(link)) and not os.path.islink(self.at(link)):
            raise RunError(f"folder: {self.at(link)} is not a link, and is not overwritten; move it away")

    def point(self, link: str, to: str) -> None:
        """Point a link at something in the folder, atomically."""
        self.admit_link(link)
        partial = self.at(f".{link}.{uuid.uuid4().hex}.partial")
        with storage_errors(f"folder: writing the link {self.at(link)}"):
            os.symlink(to, partial)
            os.replace(partial, self.at(link))

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order, except those that begin with a dot."""
        with suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self.at(folder)) if not name.startswith("."))
        return []

    def delete(self, name: str) -> None:
        """Delete a folder, which is renamed first, so that it is never seen half deleted."""
        doomed = self.at(f"{DELETED}{uuid.uuid4().hex}")
        with storage_errors(f"folder: deleting {self.at(name)}"), suppress(FileNotFoundError):
            os.rename(self.at(name), doomed)
        remove_tree(doomed)

    def _finish_deleting(self) -> None:
        for name in os.listdir(self.path):
            if name.startswith(DELETED):
                remove_tree(self.at(name))


def _admitted(location: StrPath) -> str:
    """Absolute path of what may become a folder for work."""
    location = as_location(location, "folder")
    path = absolute(location)
    if not is_local(path):
        raise RunError(f"folder: got {location}, a URL; give a local path, also for archives behind URLs")
    if os.path.isdir(path) and any(os.path.lexists(os.path.join(path, name)) for name in ZARR):
        raise RunError(f"folder: {path} is a Zarr array or group, which is not written to; give another folder")
    refuse_nested(path, f"folder: {path}")
    return path


def refuse_unwritable(path: str, name: str) -> None:
    """Raise StorageError unless a local folder can be written, or created and then written.

    Parameters
    ----------
    path : str
        Absolute.
    name : str
        Name of the folder in messages.
    """
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        raise StorageError(f"{name}: {path} cannot be created, as {there} is not a directory; give another place")
    if not os.access(there, os.W_OK | os.X_OK):
        what = "written" if there == path else f"created in {there}"
        raise StorageError(f"{name}: {path} cannot be {what}: no permission; allow it, or give another place")


def _flush(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
