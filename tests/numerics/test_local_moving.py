import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import group_of
from small_kernels import kernel_block, kernel_blocks, symmetric

from bigsmic.numerics.labeling import local_moving

seeds = st.integers(0, 2**31)


def dense_moves(W, labels, degrees, c, movable, resolution=1.0):
    """One sweep by the definition, row after row, all spec the old labels."""
    volumes = np.bincount(labels, weights=degrees, minlength=c)
    moved = labels.copy()
    for i in np.flatnonzero(movable):
        gains = np.array([W[i, labels == y].sum(dtype=np.float64) for y in range(c)])
        others = volumes - degrees[i] * (np.arange(c) == labels[i])
        gains -= resolution * degrees[i] * others / volumes.sum()
        if gains.max() > gains[labels[i]] + 1e-9:
            moved[i] = gains.argmax()
    return moved


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(1, 12), st.lists(st.integers(0, 40), max_size=4), st.sampled_from([0.0, 0.5, 1.0, 4.0]))
def test_moves_in_blocks_agree_with_the_dense_definition(seed, c, cuts, resolution):
    W = symmetric(40, seed)
    draw = np.random.default_rng(seed)
    labels, movable = draw.integers(0, c, 40).astype(np.int32), draw.uniform(size=40) < 0.5
    degrees = W.sum(axis=1, dtype=np.float64)
    volumes = local_moving.label_sums(labels, degrees, c)[1]
    moved = []
    for block in kernel_blocks(W, cuts):
        own = slice(block.lo, block.hi)
        known = np.concatenate([labels[own], labels[block.halo]])
        moved.append(local_moving.move_block(block, known, degrees[own], volumes, movable[own], resolution))
    np.testing.assert_array_equal(np.concatenate(moved), dense_moves(W, labels, degrees, c, movable, resolution))


def test_moves_do_not_count_the_row_itself():
    W = symmetric(20)
    degrees, labels = W.sum(axis=1), (np.arange(20) % 3).astype(np.int32)
    volumes = local_moving.label_sums(labels, degrees, 3)[1]
    moved = [
        local_moving.move_block(kernel_block(K, 0, 20), labels, degrees, volumes, np.ones(20, dtype=bool))
        for K in (W, W + 5 * np.eye(20, dtype=np.float32))
    ]
    np.testing.assert_array_equal(*moved)


def test_a_row_without_weights_stays():
    block = kernel_block(np.zeros((3, 3), dtype=np.float32), 0, 3)
    labels = np.array([2, 1, 0], dtype=np.int32)
    moved = local_moving.move_block(block, labels, np.zeros(3), np.zeros(3), np.ones(3, dtype=bool))
    np.testing.assert_array_equal(moved, labels)


def swept_together(W, cuts, labels, rows, c, places=(), resolutions=(1.0,)):
    """Labels of all labelings after all sweeps over row blocks, shared out among threads at `places`."""
    blocks = kernel_blocks(W, cuts)
    bounds = np.array([0, *(block.hi for block in blocks)])
    degrees = W.sum(axis=1, dtype=np.float64)

    def make(shard):
        own = slice(shard.lo, shard.hi)
        mover = local_moving.RowMoves(shard, blocks.__getitem__, degrees[own], rows[own], seed=3)
        mover.start([of_one[own] for of_one in labels], c)
        return mover

    with group_of(make, bounds, places) as group:
        local_moving.local_moves(group, resolutions)
        return np.concatenate([actor.labels for actor in group.actors])


def swept(W, cuts, labels, rows, c, places=()):
    return swept_together(W, cuts, [labels], rows, [c], places)[:, 0]


