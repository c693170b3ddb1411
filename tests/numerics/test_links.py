"""Links: what is checked, what follows, and their products against the matrices written out."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import group_of
from small_kernels import to_dense
from small_links import drawn_links, written_out

from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import InputError
from bigsmic.numerics.constraints.coloring import colorable
from bigsmic.numerics.constraints.consistency import Quotient
from bigsmic.numerics.constraints.group_links import links_between
from bigsmic.numerics.constraints.links import (
    LinkAlgebra,
    LinkWeights,
    criterion,
    group_degree,
    linked_block,
    make_links,
    violations,
)
from bigsmic.numerics.constraints.operator import Coupling, LinkedProduct
from bigsmic.numerics.eigen.basis import MemoryBasis
from bigsmic.numerics.eigen.block_vectors import GroupSpace, RowSpace
from bigsmic.numerics.eigen.chebyshev import Filter
from bigsmic.numerics.eigen.lanczos import solve
from bigsmic.numerics.eigen.lanczos_state import LanczosParams
from bigsmic.numerics.graph import affinity
from bigsmic.numerics.row_blocks import Shard


def scattered(links, W):
    """An array over linked rows as one over all rows."""
    whole = np.zeros((links.n_rows, W.shape[1]))
    whole[links.rows] = W
    return whole


# -- what is refused


@pytest.mark.parametrize(
    ("given_links", "message"),
    [
        ({"must": [1, 2]}, r"must_links: got int64 of shape \(2,\), but needs integers of shape \(m, 2\)"),
        ({"must": [[1.0, 2.0]]}, "must_links: got float64"),
        ({"must": [[1, 10], [-1, 3]]}, r"must_links: 2 pairs, such as \(1, 10\), \(-1, 3\), out of range for 10 rows"),
        ({"cannot": [[4, 4]]}, r"cannot_links: pair \(4, 4\) link a row with itself"),
        ({"must": [[1, 2]], "cannot": [[2, 1]]}, "cannot_links: rows 1 and 2 are joined by must-links .*: 1 - 2;"),
        ({"must": [[1, 2], [2, 3], [3, 7]], "cannot": [[7, 1]]}, "rows 1 and 7 are joined .*: 1 - 2 - 3 - 7;"),
        ({"labels": [0, 0, 1, -1]}, r"labels: got int64 of shape \(4,\), but needs integers of shape \(10,\)"),
        ({"labels": [-2] * 10}, "labels: got -2; a label is at least 0"),
        ({"labels": [0, 1, 2, 3] + [-1] * 6}, "labels: got 4 different labels for 3 clusters"),
        ({"labels": [0, 0] + [-1] * 8, "cannot": [[0, 1]]}, "rows 0 and 1 are joined by .* equal labels: 0 - 1;"),
        (
            {"labels": [0, 1] + [-1] * 8, "must": [[0, 5], [5, 1]]},
            "labels: rows 0 and 1, of different labels, are joined .*: 0 - 5 - 1;",
        ),
        (
            {"cannot": list(itertools.combinations(range(4), 2))},
            "no labeling with 3 clusters satisfies all links among rows 0, 1, 2, 3 ",
        ),
    ],
)
def test_unusable_links_are_named(given_links, message):
    with pytest.raises(InputError, match=message):
        make_links(10, 3, **given_links)


def test_an_odd_cycle_is_refused_for_two_clusters():
    cycle = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [6, 7]]
    with pytest.raises(InputError, match="no labeling with 2 clusters satisfies all links among rows 0, 1, 2, 3, 4 "):
        make_links(10, 2, cannot=cycle)
    assert make_links(10, 3, cannot=cycle).n_links == 6
    assert make_links(10, 2, cannot=cycle[:4]).n_links == 4


def test_infeasibility_shows_only_through_must_links():
    cannot, must = [[0, 1], [1, 2], [3, 4]], [[2, 3], [4, 0]]
    assert make_links(10, 2, cannot=cannot).n_links == 3
    with pytest.raises(InputError, match="no labeling with 2 clusters"):
        make_links(10, 2, cannot=cannot, must=must)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), c=st.integers(1, 4), m=st.integers(0, 14))
def test_feasibility_is_that_of_some_labeling(seed, c, m):
    rng, n = np.random.default_rng(seed), 6
    pairs = rng.integers(0, n, (m, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    every = np.array(list(itertools.product(range(c), repeat=n)))
    feasible = (every[:, pairs[:, 0]] != every[:, pairs[:, 1]]).all(axis=1).any()
    if feasible:
        make_links(n, c, cannot=pairs)
    else:
        with pytest.raises(InputError, match="no labeling with"):
            make_links(n, c, cannot=pairs)


def test_links_of_a_labeling_are_feasible_at_any_size():
    for n, c, m in ((500, 10, 4000), (300, 2, 3000), (3000, 3, 9000)):
        assert drawn_links(0, n, c, m)[0].n_links > m / 2


@pytest.mark.parametrize("seed", range(30))
def test_colorings_are_found_if_there_are_any(seed):
    draw, n = np.random.default_rng(seed), 7
    every = np.array(list(itertools.combinations(range(n), 2)))
    edges = every[draw.random(len(every)) < draw.uniform(0.2, 0.9)]
    for c in range(1, 5):
        exists = any(all(of[i] != of[j] for i, j in edges) for of in itertools.product(range(c), repeat=n))
        assert colorable(edges, n, c, 10_000) is exists


def test_many_links_between_few_rows_end_the_search_by_its_steps():
    """Each of 200,000 steps passes over some seventy neighbours."""
    truth = np.random.default_rng(0).integers(0, 10, 500)
    pairs = np.random.default_rng(1).integers(0, 500, (20_000, 2))
    pairs = pairs[truth[pairs[:, 0]] != truth[pairs[:, 1]]]
    assert make_links(500, 10, cannot=pairs).n_links > 15_000


@pytest.mark.parametrize(("n_steps", "found"), [(2, None), (3, True)])
def test_a_search_that_runs_out_of_steps_has_no_answer(n_steps, found):
    triangle = np.array([[0, 1], [0, 2], [1, 2]])
    assert colorable(triangle, 3, 3, n_steps) is found
    assert colorable(triangle, 3, 2, 99) is False


# -- what follows


def test_rows_joined_to_fewer_groups_than_clusters_are_refused():
    chain = np.stack([np.arange(4), np.arange(1, 5)], axis=1)
    with pytest.raises(
        InputError, match="must_links: got 3 clusters, but links and equal labels join the rows to at most 2 groups"
    ):
        make_links(6, 3, must=chain)
    with pytest.raises(InputError, match=r"got 2 clusters, .* at most 1 group"):
        make_links(6, 2, labels=np.zeros(6, int))
    assert make_links(7, 3, must=chain).n_links == 4


def test_repeated_pairs_count_once():
    links = make_links(9, 3, must=[[1, 2], [2, 1], [1, 2]], cannot=[[5, 3], [3, 5]])
    assert links.n_links == 2
    assert links.rows.tolist() == [1, 2, 3, 5]
    assert links.rows[links.cannot].tolist() == [[3, 5]]


def test_closing_joins_chains_and_spreads_cannot_links():
    must, cannot = [[1, 2], [2, 3], [5, 6]], [[1, 5]]
    M, C = written_out(make_links(9, 3, must=must, cannot=cannot, close=True))
    assert np.argwhere(np.triu(M, 1)).tolist() == [[1, 2], [1, 3], [2, 3], [5, 6]]
    assert np.argwhere(np.triu(C, 1)).tolist() == [[i, j] for i in (1, 2, 3) for j in (5, 6)]


def test_closing_for_two_clusters_makes_an_enemys_enemy_a_friend():
    cannot = [[0, 1], [1, 2], [5, 6]]
    M, C = written_out(make_links(9, 2, cannot=cannot, close=True))
    assert np.argwhere(np.triu(M, 1)).tolist() == [[0, 2]]
    assert np.argwhere(np.triu(C, 1)).tolist() == [[0, 1], [1, 2], [5, 6]]


@pytest.mark.parametrize("c", [2, 4])
def test_closing_is_idempotent_and_true(c):
    links, truth = drawn_links(3, 60, c, 50)
    rows = links.rows
    closed = make_links(60, c, must=rows[links.must], cannot=rows[links.cannot], close=True)
    M, C = written_out(closed)
    again = make_links(60, c, must=np.argwhere(np.triu(M, 1)), cannot=np.argwhere(np.triu(C, 1)), close=True)
    assert again.n_links == closed.n_links == np.triu(M, 1).sum() + np.triu(C, 1).sum() > links.n_links
    assert violations(closed, truth[rows], c).n_violated == 0


def test_known_labels_are_all_links_among_the_rows_that_have_one():
    labels = np.array([7, -1, 3, 7, -1, 3, 9, -1])
    links = make_links(8, 3, labels=labels)
    known = np.flatnonzero(labels >= 0)
    pairs = list(itertools.combinations(known, 2))
    same = [pair for pair in pairs if labels[pair[0]] == labels[pair[1]]]
    as_pairs = make_links(8, 3, must=same, cannot=[pair for pair in pairs if pair not in same])
    for ours, theirs in zip(written_out(links), written_out(as_pairs), strict=True):
        assert np.array_equal(ours, theirs)
    assert links.n_links == as_pairs.n_links == 10


# -- products


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize(("c", "labelled"), [(2, 0), (4, 0), (4, 25)])
def test_products_are_those_of_the_matrices_written_out(c, labelled, close):
    links, _ = drawn_links(5, 50, c, 40, labelled=labelled, close=close)
    algebra, (M, C) = LinkAlgebra(links), written_out(links)
    W = np.random.default_rng(0).normal(size=(len(links.rows), 3))
    whole, at = scattered(links, W), links.rows
    np.testing.assert_allclose(W + algebra.tied(W), (M @ whole)[at], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(algebra.barred(W), (C @ whole)[at], rtol=1e-12, atol=1e-12)
    link_weights, eye = LinkWeights(0.7, 1.3), np.eye(50)
    A, B = eye + 0.7 * M, eye - 1.3 * C
    np.testing.assert_allclose(algebra.middle(W, link_weights), ((A @ A + B @ B) @ whole)[at], rtol=1e-10)
    untouched = np.setdiff1d(np.arange(50), at)
    np.testing.assert_allclose(
        (A @ A + B @ B)[untouched][:, untouched], link_weights.elsewhere * eye[: len(untouched)][:, : len(untouched)]
    )


def kernel_blocks(K, bounds, dtype=np.float32):
    """A dense matrix as row blocks."""
    return [_kernel_block(K.astype(dtype), lo, hi) for lo, hi in itertools.pairwise(bounds)]


def _kernel_block(K, lo, hi):
    rows, columns = np.nonzero(K[lo:hi])
    halo = np.unique(columns[(columns < lo) | (columns >= hi)])
    inside = (columns >= lo) & (columns < hi)
    local = np.where(inside, columns - lo, hi - lo + np.searchsorted(halo, columns))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=hi - lo))])
    return affinity.KernelBlock(lo, hi, halo, indptr, local.astype(np.int32), K[lo:hi][rows, columns])


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("bounds", [(0, 50), (0, 7, 20, 21, 50)])
def test_linked_blocks_and_groups_make_the_linked_kernel(bounds, close):
    rng = np.random.default_rng(1)
    K = np.where(rng.random((50, 50)) < 0.2, rng.random((50, 50)), 0)
    K = np.triu(K, 1) + np.triu(K, 1).T
    links, _ = drawn_links(2, 50, 3, 40, labelled=20, close=close)
    M, C = written_out(links)
    expected = np.where(C == 1, 0, np.where(M == 1, 1, K)) * (1 - np.eye(50))
    blocks = [linked_block(block, links) for block in kernel_blocks(K, bounds)]
    groups = scattered(links, LinkAlgebra(links).within_groups(np.eye(len(links.rows))))
    whole = to_dense(blocks)
    whole[:, links.rows] += groups
    np.testing.assert_allclose(whole, expected, atol=1e-7)
    degree = np.concatenate([affinity.degree(block) for block in blocks])
    degree[links.rows] += group_degree(links)
    np.testing.assert_allclose(degree, expected.sum(axis=1), rtol=1e-6)


def test_links_between_renumbered_rows_are_the_same_links():
    links, _ = drawn_links(4, 40, 3, 30, labelled=10)
    order = np.random.default_rng(0).permutation(40)
    for ours, theirs in zip(written_out(links.reordered(order[links.rows])), written_out(links), strict=True):
        assert np.array_equal(ours[np.ix_(order, order)], theirs)


# -- violations


@pytest.mark.parametrize("close", [False, True])
def test_every_violated_pair_counts_once(close):
    links, _ = drawn_links(6, 60, 4, 60, labelled=20, close=close)
    labels = np.random.default_rng(9).integers(0, 4, 60)
    M, C = (np.triu(matrix, 1) for matrix in written_out(links))
    differ = labels[:, None] != labels
    found = violations(links, labels[links.rows], 4)
    assert found.n_violated == (M * differ).sum() + (C * ~differ).sum()
    assert found.n_links == M.sum() + C.sum()
    assert all(labels[i] != labels[j] and M[i, j] for i, j in found.must)
    assert all(labels[i] == labels[j] and C[i, j] for i, j in found.cannot)


def test_strays_are_the_rows_that_leave_their_group():
    links = make_links(7, 2, labels=[0, 0, 0, -1, 1, 1, 1])
    found = violations(links, np.array([1, 1, 0, 0, 0, 0]), 2)
    assert found.strays.tolist() == [2]
    assert found.n_violated == 2 + 3


def test_criterion_is_information_less_violations():
    np.testing.assert_allclose(criterion([1.0, 2.0, 0.5], [4, 8, 0]), [0.5 - 0.5, 1 - 1, 0.25])
    np.testing.assert_allclose(criterion([1.0, 2.0], [0, 0]), [0.5, 1])
    np.testing.assert_allclose(criterion([-0.5, -0.25], [0, 2], weight=3), [-0.25, -3])


def test_no_links_at_all():
    links = make_links(5, 2)
    assert links.n_links == 0
    assert violations(links, np.zeros(0, int), 2).n_violated == 0
    assert LinkAlgebra(links).middle(np.zeros((0, 2)), LinkWeights(1, 1)).shape == (0, 2)


# -- the operator on row blocks


BOUNDS = np.array([0, 11, 12, 30, 50])


def dense_operator(K, links, link_weights, normalized):
    """U written out: K' and its middle, over what the middle is on rows without links."""
    M, C = written_out(links)
    W = np.where(C == 1, 0, np.where(M == 1, 1, K)) * (1 - np.eye(len(K)))
    eye = np.eye(len(K))
    degree = W.sum(axis=1)
    root = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    linked = (W * np.multiply.outer(root, root) + eye) / 2 if normalized else W + eye
    A, B = eye + link_weights.gamma * M, eye - link_weights.eta * C
    return linked @ (A @ A + B @ B) @ linked / link_weights.elsewhere, degree


