import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import dendrogram, fcluster, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

from bigsmic.errors import InputError
from bigsmic.numerics.labeling import consensus as consensus_module
from bigsmic.numerics.labeling import merge_tree as merge_tree_module
from bigsmic.numerics.labeling.merge_tree import gram, merge_tree
from bigsmic.numerics.labeling.rotation import Assignment

seeds = st.integers(0, 2**31)


def soft(n, m, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(m, 0.3), n).astype(np.float32)


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
    G = gram(soft(60, m, seed)) / 60
    tree = merge_tree(G, power)
    naive = naive_merges(G, power)
    np.testing.assert_array_equal(tree.merges, np.array([row[:2] for row in naive]).reshape(-1, 2))
    np.testing.assert_allclose(tree.ratios, [row[2] for row in naive], rtol=1e-9)


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(2, 14))
def test_merges_of_many_equal_ratios_agree_with_naive_merging(seed, m):
    half = np.triu(np.random.default_rng(seed).integers(0, 2, (m, m)))
    G = half + np.triu(half, 1).T + np.eye(m)
    np.testing.assert_array_equal(merge_tree(G).merges, [row[:2] for row in naive_merges(G, 1.0)])


def test_equal_ratios_merge_in_the_order_of_the_columns():
    tree = merge_tree(np.full((4, 4), 1 / 16))
    np.testing.assert_array_equal(tree.merges, [[0, 1], [0, 2], [0, 3]])


def test_cuts_are_nested_and_numbered_by_smallest_column():
    tree = merge_tree(gram(soft(200, 9)))
    for c in range(1, 9):
        coarse, fine = tree.cut(c), tree.cut(c + 1)
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == c + 1
        first = [np.flatnonzero(coarse == g)[0] for g in range(c)]
        assert first == sorted(first)
    np.testing.assert_array_equal(tree.cut(9), np.arange(9))


def test_columns_without_mass_are_dropped():
    Q = np.insert(soft(50, 4), 2, 0.0, axis=1)
    tree = merge_tree(gram(Q) / 50)
    kept = merge_tree(gram(np.delete(Q, 2, axis=1)) / 50)
    np.testing.assert_array_equal(tree.columns, [0, 1, 3, 4])
    np.testing.assert_array_equal(np.delete(tree.cut(2), 2), kept.cut(2))
    assert tree.cut(2)[2] == -1


@pytest.mark.parametrize("n_groups", [0, 5])
def test_cut_outside_the_tree_is_refused(n_groups):
    tree = merge_tree(gram(soft(50, 4)))
    with pytest.raises(InputError, match="the tree has 1 to 4"):
        tree.cut(n_groups)


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(2, 12))
def test_linkage_is_one_for_scipy(seed, m):
    Q = soft(60, m, seed)
    Q[:, -1] = 0.0
    Q[0] = 1 / m
    tree = merge_tree(gram(Q) / 60)
    Z = tree.linkage()
    assert is_valid_linkage(Z, throw=True)
    assert Z[0, 2] == 0.0
    assert tree.sizes(np.bincount(Q.argmax(axis=1), minlength=m))[-1] == 60
    assert len(dendrogram(Z, no_plot=True)["leaves"]) == m


def test_linkage_cuts_as_the_tree_does():
    tree = merge_tree(gram(soft(300, 10)))
    groups = fcluster(tree.linkage(), 4, criterion="maxclust")
    assert len(set(zip(groups.tolist(), tree.cut(4).tolist(), strict=True))) == groups.max()


def test_linkage_of_disjoint_columns_is_finite():
    Z = merge_tree(np.eye(3) / 3).linkage()
    assert np.isfinite(Z).all()


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, 80), max_size=4))
def test_gram_adds_over_blocks(seed, cuts):
    Q = soft(80, 6, seed)
    total = sum(gram(part) for part in np.split(Q, sorted(cuts)))
    np.testing.assert_allclose(total, Q.T.astype(np.float64) @ Q, rtol=1e-12)


def test_gram_takes_more_rows_than_one_piece():
    Q = soft(merge_tree_module._GRAM_ROWS * 2 + 5, 3)
    np.testing.assert_allclose(gram(Q), Q.T.astype(np.float64) @ Q, rtol=1e-12)


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(2, 9), st.data())
def test_grouped_columns_are_a_posterior(seed, m, data):
    Q, c = soft(30, m, seed), data.draw(st.integers(1, m))
    groups = merge_tree(gram(Q)).cut(c)
    P = consensus_module.group_columns(Q, groups, c)
    np.testing.assert_allclose(P, Q @ (groups[:, None] == np.arange(c)), atol=1e-6)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-6)


def test_columns_left_out_give_their_mass_back():
    Q = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], dtype=np.float32)
    P = consensus_module.group_columns(Q, np.array([-1, 0, 1]), 2)
    np.testing.assert_array_equal(P, [[0.5, 0.5], [0.5, 0.5]])


