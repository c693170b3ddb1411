"""Agreement and modularity of cuts, against what each cut has by itself."""

import numpy as np
import pytest
from drawn_trees import random_tree

from bigsmic.numerics.labeling import cuts, local_moving
from bigsmic.numerics.labeling.consensus import label_gram, merged_gram, pairwise_ari, stability


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("n_labelings", [1, 2, 4])
@pytest.mark.parametrize("n_rows", [40, 3_000_000])
def test_agreements_are_those_of_each_cut(rng, n_labelings, n_rows):
    sizes = [9, 12, 10, 9][:n_labelings]
    labels = np.stack([rng.integers(0, m, 400) % (m - 1) for m in sizes], axis=1)
    sums = label_gram(labels, sizes) * (n_rows // 40)
    trees = [random_tree(m, rng, [m - 1]) for m in sizes]
    numbers = np.array([3, 1, 8, 11, 5])
    found = cuts.agreements(sums, sizes, trees, numbers)
    for k, agreement in zip(numbers, found, strict=True):
        groups = [tree.cut(min(k, len(tree.columns))) for tree in trees]
        kept = np.concatenate([group >= 0 for group in groups])
        merged = merged_gram(sums[np.ix_(kept, kept)], [group[group >= 0] for group in groups])
        assert agreement == stability(pairwise_ari(*merged))


def test_agreements_leave_the_sums(rng):
    sums = label_gram(rng.integers(0, 5, (100, 2)), [5, 5])
    before = sums.copy()
    cuts.agreements(sums, [5, 5], [random_tree(5, rng), random_tree(5, rng)], np.array([2]))
    np.testing.assert_array_equal(sums, before)


def test_modularities_are_those_of_each_cut(rng):
    half = rng.random((12, 12))
    W, tree = half + half.T, random_tree(12, rng, [4, 7])
    numbers = np.array([2, 10, 1, 12, 5])
    for k, found in zip(numbers, cuts.modularities(tree, W, numbers), strict=True):
        groups = tree.cut(min(k, 10))
        A = np.eye(groups.max() + 1)[groups[groups >= 0]]
        between = A.T @ W[np.ix_(groups >= 0, groups >= 0)] @ A
        assert found == pytest.approx(local_moving.modularity(np.stack([np.diag(between), between.sum(axis=1)])))


def test_no_numbers(rng):
    none = np.zeros(0, np.int64)
    sums = label_gram(rng.integers(0, 5, (100, 2)), [5, 5])
    assert cuts.agreements(sums, [5, 5], [random_tree(5, rng), random_tree(5, rng)], none).shape == (0,)
    assert cuts.modularities(random_tree(5, rng), np.ones((5, 5)), none).shape == (0,)


def test_shares_within_are_those_of_each_group():
    weights = np.array([[4.0, 1, 0, 0, 1], [1, 2, 3, 0, 0], [0, 3, 6, 0, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 9]])
    groups = np.array([0, 1, 1, 2, -1])
    np.testing.assert_allclose(cuts.shares_within(groups, weights), [4 / 5, 14 / 15, 0])
