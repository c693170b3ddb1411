"""Names of columns, where what holds the rows has them: frames, labelled arrays, groups of Zarr that these wrote."""

from typing import Any

import numpy as np

from bigsmic.store.checked_arrays import decoded

TEXT = "UTOS"
"""Kinds of dtypes that names have: numbers along the columns, such as times of samples, name nothing."""


def names_of(data: Any) -> list[str]:
    """Names of the columns of rows in memory.

    Parameters
    ----------
    data : array_like, DataFrame or DataArray, shape (n, d)

    Returns
    -------
    names : list of str
        The columns of a frame; the coordinate of the second dimension of a DataArray. Empty where there are none, or
        other than text.
    """
    if hasattr(data, "columns"):
        return [str(name) for name in data.columns]
    if hasattr(data, "coords") and getattr(data, "ndim", 0) == 2:
        return _texts(data.coords.get(data.dims[1]), data.shape[1])
    return []


def names_beside(array: Any) -> list[str]:
    """Names stored beside an array in its Zarr group; empty where they cannot be decoded.

    Parameters
    ----------
    array : zarr.Array, shape (n, d)

    Returns
    -------
    names : list of str
        The coordinate of the second dimension, as xarray writes it; the index of ``var`` beside the ``X`` that AnnData
        wrote. Empty where there are none, or other than text.
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
    """Name of the dimension of the columns, which its coordinate has too."""
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    return names[1] if isinstance(names, list | tuple) and len(names) == 2 and isinstance(names[1], str) else None


def _index_of_var(group: Any) -> str | None:
    index, _ = decoded(lambda: group["var"].attrs.get("_index"))
    return f"var/{index}" if isinstance(index, str) else None


def _texts(found: Any, d: int) -> list[str]:
    """Texts of a vector of `d` of them."""
    values, _ = decoded(lambda: np.asarray(found[...]) if getattr(found, "shape", None) == (d,) else None)
    return [str(value) for value in values] if values is not None and values.dtype.kind in TEXT else []
