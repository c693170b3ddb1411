"""Column moments that add up over blocks, and the scaling made of them."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from bigsmic.errors import InputError

LEAST_VARIANCE = 1e-290  # of a column that is not constant: below it squares have lost their digits
_PANEL_ENTRIES = 1 << 17  # converted to float64 at a time


class Moments(NamedTuple):
    """Number of rows, mean, sum of squared deviations and range of each column.

    Parameters
    ----------
    n : ndarray of int64, shape ()
    mean, m2, low, high : ndarray of float64, shape (d,)

    References
    ----------
    .. [1] Chan, Golub, LeVeque, "Algorithms for computing the sample variance", The American Statistician 37, 1983.
    """

    n: np.ndarray
    mean: np.ndarray
    m2: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __add__(self, other):
        """Moments of the rows of both; [1]_."""
        n = self.n + other.n
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        m2 = self.m2 + other.m2 + delta**2 * (self.n * other.n / n)
        return Moments(n, mean, m2, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


def moments(X):
    """Moments of one block of finite rows, shape (b, d), b >= 1."""
    total = None
    for panel in _panels(X):
        mean = panel.mean(axis=0)
        part = Moments(
            np.asarray(len(panel)),
            mean,
            ((panel - mean) ** 2).sum(axis=0),
            panel.min(axis=0),
            panel.max(axis=0),
        )
        total = part if total is None else total + part
    return total


def first_nonfinite(X):
    """Count the entries that are NaN or infinite, and find the first: (count, row, column), -1 if none."""
    if X.dtype.kind != "f":
        return 0, -1, -1
    count, where = 0, (-1, -1)
    for i, panel in enumerate(_panels(X, dtype=X.dtype)):
        bad = ~np.isfinite(panel)
        if bad.any():
            if not count:
                row, column = np.argwhere(bad)[0]
                where = (int(row) + i * _panel_rows(X), int(column))
            count += int(bad.sum())
    return count, *where


class Scaler(NamedTuple):
    """``x -> (x - mean) * factor``, computed in float64, stored in float32.

    Parameters
    ----------
    mean, factor : ndarray of float64, shape (d,)
        The factor of a constant column is 0.
    """

    mean: np.ndarray
    factor: np.ndarray

    @property
    def constant(self):
        """Numbers of the constant columns."""
        return np.flatnonzero(self.factor == 0)

    def apply(self, X):
        """Scale rows; any real dtype in, float32 out, C-ordered."""
        out = np.empty(X.shape, np.float32)
        step = _panel_rows(X)
        for i, panel in enumerate(_panels(X)):
            out[i * step : i * step + len(panel)] = (panel - self.mean) * self.factor
        return out


def scaler(total, scale):
    """Scaler from the moments of all rows.

    Parameters
    ----------
    total : Moments
    scale : {"standard", "variance", "range", None}
        Divide by the standard deviation, by the variance, by half the range, or only centre.

    Raises
    ------
    InputError
        The scaled rows leave the range in which squared distances are exact in float32, or the squares of a column's
        deviations that of float64.
    """
    variance = total.m2 / total.n
    varies = (total.high > total.low) & (variance > 0)
    _check_underflow(variance, total.high > total.low)
    safe = np.where(varies, variance, 1)
    reach = np.where(varies, (total.high - total.low) / 2, 1)
    divisor = {"standard": np.sqrt(safe), "variance": safe, "range": reach, None: np.ones_like(safe)}[scale]
    factor = np.where(varies, 1 / divisor, 0.0)
    _check_range(np.maximum(total.high - total.mean, total.mean - total.low) * factor, varies, scale)
    return Scaler(total.mean, factor)


def _check_underflow(variance, differs):
    """One such column among others is as good as constant; where all are, the rows seem equal and are not."""
    if differs.any() and not (variance[differs] >= LEAST_VARIANCE).any():
        raise InputError(
            "input: the values of every column differ by so little that their squares leave the range of float64; "
            "change the unit, such as X * 1e200"
        )


def _check_range(reach, varies, scale):
    reach = reach[varies]
    if reach.size and not (1e-15 < reach.max() < 1e15):
        raise InputError(
            f"input: after scale={scale!r} the rows reach {reach.max():.3g} from their mean; squared distances need "
            "1e-15 to 1e15 in float32: use scale='standard', or change the unit"
        )


def _panel_rows(X):
    return max(1, _PANEL_ENTRIES // max(1, X.shape[1]))


def _panels(X, dtype=np.float64):
    step = _panel_rows(X)
    return (X[lo : lo + step].astype(dtype, copy=False) for lo in range(0, len(X), step))


def class_sums(X, labels, n_classes):
    """Sums of the rows of each label, and their number in the last column; rows with a negative label do not count.

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


def nearest_mean(X, sums):
    """Label of the nearest class mean, the smallest among equals; classes without rows are never nearest.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    sums : ndarray of float64, shape (c, d + 1)
        From :func:`class_sums`.
    """
    counts = sums[:, -1]
    means = sums[:, :-1] / np.maximum(counts, 1)[:, None]
    distances = (means**2).sum(axis=1) - 2 * (X @ means.T)
    return np.where(counts > 0, distances, np.inf).argmin(axis=1).astype(np.int32)
