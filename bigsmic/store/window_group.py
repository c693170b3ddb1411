"""Windows on disk: a Zarr group of features that grows at its end, and records its definition and progress.

The attribute ``bigsmic_windows`` has the number of complete ``rows``, and for every session the number of its
``samples`` and of its finished ``windows``. Rows are written first and counted afterwards, so that rows of a killed
writer do not count.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import RunError, RunMismatchError
from bigsmic.store.admission import WINDOWS as MARK
from bigsmic.store.destinations import (
    GROUP,
    as_location,
    lies_in,
    look,
    make_group,
    opening,
    read_node,
    refuse_files,
    refuse_nested,
)
from bigsmic.store.identity import differences
from bigsmic.store.lease import GROUP as LEASE
from bigsmic.store.lease import Lease
from bigsmic.store.objects import absolute, bytes_at, is_local, storage_errors, store_of
from bigsmic.store.redaction import shown
from bigsmic.store.sources.windowed import ARRAYS
from bigsmic.types import StorageOptions, StrPath

FORMAT = 1
SEGMENT_COLUMNS = ("row", "source", "window", "count", "crc32")
"""Columns of ``segments``: first row, number of the source, its first window, windows, checksum of their samples."""


class WindowGroup:
    """A Zarr group of windows, with the checks of whether it may be created or extended.

    Parameters
    ----------
    location : str or Path
    definition : dict
        JSON-like definition of the features and their input; a group is only extended by the same definition.
    storage_options : dict, optional
    """

    def __init__(self, location: StrPath, definition: Any, storage_options: StorageOptions = None) -> None:
        location = as_location(location)
        self.location, self.address = shown(location), absolute(location)
        self._definition = json.loads(json.dumps(definition))
        self._options = storage_options

    @property
    def _what(self) -> str:
        return f"windows: out={self.location!r}"

    @cached_property
    def _objects(self) -> Any:
        with opening(self._what, self.address, self._options):
            return bytes_at(self.address, self._options)

    def keep_off(self, places: Any) -> None:
        """Raise RunError if the group is, lies in, or contains one of the locations that are read."""
        for place in places:
            if lies_in(self.address, place) or lies_in(place, self.address):
                raise RunError(
                    f"{self._what} is, lies in, or contains the archive that is read, {shown(place)!r}; give another "
                    "out="
                )

    @property
    def rate(self) -> float | None:
        """Rate of the windows that are there, in samples per second; None without windows, or if it is unknown."""
        refuse_files(self.address, self._what)
        with opening(self._what, self.address, self._options):
            state = look(self._objects, ignored=(LEASE,)).attributes.get(MARK)
        if not isinstance(state, dict) or state.get("format") != FORMAT or not state["rows"]:
            return None
        return state["definition"]["rate"]

    def admit(self) -> dict[str, Any] | None:
        """Return the state of the group; None if it is to be made: nothing is there, or no windows, of another rate.

        While there are too few samples for a window, the rate that follows from their times is not certain.

        Raises
        ------
        RunError
            Something else exists there, which stays as it is; RunMismatchError for windows of another definition.
        """
        refuse_files(self.address, self._what)
        with opening(self._what, self.address, self._options):
            found = look(self._objects, ignored=(LEASE,))
            state = found.attributes.get(MARK)
            if found.is_free:
                refuse_nested(self.address, self._what, self._options)
                return None
        if not found.is_group or not isinstance(state, dict):
            raise RunError(f"{self._what} holds something else, and is not overwritten; give another out=")
        if state.get("format") != FORMAT:
            raise RunError(
                f"{self._what} has format {state.get('format')!r}, and this version of bigsmic writes {FORMAT}; give "
                "another out="
            )
        if not state["rows"] and state["definition"] | {"rate": None} == self._definition | {"rate": None}:
            return state if state["definition"] == self._definition else None
        if state["definition"] != self._definition:
            raise RunMismatchError(
                f"{self._what} has windows of another definition:\n"
                + "\n".join(differences(state["definition"], self._definition))
                + "\ngive another out=, or the stored values"
            )
        return state

    @property
    def identity(self) -> dict[str, Any] | None:
        """The state of the group, by which a worker checks that it sees the same group; None if there is none."""
        return self.admit()

    @contextmanager
    def extending(self, state: dict[str, Any], arrays: dict[str, Any], chunk_rows: int) -> Iterator[dict[str, Any]]:
        """Lock the group, and create it if it does not exist.

        Parameters
        ----------
        state : dict
            State of a new group, besides format and definition.
        arrays : dict of str to (shape of a row, dtype, attributes)
        chunk_rows : int

        Yields
        ------
        state : dict

        Raises
        ------
        RunError, RunLockedError
        """
        if self.admit() is None:
            with opening(self._what, self.address, self._options):
                make_group(self._objects, self.address, {})
        with opening(self._what, self.address, self._options):
            self._lease = Lease(self._objects, self.location, self.address if is_local(self.address) else None)
        try:
            found = self.admit()  # another process may have been quicker
            if found is None:
                found = {"format": FORMAT, "definition": self._definition} | state
                self.write_state(found)  # first, as arrays alone would be refused as something else
            if not found["rows"]:  # a call that was cut short may have made some of the arrays
                self._make(arrays, chunk_rows)
            yield found
        finally:
            self._lease.release()

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Write the state of the group to its attributes."""
        self._lease.check()
        attributes = (read_node(self._objects, "zarr.json") or {}).get("attributes", {})
        node = GROUP | {"attributes": attributes | {MARK: state}}
        with storage_errors(f"{self._what}: writing its attributes"):
            self._objects.set("zarr.json", json.dumps(node).encode())

    def _open(self) -> Any:
        import zarr

        return zarr.open_group(store_of(self.address, self._options), mode="r+", zarr_format=3, use_consolidated=False)

    def _make(self, arrays: dict[str, Any], chunk_rows: int) -> None:
        with storage_errors(f"{self._what}: making its arrays"):
            group = self._open()
            for name, (shape, dtype, attributes) in arrays.items():
                height = 1024 if name == "segments" else chunk_rows
                group.create_array(
                    name,
                    shape=(0, *shape),
                    chunks=(height, *shape),
                    dtype=dtype,
                    overwrite=True,
                    attributes=attributes,
                    config={"write_empty_chunks": True},
                )

    def resize(self, rows: int) -> None:
        """Make room for so many rows; the group never shrinks."""
        with storage_errors(f"{self._what}: making room for {rows} windows"):
            group = self._open()
            for name in ARRAYS:
                if name in group and group[name].shape[0] < rows:
                    group[name].resize((rows, *group[name].shape[1:]))

    def write_rows(self, lo: int, arrays: dict[str, Any]) -> None:
        """Write rows of some arrays, within one chunk of rows."""
        with storage_errors(f"{self._what}: writing rows {lo}:{lo + len(arrays['valid'])}"):
            group = self._open()
            for name, values in arrays.items():
                group[name].with_config({"write_empty_chunks": True})[lo : lo + len(values)] = values

    def append_segments(self, known: int, segments: Sequence[Sequence[int]]) -> None:
        """Write the origin of rows, after the valid segments."""
        with storage_errors(f"{self._what}: writing its segments"):
            array = self._open()["segments"]
            array.resize((known + len(segments), len(SEGMENT_COLUMNS)))
            array[known:] = np.array(segments, np.int64).reshape(-1, len(SEGMENT_COLUMNS))

    def read_segments(self, count: int) -> NDArray[np.int64]:
        """The valid segments: ndarray of int64, shape (count, 5)."""
        with storage_errors(f"{self._what}: reading its segments"):
            return np.asarray(self._open()["segments"][:count])

    def read(self) -> dict[str, Any]:
        """The arrays by name."""
        with storage_errors(f"{self._what}: opening"):
            group = self._open()
            return {name: group[name] for name in ARRAYS if name in group}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_objects", "_lease")}
