"""Novelty: known among the fitted rows, large far from them, and what posteriors make of it."""

import pickle

import numpy as np
import pytest
import zarr
from sklearn.datasets import make_blobs
from sklearn.neighbors import kneighbors_graph
from small_fits import BRIEF

import bigsmic
from bigsmic.errors import AbsentResultError, OptionError
from bigsmic.numerics.labeling import novelty
from bigsmic.prediction import model_of
from bigsmic.stages import scan

METHODS = {
    "smic": BRIEF,
    "noise": {**BRIEF, "noise": True},
    "mic": {"method": "mic", "n_threads": 1},
    "rim": {"method": "rim", "n_threads": 1},
    "kernel_rim": {"method": "kernel_rim", "n_threads": 1},
    "mspc": {"method": "mspc", "n_threads": 1},
    "mwca": {"method": "mwca", "n_threads": 1},
    "dense mwca": {"method": "mwca", "kernel": "dense", "n_threads": 1},
    "3smic": {"method": "3smic", "must_links": [[0, 4]], "t": (3,), "gamma": 1.0, "n_centers": 40, "n_threads": 1},
}


@pytest.fixture(scope="module")
def rows():
    """Three clusters that can be told apart, and rows that were drawn like them."""
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0, 0, 0], [9, 0, 0, 0], [0, 9, 9, 0]])
    y = rng.integers(0, 3, 1500)
    X = (centers[y] + rng.normal(size=(1500, 4))).astype(np.float32)
    return X[:1000], X[1000:]


@pytest.fixture(scope="module")
def results(rows):
    found = {}

    def of(name):
        if name not in found:
            found[name] = bigsmic.fit(rows[0], 3, **METHODS[name])
        return found[name]

    return of


@pytest.mark.parametrize("name", METHODS)
def test_rows_far_from_everything_are_novel_and_unsure(results, rows, name):
    result, (_, new) = results(name), rows
    far = np.array([[60, 0, 0, 0], [-40, -40, 30, 0], [0, 0, 0, 500]], np.float32)
    usual = result.novelty(new)
    assert 0 < (usual > 1).mean() < 0.05
    assert (result.novelty(far) > 5).all()
    posterior = result.predict_proba(far)
    assert (posterior.max(axis=1) < 1 / 3 + 0.1).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_rows_like_the_fitted_ones_keep_their_posteriors_to_the_bit(results, rows, name):
    result, (_, new) = results(name), rows
    plain, labels = model_of(result._context)(result.scaled(new))
    usual = result.novelty(new) <= result._run.info("novelty", 0)["trusted"]
    assert usual.mean() > 0.98
    found = result.predict_proba(new)
    np.testing.assert_array_equal(found[usual], plain[usual])
    assert (found[~usual].max(axis=1) < plain[~usual].max(axis=1)).all()
    if name in ("rim", "kernel_rim", "mspc"):  # rows are labelled each by itself
        np.testing.assert_allclose(result.predict_proba(rows[0]), np.asarray(result.posterior), atol=1e-6)
    np.testing.assert_array_equal(result.predict(new), labels)


def test_the_share_of_fitted_rows_is_known(results):
    info = results("smic")._run.info("novelty", 0)
    fitted = results("smic")._run.read("novelty", 0, "fitted")
    assert info["share"] == (fitted > 1).mean() <= novelty.SHARE
    assert (np.diff(fitted) >= 0).all()


def test_the_ratio_is_that_of_the_graph(rows):
    """A brute-force formula: distance to the t-th neighbour over the mean of those of the neighbours."""
    X, t = rows[0], 5
    result = bigsmic.fit(X, 3, **BRIEF)
    S = result.scaled(X).astype(np.float64)
    D = np.sqrt(((S[:, None] - S[None]) ** 2).sum(axis=2))
    order = np.argsort(D, axis=1, kind="stable")[:, 1 : t + 1]
    sigma = np.take_along_axis(D, order, axis=1)[:, -1]
    ratios = sigma / sigma[order].mean(axis=1)
    limit = max(np.quantile(ratios, 0.99), 1)
    assert result._run.info("novelty", 0)["limit"] == pytest.approx(limit, rel=1e-5)
    new = result.scaled(rows[1]).astype(np.float64)
    to = np.sqrt(((new[:, None] - S[None]) ** 2).sum(axis=2))
    nearest = np.argsort(to, axis=1)[:, :t]
    expected = np.take_along_axis(to, nearest, axis=1)[:, -1] / sigma[nearest].mean(axis=1) / limit
    np.testing.assert_allclose(result.novelty(rows[1]), expected, rtol=1e-4)


