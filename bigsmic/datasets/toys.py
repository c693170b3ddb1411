"""The four toy data sets, in the plane, of the paper on SMIC."""

import numpy as np
from numpy.typing import NDArray

from bigsmic.datasets.row_generators import require
from bigsmic.types import Floats, Sample


def four_blobs(n: int = 200, *, seed: int = 0) -> Sample:
    """Draw four Gaussian blobs at (+-2, +-2) with covariance I / 4; [1]_, section 4.1 (a).

    Parameters
    ----------
    n : int
        Rows, shared among the classes as evenly as possible.
    seed : int
        Equal seeds give equal data.

    Returns
    -------
    X : ndarray of float32, shape (n, 2)
        Neither centred nor scaled.
    labels : ndarray of int32, shape (n,), ascending

    Raises
    ------
    InputError
        Fewer rows than classes, or a negative seed; as of the other three.

    References
    ----------
    .. [1] M. Sugiyama, G. Niu, M. Yamada, M. Kimura, H. Hachiya, "Information-maximization clustering based
       on squared-loss mutual information", Neural Computation 26 (2014).
    """
    labels, rng = _toy(n, 4, seed)
    means = 2.0 * np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    return _float32(means[labels] + 0.5 * rng.standard_normal((n, 2))), labels


def circle_and_gaussian(n: int = 200, *, seed: int = 0) -> Sample:
    """Draw a standard normal cluster inside a circle of radius 5 with evenly spaced points, all with noise of sd .1.

    Section 4.1 (b) of the paper cited in :func:`four_blobs`.

    Parameters
    ----------
    n : int
        Rows, shared among the classes as evenly as possible.
    seed : int
        Equal seeds give equal data.

    Returns
    -------
    X : ndarray of float32, shape (n, 2)
    labels : ndarray of int32, shape (n,), ascending
    """
    labels, rng = _toy(n, 2, seed)
    angle = 2 * np.pi * np.arange(np.count_nonzero(labels)) / np.count_nonzero(labels)
    X = np.concatenate([rng.standard_normal((np.count_nonzero(labels == 0), 2)), 5 * _polar(1.0, angle)])
    return _float32(X + 0.1 * rng.standard_normal((n, 2))), labels


def double_spirals(n: int = 200, *, seed: int = 0) -> Sample:
    """Draw two spirals, the second one the first turned by half a circle, with noise of sd .1.

    Point i (from 0) of a spiral is at radius ``1 + 4 i / n`` and angle ``3 pi i / n``; section 4.1 (c) of the
    paper cited in :func:`four_blobs`.

    Parameters
    ----------
    n : int
        Rows, shared among the classes as evenly as possible.
    seed : int
        Equal seeds give equal data.

    Returns
    -------
    X : ndarray of float32, shape (n, 2)
    labels : ndarray of int32, shape (n,), ascending
    """
    labels, rng = _toy(n, 2, seed)
    i = np.concatenate([np.arange(np.count_nonzero(labels == 0)), np.arange(np.count_nonzero(labels))])
    X = (1 - 2 * labels)[:, None] * _polar(1 + 4 * i / n, 3 * np.pi * i / n)
    return _float32(X + 0.1 * rng.standard_normal((n, 2))), labels


def two_densities(n: int = 200, *, seed: int = 0) -> Sample:
    """Draw two normal clusters with the same mean, of standard deviations 1 and .1.

    Section 4.1 (d) of the paper cited in :func:`four_blobs`.

    Parameters
    ----------
    n : int
        Rows, shared among the classes as evenly as possible.
    seed : int
        Equal seeds give equal data.

    Returns
    -------
    X : ndarray of float32, shape (n, 2)
    labels : ndarray of int32, shape (n,), ascending
    """
    labels, rng = _toy(n, 2, seed)
    return _float32(np.where(labels == 0, 1.0, 0.1)[:, None] * rng.standard_normal((n, 2))), labels


TOYS = {
    "four blobs": four_blobs,
    "circle and Gaussian": circle_and_gaussian,
    "double spirals": double_spirals,
    "high and low densities": two_densities,
}
"""The four toy data sets by their names in the paper."""


def _toy(n: int, c: int, seed: int) -> tuple[NDArray[np.int32], np.random.Generator]:
    require("n", n, c)
    require("seed", seed, 0)
    return (np.arange(n) * c // n).astype(np.int32), np.random.default_rng(seed)


def _polar(radius: float | Floats, angle: Floats) -> Floats:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _float32(X: Floats) -> NDArray[np.float32]:
    return X.astype(np.float32)
