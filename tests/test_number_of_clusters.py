"""How many clusters the data show, how surely, and labels where that is plain, in doubt, or not what was asked for."""

import pickle
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import (
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
    make_swiss_roll,
)
from sklearn.metrics import adjusted_rand_score
from small_fits import cut_small

import bigsmic
from bigsmic.datasets import uneven_blobs
from bigsmic.errors import BigsmicWarning, InputError, RunMismatchError
from bigsmic.numerics.labeling import consensus
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.valleys import ValleyTree
from bigsmic.stages import (
    choice,
    dense_parts,
    number,
    number_evidence,
    shown_number,
    valley_trees,
    valleys,
    wider_columns,
)
from bigsmic.stages.labeling_specs import specs_of

UNSCALED = {"scale": None, "n_centers": 40, "n_threads": 1}
QUICK = UNSCALED | {"t": 5}
"""Two eigenproblems, where the claim does not hang on four."""


@pytest.fixture(scope="module")
def uneven():
    """Four clusters that are well apart and of very different size."""
    centers, sizes = np.array([[0, 0], [9, 0], [0, 9], [9, 9]]), (1500, 250, 60, 40)
    return make_blobs(sizes, centers=centers, cluster_std=[1, 1, 0.5, 0.5], random_state=3)


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 7, but the data show 4 groups")
@pytest.mark.parametrize("c", [4, None, 7])
def test_uneven_clusters_that_are_well_apart_are_not_cut_into_even_ones(uneven, c):
    X, y = uneven
    result = bigsmic.fit(X, c, valleys=c != 4, **(QUICK if c != 4 else UNSCALED))  # which would tell the four
    result = result if c == 4 else result.cut(4)
    assert adjusted_rand_score(y, result.labels) > 0.97
    if c == 4:
        (chosen,) = [
            eigenvector_set for eigenvector_set in result.diagnostics["eigenvector_sets"] if eigenvector_set["chosen"]
        ]
        assert (chosen["columns"], chosen["shrinkage"]) == ([4], [0.0])


@pytest.fixture(scope="module")
def found(uneven):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(uneven[0], **UNSCALED)


def equal_rows_share_labels(X, labels):
    of_value = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    return len(np.unique(np.stack([of_value, labels]), axis=1).T) == of_value.max() + 1


@pytest.mark.parametrize("seed", [0, 4])
def test_few_bent_clusters_are_cut_least_by_many_columns(seed):
    X, y = make_circles(3000, noise=0.08, factor=0.5, random_state=seed)
    result = bigsmic.fit(X, 2, n_threads=1)
    assert adjusted_rand_score(y, result.labels) > 0.9  # .06 and .00 with up to 12 columns
    assert (result.predict(X[:200]) == result.labels[:200]).mean() > 0.95


@pytest.mark.parametrize("options", [{}, {"valleys": False}, {"selection": "medoid"}])
def test_a_cut_at_the_given_number_is_the_fit(options):
    """Of rows whose graph falls apart, as a circle within another does, and of others."""
    for X in (make_circles(500, noise=0.04, factor=0.5, random_state=0)[0], load_iris().data):
        result = bigsmic.fit(X, 2, n_threads=1, **options)
        cut = result.cut(2)
        np.testing.assert_array_equal(cut.labels, result.labels)
        np.testing.assert_array_equal(np.asarray(cut.posterior), np.asarray(result.posterior))


def test_of_equal_cuts_the_one_that_is_agreed_on_is_taken(monkeypatch):
    rates = {"association": np.array([[0.9], [0.99], [0.99], [0.99]]), "modularity": np.zeros((4, 1))}
    ari = np.eye(8)
    ari[[2, 3, 4, 5, 6, 7], [3, 2, 5, 4, 7, 6]] = [0.8, 0.8, 1, 1, 0.9, 0.9]
    run = SimpleNamespace(
        read=lambda stage, block, name: rates[name] if stage == "eigenvector_sets" else ari,
        done=lambda stage, block: False,
    )
    specs = SimpleNamespace(sets=[[0, 1], [2, 3], [4, 5], [6, 7]], valley_sets=[], fine_sets=range(0))
    settings = SimpleNamespace(n_clusters=2, propagates=False)
    context = SimpleNamespace(run=run, settings=settings, cached=lambda key, make: specs)
    assert choice._best_of_parts(context, range(4), rates["association"][:, 0]) == 2


@pytest.mark.parametrize(("n", "seed"), [(300, 2), (300, 5), (300, 9), (500, 0), (500, 1), (2000, 0), (2000, 1)])
def test_a_single_column_of_one_cluster_shows_none(n, seed):
    result = bigsmic.fit(np.random.default_rng(seed).normal(size=(n, 1)), **UNSCALED)
    assert result.n_clusters is None
    assert not result.valleys.parts


@pytest.mark.parametrize("seed", range(2))
def test_long_moons_are_parts_though_labelings_agree_on_pieces(seed):
    X, y = make_moons(3000, noise=0.03, random_state=seed)
    result = bigsmic.fit(X, **UNSCALED)
    assert result.valleys.parts == 2
    assert adjusted_rand_score(y, result.labels) == 1


@pytest.mark.parametrize("seed", [1, 5])
def test_parts_are_the_answer_though_labelings_agree_on_pieces_of_curves(seed):
    """Waves of four frequencies at any phase: rings, which all labelings cut into the same eleven or twelve pieces."""
    draw = np.random.default_rng([seed, 5000])
    y, phases = draw.integers(0, 4, 5000), draw.uniform(0, 6, 5000)
    angles = 2 * np.pi * np.outer(np.array([2, 3, 5, 8])[y], np.arange(60) / 60) + phases[:, None]
    result = bigsmic.fit((np.sin(angles) + draw.normal(0, 0.5, angles.shape)).astype(np.float32), n_centers=40)
    assert adjusted_rand_score(y, result.labels) == 1


@pytest.mark.parametrize("seed", [29, 33])
def test_parts_of_the_graph_are_no_answer_if_they_join_blobs(seed, monkeypatch):
    """Two moons lie along curves, and fall apart by an eigengap; two blobs that nearly touch do not."""
    moons, which = make_moons(500, noise=0.05, random_state=seed)
    blobs, of = make_blobs(500, centers=[(-0.75, 2.25), (1, 2)], cluster_std=0.25, random_state=seed)
    X, y = np.concatenate([moons, blobs]), np.concatenate([which, of + 2])
    assert adjusted_rand_score(y, bigsmic.fit(X, **UNSCALED).labels) > 0.95
    monkeypatch.setattr(number, "_join_blobs", lambda *_: False)
    assert bigsmic.fit(X, **UNSCALED).n_clusters == 3


def test_parts_of_the_graph_are_no_answer_if_it_falls_into_the_clusters_shown_as_well(monkeypatch):
    """Few rows of two moons beside three blobs: the moons touch somewhere, and are one part without sparse rows."""
    draw = np.random.default_rng([106, 300])
    moons, which = make_moons(150, noise=0.05, random_state=int(draw.integers(1 << 30)))
    of = draw.integers(0, 3, 150)
    blobs = np.array([(-2, 2), (3, 2), (0, -3)])[of] + draw.normal(0, 0.2, (150, 2))
    X, y = np.concatenate([moons, blobs]), np.concatenate([which, of + 2])
    assert adjusted_rand_score(y, bigsmic.fit(X, **UNSCALED).labels) > 0.95
    monkeypatch.setattr(number, "ALL_BUT_EQUAL", 1.1)
    assert bigsmic.fit(X, **UNSCALED).n_clusters == 4


