"""Axes to draw into, and the style that all plots share."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.plots.palette import NONE, SURENESS, palette
from bigsmic.tables import drawn_width, first_letters
from bigsmic.types import Integers
from bigsmic.validation import brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BESIDE = 20
"""Clusters whose names are written horizontally on an x axis; with more, names are vertical."""
MOST_LETTERS = 20
"""Letters of a cluster's name that are drawn; those of twice the width count twice."""
MOST_NAMED = 40
"""Largest number of clusters named along an axis or on a map; with more, only some are named."""


def axes_or_new(ax: "Axes | None") -> "Axes":
    """The given axes, or those of a new pyplot figure.

    Raises
    ------
    InputError
        Matplotlib is not installed, or `ax` is something else.
    """
    if ax is not None:
        refuse_other(ax)
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise _not_installed(error) from None
    return plt.subplots(layout="constrained")[1]


def _not_installed(error: ImportError) -> InputError:
    return InputError(f"plots: {error.name} is not installed; pip install 'bigsmic[plots]'")


def refuse_other(ax: Any) -> None:
    """Refuse what is neither axes nor None; plots that take long ask before they compute."""
    if ax is None:
        return
    try:
        from matplotlib.axes import Axes
    except ImportError as error:
        raise _not_installed(error) from None
    if not isinstance(ax, Axes):
        several = isinstance(ax, np.ndarray | Sequence) and not isinstance(ax, str)
        remedy = "one of them, such as axes[0]" if several else "axes of matplotlib, such as pyplot.subplots()[1]"
        raise InputError(f"ax: got {brief(ax)}; give {remedy}, or leave it out for a new figure")


def colors_of(labels: Integers) -> NDArray[np.str_]:
    """Colour of every label; grey for -1."""
    return np.array([*palette(int(labels.max(initial=-1)) + 1), NONE])[labels]


def sureness() -> Any:
    """Colour map from uncertain (conspicuous) to certain; grey for what is not finite."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("sureness", SURENESS).with_extremes(bad=NONE)


def text_of(cluster: int, names: Mapping[int, str]) -> str:
    """Number of a cluster and, if it has one, its name, which may be shortened."""
    name = names.get(cluster, "")
    if drawn_width(name) > MOST_LETTERS:
        name = f"{first_letters(name, MOST_LETTERS - 2)}.."
    return f"{cluster} {name}".rstrip()


def name_clusters(axis: Any, numbers: Sequence[int], names: Mapping[int, str]) -> None:
    """Name clusters along an axis at 0, 1, ..; with many clusters, at regular intervals.

    On an x axis, many numbers, and names, are vertical.
    """
    step = -(-len(numbers) // MOST_NAMED) or 1
    drawn = [text_of(number, names) for number in numbers[::step]]
    axis.set_ticks(range(0, len(numbers), step), drawn, parse_math=False)
    if axis.axis_name == "x" and (len(numbers) > MOST_BESIDE or any(names.get(number) for number in numbers)):
        axis.set_tick_params(rotation=90)


def add_legend(ax: "Axes", lines: Sequence[Any]) -> None:
    """Add a legend above the axes, where it covers nothing."""
    place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": len(lines)}
    ax.legend(lines, [str(line.get_label()) for line in lines], fontsize="small", frameon=False, **place)


def add_scale(ax: "Axes", drawn: Any, label: str) -> None:
    """Add a colour bar beside the axes."""
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02, fraction=0.05, label=label)
    bar.outline.set_visible(False)
