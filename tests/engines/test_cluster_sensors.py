"""Windows of recordings, and labels of new rows, on a Dask cluster of worker processes: as threads make them."""

import json
import os
import shutil
import signal
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from clusters import cluster_of, trap
from distributed import WorkerPlugin
from killed import killed_at_third_commit
from small_fits import BRIEF
from typer.testing import CliRunner

import bigsmic
from bigsmic import prediction
from bigsmic.cli.main import app
from bigsmic.errors import RunError, RunLockedError, StorageError
from bigsmic.features import archive as extending
from bigsmic.features import definition, windows

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SAMPLES = np.random.default_rng(0).normal(size=(4000, 2)).cumsum(axis=0).astype("f4")
SAMPLES[1234, 1] = np.nan


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as client:
        yield client


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Chunks of 64 windows, of which some are described at a time; blocks of 256 rows."""
    monkeypatch.setattr(definition, "CHUNK_BYTES", 1)
    monkeypatch.setattr(extending, "PIECES", 2)
    monkeypatch.setattr(prediction, "MAX_ROWS", 256)


@pytest.fixture
def recording(tmp_path):
    """Two sessions with times, one of which has a gap."""
    group = zarr.open_group(str(tmp_path / "recording"))
    for name, count in (("one", 2500), ("two", 900)):
        session = group.create_group(name)
        session.create_array("X", data=SAMPLES[:count], chunks=(400, 2))
        seconds = session.create_array("time", data=np.arange(count) / 10 + 7 * (np.arange(count) > 800), chunks=(400,))
        seconds.attrs["units"] = "seconds"
    return tmp_path / "recording"


def described(recording, out, **options):
    return windows(recording, 20, 4, component="X", times="time", out=out, **options)


def grow(recording):
    """More samples of the first session."""
    session = zarr.open_group(str(recording))["one"]
    session["X"].append(SAMPLES[2500:])
    session["time"].append(np.arange(2500, 4000) / 10 + 7)


def files(folder):
    """Bytes by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()
    }


def assert_same_files(left, right):
    left, right = files(left), files(right)
    assert left.keys() == right.keys()
    assert [name for name in left if left[name] != right[name]] == []


def begun(client, name):
    """How many blocks of a stage workers have begun."""
    return len(client.get_events(f"bigsmic {name}"))


def test_windows_are_those_of_one_thread(client, recording, tmp_path):
    before = begun(client, "windows")
    here = described(recording, tmp_path / "here", client=False, n_threads=1)
    there = described(recording, tmp_path / "there", client=client)
    assert here.left_out == there.left_out
    assert min(here.left_out["gap"], here.left_out["nan"]) > 0
    assert_same_files(here, there)
    assert begun(client, "windows") - before == len(here) // 64, "chunks that are whole"
    grow(recording)
    described(recording, here, client=False, n_threads=1)
    assert described(recording, there, scheduler=client.scheduler.address).n_new == 375
    assert_same_files(here, there)


class Deadly(WorkerPlugin):
    """Kills a worker that describes its second piece, unless another one has died of it."""

    name = "deadly"

    def __init__(self, mark):
        self.mark = str(mark)

    def setup(self, worker):
        from bigsmic.features.extraction import Extraction

        call, calls = Extraction.__call__, []

        def counted(task, piece):
            calls.append(piece)
            if len(calls) == 2 and not os.path.exists(self.mark):
                Path(self.mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return call(task, piece)

        Extraction.__call__ = counted


def test_windows_survive_a_worker_and_the_caller(recording, tmp_path):
    described(recording, tmp_path / "here", client=False, n_threads=1)
    with cluster_of(2) as client:
        client.register_plugin(Deadly(tmp_path / "mark"))
        with killed_at_third_commit():
            described(recording, tmp_path / "there", client=client)
        assert (tmp_path / "mark").exists()
        finished = zarr.open_group(str(tmp_path / "there")).attrs["bigsmic_windows"]["rows"]
        assert finished == 2 * 4 * 64
        grow(recording)
        again = described(recording, tmp_path / "there", client=client)
        assert again.n_new == len(again) - finished
    described(recording, tmp_path / "here", client=False, n_threads=1)
    assert_same_files(tmp_path / "here", tmp_path / "there")


def test_samples_and_times_in_memory_are_described_here(client, tmp_path):
    before = begun(client, "windows")
    array = zarr.create_array(str(tmp_path / "X"), data=SAMPLES, chunks=(400, 2))
    seconds = np.arange(len(SAMPLES)) / 10
    windows(array, 20, 4, times=seconds, out=tmp_path / "times", client=client)
    windows(SAMPLES, 20, 4, times=seconds, out=tmp_path / "samples", client=client)
    windows(array, 20, 4, times=seconds, out=tmp_path / "here", client=False)
    assert begun(client, "windows") == before
    assert_same_files(tmp_path / "here", tmp_path / "times")
    assert_same_files(tmp_path / "here", tmp_path / "samples")


@pytest.mark.parametrize("missing_chunks", ["error", "fill"])
def test_what_workers_do_not_see_is_refused(client, recording, tmp_path, missing_chunks):
    options = {"client": client, "missing_chunks": missing_chunks}
    place = f"memory://{tmp_path.name}"
    with pytest.raises(RunError, match=r"2 of 2 workers cannot find .*windows; give an out= on storage that all"):
        described(recording, f"{place}/windows", **options)
    zarr.create_array(f"{place}/X", data=SAMPLES[:2000], chunks=(400, 2))
    with pytest.raises(StorageError, match=r"a worker on .* cannot find .*X; give an archive on storage that all"):
        windows(f"{place}/X", 20, 4, out=tmp_path / "there", **options)
    windows(f"{place}/X", 20, 4, out=tmp_path / "there", client=False)
    windows(SAMPLES[:2000], 20, 4, out=tmp_path / "here", client=False)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "there")["X"], zarr.open_group(tmp_path / "here")["X"])


