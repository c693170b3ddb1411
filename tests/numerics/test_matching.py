"""Clusters that continue others, by counts of their rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bigsmic.numerics.labeling import matching
from bigsmic.numerics.labeling.metrics import contingency

TABLES = arrays.arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.integers(0, 50))


def continued(table):
    return matching.continued(table, table).tolist()


def test_overlap_is_the_index_of_dice():
    before, after = np.random.default_rng(0).integers(0, 3, (2, 200))
    table = contingency(before, after, 3, 3)
    expected = [
        [2 * np.sum((before == i) & (after == j)) / (np.sum(before == i) + np.sum(after == j)) for j in range(3)]
        for i in range(3)
    ]
    np.testing.assert_allclose(matching.overlap(table, table), expected)


def test_clusters_keep_their_numbers_in_whatever_order_they_come():
    order = np.array([2, 0, 3, 1])
    assert continued(np.diag([50, 40, 30, 20])[:, order]) == order.tolist()


def test_a_row_here_or_there_changes_nothing():
    table = np.array([[90, 0, 10], [5, 80, 0], [0, 1, 70]])
    assert continued(table) == [0, 1, 2]


def test_the_sum_of_overlaps_counts_and_not_who_comes_first():
    # cluster 0 overlaps most with column 0, but so does 1, which has no other
    table = np.array([[60, 55], [50, 0]])
    assert continued(table) == [1, 0]


def test_what_overlaps_too_little_is_new():
    table = np.array([[10, 100], [0, 100]])
    assert continued(table) == [-1, 1]
    assert continued(np.zeros((2, 2), np.int64)) == [-1, -1]


def test_the_larger_half_of_a_split_keeps_the_number():
    table = np.array([[40, 60, 0], [0, 0, 100]])
    assert continued(table) == [-1, 0, 1]
    assert matching.splits(table, table) == {0: [0, 1]}
    assert matching.merges(table, table) == {}


def test_the_larger_part_of_a_merge_gives_the_number():
    table = np.array([[40, 0], [60, 0], [0, 100]])
    assert continued(table) == [1, 2]
    assert matching.merges(table, table) == {0: [0, 1]}
    assert matching.splits(table, table) == {}


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ([[60, 40], [0, 30]], {0: [0, 1]}),
        ([[60, 40], [0, 60]], {}),  # most of the second are rows of another
        ([[94, 6], [0, 0]], {0: [0, 1]}),
        ([[96, 4], [0, 0]], {}),  # hardly any
    ],
)
def test_parts_consist_mostly_of_rows_of_the_cluster_and_have_a_twentieth_of_it(table, found):
    assert matching.splits(np.array(table), np.array(table)) == found


def test_a_new_regime_that_the_earlier_fit_takes_for_another_is_no_part_of_it():
    stayed = np.array([[100, 0, 0], [0, 100, 0]])  # no row of the earlier fit is in it
    came = np.array([[100, 0, 90], [0, 100, 0]])
    assert matching.continued(stayed, came).tolist() == [0, 1, -1]
    assert matching.splits(stayed, came) == {}


@given(TABLES, st.integers(0, 2**32 - 1))
def test_every_number_is_taken_once(table, seed):
    numbers = matching.numbered(matching.continued(table, table), len(table))
    assert len(set(numbers.tolist())) == len(numbers)
    new = np.sort(numbers[numbers >= len(table)])
    np.testing.assert_array_equal(new, len(table) + np.arange(len(new)))


@given(TABLES)
def test_splits_of_one_are_merges_of_the_other(table):
    assert matching.splits(table, table) == matching.merges(table.T, table.T)


@pytest.mark.parametrize("least", [0.3, 0.9])
def test_the_threshold_is_the_callers(least):
    table = np.array([[60, 40], [30, 0]])
    found = matching.continued(table, table, least)
    overlap = matching.overlap(table, table)
    assert all(overlap[i, j] >= least for j, i in enumerate(found) if i >= 0)
