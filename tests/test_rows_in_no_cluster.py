"""Rows in no cluster through the pipeline: labels -1, scores, predictions, and what is said of them."""

import json
import pickle

import dask.array
import numpy as np
import pytest
import zarr
from sklearn.metrics import adjusted_rand_score
from small_fits import BRIEF, cut_small

import bigsmic
from bigsmic import SMIC
from bigsmic.datasets import TetrodeSimulator, uneven_blobs
from bigsmic.errors import AbsentResultError, ConvergenceWarning, InputError, NonFiniteError
from bigsmic.runtime.context import Context
from bigsmic.settings.smic import resolve
from bigsmic.stages import number_evidence

pytestmark = pytest.mark.usefixtures("many_blocks")

OPTIONS = {**BRIEF, "t": (5, 10), "scale": None, "valleys": False}


@pytest.fixture(scope="module")
def rows():
    """Six blobs well apart, and a twentieth of rows in none."""
    return uneven_blobs(1500, 6, 8, noise=0.05, seed=5)


@pytest.fixture(scope="module")
def found(rows, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(rows[0], 6, noise=True, out=tmp_path_factory.mktemp("noise") / "run", **OPTIONS)


def assert_identical(result, other):
    for name in ("labels", "posterior", "noise"):
        np.testing.assert_array_equal(np.asarray(getattr(result, name)), np.asarray(getattr(other, name)))


def test_rows_in_no_cluster_are_found(found, rows):
    _, y = rows
    alone = found.labels == -1
    assert (alone & (y == -1)).sum() > 0.8 * (y == -1).sum()
    assert (alone & (y >= 0)).mean() < 0.02
    assert adjusted_rand_score(y[~alone], found.labels[~alone]) > 0.95
    assert set(found.labels) == {-1, *range(6)}
    assert found.n_clusters == found.posterior.shape[1] == 6


def test_scores_part_where_labels_do(found):
    assert (found.noise.dtype, found.noise.shape) == (np.float32, found.labels.shape)
    assert ((found.noise >= 0) & (found.noise <= 1)).all()
    np.testing.assert_array_equal(found.noise > 0.5, found.labels == -1)


def test_nothing_but_the_labels_of_noise_changes(found, rows):
    plain = bigsmic.fit(rows[0], 6, **OPTIONS)
    kept = found.labels >= 0
    np.testing.assert_array_equal(plain.labels[kept], found.labels[kept])
    np.testing.assert_array_equal(np.asarray(plain.posterior), np.asarray(found.posterior))
    np.testing.assert_array_equal(plain.agreement, found.agreement)
    assert (plain.labels >= 0).all()
    assert "noise" not in plain.diagnostics
    assert "noise" not in repr(plain)
    for ask in (lambda: plain.noise, lambda: plain.predict_noise(rows[0])):
        with pytest.raises(AbsentResultError, match="did not look for rows in no cluster; fit with noise=True"):
            ask()
    assert not hasattr(plain, "noise")


def test_blobs_without_noise_lose_few_rows():
    X, _ = uneven_blobs(1500, 6, 8, seed=5)
    assert (bigsmic.fit(X, 6, noise=True, **OPTIONS).labels == -1).mean() < 0.02


def test_spikes_on_which_others_fall_are_of_their_neurons():
    X, _ = TetrodeSimulator(n_rows=2000, n_units=5, seed=2000).block(0, 2000)
    result = bigsmic.fit(X, 5, noise=True, t=10, n_centers=40, n_threads=1)
    assert np.mean(result.labels == -1) < 0.01  # two thirds of 6 % are, if 1.2 times the usual distance is enough


def test_other_threads_and_limits_find_the_same(found, rows):
    assert_identical(found, bigsmic.fit(rows[0], 6, noise=True, **OPTIONS | {"n_threads": 3}))
    assert_identical(found, bigsmic.fit(rows[0], 6, noise=True, memory_limit="700MiB", **OPTIONS))


@pytest.mark.parametrize("gone", ["spacing", "noise_scores", "output"])
def test_a_run_goes_on_without_a_stage(found, rows, tmp_path, gone):
    found.save(tmp_path / "run")
    run = bigsmic.store.Run(tmp_path / "run")
    run.drop(gone, [block for stage, block in run.blocks() if stage == gone])
    run.close()
    assert_identical(found, bigsmic.fit(rows[0], 6, noise=True, out=tmp_path / "run", **OPTIONS))


def test_predictions_know_noise(found, rows):
    X, _ = rows
    labels, scores = found.predict(X), found.predict_noise(X)
    np.testing.assert_array_equal(labels, found.labels)  # of rows that are equal to fitted ones
    np.testing.assert_array_equal(scores, found.noise)
    assert (scores.dtype, scores.shape) == (np.float32, (len(X),))
    np.testing.assert_array_equal(scores > 0.5, labels == -1)
    far = X[:3] + 1000
    assert found.predict(far).tolist() == [-1] * 3
    assert (found.predict_noise(far) > 0.99).all()
    assert found.predict_noise(X[:0]).shape == (0,)
    np.testing.assert_allclose(found.predict_proba(far).sum(axis=1), 1, atol=1e-5)


def test_lazy_rows_get_lazy_scores(found, rows):
    X = dask.array.from_array(rows[0][:300], chunks=(100, -1))
    scores = found.predict_noise(X)
    assert isinstance(scores, dask.array.Array)
    np.testing.assert_array_equal(scores.compute(scheduler="sync"), found.predict_noise(rows[0][:300]))
    np.testing.assert_array_equal(found.predict(X).compute(scheduler="sync"), found.predict(rows[0][:300]))


def test_other_options_of_scores_are_refused(found, rows, tmp_path):
    with pytest.raises(InputError, match=r"predict_noise.*out"):
        found.predict_noise(rows[0], out=tmp_path / "out")
    with pytest.raises(InputError, match="X has 2 features, but the fit was made with 8 features"):
        found.predict_noise(rows[0][:, :2])


@pytest.mark.parametrize("score", ["predict_noise", "novelty"])
@pytest.mark.parametrize("container", [np.asarray, dask.array.from_array])
def test_refused_rows_are_told_by_the_method_that_was_called(found, rows, score, container):
    with pytest.raises(InputError, match=f"^{score}: X has 2 features"):
        getattr(found, score)(container(rows[0][:, :2]))
    with pytest.raises(NonFiniteError, match=f"^{score}: array contains NaN or infinity: first at row 0, column 0"):
        np.asarray(getattr(found, score)(container(rows[0][:10] * np.nan)))


def test_results_travel_with_their_noise(found, rows):
    X = rows[0][:50]
    temporary = bigsmic.fit(rows[0], 6, noise=True, **OPTIONS)
    opened = bigsmic.Result.open(found.location)
    for other in (opened, pickle.loads(pickle.dumps(opened)), pickle.loads(pickle.dumps(temporary))):
        assert_identical(found, other)
        np.testing.assert_array_equal(found.predict_noise(X), other.predict_noise(X))
        assert repr(other).splitlines()[:-2] == repr(found).splitlines()[:-2]


def test_it_is_said_how_many(found):
    said, sizes = found.diagnostics["noise"], np.bincount(found.labels[found.labels >= 0], minlength=6)
    n = int((found.labels == -1).sum())
    assert (said["rows"], sum(said["next_to"])) == (n, n)
    assert said["share"] == pytest.approx(n / len(found.labels))
    assert found.diagnostics["output"]["cluster_sizes"] == sizes.tolist()
    assert f"{n} rows ({n / len(found.labels):.1%}) in no cluster" in repr(found)
    assert json.dumps(found.diagnostics)
    group = zarr.open_group(found.location, mode="r")
    np.testing.assert_array_equal(group["noise"][:], found.noise)
    np.testing.assert_array_equal(group["labels"][:], found.labels)


def test_a_cut_knows_noise(found, rows):
    cut = found.cut(4)
    assert cut.n_clusters == 4
    assert set(cut.labels) == {-1, *range(4)}
    np.testing.assert_array_equal(cut.noise > 0.5, cut.labels == -1)
    assert cut.diagnostics["noise"]["rows"] == (cut.labels == -1).sum()
    assert ((cut.predict(rows[0]) == -1) == (cut.labels == -1)).mean() > 0.98


def test_noise_where_the_number_of_clusters_is_found(rows):
    result = bigsmic.fit(rows[0], scale=None, t=5, n_centers=40, noise=True)
    assert result.n_clusters > 1
    assert -1 in result.labels
    np.testing.assert_array_equal(result.noise > 0.5, result.labels == -1)
    assert result.diagnostics["noise"]["rows"] == (result.labels == -1).sum()


def test_an_open_number_has_no_noise_before_it_is_cut(rows):
    result = bigsmic.fit(rows[0], None, noise=True, **OPTIONS)
    with pytest.raises(InputError, match="noise: the fit was given no number of clusters"):
        result.noise  # noqa: B018
    assert -1 in result.cut(6).labels


def test_noise_of_a_graph_of_distances(rows):
    from sklearn.neighbors import kneighbors_graph

    X, y = rows
    graph = kneighbors_graph(X, 20, mode="distance")
    options = {name: value for name, value in OPTIONS.items() if name not in ("scale", "valleys", "n_centers")}
    result = bigsmic.fit(graph, 6, metric="precomputed", noise=True, **options)
    alone = result.labels == -1
    assert (alone & (y == -1)).sum() > 0.8 * (y == -1).sum()
    assert ((result.predict(graph) == -1) == alone).mean() > 0.95
    np.testing.assert_array_equal(result.predict_noise(graph) > 0.5, result.predict(graph) == -1)


def test_a_table_of_integers_is_not_all_noise():
    draw = np.random.default_rng(0)
    X = np.concatenate([draw.poisson(mean, (400, 3)) for mean in (1, 6)])
    result = bigsmic.fit(X, 2, noise=True, **OPTIONS)
    assert (result.labels == -1).mean() < 0.05


def test_equal_rows_are_no_noise():
    X = np.repeat(np.eye(3, dtype=np.float32), 200, axis=0)
    with pytest.warns(ConvergenceWarning, match="no more than 3 rows differ"):
        result = bigsmic.fit(X, 4, noise=True, **OPTIONS)
    assert not result.noise.any()
    assert set(result.labels) == {0, 1, 2}
    assert not result.predict_noise(X[:5] + 100).any()


def test_what_says_nothing_of_noise_is_refused():
    with pytest.raises(InputError, match="noise: got True with a single cluster"):
        resolve(1, noise=True)
    with pytest.raises(InputError, match="noise: got True with kernel='precomputed'"):
        resolve(3, noise=True, kernel="precomputed")
    with pytest.raises(InputError, match="noise"):
        bigsmic.fit(np.zeros((9, 2)), 2, method="3smic", noise=True)


def test_the_estimator(rows, found):
    X, _ = rows
    options = {name: value for name, value in OPTIONS.items() if name != "n_threads"}
    model = SMIC(6, noise=True, random_state=0, **options).fit(X)
    np.testing.assert_array_equal(model.labels_, found.labels)
    np.testing.assert_array_equal(model.classes_, np.arange(6))
    np.testing.assert_array_equal(model.predict(X), found.predict(X))
    inside = model.predict(X) >= 0
    assert model.score(X) == model.score(X[inside]) > 0
    assert model.score(X[:20] + 1000) == 0


def test_trimmed_rows_follow_their_neighbours(rows, tmp_path):
    X, y = rows
    result = bigsmic.fit(X, 6, trim=True, out=tmp_path / "run", **OPTIONS)
    inside = y >= 0
    assert adjusted_rand_score(y[inside], result.labels[inside]) > 0.99
    context = Context(None, result._run, result.settings)
    order = np.concatenate([result._run.read("rows", p, "rows") for p in context.blocks])
    degree = np.empty(len(X))
    degree[order] = np.concatenate([result._run.read("degree.normalized.t5", p, "degree") for p in context.blocks])
    far = degree < 1e-2 * np.median(degree)
    assert far.sum() == result._run.info("trimmed", 0)["rows"]
    assert far[~inside].mean() > 0.8 > 0.02 > far[inside].mean()
    assert (result.predict(X) == result.labels).mean() > 0.98
    moved = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(moved.predict(X[:100]), result.predict(X[:100]))


def test_trimming_wants_distances():
    with pytest.raises(InputError, match="trim: got True with kernel='precomputed'"):
        resolve(2, kernel="precomputed", trim=True)


def in_a_plane(n_noise, seed=3):
    """Five blobs, and rows anywhere."""
    rng = np.random.default_rng(seed)
    centers = 8 * np.array([(0, 0), (1, 0), (0, 1), (1, 1), (2, 0.5)])
    y = np.repeat([*range(5), -1], [480] * 5 + [n_noise])
    noise = rng.uniform((-4, -4), (20, 12), (len(y), 2))
    return np.where(y[:, None] < 0, noise, centers[y] + rng.normal(0, 0.5, (len(y), 2))).astype(np.float32), y


@pytest.fixture(scope="module")
def plane():
    """Five blobs and a fifth of noise, whose distances are as wide as those of the blobs' tails."""
    return in_a_plane(600)


def test_dense_noise_in_a_plane_is_found_and_predicted(plane):
    X, y = plane
    found = bigsmic.fit(X[::2], 5, noise=True)
    for labels, truth in ((found.labels, y[::2]), (found.predict(X[1::2]), y[1::2])):
        assert np.mean(labels[truth < 0] < 0) > 0.6
        assert np.mean(labels[truth >= 0] < 0) < 0.03


@pytest.mark.parametrize("c", [5, None])
def test_noise_is_the_same_in_parts_and_as_a_whole(plane, tmp_path, c):
    """The gap before noise is from samples of all blocks."""
    parts = zarr.create_array(str(tmp_path / "X.zarr"), data=plane[0], chunks=(137, 2))
    assert_identical(bigsmic.fit(parts, c, noise=True, n_threads=2), bigsmic.fit(plane[0], c, noise=True, n_threads=1))


@pytest.mark.parametrize("seed", [1, 5])  # of others, a last bit moves the gap before noise into the tails of blobs
def test_labelings_that_disagree_about_noise_agree_on_clusters(seed, monkeypatch):
    X, y = in_a_plane(1600, seed)
    found = bigsmic.fit(X, noise=True)
    assert found.n_clusters in (5, 6)  # one of which may be noise
    assert found.valleys.agreement > 0.9
    assert adjusted_rand_score(y[y >= 0], found.labels[y >= 0]) > 0.9
    assert np.mean(found.labels[y < 0] < 0) > 0.7
    monkeypatch.setattr(number_evidence.Evidence, "gap_to_noise", lambda _: np.inf)
    assert bigsmic.fit(X).valleys.agreement < 0.8


def test_a_cluster_of_noise_is_said_to_be_one(found):
    assert "nearly all rows of cluster" not in repr(found)
    noise = found.diagnostics["noise"]
    other = pickle.loads(pickle.dumps(found))
    next_to = [*noise["next_to"][:-1], 20 * int(found.sizes[-1])]
    other.__dict__["diagnostics"] = found.diagnostics | {"noise": noise | {"next_to": next_to}}
    assert "in no cluster, with nearly all rows of cluster 5" in repr(other)
