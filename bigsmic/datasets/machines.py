"""Recording of a machine, day by day: successive operating regimes, a fault, a sensor that drifts."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.datasets.row_generators import BlockSimulator, require, require_finite
from bigsmic.errors import InputError
from bigsmic.types import Sample

CHANNELS = ("pressure", "flow", "current", "temperature")


class Regime(NamedTuple):
    """An operating regime of the machine.

    Parameters
    ----------
    name : str
    share : float
        Share of the episodes that have this regime before the fault.
    level, stroke : tuple of float
        Mean of every channel, and amplitude of its cycle.
    period : float
        Seconds of a cycle.
    sharpness : float
        Amplitude of the third harmonic, as a multiple of the stroke.
    """

    name: str
    share: float
    level: tuple[float, ...]
    stroke: tuple[float, ...]
    period: float
    sharpness: float


REGIMES = (
    Regime("idle", 0.30, (10.0, 0.5, 2.0, 35.0), (0.1, 0.05, 0.05, 0.0), 30.0, 0.0),
    Regime("slow", 0.35, (60.0, 8.0, 10.0, 45.0), (15.0, 3.0, 2.0, 0.3), 24.0, 0.1),
    Regime("fast", 0.25, (65.0, 16.0, 14.0, 50.0), (15.0, 6.0, 3.0, 0.3), 8.0, 0.1),
    Regime("heavy", 0.10, (110.0, 7.0, 22.0, 55.0), (30.0, 3.0, 8.0, 0.5), 24.0, 0.4),
    Regime("leak", 0.00, (48.0, 11.0, 13.0, 46.0), (22.0, 1.5, 4.0, 0.3), 24.0, 0.5),
)
"""Regimes of the machine; the last one is the fault."""
NOISE = np.array([1.0, 0.3, 0.3, 0.2])
"""Standard deviation of a sample, by channel."""
MOST_FAULTY = 0.5
"""Largest share of episodes with the fault."""


@dataclass(frozen=True)
class MachineSimulator(BlockSimulator):
    """Recording of a hydraulic machine: pressure, flow, current and temperature, sample by sample.

    The machine works in one regime for an exponentially distributed time; each such episode has its own speed and load.
    From `fault_day` on, some episodes have a leak, more of them every day. From `drift_day` on, the reading of the
    thermometer rises every day.

    Parameters
    ----------
    n_rows : int
        Samples in total; ``day_samples`` of them make a day.
    seed : int
    day_samples : int
    rate : float
        Samples per second.
    hold : float
        Mean duration of an episode, in seconds.
    variation : float
        Standard deviation of the logarithms of speed and load over episodes.
    fault_day, drift_day : int, optional
        First day of the fault and of the drift, counted from 0; never by default.
    fault_growth : float
        Daily increase of the share of episodes with the leak.
    drift : float
        Daily increase of the thermometer's reading, in degrees.

    Raises
    ------
    InputError
        A parameter is out of its range.
    """

    n_rows: int = 2_592_000
    day_samples: int = 86_400
    rate: float = 1.0
    hold: float = 1200.0
    variation: float = 0.1
    fault_day: int | None = None
    drift_day: int | None = None
    fault_growth: float = 0.03
    drift: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require("day_samples", self.day_samples, 1)
        for name in ("variation", "fault_growth"):
            require(name, getattr(self, name), 0)
        for name in ("rate", "hold"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}: got {getattr(self, name)}; give a number above 0")
        for name in ("rate", "hold", "drift"):
            require_finite(name, getattr(self, name))

    @property
    def n_features(self) -> int:
        """Channels."""
        return len(CHANNELS)

    @property
    def chunk_rows(self) -> int:
        """Samples of a day, which are drawn together."""
        return self.day_samples

    def day(self, number: int) -> Sample:
        """Samples of a day, and the regime of each.

        Parameters
        ----------
        number : int
            Of the day; the first one is 0.

        Returns
        -------
        X : ndarray of float32, shape (day_samples, 4)
            Pressure, flow, current and temperature; the last day may be shorter.
        regime : ndarray of int32, shape (day_samples,)
            Number in :data:`REGIMES`.

        Raises
        ------
        InputError
            There is no such day.
        """
        lo = number * self.day_samples
        if not 0 <= lo < self.n_rows:
            raise InputError(f"day: got {number}; use days from 0 to {(self.n_rows - 1) // self.day_samples}")
        return self.block(lo, min(lo + self.day_samples, self.n_rows))

    def _chunk(self, number: int) -> Sample:
        rng = self._generator("day", number)
        lengths = self._lengths(rng)
        stretch = np.repeat(np.arange(len(lengths)), lengths)[: self.day_samples]
        regime = rng.choice(len(REGIMES), len(lengths), p=self._shares(number))[stretch]
        speed, load = np.exp(self.variation * rng.normal(size=(2, len(lengths))))[:, stretch]
        level, stroke, period, sharpness = (_of_regimes(name)[regime] for name in Regime._fields[2:])
        phase = 2 * np.pi * np.cumsum(speed / (period * self.rate))
        cycle = np.sin(phase) + sharpness * np.sin(3 * phase)
        X = level + stroke * cycle[:, None]
        X[:, :-1] *= load[:, None]
        X += NOISE * rng.normal(size=X.shape)
        X[:, -1] += self.drift * _days_since(self.drift_day, number)
        return X.astype(np.float32), regime.astype(np.int32)

    def _lengths(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Lengths, in samples, of episodes that together last a day or more."""
        left, lengths = self.day_samples, []
        while left > 0:
            lengths.append(1 + int(rng.exponential(self.hold * self.rate)))
            left -= lengths[-1]
        return np.array(lengths)

    def _shares(self, number: int) -> NDArray[np.float64]:
        """Probability of each regime on a day."""
        faulty = min(MOST_FAULTY, self.fault_growth * _days_since(self.fault_day, number))
        shares: NDArray[np.float64] = (1 - faulty) * _of_regimes("share")
        shares[-1] = faulty
        return shares


def _of_regimes(name: str) -> NDArray[np.float64]:
    return np.array([getattr(regime, name) for regime in REGIMES])


def _days_since(first: int | None, number: int) -> int:
    """Days since `first`, counted from 1; 0 before it."""
    return 0 if first is None else max(0, number - first + 1)
