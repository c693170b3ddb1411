"""Posteriors and labels from rotated eigenvectors, for training rows and for new ones.

The kernel's top eigenvectors maximise the squared-loss mutual information [1]_; labels must still be derived from them.
`posterior_paper` does so as published, with a sign per column. `posterior_rotated` first rotates the basis, which does
not change the information under a uniform prior, so that its columns are nearly non-negative and nearly disjoint.
Functions named ``*_sums`` take one block of rows and return an array that adds up over blocks; the function that takes
the total describes it.

References
----------
.. [1] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss
   mutual information", Neural Computation 26 (2014). doi:10.1162/NECO_a_00534
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import qr, svd

from bigsmic.errors import InputError
from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.lanes import cut, load, plus, store, times, zeros
from bigsmic.numerics.row_blocks import tiles
from bigsmic.types import Floats, Integers
from bigsmic.validation import check_prior

LEAST_SQUARE = 1e-6
"""Least eigenvalue of ``A' A`` over the largest one for which the polar factor has ten digits without an SVD."""
MOMENTUM = 0.8
"""Share of the last change of a rotation that is added before the next step: none at first, then a half, and so on."""
EXTENDED_ROWS = 4096  # whose sums, of twice the size of their float32, are in memory at a time


class Assignment(NamedTuple):
    """Posteriors and labels of one block of rows.

    Parameters
    ----------
    posterior : ndarray of float32, shape (b, c)
        Rows sum to 1.
    has_mass : ndarray of bool, shape (b,)
        False if no column is positive: the posterior is uniform then, and the label is provisional, to be replaced by
        that of the nearest labelled neighbour.
    labels : ndarray of int32, shape (b,)
        Column of the row's largest value, the smallest among equals.
    """

    posterior: np.ndarray
    has_mass: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class AssignmentSummary:
    """Summary of `assignment_sums` over all rows.

    Parameters
    ----------
    counts : ndarray of int64, shape (c,)
        Rows per label.
    n_without_mass : int
        Rows whose posterior is uniform because no column is positive.
    share_off_argmax : float
        Share of rows whose label is not the argmax of their posterior.
    """

    counts: np.ndarray
    n_without_mass: int
    share_off_argmax: float

    @property
    def empty(self) -> Integers:
        """Labels that no row has, ascending."""
        return np.flatnonzero(self.counts == 0)


def rotation(
    sample: Floats, max_iterations: int = 300, tolerance: float = 1e-7, dtype: DTypeLike = np.float64
) -> Floats:
    """Find the rotation R for which the columns of ``V R`` are nearly non-negative and nearly disjoint.

    ``R <- polar(Z' [Z Q]+)``, Z the rows of V normalised, from the polar factor of the rows that a column-pivoted QR of
    ``Z'`` picks [1]_, until it converges. Q is R and :data:`MOMENTUM` of its last change, which takes a third of the
    steps that ``Q = R`` does, with which none of them lowers ``|[Z R]+|``.

    Parameters
    ----------
    sample : ndarray of float, shape (s, m)
        Rows of V; 500 to 1000 are enough. Zero rows are ignored; s < m and deficient rank are allowed.
    max_iterations : int
    tolerance : float
        The iteration ends when no entry of R changes by more.
    dtype : numpy dtype
        Precision of the products with the rows; float32 takes half of the time, and R has an error of about 1e-6.

    Returns
    -------
    R : ndarray of float64, shape (m, m), orthogonal

    References
    ----------
    .. [1] Damle, Minden, Ying, "Simple, direct and efficient multi-way spectral clustering", Information and
       Inference 8 (2019). doi:10.1093/imaiai/iay008
    """
    Z = _unit_rows(np.asarray(sample, dtype=np.float64))
    R = _polar(_pivot_rows(Z).T)
    Z = Z.astype(dtype, copy=False)
    previous = R
    for k in range(max_iterations):
        extrapolated = R + min(MOMENTUM, k / (k + 1)) * (R - previous)
        previous, R = R, _near_polar(_step(Z, extrapolated))
        if np.abs(R - previous).max() <= tolerance:
            break
    return _polar(R)


