"""The run directory: blocks of named arrays, and a ledger that says which of them are done.

A run directory is one Zarr group. A stage is a group in it, a block of a stage a group in that, an artifact of
the block one uncompressed array of one chunk, so that any reader of Zarr can open it and a part of it is a range of
bytes. A block is done when its ledger entry, the attributes of its group, written last, says so; the entry carries
the checksum of every part, and is sealed together with the name of the block and the identity of the run.
Nothing is inferred from chunks: an absent chunk reads as fill value without a word.
"""

import functools
import itertools
import json
import math
import os
import re
import socket
import threading
import uuid
import weakref
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any

import numpy as np

from bigsmic.errors import CorruptBlockError, RunError, RunMismatchError, RunVersionError, StorageError
from bigsmic.store.checked_arrays import CheckedArray, decoded
from bigsmic.store.destinations import RUN_MARK, as_location, make_run
from bigsmic.store.lease import GROUP as LEASE
from bigsmic.store.lease import Lease
from bigsmic.store.ledger import NAME, RUN_ID, read_entry, seal, write_entry
from bigsmic.store.objects import (
    LocalBytes,
    StoreBytes,
    absolute,
    checksum,
    is_local,
    remove_tree,
    storage_errors,
    store_of,
)
from bigsmic.store.redaction import scrubbed, shown
from bigsmic.store.reopenable import Shared
from bigsmic.store.temporary import delete_with, temporary_folder, temporary_run

FORMAT_VERSION = 2
_exhaust: Any = deque(maxlen=0).extend  # takes an iterator for its effects
CHECKED_BYTES = 16 << 20  # read at once by a check
SEALED = ("identity", "summary")  # attributes of the run that are believed by their seal alone
_BLOCK = re.compile(r"[0-9]{7,}\Z")


