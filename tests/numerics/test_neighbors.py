import sys
import tracemalloc
import types
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigsmic.errors import InputError
from bigsmic.numerics.graph import neighbors
from bigsmic.numerics.graph.cells import PartitionSettings, build_cells, probe, route
from bigsmic.numerics.graph.neighbor_lists import empty_lists, merge_neighbors
from bigsmic.numerics.graph.neighbors import (
    NeighborSettings,
    Residents,
    exact_neighbors,
    group_neighbors,
    update_knn,
)


def blobs(n, d=9, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(12, d))[rng.integers(12, size=n)] * 2 + rng.normal(size=(n, d))).astype(np.float32)


def brute(Q, X, k, exclude_self=True):
    squares = np.square(Q[:, None].astype(np.float64) - X[None]).sum(axis=2)
    if exclude_self:
        np.fill_diagonal(squares, np.inf)
    indices = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return indices, np.take_along_axis(squares, indices, axis=1)


def one_cell(X, k, method="exact"):
    return group_neighbors(X, np.arange(len(X)), np.zeros((len(X), 1), np.int32), NeighborSettings(k, method))


def cells_of(X, cell_rows=40, candidates=400, **options):
    config = PartitionSettings(len(X), cell_rows=cell_rows, candidates=candidates, **options)
    cells = build_cells(X, config)
    return cells, route(X, np.arange(len(X)), cells, config.overlap)


def check_lists(X, indices, squares, k):
    """Every row has k others, each once, ascending, at the distance that is said."""
    assert (indices >= 0).all()
    assert (indices != np.arange(len(X))[:, None]).all()
    assert (np.diff(np.sort(indices, axis=1), axis=1) > 0).all()
    assert (np.diff(squares, axis=1) >= 0).all()
    exact = np.square(X[indices].astype(np.float64) - X[:, None]).sum(axis=2)
    np.testing.assert_allclose(squares, exact, rtol=1e-5, atol=1e-12)
    assert indices.shape == (len(X), k)


def recall(indices, wanted):
    return np.mean([np.isin(w, i).mean() for i, w in zip(indices, wanted, strict=True)])


X = blobs(900)
CELLS, ROUTED = cells_of(X)


@pytest.mark.parametrize("n", [70, 500, 900])
def test_one_cell_is_exact(n):
    indices, squares = one_cell(X[:n], 10)
    wanted, exact = brute(X[:n], X[:n], 10)
    assert np.array_equal(indices, wanted)
    np.testing.assert_allclose(squares, exact, rtol=1e-5)


def test_many_cells_find_nearly_all():
    indices, squares = group_neighbors(X, np.arange(900), ROUTED, NeighborSettings(10))
    check_lists(X, indices, squares, 10)
    assert recall(indices, brute(X, X, 10)[0]) > 0.97


def test_pairs_met_are_those_of_homes_and_visits():
    """The result is the best of all rows j with home(j) in cells(i) or home(i) in cells(j)."""
    indices, _ = group_neighbors(X, np.arange(900), ROUTED, NeighborSettings(8))
    squares = np.square(X[:, None] - X[None]).sum(axis=2, dtype=np.float64)
    meets = (ROUTED[:, None, :] == ROUTED[None, :, :1]).any(axis=2)
    squares[~(meets | meets.T)] = np.inf
    np.fill_diagonal(squares, np.inf)
    assert np.array_equal(indices, np.argsort(squares, axis=1, kind="stable")[:, :8])


@pytest.mark.parametrize("tile", [(7, 32), (64, 96)])
def test_tiles_of_any_shape_give_the_same(monkeypatch, tile):
    whole = group_neighbors(X, np.arange(900), ROUTED, NeighborSettings(10))
    monkeypatch.setattr(neighbors, "_TILE_ROWS", tile[0])
    monkeypatch.setattr(neighbors, "_TILE_COLUMNS", tile[1])
    for own, other in zip(whole, group_neighbors(X, np.arange(900), ROUTED, NeighborSettings(10)), strict=True):
        assert np.array_equal(own, other)


