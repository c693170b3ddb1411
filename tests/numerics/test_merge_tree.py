"""Merge trees whose merges are reordered: those of large scores are undone first."""

import numpy as np
import pytest
from drawn_trees import random_tree

from bigsmic.errors import InputError
from bigsmic.numerics.labeling.merge_tree import MergeTree


def parted(tree, n_groups, n_parts, sizes):
    """Cut as it is defined: the two parts of every group that is made by a merge, the smallest one parted first."""
    made = {frozenset([column]): None for column in tree.columns.tolist()}
    of = {column: frozenset([column]) for column in tree.columns.tolist()}
    for y, z in tree.merges[: len(tree.columns) - n_groups].tolist():
        a, b = of[y], of[z]
        made[a | b] = (a, b)
        for column in a | b:
            of[column] = a | b
    groups = set(of.values())
    while len(groups) < n_parts:
        smaller = {g: min(sizes[list(part)].sum() for part in made[g]) for g in groups if made[g]}
        group = min(smaller, key=smaller.get)
        groups = (groups - {group}) | set(made[group])
    return groups


@pytest.mark.parametrize("seed", range(5))
def test_smallest_parts_are_parted_first(seed):
    rng = np.random.default_rng(seed)
    sizes, tree = rng.random(20), random_tree(20, rng, [3, 11])
    found = tree.undone_by(6, -tree.smaller_parts(sizes))
    for k in range(1, 19):
        cut = found.cut(k)
        assert (cut[[3, 11]] == -1).all()
        if k <= 6:
            np.testing.assert_array_equal(cut, tree.cut(k))
        else:
            assert {frozenset(np.flatnonzero(cut == group).tolist()) for group in range(k)} == parted(tree, 6, k, sizes)


def test_ratios_go_with_their_merges():
    rng = np.random.default_rng(0)
    tree = random_tree(12, rng)
    found = tree.undone_by(3, rng.random(11))
    of = {tuple(merge): ratio for merge, ratio in zip(tree.merges.tolist(), tree.ratios, strict=True)}
    assert [of[tuple(merge)] for merge in found.merges.tolist()] == found.ratios.tolist()


def test_crumbs_are_parted_after_all_others():
    """The first merge takes in a crumb, the smallest part of all."""
    tree = MergeTree(4, np.arange(4), np.array([(0, 1), (2, 3), (0, 2)]), np.array([np.inf, 0.5, 0.1]))
    found = tree.undone_by(1, -tree.smaller_parts(np.array([10.0, 1.0, 8.0, 6.0])))
    assert found.cut(2).tolist() == [0, 0, 1, 1]
    assert found.cut(3).tolist() == [0, 0, 1, 2]


def test_a_number_of_groups_that_the_tree_lacks_is_refused():
    tree = random_tree(5, np.random.default_rng(0))
    with pytest.raises(InputError, match="got n_groups=6, the tree has 1 to 5"):
        tree.undone_by(6, np.ones(4))


def test_of_equal_scores_the_last_merge_is_undone_first():
    tree = random_tree(12, np.random.default_rng(1))
    np.testing.assert_array_equal(tree.undone_by(3, np.zeros(11)).merges, tree.merges)
