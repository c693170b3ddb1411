from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import dendrogram, fcluster, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

from bigsmic import merge
from bigsmic.errors import InputError
from bigsmic.kernel import KernelBlock
from bigsmic.smic import Assignment

seeds = st.integers(0, 2**31)


def soft(n, m, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(m, 0.3), n).astype(np.float32)


def symmetric(n, seed=0, density=0.3):
    draw = np.random.default_rng(seed)
    W = np.triu(draw.uniform(size=(n, n)) * (draw.uniform(size=(n, n)) < density), 1).astype(np.float32)
    return W + W.T


def kernel_blocks(W, cuts):
    edges = [0, *sorted(cuts), len(W)]
    return [kernel_block(W, lo, hi) for lo, hi in pairwise(edges) if hi > lo]


def kernel_block(W, lo, hi):
    rows, columns = np.nonzero(W[lo:hi])
    halo = np.setdiff1d(columns, np.arange(lo, hi))
    outside = (columns < lo) | (columns >= hi)
    local = np.where(outside, hi - lo + np.searchsorted(halo, columns), columns - lo)
    order = np.lexsort((local, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=hi - lo))])
    return KernelBlock(lo, hi, halo, indptr, local[order].astype(np.int32), W[lo:hi][rows, columns][order])


# ---- widths


# ---- merging


def naive_merges(G, power):
    """Merge by the definition, from scratch at every step."""
    groups, merges = [[y] for y in range(len(G))], []
    p = G.sum(axis=1)
    while len(groups) > 1:
        pairs = {}
        for a in range(len(groups)):
            for b in range(a + 1, len(groups)):
                mass = G[np.ix_(groups[a], groups[b])].sum()
                pairs[a, b] = mass / (p[groups[a]].sum() * p[groups[b]].sum()) ** power
        a, b = max(pairs, key=lambda pair: (pairs[pair], -pair[0], -pair[1]))
        merges.append((groups[a][0], groups[b][0], pairs[a, b]))
        groups[a] = groups[a] + groups.pop(b)
    return merges


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 12), st.sampled_from([1.0, 1.2]))
def test_merge_tree_agrees_with_naive_merging(seed, m, power):
    G = merge.gram(soft(60, m, seed)) / 60
    tree = merge.merge_tree(G, power)
    naive = naive_merges(G, power)
    np.testing.assert_array_equal(tree.merges, np.array([row[:2] for row in naive]).reshape(-1, 2))
    np.testing.assert_allclose(tree.ratios, [row[2] for row in naive], rtol=1e-9)


def test_equal_ratios_merge_in_the_order_of_the_columns():
    tree = merge.merge_tree(np.full((4, 4), 1 / 16))
    np.testing.assert_array_equal(tree.merges, [[0, 1], [0, 2], [0, 3]])


def test_cuts_are_nested_and_numbered_by_smallest_column():
    tree = merge.merge_tree(merge.gram(soft(200, 9)))
    for c in range(1, 9):
        coarse, fine = tree.cut(c), tree.cut(c + 1)
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == c + 1
        first = [np.flatnonzero(coarse == g)[0] for g in range(c)]
        assert first == sorted(first)
    np.testing.assert_array_equal(tree.cut(9), np.arange(9))


def test_columns_without_mass_are_dropped():
    Q = np.insert(soft(50, 4), 2, 0.0, axis=1)
    tree = merge.merge_tree(merge.gram(Q) / 50)
    kept = merge.merge_tree(merge.gram(np.delete(Q, 2, axis=1)) / 50)
    np.testing.assert_array_equal(tree.columns, [0, 1, 3, 4])
    np.testing.assert_array_equal(np.delete(tree.cut(2), 2), kept.cut(2))
    assert tree.cut(2)[2] == -1


@pytest.mark.parametrize("n_groups", [0, 5])
def test_cut_outside_the_tree_is_refused(n_groups):
    tree = merge.merge_tree(merge.gram(soft(50, 4)))
    with pytest.raises(InputError, match="the tree has 1 to 4"):
        tree.cut(n_groups)


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(2, 12))
def test_linkage_is_one_for_scipy(seed, m):
    Q = soft(60, m, seed)
    Q[:, -1] = 0.0
    Q[0] = 1 / m
    tree = merge.merge_tree(merge.gram(Q) / 60)
    Z = tree.linkage()
    assert is_valid_linkage(Z, throw=True)
    assert Z[0, 2] == 0.0
    assert tree.sizes(np.bincount(Q.argmax(axis=1), minlength=m))[-1] == 60
    assert len(dendrogram(Z, no_plot=True)["leaves"]) == m


