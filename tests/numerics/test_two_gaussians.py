"""How much better two Gaussians describe what merges join."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import norm

from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.two_gaussians import Line, Sample, log_likelihood_gains

pytestmark = pytest.mark.unit

N = 20_000


def gaussian(n=N, mean=0.0, deviation=1.0):
    """Quantiles of a Gaussian, so that no test hangs on a draw."""
    return mean + deviation * norm.ppf((np.arange(n) + 0.5) / n)


def gains_of(groups, merges, n_clusters=1, times=1.0):
    """Gains of merges of groups of numbers, each of which represents some rows."""
    k = len(groups)
    tree = MergeTree(k, np.arange(k), np.array(merges), np.ones(k - 1))
    samples = {y: Sample(x[:, None], uniform(x), len(x) * times) for y, x in enumerate(groups)}
    of, lines = dict(enumerate(groups)), {}
    for step, (y, z) in enumerate(merges):
        (first, second), share = (of[y].mean(), of[z].mean()), len(of[z]) / (len(of[y]) + len(of[z]))
        sign = 1.0 if second > first else -1.0
        lines[step] = Line(np.array([sign]), sign * first, sign * second, share)
        of[y] = np.concatenate([of[y], of[z]])
    return log_likelihood_gains(tree, n_clusters, lines, samples)


def uniform(x):
    return np.random.default_rng(len(x)).random(len(x))


def best_gain(distance):
    """Gain per row of the best two Gaussians of half of the rows each, and how far they are the halves of the line."""

    def mean(function):
        """Over both clusters."""
        return quad(lambda x: norm.pdf(x, [-distance / 2, distance / 2]).mean() * function(x), -12, 12, limit=200)[0]

    def densities(x, half):
        return norm.logpdf(x, [-half, half], (1 + distance**2 / 4 - half**2) ** 0.5)

    def negative(half):
        return -mean(lambda x: np.logaddexp(*densities(x, half)) - np.log(2))

    width = (1 + distance**2 / 4) ** 0.5
    best = minimize_scalar(negative, bounds=(0, 0.999 * width), method="bounded")
    match = mean(lambda x: np.sign(x) * (2 * expit(np.diff(densities(x, best.x))[0]) - 1))
    return -best.fun + (np.log(2 * np.pi) + 1) / 2 + np.log(width), match


@pytest.mark.parametrize(("distance", "documented"), [(1.5, 0.002), (2.0, 0.01), (3.0, 0.063)])
def test_the_gain_of_two_gaussians_is_that_of_the_best_two(distance, documented):
    """Groups are the halves of the line, and not as they were drawn."""
    x = np.sort(np.concatenate([gaussian(mean=-distance / 2), gaussian(mean=distance / 2)]))
    groups = x[x < 0], x[x >= 0]
    found = gains_of(groups, [(0, 1)])[0] / len(x)
    gain, match = best_gain(distance)
    assert gain == pytest.approx(documented, rel=0.05)
    expected = gain * match**2 if distance > 1.5 else 0.0  # too little of 6,000 rows by Schwarz's criterion
    assert 0.6 * expected <= found <= 1.05 * expected  # the iteration ends early where they overlap


@pytest.mark.parametrize("cuts", [[0.0], [-1.0, 0.0, 1.0], [-1.5, -0.5, 0.5, 1.5]])
def test_pieces_of_a_gaussian_gain_nothing(cuts):
    """Pieces with sharp borders are none, and would gain .01 and more a row."""
    groups = np.split(gaussian(), np.searchsorted(gaussian(), cuts))
    merges = [(0, z) for z in range(1, len(groups))]
    assert gains_of(groups, merges).max() < 1e-3 * N


def test_a_small_cluster_beside_a_gaussian_is_parted_before_its_halves():
    """The halves are merged first, and the small one then: only that merge gains."""
    low, high = np.split(gaussian(), 2)
    gains = gains_of([low, high, gaussian(300, mean=3.5, deviation=0.3)], [(0, 1), (0, 2)])
    assert gains[1] > 100
    assert gains[0] < 0.1 * gains[1]


def test_a_gain_counts_as_far_as_the_two_gaussians_are_the_groups():
    """Two clusters, and a merge of a third of one with the rest of it and the other."""
    one, other = gaussian(), gaussian(mean=3.5)
    piece, rest = np.split(one, [N // 3])
    right = gains_of([one, other], [(0, 1)])[0]
    wrong = gains_of([piece, np.concatenate([rest, other])], [(0, 1)])[0]
    assert 0 < wrong < 0.6 * right


def test_gains_count_rows_and_know_no_unit():
    groups = gaussian(1000), gaussian(500, mean=3.0)
    gain = gains_of(groups, [(0, 1)])
    np.testing.assert_allclose(gains_of(groups, [(0, 1)], times=2.0), 2 * gain, rtol=1e-9)
    moved = [100 * x + 7000 for x in groups]
    np.testing.assert_allclose(gains_of(moved, [(0, 1)]), gain, rtol=1e-6)


def test_merges_above_the_clusters_have_no_gain():
    groups = gaussian(500), gaussian(500, mean=3.0), gaussian(500, mean=40.0)
    assert (gains_of(groups, [(0, 1), (0, 2)], n_clusters=1) > 10).all()
    assert (gains_of(groups, [(0, 1), (0, 2)], n_clusters=2) > 10).tolist() == [True, False]
    assert not gains_of(groups, [(0, 1), (0, 2)], n_clusters=3).any()


def test_copies_of_one_row_gain_nothing():
    assert not gains_of([np.full(50, 3.0), np.full(50, 3.0)], [(0, 1)]).any()


def test_a_group_without_rows_is_left_out():
    tree = MergeTree(3, np.arange(3), np.array([(0, 1), (0, 2)]), np.ones(2))
    x, y = gaussian(500), gaussian(500, mean=4.0)
    samples = {0: Sample(x[:, None], uniform(x), 500.0), 2: Sample(y[:, None], uniform(y), 500.0)}
    lines = {1: Line(np.ones(1), 0.0, 4.0, 0.5), 0: Line(np.ones(1), 0.0, 1.0, 0.5)}
    gains = log_likelihood_gains(tree, 1, lines, samples)
    assert gains[0] == 0
    assert gains[1] > 50
