"""Types of arguments and results, by the names that signatures use."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray


class ArrayOnDemand(Protocol):
    """An array that is read when it is sliced, such as those of Zarr, Dask, h5py and xarray."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths along every axis."""

    @property
    def dtype(self) -> Any:
        """Type of the entries."""

    def __getitem__(self, key: Any, /) -> Any: ...


class DaskClient(Protocol):
    """A :class:`distributed.Client`, which is imported only if one is given."""

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        """Run a function on the cluster."""

    def scheduler_info(self, *args: Any, **kwargs: Any) -> Any:
        """Facts of the scheduler and its workers."""


StrPath: TypeAlias = str | os.PathLike[str]
"""A path, or a URL as a string."""
Rows: TypeAlias = ArrayLike | ArrayOnDemand | StrPath
"""Rows in memory, rows read in blocks, or their location."""

Floats: TypeAlias = NDArray[np.floating[Any]]
Integers: TypeAlias = NDArray[np.integer[Any]]
Sample: TypeAlias = tuple[NDArray[np.float32], NDArray[np.int32]]
"""Rows and their labels."""

Labels: TypeAlias = NDArray[np.int32] | Any
"""Labels: an ndarray, or the Zarr or dask array that was asked for."""
Posterior: TypeAlias = NDArray[np.float32] | Any
"""Posteriors: an ndarray, or the Zarr or dask array that was asked for."""

StorageOptions: TypeAlias = Mapping[str, Any] | None
"""Options of the file system behind a URL."""
MemoryLimit: TypeAlias = int | str | None
"""Bytes, or a size such as ``"1GiB"``."""
Progress: TypeAlias = bool | Callable[[str, int, int], object] | None
"""Whether to show progress, or a function of stage, blocks done and blocks in total."""
Client: TypeAlias = DaskClient | Literal[False] | None
"""Client of a Dask cluster; False for no cluster, even if a client is active."""
RandomState: TypeAlias = int | np.random.RandomState | None
"""Seed in any form that scikit-learn accepts."""
WeightFunction: TypeAlias = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[Any]]
"""Weights of edges from squared distances and the scales of both ends."""

Scale: TypeAlias = Literal["auto", "standard", "mixed", "variance"] | None
Preset: TypeAlias = Literal["paper"] | None
NeighborSearch: TypeAlias = Literal["auto", "exact", "pynndescent"]
