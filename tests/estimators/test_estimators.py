"""The scikit-learn face: every check of theirs, and what is ours to promise."""

import copy
import gc
import inspect
import json
import pickle
import re
import subprocess
import sys

import dask.array
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
import zarr
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bigsmic
from bigsmic import registry
from bigsmic.errors import ConvergenceWarning, InputError, RunMismatchError
from bigsmic.estimators.base import Clusterer
from bigsmic.estimators.rim import RIM
from bigsmic.estimators.smic import SMIC

PUBLIC = [getattr(bigsmic, name) for name in bigsmic.__all__]
ESTIMATORS = [kind for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, Clusterer)]


@pytest.mark.sklearn_checks
@pytest.mark.filterwarnings("ignore:c .n_clusters.. got .*, but the data show:bigsmic.errors.BigsmicWarning")
@parametrize_with_checks([SMIC(n_clusters=3, t=(3, 5), widths=(1.5, 2))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.sklearn_checks
@pytest.mark.filterwarnings("ignore:c .n_clusters.. got .*, but the data show:bigsmic.errors.BigsmicWarning")
@parametrize_with_checks([SMIC(n_clusters=3), SMIC(n_clusters=2, preset="paper")])
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.sklearn_checks
@pytest.mark.filterwarnings("ignore:n_clusters. one cluster has all rows:bigsmic.errors.ConvergenceWarning")
@parametrize_with_checks([SMIC(n_clusters=None)])
def test_scikit_learn_checks_of_a_number_that_is_found(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    X, y = make_blobs(300, 4, centers=3, random_state=0)
    return X.astype(np.float32), y


@pytest.mark.parametrize("estimator", [SMIC(2), RIM(2)])
def test_samples_of_several_channels_are_refused_with_the_shape_that_rows_have(estimator):
    with pytest.raises(InputError, match=r"got shape \(20, 5, 4\); .* array\.reshape\(20, -1\)"):
        estimator.fit(np.zeros((20, 5, 4)))


@pytest.mark.unit
@pytest.mark.parametrize("estimator", [SMIC(2), RIM(2)])
def test_samples_of_several_channels_are_refused_with_the_shape_of_rows(estimator):
    with pytest.raises(InputError, match=r"got shape \(20, 5, 4\); .* array\.reshape\(20, -1\)"):
        estimator.fit(np.zeros((20, 5, 4)))


@pytest.mark.parametrize("metric", [np.eye(300), "cosine"])
def test_a_metric_that_is_none_is_refused_in_one_line(metric, rows):
    with pytest.raises(InputError, match=r"\Ametric: got .{1,80}; use one of \('euclidean', 'precomputed'\)\Z"):
        SMIC(3, metric=metric).fit(rows[0])


def test_the_number_of_clusters_is_found(rows):
    X, y = rows
    model = SMIC(None, random_state=0).fit(X)
    assert model.n_clusters_ == model.result_.valleys.n_clusters == 3
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert adjusted_rand_score(y, model.predict(X)) > 0.95
    assert model.classes_.tolist() == [0, 1, 2]


def test_without_valleys_all_rows_are_one_cluster(tmp_path):
    X = np.random.default_rng(2).normal(size=(300, 3)).astype(np.float32)
    model = SMIC(None, random_state=0, out=tmp_path / "run")
    with pytest.warns(ConvergenceWarning, match=r"one cluster has all rows\. The data show no valleys: give c\."):
        model.fit(X)
    for one in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert one.n_clusters_ == 1
        assert one.classes_.tolist() == [0]
        assert one.labels_.tolist() == [0] * 300
        assert one.predict(X[:5]).tolist() == [0] * 5
        assert one.predict_proba(X[:5]).tolist() == [[1.0]] * 5
        assert one.result_.settings.undecided
    assert set(model.result_.cut(2).labels) == {0, 1}
    again = model.set_params(n_clusters=2, out=None).fit(X)
    assert set(again.labels_) == set(again.predict(X)) == {0, 1}


def test_rows_too_few_for_valleys_are_one_cluster():
    with pytest.warns(ConvergenceWarning, match="too few to show valleys: give c"):
        model = SMIC(None, random_state=0).fit(np.arange(10.0).reshape(5, 2))
    assert model.labels_.tolist() == [0] * 5


def test_every_estimator_knows_its_number(fitted):
    for model in fitted.values():
        assert model.n_clusters_ == len(model.classes_) == model.predict_proba(np.zeros((1, 4))).shape[1]


def test_the_estimator_is_the_function(rows):
    X, _ = rows
    estimator = SMIC(3, t=(3, 5), assignment="rotation", random_state=4).fit(X)
    result = bigsmic.fit(X, 3, t=(3, 5), assignment="rotation", seed=4)
    np.testing.assert_array_equal(estimator.labels_, result.labels)
    np.testing.assert_array_equal(estimator.predict_proba(X[:9]), result.predict_proba(X[:9]))
    assert estimator.seed_ == 4
    assert estimator.result_.settings == result.settings


def test_what_is_left_out_is_the_preset_s_to_fill_in(rows):
    assert SMIC(3, preset="paper").fit(rows[0]).result_.settings.t == tuple(range(1, 11))
    assert SMIC(3, preset="paper", t=(3,)).fit(rows[0]).result_.settings.t == (3,)


def test_archives_are_read_where_they_lie(rows, tmp_path):
    X, _ = rows
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=X, chunks=(64, 4))
    wanted = SMIC(3, random_state=0).fit(X)
    for data in (str(tmp_path / "a.zarr"), array, dask.array.from_array(X, chunks=(50, 4))):
        found = SMIC(3, random_state=0).fit(data)
        np.testing.assert_array_equal(found.labels_, wanted.labels_)
        np.testing.assert_array_equal(found.predict(data), wanted.predict(X))


# -- names of columns

NAMES = ["depth", "height", "width", "age"]
OTHER_ORDER = "must be in the same order as they were in fit"


@pytest.fixture(scope="module")
def named(rows):
    return pd.DataFrame(rows[0], columns=NAMES)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("fit_of", [lambda frame: frame, lambda frame: dd.from_pandas(frame, npartitions=2)])
def test_frames_in_another_order_are_refused(kind, fit_of, named):
    model, turned = quick(kind).fit(fit_of(named)), named[NAMES[::-1]]
    assert model.feature_names_in_.tolist() == NAMES
    for frame in (turned, dd.from_pandas(turned, npartitions=2)):
        for method in (model.predict, model.predict_proba, model.score):
            with pytest.raises(ValueError, match=OTHER_ORDER):
                method(frame)
        with pytest.raises(InputError, match="column 0 of X is 'age', but 'depth' in the fit"):
            model.result_.predict(frame)
    lazy = dd.from_pandas(named, npartitions=3)
    np.testing.assert_array_equal(model.predict(lazy).compute(), model.predict(named))
    assert model.score(lazy) == model.score(named)


def test_names_are_of_the_last_fit(named, rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows[0])
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=rows[0][:, :3])
    for data in (tmp_path / "rows.npy", array, dask.array.from_array(rows[0][:, :3]), rows[0]):
        model = quick(bigsmic.MSPC).fit(named).fit(data)
        assert not hasattr(model, "feature_names_in_")
        assert model.n_features_in_ == model.result_.diagnostics["columns"]


def test_a_fit_that_failed_is_none(rows):
    model = quick(bigsmic.MSPC)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        model.fit(rows[0][:1])
    with pytest.raises(InputError, match="overflows float64"):
        model.fit(np.full((2, 4), 1e300) * [[1], [-1]])
    with pytest.raises(NotFittedError, match="not fitted"):
        model.predict(rows[0])


@pytest.mark.parametrize("kind", [bigsmic.SMIC, bigsmic.RIM])
def test_a_fit_that_is_refused_or_interrupted_leaves_the_one_before(kind, named, monkeypatch):
    model = quick(kind).fit(named)
    before = dict(vars(model))
    with pytest.raises(InputError, match="overflows float64"):
        model.fit(np.tile([[1e300], [-1e300]], (3, 3)))
    assert vars(model) == before

    def interrupted(model, result):
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "_take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(named.to_numpy()[:, :3])
    assert vars(model) == before


def test_a_stream_knows_its_columns_after_a_fit_that_failed(named):
    model = quick(bigsmic.RIM).partial_fit(named)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        model.fit(named.to_numpy()[:1])
    with pytest.raises(ValueError, match=OTHER_ORDER):
        model.predict(named[NAMES[::-1]])


def test_a_stream_refuses_frames_in_another_order(named):
    model, turned = quick(bigsmic.RIM).partial_fit(named), named[NAMES[::-1]]
    for frame in (turned, dd.from_pandas(turned, npartitions=2)):
        with pytest.raises(ValueError, match=OTHER_ORDER):
            model.predict(frame)
    np.testing.assert_array_equal(model.predict(dd.from_pandas(named, npartitions=2)).compute(), model.predict(named))


def test_names_change_no_label_and_are_reported(named, rows, tmp_path):
    model = SMIC(3, random_state=0).fit(named)
    np.testing.assert_array_equal(model.labels_, SMIC(3, random_state=0).fit(rows[0]).labels_)
    model.result_.report(tmp_path / "report.html", rows[0])
    assert all(name in (tmp_path / "report.html").read_text() for name in NAMES)


def test_a_seed_that_is_drawn_is_kept(rows):
    estimator = SMIC(3, random_state=None).fit(rows[0])
    again = clone(estimator).set_params(random_state=estimator.seed_).fit(rows[0])
    np.testing.assert_array_equal(again.labels_, estimator.labels_)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:dask_ml", "ignore::FutureWarning:dask_ml")
def test_dask_ml_predicts_chunk_by_chunk(rows):
    from dask_ml.wrappers import ParallelPostFit

    X, y = rows
    parallel = ParallelPostFit(make_pipeline(StandardScaler(), SMIC(3, random_state=0, n_jobs=1))).fit(X)
    lazy = parallel.predict(dask.array.from_array(X, chunks=(70, 4)))
    assert isinstance(lazy, dask.array.Array)
    assert lazy.dtype == np.int32
    np.testing.assert_array_equal(lazy.compute(scheduler="threads", num_workers=2), parallel.estimator.predict(X))
    assert adjusted_rand_score(y, lazy.compute()) > 0.9


def test_every_method_has_an_estimator():
    assert sorted(kind._method for kind in ESTIMATORS) == sorted(registry.names())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_documented_in_their_order(kind):
    section = inspect.cleandoc(kind.__doc__).split("Parameters\n")[1].split("Attributes\n")[0]
    named = [name for line in re.findall(r"^(\w[\w, ]*) : ", section, re.M) for name in line.split(", ")]
    assert sorted(named) == sorted(kind().get_params(deep=False))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_defaults_are_defaults_after_a_pickle(kind):
    assert pickle.loads(pickle.dumps(kind()))._options() == {}
    assert copy.deepcopy(kind(5, scale="variance"))._options() == {"scale": "variance"}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_what_the_caller_gave_and_no_more_goes_to_the_method(kind):
    assert kind()._options() == {}
    assert kind(5, scale=None, n_jobs=2, random_state=3)._options() == {"scale": None}


# -- fitted estimators travel

QUICK = {
    "smic": {"t": 5, "widths": 1.5},
    "3smic": {"t": (3,), "assignment": "rotation"},
    "mic": {"t": 5},
    "mwca": {"n_starts": 2},
    "kernel_rim": {"n_components": 64},
}


def quick(kind, **options):
    """An estimator whose fit takes a moment."""
    return kind(2, random_state=0, n_jobs=1, **QUICK.get(kind._method, {}) | options)


@pytest.fixture(scope="module")
def fitted(rows):
    """Every estimator, fitted, and RIM fitted by parts."""
    found = {kind.__name__: quick(kind).fit(rows[0]) for kind in ESTIMATORS}
    return found | {"stream": quick(bigsmic.RIM).partial_fit(rows[0])}


@pytest.mark.end_to_end
def test_fitted_estimators_load_in_another_process(fitted, rows, tmp_path):
    X = rows[0]
    joblib.dump((fitted, X), tmp_path / "models")
    code = """
import json, sys, joblib
models, X = joblib.load(sys.argv[1])
print(json.dumps({name: [m.labels_.tolist(), m.predict(X).tolist(), m.predict_proba(X).tolist()]
                  for name, m in models.items()}))
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "models")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(found) == sorted(fitted)
    for name, (labels, predicted, posterior) in found.items():
        assert labels == fitted[name].labels_.tolist()
        assert predicted == fitted[name].predict(X).tolist()
        assert posterior == fitted[name].predict_proba(X).tolist()


@pytest.mark.parametrize("name", [*(kind.__name__ for kind in ESTIMATORS), "stream"])
def test_copies_and_pickles_predict_the_same_bits(name, fitted, rows):
    model, X = fitted[name], rows[0]
    for made in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(made.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(made.labels_, model.labels_)
        assert made.get_params() == model.get_params()
        assert made.score(X) == model.score(X)


def test_a_copy_outlives_the_original(rows):
    model = quick(SMIC).fit(rows[0])
    wanted, made = model.predict(rows[0]), copy.deepcopy(model)
    del model
    gc.collect()
    np.testing.assert_array_equal(made.predict(rows[0]), wanted)


def test_labels_are_pickled_once(rows):
    X = np.tile(rows[0], (40, 1))
    model = bigsmic.MSPC(random_state=0).fit(X)
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.labels_ is loaded.result_.labels


def test_a_stream_goes_on_where_it_arrives(rows):
    X = rows[0]
    here = quick(bigsmic.RIM).partial_fit(X[:150])
    there = pickle.loads(pickle.dumps(here))
    np.testing.assert_array_equal(there.partial_fit(X[150:]).coef_, here.partial_fit(X[150:]).coef_)


@pytest.mark.end_to_end
def test_processes_of_joblib_return_models_that_are_alive(rows):
    X = rows[0]
    made = joblib.Parallel(n_jobs=2)(joblib.delayed(quick(kind).fit)(X) for kind in (SMIC, bigsmic.RIM))
    for model in made:
        np.testing.assert_array_equal(model.labels_, clone(model).fit(X).labels_)
    searched = GridSearchCV(quick(SMIC), {"n_clusters": [2, 3]}, cv=2, n_jobs=2).fit(X)
    assert searched.best_params_ == {"n_clusters": 3}
    assert searched.predict(X).shape == (300,)
    valid = cross_validate(quick(SMIC), X, cv=2, n_jobs=2, return_estimator=True)
    for model, score in zip(valid["estimator"], valid["test_score"], strict=True):
        assert model.predict(X).shape == (300,)
        assert score > 0.3


# -- out


def test_out_is_the_run_and_the_pickle(rows, tmp_path):
    X = rows[0]
    model = quick(SMIC, out=tmp_path / "run").fit(X)
    np.testing.assert_array_equal(bigsmic.Result.open(tmp_path / "run").labels, model.labels_)
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.result_.location == str(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(RunMismatchError, match=r"\n  c \(n_clusters\): stored 2, asked 3\n"):
        clone(model).set_params(n_clusters=3).fit(X)


# -- score


@pytest.mark.parametrize("kind", [kind for kind in ESTIMATORS if kind is not bigsmic.RIM])
def test_score_is_the_information_of_the_labels(kind, fitted, rows, tmp_path):
    X, model = rows[0], fitted[kind.__name__]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    wanted = bigsmic.lsmi(scaled, model.predict(X), n_centers=200, seed=0).value
    assert model.score(X) == pytest.approx(wanted, abs=0.02)
    assert model.score(dask.array.from_array(X, chunks=(100, 4))) == model.score(X)
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=X, chunks=(64, 4))
    assert model.score(array) == model.score(X)


def test_rows_that_have_no_score(rows, tmp_path):
    np.save(tmp_path / "none.npy", rows[0][:0])
    np.save(tmp_path / "narrow.npy", rows[0][:, :3])
    np.save(tmp_path / "missing.npy", np.where(np.arange(12).reshape(3, 4) == 9, np.nan, rows[0][:3]))
    for kind in (bigsmic.MSPC, bigsmic.RIM):
        model = quick(kind).fit(rows[0])
        with pytest.raises(InputError, match=r"score: got no rows \(shape \(0, 4\)\); give at least 2"):
            model.score(tmp_path / "none.npy")
        with pytest.raises(InputError, match="score: X has 3 features, but the fit was made with 4 features"):
            model.score(tmp_path / "narrow.npy")
        with pytest.raises(InputError, match="NaN or infinity: first at row 2, column 1"):
            model.score(tmp_path / "missing.npy")


def test_score_tells_better_labels_from_worse(rows):
    X = rows[0]
    assert quick(SMIC).set_params(n_clusters=3).fit(X).score(X) > quick(SMIC).fit(X).score(X) + 0.2
    assert quick(SMIC).set_params(n_clusters=1).fit(X).score(X) == 0


def test_what_is_precomputed_has_no_score(rows):
    from sklearn.neighbors import kneighbors_graph

    graph = kneighbors_graph(rows[0], 10, mode="distance")
    model = quick(SMIC, metric="precomputed").fit(graph)
    with pytest.raises(InputError, match="score: needs features"):
        model.score(graph)


def test_all_processors_are_counted_from_the_end(rows):
    for n_jobs in (-1, -1000):
        np.testing.assert_array_equal(
            bigsmic.MSPC(2, n_jobs=n_jobs, random_state=0).fit(rows[0]).labels_,
            bigsmic.MSPC(2, n_jobs=1, random_state=0).fit(rows[0]).labels_,
        )
