"""Locations of output: whether two are the same, what exists there, and whether they may be written to."""

import json
import os
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from bigsmic.errors import InputError, RunError, StorageError
from bigsmic.store.objects import (
    FULL,
    LocalBytes,
    StoreBytes,
    absolute,
    bytes_at,
    is_first_write,
    is_local,
    releasing_errors,
    remedy_of,
)
from bigsmic.store.redaction import scrubbed, shown
from bigsmic.types import StrPath
from bigsmic.validation import brief

GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}
RUN_MARK = "bigsmic_format"
"""Attribute that marks the group of a run."""

_SAME_PROTOCOL = {"s3a": "s3", "gcs": "gs"}


def as_location(value: Any, name: str = "out") -> str:
    """Return a path or URL as str.

    Parameters
    ----------
    value : str or path-like
    name : str
        Name of the parameter in messages.

    Raises
    ------
    InputError
        It is neither, or empty.
    """
    location = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(location, str):
        raise InputError(
            f"{name}: got {brief(value)} of type {type(value).__name__}; give a path or URL, as str or Path"
        )
    if not location.strip() or "\0" in location:
        raise InputError(f"{name}: got {value!r}, which is no location; give a path or URL")
    return location


# -- which are the same


def canonical_location(location: StrPath) -> str:
    """Return the canonical name of a location: a path without symbolic links, or a URL without its query.

    >>> canonical_location("s3a://me@bucket//a/b/../c/?sig=abc")
    's3://bucket/a/c'
    """
    location = absolute(location)
    if is_local(location):
        return os.path.realpath(location)
    protocol, _, rest = location.rpartition("::")[2].partition("://")
    protocol = _SAME_PROTOCOL.get(protocol.lower(), protocol.lower())
    path = posixpath.normpath(rest.partition("?")[0].rpartition("@")[2].strip("/"))
    return f"{protocol}://{path}"


def lies_in(place: StrPath, other: StrPath) -> bool:
    """Whether a location equals another one, or lies below it."""
    place, other = canonical_location(place), canonical_location(other)
    if place == other or place.startswith(other.rstrip("/") + "/"):
        return True
    if not (is_local(place) and is_local(other)):
        return False
    return any(_is_same_folder(folder, other) for folder in (place, *map(str, Path(place).parents)))


def _is_same_folder(folder: str, other: str) -> bool:
    """Whether two paths lead to one inode, as on a case-insensitive file system or through a mount."""
    try:
        return os.path.samefile(folder, other)
    except OSError:
        return False


def _above(address: str) -> list[str]:
    """Addresses of the folders above one, the nearest first."""
    if is_local(address):
        return [str(folder) for folder in Path(os.path.realpath(address)).parents]
    start, _, rest = address.rpartition("://")
    path, mark, query = rest.partition("?")
    host, *folders = path.rstrip("/").split("/")
    return [f"{start}://{'/'.join([host, *folders[:i]])}{mark}{query}" for i in range(len(folders) - 1, -1, -1)]


# -- what lies there


