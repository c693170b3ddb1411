import inspect
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from rich.console import Console
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

import bigsmic
from bigsmic import errors
from bigsmic.cli import console, demo, formatting, main
from bigsmic.datasets import TetrodeSimulator
from bigsmic.numerics.labeling.metrics import adjusted_rand_index, contingency
from bigsmic.store import Run

HEAVY = ["dask", "distributed", "zarr", "numba", "pynndescent", "sklearn", "scipy", "pandas"]
FAST = ["--t", "5", "--n-centers", "50", "--threads", "1"]


def bigsmic_cli(*args):
    return CliRunner().invoke(main.app, [str(arg) for arg in args])


def write_rows(path, X):
    array = zarr.create_array(str(path), shape=X.shape, chunks=(128, X.shape[1]), dtype=X.dtype)
    array[:] = X
    return str(path)


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    truth = np.arange(600) % 3
    return rng.standard_normal((600, 4)).astype("f4") + 8 * np.eye(3, 4, dtype="f4")[truth], truth


@pytest.fixture(scope="module")
def fitted(blobs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    archive, run = write_rows(folder / "X.zarr", blobs[0]), str(folder / "run.zarr")
    return archive, run, bigsmic_cli("fit", archive, "-c", 3, "--out", run, *FAST)


@pytest.fixture
def asked(monkeypatch):
    """What `bigsmic.fit` was called with, in place of a fit."""
    calls = []

    def fit(*args, **given):
        calls.append(given)
        raise errors.InputError("not today")

    monkeypatch.setattr(bigsmic, "fit", fit)
    return calls


# -- what is loaded


def loaded_after(statement):
    code = f"import sys; {statement}; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_after("import bigsmic") == []


def test_help_loads_nothing_heavy():
    help_of_fit = "import bigsmic.cli.main; bigsmic.cli.main.app(['fit', '--help'], standalone_mode=False)"
    assert loaded_after(help_of_fit) == []


def test_help_tells_commands_and_exit_codes():
    done = subprocess.run([sys.executable, "-m", "bigsmic", "--help"], capture_output=True, text=True, check=True)
    assert all(word in done.stdout for word in ("fit", "predict", "plan", "demo", "Exit codes", "130"))


def test_version():
    assert bigsmic_cli("--version").stdout == f"bigsmic {bigsmic.__version__}\n"


# -- options


def test_every_parameter_of_fit_has_its_option():
    spelled_out = {
        "data",
        "c",
        "out",
        "progress",
        "metric",
        "client",
        "engine",
        "block_sizes",
        "options",
    }  # a metric is of sparse matrices in memory
    flags = {flag.name for name in ("Rows", "Model", "Resources") for flag in main.FIT[name]} - {"storage_options_file"}
    assert flags == set(inspect.signature(bigsmic.fit).parameters) - spelled_out


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("--t 3,5 --t 7", {"t": (3, 5, 7)}),
        ("-t 3,5", {"t": (3, 5)}),
        ("--rotation on", {"rotation": True}),
        ("--rotation auto", {"rotation": "auto"}),
        ("--repair off", {"repair": False}),
        ("--prior .5,.25,.25", {"prior": (0.5, 0.25, 0.25)}),
        ("--scale none", {"scale": None}),
        ("--lsmi-rows all", {"lsmi_rows": None}),
        ("--lsmi-rows 1000", {"lsmi_rows": 1000}),
        ("--preset paper --seed 3", {"preset": "paper", "seed": 3}),
        ("--threads 2 --memory-limit 1GiB", {"n_threads": 2, "memory_limit": "1GiB"}),
        ("--storage-option anon=true --storage-option key=ab", {"storage_options": {"anon": True, "key": "ab"}}),
        ("", {}),
    ],
)
def test_options_are_handed_on_only_if_given(asked, typed, given):
    bigsmic_cli("fit", "X.zarr", "-c", 3, "--out", "run.zarr", *typed.split())
    (call,) = asked
    assert {name: value for name, value in call.items() if name not in ("out", "progress")} == given


