"""Gaussian Parzen windows: their bandwidth, and products of their matrix with columns, tile by tile."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from bigsmic.errors import InputError
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.row_blocks import Shard
from bigsmic.types import Floats

WIDTHS = ("deviation", "quartile", "likelihood")
_TILE = 512, 2048  # rows and columns of G at a time: stays in the processor's cache
_REACH = 4096.0  # squared norm in units of 2 sigma beyond which float32 is too coarse for distances
_LIKELIHOOD_ROWS = 2000
_LIKELIHOOD_GRID = 2.0 ** (np.arange(-8, 5) / 2)
_FOLDS = 5


class Gaussian(NamedTuple):
    """``exp(-d^2 / (4 sigma^2))`` as a weight of graph edges, float32.

    Parameters
    ----------
    sigma : float
        Width of the Parzen windows.
    """

    sigma: float

    def __call__(self, squares: Floats, sigma_i: Floats, sigma_j: Floats) -> Any:
        """Weights of edges of squared lengths `squares`; local scales are not used."""
        return np.exp(-np.asarray(squares) / np.float32(4 * self.sigma**2))


def bandwidth(rule: str | float, n: int, variances: Floats, sample: Floats, seed: int = 0) -> float:
    """Width sigma of the Parzen windows.

    Parameters
    ----------
    rule : {"deviation", "quartile", "likelihood"} or float
        ``1.06 s n^-0.2`` with s^2 the mean variance of the columns ([1]_ eq. 36); ``1.06 min(s, R / 1.34) n^-0.2``
        with R the mean interquartile range (eq. 37); or the multiple of the first, from 1/16 to 4, with the largest
        held-out likelihood; or a number. Columns that do not vary are in no distance, and do not count.
    n : int
        Rows.
    variances : ndarray of float64, shape (d,)
    sample : ndarray of float, shape (m, d)
        Sampled rows, for the rules that need them.
    seed : int

    Returns
    -------
    sigma : float

    Raises
    ------
    InputError
        The width is not positive, as all or half of the rows coincide.
    """
    if not isinstance(rule, str):
        return float(rule)
    varies = variances > 0
    sample = np.compress(varies, sample, axis=1)
    s = np.sqrt(variances[varies].mean()) if varies.any() else 0.0
    if s > 0 and rule == "quartile":
        low, high = np.quantile(sample.astype(np.float64), (0.25, 0.75), axis=0)
        s = min(s, (high - low).mean() / 1.34)
    sigma = 1.06 * s * n**-0.2
    if sigma > 0 and rule == "likelihood":
        sigma = _most_likely(sigma * _LIKELIHOOD_GRID, sample, n, seed)
    if not sigma > 0:
        raise InputError(f"sigma: the rule {rule!r} gives a width of {sigma:g}, as rows coincide; give a number")
    return float(sigma)


def _most_likely(widths: Floats, sample: Floats, n: int, seed: int) -> float:
    """The width of largest held-out likelihood on some rows, scaled to n rows as the optimal width scales."""
    drawn = np.argsort(row_uniform(seed, "mwca likelihood", np.arange(len(sample))))[:_LIKELIHOOD_ROWS]
    X = sample[drawn].astype(np.float64)
    m, d = X.shape
    squares = np.maximum((X**2).sum(axis=1)[:, None] + (X**2).sum(axis=1) - 2 * X @ X.T, 0)
    fold = np.arange(m) % _FOLDS  # of rows in random order
    squares[fold[:, None] == fold] = np.inf
    known = np.isfinite(squares).sum(axis=1)
    if (known == 0).any():
        raise InputError(f"sigma: 'likelihood' holds rows out and needs at least {_FOLDS} rows; got {m}")
    scores = [(logsumexp(-squares / (2 * w**2), axis=1) - np.log(known)).mean() - d * np.log(w) for w in widths]
    return widths[int(np.argmax(scores))] * (m / n) ** (1 / (d + 4))


def add_gaussian_product(X: Floats, Y: Floats, Z: Floats, sigma: float, out: Floats) -> None:
    """``out += G(X, Y) Z``, tile by tile.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    Y : ndarray of float32, shape (m, d)
    Z : ndarray of float32, shape (m, w)
    sigma : float
    out : ndarray of float64, shape (b, w)
    """
    A, B = _halves(X, sigma), _halves(Y, sigma)
    reach = max((half**2).sum(axis=1).max(initial=0) for half in (A, B))
    dtype = np.float32 if reach < _REACH else np.float64
    left: np.ndarray = np.column_stack([2 * A, -(A**2).sum(axis=1), np.ones(len(A))]).astype(dtype)
    right: np.ndarray = np.column_stack([B, np.ones(len(B)), -(B**2).sum(axis=1)]).astype(dtype).T
    for i in range(0, len(X), _TILE[0]):
        rows = slice(i, i + _TILE[0])
        for j in range(0, len(Y), _TILE[1]):
            tile = (left[rows] @ right[:, j : j + _TILE[1]]).astype(np.float32, copy=False)
            np.minimum(tile, 0, out=tile)
            np.exp(tile, out=tile)
            out[rows] += tile @ Z[j : j + _TILE[1]]


def _halves(X: Floats, sigma: float) -> Floats:
    return X.astype(np.float64) / (2 * sigma)


class DenseProduct:
    """Product of G with the rows of one shard; a :class:`bigsmic.numerics.eigen.block_vectors.Product`.

    Parameters
    ----------
    shard : Shard
    load_rows : callable
        ``load_rows(p)`` returns the rows of block p, float32, (b, d); any block.
    sigma : float
    """

    def __init__(self, shard: Shard, load_rows: Any, sigma: float) -> None:
        self.shard, self.load_rows, self.sigma = shard, load_rows, sigma
        first = shard.blocks.start
        outside = np.concatenate([np.arange(shard.lo), np.arange(shard.hi, shard.bounds[-1])])
        self._halo = shard.halo(lambda p: outside if p == first else outside[:0])

    def operand(self, X: Floats) -> Floats:
        """X, and then the rows of other shards."""
        return self._halo.extend(X)

    def multiply(self, p: int, factors: tuple[float, float, float], operand: Floats, Y: Floats, out: Floats) -> None:
        """One row block of ``out = a G X - b X - g Y``."""
        a, b, g = factors
        rows = self.load_rows(p)
        total = np.zeros((len(rows), operand.shape[1]))
        for q in range(len(self.shard.bounds) - 1):
            add_gaussian_product(rows, self.load_rows(q), operand[self._place(q)], self.sigma, total)
        total *= a
        if b:
            total -= b * operand[self.shard.rows(p)]
        if g:
            total -= g * Y
        out[...] = total

    def _place(self, q: int) -> slice:
        """Range of the rows of block q in an operand: own rows first, then the others in order."""
        shard, (lo, hi) = self.shard, (int(bound) for bound in self.shard.bounds[q : q + 2])
        if q in shard.blocks:
            return shard.rows(q)
        shift = shard.n_rows if q < shard.blocks.start else 0
        return slice(lo + shift, hi + shift)