@pytest.mark.parametrize("places", [(), (1, 3)])
def test_labelings_that_move_together_move_as_each_alone(places):
    """Among them one whose clusters are emptied, so that rows are sent back, and one whose rows stay."""
    W, cuts = symmetric(90, 5, 0.3), [7, 20, 60, 75]
    draw = np.random.default_rng(6)
    emptied = np.zeros(90, np.int32)
    emptied[[4, 17, 18]] = 1, 2, 2
    labels = [draw.integers(0, c, 90).astype(np.int32) for c in (8, 3, 200)] + [emptied]
    sizes, resolutions = [8, 3, 200, 3], [1.0, None, 0.0, 1.0]
    together = swept_together(W, cuts, labels, np.arange(90), sizes, places, resolutions)
    for i, (start, c, resolution) in enumerate(zip(labels, sizes, resolutions, strict=True)):
        alone = swept_together(W, [], [start], np.arange(90), [c], (), [resolution])[:, 0]
        np.testing.assert_array_equal(together[:, i], alone)
    np.testing.assert_array_equal(together[:, 1], labels[1])
    assert (np.bincount(together[:, 3], minlength=3) > 0).all()


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, 60), max_size=4))
def test_all_sweeps_do_not_depend_on_the_blocks(seed, cuts):
    W = symmetric(60, seed, 0.1)
    draw = np.random.default_rng(seed)
    labels, rows = draw.integers(0, 8, 60).astype(np.int32), draw.permutation(1000)[:60]
    np.testing.assert_array_equal(swept(W, cuts, labels, rows, 8), swept(W, [], labels, rows, 8))


@pytest.mark.parametrize("places", [[1], [1, 2], [2, 3, 5]])
def test_all_sweeps_do_not_depend_on_the_places(places):
    W, cuts = symmetric(90, 1, 0.1), [7, 20, 21, 60, 75]
    draw = np.random.default_rng(2)
    labels, rows = draw.integers(0, 8, 90).astype(np.int32), draw.permutation(1000)[:90]
    np.testing.assert_array_equal(swept(W, cuts, labels, rows, 8, places), swept(W, [], labels, rows, 8))


def test_sweeps_recover_planted_groups():
    truth = np.repeat(np.arange(3), 40)
    draw = np.random.default_rng(0)
    near = (truth[:, None] == truth) * 0.3 + 0.01
    upper = np.triu(draw.uniform(size=near.shape) < near, 1).astype(np.float32)
    start = np.where(draw.uniform(size=120) < 0.3, draw.integers(0, 3, 120), truth).astype(np.int32)
    np.testing.assert_array_equal(swept(upper + upper.T, [50], start, np.arange(120), 3), truth)


def test_without_resolution_a_small_group_gains_no_rows_from_a_large_one():
    W = np.zeros((120, 120), np.float32)  # a ring in which every row knows five on either side
    for step in range(1, 6):
        W += np.roll(np.eye(120, dtype=np.float32), step, axis=1) + np.roll(
            np.eye(120, dtype=np.float32), -step, axis=1
        )
    labels = (np.arange(120) < 12).astype(np.int32)
    degrees = W.sum(axis=1, dtype=np.float64)
    volumes = local_moving.label_sums(labels, degrees, 2)[1]
    block, all_rows = kernel_block(W, 0, 120), np.ones(120, dtype=bool)
    stays, grows = (local_moving.move_block(block, labels, degrees, volumes, all_rows, g) for g in (0.0, 1.0))
    np.testing.assert_array_equal(stays, labels)
    assert grows.sum() > labels.sum()


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_no_sweep_empties_a_cluster(seed):
    W = symmetric(30, seed, 1.0)
    labels = np.zeros(30, dtype=np.int32)
    labels[[4, 17, 18]] = 1, 2, 2
    assert (np.bincount(swept(W, [11], labels, np.arange(30), 3), minlength=3) > 0).all()


def test_the_smallest_row_of_an_emptied_cluster_goes_back():
    rows = np.array([30, 10, 20, 40, 50])
    before, after = np.array([1, 1, 0, 0, 2]), np.array([0, 0, 0, 2, 2])
    degrees = np.arange(1.0, 6.0)
    firsts = local_moving.first_members(rows, before, after, degrees, 3)
    halves = [
        local_moving.first_members(rows[b], before[b], after[b], degrees[b], 3) for b in (slice(0, 1), slice(1, 5))
    ]
    np.testing.assert_array_equal(local_moving.earlier(*halves), firsts)
    *undone, sums = local_moving.undo_emptied(np.array([2, 2, 1]), local_moving.label_sums(after, degrees, 3), firsts)
    labels = local_moving.send_back(after, rows, undone)
    np.testing.assert_array_equal(labels, [0, 1, 0, 2, 2])
    np.testing.assert_array_equal(sums, local_moving.label_sums(labels, degrees, 3))


