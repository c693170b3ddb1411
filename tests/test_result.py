"""What a Result tells: the same from memory and from disk, in this process and in another one."""

import json
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import reference
import zarr
from locations import environment
from scipy.cluster.hierarchy import is_valid_linkage
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from small_fits import FAST, cut_small

import bigsmic
from bigsmic.errors import BigsmicWarning, InputError, RunError
from bigsmic.numerics.labeling import consensus
from bigsmic.stages import selection, wider_columns
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


@pytest.mark.parametrize("c", [0, 1, 1000])
def test_cuts_out_of_range_are_refused(open_result, c):
    with pytest.raises(InputError, match=rf"cut: got {c} clusters; this fit has trees of .* columns"):
        open_result.cut(c)


def test_trees_are_scipy_s(open_result):
    assert is_valid_linkage(open_result.tree)
    assert open_result.tree_sizes[-1] == 700


@pytest.fixture(scope="module")
def uneven():
    """Four clusters that are well apart and of very different size."""
    centers, sizes = np.array([[0, 0], [9, 0], [0, 9], [9, 9]]), (1500, 250, 60, 40)
    return make_blobs(sizes, centers=centers, cluster_std=[1, 1, 0.5, 0.5], random_state=3)


@pytest.mark.filterwarnings("ignore:c. got 7, but the data show 4 groups")
@pytest.mark.parametrize("c", [4, None, 7])
def test_uneven_clusters_that_are_well_apart_are_not_cut_into_even_ones(uneven, c):
    X, y = uneven
    result = bigsmic.fit(X, c, scale=None, lsmi_rows=500, valleys=c != 4)  # which would tell the four
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
        return bigsmic.fit(uneven[0], scale=None, n_centers=40)


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
    assert valleys.sentence.startswith("The data show 4 groups that valleys part")
    assert valleys.sentence in repr(found)
    assert (valleys.pairs.z >= 4).all()
    assert valleys.curve.n_clusters.is_monotonic_increasing
    at = valleys.curve.set_index("n_clusters")
    assert at.weakest_z[4] >= 4 > at.weakest_z[5]
    assert at.stability[4] > 0.97
    assert valleys.best == 4


def test_a_found_number_is_found_again_in_the_run(uneven, found, tmp_path):
    X, _ = uneven
    options = {"scale": None, "n_centers": 40, "out": tmp_path / "run"}
    first = bigsmic.fit(X, **options)
    np.testing.assert_array_equal(first.labels, found.labels)
    again = bigsmic.fit(X, n_threads=1, **options)  # resumes
    opened = bigsmic.Result.open(tmp_path / "run")
    for other in (again, opened, pickle.loads(pickle.dumps(opened))):
        assert other.n_clusters == 4
        np.testing.assert_array_equal(other.labels, found.labels)
        np.testing.assert_array_equal(other.predict(X[:50]), found.predict(X[:50]))
    assert opened.cut(3).n_clusters == 3
    assert opened.valleys.sentence == found.valleys.sentence


@pytest.fixture(scope="module")
def many():
    """Fifty clusters that are well apart, of sixty rows each."""
    return make_blobs(3000, 6, centers=50, cluster_std=0.3, center_box=(-12, 12), random_state=5)


def test_more_columns_are_read_where_clusters_are_many(many, tmp_path, monkeypatch):
    X, y = many
    options = {"scale": None, "n_centers": 40, "t": 5, "shrinkage": 0}
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
    assert bigsmic.fit(uneven[0], c, scale=None, n_centers=40).n_clusters == n_clusters


@pytest.mark.parametrize("n", [400, 60])
def test_one_blob_has_no_number(n):
    result = bigsmic.fit(np.random.default_rng(2).normal(size=(n, 3)), n_centers=40)
    assert result.settings.undecided
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
    result = bigsmic.fit(np.concatenate([touching, crumbs]), scale=None, n_centers=40)
    assert result.settings.undecided
    assert "which is no single blob; 2 small ones are apart from it: give c" in result.valleys.sentence
    assert result.valleys.best > 2