class Found(NamedTuple):
    """What exists at a location.

    Parameters
    ----------
    names : list of str
        Names at its top, without leftovers of killed writers.
    node : dict, optional
        Metadata of the Zarr v3 node; None if there are none, {} if they are torn.
    """

    names: list[str]
    node: dict[str, Any] | None

    @property
    def is_free(self) -> bool:
        """Whether there is nothing, or a Zarr group with nothing in it."""
        if self.node is None:
            return not self.names
        return self.is_group and not self.attributes and not self.members

    @property
    def is_group(self) -> bool:
        """Whether it is a Zarr group."""
        return self.node is not None and self.node.get("node_type") == "group"

    @property
    def is_array(self) -> bool:
        """Whether it is a Zarr array."""
        return ".zarray" in self.names or (self.node is not None and self.node.get("node_type") == "array")

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the node."""
        found = (self.node or {}).get("attributes")
        return found if isinstance(found, dict) else {}

    @property
    def members(self) -> list[str]:
        """Names of the members of the group."""
        return [name for name in self.names if name != "zarr.json"]

    @property
    def is_run(self) -> bool:
        """Whether it is a run directory."""
        return self.is_group and RUN_MARK in self.attributes


def look(objects: LocalBytes | StoreBytes, ignored: Any = ()) -> Found:
    """Return what exists at a location.

    Parameters
    ----------
    objects : LocalBytes or StoreBytes
    ignored : collection of str
        Names that are left out.

    Returns
    -------
    found : Found
    """
    # Names first: a node that another process makes between the two requests begins with its metadata, read second.
    names = [name for name in objects.names() if not is_first_write(name) and name not in ignored]
    return Found(names, read_node(objects, "zarr.json"))


def read_node(objects: LocalBytes | StoreBytes, key: str) -> dict[str, Any] | None:
    """Return the metadata of a Zarr v3 node as a dict; None if there are none, {} if they are torn."""
    raw = objects.get(key)
    if raw is None:
        return None
    try:
        return dict(json.loads(bytes(raw)))
    except (ValueError, TypeError):
        return {}


# -- whether something may be written there


@contextmanager
def opening(what: str, address: str, options: Any = None) -> Iterator[None]:
    """Turn errors of a store into errors of bigsmic that name the location.

    Parameters
    ----------
    what : str
        What is opened, for messages, such as ``"run: /data/run"``.
    address : str
    options : dict, optional
        Storage options, to be kept out of the message.
    """
    try:
        with releasing_errors():
            yield
    except StorageError as error:
        raise StorageError(error.errno, f"{what} cannot be opened; {error}") from None
    except OSError as error:
        if error.errno in FULL:
            raise StorageError(error.errno, f"{what}: no space left on the device; free some") from error
        text = scrubbed(error.strerror or str(error), address, options)
        raise RunError(f"{what} cannot be created or opened ({text}); give another out=") from (
            error if is_local(address) else None
        )
    except (ImportError, ValueError) as error:
        text = scrubbed(f"{type(error).__name__}: {error}", address, options)
        raise RunError(f"{what} cannot be opened ({text}); {remedy_of(error, address, 'give another out=')}") from None


def refuse_files(address: str, what: str) -> None:
    """Raise RunError if a local location exists and is no directory."""
    if is_local(address) and os.path.lexists(address) and not os.path.isdir(address):
        kind = "a symbolic link to nothing" if os.path.islink(address) else "a file"
        raise RunError(f"{what} is {kind}, but must be a directory; give another out=")


def refuse_nested(address: str, what: str, options: Any = None) -> None:
    """Raise RunError if a location is within a Zarr array, or within a run directory.

    Parameters
    ----------
    address : str
    what : str
        What is to be created, for messages.
    options : dict, optional
        Storage options.
    """
    for folder in _above(address):
        kind = _kind(folder, options)
        if kind is not None:
            raise RunError(f"{what} would lie within {kind} {shown(folder)}; give another out= outside of it")


def _kind(address: str, options: Any) -> str | None:
    """What a folder is that nothing may be written into; None for others."""
    with suppress(OSError, ValueError, RunError):  # folders above may be forbidden, or symbolic links
        objects = bytes_at(address, options, read_only=True)
        if not is_local(address):
            objects = objects.with_patience(0)
        node = read_node(objects, "zarr.json")
        found = Found([".zarray"] if objects.get(".zarray") is not None else [], node)
        return "the Zarr array" if found.is_array else "the run" if found.is_run else None
    return None


def make_group(objects: LocalBytes | StoreBytes, address: str, attributes: dict[str, int]) -> bool:
    """Write the metadata of a group unless they exist, and return whether they were written."""
    if is_local(address):
        os.makedirs(address, exist_ok=True)
    return objects.create("zarr.json", json.dumps(GROUP | {"attributes": attributes}).encode())


def make_run(address: str, location: StrPath, options: Any, version: int) -> None:
    """Create an empty run unless one exists; write nothing where something else exists.

    Parameters
    ----------
    address : str
    location : str
        Name of the location in messages.
    options : dict, optional
        Storage options.
    version : int
        Version of the format.

    Raises
    ------
    RunError
        The location is a file, an array, a group that is not a run, or a directory with other contents; or it lies
        within an array or another run.
    StorageError
    """
    what = f"run: {location}"
    refuse_files(address, what)
    with opening(what, address, options):
        objects = bytes_at(address, options)
        found = look(objects, ignored=("lease", ".scratch"))
        if found.is_run:
            return
        if found.is_array:
            raise RunError(f"{what} is a Zarr array; give another out=")
        if found.is_group and not found.is_free:
            raise RunError(f"{what} holds a Zarr group that is not a run; give another out=")
        if found.node is None and not found.is_free:
            raise RunError(f"{what} is a directory with other contents; give another out=")
        refuse_nested(address, what, options)
        make_group(objects, address, {RUN_MARK: version})
