"""Squared-loss mutual information between rows and labels, by least squares: one pass for every candidate.

The density ratio ``r(x, y) = p(x, y) / (p(x) p(y))`` is modelled by Gaussians on the centres of class y,

    r(x, y) = sum_{l in C_y} theta_l L(x, u_l),       L(x, u) = exp(-|x - u|^2 / (2 gamma^2))

and ``(H_y + delta I) theta_y = h_y`` is the ridge fit to it. Everything that the fit, its cross-validation
over gamma and delta and the estimate need of the rows is in three sums, which add up over blocks::

    sums = tree_sum([block_sums(X, rows, labels, design) for each block])
    scores = finish(sums, labels[:, design.center_rows], design)

Labels enter through one of them only, so that many labelings cost little more than one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg import lapack
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from bigsmic.errors import InputError
from bigsmic.numerics.mutual_information.gaussian_basis import (
    PAPER_GAMMAS,
    GaussianDesign,
    GaussianSettings,
    check_data,
    check_preset,
    draw_design,
    fold_of,
    half_squared_distances,
    row_blocks,
    told,
)
from bigsmic.numerics.self_product import self_product
from bigsmic.types import Floats, Integers, Preset

PAPER_DELTAS = 10.0 ** (np.arange(-6, 3) / 2)

# products of two of them are still normal numbers
_FLOOR = {np.dtype(np.float32): 1e-8, np.dtype(np.float64): 1e-150}
# few enough for float32 sums, enough to make adding them up in float64 cheap
_TILE_ROWS = 2048
# up to here a product with 0s and 1s is faster than adding rows
_DENSE_CLASSES = 5
# share of Gaussians that are not 0 below which a sparse product is faster
_SPARSE_BELOW = 1 / 64


@dataclass(frozen=True)
class LSMISettings(GaussianSettings):
    """What is to be estimated with what.

    Parameters
    ----------
    n_centers : int
        Gaussians in the model, b. Their draw moves the estimate by about .045 (sd) at 200 and .013 at 800.
    gammas : sequence of float or None
        Widths to choose from; None takes multiples of the median distance between rows and centres.
    deltas : sequence of float
        Ridge parameters to choose from.
    n_folds : int
        Folds of the cross-validation.
    seed : int
        Seed of the centres and of the folds.
    """

    what: ClassVar[str] = "lsmi"
    grids: ClassVar[tuple[str, ...]] = ("gammas", "deltas")

    n_centers: int = 800
    gammas: Sequence[float] | None = None
    deltas: Sequence[float] = tuple(PAPER_DELTAS)
    n_folds: int = 5
    seed: int = 0

    @classmethod
    def paper(cls, seed: int = 0) -> "LSMISettings":
        """Return the settings of the published experiments: 200 centres, 81 pairs for standardised data."""
        return cls(n_centers=200, gammas=tuple(PAPER_GAMMAS), seed=seed)

    def design(self, centers: Floats, center_rows: Integers, sample: Floats) -> "LSMIDesign":
        """Fix the grids for these centres; `sample` (s, d) is some rows to take the median distance on."""
        gammas = self.widths(centers, sample)
        return LSMIDesign(centers, center_rows, gammas, np.asarray(self.deltas), self.n_folds, self.seed)


@dataclass(frozen=True, eq=False)
class LSMIDesign(GaussianDesign):
    """The centres, the grids and the folds, which all candidates share.

    Parameters
    ----------
    centers : ndarray of float, shape (b, d)
        Centres of the Gaussians, in the units of the rows.
    center_rows : ndarray of int64, shape (b,)
        The rows which they are; a candidate's labels of these rows say whose the centres are.
    gammas, deltas : ndarray of float64
        Candidate widths and ridge parameters; sorted ascending here.
    n_folds : int
    seed : int
        Decides the fold of a row; see :func:`fold_of`.
    unit : float, optional
        Width in whose square exponents are counted; the narrowest by default. Sweeps share it, so that scores do not
        depend on how the widths are cut.
    """

    what: ClassVar[str] = "lsmi"
    grids: ClassVar[tuple[str, ...]] = ("gammas", "deltas")

    centers: np.ndarray
    center_rows: np.ndarray
    gammas: np.ndarray
    deltas: np.ndarray
    n_folds: int = 5
    seed: int = 0
    unit: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit is None:
            object.__setattr__(self, "unit", float(self.gammas[0]))

    def sweeps(self, n_gammas: int) -> list["LSMIDesign"]:
        """Cut the widths into designs of at most `n_gammas` each, whose sums fit where those of all do not.

        Score each and join the scores of a candidate with :func:`join_sweeps`.
        """
        starts = range(0, len(self.gammas), n_gammas)
        return [replace(self, gammas=self.gammas[lo : lo + n_gammas]) for lo in starts]


@dataclass(frozen=True, eq=False)
class LSMISums:
    """What the estimator needs of the rows; sums of blocks add with ``+``.

    Parameters
    ----------
    G : ndarray of float64, shape (n_gammas, n_folds, b, b)
        ``sum L_i L_i'`` over the rows i of the fold; symmetric, label-free.
    S : ndarray of float64, shape (n_gammas, n_folds, T, c, b)
        ``sum L_i`` over the rows of the fold that labelling t puts in class y.
    counts : ndarray of int64, shape (n_folds, T, c)
        Number of those rows.
    """

    G: np.ndarray
    S: np.ndarray
    counts: np.ndarray

    @classmethod
    def zeros(cls, design: LSMIDesign, n_labelings: int, n_classes: int) -> "LSMISums":
        """Return the sums over no rows."""
        g, m, b = len(design.gammas), design.n_folds, design.n_centers
        classes = (m, n_labelings, n_classes)
        return cls(np.zeros((g, m, b, b)), np.zeros((g, *classes, b)), np.zeros(classes, np.int64))

    def __add__(self, other: "LSMISums") -> "LSMISums":
        if self.G.shape != other.G.shape or self.S.shape != other.S.shape:
            raise InputError(
                f"lsmi: sums of shapes {self.G.shape}, {self.S.shape} and {other.G.shape}, {other.S.shape} "
                "do not add; use one design, and pass n_classes, for all blocks"
            )
        return LSMISums(self.G + other.G, self.S + other.S, self.counts + other.counts)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.G.nbytes + self.S.nbytes + self.counts.nbytes


@dataclass(frozen=True, eq=False)
class LSMIScore:
    """One labelling's estimate.

    Parameters
    ----------
    lsmi : float
        The estimate; at most ``(c - 1) / 2`` in the limit.
    gamma, delta : float
        The pair that minimises the cross-validated loss; of equal ones the smallest gamma, then delta.
    cv : float
        That loss.
    cv_table : ndarray of float64, shape (n_gammas, n_deltas)
        All of them.
    without_center : tuple of int
        Classes that have rows but no centre; they add nothing to the estimate.
    """

    lsmi: float
    gamma: float
    delta: float
    cv: float
    cv_table: np.ndarray = field(repr=False)
    without_center: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class LSMIResult:
    """What :func:`lsmi` found.

    Parameters
    ----------
    value : float
        The estimate.
    gamma, delta : float
        Width and ridge parameter that cross-validation chose.
    n_centers : int
    gammas, deltas : ndarray of float64
        The grids.
    cv_table : ndarray of float64, shape (n_gammas, n_deltas)
        Cross-validated loss of every pair.
    classes : ndarray, shape (c,)
        The labels, sorted.
    centers_per_class : ndarray of int64, shape (c,)
    without_center : ndarray
        The labels that own no centre; they add nothing to the estimate.
    """

    value: float
    gamma: float
    delta: float
    n_centers: int
    gammas: np.ndarray = field(repr=False)
    deltas: np.ndarray = field(repr=False)
    cv_table: np.ndarray = field(repr=False)
    classes: np.ndarray = field(repr=False)
    centers_per_class: np.ndarray = field(repr=False)
    without_center: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return f"LSMIResult({self.value:.4f}, gamma={self.gamma:.4g}, delta={self.delta:.4g}; {told(self)})"


def lsmi(  # noqa: PLR0913 - the front door spells out its settings
    X: ArrayLike,
    labels: ArrayLike,
    *,
    n_centers: int | None = None,
    gammas: Sequence[float] | None = None,
    deltas: Sequence[float] | None = None,
    n_folds: int = 5,
    seed: int = 0,
    preset: Preset = None,
) -> LSMIResult:
    """Squared-loss mutual information between rows and labels.

    ``LSMI = sum_y (theta_y' h_y - theta_y' H_y theta_y / 2) - 1/2``, an estimate of
    ``1/2 sum_y int p(x) p(y) (r(x, y) - 1)^2 dx``; [1]_, [2]_. 0 if independent, ``(c - 1) / 2`` if x tells y

    Parameters
    ----------
    X : array_like of float, shape (n, d)
        At least two rows. float32 is computed in float32 with sums in float64, all else in float64.
    labels : array_like, shape (n,)
        Any values that sort.
    n_centers : int, optional
        Gaussians in the model; 800, or 200 with ``preset="paper"``; cut to n.
    gammas, deltas : sequence of float, optional
        Widths and ridge parameters to choose from. By default seven widths from 0.1 to 3.2 times the median
        distance to the centres (with the preset nine from .01 to 100, for standardised data) and nine ridge
        parameters from .001 to 10.
    n_folds : int
        Folds of the cross-validation; cut to n.
    seed : int
        Seed of the centres and of the folds.
    preset : {None, "paper"}

    Returns
    -------
    LSMIResult

    Raises
    ------
    InputError
        X is not 2-d or has fewer than two rows, lengths differ, or a setting is out of range.
    NonFiniteError
        NaN or infinity in X.

    Notes
    -----
    Memory: :func:`sums_bytes` for the sums, :func:`tile_bytes` for the work.

    References
    ----------
    .. [1] Suzuki, Sugiyama, Sese, Kanamori, "Mutual information estimation reveals global associations
       between stimuli and biological processes", BMC Bioinformatics 10:S52, 2009.
       doi:10.1186/1471-2105-10-S1-S52
    .. [2] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss
       mutual information", Neural Computation 26, 2014. doi:10.1162/NECO_a_00534

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> lsmi(x, x[:, 0] > 0.5, seed=1)  # doctest: +ELLIPSIS
    LSMIResult(0.49..., gamma=0.029..., delta=0.001; 2 classes, 200 centers)
    """
    features, classes, codes = check_data(X, labels, "lsmi")
    given: dict[str, Any] = {
        "n_centers": n_centers,
        "gammas": gammas,
        "deltas": deltas,
        "n_folds": min(n_folds, len(features)),
    }
    check_preset("lsmi", preset)
    settings = LSMISettings(seed=seed) if preset is None else LSMISettings.paper(seed)
    design = draw_design(replace(settings, **{k: v for k, v in given.items() if v is not None}), features)
    sums, rows, of_centers = (
        LSMISums.zeros(design, 1, len(classes)),
        np.arange(len(features)),
        codes[design.center_rows],
    )
    with threadpool_limits(limits=1):  # tiles are small: more threads would only wait for each other
        for block in row_blocks(len(features)):
            _accumulate(sums, features[block], rows[block], codes[None, block], design)
        score = score_one(sums, 0, of_centers, design)
    return LSMIResult(
        value=score.lsmi,
        gamma=score.gamma,
        delta=score.delta,
        n_centers=design.n_centers,
        gammas=design.gammas,
        deltas=design.deltas,
        cv_table=score.cv_table,
        classes=classes,
        centers_per_class=np.bincount(of_centers, minlength=len(classes)),
        without_center=classes[list(score.without_center)],
    )


# -- the design


def sums_bytes(n_centers: int, n_gammas: int, n_folds: int, n_labelings: int, n_classes: int) -> int:
    """Memory of one :class:`LSMISums`: ``8 M (g b^2 + T c (g b + 1))`` bytes.

    While two are added, three are held.
    """
    per_labelling = n_classes * (n_gammas * n_centers + 1)
    return 8 * n_folds * (n_gammas * n_centers**2 + n_labelings * per_labelling)


def tile_bytes(n_centers: int, n_features: int, n_labelings: int, itemsize: int) -> int:
    """Memory that :func:`block_sums` works in, beside the block and the sums."""
    basis = n_centers * (16 + 2 * itemsize + 1)
    indicator = n_labelings * (16 + _DENSE_CLASSES * itemsize)
    return _TILE_ROWS * (basis + 8 * n_features + indicator) + 16 * n_centers**2


# -- the sums


def block_sums(
    X: Floats,
    rows: Integers,
    labels: Integers,
    design: LSMIDesign,
    *,
    n_classes: int | None = None,
    dtype: DTypeLike | None = None,
) -> LSMISums:
    """Sum over one block of rows, for all candidate labelings, widths and folds.

    ``G_m = sum_i L_i L_i'`` and ``S_m[y] = sum_{i: y_i = y} L_i`` over the rows i of fold m, where
    ``L_i = exp(-|x_i - u|^2 / (2 gamma^2))``.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (m, d)
    rows : ndarray of int64, shape (m,)
        Global row numbers, which decide the folds.
    labels : ndarray of int, shape (T, m)
        Candidate labelings, values in 0..c-1.
    design : LSMIDesign
    n_classes : int, optional
        c; by default one more than the largest label, which must then be the same in all blocks.
    dtype : {float32, float64}, optional
        Of the Gaussians and their products; by default that of X. Sums are float64, and so are distances:
        float32 ones would put an error of ``1e-7 |x|^2 / gamma^2`` in the exponent.

    Returns
    -------
    LSMISums

    Raises
    ------
    InputError
        Shapes do not match, or a label is out of range.

    Notes
    -----
    Time: ``m b^2`` flops per gamma, less where Gaussians are so narrow that most are 0. Those below 1e-8
    (float32) or 1e-150 (float64) count as 0: subnormal numbers would slow every product that follows.
    Memory: :func:`tile_bytes` and the sums themselves, so that few large blocks are better than many.
    """
    X, labels = np.asarray(X), np.asarray(labels)
    n_classes = int(labels.max(initial=0)) + 1 if n_classes is None else n_classes
    _check_block(X, rows, labels, design, n_classes)
    sums = LSMISums.zeros(design, len(labels), n_classes)
    _accumulate(sums, X, rows, labels, design, dtype)
    return sums


def _accumulate(
    sums: LSMISums, X: Floats, rows: Integers, labels: Integers, design: LSMIDesign, dtype: DTypeLike | None = None
) -> None:
    dtype = np.dtype(dtype or (X.dtype if X.dtype == np.float32 else np.float64))
    # counted in squares of the narrowest width, no scale of the data can overflow float32
    assert design.unit is not None  # once made
    unit = design.unit**2
    folds = fold_of(rows, design)
    order = np.argsort(folds, kind="stable")
    ends = np.searchsorted(folds[order], np.arange(design.n_folds + 1))
    for fold in range(design.n_folds):
        for lo in range(ends[fold], ends[fold + 1], _TILE_ROWS):
            part = order[lo : min(lo + _TILE_ROWS, ends[fold + 1])]
            exponents = half_squared_distances(X[part], design.centers)
            exponents = np.divide(exponents, -unit, out=exponents).astype(dtype, copy=False)
            _add_tile(sums, fold, exponents, labels[:, part], unit / design.gammas**2)


def _add_tile(sums: LSMISums, fold: int, exponents: Floats, labels: Integers, scales: Floats) -> None:
    shape = sums.counts.shape[1:]
    indicator = _indicator(labels, shape[1], exponents.dtype)
    sums.counts[fold] += np.asarray(indicator.sum(axis=1), np.int64).reshape(shape)
    for g, scale in enumerate(scales):
        L = _gaussians(exponents, scale)
        sums.S[g, fold] += (indicator @ L).reshape(*shape, -1)
        sums.G[g, fold] += _gram(L)


def _gram(L: Floats) -> Floats:
    """``L'L``; narrow Gaussians reach almost no row, and then the zeros are left out."""
    if np.count_nonzero(L) < L.size * _SPARSE_BELOW:
        compact = csr_array(L)
        return (compact.T @ compact).toarray()
    # one array on both sides: numpy calls syrk, which is twice as fast as a product of two
    return self_product(L)


