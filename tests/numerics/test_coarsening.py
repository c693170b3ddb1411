"""Graphs of many rows made into graphs of few: owners, affinities between them, and the shares that t-SNE takes."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from bigsmic.numerics.graph import coarsening
from bigsmic.numerics.graph.affinity import KernelBlock


def blocks_of(W, cuts):
    """Row blocks of a symmetric matrix."""
    found = []
    for lo, hi in zip([0, *cuts], [*cuts, W.shape[0]], strict=True):
        rows = csr_array(W)[lo:hi]
        outside = (rows.indices < lo) | (rows.indices >= hi)
        halo = np.unique(rows.indices[outside])
        local = np.where(outside, hi - lo + np.searchsorted(halo, rows.indices), rows.indices - lo)
        found.append(KernelBlock(lo, hi, halo, rows.indptr, local.astype(np.int32), rows.data.astype(np.float32)))
    return found


def rounds(W, cuts, chosen):
    """Owners after all rounds, and the affinities between them."""
    owners = np.full(W.shape[0], -1, np.int32)
    owners[chosen] = np.arange(len(chosen))
    blocks = blocks_of(W, cuts)

    def around(block):
        return np.concatenate([owners[block.lo : block.hi], owners[block.halo]])

    while True:
        after = np.concatenate([coarsening.adopted(block, around(block)) for block in blocks])
        if (after == owners).all():
            break
        owners = after
    return owners, sum(coarsening.owner_affinities(block, around(block), len(chosen)) for block in blocks)


def path(weights):
    i = np.arange(len(weights))
    n = len(weights) + 1
    return coo_array(
        (np.tile(weights, 2), (np.concatenate([i, i + 1]), np.concatenate([i + 1, i]))), shape=(n, n)
    ).tocsr()


def test_rows_join_the_chosen_row_that_reaches_them_first():
    owners, between = rounds(path([3.0, 2.0, 1.0, 2.0, 3.0]), [], [0, 5])
    np.testing.assert_array_equal(owners, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(between.toarray(), [[0, 1], [1, 0]])  # the edge in the middle


def test_of_two_neighbors_the_closer_one_decides():
    owners, _ = rounds(path([1.0, 2.0]), [], [0, 2])
    assert owners.tolist() == [0, 1, 1]


def test_a_stronger_tie_to_a_row_without_an_owner_keeps_none_from_the_next():
    assert rounds(path([1.0, 2.0]), [], [0])[0].tolist() == [0, 0, 0]


def test_rows_that_nothing_reaches_have_no_owner_and_count_for_nothing():
    owners, between = rounds(path([1.0, 0.0, 1.0]), [], [0, 1])
    assert owners.tolist() == [0, 1, -1, -1]
    assert between.toarray().tolist() == [[0, 1], [1, 0]]


def test_where_all_rows_are_chosen_the_graph_stays_as_it_is():
    W = random_graph(30)
    _, between = rounds(W, [7, 20], np.arange(30))
    np.testing.assert_allclose(between.toarray(), W.toarray())


def random_graph(n, seed=0):
    dense = np.zeros((n, n))
    chosen = np.random.default_rng(seed).random((n, n)) < 0.1
    dense[chosen] = 1 / np.arange(1, np.count_nonzero(chosen) + 1)
    W = csr_array(dense)
    W = W.maximum(W.T)
    W.setdiag(0)
    W.eliminate_zeros()
    return W.astype(np.float32)


@pytest.mark.parametrize("cuts", [[1], [13, 14], [10, 20, 40]])
def test_blocks_do_not_matter(cuts):
    W, chosen = random_graph(60), np.arange(0, 60, 7)
    owners, between = rounds(W, [], chosen)
    cut_owners, cut_between = rounds(W, cuts, chosen)
    np.testing.assert_array_equal(cut_owners, owners)
    np.testing.assert_allclose(cut_between.toarray(), between.toarray())
    assert abs(between - between.T).max() < 1e-9


def test_strongest_entries_of_a_row_stay():
    A = csr_array(np.array([[0, 5, 3, 4.0], [1, 0, 0, 0], [2, 2, 0, 2], [0, 0, 0, 0]]))
    found = coarsening.strongest(A, 2).toarray()
    np.testing.assert_array_equal(found, [[0, 5, 0, 4], [1, 0, 0, 0], [2, 2, 0, 0], [0, 0, 0, 0]])
    assert coarsening.strongest(A, 3) is A


def test_shares_are_those_of_one_and_two_steps_and_every_row_takes_part_alike():
    A = csr_array(random_graph(40))
    P = coarsening.transition_shares(A, 40, 40)
    assert abs(P - P.T).max() < 1e-12
    tied = A.sum(axis=1) > 0
    assert P.sum() == pytest.approx(tied.mean())
    S = A.toarray() / np.where(tied, A.sum(axis=1), 1)[:, None]
    T = S + S @ S
    np.fill_diagonal(T, 0)
    T /= np.where(tied, T.sum(axis=1), 1)[:, None]
    np.testing.assert_allclose(P.toarray(), (T + T.T) / 80, rtol=1e-5)


def test_shares_are_bounded_in_number():
    A = csr_array(random_graph(200))
    assert coarsening.transition_shares(A, 5, 7).nnz <= 2 * 7 * 200
