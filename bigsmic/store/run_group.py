"""The Zarr group of a run: opening, locking, scratch space, and the attributes that identify the run."""

import json
import os
import socket
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bigsmic.errors import RunError, RunMismatchError, RunVersionError, StorageError
from bigsmic.store import held
from bigsmic.store.destinations import RUN_MARK, as_location, make_run
from bigsmic.store.identity import differences
from bigsmic.store.lease import GROUP as LEASE
from bigsmic.store.lease import Lease
from bigsmic.store.ledger import RUN_ID, seal
from bigsmic.store.objects import (
    StoreBytes,
    absolute,
    is_local,
    releasing_errors,
    remedy_of,
    remove_tree,
    storage_errors,
    store_of,
)
from bigsmic.store.redaction import scrubbed, shown
from bigsmic.store.reopenable import Shared
from bigsmic.store.temporary import delete_with, temporary_folder
from bigsmic.types import StrPath
from bigsmic.validation import check_storage_options

FORMAT_VERSION = 8
SEALED = ("identity", "summary", "kept", "cut", "saved")  # attributes used only if their checksum matches
AT_THE_END = ("summary", "kept")  # those that a fit writes when it ends


class RunGroup(Shared):
    """The group of a run, open for reading, or locked for writing.

    It is pickled as its location and storage options, and is opened without the lock in the other process, where tasks
    write blocks on behalf of the process that holds the lock.

    Parameters
    ----------
    location : str
        Local path or fsspec URL.
    storage_options : dict, optional
        For the file system behind a URL; never written anywhere.
    writable : bool
        Open for writing: the group is created if it does not exist, and locked.
    lock : bool
        False on behalf of a process that holds the lock; the group must exist then.

    Attributes
    ----------
    location : str
        Name of the location in messages.
    address : str
        Absolute path, or URL.

    Raises
    ------
    RunError, RunVersionError, RunLockedError
    """

    def __init__(
        self, location: StrPath, storage_options: Any = None, writable: bool = True, lock: bool = True
    ) -> None:
        location = as_location(location, "run")
        check_storage_options(storage_options)
        self.location, self.address = shown(location), absolute(location)
        self._options, self._writable = storage_options, writable
        self._lease: Lease | None = None
        self._is_temporary = False
        self._scratch: str | None = None
        self._making_scratch = threading.Lock()
        mode = "r+" if writable else "r"
        if writable and lock:
            make_run(self.address, self.location, storage_options, FORMAT_VERSION)
        self._group = self._open(mode)
        self._check_version()
        self._bytes = held.bytes_of(self.address) if self._local else StoreBytes(self._group.store)
        if writable and lock:
            self._take(mode)

    def _take(self, mode: str) -> None:
        with storage_errors(f"run: the lease of {self.location}"):
            self._lease = Lease(self._bytes, self.location, self.address if self._local else None)
        # behind a URL, the garbage collector may run on the thread that would have to answer the request
        release = (
            self._lease.release if self._local else threading.Thread(target=self._lease.release, daemon=True).start
        )
        weakref.finalize(self, release).atexit = False
        try:
            self._group = self._open(mode)  # as attributes that were read before the lock may be old
        except BaseException:
            self.close()
            raise

    def _open(self, mode: Any) -> Any:
        import zarr

        if self._local and not os.path.isdir(self.address):
            raise RunError(f"run: {self.location} is not a directory; give the out= of a finished fit")
        if self._local and (Path(self.address) / "zarr.json").is_symlink():
            raise RunError(f"run: {self.location}/zarr.json is a symbolic link; a run has no links: remove it")
        try:
            with releasing_errors():
                store = store_of(self.address, self._options, read_only=mode == "r")
                return zarr.open_group(store, mode=mode, zarr_format=3, use_consolidated=False)
        except StorageError as error:
            raise StorageError(f"run: {self.location} cannot be opened; {error}") from None
        except zarr.errors.ContainsArrayError:
            raise RunError(f"run: {self.location} is an array, not a run directory; give another out=") from None
        except Exception as error:
            text = scrubbed(f"{type(error).__name__}: {error}", self.address, self._options)
            remedy = remedy_of(error, self.address, "restore its zarr.json, or give another out=")
            raise RunError(f"run: {self.location} cannot be opened as a run directory ({text}); {remedy}") from (
                error if self._local else None
            )

    def _check_version(self) -> None:
        version = self._group.attrs.get(RUN_MARK, FORMAT_VERSION)
        if type(version) is not int:
            raise RunError(
                f"run: bigsmic_format in {self.location}/zarr.json is not a number, so the file is damaged; restore "
                "it, or give another out="
            )
        if version < FORMAT_VERSION:
            raise RunVersionError(
                f"run: {self.location} has format {version}, of an earlier version of bigsmic; this one reads "
                f"format {FORMAT_VERSION}: fit again with another out="
            )
        if version > FORMAT_VERSION:
            raise RunVersionError(
                f"run: {self.location} has format {version}, and this version of bigsmic reads up to "
                f"{FORMAT_VERSION}; upgrade bigsmic, or give another out="
            )

    @property
    def _local(self) -> bool:
        return is_local(self.address)

    @property
    def places(self) -> list[str]:
        """Paths and URLs that the run reads."""
        return [self.address]

    @property
    def options(self) -> Any:
        """Storage options that open the run."""
        return self._options

    @property
    def is_writable(self) -> bool:
        """Whether the run is open for writing."""
        return self._writable

    @property
    def is_public(self) -> bool:
        """Whether the address alone opens the run and contains no secret, so that it may be stored."""
        return not self._options and shown(self.address) == self.address

    def __repr__(self) -> Any:
        return f"Run({self.location!r})"

    def bind(
        self, identity: dict[str, Any], readable: Callable[[Any], Any] = lambda identity: identity, beside: Any = None
    ) -> None:
        """Store the identity of the run, or check that the stored one is equal; of a run open for reading, only check.

        Parameters
        ----------
        identity : dict
        readable : callable
            Makes of an identity what messages show of it, such as the options that a caller knows.
        beside : dict, optional
            Further attributes of a run that has no identity yet, stored with it at once.

        Raises
        ------
        RunMismatchError
            The run was made from other input or with other parameters; the message shows both.
        """
        identity = json.loads(json.dumps(identity))
        stored = self.attribute("identity")
        writer = {"writer": f"process {os.getpid()} on {socket.gethostname()}"}
        if stored is None:
            if not self._writable:
                raise RunError(f"run: {self.location} has no identity of a fit; give another out=")
            if any(name not in (LEASE, "zarr.json") for name in self._bytes.folders("")):
                raise RunError(f"run: {self.location} has blocks but no identity of their fit; give another out=")
            new = {RUN_MARK: FORMAT_VERSION, "run": uuid.uuid4().hex, "identity": identity}
            self.update(new | writer | (beside or {}))
        elif stored != identity:
            raise RunMismatchError(
                f"run: {self.location} was made from other input or with other parameters:\n"
                + "\n".join(differences(readable(stored), readable(identity)))
                + "\ngive another out=, or the stored values"
            )
        elif self._writable:
            self.update(writer)

    @property
    def identity(self) -> dict[str, dict[str, Any]]:
        """Identity of the run: its input, settings and versions, a JSON-like dict."""
        stored = self.attribute("identity")
        if stored is None:
            raise RunError(f"run: {self.location} is not a bigsmic run; give the out= of a fit")
        return stored

    @property
    def id(self) -> str:
        """Identifier of this run, unique even among runs of equal input and settings; empty before `bind`."""
        stored = self._group.attrs.get("run")
        return stored if isinstance(stored, str) and RUN_ID.match(stored) else ""

    def _replacement(self) -> RunError | None:
        """The error of a reader in whose place another run has been made; None if there is none."""
        if self._writable or self._is_temporary:
            return None
        try:
            there = self._open("r").attrs.get("run")
        except (RunError, StorageError):
            return None
        if not isinstance(there, str) or there == self.id:
            return None
        return RunError(
            f"run: {self.location} has been replaced by another run since it was opened; restore it, or open the run "
            "that is meant by Result.open"
        )

    def update(self, attributes: dict[str, Any]) -> None:
        """Set JSON-like attributes of the run; those in `SEALED` get a checksum."""
        self._check_lease()
        attributes = json.loads(json.dumps(attributes))
        whose = attributes.get("run", self.id)
        seals = {name: seal(whose, name, value) for name, value in attributes.items() if name in SEALED}
        if seals:
            attributes["crc32"] = self._seals | seals
        with storage_errors(f"run: attributes of {self.location}"):
            self._group.update_attributes(attributes)

    def attribute(self, name: str) -> dict[str, dict[str, Any]]:
        """Return one of the sealed attributes, a dict; None if there is none.

        Raises
        ------
        RunError
            It does not match its checksum.
        """
        stored = self._group.attrs.get(name)
        if stored is None or self._is_sealed(name):
            return stored
        raise RunError(
            f"run: {name!r} in {self.location}/zarr.json does not match its checksum, so that file was damaged or "
            f"changed; {self._way_out if name in AT_THE_END else 'restore it, or fit again with another out='}"
        )

    def strike_attributes(self) -> None:
        """Drop damaged attributes that a fit writes again when it ends."""
        if self._group.attrs.get("summary") is not None and not self._is_sealed("summary"):
            self.update({"summary": None})

    def _is_sealed(self, name: str) -> bool:
        stored = self._group.attrs[name]
        return isinstance(stored, dict) and self._seals.get(name) == seal(self.id, name, stored)

    @property
    def _seals(self) -> dict[str, int]:
        stored = self._group.attrs.get("crc32")
        return stored if isinstance(stored, dict) else {}

    @property
    def _way_out(self) -> str:
        """Remedy for damage."""
        if self._is_temporary:
            return "this is a temporary result, whose files were deleted; fit again, with out= to keep them"
        if self._group.attrs.get("cut") is not None:
            return "delete it, and save the cut of the fit again"
        return "run fit on it again, which makes it anew"

    def sweep(self) -> None:
        """Delete partial files and scratch folders of writers that were killed."""
        self._bytes.delete_partial()
        if self._local:
            remove_tree(self.scratch)

    def _map(self, function: Callable[..., Any], items: Iterable[Any]) -> Any:
        return self._bytes.map(function, items)

    def _set(self, key: str, data: Any) -> None:
        self._bytes.set(key, data)

    def _get(self, key: str, start: int | None = None, stop: int | None = None) -> Any:
        with storage_errors(f"run: reading {key} of {self.location}"):
            return self._bytes.get(key, start, stop)

    def _delete(self, key: str) -> None:
        self._bytes.delete(key)

    @property
    def scratch(self) -> Path:
        """Local folder for files that last as long as one stage; hidden in the run directory if that is local."""
        if not self._local:
            return Path(self._own_scratch())
        self._bytes.refuse_links(".scratch")
        return Path(self.address) / ".scratch"

    def _own_scratch(self) -> str:
        """Create the scratch folder of a run behind a URL, once."""
        with self._making_scratch:
            if self._scratch is None:
                self._scratch = temporary_folder("scratch")
                delete_with(self, self._scratch)
            return self._scratch

    def hold(self, room: int) -> None:
        """Keep up to `room` bytes of blocks in memory, of a new temporary run that this process alone writes."""
        self._bytes = held.hold(self.address, room)

    def settle(self) -> None:
        """Write blocks that are in memory to files, so that others who know the location can read the run.

        Raises
        ------
        StorageError
        """
        held.settle(self._bytes, self.location)

    def delete_when_unused(self) -> None:
        """Delete the directory once nothing refers to this run or to one of its arrays."""
        self._is_temporary = True
        delete_with(self._group.store, self.address)  # arrays refer to the store, not to the run

    def close(self) -> None:
        """Give up the lock."""
        if self._lease is not None:
            self._lease.release()

    def _check_lease(self) -> None:
        if self._lease is not None:
            self._lease.check()
