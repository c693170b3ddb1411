"""Rows that come after a fit: labelled once, whatever is killed, and refused where the archive is another one."""

import pickle
import shutil

import numpy as np
import pytest
import zarr
from small_fits import BRIEF

import bigsmic
from bigsmic import portable, prediction
from bigsmic.errors import InputError, NonFiniteError, OptionError, RunError, RunLockedError, RunMismatchError
from bigsmic.features import windows
from bigsmic.numerics import hashing
from bigsmic.numerics.selection import reservoir
from bigsmic.runtime.context import Context
from bigsmic.stages import update_log
from bigsmic.store import Run
from bigsmic.store.sources.base import Source


@pytest.fixture(scope="module")
def rows():
    """Two thousand rows around three centres."""
    rng = np.random.default_rng(0)
    return (np.array([[0, 0, 0], [9, 0, 0], [0, 9, 9]])[rng.integers(0, 3, 2000)] + rng.normal(size=(2000, 3))).astype(
        "f4"
    )


@pytest.fixture
def archive(rows, tmp_path):
    """A run of the first 800 rows of an archive that has 1,500."""
    array = zarr.create_array(str(tmp_path / "X"), data=rows[:800], chunks=(100, 3))
    result = bigsmic.fit(tmp_path / "X", 3, out=tmp_path / "run", **BRIEF)
    array.append(rows[800:1500])
    return array, result, tmp_path


@pytest.fixture
def small(monkeypatch):
    """Blocks of 256 rows."""
    monkeypatch.setattr(prediction, "MAX_ROWS", 256)


