"""Facts about rows and columns that a run lacks and a caller gives: names, channels, times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from bigsmic.errors import InputError
from bigsmic.plots.times import checked_times
from bigsmic.store.side_inputs import read_array
from bigsmic.types import StorageOptions
from bigsmic.validation import check_integer
from bigsmic.views.layout import MOST_ROWS


@dataclass(frozen=True)
class Details:
    """Options of a report.

    Parameters
    ----------
    column_names : sequence of str
        Of all columns, or none.
    columns_per_channel : int, optional
        Number of columns of one channel, if columns are ordered by channel.
    times : ndarray, shape (n,), optional
        A time for every row.
    map_rows : int
        Rows of the map; 0 for no map.
    """

    column_names: Sequence[str] = field(default_factory=tuple)
    columns_per_channel: int | None = None
    times: Any = None
    map_rows: int = MOST_ROWS

    @classmethod
    def names(cls) -> set[str]:
        """Names of the options."""
        return {declared.name for declared in fields(cls)}

    @classmethod
    def of(cls, shape: tuple[int, int], given: Mapping[str, Any], storage_options: StorageOptions = None) -> Self:
        """Validate the given options.

        Parameters
        ----------
        shape : tuple of int
            Of the rows of the run.
        given : dict
            Options by name; `times` may be a file, see :func:`bigsmic.store.side_inputs.read_array`.
        storage_options : dict, optional

        Raises
        ------
        InputError
            There is not one name for each column or one time for each row, or a number is out of its range.
        """
        found = {name: value for name, value in given.items() if value is not None}
        n, d = shape
        if "column_names" in found:
            found["column_names"] = _checked_names(found["column_names"], d)
        if "columns_per_channel" in found:
            check_integer("columns_per_channel", found["columns_per_channel"], 1)
        if "times" in found:
            found["times"] = checked_times(read_array("times", found["times"], storage_options), n)
        if "map_rows" in found:
            check_integer("map_rows", found["map_rows"], 0)
            if found["map_rows"] > MOST_ROWS:
                raise InputError(f"map_rows: got {found['map_rows']:,}; use at most {MOST_ROWS:,}, or 0 for no map")
        return cls(**found)


def _checked_names(names: Any, d: int) -> tuple[str, ...]:
    try:
        is_list = not isinstance(names, str) and np.ndim(names) == 1
    except ValueError:  # lists of several lengths
        is_list = False
    if not is_list:
        raise InputError(f"column_names: got {names!r}; give a list of names, one for each column")
    if len(names) != d:
        raise InputError(f"column_names: got {len(names):,} names for {d:,} columns; give one for each column")
    return tuple(str(name) for name in names)
