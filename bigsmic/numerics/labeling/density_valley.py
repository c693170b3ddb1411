"""The valley between two samples on a line: its depth, and its significance in standard errors."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.types import Floats

BANDWIDTH = 1.06
"""Bandwidth of the smoothed density, in standard deviations times n^-1/5."""
BINS = 30, 400
"""Least and largest number of bins of a density; in between, bins are a third of the bandwidth wide. No bandwidth is
less than a bin: rows of a narrow sample that is far from the other are all counted at its peak."""
STEPS = 0.5
"""Least bandwidth, in steps between neighbouring values: the density of evenly spaced values is then flat to 1.4 %, as
``2 exp(-2 pi^2 STEPS^2)``."""
_NOTHING = 1e-12


class Valley(NamedTuple):
    """Result of the test for a valley between two groups.

    Parameters
    ----------
    depth : float
        Density at the bottom of the valley over that at the lower peak, 0 to 1; 1 if there is no valley.
    z : float
        Standard errors by which the densities at the peak and at the bottom differ: the root of the deviance.
    error : float
        The standard error of ``log(depth)``.
    """

    depth: float
    z: float
    error: float


NO_VALLEY = Valley(1.0, 0.0, 0.0)


def between(a: Floats, b: Floats, counts: Sequence[float], means: Sequence[float], step: float = 0.0) -> Valley:
    """Test for a valley between two samples on a line.

    Parameters
    ----------
    a, b : ndarray of float64, shapes (s,) and (u,), at least 2 each
    counts : sequence of float, length 2
        Rows that each sample represents.
    means : sequence of float, length 2
        Mean of each sample; the second is the larger.
    step : float
        Distance between neighbouring values along the line, as of integers, which is no valley.

    Returns
    -------
    Valley
        Let f be the sum of both densities, smoothed by a Gaussian of width h. The depth is the least f between the two
        peaks, over the lower peak. Both are taken for Poisson counts in intervals of width ``2 sqrt(pi) h``: z is the
        root of twice the log likelihood ratio of two densities to one, and the error that of the log of the depth. For
        large counts, z is ``-log(depth) / error``; where few rows are counted at the bottom, that is too little.
    """
    spreads = [max(math.hypot(_spread(of_one), step / math.sqrt(12)), _NOTHING) for of_one in (a, b)]
    h = max(BANDWIDTH * min(spreads) * min(len(a), len(b)) ** -0.2, STEPS * step)
    low, high = means[0] - 2 * spreads[0], means[1] + 2 * spreads[1]
    if not low < high:  # as the means have lost their digits, beside rows that are 1e12 times as far as others
        return NO_VALLEY
    n_bins = min(max(math.ceil((high - low) / (h / 3)), BINS[0]), BINS[1])
    width = (high - low) / n_bins
    grid = low, width, n_bins
    return Valley(*_valley(a, b, (counts[0] / len(a), counts[1] / len(b)), grid, max(h, width)))


def excess_kurtosis(a: Floats, b: Floats, counts: Sequence[float]) -> float:
    """Excess kurtosis of two samples on a line together: how much flatter than a Gaussian, if negative.

    Parameters
    ----------
    a, b : ndarray of float64, shapes (s,) and (u,)
    counts : sequence of float, length 2
        Rows that each sample represents.

    Returns
    -------
    kurtosis : float
        0 for a Gaussian, in whatever place it is cut in two; ``-2 q^2 / (1 + q)^2``, ``q = (D / 2)^2``, for two of the
        same size whose means are D standard deviations apart: -0.08 for one, -0.5 for two, -0.96 for three. 0 if all
        values are equal.
    """
    x, weights = np.concatenate([a, b]), np.repeat([counts[0] / len(a), counts[1] / len(b)], [len(a), len(b)])
    squares = (x - np.average(x, weights=weights)) ** 2
    variance = np.average(squares, weights=weights)
    return float(np.average(squares**2, weights=weights) / variance**2 - 3.0) if variance > _NOTHING else 0.0


@compiled
def _spread(x: Floats) -> float:
    """Standard deviation of x (s,)."""
    mean, squares = np.sum(x) / len(x), 0.0
    for value in x:
        squares += (value - mean) ** 2
    return math.sqrt(squares / len(x))


@compiled
def _valley(
    a: Floats, b: Floats, weights: tuple[float, float], grid: tuple[float, float, int], h: float
) -> tuple[float, float, float]:
    """Depth, z and error of the valley between samples a (s,) and b (u,), whose rows have `weights`; see `between`."""
    low, width, n_bins = grid
    smoothing = h / width
    counted = _smoothed_counts(a, low, width, n_bins, smoothing)
    density_z = _smoothed_counts(b, low, width, n_bins, smoothing)
    density_y, density = np.empty(n_bins), np.empty(n_bins)
    for k in range(n_bins):
        density_y[k] = weights[0] * counted[k]
        counted[k] += density_z[k]
        density_z[k] *= weights[1]
        density[k] = density_y[k] + density_z[k]
    first, last = _highest(density_y), _highest(density_z)
    if last <= first:
        return 1.0, 0.0, 0.0
    border = first
    while border < last and density_z[border] < density_y[border]:
        border += 1
    left, right = _highest(density[: border + 1]), border + _highest(density[border:])
    bottom = left
    for k in range(left, right + 1):
        bottom = k if density[k] < density[bottom] else bottom
    peak = left if density[left] <= density[right] else right
    if density[peak] <= 0.0:
        return 1.0, 0.0, 0.0
    depth = density[bottom] / density[peak]
    effective = 2 * math.sqrt(math.pi) * smoothing
    n_bottom, n_peak = effective * counted[bottom], effective * counted[peak]
    error = math.sqrt(1 / (n_bottom if n_bottom > 1.0 else 1.0) + 1 / (n_peak if n_peak > 1.0 else 1.0))
    weight_peak = density[peak] / counted[peak]  # that a row there has, in the mean
    weight_bottom = density[bottom] / counted[bottom] if counted[bottom] > _NOTHING else weight_peak
    return depth, _root_of_deviance((n_bottom, n_peak), (weight_bottom, weight_peak)), error


@compiled
def _highest(density: Floats) -> int:
    """Number of the first interval of highest density (n,)."""
    highest = 0
    for k in range(len(density)):
        highest = k if density[k] > density[highest] else highest
    return highest


@compiled
def _root_of_deviance(counts: tuple[float, float], weights: tuple[float, float]) -> float:
    """Standard errors by which two Poisson counts differ from those of one density, ``weight * count``.

    ``2 sum_i (n_i log(n_i / m_i) - n_i + m_i)``, m the expected counts; the sums of both are equal.
    """
    density = (counts[0] + counts[1]) / (1 / weights[0] + 1 / weights[1])
    deviance = 0.0
    for i in range(2):
        expected = density / weights[i]
        deviance += 2 * (expected - counts[i])
        if counts[i] > 0:
            deviance += 2 * counts[i] * math.log(counts[i] / expected)
    return math.sqrt(deviance) if deviance > 0.0 else 0.0


@compiled
def _smoothed_counts(x: Any, low: float, width: Any, n_bins: int, smoothing: Any) -> Any:
    """Histogram of x (s,), smoothed by a Gaussian of `smoothing` bins and mirrored at its ends: float64 (n_bins,)."""
    counts, smooth = np.zeros(n_bins), np.zeros(n_bins)
    for value in x:
        k = math.floor((value - low) / width)
        if 0 <= k < n_bins:
            counts[int(k)] += 1.0
    reach = math.ceil(4 * smoothing)
    kernel, total = np.empty(2 * reach + 1), 0.0
    for i in range(len(kernel)):
        kernel[i] = math.exp(-0.5 * ((i - reach) / smoothing) ** 2)
        total += kernel[i]
    for k in range(n_bins):
        if counts[k] == 0.0:
            continue
        for i in range(len(kernel)):
            at = k + i - reach
            at = -at - 1 if at < 0 else at
            at = 2 * n_bins - 1 - at if at >= n_bins else at
            if 0 <= at < n_bins:
                smooth[at] += kernel[i] / total * counts[k]
    return smooth
