"""Valleys between groups: the test, the tree, and blobs."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, ward
from scipy.stats import norm

from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.labeling import blobs, consensus, density_valley, valleys
from bigsmic.numerics.labeling.group_moments import group_moments
from bigsmic.numerics.labeling.groups import SAMPLE_ROWS, Groups, is_drawn
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.pair_weights import pair_weights
from bigsmic.numerics.labeling.resolution import along_axes, steps_of
from bigsmic.numerics.principal_axes import principal_axes

pytestmark = pytest.mark.unit


def kernel(X, k=8):
    """Weights of 1 between each row and its k nearest, as one block."""
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    near = np.argsort(distance, axis=1)[:, 1 : k + 1]
    W = sparse.coo_matrix((np.ones(near.size), (np.repeat(np.arange(len(X)), k), near.ravel())), (len(X),) * 2)
    W = W.maximum(W.T).tocsr()
    return KernelBlock(0, len(X), np.empty(0, np.int64), W.indptr.astype(np.int64), W.indices, W.data.astype("f4"))


def cut_into(X, n_groups):
    """Rows cut into groups by their order along the line of largest variance: slices."""
    line = X @ principal_axes(X.astype(np.float32), 1)[1][:, 0] if X.shape[1] > 1 else X[:, 0]
    labels = np.empty(len(X), np.int64)
    labels[np.argsort(line)] = np.arange(len(X)) * n_groups // len(X)
    return labels


def groups_of(X, labels):
    m, P = int(labels.max()) + 1, X.astype(np.float32)
    moments = group_moments(P, labels, m)
    uniform = row_uniform(0, "valleys", np.arange(len(X)))
    drawn = is_drawn(uniform, moments.counts[labels])
    weights = pair_weights(kernel(X), labels, m)
    return Groups(moments, weights, (P[drawn], uniform[drawn], labels[drawn]))


def blob_rows(*centers, n=300, seed=0):
    draw = np.random.default_rng(seed)
    return np.concatenate([draw.normal(center, 1.0, (n, 3)) for center in centers])


@pytest.mark.parametrize(
    ("distance", "expected"), [(0.0, 0.0), (1.0, -0.08), (2.0, -0.5), (3.0, -2 * 2.25**2 / 3.25**2)]
)
@pytest.mark.parametrize("shares", [(1, 1), (1, 3)])
def test_two_clusters_are_flatter_together_than_one(distance, expected, shares):
    """Each sample counts for its rows, however many were drawn."""
    n = 30_000
    a = norm.ppf((np.arange(n) + 0.5) / n)
    samples = a[:: shares[0]], a[:: shares[1]] + distance
    found = density_valley.excess_kurtosis(*samples, np.array([n, n], float))
    assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("at", [-1.0, 0.0, 0.5])
def test_parts_of_one_cluster_are_not_flat_together(at):
    x = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    a, b = x[x < at], x[x >= at]
    assert density_valley.excess_kurtosis(a, b, np.array([len(a), len(b)], float)) == pytest.approx(0, abs=0.01)
    assert density_valley.excess_kurtosis(np.ones(3), np.ones(2), np.array([3.0, 2.0])) == 0


@pytest.mark.parametrize("distance", [3.0, 4.0, 6.0])
def test_the_depth_is_that_of_the_smoothed_mixture(distance):
    n = 200_000
    a = norm.ppf((np.arange(n) + 0.5) / n)
    b = a + distance
    found = density_valley.between(a, b, np.array([n, n]), (0.0, distance))
    spread = np.sqrt(1 + (1.06 * n**-0.2) ** 2)
    line = np.linspace(0, distance, 2001)
    density = norm.pdf(line, 0, spread) + norm.pdf(line, distance, spread)
    assert found.depth == pytest.approx(density[1000] / density.max(), rel=0.02)
    at_peak = (1 + 1 / found.depth) / found.error**2  # rows counted there, as the error is that of both counts
    counts = np.array([found.depth * at_peak, at_peak])
    assert found.z**2 == pytest.approx(2 * np.sum(counts * np.log(counts / counts.mean())), rel=1e-6)


def test_the_deviance_is_the_square_of_the_difference_in_errors_if_counts_are_large():
    n = 2_000_000
    a = norm.ppf((np.arange(n) + 0.5) / n)
    found = density_valley.between(a, a + 2.1, np.array([n, n]), (0.0, 2.1))
    assert 0.99 < found.depth < 1
    assert found.z == pytest.approx(-np.log(found.depth) / found.error, rel=0.01)


def test_means_that_have_lost_their_digits_show_no_valley():
    """Beside one row at 1e12, the mean of the second group can be far below that of the first, where it cannot be."""
    a = norm.ppf((np.arange(40) + 0.5) / 40)
    assert density_valley.between(a, a - 40, np.array([40.0, 40.0]), (0.0, -40.0)) == density_valley.NO_VALLEY


def test_an_empty_valley_of_few_rows_is_one():
    """Forty rows and forty, far apart: the log of the depth has an error of 1, and is 3.2 of them."""
    a = norm.ppf((np.arange(40) + 0.5) / 40)
    found = density_valley.between(a, a + 6, np.array([40.0, 40.0]), (0.0, 6.0))
    assert found.z > 1.2 * valleys.THRESHOLD
    assert -np.log(found.depth) / found.error < 3.5


def test_groups_of_copies_are_one_though_none_touch():
    """Copies of a row that fill several cells are tied to those of their cell."""
    X = np.concatenate([np.zeros((400, 3)), blob_rows([9, 0, 0], n=200), np.full((300, 3), -9.0)])
    labels = np.concatenate([np.arange(400) // 100, np.full(200, 4), 5 + np.arange(300) // 100])
    groups = groups_of(X, labels)
    groups.weights[:] = np.diag(np.diag(groups.weights))
    found = valleys.valley_tree(groups)
    clusters = found.tree.cut(found.n_clusters)
    assert found.n_clusters == 3
    assert len(set(clusters[:4])) == len(set(clusters[5:])) == 1
    assert len({clusters[0], clusters[4], clusters[5]}) == 3


def test_groups_of_few_rows_in_many_directions_are_separated():
    """Twenty clusters of forty rows; with a direction for every four rows of a pair, hardly two are separated."""
    draw = np.random.default_rng(7)
    centers = draw.normal(0, 1.6, (20, 30))
    labels = np.repeat(np.arange(20), 40)
    X = centers[labels] + draw.normal(size=(800, 30))
    groups = groups_of(X, labels)
    z = [groups.valley(y, other).z for y in range(20) for other in range(y)]
    assert np.mean(np.array(z) >= valleys.THRESHOLD) > 0.95


@pytest.mark.parametrize("n", [60, 200])
def test_halves_of_one_cluster_are_not_separated_in_many_directions(n):
    draw = np.random.default_rng(8)
    labels = np.repeat(np.arange(10), n)
    X = draw.normal(0, 1.6, (10, 30))[labels] + draw.normal(size=(10 * n, 30))
    first = X[:, 0] > np.array([X[labels == y, 0].mean() for y in range(10)])[labels]
    groups = groups_of(X, 2 * labels + first)
    assert max(groups.valley(2 * y, 2 * y + 1).z for y in range(10)) < valleys.THRESHOLD


def test_integers_have_no_valleys_between_them():
    line = np.rint(norm.ppf((np.arange(20_000) + 0.5) / 20_000) * 1.5)
    for border in (-1.5, -0.5, 0.5):
        a, b = line[line < border], line[line > border]
        between = partial(density_valley.between, a, b, np.array([len(a), len(b)]), (a.mean(), b.mean()))
        assert between().z > valleys.THRESHOLD
        assert between(step=1.0).z < valleys.LEAST_SIGN
    apart = np.concatenate([line, line + 12])
    a, b = apart[apart < 6], apart[apart > 6]
    assert density_valley.between(a, b, np.array([len(a), len(b)]), (0.0, 12.0), step=1.0).z > valleys.THRESHOLD


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_columns_that_do_not_change_alone_have_steps_of_the_diagonal(scale):
    """A category changes two columns of its one-hot encoding; counts of the same total change in two columns, too."""
    draw = np.random.default_rng(0)
    categories, flags = np.eye(6)[draw.integers(0, 6, 500)], draw.integers(0, 2, (500, 2))
    counts = draw.multinomial(20, [0.2, 0.3, 0.5], 500)
    X = scale * np.column_stack([categories, flags, counts, draw.normal(size=500), np.ones(500)])
    steps = steps_of(X.astype(np.float32))
    diagonal = np.sqrt(2)
    np.testing.assert_allclose(steps[:-2], scale * np.repeat([diagonal, 1, diagonal], [6, 2, 3]), rtol=1e-6)
    assert steps[-2] < 0.1 * scale
    assert steps[-1] == 0


def test_a_gap_in_one_column_is_a_valley_whatever_flags_are_beside_it():
    """Flags that are equal within groups have the variance of values that are known to a step."""
    draw = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = np.column_stack([draw.normal(8.0 * y, 1.0), 6.0 * y])
    for gap, expected in ((1.0, True), (0.0, False)):
        groups = groups_of(X * [gap, 1.0], y)
        groups.resolution = along_axes(steps_of(X * [gap, 1.0]), np.eye(2))
        assert (groups.valley(0, 1).z > valleys.THRESHOLD) == expected


def test_the_step_of_a_direction_is_that_of_its_columns():
    """Groups of integers in the plane, turned by a rotation: a step along each axis, and none that is finer."""
    X = np.random.default_rng(0).integers(0, 12, (6000, 2)).astype(float)
    angle = np.radians(30)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    R = along_axes(steps_of(X), turn)
    for w in (turn[0], turn[1], np.array([0.6, 0.8])):
        assert w @ R @ w == pytest.approx(np.sum((turn @ w) ** 2))
    groups = groups_of(X, (X[:, 0] > 5).astype(int))
    groups.resolution = along_axes(steps_of(X), np.eye(2))
    assert groups.valley(0, 1).z < valleys.LEAST_SIGN


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        (np.arange(1000) % 7, 1.0, 1.0),
        (np.arange(1000) % 2 * 3, 3.0, 3.0),
        (np.zeros(1000), 0.0, 0.0),
        (np.where(np.arange(1000) < 900, np.arange(1000) % 9, 1e6), 1.0, 1.0),
        (np.random.default_rng(0).normal(size=1000), 0.0, 0.01),
    ],
    ids=["integers", "two values", "one value", "an outlier", "hardly any two equal"],
)
def test_steps_are_the_typical_distance_of_neighbouring_values(column, low, high):
    X = np.stack([column, np.arange(1000.0)], axis=1).astype(np.float32)
    found = steps_of(X)
    assert low <= found[0] <= high
    assert found[1] == 1


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e4])
def test_columns_that_do_not_change_alone_change_by_a_step_two_at_once(unit):
    """Such as the indicators of a category, beside integers and a flag that change alone; in any unit."""
    draw = np.random.default_rng(0)
    category, alone = np.eye(4)[draw.integers(4, size=1000)], [draw.integers(6, size=1000), draw.integers(2, size=1000)]
    X = np.column_stack([category, *alone])
    X[:, 1:5] *= unit
    expected = np.sqrt([2, 2 * unit**2, 2 * unit**2, 2 * unit**2, unit**2, 1])
    np.testing.assert_allclose(steps_of(X.astype(np.float32)), expected, rtol=1e-6)


def test_halves_of_one_bell_have_no_valley():
    line = norm.ppf((np.arange(4000) + 0.5) / 4000)
    a, b = line[line < 0], line[line >= 0]
    found = density_valley.between(a, b, np.array([2000.0, 2000.0]), (a.mean(), b.mean()))
    assert found.z < valleys.THRESHOLD


def test_z_grows_with_the_root_of_the_rows():
    def z(n):
        a = norm.ppf((np.arange(n) + 0.5) / n)
        return density_valley.between(a, a + 3.5, np.array([n, n]), (0.0, 3.5)).z

    assert 2.2 < z(8000) / z(1000) < 3.6  # but for the bandwidth, the root of 8


def test_weights_are_counted_for_both_groups():
    # twenty rows that stand for many: the depth is that of the whole
    a, b = np.linspace(-1, 1, 21), np.linspace(-1, 1, 21) + 4
    even = density_valley.between(a, b, np.array([21.0, 21.0]), (0.0, 4.0))
    uneven = density_valley.between(a, b, np.array([2100.0, 21.0]), (0.0, 4.0))
    assert uneven.depth >= even.depth


def test_sums_of_groups_add_over_blocks():
    X = np.random.default_rng(1).normal(size=(90, 4)).astype(np.float32)
    labels = np.random.default_rng(2).integers(0, 5, 90)
    whole = group_moments(X, labels, 6)
    parts = group_moments(X[:40], labels[:40], 6) + group_moments(X[40:], labels[40:], 6)
    for name, one, other in zip(whole._fields, whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=name)
    of_third = X[labels == 3].astype(np.float64)
    np.testing.assert_allclose(whole.outers[3], of_third.T @ of_third)
    assert whole.counts[5] == 0


def test_weights_between_groups_are_those_of_the_dense_product():
    X = np.random.default_rng(3).normal(size=(60, 2))
    labels = np.random.default_rng(4).integers(0, 4, 60)
    block = kernel(X, 5)
    W = sparse.csr_matrix((block.data, block.indices, block.indptr), (60, 60)).toarray()
    A = np.eye(4)[labels]
    np.testing.assert_allclose(pair_weights(block, labels, 4), A.T @ W @ A)


def test_the_sample_of_a_union_lies_in_the_samples_of_its_parts():
    uniform = row_uniform(0, "valleys", np.arange(20_000))
    of_part = is_drawn(uniform, np.full(20_000, 10_000.0))
    of_union = is_drawn(uniform, np.full(20_000, 20_000.0))
    assert not np.any(of_union & ~of_part)
    assert abs(of_union.sum() - SAMPLE_ROWS) < 5 * np.sqrt(SAMPLE_ROWS)


def test_the_tree_stops_at_the_groups_that_valleys_part():
    X = blob_rows((0, 0, 0), (8, 0, 0), (0, 9, 0))
    truth = np.repeat(np.arange(3), 300)
    labels = truth * 4 + np.concatenate([cut_into(X[truth == y], 4) for y in range(3)])
    found = valleys.valley_tree(groups_of(X, labels))
    assert found.n_clusters == 3
    of_group = found.tree.cut(3)
    assert [len(set(of_group[4 * y : 4 * y + 4])) for y in range(3)] == [1, 1, 1]
    assert found.weakest[3] >= valleys.THRESHOLD > found.weakest[4]
    assert len(found.tree.merges) == 11  # down to one group


def test_one_blob_is_one_cluster():
    X = blob_rows((0, 0, 0), n=1200)
    assert valleys.valley_tree(groups_of(X, cut_into(X, 6))).n_clusters == 1


@pytest.mark.parametrize(
    ("errors", "n_clusters"),
    [((3.8, 2, 2), 4), ((3.4, 2, 2), 1), ((3.9, 3.6, 5), 4), ((3.8, 4.5, 5), 2), ((3.9, 3.9, 3.9), 1)],
)
def test_merges_that_hide_valleys_are_undone(monkeypatch, errors, n_clusters):
    """Valleys between four groups, and beside the first and second union, of given z; those below 4 are merged."""
    X = blob_rows((0, 0, 0), (3, 0, 0), (0, 3, 0), (0, 0, 3))
    groups = groups_of(X, np.repeat(np.arange(4), 300))
    monkeypatch.setattr(
        Groups, "valley", lambda self, y, z: density_valley.Valley(0.5, errors[4 - len(self.alive)], 0.1)
    )
    monkeypatch.setattr(Groups, "are_neighbors", lambda self, y, z: np.ones(len(y), bool))
    found = valleys.valley_tree(groups)
    assert found.n_clusters == n_clusters
    np.testing.assert_array_equal(found.by_distance.cut(n_clusters), found.tree.cut(n_clusters))


def test_rows_of_no_cluster_do_not_join_the_clusters_that_they_lie_between(monkeypatch):
    angles = np.arange(6) * np.pi / 3
    around = np.stack([6 * np.cos(angles), 6 * np.sin(angles), 0 * angles], axis=1)
    scattered = np.random.default_rng(3).uniform(-6, 6, (200, 3)) * (1, 1, 0.3)
    X = np.concatenate([blob_rows((0, 0, 0), n=1500), blob_rows(*around, n=100), scattered])
    labels = np.repeat(np.arange(8), [1500, *[100] * 6, 200])
    found = valleys.valley_tree(groups_of(X, labels))
    assert found.n_clusters == 7
    assert len(set(found.tree.cut(7)[:7])) == 7
    monkeypatch.setattr(valleys, "SCATTERED", np.inf)
    assert valleys.valley_tree(groups_of(X, labels)).n_clusters == 1  # all are joined by what lies between


def test_a_wide_cluster_stays_one_beside_narrow_ones():
    X = np.concatenate([blob_rows((20, 0, 0), (-20, 0, 0), (0, 20, 0)), 4 * blob_rows((0, 0, 0), n=900)])
    found = valleys.valley_tree(groups_of(X, np.repeat([0, 1, 2, 3], [300, 300, 300, 900])))
    assert found.n_clusters == 4


def test_groups_of_few_rows_are_given_to_those_they_are_tied_to():
    X = blob_rows((0, 0, 0), (9, 0, 0))
    labels = np.repeat([0, 1], 300)
    labels[:2] = 2  # two rows of the first blob
    found = valleys.valley_tree(groups_of(X, labels))
    assert tuple(found.tree.merges[0]) == (0, 2)
    assert found.n_clusters == 2


def test_groups_without_rows_take_no_part():
    X = blob_rows((0, 0, 0), (9, 0, 0))
    found = valleys.valley_tree(groups_of(X, np.repeat([1, 4], 300)))
    assert found.tree.columns.tolist() == [1, 4]
    assert found.tree.cut(2).tolist() == [-1, 0, -1, -1, 1]


def far_apart(seed=0, m=12):
    """Rows of groups without a neighbour, and their labels."""
    draw = np.random.default_rng(seed)
    labels = np.repeat(np.arange(m), draw.integers(30, 90, m))
    return 100 * draw.normal(size=(m, 3))[labels] + draw.normal(size=(len(labels), 3)), labels


def test_groups_that_do_not_touch_are_merged_by_ward():
    X, labels = far_apart()
    found, reference = valleys.valley_tree(groups_of(X, labels)), ward(X)
    assert np.isinf(found.weakest[2:13]).all()
    for k in range(2, 12):
        both = np.stack([found.by_distance.cut(k)[labels], fcluster(reference, k, "maxclust") - 1], axis=1)
        assert consensus.pairwise_ari(consensus.label_gram(both, [k, k]), [k, k])[0, 1] == 1
        np.testing.assert_array_equal(found.by_distance.cut(k), found.tree.cut(k))  # as no two groups touch


def test_groups_that_links_bar_are_merged_last_by_ward():
    X, labels = far_apart()
    groups = groups_of(X, labels)
    cannot = np.zeros((2, 12, 12))
    y, z = valleys.Nearest(groups).pair()
    cannot[1, y, z] = cannot[1, z, y] = 2
    assert valleys.Nearest(groups.with_links(cannot)).pair() != (y, z)
    found = valleys.valley_tree(groups.with_links(cannot)).tree.cut(2)
    assert found[y] != found[z]


def test_equal_rows_are_parted_from_others():
    X = np.concatenate([np.zeros((200, 3)), np.ones((200, 3)) * 5]) + 1e-9 * np.arange(1200).reshape(400, 3)
    assert valleys.valley_tree(groups_of(X, np.repeat([0, 1], 200))).n_clusters == 2


@pytest.mark.parametrize("d", [2, 10, 30])
def test_a_blob_is_not_clumped(d):
    draw = np.random.default_rng(d)
    X = draw.normal(size=(1500, d)) @ draw.normal(size=(d, d))
    assert abs(blobs.clumpiness(X)) < blobs.CLUMPED


def test_clumpiness_does_not_hang_on_the_order_of_the_rows():
    """The first rows of a blob may be a slice of it, and those of a cluster with a clump may lie outside of that."""
    draw = np.random.default_rng(0)
    blob, clump = draw.normal(size=(12_000, 2)), draw.normal(3, 0.3, (9000, 2))
    assert abs(blobs.clumpiness(blob[np.argsort(blob[:, 0])])) < blobs.CLUMPED
    assert blobs.clumpiness(np.concatenate([draw.normal(size=(3000, 2)), clump])) > blobs.CLEARLY_CLUMPED


def test_copies_of_a_row_are_no_clump():
    few = np.random.default_rng(0).normal(size=(15, 3))
    copies = np.random.default_rng(1).permutation(np.concatenate([np.full((1500, 3), 0.3), few]))
    assert blobs.clumpiness(copies) == 0.0


def test_many_groups_and_curves_are_clumped():
    draw = np.random.default_rng(0)
    groups = draw.normal(0, 3, (40, 8))[draw.integers(0, 40, 2000)] + draw.normal(size=(2000, 8))
    angle = draw.uniform(0, 2 * np.pi, 2000)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) + draw.normal(0, 0.02, (2000, 2))
    assert blobs.clumpiness(groups) > blobs.CLEARLY_CLUMPED
    assert blobs.clumpiness(ring) > blobs.CLEARLY_CLUMPED
    assert blobs.clumpiness(groups) == blobs.clumpiness(groups)
    assert blobs.clumpiness(groups[:20]) == 0.0


def test_gram_of_merged_labels_is_that_of_the_merged_labelings():
    draw = np.random.default_rng(5)
    labels = np.stack([draw.integers(0, 5, 200), draw.integers(0, 4, 200)], axis=1)
    groups = [np.array([0, 1, 0, 2, 1]), np.array([1, 0, 0, 1])]
    merged = np.stack([group[column] for group, column in zip(groups, labels.T, strict=True)], axis=1)
    sums, sizes = consensus.merged_gram(consensus.label_gram(labels, [5, 4]), groups)
    assert sizes == [3, 2]
    np.testing.assert_array_equal(sums, consensus.label_gram(merged, [3, 2]))


def test_axes_span_the_leading_components():
    draw = np.random.default_rng(6)
    X = (draw.normal(size=(500, 5)) * [9, 7, 5, 0.1, 0.1]) @ np.linalg.qr(draw.normal(size=(40, 5)))[0].T
    mean, axes = principal_axes(X.astype(np.float32) + 3, 3)
    np.testing.assert_allclose(mean, X.mean(axis=0) + 3, atol=1e-4)
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-5)
    Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:3]
    assert np.linalg.norm(Vt @ axes) == pytest.approx(np.sqrt(3), abs=1e-3)
    np.testing.assert_array_equal(principal_axes(X[:, :3].astype(np.float32), 3)[1], np.eye(3))


def linked(groups, must=(), cannot=()):
    """Groups with links between some, given as triples: two groups, and how many."""
    counts = np.zeros((2, *groups.weights.shape))
    for matrix, given in zip(counts, (must, cannot), strict=True):
        for y, z, n in given:
            matrix[y, z] = matrix[z, y] = n
    return groups.with_links(counts)


@pytest.mark.parametrize(("n_links", "n_clusters"), [(0, 1), (1, 1), (2, 2), (9, 2)])
def test_cannot_links_that_are_no_chance_part_what_no_valley_parts(n_links, n_clusters):
    X = blob_rows((0, 0, 0), n=600)
    groups = groups_of(X, cut_into(X, 2))
    assert valleys.valley_tree(linked(groups, cannot=[(0, 1, n_links)])).n_clusters == n_clusters


@pytest.mark.parametrize(("n_must", "n_cannot", "n_clusters"), [(0, 0, 2), (1, 0, 1), (2, 1, 1), (1, 1, 2), (1, 2, 2)])
def test_a_majority_of_must_links_joins_what_a_valley_parts(n_must, n_cannot, n_clusters):
    X = blob_rows((0, 0, 0), (20, 0, 0))
    groups = groups_of(X, np.repeat([0, 1], 300))
    tree = valleys.valley_tree(linked(groups, must=[(0, 1, n_must)], cannot=[(0, 1, n_cannot)]))
    assert tree.n_clusters == n_clusters


def test_groups_with_a_majority_of_must_links_gain_nothing_from_being_parted():
    groups = groups_of(blob_rows((0, 0, 0), (20, 0, 0)), np.repeat([0, 1], 300))
    assert valleys.valley_tree(linked(groups, must=[(0, 1, 3)])).gains.tolist() == [0.0]


def test_what_no_valley_parts_has_a_gain_if_two_gaussians_describe_it_better():
    """Two blobs 2.2 standard deviations apart; halves of one gain nothing."""
    X = blob_rows((0, 0, 0), (2.2, 0, 0), n=1500)
    tree = valleys.valley_tree(groups_of(X, np.repeat([0, 1], 1500)))
    assert tree.n_clusters == 1
    assert tree.gains.shape == (1,)
    assert tree.gains[0] > np.log(3000)
    halves = valleys.valley_tree(groups_of(X[:1500], cut_into(X[:1500], 2)))
    assert halves.gains.tolist() == [0.0]


def test_the_smallest_groups_are_parted_when_nothing_is_gained():
    tree = MergeTree(4, np.arange(4), np.array([(0, 1), (2, 3), (0, 2)]), np.ones(3))
    sizes = np.array([50.0, 10.0, 300.0, 200.0])
    found = valleys.ValleyTree(tree, 1, np.full(5, 5.0), tree, np.array([0.0, 0.0, 40.0]))
    assert [found.by_shape(1, sizes).cut(k).tolist() for k in (2, 3)] == [[0, 0, 1, 1], [0, 1, 2, 2]]
    gaining = found._replace(gains=np.array([0.0, 9.0, 40.0]))
    assert [gaining.by_shape(1, sizes).cut(k).tolist() for k in (2, 3)] == [[0, 0, 1, 1], [0, 0, 1, 2]]
    assert found._replace(n_clusters=3).by_shape(2, sizes).cut(3).tolist() == tree.cut(3).tolist()


def test_links_of_merged_groups_add():
    X = blob_rows((0, 0, 0), n=900)
    groups = groups_of(X, cut_into(X, 3))
    one_each = linked(groups, cannot=[(0, 1, 1), (0, 2, 1)])
    assert (
        valleys.valley_tree(one_each).n_clusters == 2
    )  # once the last two are one, they have two links with the first
    assert valleys.valley_tree(groups).n_clusters == 1  # with_links is a copy


def test_fewer_standard_errors_are_tried_first_among_few_rows():
    assert valleys.thresholds(100) == [2.0, 3.0, 4.0]
    assert valleys.thresholds(400) == pytest.approx([4 * 0.4**0.5, 3.0, 4.0])
    assert valleys.thresholds(999)[-1] == 4.0
    assert valleys.thresholds(100, on_a_line=True) == [3.0, 4.0]
    assert valleys.thresholds(1000) == valleys.thresholds(10**9) == [4.0]


@pytest.mark.parametrize("direction", [[1.0], [1.0, -2.0], [0.0, 3.0, 0.1]])
def test_on_a_line_groups_are_neighbors_of_the_next_ones(direction):
    """Though nothing ties them, and none is scattered, as wide as those in tails may be."""
    values = np.concatenate([np.random.default_rng(j).uniform(j, j + 0.9, 40) for j in (2, 0, 3, 1)])
    labels = np.repeat(np.arange(4), 40)
    found = groups_of(np.outer(values, direction), labels)
    assert found.on_a_line
    first, second = np.triu_indices(4, 1)
    near = found.are_neighbors(first, second)
    assert [*zip(first[near].tolist(), second[near].tolist(), strict=True)] == [(0, 2), (0, 3), (1, 3)]
    assert not groups_of(np.stack([values, values**2], axis=1), labels).on_a_line


@pytest.mark.parametrize("gap", [1e2, 1e4, 1e6, 1e8])
def test_narrow_samples_are_the_further_apart_the_clearer(gap):
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=200), gap + draw.normal(size=200)
    found = density_valley.between(a, b, np.array([200.0, 200.0]), (a.mean(), b.mean()))
    assert found.depth < 1e-3
    assert found.z > 9