def linked_space(shard, blocks, links, link_weights, degree=None):
    """Rows of U in float64, for the plain kernel, or with the degrees of the normalised one."""
    bounds = shard.bounds[shard.blocks.start : shard.blocks.stop + 1] - shard.lo
    root = np.ones(len(links.rows)) if degree is None else 1 / np.sqrt(degree[links.rows])
    factor = 1.0 if degree is None else 0.5
    coupling = Coupling(LinkAlgebra(links), link_weights, factor, factor, root)
    product = LinkedProduct(shard, blocks.__getitem__, coupling)
    return RowSpace(shard, product, MemoryBasis(bounds, 50, np.float64), seed=1)


def random_kernel(seed, n=50):
    rng = np.random.default_rng(seed)
    K = np.where(rng.random((n, n)) < 0.2, rng.random((n, n)), 0)
    return np.triu(K, 1) + np.triu(K, 1).T + np.diag(np.full(n - 1, 0.01), 1) + np.diag(np.full(n - 1, 0.01), -1)


@pytest.mark.parametrize("places", [[], [2], [1, 2, 3]])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("labelled", "close"), [(0, False), (20, False), (0, True)])
def test_operator_is_the_matrix_written_out(labelled, close, normalized, places):
    K, link_weights = random_kernel(3), LinkWeights(0.4, 0.9)
    links, _ = drawn_links(7, 50, 2, 25, labelled=labelled, close=close)
    U, degree = dense_operator(K, links, link_weights, normalized)
    blocks = [linked_block(block, links) for block in kernel_blocks(K, BOUNDS, np.float64)]
    if normalized:
        blocks = [affinity.normalise(block, degree[block.lo : block.hi], degree[block.halo]) for block in blocks]
    make = functools.partial(linked_space, blocks=blocks, links=links, link_weights=link_weights)
    make = functools.partial(make, degree=degree if normalized else None)
    with group_of(make, BOUNDS, places) as group:
        space = GroupSpace(group, 50, dtype=np.float64)
        found = solve(space, LanczosParams(4, tol=1e-9, block_width=3))
        space.finish()
        V = np.concatenate([_vectors(actor.basis, 4) for actor in group.actors])
    values, vectors = np.linalg.eigh(U)
    np.testing.assert_allclose(found.ritz_values, values[::-1][:4], rtol=1e-7)
    np.testing.assert_allclose(np.abs(V.T @ vectors[:, ::-1][:, :4]).max(axis=1), 1, atol=1e-6)


