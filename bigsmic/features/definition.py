"""Definition of windows: their length, their step, and their features."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.numerics.windows import spectral, summary
from bigsmic.types import Floats
from bigsmic.validation import check_integer, check_positive
from bigsmic.weight_functions import identity_of

Feature: TypeAlias = str | Callable[[Floats], Floats]
NAMES = ("raw", "summary", "spectral", "catch22")
DEFAULT = ("summary", "spectral")
LEAST = {"raw": 1, "summary": summary.LEAST_LENGTH, "spectral": spectral.LEAST_LENGTH, "catch22": 10}
"""Least number of samples of a window."""
CHUNK_BYTES, LEAST_CHUNK = 4 << 20, 64
"""float32 bytes of the features of one chunk of windows, and the least number of windows in it."""
SAMPLE_BYTES = 64 << 20
"""float64 bytes of the samples of one chunk of windows, if it has more than the least number."""
TILE_BYTES = 1 << 20
"""float64 bytes of the windows that are described at a time, unless a single one has more."""


@dataclass(frozen=True)
class Definition:
    """Windows of recordings and their features.

    Parameters
    ----------
    length, step : int
        Samples of a window, and from one window to the next.
    features : tuple of str or callable
    channels : tuple of str
        Names.
    rate : float, optional
        Samples per second.
    """

    length: int
    step: int
    features: tuple[Feature, ...]
    channels: tuple[str, ...]
    rate: float | None = None

    def __post_init__(self) -> None:
        check_integer("length", self.length, 1)
        check_integer("step", self.step, 1)
        for feature in self.features:
            self._check_feature(feature)

    def _check_feature(self, feature: Feature) -> None:
        if callable(feature):
            return
        if feature not in NAMES:
            raise InputError(f"features: got {feature!r}; use {', '.join(map(repr, NAMES))}, or a function of windows")
        if self.length < LEAST[feature]:
            raise InputError(
                f"length: got {self.length} samples, {feature!r} describes windows of {LEAST[feature]} or more; "
                "give a longer window or other features"
            )
        if feature == "catch22":
            _catch22()

    def describe(self) -> dict[str, Any]:
        """JSON-like identity of the windows."""
        names = [identity_of(feature) if callable(feature) else feature for feature in self.features]
        return {
            "length": self.length,
            "step": self.step,
            "features": names,
            "channels": list(self.channels),
            "rate": self.rate,
        }

    @property
    def tile(self) -> int:
        """Windows that are described together: a fixed number, so that the bits of one do not depend on the others."""
        return max(1, TILE_BYTES // (8 * self.length * len(self.channels)))

    def chunk_rows(self, n_columns: int) -> int:
        """Windows of one chunk of the archive: a function of the definition alone."""
        by_samples = SAMPLE_BYTES // (8 * self.step * len(self.channels))
        return max(LEAST_CHUNK, min(CHUNK_BYTES // (4 * n_columns), by_samples))

    def task_bytes(self, n_columns: int) -> int:
        """Memory of a task: the features of a chunk, the samples of a tile, and temporary arrays."""
        return self.chunk_rows(n_columns) * (4 * n_columns + 32) + self.tile_bytes + (8 << 20)

    @property
    def tile_bytes(self) -> int:
        """Memory of the samples of a tile, and of temporary arrays."""
        return 80 * self.tile * self.length * len(self.channels)

    def columns(self, found: list[int]) -> list[str]:
        """Names of the columns, given how many each feature has."""
        return [name for i, feature in enumerate(self.features) for name in self._names(feature, found[i])]

    def _names(self, feature: Feature, n_columns: int) -> list[str]:
        if callable(feature):
            name = getattr(feature, "__name__", type(feature).__name__)
            return [f"{name}.{j}" for j in range(n_columns)]
        if feature == "raw":
            return [f"{channel}.{i}" for channel in self.channels for i in range(self.length)]
        if feature == "summary":
            return summary.names(self.channels)
        if feature == "spectral":
            return spectral.names(self.channels, self.length, self.rate)
        return [f"{channel}.{name}" for channel in self.channels for name in _catch22_names()]

    def widths(self) -> list[int]:
        """Number of columns of each feature; a function is called with a window of zeros."""
        zeros = np.zeros((len(self.channels), 1, self.length))
        return [self._one(feature, zeros).shape[1] for feature in self.features]

    def __call__(self, W: NDArray[np.float64], lanes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Features of some windows of a tile.

        Parameters
        ----------
        W : ndarray of float64, shape (channels, tile, length)
            Always has as many windows; those that are not requested may have any finite values.
        lanes : ndarray of int64, shape (b,)
            Numbers of the requested windows.

        Returns
        -------
        features : ndarray of float32, shape (b, d)
            Infinite if they are too large for float32.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            found = [self._of_lanes(feature, W, lanes) for feature in self.features]
            return np.concatenate(found, axis=1).astype(np.float32)

    def _of_lanes(self, feature: Feature, W: NDArray[np.float64], lanes: NDArray[np.int64]) -> Floats:
        """One feature: built-in ones of the whole tile, a caller's function only of the requested windows."""
        if feature in ("raw", "summary", "spectral"):
            return self._one(feature, W)[lanes]
        return self._one(feature, W[:, lanes])

    def _one(self, feature: Feature, W: NDArray[np.float64]) -> Floats:
        if feature == "raw":
            raw: Floats = W.transpose(1, 0, 2).reshape(W.shape[1], -1)
            return raw
        if feature == "summary":
            return summary.features(W)
        if feature == "spectral":
            return spectral.features(W, self.rate)
        if feature == "catch22":
            return _describe_by_catch22(W)
        return _called(feature, np.ascontiguousarray(W.transpose(1, 2, 0)))


