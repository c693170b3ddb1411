"""Lazy predictions for dask arrays: one chunk of predictions for every chunk of rows.

Dask decides where and when they are computed. The model is in the graph once, whatever the number of chunks, and is
pickled like a Result; see :mod:`bigsmic.portable`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from dask import delayed
from dask.array import Array, from_array
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.validation import refuse_other_rank


class Answer(NamedTuple):
    """Kind of the result for one row.

    Parameters
    ----------
    dtype : dtype
    width : int, optional
        Number of columns; None for a single value.
    """

    dtype: Any
    width: int | None = None

    @property
    def meta(self) -> Any:
        """An empty array of this kind."""
        return np.empty((0,) if self.width is None else (0, self.width), self.dtype)


@dataclass(frozen=True)
class Lazily:
    """Calls methods of a model on the chunks of dask arrays.

    Parameters
    ----------
    model : object
        Its methods take rows in memory; it is pickled if tasks run in other processes.
    columns : int
        Number of columns that rows must have.
    key : str
        Name of the model in graphs.
    """

    model: Any
    columns: int
    key: str

    def __call__(self, method: str, rows: Any, answer: Answer) -> Array:
        """Dask array of the results of `method` for rows.

        Parameters
        ----------
        method : str
            Messages begin with its name.
        rows : dask array, shape (m, d)
            Chunk sizes along the rows may be unknown.
        answer : Answer

        Raises
        ------
        InputError
            `rows` are no dask array of real numbers with so many columns.
        """
        self._check(rows, method)
        if rows.numblocks[1] > 1:
            rows = rows.rechunk({1: -1})
        model = delayed(self.model, name=self.key, traverse=False)
        shape: dict[str, Any] = {"drop_axis": 1}
        if answer.width is not None:
            shape = {"chunks": (rows.chunks[0], (answer.width,))}
        return rows.map_blocks(_answer, model, method, name=None, dtype=answer.dtype, meta=answer.meta, **shape)

    def _check(self, rows: Any, who: str) -> None:
        if not isinstance(rows, Array):
            raise InputError(f"{who}: got a dask {type(rows).__name__}; give a dask array or dataframe")
        refuse_other_rank(who, rows.shape)
        if rows.dtype.kind not in "fiub" or not isinstance(rows._meta, np.ndarray):
            raise InputError(
                f"{who}: the dask array has chunks of {type(rows._meta).__name__}, dtype {rows.dtype}; convert them "
                "to dense arrays of numbers"
            )
        if not np.isnan(rows.shape[1]) and rows.shape[1] != self.columns:
            raise InputError(
                f"{who}: X has {rows.shape[1]} features, but the fit was made with {self.columns} features; "
                f"give rows of {self.columns} columns"
            )


def _answer(rows: NDArray[Any], model: Any, method: str) -> Any:
    return getattr(model, method)(rows)


def rows_of(data: Any, lengths: bool) -> Array:
    """Dask array of the rows of a dask array or dataframe.

    Parameters
    ----------
    data : dask array or dataframe
    lengths : bool
        Whether to count the rows of a dataframe, which computes it once.
    """
    return data.to_dask_array(lengths=lengths or None) if hasattr(data, "to_dask_array") else data


def lazily_read(array: Any) -> Any:
    """Dask array of a :class:`~bigsmic.store.CheckedArray`; its blocks are read and checked when they are computed."""
    return from_array(array, chunks=array.chunks)