def _vectors(basis, c):
    return np.concatenate([basis.read(p, 0, c) for p in range(len(basis.bounds) - 1)])


@pytest.mark.parametrize("filter", [Filter(), Filter(5, 0.3, 0.7)])
def test_residuals_and_polynomials_are_of_the_same_operator(filter):
    K, link_weights = random_kernel(4), LinkWeights(1.0, 0.2)
    links, _ = drawn_links(8, 50, 2, 30, labelled=15)
    U, _ = dense_operator(K, links, link_weights, normalized=False)
    blocks = [linked_block(block, links) for block in kernel_blocks(K, BOUNDS, np.float64)]
    with ThreadEngine() as engine:
        space = linked_space(Shard(engine, BOUNDS, range(4)), blocks, links, link_weights)
        V = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 5)))[0]
        for p, (lo, hi) in enumerate(itertools.pairwise(BOUNDS)):
            space.basis.write(p, 0, V[lo:hi])
        space.n_columns = 5
        space.reopen(3)
        values, vectors = np.linalg.eigh(U)
        W = (vectors * filter(values)) @ (vectors.T @ V[:, 2:])
        np.testing.assert_allclose(space.apply(filter), np.vstack([V.T @ W, W.T @ W]), rtol=1e-6, atol=1e-6)
        theta = np.array([0.5, 1.0])
        np.testing.assert_allclose(
            space.residual_norms(theta, 1), np.linalg.norm(U @ V[:, 1:3] - V[:, 1:3] * theta, axis=0), rtol=1e-6
        )