@pytest.mark.parametrize(
    "typed",
    [
        "--t 3,x",
        "--assignment fancy",
        "--lsmi-rows many",
        "--storage-option secret",
        "--prior a,b",
        "--nope",
        "--threads 0",
        "--threads -1",
        "--storage-options-file nowhere.json",
    ],
)
def test_a_wrong_command_line_is_exit_code_2(asked, typed):
    result = bigsmic_cli("fit", "X.zarr", "-c", 3, "--out", "run.zarr", *typed.split())
    assert (result.exit_code, asked) == (2, [])


@pytest.mark.parametrize("option", ["--n-components", "--lsmi-rows", "--mlmi-rows"])
def test_none_is_refused_where_the_word_is_all(asked, option):
    result = bigsmic_cli("fit", "X.zarr", "-c", 3, "--out", "run.zarr", option, "none")
    assert result.exit_code == 2
    assert "use a whole number, or all" in " ".join(result.stderr.replace("│", " ").split())
    assert not asked


@pytest.mark.parametrize("typed", ["auto", "5:10", "3.5"])
def test_a_number_of_clusters_that_is_none_is_refused_with_what_does_the_same(asked, typed):
    result = bigsmic_cli("fit", "X.zarr", "--out", "run", "-c", typed)
    assert (result.exit_code, asked) == (2, [])
    said = " ".join(result.stderr.replace("│", " ").split())
    assert f"got '{typed}'; use a whole number, or leave it out, with which the number is found. A range is" in said


def test_storage_options_come_from_the_environment_and_a_file_too(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("BIGSMIC_STORAGE_OPTIONS", '{"key": "of environment", "anon": false, "token": "t"}')
    (tmp_path / "options.json").write_text('{"key": "of file", "secret": "s"}')
    typed = ["--storage-options-file", tmp_path / "options.json", "--storage-option", "secret=typed"]
    bigsmic_cli("fit", "X.zarr", "-c", 3, "--out", "run.zarr", *typed)
    bigsmic_cli("fit", "X.zarr", "-c", 3, "--out", "run.zarr")
    assert [call["storage_options"] for call in asked] == [
        {"key": "of file", "anon": False, "token": "t", "secret": "typed"},
        {"key": "of environment", "anon": False, "token": "t"},
    ]


@pytest.mark.parametrize("text", ["{'key': 'SECRET'}", '["SECRET"]', '"SECRET"'])
@pytest.mark.parametrize("of_file", [True, False])
def test_storage_options_that_are_no_object_are_refused_unseen(asked, tmp_path, monkeypatch, text, of_file):
    (tmp_path / "options.json").write_text(text)
    monkeypatch.setenv("BIGSMIC_STORAGE_OPTIONS", "" if of_file else text)
    typed = ["--storage-options-file", tmp_path / "options.json"] if of_file else []
    result = bigsmic_cli("predict", "run.zarr", "X.zarr", "--out", "out.zarr", *typed)
    assert (result.exit_code, asked) == (2, [])
    assert "SECRET" not in result.output
    assert "JSON" in result.output


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("input: a group with arrays ['X']; name one with component=", "input: .. name one with --component"),
        ("n_threads: got 0; give n_threads=1", "--threads: got 0; give --threads 1"),
        ("c (n_clusters): got 9 clusters for 3 rows", "--clusters: got 9 clusters for 3 rows"),
        ("c: got 9 clusters for 3 rows; c=None leaves it open", "--clusters: got .. --clusters None leaves it open"),
        ("plan: the limit is 10MiB; set memory_limit to 279MiB", "plan: .. set --memory-limit to 279MiB"),
        (
            "run: X is a file; give another out=, or the stored values",
            "run: .. give another --out, or the stored values",
        ),
        ("kernel: got 'a=b'; neighbors of rows", "--kernel: got 'a=b'; neighbors of rows"),
        ("s3://b/t=3/n_threads.zarr is not there", "s3://b/t=3/n_threads.zarr is not there"),
    ],
)
def test_messages_have_the_options_that_are_typed(monkeypatch, message, typed):
    def fit(*args, **given):
        raise errors.InputError(message)

    monkeypatch.setattr(bigsmic, "fit", fit)
    result = bigsmic_cli("fit", "X.zarr", "-c", 3, "--out", "run.zarr", "--json")
    found = json.loads(result.stdout)["error"]["message"]
    begin, _, end = typed.rpartition(".. ")
    assert found.startswith(begin)
    assert found.endswith(end)
    assert result.stderr == f"bigsmic: error: {found}\n"


