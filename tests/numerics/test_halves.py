"""Rows that are cut off from the cluster that they belong to."""

import numpy as np
import pytest

from bigsmic.numerics.labeling.halves import rows_cut_off

NONE = np.zeros((0, 2), np.int64)


@pytest.mark.parametrize(
    ("pairs", "n_rows"),
    [
        (NONE, 0),
        ([[0, 1]], 30),
        ([[1, 2]], 30),
        ([[0, 1], [0, 2], [1, 2]], 70),
        ([[0, 3], [3, 4]], 3),  # the small one between two others is cut off, and not the smaller of these
        ([[0, 2], [3, 4]], 43),
    ],
)
def test_the_smaller_half_is_cut_off(pairs, n_rows):
    assert rows_cut_off(np.array([100.0, 30, 40, 3, 50]), np.array(pairs)) == n_rows


def test_one_of_two_equal_halves_is_cut_off():
    assert rows_cut_off(np.array([8.0, 8.0, 1.0]), np.array([[0, 1]])) == 8
    assert rows_cut_off(np.array([8.0, 8.0]), np.array([[1, 0]])) == 8


def test_the_order_of_clusters_and_pairs_does_not_matter():
    rng = np.random.default_rng(0)
    counts, pairs = rng.permutation(50)[:12].astype(float), rng.integers(0, 12, (9, 2))
    order = rng.permutation(12)
    place = np.argsort(order)
    assert rows_cut_off(counts, pairs) == rows_cut_off(counts[order], place[pairs[::-1, ::-1]])
