"""Spikes of several neurons recorded by a few electrode wires, as spike sorters receive them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bigsmic.datasets.row_generators import CHUNK_ROWS, BlockSimulator, require, require_at_most, require_finite
from bigsmic.errors import InputError
from bigsmic.types import Floats, Integers, Sample

BIOPHYSICAL: dict[str, Any] = {
    "noise": 8.0,
    "noise_memory": (1.557, -0.693),
    "noise_shared": 0.2,
    "amplitudes": (28.0, 180.0),
    "apart": 40.0,
    "overlap": 0.24,
    "overlap_any": True,
    "drift": 0.0,
}
"""Options that make the spikes similar to those of a tetrode simulated with biophysical cell models (18 neurons,
548,132 spikes in an hour, 24 % of them with another within 1 ms). With 18 units and ``size_exponent=0.55``, which gives
its sizes, the values of these and of those spikes are: standard deviation of the background 8.0 and 8.0 uV, its
correlation at lags of one to three samples .92 .74 .52 and .92 .74 .58, between wires .20 and .20; median amplitude 59
and 57 uV; spread of amplitudes within a neuron beyond the noise .06 and .05; median distance to the nearest mean spike
73 and 68 uV; variance within neurons .49 and .47 of the total. Two values differ more: ten principal components explain
.85 and .91 of the variance, and the median neuron's amplitude on its second-best wire is .76 and .62 of that on its
best."""

LIFELIKE: dict[str, Any] = BIOPHYSICAL | {"burst_decay": 0.85, "drift": 8.0}
"""`BIOPHYSICAL` with two properties that recordings of animals have and that simulation lacks: each spike of a burst
loses 15 % of its amplitude for every earlier one, and neurons drift along the wires. Neither is fitted to a
recording."""

HASH: dict[str, Any] = LIFELIKE | {
    "amplitudes": (45.0, 220.0),
    "size_exponent": 1.2,
    "hash_share": 0.8,
    "threshold": 36.0,
}
"""`LIFELIKE` with four rows in five in the hash, as in recordings sorted by hand: with 1,500 to 10,000 rows and 4 to 10
units, a unit has about 10 to 900 spikes. The threshold is 4.5 standard deviations of the background."""

PHASES = 32
"""Sub-sample shifts at which a spike's shape is tabulated: 1/32 sample changes a 300 uV spike by less than 2 uV."""

_LEAST = {"n_units": 1, "n_channels": 1, "n_samples": 8, "hash_neurons": 1, "threshold": 1}
_LEAST |= dict.fromkeys(
    ("noise", "noise_shared", "overlap", "apart", "drift", "burst_share", "burst_decay", "hash_share"), 0
)
_MOST = {"overlap": 1, "noise_shared": 1, "burst_decay": 1, "burst_share": 0.9, "hash_share": 0.99}


class TetrodeUnits(NamedTuple):
    """Properties of the u simulated neurons.

    Parameters
    ----------
    share : ndarray of float64, shape (u,)
        Probability that a spike is the unit's; descending, sum 1.
    narrow : ndarray of bool, shape (u,)
        Inhibitory: narrow spikes, no bursts.
    position, drift : ndarray of float64, shape (u, 3)
        Position in um in the middle of the recording, and displacement from its beginning to its end.
    amplitude : ndarray of float64, shape (u,)
        Depth in uV of the spike on its best channel, in the middle of the recording.
    shape : ndarray of float64, shape (u, 6)
        Width of the trough; delay, width and height of the positive wave after it; height and delay of the
        positive wave before it. Times are in samples, heights relative to the trough.
    """

    share: np.ndarray
    narrow: np.ndarray
    position: np.ndarray
    drift: np.ndarray
    amplitude: np.ndarray
    shape: np.ndarray


