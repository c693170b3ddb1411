"""Blocks of named arrays in a run, each with a ledger entry that says that the block is done."""

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import CorruptBlockError, RunError
from bigsmic.store.block_arrays import GROUP, block_path, chunk_key, description, ledger_key, objects_of, safe, spans
from bigsmic.store.lease import GROUP as LEASE
from bigsmic.store.ledger import NAME, EntryCache, read_entry, write_entry
from bigsmic.store.objects import checksum, storage_errors
from bigsmic.store.run_group import RunGroup

_exhaust: Any = deque(maxlen=0).extend  # takes an iterator for its effects
_BLOCK = re.compile(r"[0-9]{7,}\Z")


class BlockStore(RunGroup):
    """The group of a run with its blocks, which are written, checked on reading, struck off the ledger, and deleted."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._entries = EntryCache()
        super().__init__(*arguments, **options)

    def write(
        self, stage: str, block: int, arrays: dict[str, Any], parts: Any = None, info: dict[str, Any] | None = None
    ) -> None:
        """Write the arrays of one block, then its ledger entry.

        Parameters
        ----------
        stage : str
        block : int
        arrays : dict of str to ndarray
        parts : dict of str to ndarray of int, optional
            Row bounds of the parts of an array. Each part has a checksum of its own and can be read alone.
        info : dict, optional
            Small JSON-like facts kept in the entry.
        """
        self._check_lease()
        self._entries.drop(stage, block)
        entry: dict[str, Any] = {"arrays": {}, "info": info or {}}
        where = block_path(stage, block)
        objects: dict[str, Any] = {}
        for name, array in arrays.items():
            array = np.asarray(array, order="C")
            bounds = [0, len(array)] if array.ndim else [0]
            if parts and name in parts:
                bounds = [int(b) for b in parts[name]]
            entry["arrays"][name] = description(array, bounds)
            objects |= objects_of(f"{where}/{safe(name)}", array)
        node = write_entry((self.id, stage, int(block)), entry)
        with storage_errors(f"{stage}: writing block {block} to {self.location}"):
            self._bytes.ensure(f"{safe(stage)}/zarr.json", GROUP)  # each time, as another process may have deleted it
            _exhaust(self._map(lambda key: self._set(key, objects[key]), objects))
            self._set(ledger_key(stage, block), node)

    def write_changed(self, stage: str, block: int, arrays: dict[str, Any]) -> None:
        """Write a block, unless it has exactly these arrays already."""
        stored = self._ledger(stage, block)
        wanted = {name: description(array, [0, len(array)]) for name, array in arrays.items()}
        if stored is None or stored["arrays"] != wanted:
            self.forget(stage, block)
            self.write(stage, block, arrays)

    def done(self, stage: str, block: int) -> bool:
        """Whether the ledger says that the block is complete.

        Raises
        ------
        CorruptBlockError
            It is the first block of a stage that the finished fit wrote, and the run is open for reading: what reads
            stages that not all fits have would go on as if this fit had none.
        """
        is_done = self._ledger(stage, block) is not None
        if not (is_done or block or self._writable) and stage in self._kept:
            what = f"{stage}: block 0, which the fit wrote, is not in the ledger of {self.location}"
            raise self.damaged(what, stage, block)
        return is_done

    def is_torn(self, stage: str, block: int) -> bool:
        """Whether there is an entry of the block that cannot be used, as it is damaged or of another block or run."""
        raw = self._get(ledger_key(stage, block))
        return raw is not None and read_entry((self.id, stage, int(block)), raw) is None

    @property
    def _kept(self) -> list[str]:
        """Stages that the finished fit wrote; none if it has not ended."""
        names: Any = (self.attribute("kept") or {}).get("stages", [])
        return list(names)

    def refuse_lost(self) -> None:
        """Raise CorruptBlockError if the first block of a stage that the finished fit wrote is not in the ledger."""
        self.missing_first(self._kept)

    def missing_first(self, stages: Iterable[str]) -> list[str]:
        """Return those stages whose first block is not done, in order; see `missing`."""
        stages = list(stages)
        done = self._map(lambda stage: self.done(stage, 0), stages)
        return [stage for stage, is_done in zip(stages, done, strict=True) if not is_done]

    def missing(self, stage: str, blocks: Iterable[int]) -> list[int]:
        """Return the members of `blocks` that are not done, in order; requests to an object store are concurrent."""
        blocks = list(blocks)
        done = self._map(lambda block: self.done(stage, block), blocks)
        return [block for block, is_done in zip(blocks, done, strict=True) if not is_done]

    def gather(
        self, stage: str, blocks: Iterable[int], names: Sequence[str], part: int | None = None
    ) -> Iterator[list[NDArray[Any]]]:
        """Yield for each block the list of its arrays of these names; requests to an object store are concurrent.

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

        def load(block: int) -> list[Any]:
            read = self.reader(stage, block)
            return [read(name, part) for name in names]

        return self._map(load, blocks)

    def _ledger(self, stage: str, block: int) -> dict[str, dict[str, Any]] | None:
        return read_entry((self.id, stage, int(block)), self._get(ledger_key(stage, block)))

    def entry(self, stage: str, block: int) -> dict[str, Any]:
        """Return the ledger entry of a block, or raise CorruptBlockError if there is none."""
        entry = self._ledger(stage, block)
        if entry is None:
            raise self.damaged(f"{stage}: block {block} is not in the ledger of {self.location}", stage, block)
        return entry

    def damaged(self, what: str, stage: str, block: int) -> Any:
        """Return the error that says which part of a block is damaged, and the remedy."""
        if self._local and not Path(self.address).is_dir():
            remedy = self._way_out if self._is_temporary else "restore it, or fit the rows again with this out="
            return RunError(f"run: {self.location} no longer exists; {remedy}")
        return self._replacement() or CorruptBlockError(f"{what}; {self._way_out}", stage, block)

    def read(self, stage: str, block: int, name: str, part: int | None = None) -> NDArray[Any]:
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
            The array is missing, or differs from what was written.
        """
        return self.reader(stage, block)(name, part)

    def reader(self, stage: str, block: int) -> Callable[..., Any]:
        """Return a function ``(name, part=None) -> ndarray`` that reads arrays of a block; see `read`.

        The ledger entry is read once, or taken from this process's cache. If another process has written the block
        since, the checksum shows it, and the entry is read again.
        """
        entry, is_new = self._entries.get(stage, block), False
        if entry is None:
            entry, is_new = self._entries.put(stage, block, self.entry(stage, block)), True

        def read(name: str, part: int | None = None) -> NDArray[Any]:
            nonlocal entry, is_new
            try:
                return self._read_part(stage, block, name, entry, part)
            except CorruptBlockError:
                if is_new:
                    raise
            entry, is_new = self._entries.put(stage, block, self.entry(stage, block)), True
            return self._read_part(stage, block, name, entry, part)

        return read

    def infos(self, stage: str, blocks: Iterable[int]) -> list[dict[str, Any]]:
        """Return the `info` of each block; see `write`."""
        return list(self._map(lambda block: self.info(stage, block), blocks))

    def _read_part(self, stage: str, block: int, name: str, entry: Any, part: int | None) -> NDArray[Any]:
        meta = entry["arrays"].get(name)
        if meta is None or (part is not None and part >= len(meta["crc32"])):
            self._corrupt(stage, block, name, "is not in the ledger")
        return self._read_array(stage, block, name, meta, (0, len(meta["crc32"])) if part is None else (part, part + 1))

    def info(self, stage: str, block: int) -> dict[str, Any]:
        """Return the `info` of a block; see `write`."""
        return self.entry(stage, block)["info"]

    def _read_array(self, stage: str, block: int, name: str, meta: dict[str, Any], parts: Any) -> NDArray[Any]:
        dtype, shape, bounds = np.dtype(meta["dtype"]), tuple(meta["shape"]), meta["bounds"]
        path = f"{block_path(stage, block)}/{safe(name)}/{chunk_key(len(shape))}"
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

    def _corrupt(self, stage: str, block: int, name: str, what: str) -> NoReturn:
        raise self.damaged(f"{stage}: {name} of block {block} in {self.location} {what}", stage, block)

    def blocks(self) -> list[tuple[str, int]]:
        """Return stage and number of every block that exists at least in part, done or not, in order."""
        return [
            (stage, int(block))
            for stage in self.stages()
            for block in self._bytes.folders(stage)
            if _BLOCK.match(block)
        ]

    def stages(self) -> list[str]:
        """Return the names of the stages of which something exists, done or not, and of other groups and arrays."""
        return [name for name in self._bytes.folders("") if NAME.match(name) and name != LEASE]

    def numbers(self, stage: str) -> list[int]:
        """Return the numbers of the blocks of a stage that are in the ledger, ascending."""
        there = [int(block) for block in self._bytes.folders(safe(stage)) if _BLOCK.match(block)]
        missing = set(self.missing(stage, there))
        return [block for block in there if block not in missing]

    def check(self, stage: str, block: int) -> None:
        """Strike a block off the ledger if one of its arrays differs from what was written."""
        try:
            for name, meta in self.entry(stage, block)["arrays"].items():
                for parts in spans(meta):
                    self._read_array(stage, block, name, meta, parts)
        except CorruptBlockError:
            self.forget(stage, block)

    def forget(self, stage: str, block: int) -> None:
        """Strike a block off the ledger, so that it is done again."""
        self._entries.drop(stage, block)
        with storage_errors(f"{stage}: striking block {block} off the ledger of {self.location}"):
            self._delete(ledger_key(stage, block))

    def drop(self, stage: str, blocks: Iterable[int]) -> None:
        """Delete a whole stage, ledger first, so that a half-deleted block never counts as done."""
        _exhaust(self._map(lambda block: self.forget(stage, block), blocks))
        with storage_errors(f"{stage}: deleting from {self.location}"):
            self._bytes.delete_tree(safe(stage))

    def drop_stages(self, prefixes: tuple[str, ...]) -> None:
        """Delete all stages whose names begin with one of some prefixes, with blocks that a killed writer left."""
        for stage, blocks in groupby(self.blocks(), key=itemgetter(0)):
            if stage.startswith(prefixes):
                self.drop(stage, [block for _, block in blocks])
