"""Maximin separation probability: two clusters on the two sides of the hyperplane that separates them most surely.

A labeling is as good as the worst case of the classifier learnt from it. Over all pairs of distributions that have the
means and covariances of its two clusters, the best hyperplane puts at least a shard p of both on their own side,

    kappa = max_w  |w'(m_1 - m_0)| / (sqrt(w' S_0 w) + sqrt(w' S_1 w)),        p = kappa^2 / (1 + kappa^2)

and p, the minimum separation probability (MSP), is what the three solvers raise. Every labeling that they meet, the
k-means start included, is a halfspace, and what they need to know of the rows is a sum over them. So a solver is a
generator: it yields a question, a small picklable function of a block of rows, and is sent the sum of the answers::

    splits = solve([split(start, settings) for start in starts], total)

``total(questions)`` makes one pass over the rows, wherever they are, for all problems at once.

References
----------
.. [1] Huang, Zhang, Song, Chen, "Maximin separation probability clustering", AAAI 2015.
.. [2] Lanckriet, El Ghaoui, Bhattacharyya, Jordan, "A robust minimax approach to classification", JMLR 3, 2002.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, lapack
from scipy.optimize import brentq
from scipy.special import expit

from bigsmic.errors import InputError, SingularCovarianceError
from bigsmic.numerics.self_product import self_product

SOLVERS = ("mpm", "gep", "eig")
MAX_ITER = 100
TOL = 1e-5
_BINS = 4096  # of projections, in one pass
_CUT_PASSES = 12
_CUT_TOLERANCE = 1e-9  # what a cut between two edges may gain, relatively, and be left alone
_CONSTANT = 1e-12  # variance of a column relative to its mean square, below which it is rounding
_TILE_ENTRIES = 1 << 18


class Halfspace(NamedTuple):
    """Rows with ``x @ w > threshold`` are label 1, the others label 0.

    Parameters
    ----------
    w : ndarray of float64, shape (d,)
    threshold : float
    """

    w: np.ndarray
    threshold: float

    def contains(self, X):
        """Whether each row is on the side of label 1, shape (b,)."""
        return X @ self.w > self.threshold


Node = tuple[tuple[Halfspace, bool], ...]
"""The halfspaces that a row lies in, and those that it lies outside of; the empty tuple holds every row."""


def inside(node: Node, X):
    """Rows of a block that lie in a node: an index of all, or a boolean mask."""
    if not node:
        return slice(None)
    found = np.ones(len(X), bool)
    for halfspace, side in node:
        found &= halfspace.contains(X) == side
    return found


def second_moments(X):
    """Sum of ``[x, 1] [x, 1]'`` over rows: sums of products, sums and number in one matrix that adds up.

    Parameters
    ----------
    X : ndarray of float64, shape (b, d)
        Centred over all rows, roughly at least: covariances are differences of these sums.

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


# -- questions about a block of rows


class Sides(NamedTuple):
    """Second moments of the rows of a node outside and inside a halfspace, shape (2, d + 1, d + 1)."""

    node: Node
    halfspace: Halfspace

    def __call__(self, X):
        """Answer for one block."""
        X = X[inside(self.node, X)]
        is_in = self.halfspace.contains(X)
        return np.stack([second_moments(X[~is_in]), second_moments(X[is_in])])


class Together(NamedTuple):
    """Second moments of the rows of a node, shape (d + 1, d + 1)."""

    node: Node

    def __call__(self, X):
        """Answer for one block."""
        return second_moments(X[inside(self.node, X)])


class Moved(NamedTuple):
    """Second moments of the rows of a node that one halfspace has and another has not, shape (2, d + 1, d + 1).

    First those that leave when `old` becomes `new`, then those that come.
    """

    node: Node
    old: Halfspace
    new: Halfspace

    def __call__(self, X):
        """Answer for one block."""
        X = X[inside(self.node, X)]
        before, after = self.old.contains(X), self.new.contains(X)
        return np.stack([second_moments(X[before & ~after]), second_moments(X[after & ~before])])


class Histogram(NamedTuple):
    """Number and sum of the projections of a node's rows in each bin, shape (2, n_edges + 1).

    A bin holds its upper edge, as the outside of a halfspace holds its threshold.
    """

    node: Node
    w: np.ndarray
    edges: np.ndarray

    def __call__(self, X):
        """Answer for one block."""
        t = X[inside(self.node, X)] @ self.w
        bins, n_bins = np.searchsorted(self.edges, t, side="left"), len(self.edges) + 1
        return np.stack([np.bincount(bins, minlength=n_bins), np.bincount(bins, weights=t, minlength=n_bins)])


