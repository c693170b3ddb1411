"""An eigensolver's basis on local disk."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bigsmic.errors import StorageError
from bigsmic.store.objects import read_full, remove_tree, storage_errors, write_full
from bigsmic.types import Floats, Integers


class FileBasis:
    """Columns of a tall matrix on local disk, in row blocks: an eigensolver's basis when memory is short.

    The files are plain and Fortran-ordered, so that a range of columns of a block is a range of bytes, and last as long
    as the solve. They are read and written, not mapped, so that their pages do not count as memory of the process.

    Parameters
    ----------
    folder : str or Path
        Local directory; made if absent.
    bounds : array_like of int, shape (p + 1,)
    capacity : int
        Number of columns that fit.
    dtype : dtype
    """

    def __init__(self, folder: Path, bounds: Integers, capacity: int, dtype: DTypeLike = np.float32) -> None:
        self.bounds, self.capacity, self.dtype = np.asarray(bounds, np.int64), capacity, np.dtype(dtype)
        self._folder = Path(folder)
        self._heights = np.diff(self.bounds)
        self._folder.mkdir(parents=True, exist_ok=True)

    def read(self, block: int, start: int, stop: int) -> Floats:
        """Return a Fortran-ordered copy of columns ``start:stop`` of a block."""
        out = np.empty((self._heights[block], stop - start), self.dtype, order="F")
        if out.size:
            with open(self._folder / f"{block}.f", "rb", buffering=0) as file:
                file.seek(start * self._column_bytes(block))
                _read_full(file, out.T)
        return out

    def write(self, block: int, start: int, columns: Any) -> None:
        """Store `columns` from column `start` on."""
        path = self._folder / f"{block}.f"
        with (
            storage_errors(f"eigen: writing the basis to {path}"),
            open(os.open(path, os.O_RDWR | os.O_CREAT), "r+b", buffering=0) as file,
        ):
            file.seek(start * self._column_bytes(block))
            write_full(file, np.ascontiguousarray(columns.T, self.dtype))

    def _column_bytes(self, block: int) -> int:
        return int(self._heights[block]) * self.dtype.itemsize

    def close(self) -> None:
        """Delete the files."""
        remove_tree(self._folder)


def _read_full(file: Any, array: NDArray[Any]) -> None:
    if read_full(file, array.reshape(-1).view(np.uint8)) < array.nbytes:
        raise StorageError(f"eigen: {file.name} is shorter than what was written to it; run fit again")
