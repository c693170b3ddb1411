"""Rows far out, which are drawn in where directions between groups are found."""

import numpy as np
import pytest

from bigsmic.numerics.labeling import outliers
from bigsmic.numerics.labeling.outliers import Fence


def rows_of(m):
    return np.random.default_rng(0).normal(size=(m, 3)).astype(np.float32)


def test_rows_far_out_are_moved_onto_the_fence_and_others_stay():
    X = rows_of(300)
    X[7], X[9] = [1e9, -2e9, 0], [0, 0, -5e4]
    fence = outliers.fence(X)
    moved = outliers.drawn_in(X, fence)
    far = np.array([7, 9])
    from_middle = moved[far] - fence.middle.astype(np.float64)
    assert fence.reach < 1e4
    np.testing.assert_allclose(np.linalg.norm(from_middle, axis=1), fence.reach, rtol=1e-5)
    towards = X[far] - fence.middle.astype(np.float64)
    cosines = np.einsum("ij,ij->i", towards, from_middle) / np.linalg.norm(towards, axis=1) / fence.reach
    np.testing.assert_allclose(cosines, 1, rtol=1e-6)
    np.testing.assert_array_equal(np.delete(moved, far, axis=0), np.delete(X, far, axis=0))
    assert X[7, 0] == np.float32(1e9)


def test_rows_that_none_are_far_out_of_are_not_even_copied():
    X = rows_of(300)
    assert outliers.drawn_in(X, outliers.fence(X)) is X


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_fence_is_in_the_unit_of_the_rows(unit):
    assert outliers.fence(unit * rows_of(300)).reach == pytest.approx(unit * outliers.fence(rows_of(300)).reach)


def test_more_than_a_hundredth_of_the_rows_is_not_far_out():
    X = rows_of(300)
    X[:4] *= 1e8
    assert outliers.drawn_in(X, outliers.fence(X)) is X


def test_a_hundredth_of_the_rows_may_be_far_out_and_one_more_where_that_is_no_whole_number():
    X = rows_of(250)
    X[:3] *= 1e8
    fence = outliers.fence(X)
    moved = outliers.drawn_in(X, fence)
    assert fence.reach == pytest.approx(1e3 * np.linalg.norm(X[3:] - fence.middle, axis=1).max(), rel=1e-5)
    assert (np.linalg.norm(moved - fence.middle, axis=1) < 1.001 * fence.reach).all()


def test_outliers_are_beyond_the_fence_of_the_quartiles_of_distances_wherever_the_rows_are():
    """Distances from the median are 0 to 100 but for four: quartiles are about 25 and 75, and the fence is at 150."""
    line = np.concatenate([np.arange(-100.0, 101), [-155, -145, 145, 155]])
    P = np.stack([line + 7000, np.full(len(line), -3000.0)], axis=1)
    np.testing.assert_array_equal(outliers.without_outliers(P), P[np.abs(line) < 150])


@pytest.mark.parametrize("m", [1, 2, 40])
def test_equal_rows_have_no_fence(m):
    X = np.ones((m, 3), np.float32)
    fence = outliers.fence(X)
    assert fence.reach == np.inf
    assert outliers.drawn_in(X * 1e9, Fence(fence.middle, fence.reach)).max() == np.float32(1e9)