def test_rows_without_mass_stay_flat_when_groups_are_unequal():
    flat = Assignment(np.full((1, 4), 0.25, dtype=np.float32), np.array([False]), np.zeros(1, dtype=np.int32))
    merged = consensus_module.merged_assignment(flat, np.array([0, 0, 0, 1]), 2)
    np.testing.assert_array_equal(merged.posterior, [[0.5, 0.5]])
    np.testing.assert_array_equal(merged.has_mass, [False])


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(3, 9))
def test_labels_at_every_cut_are_those_of_the_grouped_posterior(seed, m):
    # eighths add without rounding, so that ties are ties however the groups are summed
    Q = (np.random.default_rng(seed).multinomial(8, np.full(m, 1 / m), 50) / 8).astype(np.float32)
    tree = merge_tree(gram(Q))
    cuts = [2, len(tree.columns), 1, 3]
    labels = consensus_module.cut_labels(Q, tree, cuts)
    for j, c in enumerate(cuts):
        np.testing.assert_array_equal(labels[:, j], consensus_module.group_columns(Q, tree.cut(c), c).argmax(axis=1))


# ---- consensus


def noisy_labelings(n, c, B, seed=0, noise=0.1):
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, c, n)
    labels = [
        draw.permutation(c)[np.where(draw.uniform(size=n) < noise, draw.integers(0, c, n), truth)] for _ in range(B)
    ]
    return truth, np.column_stack(labels)


def consensus(labels, sizes, c):
    tree = consensus_module.consensus_tree(consensus_module.label_gram(labels, sizes), sizes)
    votes = consensus_module.vote(labels, sizes, tree.cut(c), c)
    return votes, consensus_module.consensus_labels(votes, votes / votes.sum(axis=1, keepdims=True))


def test_consensus_of_noisy_labelings_is_the_truth():
    truth, labels = noisy_labelings(2000, 5, 9)
    votes, found = consensus(labels, [5] * 9, 5)
    assert adjusted_rand_score(truth, found) > 0.999
    assert 0.85 < consensus_module.agreement(votes, found, 9).mean() < 0.95


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
    total = sum(consensus_module.label_gram(part, sizes) for part in np.split(labels, sorted(cuts)))
    np.testing.assert_array_equal(total, A.T @ A)


def test_pairwise_ari_reads_the_label_gram():
    _, labels = noisy_labelings(300, 4, 3, noise=0.3)
    ari = consensus_module.pairwise_ari(consensus_module.label_gram(labels, [4] * 3), [4] * 3)
    direct = [[adjusted_rand_score(a, b) for a in labels.T] for b in labels.T]
    np.testing.assert_allclose(ari, direct, atol=1e-12)
    assert consensus_module.stability(ari) == pytest.approx((np.sum(direct) - 3) / 6)


def test_medoid_is_the_labeling_closest_to_the_others():
    ari = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.6], [0.1, 0.6, 1.0]])
    assert consensus_module.medoid(ari) == 1
    assert consensus_module.medoid(np.ones((3, 3))) == 0
    assert consensus_module.medoid(np.ones((1, 1))) == 0
    assert consensus_module.stability(np.ones((1, 1))) == 1.0


def clusters(*bounds):
    """Labels of 100 rows that are cut at these bounds."""
    return np.searchsorted(bounds, np.arange(100), side="right")


@pytest.mark.parametrize(
    ("labelings", "counts"),
    [
        ([clusters(50)] * 3, [2, 2, 2]),
        ([clusters(50, 96), clusters(4, 50), clusters(50), clusters(50)], [2, 2, 2, 2]),  # pieces of one labeling each
        ([clusters(50, 96), clusters(50, 97), clusters(50), clusters(52)], [2, 2, 2, 2]),  # one of three others has it
        ([clusters(50, 96), clusters(50, 97), clusters(50, 94), clusters(52)], [3, 3, 3, 2]),
        ([clusters(50), clusters(80)], [2, 2]),  # 50 of 80 rows, and 20 of 50
        ([clusters(50), clusters(81)], [1, 1]),
        ([clusters(10, 20, 30)], [4]),
    ],
)
def test_clusters_that_half_of_the_other_labelings_have_are_in_common(labelings, counts):
    sizes = [int(labels.max()) + 1 for labels in labelings]
    sums = consensus_module.label_gram(np.stack(labelings, axis=1), sizes)
    common = np.split(consensus_module.in_common(sums, sizes), np.cumsum(sizes)[:-1])
    assert [np.count_nonzero(of_one) for of_one in common] == counts


def test_votes_of_labels_without_a_class_are_not_cast():
    votes = consensus_module.vote(np.array([[0, 1], [1, 1]]), [2, 2], np.array([0, -1, 1, 0]), 2)
    np.testing.assert_array_equal(votes, [[2, 0], [1, 0]])


