"""What is damaged, exchanged or foreign is noticed when it is read, and made again by a fit: stages of all methods."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from damage import FITS, NEW, blocks_of, cut_smaller, finished, fit, flip, flip_block, half_finished, rows

import bigsmic
from bigsmic.errors import CorruptBlockError, RunError, StorageError

pytestmark = pytest.mark.filterwarnings("ignore::bigsmic.errors.BigsmicWarning")


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch):
    cut_smaller(monkeypatch)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs by name, made when they are asked for."""
    made: dict = {}

    def run(name):
        if name not in made:
            made[name] = finished(name, tmp_path_factory.mktemp("runs") / "run")
        return made[name]

    return run


def assert_made_again(name, out, wanted):
    assert wanted.is_like(fit(name, out))
    assert wanted.is_like(bigsmic.Result.open(out))


QUICK = ("rim", "rim batches", "kernel_rim", "mspc", "mwca")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in FITS if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_damaged_block_of_any_stage_is_made_again(name, tmp_path, runs):
    wanted = runs(name)
    for stage in blocks_of(wanted.out):
        out = tmp_path / stage
        shutil.copytree(wanted.out, out)
        flip_block(blocks_of(out)[stage][-1])
        assert_made_again(name, out, wanted)
        assert {stage: len(paths) for stage, paths in blocks_of(out).items()} == {
            stage: len(paths) for stage, paths in blocks_of(wanted.out).items()
        }
        shutil.rmtree(out)


@pytest.mark.parametrize("name", ["rim", "rim batches", "mic"])
def test_what_the_way_to_the_result_went_by_is_made_again(name, tmp_path, runs):
    """Blocks that neither labels nor predictions are read from, and that the summary tells of."""
    wanted = runs(name)
    for stage in ("optimum.t3", "optimum.t5") if name == "mic" else ("point", "start"):
        out = tmp_path / stage
        shutil.copytree(wanted.out, out)
        for block in blocks_of(out)[stage]:
            shutil.rmtree(block)
        assert_made_again(name, out, wanted)


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_damage_in_what_a_killed_fit_left_is_made_again(name, tmp_path, runs):
    """One block of every stage at once, the temporary ones included, wherever the fit was killed."""
    wanted = runs(name)
    for shard in (0.25, 0.45, 0.6, 0.75, 0.9):
        out = tmp_path / str(shard)
        half_finished(name, out, int(shard * wanted.n_events))
        for blocks in blocks_of(out).values():
            if blocks:
                flip_block(blocks[-1])
        assert_made_again(name, out, wanted)


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_exchanged_blocks_are_refused_and_made_again(name, tmp_path, runs):
    wanted = runs(name)
    for stage, blocks in blocks_of(wanted.out).items():
        if len(blocks) < 2:
            continue
        out = tmp_path / stage
        shutil.copytree(wanted.out, out)
        a, b = blocks_of(out)[stage][:2]
        a.rename(out / "spare")
        b.rename(a)
        (out / "spare").rename(b)
        with pytest.raises(CorruptBlockError, match=rf"{stage}: block 0 is not in the ledger of .*; run fit on"):
            bigsmic.store.Run(out, writable=False).entry(stage, 0)
        assert_made_again(name, out, wanted)


@pytest.mark.parametrize("name", QUICK)
def test_blocks_of_another_run_are_refused_and_made_again(name, tmp_path, runs):
    wanted = runs(name)
    other = finished(name, tmp_path / "other", rows(1))
    out = tmp_path / "run"
    shutil.copytree(wanted.out, out)
    for stage in blocks_of(out):
        shutil.rmtree(out / stage)
        shutil.copytree(other.out / stage, out / stage)
    with pytest.raises(CorruptBlockError, match="is not in the ledger"):
        bigsmic.Result.open(out).predict(rows())
    assert_made_again(name, out, wanted)


@pytest.mark.parametrize("name", [*QUICK, "smic", *(param for param in SLOW if param.values != ("smic",))])
def test_a_stage_that_is_gone_is_missed(name, tmp_path, runs):
    """No answer of a finished run leaves out in silence what it should have been made of."""
    wanted, missed = runs(name), set()
    shutil.copytree(wanted.out, tmp_path / "run")
    for stage in blocks_of(wanted.out):
        (tmp_path / "run" / stage).rename(tmp_path / "gone")
        try:
            assert wanted.is_like(bigsmic.Result.open(tmp_path / "run")), stage
        except CorruptBlockError as error:
            missed.add(error.stage)
        (tmp_path / "gone").rename(tmp_path / "run" / stage)
    assert {"scan", "output"} <= missed <= set(blocks_of(wanted.out))
    assert name != "smic" or "sharpness" in missed


# -- the arrays at the top

TOP = [("labels", "c/0"), ("labels", "c/1"), ("posterior", "c/0/0"), ("agreement", "c/1")]


@pytest.fixture
def run(tmp_path, runs):
    """A copy of a finished run of SMIC, and what it should be."""
    wanted = runs("smic")
    shutil.copytree(wanted.out, tmp_path / "run")
    return tmp_path / "run", wanted


def read(out, name):
    return np.asarray(getattr(bigsmic.Result.open(out), name))


