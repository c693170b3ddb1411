"""Dask in, Dask out: predictions of dask arrays are lazy, and what a cluster holds is read from it."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from clusters import cluster_of
from distributed.protocol import pickle
from sklearn.base import clone

import bigsmic
from bigsmic import RIM, SMIC
from bigsmic.errors import InputError


@pytest.fixture(scope="module")
def result(blobs):
    return bigsmic.fit(blobs[0], 3, t=(5,), n_threads=1)


@pytest.fixture(scope="module")
def workers():
    with cluster_of(1, as_default=False) as client:
        yield client


@pytest.fixture
def client(workers):
    """The cluster, which fits and dask arrays find by themselves."""
    with workers.as_current():
        yield workers


def chunked(X, rows=200, columns=None):
    return da.from_array(X, chunks=(rows, columns or X.shape[1]))


def test_predictions_are_lazy_in_the_chunks_of_the_rows(result, blobs):
    X = blobs[0]
    labels, posterior = result.predict(chunked(X)), result.predict_proba(chunked(X))
    assert (labels.chunks, labels.dtype) == (((200, 200, 200, 100),), np.int32)
    assert (posterior.chunks, posterior.dtype) == (((200, 200, 200, 100), (3,)), np.float32)
    assert (labels._meta.shape, posterior._meta.shape) == ((0,), (0, 0))
    np.testing.assert_array_equal(labels.compute(), result.predict(X))
    np.testing.assert_array_equal(posterior.compute(), result.predict_proba(X))
    np.testing.assert_array_equal(result.predict(chunked(X, 150, 2)).compute(), result.predict(X))
    assert isinstance(result.predict(X), np.ndarray)


def test_nothing_is_computed_before_it_is_asked_for(result, blobs):
    def fail(block):
        raise AssertionError("computed")

    result.predict_proba(chunked(blobs[0]).map_blocks(fail, dtype=np.float32, meta=np.empty((0, 0), np.float32)))


def test_numbers_of_rows_may_be_unknown(result, blobs):
    X = blobs[0]
    lazy = result.predict(chunked(X)[chunked(X)[:, 0] > 0])
    assert np.isnan(lazy.shape[0])
    np.testing.assert_array_equal(lazy.compute(), result.predict(X[X[:, 0] > 0]))
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    np.testing.assert_array_equal(result.predict(frame).compute(), result.predict(X))
    assert result.predict_proba(frame).compute().shape == (len(X), 3)


def test_the_model_is_in_the_graph_once(result, blobs):
    X, written = blobs[0], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(result), "__reduce__", lambda self: (str, (written.append(1) or "model",)))
        lazy = dask.optimize(result.predict(chunked(X, 10)), result.predict_proba(chunked(X, 10)))
        for task in {**lazy[0].dask, **lazy[1].dask}.values():
            pickle.dumps(task)
    assert len(written) == 1
    np.testing.assert_array_equal(dask.compute(*lazy)[0], result.predict(X))


def test_predictions_travel_to_other_processes(result, blobs, client):
    X = blobs[0]
    np.testing.assert_array_equal(result.predict(chunked(X)).compute(), result.predict(X))
    np.testing.assert_array_equal(client.compute(result.predict_proba(chunked(X))).result(), result.predict_proba(X))
    persisted = result.predict(chunked(X).persist()).persist()
    np.testing.assert_array_equal(persisted.compute(), result.predict(X))


def test_what_a_cluster_holds_is_read_from_it(blobs, client, tmp_path):
    X = blobs[0]
    held = chunked(X).persist()
    wanted = bigsmic.fit(X, 3, method="rim", client=client)
    np.testing.assert_array_equal(bigsmic.fit(held, 3, method="rim").labels, wanted.labels)
    np.testing.assert_array_equal(wanted.predict(held, out=tmp_path / "p")[:], wanted.labels)


def test_out_writes_what_is_lazy(result, blobs, tmp_path):
    X = blobs[0]
    written = result.predict(chunked(X), out=tmp_path / "a.zarr")
    np.testing.assert_array_equal(written[:], result.predict(X))
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    np.testing.assert_array_equal(result.predict(frame, out=tmp_path / "b.zarr")[:], result.predict(X))


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (lambda X: chunked(X)[:, 0], r"expected a 2-dimensional array .*, got shape \(700,\)"),
        (lambda X: chunked(X)[:, :3], "X has 3 features, but the fit was made with 5 features"),
        (lambda X: chunked(X).astype(complex), "chunks of ndarray, dtype complex128; convert them"),
        (lambda X: dask.delayed(X), "got a dask Delayed; give a dask array or dataframe"),
    ],
)
def test_rows_that_cannot_be_predicted_are_refused_at_once(result, blobs, rows, match):
    with pytest.raises(InputError, match=match):
        result.predict(rows(blobs[0]))


def test_options_that_do_nothing_for_a_dask_array_are_refused(result, blobs):
    with pytest.raises(InputError, match="predict_proba: got n_threads with a dask array"):
        result.predict_proba(chunked(blobs[0]), n_threads=2)


def test_bad_rows_are_found_when_they_are_computed(result, blobs):
    X = blobs[0].copy()
    X[300, 2] = np.nan
    with pytest.raises(InputError, match="NaN or infinity: first at row 100, column 2"):
        result.predict(chunked(X)).compute()


# -- estimators


@pytest.mark.parametrize("estimator", [SMIC(3, t=5, widths=1.5, random_state=0), RIM(3, random_state=0)])
def test_estimators_take_and_give_dask_arrays(estimator, blobs):
    X = blobs[0]
    wanted = clone(estimator).fit(X)
    for rows in (chunked(X), dd.from_pandas(pd.DataFrame(X), npartitions=3)):
        fitted = clone(estimator).fit(rows)
        np.testing.assert_array_equal(fitted.labels_, wanted.labels_)
        labels, posterior = fitted.predict(rows), fitted.predict_proba(rows)
        assert isinstance(labels, da.Array)
        np.testing.assert_array_equal(labels.compute(), wanted.predict(X))
        np.testing.assert_array_equal(posterior.compute(), wanted.predict_proba(X))


def test_a_stream_gives_dask_arrays(blobs):
    X = blobs[0]
    stream = RIM(3, random_state=0).partial_fit(X)
    for method, shape in (("predict", (700,)), ("predict_proba", (700, 3)), ("decision_function", (700, 3))):
        lazy = getattr(stream, method)(chunked(X))
        assert isinstance(lazy, da.Array)
        assert lazy.shape == shape
        found, wanted = lazy.compute(), getattr(stream, method)(X)
        assert found.dtype == wanted.dtype == lazy.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