def test_stages_are_no_options(monkeypatch):
    def fit(*args, **given):
        raise errors.ClusterError("neighbors: block 7 killed three workers")

    monkeypatch.setattr(bigsmic, "fit", fit)
    result = bigsmic_cli("fit", "X.zarr", "-c", 3, "--out", "run.zarr")
    assert result.stderr == "bigsmic: error: neighbors: block 7 killed three workers\n"


# -- fit, predict, plan


def test_fit_prints_the_result_and_what_to_type_next(fitted, blobs):
    _, run, result = fitted
    assert result.exit_code == 0, result.output
    assert "600 rows x 4 columns, 3 clusters" in result.stdout
    assert result.stdout.splitlines()[-1] == f"  bigsmic export {shlex.quote(str(run))} labels.csv"
    assert "lsmi" not in result.stdout
    labels = bigsmic.Result.open(run).labels
    assert adjusted_rand_index(contingency(blobs[1], labels, 3, 3)) > 0.99


def test_progress_is_a_line_a_stage_where_there_is_no_terminal(fitted):
    stages = [line.split()[-1] for line in fitted[2].stderr.splitlines()]
    assert stages == ["scan", "route", "neighbors", "graph", "eigen", "assign", "select", "output"]


def test_the_same_command_resumes(fitted):
    archive, run, _ = fitted
    labels = bigsmic.Result.open(run).labels
    again = bigsmic_cli("fit", archive, "-c", 3, "--out", run, *FAST, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["diagnostics"]["rows"] == 600
    assert not {"neighbors", "graph", "eigen"} & set(again.stderr.split())
    assert np.array_equal(bigsmic.Result.open(run).labels, labels)


def test_quiet_is_silent(fitted):
    archive, run, _ = fitted
    assert bigsmic_cli("fit", archive, "-c", 3, "--out", run, *FAST, "--quiet").output == ""


def test_predict_gives_training_rows_back_their_clusters(fitted, tmp_path):
    archive, run, _ = fitted
    out = tmp_path / "predictions.zarr"
    result = bigsmic_cli("predict", run, archive, "--out", out, "--json")
    document = json.loads(result.stdout)
    found = zarr.open_group(str(out), mode="r")
    labels = bigsmic.Result.open(run).labels
    assert document["rows"] == sum(document["cluster_sizes"]) == 600
    assert np.mean(np.asarray(found["labels"]) == labels) > 0.99
    assert found["posterior"].shape == (600, 3)


def test_predict_prints_the_sizes(fitted, tmp_path):
    archive, run, _ = fitted
    result = bigsmic_cli("predict", run, archive, "--out", tmp_path / "out.zarr")
    assert result.exit_code == 0, result.output
    assert "600 rows labelled" in result.stdout


def test_noise_is_counted_apart(blobs, tmp_path):
    archive, run = (
        write_rows(tmp_path / "X.zarr", np.concatenate([blobs[0], blobs[0][:2] + 500])),
        tmp_path / "run.zarr",
    )
    result = bigsmic_cli("fit", archive, "-c", 3, "--out", run, "--noise", "on", *FAST)
    assert result.exit_code == 0, result.output
    labels = bigsmic.Result.open(run).labels
    assert f"noise      {(labels == -1).sum()} rows" in result.stdout
    found = bigsmic_cli("predict", run, archive, "--out", tmp_path / "out.zarr", "--json")
    document = json.loads(found.stdout)
    assert document["noise"] >= 2
    assert document["rows"] == document["noise"] + sum(document["cluster_sizes"]) == 602
    page = bigsmic_cli("predict", run, archive, "--out", tmp_path / "out.zarr").stdout
    assert [line.split()[1] for line in page.splitlines() if line.split()[:1] == ["none"]] == [str(document["noise"])]


def test_predict_reads_as_fit_does(blobs, fitted, tmp_path):
    archive = write_rows(tmp_path / "X.zarr", blobs[0])
    (tmp_path / "X.zarr" / "c" / "1" / "0").unlink()
    assert failure("predict", fitted[1], archive, "--out", tmp_path / "out.zarr") == (6, "StorageError")
    filled = bigsmic_cli("predict", fitted[1], archive, "--out", tmp_path / "other.zarr", "--missing-chunks", "fill")
    assert filled.exit_code == 0, filled.output


@pytest.mark.parametrize(("method", "column"), [("smic", "mean ari"), ("3smic", "lsmi")])
def test_a_fit_of_an_open_number_shows_what_hints_at_it(fitted, tmp_path, method, column):
    archive, run = fitted[0], tmp_path / "run.zarr"
    options = (*FAST, "--method", method, "--valleys", "off")
    result = bigsmic_cli("fit", archive, "--out", run, *options)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[:1] == ["2"])
    assert lines[first + 1].split()[0] == "3"
    assert {"n", "clusters", *column.split()} <= set(" ".join(lines[:first]).split())
    assert lines[-1] == f"  bigsmic cut {shlex.quote(str(run))} -c C --out OTHER_RUN"
    again = bigsmic_cli("fit", archive, "--out", run, *options, "--json")
    assert [number["n_clusters"] for number in json.loads(again.stdout)["numbers"]][:2] == [2, 3]
    hint = "stability" if method == "smic" else "curve"
    with pytest.raises(errors.InputError, match=f"predict: the fit was given no number of clusters .*{hint} is a hint"):
        bigsmic.Result.open(run).predict(np.zeros((2, 4)))
    assert failure("predict", run, archive, "--out", tmp_path / "out") == (3, "InputError")
    assert not (tmp_path / "out").exists()