def _step(Z: Floats, R: Floats) -> Floats:
    """``Z' [Z R]+``, whose polar factor is the next R."""
    Y = Z @ R.astype(Z.dtype, copy=False)
    product: Floats = (Z.T @ np.maximum(Y, 0.0, out=Y)).astype(np.float64, copy=False)
    return product


def _unit_rows(V: Floats) -> Floats:
    norms = np.linalg.norm(V, axis=1)
    keep = norms > 0.0
    return V[keep] / norms[keep, None]


def _pivot_rows(Z: Floats) -> Floats:
    m = Z.shape[1]
    rows = np.zeros((m, m))
    if len(Z):
        picked = qr(Z.T, mode="r", pivoting=True)[1][:m]
        rows[: len(picked)] = Z[picked]
    return rows


def _polar(A: Floats) -> Floats:
    # scipy.linalg.polar returns the same factor, but also forms the other one, which is not needed here
    U, _, Vt = svd(A, check_finite=False)
    return U @ Vt


def _near_polar(A: Floats) -> Floats:
    """``A (A' A)^-1/2``, which takes a third of the time of a singular value decomposition.

    Squares of singular values lose half of the digits: where that leaves too few, the decomposition is computed.
    """
    squares, V = np.linalg.eigh(A.T @ A)
    if squares[0] <= LEAST_SQUARE * squares[-1]:
        return _polar(A)
    return (A @ (V / np.sqrt(squares))) @ V.T


def rotate(V: Floats, R: Floats) -> Floats:
    """``V R`` for one block of rows; each row has the same bits as if computed alone.

    Parameters
    ----------
    V : ndarray of float32, shape (b, m)
    R : ndarray of float, shape (m, m)

    Returns
    -------
    Y : ndarray of float32, shape (b, m)

    Notes
    -----
    BLAS is not used, as its order of summation depends on the number of rows, hence on the cut into blocks.
    """
    V, R = frozen(V, np.float32), np.asarray(R, np.float32)
    Y = np.empty((len(V), R.shape[1]), dtype=np.float32)
    for columns, lanes in cut(R.shape[1]):
        part = R[:, columns]
        factor = np.zeros((len(R), len(lanes)), np.float32)
        factor[:, : part.shape[1]] = part
        rotated = Y if len(lanes) == Y.shape[1] else np.empty((len(V), len(lanes)), np.float32)
        _rotate_rows(V, factor, rotated, lanes)
        if rotated is not Y:
            Y[:, columns] = rotated[:, : part.shape[1]]
    return Y


@compiled
def _rotate_rows(V: Any, R: Floats, Y: Floats, lanes: tuple[bool, ...]) -> None:
    """``Y = V R``, summed in the order of the columns of V; V is (b, m), R (m, lanes), Y (b, lanes).

    The sum stays in vector registers; the length of the tuple `lanes` gives their number to the compiler.
    """
    for i in range(V.shape[0]):
        total = zeros(R, lanes)
        for k in range(np.uint64(V.shape[1])):
            total = plus(total, times(load(R, k, total), V[i, k]))
        store(Y, i, total)


def posterior_rotated(V: Floats, R: Floats) -> Assignment:
    """Posterior ``[V R]+`` normalised per row; label = argmax of ``V R``.

    Parameters
    ----------
    V : ndarray of float32, shape (b, m)
        Rows of the eigenvectors.
    R : ndarray of float, shape (m, m)
        From `rotation`.

    Returns
    -------
    Assignment
        With m columns.
    """
    Y = rotate(V, R)
    labels = np.argmax(Y, axis=1).astype(np.int32)
    has_mass = normalise(np.maximum(Y, 0.0, out=Y))
    return Assignment(Y, has_mass, labels)


