"""Sums over the rows of clusters, and what follows from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, is_valid_linkage

from bigsmic.numerics.labeling import cluster_sums
from bigsmic.numerics.labeling.metrics import contingency


def rows(n=300, c=5, seed=0):
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(c, 0.3), n).astype(np.float32)
    labels = np.where(rng.uniform(size=n) < 0.1, -1, posterior.argmax(axis=1))
    return labels, posterior, rng.uniform(size=n).astype(np.float32)


def test_sums_are_those_of_the_rows_of_each_cluster():
    labels, posterior, agreement = rows()
    found = cluster_sums.cluster_sums(labels, posterior, agreement)
    for k in range(5):
        own = labels == k
        assert found.counts[k] == own.sum()
        assert found.posterior[k] == pytest.approx(posterior[own, k].sum(dtype=float))
        assert found.agreement[k] == pytest.approx(agreement[own].sum(dtype=float))
    np.testing.assert_allclose(found.gram, posterior.astype(float).T @ posterior.astype(float))


@given(st.integers(0, 300))
def test_sums_of_blocks_add_up(cut):
    data = rows()
    parts = [cluster_sums.cluster_sums(*(array[at] for array in data)) for at in (slice(cut), slice(cut, None))]
    for both, whole in zip(parts[0] + parts[1], cluster_sums.cluster_sums(*data), strict=True):
        np.testing.assert_allclose(both, whole)


def test_density_ratio_is_one_by_chance_and_zero_of_those_that_never_meet():
    independent = np.tile([0.2, 0.3, 0.5], (40, 1))
    np.testing.assert_allclose(cluster_sums.density_ratios(independent.T @ independent), 1)
    apart = np.repeat(np.eye(3), [10, 20, 10], axis=0)
    np.testing.assert_allclose(cluster_sums.density_ratios(apart.T @ apart), np.diag([4, 2, 4]))


def test_density_ratios_of_a_cluster_without_posterior_are_zero():
    found = cluster_sums.density_ratios(np.array([[4.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(found, [[1, 0], [0, 0]])


@pytest.mark.parametrize("empty", [[], [0], [2], [1, 4]])
def test_leaves_of_the_tree_are_the_clusters_also_those_without_rows(empty):
    gram = cluster_sums.cluster_sums(*rows()).gram
    gram[empty] = gram[:, empty] = 0
    Z = cluster_sums.cluster_tree(gram).linkage()
    assert is_valid_linkage(Z)
    assert Z.shape == (4, 4)
    ratios = np.triu(cluster_sums.density_ratios(gram), 1)
    assert sorted(Z[0, :2]) == list(np.unravel_index(ratios.argmax(), ratios.shape))
    apart = cut_tree(Z, len(empty) + 1)[:, 0]  # those without rows are merged last, one by one
    assert len(np.unique(apart[empty])) == len(empty)
    assert len(set(apart) - set(apart[empty])) == 1
    assert (Z[:, 2] == Z[-1, 2]).sum() == max(1, len(empty))  # higher than all others


def test_tree_of_one_cluster_has_no_merge():
    assert cluster_sums.cluster_tree(np.array([[3.0]])).linkage().shape == (0, 4)


def test_best_jaccard_is_that_of_sets_of_rows():
    a, b = rows(seed=1)[0] + 1, rows(seed=2)[0] + 1
    b[:100] = a[:100]
    found = cluster_sums.best_jaccard(contingency(a, b, 7, 6))
    for k in range(6):
        own = set(np.flatnonzero(a == k))
        others = [set(np.flatnonzero(b == m)) for m in range(6)]
        assert found[k] == pytest.approx(max(len(own & other) / len(own | other) for other in others))
    assert np.isnan(found[6])  # has no rows
