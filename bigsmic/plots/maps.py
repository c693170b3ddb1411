"""Map of rows, coloured by cluster or by certainty."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bigsmic.errors import InputError
from bigsmic.plots.axes import MOST_NAMED, add_scale, axes_or_new, colors_of, refuse_other, sureness, text_of
from bigsmic.plots.palette import NONE
from bigsmic.types import Floats, Integers
from bigsmic.views.layout import MOST_ROWS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = 30_000.0
"""Total area of all points, in square points of print: the more points, the smaller each one."""
LARGEST = 9.0
"""Largest area of a point."""
DARK = 0.3
"""Luminance of a colour below which text on it is white."""


def map(
    result: Any,
    color: str | ArrayLike | None = None,
    *,
    n_rows: int = MOST_ROWS,
    names: bool = True,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw rows in the plane, laid out from the graph of the fit; see :meth:`bigsmic.Result.map`.

    Parameters
    ----------
    result : Result
    color : {"cluster", "agreement", "posterior"} or array_like, shape (n,), optional
        Value that colours the points: the cluster, the default if the fit has labels; the agreement of the labelings;
        the posterior of the row's label; or a number for every row of the fit, grey where it is not finite. The least
        certain rows are drawn on top.
    n_rows : int
        Rows of the map, at most 20,000.
    names : bool
        Whether to write the numbers of clusters, and their names if they have some, at the centre of their rows.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    InputError
        As :meth:`bigsmic.Result.map`, `ax` is no axes, or `color` is not one of those above.
    """
    refuse_other(ax)
    _check_color(result, color)
    rows, points = result.map(n_rows)
    ax = axes_or_new(ax)
    style: dict[str, Any] = {"s": min(LARGEST, INK / max(1, len(rows))), "linewidths": 0, "rasterized": True}
    if color is None and result.settings.undecided:
        ax.scatter(points[:, 0], points[:, 1], c=NONE, **style)
    elif color is None or (isinstance(color, str) and color == "cluster"):
        labels = result._on_map("labels", n_rows)
        ax.scatter(points[:, 0], points[:, 1], c=colors_of(labels), **style)
        if names:
            _name(ax, points, labels, result.names)
    else:
        name = color if isinstance(color, str) else ""
        values = result._on_map(VALUES[name], n_rows) if name else np.asarray(color, np.float64)[rows]
        order = np.argsort(np.where(np.isfinite(values), -values, -np.inf), kind="stable")
        style |= {"vmin": 0, "vmax": 1} if name else {"plotnonfinite": True}
        drawn = ax.scatter(points[order, 0], points[order, 1], c=values[order], cmap=sureness(), **style)
        add_scale(ax, drawn, name)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.set_title(f"{len(rows):,} of {result.diagnostics['rows']:,} rows")
    ax.spines[:].set_visible(False)
    return ax


VALUES = {"agreement": "agreement", "posterior": "own"}
"""Names, in the result, of the values that can colour rows."""


def _check_color(result: Any, color: Any) -> None:
    """Refuse an unknown `color` before the map is laid out."""
    n = result.diagnostics["rows"]
    if isinstance(color, str):
        if color not in ("cluster", *VALUES):
            raise InputError(
                f"color: got {color!r}; use 'cluster', 'agreement', 'posterior', or a number for every row"
            )
        result._refuse_undecided("map")
        if color == "agreement" and not hasattr(type(result), "agreement"):
            _ = result.agreement  # raises the error that names what a fit by this method has
    elif color is not None:
        found = np.asarray(color)
        if found.shape != (n,) or found.dtype.kind not in "fiub":
            remedy = ", such as pandas.factorize(color)[0]" if found.shape == (n,) else ""
            raise InputError(
                f"color: got {found.dtype} of shape {found.shape}; give a number for each of the {n:,} rows{remedy}"
            )


def _name(ax: "Axes", points: Floats, labels: Integers, names: Mapping[int, str]) -> None:
    """Write number and name of each cluster at one of its points; with many clusters, of the largest only."""
    found, counts = np.unique(labels[labels >= 0], return_counts=True)
    for k in found[np.argsort(-counts, kind="stable")[:MOST_NAMED]].tolist():
        own = points[labels == k]
        middle = own[np.abs(own - np.median(own, axis=0)).sum(axis=1).argmin()]
        color = str(colors_of(np.array([k]))[0])
        box: dict[str, Any] = {
            "boxstyle": "round,pad=0.15",
            "facecolor": color,
            "edgecolor": _on(color),
            "linewidth": 0.6,
        }
        style: dict[str, Any] = {
            "ha": "center",
            "va": "center",
            "fontsize": "small",
            "clip_on": True,
            "parse_math": False,
        }
        ax.text(middle[0], middle[1], text_of(k, names), color=_on(color), bbox=box, **style)


def _on(color: str) -> str:
    """Black or white, whichever is legible on a colour."""
    from matplotlib.colors import to_rgb

    return "white" if np.dot(np.power(to_rgb(color), 2.2), (0.2126, 0.7152, 0.0722)) < DARK else "black"
