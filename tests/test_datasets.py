import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigsmic import datasets
from bigsmic.datasets import (
    BIOPHYSICAL,
    CHUNK_ROWS,
    HASH,
    LIFELIKE,
    REGIMES,
    MachineSimulator,
    MixtureSimulator,
    TetrodeSimulator,
)
from bigsmic.errors import InputError

pytestmark = pytest.mark.unit


N_ROWS = 2 * CHUNK_ROWS + 100
SIMULATORS = {
    "tetrodes": TetrodeSimulator(n_rows=N_ROWS, n_units=5, seed=3),
    "hash": TetrodeSimulator(n_rows=N_ROWS, n_units=4, seed=3, **(HASH | {"hash_neurons": 20})),
    "machine": MachineSimulator(n_rows=N_ROWS, day_samples=3000, fault_day=1, drift_day=0, seed=3),
    "mixture": MixtureSimulator(n_rows=N_ROWS, d=7, c=4, rank=2, seed=3),
}
WHOLE = {name: simulator.block(0, N_ROWS) for name, simulator in SIMULATORS.items()}


@pytest.mark.parametrize("name", SIMULATORS)
@settings(deadline=None, max_examples=15)
@given(cuts=st.lists(st.integers(0, N_ROWS), max_size=6))
def test_one_block_is_many_uneven_blocks(name, cuts):
    bounds = [0, *sorted(cuts), N_ROWS]
    blocks = [SIMULATORS[name].block(lo, hi) for lo, hi in itertools.pairwise(bounds)]
    np.testing.assert_array_equal(np.concatenate([X for X, _ in blocks]), WHOLE[name][0])
    np.testing.assert_array_equal(np.concatenate([y for _, y in blocks]), WHOLE[name][1])


@pytest.mark.parametrize("name", SIMULATORS)
def test_shapes_and_dtypes(name):
    X, labels = WHOLE[name]
    assert X.shape == SIMULATORS[name].shape
    assert X.dtype == np.float32
    assert labels.dtype == np.int32
    assert np.isfinite(X).all()


@pytest.mark.parametrize("name", SIMULATORS)
@pytest.mark.parametrize(("lo", "hi"), [(-1, 5), (5, 4), (0, N_ROWS + 1)])
def test_rows_outside_are_refused(name, lo, hi):
    with pytest.raises(InputError, match=f"got rows {lo}:{hi}"):
        SIMULATORS[name].block(lo, hi)


def test_seeds_differ():
    other, _ = datasets.tetrodes(100, 5, seed=4)
    assert not np.array_equal(other, WHOLE["tetrodes"][0][:100])


def test_unit_sizes_follow_the_power_law():
    simulator = TetrodeSimulator(n_rows=60_000, n_units=33, seed=0)
    sizes = np.bincount(simulator.block(0, 60_000)[1], minlength=33)
    expected = 60_000 * simulator.units.share
    np.testing.assert_allclose(sizes, expected, atol=5 * np.sqrt(expected.max()))
    assert simulator.units.share[0] / simulator.units.share[-1] == pytest.approx(33**0.9)


def test_spikes_are_aligned_at_the_thirteenth_sample():
    X, labels = datasets.tetrodes(CHUNK_ROWS, 3, seed=1, overlap=0.0)
    for unit in range(3):
        mean = X[labels == unit].mean(axis=0).reshape(4, 38)
        best = mean[mean.min(axis=1).argmin()]
        assert abs(best.argmin() - 12) <= 1


def test_amplitudes_are_those_of_the_units():
    simulator = TetrodeSimulator(n_rows=CHUNK_ROWS, n_units=6, seed=2, noise=0.0, overlap=0.0)
    X, labels = simulator.block(0, CHUNK_ROWS)
    for unit in np.flatnonzero(simulator.units.narrow):
        depth = np.median(-X[labels == unit].min(axis=1))
        assert depth == pytest.approx(simulator.units.amplitude[unit], rel=0.2)


def test_noise_has_the_stated_deviation_and_correlations():
    simulator = TetrodeSimulator(n_rows=CHUNK_ROWS, n_units=1, noise=10.0)
    noise = simulator._background(np.random.default_rng(0)) / simulator._wire_noise[:, None]
    np.testing.assert_allclose(noise.std(axis=0), 1, atol=0.06)
    np.testing.assert_allclose(np.mean(noise[:, :, 1:] * noise[:, :, :-1]), 1.05 / 1.35, atol=0.02)
    np.testing.assert_allclose(np.mean(noise[:, 0] * noise[:, 1]), 0.4, atol=0.03)


