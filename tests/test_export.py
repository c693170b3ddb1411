"""Tables of finished fits: the same columns in every format, whole or absent, and never over what is there."""

import builtins
import errno
import os
import time

import numpy as np
import pandas as pd
import pytest
import zarr
from killed import interrupted_while_zarr_writes
from small_fits import BRIEF, cut_small

import bigsmic
from bigsmic import export
from bigsmic.errors import CorruptBlockError, InputError, RunError, StorageError


@pytest.fixture(scope="module")
def result(blobs, tmp_path_factory):
    run = tmp_path_factory.mktemp("fit") / "run.zarr"
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(blobs[0], 4, out=run, noise=True, **BRIEF)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(export, "PIECE_ENTRIES", 200)


def test_every_format_has_the_same_columns(result, tmp_path, small_pieces):
    wanted = {"label": result.labels, "agreement": result.agreement, "noise": result.noise}
    posterior = np.asarray(result.posterior)
    paths = {end: result.export(tmp_path / f"labels.{end}") for end in ("csv", "parquet", "npy", "zarr")}
    assert paths["csv"] == str(tmp_path / "labels.csv")
    for frame in (
        pd.read_csv(paths["csv"], dtype={"agreement": "f4", "noise": "f4"}),
        pd.read_parquet(paths["parquet"]),
    ):
        assert list(frame) == ["row", *wanted, *(f"posterior_{k}" for k in range(4))]
        assert frame["row"].tolist() == list(range(700))
        for name, values in wanted.items():
            assert np.array_equal(frame[name], values)
        assert np.array_equal(frame.filter(like="posterior").to_numpy(np.float32), posterior)
    for found in (np.load(paths["npy"], mmap_mode="r"), zarr.open_group(paths["zarr"], mode="r")):
        for name, values in (wanted | {"row": np.arange(700), "posterior": posterior}).items():
            assert np.array_equal(found[name], values)
            assert found[name].dtype == values.dtype


@pytest.mark.parametrize("number", [0, 3, 9])
def test_an_interrupted_export_leaves_nothing(result, tmp_path, number):
    with interrupted_while_zarr_writes(number):
        result.export(tmp_path / "labels.zarr")
    time.sleep(0.6)  # what Zarr was writing would be there again
    assert list(tmp_path.iterdir()) == []
    assert np.array_equal(zarr.open_group(result.export(tmp_path / "labels.zarr"), mode="r")["label"], result.labels)


def test_names_are_beside_the_labels_in_every_format(result, tmp_path, small_pieces):
    named = result.save(tmp_path / "run").set_names({0: "at rest", 2: "walking"})
    wanted = np.select([named.labels == 0, named.labels == 2], ["at rest", "walking"], "")
    paths = {end: named.export(tmp_path / f"labels.{end}") for end in ("csv", "parquet", "npy", "zarr")}
    for frame in (pd.read_csv(paths["csv"], keep_default_na=False), pd.read_parquet(paths["parquet"])):
        assert list(frame)[:3] == ["row", "label", "name"]
        assert frame["name"].tolist() == wanted.tolist()
    for found in (np.load(paths["npy"]), zarr.open_group(paths["zarr"], mode="r")):
        assert found["name"][:].tolist() == wanted.tolist()


def test_rows_in_no_cluster_and_in_unnamed_ones_have_no_name():
    column = export._Column.of_names({1: "walking"}, np.array([-1, 0, 1, 7], np.int32))
    assert column.read(0, 4).tolist() == ["", "", "walking", ""]


def test_rows_are_numbered_as_in_the_archive(blobs, tmp_path):
    result = bigsmic.fit(blobs[0], 3, method="mspc", rows=slice(100, 400))
    assert pd.read_csv(result.export(tmp_path / "a.csv"))["row"].tolist() == list(range(100, 400))


def test_parquet_keeps_the_dtypes_and_is_written_piece_by_piece(result, tmp_path, small_pieces):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(result.export(tmp_path / "labels.parquet", columns=["label", "agreement"]))
    assert [str(field.type) for field in file.schema_arrow] == ["int32", "float"]
    assert file.metadata.num_row_groups >= 7


def test_no_more_than_a_block_is_read_at_once(result, tmp_path, monkeypatch):
    read, asked = type(result.posterior)._slice, []

    def counted(array, rows):
        found = read(array, rows)
        asked.append(len(found))
        return found

    monkeypatch.setattr(type(result.posterior), "_slice", counted)
    result.export(tmp_path / "labels.npy")
    assert max(asked) == 256
    assert "labels" not in vars(bigsmic.Result.open(result.location))


