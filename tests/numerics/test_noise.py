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
    return noise.spacing(log_sigma, labels, np.ones(len(labels), bool), n_clusters)


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


def test_a_cluster_is_noise_as_a_whole_if_most_of_its_rows_are():
    """Noise of one density in a cluster of its own: a limit for each row would cut through it."""
    log_sigma, labels = drawn([0.0, 0.0, 0.0, 0.0, 1.2], [0.2, 0.2, 0.2, 0.2, 0.1])
    found, of_all = spacing(log_sigma, labels, 5)
    scored = noise.for_scores(found)
    is_noise = noise.is_noise(noise.scores(log_sigma, labels, scored))
    least = of_all.center + noise.THRESHOLD * of_all.spread
    assert 0.2 < (log_sigma[labels == 4] < least).mean() < 0.5
    assert is_noise[labels == 4].all()
    assert is_noise[labels < 4].mean() < 0.001
    near = noise.scores(np.zeros(1), np.array([4]), scored)
    assert not noise.is_noise(near)  # a row of the others that only has its label


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


def in_planes(n_noise, n_rows=800, n_clusters=4, seed=0):
    """Log distances of Gaussian clusters in a plane, whose density falls outwards, with noise of one density.

    Clusters are 1, 2, ... times as wide, so that each has another distance.
    """
    rng = np.random.default_rng(seed)
    of_rows = rng.exponential(0.5, (n_clusters, n_rows)) + rng.normal(0, 0.15, (n_clusters, n_rows))
    of_rows += np.log(1 + np.arange(n_clusters))[:, None] / 2
    labels = np.r_[np.repeat(np.arange(n_clusters), n_rows), rng.integers(0, n_clusters, n_noise)]
    return np.r_[of_rows.ravel(), rng.normal(3.2, 0.16, n_noise)], labels


def found_among(log_sigma, labels, counts=None):
    found, _ = spacing(log_sigma, labels, labels.max() + 1)
    gap = noise.gap(log_sigma, labels, np.bincount(labels) if counts is None else counts)
    return gap, noise.is_noise(noise.scores(log_sigma, labels, noise.for_scores(found, gap)))


def test_noise_that_makes_spreads_wide_is_found_beyond_the_gap():
    log_sigma, labels = in_planes(1000)
    is_true = np.arange(len(labels)) >= 3200
    found, _ = spacing(log_sigma, labels, 4)
    assert noise.is_noise(noise.scores(log_sigma, labels, noise.for_scores(found)))[is_true].mean() < 0.5
    gap, is_noise = found_among(log_sigma, labels)
    assert 2 < gap < 3
    assert is_noise[is_true].mean() > 0.98
    assert is_noise[~is_true].mean() < 0.02


def test_without_noise_there_is_no_gap():
    for seed in range(20):
        assert found_among(*in_planes(0, seed=seed))[0] == np.inf


def test_a_gap_in_one_cluster_is_not_between_clusters_and_noise():
    """Such as two clusters, one dense and one sparse, that have one label."""
    log_sigma, labels = in_planes(0)
    sparse = np.random.default_rng(1).normal(3.2, 0.16, 300)
    assert found_among(np.r_[log_sigma, sparse], np.r_[labels, np.zeros(300, int)])[0] == np.inf
    alone = np.r_[log_sigma[labels == 0], sparse]
    assert 2 < found_among(alone, np.zeros(len(alone), int))[0] < 3


def test_a_sparse_cluster_of_its_own_is_no_noise():
    log_sigma, labels = in_planes(0)
    gap, is_noise = found_among(np.r_[log_sigma, in_planes(0)[0][:800] + 2], np.r_[labels, np.full(800, 4)])
    assert gap == np.inf
    assert is_noise[-800:].mean() < 0.05


def test_a_cluster_beyond_the_gap_is_noise():
    log_sigma, labels = in_planes(1000)
    more = np.random.default_rng(1).normal(3.2, 0.16, 600)
    _, is_noise = found_among(np.r_[log_sigma, more], np.r_[labels, np.full(600, 4)])
    assert is_noise[-600:].mean() > 0.98


