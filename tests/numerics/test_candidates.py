"""Neighbours chosen among candidates."""

import numpy as np
import pytest

from bigsmic.numerics.graph import candidates


def lists_of(X, w):
    """Nearest rows and their squared distances, by (distance, row)."""
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    indices = np.argsort(squares, axis=1, kind="stable")[:, :w]
    return indices, np.take_along_axis(squares, indices, axis=1).astype(np.float32)


def test_scales_are_distances_to_the_tenth():
    _, squares = lists_of(np.random.default_rng(0).normal(size=(50, 3)), 30)
    np.testing.assert_allclose(candidates.local_scales(squares) ** 2, squares[:, 9], rtol=1e-6)


def test_rows_with_few_neighbours_or_none_have_scales_as_well():
    squares = np.array([[4, 9, np.inf], [np.inf] * 3, [0, 0, 0], [4, np.inf, np.inf]], np.float32)
    found = candidates.local_scales(squares)
    assert found[[0, 3]].tolist() == [3, 2]
    assert (found[1:] > 0).all()
    assert (candidates.separations(squares, found[:, None], found[[0, 1, 1, 0], None]) >= 0).all()


def test_separations_are_symmetric_and_in_units_of_the_smaller_scale():
    draw = np.random.default_rng(0)
    squares, scales = draw.random((20, 20), np.float32), draw.random(20, np.float32) + 1
    squares += squares.T
    found = candidates.separations(squares, scales[:, None], scales)
    np.testing.assert_array_equal(found, found.T)
    i, j = np.argmin(scales), 7
    assert found[i, j] == pytest.approx(squares[i, j] / scales[i])


def test_the_least_separated_are_chosen_and_ties_go_to_the_nearer():
    indices = np.array([[7, 3, 5, -1], [2, 4, 6, 8]])
    squares = np.array([[1, 2, 3, np.inf], [1, 4, 4, 9]], np.float32)
    separated = squares / np.array([[1, 4, 1, 1], [1, 4, 2, 9]])
    found = candidates.least_separated(indices, squares, separated, 3)
    assert found[0].tolist() == [[3, 7, 5], [2, 4, 8]]
    assert found[1].tolist() == [[2, 1, 3], [1, 4, 9]]
    assert found[2].tolist() == [[0.5, 1, 3], [1, 1, 1]]


def test_sparser_rows_keep_the_order_of_their_distances():
    indices, squares = lists_of(np.random.default_rng(0).normal(size=(50, 3)), 30)
    theirs = np.float32(2) + np.random.default_rng(1).random(squares.shape, np.float32)
    separated = candidates.separations(squares, np.ones((50, 1), np.float32), theirs)
    np.testing.assert_array_equal(candidates.least_separated(indices, squares, separated, 20)[0], indices[:, :20])


def test_rows_of_a_wide_cluster_list_fewer_of_a_narrow_one_inside_it():
    draw = np.random.default_rng(0)
    X = np.concatenate([draw.normal(size=(300, 40)), 0.5 * draw.normal(size=(300, 40)) + 0.6])
    indices, squares = lists_of(X, 60)
    scales = candidates.local_scales(squares)
    separated = candidates.separations(squares, scales[:, None], scales[indices])
    chosen, _, _ = candidates.least_separated(indices, squares, separated, 20)
    before, after = ((of_rows[:300] >= 300).mean() for of_rows in (indices[:, :20], chosen))
    assert after < before - 0.2
    np.testing.assert_array_equal(chosen[300:] >= 300, True)
