"""Many columns are replaced by their principal components, in fits and in predictions."""

import pickle
import shutil

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import bigsmic
from bigsmic.errors import RunMismatchError
from bigsmic.numerics.principal_axes import left_out_remainders, over_all_columns, principal_axes, remainders
from bigsmic.numerics.scaling import Scaler
from bigsmic.runtime.context import PROJECTION
from bigsmic.stages import projection
from bigsmic.stages.projection import read_remainders, remainders_of

D, C = 300, 4


@pytest.fixture(scope="module")
def noisy():
    """Four clusters at the corners of a simplex in three dimensions of many, and noise in all of them."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(C), 300)
    centers = 12 * np.eye(C, 3) @ np.linalg.qr(rng.standard_normal((D, 3)))[0].T
    return centers[y] + rng.standard_normal((len(y), D)), y


@pytest.fixture(scope="module")
def result(noisy):
    return bigsmic.fit(noisy[0], C, n_threads=1)


def run_of(result):
    return result._run


def test_stages_read_components(noisy, result):
    X, y = noisy
    assert adjusted_rand_score(y, result.labels) == 1
    assert run_of(result).read("rows", 0, "X").shape[1] == 50
    assert result.scaled(X).shape == X.shape


def test_axes_span_the_leading_subspace(noisy, result):
    axes = run_of(result).read(PROJECTION, 0, "axes")
    np.testing.assert_allclose(axes.T @ axes, np.eye(50), atol=1e-5)
    scaled = result.scaled(noisy[0]).astype(np.float64)
    leading = np.linalg.svd(scaled - scaled.mean(axis=0), full_matrices=False)[2][:3]
    np.testing.assert_allclose(np.linalg.norm(leading @ axes, axis=1), 1, atol=1e-3)


def test_new_rows_are_read_by_their_components(noisy, result):
    X = noisy[0]
    np.testing.assert_array_equal(result.predict(X), result.labels)
    travelled = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(travelled.predict(X[:50]), result.labels[:50])
    np.testing.assert_array_equal(travelled.novelty(X[:50]), result.novelty(X[:50]))


def test_columns_stay_if_they_are_no_more_or_if_all_are_wanted(noisy):
    X = noisy[0]
    for columns, wanted in ((X[:, :50], 50), (X, None)):
        found = bigsmic.fit(columns, C, n_components=wanted, n_threads=1)
        assert not run_of(found).done(PROJECTION, 0)
        assert run_of(found).read("rows", 0, "X").shape[1] == columns.shape[1]
    published = bigsmic.fit(X, C, preset="paper", n_threads=1)
    assert run_of(published).read("rows", 0, "X").shape[1] == D


def test_all_columns_are_a_setting_of_a_run(noisy, tmp_path):
    X = noisy[0]
    found = bigsmic.fit(X, C, out=tmp_path / "run", n_components=None, n_threads=1)
    labels = found.labels
    assert run_of(found).identity["settings"]["n_components"] is None
    np.testing.assert_array_equal(bigsmic.Result.open(tmp_path / "run").predict(X), labels)
    with pytest.raises(RunMismatchError, match=r"n_components: stored None, asked 50"):
        bigsmic.fit(X, C, out=tmp_path / "run", n_threads=1)


def test_what_components_leave_of_a_row_is_novel(noisy, result):
    X, rng = noisy[0], np.random.default_rng(1)
    axes, norm = run_of(result).read(PROJECTION, 0, "axes"), np.linalg.norm(result.scaled(X), axis=1).mean()
    beside = rng.standard_normal(D)
    beside -= axes @ (axes.T @ beside)
    scale = X.std(axis=0) if result.diagnostics["scaling"]["scale"] else 1.0
    moved = X[:200] + scale * beside * (norm / np.linalg.norm(beside))
    plain, found = result.novelty(X[:200]), result.novelty(moved)
    assert (plain > 1).mean() < 0.1
    assert (found > 1).all()
    assert (found > plain).all()
    np.testing.assert_array_equal(result.predict(moved), result.predict(X[:200]))  # labels are those of the components
    assert result.predict_proba(moved).max(axis=1).mean() < result.predict_proba(X[:200]).max(axis=1).mean()


def test_remainders_are_those_of_rows_outside_the_sample():
    """Axes of few rows with many columns leave less of these rows than of others."""
    rng = np.random.default_rng(0)
    sample, others = rng.standard_normal((2, 400, 200)).astype(np.float32)
    mean, axes = principal_axes(sample, 50)
    of_others = rms(remainders(others - mean, axes))
    assert rms(left_out_remainders(sample, 50)) == pytest.approx(of_others, rel=0.03)
    assert rms(remainders(sample - mean, axes)) < 0.95 * of_others


def rms(norms):
    return np.sqrt(np.square(norms).mean())


def test_rows_in_the_span_of_the_axes_leave_nothing():
    rng = np.random.default_rng(0)
    A = np.linalg.qr(rng.standard_normal((60, 7)))[0]
    X = (rng.standard_normal((300, 7)) @ A.T).astype(np.float32)
    np.testing.assert_allclose(remainders(X, A), 0, atol=1e-3)
    np.testing.assert_allclose(left_out_remainders(X, 7), 0, atol=1e-2)
    found = bigsmic.fit(X, 2, n_components=7, n_threads=1)
    assert (found.novelty(X) > 1).mean() < 0.1
    assert (found.novelty(X + 0.5 * rng.standard_normal(X.shape)) > 1).all()


def test_novelty_gets_back_what_components_leave(noisy):
    """The ratio of distances is nearly that over all columns, as what components leave is noise."""
    X = noisy[0]
    ours, of_columns = (bigsmic.fit(X[::2], C, n_components=r, n_threads=1).novelty(X[1::2]) for r in (50, None))
    assert np.corrcoef(ours, of_columns)[0, 1] > 0.5
    assert abs(np.median(ours) - np.median(of_columns)) < 0.05


def test_distances_over_all_columns_are_those_of_orthogonal_remainders():
    assert over_all_columns(np.array([3.0]), np.array([4.0]), 12.0) == pytest.approx([13.0])
    assert over_all_columns(np.array([1.0]), 12.0, 12.0) == pytest.approx([17.0])
    assert over_all_columns(np.array([3.0]), np.array([0.0]), 0.0) == [3.0]


@pytest.fixture(scope="module")
def pulsed(noisy):
    """Rows of which every thirtieth has a pulse in a column of its own, which no leading axis spans."""
    X, pulses = noisy[0].copy(), np.arange(0, len(noisy[0]), 30)
    X[pulses, 5 + np.arange(len(pulses))] += 80
    return X, np.isin(np.arange(len(X)), pulses)


@pytest.fixture(scope="module")
def with_noise(pulsed):
    return bigsmic.fit(pulsed[0], C, noise=True, scale=None, n_threads=1)


def test_noise_is_told_by_what_components_leave(pulsed, with_noise):
    X, is_pulse = pulsed
    context = with_noise._context
    assert (with_noise.labels[is_pulse] == -1).mean() > 0.9
    assert (with_noise.labels[~is_pulse] == -1).mean() < 0.02
    np.testing.assert_array_equal(with_noise.noise > 0.5, with_noise.labels == -1)
    norms = np.concatenate([read_remainders(context, p) for p in context.blocks])
    rows = np.concatenate([context.run.read("rows", p, "rows") for p in context.blocks])
    np.testing.assert_allclose(norms, remainders_of(context, X[rows], fitted=True), rtol=1e-4)


def test_noise_of_new_rows_is_told_by_what_components_leave(pulsed, with_noise):
    X, is_pulse = pulsed
    scores = with_noise.predict_noise(X)
    assert ((scores > 0.5) == (with_noise.noise > 0.5)).mean() > 0.98
    assert ((with_noise.predict(X) == -1) == (scores > 0.5)).all()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(with_noise)).predict_noise(X[:60]), scores[:60])
    clean = X[~is_pulse][:100]
    assert (with_noise.predict(clean) >= 0).mean() > 0.95
    assert (with_noise.predict(clean + 6 * np.random.default_rng(1).standard_normal(clean.shape)) == -1).all()


def test_a_run_goes_on_without_its_remainders(pulsed, with_noise, tmp_path):
    with_noise.save(tmp_path / "run")
    run = bigsmic.store.Run(tmp_path / "run")
    for gone in ("remainders", "noise_scores", "output"):
        run.drop(gone, [block for stage, block in run.blocks() if stage == gone])
    run.close()
    again = bigsmic.fit(pulsed[0], C, noise=True, scale=None, n_threads=1, out=tmp_path / "run")
    np.testing.assert_array_equal(again.noise, with_noise.noise)


def test_cuts_read_the_remainders_of_their_fit(pulsed, with_noise, monkeypatch):
    monkeypatch.setattr(projection, "_write_remainders", None)
    cut = with_noise.cut(3)
    assert (cut.noise[pulsed[1]] > 0.5).mean() > 0.9


@pytest.mark.filterwarnings("ignore:sigma. at .* next to no neighbours")  # of MWCA in many columns
@pytest.mark.parametrize(
    "options", [{"method": "mic"}, {"method": "mwca", "kernel": "graph"}, {"method": "kernel_rim"}, {"method": "rim"}]
)
def test_other_methods_read_columns(noisy, options):
    X, y = noisy
    found = bigsmic.fit(X, C, n_threads=1, **options)
    assert not run_of(found).done(PROJECTION, 0)
    np.testing.assert_array_equal(found.predict(X), found.labels)
    assert adjusted_rand_score(y, found.labels) > 0.9


def test_components_are_planned(noisy):
    X = noisy[0]
    narrow, wide = (bigsmic.plan(X, C, n_rows=10**6, n_components=r, memory_limit="64GiB") for r in (50, None))
    assert narrow.stages["neighbors"].peak_bytes < wide.stages["neighbors"].peak_bytes
    assert narrow.disk_bytes < wide.disk_bytes / 2
    assert narrow.duration.cpu_seconds < wide.duration.cpu_seconds
    assert narrow.stages["scan"] == wide.stages["scan"]


def test_scaled_rows_are_multiplied_by_the_axes():
    rng = np.random.default_rng(0)
    X, mean, factor, axes = rng.random((700, 9)), rng.random(9), rng.random(9), rng.random((9, 2))
    found = Scaler(mean, factor, axes=axes).apply(X)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, ((X - mean) * factor) @ axes, rtol=1e-6)


def test_a_finished_run_that_has_lost_its_axes_makes_them_again(noisy, result, tmp_path):
    X = noisy[0]
    result.save(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / PROJECTION)
    again = bigsmic.fit(X, C, n_threads=1, out=tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(X), result.predict_proba(X))
