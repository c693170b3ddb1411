"""LSMI of labelings from sums over rows: ridge fits, with parameters chosen by cross-validation."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import lapack

from bigsmic.errors import InputError
from bigsmic.numerics.mutual_information.lsmi_sums import LSMIDesign, LSMISums
from bigsmic.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class LSMIScore:
    """Estimate for one labeling.

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


def finish(sums: LSMISums, center_labels: Integers, design: LSMIDesign) -> list[LSMIScore]:
    """Score every labeling; equal labelings are scored once.

    Parameters
    ----------
    sums : LSMISums
        Over all rows.
    center_labels : ndarray of int, shape (T, b)
        Each labeling's labels of ``design.center_rows``.
    design : LSMIDesign

    Returns
    -------
    scores : list of LSMIScore, length T

    See Also
    --------
    score_one : one of them, for callers that distribute labelings over workers; call :func:`first_equal` first.
    """
    first = first_equal(sums, center_labels)
    scores = {t: score_one(sums, t, center_labels[t], design) for t in np.unique(first)}
    return [scores[t] for t in first]


def first_equal(sums: LSMISums, center_labels: Integers) -> Integers:
    """For each labeling the first one with the same sums, and hence the same score; int64, shape (T,)."""
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
    """Choose gamma and delta for labeling `t` by cross-validation, and estimate with them on all rows.

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
    """Join one labeling's scores over the sweeps of :meth:`LSMIDesign.sweeps`, in their order."""
    best = min(scores, key=lambda score: score.cv)
    return replace(best, cv_table=np.concatenate([score.cv_table for score in scores]))


class _Class(NamedTuple):
    """The sums of one class at one width, on its own k centres."""

    G: np.ndarray  # (n_folds, k, k)
    S: np.ndarray  # (n_folds, k)
    n_y: np.ndarray  # (n_folds,), rows of the class
    n: np.ndarray  # (n_folds,), rows


def _restrict(sums: LSMISums, g: int, t: int, y: int, C: Integers) -> _Class:
    # two takes read contiguous memory; indexing both axes at once does not
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
    diagonal, off_diagonal, right = np.empty(shape), np.zeros(shape), np.empty(shape)
    Qs = []
    for i, matrix in enumerate(H):
        alpha, beta, Q = _tridiagonal(matrix)
        diagonal[i] = alpha + deltas[:, None]
        off_diagonal[i, :, :-1] = beta  # the zero after it decouples each system from the next
        right[i] = _rotate(Q, h[i][:, None], "T")[:, 0]
        Qs.append(Q)
    *_, z, info = lapack.dptsv(diagonal.ravel(), off_diagonal.ravel()[:-1], right.ravel())
    if info > 0:
        raise InputError(
            f"lsmi: H + delta I is not positive definite at delta={deltas.min():.3g}, "
            "which is below the rounding error of the sums; use larger deltas, or float64 rows"
        )
    return np.stack([_rotate(Q, rows.T, "N").T for Q, rows in zip(Qs, z.reshape(shape), strict=True)])


def _tridiagonal(H: Floats) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """``H = Q T Q'``: diagonal and off-diagonal of T, and the Householder vectors and factors of Q."""
    k = len(H)
    # a symmetric matrix equals its transpose, which has the memory order that LAPACK wants
    vectors, diagonal, off_diagonal, factors, _ = lapack.dsytrd(H.T, lower=1, lwork=32 * k, overwrite_a=1)
    return diagonal, off_diagonal, (np.asfortranarray(vectors[1:, :-1]), factors)


def _rotate(Q: tuple[Floats, Floats], columns: Floats, trans: Literal["N", "T"]) -> Floats:
    """``Q @ columns`` (``trans="N"``) or ``Q.T @ columns`` (``"T"``); Q leaves the first coordinate alone."""
    vectors, factors = Q
    turned = np.empty(columns.shape, order="F")
    turned[0] = columns[0]
    turned[1:] = lapack.dormqr("L", trans, vectors, factors, columns[1:], lwork=32 * columns.shape[1])[0]
    return turned
