"""Graph and kernel against dense float64 references."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph
from small_kernels import to_dense

from bigsmic.numerics.graph import affinity, connected_components, neighbor_graph
from bigsmic.numerics.graph.weights import LARGEST_RATIO, LocalScaling


def _lists(X, k):
    d2 = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.fill_diagonal(d2, np.inf)
    order = np.argsort(d2, axis=1, kind="stable")[:, :k]
    return order.astype(np.int64), np.take_along_axis(d2, order, 1)


def _blocks(indices, squares, bounds):
    spans = list(itertools.pairwise(bounds))
    outgoing = [neighbor_graph.outgoing_edges(lo, indices[lo:hi], squares[lo:hi]) for lo, hi in spans]
    blocks = []
    for lo, hi in spans:
        incoming = [neighbor_graph.Edges(*(a[(e.target >= lo) & (e.target < hi)] for a in e)) for e in outgoing]
        joined = neighbor_graph.Edges(*(np.concatenate(arrays) for arrays in zip(*incoming, strict=True)))
        blocks.append(neighbor_graph.assemble(lo, indices[lo:hi], squares[lo:hi], joined))
    return blocks


def _dense_kernel(X, t, bandwidth):
    n = len(X)
    indices, squares = _lists(X, t)
    sigma = np.sqrt(squares[:, t - 1])
    listed = np.zeros((n, n), bool)
    listed[np.arange(n)[:, None], indices] = True
    d2 = ((X[:, None] - X[None]) ** 2).sum(-1)
    scale = sigma[:, None] * sigma[None]
    scale = bandwidth * np.where(
        scale > 0, np.maximum(scale, np.maximum(sigma[:, None], sigma) ** 2 / LARGEST_RATIO), 0
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        K = np.where(scale > 0, np.exp(-d2 / scale), d2 == 0)
    return np.where(listed | listed.T, K, 0), sigma


def _kernel_blocks(X, blocks, t, k, bandwidth=2.0):
    sigma = np.sqrt(_lists(X, k)[1][:, t - 1])
    weight = LocalScaling(bandwidth)
    return [affinity.kernel_block(g, t, weight, sigma[g.lo : g.hi], sigma[g.halo]) for g in blocks]


@pytest.mark.parametrize("bandwidth", [1.0, 2.0])
@pytest.mark.parametrize("t", [1, 3, 7])
def test_kernel_is_the_formula(t, bandwidth):
    X = np.random.default_rng(t).normal(size=(60, 3))
    blocks = _blocks(*_lists(X, 9), [0, 13, 14, 40, 60])
    dense = to_dense(_kernel_blocks(X, blocks, t, 9, bandwidth))
    np.testing.assert_allclose(dense, _dense_kernel(X, t, bandwidth)[0], atol=1e-14)
    np.testing.assert_array_equal(dense, dense.T)


def test_an_outlier_is_tied_to_its_neighbours():
    """Ten rows far from all others have weights to the nearest of these, and not only to each other."""
    draw = np.random.default_rng(0)
    X = np.concatenate([draw.normal(0, 0.01, (300, 2)), draw.uniform(-5, 5, (10, 2))])
    blocks = _blocks(*_lists(X, 6), [0, 200, 310])
    dense = to_dense(_kernel_blocks(X, blocks, 5, 6))
    assert (np.sort(dense[300:, :300], axis=1)[:, -1] > 0.01).all()


def test_coincident_points_have_weight_one_and_nothing_is_nan():
    X = np.repeat(np.random.default_rng(0).normal(size=(12, 2)), 5, axis=0)
    blocks = _blocks(*_lists(X, 6), [0, 30, 60])
    dense = to_dense(_kernel_blocks(X, blocks, 3, 6))
    assert set(np.unique(dense)) == {0.0, 1.0}
    np.testing.assert_array_equal(dense, _dense_kernel(X, 3, 2.0)[0])


def _fields(blocks):
    return [np.concatenate([getattr(g, name) for g in blocks]) for name in neighbor_graph.GraphBlock._fields[2:]]


def test_strips_of_a_block_make_the_same_graph(monkeypatch):
    X = np.random.default_rng(0).normal(size=(90, 2)).round(1)
    lists = _lists(X, 6)
    lists[0][5, 3:] = -1
    at_once = _fields(_blocks(*lists, [0, 50, 90]))
    monkeypatch.setattr(neighbor_graph, "STRIP_ROWS", 7)
    for found, expected in zip(_fields(_blocks(*lists, [0, 50, 90])), at_once, strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


def test_assembly_takes_what_is_said(monkeypatch):
    """All rows list the k that follow in a circle: as many entries as a graph may have, half of them from elsewhere."""
    n, k = 20_000, 20
    monkeypatch.setattr(neighbor_graph, "STRIP_ROWS", 1000)
    indices = ((np.arange(n)[:, None] + np.arange(1, 2000, 100)) % n).astype(np.int32)
    squares = np.tile(np.arange(1, k + 1, dtype=np.float32), (n, 1))
    half, other = slice(0, n // 2), slice(n // 2, n)
    incoming = neighbor_graph.outgoing_edges(n // 2, indices[other], squares[other])
    beside = sum(array.nbytes for array in (indices[half], squares[half], *incoming))
    tracemalloc.start()
    graph = neighbor_graph.assemble(0, indices[half], squares[half], incoming)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(graph.indices) == 2 * k * (n // 2)
    assert peak + beside <= neighbor_graph.assembly_bytes(n // 2, k, 2 * k)


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 49), max_size=6), seed=st.integers(0, 99))
def test_one_block_is_many_blocks(cuts, seed):
    X = np.random.default_rng(seed).normal(size=(50, 2)).round(1)
    indices, squares = _lists(X, 5)
    whole, many = _blocks(indices, squares, [0, 50]), _blocks(indices, squares, [0, *sorted(set(cuts)), 50])
    np.testing.assert_array_equal(to_dense(_kernel_blocks(X, whole, 4, 5)), to_dense(_kernel_blocks(X, many, 4, 5)))


def test_normalised_kernel_is_the_formula():
    X = np.random.default_rng(3).normal(size=(60, 3))
    blocks = [affinity.with_floor(b) for b in _kernel_blocks(X, _blocks(*_lists(X, 8), [0, 25, 60]), 5, 8)]
    degrees = np.concatenate([affinity.degree(b) for b in blocks])
    N = to_dense([affinity.normalise(b, degrees[b.lo : b.hi], degrees[b.halo]) for b in blocks])
    K = _dense_kernel(X, 5, 2.0)[0]
    K = np.where(K > 0, np.maximum(K, affinity.WEIGHT_FLOOR), 0)
    d = K.sum(1)
    np.testing.assert_allclose(N, K / np.sqrt(np.outer(d, d)), atol=1e-14)


def test_shrunk_degrees_lie_between_degrees_and_their_mean():
    degree = np.array([1.0, 2.0, 6.0])
    np.testing.assert_array_equal(affinity.shrunk(degree, 3.0, 0.0), degree)
    np.testing.assert_array_equal(affinity.shrunk(degree, 3.0, 0.5), [2.0, 2.5, 4.5])
    np.testing.assert_array_equal(affinity.shrunk(degree, 3.0, 1.0), 3.0)


def test_degree_keeps_the_digits_of_small_rows():
    data = np.array([1e8, 1e8, 1e-7, 3e-7])
    block = affinity.KernelBlock(0, 2, np.array([2, 3]), np.array([0, 2, 4]), np.array([2, 3, 2, 3], np.int32), data)
    np.testing.assert_allclose(affinity.degree(block), [2e8, 4e-7], rtol=1e-12)


def test_missing_neighbours_are_no_edges():
    indices, squares = _lists(np.arange(4.0)[:, None], 3)
    indices[2, 1:], squares[2, 1:] = -1, np.inf
    (graph,) = _blocks(indices, squares, [0, 4])
    assert np.isfinite(graph.sq_distances).all()


def test_components_are_those_of_the_t_graph():
    X = np.random.default_rng(1).normal(size=(90, 2))
    blocks = _blocks(*_lists(X, 5), [0, 17, 50, 90])
    for t in (1, 2, 4):
        forest = connected_components.new_forest(90)
        for block in blocks:
            connected_components.join_block(forest, block, t)
        labels, sizes, first = connected_components.component_labels(forest)
        count, expected = csgraph.connected_components(_dense_kernel(X, t, 2.0)[0])
        assert len(sizes) == count
        assert len(set(zip(labels, expected, strict=True))) == count
        np.testing.assert_array_equal(sizes, np.sort(sizes)[::-1])
        np.testing.assert_array_equal(np.bincount(labels), sizes)
        np.testing.assert_array_equal(first, [np.flatnonzero(labels == y)[0] for y in range(count)])
