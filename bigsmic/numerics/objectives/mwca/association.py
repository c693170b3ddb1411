"""Association within clusters: its value, its gradient, and labels of rows from it."""

import numpy as np

from bigsmic.types import Floats, Integers

LEAST_MASS = 1e-12  # of all rows, the least divisor, for empty clusters
_LEAST_REST = 1e-6  # of the eigenvalue beyond 1, the least divisor: rounding can leave none of it


def memberships(logits: Floats) -> Floats:
    """Softmax over the last axis."""
    Z = np.exp(logits - logits.max(axis=-1, keepdims=True))
    Z /= Z.sum(axis=-1, keepdims=True)
    return Z


def association(Z: Floats, GZ: Floats) -> tuple[Floats, Floats]:
    """``N_i`` and ``L_i`` of every cluster.

    Parameters
    ----------
    Z, GZ : ndarray of float, shape (n, k)
        Memberships, and their products with G.

    Returns
    -------
    mass, within : ndarray of float64, shape (k,)
    """
    mass = Z.sum(axis=0, dtype=np.float64)
    return mass, np.einsum("nk,nk->k", Z, GZ, dtype=np.float64) / np.maximum(mass, LEAST_MASS * len(Z))


def pull(GZ: Floats, mass: Floats, within: Floats, n: int) -> Floats:
    """``dL/dz``, shape (b, k); 0 for a cluster without mass."""
    return (2 * GZ - within) / np.maximum(mass, LEAST_MASS * n)


def centred(Z: Floats, pulls: Floats) -> Floats:
    """Pulls minus their mean under the memberships of the row."""
    return pulls - np.einsum("...k,...k->...", Z, pulls)[..., None]


def gradient(Z: Floats, GZ: Floats) -> Floats:
    """``dL/dtheta`` of all rows, shape (n, k); [1]_ eq. 28 and 29."""
    mass, within = association(Z, GZ)
    return Z * centred(Z, pull(GZ, mass, within, len(Z)))


def direction(kind: str, Z: Floats, GZ: Floats, totals: Floats, n: int) -> Floats:
    """Direction of the logits' steps, times n: the gradient, or the centred pulls.

    The centred pulls are the gradient in the Fisher metric of the memberships. Unlike the gradient in the logits, they
    do not vanish where memberships are near 0 or 1; otherwise both vanish together.

    Parameters
    ----------
    kind : {"natural", "gradient"}
    Z, GZ : ndarray of float32, shape (b, k)
    totals : ndarray of float64, shape (2, k)
        Mass and association of the clusters over all rows.
    n : int
        Rows.
    """
    mass, within = totals
    D = centred(Z, (n * pull(GZ, mass, within, n)).astype(np.float32))
    return D if kind == "natural" else Z * D


def read_association(GZ: Floats, totals: Floats, n: int) -> tuple[Floats, Integers]:
    """Posteriors and labels of new rows from ``g_i(x) = sum_m z_im G(x, x_m)``.

    The posterior is that of the Parzen densities, ``p_i = g_i / sum_j g_j``. The label is the cluster to which the
    ascent would pull a row of these memberships, ``argmax_i (2 (g_i + p_i) - L_i) / N_i``: p is the product with the
    row's own ``G(x, x) = 1``, which fitted rows have in g, and every cluster in ``L_i``. Without it, a narrow kernel
    would send most new rows to the cluster of least ``L_i / N_i``, whether or not it reaches that.

    Parameters
    ----------
    GZ : ndarray of float, shape (b, k)
        For the posterior, rows may be scaled; the label needs g itself.
    totals : ndarray of float64, shape (2, k)
    n : int

    Returns
    -------
    posterior : ndarray of float32, shape (b, k)
        Uniform where the kernel is 0.
    labels : ndarray of int32, shape (b,)
    """
    total = GZ.sum(axis=1, keepdims=True)
    posterior = np.full(GZ.shape, 1 / GZ.shape[1])
    np.divide(GZ, total, out=posterior, where=total > 0)
    mass, within = totals
    pulls = pull(GZ + posterior, mass, within, n)
    pulls[:, mass < LEAST_MASS * n] = -np.inf
    return posterior.astype(np.float32), pulls.argmax(axis=1).astype(np.int32)


def extend_vector(images: Floats, value: float, own: Floats) -> Floats:
    """Entries of the leading eigenvector at new rows, ``v(x) = G(x, X) v / (lambda - 1)``.

    A new row has ``G(x, x) = 1`` with itself, too, so that ``lambda v(x) = G(x, X) v + v(x)``. Divided by lambda, its
    entry would lack its own share, which a fitted row has, and fewer new rows would be above the cut at the mean.

    Parameters
    ----------
    images : ndarray of float64, shape (b,)
        ``G(x, X) v``.
    value : float
        Eigenvalue, at least 1 but for rounding.
    own : ndarray of float, shape (b,)
        Entry of the fitted row that the new one is equal to; NaN where there is none.

    Returns
    -------
    v : ndarray of float64, shape (b,)
    """
    return np.where(np.isnan(own), images / max(value - 1, _LEAST_REST), own)


def read_vector(v: Floats, mean: float) -> tuple[Floats, Integers]:
    """Posteriors and labels of the two sides of the leading eigenvector, cut at its mean.

    The posterior of label 1 is ``v / (v + mean)``: 1/2 at the cut. Entries that rounding makes negative count as 0.

    Parameters
    ----------
    v : ndarray of float, shape (b,)
        Entries of the eigenvector, with the sign that makes its mean positive.
    mean : float

    Returns
    -------
    posterior : ndarray of float32, shape (b, 2)
    labels : ndarray of int32, shape (b,)
    """
    inside = np.maximum(v, 0) / (np.maximum(v, 0) + mean)
    return np.column_stack([1 - inside, inside]).astype(np.float32), (v > mean).astype(np.int32)
