"""Simulated data with known labels: tetrode spikes, Gaussian mixtures, and four toys in the plane.

The two large ones are block generators. Rows are drawn in fixed chunks, each from a generator keyed by
(seed, chunk), so ``block(lo, hi)`` is the same however the archive is cut, and one larger than memory can be
written by any number of workers::

    spikes = TetrodeSimulator(n_rows=10_000_000, n_units=33, seed=1)
    for lo in range(0, spikes.n_rows, 65_536):
        X, labels = spikes.block(lo, min(lo + 65_536, spikes.n_rows))
"""

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.types import Floats, Integers, Sample

CHUNK_ROWS = 4096
"""Rows drawn from one generator; blocks that begin and end on multiples of it waste nothing."""

PHASES = 32
"""Sub-sample shifts at which a spike's shape is tabulated: 1/32 sample moves a 300 uV spike by under 2 uV."""


@dataclass(frozen=True)
class BlockSimulator:
    """Rows that can be generated in any blocks.

    Subclasses define ``n_features`` and ``_chunk``.

    Parameters
    ----------
    n_rows : int
        Rows of the whole; at least 1.
    seed : int
        Equal seeds give equal data with one numpy version.
    """

    n_rows: int = 50_000
    seed: int = 0

    def __post_init__(self) -> None:
        _require("n_rows", self.n_rows, 1)
        _require("seed", self.seed, 0)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_rows, n_features)``."""
        return self.n_rows, self.n_features

    def block(self, lo: int, hi: int) -> Sample:
        """Rows ``lo:hi``.

        Parameters
        ----------
        lo, hi : int
            Half-open range, ``0 <= lo <= hi <= n_rows``.

        Returns
        -------
        X : ndarray of float32, shape (hi - lo, n_features)
        labels : ndarray of int32, shape (hi - lo,)

        Raises
        ------
        InputError
            The range is not within the rows.

        Notes
        -----
        Memory: X, and temporaries of a few times ``CHUNK_ROWS`` rows.
        """
        if not 0 <= lo <= hi <= self.n_rows:
            raise InputError(f"block: got rows {lo}:{hi}, need 0 <= lo <= hi <= n_rows={self.n_rows}")
        X = np.empty((hi - lo, self.n_features), np.float32)
        labels = np.empty(hi - lo, np.int32)
        for chunk in range(lo // CHUNK_ROWS, -(-hi // CHUNK_ROWS)):
            start = chunk * CHUNK_ROWS
            a, b = max(lo, start), min(hi, start + CHUNK_ROWS)
            chunk_X, chunk_labels = self._chunk(chunk)
            X[a - lo : b - lo] = chunk_X[a - start : b - start]
            labels[a - lo : b - lo] = chunk_labels[a - start : b - start]
        return X, labels

    def _chunk(self, chunk: int) -> Sample:
        """All ``CHUNK_ROWS`` rows of one chunk, also past ``n_rows``, and their labels."""
        raise NotImplementedError

    def _generator(self, stage: str, *key: int) -> np.random.Generator:
        name = f"{type(self).__name__} {stage}"
        return np.random.default_rng([self.seed, zlib.crc32(name.encode()), *key])


class TetrodeUnits(NamedTuple):
    """What distinguishes the simulated neurons, u of them.

    Parameters
    ----------
    share : ndarray of float64, shape (u,)
        Probability that a spike is the unit's; descending, sum 1.
    narrow : ndarray of bool, shape (u,)
        Inhibitory: narrow spikes, no bursts.
    position, drift : ndarray of float64, shape (u, 3)
        Place in um in the middle of the recording, and the way from its beginning to its end.
    amplitude : ndarray of float64, shape (u,)
        Depth in uV of the spike on the channel that sees it best, in the middle of the recording.
    shape : ndarray of float64, shape (u, 6)
        Width of the trough; delay, width and height of the positive wave after it; height and delay of the
        one before. Times in samples, heights relative to the trough.
    """

    share: np.ndarray
    narrow: np.ndarray
    position: np.ndarray
    drift: np.ndarray
    amplitude: np.ndarray
    shape: np.ndarray


@dataclass(frozen=True)
class TetrodeSimulator(BlockSimulator):
    """Spikes of several neurons seen by a few electrode wires, in time order.

    A unit has a place near the wires, hence an amplitude on each that falls with distance and drifts slowly,
    and a spike shape of three lobes. Spikes of a burst shrink, alignment is off by part of a sample, the
    background is correlated in time and across wires, and a share of the rows holds a second spike. The sizes
    of units follow a power law.

    Parameters
    ----------
    n_units : int
        Number of neurons, which are the clusters.
    n_channels, n_samples : int
        Wires, and samples of each per spike at 30 kHz; a row is the wires' samples one after the other.
    size_exponent : float
        Unit k of 1..n_units fires in proportion to ``k ** -size_exponent``: .9 gives 33 units a range of 23.
    noise : float
        Mean standard deviation of the background in uV; wires differ by up to a fifth.
    overlap : float
        Share of rows with another spike at a random lag, from a unit that is not deeper.
    """

    n_units: int = 12
    n_channels: int = 4
    n_samples: int = 38
    size_exponent: float = 0.9
    noise: float = 11.0
    overlap: float = 0.06

    _candidates_per_unit: ClassVar[int] = 10
    _apart: ClassVar[float] = 185.0  # uV, norm over the row; nearer ones would be one unit to any sorter
    _drift: ClassVar[float] = 4.0  # um, standard deviation along each axis
    _peak: ClassVar[float] = 12 / 38  # where in the window detectors put the trough
    _wire_radius: ClassVar[float] = 12.5
    _burst_decay: ClassVar[float] = 0.93
    _noise_memory: ClassVar[tuple[float, float]] = (1.05, -0.35)
    _noise_shared: ClassVar[float] = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in {"n_units": 1, "n_channels": 1, "n_samples": 8, "noise": 0, "overlap": 0}.items():
            _require(name, getattr(self, name), least)

    @property
    def n_features(self) -> int:
        """Columns of X: channels times samples."""
        return self.n_channels * self.n_samples

    @cached_property
    def units(self) -> TetrodeUnits:
        """The neurons drawn for this seed: candidates in turn, unless too like one that is taken already."""
        candidates = self._candidates(self._candidates_per_unit * self.n_units)
        waves = self._windows(candidates, n_phases=1)[:, 0, :, self.n_samples] * self._depths(candidates)[:, :, None]
        taken = _spread(waves.reshape(len(waves), -1), self.n_units, self._apart)
        share = np.arange(1, self.n_units + 1) ** -float(self.size_exponent)
        return TetrodeUnits(share / share.sum(), *(field[taken] for field in candidates[1:]))

    def _candidates(self, size: int) -> TetrodeUnits:
        rng = self._generator("units")
        narrow = rng.random(size) < 0.3
        direction = rng.standard_normal((size, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return TetrodeUnits(
            share=np.full(size, 1 / size),
            narrow=narrow,
            position=direction * rng.uniform(15, 45, (size, 1)),
            drift=rng.normal(0, self._drift, (size, 3)),
            amplitude=50 * 6 ** rng.random(size),
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
        return self._windows(self.units)

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
        labels = self._draw_units(rng, CHUNK_ROWS)
        X = self._background(rng)
        X += self._spikes(rng, labels, time, np.zeros(CHUNK_ROWS))
        also = np.flatnonzero(rng.random(CHUNK_ROWS) < self.overlap)
        lag = rng.integers(-(self.n_samples // 2), self.n_samples, also.size)
        X[also] += self._spikes(rng, self._draw_weaker(rng, labels[also]), time[also], lag)
        return X.reshape(CHUNK_ROWS, -1), labels

    def _draw_units(self, rng: np.random.Generator, size: int) -> NDArray[np.int32]:
        bounds = np.cumsum(self.units.share)[:-1]
        return np.searchsorted(bounds, rng.random(size), side="right").astype(np.int32)

    def _draw_weaker(self, rng: np.random.Generator, units: Integers) -> Integers:
        """For each unit one that is not deeper: a detector aligns two spikes on the deeper one."""
        order = np.argsort(self.units.amplitude)
        below = np.cumsum(self.units.share[order])
        reach = below[np.argsort(order)[units]]
        return order[np.searchsorted(below[:-1], rng.random(units.size) * reach, side="right")]

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
        """Scale of each spike on each wire, in uV: place at that time, burst, and chance."""
        neurons = self.units
        place = neurons.position[units] + neurons.drift[units] * (time - 0.5)[:, None]
        earlier = rng.geometric(0.65, units.size) - 1
        burst = np.where(neurons.narrow[units], 1.0, self._burst_decay ** np.minimum(earlier, 5))
        chance = np.exp(rng.normal(0, 0.04, units.size))
        gain = neurons.amplitude / self._falloff(neurons.position).max(axis=1)
        return self._falloff(place) * (gain[units] * burst * chance)[:, None]

    def _background(self, rng: np.random.Generator) -> Floats:
        """Second-order autoregressive noise, partly common to all wires, shape (rows, channels, samples)."""
        a, b = self._noise_memory
        first = a / (1 - b)  # lag-one correlation of the stationary process
        z = rng.standard_normal((self.n_samples, CHUNK_ROWS, self.n_channels + 1), dtype=np.float32)
        z[1:2] *= np.float32(np.sqrt(1 - first**2))
        z[1] += np.float32(first) * z[0]
        z[2:] *= np.float32(np.sqrt((1 - b**2) * (1 - first**2)))
        for i in range(2, self.n_samples):
            z[i] += np.float32(a) * z[i - 1] + np.float32(b) * z[i - 2]
        shared = np.float32(self._noise_shared)
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
    """
    simulator = TetrodeSimulator(n_rows=n_rows, n_units=n_units, seed=seed, **options)
    return simulator.block(0, n_rows)