def test_rows_of_integers_with_many_copies(rows):
    X = np.round(rows[0] / 3)
    result = bigsmic.fit(X, 3, valleys=False, **BRIEF)  # which show more
    assert np.isfinite(result.novelty(X)).all()
    assert (result.novelty(X) <= 1).all()
    assert (result.novelty(X[:1] + 100) > 1).all()


def test_a_row_does_not_depend_on_the_others(results, rows, tmp_path):
    result, (_, new) = results("smic"), rows
    whole = result.novelty(new)
    np.testing.assert_array_equal(np.concatenate([result.novelty(new[:7]), result.novelty(new[7:])]), whole)
    zarr.create_array(str(tmp_path / "X"), data=new, chunks=(50, 4))
    np.testing.assert_array_equal(result.novelty(tmp_path / "X", rows=slice(10, 20)), whole[10:20])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(result)).novelty(new), whole)
    with pytest.raises(OptionError, match=r"novelty: got unexpected option foo="):
        result.novelty(new, foo=1)


def test_lazy_rows_have_a_lazy_novelty(results, rows):
    import dask.array as da

    result, (_, new) = results("rim"), rows
    lazy = result.novelty(da.from_array(new, chunks=(100, 4)))
    np.testing.assert_array_equal(lazy.compute(), result.novelty(new))


def test_runs_that_know_nothing_of_it(rows, tmp_path):
    result = bigsmic.fit(rows[0], 3, out=tmp_path / "run", **BRIEF)
    found = result.predict_proba(rows[1])
    run = bigsmic.store.Run(str(tmp_path / "run"))
    run.drop("novelty", [0])
    run.update({"kept": {"stages": [stage for stage in run.attribute("kept")["stages"] if stage != "novelty"]}})
    run.close()
    again = bigsmic.Result.open(tmp_path / "run")
    with pytest.raises(AbsentResultError, match="novelty: the run has no reference distances"):
        again.novelty(rows[1])
    plain = again.predict_proba(rows[1])
    assert (plain.max(axis=1) >= found.max(axis=1)).all()
    np.testing.assert_array_equal(bigsmic.fit(rows[0], 3, out=tmp_path / "run", **BRIEF).predict_proba(rows[1]), found)


def test_why_there_is_none_is_said(rows):
    graph = kneighbors_graph(rows[0], 10)
    graph = graph.maximum(graph.T)
    few = np.repeat(rows[0][:4], 20, axis=0)
    for data, c, options, why in (
        (graph, 3, {"kernel": "precomputed"}, "affinities do not determine the distances of rows; fit rows"),
        (graph, 1, {"kernel": "precomputed"}, "a single cluster of a graph needs no neighbours; give c of at least 2"),
        (few, 3, {}, "its clusters are a few distinct rows with their copies; fit rows that differ more"),
    ):
        result = bigsmic.fit(data, c, n_threads=1, **options)
        with pytest.raises(AbsentResultError, match=f"novelty: the run has no reference distances, as {why}"):
            result.novelty(data)
    with pytest.raises(AbsentResultError, match="scaled: the fit was of a graph, which has no columns"):
        bigsmic.fit(graph, 1, kernel="precomputed", n_threads=1).scaled(rows[0])


def test_cuts_and_single_clusters(rows):
    cut = bigsmic.fit(rows[0], 3, **BRIEF).cut(2)
    assert cut.novelty(np.full((1, 4), 1e3, np.float32)) > 1
    single = bigsmic.fit(rows[0], 1, **BRIEF)
    assert single.novelty(np.full((1, 4), 1e3, np.float32)) > 1
    assert single.predict_proba(np.full((1, 4), 1e3, np.float32)) == 1


def test_rows_of_which_none_were_kept_are_read_again(monkeypatch, many_blocks):
    monkeypatch.setattr(scan, "SAMPLE_BYTES", 0)
    X, _ = make_blobs(400, 500, centers=3, random_state=0)
    result = bigsmic.fit(X, 3, method="mspc", scale=None, n_threads=1)
    context = result._context
    assert len(context.source_blocks) > 1
    assert not len(context.drawn_numbers())
    Z = context.scaler.apply(X)
    wanted = [Z[result.labels == y].mean(axis=0) for y in range(3)]
    np.testing.assert_allclose(context.run.read("novelty", 0, "means"), wanted, atol=1e-3)
