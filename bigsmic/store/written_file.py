"""One file, at a path or behind a URL, written as a whole where it may be."""

import os
import posixpath
from typing import Any

from bigsmic.errors import RunError
from bigsmic.store.destinations import as_location, opening, refuse_nested
from bigsmic.store.objects import absolute, bytes_at, is_local, storage_errors
from bigsmic.store.redaction import shown
from bigsmic.types import StorageOptions, StrPath

HEAD_BYTES = 256
"""Of a file that is there, by which it is told whether it may be written over."""


class WrittenFile:
    """A file to be written at a location that is checked before its contents are computed.

    Parameters
    ----------
    location : str or Path
        Path or URL.
    storage_options : dict, optional
        For the file system behind a URL; never written anywhere.
    name : str
        What messages call it.

    Raises
    ------
    InputError
        `location` names no place.
    RunError
        There is a directory, or no folder for the file; or it would lie within a Zarr array or a run.
    """

    def __init__(self, location: StrPath, storage_options: StorageOptions = None, name: str = "out") -> None:
        location = as_location(location, name)
        self.location, address = shown(location), absolute(location)
        address = os.path.realpath(address) if is_local(address) else address  # a link of the user's may lead there
        self._what = f"{name}: {self.location}"
        folder, self._key = _split(address)
        if not self._key or (is_local(address) and os.path.isdir(address)):
            raise RunError(f"{self._what} is a directory, and would have to be a file; give a name within it")
        if is_local(address) and not os.path.isdir(folder):
            raise RunError(f"{self._what} would lie in {folder}, which is no directory; make it first")
        with opening(self._what, address, storage_options):
            refuse_nested(address, self._what, storage_options)
            self._objects = bytes_at(folder, storage_options)

    def head(self) -> Any:
        """First bytes of what is there; None where there is nothing."""
        with storage_errors(f"{self._what}: reading"):
            found = self._objects.get(self._key, 0, HEAD_BYTES)
        return None if found is None else bytes(found)

    def write(self, data: Any) -> None:
        """Write the bytes, all of them or none."""
        with storage_errors(f"{self._what}: writing"):
            self._objects.set(self._key, data)


def _split(address: str) -> Any:
    """Folder and name."""
    if is_local(address):
        return os.path.split(address)
    place, mark, query = address.partition("?")
    folder, name = posixpath.split(place)
    return f"{folder}{mark}{query}", name
