"""Which pairs of a Lanczos solve are wanted, which have converged, and whether it has found them all."""

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.eigen.bulk import Spectrum
from bigsmic.numerics.eigen.lanczos_state import LanczosParams, LanczosState
from bigsmic.numerics.eigen.space import Space
from bigsmic.types import Floats

HOPELESS = 1e3  # slack at which rounding, not the subspace, limits the residuals


def residual_bound(params: LanczosParams, state: LanczosState, eps: float) -> float:
    """Residual norm from which on a pair has converged."""
    return max(params.tol, 16 * eps) * state.scale


def are_wanted(params: LanczosParams, state: LanczosState, values: Floats, eps: float) -> NDArray[np.bool_]:
    """Which of the locked and of these unlocked Ritz values, in this order, are among the n_wanted largest.

    A locked one gives way only to one that is larger by more than the residuals allow, and a known one never.
    """
    everything = np.concatenate([state.locked_values + residual_bound(params, state, eps), values])
    everything[: state.n_known] = np.inf
    wanted = np.zeros(len(everything), dtype=bool)
    wanted[np.argsort(-everything, kind="stable")[: params.n_wanted]] = True
    return wanted


def count_missing(params: LanczosParams, state: LanczosState, eps: float) -> int:
    """Number of wanted pairs that are not locked."""
    values = state.filter.inverse(state.images)
    wanted = are_wanted(params, state, values, eps)
    return int(params.n_wanted - np.count_nonzero(wanted[: state.n_locked]))


def is_finished(space: Space, params: LanczosParams, state: LanczosState) -> bool:
    """Whether all pairs are found, the products are used up, or rounding keeps the residuals above the tolerance."""
    if state.n_matvecs >= params.matvec_limit or state.slack > HOPELESS:
        return True
    return (
        count_missing(params, state, space.eps) == 0
        and not hides_copies(space, params, state)
        and _is_exhausted(params, state, space.eps)
    )


def count_parts(space: Space, params: LanczosParams, state: LanczosState) -> int:
    """Number of pairs before the bulk; 0 if no bulk is found."""
    if params.bulk is None or state.n_locked + len(state.images) < params.n_wanted:
        return 0
    return _spectrum(space, params, state).parts(params.bulk)


def _spectrum(space: Space, params: LanczosParams, state: LanczosState) -> Spectrum:
    """Wanted Ritz values; the norms of locked ones are 0."""
    unlocked = state.filter.inverse(state.images)
    wanted = are_wanted(params, state, unlocked, space.eps)
    values = np.concatenate([state.locked_values, unlocked])[wanted]
    norms = np.concatenate([np.zeros(state.n_locked), state.norms])[wanted]
    order = np.argsort(-values, kind="stable")
    return Spectrum(values[order], norms[order])


def ends_in_bulk(space: Space, params: LanczosParams, state: LanczosState, n_parts: int) -> bool:
    """Whether all parts are found, and the vectors of the bulk are accurate enough."""
    return (
        n_parts > 0
        and not hides_copies(space, params, state, n_parts)
        and _spectrum(space, params, state).is_solved(n_parts)
    )


def hides_copies(space: Space, params: LanczosParams, state: LanczosState, n_parts: int = 0) -> bool:
    """Whether an eigenvalue was found as often as one start block allows, so that further copies may be missing.

    Copies of the smallest wanted value do not matter, unless a bulk follows: then the copies of all parts count.
    """
    if state.n_locked == space.n_rows:
        return False
    bound, b = residual_bound(params, state, space.eps), params.block_width
    found = np.sort(state.locked_values[state.n_propagated :])
    if n_parts:
        found = found[found >= np.sort(state.locked_values)[-n_parts]]
    else:
        found = found[found > np.min(state.locked_values) + bound]
    return len(found) >= b and bool(np.any(found[b - 1 :] - found[: len(found) - b + 1] <= 2 * bound))


def _is_exhausted(params: LanczosParams, state: LanczosState, eps: float) -> bool:
    """Whether, after a random start, the unlocked pairs are known to be unwanted."""
    if state.n_starts == 0:
        return True
    if len(state.images) == 0:
        return False
    bound, top = residual_bound(params, state, eps), np.argmax(state.images)
    value, norm = state.filter.inverse(state.images[top]), state.norms[top]
    return norm <= bound or value + norm <= np.min(state.locked_values) + bound
