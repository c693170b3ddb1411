"""Whether successive rows depend on each other like samples of a recording."""

from typing import NamedTuple

import numpy as np

from bigsmic.types import Floats

MOST_COLUMNS = 16
LEAST_ROWS = 1000
LEAST_CORRELATION = 0.7
LEAST_GROWTH = 1.25


class Smoothness(NamedTuple):
    """Dependence of rows on the rows before them, as medians over columns.

    Parameters
    ----------
    correlation : float
        Of a row with the one before it: ``1 - mean (x[i + 1] - x[i])^2 / (2 var x)``.
    growth : float
        Mean square of ``x[i + 2] - x[i]`` over that of ``x[i + 1] - x[i]``: 1 if rows of a cluster are stored together
        in random order, 2 for a random walk, 4 for a straight line.
    """

    correlation: float
    growth: float

    @property
    def is_recording(self) -> bool:
        """Whether the rows look like samples of a recording."""
        return self.correlation > LEAST_CORRELATION and self.growth > LEAST_GROWTH


def smoothness(X: Floats) -> Smoothness:
    """Smoothness of consecutive rows.

    Parameters
    ----------
    X : ndarray of float, shape (m, d), m > 2

    Returns
    -------
    smoothness : Smoothness
        0 and 1 if no column varies from row to row.
    """
    X = np.asarray(X, np.float64)
    one, two = (np.square(X[lag:] - X[:-lag]).mean(axis=0) for lag in (1, 2))
    varies = one > 0
    if not varies.any():
        return Smoothness(0.0, 1.0)
    variance = 2 * X[:, varies].var(axis=0)
    return Smoothness(float(np.median(1 - one[varies] / variance)), float(np.median(two[varies] / one[varies])))
