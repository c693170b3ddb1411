"""Numbers of eigenvalues near 1, estimated from traces of Chebyshev polynomials, without eigenvectors.

If K is symmetric with eigenvalues ``x = cos(angle)`` in [-1, 1], the number of those within an angle a of 1 is

    N(a) = tr f(K),    f(cos(angle)) = 1 if angle < a else 0 = a/pi + sum_j 2 sin(j a) / (j pi) T_j(cos(angle))

The series is cut at a degree, damped by Jackson's factors, so that it does not oscillate ([1]_), and each trace is the
mean of ``v'T_j(K)v`` over random vectors of signs ([2]_). One product gives the traces of two degrees, as
``T_2j = 2 T_j^2 - 1``.

References
----------
.. [1] Weisse, Wellein, Alvermann and Fehske, "The kernel polynomial method", Reviews of Modern Physics 78, 2006.
   doi 10.1103/RevModPhys.78.275
.. [2] Di Napoli, Polizzi and Saad, "Efficient estimation of eigenvalue counts in an interval", Numerical Linear Algebra
   with Applications 23, 2016. doi 10.1002/nla.2048
"""

import numpy as np
from numpy.typing import ArrayLike

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.basis import Basis
from bigsmic.numerics.eigen.block_vectors import Product
from bigsmic.numerics.eigen.spare_vectors import spare_vectors
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.types import Floats

N_PRODUCTS = 80
N_VECTORS = 8
FIRST, NEXT = (1.0, 0.0, 0.0), (2.0, 0.0, 1.0)
"""Factors of the recurrence: ``T_1 = K T_0``, ``T_j+1 = 2 K T_j - T_j-1``."""


class SignVectors:
    """Random vectors of signs, multiplied by Chebyshev polynomials of K of rising degree: the rows of one shard.

    Parameters
    ----------
    shard : Shard
    product : Product
        K.
    seed : int
        Of the signs, which are hashed from the positions of rows.
    spare : Basis, optional
        Storage for the vectors of the degree before, by default memory.
    """

    def __init__(self, shard: Shard, product: Product, seed: int, spare: Basis | None = None) -> None:
        self.shard, self.product, self.seed, self.spare = shard, product, seed, spare
        self._older = spare_vectors(shard, N_VECTORS, np.float32, spare)
        self._newer = np.empty((0, N_VECTORS), np.float32)

    def close(self) -> None:
        """Delete what is on disk."""
        if self.spare:
            self.spare.close()

    def draw(self) -> None:
        """Begin with degree 0: the signs."""
        self._newer = np.empty((self.shard.n_rows, N_VECTORS), np.float32)

        def task(p: int) -> None:
            older = self._older.room(p)
            older[...] = 0
            self._older.write(p, older)
            for j in range(N_VECTORS):
                uniform = row_uniform(self.seed, f"eigenvalue counts {j}", self.shard.positions(p))
                self._newer[self.shard.rows(p), j] = np.where(uniform < 0.5, -1, 1)

        self.shard.for_each_block(task)

    def rise(self, factors: tuple[float, float, float]) -> Floats:
        """Multiply once more; return the inner products of the new vectors with the last ones, and with themselves.

        Parameters
        ----------
        factors : tuple of float
            `FIRST`, or `NEXT`.

        Returns
        -------
        products : ndarray of float64, shape (2,)
            Sums over vectors and rows.
        """
        operand = self.product.operand(self._newer)

        def task(p: int) -> Floats:
            rows = self.shard.rows(p)
            newer, older = self._newer[rows], self._older.read(p)
            self.product.multiply(p, factors, operand, older, older)
            self._older.write(p, older)
            return np.array([np.einsum("ij,ij->", older, other, dtype=np.float64) for other in (newer, older)])

        products: Floats = self.shard.sum_over_blocks(task)
        self._newer = self._older.exchanged(self._newer)
        return products


def traces(group: Group, n_rows: int) -> Floats:
    """Estimated traces of ``T_0(K)`` to ``T_2N(K)``, N = `N_PRODUCTS`.

    Parameters
    ----------
    group : Group
        Actors are :class:`SignVectors`.
    n_rows : int

    Returns
    -------
    traces : ndarray of float64, shape (2 N_PRODUCTS + 1,)
    """
    found = np.zeros(2 * N_PRODUCTS + 1)
    found[0] = n_rows
    group.call(("draw",))
    for j in range(1, N_PRODUCTS + 1):
        with_last, squares = group.call_sum(("rise", FIRST if j == 1 else NEXT)) / N_VECTORS
        found[2 * j - 1] = with_last if j == 1 else 2 * with_last - found[1]
        found[2 * j] = 2 * squares - found[0]
    return found


def counts(traces: Floats, angles: ArrayLike) -> Floats:
    """Estimated numbers N(a) of eigenvalues above ``cos(a)``.

    Parameters
    ----------
    traces : ndarray of float64, shape (m + 1,)
        Of ``T_0(K)`` to ``T_m(K)``, see :func:`traces`.
    angles : array_like of float
        a in radians, in (0, pi); those below ``pi / m`` are not resolved.

    Returns
    -------
    counts : ndarray of float64, one per angle

    Raises
    ------
    InputError
        An angle is outside (0, pi).

    Notes
    -----
    With s vectors, the variance is at most ``2 N(a) / s``.
    """
    a = np.asarray(angles, dtype=np.float64)[:, None]
    if not ((a > 0) & (a < np.pi)).all():
        raise InputError(f"angles: got {a[:, 0].tolist()}; give angles between 0 and pi")
    j, step = np.arange(1, len(traces)), np.pi / (len(traces) + 1)
    share = 1 - j / (len(traces) + 1)
    damping = share * np.cos(j * step) + np.sin(j * step) / (np.tan(step) * (len(traces) + 1))
    series = 2 * np.sin(j * a) / (j * np.pi)
    found: Floats = a[:, 0] / np.pi * traces[0] + (series * damping) @ traces[1:]
    return found
