"""Joining components: by the shortest ways out, the same however the graph is cut, until one is left."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bigsmic.numerics.graph import added_edges, affinity, connectivity, neighbor_graph


def exits_of(rows):
    component, squares, source, target = (np.array(column) for column in zip(*rows, strict=True))
    return connectivity.Exits(component, squares.astype(np.float32), source, target, np.zeros(len(rows), int))


def as_tuples(exits):
    return list(zip(*(array.tolist() for array in exits[:4]), strict=True))


def test_the_shortest_ways_out_are_kept_and_ties_go_to_small_positions():
    rows = [(2, 1, 9, 1), (1, 3, 5, 0), (1, 1, 6, 2), (1, 1, 4, 8), (1, 1, 4, 7), (2, 0.5, 8, 3)]
    found = connectivity.best_exits(exits_of(rows), 2)
    assert as_tuples(found) == [(1, 1, 4, 7), (1, 1, 4, 8), (2, 0.5, 8, 3), (2, 1, 9, 1)]


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5))
def test_best_of_parts_is_best_of_all(seed, n_best, n_parts):
    rng = np.random.default_rng(seed)
    n = 40
    exits = connectivity.Exits(
        rng.integers(1, 5, n),
        rng.integers(0, 6, n).astype(np.float32),
        rng.permutation(n),
        rng.integers(0, 99, n),
        np.zeros(n, int),
    )
    of = rng.integers(0, n_parts, n)
    parts = [connectivity.Exits(*(array[of == part] for array in exits)) for part in range(n_parts)]
    joined = connectivity.join_exits([connectivity.best_exits(part, n_best) for part in parts])
    assert as_tuples(connectivity.best_exits(joined, n_best)) == as_tuples(connectivity.best_exits(exits, n_best))


def graph_blocks(indices, squares, bounds):
    """The graph of neighbour lists in row blocks."""
    pieces = [slice(lo, hi) for lo, hi in itertools.pairwise(bounds)]
    outgoing = [neighbor_graph.outgoing_edges(piece.start, indices[piece], squares[piece]) for piece in pieces]
    blocks = []
    for piece in pieces:
        kept = [(edges.target >= piece.start) & (edges.target < piece.stop) for edges in outgoing]
        fields = zip(*([array[k] for array in edges] for edges, k in zip(outgoing, kept, strict=True)), strict=True)
        incoming = neighbor_graph.Edges(*(np.concatenate(arrays) for arrays in fields))
        blocks.append(neighbor_graph.assemble(piece.start, indices[piece], squares[piece], incoming))
    return blocks


@pytest.mark.parametrize("bounds", [[0, 60], [0, 7, 31, 60]])
def test_ways_out_along_a_graph_leave_every_component_but_the_largest(bounds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    all_squares = np.square(X[:, None] - X).sum(axis=2)
    np.fill_diagonal(all_squares, np.inf)
    indices = all_squares.argsort(axis=1)[:, :6]
    squares = np.take_along_axis(all_squares, indices, axis=1)
    component = rng.integers(0, 4, 60)
    blocks = graph_blocks(indices, squares, bounds)
    parts = [connectivity.graph_exits(block, component[np.r_[block.lo : block.hi, block.halo]], 3) for block in blocks]
    linked = np.zeros((60, 60), bool)
    np.put_along_axis(linked, indices, True, axis=1)
    source, target = np.nonzero(linked | linked.T)
    kept = (component[source] > 0) & (component[source] != component[target])
    source, target = source[kept], target[kept]
    wanted = connectivity.Exits(component[source], all_squares[source, target], source, target, component[target])
    found = connectivity.best_exits(connectivity.join_exits(parts), 3)
    assert as_tuples(found) == as_tuples(connectivity.best_exits(wanted, 3))
    np.testing.assert_array_equal(found.reached, component[found.target])


@pytest.mark.parametrize("tile", [1 << 22, 50])
def test_the_nearest_row_outside_is_found(tile, monkeypatch):
    monkeypatch.setattr(connectivity, "_TILE_ENTRIES", tile)
    rng = np.random.default_rng(1)
    X, component = rng.normal(size=(80, 3)).astype(np.float32), rng.integers(0, 3, 80)
    found = connectivity.nearest_outside(X[:20], component[:20], X, component, np.arange(100, 180))
    squares = np.square(X[:20, None] - X).sum(axis=2)
    squares[component[:20, None] == component] = np.inf
    np.testing.assert_allclose(found[0], squares.min(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(found[1], 100 + squares.argmin(axis=1))
    np.testing.assert_array_equal(found[2], component[squares.argmin(axis=1)])


def test_a_block_without_a_row_outside_offers_nothing():
    X = np.ones((4, 2), np.float32)
    squares, *_ = connectivity.nearest_outside(X, np.ones(4, int), X, np.ones(4, int), np.arange(4))
    assert np.isinf(squares).all()
    squares, targets, _ = connectivity.nearest_outside(X, np.ones(4, int), X[:0], np.ones(0, int), np.arange(0))
    assert np.isinf(squares).all()
    assert (targets == -1).all()


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30))
def test_components_are_united_and_numbered_by_size(seed, n_components):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.concatenate([np.arange(n_components), rng.integers(0, n_components, 40)]))
    sizes, first = np.bincount(rows), np.array([np.flatnonzero(rows == y)[0] for y in range(n_components)])
    united, wanted = np.arange(n_components), np.arange(n_components)
    for _ in range(2):  # what was united is united further
        left, right = rng.integers(0, united.max() + 1, (2, n_components // 3))
        nothing = np.zeros(len(left), int)
        exits = connectivity.Exits(left, nothing.astype(np.float32), nothing, nothing, right)
        joined = coo_array((np.ones(len(left)), (left, right)), shape=(united.max() + 1, united.max() + 1))
        wanted = connected_components(joined, directed=False)[1][united]
        united, n_left = connectivity.unite(united, exits, sizes, first)
        assert n_left == wanted.max() + 1
        assert len(set(zip(wanted.tolist(), united.tolist(), strict=True))) == n_left
        found = united[rows]
        counts = np.bincount(found)
        assert (np.diff(counts) <= 0).all()
        places = np.array([np.flatnonzero(found == y)[0] for y in range(n_left)])
        assert (np.diff(places)[np.diff(counts) == 0] > 0).all()


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5))
def test_first_of_parts_is_first_of_all(seed, n_first, n_parts):
    rng = np.random.default_rng(seed)
    component, hashes, positions = rng.integers(0, 6, 50), rng.permutation(50), rng.permutation(99)[:50]
    of = rng.integers(0, n_parts, 50)
    parts = [
        connectivity.first_of_each(component[of == j], hashes[of == j], positions[of == j], n_first)
        for j in range(n_parts)
    ]
    joined = connectivity.first_of_each(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)), n_first)
    whole = connectivity.first_of_each(component, hashes, positions, n_first)
    for found, wanted in zip(joined, whole, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for y in np.unique(component):
        np.testing.assert_array_equal(whole[1][whole[0] == y], np.sort(hashes[component == y])[:n_first])


def test_edges_go_both_ways_once():
    source, target, squares = connectivity.both_ways(exits_of([(1, 2, 5, 3), (2, 2, 3, 5), (1, 1, 4, 3)]))
    assert list(zip(source.tolist(), target.tolist(), squares.tolist(), strict=True)) == [
        (3, 4, 1),
        (3, 5, 2),
        (4, 3, 1),
        (5, 3, 2),
    ]


def parts_of(edges, sizes):
    source, target, squares = zip(*edges, strict=True)
    return connectivity.parts(np.array(source), np.array(target), np.array(squares, np.float32), np.array(sizes))


def test_small_components_belong_to_the_part_of_their_shortest_edges():
    # 0 and 1 are large; 2 lies between them, nearer to 1, and 3 hangs on 2
    parts = parts_of([(2, 0, 2.0), (2, 1, 1.0), (3, 2, 3.0), (3, 0, 4.0), (1, 0, 5.0)], [600, 390, 6, 4])
    assert parts[0] != parts[1]
    assert parts[1] == parts[2] == parts[3]


def test_the_distance_and_not_the_order_of_edges_determines_parts():
    edges = [(2, 0, 2.0), (2, 1, 1.0), (3, 0, 1.5), (3, 2, 2.5), (1, 0, 9.0)]
    wanted = parts_of(edges, [600, 390, 6, 4])
    for order in itertools.permutations(edges):
        np.testing.assert_array_equal(parts_of(order, [600, 390, 6, 4]), wanted)


@pytest.mark.parametrize("sizes", [[951, 49], [100, 24], [1000]])
def test_one_large_component_is_no_part_beside_small_ones(sizes):
    """A twentieth of the rows are needed, and 25 of them."""
    edges = [(1, 0, 1.0)] if len(sizes) > 1 else [(0, 0, 1.0)]
    np.testing.assert_array_equal(parts_of(edges, sizes), np.zeros(len(sizes)))


def test_each_of_several_large_components_is_a_part_of_its_own():
    parts = parts_of([(1, 0, 1.0), (2, 1, 2.0), (3, 2, 3.0), (3, 0, 4.0)], [400, 300, 290, 10])
    assert len(set(parts[:3])) == 3
    assert parts[3] == parts[2]


def test_a_component_with_a_twentieth_of_the_rows_is_a_part():
    left, right = parts_of([(1, 0, 1.0)], [475, 25])
    assert left != right


def test_entries_between_parts_are_raised_and_others_stay():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((9, 9)) < 0.5, rng.random((9, 9)), 0).astype(np.float32)
    dense[2, 7] = dense[3, 4] = 1e-4
    dense[5, 8] = 0.9
    rows, columns = np.nonzero(dense[2:6])
    halo = np.array([0, 1, 6, 7, 8])
    local = np.where((columns >= 2) & (columns < 6), columns - 2, 4 + np.searchsorted(halo, columns))
    indptr = np.searchsorted(rows, np.arange(5))
    block = affinity.KernelBlock(2, 6, halo, indptr, local.astype(np.int32), dense[2:6][rows, columns])
    found = added_edges.with_least(block, np.array([2, 3, 5]), np.array([7, 4, 8]), 0.01)
    dense[2, 7] = dense[3, 4] = 0.01
    np.testing.assert_array_equal(found.data, dense[2:6][rows, columns])