def labels_rotated(V: Floats, R: Floats) -> Integers:
    """Labels of :func:`posterior_rotated` alone, -1 in rows without mass: int32, shape (b,)."""
    Y = rotate(V, R)
    labels = np.argmax(Y, axis=1)
    return np.where(Y[np.arange(len(Y)), labels] > 0.0, labels, -1).astype(np.int32)


def normalise(P: Floats) -> NDArray[np.bool_]:
    """Divide the rows of P by their sums, in place.

    Parameters
    ----------
    P : ndarray of float, shape (b, c)
        Not negative. Rows whose sum is zero become uniform.

    Returns
    -------
    has_mass : ndarray of bool, shape (b,)
        Which rows have a positive sum.
    """
    total = P.sum(axis=1, keepdims=True)
    has_mass = total > 0.0
    P /= np.where(has_mass, total, 1.0)  # several times faster than a division under a mask
    P[~has_mass[:, 0]] = 1.0 / P.shape[1]
    return has_mass[:, 0]


def column_sums(V: Floats) -> Floats:
    """Add up the positive and the negative parts of each column, over one block of rows.

    Parameters
    ----------
    V : ndarray of float, shape (b, c)

    Returns
    -------
    sums : ndarray of float64, shape (2, c)
        ``sum_i [v_iy]+`` and ``sum_i [-v_iy]+``; add them over blocks for `orient`.
    """
    V = np.asarray(V, dtype=np.float64)
    return np.stack([np.maximum(V, 0.0).sum(axis=0), np.maximum(-V, 0.0).sum(axis=0)])


def orient(sums: Floats) -> tuple[Floats, Floats]:
    """Sign of each column's sum, and the sum of the positive part after that sign.

    Parameters
    ----------
    sums : ndarray of float64, shape (2, c)
        Total of `column_sums`.

    Returns
    -------
    signs : ndarray of float64, shape (c,)
        ``sign(phi_y' 1)``, with sign(0) = 1.
    positive_sums : ndarray of float64, shape (c,)
        ``sum_j [phi~_y]+_j``.
    """
    positive, negative = sums
    return np.where(positive >= negative, 1.0, -1.0), np.maximum(positive, negative)


def posterior_paper(V: Floats, signs: Floats, positive_sums: Floats, prior: Floats | None = None) -> Assignment:
    """Posterior as published: ``p(y|x_i) ~ pi_y [phi~_y]+_i / sum_j [phi~_y]+_j``; label = argmax.

    The class of the smallest prior takes the eigenvector of the largest eigenvalue, and so on; columns come
    back in the order of `prior`.

    Parameters
    ----------
    V : ndarray of float, shape (b, c)
        Rows of the eigenvectors, largest eigenvalue first; or, for new rows, of their extension.
    signs, positive_sums : ndarray of float64, shape (c,)
        From `orient`, over the training rows.
    prior : array_like of float, shape (c,), optional
        Positive, sum 1; uniform by default.

    Returns
    -------
    Assignment

    Raises
    ------
    InputError
        If `prior` is not c positive numbers of sum 1.
    """
    prior = check_prior(prior, V.shape[1])
    classes = np.argsort(prior, kind="stable")
    scale = np.divide(signs, positive_sums, out=np.zeros(V.shape[1]), where=positive_sums > 0.0)
    P = np.empty(V.shape)
    P[:, classes] = np.maximum(V * (scale * prior[classes]), 0.0)
    labels = np.argmax(P, axis=1).astype(np.int32)
    has_mass = normalise(P)
    return Assignment(P.astype(np.float32), has_mass, labels)


def assignment_sums(labels: Integers, posterior: Floats, has_mass: NDArray[np.bool_]) -> Integers:
    """Count the rows of one block for `summarise`: per label, without mass, off the argmax.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
        Final labels, which moves or neighbours may have changed.
    posterior : ndarray of float32, shape (b, c)
    has_mass : ndarray of bool, shape (b,)

    Returns
    -------
    sums : ndarray of int64, shape (c + 2,)
    """
    off = np.count_nonzero(labels != np.argmax(posterior, axis=1))
    counts = np.bincount(labels, minlength=posterior.shape[1])
    return np.concatenate([counts, [np.count_nonzero(~has_mass), off]]).astype(np.int64)


