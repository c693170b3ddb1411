"""The run directory: blocks of named arrays, and a ledger that says which of them are done.

A run directory is one Zarr group. A stage is a group in it, a block of a stage a group in that, an artifact of
the block one uncompressed array of one chunk, so that any reader of Zarr can open it and a part of it is a range of
bytes. A block is done when its ledger entry, the attributes of its group, written last, says so; the entry carries
the checksum of every part, and is sealed together with the name of the block and the identity of the run.
Nothing is inferred from chunks: an absent chunk reads as fill value without a word.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bigsmic.errors import RunError
from bigsmic.store.block_arrays import safe
from bigsmic.store.blocks import BlockStore
from bigsmic.store.checked_arrays import CheckedArray, decoded
from bigsmic.store.objects import checksum, storage_errors


class Run(BlockStore):
    """A run directory: blocks of named arrays, a ledger per stage, what the run is a run of, and arrays for its user.

    Parameters, attributes and errors are those of :class:`~bigsmic.store.run_group.RunGroup`.
    """

    def recipe(self) -> Any:
        """Return how a task on another process opens the same run."""
        return Run, (self.address, self._options, self._writable, False)

    def for_writing(self) -> Any:
        """Return the same run, open for writing and locked; the caller closes it.

        Raises
        ------
        RunLockedError
            Another process writes to it.
        """
        return Run(self.address, self._options)

    def create(self, name: str, shape: tuple[int, ...], chunk_rows: int, dtype: DTypeLike) -> bool:
        """Make a chunked array at the top of the run, compressed, for readers of Zarr, unless it is there.

        Returns
        -------
        is_new : bool
            Whether it was made: then it has no rows yet, whatever the ledger says of an earlier one.
        """
        with storage_errors(f"{name}: creating in {self.location}"):
            self._bytes.refuse_links(safe(name))
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

    def array(self, stage: str, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> CheckedArray:
        """Return a top-level array, lazy, whose rows are checked when they are read; see :class:`CheckedArray`."""
        return CheckedArray(self, stage, name, shape, dtype)

    def stored_array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Return the Zarr array of a name at the top, which must be as `create` makes it.

        Raises
        ------
        RunError
        """
        with storage_errors(f"{name}: opening in {self.location}"):
            self._bytes.refuse_links(safe(name))
            found = self._array_like(name, shape, dtype)
        if found is None:
            where = self.location if self._bytes.get("zarr.json") is None else f"{self.location}/{name}/zarr.json"
            raise RunError(
                f"run: {where} is not there any more, or does not describe an array of {np.dtype(dtype)} {shape}; "
                f"{self._way_out}"
            )
        return found

    def _array_like(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """The array of a name, if it has this shape and dtype and blocks of rows for chunks; else None."""
        found, _ = decoded(lambda: self._group[name])
        facts, _ = decoded(lambda: (found.shape, found.dtype, found.chunks[1:], found.shards))
        if facts != (tuple(shape), np.dtype(dtype), tuple(shape[1:]), None):
            return None
        return found if 0 < found.chunks[0] <= max(1, shape[0]) else None

    def write_rows(self, name: str, lo: int, values: NDArray[Any]) -> None:
        """Write whole chunks of a top-level array."""
        self._check_lease()
        with storage_errors(f"{name}: writing rows {lo}:{lo + len(values)} to {self.location}"):
            array = self._group[safe(name)].with_config({"write_empty_chunks": True})  # forgotten where it is opened
            array[lo : lo + len(values)] = values

    def check_rows(self, name: str, lo: int, hi: int, crc32: int) -> bool:
        """Whether rows of a top-level array are those with this checksum."""
        name = safe(name)
        found, _ = decoded(lambda: self._group[name][lo:hi])
        return found is not None and checksum(found) == crc32
