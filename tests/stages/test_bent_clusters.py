"""Bent clusters in noise: found without sparse rows, by a fit that begins again, the same whenever it is killed."""

import pickle

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from small_fits import cut_small

import bigsmic
from bigsmic.numerics.labeling import consensus, curves, density_tree
from bigsmic.runtime.context import Context
from bigsmic.stages import (
    bent_clusters,
    dense_parts,
    density,
    number_evidence,
    selection,
    shown_number,
    trimming,
    wider_columns,
)
from bigsmic.stages.dense_parts import DenseParts
from bigsmic.stages.density import NONE, Neighbors
from bigsmic.stages.graph import read_graph
from bigsmic.store import Run

OPTIONS = {"n_centers": 40, "n_threads": 1}


def in_noise(X, y, share, seed=0):
    """Rows and their clusters beside as many rows anywhere, as a share: -1."""
    draw = np.random.default_rng(seed)
    low, high = X.min(axis=0), X.max(axis=0)
    noise = draw.uniform(low - 0.1 * (high - low), high + 0.1 * (high - low), (round(share * len(X)), X.shape[1]))
    order = draw.permutation(len(X) + len(noise))
    return np.concatenate([X, noise])[order], np.concatenate([y, np.full(len(noise), -1)])[order]


@pytest.fixture(scope="module")
def moons():
    return in_noise(*make_moons(2000, noise=0.05, random_state=1), 0.1, seed=1)


@pytest.fixture(scope="module")
def whole(moons):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(moons[0], **OPTIONS)


def find_none(*_):
    """In place of `dense_parts.of_pieces`: fits of clusters on pieces of curves begin again."""


@pytest.fixture(scope="module")
def begun_again(moons):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        patch.setattr(dense_parts, "of_pieces", find_none)
        return bigsmic.fit(moons[0], **OPTIONS)


def kill_at(module, name, X, out):
    """Begin a fit that is killed when it calls a function."""

    def kill(*_, **__):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, kill)
        with pytest.raises(KeyboardInterrupt):
            bigsmic.fit(X, out=out, **OPTIONS)


def score(found, y):
    """Adjusted Rand index on rows that are no noise."""
    return adjusted_rand_score(y[y >= 0], found.labels[y >= 0])


def test_moons_in_noise_are_found_without_their_number(moons, whole):
    assert whole.n_clusters == 2
    assert score(whole, moons[1]) > 0.95
    assert whole.valleys.dense_parts
    assert whole.valleys.trimmed == 0
    X, y = in_noise(*make_moons(1000, noise=0.05, random_state=2), 0.1, seed=2)
    assert adjusted_rand_score(y[y >= 0], whole.predict(X)[y >= 0]) > 0.95
    np.testing.assert_array_equal(whole.predict(moons[0]), whole.labels)
    moved = pickle.loads(pickle.dumps(whole))
    np.testing.assert_array_equal(moved.predict(X), whole.predict(X))


def test_pieces_of_dense_parts_need_no_more_columns(moons, monkeypatch):
    monkeypatch.setattr(
        wider_columns, "FULL", 0.05
    )  # two parts are fewer than that of 60 columns, their pieces are not
    found = bigsmic.fit(moons[0], **OPTIONS)
    info = found._run.info(shown_number.NUMBER, 0)
    assert found.n_clusters == 2 < 0.05 * info["columns"] < max(info["votes"])
    assert not found._run.done(wider_columns.WIDER, 0)


@pytest.mark.parametrize(
    ("shares", "asked", "disputed", "are"),
    [
        ([0.5, 0.48, 0.02], 2, False, True),
        ([0.5, 0.48, 0.02], 3, False, False),
        ([0.5, 0.48, 0.02], 0, False, False),
        ([0.5, 0.48, 0.02], 0, True, True),
        ([0.94, 0.06], 0, True, False),
        ([0.5, 0.3, *[0.04] * 5], 0, True, False),
        ([1.0], 1, True, False),
    ],
    ids=["as asked", "fewer", "agreed", "several", "nearly all in one", "crumbs", "one"],
)
def test_large_parts_are_plain_if_as_many_as_asked_or_several_in_place_of_a_dispute(shares, asked, disputed, are):
    assert dense_parts._are_plain(np.array(shares), asked, disputed) == are


@pytest.mark.parametrize(("least", "is_found"), [(0.0, False), (1.0, True)])
def test_several_dense_parts_are_clusters_if_labelings_do_not_agree(moons, monkeypatch, least, is_found):
    """Of many rows, pieces of a wide curve are not long, and labelings hardly agree; here, they are told so."""
    monkeypatch.setattr(curves.Pieces, "are_of_curves", lambda *_: False)
    monkeypatch.setattr(curves.Pieces, "n_of_curves", lambda _: 0)
    monkeypatch.setattr(consensus, "AGREED", least)
    found = bigsmic.fit(moons[0], **OPTIONS)
    assert found.valleys.dense_parts == is_found
    assert (score(found, moons[1]) > 0.95) == is_found


