"""Feature maps whose inner products equal or approximate a kernel, so that linear RIM gives kernel RIM.

Nystrom, from m landmarks u: ``f(x) = (k(x, u_1) .. k(x, u_m)) U s^-1/2`` with ``k(u, u) = U s U'``; exact if all rows
are landmarks. Random Fourier features of the Gaussian kernel: ``sqrt(2/m) cos(x W + b)``. Both map rows one by one, so
that a fit reads them in blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, manhattan_distances, pairwise_kernels

from bigsmic.errors import InputError
from bigsmic.numerics.hashing import generator
from bigsmic.numerics.mutual_information.gaussian_basis import median_distance
from bigsmic.types import Floats
from bigsmic.weight_functions import called

KERNELS = tuple(sorted(set(PAIRWISE_KERNEL_FUNCTIONS) - {"additive_chi2", "chi2"}))
"""Names of the kernels: those of scikit-learn that accept rows of any sign."""
ROUNDING = 1e-6  # of the largest absolute value, for kernels computed in float32
SCALED = ("rbf", "laplacian")
LEAST_NEIGHBORS = 0.1
"""Least median over rows of the sum of a kernel's values with other landmarks. Below it, labels of blobs, moons and
digits had an adjusted Rand index of 0: features say which row is which, and not which rows belong together."""
LEAST_EIGENVALUE = 1e-6  # of the largest; directions below it are rounding
PANEL = 2048


@dataclass(frozen=True)
class Kernel:
    """A kernel on rows.

    Parameters
    ----------
    function : str or callable
        A name of :data:`KERNELS`, or ``k(X, Y) -> (len(X), len(Y))``.
    length_scale : float or None
        l in ``exp(-|x - y|^2 / (2 l^2))`` for "rbf" and ``exp(-|x - y|_1 / l)`` for "laplacian"; other kernels have
        none.
    """

    function: str | Callable[..., Any]
    length_scale: float | None = None

    @property
    def gamma(self) -> Any:
        """Scikit-learn's parameter for the scale; None for its default."""
        if self.length_scale is None or self.function not in SCALED:
            return None
        try:
            return 1 / (2 * self.length_scale**2) if self.function == "rbf" else 1 / self.length_scale
        except OverflowError:  # of the square
            return 0.0
        except ZeroDivisionError:
            return np.inf

    def __call__(self, X: Floats, Y: Floats) -> Floats:
        """Values between all pairs, float64.

        Raises
        ------
        InputError
            A callable returned another shape, or values that are not finite.
        """
        if not callable(self.function):
            with np.errstate(over="ignore", invalid="ignore"):  # of a tiny length scale, which is refused
                found = pairwise_kernels(X, Y, metric=self.function, filter_params=True, gamma=self.gamma)
            return np.asarray(found, np.float64)
        found = np.asarray(called(self.function, ("X", "Y"), X, Y))
        if found.shape != (len(X), len(Y)) or found.dtype.kind not in "fiub":
            raise InputError(
                f"kernel: for {len(X)} and {len(Y)} rows the callable returned {found.dtype} of shape {found.shape}; "
                f"return numbers of shape ({len(X)}, {len(Y)})"
            )
        if not np.isfinite(found).all():
            raise InputError("kernel: the callable returned NaN or infinity; its values must be finite")
        return found.astype(np.float64)


def default_length_scale(function: str, sample: Floats, landmarks: Floats) -> float | None:
    """Median distance of sampled rows from landmarks, Manhattan for the Laplacian; None for a kernel without a scale.

    Parameters
    ----------
    function : str
        A name of :data:`KERNELS`.
    sample, landmarks : ndarray of float32, shape (b, d) and (m, d)
    """
    if function not in SCALED:
        return None
    if function == "rbf":
        return median_distance(sample, landmarks)
    found = manhattan_distances(sample, landmarks)
    return float(np.median(found[found > 0])) if found.any() else 1.0


def refuse_other_scale(K: Floats, own: NDArray[np.bool_], length_scale: float, landmarks: Floats) -> None:
    """Refuse a length scale at which all rows look alike, or none do, or the kernel has no values.

    Parameters
    ----------
    K : ndarray of float64, shape (b, m)
        Values between some rows and the landmarks.
    own : ndarray of bool, shape (b, m)
        Where a row is the landmark itself.
    length_scale : float
    landmarks : ndarray of float32, shape (m, d)

    Raises
    ------
    InputError
    """
    neighbors = np.median(np.where(own, 0, K).sum(axis=1))
    if not np.isfinite(K).all():
        why = "the kernel overflows"
    elif np.ptp(K) < ROUNDING and np.ptp(landmarks, axis=0).any():
        why = "all rows look alike"
    elif neighbors < LEAST_NEIGHBORS:
        why = (
            f"rows have next to no neighbours: their kernel values with {len(landmarks)} landmarks sum to "
            f"{neighbors:.2g} in the median, of at least {LEAST_NEIGHBORS} that labels need"
        )
    else:
        return
    raise InputError(
        f"length_scale: at {length_scale:.3g}, {why}; use one of the order of the distances between scaled rows, or "
        "leave it out for their median"
    )


