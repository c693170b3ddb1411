"""Thick-restart block Lanczos: the largest eigenpairs of a symmetric operator.

With V the orthonormal basis (n x k, last block of b columns), p a polynomial and T = V'p(K)V, every step keeps

    p(K) V = V T + U B E'       U orthonormal (n x b), V'U = 0, E' = the last b rows of the identity

so that a Ritz pair (p(theta), V s) of p(K) has the residual norm ``|B E' s|``, which is computed without any vector of
length n. U becomes the next block. At full length the basis is rotated to its best Ritz vectors and grows again ([1]_).
Ritz vectors that seem converged are checked by a product with K itself, then locked: they stay in the basis for
orthogonalisation but are not rotated any more, and their true residuals are reported.

p is the identity until the Ritz values show the unwanted part of the spectrum, then a Chebyshev polynomial that is
small there ([4]_): a step of degree 5 advances as far as five without, but orthogonalises once, over a shorter basis
that is read twice instead of ten times.

Where all wanted values may crowd below 1, the solve starts again from eigenvectors of a smaller matrix
(:mod:`~bigsmic.numerics.eigen.refinement`).

Vectors of closely spaced values after a clear gap need not converge (:mod:`~bigsmic.numerics.eigen.bulk`).

Blocks are orthonormalised by Gram matrices alone ([2]_, [3]_): one pass over the basis computes V'W and W'W; the next
one subtracts, scales and computes them again, and the result decides whether a third pass is needed. All small algebra
is float64. Directions lost to rank deficiency are replaced by hashed random ones.

:class:`~bigsmic.numerics.eigen.space.Space` gives access to the rows of K and V, wherever they are stored.

References
----------
.. [1] Wu and Simon, "Thick-restart Lanczos method for large symmetric eigenvalue problems", SIAM J. Matrix Anal.
   Appl. 22, 2000. doi 10.1137/S0895479898334605
.. [2] Stathopoulos and Wu, "A block orthogonalization procedure with constant synchronization requirements",
   SIAM J. Sci. Comput. 23, 2002. doi 10.1137/S1064827500370883
.. [3] Yamamoto, Nakatsukasa, Yanagisawa and Fukaya, "Roundoff error analysis of the CholeskyQR2 algorithm",
   ETNA 44, 2015.
.. [4] Li, Xi, Vecharynski, Yang and Saad, "A thick-restart Lanczos algorithm with polynomial filtering for
   Hermitian eigenvalue problems", SIAM J. Sci. Comput. 38, 2016. doi 10.1137/15M1054493
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import ConvergenceWarning, InputError
from bigsmic.numerics.eigen.bulk import Spectrum
from bigsmic.numerics.eigen.chebyshev import Filter, largest_odd
from bigsmic.numerics.eigen.convergence import (
    are_wanted,
    count_missing,
    count_parts,
    ends_in_bulk,
    hides_copies,
    is_finished,
    residual_bound,
)
from bigsmic.numerics.eigen.lanczos_state import LanczosParams, LanczosResult, LanczosState
from bigsmic.numerics.eigen.orthonormal import Tolerances, next_block
from bigsmic.numerics.eigen.refinement import CoarseStart, may_crowd, refine
from bigsmic.numerics.eigen.space import Space
from bigsmic.numerics.hashing import generator
from bigsmic.types import Floats, Integers
from bigsmic.warning import warn

GROWTH = 4  # factor in the degree that justifies a new filter, as this discards the basis
PATIENCE, MOST = 10, 1e4
"""Restarts without a filter after which one of the least degree that is worth it is used, even if it amplifies the
largest eigenvalue by more than was asked for, but no more than by `MOST`: where the largest eigenvalues are far from
the others, nearly all time goes into orthogonalisation."""
LONG, LONG_DEGREE, LONG_GROWTH = 20, 3, 2
"""Restarts after which a solve is a long one, factor of its largest degree from then on, and factor that justifies a
new filter. Where wanted values crowd below 1, as on the graph of rows in a plane, those beyond them do, too: the edge
that the first Ritz values show is far too low."""
NOTHING = Spectrum(np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class _Expansion:
    """A basis at full length: T of its unlocked columns, the next block ``W Q``, its coupling B to the last one."""

    T: np.ndarray
    Q: np.ndarray
    coupling: np.ndarray
    n_matvecs: int
    n_draws: int


def solve(  # noqa: PLR0913
    space: Space,
    params: LanczosParams,
    *,
    known: Spectrum = NOTHING,
    warm_filter: Filter | None = None,
    state: LanczosState | None = None,
    coarse: CoarseStart | None = None,
    on_restart: Callable[[LanczosState], None] | None = None,
) -> LanczosResult:
    """Compute the largest eigenpairs; the vectors are left in the first columns of the basis.

    A solve that pauses keeps behind these what one for more of them needs to go on: ``result.further``.

    Parameters
    ----------
    space : Space
        With room for ``params.size(n)`` columns. Columns that it already holds are, first, the eigenvectors that are
        `known`; the others are approximate eigenvectors for a warm start.
    params : LanczosParams
    known : Spectrum
        The largest eigenvalues, where their orthonormal eigenvectors are known beforehand, exactly or from a solve for
        fewer; norms are the residuals of the vectors. They stay the first columns, bit for bit.
    warm_filter : Filter, optional
        The filter of the solve that gave the approximate eigenvectors.
    state : LanczosState, optional
        State to resume from; the space holds the basis that belonged to it when `on_restart` was called, or when the
        solve paused.
    coarse : CoarseStart, optional
        Asked for approximate eigenvectors once, if wanted Ritz values come near 1, the largest eigenvalue.
    on_restart : callable, optional
        Called with the state after every restart, for logs and checkpoints.

    Returns
    -------
    result : LanczosResult

    Raises
    ------
    InputError
        If more pairs are wanted than there are rows.

    Warns
    -----
    ConvergenceWarning
        If the limit on products is reached first.
    """
    if params.n_wanted > space.n_rows:
        raise InputError(
            f"lanczos: got n_wanted={params.n_wanted} eigenpairs of a matrix with {space.n_rows} rows; ask for at "
            f"most {space.n_rows}"
        )
    if state is None:
        state = begin(space, params, known, warm_filter)
    while state.goes_on:
        state = step(space, params, state)
        if coarse is not None and state.goes_on and not state.asked_coarse and may_crowd(params, state):
            state = _start_refined(space, params, state, coarse)
        if on_restart is not None and state.goes_on:
            on_restart(state)
    return _finish(space, params, state)


def begin(
    space: Any,
    params: LanczosParams,
    known: Spectrum = NOTHING,
    warm_filter: Filter | None = None,
) -> LanczosState:
    """Initial state: a basis of the known eigenvectors and a first block, random or mixed from a warm start.

    If enough eigenvectors are known there is no first block: ``width == 0``, as at the end.
    """
    n_known, n_warm = len(known.values), space.n_columns - len(known.values)
    state = LanczosState(
        images=np.zeros(0),
        norms=np.zeros(0),
        width=0,
        locked_values=known.values,
        locked_norms=known.norms,
        n_known=n_known,
        n_propagated=n_known,
        scale=float(np.max(np.abs(known.values), initial=0.0)),
    )
    if n_known >= params.n_wanted:
        return state
    if n_warm == 0:
        return _start_randomly(space, params, state)
    if warm_filter is not None:
        state = replace(state, low=warm_filter.center - warm_filter.half_width)
    return _start_mixed(space, params, state, warm_filter or Filter())


def step(space: Any, params: LanczosParams, state: LanczosState) -> LanczosState:
    """Do one cycle: expand the basis to its full length, lock converged pairs, append the next first block.

    Returns
    -------
    state : LanczosState
        With ``width == 0`` and no next block if the solve is finished, unless it pauses.
    """
    expansion = _expand(space, params, state)
    state = _lock(space, params, state, expansion)
    n_parts = count_parts(space, params, state)
    if ends_in_bulk(space, params, state, n_parts):
        return state
    if is_finished(space, params, state):
        return _paused(space, params, state, expansion) if params.pauses else state
    if (n_parts or count_missing(params, state, space.eps) == 0) and hides_copies(space, params, state, n_parts):
        return _start_randomly(space, params, replace(state, n_starts=state.n_starts + 1))
    better = _better_filter(params, state, space.eps)
    if better is not None:
        return _start_mixed(space, params, state, better)
    space.append(expansion.Q)
    return replace(state, width=expansion.Q.shape[1])


def _paused(space: Space, params: LanczosParams, state: LanczosState, expansion: _Expansion) -> LanczosState:
    """Append the next block, with which a solve for more goes on; not if a pair is missing, or no block is left."""
    if count_missing(params, state, space.eps) > 0 or expansion.Q.shape[1] == 0:
        return state
    space.append(expansion.Q)
    return replace(state, width=expansion.Q.shape[1], is_paused=True)


def _start_randomly(space: Space, params: LanczosParams, state: LanczosState) -> LanczosState:
    """Continue from the locked columns and a random block."""
    space.recall(np.zeros((space.n_columns - state.n_locked, 0)), state.n_locked)
    moments = space.draw(0, min(params.block_width, space.n_rows - state.n_locked), state.n_draws)
    state = replace(state, n_propagated=state.n_locked, n_draws=state.n_draws + 1)
    return _start_from(space, params, state, moments)


def _start_mixed(space: Any, params: LanczosParams, state: LanczosState, new_filter: Filter) -> LanczosState:
    """Continue with another filter, from the locked columns and a random mixture of the others."""
    n_mixed = space.n_columns - state.n_locked
    width = min(params.block_width, space.n_rows - state.n_locked)
    mixture = generator(state.n_draws, "lanczos mixture").standard_normal((n_mixed, width))
    moments = space.recall(mixture, state.n_locked)
    return _start_from(space, params, replace(state, filter=new_filter, n_draws=state.n_draws + 1), moments)


def _start_refined(space: Space, params: LanczosParams, state: LanczosState, coarse: CoarseStart) -> LanczosState:
    """Start again from approximate eigenvectors, refined; those that are none yet are mixed, if products are left."""
    refined = refine(space, params, state, coarse, residual_bound(params, state, space.eps))
    if refined is None:
        return replace(state, asked_coarse=True)
    if refined.n_locked == params.n_wanted:
        space.recall(np.zeros((space.n_columns - refined.n_locked, 0)), refined.n_locked)
        return replace(refined, images=np.zeros(0), norms=np.zeros(0))
    if refined.n_matvecs >= params.matvec_limit:
        return refined
    return _start_mixed(space, params, refined, refined.filter)


def _start_from(space: Space, params: LanczosParams, state: LanczosState, moments: Any) -> LanczosState:
    """Orthonormalise W and append it as a first block without coupling."""
    width = moments.shape[1]
    tolerances = _tolerances(space, params, 0.0)
    _, Q, _, n_draws = next_block(space, moments, np.zeros((width, 1)), width, tolerances, state.n_draws)
    space.append(Q)
    return replace(state, images=np.zeros(0), norms=np.zeros(0), width=width, n_draws=n_draws)


def _expand(space: Space, params: LanczosParams, state: LanczosState) -> _Expansion:
    """Grow the basis block by block to its full length; every entry of T = ``V'p(K)V`` is computed from products."""
    n_locked, dimension = state.n_locked, params.size(space.n_rows)
    T = np.zeros((dimension, dimension))
    np.fill_diagonal(T[: len(state.images), : len(state.images)], state.images)
    n_matvecs, n_draws, scale = state.n_matvecs, state.n_draws, np.max(np.abs(state.images), initial=0.0)
    while True:
        moments = space.apply(state.filter)
        k, w = space.n_columns, moments.shape[1]
        n_matvecs += w * state.filter.degree
        scale = max(scale, np.sqrt(np.max(np.diag(moments[k:]))))
        width = min(params.block_width, space.n_rows - k)
        tolerances = _tolerances(space, params, scale)
        column, Q, coupling, n_draws = next_block(space, moments, np.eye(w), width, tolerances, n_draws)
        _set_columns(T, column[n_locked:])
        exhausted = n_matvecs >= params.matvec_limit and k >= params.n_wanted
        if k + width > dimension or width == 0 or exhausted:
            return _Expansion(T[: k - n_locked, : k - n_locked], Q, coupling, n_matvecs, n_draws)
        space.append(Q)


