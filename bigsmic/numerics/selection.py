"""Selection of rows of an archive: a range, without rows that a mask leaves out."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows
from bigsmic.types import Integers

PAGE = 1 << 16  # rows that are unpacked together; a multiple of 8


class Selection:
    """Rows ``start:stop`` of an archive, without those that a mask leaves out.

    Parameters
    ----------
    start, stop : int
        Row numbers in the archive.
    packed : ndarray of uint8, shape (ceil((stop - start) / 8),), optional
        Mask of selected rows as bits of ``numpy.packbits``; by default all are selected.
    """

    def __init__(self, start: int, stop: int, packed: NDArray[np.uint8] | None = None) -> None:
        self.start, self.stop, self.packed = int(start), int(stop), packed

    def __len__(self) -> int:
        return self.stop - self.start if self.packed is None else int(self._before[-1])

    @cached_property
    def _before(self) -> Integers:
        """Number of selected rows before every page, and in all: ndarray of int64."""
        counts = [np.bitwise_count(part).sum(dtype=np.int64) for part in _pages(self.packed)]
        return np.append(0, np.cumsum(counts, dtype=np.int64))

    def numbers(self, lo: int, hi: int) -> NDArray[np.int64]:
        """Numbers in the archive of the selected rows ``lo:hi``: int64, ascending."""
        if self.packed is None:
            return np.arange(self.start + lo, self.start + hi)
        first = np.searchsorted(self._before, lo, side="right") - 1
        last = np.searchsorted(self._before, hi, side="left")
        parts = [self._in_page(page) for page in range(int(first), int(last))]
        found = np.concatenate([np.empty(0, np.int64), *parts])
        return found[lo - self._before[first] : hi - self._before[first]]

    def _in_page(self, page: int) -> Integers:
        assert self.packed is not None
        bits = np.unpackbits(self.packed[page * PAGE // 8 : (page + 1) * PAGE // 8])
        return self.start + page * PAGE + np.flatnonzero(bits)


def reservoir(n: int, count: int, seed: int) -> Any:
    """Rows drawn from n by hash, as a selection; most of them stay selected when n grows.

    Parameters
    ----------
    n, count : int
    seed : int

    Returns
    -------
    selection : Selection
        Of `count` rows, or of all n.
    """
    rows = draw_rows(n, count, seed, "reservoir")
    packed = np.zeros((n + 7) // 8, np.uint8)
    np.bitwise_or.at(packed, rows // 8, (128 >> (rows % 8)).astype(np.uint8))
    return Selection(0, n, packed)


class Span(NamedTuple):
    """Rows of the archive that are read together, and the selected ones among them.

    Parameters
    ----------
    lo, hi : int
    taken : ndarray of int64
        Numbers of the selected rows, counted from `lo`.
    """

    lo: int
    hi: int
    taken: np.ndarray


def spans(numbers: Integers, most: int) -> Iterator[Span]:
    """Spans of at most `most` rows that cover some rows, in order; gaps between them are not read.

    Parameters
    ----------
    numbers : ndarray of int64, ascending
    most : int

    Yields
    ------
    span : Span
    """
    at = 0
    while at < len(numbers):
        end = np.searchsorted(numbers, numbers[at] + most)
        found = numbers[at:end]
        lo = int(found[0])
        yield Span(lo, int(found[-1]) + 1, found - lo)
        at = end


def _pages(packed: Any) -> Any:
    return (packed[at : at + PAGE // 8] for at in range(0, len(packed), PAGE // 8))
