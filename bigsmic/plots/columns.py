"""Plots of the mean and spread of columns in every cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.plots.axes import axes_or_new, refuse_other, text_of
from bigsmic.plots.palette import NONE, palette
from bigsmic.tables import shortened
from bigsmic.types import Floats, Integers, Rows
from bigsmic.validation import brief, check_integer
from bigsmic.views.columns import ColumnTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CLUSTERS = 20
"""Largest number of clusters drawn if none are named; the largest clusters are drawn."""
MOST_BARS, MOST_POINTS = 24, 2000
"""Largest number of columns drawn as bars (the most distinctive ones) and as lines (at regular intervals)."""
GAP, BAR_GAP = 1.08, 1.6
"""Height of a cluster's strip, relative to the range of all lines, and to the longest bar."""


def profiles(
    result: Any,
    data: Rows | ColumnTable,
    *,
    clusters: Sequence[int] | None = None,
    columns_per_channel: int | None = None,
    names: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw mean and spread of columns in each cluster, one strip per cluster, the smallest number at the top.

    Ordered columns, such as samples of a waveform or pixels, are drawn as lines, in the units of the rows. Of other
    columns, those that distinguish the clusters best are drawn as bars, in standard deviations from the mean of the
    clusters.

    Parameters
    ----------
    result : Result
    data : array_like, Zarr array, path or URL, shape (n, d); or ColumnTable
        The rows of the fit, which are read in one pass, or the table that ``result.profiles(data)`` returned.
    clusters : sequence of int, optional
        Clusters to draw; by default all, or the twenty largest.
    columns_per_channel : int, optional
        Number of columns of each channel. Columns then count as ordered, and lines are interrupted between channels.
    names : sequence of str, shape (d,), optional
        Names of the columns, which then count as unordered unless `columns_per_channel` is given. Of long ones, the
        middle is left out.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    InputError
        `clusters` names one that does not exist, `names` is not one for each column, the table is of another number
        of clusters, or as ``Result.profiles``.
    RunMismatchError
        The rows are not those of the fit.
    """
    refuse_other(ax)
    d = result.diagnostics["columns"]
    if names is not None and (isinstance(names, str) or not hasattr(names, "__len__")):
        raise InputError(f"names: got {brief(names)}; give a list of names, one for each of {d:,} columns")
    if names is not None and len(names) != d:
        raise InputError(f"names: got {len(names):,} names for {d:,} columns; give one for each column")
    if columns_per_channel is not None:
        check_integer("columns_per_channel", columns_per_channel, 1)
    shown = _clusters(result, clusters)
    table = data if isinstance(data, ColumnTable) else result.profiles(data)
    c = len(result.sizes)
    if len(table.mean) != c:  # such as that of a fit for one of its cuts
        raise InputError(
            f"data: got a table of {len(table.mean):,} clusters, but the result has {c:,}; give the rows, or what "
            "profiles(data) of this result returned"
        )
    ax = axes_or_new(ax)
    if columns_per_channel or (names is None and are_ordered(result)):
        _lines(ax, table, shown, columns_per_channel or d)
    else:
        _bars(ax, table, shown, names)
    named = [text_of(k, result.names) for k in shown.tolist()]
    ax.set_yticks(-np.arange(len(shown)), named, parse_math=False)
    ax.set(ylabel="cluster", ylim=(-len(shown) + 0.4, 0.6))
    return ax


def are_ordered(result: Any) -> bool:
    """Whether the fit found that neighbouring columns vary together, as samples and pixels do; False if not tested."""
    found: bool = result.diagnostics.get("scaling", {}).get("sign") == "neighbors"
    return found


def _clusters(result: Any, clusters: Sequence[int] | None) -> Integers:
    """Clusters to draw, ascending."""
    sizes = result.sizes
    if clusters is None:
        return np.sort(np.argsort(-sizes, kind="stable")[:MOST_CLUSTERS])
    try:
        found = np.asarray(clusters)
    except ValueError:  # lists of several lengths
        found = np.empty(0)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu" or not np.isin(found, range(len(sizes))).all():
        raise InputError(f"clusters: got {clusters!r}; give some of 0 to {len(sizes) - 1}")
    return np.unique(found)


def _lines(ax: "Axes", table: ColumnTable, shown: Integers, per_channel: int) -> None:
    """Draw a line of means and a band of spreads for every cluster."""
    at = np.arange(0, len(table.columns), max(1, -(-len(table.columns) // MOST_POINTS)))
    columns, mean, spread = table.columns[at], table.mean[shown][:, at], table.spread[shown][:, at]
    low, high = np.nanmin(mean - spread, initial=np.inf), np.nanmax(mean + spread, initial=-np.inf)
    height, middle = _height(low, high), (low + high) / 2 if low <= high else 0.0
    starts = np.flatnonzero(np.diff(columns // per_channel)) + 1
    for i, (k, color) in enumerate(zip(shown, _colors(shown), strict=True)):
        y, half = (mean[i] - middle) / height - i, spread[i] / height
        ax.fill_between(*_broken(starts, columns, y - half, y + half), color=color, alpha=0.25, linewidth=0)
        ax.plot(*_broken(starts, columns, y), color=color, linewidth=1.2, label=str(k))
    for start in columns[starts]:
        ax.axvline(start - 0.5, color=NONE, linewidth=0.6, alpha=0.6)
    ax.set(xlabel=f"column; a strip is {height:.3g} high")


def _height(low: float, high: float) -> float:
    return float(high - low) * GAP if 0 < high - low < np.inf else 1.0


def _broken(starts: Integers, columns: Integers, *values: Floats) -> list[Any]:
    """Columns and values, with nan before the start of every channel, where lines are interrupted."""
    return [np.insert(np.asarray(one, float), starts, np.nan) for one in (columns, *values)]


def _bars(ax: "Axes", table: ColumnTable, shown: Integers, names: Sequence[str] | None) -> None:
    """Draw a bar for every cluster and column: the effect, with a line for the spread within the cluster."""
    size = np.abs(table.effects[shown]).max(axis=0, initial=0.0)
    at = np.sort(np.argsort(-size, kind="stable")[:MOST_BARS])
    mean, spread = table.mean[:, at], table.spread[:, at]
    middle = np.nanmean(mean, axis=0)
    unit = np.sqrt(np.nanmean(spread**2 + (mean - middle) ** 2, axis=0))
    unit = np.where(unit > 0, unit, 1.0)
    mean, spread = ((mean - middle) / unit)[shown], (spread / unit)[shown]
    height = BAR_GAP * (float(np.nanmax(np.abs(mean), initial=0.0)) or 1.0)
    for i, (k, color) in enumerate(zip(shown, _colors(shown), strict=True)):
        ax.bar(range(len(at)), mean[i] / height, bottom=-i, color=color, width=0.8, label=str(k))
        ax.errorbar(range(len(at)), mean[i] / height - i, spread[i] / height, fmt="none", ecolor=NONE, elinewidth=1)
        ax.axhline(-i, color=NONE, linewidth=0.6)
    named = [str(column) if names is None else shortened(str(names[column])) for column in table.columns[at]]
    ax.set_xticks(range(len(at)), named, rotation=90, parse_math=False)
    ax.set(xlabel=f"column; a strip is {height:.2g} standard deviations high")


def _colors(shown: Integers) -> list[str]:
    every = palette(int(shown.max()) + 1)
    return [every[k] for k in shown]
