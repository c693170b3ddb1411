"""Rows of a source that a fit uses: a range, without rows that are marked as invalid."""

from typing import Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.numerics.selection import PAGE, Selection, spans
from bigsmic.store.objects import checksum
from bigsmic.store.reopenable import Shared
from bigsmic.store.sources.base import Source
from bigsmic.validation import brief


def select_rows(source: Source, rows: Any = None, leave_out: bool = True) -> Source:
    """Select the rows of a source that are used.

    Parameters
    ----------
    source : Source
    rows : slice or Selection, optional
        A slice must have no step.
    leave_out : bool
        Whether invalid rows are left out.

    Returns
    -------
    source : Source
        The given source itself, if all of its rows are used and the range has no end.

    Raises
    ------
    InputError
        `rows` is not a slice of consecutive rows, or no row is left.
    """
    start, stop = range_of(rows, source.shape[0])
    packed = _packed(source, start, stop) if leave_out else None
    if isinstance(rows, Selection) and rows.packed is not None:
        packed = rows.packed if packed is None else packed & rows.packed
    if packed is None and (start, stop) == (0, source.shape[0]) and not _ends_there(rows):
        return source
    selection = Selection(start, stop, packed)
    if len(selection) == 0:
        raise InputError(
            f"rows: none of rows {start}:{stop} of {source.name} can be used: all of them lie over gaps or NaN; give "
            "other rows"
        )
    return SelectedSource(source, selection)


def _ends_there(rows: Any) -> bool:
    """Whether the slice has an end, so that the selection does not grow with the source."""
    return rows is not None and rows.stop is not None and rows.stop >= 0


def range_of(rows: Any, n: int) -> tuple[int, int]:
    """Bounds of a slice of n rows: its first row and the one after its last.

    Raises
    ------
    InputError
    """
    if rows is None:
        return 0, n
    if isinstance(rows, Selection):
        rows = slice(rows.start, rows.stop)
    bounds = [bound for bound in (rows.start, rows.stop) if bound is not None] if isinstance(rows, slice) else [None]
    if not all(isinstance(bound, int | np.integer) for bound in bounds) or rows.step not in (None, 1):
        raise InputError(f"rows: got {brief(rows)}; give a slice of consecutive rows, such as slice(1000, None)")
    start, stop, _ = rows.indices(n)
    if stop <= start:
        raise InputError(f"rows: got {rows!r}, which selects none of {n} rows; give a slice within them")
    return start, stop


def _packed(source: Source, start: int, stop: int) -> Any:
    """Packed bits that mark the valid rows; None if all are valid."""
    if stop == start or source.valid(start, start + 1) is None:
        return None
    parts = [np.packbits(np.asarray(source.valid(lo, min(lo + PAGE, stop)))) for lo in range(start, stop, PAGE)]
    packed = np.concatenate(parts)
    taken = int(np.bitwise_count(packed).sum(dtype=np.int64))
    return None if taken == stop - start else packed


class SelectedSource(Shared, Source):
    """The selected rows of a source.

    Parameters
    ----------
    source : Source
    selection : Selection
    """

    def __init__(self, source: Any, selection: Any) -> None:
        super().__init__(source.array, source.name)
        self.source, self.selection = source, selection

    def recipe(self) -> Any:
        """Return how a task in another process selects the same rows."""
        return SelectedSource, (self.source, self.selection)

    def drop_decoded(self) -> None:
        """Drop decoded chunks of the source."""
        self.source.drop_decoded()

    @property
    def shape(self) -> Any:
        """(selected rows, d)."""
        return (len(self.selection), self.source.shape[1])

    @property
    def dtype(self) -> Any:
        """Dtype of the rows."""
        return self.source.dtype

    @property
    def band_bytes(self) -> int:
        """Bytes that one read needs in addition to the rows asked for: those of the source, and the mask."""
        return self.source.band_bytes + (0 if self.selection.packed is None else self.selection.packed.nbytes)

    @property
    def travels(self) -> bool:
        """Whether the source can be sent to another process."""
        return self.source.travels

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return self.source.column_names

    @property
    def has_windows(self) -> bool:
        """Whether the rows are features of windows."""
        return self.source.has_windows

    @property
    def mixed_units(self) -> bool:
        """Whether columns are known to be in different units."""
        return self.source.mixed_units

    @property
    def decoded(self) -> str:
        """Description of how stored numbers are decoded."""
        return self.source.decoded

    @property
    def places(self) -> list[str]:
        """Paths and URLs that are read."""
        return self.source.places

    def origin(self) -> Any:
        """Return a text that identifies the rows."""
        text, chosen = self.source.origin(), self.describe().get("selected")
        return f"{text} {chosen}" if chosen else text

    def describe(self) -> Any:
        """Return what identifies the input besides its content, including the selection.

        The first rows are described as an archive that has no others: it may have had none, and have grown.
        """
        chosen, packed = self.selection, self.selection.packed
        if packed is None and chosen.start == 0:
            return self.source.describe() | {"rows": len(chosen)}
        selected = {"start": chosen.start, "stop": chosen.stop}
        selected |= {} if packed is None else {"valid": checksum(packed)}
        return self.source.describe() | {"rows": len(chosen), "selected": selected}

    def valid(self, lo: int, hi: int) -> Any:
        """Mask of rows ``lo:hi`` that may be used; None if all may."""
        if self.selection.packed is not None:
            return None
        return self.source.valid(self.selection.start + lo, self.selection.start + hi)

    def number(self, i: int) -> Any:
        """Return the number in the archive of the i-th selected row."""
        return int(self.selection.numbers(i, i + 1)[0])

    def read(self, lo: int, hi: int) -> Any:
        """Return the selected rows ``lo:hi``, counted among the selected ones."""
        if self.selection.packed is None:
            return self.source.read(self.selection.start + lo, self.selection.start + hi)
        numbers = self.selection.numbers(lo, hi)
        parts = [self.source.read(span.lo, span.hi)[span.taken] for span in spans(numbers, max(hi - lo, 1))]
        return np.ascontiguousarray(np.concatenate(parts))
