"""A test of whether clusters are pieces of curves: long, with rows spread evenly along them."""

import numpy as np

from bigsmic.numerics.labeling.outliers import without_outliers
from bigsmic.types import Floats, Integers

EVEN = -1.0
"""Excess kurtosis along their first axes below which rows are spread evenly: -1.2 on a line, and less on an arc that
turns back; 0 for a Gaussian, -0.96 for two whose means are three deviations apart."""
LONG = 0.5
"""Share of the variance along their first axes from which on clusters are long."""
FEWEST_ROWS = 20
"""Rows of a cluster from which on its moments are known."""
_NOTHING = 1e-12
"""Share of the mean square up to which a variance is rounding."""


def are_pieces(P: Floats, labels: Integers) -> bool:
    """Whether clusters, in the mean over their rows, are long, and rows are spread evenly along them.

    Two clusters in one, far apart, have as small a kurtosis, but in many dimensions they are not long.

    Parameters
    ----------
    P : ndarray of float, shape (s, r)
        Components of the rows.
    labels : ndarray of int, shape (s,)
        Not negative.
    """
    known = [P[labels == y] for y in np.flatnonzero(np.bincount(labels, minlength=1) >= FEWEST_ROWS)]
    if not known:
        return False
    found, sizes = [_along_first_axis(rows) for rows in known], [len(rows) for rows in known]
    kurtosis, share = np.average(found, axis=0, weights=sizes)
    return bool(kurtosis < EVEN and share > LONG)


def _along_first_axis(rows: Floats) -> tuple[float, float]:
    """Excess kurtosis of one cluster along its first principal axis, and share of the variance along it."""
    rows = without_outliers(rows.astype(np.float64))
    centred = rows - rows.mean(axis=0)
    variances, axes = np.linalg.eigh(centred.T @ centred / len(rows))
    if variances[-1] <= _NOTHING * np.mean(rows**2):
        return 0.0, 0.0
    fourth = np.mean((centred @ axes[:, -1]) ** 4)
    return float(fourth / variances[-1] ** 2 - 3.0), float(variances[-1] / variances.sum())