def _set_columns(T: Floats, column: Floats) -> None:
    k, w = column.shape
    T[:k, k - w : k] = column
    T[k - w : k, :k] = column.T
    T[k - w : k, k - w : k] = (column[k - w :] + column[k - w :].T) / 2


def _tolerances(space: Space, params: LanczosParams, scale: float) -> Tolerances:
    return Tolerances(space.eps, max(4 * space.eps, 0.05 * params.tol), 10 * space.eps * scale)


def _lock(space: Space, params: LanczosParams, state: LanczosState, expansion: _Expansion) -> LanczosState:
    """Rotate to the best Ritz vectors, and lock those that a product with K confirms."""
    images, Y = _descending_eigh(expansion.T)
    values = state.filter.inverse(images)
    is_lowest = state.filter.degree == 1 or images[-1] < -1  # the latter left of the interval
    exact = expansion.Q.shape[1] == 0
    norms = np.linalg.norm(expansion.coupling @ Y[-expansion.coupling.shape[1] :], axis=0)
    norms = norms if exact else norms * state.filter.secant(values) * state.slack
    state = replace(
        state,
        low=min(state.low, values[-1]) if is_lowest else state.low,
        scale=max(state.scale, float(np.max(np.abs(values)))),
        n_restarts=state.n_restarts + 1,
        n_draws=expansion.n_draws,
    )
    bound = residual_bound(params, state, space.eps)
    wanted = are_wanted(params, state, values, space.eps)
    old = np.flatnonzero(wanted[: state.n_locked])
    passed = wanted[state.n_locked :] & (norms <= bound)
    new = np.flatnonzero(passed)[np.argsort(norms[passed], kind="stable")]
    others = np.flatnonzero(~passed)[: params.n_retained(space.n_rows) - len(old) - len(new)]
    _keep_columns(space, state.n_locked, old, Y[:, np.concatenate([new, others])])

    true_norms = space.residual_norms(values[new], len(old))
    n_new = len(new) if exact else _leading(true_norms <= bound)
    slack = 1.0 if n_new == len(new) else _excess(true_norms, norms[new])
    rest = np.concatenate([new[n_new:], others])
    return replace(
        state,
        images=images[rest],
        norms=np.concatenate([true_norms[n_new:], norms[others]]),
        width=0,
        locked_values=np.concatenate([state.locked_values[old], values[new[:n_new]]]),
        locked_norms=np.concatenate([state.locked_norms[old], true_norms[:n_new]]),
        n_propagated=len(old) + n_new if exact else int(np.count_nonzero(old < state.n_propagated)),
        n_turns=state.n_turns + (len(old) < state.n_locked),
        n_starts=0 if exact else state.n_starts,
        slack=state.slack * slack,
        n_matvecs=expansion.n_matvecs + len(new),
    )


