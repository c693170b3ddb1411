"""Kernel RIM on the pipeline: features against the kernel, and against linear RIM where the kernel is linear."""

from functools import partial

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array
from sklearn.datasets import load_iris, load_wine, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_fits import cut_small

import bigsmic
from bigsmic.datasets import circle_and_gaussian
from bigsmic.errors import CollapseError, InputError
from bigsmic.estimators.kernel_rim import KernelRIM
from bigsmic.methods import mic
from bigsmic.numerics.objectives import kernel_features
from bigsmic.numerics.objectives.kernel_features import (
    Columns,
    Fourier,
    Kernel,
    Nystrom,
    default_length_scale,
    whitener,
)

FIT = {"method": "kernel_rim", "n_threads": 1, "n_components": 60}
GRAPH = KernelRIM(2, kernel="local_scaling", reg="0.1/N")


def expected_failures(estimator):
    if estimator.kernel == "local_scaling":
        return {name: "no weights on the graph" for name in WEIGHT_CHECKS}
    return {name: "landmarks are drawn by row" for name in WEIGHT_CHECKS if "equivalence" in name}


WEIGHT_CHECKS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_all_zero_sample_weights_error",
)


def linear(X, Y):
    return X @ Y.T


@pytest.mark.sklearn_checks
@parametrize_with_checks([KernelRIM(2, n_components=30)], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.sklearn_checks
@parametrize_with_checks([GRAPH], expected_failed_checks=expected_failures)
def test_scikit_learn_checks_on_the_graph(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32), y


# -- features


def test_nystrom_with_all_rows_is_the_kernel():
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    kernel = Kernel("rbf", 1.5)
    F = Nystrom(kernel, X, whitener(kernel(X, X)))(X).astype(np.float64)
    np.testing.assert_allclose(F @ F.T, rbf_kernel(X, gamma=1 / 4.5), atol=1e-5)


def test_columns_of_a_kernel_are_nystrom():
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    kernel, columns = Kernel("rbf", 1.5), np.arange(0, 40, 2)
    M = whitener(kernel(X[columns], X[columns]))
    by_rows, by_values = Nystrom(kernel, X[columns], M)(X), Columns(columns, M)(kernel(X, X))
    np.testing.assert_allclose(by_values, by_rows, atol=1e-5)


def test_random_features_are_nearly_the_kernel():
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    F = Fourier.draw(3, 20_000, 1.5, seed=0)(X).astype(np.float64)
    np.testing.assert_allclose(F @ F.T, rbf_kernel(X, gamma=1 / 4.5), atol=0.05)


def test_features_of_blocks_are_those_of_the_whole():
    X = np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32)
    kernel = Kernel("rbf", 1.5)
    features = Nystrom(kernel, X[:30], whitener(kernel(X[:30], X[:30])))
    parts = np.concatenate([features(X[:17]), features(X[17:3000]), features(X[3000:])])
    np.testing.assert_allclose(parts, features(X), atol=1e-5)


def test_directions_that_are_not_resolved_are_left_out():
    K = np.ones((5, 5)) + np.diag([1.0, 0, 0, 0, 0])
    assert whitener(K).shape == (5, 2)
    indefinite = np.diag([2.0, 1.0, -1.0])
    assert whitener(indefinite).shape == (3, 2)


def test_widths_are_those_of_the_median_distance():
    X = np.array([[0.0], [2.0]])
    assert default_length_scale("rbf", X, X) == 2
    assert default_length_scale("laplacian", X, X) == 2
    assert default_length_scale("cosine", X, X) is None


# -- fits


def test_the_linear_kernel_is_linear_rim(wine):
    X, _ = wine
    options = {"n_threads": 1, "solver": "lbfgs", "reg": 0.1}
    plain = bigsmic.fit(X, 3, method="rim", **options)
    kernel = bigsmic.fit(X, 3, method="kernel_rim", kernel=linear, n_components=178, **options)
    assert kernel.diagnostics["features"] == 13
    assert adjusted_rand_score(plain.labels, kernel.labels) > 0.97
    assert kernel.diagnostics["objective"] == pytest.approx(plain.diagnostics["objective"], abs=1e-3)


@pytest.mark.parametrize("load", [load_iris, load_wine, lambda return_X_y: make_moons(300, random_state=0)])
def test_a_default_strength_that_leaves_one_category_is_halved(load):
    X, _ = load(return_X_y=True)
    options = {"method": "kernel_rim", "n_threads": 1}
    found = bigsmic.fit(X, **options)
    tried = [point["reg"] * len(X) for point in found.diagnostics["path"]]
    assert tried == pytest.approx([4.0 / 2**i for i in range(len(tried))])
    assert [point["alive"] for point in found.diagnostics["path"][:-1]] == [1] * (len(tried) - 1)
    assert 1 < found.n_clusters == found.diagnostics["path"][-1]["alive"]
    assert found.diagnostics["reg"] * len(X) == pytest.approx(tried[-1])
    with pytest.raises(CollapseError, match="a single category contains every row"):
        bigsmic.fit(X, reg="4/N", **options)


