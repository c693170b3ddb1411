"""Reliability of stated probabilities: how often what is said to be right is right."""

import numpy as np


def reliability_sums(confidence, correct, n_bins=10):
    """Rows, confidence and successes by bin of confidence, over one block of rows.

    Parameters
    ----------
    confidence : ndarray of float, shape (b,), in [0, 1]
        Stated probability that the row's label is right.
    correct : ndarray of bool, shape (b,)
    n_bins : int
        Bins of equal width; a value on a border belongs to the upper one, 1 to the last.

    Returns
    -------
    sums : ndarray of float64, shape (3, n_bins)
        Add over blocks.
    """
    confidence = np.asarray(confidence, dtype=np.float64)
    bins = np.clip((confidence * n_bins).astype(np.int64), 0, n_bins - 1)
    weights = (np.ones_like(confidence), confidence, np.asarray(correct, dtype=np.float64))
    return np.stack([np.bincount(bins, weights=w, minlength=n_bins) for w in weights])


def reliability_curve(sums):
    """Mean confidence and share of successes in each bin.

    Parameters
    ----------
    sums : ndarray of float64, shape (3, n_bins)
        Total of `reliability_sums`.

    Returns
    -------
    confidence, accuracy : ndarray of float64, shape (n_bins,)
        NaN in bins without rows.
    """
    counts, confidence, correct = sums
    empty = np.full((2, len(counts)), np.nan)
    return tuple(np.divide([confidence, correct], counts, out=empty, where=counts > 0))


def expected_calibration_error(sums):
    """Mean over rows of ``|mean confidence - share of successes|`` of the row's bin.

    Parameters
    ----------
    sums : ndarray of float64, shape (3, n_bins)
        Total of `reliability_sums`.

    Returns
    -------
    float
        0 for no rows.
    """
    counts, confidence, correct = sums
    return float(np.abs(confidence - correct).sum() / max(1.0, counts.sum()))
