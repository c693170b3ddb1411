"""Mutual information between rows and labels, by maximum likelihood of the density ratio.

The ratio ``r(x, y) = p(x, y) / (p(x) p(y))`` is modelled as by `numerics.mutual_information.lsmi`, with Gaussians on
the centres of class y and coefficients of at least 0,

    maximise  1/n sum_i log r(x_i, y_i)   subject to   1/n^2 sum_ij r(x_i, y_j) = 1,  theta >= 0

The problem separates into one per class. Let ``m_l = 1/n sum_i L(x_i, u_l)``. In the shares ``w_l = theta_l m_l`` the
constraint reads ``sum_y n_y/n sum_{l in C_y} w_l = 1``, the objective is homogeneous, so that its multiplier is 1, and
hence every class has shares of sum 1. It remains to find the mixture weights of each class by itself,

    maximise  sum_{i in y} log sum_{l in C_y} w_l L(x_i, u_l) / m_l   over  w >= 0,  sum w = 1

a concave problem, in which ``max_l g_l - 1``, with g the gradient, bounds the remaining gain: it is both the residual
of the Karush-Kuhn-Tucker conditions and the duality gap.

All rows enter through the means m only, which add up over blocks and do not depend on labels. The likelihood is
computed for a sample of rows whose distances to the centres fit in memory::

    sums = tree_sum([block_sums(X, rows, design) for each block])
    drawn = Drawn(rows, distances(X[rows], design))
    scores = [score(sums, drawn, labels[rows], labels[design.center_rows], design) for each labeling]
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bigsmic.errors import InputError
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information.gaussian_basis import (
    PAPER_GAMMAS,
    GaussianDesign,
    GaussianSettings,
    check_data,
    check_preset,
    described,
    draw_design,
    fold_of,
    half_squared_distances,
    row_blocks,
)
from bigsmic.numerics.mutual_information.mixture_weights import mixture_weights
from bigsmic.numerics.one_thread import one_thread
from bigsmic.types import Floats, Integers, Preset

FOLD_TOLERANCE = 1e-5
"""Tolerance of the fits in cross-validation, of which only the order matters."""
_TILE_ROWS = 2048
_LEAST_MEAN = 1e-300


@dataclass(frozen=True)
class MLMISettings(GaussianSettings):
    """Settings of the estimate.

    Parameters
    ----------
    n_centers : int
        Gaussians in the model, b.
    gammas : sequence of float or None
        Widths to choose from; None takes multiples of the median distance between rows and centres.
    n_folds : int
        Folds of the cross-validation.
    seed : int
        Seed of the centres and of the folds.
    """

    what: ClassVar[str] = "mlmi"

    n_centers: int = 200
    gammas: Sequence[float] | None = None
    n_folds: int = 5
    seed: int = 0

    def design(self, centers: Floats, center_rows: Integers, sample: Floats) -> "MLMIDesign":
        """Fix the widths for these centres; `sample` (s, d) is some rows to take the median distance on."""
        return MLMIDesign(centers, center_rows, self.widths(centers, sample), self.n_folds, self.seed)


@dataclass(frozen=True, eq=False)
class MLMIDesign(GaussianDesign):
    """The centres, the widths and the folds, which all candidates share.

    Parameters
    ----------
    centers : ndarray of float, shape (b, d)
        Centres of the Gaussians, in the units of the rows.
    center_rows : ndarray of int64, shape (b,)
        Their row numbers, which determine the fold and the class of a centre.
    gammas : ndarray of float64
        Candidate widths; sorted ascending here.
    n_folds : int
    seed : int
        Determines the fold of a row; see :func:`bigsmic.numerics.mutual_information.gaussian_basis.fold_of`.
    """

    what: ClassVar[str] = "mlmi"

    centers: np.ndarray
    center_rows: np.ndarray
    gammas: np.ndarray
    n_folds: int = 5
    seed: int = 0


@dataclass(frozen=True, eq=False)
class MLMISums:
    """Sums over all rows that the estimate needs; those of blocks add with ``+``.

    Parameters
    ----------
    L : ndarray of float64, shape (n_gammas, n_folds, b)
        ``sum L(x_i, u_l)`` over the rows of the fold.
    counts : ndarray of int64, shape (n_folds,)
        Number of those rows.
    """

    L: np.ndarray
    counts: np.ndarray

    def __add__(self, other: "MLMISums") -> "MLMISums":
        if self.L.shape != other.L.shape:
            raise InputError(f"mlmi: sums of shapes {self.L.shape} and {other.L.shape} cannot be added; use one design")
        return MLMISums(self.L + other.L, self.counts + other.counts)


class Drawn(NamedTuple):
    """The rows whose likelihood is maximised.

    Parameters
    ----------
    rows : ndarray of int64, shape (m,)
        Global row numbers, which decide the folds.
    half_squares : ndarray of float, shape (m, b)
        ``|x_i - u_l|^2 / 2``, from :func:`distances`.
    """

    rows: np.ndarray
    half_squares: np.ndarray


@dataclass(frozen=True, eq=False)
class MLMIScore:
    """One labeling's estimate.

    Parameters
    ----------
    mlmi : float
        The estimate, in nats; at most ``log c`` in the limit.
    gamma : float
        The width of the largest cross-validated likelihood; the smallest among equals.
    cv_table : ndarray of float64, shape (n_gammas,)
        Mean held-out ``log r`` of every width.
    theta : ndarray of float64, shape (b,)
        Coefficients of the Gaussians.
    gap : float
        Residual of the optimality conditions: no feasible coefficients reach more than ``mlmi + gap``.
    without_center : tuple of int
        Classes that have rows but no centre; their ratio is set to 1, which adds nothing.
    """

    mlmi: float
    gamma: float
    cv_table: np.ndarray = field(repr=False)
    theta: np.ndarray = field(repr=False)
    gap: float = 0.0
    without_center: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class MLMIResult:
    """Result of :func:`mlmi`.

    Parameters
    ----------
    value : float
        The estimate, in nats.
    gamma : float
        Width that cross-validation chose.
    n_centers : int
    gap : float
        Largest gain that is still possible: the residual of the optimality conditions.
    gammas : ndarray of float64
        The grid.
    cv_table : ndarray of float64, shape (n_gammas,)
        Mean held-out ``log r`` of every width.
    theta : ndarray of float64, shape (n_centers,)
        Coefficients of the Gaussians; many are 0.
    center_rows : ndarray of int64, shape (n_centers,)
        Rows of X that are centres.
    classes : ndarray, shape (c,)
        The labels, sorted.
    without_center : ndarray
        The labels that own no centre; they add nothing to the estimate.
    """

    value: float
    gamma: float
    n_centers: int
    gap: float
    gammas: np.ndarray = field(repr=False)
    cv_table: np.ndarray = field(repr=False)
    theta: np.ndarray = field(repr=False)
    center_rows: np.ndarray = field(repr=False)
    classes: np.ndarray = field(repr=False)
    without_center: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return f"MLMIResult({self.value:.4f}, gamma={self.gamma:.4g}; {described(self)})"


def mlmi(  # noqa: PLR0913 - a public function lists its settings
    X: ArrayLike,
    labels: ArrayLike,
    *,
    n_centers: int = 200,
    gammas: Sequence[float] | None = None,
    n_folds: int = 5,
    n_rows: int | None = 20_000,
    seed: int = 0,
    preset: Preset = None,
) -> MLMIResult:
    """Mutual information between rows and labels, by maximum likelihood.

    ``MLMI = max_theta 1/n sum_i log r(x_i, y_i; theta)``, an estimate of
    ``sum_y int p(x, y) log(p(x, y) / (p(x) p(y))) dx``; [1]_, [2]_. 0 if independent, the entropy of the labels if x
    determines y.

    Parameters
    ----------
    X : array_like of float, shape (n, d)
        At least two rows.
    labels : array_like, shape (n,)
        Any sortable values. That of rows in no cluster, -1 with ``noise=True``, counts as a cluster, unless these rows
        are left out.
    n_centers : int
        Gaussians in the model; at most n.
    gammas : sequence of float, optional
        Widths to choose from by cross-validation. By default seven from 0.1 to 3.2 times the median distance to the
        centres; with the preset nine from .01 to 100, for standardised data.
    n_folds : int
        Folds of the cross-validation; at most n. A centre is held out with its fold.
    n_rows : int or None
        Number of rows, drawn by hash and including the centres, whose likelihood is maximised; None for all. The
        constraint always includes all rows.
    seed : int
        Seed of the centres, of the rows drawn and of the folds.
    preset : {None, "paper"}
        "paper": widths as published.

    Returns
    -------
    MLMIResult

    Raises
    ------
    InputError
        X is not 2-d or has fewer than two rows, lengths differ, labels cannot be sorted, a setting is out of range, or
        the squares of X are out of that of float64.
    NonFiniteError
        NaN or infinity in X.

    Notes
    -----
    Memory: ``n_rows n_centers`` distances in float64 twice; nothing else grows with n.

    References
    ----------
    .. [1] Suzuki, Sugiyama, Sese, Kanamori, "Approximating mutual information by maximum likelihood density ratio
       estimation", JMLR Workshop and Conference Proceedings 4, 2008.
    .. [2] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss
       mutual information", Neural Computation 26, 2014, section 3.8. doi:10.1162/NECO_a_00534

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> mlmi(x, x[:, 0] > 0.5, seed=1)  # doctest: +ELLIPSIS
    MLMIResult(0.6..., gamma=0.0...; 2 classes, 200 centers)
    """
    features, classes, codes = check_data(X, labels, "mlmi")
    check_preset("mlmi", preset)
    if n_rows is not None and n_rows < 2:
        raise InputError(f"mlmi: got n_rows={n_rows}; use at least 2, or None for all")
    gammas = tuple(PAPER_GAMMAS) if gammas is None and preset == "paper" else gammas
    design = draw_design(MLMISettings(n_centers, gammas, min(n_folds, len(features)), seed), features)
    drawn, rows = drawn_rows(len(features), n_rows, design), np.arange(len(features))
    with one_thread():  # tiles are small, so that more threads would only wait for each other
        sums = reduce(add, (block_sums(features[block], rows[block], design) for block in row_blocks(len(features))))
        of_drawn = Drawn(drawn, distances(features[drawn], design))
        found = score(sums, of_drawn, codes[drawn], codes[design.center_rows], design)
    return MLMIResult(
        value=found.mlmi,
        gamma=found.gamma,
        n_centers=design.n_centers,
        gap=found.gap,
        gammas=design.gammas,
        cv_table=found.cv_table,
        theta=found.theta,
        center_rows=design.center_rows,
        classes=classes,
        without_center=classes[list(found.without_center)],
    )


def drawn_rows(n: int, n_rows: int | None, design: MLMIDesign) -> np.ndarray:
    """Rows whose likelihood is maximised: the centres, and others drawn by hash; ascending int64."""
    if n_rows is None or n_rows >= n:
        return np.arange(n)
    others = draw_rows(n, n_rows, design.seed, "mlmi-rows")
    return np.union1d(others, design.center_rows)


def distances(X: Floats, design: MLMIDesign) -> np.ndarray:
    """``|x_i - u_l|^2 / 2`` to every centre, float64, shape (m, b)."""
    return half_squared_distances(X, design.centers)


def block_sums(X: Floats, rows: Integers, design: MLMIDesign) -> MLMISums:
    """Sum of the Gaussians over one block of rows, for all widths and folds.

    Parameters
    ----------
    X : ndarray of float, shape (m, d)
    rows : ndarray of int64, shape (m,)
        Global row numbers, which decide the folds.
    design : MLMIDesign

    Returns
    -------
    MLMISums

    Raises
    ------
    InputError
        Shapes do not match.

    Notes
    -----
    Time: ``m b`` exponentials per width. Memory: a tile of 2,048 rows by b.
    """
    X, rows = np.asarray(X), np.asarray(rows)
    if X.ndim != 2 or X.shape[1] != design.centers.shape[1] or rows.shape != X.shape[:1]:
        raise InputError(
            f"mlmi: block of shape {X.shape} with rows of shape {rows.shape}; "
            f"(m, {design.centers.shape[1]}) and (m,) are needed"
        )
    folds = fold_of(rows, design)
    total = np.zeros((len(design.gammas), design.n_folds, len(design.center_rows)))
    for lo in range(0, len(X), _TILE_ROWS):
        squares = half_squared_distances(X[lo : lo + _TILE_ROWS], design.centers)
        members = (folds[lo : lo + _TILE_ROWS] == np.arange(design.n_folds)[:, None]).astype(np.float64)
        for g, gamma in enumerate(design.gammas):
            total[g] += members @ np.exp(-squares / gamma**2)
    return MLMISums(total, np.bincount(folds, minlength=design.n_folds))


def score(sums: MLMISums, drawn: Drawn, labels: Integers, center_labels: Integers, design: MLMIDesign) -> MLMIScore:
    """Choose the width by cross-validation, and estimate with it on all drawn rows.

    Parameters
    ----------
    sums : MLMISums
        Over all rows.
    drawn : Drawn
    labels : ndarray of int, shape (m,)
        One labeling's labels of the drawn rows.
    center_labels : ndarray of int, shape (b,)
        Its labels of ``design.center_rows``.
    design : MLMIDesign

    Returns
    -------
    MLMIScore
    """
    labels, owners = np.asarray(labels), np.asarray(center_labels)
    classes = np.unique(labels)
    table = np.array([_held_out(sums, g, drawn, labels, owners, design) for g in range(len(design.gammas))])
    g = int(table.argmax())
    means = np.log(np.maximum(sums.L[g].sum(axis=0) / sums.counts.sum(), _LEAST_MEAN))
    theta, total, gap = np.zeros(len(owners)), 0.0, 0.0
    for y in classes:
        own, mine = np.flatnonzero(labels == y), np.flatnonzero(owners == y)
        if not len(mine):
            continue
        R, tops = _scaled(_log_ratios(drawn.half_squares, own, mine, means, design.gammas[g]))
        fit = mixture_weights(R, tops)
        theta[mine] = fit.weights / np.exp(means[mine])
        total += len(own) * fit.value
        gap += len(own) * fit.gap
    without = tuple(int(y) for y in classes if not (owners == y).any())
    return MLMIScore(total / len(labels), float(design.gammas[g]), table, theta, gap / len(labels), without)


def _held_out(sums: MLMISums, g: int, drawn: Drawn, labels: Integers, owners: Integers, design: MLMIDesign) -> float:
    """Mean ``log r`` of the drawn rows at one width, for each row from the folds without it."""
    folds, of_centers = fold_of(drawn.rows, design), fold_of(design.center_rows, design)
    total = 0.0
    for fold in range(design.n_folds):
        kept = sums.counts.sum() - sums.counts[fold]
        means = np.log(np.maximum((sums.L[g].sum(axis=0) - sums.L[g, fold]) / max(kept, 1), _LEAST_MEAN))
        for y in np.unique(labels[folds == fold]):
            own = labels == y
            inside, outside = np.flatnonzero(own & (folds != fold)), np.flatnonzero(own & (folds == fold))
            mine = np.flatnonzero((owners == y) & (of_centers != fold))
            if not len(mine):
                continue  # a ratio of 1
            R, tops = _scaled(_log_ratios(drawn.half_squares, inside, mine, means, design.gammas[g]))
            weights = mixture_weights(R, tops, FOLD_TOLERANCE).weights
            R, tops = _scaled(_log_ratios(drawn.half_squares, outside, mine, means, design.gammas[g]), weights > 0)
            total += float(np.log(R @ weights[weights > 0]).sum() + tops.sum())
    return total / len(labels)


def _log_ratios(half_squares: Floats, rows: Integers, centers: Integers, log_means: Floats, gamma: float) -> Floats:
    """``log(L(x_i, u_l) / m_l)``; in logarithms, as narrow Gaussians underflow."""
    return half_squares[np.ix_(rows, centers)] / -(gamma**2) - log_means[centers]


def _scaled(logs: Floats, columns: slice | NDArray[np.bool_] = slice(None)) -> tuple[Floats, Floats]:
    """``exp(logs - top)`` on some columns, and the row maxima `top`."""
    logs = logs[:, columns]
    tops = logs.max(axis=1, initial=-np.inf)
    return np.exp(logs - tops[:, None]), tops