def _spread(points: Floats, size: int, apart: float) -> list[int]:
    """The first `size` points that keep `apart` from those before; closer ones where there are too few."""
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


@dataclass(frozen=True)
class MixtureSimulator(BlockSimulator):
    """A Gaussian mixture whose clusters are flat: few wide directions each, and noise in all.

    ``x = mean_y + sum_j z_j A_yj + noise``, with z standard normal.

    Parameters
    ----------
    d : int
        Columns.
    c : int
        Clusters.
    rank : int
        Wide directions of each cluster.
    separation : float
        Standard deviation of the cluster means in each column, where that of the noise is 1. With the other
        defaults .94 of a row's 15 nearest rows are of its cluster at .5 and 50,000 rows, and .84 at .3.
    size_exponent : float
        Cluster k of 1..c has rows in proportion to ``k ** -size_exponent``.
    """

    d: int = 64
    c: int = 20
    rank: int = 8
    separation: float = 0.5
    size_exponent: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("d", 1), ("c", 1), ("rank", 0), ("separation", 0)):
            _require(name, getattr(self, name), least)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.d

    @cached_property
    def _means(self) -> Floats:
        z = self._generator("means").standard_normal((self.c, self.d), dtype=np.float32)
        return np.float32(self.separation) * z

    @cached_property
    def _directions(self) -> Floats:
        rng = self._generator("directions")
        A = rng.standard_normal((self.rank, self.c, self.d), dtype=np.float32)
        A /= np.linalg.norm(A, axis=2, keepdims=True)
        return A * rng.uniform(1.5, 5.0, (self.rank, self.c, 1)).astype(np.float32)

    @cached_property
    def _bounds(self) -> Floats:
        share = np.arange(1, self.c + 1) ** -float(self.size_exponent)
        return np.cumsum(share / share.sum())[:-1]

    def _chunk(self, chunk: int) -> Sample:
        rng = self._generator("chunk", chunk)
        labels = np.searchsorted(self._bounds, rng.random(CHUNK_ROWS), side="right").astype(np.int32)
        X = rng.standard_normal((CHUNK_ROWS, self.d), dtype=np.float32)
        X += self._means[labels]
        for A in self._directions:
            X += rng.standard_normal((CHUNK_ROWS, 1), dtype=np.float32) * A[labels]
        return X, labels