def _keep_columns(space: Space, n_locked: int, old: Integers, Y: Floats) -> None:
    """Rotate the unlocked columns by Y; locked ones are touched only if some have to go."""
    if len(old) == n_locked:
        space.rotate(Y, n_locked)
        return
    M = np.zeros((n_locked + len(Y), len(old) + Y.shape[1]))
    M[old, np.arange(len(old))] = 1
    M[n_locked:, len(old) :] = Y
    space.rotate(M, 0)


def _descending_eigh(T: Floats) -> tuple[Floats, Floats]:
    values, Y = np.linalg.eigh(T)
    return values[::-1], Y[:, ::-1]


def _excess(true_norms: Floats, norms: Floats) -> float:
    return np.clip(np.max(true_norms / np.maximum(norms, np.finfo(np.float64).tiny)), 1.0, 2.0)


def _leading(flags: NDArray[np.bool_]) -> int:
    return len(flags) if flags.all() else int(np.argmin(flags))


def _better_filter(params: LanczosParams, state: LanczosState, eps: float) -> Filter | None:
    """Return a better filter for the present Ritz values; None if there is none."""
    values = state.filter.inverse(state.images)
    ranked = np.sort(np.concatenate([state.locked_values[state.n_known :], values]))[::-1]
    least_wanted, largest = ranked[params.n_wanted - state.n_known - 1], ranked[0]
    edge = np.min(values[values > state.low], initial=np.inf)
    if len(values) <= params.n_wanted - state.n_locked:
        return None
    if state.n_restarts == 1 and state.filter.degree > 1 and least_wanted <= state.filter.edge:
        return Filter()  # a warm one misled; those of this solve do not, as no Ritz value exceeds its eigenvalue
    if edge >= least_wanted - residual_bound(params, state, eps):
        return None
    low = state.low - 0.05 * (edge - state.low)
    center, half_width = (edge + low) / 2, (edge - low) / 2
    reach = np.arccosh((largest - center) / half_width)
    degree = np.arccosh(params.amplification) / reach
    if state.filter.degree == 1 and state.n_restarts >= PATIENCE:
        degree = max(degree, min(GROWTH + 1, np.arccosh(MOST) / reach))
    is_long = state.n_restarts >= LONG and params.degree > 1
    factor, growth = (LONG_DEGREE, LONG_GROWTH) if is_long else (1, GROWTH)
    degree = min(factor * params.degree, largest_odd(degree))
    if degree < max(GROWTH, growth * state.filter.degree):
        return None
    return Filter(degree, float(center), float(half_width))


