"""Aggregates of rows: what is joined, and how well their eigenvectors approximate those of the rows."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from places import group_of

from bigsmic.numerics.eigen.aggregates import Aggregates, aggregate, coarse_eigenvectors
from bigsmic.numerics.graph.affinity import KernelBlock

pytestmark = pytest.mark.unit

N, BOUNDS = 1200, [0, 300, 700, 1000, 1200]


def weights(n=N, cut=None):
    """Weights of a path, of which row `cut` is tied weakly to the one before."""
    W = scipy.sparse.diags_array([np.full(n - j, 1 / j) for j in (1, 2, 3)], offsets=[1, 2, 3]).tolil()
    if cut:
        W[cut - 3 : cut, cut:] = 0
        W[cut - 1, cut] = 0.01
    W = W.tocsr()
    return W + W.T


def blocks_of(W, bounds):
    """Row blocks of the normalised kernel, and degrees."""
    degree = W.sum(axis=1)
    N = W.multiply(1 / np.sqrt(np.outer(degree, degree))).tocsr()
    found = []
    for lo, hi in pairwise(bounds):
        rows = N[lo:hi]
        halo = np.setdiff1d(rows.indices, np.arange(lo, hi))
        columns = np.where(
            (rows.indices >= lo) & (rows.indices < hi), rows.indices - lo, hi - lo + np.searchsorted(halo, rows.indices)
        )
        found.append(KernelBlock(lo, hi, halo, rows.indptr, columns.astype(np.int32), rows.data.astype(np.float32)))
    return N.toarray(), found, degree


def test_groups_are_connected_and_few():
    _, (block,), _ = blocks_of(weights(), [0, N])
    groups = aggregate(block, 100)
    assert groups.max() + 1 <= 100
    assert set(groups) == set(range(groups.max() + 1))
    assert np.all(np.diff(groups) >= 0)  # stretches of the path
    assert np.bincount(groups).max() < 200


def test_groups_end_at_weak_edges():
    _, (block,), _ = blocks_of(weights(cut=500), [0, N])
    groups = aggregate(block, 20)
    assert groups[499] != groups[500]


def test_rows_without_neighbours_stay_alone():
    W = scipy.sparse.csr_array((30, 30), dtype=np.float32)
    block = KernelBlock(0, 30, np.empty(0, np.int64), W.indptr, W.indices, W.data)
    assert aggregate(block, 5).tolist() == list(range(30))


@pytest.mark.parametrize("inner_cuts", [(), (1, 3)], ids=["one place", "three places"])
def test_slow_modes_of_aggregates_are_those_of_the_rows(inner_cuts):
    dense, blocks, degree = blocks_of(weights(), BOUNDS)

    def make(shard):
        return Aggregates(shard, blocks.__getitem__, lambda p: degree[BOUNDS[p] : BOUNDS[p + 1]], 100)

    with group_of(make, np.array(BOUNDS), inner_cuts) as group:
        counts = group.call_sum(("counts",))
        group.call(("number", np.cumsum(counts) - counts))
        m = counts.sum()
        mass, W = group.call_sum(("mass", m)), group.call_sum(("weights", m))
        values, U = coarse_eigenvectors(W, mass, 1, 5)
        V = np.concatenate([actor.prolonged(p, U) for actor in group.actors for p in actor._shard.blocks])
    assert mass.sum() == pytest.approx(degree.sum())
    np.testing.assert_allclose(V.T @ V, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(np.diag(V.T @ dense @ V), values, atol=1e-5)
    exact, X = np.linalg.eigh(dense)
    assert np.all(values <= exact[::-1][1:6] + 1e-6)
    cosines = np.linalg.svd(X[:, ::-1][:, 1:6].T @ V)[1]
    assert cosines.min() > 0.97


def test_the_largest_values_are_found_though_they_are_beyond_one():
    """As of shrunk degrees; their eigenvectors are those of the same matrix with values up to 1."""
    dense = weights(120).toarray()
    mass = dense.sum(axis=1)
    values, U = coarse_eigenvectors(scipy.sparse.csr_array(dense), mass, 1, 5)
    beyond, others = coarse_eigenvectors(scipy.sparse.csr_array(1.0015 * dense), mass, 1, 5, largest=1.0015)
    np.testing.assert_allclose(beyond, 1.0015 * values, rtol=1e-6)
    cosines = np.abs(np.sum(U * others * mass[:, None], axis=0))
    np.testing.assert_allclose(cosines, 1, atol=1e-4)
