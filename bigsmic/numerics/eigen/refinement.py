"""Refinement of approximate eigenvectors, for eigenvalues that crowd: filtered subspace iteration, in which all stay.

A block of Lanczos begins with a mixture of approximate vectors; where eigenvalues crowd, it takes thousands of products
to tell them apart again. Here, a Chebyshev polynomial damps what is left of small eigenvalues in every vector, and the
Ritz vectors of all together are the next approximations ([1]_). Those that are eigenvectors are locked.

References
----------
.. [1] Zhou, Saad, Tiago and Chelikowsky, "Self-consistent-field calculations using Chebyshev-filtered subspace
   iteration", Journal of Computational Physics 219, 2006. doi 10.1016/j.jcp.2006.03.017
"""

import math
from dataclasses import replace
from typing import Protocol

import numpy as np

from bigsmic.numerics.eigen.bulk import LEAST_DISTANCE
from bigsmic.numerics.eigen.chebyshev import Filter
from bigsmic.numerics.eigen.lanczos_state import LanczosParams, LanczosState
from bigsmic.numerics.eigen.orthonormal import WELL_CONDITIONED, whiten
from bigsmic.numerics.eigen.space import Space
from bigsmic.types import Floats

CROWDED = 5e-3
"""Distance from 1 within which all wanted values crowd: as on the graph of many rows in a plane, or along curves."""
ABOVE = 5e-4
"""Distance above 1 of the largest value, for matrices other than N, up to which the same holds; below the shift of the
inverse iterations of coarse starts."""
SMOOTH = 0.02
"""Largest distance from 1 of the Ritz values of approximations from which their refinement is the shorter way."""
MORE = 1.25, 4
"""Vectors that are refined, as many times as are wanted, and how many more."""
AMPLIFICATION, BEYOND = 100.0, 2.0
"""Amplification of the eigenvalue 1 by a filter, and where its interval ends: distance from 1, in those of the smallest
of the values. Vectors between are damped little, but approximations have hardly any of them."""
DEGREES = 3, 401
"""Least and largest degree of a filter, both odd."""
PASSES = 20
"""Largest number of filters, each for the Ritz values after the one before."""
ORTHONORMALISATIONS = 3
GRAM = Filter(degree=0)
"""The polynomial 1, whose moments are inner products of the columns themselves."""


class CoarseStart(Protocol):
    """Protocol of approximations of the eigenvectors after known ones."""

    def propose(self, k: int) -> Floats | None:
        """Ritz values of k approximations, descending; None if there are none near enough, see :data:`SMOOTH`."""
        ...

    def append(self) -> None:
        """Append them to the basis, which holds known vectors only."""
        ...


def is_crowded(params: LanczosParams, state: LanczosState) -> bool:
    """Whether all wanted Ritz values are so near to 1 that Lanczos would take thousands of products to part them."""
    values = np.sort(np.concatenate([state.locked_values, state.filter.inverse(state.images)]))
    if state.width == 0 or len(values) < params.n_wanted:
        return False
    return bool(values[-params.n_wanted] >= 1.0 - CROWDED and values[-1] <= 1.0 + ABOVE)


def refine(
    space: Space, params: LanczosParams, state: LanczosState, coarse: CoarseStart, bound: float
) -> LanczosState | None:
    """Start again from approximations, and refine them until the wanted ones are eigenvectors.

    Parameters
    ----------
    space : Space
    params : LanczosParams
    state : LanczosState
        At a restart.
    coarse : CoarseStart
    bound : float
        Residual norm from which on a vector is an eigenvector.

    Returns
    -------
    state : LanczosState or None
        Its locked columns are known and refined vectors, the others Ritz vectors of the last pass, which may exceed the
        limit on products, and there is no next block. The filter is as it was, for solves of similar matrices. None,
        with the basis as it was, if there are no approximations.
    """
    n_known = state.n_known
    n_left = params.n_wanted - n_known
    values = coarse.propose(math.ceil(MORE[0] * n_left) + MORE[1])
    if values is None:
        return None
    space.recall(np.zeros((space.n_columns - n_known, 0)), n_known)
    coarse.append()
    state = replace(
        state,
        images=np.zeros(0),
        norms=np.zeros(0),
        width=0,
        locked_values=state.locked_values[:n_known],
        locked_norms=state.locked_norms[:n_known],
        n_turns=state.n_turns + 1,
        asked_coarse=True,
    )
    for _ in range(PASSES):
        if state.n_locked >= params.n_wanted or state.n_matvecs >= params.matvec_limit:
            break
        state, values = _pass(space, params, state, values, bound)
    return state