Question = Callable[[Any], np.ndarray]
Total = Callable[[Sequence[Question]], Sequence[np.ndarray]]


class Rows:
    """Rows in memory, as what the solvers ask questions of.

    Parameters
    ----------
    X : array_like of float, shape (n, d)
        Held centred, in float64.
    """

    def __init__(self, X):
        X = np.asarray(X, np.float64)
        self.X = X - X.mean(axis=0)

    def __call__(self, questions):
        """Answers over all rows."""
        return [question(self.X) for question in questions]


# -- two clusters, as their moments


class Two(NamedTuple):
    """Moments of the two sides of a split, in the columns that vary.

    Parameters
    ----------
    counts : ndarray of float64, shape (2,)
    means : ndarray of float64, shape (2, k)
    covariances : ndarray of float64, shape (2, k, k)
        Divided by the number of rows.
    total : ndarray of float64, shape (k, k)
        Covariance of both sides together.
    varies : ndarray of bool, shape (d,)
        Columns that do.
    space : Columns
    """

    counts: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    total: np.ndarray
    varies: np.ndarray
    space: Any

    @classmethod
    def of(cls, sides, space=None):
        """Read the second moments of two sides, shape (2, d + 1, d + 1); both must have rows."""
        space = COLUMNS if space is None else space
        _, mean, total = _covariance(sides[0] + sides[1])
        varies = space.varies(np.diag(total), mean)
        kept = np.ix_(varies, varies)
        each = [_covariance(side) for side in sides]
        return cls(
            np.array([count for count, _, _ in each]),
            np.array([mean[varies] for _, mean, _ in each]),
            np.array([covariance[kept] for _, _, covariance in each]),
            total[kept],
            varies,
            space,
        )

    @property
    def difference(self):
        """Mean of label 1 less that of label 0."""
        return self.means[1] - self.means[0]

    def regularised(self, reg):
        """The two covariances, each with `reg` times the total variances added."""
        return self.space.regularise(self.covariances, self.total, reg)

    def separation(self, reg):
        """How surely a hyperplane separates the sides."""
        return separate(self.difference, *self.regularised(reg))

    def halfspace(self, w, threshold):
        """The halfspace of a direction in the columns that vary, of unit length in all columns."""
        length = np.linalg.norm(w)
        full = np.zeros(len(self.varies))
        full[self.varies] = w / length
        return Halfspace(full, float(threshold / length))


class Columns:
    """The columns of the rows as they are; what is regularised are their variances."""

    def varies(self, variances, mean):
        """Columns whose variance is more than rounding."""
        return variances > _CONSTANT * (variances + mean**2)

    def regularise(self, covariances, total, reg):
        """Covariances with `reg` times the total variances added."""
        return covariances + reg * np.diag(np.diag(total))

    def relaxed(self, total):
        """Direction ``X'q`` of the relaxed indicator q; see :func:`_eig`."""
        deviations = np.sqrt(np.diag(total))
        correlation = total / np.outer(deviations, deviations)
        return deviations * eigh(correlation, subset_by_index=[len(correlation) - 1] * 2)[1][:, 0]


COLUMNS = Columns()


def _covariance(A):
    """Number, mean and covariance of second moments."""
    n = A[-1, -1]
    mean = A[-1, :-1] / n
    return n, mean, A[:-1, :-1] / n - np.outer(mean, mean)


class Separation(NamedTuple):
    """The hyperplane that separates two clusters most surely.

    Parameters
    ----------
    kappa : float
        Distance of the means over the sum of the standard deviations, along w.
    w : ndarray of float64, shape (k,)
        From the mean of label 0 towards that of label 1.
    """

    kappa: float
    w: np.ndarray

    @property
    def msp(self):
        """Minimum separation probability."""
        return separation_probability(self.kappa)


def separation_probability(kappa):
    """``kappa^2 / (1 + kappa^2)``."""
    return 1 / (1 + 1 / kappa**2) if kappa else 0.0


