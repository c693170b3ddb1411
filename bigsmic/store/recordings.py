"""Recordings: arrays of samples x channels, one or a group of sessions, and the times of their samples."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError, StorageError
from bigsmic.store import admission
from bigsmic.store.decoding import Decoding
from bigsmic.store.objects import absolute, releasing_errors, store_of
from bigsmic.store.redaction import shown
from bigsmic.store.retrying import AbsentChunkError, WholeStore, refusing_absent_chunks
from bigsmic.store.shards import Shards, is_sharded
from bigsmic.store.sources.base import Source
from bigsmic.store.sources.opening import open_source
from bigsmic.store.sources.zarr_arrays import insisting, is_stored, is_zarr, open_array

SECONDS = {
    **dict.fromkeys(("days", "day", "d", "D"), 86_400.0),
    **dict.fromkeys(("hours", "hour", "h"), 3_600.0),
    **dict.fromkeys(("minutes", "minute", "min", "m"), 60.0),
    **dict.fromkeys(("seconds", "second", "s", ""), 1.0),
    **dict.fromkeys(("milliseconds", "millisecond", "ms"), 1e-3),
    **dict.fromkeys(("microseconds", "microsecond", "us"), 1e-6),
    **dict.fromkeys(("nanoseconds", "nanosecond", "ns"), 1e-9),
}
"""Seconds in a unit of time, by its names in the CF conventions and in NumPy."""
SAMPLES = (
    "a Zarr array of samples x channels, or of a group of them: zarr.create_array(path, data=samples) writes one of "
    "an array in memory"
)
"""What may be at the path of recordings."""


@dataclass(frozen=True)
class Times:
    """Times of the samples of a recording.

    Parameters
    ----------
    array : array of shape (T,)
        Numbers, or datetimes, which are read as integers. Absent chunks of a Zarr array are errors if it is one of
        :func:`~bigsmic.store.sources.zarr_arrays.insisting`.
    """

    array: Any

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        """Times of samples ``lo:hi``, as integers if they are stored as integers or datetimes, without a scale.

        Raises
        ------
        StorageError
            A chunk of them is absent, and would read as times that stand still.
        """
        try:
            with refusing_absent_chunks():
                if self._shards is not None:
                    self._shards.refuse_holes(lo, hi)
                found = np.asarray(self.array[lo:hi])
        except AbsentChunkError as error:
            raise StorageError(
                f"times: chunk {error.args[0]} of times {lo}:{hi} is missing, and would read as fill values; restore "
                "it, wait until it is written, or pass missing_chunks='fill'"
            ) from None
        if self._decoding is not None:
            return self._decoding(found)
        return found.view(np.int64) if found.dtype.kind in "mM" else found

    @cached_property
    def _shards(self) -> Shards | None:
        """Of a sharded array of :func:`~bigsmic.store.sources.zarr_arrays.insisting`."""
        place = getattr(self.array, "store_path", None)
        if place is None or not isinstance(place.store, WholeStore) or not is_sharded(self.array):
            return None
        return Shards(self.array, shown(place), "times")

    @cached_property
    def _decoding(self) -> Decoding | None:
        """Scale and offset of packed times; None for others, of which a mark for a missing time is no period later."""
        stored = dict(getattr(self.array, "attrs", {}))
        packing = {name: stored[name] for name in ("scale_factor", "add_offset") if name in stored}
        return Decoding.of(packing, np.dtype(self.array.dtype)) if packing else None

    @property
    def decoded(self) -> str:
        """How stored numbers are decoded, in words; empty if they are times as they are."""
        return str(self._decoding or "")

    @property
    def travels(self) -> bool:
        """Whether they are small when pickled, and can be read in another process."""
        return is_zarr(self.array) and is_stored(self.array)

    @property
    def unit(self) -> str:
        """Name of the unit as stored: the first word of ``units``, such as ``seconds since 2026-01-01``."""
        if self.array.dtype.kind in "mM":
            return np.datetime_data(self.array.dtype)[0]
        return str(dict(getattr(self.array, "attrs", {})).get("units", "")).partition(" ")[0]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes that a reader needs to decode them: ``units`` and ``calendar``."""
        stored = dict(getattr(self.array, "attrs", {}))
        found = {name: stored[name] for name in ("units", "calendar") if name in stored}
        if self.array.dtype.kind == "M":
            if self.unit not in _CF_NAMES:
                raise InputError(f"times: got datetimes in units of {self.unit!r}; use one of {', '.join(_CF_NAMES)}")
            return {"units": f"{_CF_NAMES[self.unit]} since 1970-01-01"}
        return found

    @property
    def seconds(self) -> float:
        """Seconds in one unit of the times.

        Raises
        ------
        InputError
            The unit is unknown.
        """
        if self.unit not in SECONDS:
            raise InputError(f"times: got the unit {self.unit!r}; use one of {', '.join(filter(None, SECONDS))}")
        return SECONDS[self.unit]


