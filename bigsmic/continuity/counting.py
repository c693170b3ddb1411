"""Counts of rows by their clusters in two fits, block by block.

If both fits have rows of the same archive in common, all of these are counted. Otherwise each fit labels sampled rows
of the other one, which a run keeps from its scan.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.continuity.match import Counts
from bigsmic.errors import CorruptBlockError, InputError, RunError
from bigsmic.numerics.labeling.metrics import contingency
from bigsmic.numerics.row_blocks import tiles
from bigsmic.numerics.selection import Selection
from bigsmic.prediction import model_of
from bigsmic.runtime.context import Context
from bigsmic.stages import numbering, selected
from bigsmic.stages.novelty import Assessor
from bigsmic.stages.rowwise_output import read_array
from bigsmic.types import Integers

COMPARED_ROWS = 20_000
"""Number of rows of each fit that the other one labels."""
PROBED_ROWS = 1000
"""Number of rows that are compared to decide whether two fits have the same archive."""
TILE_ROWS = 4096  # predicted at once


class Labelled(NamedTuple):
    """A fit with written labels.

    Parameters
    ----------
    context : Context
    width : int
        All labels are below.
    """

    context: Context
    width: int

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Numbers of its clusters, ascending."""
        found = numbering.of(self.context)
        return np.arange(self.width) if found is None else np.sort(found.numbers)


def count(later: Labelled, earlier: Labelled) -> Counts:
    """Count rows by the clusters of an earlier fit and of a later one.

    Parameters
    ----------
    later, earlier : Labelled

    Returns
    -------
    counts : Counts

    Raises
    ------
    InputError
        The fits have rows with other columns, or other graphs.
    RunError
        A block of the earlier run is damaged.
    """
    after, before = later.context, earlier.context
    is_graph = after.settings.precomputed, before.settings.precomputed
    if not any(is_graph) and after.d != before.d:
        raise InputError(
            f"like: got a run of {before.d} columns for a fit of {after.d}; give a run of rows with the same columns"
        )
    offset = _offset(after, before)
    if offset is not None:
        table = _by_row_number(later, earlier, offset)
        return Counts(table, table, "row number")
    if any(is_graph):
        raise InputError("like: got the run of a graph of other rows; give one of the same rows, or of some of them")
    with _of_earlier(before):
        X, labels = _known(before)
    stayed = _table(labels, _predicted(after, X), (earlier.width, later.width))
    X, labels = _known(after)
    with _of_earlier(before):
        predicted = _predicted(before, X)
    return Counts(stayed, _table(predicted, labels, stayed.shape), "prediction")


# -- the same rows


def _offset(later: Context, earlier: Context) -> int | None:
    """Offset from row numbers of the earlier fit to those of the later one; None if the rows differ.

    At least half of the earlier rows must be among the later ones.
    """
    if later.settings.precomputed and earlier.settings.precomputed:
        return 0 if later.n >= earlier.n else None
    if later.settings.precomputed or earlier.settings.precomputed:
        return None
    offset = _shift(selected.read(earlier.run), selected.read(later.run))
    if offset is None:
        return None
    rows = _shared(later, earlier, offset)
    return offset if 2 * len(rows) >= earlier.n and _is_equal(later, earlier, offset) else None


def _shift(before: Selection, after: Selection) -> int | None:
    """Offset between numbers of a row in two selections from one archive; None if it is not constant."""
    if before.packed is None and after.packed is None:
        return before.start - after.start
    whole = (min(before.stop, after.stop) - before.start) // 8
    is_same = before.start == after.start and np.array_equal(_bits(before, whole), _bits(after, whole))
    return 0 if is_same else None


def _bits(rows: Selection, count: int) -> NDArray[np.uint8]:
    return np.full(count, 255, np.uint8) if rows.packed is None else rows.packed[:count]


def _shared(later: Context, earlier: Context, offset: int) -> range:
    """Rows of the earlier fit that are in the later one, if the archive is the same."""
    return range(max(0, -offset), min(earlier.n, later.n - offset))


def _is_equal(later: Context, earlier: Context, offset: int) -> bool:
    """Whether the rows that both scans have kept are equal to the bit."""
    with _of_earlier(earlier):
        before = earlier.drawn_numbers()
    common = np.intersect1d(before + offset, later.drawn_numbers(), assume_unique=True)
    if not len(common):
        return False
    probed = common[_spread(len(common), PROBED_ROWS)]
    with _of_earlier(earlier):
        known = _values(earlier, probed - offset)
    return np.array_equal(known, _values(later, probed))


def _by_row_number(later: Labelled, earlier: Labelled, offset: int) -> Integers:
    """Counts of common rows by their earlier and later labels."""
    before, after = (read_array(labelled.context, "labels") for labelled in (earlier, later))
    table = np.zeros((earlier.width, later.width), np.int64)
    rows = _shared(later.context, earlier.context, offset)
    for part in tiles(len(rows), int(earlier.context.source_bounds[1])):
        lo, hi = rows[part].start, rows[part].stop
        with _of_earlier(earlier.context):
            labels = before[lo:hi]
        table += _table(labels, after[lo + offset : hi + offset], table.shape)
    return table


# -- other rows


def _known(context: Context) -> tuple[NDArray[np.generic], NDArray[np.int32]]:
    """Rows that the scan has kept, as stored, and their labels."""
    rows = context.drawn_numbers()
    if not len(rows):
        raise InputError(
            f"like: {context.run.location} kept none of its rows, which have {context.d:,} columns, so that clusters "
            "cannot be compared; fit with scale='auto', which keeps some"
        )
    rows = rows[_spread(len(rows), COMPARED_ROWS)]
    return _values(context, rows), read_array(context, "labels")[rows]


def _predicted(context: Context, X: NDArray[np.generic]) -> NDArray[np.int32]:
    """Labels that a fit predicts for stored rows: those of ``Result.predict``, however far the rows are."""
    assessor = Assessor(context, model_of(context))
    return np.concatenate([assessor(X[part])[1] for part in tiles(len(X), TILE_ROWS)])


# -- both


def _table(before: Integers, after: Integers, shape: tuple[int, ...]) -> Integers:
    """Counts of rows by their two labels, without rows that are in no cluster of either fit."""
    known = (before >= 0) & (after >= 0)
    table: Integers = contingency(before[known], after[known], *shape)
    return table


def _spread(n: int, most: int) -> NDArray[np.int64]:
    """At most `most` of n numbers, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def _values(context: Context, rows: Integers) -> NDArray[np.generic]:
    """Rows as stored of some that the scan has kept, ascending."""
    kept = context.run.gather("scan", context.source_blocks, ["sample_rows", "sample"])
    return np.concatenate([X[np.isin(own, rows, assume_unique=True)] for own, X in kept])


@contextmanager
def _of_earlier(earlier: Context) -> Iterator[None]:
    """Raise RunError for damage of the earlier run, as only blocks of the run being written are computed anew."""
    try:
        yield
    except CorruptBlockError as error:
        raise RunError(f"like: {earlier.run.location} is damaged: {error}") from error
