"""Names of columns, from data frames, labelled arrays, and the Zarr groups that xarray and AnnData write."""

from typing import Any

import numpy as np

from bigsmic.store.checked_arrays import decoded

TEXT = "UTOS"
"""Kinds of dtypes that count as names; numbers along the columns, such as times of samples, do not."""


def names_of(data: Any) -> list[str]:
    """Names of the columns of rows in memory.

    Parameters
    ----------
    data : array_like, DataFrame or DataArray, shape (n, d)

    Returns
    -------
    names : list of str
        The columns of a frame, or the coordinate of the second dimension of a DataArray. Empty if there are none, or
        they are not text.
    """
    if hasattr(data, "columns"):
        names = list(data.columns)
        return names if all(isinstance(name, str) for name in names) else []
    if hasattr(data, "coords") and getattr(data, "ndim", 0) == 2:
        return _texts(data.coords.get(data.dims[1]), data.shape[1])
    return []


def names_beside(array: Any) -> list[str]:
    """Names stored beside an array in its Zarr group; empty if they cannot be decoded.

    Parameters
    ----------
    array : zarr.Array, shape (n, d)

    Returns
    -------
    names : list of str
        The coordinate of the second dimension, as xarray writes it, or the index of ``var`` beside an ``X`` that
        AnnData wrote. Empty if there are none, or they are not text.
    """
    import zarr

    folder, _, name = array.path.rpartition("/")
    if not name:
        return []
    group, _ = decoded(lambda: zarr.open_group(array.store_path.store, path=folder, mode="r"))
    if group is None:
        return []
    places = [_dimension(array), _index_of_var(group) if name == "X" else None]
    found = (_texts(decoded(lambda place=place: group[place])[0], array.shape[1]) for place in places if place)
    return next((names for names in found if names), [])


def _dimension(array: Any) -> str | None:
    """Name of the dimension of the columns, which is also the name of its coordinate."""
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    return names[1] if isinstance(names, list | tuple) and len(names) == 2 and isinstance(names[1], str) else None


def _index_of_var(group: Any) -> str | None:
    index, _ = decoded(lambda: group["var"].attrs.get("_index"))
    return f"var/{index}" if isinstance(index, str) else None


def _texts(found: Any, d: int) -> list[str]:
    """A stored vector as a list of `d` texts; empty if it is anything else.

    With pandas 3, AnnData writes a group of its ``values`` and of a ``mask`` of those that are missing.
    """
    if hasattr(type(found), "array_keys"):
        values, _ = decoded(lambda: found["values"])
        missing, _ = decoded(lambda: np.asarray(found["mask"][...]).any())  # chunks of a mask without any are absent
        found = None if missing else values
    values, _ = decoded(lambda: np.asarray(found[...]) if getattr(found, "shape", None) == (d,) else None)
    return [str(value) for value in values] if values is not None and values.dtype.kind in TEXT else []
