"""Rows of dask arrays."""

from typing import Any

import numpy as np

from bigsmic.errors import InputError, StorageError
from bigsmic.store.sources.base import Source, plain
from bigsmic.store.sources.zarr_arrays import insisting, is_zarr, places_of
from bigsmic.types import Floats


class DaskSource(Source):
    """Rows of a dask array, computed range by range on the calling thread, or on the cluster that holds them.

    Parameters
    ----------
    array : dask array, shape (n, d)
    missing_chunks : {"error", "fill"}
        Whether an absent chunk of a Zarr array in its graph is an error, or is read as fill values.
    """

    _SMALL = 1 << 20  # bytes that a graph may hold and still be sent to workers

    def __init__(self, array: Any, missing_chunks: str = "error") -> None:
        super().__init__(_whole(array) if missing_chunks == "error" else array, "dask array")
        if any(np.isnan(array.shape)):
            raise InputError("input: the dask array has unknown chunk sizes; call .compute_chunk_sizes() on it first")
        self._scheduler = next((value.client for value in self._held if _is_future(value)), "synchronous")

    @property
    def _held(self) -> Any:
        """Contents of the graph: arrays, futures, and calls of functions."""
        return (getattr(value, "value", value) for value in dict(self.array.dask).values())

    @property
    def band_bytes(self) -> int:
        """Bytes of the largest chunk of rows."""
        return int(max(self.array.chunks[0], default=0)) * self.shape[1] * self.dtype.itemsize

    @property
    def travels(self) -> bool:
        """Whether the graph reads its rows from storage, and does not contain them."""
        if self._scheduler != "synchronous":
            return False
        return sum(value.nbytes for value in self._held if isinstance(value, np.ndarray)) <= self._SMALL

    @property
    def places(self) -> list[str]:
        """Paths and URLs of the Zarr arrays in the graph."""
        return [place for value in self._held if is_zarr(value) for place in places_of(value)]

    def origin(self) -> Any:
        """Return Dask's name of the array, which is derived from its inputs."""
        return self.array.name

    def read(self, lo: int, hi: int) -> Floats:
        """Return rows ``lo:hi``."""
        from bigsmic.store.retrying import AbsentChunkError, refusing_absent_chunks

        try:
            with refusing_absent_chunks():
                rows = self.array[lo:hi].compute(scheduler=self._scheduler)
        except AbsentChunkError as error:
            raise StorageError(
                f"input: rows {lo}:{hi} of the {self.name} are of a Zarr array whose chunk {error.args[0]} is missing, "
                "and would read as fill values; restore it, or, if the writer leaves out chunks that hold only the "
                "fill value, pass missing_chunks='fill'"
            ) from None
        self._refuse_others(rows, lo, hi)
        return plain(rows, lo)

    def _refuse_others(self, rows: Any, lo: int, hi: int) -> None:
        """Refuse rows that are not what the array says of them, as with wrong `chunks` or `meta` of map_blocks."""
        shape, dtype = getattr(rows, "shape", None), getattr(rows, "dtype", None)
        claimed = int(hi - lo), self.shape[1]
        if shape != claimed:
            raise InputError(
                f"input: rows {lo} to {hi - 1} of the dask array have shape {shape} once computed, and {claimed} by "
                "its chunks; call .compute_chunk_sizes() on it, or mend its chunks"
            )
        if dtype != self.dtype and np.dtype(dtype).kind not in "fiub":
            raise InputError(
                f"input: rows {lo} to {hi - 1} of the dask array have dtype {dtype} once computed, and {self.dtype} by "
                "its meta; convert its blocks to a numeric dtype"
            )


def _whole(array: Any) -> Any:
    """The array, of whose graph the Zarr arrays refuse absent chunks."""
    graph = dict(array.dask)
    stored = {key: insisting(value, "error") for key, value in graph.items() if is_zarr(value)}
    return type(array)(graph | stored, array.name, array.chunks, meta=array._meta) if stored else array


def numbers_of(frame: Any, lengths: Any = True) -> Any:
    """A dask array of the columns of a dask dataframe.

    Parameters
    ----------
    frame : dask dataframe
    lengths : tuple of int, optional
        Rows of the partitions; by default they are counted, which computes the frame once.
    """
    mixed = np.asanyarray(frame._meta).dtype == object  # truth values beside numbers
    return (frame.astype(np.float64) if mixed else frame).to_dask_array(lengths=lengths)


def _is_future(value: Any) -> bool:
    """Whether a value in a graph is a result on a cluster, as in a persisted array."""
    return hasattr(value, "client") and hasattr(value, "key") and hasattr(value, "result")