class Run(Shared):
    """A run directory: blocks of named arrays, a ledger per stage, and what the run is a run of.

    It is pickled as its place and its storage options, and is opened without the lock where it arrives: tasks of
    the process that holds the lock write blocks of their own.

    Parameters
    ----------
    location : str
        Local path or fsspec URL.
    storage_options : dict, optional
        For the file system behind a URL; never written anywhere.
    writable : bool
        Open for writing: the group is made if it is not there, and locked.
    lock : bool
        False on behalf of a process that holds the lock: the group must be there.

    Attributes
    ----------
    location : str
        What messages call the place.
    address : str
        What opens it from any working directory.

    Raises
    ------
    RunError, RunVersionError, RunLockedError
    """

    def __init__(self, location, storage_options=None, writable=True, lock=True):
        location = as_location(location, "run")
        self.location, self.address = shown(location), absolute(location)
        self._options, self._writable = storage_options, writable
        self._lease: Lease | None = None
        self._is_temporary = False
        self._scratch, self._making_scratch = None, threading.Lock()
        self._entries = _Entries()
        mode = "r+" if writable else "r"
        if writable and lock:
            make_run(self.address, self.location, storage_options, FORMAT_VERSION)
        self._group = self._open(mode)
        self._check_version()
        self._bytes = LocalBytes(self.address) if self._local else StoreBytes(self._group.store)
        if writable and lock:
            self._take(mode)

    def _take(self, mode):
        with storage_errors(f"run: the lease of {self.location}"):
            self._lease = Lease(self._bytes, self.location, self.address if self._local else None)
        # behind a URL the garbage collector may come by on the very thread that would have to answer
        release = (
            self._lease.release if self._local else threading.Thread(target=self._lease.release, daemon=True).start
        )
        weakref.finalize(self, release).atexit = False
        try:
            self._group = self._open(mode)  # what was read before the lock may be old
        except BaseException:
            self.close()
            raise

    def _open(self, mode):
        import zarr

        if self._local and not os.path.isdir(self.address):
            raise RunError(f"run: {self.location} is not a directory; give the out= of a finished fit")
        if self._local and (Path(self.address) / "zarr.json").is_symlink():
            raise RunError(f"run: {self.location}/zarr.json is a symbolic link; a run has none: remove it")
        try:
            store = store_of(self.address, self._options, read_only=mode == "r")
            return zarr.open_group(store, mode=mode, zarr_format=3, use_consolidated=False)
        except StorageError as error:
            raise StorageError(f"run: {self.location} cannot be opened; {error}") from None
        except Exception as error:
            text = scrubbed(f"{type(error).__name__}: {error}", self.address, self._options)
            raise RunError(
                f"run: {self.location} cannot be opened as a run directory ({text}); restore its zarr.json, or give "
                "another out="
            ) from (error if self._local else None)

    def _check_version(self):
        version = self._group.attrs.get(RUN_MARK, FORMAT_VERSION)
        if type(version) is not int:
            raise RunError(
                f"run: bigsmic_format in {self.location}/zarr.json is not a number, so the file is damaged; restore "
                "it, or give another out="
            )
        if version < FORMAT_VERSION:
            raise RunVersionError(
                f"run: {self.location} is of format {version}, which an earlier bigsmic wrote and whose blocks do not "
                f"say whose they are; this version reads format {FORMAT_VERSION}: fit again with another out="
            )
        if version > FORMAT_VERSION:
            raise RunVersionError(
                f"run: {self.location} is of format {version}, this version of bigsmic reads up to {FORMAT_VERSION}; "
                "upgrade bigsmic, or give another out="
            )

    @property
    def _local(self):
        return is_local(self.address)

    @property
    def places(self):
        """Paths and URLs that it reads."""
        return [self.address]

    def recipe(self):
        """Return how a task on another process opens the same run."""
        return Run, (self.address, self._options, self._writable, False)

    @property
    def is_public(self):
        """Whether its address alone opens it, and keeps no secret, so that it may be written down."""
        return not self._options and shown(self.address) == self.address

    def __repr__(self):
        return f"Run({self.location!r})"

    # -- attributes

    def bind(self, identity, unnamed=None):
        """Make the run a run of `identity` (a JSON-like dict), or check that it is one already.

        Parameters
        ----------
        identity : dict
        unnamed : dict of str to str, optional
            What messages say of entries that an identity does not have, such as ``{"settings.method": "smic"}``.

        Raises
        ------
        RunMismatchError
            The run was made of other input or with other parameters; both are shown.
        """
        identity = json.loads(json.dumps(identity))
        stored = self.attribute("identity")
        writer = {"writer": f"process {os.getpid()} on {socket.gethostname()}"}
        if stored is None:
            if any(name not in (LEASE, "zarr.json") for name in self._bytes.folders("")):
                raise RunError(f"run: {self.location} has blocks, and does not say of what; give another out=")
            self.update({RUN_MARK: FORMAT_VERSION, "run": uuid.uuid4().hex, "identity": identity} | writer)
        elif stored != identity:
            raise RunMismatchError(
                f"run: {self.location} was made from other input or with other parameters:\n"
                + "\n".join(_differences(stored, identity, unnamed or {}))
                + "\ngive another out=, or the stored values"
            )
        else:
            self.update(writer)

    @property
    def identity(self):
        """What the run is a run of."""
        stored = self.attribute("identity")
        if stored is None:
            raise RunError(f"run: {self.location} is not a bigsmic run; give the out= of a fit")
        return stored

    @property
    def id(self):
        """What tells the run from every other one, also of the same input and settings; empty before `bind`."""
        stored = self._group.attrs.get("run")
        return stored if isinstance(stored, str) and RUN_ID.match(stored) else ""

    def update(self, attributes):
        """Set attributes of the run, JSON-like; a seal goes with those that are believed by it."""
        self._check_lease()
        attributes = json.loads(json.dumps(attributes))
        whose = attributes.get("run", self.id)
        seals = {name: seal(whose, name, value) for name, value in attributes.items() if name in SEALED}
        if seals:
            attributes["crc32"] = self._seals | seals
        with storage_errors(f"run: attributes of {self.location}"):
            self._group.update_attributes(attributes)

    def attribute(self, name):
        """Return one of the sealed attributes, a dict; None if there is none.

        Raises
        ------
        RunError
            It is not what was written.
        """
        stored = self._group.attrs.get(name)
        if stored is None or self._is_sealed(name):
            return stored
        raise RunError(
            f"run: {name!r} in {self.location}/zarr.json does not match its checksum, so that file was damaged or "
            f"changed; {self._way_out if name == 'summary' else 'restore it, or fit again with another out='}"
        )

    def strike_attributes(self):
        """Take what is damaged of what a fit writes anew when it ends for not there."""
        if self._group.attrs.get("summary") is not None and not self._is_sealed("summary"):
            self.update({"summary": None})

    def _is_sealed(self, name):
        stored = self._group.attrs[name]
        return isinstance(stored, dict) and self._seals.get(name) == seal(self.id, name, stored)

    @property
    def _seals(self):
        stored = self._group.attrs.get("crc32")
        return stored if isinstance(stored, dict) else {}

    @property
    def _way_out(self):
        """What to do about what is damaged."""
        if self._is_temporary:
            return "this is a temporary result, whose files something has deleted; fit again, with out= to keep them"
        return "run fit on it again, which makes it anew"

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
        self._check_lease()
        self._entries.drop(stage, block)
        entry: dict[str, Any] = {"arrays": {}, "info": info or {}}
        where = _block_path(stage, block)
        # The stage's own group comes with every block: no process knows what another one has deleted.
        objects = {f"{_safe(stage)}/zarr.json": _GROUP}
        for name, array in arrays.items():
            array = np.asarray(array, order="C")
            bounds = [0, len(array)] if array.ndim else [0]
            if parts and name in parts:
                bounds = [int(b) for b in parts[name]]
            entry["arrays"][name] = _description(array, bounds)
            objects |= _objects(f"{where}/{_safe(name)}", array)
        node = write_entry((self.id, stage, int(block)), entry)
        with storage_errors(f"{stage}: writing block {block} to {self.location}"):
            _exhaust(self._map(lambda key: self._set(key, objects[key]), objects))
            self._set(_ledger_key(stage, block), node)

    def write_changed(self, stage, block, arrays):
        """Write a block, unless these very arrays are there."""
        stored = self._ledger(stage, block)
        wanted = {name: _description(array, [0, len(array)]) for name, array in arrays.items()}
        if stored is None or stored["arrays"] != wanted:
            self.forget(stage, block)
            self.write(stage, block, arrays)

    def done(self, stage, block):
        """Whether the ledger says that the block is complete."""
        return self._ledger(stage, block) is not None

    def missing(self, stage, blocks):
        """Return those of `blocks` that are not done, in order; an object store is asked for many at once."""
        blocks = list(blocks)
        done = self._map(lambda block: self.done(stage, block), blocks)
        return [block for block, is_done in zip(blocks, done, strict=True) if not is_done]

    def gather(self, stage, blocks, names, part=None):
        """Yield ``[array of each name] of each block``; an object store is asked for some blocks at once.

        Parameters
        ----------
        stage : str
        blocks : iterable of int
        names : sequence of str
        part : int, optional
            Number of the part of every array; see `write`.

        Yields
        ------
        arrays : list of ndarray

        Raises
        ------
        CorruptBlockError
        """

        def load(block):
            read = self.reader(stage, block)
            return [read(name, part) for name in names]

        return self._map(load, blocks)

    def _ledger(self, stage, block):
        return read_entry((self.id, stage, int(block)), self._get(_ledger_key(stage, block)))

    def entry(self, stage, block):
        """Return the ledger entry of a block, or raise CorruptBlockError if there is none."""
        entry = self._ledger(stage, block)
        if entry is None:
            raise self.damaged(f"{stage}: block {block} is not in the ledger of {self.location}", stage, block)
        return entry

    def damaged(self, what, stage, block):
        """Return the error that says what is damaged of a block, and what to do about it."""
        if self._local and not Path(self.address).is_dir():
            return RunError(f"run: {self.location} is not there any more; {self._way_out}")
        return CorruptBlockError(f"{what}; {self._way_out}", stage, block)

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
        """Return a function ``(name, part=None) -> ndarray`` that reads arrays of a block; see `read`.

        The ledger entry is read once, and may be one that this process knows already: what another process has done
        to the block since is found by its checksum, and the entry then read again.
        """
        entry, is_new = self._entries.get(stage, block), False
        if entry is None:
            entry, is_new = self._entries.put(stage, block, self.entry(stage, block)), True

        def read(name, part=None):
            nonlocal entry, is_new
            try:
                return self._read_part(stage, block, name, entry, part)
            except CorruptBlockError:
                if is_new:
                    raise
            entry, is_new = self._entries.put(stage, block, self.entry(stage, block)), True
            return self._read_part(stage, block, name, entry, part)

        return read

    def infos(self, stage, blocks):
        """Return the small facts kept with each block."""
        return list(self._map(lambda block: self.info(stage, block), blocks))

    def _read_part(self, stage, block, name, entry, part):
        meta = entry["arrays"].get(name)
        if meta is None or (part is not None and part >= len(meta["crc32"])):
            self._corrupt(stage, block, name, "is not in the ledger")
        return self._read_array(stage, block, name, meta, (0, len(meta["crc32"])) if part is None else (part, part + 1))

    def info(self, stage, block):
        """Return the small facts kept with a block."""
        return self.entry(stage, block)["info"]

    def _read_array(self, stage, block, name, meta, parts):
        dtype, shape, bounds = np.dtype(meta["dtype"]), tuple(meta["shape"]), meta["bounds"]
        path = f"{_block_path(stage, block)}/{_safe(name)}/{_chunk_key(len(shape))}"
        if shape:
            lo, hi = bounds[parts[0]], bounds[parts[1]]
            row = math.prod(shape[1:]) * dtype.itemsize
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
        raise self.damaged(f"{stage}: {name} of block {block} in {self.location} {what}", stage, block)

    def blocks(self):
        """Return stage and number of every block of which there is anything, done or not, in order."""
        return [
            (stage, int(block))
            for stage in self._bytes.folders("")
            if NAME.match(stage) and stage != LEASE
            for block in self._bytes.folders(stage)
            if _BLOCK.match(block)
        ]

    def check(self, stage, block):
        """Strike a block off the ledger if an array of it is not what was written."""
        try:
            for name, meta in self.entry(stage, block)["arrays"].items():
                for parts in _spans(meta):
                    self._read_array(stage, block, name, meta, parts)
        except CorruptBlockError:
            self.forget(stage, block)

    def forget(self, stage, block):
        """Strike a block off the ledger, so that it is done again."""
        self._entries.drop(stage, block)
        with storage_errors(f"{stage}: striking block {block} off the ledger of {self.location}"):
            self._delete(_ledger_key(stage, block))

    def drop(self, stage, blocks):
        """Delete a whole stage, ledger first, so that a half-deleted block never counts as done."""
        _exhaust(self._map(lambda block: self.forget(stage, block), blocks))
        with storage_errors(f"{stage}: deleting from {self.location}"):
            self._bytes.delete_tree(_safe(stage))

    # -- arrays for the user, in input order

    def create(self, name, shape, chunk_rows, dtype):
        """Make a chunked array at the top of the run, compressed, for readers of Zarr, unless it is there.

        Returns
        -------
        is_new : bool
            Whether it was made: then it has no rows yet, whatever the ledger says of an earlier one.
        """
        with storage_errors(f"{name}: creating in {self.location}"):
            self._bytes.refuse_links(_safe(name))
            found = self._array_like(name, shape, dtype)
            if found is not None and found.chunks[0] == chunk_rows:
                return False
            self._group.create_array(
                name,
                shape=shape,
                chunks=(chunk_rows, *shape[1:]),
                dtype=dtype,
                overwrite=True,
                config={"write_empty_chunks": True},
            )
            return True

    def array(self, stage, name, shape, dtype):
        """Return a top-level array, lazy, whose rows are checked when they are read; see :class:`CheckedArray`."""
        return CheckedArray(self, stage, name, shape, dtype)

    def stored_array(self, name, shape, dtype):
        """Return the Zarr array of a name at the top, which must be as `create` makes it.

        Raises
        ------
        RunError
        """
        with storage_errors(f"{name}: opening in {self.location}"):
            self._bytes.refuse_links(_safe(name))
            found = self._array_like(name, shape, dtype)
        if found is None:
            where = self.location if self._bytes.get("zarr.json") is None else f"{self.location}/{name}/zarr.json"
            raise RunError(
                f"run: {where} is not there any more, or does not describe an array of {np.dtype(dtype)} {shape}; "
                f"{self._way_out}"
            )
        return found

    def _array_like(self, name, shape, dtype):
        """The array of a name, if it has this shape and dtype and blocks of rows for chunks; else None."""
        found, _ = decoded(lambda: self._group[name])
        facts, _ = decoded(lambda: (found.shape, found.dtype, found.chunks[1:], found.shards))
        if facts != (tuple(shape), np.dtype(dtype), tuple(shape[1:]), None):
            return None
        return found if 0 < found.chunks[0] <= max(1, shape[0]) else None

    def write_rows(self, name, lo, values):
        """Write whole chunks of a top-level array."""
        self._check_lease()
        with storage_errors(f"{name}: writing rows {lo}:{lo + len(values)} to {self.location}"):
            self._group[_safe(name)][lo : lo + len(values)] = values

    def check_rows(self, name, lo, hi, crc32):
        """Whether rows of a top-level array are those with this checksum."""
        name = _safe(name)
        found, _ = decoded(lambda: self._group[name][lo:hi])
        return found is not None and checksum(found) == crc32

    # -- bytes

    def sweep(self):
        """Delete what writers that were killed have left: files half written, and scratch."""
        self._bytes.delete_partial()
        if self._local:
            remove_tree(self.scratch)

    def _map(self, function, items):
        return self._bytes.map(function, items)

    def _set(self, key, data):
        self._bytes.set(key, data)

    def _get(self, key, start=None, stop=None):
        with storage_errors(f"run: reading {key} of {self.location}"):
            return self._bytes.get(key, start, stop)

    def _delete(self, key):
        self._bytes.delete(key)

    @property
    def scratch(self):
        """Local folder for what lasts as long as one stage; hidden in the run directory where that is local."""
        if not self._local:
            return Path(self._own_scratch())
        self._bytes.refuse_links(".scratch")
        return Path(self.address) / ".scratch"

    def _own_scratch(self):
        """Make the scratch folder of a run behind a URL, once."""
        with self._making_scratch:
            if self._scratch is None:
                self._scratch = temporary_folder("scratch")
                delete_with(self, self._scratch)
            return self._scratch

    def delete_when_unused(self):
        """Delete the directory once nothing refers to this run, or to an array that was taken from it."""
        self._is_temporary = True
        delete_with(self._group.store, self.address)  # arrays refer to the store, not to the run

    def close(self):
        """Give up the lock."""
        if self._lease is not None:
            self._lease.release()

    def _check_lease(self):
        if self._lease is not None:
            self._lease.check()