def separate(difference, first, second):
    """Solve the minimax probability machine exactly.

    Since ``(a + b)^2 = min_tau a^2 / tau + b^2 / (1 - tau)``,

        kappa^2 = max_tau  delta' (S_0 / tau + S_1 / (1 - tau))^-1 delta

    a concave function of one number: in the basis in which ``S_0 + S_1 = I`` and ``S_0 = diag(g)`` it is a sum of
    weighted harmonic means of tau and 1 - tau. Its maximiser is found to machine precision.

    Parameters
    ----------
    difference : ndarray of float64, shape (k,)
        Difference of the means.
    first, second : ndarray of float64, shape (k, k)
        Covariances; their sum must be positive definite.

    Returns
    -------
    separation : Separation

    Raises
    ------
    SingularCovarianceError
    """
    check_definite(first + second, _CONSTANT * difference**2)
    g, basis = eigh(first, first + second)
    g, a = g.clip(0, 1), basis.T @ difference

    def mixed(tau):
        return g * (1 - tau) + (1 - g) * tau

    def slope(tau):
        return (a**2 * (g * (1 - tau) ** 2 - (1 - g) * tau**2) / mixed(tau) ** 2).sum()

    low, high = 1e-9, 1 - 1e-9
    if slope(low) <= 0:
        tau = low
    elif slope(high) >= 0:
        tau = high
    else:
        tau = brentq(slope, low, high, xtol=1e-15)
    w = a / mixed(tau)
    spread = np.sqrt(w**2 @ g) + np.sqrt(w**2 @ (1 - g))
    return Separation(float(w @ a / spread) if spread else 0.0, basis @ w)


def check_definite(S, rounding=0.0):
    """Refuse a covariance that is singular in double precision, whatever the units of its columns.

    Parameters
    ----------
    S : ndarray of float64, shape (k, k)
    rounding : ndarray of float64, shape (k,), optional
        Variances up to this are taken for 0.

    Raises
    ------
    SingularCovarianceError
    """
    varies = np.diag(S) > rounding
    deviation = np.sqrt(np.diag(S)[varies])
    correlation = S[np.ix_(varies, varies)] / np.outer(deviation, deviation)
    if varies.all() and _is_clearly_definite(correlation):
        return
    rank = int((np.linalg.eigvalsh(correlation) > 1e-13 * len(S)).sum())
    if rank == len(S):
        return
    raise SingularCovarianceError(
        f"mspc: the covariance within the clusters has rank {rank} of {len(S)}, so they separate perfectly along what "
        "does not vary in them; give reg > 0, or drop columns that others determine"
    )


def _is_clearly_definite(S):
    """Whether the condition number is far from what rounding makes of a singular matrix's."""
    factor, failed = lapack.dpotrf(S)
    return not failed and lapack.dpocon(factor, np.abs(S).sum(axis=0).max())[0] > 1e-11


# -- splits


@dataclass(frozen=True)
class SplitSettings:
    """How rows are split in two.

    Parameters
    ----------
    solver : {"mpm", "gep", "eig"}
    reg : float
        Multiple of the total variances that is added to the diagonals of covariances, lambda.
    max_iter : int
        Labelings after the start at most.
    tol : float
        Share of a node's rows that may still change sides when it has converged.
    judge : float, optional
        The `reg` at which labelings are compared; that of the fit by default.
    """

    solver: str = "mpm"
    reg: float = 1.0
    max_iter: int = MAX_ITER
    tol: float = TOL
    judge: float | None = None

    def __post_init__(self):
        if self.solver not in SOLVERS:
            raise InputError(f"solver: got {self.solver!r}; use one of {SOLVERS}")
        if not 0 <= self.reg < np.inf:
            raise InputError(f"reg: got {self.reg}; use a finite number of at least 0")
        if not 0 <= self.tol < 1:
            raise InputError(f"tol: got {self.tol}; use a share of the rows, such as 1e-5")
        if self.solver == "eig" and self.reg == 0:
            raise InputError(
                "reg: got 0 with solver='eig', whose matrix is then a projection with every direction an eigenvector; "
                "give reg > 0, or another solver"
            )


