"""Sums over rows from which LSMI is computed, for every labeling, width and fold in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import csr_array

from bigsmic.errors import InputError
from bigsmic.numerics.mutual_information.gaussian_basis import (
    PAPER_GAMMAS,
    GaussianDesign,
    GaussianSettings,
    fold_of,
    half_squared_distances,
)
from bigsmic.numerics.products import self_product
from bigsmic.types import Floats, Integers

PAPER_DELTAS = 10.0 ** (np.arange(-6, 3) / 2)
# products of two of them are still normal numbers
_FLOOR = {np.dtype(np.float32): 1e-8, np.dtype(np.float64): 1e-150}
# few enough rows for float32 sums, and enough to make adding the sums in float64 cheap
_TILE_ROWS = 2048
# up to so many classes, a product with 0s and 1s is faster than adding rows
_DENSE_CLASSES = 5
# share of non-zero Gaussians below which a sparse product is faster
_SPARSE_BELOW = 1 / 64


@dataclass(frozen=True)
class LSMISettings(GaussianSettings):
    """Settings of the estimate.

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
        """Cut the widths into designs of at most `n_gammas` each, if the sums of all do not fit in memory.

        Score each and join the scores of a candidate with
        :func:`~bigsmic.numerics.mutual_information.lsmi_scores.join_sweeps`.
        """
        starts = range(0, len(self.gammas), n_gammas)
        return [replace(self, gammas=self.gammas[lo : lo + n_gammas]) for lo in starts]


@dataclass(frozen=True, eq=False)
class LSMISums:
    """Sums over rows from which the estimate is computed; those of blocks add with ``+``.

    Parameters
    ----------
    G : ndarray of float64, shape (n_gammas, n_folds, b, b)
        ``sum L_i L_i'`` over the rows i of the fold; symmetric, label-free.
    S : ndarray of float64, shape (n_gammas, n_folds, T, c, b)
        ``sum L_i`` over the rows of the fold that labeling t puts in class y.
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
                "cannot be added; use one design, and pass n_classes, for all blocks"
            )
        return LSMISums(self.G + other.G, self.S + other.S, self.counts + other.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.G.nbytes + self.S.nbytes + self.counts.nbytes


def sums_bytes(n_centers: int, n_gammas: int, n_folds: int, n_labelings: int, n_classes: int) -> int:
    """Memory of one :class:`LSMISums`: ``8 M (g b^2 + T c (g b + 1))`` bytes.

    While two are added, there are three.
    """
    per_labeling = n_classes * (n_gammas * n_centers + 1)
    return 8 * n_folds * (n_gammas * n_centers**2 + n_labelings * per_labeling)


def tile_bytes(n_centers: int, n_features: int, n_labelings: int, itemsize: int) -> int:
    """Memory that :func:`block_sums` needs in addition to the block and the sums, in bytes."""
    basis = n_centers * (16 + 2 * itemsize + 1)
    indicator = n_labelings * (16 + _DENSE_CLASSES * itemsize)
    return _TILE_ROWS * (basis + 8 * n_features + indicator) + 16 * n_centers**2


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
        c. By default one more than the largest label, which must then be the same in all blocks.
    dtype : {float32, float64}, optional
        Dtype of the Gaussians and their products; by default that of X. Sums are float64, and so are distances: in
        float32 they would cause an error of ``1e-7 |x|^2 / gamma^2`` in the exponent.

    Returns
    -------
    LSMISums

    Raises
    ------
    InputError
        Shapes do not match, or a label is out of range.

    Notes
    -----
    Time: ``m b^2`` flops per gamma, fewer if Gaussians are so narrow that most are 0. Those below 1e-8 (float32) or
    1e-150 (float64) count as 0, as subnormal numbers would slow all later products. Memory: :func:`tile_bytes` and the
    sums themselves, so that few large blocks are better than many small ones.
    """
    X, labels = np.asarray(X), np.asarray(labels)
    n_classes = int(labels.max(initial=0)) + 1 if n_classes is None else n_classes
    _check_block(X, rows, labels, design, n_classes)
    sums = LSMISums.zeros(design, len(labels), n_classes)
    accumulate(sums, X, rows, labels, design, dtype)
    return sums


@np.errstate(under="ignore")  # of Gaussians far from their center, which are zero
def accumulate(
    sums: LSMISums, X: Floats, rows: Integers, labels: Integers, design: LSMIDesign, dtype: DTypeLike | None = None
) -> None:
    """Add the sums of one block to `sums`; see :func:`block_sums`, which checks the arguments first."""
    dtype = np.dtype(dtype or (X.dtype if X.dtype == np.float32 else np.float64))
    # in units of the squared narrowest width, no scale of the data can overflow float32
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
    """``L'L``; if narrow Gaussians are 0 at almost all rows, by a sparse product."""
    if np.count_nonzero(L) < L.size * _SPARSE_BELOW:
        compact = csr_array(L)
        return (compact.T @ compact).toarray()
    # with one array on both sides NumPy calls syrk, which is twice as fast
    return self_product(L)


def _gaussians(exponents: Floats, scale: float) -> Floats:
    L = exponents * exponents.dtype.type(scale)
    np.exp(L, out=L)
    # a product, as assignment through a random mask takes ten times as long
    L *= _FLOOR[L.dtype] <= L
    return L


def _indicator(labels: Integers, n_classes: int, dtype: DTypeLike) -> Any:
    """Row ``t c + y`` marks the members of class y in labeling t; shape (T c, m)."""
    n_labelings, n = labels.shape
    indices = labels + n_classes * np.arange(n_labelings)[:, None]
    indptr = np.arange(0, labels.size + 1, n_labelings)
    ones = np.ones(labels.size, dtype)
    marks = csr_array((ones, indices.T.ravel(), indptr), shape=(n, n_labelings * n_classes)).T.tocsr()
    return marks.toarray() if n_classes <= _DENSE_CLASSES else marks


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