@pytest.mark.usefixtures("small")
def test_new_rows_are_labelled_as_predict_does_and_once(archive, rows):
    array, result, path = archive
    found = result.update(path / "X")
    assert (found.rows, found.first, found.last) == (700, 800, 1500)
    assert sum(found.cluster_sizes) == 700
    again = bigsmic.Result.open(path / "run")
    assert again.update(path / "X").rows == 0
    np.testing.assert_array_equal(again.updates.labels, result.predict(rows[800:1500]))
    np.testing.assert_array_equal(again.updates.posterior, result.predict_proba(rows[800:1500]))
    np.testing.assert_array_equal(again.updates.novelty, result.novelty(rows[800:1500]))
    array.append(rows[1500:])
    assert again.update(path / "X").rows == 500
    np.testing.assert_array_equal(again.archive_labels()[:800], result.labels)
    np.testing.assert_array_equal(again.archive_labels()[800:], result.predict(rows[800:]))
    assert found.novel == (again.updates.novelty[:700] > 1).sum()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_killed_update_is_finished_by_the_next_one(archive, rows, after, monkeypatch):
    array, result, path = archive
    assess, calls = prediction.Predictor.assess, []

    def killed(*arguments):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return assess(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(prediction.Predictor, "assess", killed)
        with pytest.raises(KeyboardInterrupt):
            result.update(path / "X")
    assert len(result.updates) == 0
    array.append(rows[1500:1900])
    labelled = []
    with monkeypatch.context() as patch:
        patch.setattr(
            prediction.Predictor, "assess", lambda self, lo, hi: labelled.append((lo, hi)) or assess(self, lo, hi)
        )
        assert result.update(path / "X").last == 1900
    assert labelled[0][0] == 800 + 256 * after
    run = Run(str(path / "run"), writable=False)
    assert [(entry.first, entry.last) for entry in update_log.entries(run)] == [(800, 1500), (1500, 1900)]
    np.testing.assert_array_equal(result.updates.labels, result.predict(rows[800:1900]))


def test_what_changed_since_is_refused(archive, rows):
    array, result, path = archive
    result.update(path / "X")
    array[900] += 1
    with pytest.raises(
        RunMismatchError, match=r"update: rows 800:1500 of .* have changed since .*; restore the archive"
    ):
        result.update(path / "X")
    array[900] = rows[900]
    array[5] += 1
    with pytest.raises(RunMismatchError, match=r"fitted rows 0:800 of .* have changed since"):
        result.update(path / "X")
    array[5] = rows[5]
    array.resize((1499, 3))
    with pytest.raises(RunMismatchError, match=r"has 1,499 rows, and had 1,500 since"):
        result.update(path / "X")
    with pytest.raises(RunMismatchError, match=r"has dtype '<f8', the run has '<f4'"):
        result.update(rows.astype("f8"))
    with pytest.raises(RunMismatchError, match=r"has columns 2, the run has 3; give the archive of the fit"):
        result.update(rows[:, :2])
    assert len(result.updates) == 700


@pytest.mark.usefixtures("small")
def test_every_row_is_compared_where_that_is_asked_for(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(hashing, "SPOTS", 2)
    result = bigsmic.fit(rows[:800], 3, out=tmp_path / "run", **BRIEF)
    result.update(rows)
    changed = rows.copy()
    changed[1100] += 1
    assert result.update(changed).rows == 0
    with pytest.raises(RunMismatchError, match=r"rows 1056:1312 of array have changed"):
        result.update(changed, verify="all")


def count_reads(monkeypatch):
    """Ranges of rows that are read from sources in memory from now on."""
    ranges, original = [], Source.read
    monkeypatch.setattr(Source, "read", lambda self, lo, hi: ranges.append((lo, hi)) or original(self, lo, hi))
    return ranges


@pytest.mark.usefixtures("small")
def test_new_rows_are_read_to_be_labelled_and_for_drift_and_not_again(rows, tmp_path, monkeypatch):
    result = bigsmic.fit(rows[:800], 3, out=tmp_path / "run", **BRIEF)
    ranges = count_reads(monkeypatch)
    result.update(rows)
    assert sum(hi - lo for lo, hi in ranges if lo >= 800) == 2 * 1200


def test_rows_that_lie_all_over_the_archive_are_compared_one_by_one(rows, tmp_path, monkeypatch):
    taken = reservoir(1800, 300, 0)
    result = bigsmic.fit(rows, 3, rows=taken, out=tmp_path / "run", **BRIEF)
    ranges = count_reads(monkeypatch)
    assert result.update(rows).rows == 200
    assert 0 < sum(hi - lo for lo, hi in ranges if hi <= 1800) <= hashing.SPOTS
    changed = rows + np.float32(1)
    with pytest.raises(RunMismatchError, match=r"row \d+ of array has changed since"):
        result.update(changed)
    one = rows.copy()
    one[taken.numbers(7, 8)] += 1
    with pytest.raises(RunMismatchError, match=r"fitted rows 0:300 of array have changed"):
        result.update(one, verify="all")


def test_a_block_of_rows_all_over_of_which_none_was_drawn_is_compared_whole(rows, tmp_path, monkeypatch):
    result = bigsmic.fit(rows, 3, rows=reservoir(1800, 300, 0), out=tmp_path / "run", **BRIEF)
    scan = Context.scan
    with monkeypatch.context() as patch:
        patch.setattr(Context, "scan", lambda context, s, *names: [array[:0] for array in scan(context, s, *names)])
        with pytest.raises(RunMismatchError, match=r"fitted rows 0:300 of array have changed"):
            result.update(rows + np.float32(1))
    assert result.update(rows).rows == 200


def test_rows_before_and_within_a_slice_are_not_new(rows, tmp_path):
    result = bigsmic.fit(rows, 3, rows=slice(500, 1300), out=tmp_path / "run", **BRIEF)
    found = result.update(rows)
    assert (found.first, found.last) == (1300, 2000)
    labels = result.archive_labels()
    assert (labels[:500] == -1).all()
    np.testing.assert_array_equal(labels[1300:], result.predict(rows[1300:]))


def test_windows_that_are_not_valid_have_no_label(tmp_path):
    rng = np.random.default_rng(2)
    t = np.arange(20_000)
    signal = np.where((t // 2000) % 2, np.sin(t), np.sin(t / 7)) + 0.2 * rng.normal(size=20_000)
    signal[[3000, 15_000]] = np.nan
    zarr.create_array(str(tmp_path / "a"), data=signal[:10_000, None], chunks=(1000, 1))
    made = windows(tmp_path / "a", 50, 25, out=tmp_path / "w")
    result = bigsmic.fit(made, 2, out=tmp_path / "run", **BRIEF)
    zarr.open_array(str(tmp_path / "a")).append(signal[10_000:, None])
    made = windows(tmp_path / "a", 50, 25, out=tmp_path / "w")
    found = result.update(made)
    assert (found.rows, found.in_none) == (400, 2)
    labels, valid = result.archive_labels(), made.valid[:]
    np.testing.assert_array_equal(labels >= 0, valid)
    assert np.isnan(result.updates.novelty[~valid[399:]]).all()
    truth = (t[: len(t) - 49 : 25] // 2000) % 2
    agreeing = (labels == truth)[valid].mean()
    assert max(agreeing, 1 - agreeing) > 0.95


ON_GRAPHS = [
    {"method": "kernel_rim", "kernel": "local_scaling"},
    {"method": "mic", "t": (3, 25), "n_neighbors": 4},
    {"method": "mwca", "kernel": "graph", "n_starts": 1},
]


@pytest.mark.parametrize("options", [{"method": "rim"}, {"method": "mspc"}, {"noise": True, **BRIEF}, *ON_GRAPHS])
def test_other_methods(rows, tmp_path, options):
    result = bigsmic.fit(rows[:800], 3, out=tmp_path / "run", **options)
    result.update(rows)
    np.testing.assert_array_equal(result.updates.labels, result.predict(rows[800:]))


def test_resuming_the_fit_keeps_its_updates(archive, rows):
    _, result, path = archive
    result.update(path / "X")
    again = bigsmic.fit(path / "X", 3, rows=slice(0, 800), out=path / "other", **BRIEF)
    assert len(again.updates) == 0
    bigsmic.fit(rows[:800], 3, out=path / "run", **BRIEF)
    assert len(bigsmic.Result.open(path / "run").updates) == 700


def test_rows_that_an_update_refused_may_be_dropped(archive, rows):
    array, result, path = archive
    array[1450] = np.nan
    with pytest.raises(NonFiniteError, match=r"first at row 1450, column 0; drop or impute these rows"):
        result.update(path / "X")
    array.resize((1499, 3))
    array[1450:] = rows[1451:1500]
    assert result.update(path / "X").rows == 699
    np.testing.assert_array_equal(result.updates.labels, result.predict(np.delete(rows[800:1500], 650, axis=0)))
    array.resize((1400, 3))
    with pytest.raises(RunMismatchError, match="has 1,400 rows, and had 1,499"):
        result.update(path / "X")


DAMAGE = {
    "labels of the first call": "updates/0000000",
    "labels of the last call": "updates/0000001",
    "entry of the first call": "update_log/0000000",
    "entry of the last call": "update_log/0000001",
    "all labels": "updates",
    "all entries": "update_log",
}


@pytest.mark.parametrize("lost", DAMAGE)
def test_labels_of_updates_that_are_lost_are_missed_and_made_again(archive, rows, lost):
    _, result, path = archive
    result.update(path / "X", stop=1200)
    result.update(path / "X")
    shutil.rmtree(path / "run" / DAMAGE[lost])
    damaged = bigsmic.Result.open(path / "run")
    first = 1200 if "last" in lost else 800
    for ask in (lambda: damaged.updates, damaged.archive_labels):
        with pytest.raises(RunError, match=f"labels of rows from {first} on, .* are missing from .*; update the run"):
            ask()
    assert damaged.update(path / "X").rows == (1500 - first if "entr" in lost else 0)
    np.testing.assert_array_equal(damaged.updates.labels, result.predict(rows[800:1500]))
    assert len(damaged.drift) == (1 if first == 800 and "entr" in lost else 2)


def test_a_verdict_that_is_lost_is_found_again(archive):
    _, result, path = archive
    result.update(path / "X", stop=1200)
    result.update(path / "X")
    before = result.drift
    shutil.rmtree(path / "run" / "drift" / "0000000")
    again = bigsmic.Result.open(path / "run")
    assert again.update(path / "X").rows == 0
    assert again.drift == before


@pytest.mark.parametrize("c", [None, 3])
def test_a_saved_cut_has_no_updates_of_its_fit(rows, tmp_path, c):
    array = zarr.create_array(str(tmp_path / "X"), data=rows[:800], chunks=(100, 3))
    result = bigsmic.fit(tmp_path / "X", c, out=tmp_path / "run", **BRIEF)
    array.append(rows[800:1000])
    result.update(tmp_path / "X")
    cut = result.cut(4).save(tmp_path / "cut")
    assert (len(cut.updates), cut.drift) == (0, [])
    assert cut.update(tmp_path / "X").rows == 200
    np.testing.assert_array_equal(cut.updates.labels, cut.predict(rows[800:1000]))


def test_updates_go_with_a_pickle_as_far_as_there_is_room(rows, monkeypatch):
    result = bigsmic.fit(rows[:800], 3, **BRIEF)
    result.update(rows[:1500])
    loaded = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(loaded.archive_labels(), result.archive_labels())
    assert loaded.drift == result.drift
    context = result._context
    least = portable._bytes(context.run, context.run.blocks(), portable.needed(context))
    monkeypatch.setattr(portable, "CARRIED_BYTES", 4 * 800 + least + 1000)
    loaded = pickle.loads(pickle.dumps(result))
    with pytest.raises(RunError, match=r"labels of rows from 800 on, .* are missing from the pickled part of"):
        loaded.archive_labels()


def test_a_run_is_saved_and_pickled_after_an_update_was_killed(archive, monkeypatch):
    _, result, path = archive

    def killed(run, stage, *arguments, **options):
        if stage == update_log.STAGE:
            (path / "run" / stage / "0000000").mkdir(parents=True)  # what a block begins with
            raise KeyboardInterrupt
        return write(run, stage, *arguments, **options)

    write = Run.write
    with monkeypatch.context() as patch:
        patch.setattr(Run, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            result.update(path / "X")
    saved = result.save(path / "copy")
    assert len(saved.updates) == 0
    assert saved.update(path / "X").rows == 700


def test_a_run_that_was_moved_or_replaced_is_not_written_to(archive, rows):
    _, result, path = archive
    (path / "run").rename(path / "moved")
    for change in (lambda: result.update(path / "X"), lambda: result.set_names({0: "zero"})):
        with pytest.raises(RunError, match=r"run no longer exists, as if it had been deleted or moved; restore it, or"):
            change()
    assert not (path / "run").exists()
    other = bigsmic.fit(rows[:700], 3, out=path / "run", **BRIEF)
    with pytest.raises(RunError, match="run has been replaced by another run since it was opened; restore it, or open"):
        result.set_names({0: "zero"})
    assert other.names == {}


def test_an_update_that_ends_while_another_process_reads_them_is_in_all_arrays_or_in_none(archive, monkeypatch):
    _, result, path = archive
    result.update(path / "X", stop=900)
    reading = bigsmic.Result.open(result.location)
    original = update_log.read_blocks

    def read_blocks(run, known, name):
        yield from original(run, known, name)
        if name == "labels" and run is reading._run:
            bigsmic.Result.open(result.location).update(path / "X")

    monkeypatch.setattr(update_log, "read_blocks", read_blocks)
    found = reading.updates
    assert len(found.labels) == len(found.posterior) == len(found.novelty) == 100
    assert len(reading.updates) == 700


def test_one_at_a_time(archive):
    _, result, path = archive
    holding = Run(str(path / "run"))
    with pytest.raises(RunLockedError, match=r"is being written by .*; wait for it to end, or, for a result"):
        result.update(path / "X")
    holding.close()
    assert result.update(path / "X").rows == 700


def test_what_cannot_be_updated_is_refused(archive, rows):
    _, result, path = archive
    with pytest.raises(InputError, match=r"update: .* is not a run directory that can be written to; save the result"):
        result.cut(2).update(path / "X")
    with pytest.raises(OptionError, match=r"update: got unexpected option foo="):
        result.update(path / "X", foo=1)
    with pytest.raises(InputError, match="verify: got 'none'"):
        result.update(path / "X", verify="none")
    for stop, message in (("a", "stop: got 'a'; use an integer"), (-1, "stop: got -1; use at least 0")):
        with pytest.raises(InputError, match=message):
            result.update(path / "X", stop=stop)
    saved = result.save(path / "copy")
    assert saved.update(path / "X").rows == 700


def test_a_fit_without_labels_has_no_updates(rows):
    with pytest.raises(InputError, match="updates: the fit was given no number of clusters"):
        _ = bigsmic.fit(rows[:9], n_threads=1).updates  # fewer rows than valleys are tested for


def test_what_a_fit_without_labels_refuses_has_the_name_of_what_was_called(rows):
    result = bigsmic.fit(np.random.default_rng(0).normal(size=(300, 3)), **BRIEF)  # one blob, so no valleys
    assert result.settings.undecided
    for name in ("update", "novelty", "predict"):
        with pytest.raises(InputError, match=f"^{name}: the fit was given no number of clusters"):
            getattr(result, name)(rows)


def test_nothing_new(archive, rows):
    _, result, _ = archive
    found = result.update(rows[:800])
    assert (found.rows, repr(found)) == (0, "Update: no new rows; 800 are known")


def test_an_update_says_how_many_rows_are_new_and_which(archive):
    _, result, path = archive
    assert repr(result.update(path / "X", stop=801)).splitlines()[0] == "Update: 1 new row, 800"
    assert repr(result.update(path / "X")).splitlines()[0] == "Update: 699 new rows, 801 to 1,499"


def test_new_rows_that_are_all_noise_are_an_update_like_others(rows, tmp_path):
    array = zarr.create_array(str(tmp_path / "X"), data=rows[:1500], chunks=(100, 3))
    result = bigsmic.fit(tmp_path / "X", 3, noise=True, out=tmp_path / "run", **BRIEF)
    array.append(np.random.default_rng(1).uniform(200, 900, (200, 3)).astype("f4"))
    assert result.update(tmp_path / "X").rows == 200
    again = bigsmic.Result.open(tmp_path / "run")
    assert (again.updates.labels == -1).all()
    (found,) = again.drift
    assert (found["verdict"], found["sizes"]) == ("refit recommended", [])
    assert found["reason"].startswith("100.0% of the rows are novel")
    assert again.update(tmp_path / "X").rows == 0
