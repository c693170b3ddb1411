"""The bulk of a spectrum: closely spaced eigenvalues after a clear gap.

If a graph falls into k parts, the k largest eigenvalues of its normalised kernel N are far nearer to 1 than the next,
and the eigenvectors after them divide the parts. If the parts have no structure, the eigenvalues of the latter are
closely spaced: to separate each vector from its neighbours takes hundreds of products, and it is no more informative
than any mixture of them. So the vectors of the bulk are not solved to the tolerance of the others, but only until their
angle to the space of the first k is small enough.

All distances are measured from 1, the largest eigenvalue of N, and compared as quotients, independent of units, number
of rows and scale. A residual norm bounds the distance of a Ritz value from its eigenvalue; the rule uses the worst case
of every bound.
"""

from typing import NamedTuple

import numpy as np

from bigsmic.types import Floats

CLEAR = 20.0
"""Least quotient of the distances from 1 of the first eigenvalue of the bulk and of the last one before it."""
FLAT = 4.0
"""Largest quotient of the distances from 1 of the last wanted eigenvalue and of the first one of the bulk."""
LOOSE = 0.25
"""Largest residual norm in the bulk, in units of the gap: about the sine of the remaining angle to the parts."""
LEAST_DISTANCE = 1e-7


class BulkRule(NamedTuple):
    """Rule by which the bulk ends a solve.

    Parameters
    ----------
    n_parts : int or None
        Number of eigenvalues before the gap, if known from another matrix of the graph. None: the matrix is N, and the
        gap is found in its spectrum.
    """

    n_parts: int | None = None


class Spectrum(NamedTuple):
    """Wanted Ritz values of a solve.

    Parameters
    ----------
    values : ndarray of float64, shape (m,), descending
    norms : ndarray of float64, shape (m,)
        Their residual norms, 0 if converged.
    """

    values: Floats
    norms: Floats

    @property
    def n_converged(self) -> int:
        """Values before the first that has not converged."""
        open_ones = np.flatnonzero(self.norms)
        return int(open_ones[0]) if len(open_ones) else len(self.values)

    def parts(self, rule: BulkRule) -> int:
        """Return k, the number of converged values before the gap that precedes the bulk; 0 if there is none."""
        most = min(self.n_converged, len(self.values) - 1)
        if rule.n_parts is not None:
            return rule.n_parts if rule.n_parts <= most and self._gap(rule.n_parts) > 0 else 0
        return max((k for k in range(2, most + 1) if self._is_clear(k)), default=0)

    def is_solved(self, k: int) -> bool:
        """Whether the vectors after the first k are accurate enough for the bulk."""
        return bool(np.max(self.norms[k:]) <= LOOSE * self._gap(k))

    def _gap(self, k: int) -> float:
        return float(self.values[k - 1] - np.max(self.values[k:] + self.norms[k:]))

    def _is_clear(self, k: int) -> bool:
        before = max(1.0 - self.values[k - 1], LEAST_DISTANCE)
        first = 1.0 - np.max(self.values[k:] + self.norms[k:])
        return bool(first >= CLEAR * before and 1.0 - self.values[-1] <= FLAT * first)