def test_a_fit_without_a_number_finds_it_and_says_how(fitted, tmp_path):
    run = tmp_path / "run.zarr"
    page = bigsmic_cli("fit", fitted[0], "--out", run, *FAST)
    assert page.exit_code == 0, page.output
    document = json.loads(bigsmic_cli("fit", fitted[0], "--out", run, *FAST, "--json").stdout)
    found = document["valleys"]
    assert found["sentence"] in " ".join(page.stdout.split())
    assert page.stdout.splitlines()[-2:] == [
        f"  bigsmic export {shlex.quote(str(run))} labels.csv",
        f"  bigsmic cut {shlex.quote(str(run))} -c C --out OTHER_RUN",
    ]
    assert (document["n_clusters"], found["n_clusters"], found["clear"]) == (3, 3, True)
    assert found["sentence"].startswith("The data show 3 groups")
    assert set(found["votes"]) == {3}
    evidence = bigsmic.Result.open(run).valleys
    assert (found["agreement"], found["parts"], found["threshold"]) == (evidence.agreement, None, evidence.threshold)
    assert found["agreement"] > 0.9
    assert [row["n_clusters"] for row in found["curve"]][:2] == [2, 3]
    assert all(set(row) == {"cluster", "neighbor", "depth", "z"} for row in found["pairs"])
    assert "numbers" not in document


