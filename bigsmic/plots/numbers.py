"""Plots about the number of clusters and the agreement of labelings."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bigsmic.errors import AbsentResultError
from bigsmic.numerics.labeling.consensus import label_gram, pairwise_ari
from bigsmic.numerics.labeling.valleys import THRESHOLD
from bigsmic.plots.axes import add_legend, add_scale, axes_or_new, refuse_other
from bigsmic.plots.palette import FIRST, NONE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COMPARED_ROWS = 5000
"""Rows on which labelings are compared."""
VALLEY = "weakest valley, standard errors"
DEEPEST = 3.0
"""Valleys deeper than this multiple of the threshold are drawn at it: their exact depth tells nothing more."""


def curve(result: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the evidence for every number of clusters.

    For SMIC: the depth of the weakest valley in standard errors, with the threshold of the test, and on a second scale
    stability and modularity; for a fit without valleys, the agreement of the labelings. For 3SMIC without labels: the
    score of every number. The number of the result is marked or, if it is open, the one to look at first.

    Parameters
    ----------
    result : Result
        May be one without labels, whose number of clusters is open.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes of the first scale.

    Raises
    ------
    InputError
        The method compares no numbers of clusters, or the fit has no trees.
    """
    ours, number = _curves(result)
    ax = axes_or_new(ax)
    from matplotlib.ticker import MaxNLocator  # here, as axes_or_new refuses first if matplotlib is not installed

    first, *others = ours
    _draw(ax, first, FIRST[0], "o-")
    ax.set(xlabel="number of clusters", ylabel=first[0])
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    low, high = ax.get_xlim()
    if high - low < 2:  # as of one number, beside which the locator would have fractions
        ax.set_xlim((low + high) / 2 - 1, (low + high) / 2 + 1)
    if first[0] == VALLEY:
        ax.axhline(result.valleys.threshold, color=NONE, linewidth=1, linestyle="--")
        ax.set_ylim(min(0.0, float(np.min(first[2]))), THRESHOLD * DEEPEST * 1.05)
    if others:
        second = ax.twinx()
        for one, color, style in zip(others, FIRST[1:], (".-", ".:"), strict=False):
            _draw(second, one, color, style)
        second.set(ylabel=" and ".join(name for name, _, _ in others), ylim=(0, 1.05))
        add_legend(ax, [*ax.get_lines()[:1], *second.get_lines()])
    if number is not None:
        ax.axvline(number, color=NONE, linewidth=6, alpha=0.3, zorder=0)
    return ax


def _draw(ax: "Axes", one: tuple[str, Any, Any], color: str, style: str) -> None:
    name, numbers, values = one
    ax.plot(numbers, values, style, color=color, label=name, markersize=4, linewidth=1.3)


def _curves(result: Any) -> tuple[list[tuple[str, Any, Any]], int | None]:
    """Name, numbers of clusters and values of every curve, and the number to mark."""
    number = result.n_clusters
    if result.settings.method == "3smic" and result.settings.undecided:
        table = result.curve
        return [("LSMI over its limit", table.index, table.lsmi_of_limit)], int(table.lsmi_of_limit.idxmax())
    valleys = getattr(result, "valleys", None)
    if valleys is not None and len(valleys.curve):
        table = valleys.curve
        weakest = table.weakest_z.clip(upper=THRESHOLD * DEEPEST)
        found = [(VALLEY, table.n_clusters, weakest)]
        found += [(name, table.n_clusters, table[name]) for name in ("stability", "modularity")]
        return found, valleys.best if number is None else number
    if hasattr(type(result), "stability"):
        found = result.stability
        return [("agreement of the labelings, mean ARI", found.index, found)], number
    raise AbsentResultError(
        f"curve: a fit by method {result.settings.method!r} compares no numbers of clusters; fit by 'smic', or by "
        "'3smic' without a number"
    )


def labelings(result: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the adjusted Rand indices between all pairs of labelings of the fit as an image.

    The labelings of which the result is the consensus come first, in a frame. Both these and the others are in the
    order of ``Result.scores`` and are named by its numbers. They are compared on up to 5,000 rows.

    Parameters
    ----------
    result : Result
        A fit by SMIC or 3SMIC.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    InputError
        The fit made no labelings.
    """
    refuse_other(ax)
    labels = result.labelings(result.sample(COMPARED_ROWS))
    chosen = result.scores.chosen.to_numpy()
    order = np.argsort(~chosen, kind="stable")
    ordered = labels[order].T
    sizes = (ordered.max(axis=0) + 1).tolist()
    ari = pairwise_ari(label_gram(ordered, sizes), sizes)
    ax = axes_or_new(ax)
    drawn = ax.imshow(ari, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    ax.set_xticks(range(len(order)), [str(b) for b in order], rotation=90)
    ax.set_yticks(range(len(order)), [str(b) for b in order])
    ax.set(xlabel="labeling", ylabel="labeling")
    low, high = -0.5, chosen.sum() - 0.5
    ax.plot([low, high, high, low, low], [low, low, high, high, low], color=FIRST[1], linewidth=1.5, clip_on=False)
    add_scale(ax, drawn, "adjusted Rand index")
    return ax
