"""Signatures of the rows of a graph: they move with the rows, and tell rows apart."""

import numpy as np
import pytest
import scipy.sparse

from bigsmic.numerics.graph import signatures
from bigsmic.numerics.graph.signatures import row_signatures

RNG = np.random.default_rng(0)
N = 200


def of(graph, height=N):
    rows = scipy.sparse.csr_array(graph)
    return row_signatures(lambda: ((lo, rows[lo : lo + height]) for lo in range(0, N, height)), N)


@pytest.fixture(params=["distances", "ones"])
def graph(request):
    """Five entries in every row, of any value or all 1."""
    columns = np.argsort(RNG.random((N, N)), axis=1)[:, :5]
    values = RNG.random(5 * N) if request.param == "distances" else np.ones(5 * N)
    return scipy.sparse.csr_array((values, columns.ravel(), np.arange(0, 5 * N + 1, 5)), shape=(N, N))


def test_signatures_move_with_the_rows(graph):
    found, order = of(graph), RNG.permutation(N)
    assert len(np.unique(found)) == N
    assert np.array_equal(of(graph[order][:, order]), found[order])


def test_a_graph_with_other_entries_has_others(graph):
    found, dense = of(graph), graph.toarray()
    assert not np.array_equal(np.sort(of(graph.T)), np.sort(found))
    row, column = np.argwhere(dense)[0]
    dense[row, column] *= 2
    assert (of(dense) != found).sum() > 2


def test_signatures_do_not_depend_on_blocks_or_digits_that_float32_lacks(graph, monkeypatch):
    found = of(graph)
    assert np.array_equal(of(graph, height=7), found)
    assert np.array_equal(of(graph.astype("f4")), found)
    monkeypatch.setattr(signatures, "ENTRIES", 13)
    assert np.array_equal(of(graph, height=50), found)