def test_linkage_cuts_as_the_tree_does():
    tree = merge.merge_tree(merge.gram(soft(300, 10)))
    groups = fcluster(tree.linkage(), 4, criterion="maxclust")
    assert len(set(zip(groups.tolist(), tree.cut(4).tolist(), strict=True))) == groups.max()


def test_linkage_of_disjoint_columns_is_finite():
    Z = merge.merge_tree(np.eye(3) / 3).linkage()
    assert np.isfinite(Z).all()


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, 80), max_size=4))
def test_gram_adds_over_blocks(seed, cuts):
    Q = soft(80, 6, seed)
    total = sum(merge.gram(part) for part in np.split(Q, sorted(cuts)))
    np.testing.assert_allclose(total, Q.T.astype(np.float64) @ Q, rtol=1e-12)


def test_gram_takes_more_rows_than_one_piece():
    Q = soft(merge._GRAM_ROWS * 2 + 5, 3)
    np.testing.assert_allclose(merge.gram(Q), Q.T.astype(np.float64) @ Q, rtol=1e-12)


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(2, 9), st.data())
def test_grouped_columns_are_a_posterior(seed, m, data):
    Q, c = soft(30, m, seed), data.draw(st.integers(1, m))
    groups = merge.merge_tree(merge.gram(Q)).cut(c)
    P = merge.group_columns(Q, groups, c)
    np.testing.assert_allclose(P, Q @ (groups[:, None] == np.arange(c)), atol=1e-6)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-6)


def test_columns_left_out_give_their_mass_back():
    Q = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], dtype=np.float32)
    P = merge.group_columns(Q, np.array([-1, 0, 1]), 2)
    np.testing.assert_array_equal(P, [[0.5, 0.5], [0.5, 0.5]])


def test_rows_without_mass_stay_flat_when_groups_are_unequal():
    flat = Assignment(np.full((1, 4), 0.25, dtype=np.float32), np.array([False]), np.zeros(1, dtype=np.int32))
    merged = merge.merged_assignment(flat, np.array([0, 0, 0, 1]), 2)
    np.testing.assert_array_equal(merged.posterior, [[0.5, 0.5]])
    np.testing.assert_array_equal(merged.has_mass, [False])


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(3, 9))
def test_labels_at_every_cut_are_those_of_the_grouped_posterior(seed, m):
    # eighths add without rounding, so that ties are ties however the groups are summed
    Q = (np.random.default_rng(seed).multinomial(8, np.full(m, 1 / m), 50) / 8).astype(np.float32)
    tree = merge.merge_tree(merge.gram(Q))
    cuts = [2, len(tree.columns), 1, 3]
    labels = merge.cut_labels(Q, tree, cuts)
    for j, c in enumerate(cuts):
        np.testing.assert_array_equal(labels[:, j], merge.group_columns(Q, tree.cut(c), c).argmax(axis=1))


# ---- moves


def dense_moves(W, labels, degrees, c, movable):
    """One sweep by the definition, row after row, all reading the old labels."""
    volumes = np.bincount(labels, weights=degrees, minlength=c)
    moved = labels.copy()
    for i in np.flatnonzero(movable):
        gains = np.array([W[i, labels == y].sum(dtype=np.float64) for y in range(c)])
        others = volumes - degrees[i] * (np.arange(c) == labels[i])
        gains -= degrees[i] * others / volumes.sum()
        if gains.max() > gains[labels[i]] + 1e-9:
            moved[i] = gains.argmax()
    return moved


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(1, 6), st.lists(st.integers(0, 40), max_size=4))
def test_moves_in_blocks_agree_with_the_dense_definition(seed, c, cuts):
    W = symmetric(40, seed)
    draw = np.random.default_rng(seed)
    labels, movable = draw.integers(0, c, 40).astype(np.int32), draw.uniform(size=40) < 0.5
    degrees = W.sum(axis=1, dtype=np.float64)
    volumes = merge.label_sums(labels, degrees, c)[1]
    moved = []
    for block in kernel_blocks(W, cuts):
        own = slice(block.lo, block.hi)
        known = np.concatenate([labels[own], labels[block.halo]])
        moved.append(merge.move_block(block, known, degrees[own], volumes, movable[own]))
    np.testing.assert_array_equal(np.concatenate(moved), dense_moves(W, labels, degrees, c, movable))


def test_moves_do_not_count_the_row_itself():
    W = symmetric(20)
    degrees, labels = W.sum(axis=1), (np.arange(20) % 3).astype(np.int32)
    volumes = merge.label_sums(labels, degrees, 3)[1]
    moved = [
        merge.move_block(kernel_block(K, 0, 20), labels, degrees, volumes, np.ones(20, dtype=bool))
        for K in (W, W + 5 * np.eye(20, dtype=np.float32))
    ]
    np.testing.assert_array_equal(*moved)