def whitener(K: Floats) -> Floats:
    """``U s^-1/2`` of a kernel between landmarks, without directions below rounding.

    Parameters
    ----------
    K : ndarray of float64, shape (m, m)
        Symmetric; negative eigenvalues, of a function that is not a kernel, are left out.

    Returns
    -------
    M : ndarray of float64, shape (m, r)
        Signs fixed: the largest entry of a column is positive.

    Raises
    ------
    InputError
        The matrix is not symmetric, or has no positive eigenvalue.
    """
    if not np.allclose(K, K.T, rtol=1e-4, atol=1e-6 * np.abs(K).max(initial=0)):
        raise InputError("kernel: values between rows are not symmetric; give k with k(x, y) = k(y, x)")
    values, U = eigh((K + K.T) / 2)
    values, U = values[::-1], U[:, ::-1]
    kept = values > LEAST_EIGENVALUE * values[0]
    if values[0] <= ROUNDING * np.abs(values).max():
        raise InputError(
            f"kernel: the largest eigenvalue between the landmarks is {values[0]:.3g}, and has to be positive; give a "
            "positive semi-definite kernel, such as 'rbf'"
        )
    M = U[:, kept] / np.sqrt(values[kept])
    return M * np.sign(M[np.abs(M).argmax(axis=0), np.arange(M.shape[1])])


@dataclass(frozen=True, eq=False)
class Nystrom:
    """``f(x) = k(x, landmarks) M``.

    Parameters
    ----------
    kernel : Kernel
    landmarks : ndarray of float32, shape (m, d)
    M : ndarray of float64, shape (m, r)
        From :func:`whitener`.
    """

    kernel: Kernel
    landmarks: np.ndarray
    M: np.ndarray

    @property
    def width(self) -> int:
        """Number of features, r."""
        return self.M.shape[1]

    def __call__(self, X: Floats) -> Floats:
        """Features of scaled rows, float32, shape (b, r)."""
        return _by_tiles(X, lambda tile: self.kernel(tile, self.landmarks) @ self.M, self.width)


@dataclass(frozen=True, eq=False)
class Columns:
    """``f(x) = x[columns] M``, where a row has the kernel's values with all fitted rows.

    Parameters
    ----------
    columns : ndarray of int64, shape (m,)
        Columns of the landmarks.
    M : ndarray of float64, shape (m, r)
    """

    columns: np.ndarray
    M: np.ndarray

    @property
    def width(self) -> int:
        """Number of features, r."""
        return self.M.shape[1]

    def __call__(self, X: Floats) -> Floats:
        """Features of rows of the kernel, float32, shape (b, r)."""
        return _by_tiles(X, lambda tile: tile[:, self.columns].astype(np.float64) @ self.M, self.width)


@dataclass(frozen=True, eq=False)
class Fourier:
    """``f(x) = sqrt(2/m) cos(x W + b)``; inner products are the Gaussian kernel up to ``O(m^-1/2)`` [1]_.

    Parameters
    ----------
    W : ndarray of float64, shape (d, m)
    b : ndarray of float64, shape (m,)

    References
    ----------
    .. [1] Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007.
    """

    W: np.ndarray
    b: np.ndarray

    @classmethod
    def draw(cls, d: int, m: int, length_scale: float, seed: int) -> Self:
        """Frequencies of ``exp(-|x - y|^2 / (2 l^2))``."""
        rng = generator(seed, "fourier")
        return cls(rng.standard_normal((d, m)) / length_scale, rng.uniform(0, 2 * np.pi, m))

    @property
    def width(self) -> int:
        """Number of features, m."""
        return len(self.b)

    def __call__(self, X: Floats) -> Floats:
        """Features of scaled rows, float32, shape (b, m)."""
        scale = np.sqrt(2 / self.width)
        return _by_tiles(X, lambda tile: scale * np.cos(tile.astype(np.float64) @ self.W + self.b), self.width)


def _by_tiles(X: Floats, features: Callable[..., Any], width: int) -> Floats:
    out = np.empty((len(X), width), np.float32)
    for lo in range(0, len(X), PANEL):
        out[lo : lo + PANEL] = features(X[lo : lo + PANEL])
    return out