def _finish(space: Any, params: LanczosParams, state: LanczosState) -> LanczosResult:
    """Order the pairs, and give each vector a sign that does not depend on the cut into blocks.

    Behind them, a paused solve keeps its other columns.
    """
    unlocked = state.filter.inverse(state.images)
    wanted = are_wanted(params, state, unlocked, space.eps)
    values = np.concatenate([state.locked_values, unlocked])
    keys = np.where(wanted, -values, np.inf)
    keys[: state.n_known] = -np.inf
    order = np.argsort(keys, kind="stable")[: params.n_wanted]
    signs = _signs(space.column_sums()[:, order], space.n_rows)
    others = np.arange(state.n_locked, space.n_columns if state.is_paused else state.n_locked)
    M = np.zeros((space.n_columns, len(order) + len(others)))
    M[np.append(order, others), np.arange(M.shape[1])] = np.append(signs, np.ones(len(others)))
    n_same = _leading((order == np.arange(len(order))) & (signs > 0))  # known vectors, and more
    space.rotate(M[n_same:, n_same:], n_same)
    n_missing, n_parts = np.count_nonzero(order >= state.n_locked), count_parts(space, params, state)
    ended = n_missing > 0 and ends_in_bulk(space, params, state, n_parts)
    norms = state.locked_norms[order] if n_missing == 0 else space.residual_norms(values[order], 0)
    result = LanczosResult(
        ritz_values=values[order],
        residual_norms=norms / (state.scale if state.scale > 0 else 1.0),
        converged=bool(n_missing == 0 or ended),
        n_converged=int(params.n_wanted - n_missing),
        n_matvecs=state.n_matvecs,
        n_restarts=state.n_restarts,
        filter=state.filter,
        n_parts=n_parts if ended else 0,
        further=_further(state, order) if state.is_paused else None,
    )
    if not result.converged:
        _warn(params, result)
    return result


