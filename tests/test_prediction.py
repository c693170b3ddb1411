"""New rows: each for itself, near the labels of the fit, and refused where they are not rows of its kind."""

import errno
import os

import dask.array
import numpy as np
import pytest
import reference
import zarr
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph
from small_fits import FAST, cut_small
from zarr.storage import LocalStore

import bigsmic
from bigsmic import prediction
from bigsmic.errors import InputError, NonFiniteError, OptionError, RunError, StorageError

pytestmark = pytest.mark.usefixtures("many_blocks")


def weight(squares, sigma_i, sigma_j):
    return np.exp(-squares / (sigma_i * sigma_j))


READINGS = {
    "consensus": {},
    "medoid": {"selection": "medoid"},
    "merge, by score": {"selection": "lsmi"},
    "paper": {"assignment": "paper"},
    "rotation": {"assignment": "rotation"},
    "auto": {"assignment": "auto"},
    "rotation, consensus": {"assignment": "rotation", "selection": "consensus"},
    "shrunk degrees": {"assignment": "rotation", "normalization": "symmetric", "shrinkage": (0.5, 1)},
    "plain kernel": {"assignment": "rotation", "normalization": None},
    "preset": {"preset": "paper"},
    "prior": {"prior": [0.4, 0.3, 0.2, 0.1]},
    "callable": {"kernel": weight},
    "callable, rotation": {"kernel": weight, "assignment": "rotation"},
    "one cluster": {},
}


@pytest.fixture(scope="module")
def results(blobs):
    """A fit of every way in which eigenvectors are read, made when it is asked for."""
    made = {}

    def result(name):
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                cut_small(patch)
                made[name] = bigsmic.fit(blobs[0], 1 if name == "one cluster" else 4, **FAST | READINGS[name])
        return made[name]

    return result


@pytest.fixture(scope="module")
def new_rows(blobs):
    """Between training rows, on top of them, and far away."""
    X, rng = blobs[0], np.random.default_rng(1)
    between = X[rng.integers(0, 700, 150)] + rng.normal(size=(150, 5))
    return np.concatenate([between, X[:40], X[:3] + 1e4, np.zeros((1, 5))]).astype(np.float32)


@pytest.mark.parametrize("name", READINGS)
def test_a_row_does_not_depend_on_the_others(results, new_rows, name):
    result, order = results(name), np.random.default_rng(0).permutation(len(new_rows))
    together = result.predict_proba(new_rows)
    np.testing.assert_allclose(together.sum(axis=1), 1, atol=1e-5)
    assert together.dtype == np.float32
    np.testing.assert_array_equal(result.predict_proba(new_rows[order]), together[order])
    np.testing.assert_array_equal(result.predict(new_rows)[order], result.predict(new_rows[order]))
    for i in (0, 77, 160, 192):
        np.testing.assert_array_equal(result.predict_proba(new_rows[i : i + 1]), together[i : i + 1])


def test_a_row_of_dependent_columns_does_not_depend_on_the_others():
    random = np.random.default_rng(1)
    factors = 1.5 * random.standard_normal((3, 8))[random.integers(0, 3, 600)] + random.standard_normal((600, 8))
    X = factors @ random.standard_normal((8, 120))  # of 50 components, 42 are rounding errors
    result = bigsmic.fit(X, 3, **FAST)
    together = result.predict_proba(X)
    parts = [result.predict_proba(X[i : i + 1]) for i in range(200)] + [result.predict_proba(X[200:207])]
    np.testing.assert_array_equal(np.concatenate(parts), together[:207])
    np.testing.assert_array_equal(result.predict(X), result.labels)


@pytest.mark.parametrize("name", READINGS)
def test_training_rows_mostly_get_their_labels(results, blobs, name):
    result = results(name)
    labels = result.predict(blobs[0])
    assert labels.dtype == np.int32
    assert np.mean(labels == result.labels) > 0.93


@pytest.mark.parametrize("options", [{}, {"assignment": "auto"}])
def test_digits_mostly_get_their_labels(options):
    X = load_digits().data
    result = bigsmic.fit(X, 10, n_centers=100, shrinkage=0, **options)
    assert np.mean(result.predict(X) == result.labels) > 0.95