def test_sending_a_row_back_can_empty_another_cluster():
    rows, before, after = np.arange(3), np.array([0, 1, 2]), np.array([1, 2, 2])
    firsts = local_moving.first_members(rows, before, after, np.ones(3), 3)
    *undone, sums = local_moving.undo_emptied(np.ones(3), local_moving.label_sums(after, np.ones(3), 3), firsts)
    np.testing.assert_array_equal(local_moving.send_back(after, rows, undone), before)
    np.testing.assert_array_equal(sums, np.ones((2, 3)))


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, 40), max_size=4))
def test_modularity_of_blocks_agrees_with_the_dense_definition(seed, cuts):
    W, labels = symmetric(40, seed), np.random.default_rng(seed).integers(0, 5, 40)
    sums = 0
    for block in kernel_blocks(W, cuts):
        known = np.concatenate([labels[block.lo : block.hi], labels[block.halo]])
        sums = sums + local_moving.modularity_sums(block, known, 5)
    degrees = W.sum(axis=1, dtype=np.float64)
    expected = np.outer(degrees, degrees) / degrees.sum()
    direct = (W - expected)[labels[:, None] == labels].sum() / degrees.sum()
    assert local_moving.modularity(sums) == pytest.approx(direct, abs=1e-6)


def test_a_move_alone_raises_modularity():
    W = symmetric(40)
    degrees, labels = W.sum(axis=1, dtype=np.float64), (np.arange(40) % 4).astype(np.int32)
    block, before = (
        kernel_block(W, 0, 40),
        local_moving.modularity(local_moving.modularity_sums(kernel_block(W, 0, 40), labels, 4)),
    )
    for i in range(40):
        volumes = local_moving.label_sums(labels, degrees, 4)[1]
        moved = local_moving.move_block(block, labels, degrees, volumes, np.arange(40) == i)
        after = local_moving.modularity(local_moving.modularity_sums(block, moved, 4))
        assert (after > before) if moved[i] != labels[i] else (after == before)


def test_modularity_of_no_weight_is_zero():
    assert local_moving.modularity(np.zeros((2, 3))) == 0.0


def test_normalized_association_is_the_mean_share_that_stays_inside():
    W, labels = symmetric(40), np.arange(40) % 4
    shares = [W[labels == y][:, labels == y].sum() / W[labels == y].sum() for y in range(4)]
    sums = local_moving.modularity_sums(kernel_block(W, 0, 40), labels, 4)
    assert local_moving.normalized_association(sums) == pytest.approx(np.mean(shares), rel=1e-6)
    assert local_moving.normalized_association(np.zeros((2, 3))) == 0.0


@pytest.mark.parametrize(("volumes", "wanted"), [([3.0, 3.0, 4.0], 1.0), ([5.0, 5.0], 1.0), ([1.0, 9.0], 0.2)])
def test_the_resolution_falls_where_one_cluster_has_most_of_the_weight(volumes, wanted):
    assert local_moving.resolution_of(np.array(volumes)) == pytest.approx(wanted)


def test_a_dominating_cluster_is_not_eaten_by_a_small_one_that_one_edge_ties_to_it():
    """A path of 400 rows, each tied to the next five, and ten rows of a clique tied to its end."""
    n, small = 400, 10
    W = np.zeros((n + small, n + small))
    for step in range(1, 6):
        W[np.arange(n - step), np.arange(step, n)] = 1
    W[n:, n:] = 1 - np.eye(small)
    W[n - 1, n] = 1
    W = np.maximum(W, W.T)
    np.fill_diagonal(W, 0)
    degrees, labels = W.sum(axis=1), np.repeat([0, 1], [n, small]).astype(np.int32)
    block, every = kernel_block(W.astype(np.float32), 0, n + small), np.ones(n + small, bool)

    def eaten(resolution):
        moved = labels
        for _ in range(60):
            volumes = local_moving.label_sums(moved, degrees, 2)[1]
            moved = local_moving.move_block(block, moved, degrees, volumes, every, resolution)
        return np.count_nonzero(moved[:n] == 1)

    assert eaten(1.0) > 20
    assert eaten(local_moving.resolution_of(local_moving.label_sums(labels, degrees, 2)[1])) == 0