def test_groups_with_visitors_merge_to_the_whole():
    cells, routed = cells_of(X, group_rows=400)
    settings = NeighborSettings(10)
    whole = group_neighbors(X, np.arange(900), routed, settings)
    merged = empty_lists(900, 10)
    assert cells.n_groups > 2
    for group in reversed(range(cells.n_groups)):
        here = cells.group[routed] == group
        rows = np.flatnonzero(here.any(axis=1))
        member_cells = np.where(here[rows], routed[rows], -1).astype(np.int32)
        indices, squares = group_neighbors(X[rows], rows, member_cells, settings)
        check_home = member_cells[:, 0] >= 0
        assert (indices[check_home] >= 0).all()
        found = np.where(indices >= 0, rows[indices], -1)
        at_rows = tuple(side[rows] for side in merged)
        merged[0][rows], merged[1][rows] = merge_neighbors([at_rows, (found, squares)])
    assert np.array_equal(merged[0], whole[0])
    assert np.array_equal(merged[1], whole[1])


def test_distance_is_the_same_both_ways():
    indices, squares = one_cell(blobs(300, d=37), 299)
    table = np.zeros((300, 300), np.float32)
    np.put_along_axis(table, indices.astype(np.int64), squares, axis=1)
    assert np.array_equal(table, table.T)


def test_coincident_rows_far_from_the_origin_are_at_zero():
    Y = np.repeat(blobs(50) + np.float32(1000), 6, axis=0)
    indices, squares = one_cell(Y, 5)
    group = np.arange(300) // 6
    assert (squares[:, 0] == 0).all()
    assert (group[indices[:, 0]] == np.arange(50).repeat(6)).all()
    assert (squares[:, 1:] > 0).all()


