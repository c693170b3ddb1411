"""Equal rows count as one point: who stands for whom, and what lists have then."""

import numpy as np
import pytest

from bigsmic.numerics.graph.equal_rows import find_equal, find_points, first_equal
from bigsmic.numerics.graph.neighbors import NeighborSettings, group_neighbors

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(0)
TABLE = RNG.integers(0, 4, (600, 3)).astype(np.float32)  # 64 distinct rows
DISTINCT, POINT = np.unique(TABLE, axis=0, return_inverse=True)
POINT = POINT.ravel()  # of a column in NumPy 2.0
HOMES = (np.arange(600) % 2).astype(np.int32)


def lists(X, k, cells=None):
    cells = np.zeros((len(X), 1), np.int32) if cells is None else cells
    return group_neighbors(X, np.arange(len(X)), cells, NeighborSettings(k, "exact"))


def test_the_first_equal_row_is_found():
    expected = [np.flatnonzero((row == TABLE).all(axis=1))[0] for row in TABLE]
    np.testing.assert_array_equal(first_equal(TABLE), expected)


def test_minus_zero_is_zero_and_other_signs_differ():
    X = np.float32([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0], [-0.0, -1.0], [1.0, 0.0]])
    assert first_equal(X).tolist() == [0, 0, 2, 2, 4]


@pytest.mark.parametrize("d", [1, 2, 5, 8, 13])
def test_rows_of_few_values_are_told_apart(d):
    """Zeros and repeated values in all places, which a weak hash of the rows confuses."""
    X = np.random.default_rng(d).integers(0, 3, (30_000, d)).astype(np.float32)
    _, at, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(first_equal(X), at[inverse.ravel()])


def test_the_equal_row_of_another_table_is_found():
    others = np.array([[0, 1, 2], [0, 1, 2.5], [9, 9, 9], [-0.0, 0, 0]], np.float32)
    known = [[np.flatnonzero((row == DISTINCT).all(axis=1))[0]] for row in others[[0, 3]]]
    found = find_equal(others, DISTINCT)
    np.testing.assert_array_equal(found[[0, 3]], np.ravel(known))
    np.testing.assert_array_equal(found[[1, 2]], -1)


def test_no_rows():
    assert len(first_equal(np.empty((0, 3), np.float32))) == 0


def test_a_point_stands_for_its_copies_in_its_cell():
    points = find_points(TABLE, HOMES, 20)
    np.testing.assert_array_equal(points.first, first_equal(TABLE))
    assert (HOMES[points.nearby] == HOMES).all()
    assert (POINT[points.nearby] == POINT).all()
    assert len(points.rows) == len(set(zip(POINT.tolist(), HOMES.tolist(), strict=True)))


def test_where_few_rows_differ_each_is_a_point():
    assert len(find_points(TABLE, HOMES, 63).rows) < 600
    assert len(find_points(TABLE, HOMES, 64).rows) == 600


def test_a_row_lists_a_copy_and_then_the_nearest_distinct_rows():
    indices, squares = lists(TABLE, 6)
    assert (np.bincount(POINT) > 1).all()
    assert (POINT[indices[:, 0]] == POINT).all()
    assert (indices[:, 0] != np.arange(600)).all()
    exact = np.sort(np.square(DISTINCT[:, None] - DISTINCT[None]).sum(axis=2), axis=1)
    np.testing.assert_array_equal(squares, exact[POINT][:, :6])
    for listed in POINT[indices]:
        assert len(set(listed)) == 6


def test_all_copies_hang_together():
    indices, _ = lists(TABLE, 6)
    first = first_equal(TABLE)
    assert (indices[first != np.arange(600), 0] == first[first != np.arange(600)]).all()


def test_cells_that_share_a_point_are_linked_by_it():
    indices, squares = lists(TABLE, 6, HOMES[:, None])
    points = find_points(TABLE, HOMES, 6)
    leaders = points.rows[points.first[points.rows] != points.rows]
    assert len(leaders) > 20
    np.testing.assert_array_equal(indices[leaders, 0], points.first[leaders])
    assert (squares[:, 0] == 0).all()
    assert (squares[:, 1:] > 0).all()
    assert (HOMES[indices[:, 1:]] == HOMES[:, None]).all()


def test_no_row_is_listed_twice_by_one_that_was_compared_with_all_points():
    cells = (np.arange(600) % 40).astype(np.int32)[:, None]  # fewer rows each than a list has places
    indices, _ = lists(TABLE, 20, cells)
    assert (indices >= 0).all()
    assert all(len(set(listed)) == 20 for listed in indices.tolist())


def test_distinct_rows_have_the_lists_that_they_have_alone():
    X = RNG.normal(size=(300, 4)).astype(np.float32)
    alone, squares = lists(X, 5)
    indices, with_copy = lists(np.concatenate([X, X[:1]]), 5)
    np.testing.assert_array_equal(indices[1:300], alone[1:])
    np.testing.assert_array_equal(with_copy[1:300], squares[1:])
    assert indices[[0, 300], 0].tolist() == [300, 0]
    np.testing.assert_array_equal(indices[[0, 300], 1:], alone[[0, 0], :-1])
