"""Gaussians of the clusters against dense formulas, and when they have a say."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bigsmic.numerics.labeling import gaussians
from bigsmic.numerics.labeling.group_moments import group_moments
from bigsmic.numerics.labeling.groups import RIDGE

pytestmark = pytest.mark.unit


def two_clusters(n=400, r=3, seed=0):
    """A wide and a narrow cluster."""
    draw = np.random.default_rng(seed)
    P = np.concatenate([draw.normal(0, 2.0, (n, r)), draw.normal(4.0, 0.4, (n // 2, r))]).astype(np.float32)
    return P, np.repeat([0, 1], [n, n // 2])


def fitted(P, labels, c=2):
    return gaussians.of_moments(group_moments(P, labels, c))


def test_densities_are_those_of_gaussians():
    P, labels = two_clusters()
    found = gaussians.log_densities(P, fitted(P, labels))
    for y in range(2):
        rows = P[labels == y].astype(np.float64)
        S = np.cov(rows.T, bias=True)
        S += np.eye(3) * RIDGE * np.trace(S) / 3
        expected = np.log(len(rows)) + multivariate_normal(rows.mean(axis=0), S).logpdf(P.astype(np.float64))
        np.testing.assert_allclose(found[:, y], expected + 1.5 * np.log(2 * np.pi), rtol=1e-9, atol=1e-6)


def test_moments_may_be_added_over_blocks():
    P, labels = two_clusters()
    parts = group_moments(P[:250], labels[:250], 2) + group_moments(P[250:], labels[250:], 2)
    for whole, of_parts in zip(fitted(P, labels), gaussians.of_moments(parts), strict=True):
        np.testing.assert_allclose(of_parts, whole, rtol=1e-9, atol=1e-12)


def test_moments_that_have_no_covariance_are_of_no_gaussian():
    P, labels = two_clusters()
    moments = group_moments(P, labels, 2)
    moments.outers[0] -= 2 * np.diag(np.diag(moments.outers[0]))  # as rounding leaves it around a mean far out
    found = fitted(P, labels)
    without = gaussians.of_moments(moments)
    assert without.offsets[0] == -np.inf
    np.testing.assert_array_equal(without.offsets[1], found.offsets[1])


def test_a_row_that_all_agree_on_moves_at_odds_above_the_least_vote():
    votes, anywhere = np.array([[1.0, 0.0]] * 2), np.ones((2, 2), bool)
    densities = np.array([[0.0, 9.9], [0.0, 10.1]])
    np.testing.assert_array_equal(gaussians.moved(np.zeros(2, int), votes, densities, anywhere), [0, 1])


def test_divided_votes_leave_it_to_the_shapes():
    votes, anywhere = np.array([[0.5, 0.5]] * 2), np.ones((2, 2), bool)
    densities = np.array([[0.1, 0.0], [0.0, 0.1]])
    np.testing.assert_array_equal(gaussians.moved(np.zeros(2, int), votes, densities, anywhere), [0, 1])


def test_no_row_moves_between_clusters_whose_shapes_are_not_believed():
    votes, densities = np.array([[0.5, 0.5]]), np.array([[0.0, 50.0]])
    nowhere = np.zeros((2, 2), bool)
    np.testing.assert_array_equal(gaussians.moved(np.zeros(1, int), votes, densities, nowhere), [0])


def test_shapes_are_believed_as_far_as_they_tell_the_sure_rows():
    confused = np.array([[96, 4, 0], [0, 100, 0], [6, 0, 94]])
    may = gaussians.believed(confused)
    assert may[0, 1]
    assert may[1, 0]
    assert not may[0, 2]
    assert not may[2, 0], "what one confuses with the other, the other is not told from either"


def test_moons_are_not_of_such_a_shape():
    from sklearn.datasets import make_moons

    P, labels = make_moons(2000, noise=0.06, random_state=0)
    P = P.astype(np.float32)
    densities = gaussians.log_densities(P, fitted(P, labels))
    assert not gaussians.believed(gaussians.confusion(labels, densities))[0, 1]


def test_a_cluster_of_few_rows_has_no_gaussian_and_keeps_its_rows():
    P, labels = two_clusters()
    few = np.concatenate([np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)[:5]])
    found = fitted(P[few], labels[few])
    assert np.isneginf(found.offsets[1])
    densities = gaussians.log_densities(P[few], found)
    assert np.isneginf(densities[:, 1]).all()
    sure = labels[few] == 0
    may = gaussians.believed(gaussians.confusion(labels[few][sure], densities[sure]))
    kept = gaussians.moved(labels[few], np.eye(2)[labels[few]], densities, may)
    np.testing.assert_array_equal(kept, labels[few])


def test_no_cluster_has_a_gaussian():
    P, labels = two_clusters(n=4)
    found = fitted(P, labels)
    densities = gaussians.log_densities(P, found)
    may = gaussians.believed(np.zeros((2, 2), np.int64))
    np.testing.assert_array_equal(gaussians.moved(labels, np.eye(2)[labels], densities, may), labels)


def test_half_of_the_posterior_is_that_of_the_new_cluster():
    posterior = np.array([[0.9, 0.1, 0.0], [0.2, 0.2, 0.6]], np.float32)
    found = gaussians.halved(posterior, np.array([1, 2]), np.array([True, False]))
    np.testing.assert_allclose(found, [[0.45, 0.55, 0.0], [0.2, 0.2, 0.6]], rtol=1e-6)
    assert posterior[0, 0] == np.float32(0.9), "the votes' own is left alone"


def test_copies_of_one_row_make_a_gaussian():
    P = np.zeros((50, 2), np.float32)
    found = fitted(P, np.zeros(50, int), 1)
    assert np.isfinite(gaussians.log_densities(P, found)).all()


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-20, 2.0**40])
def test_the_unit_of_the_rows_changes_nothing(unit):
    P, labels = two_clusters()
    found, other = (gaussians.log_densities(x * P, fitted(x * P, labels)) for x in (np.float32(1), np.float32(unit)))
    np.testing.assert_allclose(other, found - 3 * np.log(unit), rtol=1e-9)


def test_a_cluster_of_equal_rows_has_a_gaussian():
    P, labels = two_clusters()
    P[labels == 1] = 4.0
    densities = gaussians.log_densities(P, fitted(P, labels))
    np.testing.assert_array_equal(densities[labels == 1].argmax(axis=1), 1)