def test_columns_are_chosen_in_their_order(result, tmp_path):
    assert list(pd.read_csv(result.export(tmp_path / "a.csv", columns=["noise", "label"]))) == ["noise", "label"]
    with pytest.raises(
        InputError, match=r"columns: got \['size'\]; this run has \['row', 'label', .*choose among them"
    ):
        result.export(tmp_path / "b.csv", columns=["label", "size"])
    for columns in (["label", 1], [1, "size"], [["label"]]):
        with pytest.raises(InputError, match=r"columns: got .*; this run has .*choose among them"):
            result.export(tmp_path / "b.csv", columns=columns)
    with pytest.raises(InputError, match=r"columns: got \[\]"):
        result.export(tmp_path / "b.csv", columns=[])
    with pytest.raises(InputError, match=r"columns: got 5; give a list of names, such as columns=\['label'\], or None"):
        result.export(tmp_path / "b.csv", columns=5)
    with pytest.raises(InputError, match=r"columns: got 'label'; give a list of names, such as columns=\['label'\]"):
        result.export(tmp_path / "b.csv", columns="label")
    assert os.listdir(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("end", ["csv", "parquet", "npy", "zarr"])
def test_what_is_there_stays(result, tmp_path, end):
    path = tmp_path / f"labels.{end}"
    path.write_text("mine")
    with pytest.raises(RunError, match="exists already, and nothing is overwritten; give another path"):
        result.export(path)
    assert (os.listdir(tmp_path), path.read_text()) == ([path.name], "mine")


@pytest.mark.parametrize("end", ["csv", "npy"])
def test_a_place_that_may_only_be_read_is_named(result, tmp_path, monkeypatch, end):
    def refuse(path, *args, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(os, "unlink", refuse)  # which says so even of what is not there
    monkeypatch.setitem(export._FORMATS, f".{end}", refuse)
    with pytest.raises(StorageError, match=f"export: writing .*labels.{end}: .*Read-only"):
        result.export(tmp_path / f"labels.{end}")


@pytest.mark.parametrize("end", ["csv", "zarr"])
def test_what_another_process_wrote_meanwhile_stays(result, tmp_path, monkeypatch, end):
    path, write = tmp_path / f"labels.{end}", export._FORMATS[f".{end}"]

    def late(partial, table):
        write(partial, table)
        path.write_text("theirs")

    monkeypatch.setitem(export._FORMATS, f".{end}", late)
    with pytest.raises(RunError, match="exists already"):
        result.export(path)
    assert (os.listdir(tmp_path), path.read_text()) == ([path.name], "theirs")


@pytest.fixture(scope="module")
def torn(blobs, tmp_path_factory):
    """Result of a run that has lost a part of its agreement."""
    folder = tmp_path_factory.mktemp("torn")
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        result = bigsmic.fit(blobs[0], 4, out=folder / "run.zarr", **BRIEF)
    chunk = folder / "run.zarr" / "agreement" / "c" / "1"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    return result


@pytest.mark.parametrize("end", ["csv", "parquet", "npy", "zarr"])
def test_a_table_is_whole_or_absent(torn, tmp_path, end):
    (tmp_path / "out").mkdir()
    with pytest.raises(CorruptBlockError, match="agreement"):
        torn.export(tmp_path / "out" / f"labels.{end}")
    assert os.listdir(tmp_path / "out") == []


def test_places_that_are_refused(result, tmp_path):
    for path, message in (
        (f"{result.location}/labels.csv", "would lie within the run"),
        ("memory://labels.csv", "is a URL, and only local files are written"),
        (tmp_path / "none" / "labels.csv", "in a folder that does not exist; make .*none first"),
    ):
        with pytest.raises(RunError, match=message):
            result.export(path)
    with pytest.raises(InputError, match=r"suffix '.txt'; use one of .csv, .parquet, .npy, .zarr"):
        result.export(tmp_path / "labels.txt")


def test_parquet_without_its_library_says_what_to_install(result, tmp_path, monkeypatch):
    load = builtins.__import__

    def refuse(name, *args, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return load(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"pip install 'bigsmic\[parquet\]'"):
        result.export(tmp_path / "labels.parquet")


def test_a_fit_without_labels_has_no_table(blobs, tmp_path):
    found = bigsmic.fit(blobs[0], valleys=False, **BRIEF)
    with pytest.raises(InputError, match="export: the fit was given no number of clusters"):
        found.export(tmp_path / "labels.csv")
