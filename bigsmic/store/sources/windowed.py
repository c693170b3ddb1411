"""Rows of a group of windows: the complete ones, and the mask of those that may be used."""

from functools import cached_property
from typing import Any

import numpy as np

from bigsmic.errors import StorageError
from bigsmic.store.admission import WINDOW_ROWS, WINDOWS, is_window_group
from bigsmic.store.objects import releasing_errors
from bigsmic.store.sources.zarr_arrays import ZarrSource, insisting, reopened

ARRAYS = (WINDOW_ROWS, "start", "time", "source", "valid")
OF_MIXED_UNITS = frozenset(("summary", "spectral", "catch22"))
"""Features whose columns are in different units, such as levels, correlations and frequencies."""


def group_of(array: Any) -> Any:
    """The group of windows to which an array of features belongs; None for any other array."""
    import zarr

    place, (folder, _, name) = array.store_path.store, array.path.rpartition("/")
    if name != WINDOW_ROWS:
        return None
    try:
        with releasing_errors():
            group = zarr.open_group(place, path=folder, mode="r", zarr_format=3, use_consolidated=False)
    except (FileNotFoundError, PermissionError, KeyError, ValueError):  # not in such a group: rows like any others
        return None
    return group if is_window_group(group) else None


class WindowSource(ZarrSource):
    """The complete rows of a group of windows.

    Parameters
    ----------
    array : zarr.Array
        The features.
    missing_chunks : {"error", "fill"}
    group : zarr.Group
    """

    def __init__(self, array: Any, missing_chunks: Any, group: Any) -> None:
        self._rows, self._group = int(group.attrs[WINDOWS]["rows"]), group
        super().__init__(array, missing_chunks)

    has_windows = True

    def recipe(self) -> Any:
        """Return how a task in another process opens the same rows."""
        return reopened, (WindowSource, self.array, self._missing, self._group)

    @cached_property
    def _valid(self) -> Any:
        self.refuse_unseen()
        return insisting(self._group["valid"], self._missing)

    @property
    def mixed_units(self) -> bool:
        """Whether features in different units are among the columns; False for samples and functions."""
        return not OF_MIXED_UNITS.isdisjoint(self._group.attrs[WINDOWS]["definition"]["features"])

    @property
    def column_names(self) -> list[str]:
        """Names of the features."""
        return list(self._group.attrs[WINDOWS]["columns"])

    @property
    def shape(self) -> Any:
        """(n, d) of the complete windows."""
        return (self._rows, self.array.shape[1])

    def valid(self, lo: int, hi: int) -> Any:
        """Mask of rows ``lo:hi`` that may be used, ndarray of bool."""
        from bigsmic.store.retrying import AbsentChunkError

        try:
            return np.asarray(self._valid[lo:hi], bool)
        except AbsentChunkError as error:
            raise StorageError(
                f"input: chunk {error} beside {self.name} is missing, so that it is unknown which windows of rows "
                f"{lo}:{hi} may be used; compute the windows again in another location"
            ) from None
