"""Killed, full, damaged, changed: what is finished is kept, what is not is done again, and the labels stay."""

import errno
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import zarr
from locations import environment
from small_fits import BRIEF, FAST, cut_small, keep_on_disk

import bigsmic
from bigsmic import store
from bigsmic.errors import CorruptBlockError, InputError, RunError, RunLockedError, RunMismatchError, StorageError

pytestmark = pytest.mark.usefixtures("many_blocks")

OPTIONS = {"merge": BRIEF, "auto": FAST}
"""By assignment; all eigenproblems that there are by default in one of them."""
AGAIN = ("basis.", "degree.", "routed_rows", "restart.")
"""Stages of which a block may be written twice: a solve writes its basis as a whole when it ends, degrees come with
weights, and pieces with routes."""


class Killed(BaseException):
    """What no handler of errors catches."""


class Tripwire:
    """Counts what a run does to its directory, and ends it at one of these events.

    Parameters
    ----------
    at : int, or callable of an event's name and key, optional
        The event that does not take place.
    end : exception, or callable that returns one
    """

    def __init__(self, monkeypatch, at=None, end=Killed):
        self.events, self.end = [], end
        self.is_here = at if callable(at) else lambda name, key: len(self.events) == at
        for name in ("_set", "_delete", "write_rows"):
            monkeypatch.setattr(store.Run, name, self.watched(name, getattr(store.Run, name)))

    def watched(self, name, method):
        def call(run, key, *args):
            here = self.is_here(name, key)
            self.events.append((name, key))
            if here:
                raise self.end() if callable(self.end) else self.end
            return method(run, key, *args)

        return call

    @property
    def ledgers(self):
        """Blocks that were written, as (stage, block)."""
        parts = [key.split("/") for name, key in self.events if name == "_set"]
        return [(part[0], int(part[1])) for part in parts if len(part) == 3 and part[2] == "zarr.json"]


def ledgers(out):
    """Blocks that the ledgers of a run have."""
    found = set()
    for path in Path(out).glob("*/[0-9]*/zarr.json"):
        if json.loads(path.read_text())["attributes"].get("ledger"):
            found.add((path.parts[-3], int(path.parts[-2])))
    return found


def fit(X, out=None, assignment="merge", **options):
    return bigsmic.fit(X, 4, out=out, assignment=assignment, **OPTIONS[assignment], **options)


class Undisturbed(NamedTuple):
    """A fit that nothing has disturbed."""

    out: str
    labels: np.ndarray
    posterior: np.ndarray
    n_events: int


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, blobs):
    found = {}
    for assignment in ("merge", "auto"):
        with pytest.MonkeyPatch.context() as patch:
            cut_small(patch)
            tripwire = Tripwire(patch)
            result = fit(blobs[0], tmp_path_factory.mktemp(assignment) / "run", assignment=assignment)
        posterior = np.asarray(result.posterior)
        found[assignment] = Undisturbed(result.location, result.labels, posterior, len(tripwire.events))
    return found


def assert_same(result, undisturbed):
    np.testing.assert_array_equal(result.labels, undisturbed.labels)
    np.testing.assert_array_equal(np.asarray(result.posterior), undisturbed.posterior)


def chunks(out):
    """Bytes of everything that a run keeps, but for its metadata."""
    return {str(path.relative_to(out)): path.read_bytes() for path in Path(out).rglob("c*") if path.is_file()}


# -- killed


def assert_goes_on(out, X, undisturbed, **options):
    """Fit again: nothing is written twice, and the run is in the end the one that nothing has disturbed."""
    before = ledgers(out)
    with pytest.MonkeyPatch.context() as patch:
        rerun = Tripwire(patch)
        result = fit(X, out, **options)
    assert_same(result, undisturbed)
    again = {block for block in rerun.ledgers if block in before}
    assert {block for block in again if not block[0].startswith(AGAIN)} == set()
    assert ledgers(out) == ledgers(undisturbed.out)
    assert chunks(out) == chunks(undisturbed.out)


