"""The only door to Zarr: archives that are read, and the run directory that is written.

A run directory is one Zarr group. A stage is a group in it, a block of a stage a group in that, an artifact of
the block one uncompressed array of one chunk, so that any reader of Zarr can open it and a part of it is a range of
bytes. A block is done when its ledger entry, the attributes of its group, written last, says so; the entry carries
the checksum of every part.
Nothing is inferred from chunks: an absent chunk reads as fill value without a word.
"""

import contextlib
import errno
import fcntl
import functools
import itertools
import json
import os
import re
import shutil
import socket
import tempfile
import threading
import weakref
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from bigsmic.errors import (
    CorruptBlockError,
    InputError,
    NonFiniteError,
    RunError,
    RunLockedError,
    RunMismatchError,
    RunVersionError,
    StorageError,
)

FORMAT_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]*\Z")
_BLOCK = re.compile(r"[0-9]{7,}\Z")
_PARTIAL = re.compile(r"\.[0-9]+-[0-9]+\.partial\Z")


def checksum(array):
    """CRC-32 of an array's bytes in C order, as int."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)


# ------------------------------------------------------------------------------------------------ archives


def open_source(data, component=None, storage_options=None, missing_chunks="error"):
    """Open rows for reading in blocks.

    Parameters
    ----------
    data : str, Path, zarr.Array, dask array, ndarray, memmap, or array_like, shape (n, d)
        A path or URL names a Zarr v2 or v3 array, or a group together with `component`.
    component : str, optional
        Path of the array within the group.
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
    """
    if missing_chunks not in ("error", "fill"):
        raise InputError(f"missing_chunks: got {missing_chunks!r}; use 'error' or 'fill'")
    if isinstance(data, str | os.PathLike):
        data = open_array(os.fspath(data), component, storage_options)
    if hasattr(data, "nchunks_initialized"):
        source: Source = ZarrSource(data, missing_chunks)
    elif hasattr(data, "dask") and hasattr(data, "compute"):
        source = DaskSource(data)
    else:
        source = Source(np.asanyarray(data), "array")
        if np.ma.is_masked(source.array):
            raise InputError("input: the array has masked entries; drop or impute these rows")
    _check_rows(source)
    return source


class Source:
    """Rows of a two-dimensional array, read as half-open ranges.

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

    def read(self, lo, hi):
        """Return rows ``lo:hi`` as a C-ordered ndarray of the stored dtype."""
        return np.ascontiguousarray(self.array[lo:hi])

    def describe(self):
        """Return what identifies the input besides its content; free of secrets and of memory addresses."""
        n, d = self.shape
        return {"rows": n, "columns": d, "dtype": self.dtype.str}


class SparseSource(Source):
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

    def read(self, lo, hi):
        """Return rows ``lo:hi``, sparse."""
        return self.array[lo:hi]


class DaskSource(Source):
    """Rows of a dask array, computed range by range on the calling thread."""

    def __init__(self, array):
        super().__init__(array, "dask array")
        if any(np.isnan(array.shape)):
            raise InputError("input: the dask array has unknown chunk sizes; call .compute_chunk_sizes() on it first")

    @property
    def band_bytes(self):
        """Bytes of the largest chunk of rows."""
        return int(max(self.array.chunks[0], default=0)) * self.shape[1] * self.dtype.itemsize

    def read(self, lo, hi):
        """Return rows ``lo:hi``."""
        return np.ascontiguousarray(self.array[lo:hi].compute(scheduler="synchronous"))


