"""SemiSupervisedSMIC as scikit-learn sees it."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

import bigsmic
from bigsmic import SemiSupervisedSMIC


@pytest.mark.sklearn_checks
@parametrize_with_checks([SemiSupervisedSMIC(n_clusters=3, t=(3,), normalization="symmetric", assignment="rotation")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.sklearn_checks
@pytest.mark.filterwarnings("ignore:n_clusters. one cluster has all rows:bigsmic.errors.ConvergenceWarning")
@parametrize_with_checks([SemiSupervisedSMIC(n_clusters=None)])
def test_scikit_learn_checks_of_a_number_that_is_found(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    return make_blobs(200, 4, centers=3, random_state=0)


def test_the_estimator_is_the_function(rows):
    X, y = rows
    labels = np.where(np.arange(len(y)) % 10, -1, y)
    options = {"t": (3, 5), "gamma": (1.0,), "normalization": "symmetric"}
    estimator = SemiSupervisedSMIC(3, random_state=4, **options).fit(X, labels=labels)
    result = bigsmic.fit(X, 3, method="3smic", seed=4, labels=labels, **options)
    np.testing.assert_array_equal(estimator.labels_, result.labels)
    assert estimator.result_.settings == result.settings
    assert estimator.result_.n_links == 190
    np.testing.assert_array_equal(
        SemiSupervisedSMIC(3, random_state=4, **options).fit_predict(X, labels=labels), result.labels
    )
