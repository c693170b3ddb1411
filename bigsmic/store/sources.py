"""Archives, dask arrays and arrays in memory as rows that are read in blocks."""

import itertools
import os
import threading
import zlib
from collections import OrderedDict
from typing import Any

import numpy as np

from bigsmic.errors import InputError, NonFiniteError, StorageError
from bigsmic.store import admission
from bigsmic.store.decoding import Decoding
from bigsmic.store.destinations import canonical
from bigsmic.store.objects import absolute, checksum, is_local, storage_errors, store_of
from bigsmic.store.redaction import scrubbed, shown
from bigsmic.store.reopenable import Shared
from bigsmic.store.shards import Shards, is_sharded

_ORIGIN_BYTES = 16 << 20  # read at once for a checksum


def open_source(data, component=None, storage_options=None, missing_chunks="error") -> "Source":
    """Open rows for reading in blocks.

    Parameters
    ----------
    data : str, Path, zarr.Array, dask array, ndarray, memmap, or array_like, shape (n, d)
        A path or URL names a Zarr v2 or v3 array, or a group together with `component`. Of an array that is sliced,
        such as an h5py dataset or an xarray variable, no more than a block is held.
    component : str, optional
        Path of the array within the group, of Zarr or HDF5.
    storage_options : dict, optional
        For the file system behind a URL; never written anywhere.
    missing_chunks : {"error", "fill"}
        An absent chunk is an error, or stands for the array's fill value.

    Returns
    -------
    source : Source

    Raises
    ------
    InputError
        Nothing readable there, not two-dimensional, or not of a real dtype.

    Notes
    -----
    Attributes of the CF conventions, which xarray writes, are acted upon; see :mod:`bigsmic.store.decoding`.
    """
    if missing_chunks not in ("error", "fill"):
        raise InputError(f"missing_chunks: got {missing_chunks!r}; use 'error' or 'fill'")
    if isinstance(data, str | os.PathLike):
        data, component = open_array(absolute(data), component, storage_options), None
    source = _source_of(_member(data, component), missing_chunks)
    _check_rows(source)
    return source


def _member(data, component):
    """The array that was handed in, or a component of the group that was."""
    if admission.is_group(data):
        return admission.choose_member(data, component, shown(getattr(data, "store_path", _kind(data))))
    if component is not None:
        raise InputError(f"input: got component={component!r} for an array, which has none; leave it out")
    return data


def _kind(data):
    """Name of a type of another library, such as ``h5py Dataset``."""
    return f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"


def _source_of(data, missing_chunks) -> "Source":
    admission.refuse_unreadable(data)
    if _is_zarr(data):
        return ZarrSource(data, missing_chunks)
    if hasattr(data, "dask") and hasattr(data, "compute"):
        return DaskSource(data)
    if admission.reads_ranges(data):
        return DaskSource(data.data) if admission.is_lazy_dask(data) else SlicedSource(data)
    return Source(np.asanyarray(data), "array")


