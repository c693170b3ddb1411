"""What is said of a fit while it runs: what is done of each step, how fast, and what is left."""

import io
import itertools

import numpy as np
import pytest
import zarr
from rich.console import Console
from small_fits import BRIEF

import bigsmic
from bigsmic.errors import InputError
from bigsmic.runtime import progress
from bigsmic.runtime.progress import Meter, stage_of, time_text


def metered(*calls, n_rows=None):
    meter = Meter(n_rows)
    for call in calls:
        meter(*call)
    return meter


def test_a_step_stays_in_the_stage_that_it_is_met_in():
    assert stage_of("matrix.normalized.t3", "graph") == "eigen"
    assert stage_of("weights.t3", "assign") == "assign"
    assert stage_of("restart.ascent.2", "scan") == "ascent"
    assert stage_of("something new", "select") == "select"
    assert stage_of("something new", "") == "something"


@pytest.mark.parametrize(
    ("method", "c", "stages"),
    [
        ("mspc", 2, "scan passes output"),
        ("rim", 3, "scan ascent output"),
        ("kernel_rim", 3, "scan ascent output"),
        ("mwca", 3, "scan memberships output"),
        ("mic", 3, "scan route neighbors graph eigen assign ascent select output"),
    ],
)
def test_stages_of_other_methods_have_names_of_their_own(blobs, method, c, stages):
    seen = []

    def note(step, done, total):
        stage = stage_of(step, seen[-1] if seen else "")
        if not seen or seen[-1] != stage:
            seen.append(stage)

    bigsmic.fit(blobs[0][:300], c, method=method, progress=note, n_threads=1)
    assert seen == stages.split()


def test_speed_and_time_left_are_those_of_the_step():
    meter = metered(
        ("scan", 0, 4, 10.0), ("scan", 4, 4, 11.0), ("routed_rows", 0, 8, 20.0), ("routed_rows", 2, 8, 24.0), n_rows=80
    )
    assert (meter.rate, meter.rows_per_second, meter.seconds_left) == (0.5, 5.0, 12.0)
    assert str(meter) == "routed_rows 2/8 blocks, 5 rows/s, 12 s left"


def test_what_was_done_before_is_done_but_is_no_speed():
    meter = metered(("neighbors", 90, 100, 0.0), ("neighbors", 92, 100, 4.0), n_rows=1000)
    assert str(meter) == "neighbors 92/100 blocks, 5 rows/s, 16 s left"


def test_nothing_is_said_of_what_is_not_known():
    assert str(metered(("scan", 0, 4, 0.0))) == "scan 0/4 blocks"
    assert str(metered(("verify", 0, 0, 0.0), n_rows=10)) == "verify 0/0 blocks"


def test_eigenvectors_are_no_rows_and_iterations_may_end_early():
    meter = metered(("eigen normalized.t3", 0, 20, 0.0), ("eigen normalized.t3", 5, 20, 10.0), n_rows=100)
    assert str(meter) == "eigen normalized.t3 5/20 vectors, 30 s left"
    assert str(metered(("ascent t=5", 0, 500, 0.0), ("ascent t=5", 9, 500, 3.0))) == "ascent t=5 9/500 iterations"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59, "59 s"), (61, "1 min 1 s"), (7200, "2 h"), (7290, "2 h 1 min"), (90_000, "1 d 1 h")],
)
def test_time_text(seconds, text):
    assert time_text(seconds) == text


def test_a_line_that_changes_where_there_is_a_terminal():
    stream = io.StringIO()
    with progress.bars(Console(file=stream, force_terminal=True, width=120), 100) as shown:
        for step, total in (("scan", 2), ("cells", 1), ("routed_rows", 2)):
            for done in range(total + 1):
                shown(step, done, total)
        shown._shown.refresh()
        assert "routed_rows 2/2 blocks" in stream.getvalue()
        assert "rows/s" in stream.getvalue()
    last = stream.getvalue().rsplit("\x1b[2K", 1)[-1]
    assert last.count("✓") == 2
    assert "route" in last