def test_overlap_adds_a_second_spike():
    alone, _labels = datasets.tetrodes(CHUNK_ROWS, 1, seed=5, noise=0.0, overlap=0.0)
    mixed, _ = datasets.tetrodes(CHUNK_ROWS, 1, seed=5, noise=0.0, overlap=0.25)
    changed = (np.abs(mixed - alone).max(axis=1) > 1).mean()
    assert changed == pytest.approx(0.25, abs=0.03)


def test_rows_of_earlier_versions_stay():
    X, labels = WHOLE["tetrodes"]
    np.testing.assert_array_equal(np.bincount(labels), [3323, 1803, 1380, 1001, 785])
    np.testing.assert_allclose(X[:4, 12], [-57.3539, -212.3719, -174.7893, -146.1204], rtol=1e-4)
    np.testing.assert_allclose(X[-1, [12, 50, 88]], [-60.1330, -56.2023, -76.8330], rtol=1e-4)


def test_another_spike_may_be_the_deeper_one_and_lies_within_a_millisecond():
    common = {"n_rows": CHUNK_ROWS, "n_units": 6, "seed": 2, "noise": 0.0, "drift": 0.0}
    alone, _labels = datasets.tetrodes(**common, overlap=0.0)
    deeper = {}
    for overlap_any in (False, True):
        mixed, _ = datasets.tetrodes(**common, overlap=0.24, overlap_any=overlap_any)
        second = (mixed - alone).reshape(-1, 4, 38)
        changed = np.abs(second).max(axis=(1, 2)) > 1
        assert changed.mean() == pytest.approx(0.24, abs=0.03)
        own = -alone.min(axis=1)
        deeper[overlap_any] = (-second[changed].min(axis=(1, 2)) > 1.5 * own[changed]).mean()
    assert deeper[False] < 0.03
    assert deeper[True] > 0.15
    low, high = TetrodeSimulator(overlap_any=True)._lags
    assert (low, high) == (-30, 31)


def test_no_neuron_fires_twice_within_a_millisecond():
    simulator = TetrodeSimulator(n_units=3, overlap_any=True, size_exponent=1.0)
    first = np.repeat([0, 1, 2], 20_000)
    second = simulator._draw_others(np.random.default_rng(0), first)
    shares = np.array([6, 3, 2]) / 11
    for unit in range(3):
        found = np.bincount(second[first == unit], minlength=3) / 20_000
        expected = np.where(np.arange(3) == unit, 0, shares) / (1 - shares[unit])
        np.testing.assert_allclose(found, expected, atol=0.02)
        assert found[unit] == 0
    alone = TetrodeSimulator(n_units=1, overlap_any=True)
    assert not alone._draw_others(np.random.default_rng(0), np.zeros(50, int)).any()


def test_bursts_lose_amplitude():
    simulator = TetrodeSimulator(
        n_rows=CHUNK_ROWS, n_units=6, seed=2, noise=0.0, overlap=0.0, drift=0.0, burst_share=0.4, burst_decay=0.5
    )
    X, labels = simulator.block(0, CHUNK_ROWS)
    relative = -X.min(axis=1) / simulator.units.amplitude[labels]
    wide = ~simulator.units.narrow[labels]
    assert (relative[~wide] > 0.75).all()
    expected = [0.4**3, 0.4**2 * 0.6, 0.4 * 0.6, 0.6]  # three or more, two, one, no earlier spikes
    found = np.histogram(relative[wide], bins=[0, 0.18, 0.36, 0.72, 2])[0] / wide.sum()
    np.testing.assert_allclose(found, expected, atol=0.03)


def test_drift_moves_mean_spikes():
    def moved(drift):
        n = 4 * CHUNK_ROWS
        simulator = TetrodeSimulator(n_rows=n, n_units=1, seed=3, noise=0.0, overlap=0.0, drift=drift)
        means = [simulator.block(lo, lo + CHUNK_ROWS)[0].mean(axis=0) for lo in (0, n - CHUNK_ROWS)]
        return np.linalg.norm(means[1] - means[0]) / np.linalg.norm(means[0])

    assert moved(0.0) < 0.01
    assert 0.05 < moved(8.0) < moved(16.0)


@pytest.mark.parametrize("size", [2, 20])
def test_units_keep_to_the_range_of_amplitudes_and_apart(size):
    units = TetrodeSimulator(n_units=size, seed=1, amplitudes=(28.0, 180.0), apart=40.0).units
    assert units.amplitude.min() >= 28
    assert units.amplitude.max() <= 180
    simulator = TetrodeSimulator(n_units=size, seed=1, amplitudes=(28.0, 180.0), apart=40.0)
    waves = simulator._windows(units, n_phases=1)[:, 0, :, 38] * simulator._depths(units)[:, :, None]
    waves = waves.reshape(size, -1)
    distance = np.linalg.norm(waves[:, None] - waves, axis=2)[~np.eye(size, dtype=bool)]
    assert distance.min() >= 39.9
    if size == 20:
        assert distance.min() < 185


