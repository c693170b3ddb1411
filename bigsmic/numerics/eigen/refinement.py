"""Refinement of approximate eigenvectors, for eigenvalues that crowd: filtered subspace iteration, in which all stay.

A block of Lanczos begins with a mixture of approximate vectors; where eigenvalues crowd, it takes thousands of products
to tell them apart again. Here, Chebyshev polynomials damp what is left of small eigenvalues in every vector, and the
Ritz vectors of all together are the next approximations ([1]_). Those that are eigenvectors are not filtered again.

References
----------
.. [1] Zhou, Saad, Tiago and Chelikowsky, "Self-consistent-field calculations using Chebyshev-filtered subspace
   iteration", Journal of Computational Physics 219, 2006. doi 10.1016/j.jcp.2006.03.017
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from bigsmic.numerics.eigen.bulk import LEAST_DISTANCE
from bigsmic.numerics.eigen.chebyshev import Filter, largest_odd
from bigsmic.numerics.eigen.lanczos_state import LanczosParams, LanczosState
from bigsmic.numerics.eigen.orthonormal import WELL_CONDITIONED, whiten
from bigsmic.numerics.eigen.space import Space
from bigsmic.types import Floats

NEAR = 0.05
"""Approximations are asked for once all wanted Ritz values are this near to 1, as they may crowd there. They show at
once whether values crowd; the Ritz values of Lanczos show it a thousand products later."""
ABOVE = 1.5e-3
"""They are asked for only if the largest value exceeds 1, as it may for matrices other than N, by no more than this.
The vectors of larger values are confined to few rows, and are not nearly constant on aggregates."""
SMOOTH = 0.02
"""Largest distance from 1 of the Ritz values of approximations up to which it takes less time to refine them."""
MORE = 1.25, 4
"""Number of vectors that are refined: this multiple of those that are wanted, and so many more."""
AMPLIFICATION, BEYOND = 100.0, 2.0
"""Value of a filter at the largest Ritz value; and where the interval of the filter of the largest degree ends, as a
multiple of the distance between the largest and the smallest Ritz value, counted from the largest one. Between this end
and the smallest Ritz value, the filter damps little, but approximations have hardly any components there. In case they
have, the distance between the two is halved with each further filter."""
FIRST_DEGREES, GROWTH = (5, 11, 25), 2.2
"""Degrees of the filters before the first Ritz vectors are taken, and factor by which the degree grows from pass to
pass afterwards. Low degrees smooth the approximations, which is what most of them need."""
DEGREES = 3, 401
"""Least and largest degree of a filter, both odd."""
PASSES = 20
"""Largest number of passes, each with filters for the Ritz values after the one before."""
SHARE = 4.0
"""Largest residual norm of an eigenvector, as a multiple of the distance between the largest and the smallest wanted
value, as long as products are left: along curves, values may be nearer to each other than the tolerance."""
KEPT = 0.5
"""Share of the largest residual norm that is allowed where a solve for more vectors follows. That solve keeps these
vectors as they are, and its own are orthogonal to them, so that it cannot add what they lack."""
ORTHONORMALISATIONS = 3
GRAM = Filter(degree=0)
"""The polynomial 1, whose moments are inner products of the columns themselves."""


class CoarseStart(Protocol):
    """Protocol of approximations of the eigenvectors after known ones."""

    def propose(self, k: int, largest: float) -> Floats | None:
        """Ritz values of k approximations, descending; None if there are none near enough, see :data:`SMOOTH`.

        The largest eigenvalue is about `largest`.
        """
        ...

    def append(self) -> None:
        """Append them to the basis, which holds known vectors only."""
        ...


def may_crowd(params: LanczosParams, state: LanczosState) -> bool:
    """Whether all wanted Ritz values are near 1, where Lanczos may take thousands of products to part them."""
    values = np.sort(np.concatenate([state.locked_values, state.filter.inverse(state.images)]))
    if state.width == 0 or len(values) < params.n_wanted:
        return False
    return bool(values[-params.n_wanted] >= 1.0 - NEAR and values[-1] <= 1.0 + ABOVE)


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
    largest = float(max(1.0, state.filter.inverse(state.images).max(initial=1.0), *state.locked_values))
    values = coarse.propose(math.ceil(MORE[0] * params.n_wanted) + MORE[1] - n_known, largest)
    if values is None:
        return None
    space.recall(np.zeros((space.n_columns - n_known, 0)), n_known)
    coarse.append()
    found = _Refined(values, np.full(len(values), np.inf), 0, state.n_matvecs)
    degrees: tuple[int, ...] = FIRST_DEGREES
    beyond, n_passes = BEYOND, 0
    while n_passes < PASSES:
        n_passes += 1
        filters = _filters(found.values, degrees, beyond)
        found = _pass(space, params, n_known, found, filters, bound)
        if n_known + found.n_good == params.n_wanted or found.n_matvecs >= params.matvec_limit:
            break
        degrees, is_last = (largest_odd(GROWTH * filters[-1].degree),), filters[-1].degree < degrees[-1]
        beyond = (1.0 + beyond) / 2 if is_last else beyond
    found = _sorted(space, n_known, found, bound)
    good, others = slice(found.n_good), slice(found.n_good, None)
    return replace(
        state,
        images=state.filter(found.values[others]),
        norms=found.norms[others],
        width=0,
        locked_values=np.append(state.locked_values[:n_known], found.values[good]),
        locked_norms=np.append(state.locked_norms[:n_known], found.norms[good]),
        n_propagated=n_known + found.n_good,
        n_turns=state.n_turns + 1,
        n_matvecs=found.n_matvecs,
        n_restarts=state.n_restarts + n_passes,
        asked_coarse=True,
    )


class _Refined(NamedTuple):
    """Approximations after a pass, in the order of their columns: eigenvectors, others that are wanted, the rest.

    Parameters
    ----------
    values, norms : ndarray of float64, shape (k,)
        Ritz values, each part of them descending, and residual norms; infinite where they are not known.
    n_good : int
        Eigenvectors.
    n_matvecs : int
        Products so far.
    """

    values: Floats
    norms: Floats
    n_good: int
    n_matvecs: int


def _pass(
    space: Space, params: LanczosParams, n_known: int, last: _Refined, filters: Sequence[Filter], bound: float
) -> _Refined:
    """Filter the columns that are no eigenvectors yet, take the Ritz vectors of all, and see which ones are.

    Nothing is locked: eigenvectors become more exact with the others, and none is left that a larger one replaces.
    """
    start, width = n_known + last.n_good, params.block_width
    for lo in range(start, space.n_columns, width):
        space.filter(filters, lo, min(width, space.n_columns - lo))
    _orthonormalise(space, n_known, width)
    values = _rotate_to_ritz_vectors(space, n_known, width)
    n_wanted = params.n_wanted - n_known
    norms = space.residual_norms(values[:n_wanted], n_known)
    distance = max(float(values[0]), 1.0) - values[n_wanted - 1]
    limit = max(min(bound, SHARE * distance) * (KEPT if params.pauses else 1.0), 16 * space.eps)
    n_products = len(values) + n_wanted + (space.n_columns - start) * sum(filter.degree for filter in filters)
    norms = np.append(norms, np.full(len(values) - n_wanted, np.inf))
    return _sorted(space, n_known, _Refined(values, norms, 0, last.n_matvecs + n_products), limit)


def _sorted(space: Space, n_known: int, found: _Refined, limit: float) -> _Refined:
    """Put those first whose residual norms are small enough: these are eigenvectors."""
    good = np.flatnonzero(found.norms <= limit)
    order = np.append(good, np.delete(np.arange(len(found.norms)), good))
    if len(good) and good[-1] >= len(good):
        space.rotate(np.eye(len(order))[:, order], n_known)
    return _Refined(found.values[order], found.norms[order], len(good), found.n_matvecs)


def _filters(values: Floats, degrees: Sequence[int], beyond: float) -> list[Filter]:
    """Filters of these degrees, all of which have the value `AMPLIFICATION` at the largest of the Ritz values.

    The higher the degree, the nearer to that value the interval [-1, edge] of a filter ends. It must not end nearer
    than at `beyond` times the distance of the smallest Ritz value: all degrees for which it would are replaced by the
    one for which it ends there.
    """
    top = max(float(values.max()), 1.0)
    nearest = top - beyond * min(max(top - float(values.min()), LEAST_DISTANCE), 0.25)
    last = min(max(largest_odd(math.acosh(AMPLIFICATION) / math.acosh(_image(top, nearest))), DEGREES[0]), DEGREES[1])
    few = [*(degree for degree in degrees if degree < last), last][: len(degrees)]
    found = []
    for degree in few:
        image = math.cosh(math.acosh(AMPLIFICATION) / degree)
        edge = nearest if degree == last else (2 * top + 1.0 - image) / (1.0 + image)
        found.append(Filter(degree, (edge - 1.0) / 2, (edge + 1.0) / 2))
    return found


def _image(value: float, edge: float) -> float:
    """Where the map from [-1, edge] to [-1, 1] takes a value."""
    return 1.0 + 2.0 * (value - edge) / (edge + 1.0)


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
