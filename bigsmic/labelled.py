"""Results as xarray datasets, with the coordinates of the fitted rows.

The coordinates come from the DataArray that was fitted or is given; a run directory has none. xarray is imported when a
dataset is made, and the columns of the dataset are read when they are used.
"""

from typing import Any, NamedTuple

import numpy as np

from bigsmic.errors import InputError
from bigsmic.runtime.context import Context
from bigsmic.stages import naming, selected
from bigsmic.stages.rowwise_output import read_array

CLUSTERS = "cluster"
"""Dimension of the columns of a posterior."""
ROWS = "row"
"""Name of the dimension of rows, if they have none."""
NAMES = "name"
"""Coordinate of the clusters with the names that a user gave them; empty where one has none."""
LAZY = ("agreement", "noise", "posterior")
"""Variables that are read when they are used; ``label`` is in memory, as ``Result.labels`` is."""


class RowCoordinates(NamedTuple):
    """Dimension and coordinates of the rows of a DataArray.

    Parameters
    ----------
    dim : hashable
        Name of their dimension.
    n : int
    coordinates : xarray.Dataset
        Their coordinates, without variables.
    """

    dim: Any
    n: int
    coordinates: Any


def coordinates_of(data: Any) -> RowCoordinates | None:
    """Coordinates of the rows of a DataArray; None for any other input.

    Entries of the array are not read, and no reference to them is kept.
    """
    if not (hasattr(data, "isel") and hasattr(data, "coords") and getattr(data, "ndim", 0) == 2):
        return None
    rows = data.isel({data.dims[1]: slice(0, 0)}).coords.to_dataset()
    of_columns = [name for name, values in rows.coords.items() if data.dims[1] in values.dims]
    return RowCoordinates(data.dims[0], data.shape[0], rows.drop_vars(of_columns))


def given_coordinates(like: Any) -> RowCoordinates:
    """Coordinates of the rows of a caller's DataArray; InputError if it is not one of rows and columns."""
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
        xarray is not installed, the number of rows differs, or a coordinate has the name of a variable.
    """
    xarray = _xarray()
    dim = ROWS if rows is None else rows.dim
    coordinates = {} if rows is None else _admitted(rows, context).coordinates.coords
    lazy = {name: _lazy(context, name) for name in LAZY if name in context.run.info("output", 0)}
    found = {name: ((dim, CLUSTERS)[: values.ndim], values) for name, values in ({"label": labels} | lazy).items()}
    made = xarray.Dataset(found, coords=coordinates, attrs=attributes)
    made = made.assign_coords({CLUSTERS: np.arange(made.sizes[CLUSTERS])})
    if names := naming.given(context):
        made = made.assign_coords({NAMES: (CLUSTERS, [names.get(k, "") for k in range(made.sizes[CLUSTERS])])})
    return made


def _lazy(context: Context, name: str) -> Any:
    from bigsmic.lazy import lazily_read

    return lazily_read(read_array(context, name))


def _admitted(rows: RowCoordinates, context: Context) -> RowCoordinates:
    """The coordinates of the fitted rows, selected from those of the archive where the fit used some of its rows."""
    n, fitted = context.n, selected.read(context.run)
    if rows.n != n and rows.n >= fitted.stop and selected.is_part(context.run):
        rows = RowCoordinates(rows.dim, n, rows.coordinates.isel({rows.dim: fitted.numbers(0, n)}))
    if rows.n != n:
        raise InputError(
            f"to_xarray: got coordinates of {rows.n:,} rows, but the fit has {n:,}; give the rows of the fit"
        )
    made = {"label", *LAZY, CLUSTERS, *([NAMES] if naming.given(context) else [])}
    taken = sorted(made & {str(name) for name in (rows.dim, *rows.coordinates.coords)})
    if taken:
        raise InputError(
            f"to_xarray: the rows have coordinates {taken}, which are names of the result's variables; rename them, "
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
