"""Checks of a job before its first night: what a night would refuse is said, and nothing is written."""

import os
import shutil

import numpy as np
import pytest
import zarr
from nights import job, written

from bigsmic.errors import InputError, PlanError, RunError, RunMismatchError, StorageError
from bigsmic.nightly import check, nightly

WINDOWS = """\
archive = "recordings.zarr"
folder = "nights"
component = "samples"

[windows]
length = "4s"
times = "time"

[fit]
c = 2
"""


@pytest.fixture
def recordings(tmp_path):
    """Two sessions of 120 s, 25 samples a second."""
    group, rng = zarr.open_group(tmp_path / "recordings.zarr", mode="w"), np.random.default_rng(0)
    for name in ("monday", "tuesday"):
        session = group.create_group(name)
        loud = 1 + 8 * (np.arange(3000) // 300 % 2)
        session.create_array("samples", data=(loud[:, None] * rng.normal(size=(3000, 3))).astype("f4"))
        session.create_array("time", data=np.arange(3000) / 25)
    return tmp_path


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_rows_are_counted_and_nothing_is_written(recordings):
    file = written(recordings, WINDOWS)
    before = left(recordings)
    assert check(file) == 60
    assert left(recordings) == before
    assert nightly(file).rows == 60
    before = left(recordings)
    assert check(file) == 60
    assert left(recordings) == before


WRONG = {
    ('"4s"', '"0.01s"'): (InputError, r"^windows\.length: got '0.01s', 0.25 samples at 25 a second"),
    ('"time"', '"clock"'): (InputError, r"^windows\.times: .*has no array 'clock'"),
    ('"time"', "'time'\nchannels = ['x']"): (InputError, r"^windows\.channels: got \('x',\) for 3 channels"),
    ('"samples"', '"sample"'): (InputError, r"without groups with an array 'sample'; name the samples by component$"),
    ('"recordings', '"recording'): (InputError, "does not exist"),
    ("c = 2", "c = 61"): (InputError, r"^fit\.c: got 61 clusters for 60 rows"),
    ("\n[windows]", 'memory_limit = "100MiB"\n[windows]'): (PlanError, "stage windows needs .*; set memory_limit to"),
    ('"nights"', '"recordings.zarr/monday/samples/nights"'): (RunError, "give another folder outside of it"),
    ('"nights"', '"recordings.zarr"'): (RunError, r"^folder: .*recordings\.zarr is a Zarr array or group"),
    ('"nights"', '"job.toml/nights"'): (StorageError, r"^folder: .* as .*job\.toml is not a directory"),
    ("\n[windows]", "report = 'job.toml'\n[windows]"): (RunError, r"^report: .*exists and is not a report"),
    ("\n[windows]", "report = 'report.pdf'\n[windows]"): (
        InputError,
        r"^report: got .*report\.pdf, but a report is HTML",
    ),
    ("\n[windows]", "report = 'job.toml/r.html'\n[windows]"): (StorageError, "^report: .* is not a directory"),
    ("\n[windows]", "report = 'nights'\n[windows]"): (InputError, "^report: .* among what nights write to"),
    ("\n[windows]", "report = 'nights/runs/r.html'\n[windows]"): (InputError, "^report: .* among what nights write to"),
    ("\n[windows]", "after = 'nowhere now'\n[windows]"): (InputError, "^after: nowhere is no program"),
}


@pytest.mark.parametrize("change", WRONG)
def test_what_a_night_would_refuse(recordings, change):
    assert change[0] in WINDOWS
    file = written(recordings, WINDOWS.replace(*change))
    before, (kind, why) = left(recordings), WRONG[change]
    with pytest.raises(kind, match=why):
        check(file)
    assert left(recordings) == before


def test_folders_without_permission(recordings, monkeypatch):
    file = written(recordings, WINDOWS)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as root has every permission
    with pytest.raises(StorageError, match=r"^folder: .*nights cannot be created in .*: no permission"):
        check(file)


def test_memory_for_a_fit_of_the_rows_that_the_job_takes(tmp_path, machine):
    machine.array.resize((3_000_000, 3))  # of fill values, which nothing reads
    small = 'memory_limit = "400MiB"\nthreads = 1'
    with pytest.raises(PlanError, match=r"stage .* needs .* but the memory limit is 400MiB"):
        check(job(tmp_path, top=small, fit="c = 3\nn_neighbors = 200"))
    assert check(job(tmp_path, top=small, fit="c = 3\nn_neighbors = 200", refit="last = 1000")) == 3_000_000


def test_an_archive_without_rows_may_wait_for_them(tmp_path, machine):
    assert check(job(tmp_path)) == 0


def test_an_archive_that_has_become_shorter(tmp_path, machine):
    machine.night(300)
    file = job(tmp_path)
    nightly(file)
    machine.array.resize((200, 3))
    with pytest.raises(RunMismatchError, match="has 200 rows, fewer than the 300 of the night before"):
        check(file)


@pytest.mark.parametrize(("columns", "dtype", "why"), [(5, "f4", "columns 5, the run has 3"), (3, "f8", "dtype '<f8'")])
def test_an_archive_whose_rows_have_become_others(tmp_path, machine, columns, dtype, why):
    machine.night(300)
    file = job(tmp_path)
    nightly(file)
    shutil.rmtree(machine.path)
    rows = np.ones((400, columns), dtype)
    zarr.create_array(machine.path, data=rows)
    _refuse_both(file, f"machine.zarr has {why}")


def test_what_others_did_to_the_folder_is_said_before_a_night(tmp_path, machine):
    machine.night(300)
    file, folder = job(tmp_path), tmp_path / "nights"
    (folder / "latest").mkdir(parents=True)
    _refuse_both(file, "latest is not a link, and is not overwritten; move it away")
    (folder / "latest").rmdir()
    zarr.create_array(folder / "history.zarr", shape=(3,), dtype="f4")
    _refuse_both(file, r"history\.zarr is something else, and is not overwritten; move it away")
    assert not (folder / "runs").exists()
    shutil.rmtree(folder / "history.zarr")
    nightly(file)
    machine.night(50)
    shutil.rmtree(folder / "runs" / "000001.zarr")
    _refuse_both(file, r"000001\.zarr, the run at which latest points, is not there; bring it back, or move .*journal")
    (folder / "journal.json").unlink()
    assert nightly(file).steps["decide"] == {"refit": "first"}


def _refuse_both(file, why):
    for done in (check, nightly):
        with pytest.raises(RunError, match=why):
            done(file)
