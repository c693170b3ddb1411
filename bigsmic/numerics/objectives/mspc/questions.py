"""Questions of a solver about all rows: functions of a block of rows, whose results add up."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.products import self_product
from bigsmic.types import Floats


class Halfspace(NamedTuple):
    """Rows with ``x @ w > threshold`` are label 1, the others label 0.

    Parameters
    ----------
    w : ndarray of float64, shape (d,)
    threshold : float
    """

    w: np.ndarray
    threshold: float

    def contains(self, X: Floats) -> NDArray[np.bool_]:
        """Whether each row is on the side of label 1, shape (b,)."""
        return X @ self.w > self.threshold


Node = tuple[tuple[Halfspace, bool], ...]
"""Halfspaces that the rows of a node lie in, or outside of; the empty tuple contains every row."""


def inside(node: Node, X: Floats) -> slice | NDArray[np.bool_]:
    """Rows of a block that lie in a node: an index of all, or a boolean mask."""
    if not node:
        return slice(None)
    found = np.ones(len(X), bool)
    for halfspace, side in node:
        found &= halfspace.contains(X) == side
    return found


def second_moments(X: Floats) -> Floats:
    """Sum of ``[x, 1] [x, 1]'`` over rows: sums of products, sums and number in one matrix that adds up.

    Parameters
    ----------
    X : ndarray of float64, shape (b, d)
        Centred over all rows, at least roughly, as covariances are differences of these sums.

    Returns
    -------
    A : ndarray of float64, shape (d + 1, d + 1)
    """
    d = X.shape[1]
    A = np.empty((d + 1, d + 1))
    A[:d, :d] = self_product(X)
    A[:d, d] = A[d, :d] = X.sum(axis=0)
    A[d, d] = len(X)
    return A


class Sides(NamedTuple):
    """Second moments of the rows of a node outside and inside a halfspace, shape (2, d + 1, d + 1)."""

    node: Node
    halfspace: Halfspace

    def __call__(self, X: Floats) -> Floats:
        """Answer for one block."""
        X = X[inside(self.node, X)]
        is_in = self.halfspace.contains(X)
        return np.stack([second_moments(X[~is_in]), second_moments(X[is_in])])


class Together(NamedTuple):
    """Second moments of the rows of a node, shape (d + 1, d + 1)."""

    node: Node

    def __call__(self, X: Floats) -> Any:
        """Answer for one block."""
        return second_moments(X[inside(self.node, X)])


class Moved(NamedTuple):
    """Second moments of the rows of a node that are in only one of two halfspaces, shape (2, d + 1, d + 1).

    First the rows that leave when `old` becomes `new`, then those that enter.
    """

    node: Node
    old: Halfspace
    new: Halfspace

    def __call__(self, X: Floats) -> Floats:
        """Answer for one block."""
        X = X[inside(self.node, X)]
        before, after = self.old.contains(X), self.new.contains(X)
        return np.stack([second_moments(X[before & ~after]), second_moments(X[after & ~before])])


class Histogram(NamedTuple):
    """Number and sum of the projections of a node's rows in each bin, shape (2, n_edges + 1).

    A bin includes its upper edge, as the outside of a halfspace includes its threshold.
    """

    node: Node
    w: np.ndarray
    edges: np.ndarray

    def __call__(self, X: Floats) -> Floats:
        """Answer for one block."""
        t = X[inside(self.node, X)] @ self.w
        bins, n_bins = np.searchsorted(self.edges, t, side="left"), len(self.edges) + 1
        return np.stack([np.bincount(bins, minlength=n_bins), np.bincount(bins, weights=t, minlength=n_bins)])


Question = Callable[[Any], np.ndarray]
"""A function of a block of rows whose results add up over blocks."""
Total = Callable[[Sequence[Question]], Sequence[np.ndarray]]
"""Answers to questions, summed over all rows: one pass over the rows."""


class Rows:
    """Rows in memory, which answer the questions of solvers.

    Parameters
    ----------
    X : array_like of float, shape (n, d)
        Stored centred, in float64.
    """

    def __init__(self, X: NDArray[Any]) -> None:
        X = np.asarray(X, np.float64)
        self.X = X - X.mean(axis=0)

    def __call__(self, questions: Sequence[Question]) -> list[Floats]:
        """Answers over all rows."""
        return [question(self.X) for question in questions]


Steps = Generator[Any, Any, Any]
"""A solver: yields questions, is sent their answers, and returns its result."""


def solve(problems: Sequence[Steps], total: Total) -> list[Any]:
    """Run generators of questions concurrently: each pass answers the next question of all that have not ended.

    Parameters
    ----------
    problems : sequence of generator
    total : callable
        ``total(questions) -> answers``, summed over all rows.

    Returns
    -------
    results : list
        Return value of each generator.
    """
    results: list[Any] = [None] * len(problems)
    questions: dict[int, Question] = {}

    def advance(i: int, answer: Floats | None) -> None:
        try:
            questions[i] = problems[i].send(answer)
        except StopIteration as stop:
            questions.pop(i, None)
            results[i] = stop.value

    for i in range(len(problems)):
        advance(i, None)
    while questions:
        asking = list(questions)
        for i, answer in zip(asking, total([questions[i] for i in asking]), strict=True):
            advance(i, answer)
    return results
