from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigsmic.numerics.labeling.column_sums import column_sums, effects


def rows(n=300, d=4, c=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, c, n)
    return (rng.normal(size=(n, d)) + labels[:, None]).astype(np.float32), labels


def test_mean_and_spread_are_those_of_the_rows():
    X, labels = rows()
    center = np.full(4, 0.5)
    found = column_sums(X, labels, 3, center)
    for k in range(3):
        own = X[labels == k].astype(np.float64)
        np.testing.assert_allclose(found.mean[k] + center, own.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found.spread[k], own.std(axis=0), rtol=1e-9)
    assert found.counts.sum() == (labels >= 0).sum()


def test_a_cluster_of_one_row_has_its_mean_and_no_spread_and_one_of_none_has_neither():
    found = column_sums(np.array([[3.0, -4.0]]), np.zeros(1, int), 2, np.zeros(2))
    np.testing.assert_array_equal(found.mean, [[3, -4], [np.nan, np.nan]])
    np.testing.assert_array_equal(found.spread, [[0, 0], [np.nan, np.nan]])


@given(cuts=st.lists(st.integers(0, 300), max_size=5))
def test_blocks_add_up(cuts):
    X, labels = rows()
    center, bounds = X.mean(axis=0, dtype=np.float64), [0, *sorted(cuts), 300]
    parts = [column_sums(X[a:b], labels[a:b], 3, center) for a, b in pairwise(bounds)]
    total = sum(parts[1:], parts[0])
    for mine, whole in zip(total, column_sums(X, labels, 3, center), strict=True):
        np.testing.assert_allclose(mine, whole, atol=1e-10)


def test_integers_far_from_zero_lose_no_digits():
    X = np.array([[2**40, 7], [2**40 + 2, 9], [2**40 + 4, 11]], np.int64)
    found = column_sums(X, np.zeros(3, int), 1, np.array([2.0**40, 0.0]))
    np.testing.assert_allclose(found.mean, [[2, 9]])
    np.testing.assert_allclose(found.spread, [[np.sqrt(8 / 3)] * 2])


def test_effect_is_the_distance_from_the_rest_in_standard_deviations():
    X, labels = rows()
    found = effects(column_sums(X, labels, 3, np.zeros(4)))
    own, rest = X[labels == 1].astype(float), X[(labels >= 0) & (labels != 1)].astype(float)
    spread = np.sqrt((own.var(axis=0) + rest.var(axis=0)) / 2)
    np.testing.assert_allclose(found[1], (own.mean(axis=0) - rest.mean(axis=0)) / spread, rtol=1e-6)


@pytest.mark.filterwarnings("error")
def test_columns_without_variance_and_clusters_without_rows_have_no_effect():
    X, labels = rows(c=2)
    X[:, 1] = 3
    found = effects(column_sums(X, labels, 3, np.zeros(4)))
    assert (found[:, 1] == 0).all()
    assert (found[2] == 0).all()
    assert (found[:2, 0] != 0).all()
    assert (effects(column_sums(X, np.zeros(len(X), int), 1, np.zeros(4))) == 0).all()


def test_a_column_that_is_another_constant_elsewhere_tells_most():
    """Also where sums of squares leave a trace of a spread that is not there."""
    labels = np.repeat([0, 1, 2], [7, 50, 43])
    X = np.random.default_rng(0).normal(size=(100, 4))
    X[:, 1] = np.where(labels == 0, 0.1, 0.3)
    X[:, 2] = 0.7
    found = effects(column_sums(X, labels, 3, X.mean(axis=0)))
    assert found[0, 1] == -np.inf
    assert np.isfinite(found[1:]).all()
    np.testing.assert_allclose(found[:, 2], 0, atol=1e-6)
