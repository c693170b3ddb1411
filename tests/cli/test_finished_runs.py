"""What reads finished runs: show, export, cut; and that what commands print fits a terminal of 80 columns."""

import json
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
import typer
import zarr
from pages import Page
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

import bigsmic
from bigsmic import registry
from bigsmic.cli import main
from bigsmic.methods.smic.result import SMICResult
from bigsmic.tables import drawn_width

OPTIONS = {"smic": ["--noise", "on", "--t", "5", "--n-centers", "40"], "3smic": ["--t", "3", "--n-centers", "40"]}


def typed(*args):
    return CliRunner().invoke(main.app, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 4)).astype("f4") + 8 * np.eye(3, 4, dtype="f4")[np.arange(400) % 3]
    path = tmp_path_factory.mktemp("archive") / "X.zarr"
    zarr.create_array(path, data=rows, chunks=(128, 4))
    return path


@pytest.fixture(scope="module")
def run(archive):
    path = archive.parent / "run.zarr"
    done = typed("fit", archive, "-c", 3, "-o", path, "--threads", 1, *OPTIONS["smic"])
    assert done.exit_code == 0, done.output
    return path


def too_wide(page):
    """Lines above 80 columns, but for those that have a path, which is to be copied whole."""
    return [line for line in page.splitlines() if len(line) > 80 and "/" not in line]


@pytest.mark.parametrize("method", registry.names())
@pytest.mark.parametrize("c", [["-c", "3"], []])
def test_what_a_fit_prints_is_shown_again_within_80_columns(archive, tmp_path, monkeypatch, method, c):
    monkeypatch.chdir(tmp_path)
    done = typed("fit", archive, *c, "-o", "run.zarr", "--method", method, "--threads", 1, *OPTIONS.get(method, []))
    if not c and done.exit_code:
        assert (done.exit_code, "--clusters" in done.stderr) == (3, True)  # a method that wants a number
        return
    assert done.exit_code == 0, done.output
    shown = typed("show", "run.zarr")
    place = f"{tmp_path}/run.zarr"
    assert shown.stdout == done.stdout.replace(shlex.quote(place), "run.zarr").replace(place, "run.zarr")
    assert too_wide(shown.stdout) == []
    every = typed("show", "run.zarr", "--labelings").stdout
    assert too_wide(every) == []
    candidates = bigsmic.Result.open("run.zarr").diagnostics.get("candidates", [])
    assert len(every.splitlines()) >= len(candidates)
    assert ("lsmi" in every) is (bool(candidates) or "lsmi" in shown.stdout)


def test_show_is_the_document_of_the_fit(archive, run):
    command = ("fit", archive, "-c", 3, "-o", run, "--threads", 1, *OPTIONS["smic"], "--json")
    of_fit = json.loads(typed(*command).stdout)
    assert json.loads(typed("show", run, "--json").stdout) == of_fit


def test_what_to_type_next_is_typed_as_it_stands(archive, tmp_path):
    (tmp_path / "my runs").mkdir()
    page = typed("fit", archive, "-o", tmp_path / "my runs" / "run.zarr", "--method", "smic", "--threads", 1, "--t", 3)
    next_command = shlex.split(page.stdout.splitlines()[-2])
    assert next_command[:2] == ["bigsmic", "export"]
    assert typed(*next_command[1:3], tmp_path / "labels.csv").exit_code == 0


def test_the_path_of_a_run_is_one_line_to_be_copied(run, tmp_path):
    place = tmp_path.joinpath(*["my runs"] * 12, "run.zarr")
    shutil.copytree(run, place)
    assert f"  run        {place}" in typed("show", place).stdout.splitlines()


@pytest.mark.parametrize(("c", "given"), [(3, True), (None, False), (range(2, 6), False)])
def test_fit_show_and_report_know_who_gave_the_number(tmp_path, c, given):
    """Also where valleys alone tell the labels, as they do of an open number."""
    X = make_blobs([200] * 3, 3, centers=[[0, 0, 0], [9, 0, 0], [0, 9, 0]], random_state=0)[0]
    result = bigsmic.fit(X, c, out=tmp_path / "run", n_threads=1)
    assert result.n_clusters == 3
    opened = bigsmic.Result.open(tmp_path / "run")
    assert (result.settings.number_given, opened.settings.number_given) == (given, given)
    assert result.settings.plain is opened.settings.plain is given
    assert ("bigsmic cut" in typed("show", tmp_path / "run").stdout) is not given
    opened.report(tmp_path / "report.html", map_rows=0)
    said = "3, as asked for" if given else "3, a number that the fit found"
    assert said in Page(tmp_path / "report.html").text("run")


def test_show_of_what_is_no_run(tmp_path):
    assert typed("show", tmp_path / "none").exit_code == 5


def test_export_says_what_it_wrote(run, tmp_path):
    done = typed("export", run, tmp_path / "labels.csv")
    assert done.stdout == f"400 rows are in {tmp_path / 'labels.csv'}\n"
    document = json.loads(typed("export", run, tmp_path / "l.npy", "--columns", "label, row", "--json").stdout)
    assert document == {"run": str(run), "out": str(tmp_path / "l.npy"), "rows": 400}
    assert np.load(tmp_path / "l.npy").dtype.names == ("label", "row")


def test_export_refuses_with_the_codes_of_the_others(run, tmp_path):
    assert typed("export", run, tmp_path / "labels.xls").exit_code == 3
    assert typed("export", run, tmp_path / "labels.csv", "--columns", "size").exit_code == 3
    (tmp_path / "labels.csv").write_text("mine")
    assert typed("export", run, tmp_path / "labels.csv").exit_code == 5
    assert (tmp_path / "labels.csv").read_text() == "mine"


