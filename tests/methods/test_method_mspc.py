"""MSPC on the pipeline: chunks, the run directory, predictions, the estimator, the score."""

import itertools
import json
import tracemalloc
import warnings

import dask.array
import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import bigsmic
import bigsmic.methods.mspc as method
from bigsmic import InputError, PlanError, msp_score
from bigsmic.errors import ConvergenceWarning, NonFiniteError, OptionError, SingularCovarianceError
from bigsmic.estimators.mspc import MSPC
from bigsmic.numerics.objectives.mspc import solvers
from bigsmic.numerics.objectives.mspc import span as mspc_span
from bigsmic.numerics.objectives.mspc.questions import Rows, solve
from bigsmic.numerics.objectives.mspc.separation import separate
from bigsmic.numerics.objectives.mspc.solvers import SplitSettings
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.settings.mspc import GRID
from bigsmic.stages import span


@pytest.mark.sklearn_checks
@parametrize_with_checks([MSPC()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.sklearn_checks
@parametrize_with_checks([MSPC(3, solver="gep"), MSPC(solver="eig")])
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(1500, 4, centers=4, cluster_std=1.2, random_state=2)
    return X.astype(np.float32), y


@pytest.mark.parametrize("solver", ["mpm", "gep", "eig"])
def test_streamed_is_in_memory(blobs, solver, tmp_path, many_blocks):
    X, _ = blobs
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=X, chunks=(190, 3))
    wanted = bigsmic.fit(X, 3, method="mspc", solver=solver, n_threads=1)
    for data in (array, dask.array.from_array(X, chunks=(333, 4))):
        found = bigsmic.fit(data, 3, method="mspc", solver=solver, n_threads=2)
        assert_array_equal(found.labels, wanted.labels)
        assert_array_equal(found.posterior, wanted.posterior)
        assert_array_equal(found.msp, wanted.msp)


@pytest.mark.parametrize("solver", ["mpm", "gep", "eig"])
def test_the_fit_is_the_numerics_on_the_rows_themselves(blobs, solver):
    X, _ = blobs
    result = bigsmic.fit(X, 2, method="mspc", solver=solver)
    scaled = ((X - X.mean(axis=0, dtype=np.float64)) / X.std(axis=0, dtype=np.float64)).astype(np.float32)
    start = method.two_means(scaled, 0, ())
    rows = Rows(scaled)
    (split,) = solve([solvers.split((), start, SplitSettings(solver))], rows)
    assert_array_equal(result.labels, split.halfspace.contains(rows.X))
    assert result.msp[0] == pytest.approx(split.msp, rel=1e-6)


def test_blobs_are_found_one_split_after_the_other(blobs):
    X, y = blobs
    result = bigsmic.fit(X, 4, method="mspc")
    assert adjusted_rand_score(y, result.labels) > 0.97
    assert len(result.msp) == 3
    assert sum(result.diagnostics["splits"][0]["counts"]) == len(X)


def test_predictions_are_the_labels(blobs):
    X, _ = blobs
    result = bigsmic.fit(X, 4, method="mspc")
    assert_array_equal(result.predict(X), result.labels)
    assert_allclose(result.predict_proba(X), result.posterior, atol=1e-6)
    assert_allclose(np.asarray(result.posterior).sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("solver", ["mpm", "gep", "eig"])
def test_the_matrices_of_a_split_in_the_span_are_as_many_as_planned(solver):
    """Rows fewer than columns: the plan has so many matrices of n by n, and a limit of memory relies on it."""
    n = 300
    X = np.random.default_rng(0).normal(size=(n, 2 * n))
    X[::2] += 0.3
    settings = SplitSettings(solver, 1.0)
    tracemalloc.start()
    try:
        products = [X @ X.T / 2, X @ X.T]  # the run's, which are held meanwhile
        found = mspc_span.Span(*map(mspc_span.centred, products))
        found.split(span.two_means(found.plain, 0, 3), settings)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < span.N_MATRICES * 8 * n**2


def test_a_posterior_of_a_half_is_the_hyperplane(blobs):
    X, _ = blobs
    result = bigsmic.fit(X, 2, method="mspc")
    w, threshold = result.halfspaces
    assert_array_equal(X @ w[0] > threshold[0], result.labels == 1)
    assert_array_equal(np.asarray(result.posterior)[:, 1] > 0.5, result.labels == 1)


def test_hyperplanes_have_the_own_numbers_of_a_fit_that_takes_those_of_an_earlier_one(blobs, tmp_path):
    X, _ = blobs
    earlier = bigsmic.fit(X, 2, method="mspc")
    swapped = bigsmic.fit(X[earlier.labels == 1], 1, method="mspc")  # its 0 is what the fit would number 1
    result = bigsmic.fit(X, 2, method="mspc", like=swapped, out=tmp_path / "run.zarr")
    numbers = zarr.open_group(tmp_path / "run.zarr", mode="r")["numbering/0000000/numbers"][:]
    assert_array_equal(numbers, [1, 0])
    w, threshold = result.halfspaces
    assert_array_equal(result.labels, numbers[(X @ w[0] > threshold[0]).astype(int)])


def test_a_result_opens_again(blobs, tmp_path):
    X, _ = blobs
    fitted = bigsmic.fit(X, 3, method="mspc", reg="auto", out=tmp_path / "run.zarr")
    opened = bigsmic.Result.open(tmp_path / "run.zarr")
    assert opened.settings == fitted.settings
    assert_array_equal(opened.msp, fitted.msp)
    assert_array_equal(opened.predict(X[:7]), fitted.labels[:7])


class Killed(Exception):
    pass


def test_a_killed_fit_finds_the_answers_that_it_had(blobs, tmp_path, many_blocks, monkeypatch):
    X, _ = blobs
    answer, calls, fatal = method._answer, [], None

    def counted(questions, context, s):
        calls.append(s)
        if len(calls) == fatal:
            raise Killed
        return answer(questions, context, s)

    monkeypatch.setattr(method, "_answer", counted)
    wanted = bigsmic.fit(X, 4, method="mspc", n_threads=1)
    whole = len(calls)
    calls.clear()
    fatal = 9  # the third block of the second pass over six
    with pytest.raises(Killed):
        bigsmic.fit(X, 4, method="mspc", out=tmp_path / "run.zarr", n_threads=1)
    result = bigsmic.fit(X, 4, method="mspc", out=tmp_path / "run.zarr", n_threads=1)
    assert_array_equal(result.labels, wanted.labels)
    assert len(calls) == whole + 3  # the pass that was cut off is begun again, and none before it


def test_settings_reach_the_solver(blobs):
    X, _ = blobs
    result = bigsmic.fit(X, 2, method="mspc", reg=3)
    assert result.diagnostics["splits"][0]["reg"] == 3
    assert bigsmic.fit(X, 2, method="mspc", reg="auto").diagnostics["splits"][0]["reg"] in GRID


@pytest.mark.parametrize("scale", ["standard", "range", "variance", None])
def test_every_scale_finds_two_far_blobs(scale):
    X, y = make_blobs(300, 3, centers=2, center_box=(-20, 20), random_state=1)
    labels = bigsmic.fit(X * [1, 10, 0.1], 2, method="mspc", scale=scale).labels
    assert adjusted_rand_score(y, labels) == 1


# ---------------------------------------------------------------- what is refused, and what is said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"c": 0}, r"c \(n_clusters\): got 0"),
        ({"c": None}, r"c \(n_clusters\): got None"),
        ({"c": 1600}, r"c \(n_clusters\): got 1600 clusters for 1500 rows"),
        ({"solver": "svm"}, "solver: got 'svm'"),
        ({"solver": "eig", "reg": 0}, "give reg > 0"),
        ({"reg": "cv"}, "reg: got 'cv'"),
        ({"reg": None}, "reg: got None; use a number of at least 0"),
        ({"reg": [1.0]}, r"reg: got \[1\.0\]; use a number of at least 0"),
        ({"scale": "unit"}, "scale: got 'unit'"),
        ({"max_iter": 0}, "max_iter: got 0"),
    ],
)
def test_bad_options(blobs, options, message):
    options = {"c": 2} | options
    with pytest.raises(InputError, match=message):
        bigsmic.fit(blobs[0], method="mspc", **options)