def test_biophysical_options_have_the_correlations_they_are_named_for():
    simulator = TetrodeSimulator(n_rows=CHUNK_ROWS, n_units=1, **BIOPHYSICAL)
    noise = simulator._background(np.random.default_rng(0)) / simulator._wire_noise[:, None]
    lags = [np.mean(noise[:, :, k:] * noise[:, :, :-k]) for k in (1, 2, 3)]
    np.testing.assert_allclose(lags, [0.92, 0.74, 0.55], atol=0.04)
    np.testing.assert_allclose(np.mean(noise[:, 0] * noise[:, 1]), 0.2, atol=0.03)
    np.testing.assert_allclose(noise.std(axis=0), 1, atol=0.06)
    X, _labels = datasets.tetrodes(CHUNK_ROWS, 8, seed=1, **BIOPHYSICAL)
    mixed = np.abs(X - datasets.tetrodes(CHUNK_ROWS, 8, seed=1, **(BIOPHYSICAL | {"overlap": 0.0}))[0]).max(axis=1) > 1
    assert mixed.mean() == pytest.approx(0.24, abs=0.03)


def test_lifelike_spikes_spread_more_than_biophysical_ones():
    def spread(options):
        simulator = TetrodeSimulator(n_rows=CHUNK_ROWS, n_units=4, seed=1, **(options | {"noise": 0.0, "overlap": 0.0}))
        X, labels = simulator.block(0, CHUNK_ROWS)
        depth = -X.min(axis=1) / simulator.units.amplitude[labels]
        return depth[~simulator.units.narrow[labels]].std()

    assert spread(LIFELIKE) > 1.5 * spread(BIOPHYSICAL)


def test_hash_is_of_many_neurons_just_past_the_threshold():
    options = HASH | {"noise": 0.0, "overlap": 0.0, "drift": 0.0, "burst_share": 0.0}
    simulator = TetrodeSimulator(n_rows=6000, n_units=6, seed=0, **options)
    X, labels = simulator.block(0, 6000)
    assert (labels < 0).mean() == pytest.approx(0.8, abs=0.02)
    assert set(labels) == {-1, *range(6)}
    sizes = np.bincount(labels[labels >= 0])
    assert sizes[0] / sizes[-1] == pytest.approx(6**1.2, rel=0.35)
    depth = -X[labels < 0].min(axis=1)
    assert depth.min() > 36 * 0.8
    assert depth.max() < 72 * 1.2
    nearer = (depth > 36 * 2 ** (1 / 3)).mean()  # beyond r / 2^(1/3) lies half of a ball, and of a shell less
    assert nearer == pytest.approx((0.5 - 1 / 8) / (1 - 1 / 8), abs=0.06)
    firing = simulator._neurons.share[6:]
    assert firing.size == 300
    assert firing.sum() == pytest.approx(0.8)


def test_units_are_the_same_with_and_without_hash():
    without = TetrodeSimulator(n_units=5, seed=4).units
    with_hash = TetrodeSimulator(n_units=5, seed=4, hash_share=0.9).units
    for a, b in zip(without, with_hash, strict=True):
        np.testing.assert_array_equal(a, b)


def test_uneven_blobs_have_rows_in_none_behind_those_in_blobs():
    X, labels = datasets.uneven_blobs(seed=5)
    noisy, noisy_labels = datasets.uneven_blobs(seed=5, noise=0.2)
    np.testing.assert_array_equal(noisy[: len(X)], X)
    np.testing.assert_array_equal(noisy_labels[: len(X)], labels)
    assert (noisy_labels[len(X) :] == -1).all()
    assert len(noisy) - len(X) == int(0.2 * len(X))
    sizes = np.bincount(labels)
    assert sizes.min() >= 30
    assert (np.diff(sizes) <= 0).all()
    assert (noisy[len(X) :].min(axis=0) >= X.min(axis=0)).all()
    assert (noisy[len(X) :].max(axis=0) <= X.max(axis=0)).all()


def test_uneven_blobs_take_the_number_and_columns_that_are_given():
    X, labels = datasets.uneven_blobs(2000, 3, 7, seed=1)
    assert X.shape[1] == 7
    assert X.dtype == np.float32
    assert labels.max() == 2
    with pytest.raises(InputError, match=r"noise=-0\.1 is too small"):
        datasets.uneven_blobs(noise=-0.1)


