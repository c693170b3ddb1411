"""What columns are divided by is found once, said, kept with the run, and the same for predictions."""

import json
import pickle

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score
from small_fits import FAST
from typer.testing import CliRunner

import bigsmic
from bigsmic.cli.main import app
from bigsmic.errors import RunError
from bigsmic.estimators.rim_stream import Stream
from bigsmic.settings.rim import Settings as RIMSettings

QUICK = {"method": "mspc", "scale": "auto"}
"""Options of a fit of milliseconds, for what is the same in every method."""


@pytest.fixture(scope="module")
def waveforms():
    """Bumps at three places, less high at the last, in noise that neighbouring samples share."""
    rng = np.random.default_rng(0)
    y, at = np.repeat([0, 1, 2], 50), np.arange(36)
    noise = rng.normal(size=(150, 38))
    bumps = np.array([3, 3, 1.5])[y, None] * np.exp(-((at - np.array([8, 16, 27])[y, None]) ** 2) / 8)
    return (bumps + 0.3 * (noise[:, :-2] + noise[:, 1:-1] + noise[:, 2:])).astype(np.float32)


@pytest.fixture(scope="module")
def table(waveforms):
    """The same columns in no order, each in a unit of its own."""
    rng = np.random.default_rng(1)
    return (waveforms[:, rng.permutation(36)] * 10.0 ** rng.uniform(-3, 3, 36)).astype(np.float32)


def is_same(one, other, X):
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.posterior[...], other.posterior[...])
    np.testing.assert_array_equal(one.predict_proba(X[:40]), other.predict_proba(X[:40]))
    return True


@pytest.mark.filterwarnings("ignore:sigma. at .* next to no neighbours")  # of MWCA in many columns
@pytest.mark.parametrize(
    "options",
    [{"t": 5, "widths": 1.5, "shrinkage": 0}, {"method": "mwca"}, {"method": "mic", "t": 5}, {"method": "kernel_rim"}],
)
def test_the_default_takes_what_fits_the_columns(waveforms, table, options):
    for X, scale in ((waveforms, None), (table, "standard")):
        found = bigsmic.fit(X, 3, **options)
        assert found.diagnostics["scaling"]["scale"] == scale
        assert is_same(found, bigsmic.fit(X, 3, scale=scale, **options), X)


def test_categories_do_not_part_what_quantities_join():
    rng = np.random.default_rng(2)
    y, categories = np.repeat([0, 1, 2], 200), np.eye(4)[rng.integers(0, 4, 600)]
    X = np.hstack([1.8 * np.eye(3)[y] @ rng.normal(size=(3, 6)) + rng.normal(size=(600, 6)), categories])
    found = bigsmic.fit(X, 3)
    assert found.diagnostics["scaling"]["scale"] == "mixed"
    assert "deviation, 4 in which one value prevails by the distance of the others" in repr(found).replace("\n", " ")
    assert is_same(found, bigsmic.fit(X, 3, scale="mixed"), X)
    by_deviations = bigsmic.fit(X, 3, scale="standard")  # where a part of the graph is one of each category
    assert min(adjusted_rand_score(y, one.labels) for one in (found, by_deviations)) > 0.8


def test_rare_events_do_not_part_what_quantities_join(many_blocks):
    rng = np.random.default_rng(3)
    y, events = np.repeat([0, 1, 2], 200), 1e-4 * rng.poisson(0.08, (600, 4))
    X = np.hstack([1.8 * np.eye(3)[y] @ rng.normal(size=(3, 6)) + rng.normal(size=(600, 6)), events])
    found = bigsmic.fit(X, 3)
    assert found.diagnostics["scaling"]["majority"] == 4
    assert is_same(found, bigsmic.fit(X, 3, scale="mixed", n_threads=2), X)
    differences = X[:, 6:][X[:, 6:] > 0]
    spreads = np.ptp(X[:, 6:], axis=0) / np.ptp(found.scaled(X)[:, 6:], axis=0)
    assert ((spreads >= differences.min()) & (spreads <= 1.5 * differences.min())).all()
    by_deviations = bigsmic.fit(X, 3, scale="standard")
    assert adjusted_rand_score(y, found.labels) > 0.8 > 0.5 > adjusted_rand_score(y, by_deviations.labels)


@pytest.mark.parametrize("method", ["rim", "mspc"])
def test_methods_whose_units_are_standard_deviations_keep_them_unless_asked(waveforms, method):
    assert bigsmic.fit(waveforms, 3, method=method).diagnostics["scaling"] == {"scale": "standard"}
    asked = bigsmic.fit(waveforms, 3, method=method, scale="auto")
    assert asked.diagnostics["scaling"]["scale"] is None
    assert is_same(asked, bigsmic.fit(waveforms, 3, method=method, scale=None), waveforms)


