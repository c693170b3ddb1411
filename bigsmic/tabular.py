"""Rows of results for other programs: tables in files, and datasets of xarray."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.runtime.context import Context
from bigsmic.types import StrPath


class TabularViews:
    """What a Result has of its rows for other programs."""

    location: str
    settings: Any
    _rows: Any

    if TYPE_CHECKING:

        @cached_property
        def labels(self) -> NDArray[np.int32]:
            """Cluster of every row."""

        @property
        def n_clusters(self) -> int:
            """Number of clusters."""

        @property
        def _context(self) -> Context: ...
        def _refuse_undecided(self, what: str) -> None: ...

    def export(self, path: StrPath, *, columns: Sequence[str] | None = None) -> str:
        """Write labels, and how sure they are, as a table of one row for each row of the input.

        Rows are read and written in blocks, and the table takes its name when it is whole.

        Parameters
        ----------
        path : str or Path
            Of what is not there yet. Its end says what is written: ``.csv`` and ``.parquet`` (pyarrow, the extra
            ``parquet``) have columns ``row``, ``label``, ``name``, ``agreement``, ``noise`` and ``posterior_0``
            to ``posterior_<c - 1>``; ``.npy`` a structured array with fields of these names and ``posterior`` of shape
            (c,); ``.zarr`` a group of arrays of these names and ``posterior`` of shape (n, c).
        columns : sequence of str, optional
            Which of ``row``, ``label``, ``name``, ``agreement``, ``noise`` and ``posterior`` to write, in their order;
            by default all that the run has: names where clusters have some. Rows are numbered as in the archive.

        Returns
        -------
        path : str
            Absolute.

        Raises
        ------
        InputError
            A path that ends in something else, a column that the fit lacks, or a fit without labels.
        RunError
            There is something at `path`, or around it a run or a Zarr array; or it is a URL.
        StorageError
            The disk is full, or refuses.
        """
        from bigsmic.export import export

        self._refuse_undecided("export")
        return export(self._context, path, columns)

    def to_xarray(self, like: Any = None) -> Any:
        """Labels, and how sure they are, with the coordinates of the rows.

        Parameters
        ----------
        like : xarray.DataArray, optional
            The rows, whose coordinates are taken. By default those of the DataArray that was fitted: the Result of the
            fit knows them, its copies, cuts and pickles too. A run directory does not have them, so that a Result that
            was opened from one has none without `like`.

        Returns
        -------
        dataset : xarray.Dataset
            ``label``, and as far as the fit has them ``agreement``, ``noise``, and ``posterior`` with the dimension
            ``cluster``: dask arrays, which are read when they are used. The dimension of the rows is that of the
            DataArray, or ``row``.

        Raises
        ------
        InputError
            A fit without labels, rows of another number, coordinates that are called as one of the variables, or no
            xarray (the extra ``xarray``).
        """
        from bigsmic import labelled

        self._refuse_undecided("to_xarray")
        rows = self._rows if like is None else labelled.given_coordinates(like)
        facts = {"run": self.location, "method": self.settings.method, "n_clusters": self.n_clusters}
        return labelled.dataset(self._context, self.labels, rows, facts)
