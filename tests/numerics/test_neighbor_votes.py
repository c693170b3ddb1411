"""Votes of neighbours against a dense reference."""

import numpy as np
import pytest

from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.labeling import neighbor_votes

N, LO, HI, C = 60, 20, 45, 4


@pytest.fixture
def dense():
    draw = np.random.default_rng(0)
    K = np.where(draw.random((N, N)) < 0.04, draw.random((N, N)), 0)
    return (K + K.T).astype(np.float32)


def block_of(K):
    """Rows LO to HI of K, with columns numbered locally."""
    rows = K[LO:HI]
    outside = np.setdiff1d(np.flatnonzero(rows.any(axis=0)), np.arange(LO, HI))
    local = np.zeros(N, int)
    local[LO:HI], local[outside] = np.arange(HI - LO), HI - LO + np.arange(len(outside))
    i, j = np.nonzero(rows)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=HI - LO))])
    return KernelBlock(LO, HI, outside, indptr, local[j].astype(np.int32), rows[i, j])


def after_vote(K, labels, share=0.6):
    """Labels of all rows by definition."""
    W = K.astype(float) @ np.eye(C)[labels]
    has_majority = W.max(axis=1) > share * W.sum(axis=1)
    return np.where(has_majority, W.argmax(axis=1), labels), has_majority


def test_rows_have_the_cluster_of_most_of_their_weight(dense, monkeypatch):
    monkeypatch.setattr(neighbor_votes, "TILE_ROWS", 7)
    block, labels = block_of(dense), np.random.default_rng(1).integers(0, C, N)
    expected, has_majority = after_vote(dense, labels)
    assert 0 < np.count_nonzero((expected != labels)[LO:HI]) < np.count_nonzero(has_majority[LO:HI]) < HI - LO
    given = np.concatenate([labels[LO:HI], labels[block.halo]])
    found = neighbor_votes.in_graph(block, given, C)
    np.testing.assert_array_equal(found, expected[LO:HI])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(given[: HI - LO], labels[LO:HI])  # the labels that were given are left alone


def test_rows_stay_without_a_majority_or_neighbours():
    of_row, votes = np.array([0, 0, 1, 1, 1]), np.array([1, 2, 1, 1, 0])
    weights = np.array([0.59, 0.41, 0.5, 0.2, 0.3])
    found = neighbor_votes.after_vote(np.array([0, 0, 2]), of_row, votes, weights, 3)
    np.testing.assert_array_equal(found, [0, 1, 2])


def test_votes_of_no_weight_are_none():
    found = neighbor_votes.after_vote(np.array([2]), np.zeros(2, int), np.array([0, 0]), np.zeros(2), 3)
    np.testing.assert_array_equal(found, [2])
