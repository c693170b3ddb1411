"""Calibration of posteriors: they are raised to the power at which they match the agreement of labelings.

The mean of the posteriors of several labelings is underconfident where clusters are clear, as columns of eigenvectors
overlap more than clusters do. The rate at which two labelings agree needs no true labels, and is about the rate at
which a label is right.
"""

from typing import Any

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.frozen import frozen
from bigsmic.types import Floats

POWERS = 2.0 ** np.linspace(0, 4, 17)
"""Powers that are tried; the result is interpolated between two of them."""


def sharpened(posterior: Floats, power: float) -> Floats:
    """``p_y^power / sum_z p_z^power``.

    Parameters
    ----------
    posterior : ndarray of float32, shape (b, c)
        Rows sum to 1.
    power : float
        At least 1, which changes nothing.

    Returns
    -------
    posterior : ndarray of float32, shape (b, c)
        The order within a row is unchanged; a row does not depend, to the last bit, on the others.
    """
    if power == 1.0:
        return posterior
    found = np.empty(posterior.shape, np.float32)
    _sharpen(frozen(posterior, np.float32), power, found)
    return found


@compiled
def _sharpen(posterior: Any, power: float, found: Floats) -> None:
    """``found[i] = posterior[i] ** power``, over its sum; both (b, c), computed in float64."""
    for i in range(len(posterior)):
        largest, total = np.float64(posterior[i, 0]), 0.0
        for y in range(1, posterior.shape[1]):
            largest = posterior[i, y] if posterior[i, y] > largest else largest
        for y in range(posterior.shape[1]):
            total += (posterior[i, y] / largest) ** power
        for y in range(posterior.shape[1]):
            found[i, y] = (posterior[i, y] / largest) ** power / total


def claim_sums(posterior: Floats, agreement: Floats) -> Floats:
    """Sums of the largest posteriors of one block for each of :data:`POWERS`, and of the agreement of labelings.

    Parameters
    ----------
    posterior : ndarray of float32, shape (b, c)
    agreement : ndarray of float32, shape (b,)
        Share of the labelings that vote for the row's label.

    Returns
    -------
    sums : ndarray of float64, shape (2 + len(POWERS),)
        Number of rows; sum of squared agreements, each the probability that two random labelings both vote for the
        label; sums of largest posteriors. Add over blocks.
    """
    claims = np.zeros(len(POWERS))
    _claims(frozen(posterior, np.float32), POWERS, claims)
    return np.concatenate([[len(posterior), np.square(agreement, dtype=np.float64).sum()], claims])


@compiled
def _claims(posterior: Any, powers: Floats, claims: Floats) -> None:
    """Add to ``claims[k]`` the largest posterior of every row at ``powers[k]``, from `posterior` (b, c).

    It is ``1 / sum_y (p_y / max p) ** power``.
    """
    logs = np.empty(posterior.shape[1])
    for i in range(len(posterior)):
        largest = posterior[i, 0]
        for y in range(1, len(logs)):
            largest = max(largest, posterior[i, y])
        for y in range(len(logs)):
            logs[y] = np.log(np.float64(max(posterior[i, y] / largest, np.float32(1e-30))))
        for k in range(len(powers)):
            total = 0.0
            for y in range(len(logs)):
                total += np.exp(powers[k] * logs[y])
            claims[k] += 1 / total


def power_of(sums: Floats) -> float:
    """Power at which the largest posterior is, on average, the probability that two labelings agree on the label.

    Parameters
    ----------
    sums : ndarray of float64
        Total of `claim_sums`.

    Returns
    -------
    power : float
        From 1, if the posterior is confident enough already, to the last of :data:`POWERS`.
    """
    agreed, claims = sums[1] / sums[0], sums[2:] / sums[0]
    return float(np.interp(agreed, claims, POWERS))
