"""Calls of a run that was made from other rows or settings: what is the same is found, what is not is said."""

import errno
import os

import numpy as np
import pytest
import scipy.sparse
from small_fits import BRIEF

import bigsmic
from bigsmic import SMIC, store
from bigsmic.errors import RunError, RunMismatchError, StorageError
from bigsmic.store.objects import LocalBytes


class Killed(BaseException):
    """What no handler of errors catches."""


@pytest.fixture
def grown(tmp_path, blobs):
    """Files of 600 rows, and of these and 100 more."""
    paths = [tmp_path / "then.npy", tmp_path / "now.npy"]
    for path, n in zip(paths, (600, 700), strict=True):
        np.save(path, blobs[0][:n])
    return [str(path) for path in paths]


def kill_before(stage, data, out, **options):
    """Fit until a block of a stage would be written."""
    with pytest.MonkeyPatch.context() as patch:
        write = store.Run.write

        def guarded(run, name, *args, **more):
            if name == stage:
                raise Killed
            return write(run, name, *args, **more)

        patch.setattr(store.Run, "write", guarded)
        with pytest.raises(Killed):
            bigsmic.fit(data, 4, out=out, **BRIEF, **options)


@pytest.mark.parametrize("stage", ["scan", "graph", "spectrum", "output"])
def test_a_fit_that_was_cut_short_goes_on_after_the_archive_has_grown(grown, tmp_path, stage):
    then, now = grown
    whole = bigsmic.fit(then, 4, out=tmp_path / "whole", **BRIEF)
    kill_before(stage, then, tmp_path / "run")
    resumed = bigsmic.fit(now, 4, out=tmp_path / "run", rows=slice(600), **BRIEF)
    assert resumed._run.identity == whole._run.identity
    np.testing.assert_array_equal(resumed.labels, whole.labels)
    np.testing.assert_array_equal(np.asarray(resumed.posterior), np.asarray(whole.posterior))
    np.testing.assert_array_equal(resumed.rows, np.arange(600))
    assert resumed.update(now).rows == 100


def test_of_an_archive_that_has_grown_the_first_rows_are_those_of_a_run(grown, tmp_path):
    then, now = grown
    result = bigsmic.fit(then, 4, out=tmp_path / "run", **BRIEF)
    assert bigsmic.fit(now, 4, out=tmp_path / "run", rows=slice(600), **BRIEF)._run.id == result._run.id
    np.testing.assert_array_equal(result.profiles(now).mean, result.profiles(then).mean)
    with pytest.raises(RunMismatchError, match=r"a run of this archive, .* its rows are rows=slice\(0, 600\)$"):
        bigsmic.fit(now, 4, out=tmp_path / "run", **BRIEF)


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 4, but the data show 3 groups")
def test_rows_of_a_run_are_named_where_the_archive_has_them(grown, tmp_path):
    bigsmic.fit(grown[0], 4, out=tmp_path / "run", rows=slice(-300, None), **BRIEF)
    with pytest.raises(RunMismatchError, match=r"its rows are rows=slice\(300, 600\)$"):
        bigsmic.fit(grown[1], 4, out=tmp_path / "run", rows=slice(-300, None), **BRIEF)


@pytest.mark.parametrize("change", ["columns", "fewer", "seed"])
def test_rows_are_not_blamed_for_what_else_differs(grown, tmp_path, blobs, change):
    bigsmic.fit(grown[0], 4, out=tmp_path / "run", **BRIEF)
    X, seed = {
        "columns": (blobs[0][:, 1:], 0), "fewer": (blobs[0][:500], 0), "seed": (blobs[0][:600], 1)
    }[change]  # fmt: skip
    with pytest.raises(RunMismatchError, match=r"or the stored values$"):
        bigsmic.fit(X, 4, out=tmp_path / "run", seed=seed, **BRIEF)


@pytest.mark.parametrize(
    ("stored", "asked", "message"),
    [
        (2, 3, r"\n  c \(n_clusters\): stored 2, asked 3\n"),
        (2, None, r"\n  c \(n_clusters\): stored 2, asked None\n"),
        (None, (2, 5), r"\n  c \(n_clusters\): stored None, asked \[2, 5\]\n"),
    ],
)
def test_numbers_of_clusters_are_said_as_they_were_asked_for(blobs, tmp_path, stored, asked, message):
    bigsmic.fit(blobs[0], stored, out=tmp_path / "run", **BRIEF)
    with pytest.raises(RunMismatchError, match=message) as caught:
        bigsmic.fit(blobs[0], asked, out=tmp_path / "run", **BRIEF)
    assert str(caught.value).count(": stored ") == 1


