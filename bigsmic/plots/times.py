"""Plot of the shares of clusters over time, or over row numbers."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bigsmic.errors import InputError
from bigsmic.plots.axes import axes_or_new
from bigsmic.plots.palette import NONE, palette
from bigsmic.types import Floats
from bigsmic.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 100
MOST_BINS = 10_000
"""More than a picture has columns of pixels; memory and time of a drawing grow with bins times clusters."""
LARGEST = 1e300
"""Largest time: Matplotlib computes with sums of some times, which have to be finite."""
DATES = ", such as pandas.DatetimeIndex(times).tz_localize(None)"
REMEDIES = {"O": DATES, "U": DATES, "T": DATES, "m": ", such as seconds: times / numpy.timedelta64(1, 's')"}
"""How to make times of what is none, by the kind of its dtype: dates in a time zone, or as words, and durations."""


def timeline(result: Any, times: ArrayLike | None = None, *, n_bins: int = BINS, ax: "Axes | None" = None) -> "Axes":
    """Draw the share of every cluster over time as stacked areas.

    Parameters
    ----------
    result : Result
    times : array_like, shape (n,), optional
        A time for every row, numbers, datetime64, or periods of pandas, of which the start counts; by default the
        number of the row.
    n_bins : int
        Number of bins of equal length in which shares are counted; if times are integers or dates that span fewer
        units, there is one bin for each unit.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes
        With cluster 0 at the bottom, and rows in no cluster at the top, in grey.

    Raises
    ------
    InputError
        The fit has no labels, `times` are not one finite number for every row, up to 1e300, or `n_bins` is not from 1
        to 10,000.
    """
    check_integer("n_bins", n_bins, 1)
    if n_bins > MOST_BINS:
        raise InputError(f"n_bins: got {n_bins}; use at most {MOST_BINS:,}, or draw a part of the rows")
    labels, c = result.labels, result.n_clusters
    at = np.arange(len(labels)) if times is None else checked_times(times, len(labels))
    edges, shares = shares_over(at, labels, c, n_bins)
    ax = axes_or_new(ax)
    shown = shares if (labels < 0).any() else shares[:-1]
    steps = np.repeat(edges, 2)[1:-1]
    colors = [*palette(c), NONE][: len(shown)]
    ax.stackplot(steps, np.repeat(np.nan_to_num(shown), 2, axis=1), colors=colors, linewidth=0)
    ax.set(
        xlabel="row" if times is None else "time", ylabel="share of the rows", ylim=(0, 1), xlim=(edges[0], edges[-1])
    )
    return ax


def shares_over(at: Any, labels: Any, n_clusters: int, n_bins: int) -> tuple[Any, Floats]:
    """Share of every cluster, and of rows in no cluster, in bins of equal length.

    Returns
    -------
    edges : ndarray, shape (b + 1,)
        Bounds of `n_bins` bins; of one bin for each unit if times are integers or dates that span fewer units.
    shares : ndarray of float64, shape (c + 1, b)
        nan in bins without rows.
    """
    edges = _edges(at, n_bins)
    n_bins = len(edges) - 1
    place = np.searchsorted(edges, at, side="right").clip(1, n_bins) - 1
    row = np.where(labels < 0, n_clusters, labels)  # of the counts
    counts = np.bincount(row * n_bins + place, minlength=(n_clusters + 1) * n_bins).reshape(n_clusters + 1, n_bins)
    total = counts.sum(axis=0)
    return edges, np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)


def _edges(at: Any, n_bins: int) -> Any:
    """Bounds of bins of equal length, ascending."""
    low, high = at.min(), at.max()
    if at.dtype.kind == "f":
        low, high = float(low), float(high)  # as float16 and float32 may not have their difference
        return np.linspace(low, high if high > low else low + max(1.0, abs(low) * 1e-9), n_bins + 1)
    is_date = at.dtype.kind == "M"
    if is_date and low == high and at.dtype > np.dtype("M8[s]"):  # as drawings tell no microseconds apart
        return _edges(at.astype("M8[s]"), n_bins)
    units = int(high.astype(np.int64)) - int(low.astype(np.int64)) if is_date else int(high) - int(low)
    if is_date and units > np.iinfo(np.int64).max:  # as of 300 years in nanoseconds, between dates that mean "never"
        return _edges(at.astype("M8[s]"), n_bins)
    start = low if is_date else int(low)
    if units < n_bins and not is_date and int(high) >= 1 << 53:  # of which float64, in which is drawn, lacks some
        return _edges(at.astype(np.float64), n_bins)
    if units < n_bins:  # otherwise some bins would lie between two units, where no row can be
        return start + np.arange(units + 2)
    steps = np.linspace(0, units, n_bins + 1)
    return start + (np.ceil(steps).astype(np.int64) if is_date else steps)


def _starts(times: NDArray[Any]) -> NDArray[Any]:
    """Times as they are, periods of pandas as the times at which they start."""
    if times.dtype != object or not times.size or type(times.flat[0]).__name__ not in ("Period", "NaTType"):
        return times
    from pandas import PeriodIndex

    try:
        starts: NDArray[Any] = PeriodIndex(times.ravel()).to_timestamp().to_numpy().reshape(times.shape)
    except (TypeError, ValueError):  # of several frequencies, or beside what is no period
        return times
    return starts


def checked_times(times: ArrayLike, n: int) -> Any:
    """A finite number or a datetime64 for every row; InputError if they are anything else."""
    found = _starts(np.asarray(times))
    if found.shape != (n,) or found.dtype.kind not in "fiuM":
        remedy = REMEDIES.get(found.dtype.kind, "") if found.shape == (n,) else ""
        raise InputError(
            f"times: got {found.dtype} of shape {found.shape}; give a number or a time for each of {n:,} rows{remedy}"
        )
    bad = np.isnat(found) if found.dtype.kind == "M" else ~np.isfinite(found)
    if bad.any():
        raise InputError(f"times: row {int(bad.argmax())} has no time; give a finite number or datetime for every row")
    if found.dtype.kind == "f" and (large := np.abs(found) > np.float64(LARGEST)).any():
        row = int(large.argmax())
        raise InputError(f"times: row {row} has {found[row]:g}; give numbers up to {LARGEST:g}, or in a larger unit")
    return found
