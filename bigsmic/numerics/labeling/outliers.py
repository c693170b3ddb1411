"""Rows without outliers, a few of which have most of all variances, and of fourth moments."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.types import Floats

FENCE = 1.5
"""Times the range of the quartiles of distances by which an outlier exceeds the upper one [Tukey]_."""
FAR = 1e3
"""Times the distance of nearly all rows from their middle beyond which a row is far out."""
SHARE = 0.01
"""Share of the rows that may be far out."""
MIDDLE_ROWS = 1000
"""Number of rows, or up to twice as many, whose median is the middle: that of all takes a tenth of a second or more."""


def without_outliers(P: Floats) -> Floats:
    """Rows that are not much farther from their median than most; all of them if they are spread evenly along a line.

    Parameters
    ----------
    P : ndarray of float64, shape (s, r), s >= 1

    References
    ----------
    .. [Tukey] Tukey, "Exploratory data analysis", Addison-Wesley 1977.
    """
    distances = np.linalg.norm(P - np.median(P, axis=0), axis=1)
    lower, upper = np.quantile(distances, [0.25, 0.75])
    return P[distances <= upper + FENCE * (upper - lower)]


class Fence(NamedTuple):
    """How far from their middle rows may be.

    Parameters
    ----------
    middle : ndarray of float32, shape (d,)
    reach : float
        Largest distance; infinite where there is no limit.
    """

    middle: NDArray[np.float32]
    reach: float


def fence(X: Floats) -> Fence:
    """Fence around all rows but a few that are :data:`FAR` times as far from the middle as all others.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d), m >= 1
        Sampled rows.
    """
    few = X[:: max(1, len(X) // MIDDLE_ROWS)]
    middle = np.array([np.median(column) for column in few.T], np.float32)
    distances = np.sort(_distances(X, middle))
    usual = float(distances[max(0, len(X) - 1 - math.ceil(SHARE * len(X)))])
    return Fence(middle, FAR * usual if usual > 0 else np.inf)


def drawn_in(X: Floats, fence: Fence) -> Floats:
    """Rows, of which those beyond the fence are moved onto it, straight towards the middle.

    The variance of a group with a row far out is that of this row, to as many digits as there are: which direction
    separates it from others, and where there is a valley along it, cannot be told.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    fence : Fence

    Returns
    -------
    rows : ndarray of float32, shape (b, d)
        `X` itself if no row is beyond.
    """
    distances = _distances(X, fence.middle)
    far = np.flatnonzero(distances > fence.reach)
    if not len(far):
        return X
    moved = X.copy()
    shares = (fence.reach / distances[far])[:, None]
    moved[far] = fence.middle + shares * (X[far].astype(np.float64) - fence.middle)
    return moved


def _distances(X: Floats, middle: NDArray[np.float32]) -> NDArray[np.float64]:
    difference = X - middle
    return np.sqrt(np.einsum("ij,ij->i", difference, difference, dtype=np.float64))
