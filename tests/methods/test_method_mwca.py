"""MWCA on the pipeline: dense tiles and graphs, the run directory, predictions, the estimator."""

import dask.array
import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_rows import ring

import bigsmic
import bigsmic.stages.mwca as stage
from bigsmic import InputError, PlanError
from bigsmic.errors import AbsentResultError, BigsmicWarning, ConvergenceWarning, OptionError
from bigsmic.estimators.mwca import MWCA
from bigsmic.numerics.objectives.mwca.association import association


def two_clusters_only(estimator):
    reason = {"check_clustering": "asks for three clusters, which the eigenvector's one cut cannot make"}
    return reason if estimator.solver == "spectral" else {}


@pytest.mark.sklearn_checks
@parametrize_with_checks([MWCA()], expected_failed_checks=two_clusters_only)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.sklearn_checks
@parametrize_with_checks([MWCA(solver="spectral"), MWCA(3, kernel="graph")], expected_failed_checks=two_clusters_only)
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(900, 3, centers=3, cluster_std=1.2, random_state=2)
    return X.astype(np.float32), y


def scaled(X):
    return (X - X.mean(axis=0, dtype=np.float64)) / X.std(axis=0, dtype=np.float64)


def gaussian(X, sigma):
    return np.exp(-cdist(X, X, "sqeuclidean") / (4 * sigma**2))


@pytest.mark.parametrize("options", [{}, {"solver": "spectral"}, {"kernel": "graph"}])
def test_streamed_is_in_memory(blobs, options, tmp_path, many_blocks):
    X, _ = blobs
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=X, chunks=(190, 2))
    wanted = bigsmic.fit(X, 2, method="mwca", n_threads=1, **options)
    for data in (array, dask.array.from_array(X, chunks=(333, 3))):
        found = bigsmic.fit(data, 2, method="mwca", n_threads=2, **options)
        assert_array_equal(found.labels, wanted.labels)
        assert_array_equal(found.posterior, wanted.posterior)


@pytest.mark.parametrize("kernel", ["dense", "graph"])
def test_blobs_are_found(blobs, kernel, many_blocks):
    X, y = blobs
    result = bigsmic.fit(X, 3, method="mwca", kernel=kernel)
    assert adjusted_rand_score(y, result.labels) > 0.9
    assert_array_equal(np.asarray(result.posterior).argmax(axis=1), result.labels)


def test_the_association_is_that_of_the_memberships(blobs, many_blocks):
    X, _ = blobs
    result = bigsmic.fit(X, 3, method="mwca")
    Z = np.asarray(result.posterior, np.float64)
    _, within = association(Z, gaussian(scaled(X), result.sigma) @ Z)
    assert result.association.max() == pytest.approx(within.sum() / len(X), rel=1e-4)
    assert result.association.shape == (5,)


def test_the_vector_is_that_of_the_dense_kernel(many_blocks):
    X, y = ring()
    result = bigsmic.fit(X, 2, method="mwca", solver="spectral")
    values, vectors = np.linalg.eigh(gaussian(scaled(X), result.sigma))
    v = vectors[:, -1] * np.sign(vectors[:, -1].sum())
    near = np.abs(v - v.mean()) < 1e-4 * v.max()
    assert_array_equal(result.labels[~near], (v > v.mean())[~near])
    assert result.association[0] == pytest.approx(values[-1] / len(X), rel=1e-5)
    assert adjusted_rand_score(y, result.labels) > 0.7


