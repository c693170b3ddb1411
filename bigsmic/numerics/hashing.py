"""Random choices that depend only on (seed, stage, row).

A draw made this way is the same in any block, on any worker, in any order, and after a resume.
"""

import zlib
from typing import Any

import numpy as np

from bigsmic.types import Floats, Integers

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_DRAW_ROWS = 1 << 20  # rows hashed at a time
SPOTS = 8
"""Largest number of spot checks."""


def row_hash(seed: int, stage: str, rows: Integers) -> Any:
    """64 well-mixed bits per row: splitmix64 of the row, keyed by seed and stage.

    Parameters
    ----------
    seed : int
        Seed of the run.
    stage : str
        Purpose of the draw; different names give independent draws.
    rows : array_like of int, any shape
        Global row numbers.

    Returns
    -------
    bits : ndarray of uint64, shape of `rows`
    """
    key = np.uint64((seed * 0x2545F4914F6CDD1D + zlib.crc32(stage.encode())) & 0xFFFFFFFFFFFFFFFF)
    with np.errstate(over="ignore"):
        return _splitmix(np.asarray(rows).astype(np.uint64) * _GOLDEN + _splitmix(key * _GOLDEN + _GOLDEN))


def row_uniform(seed: int, stage: str, rows: Integers) -> Floats:
    """Uniform float64 in [0, 1) per row; see :func:`row_hash`."""
    return (row_hash(seed, stage, rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def draw_rows(n_rows: int, count: int, seed: int, stage: str) -> np.ndarray:
    """Rows of the `count` smallest hashes: a draw without replacement that does not depend on the cut into blocks.

    Parameters
    ----------
    n_rows, count : int
        Rows to draw from, and how many of them; all rows if `count` is larger.
    seed : int
    stage : str
        Purpose of the draw.

    Returns
    -------
    rows : ndarray of int64, shape (min(count, n_rows),), ascending
    """
    kept = np.empty(0, np.int64)
    for lo in range(0, n_rows, _DRAW_ROWS):
        rows = np.concatenate([kept, np.arange(lo, min(lo + _DRAW_ROWS, n_rows))])
        if len(rows) > count:
            rows = rows[np.argpartition(row_hash(seed, stage, rows), count)[:count]]
        kept = rows
    return np.sort(kept)


def spot_checks(count: int, seed: int, stage: str) -> list[int]:
    """Numbers below `count` to check instead of all, ascending: the first, the last, and some drawn by `seed`."""
    ends = {0, count - 1} if count else set()
    return sorted({*draw_rows(count, SPOTS - len(ends), seed, stage).tolist(), *ends})


def generator(seed: int, stage: str) -> np.random.Generator:
    """A NumPy Generator for a draw that is made once, in one process."""
    return np.random.default_rng([seed & 0xFFFFFFFFFFFFFFFF, zlib.crc32(stage.encode())])


def _splitmix(z: Any) -> int | Integers:
    z = np.asarray(z, dtype=np.uint64)
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))