class _Entries:
    """The ledger entries that were read last, as many as are small in all."""

    _ROOM = 200_000  # parts

    def __init__(self):
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Any] = OrderedDict()
        self._parts = 0

    def get(self, stage, block):
        with self._lock:
            return self._kept.get((stage, block))

    def put(self, stage, block, entry):
        self.drop(stage, block)
        with self._lock:
            self._kept[stage, block] = entry
            self._parts += _parts(entry)
            while self._parts > self._ROOM:
                self._parts -= _parts(self._kept.popitem(last=False)[1])
        return entry

    def drop(self, stage, block):
        with self._lock:
            self._parts -= _parts(self._kept.pop((stage, block), {"arrays": {}}))


def _parts(entry):
    return sum(len(meta["crc32"]) for meta in entry["arrays"].values())


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
        self._name = None
        self._base, self._top, self._own = base, top, frozenset(own)

    @classmethod
    def over(cls, base, own):
        """Return a run over a finished one, in a new temporary directory that the caller deletes."""
        top = Run(temporary_run())
        top.bind({"over": base.id})
        return cls(base, top, own)

    @property
    def places(self):
        """Paths and URLs that it reads."""
        return [*self._base.places, *self._top.places]

    def recipe(self):
        """Return how a task on another process opens the same two."""
        return Overlay, (self._base, self._top, sorted(self._own))

    @property
    def identity(self):
        """What the base is a run of."""
        return self._base.identity

    def delete_when_unused(self):
        """Delete the directory on top; see :meth:`Run.delete_when_unused`."""
        super().delete_when_unused()
        self._top._is_temporary = True

    def _map(self, function, items):
        return self._base._map(function, items)

    def _holder(self, stage, block):
        return self._top if stage in self._own or self._top.done(stage, block) else self._base

    def blocks(self):
        """Return stage and number of every block that is read through here, in order."""
        below = [found for found in self._base.blocks() if found[0] not in self._own]
        return sorted({*below, *super().blocks()})

    def done(self, stage, block):
        """Whether the ledger of either has the block."""
        return self._holder(stage, block).done(stage, block)

    def reader(self, stage, block):
        """Return a function that reads arrays of a block; see :meth:`Run.reader`."""
        return self._holder(stage, block).reader(stage, block)

    def entry(self, stage, block):
        """Return the ledger entry of a block."""
        return self._holder(stage, block).entry(stage, block)


_GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'


def _spans(meta):
    """Ranges of parts that hold some megabytes each: what is checked is held in memory."""
    row = math.prod(meta["shape"][1:]) * np.dtype(meta["dtype"]).itemsize
    size, first = len(meta["crc32"]), 0
    for last in range(1, size + 1):
        if last == size or (meta["bounds"][last] - meta["bounds"][first]) * row >= CHECKED_BYTES:
            yield first, last
            first = last


def _objects(path, array):
    """Keys and bytes of a Zarr array of one chunk."""
    found = {f"{path}/zarr.json": _array_metadata(array)}
    if array.size:
        found[f"{path}/{_chunk_key(array.ndim)}"] = array.reshape(-1).view(np.uint8).data
    return found


def _description(array, bounds):
    """What the ledger says of an array."""
    pieces = [array[a:b] for a, b in itertools.pairwise(bounds)] if array.ndim else [array]
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "bounds": bounds,
        "crc32": [checksum(piece) for piece in pieces],
    }


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


def _leaves(tree):
    """Dotted names of what stands in nested dicts."""
    for key, value in tree.items():
        yield from (f"{key}.{leaf}" for leaf in _leaves(value)) if isinstance(value, dict) else [key]


DIFFERENCES = 8  # lines of them that a message has


def _differences(stored, asked, unnamed):
    """Lines that tell what is stored from what is asked for; settings of another method are not compared."""
    names = [name for name in sorted({*_leaves(stored), *_leaves(asked)}) if _at(stored, name) != _at(asked, name)]
    if "settings.method" in names:
        names = ["settings.method", *(name for name in names if not name.startswith("settings."))]
    pairs = [
        (name, *(unnamed.get(name) if (found := _at(tree, name)) is None else found for tree in (stored, asked)))
        for name in names
    ]
    lines = [f"  {name}: stored {old!r}, asked {new!r}" for name, old, new in pairs]
    more = [f"  and {len(lines) - DIFFERENCES} more"] if len(lines) > DIFFERENCES else []
    return lines[:DIFFERENCES] + more


def _at(tree, name):
    for key in name.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _safe(name):
    if not NAME.match(name):
        raise RunError(f"run: {name!r} is not a name; use letters, digits, '_', '-', '=' and '.'")
    return name


def _block_path(stage, block):
    return f"{_safe(stage)}/{int(block):07d}"


def _ledger_key(stage, block):
    return f"{_block_path(stage, block)}/zarr.json"


def _chunk_key(ndim):
    return ".".join(["c"] + ["0"] * ndim)
