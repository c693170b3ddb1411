"""Rows of .npy files: the labels of the same rows in Zarr, a block in memory, and refusals in one line."""

import io
import os
import pickle

import numpy as np
import pytest
import zarr
from small_fits import BRIEF

import bigsmic
from bigsmic.errors import InputError, RunMismatchError, StorageError
from bigsmic.store import open_source

ROWS = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)


def saved(path, rows=ROWS):
    np.save(path, rows)
    return path


def test_a_fit_is_that_of_the_same_rows_in_zarr(blobs, tmp_path, many_blocks):
    archive = tmp_path / "X.zarr"
    zarr.create_array(archive, data=blobs[0], chunks=(100, 5))
    path = saved(tmp_path / "X.npy", blobs[0])
    of_zarr, of_npy = (bigsmic.fit(rows, 4, **BRIEF) for rows in (archive, path))
    assert np.array_equal(of_zarr.labels, of_npy.labels)
    assert np.array_equal(of_zarr.posterior, of_npy.posterior)
    assert np.array_equal(of_npy.predict(path), of_npy.predict(archive))
    assert bigsmic.plan(path, 4).peak_bytes <= bigsmic.plan(archive, 4).peak_bytes


def test_a_run_resumes_from_either_and_refuses_other_rows(blobs, tmp_path, many_blocks):
    path, run = saved(tmp_path / "X.npy", blobs[0]), tmp_path / "run.zarr"
    labels = bigsmic.fit(path, 4, out=run, **BRIEF).labels
    os.rename(path, tmp_path / "moved.npy")
    assert np.array_equal(bigsmic.fit(str(tmp_path / "moved.npy"), 4, out=run, **BRIEF).labels, labels)
    changed = blobs[0].copy()
    changed[300] += 1
    with pytest.raises(RunMismatchError, match="rows 256:512 are not those"):
        bigsmic.fit(saved(path, changed), 4, out=run, **BRIEF)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", "u1", "?"])
def test_every_layout_and_dtype(tmp_path, order, dtype):
    rows = np.asarray(10 * ROWS if dtype != "?" else ROWS > 0).astype(dtype, order=order, casting="unsafe")
    source = open_source(saved(tmp_path / "X.npy", rows))
    found = source.read(17, 43)
    assert found.flags.c_contiguous
    assert (found.dtype, source.shape) == (rows.dtype, (60, 3))
    assert np.array_equal(found, rows[17:43])


def test_no_more_than_a_block_is_read(blobs, tmp_path, many_blocks, monkeypatch):
    path, read, asked = saved(tmp_path / "X.npy", blobs[0]), np.fromfile, []

    def counted(file, dtype, count):
        asked.append(count)
        return read(file, dtype, count)

    monkeypatch.setattr(np, "fromfile", counted)
    bigsmic.fit(path, 3, method="mspc", n_threads=1)
    assert max(asked) == 256 * 5


def test_a_file_is_known_by_how_it_begins(tmp_path):
    saved(tmp_path / "X.npy")
    os.rename(tmp_path / "X.npy", tmp_path / "features")
    assert np.array_equal(open_source(tmp_path / "features").read(0, 60), ROWS)
    zarr.create_array(tmp_path / "folder.npy", data=ROWS)
    assert np.array_equal(open_source(tmp_path / "folder.npy").read(0, 60), ROWS)


def test_tasks_elsewhere_open_the_file_themselves(tmp_path):
    source = open_source(saved(tmp_path / "X.npy"))
    assert source.travels
    assert len(pickle.dumps(source)) < 500
    assert source.places == [str(tmp_path / "X.npy")]
    assert np.array_equal(pickle.loads(pickle.dumps(source)).read(5, 9), ROWS[5:9])


def test_predictions_are_not_written_over_the_rows(tmp_path):
    path = saved(tmp_path / "X.npy")
    result = bigsmic.fit(path, 2, method="mspc")
    with pytest.raises(bigsmic.RunError, match="the archive that is read"):
        result.predict(path, out=path, overwrite=True)
    assert np.array_equal(np.load(path), ROWS)


# -- refused


def torn(path):
    data = io.BytesIO()
    np.save(data, ROWS)
    path.write_bytes(data.getvalue()[:-10])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (torn, r"X.npy' could not be opened as an array of NumPy .*numpy\.save"),
        (lambda path: path.write_bytes(b"\x93NUMPY"), r"could not be opened as an array of NumPy"),
        (lambda path: path.write_bytes(b""), r"could not be opened as an array of NumPy"),
        (lambda path: saved(path, np.array([["a", {}]], object)), "Python objects in dtype"),
        (lambda path: saved(path, ROWS[:, 0]), r"expected a 2-dimensional array .* got shape \(60,\)"),
        (lambda path: saved(path, ROWS[:0]), r"Found array with 0 sample"),
        (lambda path: saved(path, ROWS.astype(complex)), "dtype complex128 is not real or integer"),
        (lambda path: saved(path, np.zeros(5, [("row", "i8")])), r"got shape \(5,\)"),
    ],
)
def test_what_holds_no_rows_is_refused(tmp_path, write, message):
    write(tmp_path / "X.npy")
    with pytest.raises(InputError, match=message):
        bigsmic.fit(tmp_path / "X.npy", 2)


def test_nan_is_found_where_it_is(tmp_path):
    rows = ROWS.copy()
    rows[41, 2] = np.nan
    with pytest.raises(bigsmic.errors.NonFiniteError, match=r"row 41, column 2"):
        bigsmic.fit(saved(tmp_path / "X.npy", rows), 2)


def test_a_component_of_a_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"component='X'; leave it out"):
        bigsmic.fit(saved(tmp_path / "X.npy"), 2, component="X")


@pytest.mark.parametrize("url", ["s3://bucket/X.npy", "memory://X.npy", "https://host/X.npy?secret=5"])
def test_a_file_behind_a_url_is_refused_with_what_to_do(url):
    with pytest.raises(
        InputError, match=r"read from local disks only; copy it to a local path, or write it as Zarr"
    ) as e:
        bigsmic.fit(url, 2)
    assert "secret" not in str(e.value)


def test_a_file_that_is_cut_short_meanwhile_is_an_error_of_the_store(tmp_path):
    source = open_source(saved(tmp_path / "X.npy"))
    os.truncate(tmp_path / "X.npy", 300)
    with pytest.raises(StorageError, match=r"rows from 50 on of .* truncated after it was opened; restore it"):
        source.read(50, 60)
    os.unlink(tmp_path / "X.npy")
    with pytest.raises(StorageError, match=r"rows 5:6 of .*No such file"):
        source.read(5, 6)
