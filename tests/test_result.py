"""What a Result tells: the same from memory and from disk, in this process and in another one."""

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import reference
import zarr
from locations import environment
from scipy.cluster.hierarchy import is_valid_linkage
from sklearn.metrics import adjusted_rand_score
from small_fits import FAST, cut_small

import bigsmic
from bigsmic.errors import AbsentResultError, CorruptBlockError, InputError, RunError, RunMismatchError
from bigsmic.numerics.labeling import consensus
from bigsmic.stages import consensus as consensus_stage
from bigsmic.store import CheckedArray

pytestmark = pytest.mark.usefixtures("many_blocks")

READINGS = {
    "consensus": {},
    "medoid": {"selection": "medoid"},
    "auto": {"assignment": "auto"},
    "prior": {"prior": [0.4, 0.3, 0.2, 0.1]},
    "preset": {"preset": "paper"},
}


@pytest.fixture(scope="module", params=READINGS)
def result(request, blobs, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(blobs[0], 4, out=tmp_path_factory.mktemp("run") / "run", **FAST | READINGS[request.param])


def test_labels_and_posteriors(result):
    posterior = np.asarray(result.posterior)
    assert (result.labels.dtype, result.labels.shape) == (np.int32, (700,))
    assert (posterior.dtype, posterior.shape) == (np.float32, (700, 4))
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-5)
    assert posterior.min() >= 0
    off = np.mean(result.labels != posterior.argmax(axis=1))
    assert result.diagnostics["output"]["label_off_argmax_share"] == pytest.approx(off)
    assert off < 0.1
    assert result.diagnostics["output"]["cluster_sizes"] == np.bincount(result.labels, minlength=4).tolist()


def test_posteriors_are_lazy(result):
    assert isinstance(result.posterior, CheckedArray)
    np.testing.assert_array_equal(result.posterior[100:110], np.asarray(result.posterior)[100:110])


def test_agreement_is_a_share_of_the_labelings(result):
    agreement, chosen = result.agreement, int(result.scores.chosen.sum())
    assert agreement.shape == (700,)
    assert agreement.min() > 0
    assert agreement.max() == 1
    np.testing.assert_allclose(agreement * chosen, np.round(agreement * chosen), atol=1e-5)


def test_every_candidate_has_its_row(result):
    scores = result.scores
    assert isinstance(scores, pd.DataFrame)
    columns = {
        "kernel",
        "assignment",
        "t",
        "shrinkage",
        "columns",
        "lsmi",
        "gamma",
        "delta",
        "cv",
        "median_ari",
        "chosen",
    }
    assert columns <= set(scores.columns)
    settings = result.settings
    assert set(scores.t) == set(settings.t)
    assert set(scores.kernel) == set(settings.kernels)
    by_valleys = {"valleys"} if settings.reads_valleys else set()
    assert set(scores.assignment) == {*settings.assignments, *by_valleys}
    assert scores.median_ari.between(-1, 1).all()
    assert not scores.duplicated(["kernel", "assignment", "t", "shrinkage", "columns"]).any()
    if settings.selection == "lsmi":
        assert scores.chosen.tolist() == (scores.index == scores.lsmi.idxmax()).tolist()


def test_lsmi_of_all_labelings_is_there_where_it_chooses_and_on_request(result):
    found = result.lsmi(max_rows=300)
    assert found.shape == (len(result.scores),)
    assert np.isfinite(found).all()
    scores = result.scores
    if result.settings.selection == "lsmi":
        assert scores.lsmi.notna().all()
        assert "consensus" not in result.diagnostics["lsmi"]
    elif scores.chosen.sum() > 1:
        assert scores.lsmi.notna().sum() == 1
        assert 0 < scores.lsmi.max() < len(result.sizes) / 2
        assert 0 < result.diagnostics["lsmi"]["consensus"] < len(result.sizes) / 2


def test_lsmi_needs_two_rows(result):
    with pytest.raises(InputError, match="max_rows: got 1"):
        result.lsmi(max_rows=1)


def test_diagnostics_are_json_and_complete(result):
    found = json.loads(json.dumps(result.diagnostics))
    assert found == result.diagnostics
    assert (found["rows"], found["columns"], found["constant_columns"]) == (700, 5, [])
    stages = ["scan", "route", "neighbors", "graph", "eigen", "assign", "select", "output"]
    assert set(found["stages"]) == {*stages, *(["valleys"] if result.settings.reads_valleys else [])}
    for stage in found["stages"].values():
        assert stage["wall"] >= 0
        assert stage["cpu"] >= 0
        assert stage["peak_bytes"] > 50 << 20
    assert found["neighbors"]["recall"] == 1
    assert 0 <= found["neighbors"]["in_degree_zero"] < 1
    assert set(found["components"]) == {str(t) for t in result.settings.t}
    eigenproblems = {(solve["kernel"], solve["t"]) for solve in found["eigen"]}
    assert eigenproblems == {(kernel, t) for kernel in result.settings.kernels for t in result.settings.t}
    for solve in found["eigen"]:
        assert solve["converged"]
        assert (np.diff(solve["ritz_values"]) <= 1e-9).all()