def test_a_fit_begins_again_without_sparse_rows_if_it_finds_no_dense_parts(moons, begun_again):
    assert begun_again.n_clusters == 2
    assert score(begun_again, moons[1]) > 0.95
    assert not begun_again.valleys.dense_parts
    assert 0.05 < begun_again.valleys.trimmed < 0.2
    assert begun_again._run.info(trimming.BEGUN_AGAIN, 0)["ready"]  # so that going on deletes nothing of it
    assert "outlying" in begun_again.valleys.sentence
    assert (begun_again.predict(moons[0]) == begun_again.labels).mean() > 0.97
    moved = pickle.loads(pickle.dumps(begun_again))
    np.testing.assert_array_equal(moved.predict(moons[0][:100]), begun_again.predict(moons[0][:100]))


def test_a_single_ring_has_no_number():
    angle, draw = np.random.default_rng(0).uniform(0, 2 * np.pi, 2000), np.random.default_rng(1)
    evidence = bigsmic.fit(np.stack([np.cos(angle), np.sin(angle)], axis=1) + draw.normal(0, 0.05, (2000, 2))).valleys
    assert not evidence.clear
    assert evidence.one_curve
    assert "pieces of a single curve" in evidence.sentence


def test_moons_in_noise_are_found_with_their_number(moons):
    assert score(bigsmic.fit(moons[0], 2, **OPTIONS), moons[1]) > 0.95


@pytest.mark.parametrize("share", [0, 0.1])
def test_bent_clusters_beside_round_ones_are_whole(share):
    bent, which = make_moons(900, noise=0.05, random_state=0)
    round_, of = make_blobs(900, centers=[(-2, 2), (3, 2), (0, -3)], cluster_std=0.2, random_state=0)
    X, y = in_noise(np.concatenate([bent, round_]), np.concatenate([which, of + 2]), share)
    found = bigsmic.fit(X, **OPTIONS)
    assert found.n_clusters == 5
    assert score(found, y) > 0.95


def test_no_fit_begins_again_if_the_caller_says_so(moons, monkeypatch):
    monkeypatch.setattr(dense_parts, "of_pieces", find_none)
    assert bigsmic.fit(moons[0], trim=False, **OPTIONS).valleys.trimmed == 0


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (bent_clusters, "begin_again"),
        (Run, "drop_stages"),
        (trimming, "_write_sparse"),
        (number_evidence, "_curve"),
        (selection, "run"),
    ],
)
def test_a_killed_fit_goes_on_without_sparse_rows(moons, begun_again, tmp_path, monkeypatch, module, name):
    monkeypatch.setattr(dense_parts, "of_pieces", find_none)
    kill_at(module, name, moons[0], tmp_path / "run")
    found = bigsmic.fit(moons[0], out=tmp_path / "run", **OPTIONS)
    np.testing.assert_array_equal(found.labels, begun_again.labels)
    again = bigsmic.Result.open(tmp_path / "run")
    np.testing.assert_array_equal(again.labels, begun_again.labels)
    assert again.valleys.trimmed == begun_again.valleys.trimmed > 0


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize(
    ("module", "name"), [(density, "write_parts"), (number_evidence, "_curve"), (selection, "run")]
)
def test_a_killed_fit_goes_on_with_the_same_dense_parts(moons, whole, tmp_path, module, name):
    kill_at(module, name, moons[0], tmp_path / "run")
    np.testing.assert_array_equal(bigsmic.fit(moons[0], out=tmp_path / "run", **OPTIONS).labels, whole.labels)


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("edges", [density.all_edges, density.near_edges])
def test_parts_are_the_components_of_the_graph_of_dense_rows(moons, whole, edges):
    context = Context(None, whole._run, whole.settings)
    n, neighbors = len(moons[0]), edges(context)
    sigma = density.sigma_at(context, neighbors.t, np.arange(n))
    limits = np.quantile(sigma, [0.5, 0.8, 0.95])
    ends = []
    for p in context.blocks:
        graph = read_graph(context, p)
        columns = np.concatenate([np.arange(graph.lo, graph.hi), graph.halo])[graph.indices]
        rows = np.repeat(np.arange(graph.lo, graph.hi), np.diff(graph.indptr))
        ends.append(np.stack([rows, columns])[:, graph.ranks <= neighbors.n_edges])
    rows, columns = np.concatenate(ends, axis=1)
    for limit, found in zip(limits, density.components(context, neighbors, limits), strict=True):
        both = (sigma[rows] <= limit) & (sigma[columns] <= limit)
        expected = connected_components(coo_array((np.ones(both.sum()), (rows[both], columns[both])), (n, n)))[1]
        assert adjusted_rand_score(expected, found) == 1
        assert len(np.unique(found)) == expected.max() + 1