def test_where_nothing_is_parted_the_next_command_is_said_and_works(tmp_path):
    archive = write_rows(tmp_path / "blob.zarr", np.random.default_rng(2).normal(size=(300, 3)))
    page = bigsmic_cli("fit", archive, "--out", tmp_path / "run.zarr", *FAST)
    assert page.exit_code == 0, page.output
    found = bigsmic.Result.open(tmp_path / "run.zarr").valleys
    assert found.sentence in " ".join(page.stdout.split())
    again = bigsmic_cli("fit", archive, "--out", tmp_path / "run.zarr", *FAST, "--json")
    assert json.loads(again.stdout)["n_clusters"] is None
    program, *command = shlex.split(page.stdout.splitlines()[-1])
    command[command.index("OTHER_RUN")] = str(tmp_path / "cut.zarr")
    assert program == "bigsmic"
    document = json.loads(bigsmic_cli(*command, "--json").stdout)
    assert document["n_clusters"] == found.best
    cut = bigsmic.Result.open(tmp_path / "cut.zarr")
    assert set(cut.labels) == set(range(found.best))
    assert json.loads(bigsmic_cli(*command, "--json").stdout) == document
    command[command.index("-c") + 1] = "2"
    assert failure(*command) == (5, "RunError")


def test_a_fit_of_few_rows_without_a_number_says_what_to_do(tmp_path):
    archive, run = (
        write_rows(tmp_path / "few.zarr", np.random.default_rng(2).normal(size=(5, 3))),
        tmp_path / "run.zarr",
    )
    page = bigsmic_cli("fit", archive, "--out", run, "--threads", 1)
    assert page.exit_code == 0, page.output
    assert "fit again with a number of clusters: bigsmic fit .. -c C --out OTHER_RUN" in page.stdout
    assert "bigsmic cut" not in page.stdout
    document = json.loads(bigsmic_cli("fit", archive, "--out", run, "--threads", 1, "--json").stdout)
    assert (document["n_clusters"], document["numbers"]) == (None, [])
    assert bigsmic_cli("report", run, "-o", tmp_path / "report.html").exit_code == 0
    text = (tmp_path / "report.html").read_text()
    assert "Fit again with a number of clusters." in text
    assert "bigsmic cut" not in text


def test_a_fit_without_trees_cannot_be_cut(fitted, tmp_path):
    run = tmp_path / "run.zarr"
    assert bigsmic_cli("fit", fitted[0], "-c", 3, "--method", "mspc", "--out", run).exit_code == 0
    assert failure("cut", run, "-c", 2, "--out", tmp_path / "cut.zarr") == (3, "AbsentResultError")


def test_predict_has_the_options_of_reading_and_resources_of_fit():
    options = {flag.name for name in ("Rows", "Resources") for flag in main.FIT[name]}
    assert options - offered("predict") == {"memory_limit"}
    assert options <= offered("plan")


def offered(command):
    """Names of a command's options."""
    (found,) = (c for c in main.app.registered_commands if c.callback.__signature__ and c.name == command)
    return set(inspect.signature(found.callback).parameters)


def test_plan_runs_nothing(fitted, tmp_path):
    archive = fitted[0]
    table = bigsmic_cli("plan", archive, "-c", 3, *FAST, "--out", tmp_path / "run.zarr")
    document = json.loads(bigsmic_cli("plan", archive, "-c", 3, *FAST, "--json").stdout)
    assert "neighbors" in table.stdout
    most = max(stage["peak_bytes"] for stage in document["stages"].values())
    assert document["peak_bytes"] == document["held_bytes"] + most
    assert document["size"]["n"] == 600
    assert not (tmp_path / "run.zarr").exists()


def test_plan_with_a_run_directory_is_that_of_a_fit_there(fitted, tmp_path):
    there = ("--out", tmp_path / "run.zarr", "--json")
    document = json.loads(bigsmic_cli("plan", fitted[0], "-c", 3, *FAST, *there).stdout)
    assert (document["checkpoints"], document["held_bytes"]) == (True, 0)  # a temporary run is partly in memory


