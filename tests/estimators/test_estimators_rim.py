"""RIM's scikit-learn face: every check of theirs, streams, weights, known labels."""

import copy

import numpy as np
import pandas as pd
import pytest
import zarr
from sklearn.base import clone
from sklearn.datasets import load_wine, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import bigsmic
from bigsmic import RIM
from bigsmic.errors import InputError
from bigsmic.estimators.rim_stream import Stream
from bigsmic.runtime import block_sizes
from bigsmic.runtime.block_sizes import BlockSizes

FAST = {"random_state": 0, "n_jobs": 1}


def failing(estimator):
    why = "repeating a row shifts the random sample that categories are found on; a weight does not"
    return {
        "check_sample_weight_equivalence_on_dense_data": why,
        "check_sample_weight_equivalence_on_sparse_data": why,
    }


@pytest.mark.sklearn_checks
@parametrize_with_checks([RIM(3, **FAST)], expected_failed_checks=failing)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.sklearn_checks
@parametrize_with_checks([RIM(2, solver="minibatch", reg=0.01, **FAST)], expected_failed_checks=failing)
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(900, 4, centers=3, random_state=1)
    return X, y


def test_the_estimator_is_the_function(blobs):
    X, _ = blobs
    estimator = RIM(3, **FAST).fit(X)
    result = bigsmic.fit(X, 3, method="rim", n_threads=1)
    np.testing.assert_array_equal(estimator.labels_, result.labels)
    np.testing.assert_array_equal(estimator.predict_proba(X), result.posterior[:])
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)
    assert list(estimator.path_.columns) == ["reg", "alive", "objective", "lsmi"]


def test_logits_are_those_of_the_columns_as_they_came(blobs):
    X, _ = blobs
    far = 1000 + 7 * X
    estimator = RIM(3, **FAST).fit(far)
    logits = estimator.decision_function(far)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, estimator.predict_proba(far), atol=1e-4)
    np.testing.assert_allclose(estimator.marginal_, p.mean(axis=0), atol=1e-4)
    assert estimator.coef_.shape == (3, 4)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_logits_that_overflow_are_those_of_a_nearer_row(learn, blobs):
    X, _ = blobs
    estimator = getattr(RIM(3, **FAST), learn)(X / 1e3)
    far = 1.7e308 * np.vstack([np.eye(4), -np.eye(4), [[1, -1, 1, -1]]])
    logits = estimator.decision_function(far)
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(
        logits / np.abs(logits).max(axis=1, keepdims=True),
        (found := far / 1e308 @ estimator.coef_.T) / np.abs(found).max(axis=1, keepdims=True),
    )
    np.testing.assert_array_equal(estimator.predict(far), logits.argmax(axis=1))
    assert np.isfinite(estimator.predict_proba(far)).all()


def test_y_is_ignored(blobs):
    X, y = blobs
    np.testing.assert_array_equal(RIM(3, **FAST).fit(X, y).labels_, RIM(3, **FAST).fit(X).labels_)


def test_a_stream_ends_where_a_fit_does(blobs):
    X, y = blobs
    estimator = RIM(3, **FAST)
    for chunk in np.array_split(np.arange(900), 6):
        assert estimator.partial_fit(X[chunk]).labels_.shape == chunk.shape
    assert adjusted_rand_score(y, estimator.predict(X)) > 0.95
    assert estimator.n_iter_ == 6
    np.testing.assert_allclose(estimator.predict_proba(X).sum(axis=1), 1, atol=1e-5)


def test_a_stream_of_frames_keeps_their_names_without_a_warning(blobs):
    X, _ = blobs
    frame = pd.DataFrame(X, columns=list("abcd"))
    estimator = RIM(3, **FAST).partial_fit(frame[:500]).partial_fit(frame[500:])
    assert estimator.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(estimator.labels_, estimator.predict(frame[500:]))


def test_tiny_chunks_borrow_from_those_before(blobs):
    X, y = blobs
    estimator = RIM(3, **FAST).partial_fit(X[:300])
    for chunk in np.array_split(np.arange(300, 900), 60):
        estimator.partial_fit(X[chunk])
    assert adjusted_rand_score(y, estimator.predict(X)) > 0.95


