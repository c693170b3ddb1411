"""What a Result says of the archive that its rows are from."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.selection import Selection
from bigsmic.stages import selected
from bigsmic.store import Run


class ArchiveViews:
    """Which rows of an archive were fitted, and labels of all that were seen."""

    _run: Run
    labels: Any

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
        """Cluster of every row of the archive as far as the fit has seen it: ndarray of int32, one per row.

        -1 for rows that are in no cluster or were not fitted.
        """
        found = np.full(self._selection.stop, -1, np.int32)
        found[self.rows] = self.labels
        return found
