"""Chebyshev filters: polynomials of a matrix that are small on the unwanted part of its spectrum."""

from dataclasses import dataclass

import numpy as np

from bigsmic.types import Floats


@dataclass(frozen=True)
class Filter:
    """Chebyshev polynomial ``p(x) = T_degree((x - center) / half_width)``; the default is ``p(x) = x``.

    It lies in [-1, 1] on the interval and increases above it. The degree is odd, so that eigenvalues left of the
    interval become negative and are never taken for large ones.
    """

    degree: int = 1
    center: float = 0.0
    half_width: float = 1.0

    @property
    def edge(self) -> float:
        """Right end of the interval."""
        return self.center + self.half_width

    def __call__(self, values: Floats) -> Floats:
        """Values of p."""
        return _chebyshev(self.degree, (np.asarray(values, dtype=np.float64) - self.center) / self.half_width)

    def inverse(self, images: Floats) -> Floats:
        """Return the largest x with ``p(x)`` as given."""
        return self.center + self.half_width * _chebyshev(1 / self.degree, np.asarray(images, dtype=np.float64))

    def secant(self, values: Floats) -> Floats:
        """``(x - edge) / (p(x) - 1)``: residual of K over residual of p(K), if it lies near the edge."""
        if self.degree == 1:
            return np.full(len(values), self.half_width)
        above = values > self.edge
        return np.where(above, (values - self.edge) / np.where(above, self(values) - 1, 1), np.inf)


def largest_odd(degree: float) -> int:
    """The largest odd number up to a degree, and at least 1."""
    return 2 * int((degree - 1) / 2) + 1


def _chebyshev(degree: float, x: Floats) -> Floats:
    """T_degree(x); degree 1/d gives the largest x' with ``T_d(x') = x``."""
    if degree == 1:
        return x
    inside = np.cos(degree * np.arccos(np.clip(x, -1, 1)))
    outside = np.sign(x) * np.cosh(degree * np.arccosh(np.maximum(np.abs(x), 1)))
    return np.where(np.abs(x) > 1, outside, inside)
