"""Rows that lie in no cluster: how far apart rows of clusters lie, and the score."""

import numpy as np
import pytest

from bigsmic.numerics.labeling import noise
from bigsmic.numerics.labeling.noise import Spacing


def drawn(centers, spreads, size=4001, seed=0):
    """Log distances and labels of Gaussian clusters of one size."""
    labels = np.repeat(np.arange(len(centers)), size)
    draw = np.random.default_rng(seed).normal(size=len(labels))
    return np.take(centers, labels) + np.take(spreads, labels) * draw, labels


def spacing(log_sigma, labels, n_clusters):
    return noise.spacing(log_sigma, labels, n_clusters, np.ones(len(labels), bool))


def test_centers_and_spreads_are_those_of_gaussians():
    found, of_all = spacing(*drawn([0.0, 0.5], [0.2, 0.4]), 2)
    np.testing.assert_allclose(found.center, [0, 0.5], atol=0.03)
    np.testing.assert_allclose(found.spread, [0.2, 0.4], rtol=0.06)
    assert 0 < of_all.center < 0.5


def test_the_score_is_a_logistic_function_of_the_distance_in_spreads():
    scores = noise.scores(np.array([1.0, 1.8, 2.0, 2.2]), np.zeros(4, int), Spacing(np.array([1.0]), np.array([0.2])))
    np.testing.assert_allclose(scores, [1 / (1 + np.exp(4)), 0.5, 1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-2))], 1e-5)
    assert noise.is_noise(scores).tolist() == [False, False, True, True]


def test_a_few_far_rows_change_no_center():
    log_sigma, labels = drawn([0.0], [0.2])
    far = np.concatenate([log_sigma, np.full(200, 3.0)])
    found, _ = spacing(far, np.zeros(len(far), int), 1)
    scores = noise.scores(far, np.zeros(len(far), int), found)
    assert noise.is_noise(scores)[-200:].all()
    assert noise.is_noise(scores)[:-200].mean() < 1e-3
    assert labels.sum() == 0


def test_a_cluster_that_lies_thinly_is_measured_by_all_rows():
    log_sigma, labels = drawn([0.0, 0.1, 3.0], [0.2, 0.2, 0.1])
    few = np.r_[:8002, 8002:8402]
    found, of_all = spacing(log_sigma[few], labels[few], 3)
    assert (found.center[2], found.spread[2]) == (of_all.center, of_all.spread)
    assert noise.is_noise(noise.scores(log_sigma[few], labels[few], found))[-400:].all()


def test_copies_say_nothing_of_other_rows_and_are_no_noise():
    distances = np.concatenate([np.zeros(900), np.exp(drawn([0.0], [0.2], 100)[0])])
    log_sigma, labels = noise.log_distance(distances), np.zeros(1000, int)
    found, _ = spacing(log_sigma, labels, 1)
    assert abs(found.center[0]) < 0.1
    scores = noise.scores(log_sigma, labels, found)
    assert not scores[:900].any()
    assert not noise.is_noise(scores).any()


def test_where_all_rows_have_copies_none_is_noise():
    log_sigma, labels = np.full(20, -np.inf), np.repeat([0, 1], 10)
    found, _ = spacing(log_sigma, labels, 2)
    assert np.isinf(found.center).all()
    assert not noise.scores(np.array([-np.inf, 0.0, 50.0, np.inf]), np.array([0, 0, 1, 1]), found).any()


def test_a_cluster_of_copies_is_measured_by_all_rows():
    log_sigma, labels = drawn([0.0], [0.2])
    log_sigma = np.concatenate([log_sigma, np.full(50, -np.inf)])
    labels = np.concatenate([labels, np.ones(50, int)])
    found, of_all = spacing(log_sigma, labels, 2)
    assert (found.center[1], found.spread[1]) == (of_all.center, of_all.spread)
    assert noise.is_noise(noise.scores(np.array([5.0]), np.array([1]), found)).all()


@pytest.mark.parametrize("rounding", [0.0, 1e-7])
def test_distances_between_integers_vary_by_more_than_the_median_deviation_says(rounding):
    """Most distances are 1: the others are the square roots of 2 and 3, and no noise."""
    distances = np.sqrt(np.random.default_rng(0).choice([1.0, 2.0, 3.0], 3000, p=[0.6, 0.3, 0.1]))
    log_sigma = noise.log_distance(distances * (1 + rounding * np.arange(3000) / 3000))
    found, _ = spacing(log_sigma, np.zeros(3000, int), 1)
    assert not noise.is_noise(noise.scores(log_sigma, np.zeros(3000, int), found)).any()


def test_spreads_are_a_twentieth_at_least():
    found, of_all = spacing(np.full(50, 2.0), np.zeros(50, int), 1)
    assert found.spread == of_all.spread == noise.LEAST_SPREAD


def test_noise_is_twice_as_far_from_its_neighbours_as_is_usual():
    """Where distances hardly vary, as with many columns, a few spreads are next to nothing."""
    log_sigma = np.random.default_rng(0).normal(0, 0.06, 2000)
    found, _ = spacing(log_sigma, np.zeros(2000, int), 1)
    scored = noise.for_scores(found)
    times = np.log([1.5, 2.0, 2.4])
    assert noise.is_noise(noise.scores(times, np.zeros(3, int), found)).all()
    assert noise.is_noise(noise.scores(times, np.zeros(3, int), scored)).tolist() == [False, False, True]
    wide = Spacing(np.zeros(1), np.array([0.3]))
    np.testing.assert_array_equal(noise.for_scores(wide).spread, wide.spread)


def test_no_row_of_a_cluster_is_in_the_sample():
    found, of_all = spacing(np.array([0.0, 0.3, 0.5]), np.zeros(3, int), 2)
    assert (found.center[1], found.spread[1]) == (of_all.center, of_all.spread)


def test_a_row_without_neighbors_is_noise():
    scores = noise.scores(noise.log_distance([np.inf]), np.zeros(1, int), Spacing(np.zeros(1), np.ones(1)))
    assert scores.tolist() == [1.0]


def test_distances_are_some_spreads_above_the_centre_and_rows_beyond_four_are_noise():
    sigma = np.exp(np.random.default_rng(0).normal(2, 0.3, 20_000)).astype(np.float32)
    assert noise.distance(sigma, 0) == pytest.approx(np.exp(2), rel=0.02)
    assert noise.distance(sigma, 3) == pytest.approx(np.exp(2.9), rel=0.05)
    assert noise.share(sigma) < 0.001
    sigma[:1000] *= 8
    assert 0.04 < noise.share(sigma) <= 0.05
