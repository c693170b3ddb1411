"""SemiSupervisedSMIC as scikit-learn sees it."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bigsmic
from bigsmic import SemiSupervisedSMIC
from bigsmic.errors import InputError


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


FEW = {"t": (3,), "gamma": (1.0,), "random_state": 4}


def test_a_y_in_which_labels_are_missing_is_the_known_labels(rows):
    X, y = rows
    known = np.where(np.arange(len(y)) % 10, -1, y)
    wanted = SemiSupervisedSMIC(3, **FEW).fit(X, labels=known)
    fitted = SemiSupervisedSMIC(3, **FEW).fit(X, known.tolist())
    assert fitted.result_.n_links == wanted.result_.n_links == 190
    np.testing.assert_array_equal(fitted.labels_, wanted.labels_)
    piped = make_pipeline(StandardScaler(), SemiSupervisedSMIC(3, **FEW))
    piped.fit_predict(X, known)
    assert piped[-1].result_.n_links == 190
    with pytest.raises(InputError, match="y: got known labels, marked by -1, and labels= as well; give them once"):
        SemiSupervisedSMIC(3, **FEW).fit(X, known, labels=known)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, object])
def test_known_labels_may_be_floats_as_where_missing_ones_were_filled(rows, dtype):
    X, y = rows
    known = np.where(np.arange(len(y)) % 10, -1, y).astype(dtype)
    assert SemiSupervisedSMIC(3, **FEW).fit(X, known).result_.n_links == 190
    known[known == -1] = np.nan
    with pytest.raises(InputError, match="y: got NaN or None in some rows; give -1 to rows whose label is unknown"):
        SemiSupervisedSMIC(3, **FEW).fit(X, known)


@pytest.mark.parametrize(
    "of",
    [
        lambda y: y,
        lambda y: y.astype(str),
        lambda y: y.astype(str).astype(object),
        lambda y: np.where(y == 0, -1, y + 0.5),
        lambda y: np.full(len(y), np.nan),
    ],
)
def test_a_complete_y_and_one_that_is_no_labels_are_ignored(of, rows):
    X, y = rows
    assert SemiSupervisedSMIC(3, **FEW).fit(X, of(y)).result_.n_links == 0
