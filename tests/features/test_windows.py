"""Archives of windows: equal to a direct formula, extended by what is new, and by that alone."""

import errno
import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
import zarr
from killed import killed_at_third_commit

import bigsmic
from bigsmic.engines.base import DEFAULT
from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import BigsmicWarning, InputError, PlanError, RunError, RunMismatchError, StorageError
from bigsmic.features import archive as extending
from bigsmic.features import definition, extraction, windows
from bigsmic.numerics import hashing
from bigsmic.numerics.windows import spectral, summary
from bigsmic.store.sources.base import Source

RATE = 10.0


@pytest.fixture(scope="module")
def samples():
    """Three channels; 8,000 samples at 10 Hz."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(8000, 3)).cumsum(axis=0) + rng.normal(size=(8000, 3))).astype("f4")


@pytest.fixture
def small(monkeypatch):
    """Tiles of a few windows, chunks of 64."""
    monkeypatch.setattr(definition, "TILE_BYTES", 8 * 40 * 3 * 7)
    monkeypatch.setattr(definition, "CHUNK_BYTES", 1)


def store(path, samples, **attributes):
    """An array of an archive; in a group, where its name is X or that of times."""
    if path.name in ("X", "time", "t"):
        zarr.open_group(str(path.parent))
    array = zarr.create_array(str(path), data=samples, chunks=(1000, *samples.shape[1:]), overwrite=True)
    array.attrs.update(attributes)
    return array


def direct(samples, length, step):
    """Windows by slicing, features by the numerics, one window at a time."""
    starts = range(0, len(samples) - length + 1, step)
    W = [samples[i : i + length].T[:, None].astype(np.float64) for i in starts]
    return np.array([np.concatenate([summary.features(w)[0], spectral.features(w)[0]]) for w in W], np.float32)


def assert_same(left, right):
    for name in ("X", "start", "source", "valid"):
        np.testing.assert_array_equal(getattr(left, name)[:], getattr(right, name)[:], err_msg=name)


@pytest.mark.parametrize(("length", "step"), [(40, 10), (40, 40), (40, 55), (8, 1)])
def test_windows_are_what_a_direct_formula_says(tmp_path, samples, length, step, small):
    store(tmp_path / "a", samples[:1500])
    made = windows(tmp_path / "a", length, step, out=tmp_path / "w")
    np.testing.assert_allclose(made.X[:], direct(samples[:1500], length, step), rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(made.start[:], np.arange(len(made)) * step)
    assert made.valid[:].all()
    assert made.X.shape[1] == len(made.columns) == len(set(made.columns))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("features", ["summary", "spectral", "raw", ("summary", "spectral")])
def test_no_cutting_changes_a_bit(tmp_path, samples, features, monkeypatch):
    whole = windows(samples[:4000], 40, 10, features=features, out=tmp_path / "whole", n_threads=2)
    store(tmp_path / "a", samples[:333])
    for stop in (333, 2, 700, 701, 1900, 4000):
        if stop > 333:
            zarr.open_array(str(tmp_path / "a")).append(samples[:stop][zarr.open_array(str(tmp_path / "a")).shape[0] :])
        grown = windows(tmp_path / "a", 40, 10, features=features, out=tmp_path / "grown")
    assert_same(whole, grown)
    monkeypatch.setattr(definition, "CHUNK_BYTES", 10**7)
    assert_same(whole, windows(samples[:4000], 40, 10, features=features, out=tmp_path / "other"))


class Noting(ThreadEngine):
    """Threads that keep note of the windows that they describe."""

    def __init__(self):
        super().__init__(2)
        self.stretches = []

    def map(self, task, blocks, options=DEFAULT):
        blocks = list(blocks)
        self.stretches += [(piece.segments[0].row, piece.rows) for piece in blocks]
        return super().map(task, blocks, options)


@pytest.mark.usefixtures("small")
def test_chunks_that_a_later_call_writes_to_are_no_tasks_of_an_engine(tmp_path, samples):
    """A worker that was taken for lost could write an earlier state of them."""
    array, engine = store(tmp_path / "a", samples[:2000]), Noting()
    windows(tmp_path / "a", 40, 10, out=tmp_path / "w", engine=engine)
    array.append(samples[2000:4000])
    made = windows(tmp_path / "a", 40, 10, out=tmp_path / "w", engine=engine)
    assert len(made) == 397
    assert engine.stretches == [(row, 64) for row in (0, 64, 128, 256, 320)]
    assert_same(made, windows(samples[:4000], 40, 10, out=tmp_path / "whole"))


@pytest.mark.usefixtures("small")
def test_samples_and_times_in_memory_are_no_tasks_of_an_engine(tmp_path, samples):
    array, engine = store(tmp_path / "a", samples), Noting()
    seconds = np.arange(len(samples)) / RATE
    windows(samples, 40, 20, out=tmp_path / "samples", engine=engine)
    windows(array, 40, 20, times=seconds, out=tmp_path / "times", engine=engine)
    assert engine.stretches == []
    windows(array, 40, 20, out=tmp_path / "w", engine=engine)
    assert engine.stretches


def test_what_is_there_is_not_computed_again(tmp_path, samples, monkeypatch):
    array = store(tmp_path / "a", samples[:4000])
    assert windows(tmp_path / "a", 40, 20, out=tmp_path / "w").n_new == 199
    described = []
    call = definition.Definition.__call__
    monkeypatch.setattr(definition.Definition, "__call__", lambda *a: described.append(len(a[2])) or call(*a))
    assert windows(tmp_path / "a", 40, 20, out=tmp_path / "w").n_new == 0
    assert described == []
    array.append(samples[4000:4500])
    assert windows(tmp_path / "a", 40, 20, out=tmp_path / "w").n_new == sum(described) == 25


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("step", "most"), [(20, 4000 + 35 * 20), (90, 4000)])
def test_samples_are_read_once_but_for_overlaps_of_tiles(tmp_path, samples, monkeypatch, step, most):
    read, original = [], Source.read
    monkeypatch.setattr(Source, "read", lambda self, lo, hi: read.append(hi - lo) or original(self, lo, hi))
    assert len(windows(samples[:4000], 40, step, out=tmp_path / "w")) == 3960 // step + 1
    assert 3900 < sum(read) <= most


@pytest.mark.parametrize("step", [20, 90])
def test_checksums_are_those_of_all_samples_of_a_segment(tmp_path, samples, step, small):
    windows(samples[:4000], 40, step, out=tmp_path / "w")
    segments = zarr.open_array(str(tmp_path / "w" / "segments"))[:].tolist()
    assert len(segments) > 0
    for _, _, window, size, crc in segments:
        seen = samples[window * step : (window + size - 1) * step + 40]
        assert zlib.crc32(seen.tobytes()) == crc


@pytest.mark.usefixtures("small")
def test_a_killed_call_goes_on(tmp_path, samples, monkeypatch):
    """Killed after some rows are written, and grown before the next call: rows are in the order of calls."""
    group = zarr.open_group(str(tmp_path / "a"))
    for name in ("one", "two"):
        group.create_array(name, data=samples[:3000], chunks=(500, 3))
    undisturbed = tmp_path / "undisturbed"
    windows(tmp_path / "a", 40, 10, out=undisturbed)
    monkeypatch.setattr(extending, "PIECES", 1)
    with killed_at_third_commit():
        windows(tmp_path / "a", 40, 10, out=tmp_path / "w", n_threads=1)
    assert zarr.open_group(str(tmp_path / "w")).attrs["bigsmic_windows"]["rows"] == 128
    group["one"].append(samples[3000:3500])
    made = windows(tmp_path / "a", 40, 10, out=tmp_path / "w")
    assert made.n_new == 2 * 297 + 50 - 128
    assert_same(made, windows(tmp_path / "a", 40, 10, out=undisturbed))
    assert zarr.open_group(str(undisturbed)).attrs["bigsmic_windows"]["sources"] == [
        {"name": "one", "samples": 3500, "windows": 347},
        {"name": "two", "samples": 3000, "windows": 297},
    ]


def test_gaps_and_nan_are_marked_and_never_filled(tmp_path, samples):
    samples = samples[:2000].copy()
    samples[205, 1] = np.nan
    samples[911, 0] = np.inf
    times = np.arange(2000) / RATE
    times[1000:] += 60
    times[1500:] -= 0.5
    store(tmp_path / "a" / "X", samples)
    store(tmp_path / "a" / "time", times)
    made = windows(tmp_path / "a", "4s", "1s", times="time", component="X", out=tmp_path / "w")
    start = made.start[:]
    bad = np.array(
        [any(s <= i < s + 40 for i in (205, 911)) or any(s < i < s + 40 for i in (1000, 1500)) for s in start]
    )
    np.testing.assert_array_equal(made.valid[:], ~bad)
    assert np.isnan(made.X[:][bad]).all()
    assert np.isfinite(made.X[:][~bad]).all()
    np.testing.assert_array_equal(made.time[:], times[start])
    assert made.left_out == {"gap": 6, "nan": 8, "overflow": 0}
    np.testing.assert_allclose(made.X[:][~bad], windows(samples, 40, 10, rate=10, out=tmp_path / "v").X[:][~bad])


def test_a_first_sample_without_a_time_hides_no_gap(tmp_path, samples):
    times = np.arange(400) / RATE
    times[200:] += 60
    times[3] = np.nan
    made = windows(samples[:400], 30, times=times, out=tmp_path / "w")
    np.testing.assert_array_equal(np.flatnonzero(~made.valid[:]), [0, 6])
    assert "ch0.to_5Hz" in made.columns


def test_a_first_session_of_one_sample_hides_no_gap_of_others(tmp_path, samples):
    zarr.open_group(str(tmp_path / "s"))
    for name, (lo, hi) in {"a": (0, 1), "b": (0, 400)}.items():
        store(tmp_path / "s" / name / "X", samples[lo:hi])
        store(tmp_path / "s" / name / "t", np.arange(lo, hi) / RATE + 60.0 * (np.arange(lo, hi) >= 200))
    made = windows(tmp_path / "s", "3s", component="X", times="t", out=tmp_path / "w")
    np.testing.assert_array_equal(np.flatnonzero(~made.valid[:]), [6])


def test_the_rate_that_follows_from_few_times_is_kept_when_there_are_more(tmp_path, samples):
    """Times that jitter: the median of few differences has other digits than that of many."""
    times = np.arange(1000) / RATE + np.random.default_rng(0).normal(0, 0.004, 1000)
    few = windows(samples[:34], 30, times=times[:34], out=tmp_path / "w")
    assert few.columns != windows(samples[:1000], 30, times=times, out=tmp_path / "all").columns
    made = windows(samples[:1000], 30, times=times, out=tmp_path / "w")
    assert (len(made), made.columns) == (33, few.columns)
    assert made.valid[:].all()


@pytest.mark.filterwarnings("ignore:windows. no session has 30 samples")
@pytest.mark.parametrize("first", [0, 1, 20])
def test_an_archive_that_had_no_windows_yet_takes_its_rate_from_more_times(tmp_path, samples, first):
    times = np.arange(400) / RATE
    times[:20] += np.random.default_rng(0).normal(0, 0.004, 20)
    assert len(windows(samples[:first], 30, times=times[:first], out=tmp_path / "w")) == 0
    made = windows(samples[:400], 30, times=times, out=tmp_path / "w")
    assert len(made) == 13
    assert "ch0.to_5Hz" in made.columns
    assert_same(made, windows(samples[:400], 30, rate=RATE, out=tmp_path / "v"))
    with pytest.raises(RunMismatchError, match=r"(?s)another definition:.*rate: stored 10.0, asked 20"):
        windows(samples[:400], 30, times=times, rate=20, out=tmp_path / "w")


@pytest.mark.parametrize(
    "times",
    [np.zeros(400), -np.arange(400.0), np.full(400, np.nan), np.arange(400) // 10],
    ids=["constant", "decreasing", "nan", "coarse"],
)
def test_times_from_which_no_rate_follows_are_refused(tmp_path, samples, times):
    with pytest.raises(InputError, match=r"times: those of the first 400 samples of array stand still or decrease"):
        windows(samples[:400], 40, times=times, out=tmp_path / "w")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("hour", [-3600, 3600], ids=["back", "forward"])
def test_a_clock_that_is_changed_costs_the_windows_over_the_change_alone(tmp_path, samples, hour):
    """Local time, which leaves summer time, or begins it, at sample 2,015; the archive grows over the change."""
    seconds = np.arange(4000) / RATE + hour * (np.arange(4000) >= 2015)
    times = np.datetime64("2026-10-25T01:00", "ms") + (1000 * seconds).astype("timedelta64[ms]")
    windows(samples[:1900], 40, 20, times=times[:1900], out=tmp_path / "w")
    made = windows(samples[:4000], 40, 20, times=times, out=tmp_path / "w")
    start = made.start[:]
    over = (start < 2015) & (start + 40 > 2015)
    np.testing.assert_array_equal(made.valid[:], ~over)
    assert made.left_out == {"gap": over.sum(), "nan": 0, "overflow": 0}
    np.testing.assert_array_equal(made.time[:], times[start].astype(np.int64))
    plain = windows(samples[:4000], 40, 20, rate=RATE, out=tmp_path / "plain")
    np.testing.assert_array_equal(made.X[:][~over], plain.X[:][~over])
    assert np.isnan(made.X[:][over]).all()


def test_times_with_a_unit_and_datetimes(tmp_path, samples):
    for name, times, attributes in (
        ("numbers", np.arange(400) * 100, {"units": "milliseconds since 2026-01-01"}),
        ("stamps", np.datetime64("2026-01-01", "ms") + 100 * np.arange(400), {}),
    ):
        store(tmp_path / name / "X", samples[:400])
        store(tmp_path / name / "t", times, **attributes)
        made = windows(tmp_path / name, "4s", "2s", times="t", component="X", out=tmp_path / f"{name}.w")
        assert len(made) == 19
        assert made.time[1] - made.time[0] == 2000
        assert made.time.attrs["units"].startswith("milliseconds since")
        assert "ch0.to_5Hz" in made.columns


def test_times_that_are_read_in_parts_are_those_of_all_windows(tmp_path, samples, monkeypatch):
    monkeypatch.setattr(extraction, "CHECK_BYTES", 8 * 10 * 7)  # of seven windows
    times = np.arange(8000) / RATE
    found = windows(samples, 40, 10, times=times, out=tmp_path / "w")
    np.testing.assert_array_equal(found.time[:], times[found.start[:]])


def test_packed_times_are_decoded(tmp_path, samples):
    store(tmp_path / "a" / "X", samples[:400])
    packed = {"units": "milliseconds since 2026-01-01", "scale_factor": 50.0, "add_offset": 7.0}
    store(tmp_path / "a" / "t", np.arange(0, 800, 2, "i4"), **packed)
    made = windows(tmp_path / "a", "4s", "2s", times="t", component="X", out=tmp_path / "w")
    np.testing.assert_array_equal(made.time[:3], [7, 2007, 4007])
    assert made.time.attrs.asdict() == {"units": packed["units"]}
    assert "ch0.to_5Hz" in made.columns


def test_absent_chunks_of_times_are_no_gaps(tmp_path, samples):
    """As where a writer makes room for times first, and writes them later: windows are described once only."""
    store(tmp_path / "a" / "X", samples[:3000])
    times = store(tmp_path / "a" / "t", np.arange(3000) / RATE)
    chunk = tmp_path / "a" / "t" / "c" / "1"
    chunk.unlink()
    named = {"times": "t", "component": "X"}
    with pytest.raises(StorageError, match=r"times: chunk .*c/1 of times .* is missing, .*; restore it, wait"):
        windows(tmp_path / "a", 40, **named, out=tmp_path / "w")
    times[:] = np.arange(3000) / RATE
    assert windows(tmp_path / "a", 40, **named, out=tmp_path / "w").valid[:].all()
    chunk.unlink()
    made = windows(tmp_path / "a", 40, **named, out=tmp_path / "v", missing_chunks="fill")
    assert made.left_out["gap"] > 0


def test_times_that_are_absent_from_their_shard_are_no_gaps(tmp_path, samples):
    store(tmp_path / "a" / "X", samples[:3000])
    times = np.arange(3000) / RATE
    stored = zarr.create_array(tmp_path / "a" / "t", shape=(3000,), chunks=(500,), shards=(1500,), dtype="f8")
    stored[:] = times
    named = {"times": "t", "component": "X"}
    assert windows(tmp_path / "a", 40, **named, out=tmp_path / "w").valid[:].all()
    stored[500:1000] = 0
    with pytest.raises(StorageError, match=r"times: the chunk of rows 500:1000 of .* is missing from the shard c/0"):
        windows(tmp_path / "a", 40, **named, out=tmp_path / "v")
    made = windows(tmp_path / "a", 40, **named, out=tmp_path / "u", missing_chunks="fill")
    assert made.left_out["gap"] > 0


def test_sessions_of_a_group(tmp_path, samples):
    group = zarr.open_group(str(tmp_path / "a"))
    parts = {"b": samples[:1000], "a": samples[1000:1500], "c": samples[:20]}
    for name, part in parts.items():
        group.create_array(name, data=part, chunks=(100, 3))
    made = windows(tmp_path / "a", 40, 20, out=tmp_path / "w")
    assert made.sources == ["a", "b", "c"]
    assert "from 3 sessions\n" in repr(made)
    assert "from 1 session\n" in repr(windows(parts["b"], 40, 20, out=tmp_path / "one"))
    np.testing.assert_array_equal(np.bincount(made.source[:]), [24, 49])
    group.create_array("aa", data=samples[:100], chunks=(100, 3))
    again = windows(tmp_path / "a", 40, 20, out=tmp_path / "w")
    assert (again.sources, again.n_new) == (["a", "b", "c", "aa"], 4)


def test_a_function_of_windows(tmp_path, samples):
    def peak(windows):
        assert windows.shape[1:] == (40, 3)
        assert np.isfinite(windows).all()
        return np.abs(windows).max(axis=1)

    samples = samples[:800].copy()
    samples[100] = np.nan
    made = windows(samples, 40, 20, features=["summary", peak], out=tmp_path / "w", channels=["x", "y", "z"])
    assert made.columns[-3:] == ["peak.0", "peak.1", "peak.2"]
    assert made.columns[0] == "x.mean"
    expected = [np.abs(samples[s : s + 40]).max(axis=0) for s in made.start[:]]
    np.testing.assert_array_equal(made.X[:, -3:], np.float32(expected))
    with pytest.raises(InputError, match=r"features: <lambda> made an array of shape \(1,\), float64, of 1 windows"):
        windows(samples, 40, features=lambda w: w.mean(axis=(1, 2)), out=tmp_path / "v")


def test_catch22(tmp_path, samples):
    import pycatch22

    made = windows(samples[:400], 40, features="catch22", out=tmp_path / "w")
    assert made.X.shape == (10, 66)
    expected = pycatch22.catch22_all(samples[40:80, 1].astype(float).tolist())
    np.testing.assert_allclose(made.X[1, 22:44], np.float32(expected["values"]))
    assert made.columns[22] == f"ch1.{expected['names'][0]}"


def test_a_recording_that_was_rewritten_or_has_shrunk_is_refused(tmp_path, samples):
    array = store(tmp_path / "a", samples[:2000])
    windows(tmp_path / "a", 40, 20, out=tmp_path / "w")
    array[7] += 1
    with pytest.raises(RunMismatchError, match=r"samples 0:2,000 of the recording are not those that .*/w was made of"):
        windows(tmp_path / "a", 40, 20, out=tmp_path / "w")
    array[7] = samples[7]
    array.resize((1990, 3))
    with pytest.raises(RunMismatchError, match=r"the recording has 1,990 samples, and had 2,000 when .*; restore it"):
        windows(tmp_path / "a", 40, 20, out=tmp_path / "w")


@pytest.mark.usefixtures("small")
def test_every_segment_is_checked_where_that_is_asked_for(tmp_path, samples):
    array = store(tmp_path / "a", samples)
    windows(tmp_path / "a", 8, 4, out=tmp_path / "w")
    segments = zarr.open_group(str(tmp_path / "w"))["segments"]
    count = segments.shape[0]
    assert count > 3 * hashing.SPOTS
    unchecked = min(set(range(count)) - set(hashing.spot_checks(count, count, "segments")))
    array[int(segments[unchecked][2]) * 4 + 12] += 1
    assert windows(tmp_path / "a", 8, 4, out=tmp_path / "w").n_new == 0
    with pytest.raises(RunMismatchError, match="are not those that"):
        windows(tmp_path / "a", 8, 4, out=tmp_path / "w", verify="all")


@pytest.mark.parametrize("made", range(5))
def test_a_first_call_that_was_cut_short_while_it_made_its_arrays_is_begun_again(tmp_path, samples, made, monkeypatch):
    create, left = zarr.Group.create_array, iter(range(made))

    def full(*arguments, **options):
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return create(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(zarr.Group, "create_array", full)
        with pytest.raises(StorageError, match="making its arrays: no space left"):
            windows(samples[:400], 40, 20, rate=10, out=tmp_path / "w")
    again, calm = (windows(samples[:400], 40, 20, rate=10, out=tmp_path / name) for name in ("w", "calm"))
    assert len(again) == again.n_new == 19
    np.testing.assert_array_equal(again.X[:], calm.X[:])
    np.testing.assert_array_equal(again.start[:], calm.start[:])


def test_other_windows_are_refused_with_what_differs(tmp_path, samples):
    windows(samples[:400], 40, 20, out=tmp_path / "w")
    with pytest.raises(RunMismatchError, match=r"(?s)another definition:.*step: stored 20, asked 10"):
        windows(samples[:400], 40, 10, out=tmp_path / "w")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "note").write_text("mine")
    with pytest.raises(RunError, match="holds something else, and is not overwritten"):
        windows(samples[:400], 40, 10, out=tmp_path / "other")
    store(tmp_path / "a", samples[:400])
    with pytest.raises(RunError, match=r"is, lies in, or contains the archive that is read"):
        windows(tmp_path / "a", 40, 10, out=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": "4s"}, r"length: got '4s' without a rate; give rate= or times="),
        ({"length": "1.23s", "rate": 10}, r"length: got '1.23s', 12.3 samples at 10 a second; give a whole number"),
        ({"length": "soon", "rate": 10}, r"length: got 'soon'; give a number of samples, or a duration"),
        ({"length": "nan", "rate": 10}, r"length: got 'nan'; give a number of samples, or a duration"),
        ({"length": "4²", "rate": 10}, r"length: got '4²'; give a number of samples, or a duration"),
        ({"length": 0}, r"length: got 0; use at least 1"),
        ({"length": 4}, r"length: got 4 samples, 'spectral' describes windows of 8 or more"),
        ({"length": 40, "step": 0}, r"step: got 0; use at least 1"),
        ({"length": 40, "features": "wavelets"}, r"features: got 'wavelets'; use 'raw', 'summary'"),
        ({"length": 40, "features": ()}, r"features: got none"),
        ({"length": 40, "rate": -1}, r"rate: got -1; use a positive number"),
        ({"length": 40, "channels": ["x"]}, r"channels: got \('x',\) for 3 channels"),
        ({"length": 40, "channels": "xyz"}, r"channels: got \('xyz',\) for 3 channels"),
        ({"length": 40, "times": np.arange(5)}, r"times: got 5 for 400 samples of array; give one per sample"),
        ({"length": 40, "verify": "none"}, r"verify: got 'none'; use one of"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, samples, arguments, message):
    with pytest.raises(InputError, match=message):
        windows(samples[:400], **arguments, out=tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_windows_without_a_place_are_refused(samples):
    with pytest.raises(InputError, match="out: got None; give a path or URL"):
        windows(samples[:400], 40, out=None)


def test_sessions_that_differ_are_refused(tmp_path, samples):
    group = zarr.open_group(str(tmp_path / "a"))
    group.create_array("one", data=samples[:100])
    group.create_array("two", data=samples[:100, :2])
    with pytest.raises(InputError, match="session 'two' has 2 channels of float32, 'one' has 3 of float32"):
        windows(tmp_path / "a", 40, out=tmp_path / "w")
    with pytest.raises(InputError, match="is a group without groups with an array 'X'"):
        windows(tmp_path / "a", 40, component="X", out=tmp_path / "w")


def test_a_rate_that_changes_is_warned_of(tmp_path, samples):
    times = np.concatenate([np.arange(5000) * 0.1, 500 + np.arange(3000) * 0.2])
    windows(samples[:5000], 40, 20, times=times, out=tmp_path / "w")
    with pytest.warns(BigsmicWarning, match=r"150 of 150 new windows are left out, 150 for gaps in time, or another"):
        windows(samples, 40, 20, times=times, out=tmp_path / "w")


def test_windows_longer_than_every_session(tmp_path, samples):
    store(tmp_path / "a", samples[:100])
    with pytest.warns(BigsmicWarning, match=r"no session has 400 samples, the longest 100"):
        made = windows(tmp_path / "a", 400, out=tmp_path / "w")
    assert len(made) == 0
    with pytest.raises(InputError, match=r"0 sample\(s\)"):
        bigsmic.fit(made, 2)


def test_memory_is_planned(tmp_path, samples):
    with pytest.raises(PlanError, match="stage windows needs"):
        windows(samples, 40, out=tmp_path / "w", memory_limit="100MiB")


@pytest.mark.parametrize("length", [10**8, 10**20])
def test_windows_longer_than_memory_are_refused_before_one_is_made(tmp_path, samples, monkeypatch, length):
    monkeypatch.setattr(definition.Definition, "widths", None)  # describes a window of zeros
    with pytest.raises(PlanError, match=r"stage windows needs .* but the memory limit is 1024MiB.*shorter length="):
        windows(samples, length, out=tmp_path / "w", memory_limit="1GiB")
    assert not (tmp_path / "w").exists()


def test_features_that_do_not_fit_are_marked(tmp_path):
    samples = np.random.default_rng(0).normal(size=(200, 1))
    samples[50:60] = 1e200
    made = windows(samples, 20, out=tmp_path / "w")
    assert made.left_out == {"gap": 0, "nan": 0, "overflow": 1}
    np.testing.assert_array_equal(np.flatnonzero(~made.valid[:]), [2])


# -- fits of windows


@pytest.fixture(scope="module")
def regimes(tmp_path_factory):
    """Windows of two regimes, some of them over NaN."""
    rng = np.random.default_rng(2)
    t = np.arange(20_000)
    signal = np.where((t // 4000) % 2, np.sin(t), np.sin(t / 7)) + 0.2 * rng.normal(size=20_000)
    signal[3000:3100] = np.nan
    out = tmp_path_factory.mktemp("regimes") / "w"
    return windows(signal[:, None], 50, 25, out=out), (t[: len(t) - 49 : 25] // 4000) % 2


BRIEF = {"t": (3, 5), "widths": (1.5, 2), "n_centers": 40, "n_threads": 1}


def test_windows_that_are_not_valid_are_left_out_of_a_fit(regimes, tmp_path):
    made, truth = regimes
    result = bigsmic.fit(made, 2, out=tmp_path / "run", **BRIEF)
    valid = made.valid[:]
    assert len(result.labels) == valid.sum() == len(made) - 5
    plain = bigsmic.fit(made.X[:][valid], 2, **BRIEF)
    np.testing.assert_array_equal(result.labels, plain.labels)
    np.testing.assert_array_equal(result.rows, np.flatnonzero(valid))
    aligned = result.archive_labels()
    np.testing.assert_array_equal(aligned[valid], result.labels)
    assert (aligned[~valid] == -1).all()
    agreeing = (aligned == truth)[valid].mean()
    assert max(agreeing, 1 - agreeing) > 0.97
    reopened = bigsmic.Result.open(tmp_path / "run")
    np.testing.assert_array_equal(reopened.archive_labels(), aligned)


def moving(n_samples=20_000):
    """Four channels whose level, and the amplitude that they share, change every 500 samples."""
    rng = np.random.default_rng(1)
    amplitude = np.exp(1.5 * rng.normal(size=(n_samples // 500, 1)))
    level = 30 * rng.normal(size=(n_samples // 500, 4))
    return np.repeat(level, 500, axis=0) + np.repeat(amplitude, 500, axis=0) * rng.normal(size=(n_samples, 4))


@pytest.mark.parametrize(("features", "divided"), [("summary", True), ("raw", False)])
def test_features_are_divided_as_their_units_differ_and_samples_as_they_look(tmp_path, features, divided):
    made = windows(moving(), 50, features=features, out=tmp_path / "w")
    looks = bigsmic.fit(made.X[:], 3, method="mspc", scale="auto").diagnostics["scaling"]
    assert looks["sign"] == "neighbors", "the columns do not look as if they shared a unit"
    for options in ({}, {"rows": slice(0, 300)}):
        result = bigsmic.fit(made, 3, method="mspc", scale="auto", **options)
        assert result.diagnostics["scaling"]["scale"] == ("standard" if divided else None)
        assert ("in different units" in repr(result)) == divided


def test_predictions_of_windows_keep_their_places(regimes):
    made, _ = regimes
    result, valid = bigsmic.fit(made, 2, **BRIEF), made.valid[:]
    labels, posterior = result.predict(made), result.predict_proba(made)
    assert (labels[~valid] == -1).all()
    assert np.isnan(posterior[~valid]).all()
    np.testing.assert_array_equal(labels[valid], result.predict(made.X[:][valid]))
    np.testing.assert_array_equal(result.predict(made, rows=slice(100, 200)), labels[100:200])
    np.testing.assert_array_equal(result.predict(made, rows=slice(120, 122)), [-1, -1])


def test_rows_of_an_archive(regimes, tmp_path):
    X = np.nan_to_num(regimes[0].X[:])
    result = bigsmic.fit(X, 2, rows=slice(100, 500), out=tmp_path / "run", **BRIEF)
    np.testing.assert_array_equal(result.labels, bigsmic.fit(X[100:500], 2, **BRIEF).labels)
    np.testing.assert_array_equal(result.rows, np.arange(100, 500))
    aligned = result.archive_labels()
    assert len(aligned) == 500
    assert (aligned[:100] == -1).all()
    bigsmic.fit(X, 2, rows=slice(100, 500), out=tmp_path / "run", **BRIEF)
    with pytest.raises(RunMismatchError, match=r"input\.selected\.stop: stored 500, asked 600"):
        bigsmic.fit(X, 2, rows=slice(100, 600), out=tmp_path / "run", **BRIEF)
    np.testing.assert_array_equal(bigsmic.fit(X, 2, rows=slice(-400, None), **BRIEF).rows[[0, -1]], [399, 798])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (slice(0, 100, 2), r"rows: got slice\(0, 100, 2\); give a slice of consecutive rows"),
        (np.ones((2000, 1), bool), r"rows: got array\(.{1,60}\.\. \(ndarray\); give a slice of consecutive rows"),
        (slice(700, 600), r"which selects none of 799 rows"),
        (range(5), r"rows: got range\(0, 5\); give a slice"),
        (slice(0.5, 3), r"give a slice of consecutive rows"),
    ],
)
def test_rows_that_are_no_slice_are_refused(regimes, rows, message):
    with pytest.raises(InputError, match=message):
        bigsmic.fit(np.nan_to_num(regimes[0].X[:]), 2, rows=rows, **BRIEF)


def test_a_stretch_without_valid_windows_is_refused(tmp_path):
    with pytest.warns(BigsmicWarning, match="10 of 10 new windows are left out, 10 for NaN"):
        made = windows(np.full((400, 1), np.nan), 40, out=tmp_path / "w")
    with pytest.raises(InputError, match=r"rows: none of rows 0:10 of .* can be used"):
        bigsmic.fit(made, 2)


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 2, but the data show")
def test_a_raw_recording_is_warned_of(tmp_path, samples):
    with pytest.warns(BigsmicWarning, match=r"input: array looks like a recording: 3 columns, and rows that correlate"):
        bigsmic.fit(samples[:1200], 2, out=tmp_path / "run", **BRIEF)
    bigsmic.fit(samples[:1200], 2, out=tmp_path / "run", **BRIEF)  # once
    raw = windows(samples[:1200, :1], 8, 1, features="raw", out=tmp_path / "w")
    bigsmic.fit(raw, 2, **BRIEF)


def test_the_page_of_the_archive(regimes):
    made, _ = regimes
    text = repr(made)
    assert "799 of 16 features" in text
    assert "left out   5 nan" in text
    attributes = json.loads((Path(made) / "zarr.json").read_text())["attributes"]["bigsmic_windows"]
    assert attributes["columns"] == made.columns


def test_sessions_whose_times_differ_in_units_are_refused(tmp_path, samples):
    group = zarr.create_group(tmp_path / "two.zarr")
    for name, units in (("one", "seconds since 2026-01-01"), ("two", "seconds since 2026-01-02")):
        session = group.create_group(name)
        session.create_array("X", data=samples[:100])
        session.create_array("time", data=np.arange(100.0)).attrs["units"] = units
    with pytest.raises(InputError, match="times: those of session 'two' have another dtype or other units"):
        windows(tmp_path / "two.zarr", 10, component="X", times="time", out=tmp_path / "windows")


def test_nan_in_rows_that_were_taken_are_named_as_the_archive_does(tmp_path):
    X = np.random.default_rng(0).standard_normal((300, 3)).astype("f4")
    X[150, 1] = np.nan
    with pytest.raises(InputError, match="first at row 150, column 1"):
        bigsmic.fit(X, 2, method="mspc", rows=slice(100, None))
    result = bigsmic.fit(X[160:], 2, method="mspc")
    with pytest.raises(InputError, match="first at row 150, column 1"):
        result.predict(X, rows=slice(100, None))


def test_samples_in_a_file_of_numpy_are_refused_with_what_is_taken(tmp_path, samples):
    np.save(tmp_path / "samples.npy", samples)
    taken = r"could not be opened as Zarr .*; give .* a Zarr array of samples x channels, or of a group of them: zarr"
    with pytest.raises(InputError, match=taken):
        windows(tmp_path / "samples.npy", length=40, out=tmp_path / "w", rate=RATE)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_recordings_go_on_after_the_metadata_of_their_group_were_consolidated(tmp_path, samples):
    archive = zarr.open_group(tmp_path / "a", mode="w")
    for name in ("first", "second"):
        archive.create_array(f"{name}/X", data=samples[:2000], chunks=(500, 3))
    zarr.consolidate_metadata(tmp_path / "a")
    zarr.open_array(tmp_path / "a" / "first" / "X", mode="r+").append(samples[2000:4000])
    zarr.create_array(str(tmp_path / "a"), name="third/X", data=samples[:1000], chunks=(500, 3))
    windows(tmp_path / "a", 40, out=tmp_path / "w", component="X", rate=RATE)
    found = zarr.open_group(tmp_path / "w", mode="r")["source"][:]
    assert np.unique(found, return_counts=True)[1].tolist() == [100, 50, 25]
