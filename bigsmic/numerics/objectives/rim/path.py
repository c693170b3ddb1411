"""Path of solutions along the strength of the penalty, and checks of solutions."""

from typing import Any, NamedTuple

import numpy as np

from bigsmic.errors import CollapseError

UP, DOWN = 4.0, 8.0  # factors from one strength to the next, until two enclose the wanted number
WALK = 12  # largest number of such steps
CLOSE = 1.1  # ratio of two strengths between which no further one is tried
_MARGIN = 0.15  # least distance of a guess from two strengths, as a share of their difference in logarithms


class Point(NamedTuple):
    """A solution at one strength of the penalty.

    Parameters
    ----------
    number : int
        Number in the order of computation; -1 is the start.
    reg : float
    alive : int
        Categories that win a row.
    """

    number: int
    reg: float
    alive: int


def find_strength(solve: Any, n_clusters: int, reg: float) -> Point | None:
    """Find the strength at which the wanted number of categories stays alive, along a path of solutions.

    Parameters
    ----------
    solve : callable
        ``solve(reg, parent)`` returns the Point reached from `parent`, or from the start if that is None.
    n_clusters : int
    reg : float
        The first strength.

    Returns
    -------
    point : Point or None
        The point with `n_clusters` alive; else that with the fewest above; None if even the start has fewer.

    Notes
    -----
    The number alive falls roughly as a power of the strength, by which the next strength is guessed. As every ascent
    starts with more categories than are wanted, and dead ones do not return, strengths only increase along a path.
    """
    low, high = solve(reg, None), None
    for _ in range(WALK):
        if low.alive >= n_clusters:
            break
        low, high = solve(low.reg / DOWN, None), low
    if low.alive < n_clusters:
        return None
    best = low
    for _ in range(WALK):
        if best.alive == n_clusters or (high is not None and high.reg < CLOSE * low.reg):
            break
        found = solve(UP * low.reg if high is None else _between(low, high, n_clusters), low)
        if found.alive < n_clusters:
            high = found
        else:
            low, best = found, min(best, found, key=lambda point: point.alive)
    return best


def _between(low: Point, high: Point, n_clusters: int) -> float:
    """Strength at which a power law through two points reaches the number, not too near to either."""
    fallen = np.log(low.alive / high.alive) if high.alive else np.inf
    share = np.log(low.alive / n_clusters) / fallen
    return float(low.reg * (high.reg / low.reg) ** np.clip(share, _MARGIN, 1 - _MARGIN))


def refuse_collapse(n_alive: int, reg: float) -> None:
    """Refuse a solution in which a single category contains every row, or all rows have nearly the same posterior."""
    if n_alive < 2:
        raise CollapseError(
            f"reg: at {reg:.3g} a single category contains every row, or all rows have nearly the same posterior; "
            f"use a smaller reg, such as {reg / 10:.1g}, or give n_clusters, for which a reg is found"
        )


def refuse_divergence(value: float, before: float, rate: float) -> None:
    """Refuse an ascent whose objective became infinite or fell."""
    if not np.isfinite(value):
        raise CollapseError(
            f"learning_rate: the objective became {value} at {rate:g}; use a smaller one, such as {rate / 10:g}, "
            "and check for extreme rows"
        )
    if value < before - 0.05 * max(abs(before), 1.0):
        raise CollapseError(
            f"learning_rate: the objective fell from {before:.4g} to {value:.4g} at {rate:g}; use a smaller one, "
            f"such as {rate / 10:g}, or if rows are sorted, solver='lbfgs'"
        )