def test_mixture_moments():
    simulator = MixtureSimulator(n_rows=200_000, d=3, c=1, rank=2, seed=1)
    X, _ = simulator.block(0, 200_000)
    A = simulator._directions[:, 0]
    np.testing.assert_allclose(X.mean(axis=0), simulator._means[0], atol=0.05)
    np.testing.assert_allclose(np.cov(X.T), np.eye(3) + A.T @ A, atol=0.3)


def test_toys_have_the_published_geometry():
    X, labels = datasets.four_blobs(4000)
    np.testing.assert_allclose(X[labels == 0].mean(axis=0), [2, 2], atol=0.1)
    X, labels = datasets.circle_and_gaussian()
    np.testing.assert_allclose(np.linalg.norm(X[labels == 1], axis=1), 5, atol=0.5)
    X, labels = datasets.double_spirals()
    np.testing.assert_allclose(X[labels == 0], -X[labels == 1], atol=1.0)
    X, labels = datasets.two_densities(4000)
    np.testing.assert_allclose([X[labels == 0].std(), X[labels == 1].std()], [1, 0.1], rtol=0.05)


@pytest.mark.parametrize("toy", datasets.TOYS.values())
def test_toys_are_balanced_and_reproducible(toy):
    X, labels = toy(seed=7)
    assert X.shape == (200, 2)
    assert np.ptp(np.bincount(labels)) == 0
    np.testing.assert_array_equal(X, toy(seed=7)[0])


def test_senseless_parameters_are_refused():
    with pytest.raises(InputError, match="n_units=0 is too small"):
        TetrodeSimulator(n_units=0)
    with pytest.raises(InputError, match=r"hash_share=1\.0 is too large; use at most 0\.99"):
        TetrodeSimulator(hash_share=1.0)
    with pytest.raises(InputError, match=r"amplitudes\[1\]=20 is too small; use at least 30"):
        TetrodeSimulator(amplitudes=(30, 20))
    with pytest.raises(InputError, match="is not stationary; use coefficients"):
        TetrodeSimulator(noise_memory=(1.2, 0.0))
    with pytest.raises(InputError, match="n=3 is too small; use at least 4"):
        datasets.four_blobs(3)
    with pytest.raises(InputError, match="seed=-1 is too small; use at least 0"):
        datasets.uneven_blobs(seed=-1)
    with pytest.raises(InputError, match="seed=4294967296 is too large; use at most 4294967295"):
        datasets.uneven_blobs(seed=2**32)


@pytest.mark.parametrize(
    ("simulator", "name", "value"),
    [
        *((MachineSimulator, name, np.inf) for name in ("rate", "hold", "variation", "drift")),
        (MachineSimulator, "drift", np.nan),
        (TetrodeSimulator, "apart", np.inf),  # looked for units so far apart without end
        *itertools.product((MixtureSimulator, TetrodeSimulator), ["size_exponent"], (np.nan, -np.inf)),
        (MixtureSimulator, "separation", np.inf),
    ],
)
def test_parameters_that_are_no_finite_numbers_are_refused(simulator, name, value):
    with pytest.raises(InputError, match=f"{name}={value!r} is no finite number".replace("(", r"\(")):
        simulator(**{name: value})


def test_the_fault_and_the_drift_begin_on_their_days():
    days = {"day_samples": 50_000, "hold": 20, "fault_day": 2, "fault_growth": 0.1, "drift_day": 3, "drift": 5.0}
    machine, before = (MachineSimulator(n_rows=250_000, **(days | late)) for late in ({}, {"drift_day": None}))
    shares = np.array([np.bincount(machine.day(k)[1], minlength=len(REGIMES)) for k in range(5)]) / 50_000
    np.testing.assert_allclose(shares[:, -1], [0, 0, 0.1, 0.2, 0.3], atol=0.03)
    np.testing.assert_allclose(shares[0], [regime.share for regime in REGIMES], atol=0.04)
    moved = [(machine.day(k)[0] - before.day(k)[0]).mean(axis=0) for k in range(5)]
    np.testing.assert_allclose(moved, np.outer([0, 0, 0, 5, 10], [0, 0, 0, 1]), atol=1e-3)


@pytest.mark.parametrize(("name", "value"), [("rate", 0), ("hold", -1), ("day_samples", 0), ("fault_growth", -0.1)])
def test_machines_that_cannot_be_are_refused(name, value):
    with pytest.raises(InputError, match=name):
        MachineSimulator(**{name: value})


@pytest.mark.parametrize("day", [-1, 2, 3])
def test_days_that_a_machine_lacks_are_refused(day):
    with pytest.raises(InputError, match="use days from 0 to 1"):
        MachineSimulator(n_rows=5_000, day_samples=3_000).day(day)
