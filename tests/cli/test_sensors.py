"""Commands for archives of sensors."""

import json

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from bigsmic.cli.main import app

CLI = CliRunner()


@pytest.fixture
def recording(tmp_path):
    rng = np.random.default_rng(0)
    t = np.arange(12_000)
    signal = np.where((t // 3000) % 2, np.sin(t), np.sin(t / 7)) + 0.2 * rng.normal(size=12_000)
    zarr.create_array(str(tmp_path / "a"), data=signal[:, None].astype("f4"), chunks=(1000, 1))
    return tmp_path / "a"


def run(*arguments, code=0):
    found = CLI.invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == code, found.output
    return found


def test_windows_are_made_and_extended(recording, tmp_path):
    options = ("--length", "5s", "--step", "25", "--rate", 10, "--channels", "x", "--out", tmp_path / "w")
    found = json.loads(run("windows", recording, *options, "--json").stdout)
    assert (found["windows"], found["new"], found["columns"][0]) == (479, 479, "x.mean")
    zarr.open_array(str(recording)).append(np.ones((50, 1), "f4"))
    found = run("windows", recording, *options)
    assert "481 of 16 features, 2 of them new" in found.stdout
    fitted = run("fit", tmp_path / "w", "-c", 2, "--rows", "0:400", "--out", tmp_path / "run", "--json", "--threads", 1)
    assert json.loads(fitted.stdout)["diagnostics"]["rows"] == 400
    out = ("--out", tmp_path / "p")
    predicted = json.loads(run("predict", tmp_path / "run", tmp_path / "w", "--rows", "400:", *out, "--json").stdout)
    assert predicted["rows"] == 81


def test_what_is_refused_has_its_exit_code(recording, tmp_path):
    found = run("windows", recording, "--length", "5s", "--out", tmp_path / "w", code=3)
    assert "--length: got '5s' without a rate; give --rate or --times" in found.stderr
    found = run("fit", recording, "-c", 2, "--rows", "3", "--out", tmp_path / "run", code=2)
    assert "use first:last" in found.stderr


def test_help_of_windows_speaks_of_samples_not_of_tables():
    shown = " ".join(run("windows", "--help").stdout.replace("│", " ").split())
    assert "Array of the samples" in shown
    assert "columns of a table" not in shown


def test_new_rows_are_labelled_once(recording, tmp_path):
    options = ("--length", 50, "--step", 25, "--out", tmp_path / "w")
    run("windows", recording, *options)
    run("fit", tmp_path / "w", "-c", 2, "--out", tmp_path / "run", "--threads", 1)
    zarr.open_array(str(recording)).append(np.random.default_rng(1).normal(size=(1000, 1)).astype("f4"))
    run("windows", recording, *options)
    found = json.loads(run("update", tmp_path / "run", tmp_path / "w", "--json").stdout)
    assert (found["rows"], sum(found["cluster_sizes"]), found["first"]) == (40, 40, 479)
    assert "no new rows; 519 are known" in run("update", tmp_path / "run", tmp_path / "w").stdout
    zarr.open_group(str(tmp_path / "w"))["X"][3] = 0
    assert "have changed since" in run("update", tmp_path / "run", tmp_path / "w", code=5).stderr
