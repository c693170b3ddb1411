"""Gaussian mixtures in many dimensions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bigsmic.datasets.row_generators import CHUNK_ROWS, BlockSimulator, require, require_finite
from bigsmic.types import Floats, Sample


@dataclass(frozen=True)
class MixtureSimulator(BlockSimulator):
    """A Gaussian mixture whose clusters are flat: wide in a few directions, with noise in all.

    ``x = mean_y + sum_j z_j A_yj + noise``, with z standard normal.

    Parameters
    ----------
    n_rows : int
        Rows in total, at least 1.
    seed : int
        Equal seeds give equal data.
    d : int
        Columns.
    c : int
        Clusters.
    rank : int
        Wide directions of each cluster.
    separation : float
        Standard deviation of the cluster means in each column, relative to that of the noise. With the other
        defaults and 50,000 rows, .94 of a row's 15 nearest neighbours are in its cluster at .5, and .84 at .3.
    size_exponent : float
        The size of cluster k of 1..c is proportional to ``k ** -size_exponent``.

    Raises
    ------
    InputError
        A parameter is out of its range.
    """

    d: int = 64
    c: int = 20
    rank: int = 8
    separation: float = 0.5
    size_exponent: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("d", 1), ("c", 1), ("rank", 0), ("separation", 0)):
            require(name, getattr(self, name), least)
        require_finite("size_exponent", self.size_exponent)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.d

    @cached_property
    def _means(self) -> Floats:
        z = self._generator("means").standard_normal((self.c, self.d), dtype=np.float32)
        return np.float32(self.separation) * z

    @cached_property
    def _directions(self) -> Floats:
        rng = self._generator("directions")
        A = rng.standard_normal((self.rank, self.c, self.d), dtype=np.float32)
        A /= np.linalg.norm(A, axis=2, keepdims=True)
        return A * rng.uniform(1.5, 5.0, (self.rank, self.c, 1)).astype(np.float32)

    @cached_property
    def _bounds(self) -> Floats:
        share = np.arange(1, self.c + 1) ** -float(self.size_exponent)
        return np.cumsum(share / share.sum())[:-1]

    def _chunk(self, chunk: int) -> Sample:
        rng = self._generator("chunk", chunk)
        labels = np.searchsorted(self._bounds, rng.random(CHUNK_ROWS), side="right").astype(np.int32)
        X = rng.standard_normal((CHUNK_ROWS, self.d), dtype=np.float32)
        X += self._means[labels]
        for A in self._directions:
            X += rng.standard_normal((CHUNK_ROWS, 1), dtype=np.float32) * A[labels]
        return X, labels


def gaussian_mixture(n_rows: int, d: int = 64, c: int = 20, *, seed: int = 0, **options: Any) -> MixtureSimulator:
    """Make a simulator of a Gaussian mixture, which generates its rows in blocks.

    Parameters
    ----------
    n_rows, d, c, seed : int
        Rows, columns, clusters, seed.
    **options
        Further parameters of :class:`MixtureSimulator`.

    Returns
    -------
    simulator : MixtureSimulator
        Its ``block(lo, hi)`` gives rows and labels.

    Raises
    ------
    InputError
        A parameter is out of its range.
    """
    return MixtureSimulator(n_rows=n_rows, d=d, c=c, seed=seed, **options)
