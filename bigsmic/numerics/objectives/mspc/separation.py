"""The hyperplane that best separates two clusters, from their means and covariances."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack
from scipy.optimize import brentq

from bigsmic.errors import SingularCovarianceError
from bigsmic.numerics.objectives.mspc.questions import Halfspace
from bigsmic.types import Floats

_CONSTANT = 1e-12  # variance of a column relative to its mean square, below which it is rounding


class Two(NamedTuple):
    """Moments of the two sides of a split, in the columns that vary.

    Parameters
    ----------
    counts : ndarray of float64, shape (2,)
    means : ndarray of float64, shape (2, k)
    covariances : ndarray of float64, shape (2, k, k)
        Divided by the number of rows.
    total : ndarray of float64, shape (k, k)
        Covariance of both sides together.
    varies : ndarray of bool, shape (d,)
        Columns that vary.
    space : Columns
    """

    counts: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    total: np.ndarray
    varies: np.ndarray
    space: Any

    @classmethod
    def of(cls, sides: Floats, space: "Columns | None" = None) -> "Two":
        """Moments from the second moments of two sides, shape (2, d + 1, d + 1); both must have rows."""
        space = COLUMNS if space is None else space
        _, mean, total = covariance_of(sides[0] + sides[1])
        varies = space.varies(np.diag(total), mean)
        kept = np.ix_(varies, varies)
        each = [covariance_of(side) for side in sides]
        return cls(
            np.array([count for count, _, _ in each]),
            np.array([mean[varies] for _, mean, _ in each]),
            np.array([covariance[kept] for _, _, covariance in each]),
            total[kept],
            varies,
            space,
        )

    @property
    def difference(self) -> Floats:
        """Mean of label 1 minus that of label 0."""
        return self.means[1] - self.means[0]

    def regularised(self, reg: float) -> Floats:
        """The two covariances, each with `reg` times the total variances added."""
        return self.space.regularise(self.covariances, self.total, reg)

    def separation(self, reg: float) -> "Separation":
        """The best separating hyperplane of the two sides."""
        return separate(self.difference, *self.regularised(reg))

    def halfspace(self, w: Floats, threshold: float) -> Halfspace:
        """The halfspace of a direction in the columns that vary, normalised to unit length in all columns."""
        length = np.linalg.norm(w)
        full = np.zeros(len(self.varies))
        full[self.varies] = w / length
        return Halfspace(full, float(threshold / length))


class Columns:
    """The original columns of the rows; regularisation adds multiples of their variances."""

    def varies(self, variances: Floats, mean: Floats) -> NDArray[np.bool_]:
        """Columns whose variance is more than rounding."""
        return variances > _CONSTANT * (variances + mean**2)

    def regularise(self, covariances: Floats, total: Floats, reg: float) -> Floats:
        """Covariances with `reg` times the total variances added."""
        return covariances + reg * np.diag(np.diag(total))

    def relaxed(self, total: Floats) -> Floats:
        """Direction ``X'q`` of the relaxed indicator q; see :mod:`~bigsmic.numerics.objectives.mspc.solvers`."""
        deviations = np.sqrt(np.diag(total))
        correlation = total / np.outer(deviations, deviations)
        return deviations * eigh(correlation, subset_by_index=[len(correlation) - 1] * 2)[1][:, 0]


COLUMNS = Columns()


def covariance_of(A: Any) -> tuple[float, Floats, Floats]:
    """Number, mean and covariance of second moments."""
    n = A[-1, -1]
    mean = A[-1, :-1] / n
    return n, mean, A[:-1, :-1] / n - np.outer(mean, mean)


class Separation(NamedTuple):
    """The hyperplane that best separates two clusters.

    Parameters
    ----------
    kappa : float
        Distance of the means over the sum of the standard deviations, along w.
    w : ndarray of float64, shape (k,)
        From the mean of label 0 towards that of label 1.
    """

    kappa: float
    w: np.ndarray

    @property
    def msp(self) -> float:
        """Minimum separation probability."""
        return separation_probability(self.kappa)


def separation_probability(kappa: float) -> float:
    """``kappa^2 / (1 + kappa^2)``."""
    return 1 / (1 + 1 / kappa**2) if kappa else 0.0


def separate(difference: Floats, first: Floats, second: Floats, rounding: Floats | None = None) -> Separation:
    """Solve the minimax probability machine exactly.

    Since ``(a + b)^2 = min_tau a^2 / tau + b^2 / (1 - tau)``,

        kappa^2 = max_tau  delta' (S_0 / tau + S_1 / (1 - tau))^-1 delta

    a concave function of one number: in the basis in which ``S_0 + S_1 = I`` and ``S_0 = diag(g)`` it is a sum of
    weighted harmonic means of tau and 1 - tau. Its maximiser is found to machine precision.

    Parameters
    ----------
    difference : ndarray of float64, shape (k,)
        Difference of the means.
    first, second : ndarray of float64, shape (k, k)
        Covariances; their sum must be positive definite.
    rounding : ndarray of float64, shape (k,), optional
        Variances up to this count as 0. By default that of covariances that are differences of sums about one center.

    Returns
    -------
    separation : Separation

    Raises
    ------
    SingularCovarianceError
    """
    check_definite(first + second, _CONSTANT * difference**2 if rounding is None else rounding)
    g, basis = eigh(first, first + second)
    g, a = g.clip(0, 1), basis.T @ difference

    def mixed(tau: float) -> Floats:
        return g * (1 - tau) + (1 - g) * tau

    def slope(tau: float) -> float:
        return (a**2 * (g * (1 - tau) ** 2 - (1 - g) * tau**2) / mixed(tau) ** 2).sum()

    low, high = 1e-9, 1 - 1e-9
    if slope(low) <= 0:
        tau = low
    elif slope(high) >= 0:
        tau = high
    else:
        tau = brentq(slope, low, high, xtol=1e-15)
    w = a / mixed(tau)
    spread = np.sqrt(w**2 @ g) + np.sqrt(w**2 @ (1 - g))
    return Separation(float(w @ a / spread) if spread else 0.0, basis @ w)


def check_definite(S: Floats, rounding: Floats | float = 0.0) -> None:
    """Refuse a covariance that is singular in double precision, whatever the units of its columns.

    Parameters
    ----------
    S : ndarray of float64, shape (k, k)
    rounding : ndarray of float64, shape (k,), optional
        Variances up to this count as 0.

    Raises
    ------
    SingularCovarianceError
    """
    varies = np.diag(S) > rounding
    deviation = np.sqrt(np.diag(S)[varies])
    correlation = S[np.ix_(varies, varies)] / np.outer(deviation, deviation)
    if varies.all() and _is_clearly_definite(correlation):
        return
    rank = int((np.linalg.eigvalsh(correlation) > 1e-13 * len(S)).sum())
    if rank == len(S):
        return
    raise SingularCovarianceError(
        f"mspc: the covariance within the clusters has rank {rank} of {len(S)}, so that directions without variance "
        "separate them perfectly; give reg > 0, or drop columns that others determine"
    )


def _is_clearly_definite(S: Floats) -> bool:
    """Whether the condition number is far below that of a singular matrix with rounding."""
    factor, failed = lapack.dpotrf(S)
    return not failed and lapack.dpocon(factor, np.abs(S).sum(axis=0).max())[0] > 1e-11
