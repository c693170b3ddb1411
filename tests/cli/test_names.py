"""Names of clusters, and numbers that a refit keeps, on the command line."""

import json

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from bigsmic import Result
from bigsmic.cli import main

QUICK = ("-c", 3, "--threads", 1, "--t", "5", "--shrinkage", "0", "--n-centers", 40)


def typed(*args):
    return CliRunner().invoke(main.app, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with a name, and a refit of more rows that takes it over."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 4)).astype("f4") + 8 * np.eye(3, 4, dtype="f4")[np.arange(400) % 3]
    for name, X in (("few", rows[:300]), ("all", rows)):
        zarr.create_array(folder / name, data=X)
    assert typed("fit", folder / "few", *QUICK, "-o", folder / "first").exit_code == 0
    assert typed("name", folder / "first", 1, "walking").exit_code == 0
    done = typed(
        "fit", folder / "all", *QUICK, "-o", folder / "second", "--seed", 4, "--like", folder / "first", "--json"
    )
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.stdout)


def test_a_refit_keeps_labels_and_names(runs):
    folder, document = runs
    first, second = (Result.open(folder / name) for name in ("first", "second"))
    np.testing.assert_array_equal(second.labels[:300], first.labels)
    assert document["matched"]["sentence"] == "3 of 3 clusters continue."
    assert document["matched"]["rows"] == 300
    assert json.loads(typed("name", folder / "second", "--json").stdout)["names"] == {"1": "walking"}


def test_names_are_shown_and_taken_away(runs, tmp_path):
    run = Result.open(runs[0] / "second").save(tmp_path / "run").location
    assert "walking" in typed("name", run).stdout
    assert "no cluster has a name" in typed("name", run, 1, "").stdout


def test_names_are_in_what_show_and_export_say(runs, tmp_path):
    run = runs[0] / "second"
    shown = typed("show", run)
    assert "names      1 walking" in shown.stdout
    assert json.loads(typed("show", run, "--json").stdout)["names"] == {"1": "walking"}
    assert typed("export", run, tmp_path / "labels.csv", "--columns", "label,name").exit_code == 0
    rows = np.loadtxt(tmp_path / "labels.csv", delimiter=",", skiprows=1, dtype=str)
    assert (rows[:, 1] == np.where(rows[:, 0] == "1", "walking", "")).all()
    shown = typed("show", Result.open(run).save(tmp_path / "run").set_names({1: None}).location)
    assert "walking" not in shown.stdout


def test_clusters_that_are_not_there_are_refused(runs):
    done = typed("name", runs[0] / "first", 7, "resting")
    assert (done.exit_code, "7" in done.stderr) == (3, True)
    done = typed("name", runs[0] / "first", 2)
    assert (done.exit_code, "without a name" in done.stderr) == (3, True)
