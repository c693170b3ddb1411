"""Reports are the same wherever run, archive and report are, and wherever blocks are read."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from clusters import cluster_of
from pages import Page
from small_fits import BRIEF, cut_small
from typer.testing import CliRunner

import bigsmic
from bigsmic.cli.main import app
from bigsmic.errors import RunError, StorageError

OPTIONS = {"map_rows": 100, "times": np.arange(700) / 60}


@pytest.fixture(scope="module")
def location(archive, tmp_path_factory):
    """A run of many blocks."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(archive, 4, out=tmp_path_factory.mktemp("runs") / "run", **BRIEF).location


@pytest.fixture(scope="module")
def here(location, archive, tmp_path_factory):
    """Report by one thread of this process."""
    return reported(location, archive, tmp_path_factory.mktemp("report"))


def reported(location, archive, folder, **where):
    bigsmic.Result.open(location).report(folder / "report.html", archive=archive, **OPTIONS, **where)
    return Page(folder / "report.html").undated


def test_on_threads(location, archive, here, tmp_path):
    assert reported(location, archive, tmp_path, n_threads=2) == here


@pytest.mark.end_to_end
def test_on_a_cluster(location, archive, here, blobs, tmp_path):
    with cluster_of(2) as client:
        assert reported(location, archive, tmp_path, client=client) == here
        tasks = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
        assert any("pass" in name for name in tasks)
        of_memory = reported(location, blobs[0], tmp_path, client=client)  # which workers do not have
        assert of_memory == here.replace(f"file://{archive}", "array")
        result = bigsmic.Result.open(location).save("memory://reports/unseen.zarr")
        with pytest.raises(RunError, match=r"2 of 2 workers cannot find .*unseen.zarr; give an out= on storage that"):
            result.report(tmp_path / "unseen.html", client=client, map_rows=0)
        assert not (tmp_path / "unseen.html").exists()


# -- on an object store


@pytest.fixture(scope="module")
def bucket():
    """Storage options of a server that speaks the protocol of S3."""
    pytest.importorskip("moto.server", reason="needs moto[server]: pip install '.[test]'")
    pytest.importorskip("s3fs", reason="needs s3fs: pip install '.[s3]'")
    import s3

    with s3.moto_server() as port:
        yield s3.options(port)


def downloaded(url, options, folder):
    import s3fs

    path = Path(folder) / "downloaded.html"
    path.write_bytes(s3fs.S3FileSystem(**options).cat(url))
    return Page(path)


@pytest.mark.end_to_end
def test_on_s3(archive, bucket, tmp_path, monkeypatch):
    """Archive, run and report on S3: by Python, and by the command line."""
    X = zarr.open_array(archive, mode="r")
    url = "s3://bucket/archive.zarr"
    zarr.create_array(url, data=X[:], chunks=X.chunks, storage_options=bucket)
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        result = bigsmic.fit(url, 4, out="s3://bucket/run.zarr", storage_options=bucket, **BRIEF)
    result.report("s3://bucket/report.html", archive=url, storage_options=bucket, **OPTIONS)
    page = downloaded("s3://bucket/report.html", bucket, tmp_path)
    assert page.errors == []
    assert "s3://bucket/run.zarr" in page.text("run")
    assert url in page.text("run")
    assert bucket["secret"] not in page.html
    monkeypatch.setenv("BIGSMIC_STORAGE_OPTIONS", json.dumps(bucket))
    asked = [
        "report",
        "s3://bucket/run.zarr",
        "--archive",
        url,
        "-o",
        "s3://bucket/again.html",
        "--map-rows",
        str(OPTIONS["map_rows"]),
    ]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.stderr
    again = downloaded("s3://bucket/again.html", bucket, tmp_path)
    for name in ("clusters", "columns", "map"):
        assert again.text(name) == page.text(name)
    done = CliRunner().invoke(app, [*asked[:4], "-o", "s3://nobodys/report.html", "--map-rows", "0"])
    assert done.exit_code == 6
    assert "s3://nobodys/report.html" in done.stderr
    with pytest.raises(StorageError, match="nobodys"):
        result.report("s3://nobodys/report.html", storage_options=bucket, map_rows=0)