def test_fewer_parts_are_no_answer_if_the_clearest_gap_is_at_the_clusters_shown():
    """Six bars, three in a row."""
    draw = np.random.default_rng([0, 1500])
    y = draw.integers(0, 6, 1500)
    X = np.column_stack([draw.uniform(0, 3, 1500) + y % 3 * 4, draw.uniform(0, 0.3, 1500) + y // 3 * 3])
    assert adjusted_rand_score(y, bigsmic.fit(X.astype(np.float32), **UNSCALED).labels) == 1


@pytest.mark.parametrize("seed", range(3))
def test_rounded_rows_are_not_parted_from_their_copies(seed):
    rng, y = np.random.default_rng(0), np.arange(3000) % 3
    X = np.round(3 * rng.normal(size=(3000, 1)) + 40 * y[:, None]).astype(int)
    result = bigsmic.fit(X, seed=seed, n_centers=40, n_threads=1)
    assert adjusted_rand_score(y, result.labels) == 1
    assert equal_rows_share_labels(X, result.labels)


@pytest.mark.parametrize("n_copies", [2, 4])
def test_bent_clusters_are_found_where_each_row_has_a_few_copies(n_copies):
    X, y = make_moons(1000, noise=0.05, random_state=5)
    result = bigsmic.fit(np.tile(X, (n_copies, 1)), scale=None, n_threads=1)
    assert result.n_clusters == 2
    assert adjusted_rand_score(np.tile(y, n_copies), result.labels) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_valleys_between_integers_are_no_evidence(seed):
    rng, y = np.random.default_rng(0), np.arange(2000) % 2
    X = rng.integers(0, 5, (2000, 2)) + 10 * y[:, None]
    result = bigsmic.fit(X, seed=seed, n_centers=40, n_threads=1)
    assert result.n_clusters is None or adjusted_rand_score(y, result.labels) == 1


@pytest.mark.parametrize(("n", "seed"), [(300, 1), (3000, 0), (3000, 1)])
def test_values_of_an_integer_column_are_no_clusters(n, seed):
    """Rows are nearer to those of the same value in the last column than to the next value: the graph parts them."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 3, n)
    X = (draw.normal(size=(n, 4)) + 8 * np.eye(3, 4)[y]).round()
    result = bigsmic.fit(X, n_threads=1)
    assert result.n_clusters == 3  # 14 or 15 by edges alone
    assert adjusted_rand_score(y, result.labels) > 0.98


@pytest.mark.parametrize("seed", range(3))
def test_rounding_to_the_spread_of_a_cluster_makes_no_valleys(seed):
    rng, y = np.random.default_rng(seed), np.arange(6000) % 6
    X = np.rint(rng.normal(size=(6000, 4)) + rng.uniform(-10, 10, (6, 4))[y]).astype(int)
    result = bigsmic.fit(X, **UNSCALED)
    assert result.n_clusters == 6
    assert adjusted_rand_score(y, result.labels) > 0.99


def test_the_number_of_clusters_is_found(found, uneven):
    X, y = uneven
    assert found.n_clusters == found.valleys.n_clusters == 4
    assert set(found.labels) == set(range(4))
    assert adjusted_rand_score(y, found.labels) > 0.97
    assert adjusted_rand_score(y, found.predict(X)) > 0.97
    assert found.posterior.shape == (len(X), 4)
    assert found.settings.n_clusters == 4
    assert not found.settings.undecided


def test_what_is_found_comes_with_its_evidence(found):
    valleys = found.valleys
    assert valleys.clear
    assert valleys.sentence == str(valleys)
    assert valleys.sentence.startswith("The data show 4 groups that valleys separate")
    assert valleys.sentence in repr(found)
    assert (valleys.pairs.z >= 4).all()
    assert valleys.curve.n_clusters.is_monotonic_increasing
    at = valleys.curve.set_index("n_clusters")
    assert at.weakest_z[4] >= 4 > at.weakest_z[5]
    assert at.stability[4] > 0.97
    assert valleys.best == 4


@pytest.mark.usefixtures("many_blocks")
def test_a_found_number_is_found_again_in_the_run(uneven, found, tmp_path):
    X, _ = uneven
    options = UNSCALED | {"out": tmp_path / "run"}
    first = bigsmic.fit(X, **options)
    np.testing.assert_array_equal(first.labels, found.labels)
    again = bigsmic.fit(X, **options | {"n_threads": 2})  # resumes
    opened = bigsmic.Result.open(tmp_path / "run")
    for other in (again, opened, pickle.loads(pickle.dumps(opened))):
        assert other.n_clusters == 4
        np.testing.assert_array_equal(other.labels, found.labels)
        np.testing.assert_array_equal(other.predict(X[:50]), found.predict(X[:50]))
    assert opened.cut(3).n_clusters == 3
    assert opened.valleys.sentence == found.valleys.sentence
    with pytest.raises(RunMismatchError, match=r"or the stored values; .* bigsmic cut .*run'? -c 3 --out OTHER_RUN"):
        bigsmic.fit(X, 3, **options)
    with pytest.raises(RunMismatchError, match=r"seed: stored 0, asked 1\n(.*\n)*.*or the stored values$"):
        bigsmic.fit(X, 3, seed=1, **options)


@pytest.fixture(scope="module")
def many():
    """Fifty clusters that are well apart, of sixty rows each."""
    return make_blobs(3000, 6, centers=50, cluster_std=0.3, center_box=(-12, 12), random_state=5)


def test_more_columns_are_read_where_clusters_are_many(many, tmp_path, monkeypatch):
    X, y = many
    options = QUICK | {"shrinkage": 0}
    monkeypatch.setattr(wider_columns.eigenvalue_counts, "parts", lambda run: 0)  # as if the guess was far too low
    result = bigsmic.fit(X, **options)
    assert result.n_clusters == 50
    assert adjusted_rand_score(y, result.labels) > 0.99
    assert result.diagnostics["valleys"]["columns"] == 120

    def killed(context):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(wider_columns, "_delete_narrow", killed)
        with pytest.raises(KeyboardInterrupt):
            bigsmic.fit(X, **options, out=tmp_path / "run")
    again = bigsmic.fit(X, **options, out=tmp_path / "run")
    opened = bigsmic.Result.open(tmp_path / "run")
    for other in (again, opened):
        assert other.settings.columns_read == 120
        assert other.n_clusters == 50
    assert adjusted_rand_score(result.labels, opened.labels) == 1
    assert adjusted_rand_score(y, opened.predict(X)) > 0.99
    assert opened.cut(20).n_clusters == 20


@pytest.mark.parametrize(("c", "n_clusters"), [(range(2, 4), 3), (range(6, 9), 6), (range(2, 9), 4)])
def test_a_range_limits_the_number(uneven, c, n_clusters):
    assert bigsmic.fit(uneven[0], c, **QUICK).n_clusters == n_clusters


def test_labelings_are_not_taken_to_agree_on_numbers_outside_the_range(uneven):
    run = bigsmic.fit(uneven[0], range(2, 5), **QUICK)._run
    assert shown_number.agree_on_shown(run)
    info = run.info(shown_number.NUMBER, 0) | {"n_clusters": 7}
    other = SimpleNamespace(done=run.done, is_writable=True, info=lambda stage, block: info, read=run.read)
    assert not shown_number.agree_on_shown(other)


def test_parts_of_the_graph_that_are_too_small_for_valleys_are_reported():
    draw = np.random.default_rng(0)
    crumbs = np.repeat(draw.uniform(-50, 50, (60, 8)), 12, axis=0) + draw.normal(size=(720, 8)) / 10
    X = np.concatenate([make_blobs(3000, 8, centers=5, random_state=0)[0], crumbs])
    valleys = bigsmic.fit(draw.permutation(X), **QUICK).valleys
    assert valleys.n_clusters < 45
    assert 55 <= valleys.graph_parts <= 75  # of 65
    assert f"The neighbour graph has about {valleys.graph_parts} parts: some may be too small" in valleys.sentence


def test_few_rows_show_clusters_by_fewer_standard_errors_if_labelings_agree(monkeypatch):
    labels = np.repeat([0, 1, 2, 3], [60, 40, 40, 40])
    X = 3.7 * np.eye(4)[labels] + np.random.default_rng(1).normal(size=(180, 4))
    found = bigsmic.fit(X, n_centers=40)
    assert (found.n_clusters, found.valleys.threshold) == (4, 2.0)
    assert adjusted_rand_score(labels, found.labels) > 0.95
    monkeypatch.setattr(valleys, "_agree", lambda rows, trees: False)
    alone = bigsmic.fit(X, n_centers=40)
    assert (alone.n_clusters, alone.valleys.threshold) == (3, 4.0)


@pytest.mark.parametrize(
    ("votes", "agreed"),
    [
        ((4, 4, 4, 4), True),
        ((3, 4, 4, 4), True),  # cut at its vote, the first has other clusters
        ((1, 4, 4, 4), True),
        ((3, 3, 4, 4), False),
        ((1, 1, 1, 4), False),
        ((4, 3, 3, 3), False),  # as the second cuts others of the same number
    ],
)
def test_fewer_standard_errors_are_enough_if_labelings_agree_on_what_most_of_them_show(votes, agreed):
    """Four groups, the same in each labeling; the second joins others than the first and the last two."""
    joins = [[0, 0, 1, 2], [0, 1, 1, 2], [0, 0, 1, 2], [0, 0, 1, 2]]

    def tree(vote, join):
        cuts = {1: np.zeros(4, int), 3: np.array(join), 4: np.arange(4)}
        return SimpleNamespace(n_clusters=vote, tree=SimpleNamespace(cut=cuts.get))

    rows = np.tile(np.diag([40, 40, 40, 10]), (4, 4))
    assert valleys._agree(rows, [tree(*of) for of in zip(votes, joins, strict=True)]) == agreed


@pytest.mark.parametrize("n", [150, 600])
def test_clusters_of_a_single_column_are_found(n):
    """The graph of a line has gaps wherever rows are sparse: in tails, groups are wide, and nothing ties them."""
    y = np.arange(n) % 3
    X = np.random.default_rng(0).normal(size=n) + 7.0 * y
    for rows in (X[:, None], np.stack([X, -2 * X], axis=1)):  # also of two columns that are one
        result = bigsmic.fit(rows, n_threads=1)
        assert result.n_clusters == 3
        assert adjusted_rand_score(y, result.labels) > 0.95


def test_set_points_of_a_single_column_are_found_beside_a_wide_cluster():
    draw, y = np.random.default_rng(0), np.repeat([0, 1, 2], [200, 300, 200])
    X = np.array([0.0, 10.0, 100.0])[y] + np.array([1e-4, 1.0, 1e-3])[y] * draw.normal(size=700)
    result = bigsmic.fit(X[:, None], n_threads=1)
    assert result.n_clusters == 3
    assert adjusted_rand_score(y, result.labels) > 0.99


@pytest.mark.parametrize("name", ["normal", "exponential", "uniform"])
@pytest.mark.parametrize("n", [150, 600])
def test_a_single_column_without_clusters_is_none(name, n):
    X = getattr(np.random.default_rng(5), name)(size=(n, 1))
    result = bigsmic.fit(X, n_threads=1)
    assert result.settings.undecided or result.n_clusters == 1


@pytest.mark.parametrize("n", [400, 60])
def test_one_blob_has_no_number(n):
    result = bigsmic.fit(np.random.default_rng(2).normal(size=(n, 3)), n_centers=40)
    assert result.settings.undecided
    assert result.n_clusters is None
    assert not result.valleys.clear
    assert result.valleys.sentence.startswith("The data show no valleys: give c.")
    assert result.valleys.sentence in repr(result)
    with pytest.raises(InputError, match=r"found no valleys .*; valleys\.best, \d+, is a hint, cut\(c\) gives"):
        result.labels  # noqa: B018
    assert set(result.cut(result.valleys.best).labels) == set(range(result.valleys.best))


def test_many_clusters_that_touch_beside_crumbs_are_no_answer():
    draw = np.random.default_rng(0)
    touching = draw.normal(0, 0.8, (40, 8))[draw.integers(0, 40, 3000)] + draw.normal(0, 0.6, (3000, 8))
    crumbs = np.repeat([[20.0] * 8, [-20.0] * 8], 60, axis=0) + draw.normal(size=(120, 8))
    result = bigsmic.fit(np.concatenate([touching, crumbs]), **UNSCALED)
    assert result.settings.undecided
    assert "which is no single blob; 2 small ones are apart from it: give c" in result.valleys.sentence
    assert result.valleys.best > 2


def test_labelings_that_do_not_agree_are_no_answer(monkeypatch):
    draw = np.random.default_rng(1)
    X = draw.normal(0, 1.0, (30, 10))[draw.integers(0, 30, 2000)] + draw.normal(0, 0.42, (2000, 10))
    assert bigsmic.fit(X, **UNSCALED).valleys.agreement < 0.95
    monkeypatch.setattr(consensus, "AGREED", 0.95)
    monkeypatch.setattr(number, "LEAST_AGREED", 1.1)
    result = bigsmic.fit(X, **UNSCALED)
    assert result.settings.undecided
    assert result.valleys.sentence.startswith("Labelings do not agree on the groups that valleys separate: they show ")
    assert result.cut(result.valleys.best).n_clusters == result.valleys.best


@pytest.mark.parametrize("make", [partial(make_moons, noise=0.04), partial(make_circles, factor=0.3, noise=0.04)])
def test_parts_of_the_graph_are_the_answer_where_labelings_do_not_agree_on_valleys(make, monkeypatch):
    """A line through a bent cluster crosses its two ends: valleys alone show 4 to 6 groups."""
    X, y = make(1000, random_state=0)
    result = bigsmic.fit(X, **UNSCALED)
    assert result.n_clusters == result.valleys.parts == 2
    assert max(result.valleys.votes) > 3
    assert adjusted_rand_score(y, result.labels) == 1
    assert result.valleys.sentence.startswith("Without sparse rows, the neighbour graph falls into 2 parts; labelings")
    monkeypatch.setattr(dense_parts, "of_pieces", lambda *_: None)
    by_eigengap = bigsmic.fit(X, trim=False, **UNSCALED)
    assert adjusted_rand_score(y, by_eigengap.labels) == 1
    assert by_eigengap.valleys.sentence.startswith("The neighbour graph falls into 2 parts by an eigengap; labelings")


def test_bent_clusters_that_nearly_touch_are_those_on_which_labelings_agree_by_density(monkeypatch):
    """The gap after two rings is 1.8, and those within a ring are up to 1.5: it is not clear alone."""
    X, y = make_circles(4000, factor=0.48, noise=0.06, random_state=2)
    result = bigsmic.fit(X, **UNSCALED)
    assert result.n_clusters == result.valleys.parts == 2
    assert adjusted_rand_score(y, result.labels) > 0.99
    monkeypatch.setattr(dense_parts, "of_pieces", lambda *_: None)
    by_density = bigsmic.fit(X, **UNSCALED)
    assert by_density.n_clusters == by_density.valleys.parts == 2
    monkeypatch.setattr(number, "ONE_BY_DENSITY", 1.1)
    without = bigsmic.fit(X, **UNSCALED)
    assert without.n_clusters != 2
    assert without.valleys.parts is None


def test_parts_of_the_graph_do_not_hide_clusters_within_them_that_valleys_part():
    """Three far groups of four clusters each: labelings agree on the groups, and not quite on the clusters."""
    draw = np.random.default_rng(1)
    groups, y = 12 * draw.normal(size=(3, 6)), draw.integers(0, 12, 1500)
    corners = [3.6 * np.linalg.qr(draw.normal(size=(6, 6)))[0][:4] for _ in range(3)]
    X = (np.repeat(groups, 4, axis=0) + np.concatenate(corners))[y] + draw.normal(size=(1500, 6))
    result = bigsmic.fit(X)
    assert result.valleys.parts is None
    assert result.n_clusters == 12
    assert adjusted_rand_score(y, result.labels) > 0.8


def test_parts_of_the_graph_are_no_answer_if_the_clusters_shown_are_no_pieces_of_curves():
    """Four blobs that touch, and one apart: after the two parts there is a large gap, as after two curves."""
    X, y = make_blobs(1500, centers=5, random_state=0)
    result = bigsmic.fit(X)
    assert result.valleys.parts is None
    assert result.n_clusters > 2
    assert adjusted_rand_score(y, result.labels) > 0.6


def test_pieces_of_a_curve_on_which_labelings_disagree_are_no_answer():
    X, _ = make_swiss_roll(1500, noise=0.1, random_state=6)
    evidence = bigsmic.fit(X).valleys
    assert not evidence.clear
    assert evidence.on_pieces
    assert evidence.best == evidence.n_clusters
    assert "pieces of curves" in evidence.sentence
    assert "There may be fewer clusters" in evidence.sentence


def two_groups_of_five(apart):
    """Clusters that touch, in two groups that touch, too, or do not: 2,000 rows in 12 dimensions."""
    draw = np.random.default_rng(2)
    centres = np.concatenate([draw.normal(size=(5, 12)) for _ in range(2)])
    centres *= 3.4 / np.linalg.norm(centres, axis=1, keepdims=True)
    centres[:, 0] = np.repeat([0, apart], 5)
    y = draw.integers(0, 10, 2000)
    return centres[y] + draw.normal(size=(2000, 12)), y


@pytest.mark.parametrize("apart", [4.5, 5.0])
def test_parts_of_the_graph_that_are_tied_do_not_hide_clusters_on_which_labelings_agree(apart):
    """Two groups that are tied are no answer, though the eigengap after them is 2.4 and 3.5."""
    X, y = two_groups_of_five(apart)
    result = bigsmic.fit(X, **UNSCALED)
    evidence = result.valleys
    assert evidence.parts is None
    assert 8 <= result.n_clusters == evidence.n_clusters <= 10
    assert ("modularity is nearly the largest" in evidence.sentence) == (evidence.surer is not None)
    assert adjusted_rand_score(y, result.labels) > 0.7
    np.testing.assert_array_equal(result.cut(result.n_clusters).labels, result.labels)
    assert np.mean(result.predict(X[:500]) == result.labels[:500]) > 0.95


def test_far_clusters_that_scattered_rows_connect_are_not_joined_into_parts_of_the_graph():
    """Eleven blobs of 30 to 4,057 rows in the plane, and a fifth of noise: the eigengap after three parts is 2.3."""
    X, y = uneven_blobs(noise=0.2, seed=1004)
    result = bigsmic.fit(X, n_threads=1)
    assert result.valleys.parts is None
    assert adjusted_rand_score(y[y >= 0], result.labels[y >= 0]) > 0.9


def test_many_clusters_that_touch_are_seen_with_more_columns_than_the_first(monkeypatch):
    X, _ = touching(2.5, 6100)
    result = bigsmic.fit(X)
    assert result.diagnostics["valleys"]["columns"] == 120
    monkeypatch.setattr(wider_columns, "VALLEY_COLUMNS", 0)
    assert bigsmic.fit(X).diagnostics["valleys"]["columns"] == 60


def test_many_clusters_of_few_rows_each_are_found():
    """A hundred of 60 rows in the mean; in the few components that 30 rows allow, hardly two are separated."""
    X, y = touching(2.2, 6000)
    result = bigsmic.fit(X)
    assert result.n_clusters > 60
    assert adjusted_rand_score(y, result.labels) > 0.85


def touching(spread, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(100, 6000, p=rng.dirichlet(np.full(100, 2.0)))
    return (3 * rng.normal(size=(100, 24))[y] + spread * rng.normal(size=(6000, 24))).astype(np.float32), y


def test_where_labelings_do_not_agree_on_what_they_show_the_answer_is_what_they_agree_on():
    """A part of the digits, of 70 rows each: single labelings show 11 or 12 groups, and not the same."""
    X, y = (array[480:1180] for array in load_digits(return_X_y=True))
    result = bigsmic.fit(X, n_threads=1, n_components=None)
    assert result.valleys.surer == result.n_clusters
    assert adjusted_rand_score(y, result.labels) > 0.75


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, 8),  # nearly as sure as 9, and fewer
        ({8: (0.7, 0.59)}, 9),
        ({8: (0.78, 0.57)}, 9),  # modularity is not nearly the largest
        ({10: (0.9, 0.6)}, 10),
        ({11: (0.95, 0.59)}, 8),  # beyond the largest modularity
        ({4: (0.77, 0.5)}, 4),  # labelings agree nearly as much on those shown
        ({4: (0.69, 0.5), 8: (0.7, 0.59), 9: (0.7, 0.59)}, None),
        ({4: (0.1, 0.5)}, 8),
        ({8: (0.69, 0.59), 9: (0.69, 0.59)}, None),
        ({12: (0.6, 0.61)}, None),  # would need more columns
    ],
)
def test_another_number_is_the_answer_if_labelings_agree_more_on_it(changes, wanted):
    numbers = np.arange(2, 13)
    stability, modularity = np.full(11, 0.6), np.full(11, 0.5)
    for k, values in ({8: (0.78, 0.59), 9: (0.8, 0.59), 10: (0.6, 0.6)} | changes).items():
        stability[numbers == k], modularity[numbers == k] = values
    curve = {"numbers": numbers, "stability": stability, "modularity": modularity}
    evidence = number_evidence.Evidence([], [], None, curve, 4, None)
    assert number._surest(evidence, 11.0) == wanted
    assert number._surest(evidence._replace(shown=1), 11.0) is None


@pytest.mark.parametrize(("least", "wanted"), [(0.6, 8), (0.1, 8)])
def test_clusters_that_are_too_few_have_no_say_about_the_number(least, wanted):
    """Whatever labelings agree on those shown, and however little on more."""
    numbers = np.arange(2, 13)
    stability, modularity = np.where(numbers < 8, 0.95, least), np.where(numbers < 8, 0.5, 0.6)
    curve = {"numbers": numbers, "stability": stability, "modularity": modularity}
    evidence = number_evidence.Evidence([], [], None, curve, 4, None)
    assert number._surest(evidence, 11.0, beyond=True) == wanted
    assert number._surest(evidence, 7.0, beyond=True) is None


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        ({"next_z": 1.9}, False),  # no sign of a further cluster
        ({"next_z": np.inf}, False),  # parts of the graph, between which there is no valley
        ({"modularity": 0.59}, False),
        ({"clumpiness": 0.04}, False),  # a blob, and no piece of one is separated either
        ({"solid": False}, False),  # rows in a plane
        ({"shown": 1}, False),
        ({"shown": 2}, True),
    ],
)
def test_clusters_are_too_few_where_the_next_valley_is_only_just_too_shallow(monkeypatch, changes, wanted):
    case = {"next_z": 3.0, "modularity": 0.5, "clumpiness": 0.1, "solid": True, "shown": 4} | changes
    numbers, shown = np.arange(2, 13), case["shown"]
    curve = {"numbers": numbers, "weakest": np.where(numbers == shown + 1, case["next_z"], 5.0)}
    curve |= {"modularity": np.where(numbers == shown, case["modularity"], 0.6), "stability": np.ones(11)}
    monkeypatch.setattr(number.graph_parts, "are_solid", lambda context, n_parts: case["solid"])
    monkeypatch.setattr(number_evidence.Evidence, "drawn", lambda *_: None)
    monkeypatch.setattr(number.drawn_clusters, "clumpiness", lambda job, found: case["clumpiness"])
    evidence = number_evidence.Evidence([], [], None, curve, shown, None)
    assert number._are_too_few(SimpleNamespace(context=None), evidence) == wanted


@pytest.mark.parametrize(
    ("n_clusters", "other", "parts", "doubtful", "differ"),
    [
        (4, None, None, False, False),
        (4, None, None, True, True),  # valleys are no evidence alone: labelings have to agree plainly
        (5, None, None, False, False),  # of a range, or of links
        (5, 5, None, False, True),
        (5, 5, 5, False, False),
        (40, 40, None, True, False),  # of which labelings say nothing
    ],
)
def test_labelings_differ_if_they_do_not_agree_on_a_number_of_theirs(n_clusters, other, parts, doubtful, differ):
    numbers = np.arange(2, 13)
    between = (consensus.AGREED + shown_number.PLAIN) / 2
    curve = {"numbers": numbers, "stability": np.where(numbers == 4, between, consensus.AGREED - 0.01)}
    evidence = number_evidence.Evidence([], [], None, curve, 4, None, doubtful=doubtful)
    assert number._differ(evidence, n_clusters, other, parts) == differ


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"most_modular": 45}, False),  # as many as these columns show
        ({"disagree": False}, False),
        ({"disagree": False, "clear": False}, True),
        ({"shown": 1}, False),
        ({"parts": 3}, False),
        ({"propagates": True}, False),
        ({"along_curves": True}, False),
        ({"on_pieces": True}, False),
    ],
)
def test_clusters_may_hide_if_labelings_disagree_and_as_many_as_columns_have_most_modularity(changes, may):
    case = {"most_modular": 46, "disagree": True, "shown": 4, "along_curves": False, "on_pieces": False}
    case |= {"n_columns": 60, "propagates": False, "clear": True, "parts": None} | changes
    context = SimpleNamespace(settings=SimpleNamespace(propagates=case["propagates"]))
    assert number._may_hide(context, SimpleNamespace(**case), case["clear"], case["parts"]) == may


def test_labelings_that_miss_valleys_are_those_with_fewer_clusters_than_most_show(monkeypatch):
    trees, is_shown, is_done = {0: 4, 2: 3, 3: 5}, True, True
    run = SimpleNamespace(done=lambda *_: is_done)
    monkeypatch.setattr(number, "is_shown", lambda run, n_clusters: is_shown)
    monkeypatch.setattr(number, "specs_of", lambda context: range(4))
    monkeypatch.setattr(number, "valley_tree_of", lambda context, b: SimpleNamespace(n_clusters=trees[b]))
    monkeypatch.setattr(number.Merging, "numbers", lambda merging, context: list(trees))
    context = SimpleNamespace(run=run)
    assert number.that_miss_valleys(context, 4) == [2]
    is_shown = False
    assert number.that_miss_valleys(context, 4) == []
    is_shown, is_done = True, False
    assert number.that_miss_valleys(context, 4) == []


def test_clusters_beyond_those_shown_are_cut_off_what_hangs_on_least():
    """Of two clusters of 3,000 rows, one of which hides a small one, neither is halved; modularity would halve one."""
    X, y = uneven_blobs(seed=30)
    scores = []
    for seed in range(5):  # halves of a cluster have a valley of more than one standard error now and then
        order = np.random.default_rng(seed).permutation(len(X))
        with pytest.warns(BigsmicWarning, match="got 5, but the data show 4 groups"):
            result = bigsmic.fit(X[order], 5, n_threads=1)
        scores.append(adjusted_rand_score(y[order], result.labels))
    assert np.median(scores) > 0.95


def test_clusters_on_which_labelings_agree_are_not_given_up_for_halves_of_a_large_one():
    """Valleys between six of nine clusters in noise are 3.9 standard errors deep: density would halve the largest."""
    X, y = uneven_blobs(noise=0.2, seed=1006)
    result = bigsmic.fit(X, 6, n_threads=1)
    assert not result.settings.plain
    assert adjusted_rand_score(y[y >= 0], result.labels[y >= 0]) > 0.95


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 12, but the data show")
@pytest.mark.parametrize("c", [None, 6, 12])
def test_cuts_are_those_of_a_fit(c):
    X, y = uneven_blobs(noise=0.2, seed=1006)
    result = bigsmic.fit(X, c, n_threads=1)
    np.testing.assert_array_equal(result.cut(result.n_clusters).labels, result.labels)
    for k in (5, 9):
        assert adjusted_rand_score(y[y >= 0], result.cut(k).labels[y >= 0]) > 0.95


@pytest.fixture(scope="module")
def nested():
    """Fifteen clusters that do not touch, in three distant groups of five."""
    draw = np.random.default_rng(1)
    centers = 24 * np.repeat(draw.normal(size=(3, 8)), 5, axis=0) + 6 * draw.normal(size=(15, 8))
    of_row = draw.choice(15, 1500, p=draw.dirichlet(np.full(15, 2.0)))
    return centers[of_row] + draw.normal(size=(1500, 8)), of_row // 5


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 3, but the data show")
@pytest.mark.parametrize(("c", "cut"), [(3, 3), (range(2, 4), 3), (None, 3), (15, 3)])
def test_clusters_that_do_not_touch_are_joined_by_distance_where_fewer_are_asked_for(nested, c, cut):
    """A graph hardly tells which of its parts belong together."""
    X, y = nested
    result = bigsmic.fit(X, c, **QUICK)
    result = result if result.n_clusters == cut else result.cut(cut)
    assert adjusted_rand_score(y, result.labels) == 1
    assert adjusted_rand_score(y, result.predict(X)) == 1
    assert adjusted_rand_score(y, result.cut(3).labels) == 1
    assert set(result.cut(2).labels) == {0, 1}


def table(blur):
    """Four clusters in columns of numbers, of two values, blurred, and of skewed numbers."""
    draw = np.random.default_rng(2)
    y = draw.integers(0, 4, 1500)
    numbers = 3 * draw.normal(size=(4, 5))[y] + draw.normal(size=(1500, 5))
    binary = draw.random((1500, 5)) < draw.beta(0.5, 0.5, (4, 5))[y]
    skewed = np.exp(2 * draw.normal(size=(4, 2))[y] + draw.normal(size=(1500, 2)))
    return np.column_stack([numbers, binary + blur * draw.normal(size=(1500, 5)), skewed]), y


def test_two_values_of_a_column_do_not_part_clusters():
    X, y = table(blur=0)
    result = bigsmic.fit(X, n_threads=1)
    assert result.n_clusters == 4
    assert adjusted_rand_score(y, result.labels) > 0.95


def test_groups_are_joined_by_distance_where_the_graph_itself_shows_that_this_is_better():
    """Blurred binary columns cut each cluster into groups, of which density joins some of different clusters."""
    X, y = table(blur=0.02)
    result = bigsmic.fit(X, 4, n_threads=1)
    assert min(result.valleys.votes) > 10
    assert np.isfinite(result.valleys.curve.weakest_z[4])  # some groups touch
    assert adjusted_rand_score(y, result.labels) > 0.9


def test_pieces_of_bent_clusters_are_not_joined_by_distance(monkeypatch):
    """Two arms of a spiral, whose graph of the nearest five rows has gaps: pieces of both arms are near each other."""
    draw = np.random.default_rng(0)
    angle, y = draw.uniform(0, 3 * np.pi, 2000), draw.integers(0, 2, 2000)
    turned = angle + np.pi * y
    X = ((angle + 1) * np.stack([np.cos(turned), np.sin(turned)])).T + draw.normal(0, 0.1, (2000, 2))
    monkeypatch.setattr(dense_parts, "of_pieces", lambda *_: None)  # which are the two arms
    result = bigsmic.fit(X, 2, trim=False, **UNSCALED)
    assert result.valleys.parts == 4
    assert adjusted_rand_score(y, result.labels) == 1


def test_one_labeling_votes_alone_only_where_there_is_no_consensus_of_as_many():
    """Of three consensuses by valleys, one has only two clusters; the labeling in its place halves a kind of flower."""
    X, y = load_iris(return_X_y=True)
    with pytest.warns(BigsmicWarning, match="got 3, but the data show 2 groups"):
        result = bigsmic.fit(X, 3, n_threads=1)
    assert adjusted_rand_score(y, result.labels) > 0.6


@pytest.mark.parametrize(
    ("votes", "shown", "agreement", "plain"),
    [
        ((33, 33, 33, 37), 33, 0.9, True),
        ((33, 33, 37, 37), 35, 0.9, True),  # the median is not far
        ((33, 33, 41, 41), 37, 0.9, False),
        ((33, 33, 37, 37), 35, 0.89, False),
        ((34, 36, 34, 32), 34, 0.9, True),  # three of four show about as many
        ((35, 36, 34, 36), 35, 1.0, False),
        ((33, 33, 34, 32), 33, 0.8, True),  # nobody shows another one that is far
        ((33, 37, 37, 37), 37, 1.0, False),
    ],
)
def test_an_answer_is_plain_if_the_number_is_shown_and_labelings_agree(votes, shown, agreement, plain):
    found = {"n_clusters": shown, "shown": shown, "clear": True, "votes": list(votes), "common": [], "joined": []}
    found |= {"parts": None, "dense_parts": False, "faint": False}

    class Found:
        is_writable = True

        def done(self, stage, block):
            return stage == shown_number.NUMBER

        def info(self, stage, block):
            return found

        def read(self, stage, block, name):
            return np.array({"numbers": [32, 33], "stability": [0.5, agreement]}[name])

    assert shown_number.is_plain(Found(), 33) == plain
    found["faint"] = True
    assert not shown_number.is_plain(Found(), 33)


@pytest.mark.parametrize("c", [3, None])
def test_among_few_rows_a_faint_valley_is_no_plain_answer(c):
    """Valleys show the three cultivars, and all labelings agree, but misplace 11 of 178 rows; with all, it is five."""
    X, y = load_wine(return_X_y=True)
    result = bigsmic.fit(X, c, n_threads=1)
    assert result._context.run.info(shown_number.NUMBER, 0)["faint"]
    assert {spec.assignment for spec in specs_of(result._context)} == {"merge", "valleys"}
    assert adjusted_rand_score(y, result.labels) > 0.87


def test_labels_that_no_valley_parts_are_mended():
    X, y = make_blobs(
        (3000, 150, 150, 150),
        2,
        centers=[[0, 0], [9, 0], [9, 4], [4, 9]],
        cluster_std=[1.5, 0.4, 0.4, 0.4],
        random_state=0,
    )
    result = bigsmic.fit(X, 4, **UNSCALED)
    assert adjusted_rand_score(y, result.labels) > 0.99
    assert (result.valleys.pairs.z >= 4).all()


@pytest.fixture(scope="module")
def disputed(tmp_path_factory):
    """A fit without a number to images of digits, on which labelings that are merged by valleys do not agree."""
    X, y = (array[900:] for array in load_digits(return_X_y=True))
    out = tmp_path_factory.mktemp("disputed") / "run"
    return X, y, bigsmic.fit(X, out=out, n_threads=1), out


def test_where_labelings_disagree_all_of_them_decide(disputed):
    X, y, result, _ = disputed
    assert result.settings.disputed
    assert not result.settings.number_given
    assert {spec.assignment for spec in specs_of(result._context)} == {"merge", "valleys"}
    assert adjusted_rand_score(y, result.labels) > 0.7
    assert np.mean(result.predict(X) == result.labels) > 0.95


def test_a_cut_of_a_disputed_fit_at_its_number_is_the_fit(disputed):
    _, _, result, _ = disputed
    same = result.cut(result.n_clusters)
    np.testing.assert_array_equal(same.labels, result.labels)
    np.testing.assert_array_equal(same.posterior, result.posterior)
    assert result.cut(result.n_clusters + 1).n_clusters == result.n_clusters + 1


def test_a_disputed_fit_is_opened_and_repeated_as_it_is(disputed):
    X, _, result, out = disputed
    for other in (bigsmic.Result.open(out), bigsmic.fit(X, out=out, n_threads=1), bigsmic.fit(X, n_threads=2)):
        assert other.settings.disputed
        np.testing.assert_array_equal(other.labels, result.labels)


@pytest.mark.parametrize("disputed", [True, False])
def test_parts_are_disputed_where_labelings_disagree_on_them(disputed):
    info = {"parts": 2, "parts_disputed": disputed}
    assert shown_number.is_disputed(SimpleNamespace(info=lambda *_: info), 2) == disputed


@pytest.mark.parametrize(
    ("agreed", "cut_off", "association", "more_modular", "taken"),
    [
        (True, (10, 9), 0.6, -0.1, 1),
        (False, (10, 9), 0.6, -0.1, 0),  # other seeds show other valleys
        (True, (9, 9), 0.6, -0.1, 0),
        (True, (10, 9), 0.59, -0.1, 0),  # most of the weight of crumbs lies outside
        (True, (np.inf, 9), 0.6, -0.1, 1),
        (True, (np.inf, np.inf), 0.6, -0.1, 0),
        (False, (10, 9), 0.6, -0.004, 1),  # as modular as those by density
        (False, (9, 9), 0.6, -0.004, 0),
        (False, (9, 9), 0.6, 0.004, 0),
        (False, (9, 10), 0.6, 0.006, 1),
        (False, (np.inf, np.inf), 0.6, 0.1, 0),  # a cluster is empty
    ],
)
def test_labels_by_valleys_are_taken_where_density_cuts_off_more_rows_or_they_are_more_modular(
    monkeypatch, agreed, cut_off, association, more_modular, taken
):
    specs = SimpleNamespace(valley_sets=[1], fine_sets=range(0))
    context = SimpleNamespace(run=None, settings=SimpleNamespace(n_clusters=3), cached=lambda key, make: specs)
    monkeypatch.setattr(choice, "rivals", lambda context: [0, 1])
    monkeypatch.setattr(choice, "are_joined", lambda run, c: False)
    monkeypatch.setattr(choice, "agree_on_shown", lambda run: agreed)
    monkeypatch.setattr(choice, "_rows_cut_off", lambda context, w: cut_off[w])
    monkeypatch.setattr(choice, "associations", lambda context: {1: association})
    monkeypatch.setattr(choice, "modularities", lambda context: (0.5, 0.5 + more_modular))
    assert choice.best_claim(context) == taken


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 8, but the data show")
def test_faint_clusters_beside_noise_are_not_given_up_for_crumbs():
    """Valleys part two or three groups of the eight, on which labelings agree."""
    draw, y = np.random.default_rng(2), np.repeat(np.arange(8), (111, 129, 143, 50, 69, 29, 198, 130))
    means = np.zeros((8, 36))
    means[:, :4] = 1.8 * draw.standard_normal((8, 4))
    X = means[y] + draw.standard_normal((len(y), 36))
    assert adjusted_rand_score(y, bigsmic.fit(X, 8, seed=1, **QUICK).labels) > 0.5


def test_many_clusters_of_few_rows_are_found():
    """Fifteen columns, one for 25 rows, cannot part fifteen clusters."""
    draw = np.random.default_rng(6)
    y = np.repeat(np.arange(15), (10, 11, 99, 7, 19, 11, 17, 12, 94, 44, 8, 10, 12, 14, 12))
    X = 1.8 * draw.standard_normal((15, 38))[y] + draw.standard_normal((380, 38))
    assert adjusted_rand_score(y, bigsmic.fit(X, 15, **UNSCALED).labels) > 0.97


@pytest.mark.parametrize(
    ("z", "kurtosis", "counts", "cut_off"),
    [
        ([5.0, 1.1], [-1.0, 0.0], [9, 8, 7], 0),  # a valley everywhere
        ([5.0, 0.9], [0.0, -0.6], [9, 8, 7], 0),  # two that touch
        ([5.0, 0.9], [0.0, -0.4], [9, 8, 7], 7),
        ([0.1, 0.9], [0.0, -0.6], [9, 8, 7], 8),
        ([0.1, 0.9], [0.0, -0.4], [9, 8, 7], 15),
        ([5.0, 1.1], [0.0, 0.0], [9, 8, 0], np.inf),  # no cluster that was asked for may be empty
    ],
)
def test_the_smaller_half_is_cut_off_where_two_have_no_valley_and_are_no_flatter_than_one(z, kurtosis, counts, cut_off):
    arrays = {"z": z, "counts": counts, "pairs": [[0, 1], [1, 2]], "kurtosis": kurtosis}
    stored = {name: np.array(values) for name, values in arrays.items()}
    run = SimpleNamespace(reader=lambda stage, w: stored.__getitem__)
    assert choice._rows_cut_off(SimpleNamespace(run=run), 0) == cut_off


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "spread", "seed", "least"), [(3000, 5, 1.6, 1, 0.35), (3000, 10, 1.2, 1, 0.4)]
)
def test_clusters_that_touch_are_not_given_up_for_crumbs(n_rows, n_columns, spread, seed, least):
    """Valleys show three groups of the twelve clusters, or two, on which labelings agree."""
    draw, y = np.random.default_rng(seed), np.repeat(np.arange(12), n_rows // 12)
    centres = spread * draw.standard_normal((12, n_columns))
    X = centres[y] + draw.standard_normal((n_rows, n_columns))
    assert adjusted_rand_score(y, bigsmic.fit(X, 12, **QUICK).labels) > least


@pytest.mark.parametrize(
    ("cuts", "fine", "lacking", "taken"),
    [
        ((0.1, 0.079), range(1, 2), [], 2),
        ((0.1, 0.081), range(1, 2), [], 0),
        ((0.1, 0.079), range(0), [], 0),  # more than three clusters
        ((0.1, 0.079), range(1, 2), [2], 0),
    ],
)
def test_few_clusters_by_valleys_are_taken_where_they_cut_clearly_less(monkeypatch, cuts, fine, lacking, taken):
    association = 1 - np.array([cuts[0], np.inf, cuts[1]])[:, None]
    run = SimpleNamespace(
        read=lambda *_: association, info=lambda stage, block: {"consensus": {"lacking": lacking}}[stage]
    )
    specs = SimpleNamespace(valley_sets=[2], fine_sets=fine)
    settings = SimpleNamespace(n_clusters=2)
    context = SimpleNamespace(run=run, settings=settings, cached=lambda key, make: specs)
    monkeypatch.setattr(choice, "rivals", lambda context: [0, 2])
    monkeypatch.setattr(choice, "are_joined", lambda run, c: False)
    monkeypatch.setattr(choice, "agree_on_shown", lambda run: False)
    monkeypatch.setattr(choice, "_rows_cut_off", lambda context, w: 0.0)
    monkeypatch.setattr(choice, "modularities", lambda context: np.zeros(3))
    assert choice.best_claim(context) == taken


@pytest.mark.parametrize(("shown", "lacking", "best"), [(5, [], 0), (5, [0], 1), (6, [], 2), (7, [], 2), (None, [], 2)])
def test_modularity_does_not_choose_among_labels_by_valleys_beyond_those_shown(monkeypatch, shown, lacking, best):
    specs = SimpleNamespace(valley_sets=[0, 1, 2], fine_sets=range(0), shrinkages=[(0, 0.75), (0,), (0.75,)], plain=[])
    settings, info = SimpleNamespace(n_clusters=6), {"lacking": lacking}
    context = SimpleNamespace(
        run=SimpleNamespace(info=lambda *_: info), settings=settings, cached=lambda key, make: specs
    )
    monkeypatch.setattr(choice, "falls_apart", lambda *_: False)
    monkeypatch.setattr(choice, "counted", lambda run: shown)
    monkeypatch.setattr(choice, "modularities", lambda context: np.array([0.7, 0.8, 0.9]))
    monkeypatch.setattr(choice, "eigenvector_sets_of", lambda context: [[0, 1], [0], [1]])
    monkeypatch.setattr(choice.number, "that_miss_valleys", lambda *_: [])
    assert choice.best_rated(context, [0, 1, 2]) == best


def test_labelings_that_agree_are_not_disputed(uneven):
    assert not bigsmic.fit(uneven[0], **QUICK).settings.disputed


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 5, but the data show 4 groups")
@pytest.mark.parametrize("cut", [False, True])
def test_a_cluster_too_small_to_show_is_parted_before_large_ones_are_halved(cut):
    """Valleys show four clusters; the fifth, of 30 rows, is beside one of 90 that is as wide as the gap."""
    centers, sizes = [[0, 0], [9, 0], [0, 9], [9, 9], [11, 9]], (3000, 250, 100, 90, 30)
    X, y = make_blobs(sizes, centers=centers, cluster_std=[1, 1, 0.5, 0.5, 0.5], random_state=3)
    shown = bigsmic.fit(X, **UNSCALED)
    assert shown.n_clusters == 4
    assert adjusted_rand_score(y, (shown.cut(5) if cut else bigsmic.fit(X, 5, **UNSCALED)).labels) > 0.98


def test_where_labelings_agree_on_few_clusters_many_more_are_cut_off_them():
    """Of eleven blobs, five are shown, as six have 30 to 118 rows: no clusters are asked for that halve the largest."""
    X, y = uneven_blobs(seed=1004)
    with pytest.warns(BigsmicWarning, match="got 11, but the data show 5"):
        result = bigsmic.fit(X, 11, n_threads=1)
    assert result.n_clusters > 2 * result.valleys.n_clusters
    assert len(np.unique(result.labels)) == 11
    assert adjusted_rand_score(y, result.labels) > 0.9


@pytest.mark.parametrize(("c", "shown"), [(2, 4), (9, 4)])
def test_another_number_than_the_data_show_is_warned_of(uneven, c, shown):
    with pytest.warns(BigsmicWarning, match=f"got {c}, but the data show {shown} groups that valleys separate"):
        result = bigsmic.fit(uneven[0], c, **QUICK)
    assert f"{c} clusters were asked for" in result.valleys.sentence
    assert result.n_clusters == c


def test_moons_are_told_apart_though_two_eigenvectors_do_not():
    """The graph shows two parts, but columns that are merged follow them better than the first two eigenvectors."""
    X, y = make_moons(1000, noise=0.1, random_state=1)
    result = bigsmic.fit(X, 2, **UNSCALED)
    assert adjusted_rand_score(y, result.labels) > 0.95
    np.testing.assert_array_equal(result.cut(2).labels, result.labels)


def test_parts_that_overlap_do_not_hide_that_others_are_clear():
    """Four parts, one of which is two clusters: rows move as where all five are clear, and large ones stay whole."""
    centers, sizes = np.zeros((5, 4)), (1500, 250, 60, 60, 60)
    centers[:, :2] = [0, 0], [12, 0], [0, 12], [12, 12], [12, 16.5]
    X, y = make_blobs(sizes, centers=centers, cluster_std=[1, 1, 0.5, 1, 1], random_state=3)
    result = bigsmic.fit(X, 5, **UNSCALED)
    assert adjusted_rand_score(y, result.labels) > 0.97


def labeled(*bounds, held):
    """A labeling of 300 rows, cut at these bounds, of groups that valleys separate; and their weights.

    Groups have nearly all of their weight within, but for those of fewer than 20 rows, which have the share `held`.
    """
    rows, edges = np.arange(300), np.array([0, *bounds, 300])
    shares = np.where(np.diff(edges) < 20, held, 0.99)
    k = len(shares)
    weights = np.outer(1 - shares, np.ones(k)) / (k - 1)
    weights[np.diag_indices(k)] = shares
    of_piece = [(j, j + 1) for j, bound in enumerate(bounds) if bound not in (100, 200)]  # they are merged first
    others = [(0, z) for z in range(1, k) if z not in [z for _, z in of_piece]]
    tree = MergeTree(k, np.arange(k), np.array(of_piece + others), np.ones(k - 1))
    return (
        np.searchsorted(bounds, rows, side="right"),
        weights,
        ValleyTree(tree, k, np.full(k + 1, 5.0), tree, np.zeros(k - 1)),
    )


@pytest.mark.parametrize(
    ("pieces", "held", "wanted"),
    [
        ([(5,), (190,), (), ()], 0.9, (3, [3, 3, 3, 3])),  # each in one labeling, and loosely held
        ([(5,), (190,), (), ()], 0.995, (3, [4, 4, 3, 3])),  # held as well as the others
        ([(5,), (5,), (5,), ()], 0.9, (4, [4, 4, 4, 3])),  # in most labelings
        ([(50,), (150,), (250,), ()], 0.9, (4, [])),  # labelings do not agree
    ],
)
def test_a_piece_that_one_labeling_has_is_no_cluster(pieces, held, wanted):
    found = [labeled(*sorted({100, 200, *more}), held=held) for more in pieces]
    labels, weights, trees = zip(*found, strict=True)
    sizes = [tree.n_clusters for tree in trees]
    shared = number_evidence.SharedRows(consensus.label_gram(np.stack(labels, axis=1), sizes), sizes, list(weights))
    shown, counts, agreement = number_evidence._shown(trees, shared)
    assert (shown, counts) == wanted
    assert (agreement >= number.PLAIN) == bool(counts)


def test_a_labeling_does_not_agree_with_itself_if_the_others_have_collapsed():
    labels, weights, trees = zip(*[labeled(100, 200, held=0.9)] * 4, strict=True)
    shuffled = [np.random.default_rng(seed).permutation(of_rows) for seed, of_rows in enumerate(labels)]
    flat = [np.full_like(W, W.mean()) for W in weights]
    for n_whole, agree in ((1, False), (2, False), (3, True)):
        rows = np.stack([*labels[:n_whole], *shuffled[n_whole:]], axis=1)
        shared = number_evidence.SharedRows(
            consensus.label_gram(rows, [3] * 4), [3] * 4, [*weights[:n_whole], *flat[n_whole:]]
        )
        shown, counts, agreement = number_evidence._shown(trees, shared)
        assert shown == 3
        assert (counts, agreement) == (([3] * 3, 1.0) if agree else ([], 0.0))


def evidence_of(trees, gains, weakest):
    """Evidence of labelings of the same four groups of 100 rows, with these trees, gains, and valleys by number."""
    labels, sizes = np.repeat(np.arange(4), 100), [4] * len(trees)
    rows = consensus.label_gram(np.stack([labels] * len(trees), axis=1), sizes)
    shared = number_evidence.SharedRows(rows, sizes, [np.eye(4)] * len(trees))
    found = [ValleyTree(*of) for of in zip(trees, [1] * len(trees), [weakest] * len(trees), trees, gains, strict=True)]
    numbers = np.array([2, 3, 4])
    curve = {"numbers": numbers, "stability": shared.agreements(trees, numbers), "weakest": weakest[numbers]}
    return number_evidence.Evidence(found, trees, shared, curve, 1, None)


def test_beyond_any_sign_of_a_valley_labelings_part_what_two_gaussians_describe_better():
    """Four labelings of the same four groups, whose valleys show some sign up to three; then two without any.

    Each of the four parts another group from the three that it joins first.
    """
    merges = [[(1, 2), (1, 3), (0, 1)], [(0, 2), (0, 3), (0, 1)], [(0, 1), (0, 3), (0, 2)], [(0, 1), (0, 2), (0, 3)]]
    trees = [MergeTree(4, np.arange(4), np.array(of_one), np.ones(3)) for of_one in merges]
    evidence = evidence_of(trees, np.zeros((4, 3)), np.array([np.inf, np.inf, 5.0, 0.3, 0.2]))
    assert evidence.curve["stability"][0] < 0  # less than by chance
    assert [evidence.parted_from(n) for n in (1, 2, 3, 4)] == [3, 3, 3, 4]
    np.testing.assert_array_equal(evidence.by_shape(3), evidence.curve["stability"])
    same = [MergeTree(4, np.arange(4), np.array([(0, 1), (2, 3), (0, 2)]), np.ones(3))] * 2
    disputed = evidence_of(same, np.array([[5.0, 1.0, 9.0], [1.0, 5.0, 9.0]]), np.zeros(5))
    np.testing.assert_array_equal(disputed.curve["stability"], [1.0, 1.0, 1.0])
    stability = disputed.by_shape(2)
    assert stability[[0, 2]].tolist() == [1.0, 1.0]
    assert stability[1] < 1  # one parts 0 from 1, and the other 2 from 3
    assert disputed.by_shape(3).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 4, but the data show 3 groups")
@pytest.mark.parametrize("cut", [False, True])
def test_two_clusters_that_overlap_are_parted_before_a_larger_one_is_halved(cut):
    """Valleys show three clusters; the means of the pair are 2.4 standard deviations apart, and it has 2,000 rows."""
    X, y = make_blobs((4000, 1000, 1000, 800), centers=[[0, 0], [20, 0], [22.4, 0], [0, 20]], random_state=5)
    shown = bigsmic.fit(X, **UNSCALED)
    assert shown.n_clusters == 3
    assert adjusted_rand_score(y, (shown.cut(4) if cut else bigsmic.fit(X, 4, **UNSCALED)).labels) > 0.85


def test_clusters_are_parted_by_shape_beyond_those_of_which_there_is_some_sign(monkeypatch):
    """Two of four groups, cut into three: by shape 0 and 1 are parted, else the last merges are undone."""
    tree = MergeTree(4, np.arange(4), np.array([(0, 1), (2, 3), (0, 2)]), np.ones(3))
    found = ValleyTree(tree, 2, np.full(5, 5.0), tree, np.array([9.0, 7.0, 9.0]))
    monkeypatch.setattr(valley_trees, "valley_tree_of", lambda context, spec: found)
    monkeypatch.setattr(valley_trees, "weights_between", lambda context, spec: np.diag([50.0, 10.0, 300.0, 200.0]))

    def cut(parted_from):
        run = SimpleNamespace(info=lambda stage, block: {"parted_from": parted_from})
        return valley_trees.parted(SimpleNamespace(run=run), None, 3).cut(3).tolist()

    assert cut(2) == [0, 1, 2, 2]
    assert cut(0) == cut(3) == [0, 0, 1, 2]
