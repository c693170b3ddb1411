"""Archives read in blocks, and the run directory: nothing absent or torn is ever taken for data."""

import errno
import os
import subprocess
import sys
import warnings
from functools import partial

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr

from bigsmic import store
from bigsmic.errors import (
    CorruptBlockError,
    InputError,
    RunError,
    RunLockedError,
    RunMismatchError,
    RunVersionError,
    StorageError,
)
from bigsmic.numerics.eigen.basis import MemoryBasis, SplitBasis
from bigsmic.store.side_inputs import read_array


def _rows(n=100, d=5):
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def _archive(path, X, chunks, **options):
    array = zarr.create_array(str(path), shape=X.shape, chunks=chunks, dtype=X.dtype, **options)
    array[...] = X
    return str(path)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("chunks", [(7, 5), (100, 2), (64, 3), (1, 5)])
def test_every_way_of_chunking_reads_the_same(tmp_path, version, chunks):
    X = _rows()
    source = store.open_source(_archive(tmp_path / "a.zarr", X, chunks, zarr_format=version))
    for lo, hi in [(0, 100), (0, 1), (13, 14), (13, 87), (99, 100)]:
        np.testing.assert_array_equal(source.read(lo, hi), X[lo:hi])


def test_sharded_archives(tmp_path):
    X = _rows()
    source = store.open_source(_archive(tmp_path / "a.zarr", X, (5, 5), shards=(20, 5)))
    np.testing.assert_array_equal(source.read(17, 63), X[17:63])


def test_tall_chunks_are_decoded_once(tmp_path, monkeypatch):
    source = store.open_source(_archive(tmp_path / "a.zarr", _rows(), (50, 5)))
    decoded, decode = [], source._decode
    monkeypatch.setattr(source, "_decode", lambda lo, hi: (decoded.append(lo), decode(lo, hi))[1])
    for lo in range(0, 100, 10):
        source.read(lo, lo + 10)
    assert decoded == [0, 50]


@pytest.mark.parametrize("kind", ["array", "memmap", "zarr", "dask", "list"])
def test_kinds_of_input(tmp_path, kind):
    X = _rows()
    if kind == "memmap":
        np.save(tmp_path / "x.npy", X)
    data = {
        "array": lambda: X,
        "memmap": lambda: np.load(tmp_path / "x.npy", mmap_mode="r"),
        "zarr": lambda: zarr.open_array(_archive(tmp_path / "a.zarr", X, (9, 5)), mode="r"),
        "dask": lambda: dask.array.from_array(X, chunks=(33, 5)),
        "list": lambda: X.tolist(),
    }[kind]()
    np.testing.assert_array_equal(store.open_source(data).read(10, 50), X[10:50])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_component_that_has_grown_since_the_metadata_of_its_group_were_consolidated(tmp_path, zarr_format):
    X = np.arange(60, dtype=np.float32).reshape(20, 3)
    group = zarr.open_group(tmp_path / "group", mode="w", zarr_format=zarr_format)
    group.create_group("of").create_array("X", data=X[:12], chunks=(4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are no part of the specification
        zarr.consolidate_metadata(tmp_path / "group")
    zarr.open_array(tmp_path / "group" / "of" / "X", mode="r+").append(X[12:])
    source = store.open_source(tmp_path / "group", "of/X")
    assert source.shape == (20, 3)
    np.testing.assert_array_equal(source.read(0, 20), X)


def test_a_component_of_a_group(tmp_path):
    zarr.create_array(str(tmp_path / "g.zarr"), name="rows", data=_rows())
    np.testing.assert_array_equal(store.open_source(tmp_path / "g.zarr", component="rows").read(0, 9), _rows()[:9])
    with pytest.raises(InputError, match=r"group with arrays \['rows'\]; name one with component="):
        store.open_source(tmp_path / "g.zarr")
    with pytest.raises(InputError, match=r"has no component='columns'.*\['rows'\]"):
        store.open_source(tmp_path / "g.zarr", component="columns")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(3), "2-dimensional"),
        (
            np.zeros((2, 3, 4)),
            r"2-dimensional .* got shape \(2, 3, 4\); .*: array\.reshape\(2, -1\), in NumPy or dask$",
        ),
        (
            xr.DataArray(np.zeros((2, 3, 4)), dims=("row", "a", "b")),
            r"or data\.stack\(feature=\['a', 'b'\]\) in xarray$",
        ),
        (np.array([["a"]], dtype=object), "not real or integer"),
        (np.zeros((2, 2), complex), "not real or integer"),
        ("/nowhere/at/all.zarr", "does not exist"),
        ("s9://bucket/archive.zarr", "could not be opened"),
    ],
)
def test_what_cannot_be_read_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        store.open_source(data)