def test_an_estimator_with_any_seed_resumes_with_that_of_its_run(blobs, tmp_path):
    model, again = (SMIC(4, out=tmp_path / "run").fit(blobs[0]) for _ in range(2))
    assert again.seed_ == model.seed_
    assert again.result_._run.id == model.result_._run.id
    seeds = {SMIC(4, out=tmp_path / f"other{i}").fit(blobs[0]).seed_ for i in range(2)}
    assert len(seeds | {model.seed_}) == 3


@pytest.fixture
def read_only(monkeypatch):
    """Folders are those of a file system that is mounted read-only, as far as a run makes files in them."""

    def refuse(self, path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def mount():
        for name in ("set", "create", "delete"):
            monkeypatch.setattr(LocalBytes, name, lambda self, key, *args: refuse(self, key))

    return mount


def test_a_finished_run_that_cannot_be_written_is_found_finished(blobs, tmp_path, read_only):
    X = blobs[0][:300]
    written = bigsmic.fit(X, 4, out=tmp_path / "run", **BRIEF)
    read_only()
    found = bigsmic.fit(X, 4, out=tmp_path / "run", **BRIEF)
    assert found._run.id == written._run.id
    np.testing.assert_array_equal(found.labels, written.labels)
    with pytest.raises(RunMismatchError, match="asked 3"):
        bigsmic.fit(X, 3, out=tmp_path / "run", **BRIEF)
    with pytest.raises(RunMismatchError, match="are not those with which"):
        bigsmic.fit(X + 1, 4, out=tmp_path / "run", **BRIEF)


@pytest.mark.parametrize("stage", ["scan", "output"])
def test_an_unfinished_run_that_cannot_be_written_is_refused(blobs, tmp_path, read_only, stage):
    X = blobs[0][:300]
    kill_before(stage, X, tmp_path / "run")
    read_only()
    with pytest.raises(
        RunError, match=r"cannot be written, and the fit in it is not finished .*Read-only.* another out="
    ):
        bigsmic.fit(X, 4, out=tmp_path / "run", **BRIEF)


@pytest.fixture
def fails(monkeypatch):
    """``fails(number)``: no run can make a file any more, for the reason of that number."""

    def fail(number):
        def create(self, key, *args):
            raise OSError(number, os.strerror(number), key)

        monkeypatch.setattr(LocalBytes, "create", create)

    return fail


def test_other_failures_to_write_are_not_taken_for_a_read_only_place(blobs, tmp_path, fails):
    X = blobs[0][:300]
    bigsmic.fit(X, 4, out=tmp_path / "run", **BRIEF)
    fails(errno.EIO)
    with pytest.raises(StorageError, match="Input/output error"):
        bigsmic.fit(X, 4, out=tmp_path / "run", **BRIEF)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_finished_run_is_found_finished_on_a_full_disk(blobs, tmp_path, fails, number):
    X = blobs[0][:300]
    written = bigsmic.fit(X, 4, out=tmp_path / "run", **BRIEF)
    kill_before("output", X, tmp_path / "unfinished")
    fails(number)
    found = bigsmic.fit(X, 4, out=tmp_path / "run", **BRIEF)
    np.testing.assert_array_equal(found.labels, written.labels)
    for out in ("unfinished", "new"):
        with pytest.raises(StorageError, match=f"{out}: no space left on the device; free some"):
            bigsmic.fit(X, 4, out=tmp_path / out, **BRIEF)


def test_a_run_that_cannot_be_written_says_what_to_do_instead_of_changing_it(blobs, grown, tmp_path, read_only):
    run = bigsmic.fit(grown[0], 4, out=tmp_path / "run", **BRIEF)
    read_only()
    way = (
        r"run can only be read \(Read-only file system\); .* save a copy where it may, Result.open\(run\).save\(copy\)"
    )
    with pytest.raises(RunError, match=way):
        run.set_names({0: "idle"})
    with pytest.raises(RunError, match=way):
        run.update(grown[1])


def test_a_graph_is_compared_with_that_of_a_finished_run_that_cannot_be_written(tmp_path, read_only):
    graph = scipy.sparse.block_diag([scipy.sparse.csr_array(np.ones((40, 40)))] * 2, format="csr")
    options = BRIEF | {"kernel": "precomputed"}
    written = bigsmic.fit(graph, 2, out=tmp_path / "run", **options)
    read_only()
    np.testing.assert_array_equal(bigsmic.fit(graph, 2, out=tmp_path / "run", **options).labels, written.labels)
    with pytest.raises(RunMismatchError, match="the matrix is not the one"):
        bigsmic.fit(graph * 2, 2, out=tmp_path / "run", **options)