@pytest.mark.parametrize(
    ("center", "spread", "limit"),
    [
        (2.5, 1.2, 3.0),  # half of its rows are noise: others are far within
        (2.5, 0.2, 3.3),  # a cluster of sparse rows
        (3.5, 0.2, 3.0),
        (1.0, 0.2, 1.8),  # whose own spread is enough
        (1.0, 1.2, 3.0),
        (np.inf, 1.0, np.inf),
    ],
)
def test_rows_beyond_the_gap_are_noise_but_those_of_a_sparse_cluster(center, spread, limit):
    taken = noise.for_scores(noise.Spacing(np.array([center]), np.array([spread])), gap=3.0)
    assert (taken.center + noise.THRESHOLD * taken.spread).item() == pytest.approx(limit)


def test_the_gap_moves_with_the_unit_of_the_rows():
    log_sigma, labels = in_planes(1000)
    counts = np.bincount(labels)
    at = noise.gap(log_sigma, labels, counts)
    assert noise.gap(log_sigma + np.log(1e3), labels, counts) == pytest.approx(at + np.log(1e3), abs=noise.BIN)


def test_sampled_rows_count_for_those_that_they_were_drawn_from():
    """A tenth of a cluster's rows shows the gap as all do, though they are less evidence."""
    log_sigma, labels = in_planes(4000, n_rows=8000)
    drawn = (labels != 1) | (np.arange(len(labels)) % 10 == 0)
    whole, tenth = (noise.gap(log_sigma[of], labels[of], np.bincount(labels)) for of in (slice(None), drawn))
    assert tenth == pytest.approx(whole, abs=0.3)
    few = np.random.default_rng(0).permutation(len(labels))[:150]
    assert noise.gap(log_sigma[few], labels[few], np.bincount(labels)) == np.inf


def spread_over(*numbers):
    """As many values in each of four intervals, the last of which is noise."""
    edges = [0, 1.5, 2.2, 2.9, 3.6]
    steps = [(np.arange(n) + 0.5) / n for n in numbers]
    return np.concatenate([lo + (hi - lo) * step for lo, hi, step in zip(edges, edges[1:], steps, strict=False)])


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize(
    ("large", "small", "low", "high"),
    [
        ((40000, 400, 4000, 12000), (3000, 1000, 100, 3000), 1.5, 2.2),  # 1,400 rows and not 4,100
        ((40000, 1500, 800, 12000), (5000, 100, 1500, 3000), 1.5, 2.2),  # 1,600 and not 2,300
        ((40000, 4000, 400, 12000), (3000, 100, 1000, 3000), 2.2, 2.9),
    ],
)
def test_the_gap_is_where_the_rows_of_all_clusters_are_fewest(large, small, low, high, every):
    """However few of the large cluster were drawn."""
    rows, others = spread_over(*large), spread_over(*small)
    drawn = rows[every // 2 :: every]
    labels = np.repeat([0, 1], [len(drawn), len(others)])
    assert low < noise.gap(np.r_[drawn, others], labels, np.array([len(rows), len(others)])) < high


def test_every_value_is_in_one_bin_and_as_many_on_either_side():
    values = np.random.default_rng(0).choice([0.0, 0.3, 0.31, 0.7, 1.5], 100)
    edges = np.linspace(-1, 3, 41)
    found = noise._in_bins(values, edges)
    assert found.sum() == pytest.approx(100)
    np.testing.assert_allclose(noise._in_bins(-values, -edges[::-1])[::-1], found, atol=1e-9)
    assert (found[(edges[:-1] > 0) & (edges[1:] < 1.5)] > 0).all()


def test_distances_of_few_values_have_no_gap():
    """Rows of integers have distances of 1, the square root of 2, and so on, and nothing between."""
    distances = np.sqrt(np.random.default_rng(0).choice([1.0, 2.0, 4.0, 5.0, 9.0], 6000, p=[0.4, 0.3, 0.15, 0.1, 0.05]))
    labels = np.arange(6000) % 3
    assert noise.gap(noise.log_distance(distances), labels, np.bincount(labels)) == np.inf


def test_nothing_is_known_of_copies():
    labels = np.repeat([0, 1], 10)
    assert noise.gap(np.full(20, -np.inf), labels, np.array([10, 10])) == np.inf
    unknown = Spacing(np.full(2, np.inf), np.ones(2))
    for limit in (np.inf, 1.0):
        scored = noise.for_scores(unknown, limit)
        assert not noise.scores(np.array([50.0]), np.array([1]), scored).any()
