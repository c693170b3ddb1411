"""Solvers that split a node in two by alternating between a hyperplane and the labels of its two sides."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from bigsmic.errors import InputError
from bigsmic.numerics.objectives.mspc.cuts import best_cut
from bigsmic.numerics.objectives.mspc.questions import Halfspace, Moved, Node, Sides, Steps, Together
from bigsmic.numerics.objectives.mspc.separation import COLUMNS, Two, check_definite, covariance_of
from bigsmic.types import Floats
from bigsmic.validation import check_at_least_zero

SOLVERS = ("mpm", "gep", "eig")
MAX_ITER = 100
TOL = 1e-5


@dataclass(frozen=True)
class SplitSettings:
    """Settings of a split.

    Parameters
    ----------
    solver : {"mpm", "gep", "eig"}
    reg : float
        Multiple of the total variances, added to the diagonals of covariances; lambda.
    max_iter : int
        Largest number of labelings after the start.
    tol : float
        Share of a node's rows that may still change sides at convergence.
    judge : float, optional
        The `reg` with which labelings are compared; by default that of the fit.
    """

    solver: str = "mpm"
    reg: float = 1.0
    max_iter: int = MAX_ITER
    tol: float = TOL
    judge: float | None = None

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise InputError(f"solver: got {self.solver!r}; use one of {SOLVERS}")
        check_at_least_zero("reg", self.reg)
        if not 0 <= self.tol < 1:
            raise InputError(f"tol: got {self.tol}; use a share of the rows, such as 1e-5")
        if self.solver == "eig" and self.reg == 0:
            raise InputError(
                "reg: got 0 with solver='eig', whose matrix is then a projection with every direction an eigenvector; "
                "give reg > 0, or another solver"
            )


@dataclass(frozen=True, eq=False)
class Split:
    """Split of a node in two.

    Parameters
    ----------
    halfspace : Halfspace
        Rows inside are label 1.
    counts : ndarray of float64, shape (2,)
        Rows of either label.
    reg : float
        Of the fit.
    msp : float
        Minimum separation probability of the labeling at `reg`.
    score : float
        The same at the `reg` for comparisons.
    slope : float
        Log-odds of label 1 per unit of ``x @ w - threshold``.
    n_iter : int
        Labelings after the start.
    ended : {"converged", "max_iter", "empty"}
        Why it ended; "empty" if the next labeling would have had a side without rows, and was discarded.
    """

    halfspace: Halfspace
    counts: np.ndarray
    reg: float
    msp: float
    score: float
    slope: float
    n_iter: int
    ended: str

    @property
    def worth(self) -> float:
        """Number of rows on their own side of the hyperplane in the worst case."""
        return self.score * self.counts.sum()


def split(node: Node, start: Halfspace | None, settings: SplitSettings, space: Any = COLUMNS) -> Steps:
    """Split the rows of a node in two; a generator of questions that returns a :class:`Split`, or None.

    It returns None for a node that cannot be split: all its rows coincide, or one side of the start has none.

    Parameters
    ----------
    node : Node
    start : Halfspace or None
        The first labeling; None for the two sides of the mean along the axis of largest variance.
    settings : SplitSettings
    space : Columns
        The columns in which rows are represented: the original ones, or those of
        :class:`bigsmic.numerics.objectives.mspc.span.Span`.
    """
    if start is None:
        start = yield from _principal(node)
    sides = yield Sides(node, start)
    if _is_empty(sides) or not Two.of(sides, space).varies.any():
        return None
    halfspace, n_iter, ended = start, 0, "max_iter"
    while n_iter < settings.max_iter:
        n_iter += 1
        new = _HYPERPLANES[settings.solver](Two.of(sides, space), settings.reg)
        if settings.solver == "gep":
            new = yield from best_cut(node, new.w, sides.sum(axis=0), settings.reg, space)
        found, n_moved = yield from _relabel(node, sides, halfspace, new)
        if _is_empty(found):
            ended = "empty"
            break
        sides, halfspace = found, new
        if n_moved <= settings.tol * sides[:, -1, -1].sum() or settings.solver == "eig":
            ended = "converged"
            break
    return _finished(Two.of(sides, space), halfspace, settings, n_iter=n_iter, ended=ended)


def _principal(node: Node) -> Steps:
    """Halfspace through the mean of a node, across its axis of largest variance."""
    _, mean, covariance = covariance_of((yield Together(node)))
    w = eigh(covariance, subset_by_index=[len(mean) - 1] * 2)[1][:, 0]
    return Halfspace(w, float(mean @ w))


def _is_empty(sides: Floats) -> bool:
    return (sides[:, -1, -1] == 0).any()


def _relabel(node: Node, sides: Floats, old: Halfspace, new: Halfspace) -> Steps:
    """Second moments of the sides of the new halfspace, from those of the old and the rows that change sides.

    If many rows change sides, the sums are computed anew, as a difference of large sums has their rounding errors.
    """
    left, came = yield Moved(node, old, new)
    n_moved = left[-1, -1] + came[-1, -1]
    if n_moved > sides[:, -1, -1].min() / 2:
        return (yield Sides(node, new)), n_moved
    return sides + np.stack([left - came, came - left]), n_moved


def _finished(two: Two, halfspace: Any, settings: SplitSettings, **how: Any) -> Split:
    w = halfspace.w[two.varies]
    deviation = np.sqrt(np.maximum(w @ two.covariances @ w, 0)).mean()
    distance = w @ two.difference
    slope = distance / max(deviation, 1e-6 * abs(distance)) ** 2 if distance else 0.0
    msp = two.separation(settings.reg).msp
    score = msp if settings.judge is None else two.separation(settings.judge).msp
    return Split(halfspace, two.counts, settings.reg, msp, score, slope, **how)


def _mpm(two: Two, reg: float) -> Halfspace:
    """Hyperplane at an equal number of standard deviations from both means."""
    covariances = two.regularised(reg)
    w = two.separation(reg).w
    deviations, centers = np.sqrt(w @ covariances @ w), two.means @ w
    return two.halfspace(w, (deviations[1] * centers[0] + deviations[0] * centers[1]) / deviations.sum())


def _gep(two: Two, reg: float) -> Halfspace:
    """Hyperplane across the direction of the largest distance of the means over the total deviation, half way."""
    S = two.space.regularise(two.total, two.total, reg)
    check_definite(S)
    w = cho_solve(cho_factor(S), two.difference)
    return two.halfspace(w, two.means.mean(axis=0) @ w)


def _eig(two: Two, reg: float) -> Halfspace:
    """Hyperplane through the mean, across ``X'q`` for the relaxed indicator q.

    q is the top eigenvector of ``X (X'X / N + reg L)^-1 X' / N``, L the total variances, so ``q = X v`` with
    ``X'X / N v = g L v`` and ``X'q`` along ``L v``: v is the same for every reg > 0, and `reg` moves no label.
    """
    w = two.space.relaxed(two.total)
    w = w if w @ two.difference >= 0 else -w
    return two.halfspace(w, two.counts @ two.means @ w / two.counts.sum())


_HYPERPLANES = {"mpm": _mpm, "gep": _gep, "eig": _eig}
