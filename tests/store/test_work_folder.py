"""Folders in which one process at a time works, and tables that grow in them."""

import os
import subprocess
import sys

import numpy as np
import pytest
import zarr

from bigsmic.errors import RunError, RunLockedError
from bigsmic.store import Table, WorkFolder

COLUMNS = {"night": "i8", "share": "f8"}


@pytest.fixture
def folder(tmp_path):
    return WorkFolder(tmp_path / "work")


def test_files_are_whole(folder):
    assert folder.read_json("a.json") is None
    folder.write_json("a.json", {"x": [1, 2]})
    folder.write_json("a.json", {"x": 3})
    assert folder.read_json("a.json") == {"x": 3}
    assert os.listdir(folder.path) == ["a.json"]
    (open(folder.at("a.json"), "w")).close()
    with pytest.raises(RunError, match=r"a\.json is damaged .*delete it"):
        folder.read_json("a.json")


def test_one_process_at_a_time(folder):
    other = "import sys; from bigsmic.store import WorkFolder\nwith WorkFolder(sys.argv[1]).locked(): print('mine')"
    with folder.locked():
        done = subprocess.run([sys.executable, "-c", other, folder.path], capture_output=True, text=True, check=False)
        assert "RunLockedError" in done.stderr
        with pytest.raises(RunLockedError, match="is being written by"), WorkFolder(folder.path).locked():
            pass
    with WorkFolder(folder.path).locked():
        pass


def test_links_lead_where_they_last_were_pointed(folder):
    assert not os.path.lexists(folder.at("latest"))
    for to in ("runs/1", "runs/2"):
        folder.point("latest", to)
        assert os.readlink(folder.at("latest")) == to
    os.unlink(folder.at("latest"))
    os.mkdir(folder.at("latest"))
    with pytest.raises(RunError, match="is not a link, and is not overwritten"):
        folder.point("latest", "runs/3")


def test_what_is_half_deleted_is_gone(folder, monkeypatch):
    for name in ("one", "two"):
        os.makedirs(folder.at("runs", name, "deep"))
    with monkeypatch.context() as patch:
        patch.setattr("bigsmic.store.work_folder.remove_tree", lambda path: None)  # as if it were killed
        folder.delete("runs/one")
    assert folder.names("runs") == ["two"]
    assert any(name.startswith(".deleted-") for name in os.listdir(folder.path))
    with folder.locked():
        assert sorted(os.listdir(folder.path)) == ["lease", "runs"]
    folder.delete("runs/nothing")


def test_folders_elsewhere_are_refused(tmp_path):
    with pytest.raises(RunError, match="got s3://bucket/x, a URL; give a local path"):
        WorkFolder("s3://bucket/x")
    zarr.create_array(tmp_path / "X", shape=(3,), dtype="f4")
    with pytest.raises(RunError, match="folder: "):
        WorkFolder(tmp_path / "X" / "work")


def test_tables_grow_and_rows_are_written_again(tmp_path):
    table = Table(str(tmp_path / "t.zarr"), COLUMNS, {"about": "nights"})
    assert [len(column) for column in table.read().values()] == [0, 0]
    for number in (0, 1, 1, 2):
        table.write(number, {"night": number + 1, "share": number / 2})
    found = Table(str(tmp_path / "t.zarr"), COLUMNS, {}).read()
    np.testing.assert_array_equal(found["night"], [1, 2, 3])
    np.testing.assert_array_equal(found["share"], [0, 0.5, 1])
    assert zarr.open_group(tmp_path / "t.zarr").attrs["bigsmic_table"] == {"rows": 3, "about": "nights"}


def test_rows_that_a_killed_writer_left_do_not_count(tmp_path, monkeypatch):
    table = Table(str(tmp_path / "t.zarr"), COLUMNS, {})
    table.write(0, {"night": 1, "share": 0.0})
    with pytest.raises(KeyError, match="share"):
        table.write(1, {"night": 2})
    assert table.read()["night"].tolist() == [1]
    table.write(1, {"night": 2, "share": 1.0})
    assert table.read()["share"].tolist() == [0, 1]