def _gaussians(exponents: Floats, scale: float) -> Floats:
    L = exponents * exponents.dtype.type(scale)
    np.exp(L, out=L)
    # by a product: assignment through a random mask takes ten times as long
    L *= _FLOOR[L.dtype] <= L
    return L


def _indicator(labels: Integers, n_classes: int, dtype: DTypeLike) -> Any:
    """Row ``t c + y`` marks the members of class y in labelling t; shape (T c, m)."""
    n_labelings, n = labels.shape
    indices = labels + n_classes * np.arange(n_labelings)[:, None]
    indptr = np.arange(0, labels.size + 1, n_labelings)
    ones = np.ones(labels.size, dtype)
    marks = csr_array((ones, indices.T.ravel(), indptr), shape=(n, n_labelings * n_classes)).T.tocsr()
    return marks.toarray() if n_classes <= _DENSE_CLASSES else marks


# -- the estimate


def finish(sums: LSMISums, center_labels: Integers, design: LSMIDesign) -> list[LSMIScore]:
    """Score every labelling; equal ones once.

    Parameters
    ----------
    sums : LSMISums
        Over all rows.
    center_labels : ndarray of int, shape (T, b)
        Each labelling's labels of ``design.center_rows``.
    design : LSMIDesign

    Returns
    -------
    scores : list of LSMIScore, length T

    See Also
    --------
    score_one : one of them, for callers that spread labelings over workers; ask :func:`first_equal` first.
    """
    first = first_equal(sums, center_labels)
    scores = {t: score_one(sums, t, center_labels[t], design) for t in np.unique(first)}
    return [scores[t] for t in first]