class Source:
    """Rows of a two-dimensional array, read as half-open ranges; by itself, of one in memory.

    Parameters
    ----------
    array : array_like, shape (n, d)
    name : str
        What messages call it.
    """

    def __init__(self, array, name):
        self.array, self.name = array, name

    @property
    def shape(self):
        """(n, d)."""
        return tuple(self.array.shape)

    @property
    def dtype(self):
        """Dtype of the rows as stored."""
        return np.dtype(self.array.dtype)

    @property
    def band_bytes(self):
        """Bytes that one read brings to memory beyond the rows asked for."""
        return 0

    @property
    def travels(self):
        """Whether it is small when pickled, and can be read where it arrives; see :func:`stage_input` if not."""
        return False

    @property
    def decoded(self):
        """What is made of the stored numbers, in words; empty where they are taken as they are."""
        return ""

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r}, {self.shape})"

    def read(self, lo, hi):
        """Return rows ``lo:hi`` as a C-ordered ndarray of the stored dtype."""
        return np.ascontiguousarray(self.array[lo:hi])

    def describe(self) -> dict[str, Any]:
        """Return what identifies the input besides its content; free of secrets and of memory addresses."""
        n, d = self.shape
        return {"rows": n, "columns": d, "dtype": self.dtype.str}

    @property
    def places(self):
        """Paths and URLs that are read; none of what is in memory."""
        return []

    def origin(self):
        """Return a text that tells the rows from others: where they are, or a checksum of those in memory."""
        crc, step = 0, max(1, _ORIGIN_BYTES // max(1, self.shape[1] * self.dtype.itemsize))
        for lo in range(0, self.shape[0], step):
            crc = zlib.crc32(self.read(lo, min(lo + step, self.shape[0])).data, crc)
        return f"crc32 {crc}"


class SparseRows(Source):
    """Rows of a sparse matrix in memory.

    Parameters
    ----------
    matrix : csr_array, shape (m, n)
    name : str
    """

    def __init__(self, matrix, name="sparse matrix"):
        super().__init__(matrix, name)

    def origin(self):
        """Return a checksum of the entries."""
        parts = (self.array.indptr, self.array.indices, self.array.data)
        return f"crc32 {[checksum(part) for part in parts]}"

    def read(self, lo, hi):
        """Return rows ``lo:hi``, sparse."""
        return self.array[lo:hi]


class SparseSource(SparseRows):
    """A square sparse matrix of affinities, or of distances, between n rows.

    Parameters
    ----------
    matrix : sparse matrix or array, shape (n, n)
    what : {"affinity", "distance"}
        An affinity must be symmetric.

    Raises
    ------
    InputError, NonFiniteError
    """

    def __init__(self, matrix, what):
        from scipy.sparse import csr_array, issparse

        if not issparse(matrix) or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            shape = getattr(matrix, "shape", None)
            raise InputError(
                f"input: a precomputed {what} must be a sparse square matrix, got {type(matrix)} of {shape}"
            )
        rows = csr_array(matrix)
        rows.sum_duplicates()
        super().__init__(rows, f"sparse {what}")
        if not np.isfinite(rows.data).all():
            raise NonFiniteError(f"input: the sparse {what} contains NaN or infinity; drop those entries")
        if rows.nnz == 0 or rows.data.min() < 0:
            raise InputError(f"input: entries of a precomputed {what} must be at least 0, and some must be there")
        if what == "affinity" and abs(rows - rows.T).max() > 1e-6 * rows.data.max():
            raise InputError("input: the precomputed affinity is not symmetric; pass (A + A.T) / 2")

    @property
    def largest(self):
        """Largest entry."""
        return float(self.array.data.max())


class DaskSource(Source):
    """Rows of a dask array, computed range by range on the calling thread, or on the cluster that holds them."""

    _SMALL = 1 << 20  # bytes within a graph that may travel

    def __init__(self, array):
        super().__init__(array, "dask array")
        if any(np.isnan(array.shape)):
            raise InputError("input: the dask array has unknown chunk sizes; call .compute_chunk_sizes() on it first")
        self._scheduler = next((value.client for value in self._held if _is_future(value)), "synchronous")

    @property
    def _held(self):
        """What the graph holds: arrays, futures, and calls of functions."""
        return (getattr(value, "value", value) for value in dict(self.array.dask).values())

    @property
    def band_bytes(self):
        """Bytes of the largest chunk of rows."""
        return int(max(self.array.chunks[0], default=0)) * self.shape[1] * self.dtype.itemsize

    @property
    def travels(self):
        """Whether the graph reads its rows elsewhere, and does not hold them."""
        if self._scheduler != "synchronous":
            return False
        return sum(value.nbytes for value in self._held if isinstance(value, np.ndarray)) <= self._SMALL

    @property
    def places(self):
        """Paths and URLs of the Zarr arrays in the graph."""
        return [place for value in self._held if _is_zarr(value) for place in _places(value)]

    def origin(self):
        """Return the name that Dask gave the array, of what it is made of."""
        return self.array.name

    def read(self, lo, hi):
        """Return rows ``lo:hi``."""
        return _plain(self.array[lo:hi].compute(scheduler=self._scheduler), lo)


def _is_future(value):
    """Whether a graph holds its result on a cluster, as that of a persisted array does."""
    return hasattr(value, "client") and hasattr(value, "key") and hasattr(value, "result")


def _plain(rows, lo):
    """Rows as a C-ordered ndarray; InputError for masked ones."""
    if np.ma.is_masked(rows):
        row, column = np.argwhere(np.ma.getmaskarray(rows))[0]
        raise InputError(
            f"input: the array has masked entries, first at row {lo + row}, column {column}; drop or impute these rows"
        )
    return np.ascontiguousarray(rows)


class BandedSource(Source):
    """Rows of an array whose chunks may be taller than the ranges asked for.

    The last decoded bands of chunks are kept then, so that a chunk is decoded once and not once a range.
    """

    _KEPT_BANDS = 2

    def __init__(self, array, name, height):
        super().__init__(array, name)
        self._height = height
        self._bands: OrderedDict = OrderedDict()
        self._lock = threading.Lock()

    @property
    def band_bytes(self):
        """Bytes of the kept bands of chunks."""
        return self._KEPT_BANDS * self._height * self.shape[1] * self.dtype.itemsize

    def read(self, lo, hi):
        """Return rows ``lo:hi``."""
        height = self._height
        if height <= hi - lo:
            return self._decode(lo, hi)
        bands = [self._band(b) for b in range(lo // height, (hi - 1) // height + 1)]
        start = (lo // height) * height
        parts = [band[max(lo - start - i * height, 0) : hi - start - i * height] for i, band in enumerate(bands)]
        return np.ascontiguousarray(np.concatenate(parts))

    def _band(self, b):
        with self._lock:
            if b not in self._bands:
                self._bands[b] = self._decode(b * self._height, min((b + 1) * self._height, self.shape[0]))
                while len(self._bands) > self._KEPT_BANDS:
                    self._bands.popitem(last=False)
            self._bands.move_to_end(b)
            return self._bands[b]

    def _decode(self, lo, hi):
        """Read rows ``lo:hi`` from where they are stored."""
        raise NotImplementedError


class SlicedSource(BandedSource):
    """Rows of an array of another library, such as h5py or xarray: sliced, one slice at a time.

    Parameters
    ----------
    array : array_like, shape (n, d)
        Of a NumPy dtype; read by ``array[lo:hi]``.
    """

    def __init__(self, array):
        super().__init__(array, _kind(array), 1)
        self._reading = threading.Lock()
        self._decoding = None
        if admission.is_file_array(array):
            self._decoding = Decoding.of(dict(array.attrs), np.dtype(array.dtype))
        if len(self.shape) == 2:
            self._height = min(admission.chunk_rows(array), max(1, self.shape[0]))

    @property
    def decoded(self):
        """What is made of the stored numbers, in words."""
        return str(self._decoding or "")

    @property
    def dtype(self):
        """Dtype of the rows."""
        return self._decoding.dtype if self._decoding else super().dtype

    def describe(self):
        """Return what identifies the input besides its content."""
        return super().describe() | ({"decoded": self._decoding.describe()} if self._decoding else {})

    def _decode(self, lo, hi):
        try:
            with self._reading:  # not every library is safe among threads
                rows = np.asanyarray(self.array[lo:hi])
        except Exception as error:
            raise StorageError(
                f"input: rows {lo}:{hi} of {self.name} could not be read ({type(error).__name__}: {error}); "
                "see to the file behind it"
            ) from error
        return self._decoding(_plain(rows, lo)) if self._decoding else _plain(rows, lo)


class ZarrSource(Shared, BandedSource):
    """Rows of a Zarr array, decoded as its attributes say; absent and torn chunks are errors."""

    def __init__(self, array, missing_chunks):
        _refuse_pickles(array)
        array = _insisting(array, missing_chunks)
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
    def travels(self):
        """Whether the store is not the memory of this process."""
        import zarr

        return not isinstance(_innermost(self.array.store_path.store), zarr.storage.MemoryStore)

    def recipe(self):
        """Return how a task on another process opens the same archive, and keeps its decoded bands."""
        return ZarrSource, (self.array, self._missing)

    @property
    def decoded(self):
        """What is made of the stored numbers, in words."""
        return str(self._decoding or "")

    @property
    def places(self):
        """Path or URL of the array."""
        return _places(self.array)

    def origin(self):
        """Return where the array is, without secrets."""
        return ", ".join(map(canonical, self.places)) or self.name

    @property
    def dtype(self):
        """Dtype of the rows, decoded."""
        return self._decoding.dtype if self._decoding else super().dtype

    def describe(self):
        """Return what identifies the input besides its content."""
        return super().describe() | ({"decoded": self._decoding.describe()} if self._decoding else {})

    def _decode(self, lo, hi):
        from bigsmic.store.retrying import AbsentChunkError

        try:
            if self._shards is not None:
                self._shards.refuse_holes(lo, hi)
            rows = np.ascontiguousarray(self.array[lo:hi])
            return self._decoding(rows) if self._decoding else rows
        except AbsentChunkError as error:
            raise StorageError(
                f"input: chunk {self._chunk(str(error), lo, hi)} of {self.name} is missing, and would read as fill "
                "values; restore it, or, if the writer leaves out chunks that hold only the fill value, pass "
                "missing_chunks='fill'"
            ) from None
        except StorageError as error:
            if str(error).startswith("input: "):
                raise
            raise StorageError(f"input: rows {lo}:{hi} could not be read; {error}") from None
        except Exception as error:
            raise StorageError(
                f"input: rows {lo}:{hi} of {self.name} could not be read ({type(error).__name__}: {error}); "
                "a chunk of the archive is torn or unreadable: restore it"
            ) from error

    def _chunk(self, path, lo, hi):
        """Key and rows of the chunk of rows ``lo:hi`` that is stored at `path`."""
        height, width = self._chunk_shape
        for i in range(lo // height, (hi - 1) // height + 1):
            for j in range(-(-self.shape[1] // width)):
                key = self.array.metadata.encode_chunk_key((i, j))
                if path == key or path.endswith(f"/{key}"):
                    return f"{key} (rows {i * height}:{min((i + 1) * height, self.shape[0])})"
        return path


def _mask_of(array):
    """Fill value that stands for missing entries: xarray has it so in Zarr v2, and marks its arrays with dimensions."""
    if array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in array.attrs:
        return array.metadata.fill_value
    return None


def _refuse_pickles(array):
    """Raise InputError if reading would unpickle chunks: that runs whatever their writer wished."""
    codecs = (*(getattr(array.metadata, "filters", None) or ()), getattr(array.metadata, "compressor", None))
    if any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs):
        raise InputError(
            "input: the chunks of the archive are pickles, which are not read; write it without that codec"
        )


def _is_zarr(data):
    return hasattr(type(data), "nchunks_initialized")  # of the type: of an array, it would list every chunk


def _insisting(array, missing_chunks):
    """Return the array on a store that insists, and that another process finds from its own working directory."""
    import zarr

    from bigsmic.store.retrying import PatientStore, WholeStore

    store: Any = array.store_path.store
    if isinstance(store, WholeStore):  # it has been here before
        store = store._store
    if isinstance(store, zarr.storage.LocalStore):
        store = zarr.storage.LocalStore(store.root.absolute(), read_only=True)
    elif isinstance(store, zarr.storage.FsspecStore):
        store = PatientStore(store, store.fs.unstrip_protocol(store.path), store.fs.storage_options)
    if missing_chunks == "error":
        store = WholeStore(store)
    place = zarr.storage.StorePath(store, array.path)
    return zarr.Array(zarr.AsyncArray(metadata=array.metadata, store_path=place))


def _innermost(store):
    while hasattr(store, "_store"):
        store = store._store
    return store


def _places(array):
    """Path or URL of a Zarr array, where it is not in memory."""
    import zarr

    store = _innermost(array.store_path.store)
    if isinstance(store, zarr.storage.LocalStore):
        return [str(store.root / array.path)]
    if isinstance(store, zarr.storage.FsspecStore):
        return [f"{store.fs.unstrip_protocol(store.path)}/{array.path}"]
    return [str(store.path)] if isinstance(store, zarr.storage.ZipStore) else []


class StagedSource(Source):
    """Rows that were copied into a run, for tasks on other processes; see :func:`stage_input`.

    Parameters
    ----------
    run : Run
    bounds : array_like of int, shape (blocks + 1,)
    facts : dict
        ``shape``, ``dtype``, ``name`` and, of a sparse matrix, ``largest``.
    """

    STAGE = "input"
    travels = True

    def __init__(self, run, bounds, facts):
        self._run, self._bounds, self._facts = run, np.asarray(bounds, np.int64), facts
        self.name, self.largest = facts["name"], facts.get("largest")

    @property
    def shape(self):
        """(n, d)."""
        return tuple(self._facts["shape"])

    @property
    def dtype(self):
        """Dtype of the rows."""
        return np.dtype(self._facts["dtype"])

    def read(self, lo, hi):
        """Return rows ``lo:hi``; cheapest where they are a block of `bounds`."""
        first = int(np.searchsorted(self._bounds, lo, side="right")) - 1
        last = int(np.searchsorted(self._bounds, hi, side="left"))
        pieces = []
        for block in range(first, last):
            start = self._bounds[block]
            pieces.append(self._block(block)[max(lo - start, 0) : hi - start])
        return pieces[0] if len(pieces) == 1 else _joined(pieces)

    def _block(self, block):
        read = self._run.reader(self.STAGE, block)
        if self.largest is None:
            return read("X")
        from scipy.sparse import csr_array

        indptr = read("indptr")
        shape = (len(indptr) - 1, self.shape[1])
        return csr_array((read("data"), read("indices"), indptr), shape=shape)

    def drop(self):
        """Delete the copy."""
        self._run.drop(self.STAGE, range(len(self._bounds) - 1))


def stage_input(source, run, bounds):
    """Copy rows that only this process can read into the run directory, where tasks read them.

    Parameters
    ----------
    source : Source
    run : Run
        Open for writing. The copy is its stage ``input``, which is deleted with the other temporary stages.
    bounds : array_like of int, shape (blocks + 1,)
        Row ranges that tasks will ask for; one block is made of each.

    Returns
    -------
    staged : StagedSource

    Raises
    ------
    StorageError
    """
    for block, (lo, hi) in enumerate(itertools.pairwise(int(b) for b in bounds)):
        rows = source.read(lo, hi)
        if isinstance(source, SparseSource):
            arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        else:
            arrays = {"X": rows}
        run.write_changed(StagedSource.STAGE, block, arrays)
    facts = {"shape": source.shape, "dtype": source.dtype.str, "name": source.name}
    if isinstance(source, SparseSource):
        facts["largest"] = source.largest
    return StagedSource(run, bounds, facts)


def _joined(pieces):
    if isinstance(pieces[0], np.ndarray):
        return np.concatenate(pieces)
    from scipy.sparse import vstack

    return vstack(pieces, format="csr")


def open_array(location, component=None, storage_options=None):
    """Open a Zarr array for reading: the one at `location`, or `component` of the group there."""
    import zarr

    name = shown(location)
    try:
        node: Any = zarr.open(store_of(location, storage_options, read_only=True), mode="r")
        if admission.is_group(node):
            node = admission.choose_member(node, component, repr(name))
        elif component is not None:
            raise InputError(f"input: {name!r} is an array, which has no component={component!r}; leave it out")
    except StorageError as error:
        raise StorageError(f"input: {name!r} could not be opened; {error}") from None
    except InputError:
        raise
    except Exception as error:
        text = scrubbed(f"{type(error).__name__}: {error}", location, storage_options)
        remedy = admission.remedy_for(location)
        raise InputError(
            f"input: {name!r} could not be opened as Zarr ({text}); "
            + (f"pass {remedy}" if remedy else "give the path or URL of a Zarr array, or of a group with component=")
        ) from (error if is_local(location) else None)
    _refuse_pickles(node)
    return node


def _check_rows(source):
    if len(source.shape) != 2:
        raise InputError(
            f"input: expected a 2-dimensional array (n_samples, n_features), got shape {source.shape}. "
            "Reshape your data: array.reshape(-1, 1) for a single feature, array.reshape(1, -1) for a single sample"
        )
    if source.dtype.kind not in "fiub":
        raise InputError(f"input: dtype {source.dtype} is not real or integer; convert the array to a numeric dtype")
    if source.dtype.itemsize > 8:
        raise InputError(f"input: dtype {source.dtype} has no counterpart in Zarr; convert the array to float64")


def create_arrays(location, arrays, chunk_rows, storage_options=None):
    """Make arrays in a Zarr group, to be written row range by row range; the caller has seen that they may be.

    Parameters
    ----------
    location : str or Path
        Path or URL; the group is made if it is not there, arrays of the same names are overwritten.
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
                overwrite=True,
                config={"write_empty_chunks": True},
            )
            for name, (shape, dtype) in arrays.items()
        }