@pytest.mark.parametrize(
    "options", [{}, {"solver": "spectral"}, {"kernel": "graph"}, {"kernel": "local_scaling", "solver": "spectral"}]
)
def test_predictions_agree_with_the_labels(options, many_blocks):
    X, _ = ring(n=300)
    result = bigsmic.fit(X, 2, method="mwca", **options)
    assert (result.predict(X) == result.labels).mean() > 0.97
    P = result.predict_proba(X[:40])
    assert_array_equal(result.predict_proba(X[10:15]), P[10:15])
    assert_allclose(P.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("kernel", ["dense", "graph"])
def test_rows_that_were_left_out_are_predicted_as_well_as_others_are_fitted(kernel):
    X, y = make_blobs(1200, 10, centers=4, cluster_std=3.0, random_state=5)
    result = bigsmic.fit(X[::2], 4, method="mwca", kernel=kernel)
    fitted = adjusted_rand_score(y[::2], result.labels)
    assert adjusted_rand_score(y[1::2], result.predict(X[1::2])) > fitted - 0.1 > 0.7


@pytest.mark.parametrize("kernel", ["dense", "graph", "local_scaling"])
def test_the_eigenvector_is_that_of_the_fit_at_equal_rows(kernel):
    X, _ = make_blobs(600, 10, centers=2, cluster_std=3.0, random_state=5)
    result = bigsmic.fit(X, 2, method="mwca", solver="spectral", kernel=kernel)
    assert_array_equal(result.predict(X), result.labels)
    assert_allclose(result.predict_proba(X), result.posterior, atol=1e-6)


def test_the_eigenvector_has_the_same_mean_at_new_rows():
    X, _ = make_blobs(1200, 5, centers=2, cluster_std=3.0, random_state=6)
    result = bigsmic.fit(X[::2], 2, method="mwca", solver="spectral", sigma=0.3)
    odds = [P[:, 1] / P[:, 0] for P in (result.predict_proba(X[1::2]), result.posterior)]  # v in units of its mean
    assert odds[0].mean() / odds[1].mean() > 0.9


def test_far_new_rows_have_a_label(blobs):
    result = bigsmic.fit(blobs[0], 3, method="mwca")
    P = result.predict_proba(np.full((2, 3), 1e6))
    assert_allclose(P, 1 / 3)
    assert set(result.predict(np.full((2, 3), 1e6))) <= {0, 1, 2}


def test_a_result_opens_again(blobs, tmp_path):
    X, _ = blobs
    for kernel in ("dense", "graph"):
        fitted = bigsmic.fit(X, 2, method="mwca", kernel=kernel, out=tmp_path / f"{kernel}.zarr")
        opened = bigsmic.Result.open(tmp_path / f"{kernel}.zarr")
        assert opened.settings == fitted.settings
        assert opened.sigma == fitted.sigma
        assert_array_equal(opened.predict(X[:9]), fitted.predict(X[:9]))


@pytest.mark.parametrize("kernel", ["dense", "graph"])
def test_a_finished_fit_is_not_done_again(blobs, kernel, tmp_path, monkeypatch):
    X, _ = blobs
    first = bigsmic.fit(X, 2, method="mwca", kernel=kernel, out=tmp_path / "run.zarr")
    monkeypatch.setattr(stage.kernel_matrix, "prepare", None)
    monkeypatch.setattr(stage, "StoredRows", None)
    assert_array_equal(bigsmic.fit(X, 2, method="mwca", kernel=kernel, out=tmp_path / "run.zarr").labels, first.labels)


class Killed(Exception):
    pass


def test_a_killed_ascent_goes_on_where_it_was(tmp_path, many_blocks, monkeypatch):
    X, _ = ring(n=300)
    ascent, calls, fatal = stage.StoredRows.trial_step, [], None

    def counted(self, *args):
        calls.append(1)
        if len(calls) == fatal:
            raise Killed
        return ascent(self, *args)

    monkeypatch.setattr(stage.StoredRows, "trial_step", counted)
    wanted = bigsmic.fit(X, 2, method="mwca", n_starts=2)
    whole = len(calls)
    calls.clear()
    fatal = 6
    with pytest.raises(Killed):
        bigsmic.fit(X, 2, method="mwca", n_starts=2, out=tmp_path / "run.zarr")
    result = bigsmic.fit(X, 2, method="mwca", n_starts=2, out=tmp_path / "run.zarr")
    assert len(calls) == whole + 1
    assert_array_equal(result.labels, wanted.labels)
    assert_array_equal(result.posterior, wanted.posterior)
    assert not [name for name in zarr.open_group(tmp_path / "run.zarr", mode="r") if name.startswith("restart")]


def test_a_width_is_in_the_units_of_the_scaled_rows(blobs):
    X, _ = blobs
    assert bigsmic.fit(X, 2, method="mwca", n_starts=1).sigma == pytest.approx(1.06 * 900**-0.2, rel=1e-6)
    unscaled = bigsmic.fit(X, 2, method="mwca", n_starts=1, scale=None).sigma
    assert unscaled == pytest.approx(1.06 * np.sqrt(X.astype(float).var(axis=0).mean()) * 900**-0.2, rel=1e-6)
    assert bigsmic.fit(X, 2, method="mwca", n_starts=1, sigma=0.7).sigma == 0.7
    assert 0 < bigsmic.fit(X, 2, method="mwca", n_starts=1, sigma="likelihood").sigma < 1


# ---------------------------------------------------------------- what is refused, and what is said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"c": 0}, r"c \(n_clusters\): got 0"),
        ({"c": 3, "solver": "spectral"}, "got 3 clusters; use 'gradient' or c=2"),
        ({"solver": "newton"}, "solver: got 'newton'"),
        ({"kernel": "normalized"}, "kernel: got 'normalized'"),
        ({"sigma": 0}, "sigma: got 0"),
        ({"sigma": "eq38"}, "sigma: got 'eq38'"),
        ({"direction": "down"}, "direction: got 'down'"),
        ({"n_starts": 0}, "n_starts: got 0"),
        ({"scale": "range"}, "scale: got 'range'"),
        ({"tol": np.nan}, "tol: got nan"),
        ({"kernel": "graph", "bandwidth": -1}, "bandwidth"),
    ],
)
def test_bad_options(blobs, options, message):
    with pytest.raises(InputError, match=message):
        bigsmic.fit(blobs[0], method="mwca", **({"c": 2} | options))