def test_a_fit_ends_a_stream_and_a_stream_a_fit(blobs):
    X, _ = blobs
    estimator = RIM(3, **FAST).partial_fit(X)
    np.testing.assert_array_equal(estimator.fit(X).predict(X), RIM(3, **FAST).fit(X).labels_)
    with pytest.raises(InputError, match="reg='lsmi' needs all rows"):
        RIM(reg="lsmi", **FAST).partial_fit(X)


def test_what_is_of_a_fit_goes_when_a_stream_begins(blobs):
    X, _ = blobs
    estimator = RIM(3, **FAST).fit(X).partial_fit(X[:300])
    assert not hasattr(estimator, "result_")
    with pytest.raises(NotFittedError, match="path_: RIM has one after fit"):
        _ = estimator.path_


REFUSED_CHUNKS = {
    "labels of more categories": (lambda X: (X[:9], {"labels": [3] * 9}), "got "),
    "rows too far": (lambda X: (np.vstack([X[:9], np.full((2, 4), 1e300)]), {}), "float64|row 9, column 0 is 1e\\+300"),
    "a column too many": (lambda X: (np.hstack([X, X]), {"labels": [7] * len(X)}), "8 features|got 8 categories"),
}


UNREADABLE = {
    "masked entries": (lambda X: np.ma.array(X, mask=X > 0), "the array has masked entries"),
    "times": (lambda X: X.astype("M8[s]"), r"dtype datetime64\[s\] is not real"),
    "nothing in places": (lambda X: [[None, *row[1:]] for row in X], "NaN|dtype object is not real"),
    "words": (lambda X: pd.DataFrame(X).assign(kind="up"), r"columns \['kind'\] are not numbers"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_stream_refuses_what_a_fit_refuses(name, blobs):
    given, message = UNREADABLE[name][0](blobs[0][:300]), UNREADABLE[name][1]
    with pytest.raises(ValueError, match=message):
        RIM(3, **FAST).fit(given)
    begun = RIM(3, **FAST).partial_fit(blobs[0][:300])
    for ask in (RIM(3, **FAST).partial_fit, begun.partial_fit, begun.predict, begun.predict_proba):
        with pytest.raises(ValueError, match=message):
            ask(given)
    if name == "masked entries":
        with pytest.raises(InputError, match=message):
            RIM(3, **FAST).fit(blobs[0][:300]).decision_function(given)


@pytest.mark.parametrize("shares", [(0.7, 0.2, 0.1), (0.1, 0.2, 0.7), (0.2, 0.7, 0.1)])
def test_a_stream_gives_larger_clusters_the_larger_shares_of_a_prior(shares):
    sizes = [1050, 300, 150]
    X, y = make_blobs(sizes, 2, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    stream = RIM(3, prior=shares, reg=0.001, **FAST).partial_fit(X)
    np.testing.assert_allclose(stream.marginal_, shares, atol=0.03)
    assert adjusted_rand_score(y, stream.predict(X)) > 0.95


@pytest.mark.parametrize("seed", range(10))
def test_a_number_that_labels_of_the_first_chunk_skip_is_that_of_another_cluster(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 150)
    X = rng.standard_normal((150, 2)) + np.array([[0, 0], [8, 8], [-8, 8]])[y]
    known = np.where((y == 2) & (np.arange(150) < 20), 2, -1)
    estimator = RIM(3).partial_fit(X, labels=known).partial_fit(X)
    assert adjusted_rand_score(y, estimator.labels_) > 0.95
    assert (estimator.labels_[known == 2] == 2).all()


def test_few_clusters_of_the_first_chunk_begin_in_one_of_another():
    scores = []
    for seed in range(20):
        X, y = make_blobs(2000, 16, centers=12, cluster_std=1.0, random_state=seed)
        scores.append(adjusted_rand_score(y, RIM(12, random_state=seed).partial_fit(X).predict(X)))
    assert np.mean(scores) > 0.97


@pytest.mark.parametrize("begun", ["not at all", "by fit", "by partial_fit"])
@pytest.mark.parametrize("name", REFUSED_CHUNKS)
def test_a_chunk_that_is_refused_changes_nothing(name, begun, blobs):
    X, _ = blobs
    estimator = RIM(3, **FAST)
    if begun != "not at all":
        estimator = estimator.fit(X) if begun == "by fit" else estimator.partial_fit(X[:300])
    before, n_seen = dict(vars(estimator)), getattr(getattr(estimator, "_stream", None), "n_seen", None)
    chunk, side_inputs = REFUSED_CHUNKS[name][0](X)
    with pytest.raises(ValueError, match=REFUSED_CHUNKS[name][1]):
        estimator.partial_fit(chunk, **side_inputs)
    assert vars(estimator) == before
    assert getattr(getattr(estimator, "_stream", None), "n_seen", None) == n_seen
    if begun == "not at all":
        with pytest.raises(NotFittedError, match="not fitted"):
            estimator.predict(X)
    if begun == "by partial_fit":
        wanted = RIM(3, **FAST).partial_fit(X[:300]).partial_fit(X[300:]).coef_
        np.testing.assert_array_equal(estimator.partial_fit(X[300:]).coef_, wanted)


def test_a_chunk_that_is_interrupted_leaves_the_stream_as_it_was(blobs, monkeypatch):
    X, _ = blobs
    estimator = RIM(3, **FAST).partial_fit(X[:300])
    before, state = dict(vars(estimator)), copy.deepcopy(vars(estimator._stream))

    def interrupted(stream, sums):
        raise KeyboardInterrupt

    monkeypatch.setattr(Stream, "_remember", interrupted)
    with pytest.raises(KeyboardInterrupt):
        estimator.partial_fit(X[300:])
    assert vars(estimator) == before
    assert estimator._stream.n_seen == state["n_seen"]
    np.testing.assert_array_equal(estimator._stream.state.model.W, state["state"].model.W)


def test_labels_of_more_categories_than_clusters_are_refused_as_by_fit(blobs):
    X, _ = blobs
    for learn in (RIM(3, **FAST).fit, RIM(3, **FAST).partial_fit):
        with pytest.raises(InputError, match="labels: got 8 categories for 3 clusters; ask for at least as many"):
            learn(X, labels=[7] * len(X))
    stream = RIM(3, **FAST).partial_fit(X)
    with pytest.raises(InputError, match="got the label 3, but since the first chunk there are 3 categories"):
        stream.partial_fit(X[:2], labels=[-1, 3])
    assert stream.partial_fit(X[:2], labels=[-1, 2]).n_clusters_ == 3


@pytest.mark.parametrize(
    ("rows", "has"), [([0, 1], "2 rows"), ([0, 1] * 50, "2 groups of rows that differ")], ids=["few", "equal"]
)
def test_a_first_chunk_in_which_clusters_cannot_begin_is_refused(rows, has, blobs):
    X, _ = blobs
    estimator = RIM(3, **FAST)
    with pytest.raises(InputError, match=f"the first chunk has {has} for n_clusters=3, .* of more rows"):
        estimator.partial_fit(X[rows])
    assert estimator.partial_fit(X[:300]).partial_fit(X[rows]).n_clusters_ == 3
    assert RIM(None, **FAST).partial_fit(X[rows]).n_clusters_ == 2


def test_known_labels_are_kept(blobs):
    X, y = blobs
    labels = np.full(900, -1)
    labels[::60] = 2 - y[::60]
    fitted = RIM(3, **FAST).fit(X, labels=labels)
    assert np.mean(fitted.labels_ == 2 - y) > 0.99
    streamed = clone(fitted).partial_fit(X, labels=labels)
    assert np.mean(streamed.labels_ == 2 - y) > 0.99


def test_rows_without_weight_do_not_count(blobs):
    X, y = blobs
    weights = (y != 2).astype(float)
    fitted = RIM(2, reg=0.01, **FAST).fit(X, sample_weight=weights)
    counts = np.bincount(fitted.labels_[y != 2])
    assert counts.min() > 250
    assert adjusted_rand_score(y[y != 2], fitted.labels_[y != 2]) > 0.95


@pytest.mark.parametrize(
    ("side_inputs", "match"),
    [
        ({"labels": np.zeros(5, int)}, r"labels: got shape \(5,\); give one value for each of the 178 rows"),
        ({"labels": np.full(178, -2)}, "labels: got int64, least -2"),
        ({"labels": np.zeros(178)}, "labels: got float64"),
        ({"labels": np.full(178, "a")}, "labels: got <U1; use integers"),
        ({"sample_weight": np.full(178, -1.0)}, "sample_weight: got negative"),
        ({"sample_weight": np.zeros(178)}, "every weight is zero"),
    ],
)
def test_what_comes_beside_the_rows_is_checked(side_inputs, match):
    X = load_wine().data
    with pytest.raises(InputError, match=match):
        RIM(3, **FAST).fit(X, **side_inputs)
    with pytest.raises(InputError, match=match):
        RIM(3, **FAST).partial_fit(X, **side_inputs)


@pytest.mark.parametrize("options", [{}, {"prior": "power"}, {"reg": "3/N", "n_clusters": None}])
def test_the_score_is_the_objective(options, blobs):
    X, _ = blobs
    estimator = RIM(**{"n_clusters": 3} | options | FAST).fit(X)
    assert estimator.score(X) == pytest.approx(estimator.result_.diagnostics["objective"], rel=1e-5)
    assert estimator.score(X) > estimator.score(np.zeros_like(X))


@pytest.mark.parametrize("seed", [0, 4])
def test_clusters_of_a_stream_live_on_in_small_chunks(seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, 6000, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(6000, 2)) + np.array([[0, 0], [5, 0], [0, 5]])[y]
    stream = RIM(3, reg=0.01, **FAST).partial_fit(X[:3000])
    for lo in range(3000, 6000, 50):
        stream.partial_fit(X[lo : lo + 50])
    assert adjusted_rand_score(y, stream.predict(X)) > 0.9


def test_a_path_is_no_chunk(tmp_path):
    estimator = RIM(3, **FAST)
    for path in (tmp_path / "rows.zarr", str(tmp_path / "rows.zarr")):
        with pytest.raises(InputError, match=r"partial_fit: got the path '.*rows.zarr', .* or call fit"):
            estimator.partial_fit(path)


def test_a_stream_has_a_score(blobs):
    X, _ = blobs
    streamed, fitted = RIM(3, **FAST).partial_fit(X), RIM(3, reg="4/N", **FAST).fit(X)
    assert streamed.score(X) == pytest.approx(fitted.score(X), abs=0.1)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_rows_on_disk_are_read_in_blocks(learn, blobs, tmp_path, monkeypatch):
    X, _ = blobs
    monkeypatch.setattr(block_sizes, "DEFAULT", BlockSizes(source_bytes=1))
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "none.npy", X[:0])
    np.save(tmp_path / "narrow.npy", X[:, :3])
    array = zarr.create_array(str(tmp_path / "rows.zarr"), data=X)
    estimator = getattr(RIM(3, **FAST), learn)(X)
    for name in ("predict", "predict_proba", "decision_function"):
        method = getattr(estimator, name)
        for rows in (tmp_path / "rows.npy", array):
            np.testing.assert_allclose(method(rows), method(X), atol=1e-6)
            assert method(rows).dtype == method(X).dtype
        assert method(tmp_path / "none.npy").shape == (0, *method(X).shape[1:])
        with pytest.raises(InputError, match="X has 3 features, but the fit was made with 4 features"):
            method(tmp_path / "narrow.npy")


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_labelled_rows_in_another_order_are_refused(learn, blobs):
    frame = pd.DataFrame(blobs[0], columns=list("abcd"))
    estimator = getattr(RIM(3, **FAST), learn)(frame)
    turned = frame[list("dcba")].to_xarray().to_dataarray("column").transpose()
    for method in (estimator.predict, estimator.decision_function):
        with pytest.raises(InputError, match="column 0 of X is 'd', but 'a' in the fit"):
            method(turned)
