"""Rows drawn in fixed chunks, each from a generator keyed by (seed, chunk): any block can be generated alone."""

import math
import zlib
from dataclasses import dataclass

import numpy as np

from bigsmic.errors import InputError
from bigsmic.types import Sample

CHUNK_ROWS = 4096
"""Rows drawn from one generator; blocks that begin and end at multiples of it discard no rows."""


@dataclass(frozen=True)
class BlockSimulator:
    """Base class of simulators whose rows can be generated in any blocks.

    Subclasses define ``n_features`` and ``_chunk``.

    Parameters
    ----------
    n_rows : int
        Rows in total, at least 1.
    seed : int
        Equal seeds give equal data with one numpy version.
    """

    n_rows: int = 50_000
    seed: int = 0

    def __post_init__(self) -> None:
        require("n_rows", self.n_rows, 1)
        require("seed", self.seed, 0)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        raise NotImplementedError

    @property
    def chunk_rows(self) -> int:
        """Rows drawn from one generator."""
        return CHUNK_ROWS

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_rows, n_features)``."""
        return self.n_rows, self.n_features

    def block(self, lo: int, hi: int) -> Sample:
        """Rows ``lo:hi``.

        Parameters
        ----------
        lo, hi : int
            Half-open range, ``0 <= lo <= hi <= n_rows``.

        Returns
        -------
        X : ndarray of float32, shape (hi - lo, n_features)
        labels : ndarray of int32, shape (hi - lo,)

        Raises
        ------
        InputError
            The range is not within the rows.

        Notes
        -----
        Memory: X, and temporary arrays of a few times ``chunk_rows`` rows.
        """
        if not 0 <= lo <= hi <= self.n_rows:
            raise InputError(f"block: got rows {lo}:{hi}, need 0 <= lo <= hi <= n_rows={self.n_rows}")
        X = np.empty((hi - lo, self.n_features), np.float32)
        labels = np.empty(hi - lo, np.int32)
        height = self.chunk_rows
        for chunk in range(lo // height, -(-hi // height)):
            start = chunk * height
            a, b = max(lo, start), min(hi, start + height)
            chunk_X, chunk_labels = self._chunk(chunk)
            X[a - lo : b - lo] = chunk_X[a - start : b - start]
            labels[a - lo : b - lo] = chunk_labels[a - start : b - start]
        return X, labels

    def _chunk(self, chunk: int) -> Sample:
        """All ``chunk_rows`` rows of one chunk, including those beyond ``n_rows``, and their labels."""
        raise NotImplementedError

    def _generator(self, stage: str, *key: int) -> np.random.Generator:
        name = f"{type(self).__name__} {stage}"
        return np.random.default_rng([self.seed, zlib.crc32(name.encode()), *key])


def require(name: str, value: float, least: float) -> None:
    """Refuse a parameter below `least`, or infinite."""
    if not value >= least:
        raise InputError(f"simulate: {name}={value!r} is too small; use at least {least}")
    require_finite(name, value)


def require_finite(name: str, value: float) -> None:
    """Refuse a parameter that is infinite or NaN."""
    if not abs(value) < math.inf:
        raise InputError(f"simulate: {name}={value!r} is no finite number; give one")


def require_at_most(name: str, value: float, most: float) -> None:
    """Refuse a parameter above `most`."""
    if not value <= most:
        raise InputError(f"simulate: {name}={value!r} is too large; use at most {most}")
