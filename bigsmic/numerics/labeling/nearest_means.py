"""Groups whose means are nearest by Ward's criterion, as groups are merged."""

import numpy as np

from bigsmic.types import Floats


class NearestMeans:
    """Distances between all groups by Ward's criterion [1]_, kept up as groups are merged.

    The union of two groups adds ``n_y n_z / (n_y + n_z) |mean_y - mean_z|^2`` to the sum of squared distances of rows
    from the means of their groups.

    Parameters
    ----------
    counts : ndarray of float64, shape (m,)
        Rows of each group, 0 for none.
    sums : ndarray of float64, shape (m, r)
        Sum of the rows of each group. Whoever merges groups does so in both arrays, which are not copied.

    References
    ----------
    .. [1] Ward, "Hierarchical grouping to optimize an objective function", J. American Statistical Association 58,
       1963. doi:10.1080/01621459.1963.10500845
    """

    def __init__(self, counts: Floats, sums: Floats) -> None:
        self.counts, self.sums, self.added = counts, sums, np.full((len(counts),) * 2, np.inf)
        for y in np.flatnonzero(counts > 0).tolist():
            self._measure(y)

    def _measure(self, y: int) -> None:
        n, sums = self.counts, self.sums
        others = np.flatnonzero((n > 0) & (np.arange(len(n)) != y))
        gaps = sums[others] / n[others, np.newaxis] - sums[y] / n[y]
        self.added[y, others] = self.added[others, y] = (gaps**2).sum(axis=1) / (1 / n[others] + 1 / n[y])

    def merged(self, y: int, z: int) -> None:
        """Measure group y anew, to which z was added."""
        self.added[z] = self.added[:, z] = np.inf
        self._measure(y)

    def pair(self) -> tuple[int, int]:
        """The two groups to merge, the smaller number first."""
        return smallest(self.added)


def smallest(added: Floats) -> tuple[int, int]:
    """Row and column of the smallest entry of a symmetric matrix, the smaller number first."""
    y, z = divmod(int(np.argmin(added)), len(added))
    return min(y, z), max(y, z)
