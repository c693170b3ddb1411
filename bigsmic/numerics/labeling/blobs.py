"""A test of whether a cluster with most of the rows is one blob, or several clusters that no valley separates."""

import numpy as np

from bigsmic.numerics.hashing import draw_rows, generator
from bigsmic.numerics.labeling.outliers import without_outliers
from bigsmic.types import Floats

LARGEST, CRUMB = 0.5, 0.25
"""Share of the rows from which on one cluster has most of them; share of these below which others are crumbs."""
CLUMPED, CLEARLY_CLUMPED = 0.025, 0.05
"""Clumpiness from which on a cluster is no blob: to refuse it as an answer, and to look for others in it."""
MOST_ROWS, N_NEIGHBORS, N_DRAWS = 2000, 10, 3
_SMALLEST = 1e-12


def clumpiness(P: Floats, seed: int = 0) -> float:
    """How much nearer rows are to their neighbours than in a Gaussian blob of the same covariance.

    Parameters
    ----------
    P : ndarray of float, shape (s, r)
        Rows of one cluster, of which 2,000 are drawn; outliers do not count, and equal ones count as one.
    seed : int
        Of the draw, and of the random blobs for comparison.

    Returns
    -------
    clumpiness : float
        Median log distance to the tenth neighbour in a blob, averaged over three draws, minus that of the rows: 0 for a
        blob, larger if rows lie in clumps, or on a surface of fewer dimensions. 0 for at most 20 rows.
    """
    P = np.asarray(P[draw_rows(len(P), MOST_ROWS, seed, "blobs")], np.float64)
    P = without_outliers(P[np.sort(np.unique(P, axis=0, return_index=True)[1])])
    if len(P) <= 2 * N_NEIGHBORS:
        return 0.0
    centred = P - P.mean(axis=0)
    _, s, Vt = np.linalg.svd(centred, full_matrices=False)
    axes = (s / np.sqrt(len(P) - 1))[:, None] * Vt
    draw = generator(seed, "blobs")
    drawn = [_log_distance(draw.standard_normal((len(P), len(axes))) @ axes) for _ in range(N_DRAWS)]
    return float(np.mean(drawn) - _log_distance(centred))


def _log_distance(P: Floats) -> float:
    from scipy.spatial import KDTree  # takes half a second to import, and few fits need it

    found, _ = KDTree(P).query(P, N_NEIGHBORS + 1)
    return float(np.median(np.log(np.maximum(found[:, N_NEIGHBORS], _SMALLEST))))
