"""Resolution of the numbers in columns: how far apart neighbouring values are."""

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.row_blocks import tiles
from bigsmic.types import Floats

MOST_ROWS = 2000
"""Rows in which values are compared."""
COLUMNS = 64
"""Columns that are compared at a time, to bound memory."""
COARSE = 0.1
"""Standard deviations of a column from which on its steps matter."""
NEARLY_0 = 1e-6
"""Share of the variance of a column up to which columns are dependent but for rounding."""


def steps_of(X: Floats) -> Floats:
    """Distance of a typical value of each column from the nearest other one.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)

    Returns
    -------
    steps : ndarray of float64, shape (d,)
        Median over rows: 1 for integers in which neighbouring values occur, and next to nothing for columns of which
        hardly any two values are equal. 0 for a column of one value. ``sqrt(2)`` times as much for columns that do not
        change alone: see :func:`_are_dependent`.
    """
    m, d = min(len(X), MOST_ROWS), X.shape[1]
    rows = X[np.arange(m) * len(X) // m]
    steps = np.zeros(d)
    for columns in tiles(d, COLUMNS):
        values = np.sort(rows[:, columns].T.astype(np.float64), axis=1)
        nearest = np.minimum(_gaps_before(values), _gaps_before(-values[:, ::-1])[:, ::-1])
        typical = np.partition(nearest, (m - 1) // 2, axis=1)[:, (m - 1) // 2]
        steps[columns] = np.where(np.isfinite(typical), typical, 0.0)
    coarse = np.flatnonzero(steps > COARSE * rows.std(axis=0, dtype=np.float64))
    if len(coarse) < m // 2:  # otherwise columns are dependent because rows are few
        steps[coarse[_are_dependent(rows[:, coarse])]] *= np.sqrt(2)
    return steps


def _are_dependent(X: Floats) -> NDArray[np.bool_]:
    """Whether a column of X (m, k) cannot change alone: the others determine it, as in a one-hot encoding; bool (k,).

    At least another one changes then by a step, too. These columns are those with a part in the directions in which
    rows do not vary.
    """
    Z = X - X.mean(axis=0, dtype=np.float64)
    Z /= Z.std(axis=0)
    variances, U = np.linalg.eigh(Z.T @ Z / len(Z))
    dependent: NDArray[np.bool_] = (U[:, variances < NEARLY_0] ** 2).sum(axis=1) > NEARLY_0
    return dependent


def _gaps_before(values: Floats) -> Floats:
    """Distance of each of the ascending values in a row from the last smaller one, infinite without; shape as given."""
    gaps = np.diff(values, axis=1, prepend=-np.inf)  # so that the first differs from what is before it
    last = np.maximum.accumulate(np.where(gaps > 0, np.arange(values.shape[1]), 0), axis=1)
    return np.take_along_axis(gaps, last, axis=1)


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