@pytest.mark.parametrize(
    ("table", "known", "holds", "are_pieces"),
    [
        ([[10, 0, 3, 0], [0, 8, 0, 0], [0, 0, 0, 5]], [1, 1, 1, 1], [1, 1, 1], [1, 0, 1, 0]),
        ([[10, 0, 3, 0], [0, 8, 0, 0], [0, 0, 0, 5]], [1, 1, 0, 0], [1, 1, 0], [0, 0, 0, 0]),
        ([[9, 0], [1, 9], [0, 1]], [1, 1], [1, 1, 0], [0, 0]),  # nine tenths are enough
        ([[8, 0], [2, 9], [0, 1]], [1, 1], [1, 1, 0], [1, 0]),
    ],
    ids=["several in one part", "those known alone", "within", "across"],
)
def test_clusters_are_pieces_if_a_part_holds_several_or_they_lie_across_parts(table, known, holds, are_pieces):
    for found, wanted in zip(
        dense_parts._held(np.array(table), np.array(known, bool)), (holds, are_pieces), strict=True
    ):
        np.testing.assert_array_equal(found, np.array(wanted, bool))


@pytest.mark.usefixtures("many_blocks")
def test_levels_have_the_components_of_their_dense_rows(whole):
    context = Context(None, whole._run, whole.settings)
    neighbors, positions = density.near_edges(context), np.arange(1, context.n, 3)
    sigma, limits, roots = dense_parts._levels(context, 0, positions)
    np.testing.assert_array_equal(sigma, density.sigma_at(context, neighbors.t, positions))
    assert (np.diff(limits) > 0).all()
    assert 0.49 < (sigma <= limits[0]).mean() < 0.6
    assert limits[-1] == sigma.max()
    np.testing.assert_array_equal(roots == density_tree.ABSENT, sigma > limits[:, None])
    for level in (0, len(limits) // 2, -1):
        (whole_components,) = density.components(context, neighbors, [limits[level]])
        dense = sigma <= limits[level]
        np.testing.assert_array_equal(roots[level][dense], whole_components[positions][dense])


def test_some_parts_are_numbered_through():
    parts = DenseParts(np.array([0, 2, NONE, 1, 2]), np.array([5, 9, 11]), Neighbors(5, 10), np.array([0.1, 0.2, 0.3]))
    some = parts.among(np.array([False, True, True]))
    np.testing.assert_array_equal(some.labels, [NONE, 1, NONE, 0, 1])
    np.testing.assert_array_equal(some.roots, [9, 11])
    np.testing.assert_array_equal(some.limits, [0.2, 0.3])


def moons_and_blobs(seed):
    """Two moons beside two blobs, 600 rows, and one tenth of noise."""
    bent, which = make_moons(300, noise=0.05, random_state=seed)
    round_ones, of = make_blobs(300, centers=[(-0.75, 2.25), (1, 2)], cluster_std=0.25, random_state=seed)
    return in_noise(np.concatenate([bent, round_ones]), np.concatenate([which, of + 2]), 0.1, seed)


@pytest.mark.parametrize("noise", [False, True])
def test_parts_that_one_limit_does_not_part_are_found_at_others(noise):
    """A row of noise between two clusters is as near to these as their rows, and sparse only at a lower limit."""
    right = 0
    for seed in range(4):
        X, y = moons_and_blobs(seed)
        result = bigsmic.fit(X, noise=noise, **OPTIONS)
        inside = y >= 0
        right += result.n_clusters == 4 and adjusted_rand_score(y[inside], result.labels[inside]) > 0.9
    assert right >= 3


@pytest.mark.usefixtures("many_blocks")
def test_each_part_has_the_rows_of_its_component_at_its_own_limit(whole, monkeypatch):
    context = Context(None, whole._run, whole.settings)
    neighbors, written = density.near_edges(context), {}
    sigma = density.sigma_at(context, neighbors.t, np.arange(context.n))
    limits = np.quantile(sigma, [0.4, 0.8])
    low, high = (roots.copy() for roots in density.components(context, neighbors, limits))
    first = np.bincount(low).argmax()
    second = np.bincount(high[high != high[first]]).argmax()
    monkeypatch.setattr(Run, "write", lambda run, stage, block, arrays, **_: written.update(arrays))
    density.write_parts(context, 0, neighbors, limits[::-1], np.array([second, first]))
    np.testing.assert_array_equal(written["part"] == 1, low == first)
    np.testing.assert_array_equal(written["part"] == 0, high == second)


def test_every_group_is_of_a_part():
    parts = DenseParts(np.array([0, 0, 0, 1, 1, 2, NONE, NONE]), np.array([5, 9, 11]), Neighbors(5, 10), np.ones(3))
    np.testing.assert_array_equal(parts.sizes, [3, 2, 1])
    weights = np.eye(4)
    weights[3, 1] = weights[1, 3] = 0.1
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3])
    np.testing.assert_array_equal(parts.of_groups(groups, weights), [0, 1, 2, 1])  # the last as its heaviest neighbour
