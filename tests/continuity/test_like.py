"""Refits whose clusters keep the numbers and the names that they had."""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from small_fits import BRIEF, cut_small

import bigsmic
from bigsmic import Result
from bigsmic.continuity import counting, numbers
from bigsmic.errors import BigsmicWarning, CorruptBlockError, InputError, RunError, RunMismatchError
from bigsmic.stages import numbering, scan
from bigsmic.store import Run

pytestmark = pytest.mark.usefixtures("small_blocks")
CENTERS = np.array([[0, 0, 0], [12, 0, 0], [0, 12, 0], [0, 0, 12], [12, 12, 12], [-12, 0, 12]], float)


def rows_of(clusters, seed):
    """Rows of some clusters, in an order of their own, and the clusters."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(clusters, 150))
    return (CENTERS[truth] + rng.normal(size=(len(truth), 3))).astype(np.float32), truth


def majority(labels, truth):
    """The label that most rows of each cluster have."""
    return {int(k): int(np.bincount(labels[truth == k]).argmax()) for k in np.unique(truth)}


def fit(X, c, **options):
    return bigsmic.fit(X, c, **{**BRIEF, **options})


@pytest.fixture(scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        yield


@pytest.fixture(scope="module")
def first(small_blocks, tmp_path_factory):
    X, truth = rows_of([0, 1, 2, 3], 0)
    result = fit(X, 4, out=tmp_path_factory.mktemp("first") / "run")
    return result, X, truth


@pytest.fixture(scope="module")
def second(first, tmp_path_factory):
    """One regime more, one less: of the earlier ones 1, 2 and 3."""
    before, _, _ = first
    more, clusters = rows_of([1, 2, 3, 4], 1)
    result = fit(more, 4, like=before, seed=3, out=tmp_path_factory.mktemp("second") / "run")
    return result, more, clusters


def test_numbers_are_read_from_the_run_once(second, monkeypatch):
    result, more, _ = second
    labels, asked = result.predict(more), []
    original = Run.done
    monkeypatch.setattr(Run, "done", lambda run, stage, block: asked.append(stage) or original(run, stage, block))
    np.testing.assert_array_equal(result.predict(more), labels)
    assert numbering.STAGE not in asked


def test_the_same_rows_keep_their_labels_whatever_the_seed(first):
    before, X, truth = first
    order = np.random.default_rng(5).permutation(len(X))
    after = fit(X[order], 4, seed=9, like=before)
    assert majority(after.labels, truth[order]) == majority(before.labels, truth)
    assert after.matched.by == "prediction"
    assert after.matched.new == after.matched.vanished == []


def test_rows_of_a_grown_archive_are_counted_by_their_number(first):
    before, X, _ = first
    more, _ = rows_of([0, 1, 2, 3], 7)
    after = fit(np.concatenate([X, more]), 4, seed=9, like=before)
    np.testing.assert_array_equal(after.labels[: len(X)], before.labels)
    assert (after.matched.by, after.matched.rows) == ("row number", len(X))


def test_rows_of_a_later_part_of_an_archive_are_found(first, tmp_path):
    before, X, _ = first
    more, _ = rows_of([0, 1, 2, 3], 7)
    path = tmp_path / "rows.zarr"
    zarr.create_array(path, data=np.concatenate([X, more]))
    after = fit(path, 4, rows=slice(100, None), like=before)
    np.testing.assert_array_equal(after.labels[: len(X) - 100], before.labels[100:])
    assert (after.matched.by, after.matched.rows) == ("row number", len(X) - 100)


def test_new_clusters_have_new_numbers_and_those_of_vanished_ones_stay_free(first, second):
    (before, _, truth), (after, _, clusters) = first, second
    known, found = majority(before.labels, truth), majority(after.labels, clusters)
    assert {k: found[k] for k in (1, 2, 3)} == {k: known[k] for k in (1, 2, 3)}
    assert found[4] == 4
    assert after.numbers.tolist() == sorted(found.values())
    assert (after.matched.new, after.matched.vanished) == ([4], [known[0]])
    assert after.matched.sentence == f"3 of 4 clusters continue; new: 4; vanished: {known[0]}."
    assert adjusted_rand_score(clusters, after.labels) > 0.99


def test_numbers_of_vanished_clusters_are_never_given_again(second):
    after, _, clusters = second
    third = fit(*_and_number(rows_of([1, 2, 3, 4, 5, 0], 2)), like=after)
    found = majority(third.labels, rows_of([1, 2, 3, 4, 5, 0], 2)[1])
    assert {k: found[k] for k in (1, 2, 3, 4)} == {k: majority(after.labels, clusters)[k] for k in (1, 2, 3, 4)}
    assert sorted((found[5], found[0])) == [5, 6]


def _and_number(rows_and_clusters):
    rows, clusters = rows_and_clusters
    return rows, len(np.unique(clusters))


def test_all_that_a_result_has_agrees_with_its_labels(second):
    after, _, _ = second
    (gone,) = set(range(5)) - set(after.numbers.tolist())
    posterior = np.asarray(after.posterior)
    assert posterior.shape == (600, 5)
    assert after.n_clusters == 5
    assert not posterior[:, gone].any()
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-5)
    assert np.mean(posterior.argmax(axis=1) == after.labels) > 0.95
    np.testing.assert_array_equal(after.sizes, np.bincount(after.labels, minlength=5))
    assert after.diagnostics["output"]["cluster_sizes"] == after.sizes.tolist()
    table = after.clusters
    assert table.rows.tolist() == after.sizes.tolist()
    assert (table.index[table.stability.isna()].tolist(), table.rows[gone]) == ([gone], 0)
    assert set(after.valleys.pairs[["cluster", "neighbor"]].to_numpy().ravel()) <= set(after.numbers.tolist())
    assert "4 clusters" in repr(after)
    assert after.matched.sentence in repr(after)


def test_predictions_have_the_numbers(second):
    after, X, _ = second
    assert np.mean(after.predict(X) == after.labels) > 0.98
    assert after.predict_proba(X[:50]).shape == (50, 5)
    assert after.predict(X[:0]).shape == (0,)


def test_copies_and_pickles_have_the_numbers(second, tmp_path):
    after, X, _ = second
    expected = after.predict(X)
    for other in (Result.open(after.location), after.save(tmp_path / "copy"), pickle.loads(pickle.dumps(after))):
        np.testing.assert_array_equal(other.labels, after.labels)
        np.testing.assert_array_equal(other.predict(X), expected)
        assert other.matched == after.matched


def test_temporary_results_are_pickled_with_their_numbers(first):
    before, _, _ = first
    X, _ = rows_of([1, 2, 3, 4], 1)
    after = fit(X, 4, like=before).set_names({4: "new"})
    copy = pickle.loads(pickle.dumps(after))
    np.testing.assert_array_equal(copy.predict(X), after.predict(X))
    assert copy.names == {4: "new"}
    with pytest.raises(RunError, match="only in memory"):
        copy.set_names({4: "other"})


def test_cuts_number_their_clusters_anew(second, tmp_path):
    after, X, _ = second
    cut = after.cut(3)
    assert cut.numbers.tolist() == [0, 1, 2]
    assert cut.matched is None
    assert set(cut.predict(X)) <= {0, 1, 2}
    assert cut.save(tmp_path / "cut").numbers.tolist() == [0, 1, 2]


def test_rows_in_no_cluster_stay_in_none(first):
    before, X, _ = first
    far = np.random.default_rng(1).uniform(-40, 40, (30, 3)).astype(np.float32)
    after = fit(np.concatenate([X, far]), 4, noise=True, seed=2, like=before)
    assert -1 in after.labels
    known = after.labels[: len(X)] >= 0
    np.testing.assert_array_equal(after.labels[: len(X)][known], before.labels[known])


@pytest.mark.parametrize(
    ("method", "options"),
    [("rim", {}), ("mspc", {}), ("mwca", {}), ("mic", {"t": (5,)}), ("kernel_rim", {}), ("3smic", {"t": (5,)})],
)
def test_fits_by_every_method_keep_numbers(method, options, first):
    before, _, truth = first
    X, clusters = rows_of([1, 2, 3, 4], 1)
    after = bigsmic.fit(X, 4, method=method, like=before, n_threads=1, **options)
    known, found = majority(before.labels, truth), majority(after.labels, clusters)
    assert {k: found[k] for k in (1, 2, 3)} == {k: known[k] for k in (1, 2, 3)}
    assert found[4] == 4
    np.testing.assert_array_equal(np.unique(after.labels), after.numbers)
    assert np.mean(after.predict(X) == after.labels) > 0.9
    assert after.posterior.shape == (600, 5)


@pytest.fixture(scope="module")
def wide():
    """Fewer rows than columns, of which no method but that for the span of the rows has matrices."""
    X, _ = make_blobs(80, 120, centers=3, random_state=0)
    return X


def test_fits_in_the_span_of_few_rows_keep_numbers(wide):
    before = bigsmic.fit(wide, 3, method="mspc", scale=None, n_threads=1)
    after = bigsmic.fit(wide[::-1], 3, method="mspc", scale=None, like=before, n_threads=1)
    np.testing.assert_array_equal(after.numbers, np.arange(3))
    assert np.mean(after.labels[::-1] == before.labels) > 0.9


def test_fits_that_kept_no_rows_are_not_compared(wide, monkeypatch):
    monkeypatch.setattr(scan, "SAMPLE_BYTES", 0)
    before = bigsmic.fit(wide, 3, method="mspc", scale=None, n_threads=1)
    with pytest.raises(InputError, match="kept none of its rows, which have 120 columns"):
        before.match(before)


def test_the_classifier_of_rim_has_the_numbers(first):
    before, _, _ = first
    X, _ = rows_of([1, 2, 3, 4], 1)
    after = bigsmic.fit(X, 4, method="rim", like=before)
    np.testing.assert_array_equal((X @ after.coef.T + after.intercept).argmax(axis=1), after.labels)
    for k in after.numbers:
        np.testing.assert_allclose(after.means[k], X[after.labels == k].mean(axis=0), atol=1e-3)
    np.testing.assert_allclose(after.marginal, np.asarray(after.posterior, np.float64).mean(axis=0), atol=1e-5)
    assert set(after.uncertain.label) | set(after.uncertain.other) <= set(after.numbers.tolist())
    assert after.diagnostics["cluster_sizes"] == np.bincount(after.labels, minlength=5).tolist()


def test_graphs_are_compared_by_row_number(first):
    before, X, _ = first
    graph = _affinities(X)
    one = bigsmic.fit(graph, 4, kernel="precomputed", n_threads=1)
    other = bigsmic.fit(graph, 4, kernel="precomputed", seed=4, n_threads=1, like=one)
    np.testing.assert_array_equal(other.labels, one.labels)
    with pytest.raises(InputError, match="graph of other rows"):
        before.match(one)


def _affinities(X):
    from scipy.sparse import csr_array
    from sklearn.neighbors import kneighbors_graph

    graph = kneighbors_graph(X, 10, mode="distance")
    graph.data = np.exp(-(graph.data**2))
    return csr_array(graph.maximum(graph.T))


def test_equal_rows_keep_numbers():
    X = np.repeat(np.eye(3), 20, axis=0)
    before = bigsmic.fit(X, 3)
    after = bigsmic.fit(X[::-1].copy(), 3, like=before)
    np.testing.assert_array_equal(after.labels, before.labels[::-1])
    np.testing.assert_array_equal(after.predict(X), before.labels)


def test_a_fit_that_finds_no_number_takes_none(first):
    before, _, _ = first
    X = np.random.default_rng(0).normal(size=(300, 3))
    after = fit(X, None, like=before)
    assert after.settings.undecided
    assert after.matched is None


# -- interrupted


class Killed(Exception):
    pass


def _count_runs(monkeypatch, module, name, error_at):
    calls, function = [], getattr(module, name)

    def once(*args, **options):
        calls.append(args)
        if len(calls) == error_at:
            raise Killed
        return function(*args, **options)

    monkeypatch.setattr(module, name, once)


@pytest.mark.parametrize(
    ("module", "name", "at"),
    [
        (counting, "_table", 1),
        (numbering, "begin", 2),
        (numbering.Numbering, "rows", 1),
        (numbering.Numbering, "rows", 2),
    ],
)
def test_a_fit_that_was_cut_short_anywhere_comes_to_the_same(first, second, tmp_path, module, name, at):
    (before, _, _), (after, X, _) = first, second
    with pytest.MonkeyPatch.context() as patch:
        _count_runs(patch, module, name, at)
        with pytest.raises(Killed):
            fit(X, 4, like=before, seed=3, out=tmp_path / "run")
    resumed = fit(X, 4, like=before, seed=3, out=tmp_path / "run")
    np.testing.assert_array_equal(resumed.labels, after.labels)
    np.testing.assert_array_equal(np.asarray(resumed.posterior), np.asarray(after.posterior))


def test_numbers_that_were_damaged_are_found_again(first, second, tmp_path):
    (before, _, _), (after, X, _) = first, second
    run = shutil.copytree(after.location, tmp_path / "run")
    (run / "numbering" / "0000000" / "numbers" / "c.0").write_bytes(b"\0" * 32)
    mended = fit(X, 4, like=before, seed=3, out=run)
    np.testing.assert_array_equal(mended.labels, after.labels)
    assert mended.matched == after.matched


def test_numbers_that_are_lost_are_missed(second, tmp_path):
    result, X, _ = second
    shutil.copytree(result.location, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / numbering.STAGE)
    lost = Result.open(tmp_path / "run")
    for ask in (lambda: lost.predict(X), lambda: lost.names, lambda: lost.numbers):
        with pytest.raises(CorruptBlockError, match=r"numbering: block 0 is not in the ledger of .*; run fit on"):
            ask()


def test_the_damage_of_the_earlier_run_is_not_looked_for_in_the_new_one(first, tmp_path):
    before, X, _ = first
    run = shutil.copytree(before.location, tmp_path / "before")
    (run / "labels" / "c" / "0").write_bytes(b"")
    with pytest.raises(RunError, match=r"like: .*before is damaged") as caught:
        fit(X, 4, like=run, seed=2, out=tmp_path / "run")
    assert type(caught.value) is RunError


def test_a_run_is_resumed_with_the_run_that_it_was_begun_with(first, second):
    (before, _, _), (after, X, _) = first, second
    with pytest.raises(RunMismatchError, match="like"):
        fit(X, 4, seed=3, out=after.location)
    with pytest.raises(RunMismatchError, match="like"):
        fit(X, 4, like=fit(X, 4), seed=3, out=after.location)
    assert fit(X, 4, like=before, seed=3, out=after.location).matched == after.matched


# -- refused


def test_what_cannot_be_compared_is_refused(first, tmp_path):
    before, X, _ = first
    with pytest.raises(InputError, match="run of 3 columns for a fit of 2"):
        fit(X[:, :2], 2, valleys=False, like=before)
    with pytest.raises(InputError, match="also the out= of this fit"):
        fit(X, 4, like=before.location, out=before.location)
    with pytest.raises(RunError, match="not a directory"):
        fit(X, 4, like=tmp_path / "nothing")
    with pytest.raises(InputError, match="together with labels="):
        bigsmic.fit(X, 4, method="rim", labels=np.full(len(X), -1) + (np.arange(len(X)) == 0), like=before)
    undecided = fit(np.random.default_rng(0).normal(size=(300, 3)), None)
    with pytest.raises(InputError, match="given no number of clusters"):
        before.match(undecided)


# -- match and names


def test_match_of_two_runs_says_which_cluster_is_which(first):
    before, X, truth = first
    after = fit(X, 4, seed=11)
    found = after.match(before)
    known, labels = majority(before.labels, truth), majority(after.labels, truth)
    assert found.continued == {labels[k]: known[k] for k in sorted(labels, key=labels.get)}
    assert min(found.overlap.values()) > 0.95
    assert after.match(before.location) == found
    assert before.match(before).sentence == "4 of 4 clusters continue."


def test_splits_and_merges_are_said(first):
    before, _, _ = first
    two = before.cut(2)
    assert sum(len(into) for into in before.match(two).splits.values()) >= 2
    merged = two.match(before)
    assert merged.merges
    assert "were merged into" in merged.sentence
    assert sorted([*merged.vanished, *merged.continued.values()]) == [0, 1, 2, 3]


def test_names_follow_their_clusters(first, second, tmp_path):
    (before, _, truth), (_, X, _) = first, second
    named = before.save(tmp_path / "named")
    known = majority(before.labels, truth)
    assert named.set_names({known[1]: "walking", known[0]: "resting"}) is named
    assert Result.open(named.location).names == dict(sorted({known[1]: "walking", known[0]: "resting"}.items()))
    after = fit(X, 4, like=named)
    assert after.names == named.names
    after.set_names({4: "stairs", known[0]: None})
    assert after.names == dict(sorted({known[1]: "walking", 4: "stairs"}.items()))
    assert named.save(tmp_path / "copy").names == named.names


def test_names_of_no_cluster_are_refused(second, tmp_path):
    named = second[0].save(tmp_path / "named")
    with pytest.raises(InputError, match="names: got a list; give a dict"):
        named.set_names(["walking"])
    (gone,) = set(range(5)) - set(named.numbers.tolist())
    for number in (gone, 5, -1):
        with pytest.raises(InputError, match="cluster: got"):
            named.set_names({number: "x"})
    for name in ("a\nb", 3, "x" * 201):
        with pytest.raises(InputError, match="text of one line"):
            named.set_names({4: name})
    assert named.names == {}


@pytest.mark.parametrize("cut_at", [0, 40, -1])
def test_names_that_are_torn_are_not_read_as_none(first, tmp_path, cut_at):
    before, X, _ = first
    run = before.save(tmp_path / "run").set_names({0: "resting"}).location
    entry = Path(run, "names", "0000000", "zarr.json")
    whole = entry.read_bytes()
    entry.write_bytes(whole[:cut_at])
    torn = Result.open(run)
    asked = (
        lambda: torn.names,
        lambda: torn.set_names({1: "walking"}),
        lambda: fit(X, 4, like=torn),
        lambda: torn.to_xarray(),
    )
    for ask in asked:
        with pytest.raises(
            RunError, match=r"names: names/0000000/zarr\.json in .*run is damaged.*; restore it, or delet"
        ):
            ask()
    entry.write_bytes(whole)
    assert torn.names == {0: "resting"}


def test_a_fit_that_strikes_torn_names_off_says_so(first, tmp_path):
    before, X, _ = first
    run = before.save(tmp_path / "run").set_names({0: "resting"}).location
    Path(run, "names", "0000000", "zarr.json").write_bytes(b"{")
    with pytest.warns(BigsmicWarning, match=r"names: those of clusters in .*run are damaged, and lost; name"):
        mended = fit(X, 4, out=run)
    assert mended.names == {}
    assert mended.set_names({1: "walking"}).names == {1: "walking"}


def test_stored_matches_are_read_as_they_were(second):
    assert numbers.stored(second[0]._context) == second[0].matched