@pytest.mark.parametrize("options", [{"n_centers": 30}, {"method": "mic"}])
def test_the_preset_is_standardised_as_published(waveforms, options):
    result = bigsmic.fit(waveforms, 3, preset="paper", **options)
    assert result.settings.scale == "standard"
    assert result.diagnostics["scaling"] == {"scale": "standard"}


def test_many_blocks_on_any_number_of_threads_decide_alike(waveforms, many_blocks):
    waveforms = np.tile(waveforms, (5, 1))
    few, many = (bigsmic.fit(waveforms, 3, n_threads=n, **QUICK) for n in (1, 3))
    assert few.diagnostics["scaling"] == many.diagnostics["scaling"]
    assert is_same(few, many, waveforms)


def test_what_was_taken_is_kept_with_the_run(waveforms, tmp_path):
    made = bigsmic.fit(waveforms, 3, out=tmp_path / "run", **QUICK)
    temporary = pickle.loads(pickle.dumps(bigsmic.fit(waveforms, 3, **QUICK)))
    saved = made.save(tmp_path / "saved")
    for there in (bigsmic.Result.open(tmp_path / "run"), temporary, saved):
        assert is_same(there, made, waveforms)
        np.testing.assert_allclose(
            there.scaled(waveforms), waveforms - waveforms.mean(axis=0, dtype=float), rtol=1e-5, atol=1e-5
        )


def test_a_cut_divides_as_the_fit_did(waveforms):
    open_fit = bigsmic.fit(waveforms, [2, 3], **FAST)
    assert "not divided" in repr(open_fit)
    assert open_fit.cut(3).predict(waveforms[:20]).shape == (20,)


def test_it_is_said(waveforms, table):
    line = next(line for line in repr(bigsmic.fit(waveforms, 3, **QUICK)).splitlines() if line.startswith("  scale "))
    assert "not divided: columns share a unit (likeness of neighbours 0." in line
    components = np.linalg.svd(waveforms - waveforms.mean(axis=0), full_matrices=False)[0] * np.linspace(3, 1, 36)
    assert "in order of spread" in repr(bigsmic.fit(components, 3, **QUICK))
    unordered = bigsmic.fit(components[:, np.random.default_rng(0).permutation(36)], 3, **QUICK)
    assert "times as wide as the narrowest)" in repr(unordered)
    assert "divided by their standard deviation" in repr(bigsmic.fit(table, 3, **QUICK))
    assert "  scale " not in repr(bigsmic.fit(table, 3, method="mspc", scale=None))
    assert bigsmic.plan(table, 3).scale == "auto"
    assert bigsmic.plan(table, 3, scale=None).scale is None


def test_the_command_line_says_it(waveforms, tmp_path):
    zarr.create_array(tmp_path / "X.zarr", data=waveforms, chunks=(100, 36))
    run = CliRunner().invoke
    planned = run(app, ["plan", str(tmp_path / "X.zarr"), "-c", "3"])
    assert "unless the scan finds that they share a unit" in " ".join(planned.output.split())
    line = ["fit", str(tmp_path / "X.zarr"), "-c", "3", "--out", str(tmp_path / "run"), "--method", "mspc"]
    line += ["--scale", "auto"]
    assert "not divided: columns share a unit" in " ".join(run(app, line).output.split())
    told = json.loads(run(app, [*line, "--json"]).stdout)
    assert told["settings"]["scale"] == "auto"
    assert told["diagnostics"]["scaling"]["scale"] is None
    assert told["diagnostics"]["scaling"]["neighbors"] > 0.5


def test_a_run_that_was_asked_for_another_scale_is_not_resumed(table, tmp_path):
    bigsmic.fit(table, 3, method="mspc", scale="standard", out=tmp_path / "run")
    with pytest.raises(RunError, match="scale"):
        bigsmic.fit(table, 3, out=tmp_path / "run", **QUICK)


def test_a_fit_that_ended_after_the_scan_decides_when_it_goes_on(waveforms, tmp_path, monkeypatch):
    def end(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bigsmic.stages.scan._choose_scale", end)
        with pytest.raises(KeyboardInterrupt):
            bigsmic.fit(waveforms, 3, out=tmp_path / "run", **QUICK)
    resumed = bigsmic.fit(waveforms, 3, out=tmp_path / "run", **QUICK)
    assert is_same(resumed, bigsmic.fit(waveforms, 3, method="mspc", scale=None), waveforms)


def test_graphs_are_not_scaled():
    W = csr_array(np.kron(np.eye(2), np.ones((15, 15)) - np.eye(15)))
    assert "scaling" not in bigsmic.fit(W, 2, kernel="precomputed").diagnostics
    assert bigsmic.plan(W, 2, kernel="precomputed").scale is None


def test_a_stream_is_scaled_as_its_first_chunk_asks(waveforms, table):
    for X, divides in ((waveforms, False), (table, True)):
        stream = Stream(RIMSettings(3, scale="auto", n_epochs=1))
        stream.learn(X)
        assert np.ptp(stream.scaler.factor) > 0 if divides else (stream.scaler.factor == 1).all()