_CF_NAMES = {"D": "days", "h": "hours", "m": "minutes", "s": "seconds"} | {
    "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """Samples of one session, as they are at opening.

    Parameters
    ----------
    name : str
        Name within the archive; empty for an archive that is one array.
    samples : Source
        Of shape (T, channels).
    times : Times, optional
    """

    name: str
    samples: Source
    times: Times | None = None

    def __len__(self) -> int:
        return int(self.samples.shape[0])

    @property
    def travels(self) -> bool:
        """Whether samples and times can be read by another process."""
        return bool(self.samples.travels) and (self.times is None or self.times.travels)


def open_recordings(
    data: Any, component: str | None = None, times: Any | None = None, **reading: Any
) -> list[Recording]:
    """Open an archive as recordings.

    Parameters
    ----------
    data : str, Path, Zarr array or group, or array_like of shape (T, channels)
        An array is one session. A group is one session if it has `component`, or a session for each of its
        two-dimensional arrays, or for each group in it that has `component`.
    component : str, optional
        Array of the samples within a group.
    times : str or array_like of shape (T,), optional
        Times of the samples: the name of an array beside them, or an array.
    **reading
        `storage_options` and `missing_chunks`; see :func:`bigsmic.store.open_source`.

    Returns
    -------
    recordings : list of Recording
        In the order of their names.

    Raises
    ------
    InputError
        There are none, they differ in channels or dtype, or times do not fit.
    """
    options = reading.get("storage_options")
    node = _node(data, options)
    if not admission.is_group(node):
        named = _beside(node, times) if isinstance(times, str) else times
        found = [_recording("", node, named, component, reading)]
    elif component is not None and component in node:
        named = _member(node, times) if isinstance(times, str) else times
        found = [_recording("", node[component], named, None, reading)]
    else:
        found = _sessions(node, component, times, reading)
    _refuse_unlike(found)
    return found


def _node(data: Any, options: Any) -> Any:
    """The group or array at a path; anything else unchanged."""
    if not isinstance(data, str | os.PathLike):
        return data
    import zarr

    location = absolute(data)
    try:
        with releasing_errors():
            return _as_it_is(zarr.open(store_of(location, options, read_only=True), mode="r"))
    except Exception:
        return open_array(location, None, options, SAMPLES)  # raises the error with a remedy


def _as_it_is(node: Any) -> Any:
    """A group by the metadata of its members: consolidated ones do not follow recordings that go on, and new ones.

    They are used where members cannot be listed, as on some servers.
    """
    import zarr

    if getattr(node.metadata, "consolidated_metadata", None) is None:
        return node
    place, its_format = node.store_path, node.metadata.zarr_format
    found = zarr.open_group(place.store, path=place.path, mode="r", zarr_format=its_format, use_consolidated=False)
    return found if next(iter(found.keys()), None) is not None else node


def _sessions(group: Any, component: str | None, times: Any, reading: Mapping[str, Any]) -> list[Recording]:
    """A recording for every array of a group, or for every group in it that has a component."""
    if times is not None and not isinstance(times, str):
        raise InputError(
            "times: got an array for a group of sessions; give the name of the array beside the samples of each session"
        )
    if component is None:
        arrays = sorted((name, member) for name, member in group.arrays() if member.ndim == 2)
        if times is not None and arrays:
            raise InputError(
                f"times: got {times!r} for a group of arrays, which cannot hold the times of each; store every "
                "session as a group, and name its samples by component="
            )
        found = [_recording(name, member, None, None, reading) for name, member in arrays]
    else:
        members = sorted((name, member) for name, member in group.groups() if component in member)
        found = [
            _recording(name, member[component], _member(member, times) if times else None, None, reading)
            for name, member in members
        ]
    if not found:
        what = "two-dimensional arrays" if component is None else f"groups with an array {component!r}"
        raise InputError(
            f"windows: {shown(group.store_path)} is a group without {what}; name the samples by component="
        )
    return found


def _member(group: Any, name: str) -> Any:
    if name not in group:
        raise InputError(f"times: {shown(group.store_path)} has no array {name!r}; name the one with the times")
    return group[name]


def _beside(array: Any, name: str) -> Any:
    """The array of this name in the group of another array."""
    import zarr

    if not is_zarr(array) or not array.path:
        raise InputError(f"times: got the name {name!r} for an array that is in no group; give the times as an array")
    folder = array.path.rpartition("/")[0]
    group = zarr.open_group(array.store_path.store, path=folder, mode="r", use_consolidated=False)
    return _member(group, name)


def _recording(name: str, samples: Any, times: Any, component: str | None, reading: Mapping[str, Any]) -> Recording:
    source = open_source(samples, component, **reading)
    if times is None:
        return Recording(name, source)
    times = times if hasattr(times, "dtype") else np.asarray(times)
    if is_zarr(times) and times.ndim == 1 and min(times.shape[0], times.chunks[0]) > 1:
        times = insisting(times, reading.get("missing_chunks", "error"))  # a chunk of one time may be the fill value
    if times.ndim != 1 or times.dtype.kind not in "iufM":
        raise InputError(f"times: got shape {times.shape} of {times.dtype}; give one number or datetime per sample")
    if times.shape[0] < source.shape[0]:
        raise InputError(
            f"times: got {times.shape[0]} for {source.shape[0]} samples of {source.name}; give one per sample"
        )
    return Recording(name, source, Times(times))


def _kind_of(times: Times | None) -> tuple[np.dtype[Any], dict[str, Any], str] | None:
    """Dtype and attributes of times, which sessions must share; None if there are no times."""
    return None if times is None else (times.array.dtype, times.attributes, times.decoded)


def _refuse_unlike(recordings: list[Recording]) -> None:
    """Raise InputError unless all sessions have the channels, dtype and kind of times of the first one."""
    first = recordings[0].samples
    for recording in recordings[1:]:
        if _kind_of(recording.times) != _kind_of(recordings[0].times):
            raise InputError(
                f"times: those of session {recording.name!r} have another dtype or other units than those of "
                f"{recordings[0].name!r}; store them in the same dtype and units"
            )
        other = recording.samples
        if (other.shape[1], other.dtype) != (first.shape[1], first.dtype):
            raise InputError(
                f"windows: session {recording.name!r} has {other.shape[1]} channels of {other.dtype}, "
                f"{recordings[0].name!r} has {first.shape[1]} of {first.dtype}; give sessions of the same channels "
                "and dtype"
            )
