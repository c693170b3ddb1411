"""One file, at a path or URL, written atomically if the location allows it."""

import os
import posixpath

from bigsmic.errors import RunError
from bigsmic.store.destinations import as_location, opening, refuse_nested
from bigsmic.store.objects import absolute, bytes_at, is_local, storage_errors
from bigsmic.store.redaction import shown
from bigsmic.types import StorageOptions, StrPath

HEAD_BYTES = 256
"""Bytes read from an existing file to decide whether it may be overwritten."""


class WrittenFile:
    """A file to be written at a location that is checked before its contents are computed.

    Parameters
    ----------
    location : str or Path
        Path or URL.
    storage_options : dict, optional
        For the file system behind a URL; never written anywhere.
    name : str
        Name of the file in messages.

    Attributes
    ----------
    location : str
        As given, without secrets.
    suffix : str
        Of the name, such as ".html", or empty.

    Raises
    ------
    InputError
        `location` is empty or malformed.
    RunError
        The location is a directory, its parent folder does not exist, or it lies within a Zarr array or a run.
    """

    def __init__(self, location: StrPath, storage_options: StorageOptions = None, name: str = "out") -> None:
        location = as_location(location, name)
        self.location, address = shown(location), absolute(location)
        self.suffix = posixpath.splitext(_split(address)[1])[1]
        address = os.path.realpath(address) if is_local(address) else address  # the user's path may be a link
        self._what = f"{name}: {self.location}"
        folder, self._key = _split(address)
        if not self._key or (is_local(address) and os.path.isdir(address)):
            raise RunError(f"{self._what} is a directory, but must be a file; give a name within it")
        if is_local(address) and not os.path.isdir(folder):
            raise RunError(f"{self._what} lies in {folder}, which is not a directory; create it first")
        with opening(self._what, address, storage_options):
            refuse_nested(address, self._what, storage_options)
            self._objects = bytes_at(folder, storage_options)

    def head(self) -> bytes | None:
        """First bytes of the file; None if it does not exist."""
        with storage_errors(f"{self._what}: reading"):
            found = self._objects.get(self._key, 0, HEAD_BYTES)
        return None if found is None else bytes(found)

    def write(self, data: bytes) -> None:
        """Write the bytes, all of them or none."""
        with storage_errors(f"{self._what}: writing"):
            self._objects.set(self._key, data)


def _split(address: str) -> tuple[str, str]:
    """Folder and name."""
    if is_local(address):
        return os.path.split(address)
    place, mark, query = address.partition("?")
    folder, name = posixpath.split(place)
    return f"{folder}{mark}{query}", name