def _called(function: Any, windows: Floats) -> Floats:
    """Validated result of a user's function of windows."""
    found = np.asarray(function(windows))
    if found.ndim != 2 or len(found) != len(windows) or found.dtype.kind not in "fiub" or found.shape[1] < 1:
        name = getattr(function, "__name__", type(function).__name__)
        raise InputError(
            f"features: {name} made an array of shape {found.shape}, {found.dtype}, of {len(windows)} windows; it must "
            "return one row of numbers for each"
        )
    return found


def _catch22() -> Any:
    try:
        import pycatch22
    except ImportError:
        raise InputError('features: "catch22" needs pycatch22; pip install "bigsmic[catch22]"') from None
    return pycatch22


def _catch22_names() -> list[str]:
    return list(_catch22().catch22_all(np.sin(np.arange(20.0)).tolist())["names"])


def _describe_by_catch22(W: Floats) -> Floats:
    describe = _catch22().catch22_all
    found = np.array([[describe(x.tolist())["values"] for x in channel] for channel in W], np.float64)
    return found.transpose(1, 0, 2).reshape(W.shape[1], -1)


def samples_in(name: str, value: Any, rate: float | None) -> int:
    """Number of samples, from a number or a duration such as ``"10s"``.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : int or str
    rate : float, optional
        Samples per second.

    Raises
    ------
    InputError
    """
    if not isinstance(value, str):
        check_integer(name, value, 1)
        return int(value)
    if value.isdecimal():
        return samples_in(name, int(value), rate)
    if rate is None:
        raise InputError(f"{name}: got {value!r} without a rate; give rate= or times=, or a number of samples")
    exact = seconds_in(name, value) * rate
    found = round(exact)
    if found < 1 or not math.isclose(exact, found, rel_tol=1e-3):
        raise InputError(
            f"{name}: got {value!r}, {exact:.6g} samples at {rate:.6g} a second; give a whole number of them"
        )
    return found


def seconds_in(name: str, text: str) -> float:
    """Seconds of a duration such as ``"10s"``.

    Raises
    ------
    InputError
    """
    import pandas as pd

    with suppress(ValueError):
        found = pd.Timedelta(text)
        if not pd.isna(found):  # words such as "nan" are no time at all to pandas, which is no error there
            return float(found.total_seconds())
    raise InputError(f"{name}: got {text!r}; give a number of samples, or a duration such as '10s'")


def as_features(features: Feature | Sequence[Feature]) -> tuple[Feature, ...]:
    """The requested features as a tuple.

    Raises
    ------
    InputError
        There are none.
    """
    found = (features,) if isinstance(features, str) or callable(features) else tuple(features)
    if not found:
        raise InputError(f"features: got none; use {', '.join(map(repr, NAMES))}, or a function of windows")
    return found


def channel_names(names: str | Sequence[str] | None, n_channels: int) -> tuple[str, ...]:
    """Names of the channels: the given ones, of which a single text is one, or ``ch0``, ``ch1``, ...

    Raises
    ------
    InputError
        There is not one name for each channel, or names are equal.
    """
    if names is None:
        return tuple(f"ch{i}" for i in range(n_channels))
    found = (names,) if isinstance(names, str) else tuple(map(str, names))
    if len(found) != n_channels or len(set(found)) < n_channels:
        raise InputError(f"channels: got {found} for {n_channels} channels; give a name for each, all different")
    return found


def check_rate(rate: float | None) -> float | None:
    """Validate a sampling rate.

    Raises
    ------
    InputError
    """
    if rate is not None:
        check_positive("rate", rate)
    return None if rate is None else float(rate)