def _further(state: LanczosState, order: Integers) -> LanczosState:
    """State of a paused solve whose pairs, in this order, are known from now on.

    Its products count anew; and so do its restarts, as the filter may mislead about the values of more pairs. Blocks
    are still those of one start, which may hide copies of any value but those that were known before.
    """
    return replace(
        state,
        locked_values=state.locked_values[order],
        locked_norms=state.locked_norms[order],
        n_known=len(order),
        n_propagated=state.n_known,
        n_turns=state.n_turns + 1,
        slack=1.0,
        n_matvecs=0,
        n_restarts=0,
        asked_coarse=False,
        is_paused=False,
    )


def _signs(sums: Floats, n_rows: int) -> Floats:
    """Sign of the column's sum if that is well above rounding, else of its sum with hashed weights."""
    plain, hashed = sums
    decisive = np.where(np.abs(plain) > 1e-3 * np.sqrt(n_rows), plain, hashed)
    return np.where(decisive < 0, -1.0, 1.0)


def _warn(params: LanczosParams, result: LanczosResult) -> None:
    warn(
        f"lanczos: {result.n_converged} of {params.n_wanted} eigenpairs reached tol={params.tol} within "
        f"{result.n_matvecs} products (limit {params.matvec_limit}); the largest residual is "
        f"{result.residual_norms.max():.1e}. The last eigenvectors are approximate; raise max_matvecs or tol where the "
        "method has them",
        ConvergenceWarning,
    )