def test_hubness_is_counted_over_all_blocks(result, blobs):
    squares = reference.sq_distances(*[reference.standardised(blobs[0])] * 2)
    np.fill_diagonal(squares, np.inf)
    degree = np.bincount(squares.argsort(axis=1)[:, :10].ravel(), minlength=700)
    skewness = np.mean((degree - degree.mean()) ** 3) / degree.std() ** 3
    found = result.diagnostics["neighbors"]
    assert found["in_degree_zero"] == pytest.approx(np.mean(degree == 0), abs=2e-3)
    assert found["in_degree_skewness"] == pytest.approx(skewness, abs=0.02)


def test_repr_says_what_was_found(result):
    text, page = repr(result), result._repr_html_()
    sizes = ", ".join(f"{size}" for size in sorted(np.bincount(result.labels, minlength=4), reverse=True))
    assert text.startswith("Result of 700 rows x 5 columns, 4 clusters")
    assert sizes in text
    assert result.location in text
    assert ("consensus  of" in text) == (result.scores.chosen.sum() > 1)
    for part in (sizes, result.location, "<table>", "Result of 700 rows"):
        assert part in page
    assert page.count("<tr>") == page.count("</tr>") == len(text.splitlines()) - 1


def test_one_cluster_and_one_column_are_singular():
    result = bigsmic.fit(np.arange(700, dtype=np.float32)[:, None], 1)
    assert repr(result).startswith("Result of 700 rows x 1 column, 1 cluster\n")


@pytest.mark.parametrize("result", ["consensus", "auto"], indirect=True)
def test_a_fresh_process_opens_the_same(result, blobs, tmp_path):
    np.save(tmp_path / "X.npy", blobs[0][:50])
    code = (
        "import sys, numpy as np, bigsmic;"
        "r = bigsmic.Result.open(sys.argv[1]); X = np.load(sys.argv[2] + '/X.npy');"
        "np.savez(sys.argv[2] + '/found.npz', labels=r.labels, posterior=r.posterior[...], new=r.predict_proba(X));"
        "print(repr(r))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, result.location, tmp_path], capture_output=True, env=environment()
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == repr(result)
    found = np.load(tmp_path / "found.npz")
    np.testing.assert_array_equal(found["labels"], result.labels)
    np.testing.assert_array_equal(found["posterior"], np.asarray(result.posterior))
    np.testing.assert_array_equal(found["new"], result.predict_proba(blobs[0][:50]))


def test_the_run_is_plain_zarr(result):
    group = zarr.open_group(result.location, mode="r")
    np.testing.assert_array_equal(group["labels"][...], result.labels)
    np.testing.assert_array_equal(group["posterior"][...], np.asarray(result.posterior))


@pytest.mark.parametrize("there", [False, True])
def test_what_is_no_run_is_refused(tmp_path, there):
    if there:
        zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    with pytest.raises(RunError, match=r"is not a (directory|bigsmic run); give the out= of a"):
        bigsmic.Result.open(tmp_path / "a.zarr")


def test_storage_options_that_are_no_dict_are_refused_without_their_value(tmp_path):
    with pytest.raises(InputError, match=r"^storage_options: got a value of type str; give a dict"):
        bigsmic.Result.open(tmp_path / "a.zarr", storage_options="secret")


# -- other numbers of clusters


@pytest.fixture(scope="module")
def open_result(blobs):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(blobs[0], range(2, 7), valleys=False, **FAST)


def test_an_open_number_of_clusters_is_not_chosen(open_result, blobs):
    assert "not yet cut" in repr(open_result)
    assert "<table>" in open_result._repr_html_()
    for ask in (lambda: open_result.labels, lambda: open_result.posterior, lambda: open_result.agreement):
        with pytest.raises(InputError, match=r"and chose none; stability is a hint, cut\(c\) gives"):
            ask()
    assert open_result.stability.index[0] == 2
    assert open_result.stability.between(-0.5, 1).all()


def test_cuts_have_labels_of_their_own(open_result, blobs):
    for c in (2, 4, 6):
        cut = open_result.cut(c)
        posterior = np.asarray(cut.posterior)
        assert set(cut.labels) == set(range(c))
        assert posterior.shape == (700, c)
        np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-5)
        assert np.mean(cut.predict(blobs[0]) == cut.labels) > 0.9
    assert adjusted_rand_score(blobs[1], open_result.cut(4).labels) > 0.9


