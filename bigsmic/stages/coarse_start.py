"""Approximate eigenvectors of an eigenproblem, from those of aggregates of its rows."""

import math
from typing import Any

import numpy as np

from bigsmic.numerics.eigen.aggregates import coarse_eigenvectors
from bigsmic.numerics.eigen.block_vectors import GroupSpace
from bigsmic.numerics.eigen.refinement import MORE, SMOOTH
from bigsmic.stages.labeling_specs import Eigenproblem
from bigsmic.types import Floats

MOST_AGGREGATES = 20_000, 4_000
"""Sizes of the coarse matrix, about: the first one that is sparse enough is taken."""
ROWS = 8
"""Fewest rows of an aggregate, in the mean."""
MOST_ENTRIES = 150_000
"""Entries of a coarse matrix, whose factors have some eight times as many in a plane."""
MOST_NEIGHBORS = 20
"""Neighbours of an aggregate, in the mean, up to which aggregates lie along curves or surfaces: the factors of other
coarse matrices would be dense."""
FACTOR_ENTRIES = 50
"""Entries of both factors for each aggregate in a plane."""
FEWEST_AGGREGATES = 4
"""Aggregates for each vector, from which on they can show it."""


class CoarseStart:
    """Approximate eigenvectors of one eigenproblem; see :class:`bigsmic.numerics.eigen.refinement.CoarseStart`.

    Parameters
    ----------
    space : GroupSpace
        Its actors are :class:`~bigsmic.stages.eigenvectors.StoredRows`.
    n_known : int
        Known eigenvectors, the first columns of the basis.
    """

    def __init__(self, space: GroupSpace, n_known: int) -> None:
        self._space, self._n_known = space, n_known
        self._U: Floats = np.zeros((0, 0))

    def propose(self, k: int, largest: float) -> Floats | None:
        """Ritz values of the k next eigenvectors; the largest eigenvalue is about `largest`.

        None if aggregates are too few, or fill more dimensions, or their values are too far from 1.
        """
        self._space.finish()
        found = self._propose(k, largest)
        if found is None or 1.0 - found[0][-1] > SMOOTH:
            self._space.finish(("drop_aggregates",))
            return None
        values, self._U = found
        return values

    def _propose(self, k: int, largest: float) -> tuple[Floats, Floats] | None:
        n_least = FEWEST_AGGREGATES * (self._n_known + k)
        for most in MOST_AGGREGATES:
            coarse = self._coarsened(min(most, self._space.n_rows // ROWS), n_least)
            if coarse is None:
                return None
            mass, weights = coarse
            if weights.nnz > MOST_NEIGHBORS * len(mass):
                return None
            if weights.nnz <= MOST_ENTRIES:
                return coarse_eigenvectors(weights, mass, self._n_known, k, largest)
        return None

    def _coarsened(self, most: int, n_least: int) -> tuple[Floats, Any] | None:
        """Degree sums of about so many aggregates and the weights between them; None if too few, or too many, are."""
        group = self._space.group
        counts = group.call_sum(("coarsen", most))
        m = int(counts.sum())
        if not n_least <= m <= 2 * most:
            return None
        mass = group.call_sum(("aggregate_mass", np.cumsum(counts) - counts, m))
        return mass, group.call_sum(("aggregate_weights", m))

    def append(self) -> None:
        """Append them to the basis."""
        self._space.finish(("write_coarse", self._U), ("drop_aggregates",))
        self._space.n_columns += self._U.shape[1]


def coarse_bytes(n: int, n_wanted: int) -> int:
    """Memory of the coarse matrix of n rows: vectors of its eigensolver, those that it returns, and factors."""
    k = math.ceil(MORE[0] * n_wanted) + MORE[1]
    return min(MOST_AGGREGATES[0], n // ROWS) * (8 * 3 * k + 12 * FACTOR_ENTRIES)


def of(space: GroupSpace, eigenproblem: Eigenproblem, n_known: int) -> CoarseStart | None:
    """The coarse start of a solve; None for matrices whose largest eigenvalue is far from 1, or that are no kernel."""
    if eigenproblem.kernel != "normalized" or eigenproblem.link_weights is not None:
        return None
    return CoarseStart(space, n_known)
