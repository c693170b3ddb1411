"""Temporary runs, whose blocks stay in memory until another process can know the run."""

import gc
import os
import pickle
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path

import numpy as np
import pytest
import zarr

import bigsmic
from bigsmic.errors import InputError, StorageError
from bigsmic.store import Run, held
from bigsmic.store.objects import LocalBytes

X = np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32) + np.repeat([0, 9, 18], 30)[:, None]


def fit(**options):
    return bigsmic.fit(X, 3, t=(5,), widths=(1, 1.5), n_threads=1, **options)


def files(folder):
    """Files of blocks in a run, each of which has the folder of its stage above it."""
    return [path for path in Path(folder).glob("*/0*/**/*") if path.is_file()]


@pytest.fixture(autouse=True)
def _all_the_room(monkeypatch):
    """Results of other tests that are still alive in this process take up no room."""
    monkeypatch.setattr(held, "_runs", weakref.WeakValueDictionary())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


# ---- bytes by key


@pytest.mark.parametrize("room", [0, 400, 10**6])
def test_it_has_what_files_have(tmp_path, room):
    """Any sequence of calls has the results that it has in a directory."""
    draw, places = np.random.default_rng(1), [tmp_path / "plain", tmp_path / "held"]
    for place in places:
        place.mkdir()
    plain, objects = LocalBytes(str(places[0])), held.HeldBytes(str(places[1]), room)
    keys = [f"{stage}/000000{block}/{name}" for stage in "ab" for block in (0, 1) for name in ("x", "y")]
    for _ in range(400):
        key, data = str(draw.choice(keys)), draw.integers(0, 256, draw.integers(0, 20)).astype(np.uint8).tobytes()
        call = draw.choice(["set", "delete", "delete_tree"], p=[0.7, 0.2, 0.1])
        arguments = {"set": (key, data), "delete": (key,), "delete_tree": (key[: draw.choice([1, 9])],)}[call]
        for each in (plain, objects):
            getattr(each, call)(*arguments)
        assert [objects.get(name) for name in keys] == [plain.get(name) for name in keys]
        assert objects.get(key, 1, 3) == plain.get(key, 1, 3)
        there = [name.split("/") for name in keys if plain.get(name) is not None]
        assert {stage for stage, _, _ in there} <= set(objects.folders(""))
        assert {block for stage, block, _ in there if stage == "a"} <= set(objects.folders("a"))
    assert objects.size <= room
    objects.settle()
    assert objects.size == 0
    assert [LocalBytes(str(places[1])).get(name) for name in keys] == [plain.get(name) for name in keys]


def test_what_has_no_room_is_a_file(tmp_path):
    """An object has room for a sixteenth of what is left, so that large ones do not take the place of small ones."""
    objects = held.HeldBytes(str(tmp_path), 160)
    objects.set("a", b"12345678")
    objects.set("b", b"1234567890")  # the room that is left is 152
    objects.set("c", b"123456789")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    objects.set("a", b"123456789012")  # has outgrown the room
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert (objects.size, objects.get("a"), objects.get("b")) == (9, b"123456789012", b"1234567890")


def test_runs_share_the_room_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(held, "ALL_HELD_BYTES", sum(run.size for run in list(held._runs.values())) + 84)
    first, second = (held.hold(str(tmp_path / name), 80) for name in "ab")
    first.set("x", b"12345")
    third = held.hold(str(tmp_path / "c"), 80)
    assert (first._room, second._room, third._room) == (80, 80, 79)


# ---- fits


def test_a_small_fit_writes_no_blocks(folder):
    result = fit()
    (run,) = folder.iterdir()
    assert files(run) == []
    assert (result.labels == np.repeat(result.labels[::30], 30)).all()
    np.testing.assert_array_equal(result.predict(X), result.labels)
    assert len(files(result.location)) > 50
    np.testing.assert_array_equal(result.predict(X), result.labels)


