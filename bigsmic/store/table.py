"""A table that grows at its end: a Zarr group of one-dimensional arrays, one for each column."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bigsmic.errors import RunError
from bigsmic.store.destinations import look
from bigsmic.store.objects import LocalBytes, is_first_write, storage_errors

MARK = "bigsmic_table"
CHUNK_ROWS = 1024


class Table:
    """A Zarr group with an array for each column, and the number of valid rows as an attribute.

    Parameters
    ----------
    path : str
        Local folder, created when the first row is written.
    columns : dict of str to dtype
        All dtypes must be numeric.
    attributes : dict
        Further JSON-like attributes for readers.

    Raises
    ------
    RunError
        The folder holds something else.
    """

    def __init__(self, path: str, columns: Mapping[str, DTypeLike], attributes: Mapping[str, Any]) -> None:
        self.path = path
        self.columns = {name: np.dtype(dtype) for name, dtype in columns.items()}
        self._attributes = attributes

    def admit(self) -> None:
        """Raise RunError if something else is at the path, or columns of a table are lost.

        A killed writer of the first row may have left a part of the columns.
        """
        is_taken = os.path.lexists(self.path) and not os.path.isdir(self.path)
        if not is_taken:
            found = look(LocalBytes(self.path))
            is_own = found.is_group and (MARK in found.attributes or {*found.members} <= {*self.columns})
            is_taken = not (found.is_free or is_own)
            lost = sorted({*self.columns} - {*found.members}) if MARK in found.attributes else []
            if lost and not is_taken:
                raise self._damaged(f"lacks the column {lost[0]}")
        if is_taken:
            raise RunError(f"table: {self.path} is something else, and is not overwritten; move it away")

    def write(self, number: int, row: Mapping[str, Any]) -> None:
        """Write a row. An existing row is overwritten, so that a killed writer can repeat its last one."""
        import zarr

        self.admit()
        with storage_errors(f"table: writing row {number} of {self.path}"):
            group = zarr.open_group(self.path, mode="a", zarr_format=3)
            arrays = {name: self._array(group, name) for name in self.columns}
            for name, array in arrays.items():
                array.resize((max(number + 1, array.shape[0]),))
                array[number] = row[name]
            rows = max(number + 1, self._rows(group))
            group.update_attributes({MARK: {"rows": rows, **self._attributes}})

    def read(self) -> dict[str, NDArray[Any]]:
        """All valid rows: an ndarray for each column, empty if there is no table yet."""
        import zarr

        self.admit()
        if not os.path.isdir(self.path) or all(is_first_write(name) for name in os.listdir(self.path)):
            return {name: np.empty(0, dtype) for name, dtype in self.columns.items()}
        with storage_errors(f"table: reading {self.path}"):
            group: Any = zarr.open_group(self.path, mode="r", zarr_format=3)
            rows = self._rows(group)
            short = [name for name in self.columns if rows and group[name].shape[0] < rows]
            if not short:
                return {name: group[name][:rows] if rows else np.empty(0, kind) for name, kind in self.columns.items()}
        raise self._damaged(f"has {rows} rows, and {group[short[0]].shape[0]} of the column {short[0]}")

    def _damaged(self, why: str) -> RunError:
        return RunError(f"table: {self.path} {why}; restore it, or move {self.path} away, and a new one is begun")

    def _rows(self, group: Any) -> int:
        return int(group.attrs.get(MARK, {}).get("rows", 0))

    def _array(self, group: Any, name: str) -> Any:
        dtype = self.columns[name]
        if name not in group:
            return group.create_array(name, shape=(0,), chunks=(CHUNK_ROWS,), dtype=dtype)
        if group[name].dtype != dtype or group[name].ndim != 1:
            raise RunError(f"table: {self.path}/{name} is not a column of {dtype}; move {self.path} away")
        return group[name]
