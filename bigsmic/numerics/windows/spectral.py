"""Features of windows in the frequency domain: amplitude in octaves, centroid and entropy of the spectrum."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import fft

from bigsmic.numerics.windows.summary import means
from bigsmic.types import Floats, Integers

MOST_BANDS = 8
LEAST_LENGTH = 8


def bands(length: int) -> Floats:
    """Edges of the bands in cycles per sample: octaves below half a cycle, down to one cycle per window.

    Parameters
    ----------
    length : int
        Samples of a window.

    Returns
    -------
    edges : ndarray of float64, ascending
        Band i is above ``edges[i]`` and up to ``edges[i + 1]``; the first edge is 0.
    """
    n_bands = min(MOST_BANDS, int(np.log2(length)) - 1)
    return np.append(0.0, 0.5 ** np.arange(n_bands, 0, -1))


def names(channels: Sequence[str], length: int, rate: float | None = None) -> list[str]:
    """Names of the columns of :func:`features`; bands by their upper edge, in Hz if the rate is known."""
    unit, factor = ("Hz", rate) if rate else ("", 1.0)
    of_bands = [f"to_{edge * factor:.4g}{unit}" for edge in bands(length)[1:]]
    return [f"{channel}.{name}" for channel in channels for name in (*of_bands, "centroid", "entropy")]


def features(W: Floats, rate: Any = None) -> Floats:
    """Summary of the spectrum of every window.

    ``P[k] = w_k |F[k]|^2 / (L sum taper^2)`` of the tapered (Hann) deviations from the mean, ``w_k`` is 2 for entries
    that represent two frequencies, so that P sums to about the variance. Per channel: ``sqrt(sum of P)`` in each of
    :func:`bands`, in the unit of the samples; the mean frequency weighted by P; and the entropy of ``P / sum P`` over
    its maximum, 0 for a single line and 1 for white noise. All are 0 for a constant channel.

    Parameters
    ----------
    W : ndarray of float64, shape (channels, b, L)
    rate : float, optional
        Samples per second; the centroid is in Hz then, else in cycles per sample.

    Returns
    -------
    features : ndarray of float64, shape (b, d)
        In the order of :func:`names`.
    """
    length = W.shape[-1]
    taper, frequency, weight, first = _design(length)
    F = fft.rfft((W - means(W)) * taper, axis=-1)[..., 1:]
    P = (F.real**2 + F.imag**2) * weight
    amplitude = np.sqrt(np.stack([part.sum(axis=-1) for part in np.split(P, first, axis=-1)], axis=-1))
    total = P.sum(axis=-1)
    share = np.divide(P, total[..., None], out=np.zeros_like(P), where=total[..., None] > 0)
    centroid = (share * frequency).sum(axis=-1) * (rate or 1.0)
    logs = np.log(share, out=np.zeros_like(share), where=share > 0)
    entropy = -(share * logs).sum(axis=-1) / np.log(len(frequency))
    found = np.concatenate([amplitude, centroid[..., None], entropy[..., None]], axis=-1)
    return found.transpose(1, 0, 2).reshape(W.shape[1], -1)


@cache
def _design(length: int) -> tuple[Floats, Floats, Floats, Integers]:
    """Taper, frequencies above 0, their weights, and the first frequency of every band except the lowest."""
    taper = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)  # Hann
    frequency = np.arange(1, length // 2 + 1) / length
    weight = np.full(len(frequency), 2.0)
    if length % 2 == 0:
        weight[-1] = 1.0
    first = np.searchsorted(frequency, bands(length)[1:-1] * (1 + 1e-12), side="right")
    return taper, frequency, weight / (length * (taper**2).sum()), first
