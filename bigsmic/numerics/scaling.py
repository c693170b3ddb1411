"""Scaling of columns from their moments, and refusal of rows for which float32 has no squared distances."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.numerics.moments import Moments, less, row_slices
from bigsmic.numerics.principal_axes import remainders
from bigsmic.numerics.products import HEIGHT, row_product
from bigsmic.numerics.spreads import spreads
from bigsmic.types import Floats, Integers

LEAST_VARIANCE = 1e-290  # of a column that is not constant; squares below it have lost their digits
REACH = 1e15  # largest scaled entry of a fitted row, and its inverse the least that differs from 0
FOR_MEDIAN = 1000  # rows from which the usual size of a row is known, or up to twice as many


class Scaler(NamedTuple):
    """``x -> ((x - origin - mean) * factor) axes``, computed in float64, stored in float32.

    Parameters
    ----------
    mean, factor : ndarray of float64, shape (d,)
        The factor of a constant column is 0.
    origin : ndarray of int64 or uint64, shape (d,), optional
        Subtracted as an integer; see :func:`~bigsmic.numerics.moments.origin_of`.
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
        return row_slices(X, 1 if self.axes is None else HEIGHT)

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
    spread: Floats | None = None,
    center: Floats | None = None,
) -> Scaler:
    """Scaler from the moments of all rows.

    Parameters
    ----------
    total : Moments
    scale : {"standard", "mixed", "variance", "range", None}
        Divide by the standard deviation, by the same but some columns by their `spread`, by the variance, by half
        the range, or only centre.
    origin : ndarray, shape (d,), optional
        Origin of the moments.
    spread : ndarray of float64, shape (d,), optional
        From :func:`~bigsmic.numerics.spreads.spreads`; by default, of columns of two values only.
    center : ndarray of float64, shape (d,), optional
        From :func:`~bigsmic.numerics.spreads.centers`; by default, the mean of all rows.

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
    half_range = np.where(varies, (total.high - total.low) / 2, 1)
    deviation = np.sqrt(safe)
    spread = spreads(total).all if spread is None else spread
    divisor = {
        "standard": deviation,
        "mixed": np.where(varies & ~np.isnan(spread), spread, deviation),
        "variance": safe,
        "range": half_range,
        None: np.ones_like(safe),
    }[scale]
    factor = np.where(varies, 1 / divisor, 0.0)
    _check_range(total, factor, scale)
    return Scaler(total.mean if center is None else center, factor, origin)


def in_range(total: Moments) -> bool:
    """Whether float32 can represent squared distances of rows that are centred but not divided."""
    reach = total.reach[total.high > total.low]
    return not reach.size or _is_exact(reach.max())


def _is_exact(reach: float) -> bool:
    return 1 / REACH < reach < REACH


def _check_underflow(variance: Floats, differs: NDArray[np.bool_]) -> None:
    """Raise InputError if the variances of all non-constant columns underflow; some such columns count as constant."""
    if differs.any() and not (variance[differs] >= LEAST_VARIANCE).any():
        raise InputError(
            "input: the values of every column differ by so little that their squares leave the range of float64; "
            "change the unit, such as X * 1e200"
        )


def _check_range(total: Moments, factor: Floats, scale: str | None) -> None:
    reach = total.reach * factor
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
        Its mean is that of most rows; see :func:`~bigsmic.numerics.spreads.centers`.
    sample : ndarray, shape (m, d)
        Some of the rows, as stored.

    Raises
    ------
    InputError
    """
    some = sample[:: max(1, len(sample) // FOR_MEDIAN)]
    widths, sizes = np.zeros((2, len(some)))
    for at in row_slices(some.T) if len(some) else ():
        columns = less(some[:, at], None if scaling.origin is None else scaling.origin[at]).T.astype(np.float64, "C")
        middle = np.median(columns, axis=1)
        deviations = np.abs(columns.T - middle) * scaling.factor[at]
        resolution = np.abs(middle - scaling.mean[at]) * scaling.factor[at] * np.finfo(np.float32).eps
        widths = np.maximum(widths, deviations.max(axis=1))
        sizes = np.maximum(sizes, np.where(deviations > resolution, deviations, 0).max(axis=1))
    if (differ := widths > 0).any() and np.median(sizes[differ]) < 1 / REACH:
        usual, far = np.median(widths[differ]), int(np.argmax(total.reach * scaling.factor))
        raise InputError(
            f"input: some rows are so far out that most of the others are within {usual:.3g} of their median after "
            f"scaling, and float32 has no squared distances for them; column {far} has entries from "
            f"{total.low[far]:.3g} to {total.high[far]:.3g}: drop or mend rows with extreme ones, such as a number "
            "that stands for missing values"
        )