@dataclass(frozen=True, eq=False)
class Split:
    """A node in two.

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
        The same at the `reg` of comparisons.
    slope : float
        Log-odds of label 1 per unit of ``x @ w - threshold``.
    n_iter : int
        Labelings after the start.
    ended : {"converged", "max_iter", "empty"}
        Why it ended; "empty": the next labeling would have had a side without rows, and was not taken.
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
    def worth(self):
        """Rows that end on their own side of the hyperplane in the worst case."""
        return self.score * self.counts.sum()


Steps = Generator[Any, Any, Any]


def split(node: Node, start: Halfspace | None, settings: SplitSettings, space: Any = COLUMNS) -> Steps:
    """Split the rows of a node in two; a generator of questions that returns a :class:`Split`, or None.

    None stands for a node that cannot be split: all its rows coincide, or one side of the start has none.

    Parameters
    ----------
    node : Node
    start : Halfspace or None
        The first labeling; None takes the two sides of the mean along the axis of largest variance.
    settings : SplitSettings
    space : Columns
        What the columns of the rows are: their own, or those of :class:`bigsmic.numerics.objectives.mspc_span.Span`.
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


def _principal(node):
    """Halfspace through the mean of a node, across its axis of largest variance."""
    _, mean, covariance = _covariance((yield Together(node)))
    w = eigh(covariance, subset_by_index=[len(mean) - 1] * 2)[1][:, 0]
    return Halfspace(w, float(mean @ w))


def _is_empty(sides):
    return (sides[:, -1, -1] == 0).any()


def _relabel(node, sides, old, new):
    """Second moments of the sides of the new halfspace, from those of the old and the rows that change sides.

    Where many do, the sums are taken anew: a difference of large sums has their rounding.
    """
    left, came = yield Moved(node, old, new)
    n_moved = left[-1, -1] + came[-1, -1]
    if n_moved > sides[:, -1, -1].min() / 2:
        return (yield Sides(node, new)), n_moved
    return sides + np.stack([left - came, came - left]), n_moved


def _finished(two, halfspace, settings, **how):
    w = halfspace.w[two.varies]
    deviation = np.sqrt(np.maximum(w @ two.covariances @ w, 0)).mean()
    distance = w @ two.difference
    slope = distance / max(deviation, 1e-6 * abs(distance)) ** 2 if distance else 0.0
    msp = two.separation(settings.reg).msp
    score = msp if settings.judge is None else two.separation(settings.judge).msp
    return Split(halfspace, two.counts, settings.reg, msp, score, slope, **how)


def _mpm(two, reg):
    """Hyperplane at an equal number of standard deviations from both means."""
    covariances = two.regularised(reg)
    w = two.separation(reg).w
    deviations, centers = np.sqrt(w @ covariances @ w), two.means @ w
    return two.halfspace(w, (deviations[1] * centers[0] + deviations[0] * centers[1]) / deviations.sum())


def _gep(two, reg):
    """Hyperplane across the direction of the largest distance of the means over the total deviation, half way."""
    S = two.space.regularise(two.total, two.total, reg)
    check_definite(S)
    w = cho_solve(cho_factor(S), two.difference)
    return two.halfspace(w, two.means.mean(axis=0) @ w)


def _eig(two, reg):
    """Hyperplane through the mean, across ``X'q`` for the relaxed indicator q.

    q is the top eigenvector of ``X (X'X / N + reg L)^-1 X' / N``, L the total variances, so ``q = X v`` with
    ``X'X / N v = g L v`` and ``X'q`` along ``L v``: v is the same for every reg > 0, and `reg` moves no label.
    """
    w = two.space.relaxed(two.total)
    w = w if w @ two.difference >= 0 else -w
    return two.halfspace(w, two.counts @ two.means @ w / two.counts.sum())


_HYPERPLANES = {"mpm": _mpm, "gep": _gep, "eig": _eig}


# -- the best cut of projections


def best_cut(node: Node, w, moments, reg, space: Any = COLUMNS) -> Steps:
    """Halfspace across w that maximises the lower bound of kappa^2; a generator of questions.

    With r the smaller and R the larger share of rows, D the distance of the means along w and V the total variance,

        kappa^2 >= D^2 / (2 V / r - 2 R D^2)

    The bound depends on the number of rows below the cut and their sum alone. A histogram gives both at its edges, and
    an upper bound within each bin; bins that may hold a better cut than the best edge are cut finer, until none gains
    more than 1e-9 of it. So the best cut between any two rows is found without sorting them.

    Parameters
    ----------
    node : Node
    w : ndarray of float64, shape (d,)
    moments : ndarray of float64, shape (d + 1, d + 1)
        Second moments of the node's rows.
    reg : float
    space : Columns

    Returns
    -------
    halfspace : Halfspace
    """
    n, mean, covariance = _covariance(moments)
    center, deviation = mean @ w, np.sqrt(w @ covariance @ w)
    bound = _Bound(n, center, w @ space.regularise(covariance, covariance, reg) @ w)
    reach = np.arcsinh(np.sqrt(n))  # no projection is farther than sqrt(n - 1) deviations from the mean
    finer = center + deviation * np.sinh(np.linspace(-reach, reach, _BINS))
    for _ in range(_CUT_PASSES):
        edges = finer
        counts, sums = yield Histogram(node, w, edges)
        values, ceilings = bound.at_edges(counts, sums), bound.within_bins(counts, sums, edges)
        hopeful = np.flatnonzero(ceilings > values.max() * (1 + _CUT_TOLERANCE))
        finer = _subdivided(edges, hopeful, 1e-13 * deviation)
        if len(finer) == len(edges):
            break
    return Halfspace(w, float(edges[values.argmax()]))


