import tracemalloc

import numpy as np

from bigsmic.numerics.labeling import novelty
from bigsmic.numerics.labeling.novelty import LEAST_LIMIT, limit_of, neighbor_ratios


def test_rows_without_enough_neighbours_are_usual_among_their_like_alone():
    """Of a graph, distances of rows with fewer than t neighbours are infinite."""
    found = neighbor_ratios(np.array([2.0, np.inf, 3.0, np.inf]), np.array([4.0, np.inf, np.inf, 1.0]), 0.5)
    np.testing.assert_array_equal(found, [0.5, 1.0, 0.0, np.inf])


def test_the_limit_is_that_of_rows_whose_ratio_is_known():
    ratios = np.linspace(1, 9, 100)
    assert limit_of(np.append(ratios, [np.inf] * 5)) == limit_of(ratios)
    assert limit_of(np.full(3, np.inf)) == LEAST_LIMIT


def test_wide_rows_are_compared_with_shapes_in_less_memory_than_they_take():
    """Sampled rows are up to 64 MiB, of which a dozen arrays in float64 were made, whatever the plan said."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(400, 20_000)).astype(np.float32), rng.integers(4, size=400)
    shapes = novelty.shapes(X, labels, 4)
    tracemalloc.start()
    try:
        ratios = novelty.left_out_ratios(X, labels, shapes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * X.nbytes
    some = np.flatnonzero(labels == 2)
    other = novelty.shapes(np.delete(X[some], 0, axis=0), np.zeros(len(some) - 1, int), 1)
    np.testing.assert_allclose(ratios[some[0]], other.ratios(X[some[:1]], np.zeros(1, int)), rtol=1e-6)


def test_shapes_of_wide_rows_take_less_memory_than_twice_the_rows():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(400, 20_000)).astype(np.float32), rng.integers(4, size=400)
    tracemalloc.start()
    try:
        found = novelty.shapes(X, labels, 5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * X.nbytes
    for y, rows in enumerate([X[labels == 0], X[labels == 1], X[labels == 2], X[labels == 3], X]):
        np.testing.assert_allclose(found.means[y], rows.mean(axis=0, dtype=np.float64), atol=1e-12)
        np.testing.assert_allclose(found.spreads[y], rows.std(axis=0, dtype=np.float64), rtol=1e-9)
