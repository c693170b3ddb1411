from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from small_fits import BRIEF, FAST

import bigsmic
from bigsmic.errors import InputError
from bigsmic.stages import checkpoints
from bigsmic.stages.checkpoints import INTERVAL, Checkpoints
from bigsmic.store import Run

pytestmark = pytest.mark.usefixtures("many_blocks")


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when a test says so."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(checkpoints, "time", clock)
    return clock


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "run")
    yield run
    run.close()


def solve_of(run, checkpoints=True):
    return Checkpoints(SimpleNamespace(run=run, plan=SimpleNamespace(checkpoints=checkpoints)), "solve", 2)


def write(kept, value):
    def save(name):
        for block in range(2):
            kept.run.write(name, block, {"x": np.array([value])})

    kept.write(save, {"value": np.array([value])})


def newest(kept):
    return kept.restore(lambda name: int(kept.run.read(name, 2, "value")[0]))


def test_one_is_due_a_minute_after_the_last(run, clock, monkeypatch):
    monkeypatch.delenv(INTERVAL)
    kept = solve_of(run)
    clock.now = 59.0
    assert not kept.due
    clock.now = 61.0
    assert kept.due
    write(kept, 1)
    assert not kept.due
    clock.now = 121.0
    assert kept.due


def test_without_a_run_directory_to_resume_from_none_is_due(run, clock):
    kept = solve_of(run, checkpoints=False)
    clock.now = 1e9
    assert not kept.due
    assert newest(kept) is None


def test_the_newest_that_is_whole_counts(run):
    kept = solve_of(run)
    assert newest(kept) is None
    for value in (1, 2, 3):
        write(kept, value)
    assert newest(solve_of(run)) == 3
    assert solve_of(run).restore(lambda name: None) is None  # all damaged
    assert newest(solve_of(run)) is None


def test_the_one_that_a_solve_went_on_from_is_not_written_over(run):
    for value in range(1, 6):
        kept = solve_of(run)
        newest(kept)
        with pytest.raises(KeyboardInterrupt):
            kept.write(lambda name: (_ for _ in ()).throw(KeyboardInterrupt), {})
        assert newest(solve_of(run)) == (value - 1 or None)
        kept = solve_of(run)
        newest(kept)
        write(kept, value)


@pytest.mark.parametrize("given", ["soon", "-1", "nan", "inf"])
def test_an_interval_that_is_none_is_refused_before_anything_is_done(monkeypatch, blobs, tmp_path, given):
    monkeypatch.setenv(INTERVAL, given)
    with pytest.raises(InputError, match=rf"{INTERVAL}='{given}'; use a number of seconds, such as 60"):
        bigsmic.fit(blobs[0], 4, out=tmp_path / "run", **FAST)
    assert not (tmp_path / "run").exists()


def written(monkeypatch, X, out, **options):
    """What a fit writes for later restarts: (stage, block, columns)."""
    found, write = [], Run.write

    def noting(run, stage, block, arrays, *more, **others):
        if stage.startswith("restart."):
            found.append((stage, block, len(arrays["V"]) if "V" in arrays else 0))
        return write(run, stage, block, arrays, *more, **others)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "write", noting)
        result = bigsmic.fit(X, 4, out=out, **{"n_threads": 1} | options)
    return found, result


@pytest.mark.parametrize("options", [BRIEF, {"method": "mwca", "kernel": "local_scaling"}])
def test_a_short_solve_writes_none_and_gives_the_same_labels(monkeypatch, blobs, tmp_path, options):
    every, with_all = written(monkeypatch, blobs[0], tmp_path / "all", **options)
    monkeypatch.setenv(INTERVAL, "60")
    none, without = written(monkeypatch, blobs[0], tmp_path / "none", **options)
    assert every
    assert none == []
    np.testing.assert_array_equal(without.labels, with_all.labels)
    np.testing.assert_array_equal(without.posterior[:], with_all.posterior[:])


def test_locked_columns_are_written_once(monkeypatch, blobs, tmp_path):
    found, _ = written(monkeypatch, blobs[0], tmp_path / "run", n_centers=40)
    locked = [(stage, block, columns) for stage, block, columns in found if stage.endswith(".locked")]
    assert len(locked) > 10
    assert len({entry[:2] for entry in locked}) == len(locked)
    of_solve = Counter()
    for stage, block, columns in locked:
        of_solve[stage.rsplit(".", 3)[0], block] += columns
    assert max(of_solve.values()) <= 24  # eigenvectors that are wanted