def test_lines_where_there_is_none(monkeypatch):
    stream, clock = io.StringIO(), itertools.count(step=10)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.lines(Console(file=stream, width=80), 100) as shown:
        for done in range(6):
            shown("scan", done, 5)
        shown("routed_rows", 3, 5)
    assert [line.split(maxsplit=2)[2] for line in stream.getvalue().splitlines()] == [
        "scan",
        "scan: scan 3/5 blocks, 2 rows/s, 20 s left",
        "route: routed_rows 3/5 blocks",
    ]


def test_a_fit_says_where_it_is(blobs, many_blocks, capsys, tmp_path):
    bigsmic.fit(blobs[0], 4, progress=True, out=tmp_path / "run", **BRIEF)
    assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == [
        *("scan", "route", "neighbors", "graph", "eigen", "assign", "select", "output")
    ]
    bigsmic.fit(blobs[0], 4, progress=False, out=tmp_path / "run", **BRIEF)
    assert capsys.readouterr().err == ""


def test_a_resumed_stage_begins_with_what_is_done(blobs, many_blocks, tmp_path):
    class Stopped(Exception):
        pass

    def stop(stage, done, total):
        if (stage, done) == ("neighbors", 2):
            raise Stopped

    with pytest.raises(Stopped):
        bigsmic.fit(blobs[0], 4, progress=stop, out=tmp_path / "run", **BRIEF)
    seen = []
    bigsmic.fit(blobs[0], 4, progress=lambda *event: seen.append(event), out=tmp_path / "run", **BRIEF)
    total = seen[-1][2]
    first = next(event for event in seen if event[0] == "neighbors")
    assert first[1] == 2 < first[2]
    assert ("neighbors", total, total) in seen or first[2] != total
    assert all(
        later[1] > earlier[1] for earlier, later in itertools.pairwise(seen) if earlier[0] == later[0] == "output"
    )


def test_a_prediction_says_where_it_is(blobs, tmp_path):
    archive = zarr.create_array(str(tmp_path / "X.zarr"), data=np.tile(blobs[0], (2, 1)), chunks=(100, 5))
    result, seen = bigsmic.fit(blobs[0], 4, **BRIEF), []
    result.predict(archive, progress=lambda *event: seen.append(event))
    assert seen == [("predict", 0, 1), ("predict", 1, 1)]


class Full(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("is_closed", [False, True])
def test_progress_that_cannot_be_written_is_left_out(monkeypatch, is_closed):
    stream = io.StringIO() if is_closed else Full()
    if is_closed:
        stream.close()
    monkeypatch.setattr("sys.stderr", stream)
    with progress.reported(True) as report:
        report("scan", 0, 2)


def test_what_is_no_switch_and_no_function_is_refused(blobs):
    with pytest.raises(InputError, match="progress: got 'yes'; give True, False, or a function"):
        bigsmic.fit(blobs[0], 4, progress="yes", **BRIEF)


def test_a_report_of_a_cluster_without_a_cluster_is_refused(blobs, tmp_path):
    with pytest.raises(InputError, match=r"performance_report: .* threads of one process; give client= or scheduler="):
        bigsmic.fit(blobs[0], 4, performance_report=tmp_path / "report.html", out=tmp_path / "run", **BRIEF)


@pytest.mark.parametrize("option", [{"progress": "yes"}, {"performance_report": "report.html"}])
def test_what_a_fit_refuses_leaves_no_run_behind(blobs, tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"{next(iter(option))}: "):
        bigsmic.fit(blobs[0], 4, out="run", **option, **BRIEF)
    assert not list(tmp_path.iterdir())  # a run of these settings would refuse a call with others


@pytest.mark.parametrize("option", [{"progress": "yes"}, {"performance_report": "report.html"}])
def test_a_plan_refuses_what_a_fit_refuses(blobs, option):
    with pytest.raises(InputError, match=f"{next(iter(option))}: "):
        bigsmic.plan(blobs[0], 4, **option, **BRIEF)


def test_an_imagined_cluster_may_make_a_report(blobs):
    assert bigsmic.plan(blobs[0], 4, n_workers=2, performance_report="report.html", **BRIEF).peak_bytes
