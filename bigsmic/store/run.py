"""The run directory: blocks of named arrays, and a ledger of the blocks that are done.

A run directory is one Zarr group. A stage is a group in it, a block of a stage a group in that, an artifact of
the block one uncompressed array of one chunk, so that any reader of Zarr can open it and a part of it is a range of
bytes. The ledger entry of a block is in the attributes of its group and is written last; a block that has one is done.
The entry contains the checksum of every part, and is sealed together with the name of the block and the identity of the
run. Nothing is inferred from chunks, as Zarr silently reads an absent chunk as fill values.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bigsmic.errors import RunError, StorageError
from bigsmic.store.block_arrays import safe
from bigsmic.store.blocks import BlockStore
from bigsmic.store.checked_arrays import CheckedArray, decoded
from bigsmic.store.objects import READ_ONLY, checksum, storage_errors


class Run(BlockStore):
    """A run directory: blocks of named arrays, a ledger per stage, the identity of the fit, and arrays for its user.

    Parameters, attributes and errors are those of :class:`~bigsmic.store.run_group.RunGroup`.
    """

    def recipe(self) -> Any:
        """Return how a task in another process opens the same run, whose blocks are in files from then on."""
        self.settle()
        return Run, (self.address, self._options, self._writable, False)

    def for_writing(self) -> Any:
        """Return the same run, open for writing and locked; the caller closes it.

        Raises
        ------
        RunLockedError
            Another process writes to it.
        RunError
            It can only be read, as on a file system that is mounted read-only; or it was deleted, moved or replaced.
        """
        self._refuse_another()
        try:
            return Run(self.address, self._options)
        except StorageError as error:
            if error.errno not in READ_ONLY:
                raise
            raise RunError(
                f"run: {self.location} can only be read ({os.strerror(error.errno)}); allow this process to write "
                "there, or save a copy where it may, Result.open(run).save(copy), and change that"
            ) from error

    def _refuse_another(self) -> None:
        """Refuse a location where this run no longer is: opened for writing, it would be made anew, or be another."""
        remedy = "restore it, or open the run that is meant by Result.open"
        if self._bytes.get("zarr.json") is None:
            raise RunError(f"run: {self.location} no longer exists, as if it had been deleted or moved; {remedy}")
        if Run(self.address, self._options, writable=False).id != self.id:
            raise RunError(f"run: {self.location} has been replaced by another run since it was opened; {remedy}")

    def create(self, name: str, shape: tuple[int, ...], chunk_rows: int, dtype: DTypeLike) -> bool:
        """Create a chunked, compressed array at the top of the run, unless it exists.

        Returns
        -------
        is_new : bool
            Whether it was created: then it has no rows yet, even if the ledger has entries for an earlier one.
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
        """Return a lazy top-level array, whose rows are checked on reading; see :class:`CheckedArray`."""
        return CheckedArray(self, stage, name, shape, dtype)

    def stored_array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Return the top-level Zarr array of a name, which must have the layout that `create` gives it.

        Raises
        ------
        RunError
        """
        with storage_errors(f"{name}: opening in {self.location}"):
            self._bytes.refuse_links(safe(name))
            found = self._array_like(name, shape, dtype)
        if found is None:
            if (replaced := self._replacement()) is not None:
                raise replaced
            where = self.location if self._bytes.get("zarr.json") is None else f"{self.location}/{name}/zarr.json"
            raise RunError(
                f"run: {where} no longer exists, or does not describe an array of {np.dtype(dtype)} {shape}; "
                f"{self._way_out}"
            )
        return found

    def _array_like(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """The array of a name, if it has this shape and dtype, and chunks of whole rows; else None."""
        found, _ = decoded(lambda: self._group[name])
        facts, _ = decoded(lambda: (found.shape, found.dtype, found.chunks[1:], found.shards))
        if facts != (tuple(shape), np.dtype(dtype), tuple(shape[1:]), None):
            return None
        return found if 0 < found.chunks[0] <= max(1, shape[0]) else None

    def write_rows(self, name: str, lo: int, values: NDArray[Any]) -> None:
        """Write whole chunks of a top-level array."""
        self._check_lease()
        with storage_errors(f"{name}: writing rows {lo}:{lo + len(values)} to {self.location}"):
            array = self._group[safe(name)].with_config({"write_empty_chunks": True})  # zarr does not store this
            array[lo : lo + len(values)] = values

    def check_rows(self, name: str, lo: int, hi: int, crc32: int) -> bool:
        """Whether rows of a top-level array have this checksum."""
        name = safe(name)
        found, _ = decoded(lambda: self._group[name][lo:hi])
        return found is not None and checksum(found) == crc32