def test_options_of_smic_are_not_taken(blobs):
    with pytest.raises(OptionError, match=r"mspc.*t"):
        bigsmic.fit(blobs[0], 2, method="mspc", t=3)


def test_a_singular_covariance_is_named(blobs):
    X = np.c_[blobs[0], blobs[0][:, 0]]
    with pytest.raises(SingularCovarianceError, match="give reg > 0"):
        bigsmic.fit(X, 2, method="mspc", reg=0)
    assert np.isfinite(bigsmic.fit(X, 2, method="mspc", reg=1e-3).msp).all()


def test_rows_that_coincide_cannot_be_split():
    with pytest.warns(ConvergenceWarning, match="no more than 1 rows differ"):
        assert bigsmic.fit(np.ones((20, 3)), 2, method="mspc").msp.size == 0
    two_places = np.repeat([[0.0, 1.0], [2.0, 5.0]], 20, axis=0)
    with pytest.warns(ConvergenceWarning, match="no more than 2 rows differ"):
        assert bigsmic.fit(two_places, 3, method="mspc").halfspaces[0].shape == (1, 2)
    assert bigsmic.fit(two_places, 2, method="mspc").msp[0] > 0
    with pytest.raises(SingularCovarianceError, match="rank 0 of 2"):
        bigsmic.fit(two_places, 2, method="mspc", reg=0)