def test_a_default_strength_that_leaves_more_is_kept():
    X, _ = make_blobs(3000, 2, centers=8, random_state=0, cluster_std=0.3)
    found = bigsmic.fit(X, method="kernel_rim", n_threads=1)
    assert [point["reg"] for point in found.diagnostics["path"]] == [4 / 3000]
    np.testing.assert_array_equal(found.labels, bigsmic.fit(X, method="kernel_rim", reg="4/N", n_threads=1).labels)


def test_given_values_are_the_kernel_itself(wine):
    X, y = wine
    scaled = X.astype(np.float64)
    K = rbf_kernel(scaled, gamma=0.05)
    options = {"method": "kernel_rim", "n_threads": 1, "solver": "lbfgs", "reg": 0.002}
    by_rows = bigsmic.fit(X, 3, length_scale=10**0.5, **options)
    by_values = bigsmic.fit(K, 3, kernel="precomputed", **options)
    assert by_values.diagnostics["objective"] == pytest.approx(by_rows.diagnostics["objective"], abs=0.02)
    assert adjusted_rand_score(y, by_values.labels) > 0.8
    np.testing.assert_array_equal(by_values.predict(K[:30]), by_values.labels[:30])


def test_archives_are_read_in_blocks(wine, tmp_path, monkeypatch):
    X = np.tile(wine[0], (5, 1))
    whole = bigsmic.fit(X, 3, **FIT)
    cut_small(monkeypatch)
    archive = zarr.create_array(str(tmp_path / "a.zarr"), data=X, chunks=(100, 13))
    stored = bigsmic.fit(archive, 3, out=tmp_path / "run", **FIT)
    assert len(stored._run.blocks()) > 8
    assert adjusted_rand_score(whole.labels, stored.labels) > 0.95
    opened = bigsmic.Result.open(tmp_path / "run")
    np.testing.assert_array_equal(opened.predict(X[:50]), stored.labels[:50])
    again = bigsmic.fit(archive, 3, out=tmp_path / "run", **FIT)
    np.testing.assert_array_equal(again.labels, stored.labels)


def test_chunks_and_threads_do_not_matter(wine, tmp_path):
    X = np.tile(wine[0], (5, 1))
    whole = bigsmic.fit(X, 3, **FIT)
    for rows in (33, 500):
        archive = zarr.create_array(str(tmp_path / f"{rows}.zarr"), data=X, chunks=(rows, 13))
        stored = bigsmic.fit(archive, 3, **FIT | {"n_threads": 2})
        np.testing.assert_array_equal(np.asarray(stored.posterior), np.asarray(whole.posterior))


def test_known_labels_name_the_clusters(wine):
    X, y = wine
    known = np.where(np.arange(len(y)) % 6 == 0, y, -1)
    found = bigsmic.fit(X, 3, labels=known, **FIT)
    assert (found.labels == y).mean() > 0.9


def test_a_function_is_asked_for_again(wine, tmp_path):
    X, _ = wine
    found = bigsmic.fit(X, 3, kernel=linear, out=tmp_path / "run", reg=0.1, **FIT)
    np.testing.assert_array_equal(found.predict(X), found.labels)
    with pytest.raises(InputError, match="callable"):
        bigsmic.Result.open(tmp_path / "run").predict(X)
    opened = bigsmic.Result.open(tmp_path / "run", kernel=linear)
    np.testing.assert_array_equal(opened.predict(X), found.labels)


def test_a_function_of_one_row_is_no_kernel(wine):
    with pytest.raises(
        InputError, match=r"kernel: .*lambda.* cannot be called with 2 arguments; give a function of \(X, Y\)"
    ):
        bigsmic.fit(wine[0], 3, kernel=lambda X: X @ X.T, reg=0.1, **FIT)

    def faulty(X, Y):
        return X + None

    with pytest.raises(TypeError, match="unsupported operand"):  # of the function itself
        bigsmic.fit(wine[0], 3, kernel=faulty, reg=0.1, **FIT)


def test_the_graph_is_mic_at_one_t():
    X, y = circle_and_gaussian(seed=0)
    found = bigsmic.fit(X, 2, method="kernel_rim", kernel="local_scaling", t=5, n_threads=1)
    same = bigsmic.fit(X, 2, method="mic", t=5, n_threads=1)
    np.testing.assert_array_equal(found.labels, same.labels)
    np.testing.assert_array_equal(found.predict(X), same.predict(X))
    assert adjusted_rand_score(y, found.labels) > 0.95


def test_strengths_mean_the_same_on_the_graph():
    def settings(reg):
        return bigsmic.methods.kernel_rim.Settings(2, kernel="local_scaling", reg=reg).on_graph(100)

    assert settings(None).reg == mic.Settings(2).reg == 0.5
    assert settings("0.2/N").reg == pytest.approx(0.2)
    assert settings(0.003).reg == pytest.approx(0.3)