def first_equal(sums: LSMISums, center_labels: Integers) -> Integers:
    """For each labelling the first one that has the same sums and hence the same score; int64, shape (T,)."""
    first = np.arange(len(center_labels))
    for t in range(len(first)):
        earlier = (u for u in range(t) if first[u] == u and _same(sums, center_labels, t, u))
        first[t] = next(earlier, t)
    return first


def _same(sums: LSMISums, center_labels: Integers, t: int, u: int) -> bool:
    return (
        np.array_equal(center_labels[t], center_labels[u])
        and np.array_equal(sums.counts[:, t], sums.counts[:, u])
        and np.array_equal(sums.S[:, :, t], sums.S[:, :, u])
    )


def score_one(sums: LSMISums, t: int, center_labels: Integers, design: LSMIDesign) -> LSMIScore:
    """Choose gamma and delta for labelling `t` by cross-validation, and estimate with them on all rows.

    For fold m, with theta from the others,

        CV_m = 1/(2 n_m^2) sum_y n_{y,m} theta_y' G_m theta_y - 1/n_m sum_y theta_y' S_m[y]

    where G and S are restricted to the centres of y, and theta is from ``G - G_m`` and ``S - S_m``.

    Parameters
    ----------
    sums : LSMISums
    t : int
    center_labels : ndarray of int, shape (b,)
        Its labels of ``design.center_rows``.
    design : LSMIDesign

    Returns
    -------
    LSMIScore

    Notes
    -----
    Time: for each gamma, fold and class ``4/3 k^3`` flops, k the centres of the class; deltas are free. Two
    classes of 400 are therefore the slow case (0.25 s at 7 gammas, 5 folds), thirty of 25 are quick (0.05 s).
    """
    center_labels = np.asarray(center_labels)
    occupied = np.flatnonzero(sums.counts[:, t].any(axis=0))
    owned = {y: np.flatnonzero(center_labels == y) for y in occupied.tolist()}
    classes = [(y, C) for y, C in owned.items() if len(C)]
    table = np.zeros((len(design.gammas), len(design.deltas)))
    for g in range(len(table)):
        table[g] = sum(_losses(_restrict(sums, g, t, y, C), design.deltas) for y, C in classes)
    g, d = divmod(int(table.argmin()), table.shape[1])
    gains = [_gain(_restrict(sums, g, t, y, C), design.deltas[d]) for y, C in classes]
    return LSMIScore(
        lsmi=float(sum(gains) - 0.5),
        gamma=float(design.gammas[g]),
        delta=float(design.deltas[d]),
        cv=float(table[g, d]),
        cv_table=table,
        without_center=tuple(y for y, C in owned.items() if not len(C)),
    )