def test_cut_takes_its_place_by_either_name(run, tmp_path):
    for name in ("-o", "--out"):
        place = tmp_path / f"cut{name}.zarr"
        assert typed("cut", run, "-c", 2, name, place, "--quiet").output == ""
        assert bigsmic.Result.open(place).n_clusters == 2


def test_predictions_of_others_are_refused_in_words_of_the_command_line(run, archive, tmp_path):
    words = ("predict", run, archive, "--out", tmp_path / "predicted.zarr", "--rows")
    assert typed(*words, ":9").exit_code == 0
    done = typed(*words, ":8")
    assert done.exit_code == 5
    assert "unless --overwrite allows it for its arrays labels and posterior; give another --out" in done.stderr
    assert typed(*words, ":8", "--overwrite").exit_code == 0


def test_usage_names_arguments_as_descriptions_do():
    """They are in capitals in "Write the labels of RUN"."""
    for name, command in typer.main.get_command(main.app).commands.items():
        found = {parameter.metavar for parameter in command.params if parameter.param_type_name == "argument"}
        assert all(metavar and metavar.isupper() for metavar in found), name


def test_the_same_cut_finds_the_finished_one_and_others_are_refused(run, tmp_path, monkeypatch):
    first = typed("cut", run, "-c", 2, "-o", tmp_path / "cut.zarr")
    monkeypatch.setattr(SMICResult, "cut", lambda *_: pytest.fail("was cut"))
    again = typed("cut", run, "-c", 2, "-o", tmp_path / "cut.zarr")
    assert (again.exit_code, again.stdout) == (0, first.stdout)
    other = bigsmic.Result.open(run).save(tmp_path / "other.zarr").location
    for command in [("cut", run, "-c", 3), ("cut", other, "-c", 2)]:
        done = typed(*command, "-o", tmp_path / "cut.zarr")
        assert done.exit_code == 5
        assert "cut.zarr exists already, and nothing is overwritten" in done.stderr


def test_a_cut_to_a_taken_place_is_refused_before_the_work(run, tmp_path, monkeypatch):
    (tmp_path / "thesis").write_text("mine")
    monkeypatch.setattr(SMICResult, "cut", lambda *_: pytest.fail("was cut"))
    done = typed("cut", run, "-c", 2, "-o", tmp_path / "thesis")
    assert done.exit_code == 5
    assert "thesis exists already, and nothing is overwritten; give another path" in done.stderr


@pytest.mark.parametrize("command", ["show", "report"])
def test_rows_in_the_place_of_a_run(archive, tmp_path, command):
    done = typed(command, archive, *(["-o", tmp_path / "page.html"] if command == "report" else []))
    assert done.exit_code == 5
    assert "is an array, not a run directory; give another --out" in done.stderr


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("bigsmic exp", ["export"]),
        ("bigsmic fit X.zarr --method 3", ["3smic"]),
        ("bigsmic fit --scale st", ["standard"]),
        ("bigsmic show --labe", ["--labelings"]),
    ],
)
def test_shells_are_offered_commands_options_and_their_words(monkeypatch, line, offered):
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_BIGSMIC_COMPLETE": "complete_bash"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-m", "bigsmic"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


@pytest.mark.parametrize("method", registry.names())
def test_a_plan_reads_as_its_command_shows_it(archive, method):
    shown = typed("plan", archive, "-c", 3, "--method", method).stdout
    assert too_wide(shown) == []
    assert "at once" in shown
    found = repr(bigsmic.plan(str(archive), 3, method=method))
    assert found.splitlines() == [line.rstrip() for line in shown.splitlines()]


@pytest.mark.parametrize("command", [["show"], ["cut", "-c", 3, "-o", "cut"]])
def test_a_damaged_run_gives_one_document(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    damaged = shutil.copytree(run, tmp_path / "run")
    if command[0] == "cut":
        assert typed("cut", damaged, *command[1:]).exit_code == 0
        damaged = tmp_path / "cut"  # which the same command finds
    chunk = damaged / "labels" / "c" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    source = damaged if command[0] == "show" else run
    done = typed(command[0], source, *command[1:], "--json")
    assert done.exit_code == 5
    assert json.loads(done.stdout)["error"]["type"] == "CorruptBlockError"


def test_an_error_with_a_list_is_one_line(archive, run):
    done = typed("fit", archive, "-c", 2, "-o", run, "--threads", 1, "--quiet", *OPTIONS["smic"])
    assert done.exit_code == 5
    (line,) = done.stderr.splitlines()
    assert line.endswith(
        "with other parameters: --clusters: stored 3, asked 2; give another --out, or the stored values"
    )


def test_a_wrong_command_line_leaves_stdout_empty(archive, tmp_path):
    done = typed("fit", archive, "-c", "many", "-o", tmp_path / "run", "--json")
    assert (done.exit_code, done.stdout) == (2, "")


def test_long_names_keep_to_the_width(run, tmp_path):
    named = shutil.copytree(run, tmp_path / "run")
    typed("name", named, 0, "a name of many words " * 9)
    done = typed("name", named, 1, "\u5e73\u5747\u52a0\u901f\u5ea6" * 12)
    assert done.exit_code == 0
    assert max(drawn_width(line.rstrip()) for line in done.stdout.splitlines()) <= 80
    assert done.stdout.split()[:2] == ["cluster", "name"]  # beside each other, not in tables of their own
