"""Rows of a group of windows: those that are complete, and which of them may be used."""

from functools import cached_property
from typing import Any

import numpy as np

from bigsmic.errors import StorageError
from bigsmic.store.admission import WINDOW_ROWS, WINDOWS, is_window_group
from bigsmic.store.sources.zarr_arrays import ZarrSource, insisting, reopened

ARRAYS = (WINDOW_ROWS, "start", "time", "source", "valid")
OF_MIXED_UNITS = frozenset(("summary", "spectral", "catch22"))
"""Features whose columns are levels, correlations, frequencies: in units of their own."""


def group_of(array: Any) -> Any:
    """The group of windows whose features an array is; None for any other array."""
    import zarr

    folder, _, name = array.path.rpartition("/")
    if name != WINDOW_ROWS:
        return None
    try:
        group = zarr.open_group(array.store_path.store, path=folder, mode="r", zarr_format=3, use_consolidated=False)
    except (FileNotFoundError, PermissionError, KeyError, ValueError):  # no group: then these are rows like any others
        return None
    return group if is_window_group(group) else None


class WindowSource(ZarrSource):
    """Rows of a group of windows that are complete.

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
        """Return how a task on another process opens the same rows."""
        return reopened, (WindowSource, self.array, self._missing, self._group)

    @cached_property
    def _valid(self) -> Any:
        self.refuse_unseen()
        return insisting(self._group["valid"], self._missing)

    @property
    def mixed_units(self) -> bool:
        """Whether features are among them that are in units of their own; samples and functions do not say."""
        return not OF_MIXED_UNITS.isdisjoint(self._group.attrs[WINDOWS]["definition"]["features"])

    @property
    def column_names(self) -> list[str]:
        """Names of the features."""
        return list(self._group.attrs[WINDOWS]["columns"])

    @property
    def shape(self) -> Any:
        """(n, d) of the windows that are complete."""
        return (self._rows, self.array.shape[1])

    def valid(self, lo: int, hi: int) -> Any:
        """Which of rows ``lo:hi`` may be used: ndarray of bool."""
        from bigsmic.store.retrying import AbsentChunkError

        try:
            return np.asarray(self._valid[lo:hi], bool)
        except AbsentChunkError as error:
            raise StorageError(
                f"input: chunk {error} beside {self.name} is missing, so that nobody knows which windows of rows "
                f"{lo}:{hi} may be used; make the windows anew in another place"
            ) from None