def test_a_missing_chunk_is_an_error_unless_it_is_said_to_be_fill(tmp_path):
    X = _rows()
    path = _archive(tmp_path / "a.zarr", X, (25, 5))
    os.remove(tmp_path / "a.zarr" / "c" / "2" / "0")
    source = store.open_source(path)
    source.read(0, 50)
    with pytest.raises(StorageError, match=r"chunk c/2/0 \(rows 50:75\).*missing_chunks='fill'"):
        source.read(40, 60)
    filled = store.open_source(path, missing_chunks="fill").read(50, 75)
    np.testing.assert_array_equal(filled, 0)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda chunk: chunk.unlink(), "input: chunk c/3/0 (rows 6:8)"),
        (lambda chunk: chunk.write_bytes(b"torn"), "input: rows 0:400"),
    ],
    ids=["missing", "torn"],
)
def test_no_request_is_left_unfinished_where_chunks_are_damaged(tmp_path, damage, said):
    path = str(tmp_path / "X.zarr")
    zarr.create_array(path, data=np.ones((400, 2)), chunks=(2, 2))
    for chunk in range(3, 200):
        damage(tmp_path / f"X.zarr/c/{chunk}/0")
    code = f"""if True:
        from bigsmic import errors, store
        try:
            store.open_source({path!r}).read(0, 400)
        except errors.StorageError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(said)
    assert done.stderr == ""  # asyncio reports unfinished requests


def test_a_folder_in_the_place_of_a_chunk_is_said_to_be_deleted(tmp_path):
    zarr.create_array(str(tmp_path / "X.zarr"), data=np.ones((4, 2)), chunks=(2, 2))
    chunk = tmp_path / "X.zarr/c/1/0"
    chunk.unlink()
    chunk.mkdir()
    with pytest.raises(StorageError, match=rf"chunk c/1/0 \(rows 2:4\) .* is a directory .* delete {chunk}, and"):
        store.open_source(tmp_path / "X.zarr").read(0, 4)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_torn_chunk_is_an_error(tmp_path, compressed):
    options = {} if compressed else {"compressors": None}
    path = _archive(tmp_path / "a.zarr", _rows(), (25, 5), **options)
    chunk = tmp_path / "a.zarr" / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:40])
    with pytest.raises(StorageError, match=r"rows 25:50 .* torn or unreadable"):
        store.open_source(path).read(20, 30)


READS = [("input", lambda path: store.open_source(path).read(0, 9)), ("labels", partial(read_array, "labels"))]


@pytest.mark.parametrize(("name", "read"), READS)
def test_memory_that_runs_out_is_said_before_a_torn_chunk(tmp_path, monkeypatch, name, read):
    path = _archive(tmp_path / "a.zarr", _rows(), (25, 5))

    def full(self, selection):
        raise MemoryError("Unable to allocate 763. MiB")

    monkeypatch.setattr(zarr.Array, "__getitem__", full)
    with pytest.raises(StorageError, match=f"^{name}: .*763. MiB.*memory ran out, .* a chunk is torn"):
        read(path)


# -- run directory


@pytest.fixture
def run(tmp_path):
    opened = store.Run(tmp_path / "run.zarr")
    opened.bind({"input": {"rows": 3}})
    yield opened
    opened.close()


def test_blocks_come_back_as_written_whole_and_in_parts(run):
    rows = _rows(10)
    run.write(
        "stage", 3, {"rows": rows, "scalar": np.array(2.5), "none": np.zeros((0, 4))}, parts={"rows": [0, 4, 4, 10]}
    )
    np.testing.assert_array_equal(run.read("stage", 3, "rows"), rows)
    np.testing.assert_array_equal(run.read("stage", 3, "rows", 0), rows[:4])
    assert run.read("stage", 3, "rows", 1).shape == (0, 5)
    np.testing.assert_array_equal(run.read("stage", 3, "rows", 2), rows[4:])
    assert run.read("stage", 3, "scalar") == 2.5
    assert run.read("stage", 3, "none").shape == (0, 4)


def test_artifacts_are_plain_zarr_arrays(run):
    rows = _rows(10)
    run.write("stage", 0, {"rows": rows})
    np.testing.assert_array_equal(zarr.open_group(run.location, mode="r")["stage/0000000/rows"][...], rows)


def test_a_block_is_done_when_its_ledger_entry_is_there(run):
    assert not run.done("stage", 0)
    run.write("stage", 0, {"rows": _rows(3)}, info={"seconds": 2})
    assert run.done("stage", 0)
    assert run.info("stage", 0) == {"seconds": 2}
    run.forget("stage", 0)
    assert not run.done("stage", 0)
    with pytest.raises(CorruptBlockError, match="not in the ledger"):
        run.read("stage", 0, "rows")


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete"])
def test_damage_is_found_by_checksum(run, tmp_path, damage):
    run.write("stage", 1, {"rows": _rows(10)}, parts={"rows": [0, 5, 10]})
    chunk = tmp_path / "run.zarr" / "stage" / "0000001" / "rows" / "c.0.0"
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    if damage == "delete":
        chunk.unlink()
    else:
        chunk.write_bytes(data if damage == "flip" else data[:-4])
    with pytest.raises(CorruptBlockError, match=r"rows of block 1.*run fit on it again") as caught:
        run.read("stage", 1, "rows")
    assert (caught.value.stage, caught.value.block) == ("stage", 1)
    if damage != "delete":
        np.testing.assert_array_equal(run.read("stage", 1, "rows", 0), _rows(10)[:5])


def test_another_input_is_refused_and_both_are_shown(run):
    run.bind({"input": {"rows": 3}})
    with pytest.raises(RunMismatchError, match=r"(?s)input.rows: stored 3, asked 4.*another out="):
        run.bind({"input": {"rows": 4}})


def test_a_newer_format_is_refused(tmp_path):
    zarr.open_group(str(tmp_path / "run.zarr"), mode="w", attributes={"bigsmic_format": 99})
    with pytest.raises(RunVersionError, match=r"format 99.*upgrade bigsmic"):
        store.Run(tmp_path / "run.zarr")


def test_a_group_that_is_no_run_is_left_alone(tmp_path):
    zarr.create_array(str(tmp_path / "mine.zarr"), name="precious", data=_rows())
    with pytest.raises(RunError, match="not a run; give another out="):
        store.Run(tmp_path / "mine.zarr")


def test_a_second_writer_is_refused_and_a_dead_one_is_not_waited_for(tmp_path):
    code = "import sys, time; from bigsmic.store import Run; r = Run(sys.argv[1]); print(1, flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path / "r"], stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        with pytest.raises(RunLockedError, match=f"being written by process {other.pid} on "):
            store.Run(tmp_path / "r")
    finally:
        other.kill()
        other.communicate()
    store.Run(tmp_path / "r").close()


def test_a_full_disk_is_one_clear_error(run, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run, "_set", full)
    with pytest.raises(StorageError, match=r"stage: writing block 0.*no space left.*run the same command again"):
        run.write("stage", 0, {"rows": _rows()})
    monkeypatch.undo()
    assert not run.done("stage", 0)


def test_names_cannot_leave_the_run(run):
    with pytest.raises(RunError, match="is not a valid name"):
        run.write("../outside", 0, {})


def test_a_dropped_stage_is_gone(run, tmp_path):
    run.write("stage", 0, {"rows": _rows()})
    run.drop("stage", [0, 1])
    assert not (tmp_path / "run.zarr" / "stage").exists()
    assert not run.done("stage", 0)


def test_file_basis_is_memory(tmp_path):
    basis = store.FileBasis(tmp_path / "basis", [0, 4, 10], 6)
    V = _rows(10, 6)
    for p, rows in enumerate((slice(0, 4), slice(4, 10))):
        basis.write(p, 0, V[rows, :4])
        basis.write(p, 4, V[rows, 4:])
        np.testing.assert_array_equal(basis.read(p, 1, 6), V[rows, 1:])
        assert basis.read(p, 0, 6).flags.f_contiguous
    basis.close()
    assert not (tmp_path / "basis").exists()


@pytest.mark.parametrize("n_held", [0, 1, 2])
def test_a_split_basis_is_memory(tmp_path, n_held):
    bounds = np.array([0, 4, 10, 13])
    rest = store.FileBasis(tmp_path / "basis", bounds[n_held:] - bounds[n_held], 6)
    basis = SplitBasis(MemoryBasis(bounds[: n_held + 1], 6), rest)
    np.testing.assert_array_equal(basis.bounds, bounds)
    V = _rows(13, 6)
    for p, rows in enumerate((slice(0, 4), slice(4, 10), slice(10, 13))):
        basis.write(p, 0, V[rows, :4])
        basis.write(p, 4, V[rows, 4:])
        np.testing.assert_array_equal(basis.read(p, 1, 6), V[rows, 1:])
    assert len(list((tmp_path / "basis").glob("*.f"))) == 3 - n_held
    basis.close()
    assert not (tmp_path / "basis").exists()


def test_scalars_stay_scalars(run):
    run.write("stage", 0, {"seed": np.array(3)})
    assert run.read("stage", 0, "seed").shape == ()


def test_chunks_of_zeros_are_written(tmp_path):
    """Zarr leaves them out, and an absent chunk could not be told from a lost one."""
    run = store.Run(str(tmp_path / "run"))
    run.create("labels", (6,), 3, np.int32)
    store.Run(str(tmp_path / "run"), lock=False).write_rows("labels", 0, np.zeros(3, np.int32))
    assert (tmp_path / "run" / "labels" / "c" / "0").exists()
