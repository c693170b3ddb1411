"""Column moments that add up over blocks, and the scaling derived from them."""

import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bigsmic.errors import InputError
from bigsmic.numerics.principal_axes import remainders
from bigsmic.numerics.products import HEIGHT, row_product
from bigsmic.types import Floats, Integers

ROUNDING = 1e-9  # of variances relative to their bound
LEAST_VARIANCE = 1e-290  # of a column that is not constant; squares below it have lost their digits
REACH = 1e15  # largest scaled entry of a fitted row, and its inverse the least that differs from 0
EXTREME_SHARE = 0.01
"""Share of the rows, at either end of a column, that are its extremes."""
EXTREME = 2.0
"""Quotient of the standard deviation of a column and that without its extremes, from which the latter is its spread."""
_FAR = 5.0  # standard deviations within which a column has no extremes
_OFF = 1000.0  # spreads between the means with extremes and without, beyond which float32 has few digits for the rest
_EXACT = 1 << 53  # float64 represents all integers up to this
_TILE_ENTRIES = 1 << 17  # converted to float64 at a time
FOR_MEDIAN = 1000  # rows from which the usual size of a row is known, or up to twice as many


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

    def __add__(self, other: "Moments") -> "Moments":  # type: ignore[override]
        """Moments of the rows of both; [1]_."""
        n = self.n + other.n
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        m2 = self.m2 + other.m2 + delta**2 * (self.n * other.n / n)
        return Moments(n, mean, m2, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


def origin_of(row: NDArray[Any]) -> Integers | None:
    """Integers to subtract from all rows before conversion to floats: entries of a row too large for floats, else 0.

    Parameters
    ----------
    row : ndarray, shape (d,)
        The first row.

    Returns
    -------
    origin : ndarray of the row's dtype, shape (d,), or None
        None if there is nothing to subtract.
    """
    if row.dtype.kind not in "iu" or row.dtype.itemsize < 8:
        return None
    large = (row > _EXACT) | (row < -_EXACT) if row.dtype.kind == "i" else row > _EXACT
    return np.where(large, row, 0).astype(row.dtype) if large.any() else None


def moments(X: Floats, origin: Any = None) -> Moments:
    """Moments of one block of finite rows, shape (b, d), b >= 1, minus an origin; see :func:`origin_of`."""
    return reduce(operator.add, map(_tile_moments, _tiles(X, origin=origin)))


def _tile_moments(tile: Floats) -> Moments:
    mean = tile.mean(axis=0)
    m2 = ((tile - mean) ** 2).sum(axis=0)
    return Moments(np.asarray(len(tile)), mean, m2, tile.min(axis=0), tile.max(axis=0))


def first_nonfinite(X: NDArray[Any]) -> tuple[int, int, int]:
    """Count the entries that are NaN or infinite, and find the first: (count, row, column), -1 if none."""
    if X.dtype.kind != "f":
        return 0, -1, -1
    count, where = 0, (-1, -1)
    for some in _slices(X):
        bad = ~np.isfinite(X[some])
        if bad.any():
            if not count:
                row, column = np.argwhere(bad)[0]
                where = (int(row) + some.start, int(column))
            count += int(bad.sum())
    return count, *where


class Scaler(NamedTuple):
    """``x -> ((x - origin - mean) * factor) axes``, computed in float64, stored in float32.

    Parameters
    ----------
    mean, factor : ndarray of float64, shape (d,)
        The factor of a constant column is 0.
    origin : ndarray of int64 or uint64, shape (d,), optional
        Subtracted as an integer; see :func:`origin_of`.
    axes : ndarray of float64, shape (d, r), optional
        Principal axes of the scaled rows, of which these become the components.
    """

    mean: np.ndarray
    factor: np.ndarray
    origin: np.ndarray | None = None
    axes: np.ndarray | None = None

    @property
    def center(self) -> Floats:
        """The whole offset that is subtracted, rounded to float64."""
        return self.mean if self.origin is None else self.mean + self.origin.astype(np.float64)

    @property
    def constant(self) -> Integers:
        """Numbers of the constant columns."""
        return np.flatnonzero(self.factor == 0)

    def apply(self, X: Any) -> Floats:
        """Scale rows of any real dtype to C-ordered float32, and take their components if there are axes."""
        out = np.empty((len(X), X.shape[1] if self.axes is None else self.axes.shape[1]), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # of new rows, which may be farther than float32 can tell
            for some in self._at_once(X):
                out[some] = self._components(self._scaled(X[some]))
        return out

    def _at_once(self, X: Any) -> Iterator[slice]:
        """Rows to scale at a time. If there are axes, they fill the products with them, which would be padded."""
        return _slices(X, 1 if self.axes is None else HEIGHT)

    def _scaled(self, X: Any) -> Floats:
        scaled: Floats = less(X, self.origin) - self.mean
        scaled *= self.factor
        return scaled

    def _components(self, scaled: Floats) -> Floats:
        return scaled if self.axes is None else row_product(scaled, self.axes)

    def within_reach(self, X: Any) -> Floats:
        """Like `apply`, with rows farther from the mean than fitted ones can be moved nearer in their direction.

        Linear classifiers label them as before, and nothing that is computed from them overflows.
        """
        out = self.apply(X)
        far = ~(np.abs(out).max(axis=1, initial=0) <= REACH)
        if far.any():
            out[far] = self._nearer(X[far])
        return out

    def _nearer(self, X: Any) -> Floats:
        halves = X / 2 - self.center / 2  # as the difference itself may overflow
        sizes = np.abs(halves).max(axis=1, keepdims=True, initial=0)
        found = np.divide(halves, sizes, out=np.zeros_like(halves), where=sizes > 0) * self.factor
        found = self._components(found)
        units = np.abs(found).max(axis=1, keepdims=True, initial=0)
        with np.errstate(over="ignore"):
            reach = np.minimum(2 * sizes * units, REACH)
        return np.divide(found, units, out=np.zeros_like(found), where=units > 0) * reach

    def remainders(self, X: Any) -> Floats:
        """Norms of what the components leave of scaled rows, float32, shape (b,); 0 without axes."""
        out = np.zeros(len(X), np.float32)
        if self.axes is None:
            return out
        for some in self._at_once(X):
            out[some] = remainders(self._scaled(X[some]), self.axes)
        return out


def scaler(
    total: Moments,
    scale: str | None,
    origin: Integers | None = None,
    own: Floats | None = None,
    center: Floats | None = None,
) -> Scaler:
    """Scaler from the moments of all rows.

    Parameters
    ----------
    total : Moments
    scale : {"standard", "mixed", "variance", "range", None}
        Divide by the standard deviation, by the same but some columns by their `own` spreads, by the variance, by half
        the range, or only centre.
    origin : ndarray, shape (d,), optional
        Origin of the moments.
    own : ndarray of float64, shape (d,), optional
        From :func:`spreads`; by default, of columns of two values only.
    center : ndarray of float64, shape (d,), optional
        From :func:`centers`; by default, the mean of all rows.

    Raises
    ------
    InputError
        The scaled rows exceed the range in which float32 can represent squared distances, or the squared deviations of
        all columns underflow in float64.
    """
    variance = total.m2 / total.n
    varies = (total.high > total.low) & (variance > 0)
    _check_underflow(variance, total.high > total.low)
    safe = np.where(varies, variance, 1)
    reach = np.where(varies, (total.high - total.low) / 2, 1)
    deviation = np.sqrt(safe)
    own = spreads(total).all if own is None else own
    divisor = {
        "standard": deviation,
        "mixed": np.where(varies & ~np.isnan(own), own, deviation),
        "variance": safe,
        "range": reach,
        None: np.ones_like(safe),
    }[scale]
    factor = np.where(varies, 1 / divisor, 0.0)
    _check_range(total, factor, scale)
    return Scaler(total.mean if center is None else center, factor, origin)


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
        Origin of the moments; see :func:`origin_of`.
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
        Origin of the moments; see :func:`origin_of`.

    Returns
    -------
    centers : ndarray of float64, shape (d,)
    """
    found = total.mean.copy()
    if len(sample):
        for j in np.flatnonzero(_reach(total) > _FAR * np.sqrt(total.m2 / total.n)):
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


def in_range(total: Moments) -> bool:
    """Whether float32 can represent squared distances of rows that are centred but not divided."""
    reach = _reach(total)[total.high > total.low]
    return not reach.size or _is_exact(reach.max())


def _reach(total: Moments) -> Floats:
    return np.maximum(total.high - total.mean, total.mean - total.low)


def _is_exact(reach: float) -> bool:
    return 1 / REACH < reach < REACH


def _check_underflow(variance: Floats, differs: NDArray[np.bool_]) -> None:
    """Raise InputError if the variances of all non-constant columns underflow; some such columns count as constant."""
    if differs.any() and not (variance[differs] >= LEAST_VARIANCE).any():
        raise InputError(
            "input: the values of every column differ by so little that their squares leave the range of float64; "
            "change the unit, such as X * 1e200"
        )


def refuse_overflow(m2: Floats) -> None:
    """Refuse sums of squared deviations of columns that are not finite."""
    if not np.isfinite(m2).all():
        raise InputError(
            "input: the sum of squares of a column overflows float64; change the unit of the rows, or drop extreme ones"
        )


def _check_range(total: Moments, factor: Floats, scale: str | None) -> None:
    reach = _reach(total) * factor
    far = int(np.argmax(reach))
    if reach[far] > 0 and not _is_exact(reach[far]):
        raise InputError(
            f"input: after scale={scale!r} the rows reach {reach[far]:.3g} from their mean; squared distances need "
            f"1e-15 to 1e15 in float32; column {far} has entries from {total.low[far]:.3g} to {total.high[far]:.3g}: "
            "drop or mend extreme ones, such as a number that stands for missing values, change the unit, or use "
            "scale='standard'"
        )


def refuse_without_distances(total: Moments, scaling: Scaler, sample: NDArray[Any]) -> None:
    """Refuse rows most of which, beside far ones, are so near each other that float32 has no distances for them.

    Parameters
    ----------
    total : Moments
    scaling : Scaler
        Its mean is that of most rows; see :func:`centers`.
    sample : ndarray, shape (m, d)
        Some of the rows, as stored.

    Raises
    ------
    InputError
    """
    some = sample[:: max(1, len(sample) // FOR_MEDIAN)]
    widths, sizes = np.zeros((2, len(some)))
    for at in _slices(some.T) if len(some) else ():
        columns = less(some[:, at], None if scaling.origin is None else scaling.origin[at]).T.astype(np.float64, "C")
        middle = np.median(columns, axis=1)
        deviations = np.abs(columns.T - middle) * scaling.factor[at]
        resolution = np.abs(middle - scaling.mean[at]) * scaling.factor[at] * np.finfo(np.float32).eps
        widths = np.maximum(widths, deviations.max(axis=1))
        sizes = np.maximum(sizes, np.where(deviations > resolution, deviations, 0).max(axis=1))
    if (differ := widths > 0).any() and np.median(sizes[differ]) < 1 / REACH:
        usual, far = np.median(widths[differ]), int(np.argmax(_reach(total) * scaling.factor))
        raise InputError(
            f"input: some rows are so far out that most of the others are within {usual:.3g} of their median after "
            f"scaling, and float32 has no squared distances for them; column {far} has entries from "
            f"{total.low[far]:.3g} to {total.high[far]:.3g}: drop or mend rows with extreme ones, such as a number "
            "that stands for missing values"
        )


def _slices(X: Floats, multiple: int = 1) -> Iterator[slice]:
    """Some rows at a time, in a multiple of `multiple`."""
    step = max(1, _TILE_ENTRIES // max(1, X.shape[1]) // multiple) * multiple
    return (slice(lo, lo + step) for lo in range(0, len(X), step))


def _tiles(X: Floats, origin: Any = None) -> Iterator[Floats]:
    """Some rows at a time, minus an origin, in float64."""
    tiles = (X[some] for some in _slices(X))
    return (tile.astype(np.float64, copy=False) if origin is None else less(tile, origin) for tile in tiles)


def less(X: NDArray[Any], origin: Integers | None) -> NDArray[Any]:
    """``X - origin`` in float64, exact where the difference of integers is; X itself without an origin."""
    if origin is None:
        return X
    rough = X.astype(np.float64) - origin.astype(np.float64)
    if X.dtype != origin.dtype:
        return rough
    return np.where(np.abs(rough) < 2.0**62, (X - origin).astype(np.int64), rough)  # which would wrap beyond 2^63


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
    """
    counts = sums[:, -1]
    means = sums[:, :-1] / np.maximum(counts, 1)[:, None]
    distances = (means**2).sum(axis=1) - 2 * (X @ means.T)
    return np.where(counts > 0, distances, np.inf).argmin(axis=1).astype(np.int32)