def test_labels_are_those_of_a_run_directory(tmp_path):
    result, stored = fit(), fit(out=tmp_path / "run")
    np.testing.assert_array_equal(result.labels, stored.labels)
    np.testing.assert_array_equal(result.posterior[:], stored.posterior[:])


def test_another_process_reads_the_location():
    result = fit()
    code = f"import bigsmic; print(bigsmic.Result.open({result.location!r}).predict_proba([[9.0, 9.0, 9.0]]).max())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(result.predict_proba([[9.0, 9.0, 9.0]]).max())


def test_a_run_that_is_pickled_is_in_files():
    result = fit()
    pickle.dumps(result._run)
    assert len(files(result._run.address)) > 50


def test_this_process_reads_the_location_without_files(folder):
    result = fit()
    (run,) = folder.iterdir()
    np.testing.assert_array_equal(bigsmic.Result.open(run).labels, result.labels)
    assert files(run) == []


def test_with_a_directory_blocks_are_files(tmp_path):
    assert len(files(fit(out=tmp_path / "run")._run.address)) > 50


@pytest.mark.parametrize("left", [held.HELD_BYTES, 1 << 20, 0])
def test_the_plan_has_what_is_held(tmp_path, left):
    stored = bigsmic.plan(X, 3, n_threads=1, out=tmp_path / "run")
    plan = bigsmic.plan(X, 3, n_threads=1, memory_limit=stored.peak_bytes + left)
    assert (stored.held_bytes, plan.held_bytes) == (0, left)
    assert plan.peak_bytes == stored.peak_bytes + left


def test_memory_goes_with_the_result():
    result = fit()
    address = result._run.address
    assert held._runs[address].size > 0
    del result
    gc.collect()
    assert address not in held._runs
    assert not os.path.exists(address)


def predicted(rows, folder):
    """Fit rows, and predict them."""
    bigsmic.fit(rows, 3, t=(5,), widths=(1, 1.5), n_threads=1).predict(rows)


def in_a_group(rows, folder):
    """Fit, and predict, an array of a group, beside which names of columns are looked for."""
    zarr.open_group(folder, mode="w").create_array("X", data=rows)
    result = bigsmic.fit(folder, 3, component="X", t=(5,), widths=(1, 1.5), n_threads=1)
    result.predict(folder, component="X")


def torn(rows, folder):
    """Fit a Zarr array of which a chunk is torn."""
    zarr.create_array(folder, data=rows, chunks=(30, 3), overwrite=True)
    (folder / "c" / "1" / "0").write_bytes(b"torn")
    with pytest.raises(StorageError, match="torn"):
        bigsmic.fit(folder, 3)


def nowhere(rows, folder):
    """Fit what does not exist, within a function that has rows."""
    with pytest.raises(InputError, match="does not exist"):
        bigsmic.fit(folder, 3)


@pytest.mark.parametrize("call", [predicted, in_a_group, torn, nowhere])
def test_calls_leave_no_cycle_of_references_to_rows(tmp_path, folder, call):
    """Which would keep them, and the run, until the garbage of long-lived objects is collected: perhaps never."""
    call(X, tmp_path / "first")  # whatever is made once
    rows = X.copy()
    kept, _ = weakref.ref(rows), gc.collect()
    gc.disable()
    try:
        call(rows, tmp_path / "second")
        del rows
        left = [path.name for path in folder.iterdir() if path.name.startswith("bigsmic-")]
        assert (kept() is None, len(held._runs), left) == (True, 0, [])
    finally:
        gc.enable()


def test_a_full_disk_is_an_error_that_keeps_the_result(monkeypatch):
    result = fit()
    full = OSError(28, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(LocalBytes, "set", lambda *_: (_ for _ in ()).throw(full))
        with pytest.raises(StorageError, match="no space left on the device"):
            _ = result.location
    assert len(result.predict(X)) == 90
    assert len(files(result.location)) > 50


def test_names_are_given_to_a_held_run():
    result = fit().set_names({0: "first"})
    assert result.names[0] == "first"
    assert Run(result.location, writable=False).done("rows", 0)
