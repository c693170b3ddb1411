"""Rows that are split from their whole, and rows that another partition lumps together."""

import numpy as np
import pytest

from bigsmic.numerics.labeling.wholes import rows_lumped, rows_split

NONE = np.zeros((0, 2), np.int64)


@pytest.mark.parametrize(
    ("pairs", "n_rows"),
    [(NONE, 0), ([[0, 1]], 30), ([[1, 2]], 30), ([[0, 1], [1, 2]], 70), ([[0, 2], [3, 4]], 40 + 3)],
)
def test_rows_are_split_that_are_not_in_the_largest_part_of_their_whole(pairs, n_rows):
    assert rows_split(np.array([100, 30, 40, 3, 50]), np.array(pairs)) == n_rows


def test_rows_are_lumped_together_that_are_not_of_the_largest_whole():
    shared = np.array([[60, 0], [30, 5], [0, 20]])
    assert rows_lumped(shared, NONE) == 30 + 5
    assert rows_lumped(shared, np.array([[0, 1]])) == 5
    assert rows_lumped(shared, np.array([[0, 1], [1, 2]])) == 0
    assert rows_lumped(shared, np.array([[1, 2]])) == 30


def test_a_partition_lumps_nothing_of_its_own():
    counts = np.arange(1, 6)
    assert rows_lumped(np.diag(counts), NONE) == 0
    assert rows_lumped(counts[:, None], NONE) == counts.sum() - counts.max()