def test_lists_of_few_distinct_rows_have_their_copies():
    Y = np.repeat(blobs(5) + np.float32(1000), 60, axis=0)
    indices, squares = one_cell(Y, 5)
    assert (squares == 0).all()
    assert (indices // 60 == np.arange(300)[:, None] // 60).all()
    assert (np.diff(indices, axis=1) > 0).all()


def test_ties_go_to_the_smaller_row():
    Y = np.tile(np.float32([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]), (1, 1))
    assert one_cell(Y, 4)[0][0].tolist() == [1, 2, 3, 4]


def test_thousands_of_duplicates():
    Y = np.concatenate([X[:500], np.zeros((3000, 9), np.float32), np.ones((1, 9), np.float32)])
    _, routed = cells_of(Y, 50)
    indices, squares = group_neighbors(Y, np.arange(len(Y)), routed, NeighborSettings(20))
    check_lists(Y, indices, squares, 20)
    assert (squares[500:3500, 0] == 0).all()
    assert (squares[500:3500, 1:] > 0).all()


def test_constant_rows():
    Y = np.full((400, 3), 5, np.float32)
    _, routed = cells_of(Y, 30)
    indices, squares = group_neighbors(Y, np.arange(400), routed, NeighborSettings(20))
    check_lists(Y, indices, squares, 20)
    assert (squares == 0).all()


def test_rows_of_tiny_cells_get_k_neighbours():
    cells = np.stack([np.arange(900) // 3, np.arange(900) // 3], axis=1).astype(np.int32)
    indices, squares = group_neighbors(X, np.arange(900), cells, NeighborSettings(10))
    check_lists(X, indices, squares, 10)
    assert np.array_equal(indices, brute(X, X, 10)[0])


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("method", ["exact", "pynndescent"])
def test_fewer_rows_than_neighbours(n, method):
    indices, squares = one_cell(X[:n], 8, method)
    assert np.array_equal(indices[:, : n - 1], brute(X[:n], X[:n], n - 1)[0])
    assert (indices[:, n - 1 :] == -1).all()
    assert np.isinf(squares[:, n - 1 :]).all()


def test_a_group_of_visitors_only_finds_nothing():
    cells = np.full((30, 2), -1, np.int32)
    cells[:, 1] = 4
    indices, _ = group_neighbors(X[:30], np.arange(30), cells, NeighborSettings(5))
    assert (indices == -1).all()


def test_no_members():
    indices, squares = group_neighbors(X[:0], np.arange(0), np.zeros((0, 3), np.int32), NeighborSettings(5))
    assert indices.shape == squares.shape == (0, 5)


def test_cells_may_be_a_slice_of_something_wider():
    wide = np.concatenate([np.zeros((900, 3), np.int32), ROUTED], axis=1)
    own = group_neighbors(X, np.arange(900), wide[:, 3:], NeighborSettings(5))[0]
    assert np.array_equal(own, group_neighbors(X, np.arange(900), ROUTED, NeighborSettings(5))[0])


class FakeIndex:
    """Answers like pynndescent: the row itself first as a rule, and -1 where it gave up."""

    def __init__(self, X, n_neighbors, **options):
        assert options == {"max_candidates": n_neighbors, "random_state": 3, "n_jobs": 1}
        found = brute(X, X, n_neighbors, exclude_self=False)[0]
        found[::7, 3:] = -1
        self.neighbor_graph = found, None


def test_what_an_index_finds_is_made_exact_and_complete(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynndescent", types.SimpleNamespace(NNDescent=FakeIndex))
    indices, squares = group_neighbors(X, np.arange(900), ROUTED, NeighborSettings(10, "pynndescent", seed=3))
    check_lists(X, indices, squares, 10)
    assert np.array_equal(indices, brute(X, X, 10)[0])


@pytest.mark.slow
def test_pynndescent_finds_nearly_all_and_is_reproducible():
    settings = NeighborSettings(10, "pynndescent", seed=3)
    indices, squares = group_neighbors(X, np.arange(900), ROUTED, settings)
    check_lists(X, indices, squares, 10)
    assert recall(indices, brute(X, X, 10)[0]) > 0.9
    assert np.array_equal(indices, group_neighbors(X, np.arange(900), ROUTED, settings)[0])


def test_auto_takes_the_index_where_cells_are_huge(monkeypatch):
    settings = NeighborSettings(10)
    assert neighbors._method(*X.shape, ROUTED, settings) == "exact"
    monkeypatch.setattr(neighbors, "_n_pairs", lambda cells: 1e15)
    assert neighbors._method(*X.shape, ROUTED, settings) == "pynndescent"


def test_pairs_are_counted():
    cells = np.int32([[0, 1], [0, 0], [1, 1], [-1, 1], [-1, 5]])
    assert neighbors._n_pairs(cells) == 2 * 2 - 2 + 1 * 3 - 0.5


def naive_merge(lists, k):
    merged = []
    for i in range(len(lists[0][0])):
        entries = {(s, j) for indices, squares in lists for j, s in zip(indices[i], squares[i], strict=True) if j >= 0}
        best = [*sorted(entries)[:k]]
        merged.append(best + [(np.inf, -1)] * (k - len(best)))
    return np.array(merged)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 6))
def test_merge_is_the_best_of_all(seed, n_lists, k):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, 12).astype(np.float32)
    lists = []
    for _ in range(n_lists):
        indices = np.stack([rng.permutation(12)[:k] for _ in range(5)]).astype(np.int32)
        indices[rng.random(indices.shape) < 0.2] = -1
        squares = np.where(indices < 0, np.inf, values[indices]).astype(np.float32)
        order = np.lexsort((indices, squares), axis=1)
        lists.append((np.take_along_axis(indices, order, 1), np.take_along_axis(squares, order, 1)))
    indices, squares = merge_neighbors(lists)
    wanted = naive_merge(lists, k)
    assert indices.dtype == np.int32
    assert np.array_equal(squares, wanted[..., 0])
    assert np.array_equal(indices, wanted[..., 1])


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(1, 899), max_size=5))
def test_exact_over_blocks_is_exact(cuts):
    bounds = np.unique([0, *cuts, 900])
    best = empty_lists(40, 7)
    for a, b in pairwise(bounds):
        indices, squares = exact_neighbors(X[:40], X[a:b], 7)
        best = merge_neighbors([best, (np.where(indices >= 0, indices + a, -1), squares)])
    wanted, exact = brute(X[:40], X, 7, exclude_self=False)
    assert np.array_equal(best[0], wanted)
    np.testing.assert_allclose(best[1], exact, rtol=1e-5, atol=1e-10)