def test_options_of_others_are_not_taken(blobs):
    with pytest.raises(OptionError, match=r"mwca.*reg"):
        bigsmic.fit(blobs[0], 2, method="mwca", reg=3)


def test_rows_that_coincide_are_named():
    X = np.ones((30, 2))
    with pytest.warns(ConvergenceWarning, match="no more than 1 rows differ"):
        assert not bigsmic.fit(X, 2, method="mwca").labels.any()
    X[:2] = [[5, 5], [3, 9]]
    with pytest.raises(InputError, match=r"'quartile' gives a width of 0.*give a number"):
        bigsmic.fit(X, 2, method="mwca", sigma="quartile")
    assert len(set(bigsmic.fit(X, 2, method="mwca", sigma=1.0).labels)) == 2


def test_one_cluster(blobs):
    result = bigsmic.fit(blobs[0], 1, method="mwca")
    assert not result.labels.any()
    assert_array_equal(result.predict(blobs[0][:3]), [0, 0, 0])


@pytest.mark.parametrize("kernel", ["dense", "graph"])
@pytest.mark.parametrize("c", [1, 3])
def test_a_fit_without_ascents_has_no_association_and_says_why_it_has_no_width(kernel, c, blobs):
    rows = blobs[0][:20] if c == 1 else np.repeat(blobs[0][:3], 5, axis=0)
    result = bigsmic.fit(rows, c, method="mwca", kernel=kernel)
    assert result.association.shape == (0,)
    with pytest.raises(AbsentResultError, match="sigma: the fit had a single cluster, or no more rows that differ"):
        _ = result.sigma


@pytest.mark.parametrize("options", [{}, {"kernel": "graph"}, {"solver": "spectral"}])
def test_a_kernel_without_neighbours_is_said(options):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = rng.standard_normal((200, 80)) + 5 * y[:, None]
    with pytest.warns(BigsmicWarning, match=r"sigma: at 0\.\d+, rows have next to no neighbours, .* give a larger"):
        bigsmic.fit(X, 2, method="mwca", **options)
    found = bigsmic.fit(X, 2, method="mwca", sigma=3, **options)  # no warning
    assert adjusted_rand_score(y, found.labels) > 0.9


def test_clusters_of_single_rows_need_no_neighbours():
    X = np.array([[0.0], [0.1], [5], [10], [20]])
    labels = bigsmic.fit(X, 4, method="mwca", sigma=0.2).labels  # no warning
    assert labels[0] == labels[1]
    assert len(np.unique(labels)) == 4


def test_an_ascent_that_is_not_done_is_said():
    X, _ = ring()
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        bigsmic.fit(X, 2, method="mwca", max_iter=2)


def test_clusters_that_empty_are_said_and_no_nan(blobs, monkeypatch):
    X, _ = blobs
    monkeypatch.setattr(stage, "logits_of", lambda labels, k: np.full((len(labels), k), [0, 0, -1e4], "f4"))
    with pytest.warns((BigsmicWarning, ConvergenceWarning), match=r"clusters \[2\] are left without"):
        result = bigsmic.fit(X, 3, method="mwca", n_starts=1)
    assert np.isfinite(np.asarray(result.posterior)).all()
    assert set(result.predict(X)) <= {0, 1}


def test_what_does_not_fit_is_refused_beforehand():
    with pytest.raises(PlanError, match="memberships"):
        bigsmic.plan(np.broadcast_to(np.float32(0), (20_000_000, 2)), 20, method="mwca", memory_limit="1GiB")


def test_few_rows_of_many_columns_fit_into_little_memory():
    """The plan had room for a sample of 20,000 rows, whatever the number of rows."""
    rows = np.broadcast_to(np.float32(0), (60, 5000))
    assert bigsmic.plan(rows, 2, method="mwca", memory_limit="512MiB").peak_bytes < 512 << 20


def test_plans_say_that_dense_work_goes_with_the_square(blobs):
    work = [
        bigsmic.plan(np.broadcast_to(np.float32(0), (n, 2)), 2, method="mwca").stages["memberships"].flops
        for n in (10_000, 20_000)
    ]
    assert work[1] == pytest.approx(4 * work[0])
