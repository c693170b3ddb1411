"""Approximate eigenvectors of an eigenproblem, from those of aggregates of its rows."""

import numpy as np

from bigsmic.numerics.eigen.aggregates import coarse_eigenvectors
from bigsmic.numerics.eigen.block_vectors import GroupSpace
from bigsmic.numerics.eigen.refinement import SMOOTH
from bigsmic.stages.labeling_specs import Eigenproblem
from bigsmic.types import Floats

MOST_AGGREGATES = 4000
"""Size of the coarse matrix, about."""
MOST_NEIGHBORS = 20
"""Neighbours of an aggregate, in the mean, up to which aggregates lie along curves or surfaces: the factors of other
coarse matrices would be dense."""
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

    def propose(self, k: int) -> Floats | None:
        """Ritz values of the k next eigenvectors.

        None if aggregates are too few, or fill more dimensions, or their values are too far from 1.
        """
        self._space.finish()
        found = self._propose(k)
        if found is None or 1.0 - found[0][-1] > SMOOTH:
            self._space.finish(("drop_aggregates",))
            return None
        values, self._U = found
        return values

    def _propose(self, k: int) -> tuple[Floats, Floats] | None:
        group = self._space.group
        counts = group.call_sum(("coarsen", MOST_AGGREGATES))
        m = int(counts.sum())
        if not FEWEST_AGGREGATES * (self._n_known + k) <= m <= 2 * MOST_AGGREGATES:
            return None
        mass = group.call_sum(("aggregate_mass", np.cumsum(counts) - counts, m))
        weights = group.call_sum(("aggregate_weights", m))
        return coarse_eigenvectors(weights, mass, self._n_known, k) if weights.nnz <= MOST_NEIGHBORS * m else None

    def append(self) -> None:
        """Append them to the basis."""
        self._space.finish(("write_coarse", self._U), ("drop_aggregates",))
        self._space.n_columns += self._U.shape[1]


def of(space: GroupSpace, eigenproblem: Eigenproblem, n_known: int) -> CoarseStart | None:
    """The coarse start of a solve; None for matrices whose largest eigenvalue is far from 1, or that are no kernel."""
    if eigenproblem.kernel != "normalized" or eigenproblem.link_weights is not None:
        return None
    return CoarseStart(space, n_known)
