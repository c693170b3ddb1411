"""Features of windows in the time domain: level, spread, quantiles, range, crossings, jerk, and correlations."""

import itertools
from collections.abc import Sequence

import numpy as np

from bigsmic.types import Floats

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
PER_CHANNEL = ("mean", "std", *(f"q{round(100 * q):02d}" for q in QUANTILES), "range", "crossings", "jerk")
MOST_PAIRED = 8
"""Number of channels up to which all pairs are correlated; with more, each channel with the next one."""
LEAST_LENGTH = 2


def pairs(n_channels: int) -> list[tuple[int, int]]:
    """Pairs of channels whose correlation is computed: list of (int, int)."""
    if n_channels > MOST_PAIRED:
        return list(itertools.pairwise(range(n_channels)))
    return list(itertools.combinations(range(n_channels), 2))


def names(channels: Sequence[str]) -> list[str]:
    """Names of the columns of :func:`features`, for the names of the channels."""
    single = [f"{channel}.{name}" for channel in channels for name in PER_CHANNEL]
    return single + [f"{channels[i]}~{channels[j]}.correlation" for i, j in pairs(len(channels))]


def features(W: Floats) -> Floats:
    """Summary of every window.

    Per channel, ``x`` being its L samples: mean; standard deviation; quantiles, interpolated linearly; largest minus
    smallest sample; ``crossings``, share of consecutive samples on different sides of the mean; ``jerk``, root mean
    square of ``x[i + 1] - x[i]``. Per pair of channels, the correlation, 0 if one of them is constant.

    Parameters
    ----------
    W : ndarray of float64, shape (channels, b, L)

    Returns
    -------
    features : ndarray of float64, shape (b, d)
        In the order of :func:`names`.
    """
    mean = means(W)
    D = W - mean
    std = np.sqrt((D * D).mean(axis=-1))
    step = np.diff(W, axis=-1)
    above = D > 0
    ordered = np.sort(W, axis=-1)
    found = [
        mean[..., 0],
        std,
        *(_quantile(ordered, q) for q in QUANTILES),
        ordered[..., -1] - ordered[..., 0],
        (above[..., 1:] != above[..., :-1]).mean(axis=-1),
        np.sqrt((step * step).mean(axis=-1)),
    ]
    single = np.stack(found, axis=-1).transpose(1, 0, 2).reshape(W.shape[1], -1)
    correlations = [_correlation(D[i], D[j], std[i] * std[j]) for i, j in pairs(len(W))]
    return np.concatenate([single, np.stack(correlations, axis=1)], axis=1) if correlations else single


def means(W: Floats) -> Floats:
    """Mean of each window and channel, with an axis of 1 in place of the samples; that of equal ones is not rounded."""
    first = W[..., :1]
    return np.where((first == W).all(axis=-1, keepdims=True), first, W.mean(axis=-1, keepdims=True))


def _quantile(ordered: Floats, q: float) -> Floats:
    """Quantile of sorted samples, interpolated linearly."""
    at = q * (ordered.shape[-1] - 1)
    low = int(at)
    high = min(low + 1, ordered.shape[-1] - 1)
    return ordered[..., low] + (at - low) * (ordered[..., high] - ordered[..., low])


def _correlation(left: Floats, right: Floats, scale: Floats) -> Floats:
    covariance = (left * right).mean(axis=-1)
    return np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