class _Bound(NamedTuple):
    """The lower bound of kappa^2 as a function of a cut.

    Parameters
    ----------
    n : float
        Rows.
    center : float
        Mean of their projections.
    scatter : float
        Regularised variance of their projections.
    """

    n: float
    center: float
    scatter: float

    def __call__(self, below, deficit):
        """Bound for `below` rows whose projections fall short of as many means by `deficit` in all."""
        above = self.n - below
        return self._value(deficit / (below * above), np.minimum(below, above), np.maximum(below, above))

    def at_edges(self, counts, sums):
        """Bound at each edge, shape (n_edges,)."""
        below, deficit = (running[1:-1] for running in self._running(counts, sums))
        cuts = (below > 0) & (below < self.n)
        values = np.full(len(below), -np.inf)
        values[cuts] = self(below[cuts], deficit[cuts])
        return values

    def within_bins(self, counts, sums, edges):
        """Upper limit of the bound strictly within each bin, -inf where it cannot be cut, shape (n_edges + 1,).

        The deficit is concave in the number of rows below: its slope is the distance below the mean.
        """
        below, deficit = self._running(counts, sums)
        depth = self.center - edges
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rise = deficit[:-1] + counts * np.append(np.inf, depth.clip(0))
            fall = deficit[1:] + counts * np.append((-depth).clip(0), np.inf)
            low, high = below[:-1] + 1, below[1:] - 1
            balance = np.minimum(low * (self.n - low), high * (self.n - high))
            smaller = np.minimum(np.minimum(high, self.n - low), self.n / 2)
            larger = np.maximum(high, self.n - low)
            ceilings = self._value(np.minimum(rise, fall) / balance, smaller, larger)
        return np.where(counts > 1, ceilings, -np.inf)

    def _value(self, distance_per_row, smaller, larger):
        squared = (distance_per_row * self.n) ** 2
        denominator = 2 * self.scatter * self.n / smaller - 2 * larger / self.n * squared
        return np.where(denominator > 0, squared / denominator, np.inf)

    def _running(self, counts, sums):
        """Rows below each edge and by how much they fall short, from none to all, shape (n_edges + 2,)."""
        below, total = np.append(0, counts.cumsum()), np.append(0, sums.cumsum())
        return below, below * self.center - total


