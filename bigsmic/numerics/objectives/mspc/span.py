"""MSPC for fewer rows than columns: the hyperplanes of a split lie in the span of the rows.

Let X be the m rows of a node, centred, D the variances of their columns, ``G = X D^-1 X'`` and ``K = X X'``. Divided by
the deviations, the regularised covariances are ``D^-1/2 S D^-1/2 + reg I``, and the added term is invariant under
rotation: the best directions lie in the span of the divided rows. With ``G = U L U'`` the rows there are ``Z = U
L^1/2``, at most m - 1 columns, `reg` adds to the identity, and u stands for ``w = D^-1 X' U L^-1/2 u``. So a split
takes m^2 numbers instead of d^2, and two passes over the rows: one for the products, one to transform the hyperplane
back.

The k-means start and the relaxed indicator have directions in the span of the undivided rows, ``w = X'a``; the
projections ``K a`` determine their u.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from bigsmic.numerics.objectives.mspc import solvers
from bigsmic.numerics.objectives.mspc.questions import Halfspace, Question, solve
from bigsmic.numerics.objectives.mspc.solvers import Split, SplitSettings
from bigsmic.types import Floats

_RANK = 1e-12  # of the largest eigenvalue; smaller ones are rounding


class Dual(NamedTuple):
    """Coefficients of the centred rows: ``w = X'a``, or ``w = D^-1 X'a`` if divided.

    Parameters
    ----------
    a : ndarray of float64, shape (m,)
    is_divided : bool
    """

    a: np.ndarray
    is_divided: bool


def centred(products: Floats) -> Floats:
    """Products of the rows minus their mean, from products of the rows: (m, m)."""
    mean = products.mean(axis=0)
    return products - mean - mean[:, None] + mean.mean()


def coordinates(products: Floats) -> tuple[Floats, Floats]:
    """Rows in the principal axes of their span, the largest first, from products of the centred rows: (m, r).

    Returns
    -------
    values : ndarray of float64, shape (r,)
    vectors : ndarray of float64, shape (m, r)
        The coordinates are ``vectors * sqrt(values)``.
    """
    values, vectors = eigh(products)
    kept = values > _RANK * max(values[-1], np.finfo(np.float64).tiny)
    return values[kept][::-1], vectors[:, kept][:, ::-1]


class Span:
    """Rows of a node in the coordinates of their span, for the solvers.

    It takes the place of :class:`~bigsmic.numerics.objectives.mspc.separation.Columns`.

    Parameters
    ----------
    divided, plain : ndarray of float64, shape (m, m)
        G and K.
    """

    def __init__(self, divided: Floats, plain: Floats) -> None:
        self.plain = plain
        self.values, self.vectors = coordinates(divided)
        self.Z = self.vectors * np.sqrt(self.values)

    def __call__(self, questions: Sequence[Question]) -> list[Floats]:
        """Answers over all rows of the node."""
        return [question(self.Z) for question in questions]

    def varies(self, variances: Floats, mean: Floats) -> NDArray[np.bool_]:
        """All coordinates vary."""
        return np.ones(len(variances), bool)

    def regularise(self, covariances: Floats, total: Floats, reg: float) -> Floats:
        """Covariances with `reg` times the variances of divided columns added, which are 1."""
        return covariances + reg * np.eye(total.shape[-1])

    def relaxed(self, total: Floats | None) -> Floats:
        """Direction ``X'q`` of the relaxed indicator q, the first coordinate."""
        return self.direction(self.plain @ self.indicator)

    @property
    def indicator(self) -> Floats:
        """The relaxed indicator."""
        return self.vectors[:, 0]

    def direction(self, projections: Floats) -> Floats:
        """The u along which the rows have the given projections, up to their mean."""
        return self.vectors.T @ projections / np.sqrt(self.values)

    def split(self, start: tuple[Floats, float], settings: SplitSettings) -> tuple[Split, Dual] | None:
        """Split the rows, starting from a halfspace of ``w = X'a``.

        Parameters
        ----------
        start : tuple of (ndarray of float64, shape (m,), float)
            a, and the threshold for rows minus their mean.
        settings : mspc.SplitSettings

        Returns
        -------
        split, dual : tuple of (mspc.Split, Dual), or None
            In the coordinates of the span, and the coefficients that transform its hyperplane back; None if the rows
            cannot be split.
        """
        a, threshold = start
        first = Halfspace(self.direction(self.plain @ a), threshold)
        (found,) = solve([solvers.split((), first, settings, self)], self)
        if found is None:
            return None
        return found, Dual(a, False) if found.halfspace is first else self._dual(found.halfspace.w, settings)

    def _dual(self, u: Floats, settings: SplitSettings) -> Dual:
        if settings.solver == "eig":
            return Dual(self.indicator * (u @ u) / (u @ self.relaxed(None)), False)
        return Dual(self.vectors @ (u / np.sqrt(self.values)), True)


def brought_back(found: Split, w: Floats, mean: Floats) -> Split:
    """A split in the original columns, with a hyperplane of unit length.

    Parameters
    ----------
    found : mspc.Split
        In the coordinates of a span.
    w : ndarray of float64, shape (d,)
        Its direction in the columns.
    mean : ndarray of float64, shape (d,)
        Of the rows of the node.
    """
    length = np.linalg.norm(w)
    halfspace = Halfspace(w / length, float((found.halfspace.threshold + w @ mean) / length))
    return Split(**{**vars(found), "halfspace": halfspace, "slope": found.slope * length})