def join_sweeps(scores: Sequence[LSMIScore]) -> LSMIScore:
    """Join one labelling's scores over the sweeps of :meth:`LSMIDesign.sweeps`, in their order."""
    best = min(scores, key=lambda score: score.cv)
    return replace(best, cv_table=np.concatenate([score.cv_table for score in scores]))


class _Class(NamedTuple):
    """The sums of one class at one width, on its own k centres."""

    G: np.ndarray  # (n_folds, k, k)
    S: np.ndarray  # (n_folds, k)
    n_y: np.ndarray  # (n_folds,), rows of the class
    n: np.ndarray  # (n_folds,), rows


def _restrict(sums: LSMISums, g: int, t: int, y: int, C: Integers) -> _Class:
    # two takes run along memory; indexing both axes at once does not
    G = sums.G[g].take(C, axis=1).take(C, axis=2)
    counts = sums.counts[:, t]
    return _Class(G, sums.S[g, :, t, y].take(C, axis=1), counts[:, y], counts.sum(axis=1))


def _losses(part: _Class, deltas: Floats) -> Floats:
    """Terms of one class in the mean of ``CV_m`` over the folds that have rows, for every delta."""
    n, rest = np.maximum(part.n, 1), np.maximum(part.n.sum() - part.n, 1)
    H = part.G.sum(axis=0) - part.G
    H *= ((part.n_y.sum() - part.n_y) / rest**2.0)[:, None, None]
    h = (part.S.sum(axis=0) - part.S) / rest[:, None]
    theta = _solve_shifted(H, h, deltas)
    squares = np.sum((theta @ part.G) * theta, axis=2)
    hits = (theta @ part.S[:, :, None])[:, :, 0]
    losses = (part.n_y / (2.0 * n**2.0))[:, None] * squares - hits / n[:, None]
    return losses.sum(axis=0) / np.count_nonzero(part.n)