def summarise(sums: Integers) -> AssignmentSummary:
    """Summary from the total of `assignment_sums`.

    Parameters
    ----------
    sums : ndarray of int64, shape (c + 2,)

    Returns
    -------
    AssignmentSummary
    """
    counts = sums[:-2]
    return AssignmentSummary(counts, int(sums[-2]), float(sums[-1] / max(1, counts.sum())))


def extend(
    weights: Floats,
    indices: Integers,
    V: Floats,
    eigenvalues: Floats,
    degrees: Floats | None = None,
    own_degrees: Floats | None = None,
) -> Floats:
    """Eigenvectors at new rows: ``v(x) = K(x, X) V Lambda^-1``.

    With `degrees`, K is normalised first: ``N(x, x_i) = K(x, x_i) / sqrt(d(x) d_i)``.

    Parameters
    ----------
    weights : ndarray of float32, shape (b, k)
        K between each new row and its k candidates; zero where the two are not neighbours.
    indices : ndarray of int, shape (b, k)
        Rows of `V` of the candidates; read only if the weight is positive.
    V : ndarray of float32, shape (u, m)
        Eigenvectors at the training rows, at all of them or at those that `indices` refers to.
    eigenvalues : ndarray of float64, shape (m,)
        Positive.
    degrees : ndarray of float, shape (u,), optional
        Degrees of the training rows, for the normalised kernel.
    own_degrees : ndarray of float, shape (b,), optional
        Degrees of the new rows; the sums of their weights by default.

    Returns
    -------
    extension : ndarray of float32, shape (b, m)
        Zero in rows without weight. A row depends, to the last bit, only on its own weights and indices.

    Raises
    ------
    InputError
        If an eigenvalue is not positive.
    """
    eigenvalues = np.asarray(eigenvalues, dtype=np.float64)
    if not np.all(eigenvalues > 0.0):
        raise InputError(
            f"extend: the smallest eigenvalue is {eigenvalues.min():.3g}, but must be positive; ask for fewer vectors"
        )
    weights = np.asarray(weights, dtype=np.float64)
    if degrees is not None:
        own = weights.sum(axis=1) if own_degrees is None else own_degrees
        weights = _normalise_weights(weights, indices, np.asarray(degrees, dtype=np.float64), own)
    indices, V = frozen(indices, np.int64), frozen(V, np.float32)
    extension = np.empty((len(weights), V.shape[1]), np.float32)
    for rows in tiles(len(weights), EXTENDED_ROWS):
        sums = np.empty((rows.stop - rows.start, V.shape[1]))
        _weighted_rows(weights[rows], indices[rows], V, sums)
        extension[rows] = np.divide(sums, eigenvalues, out=sums)
    return extension


def _normalise_weights(weights: Floats, indices: Integers, degrees: Floats, own: Floats) -> Floats:
    used = weights > 0.0
    scale = own[:, None] * degrees[np.where(used, indices, 0)]
    return np.divide(weights, np.sqrt(scale), out=np.zeros_like(weights), where=used & (scale > 0.0))


@compiled
def _weighted_rows(weights: Floats, indices: Any, V: Any, out: Floats) -> None:
    """``out[i] = sum_k weights[i, k] V[indices[i, k]]`` over positive weights; weights (b, k), V (n, m), out (b, m)."""
    for i in range(weights.shape[0]):
        row = out[i]
        row[:] = 0.0
        for k in range(weights.shape[1]):
            w = weights[i, k]
            if w > 0.0:
                v = V[indices[i, k]]
                for y in range(V.shape[1]):
                    row[y] += w * v[y]
