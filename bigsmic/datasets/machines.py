"""A machine that is recorded day by day: regimes that follow on each other, a fault, a sensor that drifts."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.datasets.row_generators import BlockSimulator, require
from bigsmic.errors import InputError
from bigsmic.types import Sample

CHANNELS = ("pressure", "flow", "current", "temperature")


class Regime(NamedTuple):
    """How the machine works at a time.

    Parameters
    ----------
    name : str
    share : float
        Of the stretches of time, before the fault.
    level, stroke : tuple of float
        Mean of every channel, and the amplitude with which it goes up and down in every cycle.
    period : float
        Seconds of a cycle.
    sharpness : float
        Amplitude of the third harmonic, in strokes.
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
"""The last one is the fault."""
NOISE = np.array([1.0, 0.3, 0.3, 0.2])
"""Standard deviation of a sample, by channel."""
MOST_FAULTY = 0.5
"""Share that stretches with the fault come to at most."""


@dataclass(frozen=True)
class MachineSimulator(BlockSimulator):
    """Recording of a hydraulic machine: pressure, flow, current and temperature, sample by sample.

    Regimes last for some time, exponentially distributed; speed and load of every stretch are its own. From
    `fault_day` on there are stretches with a leak, more of them every day. From `drift_day` on the thermometer shows
    more every day.

    Parameters
    ----------
    n_rows : int
        Samples of the whole; ``day_samples`` make a day.
    seed : int
    day_samples : int
    rate : float
        Samples per second.
    hold : float
        Seconds that a regime lasts on average.
    variation : float
        Standard deviation, as a share, by which speed and load of stretches differ.
    fault_day, drift_day : int, optional
        The first day is 0; never if not given.
    fault_growth : float
        By which the share of stretches with the leak grows every day.
    drift : float
        Degrees by which the thermometer shows more every day.

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

    @property
    def n_features(self) -> int:
        """Channels."""
        return len(CHANNELS)

    @property
    def chunk_rows(self) -> int:
        """Samples of a day, which is drawn as a whole."""
        return self.day_samples

    def day(self, number: int) -> Sample:
        """Samples of a day, and the regime of each; the first day is 0."""
        lo = number * self.day_samples
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
        """Samples of stretches of time that are a day, or more, together."""
        left, lengths = self.day_samples, []
        while left > 0:
            lengths.append(1 + int(rng.exponential(self.hold * self.rate)))
            left -= lengths[-1]
        return np.array(lengths)

    def _shares(self, number: int) -> NDArray[np.float64]:
        """Of the regimes, on a day."""
        faulty = min(MOST_FAULTY, self.fault_growth * _days_since(self.fault_day, number))
        shares: NDArray[np.float64] = (1 - faulty) * _of_regimes("share")
        shares[-1] = faulty
        return shares


def _of_regimes(name: str) -> NDArray[np.float64]:
    return np.array([getattr(regime, name) for regime in REGIMES])


def _days_since(first: int | None, number: int) -> int:
    """1 on the first day of something, 0 before it."""
    return 0 if first is None else max(0, number - first + 1)
