"""Rows of Zarr archives; opening and creating Zarr arrays."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bigsmic.errors import InputError, StorageError
from bigsmic.store import admission
from bigsmic.store.decoding import Decoding
from bigsmic.store.destinations import canonical_location
from bigsmic.store.objects import absolute, is_local, releasing_errors, remedy_of, storage_errors, store_of
from bigsmic.store.redaction import scrubbed, shown
from bigsmic.store.reopenable import Shared
from bigsmic.store.shards import Shards, is_sharded
from bigsmic.store.sources.base import BandedSource
from bigsmic.store.sources.column_names import names_beside
from bigsmic.types import StorageOptions, StrPath

ROWS = "a Zarr array, of a group with component=, or of a .npy, .csv, .tsv or .parquet file"
"""What may be at the path of rows."""


class ZarrSource(Shared, BandedSource):
    """Rows of a Zarr array, decoded by its attributes; absent and torn chunks are errors."""

    _is_seen = True

    def __init__(self, array: Any, missing_chunks: str) -> None:
        _refuse_pickles(array)
        array = insisting(array, missing_chunks)
        name = shown(array.store_path)
        self._chunk_shape = tuple(getattr(array, "shards", None) or array.chunks)
        super().__init__(array, name, self._chunk_shape[0] if self._chunk_shape else 1)
        self._missing = missing_chunks
        self._decoding = Decoding.of(dict(array.attrs), np.dtype(array.dtype), _mask_of(array))
        looked_into = missing_chunks == "error" and array.ndim == 2 and is_sharded(array)
        self._shards = Shards(array, name) if looked_into else None
        if self._decoding is not None:
            self.name = f"{name} ({self._decoding})"

    @property
    def travels(self) -> bool:
        """Whether the store is outside the memory of this process."""
        return is_stored(self.array)

    def recipe(self) -> Any:
        """Return how a task in another process opens the same archive, and keeps its decoded bands."""
        return reopened, (ZarrSource, self.array, self._missing)

    def drop_decoded(self) -> None:
        """Drop decoded chunks."""
        BandedSource.drop_decoded(self)

    def refuse_unseen(self) -> None:
        """Raise StorageError if a process that received the pickled source cannot see the array.

        The pickle has the metadata but not the chunks, which would all be absent there, and read as fill values.
        """
        if not self._is_seen and not _is_there(self.array):
            raise StorageError(
                f"input: a worker on {platform.node()} cannot find {self.name}; give an archive on storage that all "
                "workers share, such as a shared file system or s3://"
            )
        self._is_seen = True

    @property
    def column_names(self) -> list[str]:
        """Names stored beside the array in its group."""
        return names_beside(self.array)

    @property
    def decoded(self) -> str:
        """Description of how stored numbers are decoded."""
        return str(self._decoding or "")

    @property
    def places(self) -> list[str]:
        """Path or URL of the array."""
        return places_of(self.array)

    def origin(self) -> Any:
        """Return the location of the array, without secrets."""
        return ", ".join(map(canonical_location, self.places)) or self.name

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the decoded rows."""
        return self._decoding.dtype if self._decoding else super().dtype

    def describe(self) -> dict[str, int | str]:
        """Return what identifies the input besides its content."""
        return super().describe() | ({"decoded": self._decoding.describe()} if self._decoding else {})

    def _decode(self, lo: int, hi: int) -> Any:
        from bigsmic.store.retrying import AbsentChunkError, refusing_absent_chunks, settle

        try:
            self.refuse_unseen()
            with releasing_errors(), refusing_absent_chunks():
                if self._shards is not None:
                    self._shards.refuse_holes(lo, hi)
                rows = np.ascontiguousarray(self.array[lo:hi])
            return self._decoding(rows) if self._decoding else rows
        except AbsentChunkError as error:
            raise self._absent(error.args, lo, hi) from None
        except StorageError as error:
            if str(error).startswith("input: "):
                raise
            raise StorageError(f"input: rows {lo}:{hi} could not be read; {error}") from None
        except Exception as error:
            settle()
            raise StorageError(
                f"input: rows {lo}:{hi} of {self.name} could not be read ({type(error).__name__}: {error}); "
                + mend_of(error, "the archive")
            ) from error

    def _absent(self, paths: tuple[str, ...], lo: int, hi: int) -> StorageError:
        """The error for the first of the absent chunks of rows ``lo:hi``, which are stored at `paths`."""
        key, rows = next(self._chunks(paths, lo, hi), (paths[0], ""))
        place = f"{self.places[0]}/{key}" if self.places else ""
        if os.path.isdir(place):
            return StorageError(
                f"input: chunk {key}{rows} of {self.name} is a directory in the place of a file; delete {place}, and "
                "restore the chunk"
            )
        return StorageError(
            f"input: chunk {key}{rows} of {self.name} is missing, and would read as fill values; restore it, or, if "
            "the writer leaves out chunks that hold only the fill value, pass missing_chunks='fill'"
        )

    def _chunks(self, paths: tuple[str, ...], lo: int, hi: int) -> Iterator[tuple[str, str]]:
        """Keys, and row ranges, of those chunks of rows ``lo:hi`` that are stored at `paths`, in order."""
        height, width = self._chunk_shape
        for i in range(lo // height, (hi - 1) // height + 1):
            for j in range(-(-self.shape[1] // width)):
                key = self.array.metadata.encode_chunk_key((i, j))
                if any(path == key or path.endswith(f"/{key}") for path in paths):
                    yield key, f" (rows {i * height}:{min((i + 1) * height, self.shape[0])})"


def mend_of(error: Exception, what: str) -> str:
    """What an error at reading chunks is taken for, and the remedy."""
    if isinstance(error, MemoryError):  # of a torn chunk, too, if its header asks for a huge one
        return (
            f"memory ran out, as chunks of {what} are decoded whole: allow this process more, or write smaller chunks; "
            "if there is enough, a chunk is torn: restore it"
        )
    return f"a chunk of {what} is torn or unreadable: restore it"


def reopened(kind: type[ZarrSource], *arguments: Any) -> ZarrSource:
    """Open the source of another process again; whether this process sees the array is checked when it is read."""
    found = kind(*arguments)
    found._is_seen = False
    return found


def _is_there(array: Any) -> bool:
    """Whether this process sees the metadata of an array that another process opened."""
    from zarr.core.sync import sync

    name = "zarr.json" if array.metadata.zarr_format == 3 else ".zarray"
    return bool(sync((array.store_path / name).exists()))


def _mask_of(array: Any) -> float | None:
    """Fill value that marks missing entries, as xarray writes it in Zarr v2; None for other arrays."""
    if array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in array.attrs:
        return array.metadata.fill_value
    return None


def _refuse_pickles(array: Any) -> None:
    """Raise InputError if reading would unpickle chunks, as that can run any code."""
    codecs = (*(getattr(array.metadata, "filters", None) or ()), getattr(array.metadata, "compressor", None))
    if any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs):
        raise InputError(
            "input: the chunks of the archive are pickles, which are not read; write the archive without that codec"
        )


def is_zarr(data: Any) -> bool:
    """Whether something is a Zarr array."""
    return hasattr(type(data), "nchunks_initialized")  # of an array, it would list every chunk


def is_stored(array: Any) -> bool:
    """Whether a Zarr array is outside the memory of this process."""
    import zarr

    return not isinstance(_innermost(array.store_path.store), zarr.storage.MemoryStore)


def insisting(array: Any, missing_chunks: str) -> Any:
    """Return the array on a store that retries and has an absolute address, for other processes."""
    import zarr

    from bigsmic.store.retrying import PatientStore, WholeStore

    store: Any = array.store_path.store
    if isinstance(store, WholeStore):  # this function has wrapped it already
        store = store._store
    if isinstance(store, zarr.storage.LocalStore):
        store = zarr.storage.LocalStore(store.root.absolute(), read_only=True)
    elif isinstance(store, zarr.storage.FsspecStore):
        store = PatientStore(store, store.fs.unstrip_protocol(store.path), store.fs.storage_options)
    if missing_chunks == "error":
        store = WholeStore(store)
    place = zarr.storage.StorePath(store, array.path)
    return zarr.Array(zarr.AsyncArray(metadata=array.metadata, store_path=place))


def _innermost(store: Any) -> Any:
    while hasattr(store, "_store"):
        store = store._store
    return store


def places_of(array: Any) -> list[str]:
    """Path or URL of a Zarr array, as a list; empty if it is in memory."""
    import zarr

    store = _innermost(array.store_path.store)
    if isinstance(store, zarr.storage.LocalStore):
        return [str(store.root / array.path)]
    if isinstance(store, zarr.storage.FsspecStore):
        return [f"{store.fs.unstrip_protocol(store.path)}/{array.path}"]
    return [str(store.path)] if isinstance(store, zarr.storage.ZipStore) else []


def open_array(
    location: StrPath, component: str | None = None, storage_options: StorageOptions = None, wanted: str = ROWS
) -> Any:
    """Open a Zarr array for reading: the one at `location`, or `component` of the group there.

    `wanted` is what may be at the location, for messages.
    """
    name = shown(location)
    with _input_errors(location, storage_options, wanted):
        node: Any = _open_node(location, storage_options)
        if admission.is_group(node):
            node = _own(admission.choose_member(node, component, repr(name)))
        elif component is not None:
            raise InputError(f"input: {name!r} is an array, which has no component={component!r}; leave it out")
    _refuse_pickles(node)
    return node


def _own(member: Any) -> Any:
    """An array of a group by its own metadata: consolidated ones of the group do not follow an array that has grown."""
    import zarr

    place = member.store_path
    return zarr.open_array(place.store, path=place.path, mode="r", zarr_format=member.metadata.zarr_format)


def open_group(location: StrPath, storage_options: StorageOptions = None) -> Any:
    """Open a group of Zarr arrays for reading.

    Parameters
    ----------
    location : str
        Path or URL.
    storage_options : dict, optional

    Returns
    -------
    group : zarr.Group

    Raises
    ------
    InputError
        The group does not exist.
    StorageError
    """
    location = absolute(location)
    with _input_errors(location, storage_options, "a group of Zarr arrays"):
        node = _open_node(location, storage_options)
        if not admission.is_group(node):
            raise InputError(f"input: {shown(location)!r} is an array; give the path or URL of a group of them")
    return node


def _open_node(location: StrPath, storage_options: StorageOptions) -> Any:
    import zarr

    return zarr.open(store_of(location, storage_options, read_only=True), mode="r")


@contextmanager
def _input_errors(location: StrPath, storage_options: StorageOptions, wanted: str) -> Iterator[None]:
    """Turn Zarr's errors at opening a location into an InputError with a remedy."""
    name = shown(location)
    try:
        with releasing_errors():
            yield
    except StorageError as error:
        raise StorageError(f"input: {name!r} could not be opened; {error}") from None
    except InputError:
        raise
    except Exception as error:
        if is_local(location) and not os.path.lexists(absolute(location)):
            raise InputError(f"input: {name!r} does not exist; give the path or URL of {wanted}") from None
        text = scrubbed(f"{type(error).__name__}: {error}", location, storage_options)
        remedy = admission.remedy_for(name) or f"give the path or URL of {wanted}"
        remedy = remedy_of(error, name, remedy)
        raise InputError(f"input: {name!r} could not be opened as Zarr ({text}); {remedy}") from (
            error if is_local(location) else None
        )


UNWRITTEN = {"f": np.nan, "i": -1}
"""By kind of dtype, the value of what is not written."""


def create_arrays(
    location: StrPath, arrays: dict[str, Any], chunk_rows: int, storage_options: StorageOptions = None
) -> Any:
    """Create arrays in a Zarr group, to be written by ranges of rows. The caller checks that this is allowed.

    Numbers that are not written are read as NaN or -1, so that the rest of an interrupted call is not taken for values.

    Parameters
    ----------
    location : str or Path
        Path or URL. The group is created if it does not exist; arrays of the same names are overwritten.
    arrays : dict of str to (shape, dtype)
    chunk_rows : int
    storage_options : dict, optional

    Returns
    -------
    arrays : dict of str to zarr.Array
    """
    import zarr

    with storage_errors(f"writing to {shown(location)}"):
        group = zarr.open_group(store_of(absolute(location), storage_options), mode="a", zarr_format=3)
        return {
            name: group.create_array(
                name,
                shape=shape,
                chunks=(max(1, min(chunk_rows, shape[0])), *shape[1:]),
                dtype=dtype,
                fill_value=UNWRITTEN.get(np.dtype(dtype).kind),
                overwrite=True,
                config={"write_empty_chunks": True},
            )
            for name, (shape, dtype) in arrays.items()
        }