def test_plan_is_of_as_many_rows_and_workers_as_are_asked_for(fitted):
    imagined = ("--n-rows", "1e9", "--workers", 64, "--memory-limit", "64GiB", "--threads", 8)
    page = " ".join(bigsmic_cli("plan", fitted[0], "-c", 3, *imagined).stdout.split())
    assert "1,000,000,000 rows x" in page
    assert "for each of 64 workers" in page
    assert "between workers at most" in page
    document = json.loads(bigsmic_cli("plan", fitted[0], "-c", 3, *imagined, "--json").stdout)
    assert (document["size"]["n"], document["size"]["n_workers"]) == (10**9, 64)
    crowded = json.loads(
        bigsmic_cli("plan", fitted[0], "-c", 3, *imagined, "--workers-per-machine", 4, "--threads", 1, "--json").stdout
    )
    assert crowded["size"]["workers_per_machine"] == 4
    assert document["traffic_bytes"] > 10**12
    assert document["stages"]["neighbors"]["max_concurrency"] == 8


def test_plan_looks_at_the_disk(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(formatting.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 10}))
    result = bigsmic_cli("plan", fitted[0], "-c", 3, "--out", tmp_path / "run.zarr", "--json")
    assert result.exit_code == 4
    assert "has 10 B left" in json.loads(result.stdout)["error"]["message"]


# -- what goes wrong


def failure(*args):
    """Exit code and error of a command; the message is on both streams, and no traceback on either."""
    result = bigsmic_cli(*args, "--json")
    error = json.loads(result.stdout)["error"]
    assert error["exit_code"] == result.exit_code
    assert result.stderr.endswith(f"bigsmic: error: {error['message']}\n")
    assert "Traceback" not in result.output
    return result.exit_code, error["type"]


def test_nan_rows(blobs, tmp_path):
    X = blobs[0].copy()
    X[7, 2] = np.nan
    archive = write_rows(tmp_path / "X.zarr", X)
    assert failure("fit", archive, "-c", 3, "--out", tmp_path / "run.zarr") == (3, "NonFiniteError")


def test_more_clusters_than_rows(fitted, tmp_path):
    assert failure("fit", fitted[0], "-c", 601, "--out", tmp_path / "run.zarr") == (3, "InputError")


def test_unknown_path(tmp_path):
    assert failure("fit", tmp_path / "none.zarr", "-c", 3, "--out", tmp_path / "run.zarr") == (3, "InputError")


@pytest.mark.parametrize("command", ["fit", "plan"])
def test_memory_limit_too_small(fitted, tmp_path, command):
    out = tmp_path / "run.zarr"
    assert failure(command, fitted[0], "-c", 3, "--out", out, "--memory-limit", "10MiB") == (4, "PlanError")


def test_locked_run(fitted):
    archive, run, _ = fitted
    other = Run(run)
    try:
        assert failure("fit", archive, "-c", 3, "--out", run, *FAST) == (75, "RunLockedError")
    finally:
        other.close()


def test_run_of_other_parameters(fitted):
    archive, run, _ = fitted
    assert failure("fit", archive, "-c", 2, "--out", run, *FAST) == (5, "RunMismatchError")


def test_predict_without_a_run(fitted, tmp_path):
    assert failure("predict", tmp_path / "none", fitted[0], "--out", tmp_path / "out") == (5, "RunError")


def test_missing_chunk(blobs, tmp_path):
    archive = write_rows(tmp_path / "X.zarr", blobs[0])
    (tmp_path / "X.zarr" / "c" / "1" / "0").unlink()
    assert failure("fit", archive, "-c", 3, "--out", tmp_path / "run.zarr") == (6, "StorageError")


def test_interruption(fitted, tmp_path, monkeypatch):
    def interrupt(*args, **given):
        raise KeyboardInterrupt

    monkeypatch.setattr(bigsmic, "fit", interrupt)
    result = bigsmic_cli("fit", fitted[0], "-c", 3, "--out", tmp_path / "run.zarr")
    assert result.exit_code == 130
    assert "the same command resumes the work" in result.stderr


