"""Validity of windows: those without gaps in time, and without NaN or infinity."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.types import Floats

TOLERANCE = 0.5
"""Largest deviation of the time between two samples from one period, in periods."""
PERIOD_SAMPLES = 4096  # from whose times the period is estimated


def period_of(times: Floats) -> float:
    """Time between samples: the median of the differences, except those that are NaN; 0.0 if there are none."""
    steps = np.diff(times)
    steps = steps[~np.isnan(steps)]
    return float(np.median(steps)) if len(steps) else 0.0


def irregular(times: Floats, period: float) -> NDArray[np.bool_]:
    """Whether each sample is too early or too late relative to the one before it.

    Parameters
    ----------
    times : ndarray, shape (m,)
        Of consecutive samples; integers are subtracted as integers.
    period : float
        In units of the times.

    Returns
    -------
    irregular : ndarray of bool, shape (m,)
        False for the first sample; True where time does not increase, or is NaN.
    """
    found = np.zeros(len(times), bool)
    found[1:] = ~(np.abs(np.diff(times) - period) <= TOLERANCE * period)
    return found


def any_in_windows(flags: Any, length: int, step: int) -> NDArray[np.bool_]:
    """Whether any sample of each window is flagged.

    Parameters
    ----------
    flags : ndarray of bool, shape (m,)
    length, step : int

    Returns
    -------
    flagged : ndarray of bool, shape ((m - length) // step + 1,)
    """
    before = np.append(0, np.cumsum(flags))
    first = np.arange(0, len(flags) - length + 1, step)
    return before[first + length] > before[first]
