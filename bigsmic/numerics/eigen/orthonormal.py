"""Orthonormalisation of a block against itself and a basis, by Gram matrices alone."""

from dataclasses import dataclass

import numpy as np

from bigsmic.numerics.eigen.space import Space
from bigsmic.numerics.products import self_product
from bigsmic.types import Floats

MAX_PASSES = 12
WELL_CONDITIONED = 0.1  # least eigenvalue of a Gram matrix for which one scaling gives orthonormality up to rounding


@dataclass(frozen=True)
class Tolerances:
    """Largest overlap that counts as orthogonal, and size of the rounding noise of a product."""

    eps: float
    overlap: float
    noise: float


def next_block(
    space: Space, moments: Floats, coupling: Floats, width: int, tolerances: Tolerances, n_draws: int
) -> tuple[Floats, Floats, Floats, int]:
    """Make W orthonormal, orthogonal to the basis and `width` columns wide.

    Return the overlap with V that was removed (k x w), Q and the coupling B: the new block is ``W Q``, and the initial
    W was ``V overlap + (W Q) B``. Rows of B are ordered by norm; those of random columns are zero.
    """
    k = space.n_columns
    column = np.zeros((k, coupling.shape[1]))
    n_random = int(np.count_nonzero(~coupling.any(axis=1)))
    for attempt in range(MAX_PASSES):
        S, gram = moments[:k], moments[k:]
        column = column + S @ coupling
        Q, inverse, smallest = whiten(gram - self_product(S), tolerances.eps)
        Q, coupling, strength = _by_strength(Q, inverse @ coupling)
        clean = smallest >= WELL_CONDITIONED and np.max(np.abs(S @ Q), initial=0.0) <= tolerances.overlap
        n_strong = int(np.count_nonzero(strength > tolerances.noise))
        n_kept = min(n_strong + n_random, len(coupling), width)
        if (clean or attempt) and n_kept < len(coupling):
            n_random, n_kept = max(0, width - n_strong), min(n_strong, width)
            Q[:, n_kept:] = 0  # they are given up, and divided by lengths near 0 they might overflow
            space.project(S, Q)
            moments = space.draw(n_kept, n_random, n_draws)
            coupling = np.vstack([coupling[:n_kept], np.zeros((n_random, coupling.shape[1]))])
            n_draws += 1
        elif clean:
            break
        else:
            moments = space.project(S, Q)
    return column, Q, coupling, n_draws


def whiten(gram: Floats, eps: float) -> tuple[Floats, Floats, float]:
    """Q with ``Q' gram Q = I`` as far as eps allows, its inverse, and the least eigenvalue at unit diagonal."""
    length = np.sqrt(np.maximum(np.diag(gram), 0.0))
    divisor = np.where(length > 0, length, 1.0)
    values, U = np.linalg.eigh(gram / np.outer(divisor, divisor))
    root = np.sqrt(np.maximum(values, 10 * eps))
    return U / root / divisor[:, None], root[:, None] * U.T * length, np.min(values, initial=1.0)


def _by_strength(Q: Floats, coupling: Floats) -> tuple[Floats, Floats, Floats]:
    X, strength, _ = np.linalg.svd(coupling)
    strength = np.concatenate([strength, np.zeros(len(X) - len(strength))])
    return Q @ X, X.T @ coupling, strength
