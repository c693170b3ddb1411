"""Results with the coordinates of the rows that were fitted: datasets of xarray.

The coordinates are those of the DataArray that was fitted or is given; a run directory has none. xarray is imported
where a dataset is made, and the columns of the dataset are read when they are used.
"""

from typing import Any, NamedTuple

import numpy as np

from bigsmic.errors import InputError
from bigsmic.runtime.context import Context
from bigsmic.stages import selected
from bigsmic.stages.rowwise_output import read_array

CLUSTERS = "cluster"
"""Dimension of the columns of a posterior."""
ROWS = "row"
"""Dimension of rows that have no name."""
LAZY = ("agreement", "noise", "posterior")
"""Variables that are read when they are used; ``label`` is in memory, as ``Result.labels`` is."""


class RowCoordinates(NamedTuple):
    """What a DataArray says of its rows.

    Parameters
    ----------
    dim : hashable
        Name of their dimension.
    n : int
    coordinates : xarray.Dataset
        Their coordinates, and no variables.
    """

    dim: Any
    n: int
    coordinates: Any


def coordinates_of(data: Any) -> RowCoordinates | None:
    """What a DataArray says of its rows; None of any other input.

    Entries of the array are neither read nor referred to.
    """
    if not (hasattr(data, "isel") and hasattr(data, "coords") and getattr(data, "ndim", 0) == 2):
        return None
    rows = data.isel({data.dims[1]: slice(0, 0)}).coords.to_dataset()
    of_columns = [name for name, values in rows.coords.items() if data.dims[1] in values.dims]
    return RowCoordinates(data.dims[0], data.shape[0], rows.drop_vars(of_columns))


def given_coordinates(like: Any) -> RowCoordinates:
    """What a caller gives says of its rows; InputError if it is no DataArray of rows."""
    found = coordinates_of(like)
    if found is None:
        raise InputError(
            f"like: got {type(like).__name__} of {getattr(like, 'ndim', 'no')} dimensions; give a DataArray of xarray, "
            "of rows and columns"
        )
    return found


def dataset(context: Context, labels: Any, rows: RowCoordinates | None, attributes: dict[str, Any]) -> Any:
    """Dataset of labels, agreement, noise and posterior, as far as the fit has them.

    Parameters
    ----------
    context : Context
        Of a finished fit.
    labels : ndarray of int32, shape (n,)
    rows : RowCoordinates or None
    attributes : dict

    Returns
    -------
    dataset : xarray.Dataset

    Raises
    ------
    InputError
        xarray is not installed, or the rows are of another number or have coordinates that are called as a variable.
    """
    xarray = _xarray()
    dim = ROWS if rows is None else rows.dim
    coordinates = {} if rows is None else _admitted(rows, context).coordinates.coords
    lazy = {name: _lazy(context, name) for name in LAZY if name in context.run.info("output", 0)}
    found = {name: ((dim, CLUSTERS)[: values.ndim], values) for name, values in ({"label": labels} | lazy).items()}
    made = xarray.Dataset(found, coords=coordinates, attrs=attributes)
    return made.assign_coords({CLUSTERS: np.arange(made.sizes[CLUSTERS])})


def _lazy(context: Context, name: str) -> Any:
    from bigsmic.lazy import lazily_read

    return lazily_read(read_array(context, name))


def _admitted(rows: RowCoordinates, context: Context) -> RowCoordinates:
    """The coordinates of fitted rows, from theirs or from those of the whole archive."""
    n, fitted = context.n, selected.read(context.run)
    if rows.n != n and rows.n >= fitted.stop and selected.is_part(context.run):
        rows = RowCoordinates(rows.dim, n, rows.coordinates.isel({rows.dim: fitted.numbers(0, n)}))
    if rows.n != n:
        raise InputError(f"to_xarray: got coordinates of {rows.n:,} rows, the fit has {n:,}; give the rows of the fit")
    taken = sorted({"label", *LAZY, CLUSTERS} & {str(name) for name in (rows.dim, *rows.coordinates.coords)})
    if taken:
        raise InputError(
            f"to_xarray: the rows have coordinates called {taken}, as the result's own variables are; rename them, "
            f"such as like=rows.rename({taken[0]}='true_{taken[0]}')"
        )
    return rows


def _xarray() -> Any:
    try:
        import xarray
    except ImportError as error:
        raise InputError(
            f"to_xarray: xarray is not installed ({error}); pip install 'bigsmic[xarray]', or use labels and posterior"
        ) from None
    return xarray
