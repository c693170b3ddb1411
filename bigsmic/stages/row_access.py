"""Access by row number to arrays in cell order."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.runtime.context import Context
from bigsmic.stages.route import rank_within
from bigsmic.types import Integers


def positions_of(context: Context, rows: Integers) -> Integers:
    """Positions in cell order of rows with ascending numbers: int64, shape (m,). Their blocks of input are read."""
    layout, bounds = context.layout, context.source_bounds
    found, cuts = np.empty(len(rows), np.int64), np.searchsorted(rows, bounds)
    for s in np.flatnonzero(np.diff(cuts)).tolist():
        block = layout.block_of_group[context.run.read("route", s, "home")]
        first = layout.bounds[block] + layout.before[s, block]
        own = slice(cuts[s], cuts[s + 1])
        found[own] = (first + rank_within(block, len(context.blocks)))[rows[own] - bounds[s]]
    return found


def read_at(context: Context, rows: Integers, read: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """Entries of a per-row array at the given row numbers, in this order; each row block is read once.

    Parameters
    ----------
    context : Context
    rows : ndarray of int64, shape (m,)
    read : callable
        ``read(p)`` returns the entries of row block p, shape (b, ...).

    Returns
    -------
    entries : ndarray, shape (m, ...)
    """
    distinct, where = np.unique(rows, return_inverse=True)
    positions = positions_of(context, distinct)
    order, bounds = np.argsort(positions), context.layout.bounds
    cuts = np.searchsorted(positions[order], bounds)
    found: NDArray[Any] | None = None
    for p in np.flatnonzero(np.diff(cuts)).tolist() or [0]:
        own = order[cuts[p] : cuts[p + 1]]
        values = read(p)[positions[own] - bounds[p]]
        if found is None:
            found = np.empty((len(distinct), *values.shape[1:]), values.dtype)
        found[own] = values
    assert found is not None
    return found if len(distinct) == len(rows) and (where[1:] > where[:-1]).all() else found[where]