def cut_short(out, X, at, **options):
    with pytest.MonkeyPatch.context() as patch:
        Tripwire(patch, at)
        with pytest.raises(Killed):
            fit(X, out, **options)


SHARES = np.linspace(0.001, 0.999, 24).round(3).tolist()


@pytest.mark.parametrize(("assignment", "part"), list(zip(["merge", "auto"] * 12, SHARES, strict=True)))
def test_a_run_that_was_cut_short_goes_on_with_what_it_has(tmp_path, blobs, undisturbed, assignment, part):
    cut_short(tmp_path / "run", blobs[0], int(part * undisturbed[assignment].n_events), assignment=assignment)
    assert_goes_on(tmp_path / "run", blobs[0], undisturbed[assignment], assignment=assignment)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["merge", "auto"])
def test_it_goes_on_wherever_it_was_cut_short(tmp_path, blobs, undisturbed, assignment):
    for at in range(0, undisturbed[assignment].n_events, 7):
        cut_short(tmp_path / str(at), blobs[0], at, assignment=assignment)
        assert_goes_on(tmp_path / str(at), blobs[0], undisturbed[assignment], assignment=assignment)
        shutil.rmtree(tmp_path / str(at))


def test_a_run_may_be_cut_short_more_than_once(tmp_path, blobs, undisturbed):
    for _ in range(6):
        cut_short(tmp_path / "run", blobs[0], undisturbed["merge"].n_events // 8)
    assert_goes_on(tmp_path / "run", blobs[0], undisturbed["merge"])


DRIVER = """
import os, signal, sys
import numpy as np, pytest
from small_fits import SMALL
from test_faults import Tripwire, fit

X, out = np.load(sys.argv[1]), sys.argv[2]
for at in map(int, sys.argv[3:]):
    child = os.fork()
    if not child:
        Tripwire(pytest.MonkeyPatch(), at, lambda: os.kill(os.getpid(), signal.SIGKILL))
        fit(X, f"{out}/{at}", block_sizes=SMALL)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.end_to_end
def test_a_killed_process_leaves_a_run_that_goes_on(tmp_path, blobs, undisturbed):
    np.save(tmp_path / "X.npy", blobs[0])
    at = [int(part * undisturbed["merge"].n_events) for part in (0.1, 0.3, 0.45, 0.6, 0.97)]
    driver = [sys.executable, "-c", DRIVER, tmp_path / "X.npy", tmp_path, *map(str, at)]
    done = subprocess.run(driver, env=environment(Path(__file__).parent), capture_output=True)
    assert done.stdout.split() == [b"-9"] * len(at), done.stderr.decode()
    for event in at:
        (tmp_path / str(event) / "scan" / "c.0.77-88.partial").touch()
        assert_goes_on(tmp_path / str(event), blobs[0], undisturbed["merge"])
        assert not list((tmp_path / str(event)).rglob("*.partial"))


def test_it_may_go_on_with_other_threads_and_less_memory(tmp_path, blobs, undisturbed, monkeypatch):
    cut_short(tmp_path / "run", blobs[0], undisturbed["merge"].n_events // 2)
    keep_on_disk(monkeypatch)
    result = bigsmic.fit(blobs[0], 4, out=tmp_path / "run", **BRIEF | {"n_threads": 2})
    assert_same(result, undisturbed["merge"])
    assert not (tmp_path / "run" / ".scratch").exists()


# -- finished


def test_a_finished_run_is_opened_again_without_work(tmp_path, blobs, undisturbed, monkeypatch):
    shutil.copytree(undisturbed["merge"].out, tmp_path / "run")
    written = []
    for name in ("write", "write_rows"):
        monkeypatch.setattr(store.Run, name, lambda run, *args, **options: written.append(args))
    result = fit(blobs[0], tmp_path / "run")
    assert_same(result, undisturbed["merge"])
    assert written == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t": (3,)}, r"t: stored \[3, 5\], asked \[3\]"),
        ({"seed": 7}, "seed: stored 0, asked 7"),
        ({"assignment": "paper"}, "assignment: stored 'merge', asked 'paper'"),
        ({"prior": [0.4, 0.3, 0.2, 0.1]}, "prior: stored None, asked"),
    ],
)
def test_other_parameters_are_refused_and_both_are_shown(blobs, undisturbed, options, message):
    with pytest.raises(RunMismatchError, match=f"(?s){message}.*another out="):
        bigsmic.fit(blobs[0], 4, out=undisturbed["merge"].out, **BRIEF | options)


def test_other_input_is_refused(blobs, undisturbed):
    with pytest.raises(RunMismatchError, match=r"input.rows: stored 700, asked 699"):
        fit(blobs[0][:-1], undisturbed["merge"].out)
    changed = blobs[0].copy()
    changed[300, 2] += 1e-3
    with pytest.raises(RunMismatchError, match=r"rows 256:512 are not those with which .* was started"):
        fit(changed, undisturbed["merge"].out)


def test_input_that_changes_between_two_runs_is_refused(tmp_path, blobs, undisturbed):
    cut_short(tmp_path / "run", blobs[0], 20)
    with pytest.raises(RunMismatchError, match=r"rows 0:256 are not those"):
        fit(blobs[0] + 1, tmp_path / "run")


def test_input_that_changes_during_a_run_is_refused(tmp_path, blobs):
    X = blobs[0].copy()

    def change(stage, done, total):
        X[0, 0] += stage == "cells"

    with pytest.raises(RunMismatchError, match=r"rows 0:256 are not those"):
        fit(X, tmp_path / "run", progress=change)


@pytest.mark.parametrize("when", ["during", "between"])
def test_an_archive_that_changes_is_refused(tmp_path, blobs, when):
    archive = zarr.create_array(str(tmp_path / "a.zarr"), data=blobs[0], chunks=(100, 5))

    def change(stage, done, total):
        if stage == "cells":
            archive[650, 2] += 1
            if when == "between":
                raise Killed

    with pytest.raises(RunMismatchError if when == "during" else Killed):
        fit(tmp_path / "a.zarr", tmp_path / "run", progress=change)
    with pytest.raises(RunMismatchError, match=r"rows 512:700 are not those with which .* was started; restore the in"):
        fit(tmp_path / "a.zarr", tmp_path / "run")
    archive[650, 2] = blobs[0][650, 2]
    fit(tmp_path / "a.zarr", tmp_path / "run")


# -- damaged


def damage(path, how):
    if how == "delete":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data if how == "flip" else data[: len(data) // 2])


def kept_stages(out):
    return sorted({stage for stage, _ in ledgers(out)})


@pytest.mark.parametrize("how", ["truncate", "flip", "delete"])
@pytest.mark.parametrize("nth", range(3))
def test_damage_is_repaired_wherever_it_is(tmp_path, blobs, undisturbed, how, nth):
    """Three runs for each kind of damage; in each, one array of every third stage is damaged."""
    for assignment in ("merge", "auto"):
        out = tmp_path / assignment
        shutil.copytree(undisturbed[assignment].out, out)
        for stage in kept_stages(out)[nth::3]:
            found = sorted(path for path in (out / stage).rglob("c*") if path.is_file())
            if found:
                damage(found[hash_of(stage) % len(found)], how)
        result = fit(blobs[0], out, assignment=assignment)
        assert_same(result, undisturbed[assignment])
        assert chunks(out) == chunks(undisturbed[assignment].out)
        assert_same(bigsmic.Result.open(out), undisturbed[assignment])


def hash_of(name):
    return sum(map(ord, name))


@pytest.mark.parametrize("how", ["truncate", "flip", "delete"])
def test_damaged_ledgers_are_repaired(tmp_path, blobs, undisturbed, how):
    for nth in range(3):
        out = tmp_path / f"{how}{nth}"
        shutil.copytree(undisturbed["merge"].out, out)
        for stage in kept_stages(out)[nth::3]:
            damage(sorted((out / stage).glob("[0-9]*/zarr.json"))[-1], how)
        fit(blobs[0], out)
        assert chunks(out) == chunks(undisturbed["merge"].out)
        assert ledgers(out) == ledgers(undisturbed["merge"].out)


@pytest.mark.parametrize(
    ("what", "how"),
    [
        (what, how)
        for what in ("labels/c/1", "posterior/c/0/0", "agreement/c/2")
        for how in ("truncate", "flip", "delete")
    ]
    + [("labels/zarr.json", "truncate"), ("posterior/zarr.json", "delete")],
)
def test_damaged_output_is_repaired(tmp_path, blobs, undisturbed, what, how):
    shutil.copytree(undisturbed["merge"].out, tmp_path / "run")
    damage(tmp_path / "run" / what, how)
    assert_same(fit(blobs[0], tmp_path / "run"), undisturbed["merge"])
    assert chunks(tmp_path / "run") == chunks(undisturbed["merge"].out)


def arrays_of(out):
    """One chunk of every array of every kept stage that has any bytes, as (stage and array, path)."""
    found = {}
    for path in sorted(Path(out).glob("*/[0-9]*/*/c*")):
        if path.stat().st_size:
            found[path.parts[-4], path.parts[-2]] = path
    return sorted(found.items())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["truncate", "flip", "delete"])
@pytest.mark.parametrize("assignment", ["merge", "auto"])
def test_one_chunk_of_each_artifact_is_made_again_and_no_other_block(tmp_path, blobs, undisturbed, assignment, how):
    wanted, others = undisturbed[assignment], {}
    for _, path in arrays_of(wanted.out):
        shutil.copytree(wanted.out, tmp_path / "run")
        damage(tmp_path / "run" / path.relative_to(wanted.out), how)
        with pytest.MonkeyPatch.context() as patch:
            rerun = Tripwire(patch)
            assert_same(fit(blobs[0], tmp_path / "run", assignment=assignment), wanted)
        assert chunks(tmp_path / "run") == chunks(wanted.out)
        block = (path.parts[-4], int(path.parts[-3]))
        again = {(stage, b) for stage, b in rerun.ledgers if not is_temporary(stage) and not stage.startswith(AGAIN)}
        others[block[0]] = {stage.split(".")[0] for stage, b in again - {block}}
        shutil.rmtree(tmp_path / "run")
    assert {stage: found for stage, found in others.items() if found - TOGETHER.get(stage.split(".")[0], set())} == {}


TOGETHER = {"basis": {"spectrum"}, "labeling": {"labeling"}, "graph": {"route"}, "rows": {"route"}}
"""What is written again with a block of a stage: what one solve or one pass of moves makes, and routes with the pieces
that rows and graph are made of, which are gone."""


TEMPORARY = [
    ("routed_rows", "neighbors/"),
    ("neighbors", "lists/"),
    ("lists", "edges/"),
    ("edges", "graph/"),
    ("weights", "matrix."),
    ("matrix", "restart."),
    ("restart", "basis."),
]
"""Stages that are deleted, and the first stage to be written while each is there."""


def is_temporary(stage):
    return stage.startswith(tuple(stage for stage, _ in TEMPORARY))


@pytest.mark.parametrize(
    ("how", "stage", "reader"),
    [("flip", *stages) for stages in TEMPORARY]
    + [pytest.param(how, *stages, marks=pytest.mark.slow) for how in ("truncate", "delete") for stages in TEMPORARY],
)
def test_damage_in_a_temporary_stage_is_repaired(tmp_path, blobs, undisturbed, how, stage, reader):
    out = tmp_path / "run"
    cut_short(out, blobs[0], lambda name, key: name == "_set" and key.startswith(reader))
    found = sorted(path for path in out.glob(f"{stage}*/*/*/c*") if path.stat().st_size)
    assert found
    for path in found if stage == "restart" else found[-1:]:
        damage(path, how)
    assert_same(fit(blobs[0], out), undisturbed["merge"])
    assert chunks(out) == chunks(undisturbed["merge"].out)


def test_what_is_damaged_is_said_to_who_only_reads(tmp_path, blobs, undisturbed):
    out = tmp_path / "run"
    shutil.copytree(undisturbed["merge"].out, out)
    damage(out / "cells" / "0000000" / "sites" / "c.0.0", "flip")
    result = bigsmic.Result.open(out)
    with pytest.raises(
        CorruptBlockError, match=r"sites of block 0 .* does not match its checksum; run fit on it again"
    ):
        result.predict(blobs[0][:3])
    fit(blobs[0], out)
    result.predict(blobs[0][:3])


# -- full


def test_a_full_disk_is_said_and_the_run_goes_on(tmp_path, blobs, undisturbed):
    full = OSError(errno.ENOSPC, "No space left on device")
    for part in (0.1, 0.5, 0.9):
        with pytest.MonkeyPatch.context() as patch:
            Tripwire(patch, int(part * undisturbed["merge"].n_events), full)
            with pytest.raises(StorageError, match=r"no space left .* run the same command again"):
                fit(blobs[0], tmp_path / str(part))
        assert_goes_on(tmp_path / str(part), blobs[0], undisturbed["merge"])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 KiB; skips where mounting is not permitted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip(f"mount: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(small_disk, tmp_path, blobs, undisturbed):
    with pytest.raises(StorageError, match=r"no space left .* run the same command again"):
        fit(blobs[0], small_disk / "run")
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert_goes_on(small_disk / "run", blobs[0], undisturbed["merge"])


# -- temporary runs, and the lock


def test_a_fit_that_fails_leaves_nothing_behind(tmp_path, blobs, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X = blobs[0].copy()
    X[600, 1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        fit(X)
    with pytest.MonkeyPatch.context() as patch:
        Tripwire(patch, 200)
        with pytest.raises(Killed):
            fit(blobs[0])
    assert list(tmp_path.iterdir()) == []


def test_a_second_interruption_leaves_nothing_behind(tmp_path, blobs, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    delete, calls = shutil.rmtree, []

    def impatient(*where, **how):
        if os.path.dirname(where[0]) == str(tmp_path) and not calls:
            calls.append(where)
            raise KeyboardInterrupt
        delete(*where, **how)

    monkeypatch.setattr(shutil, "rmtree", impatient)
    with pytest.MonkeyPatch.context() as patch:
        Tripwire(patch, 200)
        with pytest.raises(KeyboardInterrupt):
            fit(blobs[0])
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_run_goes_with_its_result(tmp_path, blobs, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = fit(blobs[0])
    assert [str(path) for path in tmp_path.iterdir()] == [result.location]
    del result
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_an_array_keeps_its_temporary_run(tmp_path, blobs, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    posterior = fit(blobs[0]).posterior
    gc.collect()
    np.testing.assert_allclose(posterior[...].sum(axis=1), 1, atol=1e-5)
    del posterior
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_others_is_left_alone(tmp_path, blobs):
    (tmp_path / "download.1-2.partial").touch()
    with pytest.raises(RunError, match="is a directory with other contents; give another out="):
        fit(blobs[0], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["download.1-2.partial"]


def test_a_run_that_is_being_written_is_left_alone(tmp_path, blobs):
    def again(stage, done, total):
        if stage == "graph" and not done:
            with pytest.raises(RunLockedError, match=f"being written by process {os.getpid()}"):
                fit(blobs[0], tmp_path / "run")

    fit(blobs[0], tmp_path / "run", progress=again)


def test_a_run_that_is_not_finished_is_no_result(tmp_path, blobs):
    cut_short(tmp_path / "run", blobs[0], 300)
    with pytest.raises(RunError, match="is not finished; run the same fit again"):
        bigsmic.Result.open(tmp_path / "run")
