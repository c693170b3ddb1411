"""Centers and spreads of columns in which a few values, or a few rows, have most of the variance."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.moments import Moments, less
from bigsmic.types import Floats, Integers

ROUNDING = 1e-9  # of variances relative to their bound
EXTREME_SHARE = 0.01
"""Share of the rows, at either end of a column, that are its extremes."""
EXTREME = 2.0
"""Quotient of the standard deviation of a column and that without its extremes, from which the latter is its spread."""
_FAR = 5.0  # standard deviations within which a column has no extremes
_OFF = 1000.0  # spreads between the means with extremes and without, beyond which float32 has few digits for the rest


def two_valued(total: Moments) -> NDArray[np.bool_]:
    """Which columns have exactly two values, such as the indicators of categories: bool, shape (d,).

    No variance between two bounds is larger than ``(high - mean) (mean - low)``, and only two values reach it [1]_.

    References
    ----------
    .. [1] Bhatia, Davis, "A better bound on the variance", The American Mathematical Monthly 107, 2000.
       doi:10.1080/00029890.2000.12005203
    """
    largest = (total.high - total.mean) * (total.mean - total.low)
    found: NDArray[np.bool_] = (largest > 0) & (total.m2 / total.n > (1 - ROUNDING) * largest)
    return found


class Spreads(NamedTuple):
    """Spreads of the columns that are not divided by their standard deviations; NaN for all others.

    Parameters
    ----------
    of_others : ndarray of float64, shape (d,)
        Of columns in which most rows have one value: root mean square of the difference of the other rows from it.
    of_most : ndarray of float64, shape (d,)
        Of columns in which a few rows have most of the variance: standard deviation without these.

    Notes
    -----
    As zeros and ones, the indicators of a categorical variable whose categories have the shares p contribute
    ``2 (1 - sum p^2)`` to the mean squared distance of two rows, where another column contributes 2. Divided by their
    standard deviations they would contribute 2 each, however many there are. Likewise the rows of a rare event would be
    far from all others, and from each other: counts that are 0 in 95 % of the rows and 1 or 2 in the others are divided
    by about 1, and not by .25.

    If a few rows of a column have a wrong unit, or a number that stands for a missing one, all other rows would be
    nearly equal in a column that is divided by its standard deviation.
    """

    of_others: Floats
    of_most: Floats

    @property
    def all(self) -> Floats:
        """Both, float64, shape (d,)."""
        return np.where(np.isnan(self.of_others), self.of_most, self.of_others)


def spreads(total: Moments, sample: NDArray[Any] | None = None, origin: Integers | None = None) -> Spreads:
    """Spreads of the columns that are not divided by their standard deviations.

    Of two values it is their difference, which the moments of all rows tell. Others are told by a sample; if none of
    its rows differs from the value that most have, the spread is the range of the column.

    Parameters
    ----------
    total : Moments
    sample : ndarray, shape (m, d), optional
        Some of the rows, as stored; without it, there are only columns of two values.
    origin : ndarray, shape (d,), optional
        Origin of the moments; see :func:`~bigsmic.numerics.moments.origin_of`.
    """
    ranges, two = total.high - total.low, two_valued(total)
    found = Spreads(np.where(two, ranges, np.nan), np.full(len(ranges), np.nan))
    if sample is None or not len(sample):
        return found
    for j in np.flatnonzero(ranges > 0):
        column = less(sample[:, j], None if origin is None else origin[j])
        if two[j] and np.all((column == total.low[j]) | (column == total.high[j])):
            continue
        found.of_others[j] = np.nan  # beside one entry far out, the moments of any others are those of two values
        most = np.partition(column, len(column) // 2)[len(column) // 2]  # a value of more than half is the median
        others = column[column != most].astype(np.float64)
        if not len(others):
            found.of_others[j] = ranges[j]
        elif 2 * len(others) < len(column):
            of_all, of_most = map(_root_mean_square, (others - float(most), without_extremes(others - float(most))))
            found.of_others[j] = of_most if of_all > EXTREME * of_most else of_all
        else:
            bounded = without_extremes(column).astype(np.float64)
            of_most = _root_mean_square(bounded - bounded.mean())
            if np.sqrt(total.m2[j] / total.n) > EXTREME * of_most > 0:
                found.of_most[j] = of_most
    return found


def centers(total: Moments, sample: NDArray[Any], origin: Integers | None = None) -> Floats:
    """Means of the columns, but without their extremes where these are far too large.

    Centred by the mean of all, most rows of such a column would be equal to float32.

    Parameters
    ----------
    total : Moments
    sample : ndarray, shape (m, d)
        Some of the rows, as stored.
    origin : ndarray, shape (d,), optional
        Origin of the moments; see :func:`~bigsmic.numerics.moments.origin_of`.

    Returns
    -------
    centers : ndarray of float64, shape (d,)
    """
    found = total.mean.copy()
    if len(sample):
        for j in np.flatnonzero(total.reach > _FAR * np.sqrt(total.m2 / total.n)):
            bounded = without_extremes(less(sample[:, j], None if origin is None else origin[j])).astype(np.float64)
            center = bounded.mean()
            if abs(found[j] - center) > _OFF * _root_mean_square(bounded - center) > 0:
                found[j] = center
    return found


def _root_mean_square(values: Floats) -> float:
    unit = np.abs(values).max(initial=0.0)  # of which the squares stay within the range of float64
    return float(unit * np.sqrt(np.square(values / unit).mean())) if unit > 0 else 0.0


def without_extremes(X: NDArray[Any], share: float = EXTREME_SHARE) -> NDArray[Any]:
    """Values of every column, the few smallest and largest of which are replaced by the next ("winsorised").

    At either end, ``ceil(share m)`` of m values are replaced, but no more than a twentieth of them.

    Parameters
    ----------
    X : ndarray, shape (m,) or (m, d)
    share : float

    Returns
    -------
    bounded : ndarray of the same shape and dtype
    """
    columns = X.reshape(len(X), -1)
    few = min(int(np.ceil(share * len(X))), len(X) // 20)
    bounded = np.empty_like(columns)
    for j, column in enumerate(columns.T):
        ordered = np.partition(column, (few, len(X) - 1 - few))
        bounded[:, j] = np.clip(column, ordered[few], ordered[-1 - few])
    return bounded.reshape(X.shape)
