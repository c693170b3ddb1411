"""MIC on the pipeline: its stages against dense formulas, and what does not change its labels."""

import shutil

import numpy as np
import pytest
from reference import kernel, standardised
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_fits import cut_small

import bigsmic
from bigsmic.datasets import double_spirals
from bigsmic.errors import BigsmicWarning, ConvergenceWarning, InputError, OptionError, PlanError, RunMismatchError
from bigsmic.estimators.mic import MIC
from bigsmic.methods import mic

FIT = {"method": "mic", "t": (3, 7), "n_centers": 40, "n_threads": 1}


@pytest.fixture(scope="module")
def fitted(blobs, tmp_path_factory):
    """A fit of many blocks, and where it is."""
    out = tmp_path_factory.mktemp("mic") / "run"
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(blobs[0], 4, out=out, **FIT)


@pytest.mark.sklearn_checks
@parametrize_with_checks([MIC(n_clusters=2, t=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_clusters_are_found(fitted, blobs):
    assert adjusted_rand_score(blobs[1], fitted.labels) > 0.9
    np.testing.assert_allclose(np.asarray(fitted.posterior).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(fitted.posterior).argmax(axis=1), fitted.labels)


def test_spirals_are_told_apart():
    X, y = double_spirals(seed=0)
    assert adjusted_rand_score(y, bigsmic.fit(X, 2, method="mic", n_threads=1).labels) == 1


def test_coefficients_make_the_posteriors_by_the_dense_kernel(fitted, blobs, many_blocks):
    context = bigsmic.runtime.context.Context(None, fitted._run, fitted.settings)
    t = mic._chosen(context)
    read = [fitted._run.reader(f"ascent.t{t}", p) for p in context.blocks]
    rows = np.concatenate([fitted._run.read("rows", p, "rows") for p in context.blocks])
    A = np.empty((700, 4))
    A[rows] = np.concatenate([r("coefficients") for r in read])
    K = kernel(standardised(blobs[0]), t) + np.eye(700)
    Z = K @ A + fitted._run.read(f"optimum.t{t}", 0, "bias")
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(fitted.posterior), P, atol=2e-3)


def test_the_chosen_t_has_the_largest_mlmi(fitted):
    scores = fitted.scores
    assert scores.loc[scores["chosen"], "mlmi"].item() == scores["mlmi"].max()
    assert (scores["gap"] <= 1e-6).all()
    assert scores["converged"].all()
    assert list(scores["t"]) == [3, 7]
    assert "of 2; MLMI 1." in repr(fitted)


def test_mlmi_is_that_of_the_function(fitted, blobs):
    X = standardised(blobs[0]).astype(np.float32)
    alone = bigsmic.mlmi(X, fitted.labels, n_centers=40)
    assert fitted.scores["mlmi"].max() == pytest.approx(alone.value, abs=1e-4)


def test_blocks_and_places_of_storage_do_not_matter(fitted, blobs, monkeypatch):
    whole = bigsmic.fit(blobs[0], 4, **FIT)
    assert adjusted_rand_score(whole.labels, fitted.labels) > 0.99
    plan = mic.plan

    def on_disk(*args, **options):
        found = plan(*args, **options)
        return mic.Plan(**vars(found) | {"ascent_in_memory": (False, False)})

    cut_small(monkeypatch)
    monkeypatch.setattr(mic, "plan", on_disk)
    stored = bigsmic.fit(blobs[0], 4, **FIT | {"n_threads": 2})
    np.testing.assert_array_equal(stored.labels, fitted.labels)
    np.testing.assert_array_equal(np.asarray(stored.posterior), np.asarray(fitted.posterior))


def test_a_run_is_resumed_and_opened(fitted, blobs, monkeypatch):
    cut_small(monkeypatch)
    again = bigsmic.fit(blobs[0], 4, out=fitted.location, **FIT)
    np.testing.assert_array_equal(again.labels, fitted.labels)
    opened = bigsmic.Result.open(fitted.location)
    assert isinstance(opened, mic.Result)
    assert opened.settings == fitted.settings
    np.testing.assert_array_equal(opened.predict(blobs[0][:20]), fitted.predict(blobs[0][:20]))
    with pytest.raises(RunMismatchError):
        bigsmic.fit(blobs[0], 4, out=fitted.location, **FIT | {"reg": 0.1})


def test_a_fit_that_was_killed_goes_on(blobs, tmp_path, monkeypatch):
    cut_small(monkeypatch)
    done = []

    def stop(stage, *_):
        done.append(stage)
        if stage == "ascent t=7":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bigsmic.fit(blobs[0], 4, out=tmp_path / "run", progress=stop, **FIT)
    assert "ascent t=3" in done
    done.clear()
    resumed = bigsmic.fit(blobs[0], 4, out=tmp_path / "run", progress=lambda stage, *_: done.append(stage), **FIT)
    assert not {"scan", "neighbors", "ascent t=3"} & set(done)
    np.testing.assert_array_equal(resumed.labels, bigsmic.fit(blobs[0], 4, **FIT).labels)


def test_what_is_damaged_is_made_again(fitted, blobs, tmp_path, monkeypatch):
    cut_small(monkeypatch)
    run = tmp_path / "run"
    shutil.copytree(fitted.location, run)
    t = fitted._run.info("choice", 0)["t"]
    (damaged,) = (run / f"ascent.t{t}" / "0000001" / "logits").glob("c.*")
    damaged.write_bytes(damaged.read_bytes()[:-4] + b"\0\0\0\0")
    again = bigsmic.fit(blobs[0], 4, out=run, **FIT)
    np.testing.assert_array_equal(again.labels, fitted.labels)


def test_new_rows_are_labelled(fitted, blobs, many_blocks):
    assert (fitted.predict(blobs[0]) == fitted.labels).mean() > 0.97
    P = fitted.predict_proba(blobs[0][:9])
    np.testing.assert_allclose(fitted.predict_proba(blobs[0][3:4]), P[3:4], rtol=1e-6)
    with pytest.raises(InputError, match="5 features"):
        fitted.predict(np.zeros((3, 2)))


def test_one_cluster_and_few_rows(blobs):
    assert not bigsmic.fit(blobs[0][:30], 1, method="mic").labels.any()
    few = bigsmic.fit(np.array([[0.0], [0.1], [5.0], [5.1]]), 2, method="mic", reg=0.1)
    assert few.labels[0] == few.labels[1] != few.labels[2] == few.labels[3]


def test_categories_without_rows_are_said(blobs):
    with pytest.warns(BigsmicWarning, match="all rows are in one cluster"):
        found = bigsmic.fit(blobs[0][:200], 4, **FIT | {"reg": 1e3})
    assert found.diagnostics["output"]["empty_clusters"]


def test_an_ascent_that_was_cut_short_is_said(blobs):
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        bigsmic.fit(blobs[0][:200], 4, **FIT | {"max_iter": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reg": -1.0}, "reg"),
        ({"t": ()}, "t: got no value"),
        ({"start_t": 0}, "start_t: got 0"),
        ({"start_t": 1001}, "start_t: got 1001; use at most 1000 neighbours"),
        ({"mlmi_rows": 1}, "mlmi_rows: got 1"),
        ({"tol": np.nan}, "tol"),
        ({"scale": "unit"}, "scale"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        bigsmic.fit(np.zeros((9, 2)), 2, method="mic", **options)


def test_options_of_others_are_refused():
    with pytest.raises(OptionError, match="lsmi_rows"):
        bigsmic.fit(np.zeros((9, 2)), 2, method="mic", lsmi_rows=10)


def test_memory_is_planned():
    X = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1_000_000, 10), (0, 0))
    plan = bigsmic.plan(X, 20, method="mic", memory_limit="8GiB")
    assert {"scan", "graph", "eigen", "ascent", "output"} <= set(plan.stages)
    assert plan.ascent_in_memory == (True, True)
    tight = bigsmic.plan(X, 20, method="mic", memory_limit="1GiB")
    assert tight.ascent_in_memory == (False, False)
    assert tight.peak_bytes <= 1 << 30
    with pytest.raises(PlanError, match="memory limit"):
        bigsmic.plan(X, 20, method="mic", memory_limit="300MiB")


def test_sizes_of_the_scores_go_by_the_numbers_of_an_earlier_run():
    X, y = make_blobs([50, 70, 90], 3, centers=[[0, 0, 0], [9, 0, 0], [0, 9, 0]], random_state=0)
    earlier = bigsmic.fit(X[y == 2], 1, method="mic")
    result = bigsmic.fit(X, 3, method="mic", t=(3, 5), like=earlier)
    assert result.sizes[0] == 90
    scores = result.scores
    assert scores["sizes"][scores["chosen"]].tolist() == [result.sizes.tolist()]
