"""Per-row results for other programs: tables in files, and xarray datasets."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.runtime.context import Context
from bigsmic.stages.rowwise_output import read_array
from bigsmic.store import CarriedRun
from bigsmic.types import StrPath


class TabularViews:
    """Methods of a Result that export per-row results to other programs."""

    settings: Any
    _rows: Any

    if TYPE_CHECKING:

        @property
        def location(self) -> str:
            """The run directory."""

        @cached_property
        def labels(self) -> NDArray[np.int32]:
            """Cluster of every row."""

        @property
        def n_clusters(self) -> int | None:
            """Number of clusters."""

        @property
        def _context(self) -> Context: ...
        def _refuse_undecided(self, what: str) -> None: ...

    def export(self, path: StrPath, *, columns: Sequence[str] | None = None) -> str:
        """Write labels, and how certain they are, as a table with one row for each row of the input.

        Rows are read and written in blocks, and the table is renamed to `path` when complete.

        Parameters
        ----------
        path : str or Path
            Must not exist yet. The suffix determines the format: ``.csv`` and ``.parquet`` (pyarrow, the extra
            ``parquet``) have columns ``row``, ``label``, ``name``, ``agreement``, ``noise`` and ``posterior_0`` to
            ``posterior_<c - 1>``; ``.npy`` a structured array with fields of these names and ``posterior`` of shape
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
            The path has another suffix, the fit lacks a column, or it has no labels.
        RunError
            `path` exists, lies within a run or a Zarr array, or is a URL.
        StorageError
            The disk is full, or a write fails.
        """
        from bigsmic.export import export

        self._refuse_undecided("export")
        run = self._context.run
        labels = self.labels if isinstance(run, CarriedRun) else read_array(self._context, "labels")  # or in blocks
        return export(self._context, labels, path, columns)

    def to_xarray(self, like: Any = None) -> Any:
        """Labels, and how certain they are, with the coordinates of the rows.

        Parameters
        ----------
        like : xarray.DataArray, optional
            The rows, whose coordinates are used. By default the coordinates of the DataArray that was fitted, which the
            Result of the fit, its copies, cuts and pickles have. A run directory does not store them, so that a Result
            opened from one has none without `like`.

        Returns
        -------
        dataset : xarray.Dataset
            ``label``, and as far as the fit has them ``agreement``, ``noise``, and ``posterior`` with the dimension
            ``cluster``: dask arrays, which are read when they are used. If clusters have names, ``cluster`` has them as
            the coordinate ``name``, empty for clusters without. The dimension of the rows is that of the
            DataArray, or ``row``. Attributes ``run``, its path, ``method`` and ``n_clusters``.

        Raises
        ------
        InputError
            The fit has no labels, the number of rows differs, a coordinate has the name of a variable, or xarray (the
            extra ``xarray``) is not installed.
        """
        from bigsmic import labelled

        self._refuse_undecided("to_xarray")
        rows = self._rows if like is None else labelled.given_coordinates(like)
        facts = {"run": self.location, "method": self.settings.method, "n_clusters": self.n_clusters}
        return labelled.dataset(self._context, self.labels, rows, facts)