def query(new, blocks, k=10, n_probe=6):
    best, probes = empty_lists(len(new), k), probe(new, CELLS, n_probe)
    for rows in blocks:
        best = update_knn(best, new, probes, Residents(X[rows], rows, ROUTED[rows, 0]))
    return best


def test_new_rows_find_nearly_all():
    new = blobs(1000)[900:]
    indices, squares = query(new, [np.arange(900)], n_probe=16)
    wanted, _ = brute(new, X, 10, exclude_self=False)
    assert recall(indices, wanted) > 0.95
    exact = np.square(X[indices].astype(np.float64) - new[:, None]).sum(axis=2)
    np.testing.assert_allclose(squares, exact, rtol=1e-5)


def test_training_rows_find_themselves():
    indices, squares = query(X[:100], [np.arange(900)])
    assert np.array_equal(indices[:, 0], np.arange(100))
    assert (squares[:, 0] == 0).all()


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_a_query_depends_on_no_other_and_on_no_order_of_blocks(seed, n_blocks):
    rng = np.random.default_rng(seed)
    new = blobs(960)[900:]
    whole = query(new, [np.arange(900)])
    block_of_row = rng.integers(n_blocks, size=900)
    blocks = [np.flatnonzero(block_of_row == b) for b in rng.permutation(n_blocks)]
    some = rng.permutation(60)[: rng.integers(1, 60)]
    for own, other in zip(query(new[some], blocks), whole, strict=True):
        assert np.array_equal(own, other[some])


def test_refusals():
    with pytest.raises(InputError, match="k=0"):
        NeighborSettings(0)
    with pytest.raises(InputError, match="method='magic'"):
        NeighborSettings(5, "magic")
    with pytest.raises(InputError, match="not strictly ascending"):
        group_neighbors(X[:3], np.array([2, 1, 3]), np.zeros((3, 1), np.int32), NeighborSettings(1))


def test_group_memory_is_predicted():
    group_neighbors(X, np.arange(900), ROUTED, NeighborSettings(20))
    tracemalloc.start()
    group_neighbors(X, np.arange(900), ROUTED, NeighborSettings(20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < neighbors.group_bytes(900, 9, 20)


@pytest.mark.parametrize("far", [1e5, 1e7, -1e9])
def test_a_row_far_out_leaves_the_neighbors_of_others_as_they_are(far):
    """It draws the mean away from them, and products far from the origin tell none of their distances apart."""
    rng = np.random.default_rng(0)
    X = np.append(np.full((1, 3), far), rng.normal(size=(300, 3)), axis=0).astype(np.float32)
    queries = rng.normal(size=(40, 3)).astype(np.float32)
    settings = NeighborSettings(10, "exact")
    found = group_neighbors(X, np.arange(301), np.zeros((301, 1), np.int32), settings)
    of_new = update_knn(
        empty_lists(40, 10), queries, np.zeros((40, 1), np.int32), Residents(X, np.arange(301), np.zeros(301, np.int32))
    )
    for (indices, squares), Q, own in (
        (found, X, np.arange(301)),
        (of_new, queries, None),
        (exact_neighbors(queries, X, 10), queries, None),
    ):
        exact = ((Q[:, None].astype(np.float64) - X) ** 2).sum(axis=2)
        if own is not None:
            np.fill_diagonal(exact, np.inf)
        inside = np.abs(Q).max(axis=1) < 100
        np.testing.assert_array_equal(indices[inside], np.argsort(exact, axis=1, kind="stable")[inside, :10])
        np.testing.assert_allclose(squares[inside], np.sort(exact, axis=1)[inside, :10], rtol=1e-5)
