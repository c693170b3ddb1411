"""Small drawings that sections of methods are made of: functions of matplotlib's axes, for figures of a report."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bigsmic.plots import palette
from bigsmic.types import Floats

MOST_COLUMNS = 400
"""Largest number of columns of an image of weights; with more, those with the largest weights are shown in order."""

Draw = Callable[..., None]


def curves(x: Any, ys: dict[str, Any], labels: tuple[str, str], log: bool = False) -> Draw:
    """Lines with a mark at every point.

    Parameters
    ----------
    x : array_like, shape (m,)
    ys : dict of str to array_like, shape (m,)
        Lines by name; a legend shows the names if there are several.
    labels : tuple of str
        Of the two axes.
    log : bool
        Whether x is on a logarithmic scale.
    """

    def draw(ax: Any) -> None:
        for (name, y), color in zip(ys.items(), palette(len(ys)), strict=True):
            ax.plot(x, y, marker="o", markersize=3, linewidth=1.3, color=color, label=name)
        ax.set(xlabel=labels[0], ylabel=labels[1], xscale="log" if log else "linear")
        if len(ys) > 1:
            ax.legend(fontsize=8, ncols=2)

    return draw


def weights(values: Floats, labels: tuple[str, str]) -> Draw:
    """Image of weights, one row of it for each row; red is positive, blue negative, and 0 white.

    Parameters
    ----------
    values : ndarray, shape (r, d)
    labels : tuple of str
        Of the two axes.
    """
    columns = strongest(values)
    shown = values[:, columns]
    limit = float(np.abs(shown).max(initial=0.0)) or 1.0

    def draw(ax: Any) -> None:
        image = ax.imshow(shown, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        ax.set(xlabel=labels[0], ylabel=labels[1])
        _name_ticks(ax, columns)
        ax.figure.colorbar(image, ax=ax, pad=0.01, fraction=0.04)

    return draw


def shares(values: Floats, labels: tuple[str, str]) -> Draw:
    """Image of a matrix of shares from 0 to 1."""

    def draw(ax: Any) -> None:
        image = ax.imshow(values, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        ax.set(xlabel=labels[0], ylabel=labels[1])
        ax.figure.colorbar(image, ax=ax, pad=0.01, fraction=0.04)

    return draw


def strongest(values: Floats) -> Any:
    """Numbers of the columns with the largest weights, ascending; all of them if they are few."""
    if values.shape[1] <= MOST_COLUMNS:
        return np.arange(values.shape[1])
    return np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:MOST_COLUMNS])


def _name_ticks(ax: Any, columns: Sequence[int]) -> None:
    """Label ticks with the numbers of their columns."""
    places = np.unique(np.linspace(0, len(columns) - 1, min(len(columns), 9)).round().astype(int))
    ax.set_xticks(places, [str(columns[place]) for place in places])