# -- between groups, and the least number of clusters


@pytest.mark.parametrize("labelled", [0, 12])
def test_links_between_groups_are_those_of_the_matrices_written_out(labelled):
    links, _ = drawn_links(3, 40, 4, 30, labelled=labelled)
    of_rows = np.random.default_rng(0).integers(0, 5, 40)
    member = np.eye(5)[of_rows]
    M, C = written_out(links)
    found = links_between(links, of_rows[links.rows], 5)
    np.testing.assert_array_equal(found, [member.T @ (M - np.eye(40)) @ member, member.T @ C @ member])


@pytest.mark.parametrize(
    ("given_links", "least"),
    [
        ({}, 1),
        ({"must": [[0, 1]]}, 1),
        ({"cannot": [[0, 1], [1, 2]]}, 2),
        ({"cannot": [[0, 1], [1, 2], [0, 2]]}, 3),
        ({"cannot": [[0, 1], [1, 2], [3, 4]], "must": [[0, 3], [2, 4]]}, 3),
        ({"cannot": [[i, (i + 1) % 5] for i in range(5)]}, 3),
        ({"labels": [*range(6), -1, -1, -1, -1]}, 6),
    ],
)
def test_the_least_number_of_clusters_is_that_of_colors(given_links, least):
    links = make_links(10, None, **given_links)
    assert Quotient.of(links).least_clusters() == least


def test_any_number_of_clusters_still_has_no_contradiction():
    with pytest.raises(InputError, match="rows 1 and 2 are joined by must-links"):
        make_links(10, None, must=[[1, 2]], cannot=[[2, 1]])
