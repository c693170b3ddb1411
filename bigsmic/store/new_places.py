"""New local files and folders: complete or absent, and never in place of something that exists."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bigsmic.errors import RunError
from bigsmic.store.destinations import refuse_nested
from bigsmic.store.objects import is_local, remove_tree, storage_errors
from bigsmic.store.redaction import shown


@contextmanager
def new_place(address: str, what: str) -> Iterator[Any]:
    """Yield a path beside a new place, where it is written before it takes its name.

    Parameters
    ----------
    address : str
        Absolute path. A file or a folder may be made at what is yielded.
    what : str
        What is written, for messages.

    Yields
    ------
    partial : str
        It is deleted where the block ends with an error.

    Raises
    ------
    RunError
        There is something already, no folder to put it in, a Zarr array or a run around it; or it is a URL.
    StorageError
        The disk is full, or refuses.
    """
    _admit(address, f"{what}: {shown(address)}")
    folder, name = os.path.split(address)
    partial = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.partial")
    try:
        with storage_errors(f"{what}: writing {address}"):
            yield partial
            _name(partial, address, what)
    finally:
        _remove(partial)


def _admit(address: str, what: str) -> None:
    if not is_local(address):
        raise RunError(
            f"{what} is a URL, and only local files are written; give a path, and copy what is written there"
        )
    if os.path.lexists(address):
        raise _taken(what)
    if not os.path.isdir(os.path.dirname(address)):
        raise RunError(f"{what} would lie in a folder that is not there; make {os.path.dirname(address)} first")
    refuse_nested(address, what)


def _taken(what: str) -> Any:
    return RunError(f"{what} is there already, and nothing is written over; give another path")


def _name(partial: Any, address: str, what: str) -> None:
    """Give what was written its name, unless another process was quicker."""
    try:
        if os.path.isdir(partial):
            os.rename(partial, address)  # of a folder, it fails where there is something
        else:
            os.link(partial, address)  # a rename would write over a file
    except (FileExistsError, NotADirectoryError):
        raise _taken(f"{what}: {address}") from None


def _remove(partial: Any) -> None:
    if os.path.isdir(partial):
        remove_tree(partial)
    with suppress(FileNotFoundError):
        os.unlink(partial)