HOW = ("flip", "truncate", "delete", "exchange")
CASES = [(*at, how) for at in TOP for how in HOW if (at[0], how) != ("agreement", "exchange")]  # its rows are all 1


@pytest.mark.parametrize(("array", "chunk", "how"), CASES)
def test_rows_are_checked_when_they_are_read(run, array, chunk, how):
    out, _ = run
    path = out / array / chunk
    if how == "flip":
        flip(path)
    elif how == "truncate":
        path.write_bytes(path.read_bytes()[:-3])
    elif how == "delete":
        path.unlink()
    else:
        other = path.with_name("1" if path.name == "0" else "0") if array != "posterior" else out / array / "c/1/0"
        path.write_bytes(other.read_bytes())
    with pytest.raises(CorruptBlockError, match=rf"{array}: rows \d+:\d+ in .*/{array} .*; run fit on it again"):
        read(out, array)


def test_a_deleted_array_is_not_all_zeros(run):
    out, _ = run
    shutil.rmtree(out / "labels" / "c")
    with pytest.raises(CorruptBlockError, match=r"labels: rows 0:256 in .* are missing"):
        read(out, "labels")
    shutil.rmtree(out / "labels")
    with pytest.raises(RunError, match=r"run/labels/zarr.json no longer exists.*run fit on it again"):
        read(out, "labels")


def test_a_slice_reads_the_blocks_that_it_touches_and_no_others(run):
    out, wanted = run
    flip(out / "posterior" / "c" / "0" / "0")
    posterior = bigsmic.Result.open(out).posterior
    np.testing.assert_array_equal(posterior[256:], wanted.posterior[256:])
    np.testing.assert_array_equal(posterior[[400, 300]], wanted.posterior[[400, 300]])
    np.testing.assert_array_equal(posterior[-1], wanted.posterior[-1])
    for key in (0, slice(None), [400, 0], np.arange(420) < 3, slice(None, None, 255)):
        with pytest.raises(CorruptBlockError, match="posterior: rows 0:256"):
            posterior[key]


def test_a_folder_in_the_place_of_a_file_is_said_to_be_deleted(run):
    out, _ = run
    file = out / "posterior/c/0/0"
    file.unlink()
    file.mkdir()
    (file / "kept").touch()
    with pytest.raises(StorageError, match=rf"posterior: writing .*: {file} is a directory .* delete it, and run"):
        fit("smic", out)
    shutil.rmtree(file)
    assert fit("smic", out).posterior[:].shape[0] == 420


def test_a_run_that_was_deleted_is_said_to_be_gone_and_how_it_comes_back(run):
    out, _ = run
    result = bigsmic.Result.open(out)
    shutil.rmtree(out)
    with pytest.raises(RunError, match=r"run no longer exists; restore it, or fit the rows again with this out="):
        result.predict(rows())


def test_a_run_in_whose_place_there_is_another_one_is_said_to_be_replaced(runs, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(runs("mspc").out, out)
    result = bigsmic.Result.open(out)
    shutil.rmtree(out)
    bigsmic.fit(rows(), 2, method="mspc", out=out)
    for read in (result.predict, lambda X: result.labels[:], lambda X: result.posterior[:]):
        with pytest.raises(RunError, match=r"run has been replaced by another run since it was opened; restore it, or"):
            read(rows())


def test_a_temporary_result_whose_files_are_gone_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = fit("mspc", None)
    labels, location = result.labels, Path(result.location)
    shutil.rmtree(location / "posterior" / "c")
    with pytest.raises(CorruptBlockError, match=r"temporary result, whose files were deleted; fit again"):
        result.posterior[:3]
    shutil.rmtree(location)
    for ask in (lambda: result.posterior[:3], lambda: result.predict(rows())):
        with pytest.raises(RunError, match=r"no longer exists.*temporary result.*fit again, with out= to keep them"):
            ask()
    assert len(labels) == 420


@pytest.mark.parametrize("stage", ["columns", "novelty"])
def test_a_stage_that_not_all_fits_have_is_missed_by_readers(tmp_path, stage):
    frame = pd.DataFrame(rows(), columns=list("abc"))
    result = fit_of_table(frame, tmp_path / "first")
    wanted = result.predict_proba(NEW)
    for out in (tmp_path / "first", tmp_path / "cut"):
        whole = result.cut(2).save(out) if out.name == "cut" else result
        shutil.rmtree(out / stage)
        found = bigsmic.Result.open(out)
        np.testing.assert_array_equal(found.labels, whole.labels)
        remedy = {"first": "run fit on it again", "cut": "delete it, and save the cut of the fit again"}[out.name]
        lost = rf"{stage}: block 0, which the fit wrote, is not in the ledger of .*; {remedy}"
        with pytest.raises(CorruptBlockError, match=lost):
            found.predict(NEW)
        with pytest.raises(CorruptBlockError, match=lost):
            found.update(pd.concat([frame, frame[:5]]))
        assert not (out / "update_log").exists()
        if out.name == "first":
            result = fit_of_table(frame, out)
            np.testing.assert_array_equal(result.predict_proba(NEW), wanted)


def fit_of_table(frame, out):
    return bigsmic.fit(frame, 3, out=out, n_threads=1, **FITS["smic"])
