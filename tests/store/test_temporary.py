"""Temporary folders go with their process: at its end, or, where it was killed, when somebody makes another one."""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from small_fits import FAST

import bigsmic
import bigsmic.methods.smic.method
from bigsmic import store
from bigsmic.store import processes, temporary

ROWS = np.concatenate([np.random.default_rng(0).normal(size=(100, 3)) + 6 * k for k in range(3)]).astype(np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary, "_BREAK", 0)
    return tmp_path


def fit(**options):
    return bigsmic.fit(ROWS, 3, **FAST | {"t": (3,), "n_centers": 20}, **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def named(owner, kind=""):
    """A temporary folder with something in it, of another owner."""
    path = Path(tempfile.gettempdir(), f"bigsmic-{kind}{owner}-abc_123")
    path.mkdir()
    (path / "zarr.json").write_text("{}")
    return path


def others(**changed):
    """Name of a process with some facts changed, of which the number is nobody's here."""
    digest, _, start = processes.name().split("-")
    return "-".join({"digest": digest, "pid": "4000000", "start": start, **changed}.values())


SLEEPER = """
import sys, time, numpy as np, bigsmic, bigsmic.store
folders = [bigsmic.store.temporary_folder(kind) for kind in ("", "scratch", "demo")]
print(*folders, sep="\\n", flush=True)
time.sleep(100)
"""


def test_what_a_killed_process_left_goes_when_another_fits(folder):
    left = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True,
                            env=os.environ | {"TMPDIR": str(folder)})  # fmt: skip
    try:
        made = [Path(left.stdout.readline().strip()) for _ in range(3)]
        first = fit()
        assert all(path.is_dir() for path in made)
    finally:
        left.send_signal(signal.SIGKILL)
        left.wait()
        left.stdout.close()
    second = fit()
    assert names(folder) == sorted(Path(result.location).name for result in (first, second))
    np.testing.assert_array_equal(first.labels, second.labels)


def test_only_folders_of_processes_that_are_known_to_be_gone_go(folder, monkeypatch):
    gone = [named(others()), named(others(), "scratch-"), named(others(pid=str(os.getpid()), start="1"))]
    kept = [named(processes.name()), named(others(digest="0123456789ab")), named(others(pid="1", start="0"), "mine")]
    (folder / f"bigsmic-{others()}-file_12").write_text("mine")
    (folder / f"bigsmic-{others()}-link_12").symlink_to(kept[0])
    (folder / "bigsmic-results").mkdir()
    before = set(names(folder))
    store.remove_tree(store.temporary_run())
    assert before - set(names(folder)) == {path.name for path in gone}


def test_those_of_other_users_stay(folder, monkeypatch):
    path = named(others())
    monkeypatch.setattr(temporary.os, "getuid", lambda: 12345)
    store.temporary_run()
    assert path.exists()


def test_those_of_another_machine_or_container_stay(folder, monkeypatch):
    path, here = named(others()), processes.machine()
    for name in here:
        monkeypatch.setattr(processes, "machine", lambda name=name: here | {name: "another"})
        store.temporary_run()
        assert path.exists()


def test_a_clock_that_is_set_changes_nobodys_start():
    start = processes.started(os.getpid())
    assert start == processes.started(os.getpid())
    assert 0 < start < float(Path("/proc/uptime").read_text().split()[0])


def test_many_that_begin_at_once(folder):
    for i in range(30):
        named(others(pid=str(4_000_000 + i)))
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: store.temporary_run(), range(16)))
    assert names(folder) == sorted(Path(path).name for path in made)


def test_a_large_directory_is_not_looked_at_for_every_run(folder, monkeypatch):
    monkeypatch.setattr(temporary, "_BREAK", 1e9)
    monkeypatch.setattr(temporary, "_next_look", {})
    looks = []
    monkeypatch.setattr(temporary, "collect", looks.append)
    for _ in range(3):
        store.temporary_run()
    assert looks == [str(folder)]


def test_a_fit_that_fails_and_a_cut_that_fails_leave_nothing(folder, monkeypatch):
    result = fit()
    before = names(folder)
    monkeypatch.setattr(bigsmic.methods.smic.method, "choose", lambda job: 1 / 0)
    for call in (lambda: result.cut(2), fit):
        with pytest.raises(ZeroDivisionError, match="division by zero"):
            call()
        assert names(folder) == before


def test_a_forked_child_leaves_its_parents_folders_alone(folder, monkeypatch):
    path, pid = Path(store.temporary_run()), os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(temporary.os, "getpid", lambda: pid + 1)
        temporary._delete_own(str(path), pid)
    assert path.is_dir()
    temporary._delete_own(str(path), pid)
    assert not path.exists()


def test_scratch_of_a_run_behind_a_url_goes_with_it(folder):
    run = store.Run("memory://temporary/run")
    path = run.scratch
    assert path.parent == folder
    assert run.scratch == path
    run.close()
    del run
    gc.collect()
    assert names(folder) == []
    MemoryFileSystem.store.clear()


def test_a_lease_of_before_the_clock_was_set_still_names_its_holder(tmp_path):
    run = store.Run(tmp_path / "run")
    lease = json.loads((tmp_path / "run" / "lease" / "zarr.json").read_text())["attributes"]["lease"]
    assert lease["started"] == processes.started(os.getpid())
    run.close()
