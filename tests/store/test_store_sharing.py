"""Runs and sources that travel: what a task on another process opens is what the sender meant."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask.array
import numpy as np
import pytest
import scipy.sparse
import zarr
from locations import environment

import bigsmic
from bigsmic import features, store
from bigsmic.errors import CorruptBlockError, RunError, StorageError

ELSEWHERE = """
import os, pickle, sys
os.chdir("/")
while True:
    thing, function = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps(function(thing)))
    sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def elsewhere():
    """Returns ``function(thing)`` as another process finds it, from another working directory."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", ELSEWHERE]
    with subprocess.Popen(command, env=environment(Path(__file__).parent), **pipes) as other:

        def found(thing, function):
            other.stdin.write(pickle.dumps((thing, function)))
            other.stdin.flush()
            return pickle.load(other.stdout)

        yield found
        other.kill()


def rows(n=100, d=5):
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


@pytest.fixture
def run(tmp_path):
    opened = store.Run(tmp_path / "run.zarr")
    opened.bind({"input": {"rows": 3}})
    yield opened
    opened.close()


# -- runs


def write_there(run):
    run.write("stage", 1, {"rows": rows()})
    return run.identity, run.read("stage", 0, "rows")


def test_a_run_is_opened_elsewhere_while_it_is_locked_here(tmp_path, monkeypatch, elsewhere):
    monkeypatch.chdir(tmp_path)
    run = store.Run("run.zarr")
    run.bind({"input": {"rows": 3}})
    run.write("stage", 0, {"rows": rows(7)})
    identity, read = elsewhere(run, write_there)
    assert identity == {"input": {"rows": 3}}
    np.testing.assert_array_equal(read, rows(7))
    np.testing.assert_array_equal(run.read("stage", 1, "rows"), rows())
    run.close()


def test_a_process_opens_a_run_once(run):
    other = store.Run(run.location, writable=False)
    arrived = [pickle.loads(pickle.dumps(r)) for r in (run, run, other)]
    assert arrived[0] is arrived[1]
    assert arrived[2] is not arrived[0]
    assert pickle.loads(pickle.dumps(arrived[0])) is arrived[0]


def test_a_process_does_not_remember_runs_for_ever(tmp_path, run):
    first = pickle.loads(pickle.dumps(run))
    for i in range(store.reopenable.KEPT):
        made = store.Run(tmp_path / str(i))
        pickle.loads(pickle.dumps(made))
        made.close()
    assert pickle.loads(pickle.dumps(run)) is not first


@pytest.mark.parametrize("rows", [None, slice(10, 90)])
def test_a_process_has_decoded_chunks_of_the_last_archive_only(tmp_path, rows):
    """No plan has those of earlier ones: a worker that predicts a chunk of each of many archives would keep all."""
    X, opened = np.arange(300.0).reshape(100, 3), []
    for i in range(3):
        zarr.create_array(tmp_path / str(i), data=X + i, chunks=(100, 3))
        source = store.select_rows(store.open_source(tmp_path / str(i)), rows)
        opened.append(pickle.loads(pickle.dumps(source)))
        opened[i].read(0, 10)
    held = [sum(band.nbytes for band in getattr(one, "source", one)._bands.values()) for one in opened]
    assert held == [0, 0, X.nbytes]
    first = 0 if rows is None else 10
    np.testing.assert_array_equal(opened[0].read(20, 30), X[first + 20 : first + 30])


def test_a_run_that_is_made_anew_in_the_same_place_is_another_one(tmp_path):
    for n in (3, 4):
        run = store.Run(tmp_path / "run.zarr")
        run.bind({"rows": n})
        assert pickle.loads(pickle.dumps(run)).identity == {"rows": n}
        run.close()
        store.remove_tree(tmp_path / "run.zarr")


def test_a_late_task_does_not_bring_a_deleted_run_back(tmp_path, run):
    late = pickle.loads(pickle.dumps(run))
    store.remove_tree(run.location)
    with pytest.raises(bigsmic.errors.StorageError, match="stage: writing block 0"):
        late.write("stage", 0, {"rows": rows()})
    with pytest.raises(RunError, match="is not a directory"):
        store.Run(run.location, lock=False)
    assert list(tmp_path.iterdir()) == []


def test_a_stage_that_was_dropped_elsewhere_is_written_whole(run):
    there = pickle.loads(pickle.dumps(run))
    there.write("weights.x", 0, {"rows": rows(3)})
    run.drop("weights.x", [0])
    assert not there.done("weights.x", 0)
    with pytest.raises(CorruptBlockError, match="not in the ledger"):
        there.read("weights.x", 0, "rows")
    there.write("weights.x", 0, {"rows": rows(4)})
    np.testing.assert_array_equal(run.read("weights.x", 0, "rows"), rows(4))
    np.testing.assert_array_equal(zarr.open_group(run.location, mode="r")["weights.x/0000000/rows"], rows(4))


def test_a_block_that_is_written_by_several_at_once_is_whole_at_any_moment(run):
    there = pickle.loads(pickle.dumps(run))
    run.write("stage", 0, {"rows": rows()})

    def write_and_read(i):
        (run, there)[i % 2].write("stage", 0, {"rows": rows()})
        return store.Run(run.location, writable=False).read("stage", 0, "rows")

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(write_and_read, range(40)):
            np.testing.assert_array_equal(found, rows())
    assert not list(Path(run.location).rglob("*.partial"))


def test_an_overlay_travels(tmp_path, run):
    run.write("stage", 0, {"rows": rows(2)})
    top = store.Run(tmp_path / "top.zarr")
    overlay = store.Overlay(run, top, ("own",))
    arrived = pickle.loads(pickle.dumps(overlay))
    arrived.write("own", 0, {"rows": rows(3)})
    np.testing.assert_array_equal(arrived.read("stage", 0, "rows"), rows(2))
    np.testing.assert_array_equal(overlay.read("own", 0, "rows"), rows(3))
    assert not run.done("own", 0)
    top.close()


def test_many_blocks_are_asked_for_in_one_call(run):
    for block in (0, 2):
        run.write(
            "stage", block, {"rows": rows(5) + block, "tags": rows(5)}, parts={"rows": [0, 2, 5], "tags": [0, 2, 5]}
        )
    assert run.missing("stage", range(4)) == [1, 3]
    found = list(run.gather("stage", [2, 0], ["rows", "tags"], part=1))
    np.testing.assert_array_equal(found[0][0], rows(5)[2:] + 2)
    np.testing.assert_array_equal(found[1][1], rows(5)[2:])


# -- sources


def read_some(source):
    return source.read(10, 50)


@pytest.mark.parametrize("kind", ["path", "component", "zarr", "relative", "dask"])
def test_sources_are_read_elsewhere(tmp_path, monkeypatch, elsewhere, kind):
    monkeypatch.chdir(tmp_path)
    X = rows()
    zarr.create_array("a.zarr", data=X, chunks=(9, 5))
    zarr.create_array("g.zarr", name="rows", data=X, chunks=(200, 5))
    source = {
        "path": lambda: store.open_source("a.zarr"),
        "component": lambda: store.open_source("g.zarr", component="rows"),
        "zarr": lambda: store.open_source(zarr.open_array(str(tmp_path / "a.zarr"), mode="r")),
        "relative": lambda: store.open_source(zarr.open_group("g.zarr", mode="r")["rows"]),
        "dask": lambda: store.open_source(dask.array.from_zarr(str(tmp_path / "a.zarr"))),
    }[kind]()
    assert source.travels
    assert len(pickle.dumps(source)) < 5000
    np.testing.assert_array_equal(elsewhere(source, read_some), X[10:50])


def test_a_process_decodes_a_tall_chunk_once(tmp_path):
    zarr.create_array(str(tmp_path / "a.zarr"), data=rows(), chunks=(50, 5))
    sent = pickle.dumps(store.open_source(tmp_path / "a.zarr"))
    pickle.loads(sent).read(0, 10)
    assert list(pickle.loads(sent)._bands) == [0]


def in_memory():
    X = rows(2000, 150)
    return {
        "array": X,
        "memory store": zarr.create_array(zarr.storage.MemoryStore(), data=X),
        "dask": dask.array.from_array(X, chunks=(700, 150)),
    }


@pytest.mark.parametrize("kind", list(in_memory()))
def test_rows_in_memory_are_copied_into_the_run(run, kind):
    X, bounds = rows(2000, 150), [0, 700, 1400, 2000]
    source = store.open_source(in_memory()[kind])
    assert not source.travels
    staged = store.stage_input(source, run, bounds)
    assert staged.describe() == source.describe()
    arrived = pickle.loads(pickle.dumps(staged))
    for lo, hi in [(0, 700), (700, 1400), (3, 5), (600, 1500), (1999, 2000), (0, 2000)]:
        np.testing.assert_array_equal(arrived.read(lo, hi), X[lo:hi])
    staged.drop()
    assert run.blocks() == []


def test_a_sparse_matrix_is_copied_into_the_run(run):
    drawn = np.random.default_rng(0).random((60, 60))
    matrix = scipy.sparse.coo_array(np.where(drawn < 0.2, drawn, 0))
    source = store.SparseSource(matrix + matrix.T, "affinity")
    staged = store.stage_input(source, run, [0, 25, 60])
    arrived = pickle.loads(pickle.dumps(staged))
    assert arrived.largest == source.largest
    assert (arrived.shape, arrived.dtype) == (source.shape, source.dtype)
    for lo, hi in [(0, 25), (25, 60), (20, 30)]:
        read, wanted = arrived.read(lo, hi), source.read(lo, hi)
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(read, name), getattr(wanted, name))


def test_a_copy_that_is_there_is_not_written_again_and_one_that_differs_is(run, monkeypatch):
    X, written, write = rows(), [], run.write
    monkeypatch.setattr(run, "write", lambda stage, block, arrays: (written.append(block), write(stage, block, arrays)))
    for _ in range(2):
        store.stage_input(store.open_source(X), run, [0, 50, 100])
    assert written == [0, 1]
    X[70] += 1
    staged = store.stage_input(store.open_source(X), run, [0, 50, 100])
    assert written == [0, 1, 1]
    np.testing.assert_array_equal(staged.read(0, 100), X)


def test_what_a_log_shows_of_them_is_short(run, tmp_path):
    zarr.create_array(str(tmp_path / "a.zarr"), data=rows())
    assert repr(run) == f"Run('{tmp_path}/run.zarr')"
    assert repr(store.open_source(tmp_path / "a.zarr")) == f"ZarrSource('file://{tmp_path}/a.zarr', (100, 5))"


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("missing_chunks", ["error", "fill"])
def test_an_archive_that_is_not_there_for_another_process_is_no_fill_values(tmp_path, missing_chunks, zarr_format):
    zarr.create_array(str(tmp_path / "X"), data=rows(), chunks=(20, 5), zarr_format=zarr_format)
    sent = pickle.dumps(store.open_source(str(tmp_path / "X"), missing_chunks=missing_chunks))
    (tmp_path / "X").rename(tmp_path / "Y")
    there = pickle.loads(sent)
    with pytest.raises(StorageError, match=r"a worker on .* cannot find .*X; give an archive on storage that all"):
        there.read(0, 20)
    (tmp_path / "Y").rename(tmp_path / "X")
    np.testing.assert_array_equal(there.read(0, 20), rows()[:20])


def test_windows_that_are_not_there_for_another_process_are_said_to_be_so(tmp_path):
    made = features.windows(rows(), 10, out=tmp_path / "windows", features="raw")
    sent = pickle.dumps(store.open_source(made))
    (tmp_path / "windows").rename(tmp_path / "elsewhere")
    there = pickle.loads(sent)
    for read in (there.read, there.valid):
        with pytest.raises(StorageError, match=r"a worker on .* cannot find .*X; give an archive on storage that"):
            read(0, 5)
