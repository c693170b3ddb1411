"""Labels beside links against what the definitions say of whole matrices."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from places import group_of
from small_kernels import kernel_blocks, symmetric
from small_links import drawn_links, written_out

from bigsmic.numerics.constraints import propagation
from bigsmic.numerics.constraints.links import make_links, violations
from bigsmic.numerics.graph import affinity
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.labeling import local_moving

N, C = 40, 3
seeds, cuts = st.integers(0, 2**31), st.lists(st.integers(0, N), max_size=4)


def linked(seed):
    """Weights, links between some of the rows, and labels that know nothing of either."""
    links, _ = drawn_links(seed, N, C, 25, labelled=8 if seed % 2 else 0)
    return symmetric(N, seed, 0.2), links, np.random.default_rng(seed).integers(0, C, N).astype(np.int32)


def one_hot(labels):
    return np.eye(C)[labels]


@settings(deadline=None, max_examples=30)
@given(seeds, cuts)
def test_neighbours_without_links_foretell_the_label_of_most_weight(seed, at):
    W, links, labels = linked(seed)
    free = np.ones(N, bool)
    free[links.rows] = False
    heard = np.where(free, W, 0) @ one_hot(labels)
    wanted = np.where(heard.any(axis=1), heard.argmax(axis=1), -1)[links.rows]
    found = []
    for block in kernel_blocks(W, at):
        weights, positions = propagation.free_neighbours(block, links)
        assert (np.diff(positions) > 0).all()
        assert free[positions].all()
        found.append(propagation.predicted(weights, labels[positions], C))
    np.testing.assert_array_equal(np.concatenate(found), wanted)


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_links_among_some_rows_are_those_between_them(seed):
    _, links, labels = linked(seed)
    chosen = np.random.default_rng(seed).uniform(size=len(links.rows)) < 0.6
    some, at = links.among(chosen), links.rows[chosen]
    for part, whole in zip(written_out(some), written_out(links), strict=True):
        np.testing.assert_array_equal(part[np.ix_(at, at)], whole[np.ix_(at, at)])
    M, Q = (matrix[np.ix_(at, at)] for matrix in written_out(links))
    same = labels[at][:, None] == labels[at]
    wanted = int((np.triu(M, 1) * ~same).sum() + (np.triu(Q, 1) * same).sum())
    assert violations(some, labels[at], C).n_violated == wanted
    assert some.n_links == np.triu(M, 1).sum() + np.triu(Q, 1).sum()


def dense_pull(W, links):
    """D^-1 W + M - C with W without linked pairs, and no pair of a row with itself."""
    M, Q = written_out(links)
    np.fill_diagonal(M, 0)
    plain = np.where((M > 0) | (Q > 0), 0, W).astype(np.float64)
    degree = plain.sum(axis=1, keepdims=True)
    return plain / np.where(degree > 0, degree, 1) + M - Q


def dense_gains(pull, ballots, labels):
    """What draws each row to each label, as the formula reads."""
    votes = np.mean([np.where(cast[:, None] >= 0, one_hot(cast), 0) for cast in ballots.T], axis=0)
    return votes + pull @ one_hot(labels)


def dense_sweep(pull, ballots, labels, movable):
    """One sweep, where no two labels draw a row as much."""
    gains = dense_gains(pull, ballots, labels)
    return np.where(movable, gains.argmax(axis=1), labels)


@settings(deadline=None, max_examples=40)
@given(seeds, cuts)
def test_a_sweep_goes_where_votes_neighbours_and_links_draw(seed, at):
    W, links, labels = linked(seed)
    draw = np.random.default_rng(seed + 1)
    ballots, movable = draw.integers(-1, C, (N, 5)), draw.uniform(size=N) < 0.5
    group = np.full(N, -1)
    group[links.rows] = links.group
    counts = np.zeros((links.n_groups, C))
    np.add.at(counts, (group[group >= 0], labels[group >= 0]), 1)
    pulls, found = propagation.group_pull(counts, links), []
    for block in kernel_blocks(W, at):
        drawn, own = propagation.pull(block, links), slice(block.lo, block.hi)
        known = np.concatenate([labels[own], labels[drawn.halo]])
        found.append(propagation.propagate(drawn, known, ballots[own], group[own], pulls, movable[own]))
    gains, after, rows = dense_gains(dense_pull(W, links), ballots, labels), np.concatenate(found), np.arange(N)
    np.testing.assert_array_equal(after[~movable], labels[~movable])
    np.testing.assert_allclose(gains[rows, after][movable], gains.max(axis=1)[movable], atol=1e-6)


def test_a_row_stays_unless_another_label_draws_it_more():
    links, _ = drawn_links(0, 3, 2, 0)
    (block,) = kernel_blocks(np.zeros((3, 3), np.float32), [])
    ballots, labels = np.array([[0, 1], [0, 1], [-1, -1]]), np.array([1, 0, 1], np.int32)
    drawn = propagation.pull(block, links)
    found = propagation.propagate(drawn, labels, ballots, np.full(3, -1), np.zeros((0, 2)), np.ones(3, bool))
    np.testing.assert_array_equal(found, labels)


def test_no_row_of_a_group_is_held_by_itself():
    links = make_links(3, 2, labels=np.array([0, 0, -1]))
    (block,) = kernel_blocks(np.zeros((3, 3), np.float32), [])
    labels, group = np.array([0, 1, 0], np.int32), np.array([0, 0, -1])
    pulls, ballots = propagation.group_pull(np.array([[1.0, 1.0]]), links), np.full((3, 1), -1)
    for movable, wanted in (([True, False, True], [1, 1, 0]), ([False, True, True], [0, 0, 0])):
        found = propagation.propagate(propagation.pull(block, links), labels, ballots, group, pulls, np.array(movable))
        assert found.tolist() == wanted


def test_a_pull_without_links_is_a_share_of_the_weight():
    W = symmetric(N, 1, 0.2)
    links, _ = drawn_links(0, N, C, 0)
    (block,) = kernel_blocks(W, [])
    np.testing.assert_allclose(affinity.degree(propagation.pull(block, links)), W.any(axis=1), atol=1e-6)


class PropagatedLabels(local_moving.RowMoves):
    """As the stage makes it, of arrays."""

    def __init__(self, shard, blocks, links, ballots, labels):
        rows = np.arange(shard.lo, shard.hi)
        super().__init__(shard, blocks.__getitem__, np.zeros(shard.n_rows), rows)
        self.links, self.ballots = links, ballots[shard.lo : shard.hi]
        self.start([labels[shard.lo : shard.hi]], [C])

    def _moved(self, p, block, known, movable, sums, resolution):
        own, none = self.shard.rows(p), np.full(block.hi - block.lo, -1)
        return propagation.propagate(block, known, self.ballots[own], none, np.zeros((0, C)), movable)


def test_sweeps_over_blocks_and_places_are_those_of_the_matrix():
    links, _ = drawn_links(4, N, C, 25)
    W = symmetric(N, 4, 0.2)
    draw = np.random.default_rng(4)
    ballots, labels = draw.integers(0, C, (N, 5)), draw.integers(0, C, N).astype(np.int32)
    wanted, pull = labels, dense_pull(W, links)
    for sweep in range(local_moving.N_SWEEPS):
        movable = row_uniform(0, f"moves/{sweep}", np.arange(N)) < local_moving.MOVABLE_SHARE
        wanted = dense_sweep(pull, ballots, wanted, movable)
    blocks = [propagation.pull(block, links) for block in kernel_blocks(W, [7, 15, 30])]
    bounds = np.array([0, *(block.hi for block in blocks)])
    for places in ((), (1,), (1, 3)):
        with group_of(lambda shard: PropagatedLabels(shard, blocks, links, ballots, labels), bounds, places) as group:
            local_moving.local_moves(group)
            found = np.concatenate([actor.labels[:, 0] for actor in group.actors])
        np.testing.assert_array_equal(found, wanted)
