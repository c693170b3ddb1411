import numpy as np

from bigsmic.numerics.labeling.novelty import LEAST_LIMIT, limit_of, neighbor_ratios


def test_rows_without_enough_neighbours_are_usual_among_their_like_alone():
    """Of a graph, distances of rows with fewer than t neighbours are infinite."""
    found = neighbor_ratios(np.array([2.0, np.inf, 3.0, np.inf]), np.array([4.0, np.inf, np.inf, 1.0]), 0.5)
    np.testing.assert_array_equal(found, [0.5, 1.0, 0.0, np.inf])


def test_the_limit_is_that_of_rows_whose_ratio_is_known():
    ratios = np.linspace(1, 9, 100)
    assert limit_of(np.append(ratios, [np.inf] * 5)) == limit_of(ratios)
    assert limit_of(np.full(3, np.inf)) == LEAST_LIMIT