def _pass(
    space: Space, params: LanczosParams, state: LanczosState, values: Floats, bound: float
) -> tuple[LanczosState, Floats]:
    """Filter the unlocked columns, take their Ritz vectors, and lock the leading ones that are eigenvectors.

    Return the state, and the Ritz values of the columns that are left.
    """
    start, width = state.n_locked, params.block_width
    filter = _filter(float(values[-1]))
    for lo in range(start, space.n_columns, width):
        space.take(lo, min(width, space.n_columns - lo))
        space.apply(filter)
        space.put(lo)
    _orthonormalise(space, start, width)
    values = _rotate_to_ritz_vectors(space, start, width)
    n_left = params.n_wanted - start
    norms = space.residual_norms(values[:n_left], start)
    passed = norms <= bound
    n_new = len(passed) if passed.all() else int(np.argmin(passed))
    found = replace(
        state,
        images=state.filter(values[n_new:]),
        norms=np.append(norms[n_new:], np.full(len(values) - n_left, np.inf)),
        locked_values=np.append(state.locked_values, values[:n_new]),
        locked_norms=np.append(state.locked_norms, norms[:n_new]),
        n_propagated=start + n_new,
        n_matvecs=state.n_matvecs + (space.n_columns - start) * (filter.degree + 1) + n_left,
        n_restarts=state.n_restarts + 1,
    )
    return found, values[n_new:]


def _filter(least: float) -> Filter:
    """Filter that amplifies 1, and whose interval begins beyond the least of the values."""
    edge = 1.0 - BEYOND * min(max(1.0 - least, LEAST_DISTANCE), 0.25)
    half_width = (edge + 1.0) / 2
    degree = math.acosh(AMPLIFICATION) / math.acosh((1.0 - edge) / half_width + 1.0)
    degree = max(2 * int((min(degree, DEGREES[1]) - 1) / 2) + 1, DEGREES[0])
    return Filter(degree, edge - half_width, half_width)


def _orthonormalise(space: Space, start: int, width: int) -> None:
    """Make the columns from `start` on orthonormal, and orthogonal to those before."""
    for _ in range(ORTHONORMALISATIONS):
        moments = _inner_products(space, GRAM, start, width)
        S, gram = moments[:start], moments[start:]
        Q, _, smallest = whiten(gram - S.T @ S, space.eps)
        M = np.zeros((space.n_columns, space.n_columns))
        np.fill_diagonal(M[:start, :start], 1.0)
        M[:start, start:], M[start:, start:] = -S @ Q, Q
        space.rotate(M, 0)
        if smallest >= WELL_CONDITIONED and np.max(np.abs(S @ Q), initial=0.0) <= 4 * space.eps:
            return


def _rotate_to_ritz_vectors(space: Space, start: int, width: int) -> Floats:
    """Replace the columns from `start` on by Ritz vectors, and return their values, descending."""
    T = _inner_products(space, Filter(), start, width)[start:]
    values, Y = np.linalg.eigh((T + T.T) / 2)
    space.rotate(np.ascontiguousarray(Y[:, ::-1]), start)
    return values[::-1]


def _inner_products(space: Space, filter: Filter, start: int, width: int) -> Floats:
    """``V' p(K) V[:, start:]``, float64, shape (n_columns, n_columns - start)."""
    parts = []
    for lo in range(start, space.n_columns, width):
        space.take(lo, min(width, space.n_columns - lo))
        parts.append(space.apply(filter)[: space.n_columns])
    return np.concatenate(parts, axis=1)
