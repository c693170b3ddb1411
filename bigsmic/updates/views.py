"""Views of a Result on the archive of its rows."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import AbsentResultError
from bigsmic.numerics.selection import Selection
from bigsmic.stages import distinct, selected, update_log
from bigsmic.types import Rows

if TYPE_CHECKING:
    from bigsmic.runtime.context import Context
    from bigsmic.updates.updating import Update, Updates


class ArchiveViews:
    """Fitted rows of an archive, labels of all rows seen, and updates."""

    _run: Any
    labels: Any

    if TYPE_CHECKING:

        @property
        def _context(self) -> Context: ...
        def _check_predicts(self, what: str = "predict") -> None: ...
        def _refuse_undecided(self, what: str) -> None: ...
        def _score(self, score: str, data: Any, options: Mapping[str, Any]) -> Any: ...

    @cached_property
    def _selection(self) -> Selection:
        return selected.read(self._run)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Number in the archive of every fitted row, ascending: ndarray of int64, shape (n,).

        These are all rows, unless the fit was given ``rows=``, or windows of which some are invalid.
        """
        found: NDArray[np.int64] = self._selection.numbers(0, len(self._selection))
        return found

    def archive_labels(self) -> NDArray[np.int32]:
        """Cluster of every row of the archive that the fit and its updates have seen: ndarray of int32, one per row.

        -1 for rows that are in no cluster, are invalid, or were not fitted.
        """
        found = np.full(self._selection.stop, -1, np.int32)
        found[self.rows] = self.labels
        new: NDArray[np.int32] = update_log.read_all(self._run, "labels", np.empty(0, np.int32))
        return np.concatenate([found, new])

    def update(self, data: Rows, **options: Any) -> "Update":
        """Label the rows of the archive that were added after the fit, and store the labels in the run.

        Rows after those that the fit and earlier updates have seen are labelled block by block, as by `predict`, and
        appended to ``updates`` of the run. A repeated call finds nothing new, and a killed call is finished by the next
        one. The archive may grow meanwhile; rows added after the start of the call are left to the next one, and so is
        a last line of text without an end, which may be half written.

        Parameters
        ----------
        data : str, Path, Zarr array, array_like or Windows, shape (m, d)
            The archive of the fit, with more rows at its end.
        **options
            `component`, `storage_options`, `missing_chunks`, `client`, `scheduler`, `engine` and `progress`, as in
            :func:`bigsmic.fit`; `n_threads`, 1 by default; `stop`, the number of the row before which to end;
            ``verify="all"``, which checks all earlier rows for changes, instead of some blocks.

        Returns
        -------
        update : Update
            The new rows.

        Raises
        ------
        InputError
            The result is not in a run directory, or the fit left the number of clusters open.
        RunMismatchError
            The archive is another one, has become shorter, or has changed rows.
        RunLockedError
            Another process writes to the run.
        RunError, StorageError
            The run can only be read, or workers cannot see it or the archive.
        ClusterError
            The cluster does not answer, or workers are lost repeatedly; the same call resumes.
        """
        from bigsmic.updates.updating import Update

        self._check_predicts("update")
        return Update.of(self._context, data, options)

    @property
    def updates(self) -> "Updates":
        """Labels, posteriors and novelty of the rows that updates have labelled, in memory."""
        from bigsmic.updates.updating import Updates

        self._refuse_undecided("updates")
        return Updates.of(self._context, self._selection.stop)

    @property
    def drift(self) -> list[dict[str, Any]]:
        """Comparison of the rows of every update with the fit: a list of dicts, in order.

        ``verdict``, "refit recommended", "none" or "unknown", and the ``reason``; ``tests``, of ``shares`` of clusters
        (chi-square with the effective sample size), ``recent_shares`` of up to eight updates together, ``novelty``, the
        ``shift`` of columns within clusters, and the ``confidence`` of posteriors, each with its ``p``; ``sizes`` of
        the clusters; ``batches``, the number of stretches of the fit with which they are compared.
        """
        from bigsmic.updates import drift

        return drift.read_all(self._run)

    def novelty(self, data: Rows, **options: Any) -> Any:
        """Distance of rows from the rows that determine their labels, relative to the usual distance there.

        For methods with neighbours, it is the distance to the t-th neighbour over the mean distance of the neighbours
        to their own t-th ones, as in local outlier factors; for other methods, the deviation from the mean of the
        cluster, in its spreads. The ratio is divided by its 99 % quantile over fitted rows, or by 1 if that is less: at
        most one fitted row in a hundred has a novelty above 1, if it is left out of its own comparison. Where principal
        components take the place of columns, distances include what they leave of rows. Posteriors of rows that are
        more novel than any fitted row, or than 3, are mixed with a uniform one.

        Parameters
        ----------
        data : array_like, Zarr array, dask array or dataframe, path or URL, shape (m, d)
        **options
            As in :meth:`predict_proba`, except `out` and `overwrite`.

        Returns
        -------
        novelty : ndarray of float32, shape (m,)
            At least 0; NaN for invalid rows. If `data` is a dask array, a lazy dask array with its chunks.

        Raises
        ------
        InputError
            As in :meth:`predict_proba`; or the run was made by a version without novelty, is of a graph of affinities,
            or of few distinct rows (:class:`~bigsmic.errors.AbsentResultError`).
        """
        if not self._run.done("novelty", 0):
            raise AbsentResultError(f"novelty: the run has no reference distances, as {self._why_not_novel()}")
        return self._score("novelty", data, options)

    def _why_not_novel(self) -> str:
        """Why there are no reference distances, and the remedy."""
        settings = self._context.settings
        if settings.precomputed and settings.n_clusters == 1:
            return "a single cluster of a graph needs no neighbours; give c of at least 2"
        if settings.precomputed and settings.kernel == "precomputed":
            return "affinities do not determine the distances of rows; fit rows, or distances with metric='precomputed'"
        if distinct.is_all(self._context):
            return "its clusters are a few distinct rows with their copies; fit rows that differ more"
        return "too few of its rows differ; fit rows that differ more"