def test_a_cut_at_the_number_of_the_fit_is_the_fit(blobs):
    result = bigsmic.fit(blobs[0], 4, **FAST)
    cut = result.cut(4)
    np.testing.assert_array_equal(cut.labels, result.labels)
    np.testing.assert_array_equal(np.asarray(cut.posterior), np.asarray(result.posterior))


def test_a_cut_misses_the_evidence_that_is_lost(blobs, tmp_path):
    """Without it, the cut would be another one."""
    bigsmic.fit(blobs[0], out=tmp_path / "run", t=(3, 5), n_centers=40, n_threads=1)
    shutil.rmtree(tmp_path / "run" / "number")
    lost = bigsmic.Result.open(tmp_path / "run")
    for ask in (lambda: lost.cut(2), lambda: lost.valleys):
        with pytest.raises(CorruptBlockError, match=r"number: block 0 is not in the ledger of .*; run fit on it again"):
            ask()


@pytest.mark.parametrize("c", [0, 1, 1000])
def test_cuts_out_of_range_are_refused(open_result, c):
    with pytest.raises(InputError, match=rf"cut: got {c} clusters, but this fit has trees of .* columns"):
        open_result.cut(c)


def test_a_cut_of_a_fit_without_trees_says_what_to_do(blobs):
    with pytest.raises(
        InputError, match=r"cut: got 3 clusters, but this fit has no over-segmented labeling to cut; fit"
    ):
        bigsmic.fit(blobs[0][:3], 2, n_threads=1).cut(3)


@pytest.mark.parametrize("n_distinct", [6, 12, 20])
@pytest.mark.parametrize("opened", [False, True])
def test_an_open_fit_of_few_distinct_rows_can_be_cut(tmp_path, n_distinct, opened):
    """It begins with fewer columns than as many rows that differ, and its cuts read as many as it has."""
    rows = np.repeat(np.random.default_rng(0).normal(size=(n_distinct, 10)), 20, axis=0)
    result = bigsmic.fit(rows, out=tmp_path / "run.zarr", **FAST)
    result = bigsmic.Result.open(tmp_path / "run.zarr") if opened else result
    assert result.settings.undecided
    assert result.stability.index[0] == 2
    assert is_valid_linkage(result.tree)
    for c in {2, int(result.stability.index[-1])}:
        cut = result.cut(c)
        assert set(cut.labels) <= set(range(c))
        assert (cut.labels.reshape(-1, 20) == cut.labels[::20, None]).all()


def test_an_open_fit_of_few_rows_says_to_fit_again():
    result = bigsmic.fit(np.random.default_rng(0).normal(size=(5, 3)), n_threads=1)
    assert "has no labelings to cut, as it has few rows: fit again with a number" in repr(result)
    with pytest.raises(AbsentResultError, match="no over-segmented labeling"):
        _ = result.stability
    with pytest.raises(InputError, match="labels: the fit was given no number of clusters and has no labelings to cut"):
        _ = result.labels


@pytest.mark.parametrize("c", [2.5, None, "3", True])
def test_cuts_into_what_is_no_integer_are_refused(open_result, c):
    with pytest.raises(InputError, match=f"cut: got {c!r}; use an integer"):
        open_result.cut(c)


def test_a_fit_with_a_uniform_prior_can_be_cut(blobs):
    result = bigsmic.fit(blobs[0], 4, prior=[0.25] * 4, **FAST)
    assert len(result.stability) > 1
    assert result.cut(3).posterior.shape == (len(blobs[0]), 3)


@pytest.mark.parametrize("c", [2, 3, None])
def test_a_saved_cut_is_named_where_a_fit_is_asked_for(blobs, tmp_path, c):
    X, _ = blobs
    fit = partial(bigsmic.fit, X, **FAST)
    saved = fit(c=3).cut(3).save(tmp_path / "three") if c == 3 else fit().cut(2).save(tmp_path / "two")
    before = {path: path.read_bytes() for path in Path(saved.location).rglob("*") if path.is_file()}
    words = rf"run: .* is a saved cut at {saved.n_clusters} clusters, which no fit resumes or overwrites; read it by"
    with pytest.raises(RunMismatchError, match=words):
        fit(c=c, out=saved.location)
    kept = {path: path.read_bytes() for path in Path(saved.location).rglob("*") if path.is_file()}
    assert kept == before


