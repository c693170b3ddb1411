"""New local files and folders: complete or absent, and never in place of something that exists."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from bigsmic.errors import RunError
from bigsmic.store.destinations import refuse_nested
from bigsmic.store.objects import is_local, remove_unfinished, storage_errors
from bigsmic.store.redaction import shown


@contextmanager
def new_place(address: str, what: str) -> Iterator[str]:
    """Yield a temporary path beside a new location; what is written there is renamed to the location at the end.

    Parameters
    ----------
    address : str
        Absolute path of the new file or folder.
    what : str
        Name of what is written, for messages.

    Yields
    ------
    partial : str
        The temporary path. It is deleted if the block ends with an error.

    Raises
    ------
    RunError
        Something exists at `address`, its parent folder does not exist, it lies within a Zarr array or a run, or it is
        a URL.
    StorageError
        The disk is full, or a write fails.
    """
    _admit(address, f"{what}: {shown(address)}")
    folder, name = os.path.split(address)
    partial = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.partial")
    try:
        with storage_errors(f"{what}: writing {address}"):
            yield partial
            _name(partial, address, what)
    except BaseException:
        if not os.path.isfile(partial):
            remove_unfinished(partial)
        raise
    finally:
        if os.path.isfile(partial):
            os.unlink(partial)


def _admit(address: str, what: str) -> None:
    if not is_local(address):
        raise RunError(
            f"{what} is a URL, and only local files are written; give a path, and copy the result to the URL"
        )
    if os.path.lexists(address):
        raise _taken(what)
    if not os.path.isdir(os.path.dirname(address)):
        raise RunError(f"{what} lies in a folder that does not exist; make {os.path.dirname(address)} first")
    refuse_nested(address, what)


def _taken(what: str) -> RunError:
    return RunError(f"{what} exists already, and nothing is overwritten; give another path")


def _name(partial: str, address: str, what: str) -> None:
    """Rename what was written, unless another process was quicker."""
    try:
        if os.path.isdir(partial):
            os.rename(partial, address)  # of a folder, this fails if the path exists
        else:
            os.link(partial, address)  # a rename would overwrite a file
    except (FileExistsError, NotADirectoryError):
        raise _taken(f"{what}: {address}") from None
