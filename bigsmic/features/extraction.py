"""Tasks that describe windows: each task computes a piece of the archive of windows, tile by tile."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.features.definition import Definition
from bigsmic.numerics.windows.validity import any_in_windows, irregular
from bigsmic.store import Recording, WindowGroup

REASONS = ("gap", "nan", "overflow")
"""Reasons why windows are left out: gaps in time, non-finite samples, features that exceed float32."""
VALID, GAP, NONFINITE, OVERFLOW = range(len(REASONS) + 1)
"""Numbers of the reasons while windows are described, from 1 in their order; 0 for a window that is not left out."""
CHECK_BYTES = 16 << 20  # of samples read at once for a checksum


class Segment(NamedTuple):
    """Consecutive windows of one source.

    Parameters
    ----------
    row : int
        Row of the first window in the archive of windows.
    source : int
    window : int
        Number of the first window within the source.
    size : int
        Windows.
    """

    row: int
    source: int
    window: int
    size: int


class Piece(NamedTuple):
    """Rows of one chunk of the archive of windows, which one task writes.

    Parameters
    ----------
    segments : tuple of Segment
    is_whole : bool
        Whether these are all rows of the chunk, so that no later call writes to it.
    """

    segments: tuple[Segment, ...]
    is_whole: bool

    @property
    def rows(self) -> int:
        """Number of windows."""
        return sum(segment.size for segment in self.segments)


class Found(NamedTuple):
    """Result of a task.

    Parameters
    ----------
    segments : list of tuple of int
        Segments, with the checksums of their samples.
    left_out : ndarray of int64, shape (3,)
        Windows left out, by :data:`REASONS`.
    """

    segments: list[tuple[int, ...]]
    left_out: NDArray[np.int64]


def pieces_of(segments: list[Segment], chunk_rows: int) -> Iterator[Piece]:
    """Cut segments at the chunks of the archive of windows, and join those within one chunk."""
    held: list[Segment] = []
    for segment in segments:
        for part in _cut(segment, chunk_rows):
            if held and held[0].row // chunk_rows != part.row // chunk_rows:
                yield _piece(held, chunk_rows)
                held = []
            held.append(part)
    if held:
        yield _piece(held, chunk_rows)


def _piece(segments: list[Segment], chunk_rows: int) -> Piece:
    return Piece(tuple(segments), sum(segment.size for segment in segments) == chunk_rows)


def _cut(segment: Segment, chunk_rows: int) -> Iterator[Segment]:
    row, source, window, left = segment
    while left:
        count = min(left, chunk_rows - row % chunk_rows)
        yield Segment(row, source, window, count)
        row, window, left = row + count, window + count, left - count


@dataclass(frozen=True)
class Extraction:
    """Describes the windows of pieces, and writes them.

    Parameters
    ----------
    definition : Definition
    recordings : dict of int to Recording
        By number of the source.
    group : WindowGroup
    n_columns : int
    period : float, optional
        Time between samples, in the unit of the times.
    """

    definition: Definition
    recordings: dict[int, Recording]
    group: WindowGroup
    n_columns: int
    period: float | None = None

    def __call__(self, piece: Piece) -> Found:
        """Write the rows of one piece."""
        parts = [self._segment(segment) for segment in piece.segments]
        arrays = {name: np.concatenate([arrays[name] for arrays, _, _ in parts]) for name in parts[0][0]}
        self.group.write_rows(piece.segments[0].row, arrays)
        segments: list[tuple[int, ...]] = [
            (*segment, crc) for segment, (_, crc, _) in zip(piece.segments, parts, strict=True)
        ]
        return Found(segments, np.sum([left_out for _, _, left_out in parts], axis=0))

    def _segment(self, segment: Segment) -> tuple[dict[str, NDArray[Any]], int, NDArray[np.int64]]:
        """Arrays of one segment, the checksum of its samples, and the windows left out by reason."""
        recording = self.recordings[segment.source]
        samples = CheckedSamples(recording, segment.window * self.definition.step)
        X = np.full((segment.size, self.n_columns), np.nan, np.float32)
        reason = np.full(segment.size, VALID, np.int8)
        for lo, hi in self._tiles(segment):
            rows = slice(lo - segment.window, hi - segment.window)
            self._tile(samples, lo, hi, (X[rows], reason[rows]))
        start = np.arange(segment.window, segment.window + segment.size) * self.definition.step
        arrays = {
            "X": X,
            "start": start,
            "source": np.full(segment.size, segment.source, np.int32),
            "valid": reason == VALID,
        }
        if recording.times is not None:
            arrays["time"] = self._times(recording, start)
        counts = np.bincount(reason, minlength=len(REASONS) + 1)[1:]
        return arrays, samples.crc, counts

    def _tiles(self, segment: Segment) -> Iterator[tuple[int, int]]:
        """Ranges of windows that are described together; they depend on their numbers, not on the segment's start."""
        size, end = self.definition.tile, segment.window + segment.size
        for tile in range(segment.window // size * size, end, size):
            yield max(tile, segment.window), min(tile + size, end)

    def _tile(self, source: "CheckedSamples", lo: int, hi: int, into: tuple[NDArray[Any], NDArray[Any]]) -> None:
        """Describe windows ``lo:hi`` of a recording, which are in one tile."""
        X, reason = into
        length, step, first = self.definition.length, self.definition.step, lo % self.definition.tile
        W = np.zeros((len(self.definition.channels), self.definition.tile, length))
        for a, b in self._spans(lo, hi):
            at, lanes = a * step, slice(first + a - lo, first + b - lo)
            samples = source.read(at, at + (b - a - 1) * step + length)
            bad = ~np.isfinite(samples).all(axis=1) if samples.dtype.kind == "f" else np.zeros(len(samples), bool)
            flags = np.where(any_in_windows(bad, length, step), NONFINITE, VALID)
            flags[self._over_gaps(source.recording, at, len(samples))] = GAP
            reason[a - lo : b - lo] = flags
            clean = np.where(bad[:, None], 0, samples) if bad.any() else samples
            seen = np.lib.stride_tricks.sliding_window_view(np.ascontiguousarray(clean.T, np.float64), length, axis=1)
            W[:, lanes] = seen[:, ::step]
        good = np.flatnonzero(reason == VALID)
        if len(good):
            X[good] = self.definition(W, first + good)
        overflown = good[~np.isfinite(X[good]).all(axis=1)]
        X[overflown], reason[overflown] = np.nan, OVERFLOW

    def _spans(self, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """Ranges of windows whose samples are read together: single windows if there are samples between them."""
        if self.definition.step <= self.definition.length:
            yield lo, hi
        else:
            yield from ((k, k + 1) for k in range(lo, hi))

    def _over_gaps(self, recording: Recording, at: int, size: int) -> NDArray[np.bool_]:
        """Whether each of the windows of `size` samples from `at` on has a gap in time."""
        length, step = self.definition.length, self.definition.step
        if recording.times is None or self.period is None or length == 1:
            return np.zeros((size - length) // step + 1, bool)
        jumps = irregular(recording.times.read(at, at + size), self.period)[1:]
        return any_in_windows(jumps, length - 1, step)

    def _times(self, recording: Recording, start: NDArray[np.int64]) -> NDArray[Any]:
        """Times of the first samples of consecutive windows."""
        assert recording.times is not None
        most = max(1, CHECK_BYTES // (8 * self.definition.step))
        parts = [start[i : i + most] for i in range(0, len(start), most)]
        return np.concatenate([recording.times.read(part[0], part[-1] + 1)[:: self.definition.step] for part in parts])


class CheckedSamples:
    """Samples of a recording, read from a first one on, with the checksum of all up to the last one read.

    Parameters
    ----------
    recording : Recording
    first : int
    """

    def __init__(self, recording: Recording, first: int) -> None:
        self.recording, self.crc, self._seen = recording, 0, first

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        """Samples ``lo:hi``; `lo` and `hi` must not decrease from call to call."""
        self.skip(lo)
        found: NDArray[Any] = self.recording.samples.read(lo, hi)
        self._count(found[max(0, self._seen - lo) :])
        return found

    def skip(self, hi: int) -> None:
        """Include samples before `hi` that are in no window in the checksum."""
        samples = self.recording.samples
        most = max(1, CHECK_BYTES // (samples.shape[1] * samples.dtype.itemsize))
        while self._seen < hi:
            self._count(samples.read(self._seen, min(self._seen + most, hi)))

    def _count(self, samples: NDArray[Any]) -> None:
        self.crc = zlib.crc32(samples.data, self.crc)
        self._seen += len(samples)


def checksum_of(definition: Definition, recording: Recording, segment: Segment) -> int:
    """CRC-32 of the stored samples from the first one of a segment to its last."""
    lo = segment.window * definition.step
    samples = CheckedSamples(recording, lo)
    samples.skip(lo + (segment.size - 1) * definition.step + definition.length)
    return samples.crc
