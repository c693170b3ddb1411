"""The scikit-learn face: every check of theirs, and what is ours to promise."""

from dataclasses import MISSING, fields

import dask.array
import numpy as np
import pytest
import zarr
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bigsmic
from bigsmic import methods
from bigsmic.estimators import SMIC
from bigsmic.estimators_base import OF_EVERY_FIT, Clusterer

PUBLIC = [getattr(bigsmic, name) for name in bigsmic.__all__]
ESTIMATORS = [kind for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, Clusterer)]


@parametrize_with_checks([SMIC(n_clusters=3), SMIC(n_clusters=2, preset="paper")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    X, y = make_blobs(300, 4, centers=3, random_state=0)
    return X.astype(np.float32), y


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
    assert sorted(kind._method for kind in ESTIMATORS) == sorted(methods.MODULES)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_what_is_left_out_is_what_the_method_has_by_default(kind):
    settings = methods.load(kind._method).Settings
    of_method = {field.name: field.default for field in fields(settings)}
    stated = {name: value for name, value in kind().get_params(deep=False).items() if value is not None}
    options = {name: value for name, value in stated.items() if name not in OF_EVERY_FIT}
    assert set(options) <= set(settings.names())
    assert options == {name: of_method[name] for name in options}
    assert of_method["n_clusters"] in (MISSING, kind().n_clusters)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_what_the_caller_gave_and_no_more_goes_to_the_method(kind):
    assert kind()._options() == {}
    assert kind(5, scale=None, n_jobs=2, random_state=3)._options() == {"scale": None}