def test_a_cut_at_the_number_that_was_given_keeps_the_prior(blobs):
    result = bigsmic.fit(blobs[0], 4, prior=[0.4, 0.3, 0.2, 0.1], n_threads=1)
    same = result.cut(4)
    np.testing.assert_array_equal(same.labels, result.labels)
    np.testing.assert_array_equal(same.posterior, result.posterior)
    with pytest.raises(InputError, match="this fit has no over-segmented labeling to cut"):
        result.cut(3)


def test_trees_are_scipy_s(open_result):
    assert is_valid_linkage(open_result.tree)
    assert open_result.tree_sizes[-1] == 700


def test_as_many_clusters_come_out_as_are_asked_for():
    """A cut of the consensus into c has classes that few labelings know, and that win no row."""
    settings, specs = SimpleNamespace(n_clusters=4, propagates=False), SimpleNamespace(sets=[list(range(6))])
    context = SimpleNamespace(settings=settings, blocks=[0, 1], cached=lambda key, make: specs)
    edges, rows = (52, 56, 60, 64, 68), np.arange(120)
    labels = [np.select([rows < 40, rows < 80, rows < edge + 40], [0, 1, 2], 3) for edge in edges]
    labels = np.stack([*labels, np.where(rows % 2, 3, rows // 40)], axis=1)  # the last one has a label across all
    of = [4] * 6
    tree = consensus.consensus_tree(consensus.label_gram(labels, of), of)
    assert (consensus.rows_won(labels, of, tree.cut(4), 4)[0] == 0).any()

    def total(stage, blocks, task):
        return sum(task(context, p) for p in blocks)

    def of_block(context, p, numbers):
        return labels[60 * p : 60 * p + 60][:, list(numbers)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consensus_stage, "all_labels", of_block)
        (classes,), (tied,) = consensus_stage._cut_full(SimpleNamespace(context=context, sum_blocks=total), [tree], of)
    won, alone = consensus.rows_won(labels, of, classes, 4)
    assert (won > 0).all()
    assert tied == np.flatnonzero(alone == 0).tolist()


class CutsByWinners:
    """A tree over 40 labels, of which rows have the first 20: of ``cut(k)``, `n_winners` of k classes win rows."""

    columns = np.arange(40)

    def __init__(self, n_winners):
        self.n_winners = n_winners

    def cut(self, k):
        m = self.n_winners.get(k, k)
        return np.concatenate(
            [np.minimum(np.arange(20), m - 1), m + np.arange(20) % max(k - m, 1) if k > m else [0] * 20]
        )


@pytest.mark.parametrize(
    ("n_winners", "coarsest"),
    [({17: 15, 18: 15, 19: 17, 20: 18}, 19), ({17: 16, 18: 18, 19: 18, 20: 17}, 20), ({}, 17)],
)
def test_no_cut_is_passed_over(n_winners, coarsest):
    settings, specs = SimpleNamespace(n_clusters=17, propagates=False), SimpleNamespace(sets=[[0]])
    context = SimpleNamespace(settings=settings, blocks=[0], cached=lambda key, make: specs)
    tree = CutsByWinners(n_winners)

    def total(stage, blocks, task):
        return sum(task(context, p) for p in blocks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consensus_stage, "all_labels", lambda context, p, numbers: np.arange(20)[:, None])
        (classes,), _ = consensus_stage._cut_full(SimpleNamespace(context=context, sum_blocks=total), [tree], [40])
    np.testing.assert_array_equal(classes[:20], tree.cut(coarsest)[:20])


@pytest.mark.parametrize(("c", "fewer"), [(10, 3), (64, 20), (65, 20), (500, 90), (500, 700)])
def test_a_cut_is_found_in_few_passes(c, fewer):
    """Of a cut into k, k - fewer classes win rows, and at most 64 and a few more of them are looked at for c more."""
    numbers, tried, passes = range(c, c + 1), [], 0
    while numbers:
        tried += numbers
        passes += 1
        numbers = consensus_stage._finer(numbers, [k - fewer for k in numbers], c, 2 * c)
    assert (c + fewer in tried) == (fewer <= c)
    assert len(tried) <= 1 + 64 + c // 64 + 8
    assert passes <= 10


def test_one_labeling_votes_alone_where_no_cut_has_enough_winners():
    ari = np.array([[1.0, 0.9, 0.9, 0.1], [0.9, 1.0, 0.2, 0.2], [0.9, 0.2, 1.0, 0.3], [0.1, 0.2, 0.3, 1.0]])
    found = np.array([0, 1, 0, 1, 0, 1, 1])
    classes = consensus_stage._of_one([0, 2, 3], [2, 3, 3, 2], ari, 3, found)
    np.testing.assert_array_equal(classes, [-1, -1, 0, 1, 2, -1, -1])
    assert consensus_stage._of_one([0, 3], [2, 3, 3, 2], ari, 3, found) is found
