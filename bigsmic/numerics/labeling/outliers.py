"""Rows of a cluster without its outliers, a few of which have most of all variances, and of fourth moments."""

import numpy as np

from bigsmic.types import Floats

FENCE = 1.5
"""Times the range of the quartiles of distances by which an outlier exceeds the upper one [Tukey]_."""


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
