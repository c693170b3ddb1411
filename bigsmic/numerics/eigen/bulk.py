"""The bulk of a spectrum: eigenvalues after a clear gap that lie close together.

Where a graph falls into k parts, the k largest eigenvalues of its normalised kernel N are far nearer to 1 than the
next, and the eigenvectors after them divide the parts. Where these have no structure, their eigenvalues crowd: each
vector takes hundreds of products to be told from its neighbours, and says no more than any mixture of them. So the
vectors of the bulk need not be solved to the tolerance of the others, only until they are a small angle away from the
parts.

Everything is measured from 1, the largest eigenvalue of N, in quotients: no unit, number of rows or scale has a part.
A residual norm bounds how far a Ritz value may still be below its eigenvalue; every bound is taken at its worst.
"""

from typing import NamedTuple

import numpy as np

from bigsmic.types import Floats

CLEAR = 20.0
"""How much farther from 1 the first eigenvalue of the bulk is than the last one before it, at least."""
FLAT = 4.0
"""How much farther from 1 the last wanted eigenvalue is than the first one of the bulk, at most."""
LOOSE = 0.25
"""Residual norms of the bulk, in units of the gap, at most: about the sine of the angle to the parts that is left."""
LEAST_DISTANCE = 1e-7


class BulkRule(NamedTuple):
    """When the bulk ends a solve.

    Parameters
    ----------
    n_parts : int or None
        Eigenvalues before the gap, if another matrix of the graph has shown them; None: the matrix is N, and they are
        found in its spectrum.
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
        """Return k, the converged values before a gap that nothing but the bulk follows; 0 where there is none."""
        most = min(self.n_converged, len(self.values) - 1)
        if rule.n_parts is not None:
            return rule.n_parts if rule.n_parts <= most and self._gap(rule.n_parts) > 0 else 0
        return max((k for k in range(2, most + 1) if self._is_clear(k)), default=0)

    def is_solved(self, k: int) -> bool:
        """Whether the vectors after the first k are near enough to the bulk."""
        return bool(np.max(self.norms[k:]) <= LOOSE * self._gap(k))

    def _gap(self, k: int) -> float:
        return float(self.values[k - 1] - np.max(self.values[k:] + self.norms[k:]))

    def _is_clear(self, k: int) -> bool:
        before = max(1.0 - self.values[k - 1], LEAST_DISTANCE)
        first = 1.0 - np.max(self.values[k:] + self.norms[k:])
        return bool(first >= CLEAR * before and 1.0 - self.values[-1] <= FLAT * first)
