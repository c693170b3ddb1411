"""A test of whether clusters are pieces of curves: long, with rows spread evenly along them."""

from typing import Any, NamedTuple

import numpy as np

from bigsmic.numerics.labeling.outliers import without_outliers
from bigsmic.types import Floats, Integers

EVEN = -1.0
"""Excess kurtosis along their first axes below which rows are spread evenly: -1.2 on a line, and less on an arc that
turns back; 0 for a Gaussian, -0.96 for two whose means are three deviations apart."""
BLUNT = -0.7
"""The same from which on clusters are blobs: if they touch in a plane they have -0.7 to 0.2."""
LONG = 0.5
"""Share of the variance along their first axes from which on clusters are long."""
FEWEST_ROWS = 20
"""Rows of a cluster from which on its moments are known."""
_NOTHING = 1e-12
"""Share of the mean square up to which a variance is rounding."""


class Pieces(NamedTuple):
    """Shapes of clusters.

    Parameters
    ----------
    sizes : ndarray of int64, shape (c,)
        Rows of each cluster; 0 for those of too few rows.
    kurtosis, share : ndarray of float64, shape (c,)
        Excess kurtosis along the first principal axis, and share of the variance along it.
    """

    sizes: np.ndarray
    kurtosis: np.ndarray
    share: np.ndarray

    def are_of_curves(self, among: Any = slice(None), long: float = LONG) -> bool:
        """Whether some of the clusters, in the mean over their rows, are long, and rows are spread evenly along them.

        Two clusters in one, far apart, have as small a kurtosis, but in many dimensions they are not long.

        Parameters
        ----------
        among : ndarray of bool, shape (c,), optional
            By default all clusters.
        long : float
            Least share of the variance along the first axis.
        """
        sizes = self.sizes[among]
        if not sizes.sum():
            return False
        kurtosis, share = (np.average(values[among], weights=sizes) for values in (self.kurtosis, self.share))
        return bool(kurtosis < EVEN and share > long)

    def are_blobs(self, among: Any) -> bool:
        """Whether some of the clusters, bool (c,), are blobs in the mean over their rows, and no pieces of curves."""
        sizes = self.sizes[among]
        return bool(sizes.sum()) and bool(np.average(self.kurtosis[among], weights=sizes) > BLUNT)

    def n_of_curves(self) -> int:
        """Number of the clusters that are long, each by itself, with rows spread evenly along them."""
        return int(np.count_nonzero((self.sizes > 0) & (self.kurtosis < EVEN) & (self.share > LONG)))


def pieces(P: Floats, labels: Integers) -> Pieces:
    """Shapes of clusters, of those of at least :data:`FEWEST_ROWS` rows.

    Parameters
    ----------
    P : ndarray of float, shape (s, r)
        Components of the rows.
    labels : ndarray of int, shape (s,)
        Not negative.
    """
    sizes = np.bincount(labels)
    sizes[sizes < FEWEST_ROWS] = 0
    found = np.zeros((len(sizes), 2))
    for y in np.flatnonzero(sizes):
        found[y] = _along_first_axis(P[labels == y])
    return Pieces(sizes, *found.T)


def _along_first_axis(rows: Floats) -> tuple[float, float]:
    """Excess kurtosis of one cluster along its first principal axis, and share of the variance along it."""
    rows = without_outliers(rows.astype(np.float64))
    centred = rows - rows.mean(axis=0)
    variances, axes = np.linalg.eigh(centred.T @ centred / len(rows))
    if variances[-1] <= _NOTHING * np.mean(rows**2):
        return 0.0, 0.0
    fourth = np.mean((centred @ axes[:, -1]) ** 4)
    return float(fourth / variances[-1] ** 2 - 3.0), float(variances[-1] / variances.sum())