def test_labelings_that_do_not_agree_are_no_answer(monkeypatch):
    draw = np.random.default_rng(1)
    X = draw.normal(0, 1.0, (30, 10))[draw.integers(0, 30, 2000)] + draw.normal(0, 0.35, (2000, 10))
    assert bigsmic.fit(X, scale=None, n_centers=40).valleys.agreement < 0.95
    monkeypatch.setattr(consensus, "AGREED", 0.95)
    result = bigsmic.fit(X, scale=None, n_centers=40)
    assert result.settings.undecided
    assert result.valleys.sentence.startswith("Labelings do not agree on the groups that valleys part: they show ")
    assert result.cut(result.valleys.best).n_clusters == result.valleys.best


def test_labels_that_no_valley_parts_are_mended():
    X, y = make_blobs(
        (3000, 150, 150, 150),
        2,
        centers=[[0, 0], [9, 0], [9, 4], [4, 9]],
        cluster_std=[1.5, 0.4, 0.4, 0.4],
        random_state=0,
    )
    result = bigsmic.fit(X, 4, scale=None, n_centers=40)
    assert adjusted_rand_score(y, result.labels) > 0.99
    assert (result.valleys.pairs.z >= 4).all()


@pytest.mark.parametrize(("c", "shown"), [(2, 4), (9, 4)])
def test_another_number_than_the_data_show_is_warned_of(uneven, c, shown):
    with pytest.warns(BigsmicWarning, match=f"got {c}, but the data show {shown} groups that valleys part"):
        result = bigsmic.fit(uneven[0], c, scale=None, n_centers=40)
    assert f"{c} clusters were asked for" in result.valleys.sentence
    assert result.n_clusters == c


def test_moons_are_told_apart_though_two_eigenvectors_do_not():
    """The graph shows two parts, but columns that are merged follow them better than the first two eigenvectors."""
    X, y = make_moons(1000, noise=0.1, random_state=1)
    result = bigsmic.fit(X, 2, scale=None, lsmi_rows=500)
    assert adjusted_rand_score(y, result.labels) > 0.95
    np.testing.assert_array_equal(result.cut(2).labels, result.labels)


def test_parts_that_overlap_do_not_hide_that_others_are_clear():
    """Four parts, one of which is two clusters: rows move as where all five are clear, and large ones stay whole."""
    centers, sizes = np.zeros((5, 4)), (1500, 250, 60, 60, 60)
    centers[:, :2] = [0, 0], [12, 0], [0, 12], [12, 12], [12, 16.5]
    X, y = make_blobs(sizes, centers=centers, cluster_std=[1, 1, 0.5, 1, 1], random_state=3)
    result = bigsmic.fit(X, 5, scale=None, lsmi_rows=500)
    assert adjusted_rand_score(y, result.labels) > 0.97


def test_as_many_clusters_come_out_as_are_asked_for():
    """A cut of the consensus into c has classes that few labelings know, and that win no row."""
    settings = SimpleNamespace(n_clusters=4)
    context = SimpleNamespace(settings=settings, blocks=[0, 1], cached=lambda key, make: [list(range(6))])
    edges, rows = (52, 56, 60, 64, 68), np.arange(120)
    labels = [np.select([rows < 40, rows < 80, rows < edge + 40], [0, 1, 2], 3) for edge in edges]
    labels = np.stack([*labels, np.where(rows % 2, 3, rows // 40)], axis=1)  # the last one has a label across all
    of = [4] * 6
    tree = consensus.consensus_tree(consensus.label_gram(labels, of), of)
    assert (consensus.rows_won(consensus.vote(labels, of, tree.cut(4), 4)) == 0).any()

    def total(stage, blocks, task):
        return sum(task(context, p) for p in blocks)

    def of_block(context, p, numbers):
        return labels[60 * p : 60 * p + 60][:, list(numbers)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "all_labels", of_block)
        (classes,) = selection._cut_full(SimpleNamespace(context=context, sum_blocks=total), [tree], of)
    assert (consensus.rows_won(consensus.vote(labels, of, classes, 4)) > 0).all()
