"""dask-ml's pipelines, wrappers and searches around the estimators, on a cluster of processes.

A wrapper or pipeline of dask-ml hands dask arrays on as they are, so that a fit reads them block by block.
"""

import dask.array as da
import numpy as np
import pytest
from clusters import cluster_of
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

from bigsmic import RIM, SMIC

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:dask_ml"),
    pytest.mark.filterwarnings("ignore::FutureWarning:dask_ml"),
    # noise variance of as many components as rows of a batch: dask-ml's own
    pytest.mark.filterwarnings("ignore:invalid value encountered in divide:RuntimeWarning"),
]
SPECTRAL = SMIC(3, t=5, widths=1.5, random_state=0, n_jobs=1)
LINEAR = RIM(3, random_state=0, n_jobs=1)
ESTIMATORS = pytest.mark.parametrize("estimator", [SPECTRAL, LINEAR], ids=["SMIC", "RIM"])
LINEAR_QUICK = pytest.mark.parametrize(
    "estimator", [pytest.param(SPECTRAL, marks=pytest.mark.slow), LINEAR], ids=["SMIC", "RIM"]
)
"""Both in the slow tests, and the one that takes a moment in all of them."""


@pytest.fixture(scope="module")
def workers():
    with cluster_of(2, as_default=False) as client:
        yield client


@pytest.fixture
def client(workers):
    """The cluster, which fits and dask arrays find by themselves."""
    with workers.as_current():
        yield workers


@pytest.fixture(scope="module")
def data():
    """Rows in memory, the same as a dask array, and their classes."""
    X, y = make_blobs(600, 8, centers=3, random_state=0)
    X = X.astype(np.float32)
    return X, da.from_array(X, chunks=(150, 8)), y


def steps():
    from dask_ml.decomposition import PCA, IncrementalPCA, TruncatedSVD
    from dask_ml.preprocessing import StandardScaler

    return {
        "StandardScaler": StandardScaler(),
        "PCA": PCA(3, random_state=0),
        "IncrementalPCA": IncrementalPCA(3),
        "TruncatedSVD": TruncatedSVD(3, random_state=0),
    }


@LINEAR_QUICK
@pytest.mark.parametrize("step", ["StandardScaler", "PCA", "IncrementalPCA", "TruncatedSVD"])
def test_pipelines_are_lazy_to_the_end(step, estimator, data, client):
    _, D, y = data
    pipeline = make_pipeline(steps()[step], estimator).fit(D)
    labels, posterior = pipeline.predict(D), pipeline.predict_proba(D)
    assert isinstance(labels, da.Array)
    assert isinstance(posterior, da.Array)
    found = labels.compute()
    assert adjusted_rand_score(y, found) == 1
    np.testing.assert_array_equal(posterior.compute().argmax(axis=1), found)
    assert pipeline.score(D) > 0.3


@ESTIMATORS
def test_what_is_persisted_is_fitted(estimator, data, client):
    X, D, _ = data
    fitted = estimator.fit(D.persist())
    np.testing.assert_array_equal(fitted.labels_, estimator.fit(X).labels_)


def test_rim_learns_chunk_by_chunk(data, client):
    from dask_ml.wrappers import Incremental

    X, D, y = data
    learned = Incremental(LINEAR, shuffle_blocks=False).fit(D)
    alone = RIM(**LINEAR.get_params())
    for lo in range(0, 600, 150):
        alone.partial_fit(X[lo : lo + 150])
    np.testing.assert_allclose(learned.estimator_.coef_, alone.coef_, rtol=1e-6)
    lazy = learned.predict(D)
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(), alone.predict(X))
    assert adjusted_rand_score(y, lazy.compute()) > 0.9
    assert learned.score(X, y) == pytest.approx(alone.score(X), rel=1e-6)


@ESTIMATORS
def test_predictions_run_on_the_workers(estimator, data, client):
    from dask_ml.wrappers import ParallelPostFit

    X, D, y = data
    parallel = ParallelPostFit(estimator).fit(X, y)
    lazy, posterior = parallel.predict(D), parallel.predict_proba(D)
    assert lazy.dtype == np.int32
    assert posterior.dtype == np.float32
    np.testing.assert_array_equal(lazy.compute(), parallel.estimator.predict(X))
    np.testing.assert_array_equal(posterior.compute(), parallel.estimator.predict_proba(X))
    assert parallel.score(X, y) == parallel.estimator.score(X)


@LINEAR_QUICK
def test_a_search_fits_in_tasks_and_scores_by_itself(estimator, data, client):
    from dask_ml.model_selection import GridSearchCV

    X, D, y = data
    estimator.fit(X)  # what was fitted before is hashed by Dask with the rest of it
    for rows in (X, D):
        searched = GridSearchCV(estimator, {"n_clusters": [2, 3]}, cv=2).fit(rows)
        assert searched.best_params_ == {"n_clusters": 3}
        assert adjusted_rand_score(y, searched.predict(X)) == 1


@ESTIMATORS
def test_what_check_array_of_dask_ml_accepts_is_accepted(estimator, data):
    from dask_ml.utils import check_array

    X, D, _ = data
    wanted = estimator.fit(X).labels_
    for rows in (D, D.astype(np.float64), X.tolist(), da.concatenate([D[:0], D])):
        checked = check_array(rows)
        np.testing.assert_array_equal(estimator.fit(checked).labels_, wanted)
        assert len(estimator.predict(checked)) == 600
