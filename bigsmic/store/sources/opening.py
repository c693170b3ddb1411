"""Sources for the kinds of input that callers pass; other kinds are refused with a remedy."""

import os
from typing import Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.store import admission
from bigsmic.store.destinations import as_location
from bigsmic.store.objects import absolute
from bigsmic.store.redaction import shown
from bigsmic.store.sources.base import Source, kind_of
from bigsmic.store.sources.column_names import names_of
from bigsmic.store.sources.dask_arrays import DaskSource, numbers_of
from bigsmic.store.sources.npy_files import NpySource, is_npy
from bigsmic.store.sources.sliced import SlicedSource
from bigsmic.store.sources.table_files import TableSource, is_table
from bigsmic.store.sources.windowed import WindowSource, group_of
from bigsmic.store.sources.zarr_arrays import ZarrSource, is_zarr, open_array
from bigsmic.types import Floats, StorageOptions, StrPath
from bigsmic.validation import brief, check_storage_options, refuse_other_rank, to_array


def open_source(
    data: Any, component: str | None = None, storage_options: StorageOptions = None, missing_chunks: str = "error"
) -> "Source":
    """Open rows for reading in blocks.

    Parameters
    ----------
    data : str, Path, zarr.Array, dask array or dataframe, ndarray, memmap, array_like, or Source, shape (n, d)
        A path or URL names a Zarr v2 or v3 array, or, together with `component`, a group; a path may also name a
        ``.npy`` file, which is read range by range, or a ``.csv``, ``.tsv`` or ``.parquet`` table. Arrays that are
        sliced, such as an h5py dataset or an xarray variable, are held a block at a time. Rows of a dask dataframe, or
        of a table, are counted, which reads it once.
    component : str, optional
        Path of the array within the group, of Zarr or HDF5; of a table, names of columns, separated by commas.
    storage_options : dict, optional
        For the file system behind a URL; never written anywhere.
    missing_chunks : {"error", "fill"}
        Whether an absent chunk is an error, or is read as the array's fill value.

    Returns
    -------
    source : Source

    Raises
    ------
    InputError
        The input cannot be read, is not two-dimensional, or not of a real dtype.

    Notes
    -----
    Numbers are decoded by the attributes of the CF conventions, which xarray writes; see :mod:`bigsmic.store.decoding`.
    """
    check_storage_options(storage_options)
    if missing_chunks not in ("error", "fill"):
        raise InputError(f"missing_chunks: got {missing_chunks!r}; use 'error' or 'fill'")
    if not (component is None or isinstance(component, str)):
        raise InputError(f"component: got {brief(component)}; give a name as text, or of a table, names with commas")
    if isinstance(data, str | os.PathLike):
        source = _source_at(absolute(as_location(data, "input")), component, storage_options, missing_chunks)
    else:
        source = _source_of(_member(data, component), missing_chunks)
    _check_rows(source, data)
    return source


def _source_at(location: StrPath, component: str | None, storage_options: StorageOptions, missing_chunks: str) -> Any:
    """The source for a path or URL."""
    if is_table(location):
        return TableSource(str(location), component)
    if not is_npy(location):
        return _source_of(open_array(location, component, storage_options), missing_chunks)
    if component is not None:
        raise InputError(f"input: {location!r} is an array, which has no component={component!r}; leave it out")
    return NpySource(location)


def _member(data: Any, component: str | None) -> Floats:
    """The array that was passed, or a component of the group that was passed."""
    if admission.is_group(data):
        return admission.choose_member(data, component, shown(getattr(data, "store_path", kind_of(data))))
    if component is not None:
        raise InputError(f"input: got component={component!r} for an array, which has none; leave it out")
    return data


def _source_of(data: Any, missing_chunks: str) -> "Source":
    if isinstance(data, Source):
        return data
    admission.refuse_unreadable(data)
    if is_zarr(data):
        windows = group_of(data)
        return ZarrSource(data, missing_chunks) if windows is None else WindowSource(data, missing_chunks, windows)
    return _in_process(data, missing_chunks).named(names_of(data))


def _in_process(data: Any, missing_chunks: str) -> "Source":
    """The source for rows in memory, or for a dask array or dataframe."""
    if admission.is_dask_frame(data):
        data = numbers_of(data)
    if admission.is_dask(data):
        return DaskSource(data, missing_chunks)
    if admission.reads_ranges(data):
        return DaskSource(data.data, missing_chunks) if admission.is_lazy_dask(data) else SlicedSource(data)
    if admission.is_frame(data) and np.asanyarray(data.iloc[:0]).dtype == object:  # truth values beside numbers, say
        data = data.to_numpy(np.float64, na_value=np.nan)
    return Source(to_array("input", data), "array")


def _check_rows(source: Source, data: Any) -> None:
    if not source.shape:
        raise InputError("input: got a single value or object; give an array (n_samples, n_features), or its location")
    if source.dtype.names:
        raise InputError(
            f"input: got shape {source.shape} of a structured array with the fields {brief(source.dtype.names)}; give "
            "these as columns: numpy.lib.recfunctions.structured_to_unstructured(X)"
        )
    refuse_other_rank("input", source.shape, data)
    if source.dtype.kind not in "fiub":
        raise InputError(f"input: dtype {source.dtype} is not real or integer; convert the array to a numeric dtype")
    if source.dtype.itemsize > 8:
        raise InputError(f"input: dtype {source.dtype} has no counterpart in Zarr; convert the array to float64")