@dataclass(frozen=True)
class TetrodeSimulator(BlockSimulator):
    """Spikes of several neurons recorded by a few electrode wires, in time order.

    A unit has a position near the wires, and so an amplitude on each wire that decreases with distance and drifts
    slowly, and a spike shape of three lobes. Spikes of a burst shrink, alignment is off by part of a sample, the
    background is correlated in time and across wires, and a share of the rows contains a second spike. The sizes
    of units follow a power law.

    With the defaults, spikes are easier to sort than those of recordings; `BIOPHYSICAL` and `LIFELIKE` are options
    that make them harder. A share of the rows may be hash: spikes of many distant neurons just above the detection
    threshold, each of which has too few spikes to be a cluster. Their label is -1.

    Parameters
    ----------
    n_rows : int
        Spikes in total, at least 1.
    seed : int
        Equal seeds give equal data.
    n_units : int
        Number of neurons, which are the clusters.
    n_channels, n_samples : int
        Wires, and samples of a spike on each at 30 kHz; a row has the samples of the first wire, then of the next.
    size_exponent : float
        Unit k of 1..n_units fires in proportion to ``k ** -size_exponent``: .9 gives 33 units a range of 23.
    noise : float
        Mean standard deviation of the background in uV; wires differ by up to a fifth.
    overlap : float
        Share of rows with a second spike at a random lag.
    overlap_any : bool
        If True, the second spike is that of any other neuron, at most 1 ms earlier or later, as if spikes were aligned
        on known times. If False, its neuron is one of at most the same depth (perhaps the same one), because detectors
        align on the deeper of two spikes, and it comes at most half a window earlier or a window later.
    noise_memory : tuple of float
        The two coefficients of the background's autoregression.
    noise_shared : float
        Correlation of the background between wires.
    amplitudes : tuple of float
        Range of the units' depths in uV on their best wire; their logarithms are uniform.
    apart : float
        Least Euclidean distance in uV between the mean spikes of two units, over the whole row; it is lowered if too
        few units can be drawn with it.
    drift : float
        Standard deviation in um, along each axis, of a unit's displacement from the beginning to the end of the
        recording.
    burst_share : float
        Probability of each further earlier spike in the burst; narrow spikes do not burst.
    burst_decay : float
        Factor on the amplitude for each earlier spike in the burst, for five at most.
    hash_share : float
        Share of rows, below 1, that are hash.
    hash_neurons : int
        Number of distant neurons in the hash; all fire equally often.
    threshold : float
        Least depth in uV of a neuron of the hash on its best wire; the largest is twice that. Large depths are rarer,
        because neurons fill the space evenly and depth is proportional to 1 / distance.

    Raises
    ------
    InputError
        A parameter is out of its range.
    """

    n_units: int = 12
    n_channels: int = 4
    n_samples: int = 38
    size_exponent: float = 0.9
    noise: float = 11.0
    overlap: float = 0.06
    overlap_any: bool = False
    noise_memory: tuple[float, float] = (1.05, -0.35)
    noise_shared: float = 0.4
    amplitudes: tuple[float, float] = (50.0, 300.0)
    apart: float = 185.0  # any sorter would take nearer ones for one unit
    drift: float = 4.0
    burst_share: float = 0.35
    burst_decay: float = 0.93
    hash_share: float = 0.0
    hash_neurons: int = 300
    threshold: float = 50.0

    _candidates_per_unit: ClassVar[int] = 10
    _peak: ClassVar[float] = 12 / 38  # position of the trough in a detector's window
    _wire_radius: ClassVar[float] = 12.5
    _farthest: ClassVar[float] = 120.0  # um, of neurons of the hash; twice the distance of the nearest
    _lag: ClassVar[int] = 30  # samples, 1 ms

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in _LEAST.items():
            require(name, getattr(self, name), least)
        for name, most in _MOST.items():
            require_at_most(name, getattr(self, name), most)
        require_finite("size_exponent", self.size_exponent)
        low, high = self.amplitudes
        require("amplitudes[0]", low, 1)
        require("amplitudes[1]", high, low)
        _require_stationary(*self.noise_memory)

    @property
    def n_features(self) -> int:
        """Columns of X: channels times samples."""
        return self.n_channels * self.n_samples

    @cached_property
    def units(self) -> TetrodeUnits:
        """The neurons drawn for this seed: candidates in turn, except those too similar to one already taken."""
        candidates = self._candidates(self._candidates_per_unit * self.n_units)
        waves = self._windows(candidates, n_phases=1)[:, 0, :, self.n_samples] * self._depths(candidates)[:, :, None]
        taken = _spread(waves.reshape(len(waves), -1), self.n_units, self.apart)
        share = np.arange(1, self.n_units + 1) ** -float(self.size_exponent)
        return TetrodeUnits(share / share.sum(), *(field[taken] for field in candidates[1:]))

    def _candidates(self, size: int) -> TetrodeUnits:
        rng = self._generator("units")
        low, high = self.amplitudes
        narrow = rng.random(size) < 0.3
        direction = rng.standard_normal((size, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return TetrodeUnits(
            share=np.full(size, 1 / size),
            narrow=narrow,
            position=direction * rng.uniform(15, 45, (size, 1)),
            drift=rng.normal(0, self.drift, (size, 3)),
            amplitude=low * (high / low) ** rng.random(size),
            shape=_spike_shapes(narrow, rng),
        )

    @cached_property
    def _neurons(self) -> TetrodeUnits:
        """All neurons: the units, then those of the hash."""
        if not self.hash_share:
            return self.units
        distant = self._distant()
        share = np.concatenate([(1 - self.hash_share) * self.units.share, distant.share])
        fields = zip(self.units[1:], distant[1:], strict=True)
        return TetrodeUnits(share, *(np.concatenate(pair) for pair in fields))

    def _distant(self) -> TetrodeUnits:
        """Neurons that fill a shell around the wires evenly; their depths are proportional to 1 / distance."""
        rng, size = self._generator("hash"), self.hash_neurons
        narrow = rng.random(size) < 0.3
        direction = rng.standard_normal((size, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        relative = np.cbrt(rng.uniform(1 / 8, 1, size))  # of the farthest distance, 1/2 to 1
        return TetrodeUnits(
            share=np.full(size, self.hash_share / size),
            narrow=narrow,
            position=direction * (self._farthest * relative)[:, None],
            drift=rng.normal(0, self.drift, (size, 3)),
            amplitude=self.threshold / relative,
            shape=_spike_shapes(narrow, rng),
        )

    @cached_property
    def _wires(self) -> Floats:
        angle = 2 * np.pi * np.arange(self.n_channels) / self.n_channels
        return self._wire_radius * np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)

    def _depths(self, units: TetrodeUnits) -> Floats:
        """Depth in uV of each unit's spike on each wire, in the middle of the recording."""
        falloff = self._falloff(units.position)
        return falloff * (units.amplitude / falloff.max(axis=1))[:, None]

    @cached_property
    def _wire_noise(self) -> Floats:
        return (self.noise * self._generator("wires").uniform(0.8, 1.2, self.n_channels)).astype(np.float32)

    @cached_property
    def _spike_windows(self) -> Floats:
        return self._windows(self._neurons)

    @np.errstate(under="ignore")  # long before and after a spike
    def _windows(self, units: TetrodeUnits, n_phases: int = PHASES) -> Floats:
        """View (unit, phase, channel, lag, sample) of the spike table; lag 0 starts one window early."""
        late, wide = self._distance_effects(units)
        peak = round(self._peak * self.n_samples)
        t = np.arange(-self.n_samples, 2 * self.n_samples) - peak
        shifted = t - np.arange(n_phases)[:, None, None] / n_phases
        table = _spike_wave((shifted - late[:, None, :, None]) / wide[:, None, :, None], units.shape)
        return sliding_window_view(table.astype(np.float32), self.n_samples, axis=-1)

    def _distance_effects(self, units: TetrodeUnits) -> tuple[Floats, Floats]:
        """Delay in samples and widening of each unit's spike on each wire: both grow with distance."""
        distance = np.linalg.norm(units.position[:, None] - self._wires, axis=2)
        extra = distance - distance.min(axis=1, keepdims=True)
        return extra / 30, 1 + extra / 150

    def _falloff(self, position: Floats) -> Floats:
        squared = ((position[:, None] - self._wires) ** 2).sum(axis=2)
        return 1 / np.sqrt(squared + 10.0**2)

    def _chunk(self, chunk: int) -> Sample:
        rng = self._generator("chunk", chunk)
        time = (chunk * CHUNK_ROWS + np.arange(CHUNK_ROWS)) / self.n_rows
        neurons = self._draw_neurons(rng, CHUNK_ROWS)
        X = self._background(rng)
        X += self._spikes(rng, neurons, time, np.zeros(CHUNK_ROWS))
        also = np.flatnonzero(rng.random(CHUNK_ROWS) < self.overlap)
        lag = rng.integers(*self._lags, also.size)
        X[also] += self._spikes(rng, self._draw_others(rng, neurons[also]), time[also], lag)
        labels = np.where(neurons < self.n_units, neurons, np.int32(-1))
        return X.reshape(CHUNK_ROWS, -1), labels

    @property
    def _lags(self) -> tuple[int, int]:
        """Range of a second spike's lag in samples, half-open; the table of spikes reaches one window each way."""
        if not self.overlap_any:
            return -(self.n_samples // 2), self.n_samples
        reach = min(self._lag, self.n_samples - 1)
        return -reach, reach + 1

    def _draw_neurons(self, rng: np.random.Generator, size: int) -> NDArray[np.int32]:
        bounds = np.cumsum(self._neurons.share)[:-1]
        return np.searchsorted(bounds, rng.random(size), side="right").astype(np.int32)

    def _draw_others(self, rng: np.random.Generator, neurons: Integers) -> Integers:
        return self._draw_another(rng, neurons) if self.overlap_any else self._draw_weaker(rng, neurons)

    def _draw_another(self, rng: np.random.Generator, neurons: Integers) -> Integers:
        """For each neuron a different one, if there is any: a neuron does not fire twice within a millisecond."""
        share = self._neurons.share
        below = np.cumsum(share)
        at = rng.random(neurons.size) * (1 - share[neurons])
        at += np.where(at >= (below - share)[neurons], share[neurons], 0)
        return np.searchsorted(below[:-1], at, side="right")

    def _draw_weaker(self, rng: np.random.Generator, neurons: Integers) -> Integers:
        """For each neuron one of at most its depth: a detector aligns two spikes on the deeper one."""
        order = np.argsort(self._neurons.amplitude)
        below = np.cumsum(self._neurons.share[order])
        reach = below[np.argsort(order)[neurons]]
        return order[np.searchsorted(below[:-1], rng.random(neurons.size) * reach, side="right")]

    def _spikes(self, rng: np.random.Generator, units: Integers, time: Floats, lag: NDArray[Any]) -> Floats:
        """Noise-free spikes, shape (rows, channels, samples)."""
        shift = lag + rng.uniform(-0.5, 0.5, units.size) + rng.normal(0, 0.1, units.size)
        late = np.floor(shift)
        phase = ((shift - late) * PHASES).astype(np.intp)
        start = self.n_samples - late.astype(np.intp)
        spikes = self._spike_windows[units, phase, :, start]
        spikes *= self._amplitudes(rng, units, time).astype(np.float32)[:, :, None]
        return spikes

    def _amplitudes(self, rng: np.random.Generator, units: Integers, time: Floats) -> Floats:
        """Scale of each spike on each wire, in uV, from position at that time, burst, and random variation."""
        neurons = self._neurons
        place = neurons.position[units] + neurons.drift[units] * (time - 0.5)[:, None]
        earlier = rng.geometric(1 - self.burst_share, units.size) - 1
        burst = np.where(neurons.narrow[units], 1.0, self.burst_decay ** np.minimum(earlier, 5))
        chance = np.exp(rng.normal(0, 0.04, units.size))
        gain = neurons.amplitude / self._falloff(neurons.position).max(axis=1)
        return self._falloff(place) * (gain[units] * burst * chance)[:, None]

    def _background(self, rng: np.random.Generator) -> Floats:
        """Second-order autoregressive noise, partly common to all wires, shape (rows, channels, samples)."""
        a, b = self.noise_memory
        first = a / (1 - b)  # lag-one correlation of the stationary process
        z = rng.standard_normal((self.n_samples, CHUNK_ROWS, self.n_channels + 1), dtype=np.float32)
        z[1:2] *= np.float32(np.sqrt(1 - first**2))
        z[1] += np.float32(first) * z[0]
        z[2:] *= np.float32(np.sqrt((1 - b**2) * (1 - first**2)))
        for i in range(2, self.n_samples):
            z[i] += np.float32(a) * z[i - 1] + np.float32(b) * z[i - 2]
        shared = np.float32(self.noise_shared)
        mixed = np.sqrt(1 - shared) * z[..., :-1] + np.sqrt(shared) * z[..., -1:]
        return np.ascontiguousarray((mixed * self._wire_noise).transpose(1, 2, 0), dtype=np.float32)


def tetrodes(n_rows: int = 50_000, n_units: int = 12, *, seed: int = 0, **options: Any) -> Sample:
    """Simulate tetrode spikes; :class:`TetrodeSimulator` gives them block by block.

    Parameters
    ----------
    n_rows, n_units, seed : int
        Spikes, neurons, seed.
    **options
        Further parameters of :class:`TetrodeSimulator`.

    Returns
    -------
    X : ndarray of float32, shape (n_rows, n_channels * n_samples)
        In uV.
    labels : ndarray of int32, shape (n_rows,)
        -1 for the hash.

    Raises
    ------
    InputError
        A parameter is out of its range.
    """
    simulator = TetrodeSimulator(n_rows=n_rows, n_units=n_units, seed=seed, **options)
    return simulator.block(0, n_rows)


def _require_stationary(a: float, b: float) -> None:
    if not (abs(b) < 1 and abs(a) < 1 - b):
        raise InputError(
            f"simulate: noise_memory=({a!r}, {b!r}) is not stationary; use coefficients with |b| < 1 and |a| < 1 - b"
        )


def _spread(points: Floats, size: int, apart: float) -> list[int]:
    """The first `size` points at least `apart` from all taken before; `apart` is lowered until there are enough."""
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    while True:
        taken: list[int] = []
        for i in range(len(points)):
            if len(taken) < size and (squared[i, taken] >= apart**2).all():
                taken.append(i)
        if len(taken) == size:
            return taken
        apart *= 0.9


def _spike_shapes(narrow: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """Parameters of the lobes, one row per unit, in the order of ``TetrodeUnits.shape``."""
    u = narrow.size
    width = np.where(narrow, rng.uniform(1.6, 2.4, u), rng.uniform(2.6, 4.2, u))
    after_delay = np.where(narrow, rng.uniform(6, 9, u), rng.uniform(10, 16, u))
    after_width = after_delay * rng.uniform(0.35, 0.5, u)
    after_height = np.where(narrow, rng.uniform(0.3, 0.6, u), rng.uniform(0.15, 0.45, u))
    before_height = rng.uniform(0.0, 0.35, u)
    before_delay = width * rng.uniform(2.0, 3.0, u)
    return np.stack([width, after_delay, after_width, after_height, before_height, before_delay], axis=1)


def _spike_wave(t: Floats, shape: Floats) -> Floats:
    """Spike of depth 1 at times `t` (units first): a negative lobe between two positive ones."""
    width, after_delay, after_width, after, before, before_delay = shape.T[:, :, None, None, None]
    trough = np.exp(-0.5 * (t / width) ** 2)
    wave_after = after * np.exp(-0.5 * ((t - after_delay) / after_width) ** 2)
    wave_before = before * np.exp(-0.5 * ((t + before_delay) / width) ** 2)
    return wave_after + wave_before - trough