# -- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "gauss"}, "kernel: got 'gauss'"),
        ({"length_scale": -1.0}, "length_scale: got -1.0"),
        (
            {"length_scale": 1e-30},
            "length_scale: at 1e-30, the kernel overflows; use one of the order of the distances",
        ),
        ({"length_scale": 1e-300}, "length_scale: at 1e-300, the kernel overflows"),
        ({"length_scale": 1e-5}, "length_scale: at 1e-05, rows have next to no neighbours: .* 9 landmarks sum to 0 in"),
        ({"length_scale": 1e-5, "kernel": "laplacian"}, "length_scale: at 1e-05, rows have next to no neighbours"),
        ({"length_scale": 1e-5, "approximation": "fourier"}, "length_scale: at 1e-05, rows have next to no neighbours"),
        ({"length_scale": 1e300}, r"length_scale: at 1e\+300, all rows look alike"),
        ({"length_scale": 1e9}, r"length_scale: at 1e\+09, all rows look alike; use one of the order"),
        ({"approximation": "pca"}, "approximation: got 'pca'"),
        ({"approximation": "fourier", "kernel": "laplacian"}, "'fourier' is for the kernel 'rbf'"),
        ({"n_components": 0}, "n_components: got 0"),
        ({"n_components": 2.5}, "n_components: got 2.5"),
        ({"kernel": "local_scaling", "prior": (0.5, 0.5)}, "has no prior"),
        ({"kernel": "local_scaling", "length_scale": 2.0}, "has no length_scale; leave it out, or use another kernel"),
        ({"kernel": "local_scaling", "batch_size": 64}, "has no batch_size"),
        ({"kernel": "local_scaling", "learning_rate": 0.1}, "has no learning_rate"),
        ({"kernel": "local_scaling", "reg": "lsmi"}, "lsmi"),
        ({"kernel": "local_scaling", "labels": np.zeros(9, int)}, "has no labels"),
        ({"kernel": "precomputed"}, r"\(n, n\), got \(9, 2\)"),
        ({"kernel": lambda X, Y: np.ones(3)}, "returned float64 of shape"),
        ({"kernel": lambda X, Y: np.full((len(X), len(Y)), np.nan)}, "NaN or infinity"),
        ({"kernel": lambda X, Y: -linear(X, Y) - 1e3}, "largest eigenvalue"),
        ({"kernel": lambda X, Y: linear(X, Y) + np.arange(len(Y))}, "not symmetric"),
    ],
)
def test_what_cannot_be_used_is_refused(options, message):
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(InputError, match=message):
        bigsmic.fit(X, 2, method="kernel_rim", **options)


def test_a_kernel_between_other_rows_is_refused_before_anything_is_planned_or_written(tmp_path):
    K = np.ones((30, 6))
    options = {"method": "kernel_rim", "kernel": "precomputed"}
    with pytest.raises(InputError, match=r"between all rows, \(n, n\), got \(30, 6\)"):
        bigsmic.plan(K, 2, **options)
    with pytest.raises(InputError, match=r"between all rows, \(n, n\), got \(30, 6\)"):
        bigsmic.fit(K, 2, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
    more = bigsmic.plan(np.eye(30), 2, n_rows=4000, **options)  # a larger kernel, which is as wide as it is long
    assert more.size.d == bigsmic.plan(np.broadcast_to(0.0, (4000, 4000)), 2, **options).size.d


def test_a_small_length_scale_is_refused_only_where_its_labels_are_arbitrary(monkeypatch):
    X, y = make_blobs(400, 10, centers=4, random_state=1)
    fit = partial(bigsmic.fit, X, 4, method="kernel_rim", scale="standard")
    with pytest.raises(InputError, match=r"of at least 0\.1 that labels need"):
        fit(length_scale=0.15)
    assert adjusted_rand_score(y, fit(length_scale=0.5).labels) > 0.9
    monkeypatch.setattr(kernel_features, "LEAST_NEIGHBORS", 0.0)
    assert adjusted_rand_score(y, fit(length_scale=0.15).labels) < 0.1


def test_memory_is_planned():
    X = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1_000_000, 4), (0, 0))
    plan = bigsmic.plan(X, 5, method="kernel_rim", memory_limit="1GiB")
    assert list(plan.stages) == ["scan", "map", *list(plan.stages)[2:]]
    assert plan.peak_bytes <= 1 << 30


def test_a_sparse_kernel_is_refused_with_a_remedy_that_the_method_has():
    K = csr_array(np.eye(30))
    with pytest.raises(InputError, match=r"got sparse rows .*; pass X\.toarray\(\).*; SMIC takes a graph with kernel="):
        bigsmic.fit(K, 3, method="kernel_rim", kernel="precomputed")
