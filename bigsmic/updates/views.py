"""What a Result says of the archive that its rows are from."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import AbsentResultError
from bigsmic.numerics.selection import Selection
from bigsmic.stages import selected, update_log
from bigsmic.types import Rows

if TYPE_CHECKING:
    from bigsmic.runtime.context import Context
    from bigsmic.updates.updating import Update, Updates


class ArchiveViews:
    """Which rows of an archive were fitted, and labels of all that were seen."""

    _run: Any
    labels: Any

    if TYPE_CHECKING:

        @property
        def _context(self) -> Context: ...
        def _check_predicts(self) -> None: ...
        def _score(self, score: str, data: Any, options: Mapping[str, Any]) -> Any: ...

    @cached_property
    def _selection(self) -> Selection:
        return selected.read(self._run)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Number in the archive of every fitted row, ascending: ndarray of int64, shape (n,).

        All of them, unless the fit was given ``rows=``, or windows of which some are not valid.
        """
        found: NDArray[np.int64] = self._selection.numbers(0, len(self._selection))
        return found

    def archive_labels(self) -> NDArray[np.int32]:
        """Cluster of every row of the archive that the fit and its updates have seen: ndarray of int32, one per row.

        -1 for rows that are in no cluster, are not valid, or were not fitted.
        """
        found = np.full(self._selection.stop, -1, np.int32)
        found[self.rows] = self.labels
        new: NDArray[np.int32] = update_log.read_all(self._run, "labels", np.empty(0, np.int32))
        return np.concatenate([found, new])

    def update(self, data: Rows, **options: Any) -> "Update":
        """Label the rows of the archive that have come since the fit, and keep that in the run.

        Rows after those that the fit, and earlier updates, have seen are labelled block by block as `predict` does, and
        appended to ``updates`` of the run. The same call again finds nothing new; one that was killed is finished by
        the next one. The archive may grow meanwhile: what is there at the start counts.

        Parameters
        ----------
        data : str, Path, Zarr array, array_like or Windows, shape (m, d)
            The archive that the fit was of, with more rows at its end.
        **options
            `component`, `storage_options`, `missing_chunks`, `client`, `scheduler`, `engine` and `progress`, as of
            :func:`bigsmic.fit`; `n_threads`, 1 by default; `stop`, the number of the row before which to end;
            ``verify="all"`` has all rows that were seen compared with what they were, in the place of some blocks.

        Returns
        -------
        update : Update
            What is new.

        Raises
        ------
        InputError
            The result is not in a run directory of its own, or the fit chose no number of clusters.
        RunMismatchError
            The archive is another one, has become shorter, or has other rows than it had.
        RunLockedError
            Another process writes to the run.
        RunError, StorageError
            Workers do not see the run, or the archive.
        ClusterError
            The cluster does not answer, or workers are lost again and again; the same call goes on.
        """
        from bigsmic.updates.updating import Update

        self._check_predicts()
        return Update.of(self._context, data, options)

    @property
    def updates(self) -> "Updates":
        """Labels, posteriors and novelty of the rows that updates have labelled, in memory."""
        from bigsmic.updates.updating import Updates

        return Updates.of(self._context, self._selection.stop)

    @property
    def drift(self) -> list[dict[str, Any]]:
        """How the rows of every update compare with the fit: a list of dicts, in order.

        ``verdict``, "refit recommended", "none" or "unknown", and the ``reason``; ``tests``, of ``shares`` of clusters
        (chi-square with the effective sample size), ``recent_shares`` of up to eight updates together, ``novelty``, the
        ``shift`` of columns within clusters, and the ``confidence`` of posteriors, each with its ``p``; ``sizes`` of
        the clusters; ``batches`` of the fit that they are compared with.
        """
        from bigsmic.updates import drift

        return drift.read_all(self._run)

    def novelty(self, data: Rows, **options: Any) -> Any:
        """How far rows are from the rows that they are labelled by, in units of what is usual there.

        Of a method that knows neighbours, the distance to the t-th of them, over the mean distance of these to their
        own t-th neighbours, as local outlier factors have it; of others, the deviation from the mean of the cluster, in
        its spreads. Divided by what 99 % of the fitted rows do not exceed, or by 1 where that is less: one fitted row
        in a hundred, at most, has a novelty above 1, when it is left out. Posteriors of rows that are more novel than
        any fitted row, or than 3, are mixed with a uniform one.

        Parameters
        ----------
        data : array_like, Zarr array, dask array or dataframe, path or URL, shape (m, d)
        **options
            As of :meth:`predict_proba`, but for `out` and `overwrite`.

        Returns
        -------
        novelty : ndarray of float32, shape (m,)
            At least 0; NaN where rows are marked as not valid. A dask array of the chunks of `data`, lazy, where that
            is one.

        Raises
        ------
        InputError
            As of :meth:`predict_proba`, or a run that was made before novelty was known, or of rows that are all
            equal (:class:`~bigsmic.errors.AbsentResultError`).
        """
        if not self._run.done("novelty", 0):
            raise AbsentResultError(
                "novelty: the run does not have what it is measured by, as an earlier version made it, or its rows are "
                "equal; run fit on it again, which adds it"
            )
        return self._score("novelty", data, options)
