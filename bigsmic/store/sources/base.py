"""Rows of a two-dimensional array, read as half-open ranges: the base classes of all sources."""

import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.types import Floats

_ORIGIN_BYTES = 16 << 20  # that a checksum reads at once


def kind_of(data: Any) -> str:
    """Name of a type of another library, such as ``h5py Dataset``."""
    return f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"


class Source:
    """Rows of a two-dimensional array, read as half-open ranges; this class itself serves arrays in memory.

    Parameters
    ----------
    array : array_like, shape (n, d)
    name : str
        Name in messages.
    """

    _names: Sequence[str] = ()

    def __init__(self, array: Any, name: str) -> None:
        self.array, self.name = array, name

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the rows as stored."""
        return np.dtype(self.array.dtype)

    @property
    def complete_rows(self) -> int:
        """Number of rows that no writer can be in the middle of, for archives that grow."""
        return self.shape[0]

    @property
    def band_bytes(self) -> int:
        """Bytes that one read brings to memory in addition to the rows asked for."""
        return 0

    def drop_decoded(self) -> None:
        """Drop decoded chunks, if there are any and none is being decoded."""

    @property
    def travels(self) -> bool:
        """Whether it is small when pickled and can be read in another process; others are copied to the run."""
        return False

    @property
    def column_names(self) -> Sequence[str]:
        """Names of the columns; empty if they have none."""
        return self._names

    def named(self, names: Sequence[str]) -> Self:
        """Give the columns these names, and return the source."""
        self._names = names
        return self

    @property
    def has_windows(self) -> bool:
        """Whether the rows are features of windows."""
        return False

    @property
    def mixed_units(self) -> bool:
        """Whether columns are known to be in different units; False if the input does not tell."""
        return False

    @property
    def decoded(self) -> str:
        """Description of how stored numbers are decoded; empty if they are used as they are."""
        return ""

    def __repr__(self) -> Any:
        return f"{type(self).__name__}({self.name!r}, {self.shape})"

    def read(self, lo: int, hi: int) -> Floats:
        """Return rows ``lo:hi`` as a C-ordered ndarray of the stored dtype."""
        return np.ascontiguousarray(self.array[lo:hi])

    def number(self, i: int) -> int:
        """Return the number in the archive of the i-th row, for messages."""
        return i

    def valid(self, lo: int, hi: int) -> np.ndarray | None:
        """Mask of rows ``lo:hi`` that may be used, ndarray of bool; None if all may."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return what identifies the input besides its content; free of secrets and of memory addresses."""
        n, d = self.shape
        return {"rows": n, "columns": d, "dtype": self.dtype.str}

    @property
    def places(self) -> list[str]:
        """Paths and URLs that are read; empty for rows in memory."""
        return []

    def origin(self) -> Any:
        """Return a text that identifies the rows: their location, or a checksum of rows in memory."""
        crc, step = 0, max(1, _ORIGIN_BYTES // max(1, self.shape[1] * self.dtype.itemsize))
        for lo in range(0, self.shape[0], step):
            crc = zlib.crc32(self.read(lo, min(lo + step, self.shape[0])).data, crc)
        return f"crc32 {crc}"


def plain(rows: Any, lo: int) -> Floats:
    """Rows as a C-ordered ndarray; InputError for masked ones."""
    if np.ma.is_masked(rows):
        row, column = np.argwhere(np.ma.getmaskarray(rows))[0]
        raise InputError(
            f"input: the array has masked entries, first at row {lo + row}, column {column}; drop or impute these rows"
        )
    return np.ascontiguousarray(rows)


class BandedSource(Source):
    """Rows of an array whose chunks may be taller than the ranges asked for.

    The last decoded bands of chunks are kept, so that a chunk is decoded once, and not once per range.
    """

    _KEPT_BANDS = 2

    def __init__(self, array: Any, name: str, height: int) -> None:
        super().__init__(array, name)
        self._height = height
        self._bands: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def band_bytes(self) -> int:
        """Bytes of the kept bands of chunks."""
        return self._KEPT_BANDS * self._height * self.shape[1] * self.dtype.itemsize

    def read(self, lo: int, hi: int) -> Any:
        """Return rows ``lo:hi``."""
        height = self._height
        if height <= hi - lo:
            return self._decode(lo, hi)
        bands = [self._band(b) for b in range(lo // height, (hi - 1) // height + 1)]
        start = (lo // height) * height
        parts = [band[max(lo - start - i * height, 0) : hi - start - i * height] for i, band in enumerate(bands)]
        return np.ascontiguousarray(np.concatenate(parts))

    def _band(self, b: int) -> NDArray[Any]:
        with self._lock:
            if b not in self._bands:
                self._bands[b] = self._decode(b * self._height, min((b + 1) * self._height, self.shape[0]))
                while len(self._bands) > self._KEPT_BANDS:
                    self._bands.popitem(last=False)
            self._bands.move_to_end(b)
            return self._bands[b]

    def drop_decoded(self) -> None:
        """Drop the kept bands, unless one of them is being decoded."""
        if self._lock.acquire(blocking=False):
            self._bands.clear()
            self._lock.release()

    def _decode(self, lo: int, hi: int) -> Any:
        """Read rows ``lo:hi`` from where they are stored."""
        raise NotImplementedError
