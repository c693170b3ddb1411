"""Nothing is written over that nobody asked to have written over, and what killed writers left is not in the way."""

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem
from small_fits import FAST
from typer.testing import CliRunner

import bigsmic
from bigsmic import store
from bigsmic.cli import main
from bigsmic.errors import InputError, RunError, RunLockedError
from bigsmic.store import destinations

SMALL = FAST | {"t": (3,), "widths": (1.5, 2), "n_centers": 20}
PARTIAL = ("zarr.0123456789abcdef0123456789abcdef.partial", "zarr.json.0123456789ab1f-140.partial")
ROWS = np.concatenate([np.random.default_rng(0).normal(size=(100, 3)) + 6 * k for k in range(3)]).astype(np.float32)


def fit(out=None, data=ROWS, **options):
    return bigsmic.fit(data, 3, out=out, **SMALL | options)


def tree(folder):
    """Every file and folder below one, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(Path(folder).rglob("*"))
    }


def write_archive(location, **arrays):
    group = zarr.open_group(str(location), mode="w")
    for name, array in arrays.items():
        group.create_array(name, data=array, chunks=(50, *array.shape[1:]))
    return location


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return fit(tmp_path_factory.mktemp("fitted") / "run.zarr")


@pytest.fixture
def archive(tmp_path):
    return write_archive(tmp_path / "archive.zarr", X=ROWS, labels=np.arange(300), posterior=ROWS)


@pytest.fixture
def memory():
    yield "memory://writing"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


# -- where a run may be made


def folder_of_others(place):
    place.mkdir()
    (place / "thesis.tex").write_text("chapter 1")


def group_with_attributes(place):
    zarr.open_group(str(place), mode="w", attributes={"experiment": 3})


def version_two(place):
    zarr.open_group(str(place), mode="w", zarr_format=2).create_array("X", data=ROWS)


OTHERS = {
    "a file": (lambda place: place.write_text("mine"), "is a file, but must be a directory"),
    "a folder": (folder_of_others, "is a directory with other contents"),
    "an array": (lambda place: zarr.create_array(str(place), data=ROWS), "is a Zarr array"),
    "a group": (lambda place: write_archive(place, X=ROWS), "holds a Zarr group that is not a run"),
    "its attributes": (group_with_attributes, "holds a Zarr group that is not a run"),
    "version 2": (version_two, "is a directory with other contents"),
    "link to nothing": (lambda place: place.symlink_to("gone"), "is a symbolic link to nothing"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_fit_refuses_what_is_no_run_and_leaves_it_as_it_was(tmp_path, name):
    make, message = OTHERS[name]
    make(tmp_path / "place")
    before = tree(tmp_path)
    with pytest.raises(RunError, match=f"run: .*place {message}.*; give another out="):
        fit(tmp_path / "place")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("where", ["archive.zarr", "archive.zarr/X", "archive.zarr/X/c", "archive.zarr/X/run"])
def test_a_fit_of_an_archive_does_not_write_into_it(tmp_path, archive, where):
    before = tree(archive)
    with pytest.raises(RunError, match=r"not a run|is a Zarr array|within the Zarr array|other contents"):
        fit(tmp_path / where, archive, component="X")
    assert tree(archive) == before


def test_a_run_may_be_a_new_member_of_an_archive(archive):
    before = tree(archive / "X")
    assert fit(archive / "run", archive, component="X").labels.shape == (300,)
    assert tree(archive / "X") == before


def test_a_run_is_not_made_within_another_one(result):
    before = tree(result.location)
    with pytest.raises(RunError, match=r"would lie within the run .*run.zarr; give another out= outside of it"):
        fit(f"{result.location}/rows/other")
    assert tree(result.location) == before


def test_other_parameters_leave_a_run_as_it_was(result):
    before = tree(result.location)
    with pytest.raises(RunError, match="was made from other input or with other parameters"):
        fit(result.location, seed=1)
    assert tree(result.location) == before


def test_an_empty_folder_and_an_empty_group_will_do(tmp_path, result):
    (tmp_path / "folder").mkdir()
    zarr.open_group(str(tmp_path / "group"), mode="w")
    for name in ("folder", "group"):
        np.testing.assert_array_equal(fit(tmp_path / name).labels, result.labels)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (b"run", r"out: got b'run' of type bytes; give a path or URL, as str or Path"),
        (5, r"out: got 5 of type int; give a path or URL"),
        (["run"], r"out: got \['run'\] of type list"),
        ("", r"out: got '', which is no location"),
        ("a\0b", r"out: got 'a\\x00b', which is no location"),
    ],
)
def test_what_names_no_place_is_refused(result, out, message):
    with pytest.raises(InputError, match=message):
        fit(out)
    with pytest.raises(InputError, match=message):
        result.predict(ROWS, out=out)
    with pytest.raises(InputError, match=message.replace("out:", "run:")):
        bigsmic.Result.open(out)


def test_a_name_that_is_too_long_is_refused(tmp_path, result):
    out = tmp_path / ("a" * 300)
    with pytest.raises(RunError, match=r"cannot be created or opened \(File name too long\); give another out="):
        fit(out)
    with pytest.raises(RunError, match=r"predict: out=.* cannot be created or opened \(File name too long\)"):
        result.predict(ROWS, out=out)
    with pytest.raises(RunError, match="is not a directory; give the out= of a finished fit"):
        bigsmic.Result.open(out)


def test_objects_of_others_behind_a_url_are_left_alone(memory):
    group = zarr.open_group(f"{memory}/archive", mode="w")
    group.create_array("X", data=ROWS, chunks=(50, 3))
    MemoryFileSystem.store["/writing/notes/a.txt"] = MemoryFileSystem().open("/writing/notes/a.txt", "wb")
    before = sorted(MemoryFileSystem.store)
    for out in ("archive", "archive/X", "archive/X/run", "notes"):
        with pytest.raises(RunError, match=r"not a run|is a Zarr array|within the Zarr array|other contents"):
            fit(f"{memory}/{out}")
    assert sorted(MemoryFileSystem.store) == before


def test_all_losers_of_a_race_are_told_that_it_is_being_written(tmp_path):
    def attempt(barrier, out):
        barrier.wait()
        try:
            return store.Run(out)
        except RunLockedError:
            return None

    for i in range(10):
        barrier = threading.Barrier(8)
        with ThreadPoolExecutor(8) as pool:
            runs = [run for run in pool.map(attempt, [barrier] * 8, [tmp_path / str(i)] * 8) if run]
        assert len(runs) == 1
        runs[0].close()


def test_one_that_comes_while_another_makes_the_directory_sees_no_others(tmp_path, monkeypatch):
    """Between the listing and the spec of the metadata the other one may have made everything."""
    names, first = store.objects.LocalBytes.names, []

    def and_then_another_is_quicker(self):
        found = names(self)
        monkeypatch.setattr(store.objects.LocalBytes, "names", names)
        first.append(store.Run(tmp_path / "run"))
        first[0].write("rows", 0, {"X": ROWS})
        return found

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / PARTIAL[0]).touch()
    monkeypatch.setattr(store.objects.LocalBytes, "names", and_then_another_is_quicker)
    with pytest.raises(RunLockedError, match="is being written by process"):
        store.Run(tmp_path / "run")
    first[0].close()


# -- what a killed writer leaves


@pytest.mark.parametrize("name", PARTIAL)
def test_a_first_write_that_was_cut_short_is_not_in_the_way(tmp_path, result, name):
    for place in ("run", "predicted"):
        (tmp_path / place).mkdir()
        (tmp_path / place / name).write_bytes(b'{"zarr_')
    np.testing.assert_array_equal(fit(tmp_path / "run").labels, result.labels)
    result.predict(ROWS, out=tmp_path / "predicted")
    assert not list(tmp_path.rglob("*.partial"))


def test_what_zarr_was_writing_is_swept(tmp_path, result):
    fit(tmp_path / "run")
    left = [tmp_path / "run" / name / PARTIAL[0] for name in (".", "labels", "labels/c", "rows/0000000")]
    for path in left:
        path.touch()
    np.testing.assert_array_equal(fit(tmp_path / "run").labels, result.labels)
    assert not any(path.exists() for path in left)


def killed(code, *args):
    """Run Python code in a process that kills itself."""
    lines = "import os, signal, sys\ndie = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
    ended = subprocess.run([sys.executable, "-c", lines + textwrap.dedent(code), *map(str, args)], check=False)
    assert ended.returncode == -signal.SIGKILL


def test_a_process_that_is_killed_at_its_first_write(tmp_path, result):
    np.save(tmp_path / "X.npy", ROWS)
    code = """
        import numpy, bigsmic
        os.link = die
        bigsmic.fit(numpy.load(sys.argv[1]), 3, out=sys.argv[2])
    """
    killed(code, tmp_path / "X.npy", tmp_path / "run")
    assert [path.suffix for path in (tmp_path / "run").iterdir()] == [".partial"]
    np.testing.assert_array_equal(fit(tmp_path / "run").labels, result.labels)
    assert not list((tmp_path / "run").rglob("*.partial"))


def test_a_prediction_that_is_killed_is_written_over_by_the_same_call(tmp_path, result, archive):
    code = """
        import bigsmic, bigsmic.prediction
        bigsmic.prediction._predict_into = die
        bigsmic.Result.open(sys.argv[1]).predict(sys.argv[2], component="X", out=sys.argv[3])
    """
    out = tmp_path / "predicted"
    killed(code, result.location, archive, out)
    assert zarr.open_group(str(out), mode="r").attrs["bigsmic_prediction"]["complete"] is False
    with pytest.raises(RunError, match="has predictions of other rows, or by another fit"):
        result.predict(ROWS[:200], out=out)
    labels = result.predict(archive, component="X", out=out)
    np.testing.assert_array_equal(labels[...], result.predict(ROWS))
    assert zarr.open_group(str(out), mode="r").attrs["bigsmic_prediction"]["complete"] is True
    assert {path.name for path in out.iterdir()} == {"zarr.json", "labels", "posterior"}


# -- where predictions may be written


def test_the_same_predictions_are_written_again(tmp_path, result, archive):
    for data in ({"data": ROWS}, {"data": archive, "component": "X"}, {"data": da.from_array(ROWS, chunks=50)}):
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        first = result.predict(out=out, **data)[...]
        again = bigsmic.Result.open(result.location).predict(out=out, **data)
        np.testing.assert_array_equal(again[...], first)


def test_a_pickle_of_the_same_fit_writes_the_same_predictions_again(tmp_path, result):
    result.predict(ROWS, out=tmp_path / "predicted")
    travelled = pickle.loads(pickle.dumps(fit()))
    labels = travelled.predict(ROWS, out=tmp_path / "predicted")
    np.testing.assert_array_equal(labels[...], result.predict(ROWS))


def test_predictions_of_others_are_not_written_over(tmp_path, result, archive):
    out = tmp_path / "predicted"
    result.predict(ROWS, out=out)
    before = tree(out)
    other = fit(seed=1)
    message = (
        r"out='.*predicted' has predictions of other rows, or by another fit, and is not overwritten, unless "
        "overwrite=True allows it for its arrays labels and posterior; give another out="
    )
    for who, rows in ((result, ROWS[::-1]), (result, archive / "X"), (other, ROWS)):
        with pytest.raises(RunError, match=message):
            who.predict(rows, out=out)
    assert tree(out) == before
    labels = result.predict_proba(ROWS[:150], out=out, overwrite=True)
    assert labels.shape == (150, 3)
    np.testing.assert_array_equal(result.predict(ROWS[:150], out=out)[...], result.predict(ROWS[:150]))


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_prediction_leaves_what_is_of_others_as_it_was(tmp_path, result, name, overwrite):
    OTHERS[name][0](tmp_path / "place")
    if overwrite and name in ("a group", "its attributes"):
        result.predict(ROWS, out=tmp_path / "place", overwrite=True)
        return
    before = tree(tmp_path)
    with pytest.raises(RunError, match=r"predict: out='.*place' is a.*; give another out="):
        result.predict(ROWS, out=tmp_path / "place", overwrite=overwrite)
    assert tree(tmp_path) == before


def test_paths_may_begin_with_the_home_folder(tmp_path, monkeypatch):
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    np.save(home / "rows.npy", ROWS)
    fit("~/run")
    bigsmic.Result.open("~/run").predict("~/rows.npy", out="~/predictions")
    assert sorted(path.name for path in home.iterdir()) == ["predictions", "rows.npy", "run"]
    assert list(here.iterdir()) == []


def names_of_run(location, folder):
    """Ways to say where a run is, and what is in it."""
    (folder / "link").symlink_to(location)
    yield from (location, location + "/", f"file://{location}", folder / "link", os.path.relpath(location))
    yield from (f"{location}/../{Path(location).name}", f"{location}/rows", f"{location}/new", folder / "link" / "new")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_is_never_predicted_into(tmp_path, result, overwrite):
    before = tree(result.location)
    for out in names_of_run(result.location, tmp_path):
        with pytest.raises(RunError, match=r"is, lies in, or contains the run that predicts, '.*', which is never"):
            result.predict(ROWS, out=out, overwrite=overwrite)
    other = fit(tmp_path / "other", seed=1)
    with pytest.raises(RunError, match=r"run.zarr' is a run directory, and is not overwritten; give another out="):
        other.predict(ROWS, out=result.location, overwrite=overwrite)
    with pytest.raises(RunError, match="would lie within the run"):
        other.predict(ROWS, out=f"{result.location}/new", overwrite=overwrite)
    cut = result.cut(2)
    with pytest.raises(RunError, match="contains the run that predicts"):
        cut.predict(ROWS, out=result.location, overwrite=overwrite)
    assert tree(result.location) == before
    np.testing.assert_array_equal(fit(result.location).labels, result.labels)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("component", ["X", "posterior"])
def test_the_archive_that_is_read_is_never_predicted_into(tmp_path, result, archive, overwrite, component):
    before = tree(archive)
    opened = zarr.open_group(str(archive), mode="r")[component]
    inputs = [{"data": archive, "component": component}, {"data": opened}, {"data": archive / component}]
    inputs += [{"data": da.from_zarr(opened)}]
    for data in inputs:
        for out in (archive, f"{archive}/", f"file://{archive}", archive / component, archive / component / "new"):
            with pytest.raises(
                RunError, match=r"is, lies in, or contains the archive that is read, '.*', which is never"
            ):
                result.predict(out=out, overwrite=overwrite, **data)
    assert tree(archive) == before


def test_arrays_of_others_are_written_over_where_that_is_asked_for(result, archive):
    before = tree(archive / "X")
    with pytest.raises(RunError, match=r"is a Zarr group with other members \(X, labels, posterior\)"):
        result.predict(ROWS, out=archive)
    assert tree(archive / "X") == before
    labels = result.predict(ROWS, out=archive, overwrite=True)
    np.testing.assert_array_equal(labels[...], result.predict(ROWS))
    assert zarr.open_group(str(archive), mode="r")["posterior"].shape == (300, 3)
    assert tree(archive / "X") == before


def test_what_is_no_array_is_never_written_over(tmp_path, result):
    group = zarr.open_group(str(tmp_path / "g"), mode="w")
    group.create_group("labels").create_array("mine", data=ROWS)
    group.create_group("lease", attributes={"flat": "Baker Street"})
    before = tree(tmp_path)
    with pytest.raises(
        RunError, match="has a 'labels' that is not an array, and is not overwritten; give another out="
    ):
        result.predict(ROWS, out=tmp_path / "g", overwrite=True)
    assert tree(tmp_path) == before


def test_a_new_group_in_an_archive_may_have_predictions_of_it(result, archive):
    before = tree(archive / "X")
    labels = result.predict(archive, component="X", out=archive / "predicted")
    np.testing.assert_array_equal(labels[...], result.predict(ROWS))
    assert tree(archive / "X") == before


def test_predictions_that_are_being_written_are_left_alone(tmp_path, result):
    def again(stage, done, total):
        if done == total:
            with pytest.raises(RunLockedError, match=f"being written by process {os.getpid()}"):
                result.predict(ROWS, out=tmp_path / "predicted")
            tried.append(stage)

    tried: list = []
    result.predict(ROWS, out=tmp_path / "predicted", progress=again)
    assert tried == ["predict"]


def test_predictions_of_a_graph_are_written_too(tmp_path):
    from sklearn.neighbors import kneighbors_graph

    graph = kneighbors_graph(ROWS, 20, mode="distance")
    found = bigsmic.fit(graph, 3, metric="precomputed", n_threads=1)
    labels = found.predict(graph[:50], out=tmp_path / "predicted")
    np.testing.assert_array_equal(labels[...], found.predict(graph[:50]))
    found.predict(graph[:50], out=tmp_path / "predicted")
    with pytest.raises(RunError, match="has predictions of other rows"):
        found.predict(graph[50:100], out=tmp_path / "predicted")


def test_predictions_behind_a_url(memory, result):
    out = f"{memory}/predicted"
    labels = result.predict(ROWS, out=out)[...]
    np.testing.assert_array_equal(result.predict(ROWS, out=f"{out}/")[...], labels)
    with pytest.raises(RunError, match="has predictions of other rows"):
        result.predict(ROWS[:9], out=out)
    far = fit(f"{memory}/run")
    for out in (f"{memory}/run", f"{memory}//run/", f"{memory}/run/rows", f"{memory}/predicted/../run"):
        with pytest.raises(RunError, match=r"contains the run that predicts, 'memory://writing/run', which is never"):
            far.predict(ROWS, out=out, overwrite=True)
    with pytest.raises(RunError, match="is a run directory"):
        result.predict(ROWS, out=f"{memory}/run", overwrite=True)


def test_the_command_asks_too(tmp_path, result, archive):
    def predict(*args):
        return CliRunner().invoke(main.app, ["predict", result.location, str(archive / "X"), "--out", *map(str, args)])

    other = write_archive(tmp_path / "other.zarr", labels=ROWS)
    refused = predict(other)
    assert refused.exit_code == 5
    assert re.search(r"is a Zarr group with other members \(labels\)", refused.output)
    assert predict(other, "--overwrite").exit_code == 0
    assert zarr.open_group(str(other), mode="r")["labels"].shape == (300,)


# -- which places are the same


@pytest.mark.parametrize(
    ("place", "other", "inside"),
    [
        ("s3://b/a", "s3://b/a/", True),
        ("s3a://key:word@b//a/x?sig=1", "s3://b/a", True),
        ("s3://b/ab", "s3://b/a", False),
        ("s3://b/a/../c", "s3://b/c", True),
        ("simplecache::s3://b/a/x", "s3://b/a", True),
        ("gcs://b/a", "gs://b", True),
        ("/data/a", "s3://data/a", False),
        ("/data/a/b", "/data/a", True),
        ("/data/ab", "/data/a", False),
        ("/data/a", "/", True),
        ("file:///data/a%20b", "/data/a b", True),
    ],
)
def test_places(place, other, inside):
    assert destinations.lies_in(place, other) is inside


def test_places_by_links(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    monkeypatch.chdir(tmp_path)
    assert destinations.lies_in("b/new", tmp_path / "a")
    assert destinations.lies_in("b/../a/.", "b")
    assert not destinations.lies_in("new", tmp_path / "a")