def test_one_cluster(blobs):
    result = bigsmic.fit(blobs[0], 1, method="mspc")
    assert not result.labels.any()
    assert (np.asarray(result.posterior) == 1).all()
    assert_array_equal(result.predict(blobs[0][:3]), [0, 0, 0])


def test_labels_that_do_not_settle_are_said(blobs):
    X = np.random.default_rng(0).exponential(size=(600, 3))
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        bigsmic.fit(X, 2, method="mspc", max_iter=1)


def test_matrices_that_do_not_fit_are_refused_beforehand():
    for shape in ((50_000, 20_000), (20_000, 50_000)):
        with pytest.raises(PlanError, match="passes"):
            bigsmic.plan(np.broadcast_to(np.float32(0), shape), 2, method="mspc", memory_limit="2GiB")


# -- rows that are fewer than columns


@pytest.fixture
def few_rows():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((70, 90)) * rng.uniform(0.5, 2, 90)
    X[:40, :30] += 0.7
    X[:, 5] = 3
    return X


@pytest.mark.parametrize("scale", ["standard", None])
@pytest.mark.parametrize("options", [{}, {"solver": "gep", "reg": "auto"}, {"solver": "eig"}, {"reg": 100.0}])
def test_the_span_of_the_rows_is_enough(few_rows, options, scale, monkeypatch, many_blocks):
    """Splits that are found in the span are those that matrices of d x d give, for new rows, too."""
    options |= {"scale": scale, "method": "mspc"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = bigsmic.fit(few_rows, 4, **options)
        monkeypatch.setattr(method, "in_span", lambda n, d: False)
        wanted = bigsmic.fit(few_rows, 4, **options)
    assert_array_equal(found.labels, wanted.labels)
    assert_allclose(found.msp, wanted.msp, rtol=1e-9)
    for mine, theirs in zip(found.halfspaces, wanted.halfspaces, strict=True):
        assert_allclose(mine, theirs, atol=1e-8)
    new = few_rows + np.random.default_rng(0).standard_normal(few_rows.shape)
    assert_array_equal(found.predict(new), wanted.predict(new))
    assert_allclose(found.predict_proba(new), wanted.predict_proba(new), atol=1e-5)


def test_the_span_of_rows_in_several_blocks_is_that_of_all():
    X, y = make_blobs(300, 310, centers=3, cluster_std=12, random_state=0)
    found, wanted = (
        bigsmic.fit(X, 3, method="mspc", block_sizes=BlockSizes(source_bytes=size)) for size in (1, 8 << 20)
    )
    assert adjusted_rand_score(y, found.labels) > 0.9
    assert_array_equal(found.labels, wanted.labels)
    for mine, whole in zip(found.halfspaces, wanted.halfspaces, strict=True):
        assert_allclose(mine, whole, atol=1e-6)


def test_few_rows_of_many_columns_take_little_memory():
    X, y = make_blobs(100, 20_000, centers=2, cluster_std=5, random_state=0)
    plan = bigsmic.plan(X.astype(np.float32), 2, method="mspc", n_threads=1)
    assert plan.peak_bytes < 1 << 30
    found = bigsmic.fit(X.astype(np.float32), 2, method="mspc", n_threads=1)
    assert adjusted_rand_score(y, found.labels) == 1


def test_few_rows_are_singular_without_regularisation(few_rows):
    with pytest.raises(SingularCovarianceError, match=r"rank \d+ of \d+"):
        bigsmic.fit(few_rows, 2, method="mspc", reg=0)


def test_a_killed_fit_of_few_rows_finds_its_sums(few_rows, tmp_path, monkeypatch):
    wanted = bigsmic.fit(few_rows, 3, method="mspc")
    bring_back, calls = mspc_span.brought_back, []

    def killed(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return bring_back(*args)

    monkeypatch.setattr(mspc_span, "brought_back", killed)
    with pytest.raises(KeyboardInterrupt):
        bigsmic.fit(few_rows, 3, method="mspc", out=tmp_path / "run")
    monkeypatch.setattr(mspc_span, "brought_back", bring_back)
    monkeypatch.setattr(span, "_products", None)  # that of the third node is made anew; those of the first two are not
    with pytest.raises(TypeError, match="callable"):
        bigsmic.fit(few_rows, 3, method="mspc", out=tmp_path / "run")
    monkeypatch.undo()
    assert_array_equal(bigsmic.fit(few_rows, 3, method="mspc", out=tmp_path / "run").labels, wanted.labels)


def test_the_command_line_has_it(blobs, tmp_path):
    from typer.testing import CliRunner

    from bigsmic.cli.main import app

    zarr.create_array(str(tmp_path / "a.zarr"), data=blobs[0])
    line = ["fit", str(tmp_path / "a.zarr"), "-c", "3", "--out", str(tmp_path / "run.zarr"), "--method", "mspc"]
    done = CliRunner().invoke(app, [*line, "--solver", "gep", "--reg", "auto", "--scale", "range"])
    assert done.exit_code == 0, done.output
    settings = zarr.open_group(tmp_path / "run.zarr", mode="r").attrs["identity"]["settings"]
    assert (settings["solver"], settings["reg"], settings["scale"]) == ("gep", "auto", "range")
    json.dumps(settings)


# ---------------------------------------------------------------- the score


def dense_msp(A, B):
    difference = B.mean(axis=0) - A.mean(axis=0)
    return separate(difference, np.cov(A.T, bias=True), np.cov(B.T, bias=True)).msp


def test_the_score_is_that_of_the_rows(blobs, many_blocks, tmp_path):
    X, y = blobs
    wanted = dense_msp(X[y < 2].astype(float), X[y >= 2].astype(float))
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=X, chunks=(190, 3))
    for data in (X, array, str(tmp_path / "a.zarr"), dask.array.from_array(X, chunks=(333, 4))):
        assert msp_score(data, y < 2) == pytest.approx(wanted, rel=1e-9)


def test_of_many_clusters_the_pair_that_is_separated_least_counts(blobs):
    X, y = blobs
    pairs = [dense_msp(X[y == a].astype(float), X[y == b].astype(float)) for a in range(4) for b in range(a)]
    assert msp_score(X, y) == pytest.approx(min(pairs), rel=1e-9)
    assert msp_score(X, np.array(list("abcd"))[y]) == msp_score(X, y)


@pytest.mark.parametrize("reg", [0.0, 0.1])
def test_a_column_that_varies_in_other_clusters_only_does_not_count(blobs, reg):
    X, y = blobs
    values = np.random.default_rng(0).integers(0, 9, (len(X), 5))
    X = np.c_[X.astype(np.float64), np.where(y[:, None] == 0, values, 0) * 0.1]
    among = [np.isin(y, pair) for pair in itertools.combinations(range(4), 2)]
    assert msp_score(X, y, reg=reg) == pytest.approx(min(msp_score(X[i], y[i], reg=reg) for i in among), rel=1e-9)


@pytest.mark.parametrize("far", [1e6, 1e8])
@pytest.mark.parametrize("spread", [1, 1e5])
def test_the_score_of_clusters_that_are_far_from_a_third(far, spread, many_blocks):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    near = rng.normal(size=(600, 2)) * [1, 0.1] + np.array([[0, 0], [0, 0], [0.3, 0.5]])[y]
    X = np.where(y[:, None] == 0, spread * near, near + far)
    wanted = dense_msp(near[y == 1], near[y == 2])
    assert msp_score(X, y) == pytest.approx(wanted, rel=1e-5)


def test_values_whose_mean_is_rounded_do_not_vary():
    for values in ([0.1, 0.7], [0.3, 0.3 + 1e-9]):
        with pytest.raises(SingularCovarianceError, match="has rank 0 of 1"):
            msp_score(np.repeat(values, 7)[:, None], np.repeat([0, 1], 7))


@pytest.mark.parametrize("seed", range(5))
def test_the_score_does_not_change_under_an_invertible_map(blobs, seed):
    X, y = blobs
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    P = (U * np.geomspace(1, 1e-3, 4)) @ V
    X = X.astype(np.float64) + 5
    assert msp_score(X @ P, y % 2) == pytest.approx(msp_score(X, y % 2), abs=1e-8)


def test_what_the_score_refuses(blobs):
    X, y = blobs
    with pytest.raises(InputError, match="one label per row"):
        msp_score(X, y[:-1])
    with pytest.raises(InputError, match="got 1 cluster"):
        msp_score(X, np.zeros(len(X)))
    for reg in (-1, "1"):
        with pytest.raises(InputError, match=f"reg: got {reg!r}; use a number of at least 0"):
            msp_score(X, y, reg=reg)
    for reg in (0.0, 1.0):
        with pytest.raises(InputError, match="all rows of clusters 3 and 5 are equal, and no hyperplane separates"):
            msp_score(np.ones((9, 2)), [3, 5, 3] * 3, reg=reg)
    with pytest.raises(NonFiniteError, match="row 3, column 1"):
        msp_score(np.where(np.arange(6000).reshape(1500, 4) == 13, np.nan, X), y)
    with pytest.raises(SingularCovarianceError):
        msp_score(np.c_[X, X[:, 0]], y)
    with warnings.catch_warnings():
        assert 0 < msp_score(np.c_[X, X[:, 0]], y, reg=1e-6) < 1
