"""Predictions on disk: a Zarr group that records its fit and rows, and is overwritten only by the same predictions."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, NoReturn

from numpy.typing import NDArray

from bigsmic.errors import RunError
from bigsmic.store.destinations import (
    Found,
    as_location,
    lies_in,
    look,
    make_group,
    opening,
    read_node,
    refuse_files,
    refuse_nested,
)
from bigsmic.store.lease import GROUP as LEASE
from bigsmic.store.lease import KEY as LEASE_KEY
from bigsmic.store.lease import Lease
from bigsmic.store.objects import LocalBytes, StoreBytes, absolute, bytes_at, is_local, storage_errors, store_of
from bigsmic.store.redaction import shown
from bigsmic.store.sources.zarr_arrays import create_arrays
from bigsmic.types import StorageOptions, StrPath

MARK = "bigsmic_prediction"
"""Attribute of the group: identity of the fit and of the rows, and whether the predictions are complete."""


def digest(facts: Any) -> str:
    """SHA-256 of JSON-like facts, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def write_rows(arrays: Mapping[str, Any], lo: int, values: Mapping[str, NDArray[Any]]) -> None:
    """Write rows of some of the arrays that a group yields, from row `lo` on.

    Raises
    ------
    StorageError
    """
    for name, rows in values.items():
        with storage_errors(f"predict: writing rows {lo}:{lo + len(rows)} of {name} to {arrays[name].store}"):
            arrays[name][lo : lo + len(rows)] = rows


TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npy", ".npz", ".h5", ".hdf5", ".json")
"""Suffixes of files in which one would look for a table or an array."""


class PredictionGroup:
    """A Zarr group for predictions, with the checks of whether it may be created or overwritten.

    Parameters
    ----------
    location : str or Path
        Path or URL.
    made_of : dict
        Identity of these predictions; JSON-like, without secrets.
    storage_options : dict, optional
    overwrite : bool
        Whether other arrays of the same names may be overwritten.
    """

    NAMES = ("labels", "posterior")

    def __init__(
        self,
        location: StrPath,
        made_of: Mapping[str, Any],
        storage_options: StorageOptions = None,
        overwrite: bool = False,
    ) -> None:
        location = as_location(location)
        self.location, self.address = shown(location), absolute(location)
        self._made_of = json.loads(json.dumps(made_of))
        self._options, self._overwrite = storage_options, overwrite

    @property
    def _what(self) -> str:
        return f"predict: out={self.location!r}"

    def _opening(self) -> AbstractContextManager[None]:
        return opening(self._what, self.address, self._options)

    @cached_property
    def _objects(self) -> LocalBytes | StoreBytes:
        with self._opening():
            return bytes_at(self.address, self._options)

    def keep_off(self, places: Iterable[str], what: str) -> None:
        """Raise RunError if the group is, lies in, or contains one of some locations.

        Parameters
        ----------
        places : iterable of str
            Paths and URLs that are never overwritten, whatever `overwrite` says.
        what : str
            Name of what lies there, for the message.
        """
        for place in places:
            if lies_in(self.address, place) or lies_in(place, self.address):
                raise RunError(
                    f"{self._what} is, lies in, or contains {what}, {shown(place)!r}, which is never overwritten; "
                    "give another out="
                )

    def admit(self) -> Found:
        """What lies at the location; RunError unless it is free, the same predictions, or may be overwritten."""
        if os.path.splitext(self.location)[1].lower() in TABLES:
            raise RunError(
                f"{self._what} is named as a table, but predictions are a Zarr group; give a name that ends with "
                ".zarr, and make the table of its arrays, zarr.open_group(out)['labels'][:]"
            )
        refuse_files(self.address, self._what)
        with self._opening():
            found = look(self._objects, ignored=(LEASE,) if self._is_leased() else ())
            if found.is_run or found.is_array:
                self._refuse(f"is a {'run directory' if found.is_run else 'Zarr array'}")
            if not found.is_group and not found.is_free:
                self._refuse("is a directory with other contents")
            if found.is_free:
                refuse_nested(self.address, self._what, self._options)
            elif self._mark_of(found) is None:
                self._admit_others(found)
            elif self._mark_of(found) != self._made_of and not self._overwrite:
                self._refuse("has predictions of other rows, or by another fit", may_ask=True)
        return found

    def _admit_others(self, found: Found) -> None:
        """Raise RunError unless this group, which another program wrote, has only arrays that may be overwritten."""
        if not self._overwrite:
            members = ", ".join(found.members[:5]) or "attributes"
            self._refuse(f"is a Zarr group with other members ({members})", may_ask=True)
        for name in self.NAMES:
            if name in found.members and not self._is_array(name):
                self._refuse(f"has a {name!r} that is not an array")

    def _refuse(self, why: str, may_ask: bool = False) -> NoReturn:
        asked = f", unless overwrite=True allows it for its arrays {' and '.join(self.NAMES)}" if may_ask else ""
        raise RunError(f"{self._what} {why}, and is not overwritten{asked}; give another out=")

    def _is_array(self, name: str) -> bool:
        return (read_node(self._objects, f"{name}/zarr.json") or {}).get("node_type") == "array"

    def _is_leased(self) -> bool:
        """Whether the member of that name is a lease, not something of another program."""
        return LEASE in ((read_node(self._objects, LEASE_KEY) or {}).get("attributes") or {})

    def _mark_of(self, found: Found) -> dict[str, Any] | None:
        mark = found.attributes.get(MARK)
        return {key: value for key, value in mark.items() if key != "complete"} if isinstance(mark, dict) else None

    @contextmanager
    def writing(self, arrays: dict[str, Any], chunk_rows: int) -> Iterator[dict[str, Any]]:
        """Create the arrays, lock the group, and mark it as complete at the end.

        Parameters
        ----------
        arrays : dict of str to (shape, dtype)
            Of :attr:`NAMES`.
        chunk_rows : int

        Yields
        ------
        arrays : dict of str to zarr.Array

        Raises
        ------
        RunError, RunLockedError
            Something else exists there, or another process writes to it.
        """
        self.admit()
        with self._opening():
            make_group(self._objects, self.address, {MARK: self._made_of | {"complete": False}})
            lease = Lease(self._objects, self.location, self.address if is_local(self.address) else None)
        try:
            found = self.admit()  # another process may have been quicker
            self._mark(complete=False)
            for name in arrays:
                self._objects.refuse_links(name)
            made = create_arrays(self.address, arrays, chunk_rows, self._options)
            if set(found.names) <= {"zarr.json", *self.NAMES}:
                self._objects.delete_partial()
            yield made
            lease.check()
            self._mark(complete=True)
        finally:
            lease.release()

    def _mark(self, complete: bool) -> None:
        import zarr

        with storage_errors(f"{self._what}: writing its attributes"):
            group = zarr.open_group(store_of(self.address, self._options), mode="r+", zarr_format=3)
            group.update_attributes({MARK: self._made_of | {"complete": complete}})