def test_one_call_of_windows_at_a_time(client, recording, tmp_path):
    refused = []

    def also(stage, done, total):
        with pytest.raises(RunLockedError, match="is being written by"):
            described(recording, tmp_path / "there", client=client)
        refused.append(done)

    described(recording, tmp_path / "there", client=client, progress=also)
    assert refused


# -- new rows


@pytest.fixture
def fitted(recording, tmp_path):
    """A run of an archive of windows that has grown since."""
    made = described(recording, tmp_path / "windows", client=False)
    bigsmic.fit(made, 3, out=tmp_path / "run", client=False, **BRIEF)
    grow(recording)
    described(recording, made, client=False)
    return tmp_path


def updated(path, out, archive="windows", **options):
    """A copy of the run, updated."""
    shutil.copytree(path / "run", path / out)
    found = bigsmic.Result.open(path / out).update(path / archive if archive == "windows" else archive, **options)
    assert found.rows == 375
    return path / out


def test_new_rows_get_the_labels_of_one_thread(client, fitted):
    before = begun(client, "update")
    here = updated(fitted, "here", client=False, n_threads=1)
    assert begun(client, "update") == before
    there = updated(fitted, "there", client=client)
    assert begun(client, "update") == before + 2
    assert_same_files(here, there)
    assert bigsmic.Result.open(there).update(fitted / "windows", client=client).rows == 0


def test_an_update_survives_a_worker_and_the_caller(fitted, monkeypatch):
    here = updated(fitted, "here", client=False, n_threads=1)
    with cluster_of(2) as client:
        with trap(client, "updates", "kill", fitted), monkeypatch.context() as patch:
            patch.setattr("bigsmic.updates.drift.judge", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                updated(fitted, "there", client=client)
        assert bigsmic.Result.open(fitted / "there").update(fitted / "windows", client=client).rows == 375
    assert_same_files(here, fitted / "there")


def _interrupted(*arguments):
    raise KeyboardInterrupt


def test_new_rows_in_memory_are_labelled_here(client, fitted):
    X = zarr.open_array(str(fitted / "windows" / "X"))[:]
    X = X[np.isfinite(X).all(axis=1)]
    result = bigsmic.fit(X[:500], 3, out=fitted / "other", client=False, **BRIEF)
    before = begun(client, "update")
    found = result.update(X, client=client)
    assert (found.rows, begun(client, "update")) == (len(X) - 500, before)
    np.testing.assert_array_equal(result.updates.labels, result.predict(X[500:], client=False))


@pytest.mark.parametrize("missing_chunks", ["error", "fill"])
def test_a_run_or_an_archive_that_workers_do_not_see_is_refused(client, fitted, missing_chunks):
    options = {"client": client, "missing_chunks": missing_chunks}
    place = f"memory://{fitted.name}-{missing_chunks}"
    result = bigsmic.Result.open(fitted / "run").save(f"{place}/run")
    with pytest.raises(RunError, match=r"2 of 2 workers cannot find .*run; give an out= on storage that all"):
        result.update(fitted / "windows", **options)
    fsspec.filesystem("memory").put(f"{fitted}/windows/", f"{place}/windows/", recursive=True)
    result = bigsmic.Result.open(fitted / "run")
    with pytest.raises(StorageError, match=r"a worker on .* cannot find .*X; give an archive on storage that all"):
        result.update(f"{place}/windows", **options)
    assert len(result.updates) == 0
    assert result.update(fitted / "windows", client=False).rows == 375


def test_the_command_line_names_a_scheduler(client, recording, tmp_path):
    scheduler = ("--scheduler", client.scheduler.address)
    options = ("--length", 20, "--step", 4, "--component", "X", "--times", "time", "--out", tmp_path / "w")
    before = begun(client, "windows"), begun(client, "update")
    run("windows", recording, *options, *scheduler)
    run("fit", tmp_path / "w", "-c", 3, "--out", tmp_path / "run", "--threads", 1, "--t", "3")
    grow(recording)
    run("windows", recording, *options, "--threads", 2)
    assert json.loads(run("update", tmp_path / "run", tmp_path / "w", *scheduler, "--json").stdout)["rows"] == 375
    assert begun(client, "windows") > before[0]
    assert begun(client, "update") > before[1]


def run(*arguments):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == 0, found.output
    return found
