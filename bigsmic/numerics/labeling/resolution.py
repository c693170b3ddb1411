"""Resolution of the numbers in columns: how far apart neighbouring values are."""

import numpy as np

from bigsmic.types import Floats

MOST_ROWS = 2000
"""Rows in which values are compared."""


def steps_of(X: Floats) -> Floats:
    """Distance of a typical value of each column from the nearest other one.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)

    Returns
    -------
    steps : ndarray of float64, shape (d,)
        Median over rows: 1 for integers in which neighbouring values occur, and next to nothing for columns of which
        hardly any two values are equal. 0 for a column of one value.
    """
    m = min(len(X), MOST_ROWS)
    values = np.sort(X[np.arange(m) * len(X) // m].T.astype(np.float64), axis=1)
    gaps = np.diff(values, axis=1)
    gaps[gaps == 0] = np.nan
    steps = np.zeros(len(values))
    for j, gap in enumerate(gaps):
        bounds = np.flatnonzero(~np.isnan(gap))
        if len(bounds):
            copies = np.diff(np.concatenate([[-1], bounds, [m - 1]]))  # rows of each value
            ends = np.concatenate([[np.inf], gap[bounds], [np.inf]])
            nearest = np.minimum(ends[:-1], ends[1:])
            order = np.argsort(nearest)
            steps[j] = nearest[order][np.searchsorted(np.cumsum(copies[order]), m / 2)]
    return steps


def along_axes(steps: Floats, axes: Floats) -> Floats:
    """Quadratic form of steps of columns: ``sqrt(w' R w)`` is the step along w, a direction in coordinates of the axes.

    Parameters
    ----------
    steps : ndarray of float64, shape (d,)
    axes : ndarray of float32, shape (d, r)

    Returns
    -------
    R : ndarray of float64, shape (r, r)
        ``axes' diag(steps^2) axes``.
    """
    scaled = axes * steps[:, None]
    return scaled.T @ scaled