def test_posteriors_are_those_of_the_formula(blobs, new_rows):
    """``p(y|x) ~ [sum_i K(x, x_i) phi_y(i)]+ / (lambda_y sum_j [phi_y(j)]+)``; plain kernel, signs; novel rows less."""
    result = bigsmic.fit(blobs[0], 4, assignment="paper", normalization=None, t=5, repair=False, n_centers=40)
    X = blobs[0].astype(np.float64)
    Z = reference.standardised(X)
    scaled = (new_rows[:150] - X.mean(axis=0)) / X.std(axis=0)
    values, V = reference.top_eigenvectors(reference.kernel(Z, 5), 4)
    V = V * np.where(V.sum(axis=0) < 0, -1, 1)
    squares = reference.sq_distances(Z, Z)
    np.fill_diagonal(squares, np.inf)
    sigma = np.sqrt(np.sort(squares, axis=1)[:, 4])
    apart = reference.sq_distances(scaled, Z)
    rank = apart.argsort(axis=1).argsort(axis=1)
    own = np.sqrt(np.sort(apart, axis=1)[:, 4:5])
    near = (rank < 5) | ((rank < result.settings.n_neighbors) & (apart <= sigma**2))
    K = np.where(near, np.exp(-apart / (2 * own * sigma)), 0)
    wanted = np.maximum(K @ V, 0) / (values * np.maximum(V, 0).sum(axis=0))
    wanted /= wanted.sum(axis=1, keepdims=True)
    novelty = result.novelty(new_rows[:150])[:, None] / result._run.info("novelty", 0)["trusted"]
    trust = np.where(novelty > 1, 1 / np.square(novelty), 1)
    wanted = trust * wanted + (1 - trust) / 4
    np.testing.assert_allclose(result.predict_proba(new_rows[:150]), wanted, atol=1e-3)


@pytest.mark.parametrize("kind", ["zarr", "array of zarr", "dask", "float64", "list"])
def test_kinds_of_input(results, new_rows, tmp_path, kind):
    path = str(tmp_path / "a.zarr")
    array = zarr.create_array(path, data=new_rows, chunks=(30, 2))
    data = {
        "zarr": path,
        "array of zarr": array,
        "dask": dask.array.from_array(new_rows, chunks=(17, 5)),
        "float64": new_rows.astype(np.float64),
        "list": new_rows.tolist(),
    }[kind]
    np.testing.assert_array_equal(
        results("consensus").predict_proba(data), results("consensus").predict_proba(new_rows)
    )


def test_a_component_of_a_group(results, new_rows, tmp_path):
    zarr.create_array(str(tmp_path / "g.zarr"), name="X", data=new_rows)
    found = results("consensus").predict(tmp_path / "g.zarr", component="X")
    np.testing.assert_array_equal(found, results("consensus").predict(new_rows))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_blocks_and_threads_do_not_matter(results, blobs, monkeypatch, n_threads):
    wanted = results("consensus").predict_proba(blobs[0])
    monkeypatch.setattr(prediction, "BLOCK_BYTES", 1)
    np.testing.assert_array_equal(results("consensus").predict_proba(blobs[0], n_threads=n_threads), wanted)


def test_out_has_the_same_in_zarr(results, new_rows, tmp_path):
    lazy = results("consensus").predict_proba(new_rows, out=tmp_path / "p.zarr")
    group = zarr.open_group(str(tmp_path / "p.zarr"), mode="r")
    np.testing.assert_array_equal(lazy[...], results("consensus").predict_proba(new_rows))
    np.testing.assert_array_equal(group["posterior"][...], lazy[...])
    np.testing.assert_array_equal(group["labels"][...], results("consensus").predict(new_rows))


