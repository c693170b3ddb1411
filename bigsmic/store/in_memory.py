"""Copies of runs: in another run directory, or in memory and pickled with their bytes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from bigsmic.errors import RunError
from bigsmic.store.run import Run
from bigsmic.store.run_group import FORMAT_VERSION


class CarriedRun(Run):
    """A run without a directory: its bytes are in memory and in its pickle.

    Parameters
    ----------
    location : str
        Name in messages.
    files : dict of str to ndarray of uint8, optional
        Bytes by key, as in a run directory.
    """

    def __init__(self, location: str, files: Any = None) -> None:
        import zarr
        from zarr.core.buffer.cpu import Buffer

        held: dict[str, Any] = {key: Buffer.from_array_like(data) for key, data in (files or {}).items()}
        self._memory = zarr.storage.MemoryStore(held)
        super().__init__("memory://", lock=False)
        self.location = location

    @classmethod
    def of(cls, run: Any) -> "CarriedRun":
        """Return an empty copy of a run, with the run's own identifier, so that two pickles have the same bytes."""
        made = cls(f"the pickled part of {run.location}")
        facts = {"run": run.id, "identity": run.identity, "summary": run.attribute("summary")}
        made.update({"bigsmic_format": FORMAT_VERSION} | facts)
        return made

    def _open(self, mode: Any) -> Any:
        import zarr

        return zarr.open_group(self._memory, mode="a", zarr_format=3)

    @property
    def places(self) -> list[str]:
        """Paths and URLs that the run reads: none."""
        return []

    def __reduce__(self) -> Any:
        # not by Shared, whose cache would keep the run alive until the process has opened enough others
        return CarriedRun, self.recipe()

    def recipe(self) -> Any:
        """Return the arguments that make the same run in another process: all of its bytes."""
        files = sorted(self._memory._store_dict.items())  # sorted, as threads insert them in any order
        return self.location, {key: data.as_numpy_array() for key, data in files}

    def entry(self, stage: str, block: int) -> Any:
        """Return the ledger entry of a block."""
        return super().entry(stage, block) if self.done(stage, block) else self._refuse(stage)

    def _read_part(self, stage: str, block: int, name: str, entry: dict[str, Any], part: int | None) -> Any:
        return super()._read_part(stage, block, name, entry, part) if name in entry["arrays"] else self._refuse(stage)

    def stored_array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Return the top-level Zarr array of a name."""
        return self._array_like(name, shape, dtype) or self._refuse(name)

    def _refuse(self, what: str) -> Any:
        raise RunError(
            f"run: {what!r} is missing from {self.location}: a pickle contains what predictions need, and the rest "
            "only as far as there is room; give the fit out=, or keep the whole result by result.save(path)"
        )


def copy_block(source: Any, target: Any, stage: str, block: int, names: Sequence[str] | None = None) -> None:
    """Copy a block of a run, or some of its arrays; every byte is checked.

    Parameters
    ----------
    source : Run
    target : Run
        Open for writing.
    stage : str
    block : int
    names : collection of str, optional
        All arrays by default.

    Raises
    ------
    CorruptBlockError
    """
    entry, read = source.entry(stage, block), source.reader(stage, block)
    kept = {name: meta for name, meta in entry["arrays"].items() if names is None or name in names}
    parts = {name: meta["bounds"] for name, meta in kept.items() if meta["shape"]}
    target.write(stage, block, {name: read(name) for name in kept}, parts=parts, info=entry["info"])


def copy_array(array: Any, target: Any, name: str) -> None:
    """Copy an array that users read, block by block; every row is checked.

    Parameters
    ----------
    array : CheckedArray
    target : Run
        Open for writing.
    name : str

    Raises
    ------
    CorruptBlockError
    """
    height = array.chunks[0]
    target.create(name, array.shape, height, array.dtype)
    for lo in range(0, len(array), height):
        target.write_rows(name, lo, array[lo : lo + height])


def block_bytes(run: Any, stage: str, block: int, names: Sequence[str] | None = None) -> int:
    """Bytes of the arrays of a block, or of some of them."""
    kept = [meta for name, meta in run.entry(stage, block)["arrays"].items() if names is None or name in names]
    return sum(int(np.prod(meta["shape"], dtype=np.int64)) * np.dtype(meta["dtype"]).itemsize for meta in kept)