def test_classes_without_rows_are_left_out_and_nothing_else_changes():
    sizes, classes = [2, 2, 2], np.array([0, 1, 0, 1, 0, 2])  # class 2 is known to one labeling
    labels = np.array([[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]])
    votes = consensus_module.vote(labels, sizes, classes, 3)
    counts = consensus_module.rows_won(labels, sizes, classes, 3)
    np.testing.assert_array_equal(counts, [[2, 2, 0], [2, 2, 0]])
    kept = consensus_module.winners(classes, counts[0])
    np.testing.assert_array_equal(kept, [0, 1, 0, 1, 0, -1])
    np.testing.assert_array_equal(consensus_module.vote(labels, sizes, kept, 2).argmax(axis=1), votes.argmax(axis=1))
    np.testing.assert_array_equal(consensus_module.winners(np.array([2, -1, 0]), np.array([1, 0, 5])), [1, -1, 0])


def test_tied_votes_go_by_posterior_then_to_the_smallest():
    votes = np.array([[2, 2, 1], [1, 1, 1], [0, 3, 0]])
    posterior = np.array([[0.2, 0.3, 0.5], [0.4, 0.2, 0.4], [1.0, 0.0, 0.0]], dtype=np.float32)
    labels = consensus_module.consensus_labels(votes, posterior)
    np.testing.assert_array_equal(labels, [1, 0, 1])
    np.testing.assert_allclose(consensus_module.agreement(votes, labels, 5), [0.4, 0.2, 0.6])


def test_a_class_that_has_rows_by_ties_only_wins_them():
    labels, sizes = np.array([[0, 0, 1, 1], [1, 1, 1, 1], [1, 0, 0, 1], [2, 1, 2, 0]]), [3, 3, 3, 3]
    classes = np.tile([0, 1, 2], 4)
    votes = consensus_module.vote(labels, sizes, classes, 3)
    posterior = np.tile(np.float32([0.1, 0.8, 0.1]), (4, 1))
    np.testing.assert_array_equal(consensus_module.rows_won(labels, sizes, classes, 3), [[2, 1, 1], [0, 1, 1]])
    np.testing.assert_array_equal(consensus_module.consensus_labels(votes, posterior), [1, 1, 1, 2])
    np.testing.assert_array_equal(consensus_module.consensus_labels(votes, posterior, [0]), [0, 1, 0, 2])


@pytest.mark.parametrize("n_classes", [1, 2, 7])
def test_rows_won_are_those_of_the_votes(n_classes):
    rng = np.random.default_rng(n_classes)
    sizes = [3, 5, 2, 4, 6]
    labels = np.stack([rng.integers(s, size=400) for s in sizes], axis=1).astype(np.int32)
    classes = rng.integers(-1, n_classes, size=20)  # with seed 1, some rows cast no vote
    votes = consensus_module.vote(labels, sizes, classes, n_classes)
    first = votes.argmax(axis=1)
    alone = np.sum(votes == votes.max(axis=1, keepdims=True), axis=1) == 1
    expected = [np.bincount(rows, minlength=n_classes) for rows in (first, first[alone])]
    np.testing.assert_array_equal(consensus_module.rows_won(labels, sizes, classes, n_classes), expected)


def test_copies_of_a_large_cluster_are_merged_as_early_as_those_of_a_small_one():
    """Three labelings of 1,000 rows know a cluster of 800 and one of 100; each cuts a piece of its own off the rest."""
    labels = np.repeat([[0, 0, 0], [1, 1, 1], [0, 0, 2]], [800, 100, 100], axis=0).astype(np.int32)
    labels[:20, 0], labels[20:60, 1] = 2, 2
    sums = consensus_module.label_gram(labels, [3, 3, 3])
    by_overlap = consensus_module.overlap_tree(sums).cut(5)
    assert len(set(by_overlap[[0, 3, 6]])) == 1  # the copies of the large cluster
    assert len(set(by_overlap[[1, 4, 7]])) == 1
    by_density = consensus_module.consensus_tree(sums, [3, 3, 3]).cut(5)
    assert len(set(by_density[[0, 3, 6]])) > 1


def test_tree_of_overlaps_drops_labels_without_rows_and_is_whole():
    labels = np.array([[0, 1], [0, 1], [2, 0], [2, 0], [2, 1]], np.int32)
    tree = consensus_module.overlap_tree(consensus_module.label_gram(labels, [3, 2]))
    assert tree.columns.tolist() == [0, 2, 3, 4]
    assert tree.cut(2).tolist() == [0, -1, 1, 1, 0]
    assert tree.ratios[0] == pytest.approx(2 / np.sqrt(2 * 3))
    assert (np.diff(tree.ratios) <= 0).all()
    alone = consensus_module.overlap_tree(np.array([[7]]))
    assert alone.cut(1).tolist() == [0]