def test_a_row_without_weights_stays():
    block = kernel_block(np.zeros((3, 3), dtype=np.float32), 0, 3)
    labels = np.array([2, 1, 0], dtype=np.int32)
    moved = merge.move_block(block, labels, np.zeros(3), np.zeros(3), np.ones(3, dtype=bool))
    np.testing.assert_array_equal(moved, labels)


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, 60), max_size=4))
def test_all_sweeps_do_not_depend_on_the_blocks(seed, cuts):
    W = symmetric(60, seed, 0.1)
    draw = np.random.default_rng(seed)
    labels, rows = draw.integers(0, 8, 60).astype(np.int32), draw.permutation(1000)[:60]
    how = merge.MoveSettings(8, seed=3)
    degrees = W.sum(axis=1)
    whole = merge.local_moves(kernel_blocks(W, []), labels, degrees, rows, how)
    np.testing.assert_array_equal(merge.local_moves(kernel_blocks(W, cuts), labels, degrees, rows, how), whole)


def test_sweeps_recover_planted_groups():
    truth = np.repeat(np.arange(3), 40)
    draw = np.random.default_rng(0)
    near = (truth[:, None] == truth) * 0.3 + 0.01
    upper = np.triu(draw.uniform(size=near.shape) < near, 1).astype(np.float32)
    W = upper + upper.T
    start = np.where(draw.uniform(size=120) < 0.3, draw.integers(0, 3, 120), truth).astype(np.int32)
    found = merge.local_moves(kernel_blocks(W, [50]), start, W.sum(axis=1), np.arange(120), merge.MoveSettings(3))
    np.testing.assert_array_equal(found, truth)


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_no_sweep_empties_a_cluster(seed):
    W = symmetric(30, seed, 1.0)
    labels = np.zeros(30, dtype=np.int32)
    labels[[4, 17, 18]] = 1, 2, 2
    found = merge.local_moves(kernel_blocks(W, [11]), labels, W.sum(axis=1), np.arange(30), merge.MoveSettings(3))
    assert (np.bincount(found, minlength=3) > 0).all()


def test_the_smallest_row_of_an_emptied_cluster_goes_back():
    rows = np.array([30, 10, 20, 40, 50])
    before, after = np.array([1, 1, 0, 0, 2]), np.array([0, 0, 0, 2, 2])
    degrees = np.arange(1.0, 6.0)
    firsts = merge.first_members(rows, before, after, degrees, 3)
    halves = [merge.first_members(rows[b], before[b], after[b], degrees[b], 3) for b in (slice(0, 1), slice(1, 5))]
    np.testing.assert_array_equal(merge.earlier(*halves), firsts)
    *undone, sums = merge.undo_emptied(np.array([2, 2, 1]), merge.label_sums(after, degrees, 3), firsts)
    labels = merge.send_back(after, rows, undone)
    np.testing.assert_array_equal(labels, [0, 1, 0, 2, 2])
    np.testing.assert_array_equal(sums, merge.label_sums(labels, degrees, 3))


def test_sending_a_row_back_can_empty_another_cluster():
    rows, before, after = np.arange(3), np.array([0, 1, 2]), np.array([1, 2, 2])
    firsts = merge.first_members(rows, before, after, np.ones(3), 3)
    *undone, sums = merge.undo_emptied(np.ones(3), merge.label_sums(after, np.ones(3), 3), firsts)
    np.testing.assert_array_equal(merge.send_back(after, rows, undone), before)
    np.testing.assert_array_equal(sums, np.ones((2, 3)))


def test_the_draw_of_rows_does_not_depend_on_the_block():
    how, rows = merge.MoveSettings(2, seed=1), np.arange(5000)
    drawn = how.drawn(3, rows)
    np.testing.assert_array_equal(how.drawn(3, rows[700:]), drawn[700:])
    assert 0.45 < drawn.mean() < 0.55
    assert (how.drawn(4, rows) != drawn).any()


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, 40), max_size=4))
def test_modularity_of_blocks_agrees_with_the_dense_definition(seed, cuts):
    W, labels = symmetric(40, seed), np.random.default_rng(seed).integers(0, 5, 40)
    sums = 0
    for block in kernel_blocks(W, cuts):
        known = np.concatenate([labels[block.lo : block.hi], labels[block.halo]])
        sums = sums + merge.modularity_sums(block, known, 5)
    degrees = W.sum(axis=1, dtype=np.float64)
    expected = np.outer(degrees, degrees) / degrees.sum()
    direct = (W - expected)[labels[:, None] == labels].sum() / degrees.sum()
    assert merge.modularity(sums) == pytest.approx(direct, abs=1e-6)


