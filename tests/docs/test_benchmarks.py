"""Programs of benchmarks/ refuse what they cannot run in a sentence, before they overwrite what was measured."""

import ast
import importlib
import subprocess
import sys

import numpy as np
import pytest
from locations import ROOT, environment
from sklearn.neighbors import NearestNeighbors

BENCHMARKS = ROOT / "benchmarks"


def run(program, *arguments, **variables):
    """Run a benchmark; what it returns and prints."""
    command = [sys.executable, BENCHMARKS / program, *arguments]
    done = subprocess.run(
        command, env=environment() | variables, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("nights.py", [], "the following arguments are required: rows"),
        ("rim.py", ["toys"], "no such part: toys; there are toy, collapse"),
        ("calibration.py", ["--sets", "nothing"], "nothing: no such set"),
        ("calibration.py", ["--sets", "usps"], "usps.npz is not there"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(program, arguments, message, tmp_path):
    before = {path: path.read_bytes() for path in (BENCHMARKS / "results").glob("*.json")}
    code, errors = run(program, *arguments, BIGSMIC_DATA=str(tmp_path), BIGSMIC_BENCH_CACHE=str(tmp_path / "cache"))
    assert code
    assert message in errors
    assert "Traceback" not in errors
    assert {path: path.read_bytes() for path in (BENCHMARKS / "results").glob("*.json")} == before


def test_mixtures_have_any_shape(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from _data import load

    X, y, c = load("mixture700x3")
    assert X.shape == (700, 3)
    assert len(y) == 700
    assert c == 20


def test_neighbours_are_searched_by_cells(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from neighbors import K, by_cells

    X = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    found, notes = by_cells(tmp_path / "X.npy", len(X), {})
    nearest = NearestNeighbors(n_neighbors=K).fit(X).kneighbors(return_distance=False)
    shared = [len(np.intersect1d(*rows)) for rows in zip(found, nearest, strict=True)]
    assert np.mean(shared) > 0.9 * K
    assert notes["groups"] >= 1


@pytest.fixture
def reliability(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("_reliability")


def test_calibrated_confidence_has_a_small_error(reliability):
    rng = np.random.default_rng(0)
    confidence = rng.uniform(size=50_000)
    sums = reliability.reliability_sums(confidence, rng.uniform(size=50_000) < confidence)
    stated, seen = reliability.reliability_curve(sums)
    assert np.abs(stated - seen).max() < 0.03
    assert reliability.expected_calibration_error(sums) < 0.01


def test_overconfidence_is_the_calibration_error(reliability):
    sums = reliability.reliability_sums(np.ones(10), np.arange(10) < 6)
    assert reliability.expected_calibration_error(sums) == pytest.approx(0.4)
    stated, seen = reliability.reliability_curve(sums)
    assert (stated[-1], seen[-1]) == (1.0, pytest.approx(0.6))
    assert np.isnan(stated[:-1]).all()


def test_reliability_sums_add_over_blocks(reliability):
    rng = np.random.default_rng(1)
    confidence, correct = rng.uniform(size=100), rng.uniform(size=100) < 0.5
    whole = reliability.reliability_sums(confidence, correct, 7)
    blocks = np.split(np.arange(100), [3, 50])
    parts = [reliability.reliability_sums(confidence[rows], correct[rows], 7) for rows in blocks]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-13)


def test_no_rows_is_no_error(reliability):
    sums = reliability.reliability_sums(np.empty(0), np.empty(0, dtype=bool))
    assert reliability.expected_calibration_error(sums) == 0.0


def _taken(tree):
    """Modules of bigsmic that a program imports, by the names that it gives them, and names that it takes from them."""
    modules, names = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bigsmic":
            package = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(package, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                modules[alias.asname or alias.name] = getattr(package, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            names.append((modules[node.value.id], node.attr))
    return names


@pytest.mark.parametrize("program", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_what_programs_take_from_the_package_is_there(program):
    assert [name for owner, name in _taken(ast.parse(program.read_text())) if not hasattr(owner, name)] == []