def gaussian_mixture(n_rows: int, d: int = 64, c: int = 20, *, seed: int = 0, **options: Any) -> MixtureSimulator:
    """Make a :class:`MixtureSimulator`: a Gaussian mixture in blocks."""
    return MixtureSimulator(n_rows=n_rows, d=d, c=c, seed=seed, **options)


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

    References
    ----------
    .. [1] M. Sugiyama, G. Niu, M. Yamada, M. Kimura, H. Hachiya, "Information-maximization clustering based
       on squared-loss mutual information", Neural Computation 26 (2014).
    """
    labels, rng = _toy(n, 4, seed)
    means = 2.0 * np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    return _float32(means[labels] + 0.5 * rng.standard_normal((n, 2))), labels


def circle_and_gaussian(n: int = 200, *, seed: int = 0) -> Sample:
    """Draw a standard normal inside evenly spaced points of a circle of radius 5, all with noise of sd .1.

    Section 4.1 (b) of the paper named in :func:`four_blobs`, which also tells the parameters and results.
    """
    labels, rng = _toy(n, 2, seed)
    angle = 2 * np.pi * np.arange(np.count_nonzero(labels)) / np.count_nonzero(labels)
    X = np.concatenate([rng.standard_normal((np.count_nonzero(labels == 0), 2)), 5 * _polar(1.0, angle)])
    return _float32(X + 0.1 * rng.standard_normal((n, 2))), labels


def double_spirals(n: int = 200, *, seed: int = 0) -> Sample:
    """Draw two spirals, one the other turned by half a circle, with noise of sd .1.

    Point i (from 0) of a spiral is at radius ``1 + 4 i / n`` and angle ``3 pi i / n``; section 4.1 (c) of the
    paper named in :func:`four_blobs`, which also tells the parameters and results.
    """
    labels, rng = _toy(n, 2, seed)
    i = np.concatenate([np.arange(np.count_nonzero(labels == 0)), np.arange(np.count_nonzero(labels))])
    X = (1 - 2 * labels)[:, None] * _polar(1 + 4 * i / n, 3 * np.pi * i / n)
    return _float32(X + 0.1 * rng.standard_normal((n, 2))), labels


def two_densities(n: int = 200, *, seed: int = 0) -> Sample:
    """Draw a standard normal, and one of a tenth of its width at the same place.

    Section 4.1 (d) of the paper named in :func:`four_blobs`, which also tells the parameters and results.
    """
    labels, rng = _toy(n, 2, seed)
    return _float32(np.where(labels == 0, 1.0, 0.1)[:, None] * rng.standard_normal((n, 2))), labels


TOYS = {
    "four blobs": four_blobs,
    "circle and Gaussian": circle_and_gaussian,
    "double spirals": double_spirals,
    "high and low densities": two_densities,
}
"""The four toys by their names in the paper."""


def _toy(n: int, c: int, seed: int) -> tuple[NDArray[np.int32], np.random.Generator]:
    _require("n", n, c)
    _require("seed", seed, 0)
    return (np.arange(n) * c // n).astype(np.int32), np.random.default_rng(seed)


def _polar(radius: float | Floats, angle: Floats) -> Floats:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _float32(X: Floats) -> NDArray[np.float32]:
    return X.astype(np.float32)


def _require(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise InputError(f"simulate: {name}={value!r} is too small; use at least {least}")
