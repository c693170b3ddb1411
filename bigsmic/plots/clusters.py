"""Plots of the sizes, the certainty and the relations of clusters."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bigsmic.plots.axes import add_legend, add_scale, axes_or_new, name_clusters
from bigsmic.plots.palette import NONE, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_RATIO = 1e-4
"""Smaller density ratios are drawn as this one."""
MARKS = {"posterior": "o", "stability": "D"}
"""Further values of a cluster that are drawn over its agreement, and their markers."""


def sizes(result: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the number of rows of every cluster as bars.

    Parameters
    ----------
    result : Result
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    InputError
        The fit has no labels.
    """
    found = result.sizes
    ax = axes_or_new(ax)
    ax.bar(range(len(found)), found, color=palette(len(found)), width=0.9)
    name_clusters(ax.xaxis, range(len(found)), result.names)
    ax.set(xlabel="cluster", ylabel="rows")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    return ax


def agreement(result: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the certainty of every cluster: bars for the mean agreement of the labelings at its rows, and markers.

    Markers show the mean posterior of the label and, if the method compares several labelings, the mean Jaccard index
    with them; see ``Result.clusters``.

    Parameters
    ----------
    result : Result
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    InputError
        The fit has no labels.
    """
    table = result.clusters
    ax = axes_or_new(ax)
    at = np.arange(len(table))
    drawn: list[Any] = [
        ax.bar(at, table.agreement, color=palette(len(table)), width=0.9, alpha=0.75, label="agreement")
    ]
    ink = ax.xaxis.label.get_color()
    for name, mark in MARKS.items():
        if name in table:
            style: dict[str, Any] = {"linestyle": "none", "markersize": 4, "markerfacecolor": "none", "color": ink}
            drawn += ax.plot(at, table[name], marker=mark, label=name, **style)
    name_clusters(ax.xaxis, at.tolist(), result.names)
    ax.set(xlabel="cluster", ylabel="share, or mean", ylim=(0, 1.05))
    add_legend(ax, drawn)
    return ax


def relations(result: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the density ratios of all pairs of clusters as an image.

    The density ratio is the joint posterior mass of two clusters at one row, divided by that expected by chance.
    Clusters are in the order of the leaves of the merge tree, so that similar ones are adjacent. The diagonal and
    clusters without posterior are left out.

    Parameters
    ----------
    result : Result
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    InputError
        The fit has no labels.
    """
    ratios, order = result.density_ratios, leaves(result)
    shown = np.maximum(ratios, LEAST_RATIO)[np.ix_(order, order)]
    np.fill_diagonal(shown, np.nan)
    ax = axes_or_new(ax)
    from matplotlib.colors import LogNorm  # here, as axes_or_new refuses first if matplotlib is not installed

    top = max(1.0, float(np.nanmax(shown, initial=1.0)))
    drawn = ax.imshow(shown, norm=LogNorm(LEAST_RATIO, top), cmap="viridis", interpolation="nearest")
    for axis in (ax.xaxis, ax.yaxis):
        name_clusters(axis, order, result.names)
    ax.set(xlabel="cluster", ylabel="cluster")
    add_scale(ax, drawn, "density ratio; 1: as by chance")
    return ax


def leaves(result: Any) -> list[int]:
    """Clusters in the order of the merge tree's leaves, without those that have no posterior (it merges them last)."""
    from scipy.cluster.hierarchy import leaves_list

    Z, known = result.cluster_tree, np.diag(result.density_ratios) > 0
    return [int(leaf) for leaf in leaves_list(Z) if known[leaf]] if len(Z) else [0]


def tree(result: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the merge tree of the clusters, in which the most similar merge first.

    Clusters without posterior are left out.

    Parameters
    ----------
    result : Result
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    InputError
        The fit has no labels.
    """
    Z, order = result.cluster_tree, leaves(result)
    ax = axes_or_new(ax)
    for x, heights in _branches(Z, order):
        ax.plot(x, heights, color=NONE, linewidth=1.3, solid_capstyle="round")
    ax.scatter(range(len(order)), np.zeros(len(order)), c=np.array(palette(max(order) + 1))[order], s=24, zorder=3)
    name_clusters(ax.xaxis, order, result.names)
    ax.set(xlabel="cluster", ylabel="-log density ratio, shifted")
    return ax


def _branches(Z: Any, order: list[int]) -> Any:
    """Corners of the line that shows each merge: x coordinates (4,) and heights (4,)."""
    place = {leaf: float(at) for at, leaf in enumerate(order)}
    height = dict.fromkeys(order, 0.0)
    for step, (left, right, merged, _) in enumerate(Z[: len(order) - 1].tolist()):
        y, z, node = int(left), int(right), len(Z) + 1 + step
        yield (place[y], place[y], place[z], place[z]), (height[y], merged, merged, height[z])
        place[node], height[node] = (place[y] + place[z]) / 2, merged
