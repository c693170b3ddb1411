import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigsmic import datasets
from bigsmic.datasets import CHUNK_ROWS, MixtureSimulator, TetrodeSimulator
from bigsmic.errors import InputError

pytestmark = pytest.mark.unit


N_ROWS = 2 * CHUNK_ROWS + 100
SIMULATORS = {
    "tetrodes": TetrodeSimulator(n_rows=N_ROWS, n_units=5, seed=3),
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
    with pytest.raises(InputError, match="n=3 is too small; use at least 4"):
        datasets.four_blobs(3)