def _gain(part: _Class, delta: float) -> float:
    """``theta' h - theta' H theta / 2`` of one class, on all rows."""
    n = part.n.sum()
    H = part.G.sum(axis=0) * (part.n_y.sum() / float(n) ** 2)
    h = part.S.sum(axis=0) / n
    theta = _solve_shifted(H[None].copy(), h[None], np.array([delta]))[0, 0]
    return theta @ h - theta @ H @ theta / 2


def _solve_shifted(H: Floats, h: Floats, deltas: Floats) -> Floats:
    """``(H + delta I)^-1 h`` for every delta.

    One reduction ``H = Q T Q'`` to tridiagonal form serves all of them: it costs less than half of nine
    Cholesky factorisations, and a quarter of an eigendecomposition.

    Parameters
    ----------
    H : ndarray of float64, shape (B, k, k)
        Positive semidefinite; overwritten.
    h : ndarray of float64, shape (B, k)
    deltas : ndarray of float64, shape (D,)

    Returns
    -------
    theta : ndarray of float64, shape (B, D, k)
    """
    shape = (len(H), len(deltas), len(h[0]))
    if shape[2] == 1:
        return (h / (H[:, 0] + deltas))[:, :, None]
    diagonal, side_inputs, right = np.empty(shape), np.zeros(shape), np.empty(shape)
    Qs = []
    for i, matrix in enumerate(H):
        alpha, beta, Q = _tridiagonal(matrix)
        diagonal[i] = alpha + deltas[:, None]
        side_inputs[i, :, :-1] = beta  # the zero after it uncouples a system from the next: all are one
        right[i] = _rotate(Q, h[i][:, None], "T")[:, 0]
        Qs.append(Q)
    *_, z, info = lapack.dptsv(diagonal.ravel(), side_inputs.ravel()[:-1], right.ravel())
    if info > 0:
        raise InputError(
            f"lsmi: H + delta I is not positive definite at delta={deltas.min():.3g}, "
            "which is below the rounding error of the sums; use larger deltas, or float64 rows"
        )
    return np.stack([_rotate(Q, rows.T, "N").T for Q, rows in zip(Qs, z.reshape(shape), strict=True)])