def _subdivided(edges, bins, least):
    """Edges with those of the bins that are wider than rounding cut into parts put in between."""
    bins = bins[(bins > 0) & (bins < len(edges))]
    bins = bins[edges[bins] - edges[bins - 1] > least]
    parts = max(2, _BINS // max(1, len(bins)))
    finer = [np.linspace(edges[b - 1], edges[b], parts + 1) for b in bins]
    return np.unique(np.concatenate([edges, *finer]))


# -- many problems in one pass


def solve(problems: Sequence[Steps], total: Total):
    """Run generators of questions side by side: each pass answers the next question of all that still ask.

    Parameters
    ----------
    problems : sequence of generator
    total : callable
        ``total(questions) -> answers``, summed over all rows.

    Returns
    -------
    results : list
        What each generator returned.
    """
    results: list[Any] = [None] * len(problems)
    questions: dict[int, Question] = {}

    def advance(i, answer):
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


# -- more than two clusters


class Tree(NamedTuple):
    """Splits one after the other: the s-th takes the rows inside its halfspace from label ``of[s]`` to label s + 1.

    Parameters
    ----------
    w : ndarray of float64, shape (c - 1, d)
    threshold, slope : ndarray of float64, shape (c - 1,)
    of : ndarray of int64, shape (c - 1,)
    """

    w: np.ndarray
    threshold: np.ndarray
    slope: np.ndarray
    of: np.ndarray

    @classmethod
    def of_splits(cls, taken):
        """Tree of pairs of a label and the split that it was taken apart by, at least one."""
        splits = [found for _, found in taken]
        return cls(
            np.array([found.halfspace.w for found in splits]),
            np.array([found.halfspace.threshold for found in splits]),
            np.array([found.slope for found in splits]),
            np.array([y for y, _ in taken]),
        )

    @classmethod
    def single(cls, d):
        """Tree of one cluster."""
        return cls(np.empty((0, d)), np.empty(0), np.empty(0), np.empty(0, np.int64))

    @property
    def n_clusters(self):
        """Number of clusters, c."""
        return len(self.of) + 1

    def read(self, X):
        """Posteriors and labels of rows.

        A split's posterior is logistic in the projection, with the slope that two normal clusters of one variance
        have: 1/2 at the hyperplane. A cluster's is the product along its path.

        Parameters
        ----------
        X : ndarray of float, shape (b, d)

        Returns
        -------
        posterior : ndarray of float32, shape (b, c)
        labels : ndarray of int32, shape (b,)
        """
        X = X.astype(np.float64)
        labels, posterior = np.zeros(len(X), np.int32), np.zeros((len(X), self.n_clusters))
        posterior[:, 0] = 1
        for s, (w, threshold, slope, y) in enumerate(zip(*self, strict=True)):
            margin = X @ w - threshold
            labels[(labels == y) & (margin > 0)] = s + 1
            shard = expit(slope * margin)
            posterior[:, s + 1] = posterior[:, y] * shard
            posterior[:, y] *= 1 - shard
        return posterior.astype(np.float32), labels


def grow(n_clusters, start: Callable[[Node], Halfspace | None], candidates: Sequence[SplitSettings], total: Total):
    """Split in two, and again the cluster whose split is worth most, until there are enough clusters.

    Worth is the score times the number of rows. The score alone takes ever smaller groups off.

    Parameters
    ----------
    n_clusters : int
        At least 2.
    start : callable
        ``start(node)``: first labeling of a node.
    candidates : sequence of SplitSettings
        Of these the one of largest score is taken at each node.
    total : callable
        See :func:`solve`.

    Returns
    -------
    tree : Tree
    splits : list of Split
        That the tree is made of.

    Raises
    ------
    InputError
        No cluster can be split any further.
    """
    return grow_by(n_clusters, lambda nodes: _best_splits(nodes, start, candidates, total))


def grow_by(n_clusters, best_splits: Callable[[dict[int, Node]], dict[int, Split]]):
    """Grow a tree as :func:`grow` does, of splits that are found in any way.

    Parameters
    ----------
    n_clusters : int
    best_splits : callable
        The best split of each of some nodes by number; those that cannot be split are left out.

    Returns
    -------
    tree : Tree
    splits : list of Split

    Raises
    ------
    InputError
    """
    nodes: list[Node] = [()]
    possible: dict[int, Split] = {}
    taken: list[tuple[int, Split]] = []
    fresh = [0]
    while len(nodes) < n_clusters:
        possible |= best_splits({y: nodes[y] for y in fresh})
        if not possible:
            raise InputError(
                f"mspc: n_clusters={n_clusters}, but the rows of each of the {len(nodes)} clusters found coincide; "
                f"ask for {len(nodes)}"
            )
        y = max(possible, key=lambda y: (possible[y].worth, -y))
        best = possible.pop(y)
        taken.append((y, best))
        nodes.append((*nodes[y], (best.halfspace, True)))
        nodes[y] = (*nodes[y], (best.halfspace, False))
        fresh = [y, len(nodes) - 1]
    return Tree.of_splits(taken), [found for _, found in taken]


def _best_splits(nodes, start, candidates, total):
    """The split of largest score of each node that can be split, all found in the same passes."""
    owners = [y for y in nodes for _ in candidates]
    starts = {y: start(node) for y, node in nodes.items()}
    problems = [split(node, starts[y], settings) for y, node in nodes.items() for settings in candidates]
    found = list(zip(owners, solve(problems, total), strict=True))
    best = {y: best_of([split for owner, split in found if owner == y]) for y in nodes}
    return {y: split for y, split in best.items() if split is not None}


def best_of(splits):
    """The split of largest score, the first among equals; None where no candidate found one."""
    return max((split for split in splits if split is not None), key=lambda split: split.score, default=None)
