"""Sums of the rows of each label, which add up over blocks, and labels of rows by the nearest mean."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bigsmic.types import Floats, Integers


def class_sums(X: Floats, labels: Any, n_classes: int) -> Floats:
    """Sums of the rows of each label, and their number in the last column; rows with a negative label are ignored.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    labels : ndarray of int, shape (b,)
    n_classes : int

    Returns
    -------
    sums : ndarray of float64, shape (n_classes, d + 1)
    """
    known = labels >= 0
    indicator = csr_array(
        (np.ones(np.count_nonzero(known)), (labels[known], np.flatnonzero(known))), shape=(n_classes, len(X))
    )
    return np.column_stack([indicator @ X.astype(np.float64), np.bincount(labels[known], minlength=n_classes)])


def nearest_mean(X: Floats, sums: Floats) -> Integers:
    """Label of the nearest class mean, the smallest among equals; classes without rows are never nearest.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    sums : ndarray of float64, shape (c, d + 1)
        From :func:`class_sums`.

    Returns
    -------
    labels : ndarray of int32, shape (b,)
    """
    counts = sums[:, -1]
    means = sums[:, :-1] / np.maximum(counts, 1)[:, None]
    distances = (means**2).sum(axis=1) - 2 * (X @ means.T)
    return np.where(counts > 0, distances, np.inf).argmin(axis=1).astype(np.int32)