def _tridiagonal(H: Floats) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """``H = Q T Q'``: diagonal and off-diagonal of T, and the Householder vectors and factors of Q."""
    k = len(H)
    # the transpose of a symmetric matrix is itself, and in the order that LAPACK wants
    vectors, diagonal, side_inputs, factors, _ = lapack.dsytrd(H.T, lower=1, lwork=32 * k, overwrite_a=1)
    return diagonal, side_inputs, (np.asfortranarray(vectors[1:, :-1]), factors)


def _rotate(Q: tuple[Floats, Floats], columns: Floats, trans: Literal["N", "T"]) -> Floats:
    """``Q @ columns`` (``trans="N"``) or ``Q.T @ columns`` (``"T"``); Q leaves the first coordinate alone."""
    vectors, factors = Q
    turned = np.empty(columns.shape, order="F")
    turned[0] = columns[0]
    turned[1:] = lapack.dormqr("L", trans, vectors, factors, columns[1:], lwork=32 * columns.shape[1])[0]
    return turned


# -- checks


def _check_block(X: Floats, rows: Integers, labels: Integers, design: LSMIDesign, n_classes: int) -> None:
    m, d = len(X), design.centers.shape[1]
    if X.shape != (m, d) or np.shape(rows) != (m,) or labels.ndim != 2 or labels.shape[1] != m:
        raise InputError(
            f"lsmi: block of shape {X.shape} with rows of shape {np.shape(rows)} and labels of shape "
            f"{labels.shape}; (m, {d}), (m,) and (T, m) are needed"
        )
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= n_classes:
        raise InputError(
            f"lsmi: labels from {labels.min()} to {labels.max()} with n_classes={n_classes}; "
            "number the classes 0..n_classes-1, and leave out rows without a label"
        )