def test_a_move_alone_raises_modularity():
    W = symmetric(40)
    degrees, labels = W.sum(axis=1, dtype=np.float64), (np.arange(40) % 4).astype(np.int32)
    block, before = kernel_block(W, 0, 40), merge.modularity(merge.modularity_sums(kernel_block(W, 0, 40), labels, 4))
    for i in range(40):
        volumes = merge.label_sums(labels, degrees, 4)[1]
        moved = merge.move_block(block, labels, degrees, volumes, np.arange(40) == i)
        after = merge.modularity(merge.modularity_sums(block, moved, 4))
        assert (after > before) if moved[i] != labels[i] else (after == before)


def test_modularity_of_no_weight_is_zero():
    assert merge.modularity(np.zeros((2, 3))) == 0.0


# ---- consensus


def noisy_labelings(n, c, B, seed=0, noise=0.1):
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, c, n)
    labels = [
        draw.permutation(c)[np.where(draw.uniform(size=n) < noise, draw.integers(0, c, n), truth)] for _ in range(B)
    ]
    return truth, np.column_stack(labels)


def consensus(labels, sizes, c):
    tree = merge.consensus_tree(merge.label_gram(labels, sizes), sizes)
    votes = merge.vote(labels, sizes, tree.cut(c), c)
    return votes, merge.consensus_labels(votes, votes / votes.sum(axis=1, keepdims=True))


def test_consensus_of_noisy_labelings_is_the_truth():
    truth, labels = noisy_labelings(2000, 5, 9)
    votes, found = consensus(labels, [5] * 9, 5)
    assert adjusted_rand_score(truth, found) > 0.999
    assert 0.85 < merge.agreement(votes, found, 9).mean() < 0.95


def test_consensus_takes_labelings_of_different_sizes():
    truth, labels = noisy_labelings(500, 4, 3, noise=0.0)
    finer = np.column_stack([labels, labels[:, 0] * 2 + np.arange(500) % 2])
    votes, found = consensus(finer, [4, 4, 4, 8], 4)
    assert adjusted_rand_score(truth, found) == 1.0
    assert (votes.max(axis=1) == 4).all()


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, 90), max_size=4))
def test_label_gram_adds_over_blocks(seed, cuts):
    sizes = [3, 5, 2]
    labels = np.random.default_rng(seed).integers(0, sizes, (90, 3))
    A = np.hstack([labels[:, [j]] == np.arange(sizes[j]) for j in range(3)]).astype(np.int64)
    total = sum(merge.label_gram(part, sizes) for part in np.split(labels, sorted(cuts)))
    np.testing.assert_array_equal(total, A.T @ A)


def test_pairwise_ari_reads_the_label_gram():
    _, labels = noisy_labelings(300, 4, 3, noise=0.3)
    ari = merge.pairwise_ari(merge.label_gram(labels, [4] * 3), [4] * 3)
    direct = [[adjusted_rand_score(a, b) for a in labels.T] for b in labels.T]
    np.testing.assert_allclose(ari, direct, atol=1e-12)
    assert merge.stability(ari) == pytest.approx((np.sum(direct) - 3) / 6)


def test_medoid_is_the_labeling_closest_to_the_others():
    ari = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.6], [0.1, 0.6, 1.0]])
    assert merge.medoid(ari) == 1
    assert merge.medoid(np.ones((3, 3))) == 0
    assert merge.medoid(np.ones((1, 1))) == 0
    assert merge.stability(np.ones((1, 1))) == 1.0


def test_votes_of_labels_without_a_class_are_not_cast():
    votes = merge.vote(np.array([[0, 1], [1, 1]]), [2, 2], np.array([0, -1, 1, 0]), 2)
    np.testing.assert_array_equal(votes, [[2, 0], [1, 0]])


def test_tied_votes_go_by_posterior_then_to_the_smallest():
    votes = np.array([[2, 2, 1], [1, 1, 1], [0, 3, 0]])
    posterior = np.array([[0.2, 0.3, 0.5], [0.4, 0.2, 0.4], [1.0, 0.0, 0.0]], dtype=np.float32)
    labels = merge.consensus_labels(votes, posterior)
    np.testing.assert_array_equal(labels, [1, 0, 1])
    np.testing.assert_allclose(merge.agreement(votes, labels, 5), [0.4, 0.2, 0.6])
