"""Path of solutions along the strength of the penalty, and checks of solutions."""

from typing import Any, NamedTuple

import numpy as np

from bigsmic.errors import CollapseError


class Point(NamedTuple):
    """A solution at one strength of the penalty.

    Parameters
    ----------
    number : int
        In the order in which they were found; -1 is the start.
    reg : float
    alive : int
    """

    number: int
    reg: float
    alive: int


UP, DOWN = 4.0, 8.0  # from one strength to the next, before there are two that enclose what is wanted
WALK = 12  # such steps at most
CLOSE = 1.1  # ratio of two strengths between which none is looked for
_MARGIN = 0.15  # of the way between two strengths, in logarithms, that a guess keeps from either


def find_strength(solve: Any, n_clusters: int, reg: float) -> Point | None:
    """Find the strength at which a number of categories stays alive, along a path of solutions.

    Parameters
    ----------
    solve : callable
        ``solve(reg, parent)`` returns the Point that is reached from a Point, or from the start if that is None.
    n_clusters : int
    reg : float
        To begin with.

    Returns
    -------
    point : Point or None
        With `n_clusters` alive; else the one with the fewest above; None if not even the start has so many.

    Notes
    -----
    Numbers alive fall about as a power of the strength, which is how the next strength is guessed. As every ascent
    begins with more categories than are wanted, and they do not come back, the path goes up only.
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
    """Strength at which a power law through two points has the number, not too near to either."""
    fallen = np.log(low.alive / high.alive) if high.alive else np.inf
    share = np.log(low.alive / n_clusters) / fallen
    return float(low.reg * (high.reg / low.reg) ** np.clip(share, _MARGIN, 1 - _MARGIN))


def refuse_collapse(n_alive: int, reg: float) -> None:
    """Refuse a solution in which a single category has every row."""
    if n_alive < 2:
        raise CollapseError(
            f"rim: at reg={reg:.3g} a single category has taken every row; use a smaller reg, such as {reg / 10:.1g}, "
            "or give n_clusters, for which one is found"
        )


def refuse_divergence(value: float, before: float, rate: float) -> None:
    """Refuse an ascent whose objective became infinite or fell."""
    if not np.isfinite(value):
        raise CollapseError(
            f"rim: the objective became {value} at learning_rate={rate:g}; use a smaller one, such as {rate / 10:g}, "
            "and look for extreme rows"
        )
    if value < before - 0.05 * max(abs(before), 1.0):
        raise CollapseError(
            f"rim: the objective fell from {before:.4g} to {value:.4g} at learning_rate={rate:g}; use a smaller one, "
            f"such as {rate / 10:g}"
        )