def test_interruption_of_an_import_that_makes_something_else_of_it(tmp_path):
    (tmp_path / "zarr.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "except BaseException:\n"
        "    raise SystemExit(99)\n"
    )
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # here it may be ignored
    code += "; from bigsmic.cli.main import main; main()"
    command = [sys.executable, "-c", code, "fit", str(tmp_path), "-c", "3", "--out", str(tmp_path / "run")]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "bigsmic: error: interrupted; with --out, the same command resumes the work\n"


def test_interruption_before_a_command_has_begun():
    code = "import signal, typer.main; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code += "; typer.main.get_command = lambda app: signal.raise_signal(signal.SIGINT)"
    code += "; from bigsmic.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "show", "run"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "bigsmic: error: interrupted; with --out, the same command resumes the work\n"


def _broken_pipe():
    read, write = os.pipe()
    os.close(read)
    return write


def _full_disk():
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is full")
@pytest.mark.parametrize("opened", [_broken_pipe, _full_disk])
def test_a_fit_goes_on_if_its_log_cannot_be_written(fitted, tmp_path, opened):
    stderr, run = opened(), tmp_path / "run.zarr"
    command = [sys.executable, "-m", "bigsmic", "fit", fitted[0], "-c", "3", "--t", "40", "--out", str(run)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
    missing = [sys.executable, "-m", "bigsmic", "show", str(tmp_path / "none.zarr")]
    failed = subprocess.run(missing, stdout=subprocess.PIPE, stderr=stderr, check=False)
    os.close(stderr)
    assert (done.returncode, done.stdout.splitlines()[0][:10]) == (0, "Result of ")
    assert failed.returncode == 5


def test_names_have_letters_that_the_encoding_of_stdout_lacks(blobs, tmp_path):
    archive, run = write_rows(tmp_path / "X.zarr", blobs[0]), tmp_path / "größer ✓.zarr"
    command = [sys.executable, "-m", "bigsmic", "fit", archive, "-c", "3", *FAST, "--out", str(run)]
    done = subprocess.run(command, env=os.environ | {"PYTHONIOENCODING": "latin-1"}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "größer \\u2713.zarr".encode("latin-1") in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is full")
@pytest.mark.parametrize("shown", ["--json", "--debug"])
def test_a_result_that_cannot_be_written_is_a_storage_error(fitted, shown):
    command = [sys.executable, "-m", "bigsmic", "plan", fitted[0], "-c", "3", *FAST, shown]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 6
    assert done.stderr.splitlines()[-1].startswith("bigsmic: error: stdout: the result could not be written (No sp")
    if shown == "--json":
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("debug", "traceback"), [([], False), (["--debug"], True)])
def test_what_nobody_thought_of(tmp_path, monkeypatch, debug, traceback):
    def fail(*args, **given):
        raise ZeroDivisionError("of a kind")

    monkeypatch.setattr(bigsmic, "fit", fail)
    result = bigsmic_cli("fit", "X.zarr", "-c", 3, "--out", "run.zarr", *debug)
    assert result.exit_code == 1
    assert "ZeroDivisionError: of a kind" in result.stderr
    assert ("Traceback" in result.stderr) is traceback


def test_warnings_are_one_line_on_stderr(blobs, tmp_path):
    archive = write_rows(tmp_path / "X.zarr", blobs[0][:30])
    result = bigsmic_cli("fit", archive, "-c", 2, "--out", tmp_path / "run.zarr", "--t", 40, "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("bigsmic: warning: --t: (40,) cut to (29,)")


# -- demo


def test_demo_finds_the_units(tmp_path):
    command = [sys.executable, "-m", "bigsmic", "demo", "--spikes", "1500", "--units", "3", "--json"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert document["ari"] > 0.7
    assert sum(cluster["spikes"] for cluster in document["clusters"]) == 1500
    archive = zarr.open_group(str(tmp_path / "archive.zarr"), mode="r")
    assert archive["X"].shape == (1500, 152)
    assert archive["labels"].shape == (1500,)

    page = bigsmic_cli("demo", "--spikes", 1500, "--units", 3, "--out", tmp_path)
    assert page.exit_code == 0, page.output
    assert "Adjusted Rand index" in page.stdout
    assert "simulate" not in page.stderr
    assert failure("demo", "--spikes", 1500, "--units", 4, "--out", tmp_path) == (3, "InputError")


def test_clusters_are_compared_with_any_number_of_units(tmp_path):
    units = np.array([0, 0, 1, 1, 2, 2], np.int32)
    zarr.create_group(str(tmp_path / "a.zarr")).create_array("labels", data=units)
    for labels in ([0, 0, 1, 1, 1, 1], [0, 1, 2, 2, 3, 3]):
        found = demo.compare(
            str(tmp_path / "a.zarr"), SimpleNamespace(labels=np.array(labels), n_clusters=max(labels) + 1)
        )
        assert sum(cluster["spikes"] for cluster in found["clusters"]) == 6
        assert len(found["clusters"]) == max(labels) + 1
        assert found["ari"] == pytest.approx(adjusted_rand_score(units, labels))
        assert len(found["missed_units"]) == max(0, 2 - max(labels))


def test_demo_archive_is_written_again_if_it_was_not_finished(tmp_path):
    simulator = TetrodeSimulator(n_rows=100, n_units=2)
    location = demo.write_archive(tmp_path, simulator)
    note = tmp_path / "demo.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"complete": False}))
    zarr.open_group(location)["X"][:] = 0
    demo.write_archive(tmp_path, simulator)
    assert np.array_equal(zarr.open_group(location)["X"][:], simulator.block(0, 100)[0])


def test_demo_does_not_write_over_what_is_not_its_own(tmp_path):
    write_rows(tmp_path / "archive.zarr", np.zeros((3, 2), "f4"))
    with pytest.raises(errors.InputError, match="not a demo's archive"):
        demo.write_archive(tmp_path, TetrodeSimulator(n_rows=100, n_units=2))


def test_a_demo_is_not_written_to_a_folder_that_is_named_like_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    simulator = TetrodeSimulator(n_rows=100, n_units=2)
    with pytest.raises(errors.InputError, match="demo: s3://bucket/demo is a URL, and demos are kept in local folders"):
        demo.write_archive("s3://bucket/demo", simulator)
    assert [*tmp_path.iterdir()] == []
    assert demo.write_archive((tmp_path / "demo").as_uri(), simulator) == str(tmp_path / "demo" / "archive.zarr")


@pytest.mark.parametrize("note", ['{"mine": 1}', "[]", "not JSON"])
def test_a_demo_leaves_a_note_of_others_alone(tmp_path, note):
    (tmp_path / "demo.json").write_text(note)
    with pytest.raises(
        errors.InputError, match=r"demo.json is not a demo's file, and is not overwritten; give another"
    ):
        demo.write_archive(tmp_path, TetrodeSimulator(n_rows=100, n_units=2))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("demo.json", note)]


def test_a_demo_in_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(errors.InputError, match=r"file cannot be a folder \(File exists\); give another --out"):
        demo.write_archive(tmp_path / "file", TetrodeSimulator(n_rows=100, n_units=2))


def test_a_demo_whose_archive_was_deleted_is_written_again(tmp_path):
    simulator = TetrodeSimulator(n_rows=100, n_units=2)
    shutil.rmtree(demo.write_archive(tmp_path, simulator))
    assert zarr.open_group(demo.write_archive(tmp_path, simulator), mode="r")["X"].shape == (100, 152)


# -- screen


def test_json_has_null_for_nan():
    stream = console.Screen(as_json=True)
    stream.stdout = Console(file=io.StringIO())
    stream.write({"a": [float("nan"), 1.5]})
    assert json.loads(stream.stdout.file.getvalue()) == {"a": [None, 1.5]}