def test_a_disk_that_fills_up_is_named(results, new_rows, tmp_path, monkeypatch):
    write, result = LocalStore.set, results("consensus")

    async def full(store, key, value):
        if key.startswith("labels/c/"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        await write(store, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "set", full)
        message = r"predict: writing rows 0:\d+ of labels to .*p\.zarr: no space left .* again: a fit with out= goes on"
        with pytest.raises(StorageError, match=message):
            result.predict(new_rows, out=tmp_path / "p.zarr")
    found = results("consensus").predict(new_rows, out=tmp_path / "p.zarr")
    np.testing.assert_array_equal(found[...], results("consensus").predict(new_rows))


def test_a_table_is_no_place_for_predictions(results, new_rows, tmp_path):
    with pytest.raises(RunError, match=r"p\.csv' is named as a table, but predictions are a Zarr group"):
        results("consensus").predict(new_rows, out=tmp_path / "p.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["consensus", "paper", "one cluster"])
def test_no_rows(results, tmp_path, name):
    none = np.zeros((0, 5), np.float32)
    c = results(name).n_clusters
    assert results(name).predict(none).shape == (0,)
    assert results(name).predict_proba(none).shape == (0, c)
    assert results(name).predict_proba(none, out=tmp_path / "p.zarr").shape == (0, c)


def test_far_rows_get_the_cluster_of_the_nearest_training_row(results, blobs):
    result, X = results("paper"), blobs[0]
    far = (X[:50] - X.mean(axis=0)) * 100 + X.mean(axis=0)
    nearest = [np.square((X - x) / X.std(axis=0)).sum(axis=1).argmin() for x in far]
    posterior = result.predict_proba(far)
    flat = np.isclose(posterior, 0.25).all(axis=1)
    np.testing.assert_array_equal(result.predict(far)[flat], result.labels[nearest][flat])


def test_rows_beyond_any_distance_are_undecided_and_touch_no_others(results, new_rows):
    result, beyond = results("consensus"), np.full((2, 5), 1e20)
    np.testing.assert_allclose(result.predict_proba(beyond), 1 / result.n_clusters)
    assert np.isin(result.predict(beyond), result.labels).all()
    among = result.predict_proba(np.concatenate([new_rows, beyond]))
    np.testing.assert_array_equal(among[: len(new_rows)], result.predict_proba(new_rows))


@pytest.mark.parametrize(
    "options",
    [
        {"method": "rim"},
        {"method": "rim", "scale": None},
        {"method": "mspc"},
        {"method": "mwca"},
        {"method": "kernel_rim"},
        {"method": "kernel_rim", "kernel": "polynomial"},
        {"method": "kernel_rim", "approximation": "fourier"},
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_too_far_for_float32_are_in_no_cluster_more_than_in_another(blobs, options, dtype):
    result = bigsmic.fit(blobs[0], 2, n_threads=1, **options)
    d, most = blobs[0].shape[1], np.finfo(dtype).max
    far = most * np.vstack([np.ones(d), -np.ones(d), np.eye(d), 1e-5 * np.eye(d)]).astype(dtype)
    np.testing.assert_array_equal(result.predict_proba(far), np.full((len(far), 2), 0.5))
    labels = result.predict(far)
    assert ((labels == 0) | (labels == 1)).all()
    if "kernel" not in options["method"] and options["method"] != "mwca":  # which have hyperplanes
        nearer = (far.astype(np.float64) / most * 1e12).astype(dtype)
        np.testing.assert_array_equal(labels, result.predict(nearer))


@pytest.mark.parametrize("name", ["consensus", "one cluster"])
def test_rows_of_another_kind_are_refused(results, blobs, name):
    result, X = results(name), blobs[0]
    with pytest.raises(InputError, match=r"predict: X has 4 features, but the fit was made with 5 features; give rows"):
        result.predict(X[:, :4])
    with pytest.raises(InputError, match="expected a 2-dimensional array"):
        result.predict(X[0])
    with pytest.raises(InputError, match=r"dtype .* is not real"):
        result.predict(X.astype(str))
    bad = X.copy()
    bad[400, 2] = np.nan
    with pytest.raises(NonFiniteError, match="predict: array contains NaN or infinity: first at row 400, column 2"):
        result.predict(bad)


def test_what_a_refused_call_did_not_predict_is_no_label(results, new_rows, tmp_path):
    X = new_rows.copy()
    X[-1, 2] = np.nan
    with pytest.raises(NonFiniteError):
        results("consensus").predict(X, out=tmp_path / "labels")
    written = zarr.open_group(tmp_path / "labels", mode="r")
    assert (written["labels"][:] == -1).all()
    assert np.isnan(written["posterior"][:]).all()


def test_a_missing_chunk_is_refused(results, new_rows, tmp_path):
    zarr.create_array(str(tmp_path / "a.zarr"), data=new_rows, chunks=(50, 5))
    (tmp_path / "a.zarr" / "c" / "1" / "0").unlink()
    with pytest.raises(StorageError, match=r"rows 50:100.* is missing"):
        results("consensus").predict(tmp_path / "a.zarr")


def test_a_callable_has_to_be_given_again(tmp_path, blobs, new_rows):
    result = bigsmic.fit(blobs[0], 4, kernel=weight, out=tmp_path / "run", **FAST)
    with pytest.raises(InputError, match=r"was a callable, which is not stored; pass kernel= to Result.open"):
        bigsmic.Result.open(tmp_path / "run").predict(new_rows)
    again = bigsmic.Result.open(tmp_path / "run", kernel=weight)
    np.testing.assert_array_equal(again.predict_proba(new_rows), result.predict_proba(new_rows))


def test_new_rows_on_duplicates():
    """Here eigenvalues fall to zero within the columns that are read."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(6, 3))
    result = bigsmic.fit(points[rng.integers(0, 6, 600)], 6, **FAST)
    posterior = result.predict_proba(np.concatenate([points, points + 1e-3]))
    assert np.isfinite(posterior).all()
    assert len(set(result.predict(points))) == 6


def test_rows_that_were_not_fitted_see_the_same_clusters(blobs):
    X, y = blobs
    result = bigsmic.fit(X[::2], 4, **FAST)
    fitted, predicted = (
        adjusted_rand_score(y[::2], result.labels),
        adjusted_rand_score(y[1::2], result.predict(X[1::2])),
    )
    assert predicted > fitted - 0.05


def test_an_option_that_there_is_not_is_refused_by_name(results, blobs):
    for predict in (results("consensus").predict, results("consensus").predict_proba):
        with pytest.raises(OptionError, match=r"predict: got unexpected option foo=; it takes client=, component=, "):
            predict(blobs[0], foo=1)
        with pytest.raises(OptionError, match=r"n_thread= \(did you mean n_threads=\?\)"):
            predict(blobs[0], n_thread=1)
        with pytest.raises(InputError, match=r"n_threads: got 0; give an integer of at least 1"):
            predict(blobs[0], n_threads=0)


def test_absent_chunks_are_read_as_in_a_fit(results, blobs, tmp_path):
    zarr.create_array(str(tmp_path / "X.zarr"), shape=blobs[0].shape, chunks=(100, 5), dtype="f4")[:600] = blobs[0][
        :600
    ]
    with pytest.raises(StorageError, match="missing_chunks='fill'"):
        results("consensus").predict(tmp_path / "X.zarr")
    found = results("consensus").predict_proba(tmp_path / "X.zarr", missing_chunks="fill")
    whole = np.concatenate([blobs[0][:600], np.zeros((100, 5), np.float32)])
    np.testing.assert_array_equal(found, results("consensus").predict_proba(whole))


def test_a_slice_of_the_rows_of_a_graph_is_predicted_alone(blobs):
    graph = kneighbors_graph(blobs[0], 10, mode="distance")
    result = bigsmic.fit(graph, 4, **FAST, metric="precomputed")
    np.testing.assert_array_equal(result.predict(graph, rows=slice(-30, -10)), result.predict(graph)[-30:-10])
    np.testing.assert_array_equal(result.predict_proba(graph, rows=slice(5)), result.predict_proba(graph)[:5])
    np.testing.assert_array_equal(result.novelty(graph, rows=slice(5, 9)), result.novelty(graph)[5:9])
    with pytest.raises(InputError, match="rows: got 7; give a slice of consecutive rows"):
        result.predict(graph, rows=7)


@pytest.mark.parametrize("option", ["metric", "kernel"])
def test_rows_of_a_graph_are_predicted_block_by_block(blobs, option, monkeypatch):
    graph = kneighbors_graph(blobs[0], 10, mode="distance")
    graph = graph.maximum(graph.T) if option == "kernel" else graph
    result = bigsmic.fit(graph, 4, **FAST, **{option: "precomputed"})
    calls = [result.predict, result.predict_proba, *([result.novelty] if option == "metric" else [])]
    whole = [call(graph) for call in calls]
    read, heights = prediction.Assessor.read, []
    monkeypatch.setattr(prediction, "MAX_ROWS", 64)
    monkeypatch.setattr(
        prediction.Assessor, "read", lambda self, *found: heights.append(len(found[0])) or read(self, *found)
    )
    for call, wanted in zip(calls, whole, strict=True):
        np.testing.assert_array_equal(call(graph), wanted)
        assert len(call(graph[:0])) == 0
    assert max(heights) == 64
