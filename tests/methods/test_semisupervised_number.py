"""3SMIC without a number of clusters: it is found from valleys and links, with its evidence, or refused."""

import html
import json
import pickle

import numpy as np
import pytest
import zarr
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from small_fits import cut_small
from typer.testing import CliRunner

import bigsmic
from bigsmic import SemiSupervisedSMIC
from bigsmic.cli import main
from bigsmic.errors import ConvergenceWarning, InputError, PlanError, RunMismatchError
from bigsmic.stages import labelings, link_propagation, link_scores, number, valleys, wider_columns

CENTERS = [[0, 0, 0], [2.3, 0, 0], [14, 0, 0], [0, 14, 0]]
"""Of four classes; no valley is between the first two, and deep ones are around the others."""


@pytest.fixture(scope="module")
def classes():
    X, y = make_blobs(800, centers=CENTERS, cluster_std=1.0, random_state=0)
    return X.astype(np.float32), y


def fit(X, c=None, **options):
    return bigsmic.fit(X, c, method="3smic", **{"t": 5, "n_centers": 40, "n_threads": 1, "scale": None} | options)


def links_of(y, m, seed=0):
    """Must-links and cannot-links between pairs drawn at random."""
    pairs = np.random.default_rng(seed).integers(0, len(y), (m, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return {"must_links": pairs[same], "cannot_links": pairs[~same]}


@pytest.fixture(scope="module")
def found(classes):
    X, y = classes
    return fit(X, **links_of(y, 800))


def test_without_links_it_is_the_number_that_valleys_show(classes):
    result = fit(classes[0])
    assert result.n_clusters == bigsmic.fit(classes[0], t=5, scale=None, n_threads=1).n_clusters == 3
    assert result.valleys.unlinked is None
    assert result.valleys.sentence.startswith("The data show 3 groups that valleys separate")


def test_cannot_links_separate_what_no_valley_separates(found, classes):
    X, y = classes
    assert (found.n_clusters, found.valleys.unlinked, found.valleys.forced) == (4, 3, False)
    assert adjusted_rand_score(y, found.labels) > 0.8
    assert found.valleys.clear
    assert found.valleys.sentence.startswith("The data show 4 groups that valleys and links separate from each other (")
    assert "; without links they would show 3" in found.valleys.sentence
    assert found.valleys.sentence in repr(found)
    weakest = found.valleys.pairs.iloc[0]
    assert set(y[np.isin(found.labels, [weakest.cluster, weakest.neighbor])]) == {0, 1}
    assert found.clusters.valley_z.min() == weakest.z < 4
    assert found.n_violated < 0.1 * found.n_links
    assert adjusted_rand_score(found.labels, found.predict(X)) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_must_links_join_what_a_valley_parts(seed):
    X, y = make_blobs(800, centers=CENTERS, cluster_std=1.0, random_state=seed)
    joined = np.array([0, 0, 1, 1])[y]  # the two apart from all others are one
    assert fit(X).n_clusters == 3
    result = fit(X, **links_of(joined, 800, seed))
    assert result.n_clusters == 2
    assert adjusted_rand_score(joined, result.labels) > 0.99


def test_no_fewer_clusters_than_links_allow(classes):
    X, y = classes
    rows = np.concatenate([np.flatnonzero(y == 2)[:3], np.flatnonzero(y == 3)[:3]])
    pairs = np.array([[i, j] for i in rows for j in rows if i < j])
    result = fit(X, cannot_links=pairs)
    assert result.n_clusters == result.valleys.n_clusters == 6
    assert result.valleys.forced
    assert result.valleys.sentence == (
        "The links need at least 6 clusters, more than the groups that valleys and links separate."
    )


@pytest.mark.parametrize(("c", "n_clusters"), [(range(2, 4), 3), (range(5, 8), 5), (range(2, 9), 4)])
def test_a_range_limits_the_number(classes, c, n_clusters):
    X, y = classes
    links = links_of(y, 800)
    if max(c) < 4:
        links["cannot_links"] = links["cannot_links"][:9]
    assert fit(X, c, **links).n_clusters == n_clusters


def test_known_labels_are_links(classes):
    X, y = classes
    labels = np.where(np.arange(len(y)) % 9, -1, y)
    assert fit(X, labels=labels).n_clusters == 4


@pytest.mark.parametrize("options", [{}, {"c": (2, 9)}, {"c": (2, 3)}])
def test_there_are_no_more_clusters_than_links_leave_groups(classes, options):
    X, y = classes[0][:240], classes[1][:240]
    labels = np.minimum(y, 1) if options.get("c") == (2, 3) else y  # of all rows: the graph has no other edges
    found = fit(X, labels=labels, **options)
    assert (found.n_clusters, found.n_violated) == (labels.max() + 1, 0)


@pytest.mark.parametrize("valleys", [True, False])
def test_a_range_is_refused_if_links_leave_fewer_groups_than_its_least(classes, valleys):
    X, y = classes[0][:240], classes[1][:240]
    with pytest.raises(InputError, match=r"must_links: got 5 clusters, but links .* join the rows to at most 4 groups"):
        fit(X, (5, 9), labels=y, valleys=valleys)
    assert fit(X, (2, 9), labels=y, valleys=False).cut(4).n_violated == 0


def test_a_cut_at_the_number_is_the_result_and_others_can_be_had(found):
    np.testing.assert_array_equal(found.cut(4).labels, found.labels)
    cut = found.cut(3)
    assert cut.n_clusters == len(np.unique(cut.labels)) == 3
    assert cut.valleys is None
    assert cut.predict(np.zeros((2, 3), "f4")).shape == (2,)
    assert cut.n_violated > found.n_violated
    with pytest.raises(InputError, match="cut: got 99 clusters, but this fit allows 2 to 31"):
        found.cut(99)
    with pytest.raises(InputError, match="curve: the fit found its number of clusters"):
        _ = found.curve


def test_a_run_of_an_open_number_need_only_be_cut(classes, tmp_path):
    links = links_of(classes[1], 400)
    fit(classes[0], out=tmp_path / "run", **links)
    with pytest.raises(RunMismatchError, match=r"needs no other fit for 3 of them: .*Result.open\(..\).cut\(3\)"):
        fit(classes[0], 3, out=tmp_path / "run", **links)


def test_the_evidence_travels_and_is_reported(found, tmp_path):
    sentence = found.valleys.sentence
    assert pickle.loads(pickle.dumps(found)).valleys.sentence == sentence
    found.report(tmp_path / "report.html")
    assert html.escape(sentence) in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_one_blob_has_a_curve_and_no_labels():
    X = np.random.default_rng(2).normal(size=(400, 3)).astype("f4")
    links = links_of(np.repeat([0, 1], 200), 3)
    result = fit(X, **links)
    assert result.settings.undecided
    assert result.valleys.sentence.startswith("The data show no valleys: give c.")
    assert result.curve.index.tolist() == list(range(2, 31))
    with pytest.raises(InputError, match=r"found no valleys .*; valleys\.best, \d+, is a hint, cut\(c\) gives"):
        np.asarray(result.labels)
    np.testing.assert_array_equal(result.cut(3).labels, fit(X, valleys=False, **links).cut(3).labels)


def test_an_estimator_has_one_cluster_where_there_are_no_valleys():
    X = np.random.default_rng(2).normal(size=(400, 3))
    estimator = SemiSupervisedSMIC(None, t=5, n_centers=40, random_state=0)
    with pytest.warns(ConvergenceWarning, match="n_clusters: one cluster has all rows. The data show no valleys"):
        estimator.fit(X, must_links=[[0, 1]])
    assert estimator.n_clusters_ == 1
    assert not estimator.labels_.any()
    assert estimator.predict(X[:3]).tolist() == [0, 0, 0]


def test_an_estimator_finds_the_number(classes, found):
    X, y = classes
    estimator = SemiSupervisedSMIC(None, t=5, n_centers=40, scale=None, random_state=0).fit(X, **links_of(y, 800))
    assert estimator.n_clusters_ == 4
    np.testing.assert_array_equal(estimator.labels_, found.labels)


KILLS = {
    "labelings": (labelings, "run"),
    "valleys": (number, "count"),
    "scores": (link_scores, "run"),
    "propagation": (link_propagation, "run"),
}


@pytest.fixture(scope="module")
def of_blocks(classes):
    """A fit of many blocks that nothing has disturbed."""
    X, y = classes
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return fit(X, **links_of(y, 800))


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("name", KILLS)
def test_what_was_killed_goes_on(classes, of_blocks, tmp_path, monkeypatch, name):
    X, y = classes
    links, expected = links_of(y, 800), of_blocks
    with monkeypatch.context() as patch:
        patch.setattr(*KILLS[name], lambda job: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(X, out=tmp_path / "run", **links)
    resumed = fit(X, out=tmp_path / "run", **links)
    opened = bigsmic.Result.open(tmp_path / "run")
    for other in (resumed, opened):
        np.testing.assert_array_equal(other.labels, expected.labels)
        assert other.valleys.sentence == expected.valleys.sentence
        assert other.settings == expected.settings


def test_more_columns_are_read_where_clusters_are_many(tmp_path, monkeypatch):
    X, y = make_blobs(3000, 6, centers=50, cluster_std=0.3, center_box=(-12, 12), random_state=5)
    links = links_of(y, 30)
    options = links | {"gamma": 0.0}
    with monkeypatch.context() as patch:
        patch.setattr(wider_columns, "_delete_narrow", lambda context: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(X, out=tmp_path / "run", **options)
    result = fit(X, out=tmp_path / "run", **options)
    assert result.n_clusters == 50
    assert adjusted_rand_score(y, result.labels) > 0.99
    assert bigsmic.Result.open(tmp_path / "run").settings.columns_read == 120
    assert result.cut(20).n_clusters == 20


def test_the_command_line_finds_the_number(classes, found, tmp_path):
    X, y = classes
    zarr.create_array(str(tmp_path / "X.zarr"), data=X)
    for name, pairs in links_of(y, 800).items():
        np.save(tmp_path / f"{name}.npy", pairs)
    arguments = ["fit", tmp_path / "X.zarr", "--method", "3smic", "--out", tmp_path / "run", "--t", "5", "--json"]
    arguments += ["--must-links", tmp_path / "must_links.npy", "--cannot-links", tmp_path / "cannot_links.npy"]
    arguments += ["--n-centers", "40", "--threads", "1", "--scale", "none"]
    answer = CliRunner().invoke(main.app, [str(argument) for argument in arguments])
    assert answer.exit_code == 0, answer.output
    document = json.loads(answer.stdout)
    assert document["n_clusters"] == 4
    facts = {name: document["valleys"][name] for name in ("unlinked", "forced", "parts", "agreement")}
    assert facts == {"unlinked": 3, "forced": False, "parts": None, "agreement": found.valleys.agreement}
    np.testing.assert_array_equal(bigsmic.Result.open(tmp_path / "run").labels, found.labels)


def test_a_plan_has_room_for_finding_the_number_and_for_labels(classes):
    X, _ = classes
    options = {"method": "3smic", "n_rows": 10**6, "n_threads": 2}
    whole, known = bigsmic.plan(X, **options), bigsmic.plan(X, 30, **options)
    assert "valleys" in whole.stages
    assert "valleys" not in known.stages
    for stage in ("eigen", "assign", "select", "output"):
        assert whole.stages[stage].task_bytes >= 0.5 * known.stages[stage].task_bytes
    least = known.peak_bytes // 20
    with pytest.raises(PlanError, match="set memory_limit to at least"):
        bigsmic.plan(X, memory_limit=least, **options)
    assert whole.peak_bytes <= whole.memory_limit


@pytest.mark.parametrize("method", ["3smic", "smic"])
def test_components_of_the_rows_are_deleted_at_the_end(method, classes, tmp_path):
    """They are read only while the number is found, and may be as large as the rows."""
    bigsmic.fit(classes[0], None, method=method, t=5, n_centers=40, out=tmp_path / "run")
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert "rows" in left
    assert not left & set(valleys.TEMPORARY)