class ZarrSource(Source):
    """Rows of a Zarr array; absent and torn chunks are errors.

    When the archive's chunks are taller than the ranges asked for, the last decoded bands are kept, so
    that a chunk is decoded once and not once a range.
    """

    _KEPT_BANDS = 2

    def __init__(self, array, missing_chunks):
        super().__init__(array, str(array.store_path).split("?")[0])
        self._missing = missing_chunks
        self._bands: OrderedDict = OrderedDict()
        self._lock = threading.Lock()

    @property
    def _chunk_shape(self):
        return tuple(getattr(self.array, "shards", None) or self.array.chunks)

    @property
    def band_bytes(self):
        """Bytes of the kept bands of chunks."""
        return self._KEPT_BANDS * self._chunk_shape[0] * self.shape[1] * self.dtype.itemsize

    def read(self, lo, hi):
        """Return rows ``lo:hi``."""
        height = self._chunk_shape[0]
        if height <= hi - lo:
            return self._decode(lo, hi)
        bands = [self._band(b) for b in range(lo // height, (hi - 1) // height + 1)]
        start = (lo // height) * height
        parts = [band[max(lo - start - i * height, 0) : hi - start - i * height] for i, band in enumerate(bands)]
        return np.ascontiguousarray(np.concatenate(parts))

    def _band(self, b):
        with self._lock:
            if b not in self._bands:
                height = self._chunk_shape[0]
                self._bands[b] = self._decode(b * height, min((b + 1) * height, self.shape[0]))
                while len(self._bands) > self._KEPT_BANDS:
                    self._bands.popitem(last=False)
            self._bands.move_to_end(b)
            return self._bands[b]

    def _decode(self, lo, hi):
        if self._missing == "error":
            self._refuse_absent(lo, hi)
        try:
            return np.ascontiguousarray(self.array[lo:hi])
        except Exception as error:
            raise StorageError(
                f"input: rows {lo}:{hi} of {self.name} could not be read ({type(error).__name__}: {error}); "
                "a chunk of the archive is torn or unreadable: restore it"
            ) from error

    def _refuse_absent(self, lo, hi):
        from zarr.core.sync import sync

        array, (height, width) = self.array, self._chunk_shape
        store, prefix = array.store_path.store, array.store_path.path
        for i in range(lo // height, (hi - 1) // height + 1):
            for j in range(-(-self.shape[1] // width)):
                key = array.metadata.encode_chunk_key((i, j))
                if not sync(store.exists(f"{prefix}/{key}" if prefix else key)):
                    raise StorageError(
                        f"input: chunk {key} (rows {i * height}:{min((i + 1) * height, self.shape[0])}) of {self.name} "
                        "is missing, and would read as fill values; restore it, or, if the writer leaves out chunks "
                        "that hold only the fill value, pass missing_chunks='fill'"
                    )


def open_array(location, component=None, storage_options=None):
    """Open a Zarr array for reading: the one at `location`, or `component` of the group there."""
    import zarr

    try:
        node: Any = zarr.open(location, mode="r", storage_options=_options_of(location, storage_options))
        if component is not None:
            node = node[component]
    except Exception as error:
        raise InputError(
            f"input: {location!r} could not be opened as Zarr ({type(error).__name__}: {error}); "
            "give the path or URL of a Zarr array, or of a group with component="
        ) from error
    if not hasattr(node, "nchunks_initialized"):
        names = sorted(node.array_keys())[:8]
        raise InputError(f"input: {location!r} is a Zarr group with arrays {names}; name one with component=")
    return node


def _options_of(location, storage_options):
    """Storage options for a URL; Zarr refuses them for a local path, and an archive and a run share theirs."""
    return storage_options if "://" in location else None


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
    """Make a Zarr group of arrays that are written row range by row range.

    Parameters
    ----------
    location : str or Path
        Path or URL; arrays of the same names are overwritten.
    arrays : dict of str to (shape, dtype)
    chunk_rows : int
    storage_options : dict, optional

    Returns
    -------
    arrays : dict of str to zarr.Array
    """
    import zarr

    with _storage_errors(f"writing to {location}"):
        location = os.fspath(location)
        options = _options_of(location, storage_options)
        group = zarr.open_group(location, mode="a", zarr_format=3, storage_options=options)
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


# ------------------------------------------------------------------------------------------- run directory


class Run:
    """A run directory: blocks of named arrays, a ledger per stage, and what the run is a run of.

    Parameters
    ----------
    location : str
        Local path or fsspec URL.
    storage_options : dict, optional
        For the file system behind a URL; never written anywhere.
    writable : bool
        Open for writing: the group is made if it is not there, and locked.

    Raises
    ------
    RunError, RunVersionError, RunLockedError
    """

    def __init__(self, location, storage_options=None, writable=True):
        self.location = str(location)
        self._lock_handle: int | None = None
        self._group = self._open(storage_options, writable)
        version = self._group.attrs.get("bigsmic_format", FORMAT_VERSION)
        if version > FORMAT_VERSION:
            raise RunVersionError(
                f"run: {self.location} is of format {version}, this version of bigsmic reads up to {FORMAT_VERSION}; "
                "upgrade bigsmic, or give another out="
            )
        self._bytes = _LocalBytes(self.location) if self._local else _StoreBytes(self._group)
        self._stages: set[str] = set()
        if writable:
            self._lock()
            self._group = self._open(storage_options, writable)  # what was read before the lock may be old

    def _open(self, storage_options, writable):
        import zarr

        self._local = "://" not in self.location
        if self._local and not writable and not Path(self.location).is_dir():
            raise RunError(f"run: {self.location} is not a directory; give the out= of a finished fit")
        if self._local and _is_of_others(Path(self.location)):
            raise RunError(f"run: {self.location} is a directory with other things in it; give another out=")
        try:
            group = zarr.open_group(
                self.location,
                mode="a" if writable else "r",
                zarr_format=3,
                storage_options=_options_of(self.location, storage_options),
            )
        except Exception as error:
            raise RunError(
                f"run: {self.location} cannot be opened as a run directory ({type(error).__name__}: {error})"
            ) from error
        return group

    # -- attributes

    def bind(self, identity):
        """Make the run a run of `identity` (a JSON-like dict), or check that it is one already.

        Raises
        ------
        RunMismatchError
            The run was made of other input or with other parameters; both are shown.
        """
        identity = json.loads(json.dumps(identity))
        stored = self._group.attrs.get("identity")
        if stored is None:
            if any(True for _ in self._group):
                raise RunError(f"run: {self.location} holds a Zarr group that is not a run; give another out=")
            self.update({"bigsmic_format": FORMAT_VERSION, "identity": identity})
        elif stored != identity:
            lines = [
                f"  {key}: stored {_at(stored, key)!r}, asked {_at(identity, key)!r}"
                for key in sorted({*_leaves(stored), *_leaves(identity)})
                if _at(stored, key) != _at(identity, key)
            ]
            raise RunMismatchError(
                f"run: {self.location} was made from other input or with other parameters:\n"
                + "\n".join(lines)
                + "\ngive another out=, or the stored values"
            )

    @property
    def identity(self):
        """What the run is a run of."""
        stored = self._group.attrs.get("identity")
        if stored is None:
            raise RunError(f"run: {self.location} is not a bigsmic run; give the out= of a fit")
        return stored

    def update(self, attributes):
        """Set attributes of the run; JSON-like."""
        with _storage_errors(f"run: attributes of {self.location}"):
            self._group.update_attributes(attributes)

    def attribute(self, name, default=None):
        """Return one attribute of the run."""
        return self._group.attrs.get(name, default)

    # -- blocks

    def write(self, stage, block, arrays, parts=None, info=None):
        """Write the arrays of one block, then its ledger entry.

        Parameters
        ----------
        stage : str
        block : int
        arrays : dict of str to ndarray
        parts : dict of str to ndarray of int, optional
            Row bounds within an array; the rows between two of them can be read, and are checked, alone.
        info : dict, optional
            Small JSON-like facts kept in the entry.
        """
        entry: dict[str, Any] = {"arrays": {}, "info": info or {}}
        where = _block_path(stage, block)
        with _storage_errors(f"{stage}: writing block {block} to {self.location}"):
            self._open_stage(stage)
            for name, array in arrays.items():
                array = np.asarray(array, order="C")
                bounds = [0, len(array)] if array.ndim and not (parts and name in parts) else [0]
                if parts and name in parts:
                    bounds = [int(b) for b in parts[name]]
                entry["arrays"][name] = self._write_array(f"{where}/{_safe(name)}", array, bounds)
            node = {"zarr_format": 3, "node_type": "group", "attributes": {"ledger": entry}}
            self._set(_ledger_key(stage, block), json.dumps(node).encode())

    def _write_array(self, path, array, bounds):
        self._set(f"{path}/zarr.json", _array_metadata(array))
        if array.size:
            self._set(f"{path}/{_chunk_key(array.ndim)}", array.reshape(-1).view(np.uint8).data)
        pieces = [array[a:b] for a, b in itertools.pairwise(bounds)] if array.ndim else [array]
        return {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "bounds": bounds,
            "crc32": [checksum(piece) for piece in pieces],
        }

    def _open_stage(self, stage):
        """Make the group of a stage, once."""
        if stage not in self._stages:
            self._set(f"{_safe(stage)}/zarr.json", _GROUP)
            self._stages.add(stage)

    def done(self, stage, block):
        """Whether the ledger says that the block is complete."""
        return self._ledger(stage, block) is not None

    def _ledger(self, stage, block):
        raw = self._get(_ledger_key(stage, block))
        try:
            return None if raw is None else json.loads(bytes(raw)).get("attributes", {}).get("ledger")
        except ValueError:  # torn: not written last, so not done
            return None

    def entry(self, stage, block):
        """Return the ledger entry of a block, or raise CorruptBlockError if there is none."""
        entry = self._ledger(stage, block)
        if entry is None:
            raise CorruptBlockError(
                f"{stage}: block {block} is not in the ledger of {self.location}; run fit on it again",
                stage,
                block,
            )
        return entry

    def read(self, stage, block, name, part=None):
        """Return one array of a block, or one part of it, after checking its checksum.

        Parameters
        ----------
        stage : str
        block : int
        name : str
        part : int, optional
            Number of the part; see `write`.

        Raises
        ------
        CorruptBlockError
            The array is not there, or is not what was written.
        """
        return self.reader(stage, block)(name, part)

    def reader(self, stage, block):
        """Return a function ``(name, part=None) -> ndarray`` that reads the ledger entry once."""
        entry = self.entry(stage, block)

        def read(name, part=None):
            meta = entry["arrays"][name]
            first, last = (0, len(meta["crc32"])) if part is None else (part, part + 1)
            return self._read_array(stage, block, name, meta, (first, last))

        return read

    def info(self, stage, block):
        """Return the small facts kept with a block."""
        return self.entry(stage, block)["info"]

    def _read_array(self, stage, block, name, meta, parts):
        dtype, shape, bounds = np.dtype(meta["dtype"]), tuple(meta["shape"]), meta["bounds"]
        path = f"{_block_path(stage, block)}/{_safe(name)}/{_chunk_key(len(shape))}"
        if shape:
            lo, hi = bounds[parts[0]], bounds[parts[1]]
            row = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
            shape = (hi - lo, *shape[1:])
            start, stop = lo * row, hi * row
        else:
            lo, start, stop = 0, 0, dtype.itemsize
        if stop == start:
            return np.empty(shape, dtype)
        raw = self._get(path, start, stop)
        if raw is None or len(raw) != stop - start:
            self._corrupt(stage, block, name, "is missing or truncated")
        array = np.frombuffer(raw, dtype).reshape(shape)
        for i in range(*parts):
            piece = array[bounds[i] - lo : bounds[i + 1] - lo] if shape else array
            if checksum(piece) != meta["crc32"][i]:
                self._corrupt(stage, block, name, "does not match its checksum")
        return array

    def _corrupt(self, stage, block, name, what):
        raise CorruptBlockError(
            f"{stage}: {name} of block {block} in {self.location} {what}; run fit on it again to redo that block",
            stage,
            block,
        )

    def blocks(self):
        """Return stage and number of every block of which there is anything, done or not, in order."""
        return [
            (stage, int(block))
            for stage in self._bytes.folders("")
            if _NAME.match(stage)
            for block in self._bytes.folders(stage)
            if _BLOCK.match(block)
        ]

    def check(self, stage, block):
        """Strike a block off the ledger if an array of it is not what was written."""
        try:
            read = self.reader(stage, block)
            for name in self.entry(stage, block)["arrays"]:
                read(name)
        except CorruptBlockError:
            self.forget(stage, block)

    def forget(self, stage, block):
        """Strike a block off the ledger, so that it is done again."""
        with _storage_errors(f"{stage}: striking block {block} off the ledger of {self.location}"):
            self._delete(_ledger_key(stage, block))

    def drop(self, stage, blocks):
        """Delete a whole stage, ledger first, so that a half-deleted block never counts as done."""
        for block in blocks:
            self.forget(stage, block)
        with _storage_errors(f"{stage}: deleting from {self.location}"):
            self._bytes.delete_tree(_safe(stage))
            self._stages.discard(stage)

    # -- arrays for the user, in input order

    def create(self, name, shape, chunk_rows, dtype):
        """Make, or open, a chunked array at the top of the run, compressed, for readers of Zarr."""
        with _storage_errors(f"{name}: creating in {self.location}"):
            if not self._has_array(name):
                self._group.create_array(
                    name,
                    shape=shape,
                    chunks=(chunk_rows, *shape[1:]),
                    dtype=dtype,
                    overwrite=True,
                    config={"write_empty_chunks": True},
                )
            return self._group[name]

    def _has_array(self, name):
        try:
            return name in self._group
        except ValueError:  # its metadata are torn
            return False

    def array(self, name):
        """Return a top-level array, lazily."""
        try:
            return self._group[name]
        except KeyError:
            raise RunError(f"run: {self.location} has no {name!r} yet; the fit did not finish, run it again") from None

    def write_rows(self, name, lo, values):
        """Write whole chunks of a top-level array."""
        with _storage_errors(f"{name}: writing rows {lo}:{lo + len(values)} to {self.location}"):
            self._group[name][lo : lo + len(values)] = values

    def check_rows(self, name, lo, hi, crc32):
        """Whether rows of a top-level array are those with this checksum."""
        try:
            return checksum(self._group[name][lo:hi]) == crc32
        except (KeyError, ValueError, RuntimeError, OSError):  # absent, or torn
            return False

    # -- bytes

    def sweep(self):
        """Delete what writers that were killed have left: files half written, and scratch."""
        self._bytes.delete_partial()
        remove_tree(self.scratch)

    def _set(self, key, data):
        self._bytes.set(key, data)

    def _get(self, key, start=None, stop=None):
        return self._bytes.get(key, start, stop)

    def _delete(self, key):
        self._bytes.delete(key)

    # -- lock

    def _lock(self):
        if not self._local:
            return
        handle = os.open(self.location, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise RunLockedError(
                f"run: {self.location} is being written by {self._group.attrs.get('writer', 'another process')}; "
                "wait for it to end, or give another out="
            ) from None
        self._lock_handle = handle
        self.update({"writer": f"process {os.getpid()} on {socket.gethostname()}"})

    @property
    def scratch(self):
        """Local folder for what lasts as long as one stage; hidden in the run directory where that is local."""
        return (
            Path(self.location) / ".scratch" if self._local else Path(tempfile.gettempdir()) / f"bigsmic-{os.getpid()}"
        )

    def delete_when_unused(self):
        """Delete the directory once nothing refers to this run, or to an array that was taken from it."""
        weakref.finalize(self._group.store, remove_tree, self.location)  # arrays refer to the store, not to the run

    def close(self):
        """Give up the lock."""
        if self._lock_handle is not None:
            os.close(self._lock_handle)  # the kernel's lock goes with it, as it does when the process dies
            self._lock_handle = None


class Overlay(Run):
    """A run that reads through to another one, and writes on its own.

    Parameters
    ----------
    base : Run
        Finished; only read.
    top : Run
    own : sequence of str
        Stages that are never read from the base.
    """

    def __init__(self, base, top, own):
        self.__dict__.update(top.__dict__)
        self._base, self._top, self._own = base, top, frozenset(own)

    @property
    def identity(self):
        """What the base is a run of."""
        return self._base.identity

    def _holder(self, stage, block):
        return self._top if stage in self._own or self._top.done(stage, block) else self._base

    def done(self, stage, block):
        """Whether the ledger of either has the block."""
        return self._holder(stage, block).done(stage, block)

    def reader(self, stage, block):
        """Return a function that reads arrays of a block; see :meth:`Run.reader`."""
        return self._holder(stage, block).reader(stage, block)

    def entry(self, stage, block):
        """Return the ledger entry of a block."""
        return self._holder(stage, block).entry(stage, block)


def temporary_run():
    """Return the path of a new temporary run directory; the caller deletes it."""
    return tempfile.mkdtemp(prefix="bigsmic-")


def remove_tree(path):
    """Delete a local directory, whatever is left of it."""
    shutil.rmtree(path, ignore_errors=True)


class FileBasis:
    """Columns of a tall matrix on local disk, in row blocks: an eigensolver's basis when memory is short.

    Plain Fortran-ordered files that last as long as the solve; a range of columns of a block is a range of bytes.
    They are read and written, not mapped, so that their pages do not count as memory of the process.

    Parameters
    ----------
    folder : str or Path
        Local directory; made if absent.
    bounds : array_like of int, shape (p + 1,)
    capacity : int
        Columns that there is room for.
    dtype : dtype
    """

    def __init__(self, folder, bounds, capacity, dtype=np.float32):
        self.bounds, self.capacity, self.dtype = np.asarray(bounds, np.int64), capacity, np.dtype(dtype)
        self._folder = Path(folder)
        self._heights = np.diff(self.bounds)
        self._folder.mkdir(parents=True, exist_ok=True)

    def read(self, block, start, stop):
        """Return columns ``start:stop`` of a block, Fortran-ordered, in memory of their own."""
        out = np.empty((self._heights[block], stop - start), self.dtype, order="F")
        if out.size:
            with open(self._folder / f"{block}.f", "rb", buffering=0) as file:
                file.seek(start * self._column_bytes(block))
                _read_full(file, out.T)
        return out

    def write(self, block, start, columns):
        """Store `columns` from column `start` on."""
        path = self._folder / f"{block}.f"
        with (
            _storage_errors(f"eigen: writing the basis to {path}"),
            open(os.open(path, os.O_RDWR | os.O_CREAT), "r+b", buffering=0) as file,
        ):
            file.seek(start * self._column_bytes(block))
            _write_full(file, np.ascontiguousarray(columns.T, self.dtype))

    def _column_bytes(self, block):
        return int(self._heights[block]) * self.dtype.itemsize

    def close(self):
        """Delete the files."""
        remove_tree(self._folder)


def _read_full(file, array):
    view = memoryview(array.reshape(-1).view(np.uint8))
    while view:
        got = file.readinto(view)
        if not got:
            raise StorageError(f"eigen: {file.name} is shorter than what was written to it; run fit again")
        view = view[got:]


def _write_full(file, array):
    view = memoryview(array.reshape(-1).view(np.uint8))
    while view:
        view = view[file.write(view) :]


class _LocalBytes:
    """Bytes by key in a local directory. A set is atomic; zarr's own store would take a turn of an event loop each."""

    def __init__(self, root):
        self._root = Path(root)

    def get(self, key, start=None, stop=None):
        """Return the bytes, or a range of them; None if there are none."""
        try:
            with open(self._root / key, "rb", buffering=0) as file:
                if start is None:
                    return file.read()
                file.seek(start)
                return file.read(stop - start)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def set(self, key, data):
        """Write the bytes, all of them or none."""
        path = self._root / key
        partial = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(partial, "wb", buffering=0) as file:
                _write_full(file, np.frombuffer(data, np.uint8))
            os.replace(partial, path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

    def delete(self, key):
        """Delete the bytes, if there are any."""
        (self._root / key).unlink(missing_ok=True)

    def delete_tree(self, prefix):
        """Delete everything under a prefix."""
        if (self._root / prefix).exists():
            shutil.rmtree(self._root / prefix)

    def delete_partial(self):
        """Delete files that were being written when their writer died."""
        for path in self._root.rglob("*.partial"):
            if _PARTIAL.search(path.name):
                path.unlink(missing_ok=True)

    def folders(self, prefix):
        """Return the names of what is one level below a prefix and has something below itself, in order."""
        try:
            with os.scandir(self._root / prefix) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []


class _StoreBytes:
    """Bytes by key in the store of a Zarr group."""

    def __init__(self, group):
        self._store, self._prefix = group.store, group.store_path.path

    def _key(self, key):
        return f"{self._prefix}/{key}" if self._prefix else key

    def get(self, key, start=None, stop=None):
        """Return the bytes, or a range of them; None if there are none."""
        from zarr.abc.store import RangeByteRequest
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        wanted = None if start is None else RangeByteRequest(start, stop)
        buffer = sync(self._store.get(self._key(key), default_buffer_prototype(), wanted))
        return None if buffer is None else buffer.as_numpy_array().data

    def set(self, key, data):
        """Write the bytes."""
        from zarr.core.buffer.cpu import Buffer
        from zarr.core.sync import sync

        sync(self._store.set(self._key(key), Buffer.from_array_like(np.frombuffer(data, np.uint8))))

    def delete(self, key):
        """Delete the bytes."""
        from zarr.core.sync import sync

        sync(self._store.delete(self._key(key)))

    def delete_tree(self, prefix):
        """Delete everything under a prefix."""
        from zarr.core.sync import sync

        sync(self._store.delete_dir(self._key(prefix)))

    def delete_partial(self):
        """Nothing to do: objects are whole or absent."""

    def folders(self, prefix):
        """Return the names of what is one level below a prefix, in order."""
        from zarr.core.sync import sync

        async def names():
            return [name async for name in self._store.list_dir(self._key(prefix))]

        return sorted(sync(names()))


_GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'


def _array_metadata(array):
    """Metadata of an uncompressed Zarr array of one chunk, as zarr itself writes it."""
    node = json.loads(_metadata_template(array.dtype.str, array.ndim))
    node["shape"] = list(array.shape)
    node["chunk_grid"]["configuration"]["chunk_shape"] = [max(1, size) for size in array.shape]
    return json.dumps(node).encode()


@functools.cache
def _metadata_template(dtype, ndim):
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    store = zarr.storage.MemoryStore()
    shape = (1,) * ndim
    keys = {"name": "default", "separator": "."}  # one file beside the metadata, no folders for its indices
    options: dict[str, Any] = {"compressors": None, "filters": None, "chunk_key_encoding": keys}
    zarr.create_array(store, shape=shape, chunks=shape, dtype=np.dtype(dtype), **options)
    buffer = sync(store.get("zarr.json", default_buffer_prototype()))
    assert buffer is not None
    return buffer.to_bytes().decode()


@contextlib.contextmanager
def _storage_errors(what):
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                error.errno,
                f"{what}: no space left on the device; free some and run the same command again: "
                "finished blocks are kept",
            ) from error
        raise StorageError(error.errno, f"{what}: {error}") from error


def _is_of_others(folder):
    """Whether a directory holds anything, and no Zarr group of this format that it could be part of."""
    if not folder.is_dir() or (folder / "zarr.json").exists():
        return False
    return not all(path.name.startswith("zarr.json") for path in folder.iterdir())  # a writer died while it made one


def _leaves(tree):
    """Dotted names of what stands in nested dicts."""
    for key, value in tree.items():
        yield from (f"{key}.{leaf}" for leaf in _leaves(value)) if isinstance(value, dict) else [key]


def _at(tree, name):
    for key in name.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _safe(name):
    if not _NAME.match(name):
        raise RunError(f"run: {name!r} is not a name; use letters, digits, '_', '-', '=' and '.'")
    return name


def _block_path(stage, block):
    return f"{_safe(stage)}/{int(block):07d}"


def _ledger_key(stage, block):
    return f"{_block_path(stage, block)}/zarr.json"


def _chunk_key(ndim):
    return ".".join(["c"] + ["0"] * ndim)
