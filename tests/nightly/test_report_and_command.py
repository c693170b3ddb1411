"""What a night tells others: its report and the command after it, which do not hold back new rows if they fail."""

import json
import shlex
import sys

import pytest
from nights import job

from bigsmic import Result
from bigsmic.errors import InputError, RunError
from bigsmic.nightly import check, history, nightly, steps


def test_reports_and_the_command_after(tmp_path, machine):
    machine.night(200)
    script = tmp_path / "after.sh"
    script.write_text('#!/bin/sh\necho "$BIGSMIC_NIGHT $BIGSMIC_REFIT $BIGSMIC_ROWS $BIGSMIC_REPORT" >> "$0.log"\n')
    script.chmod(0o755)
    top = f'report = "reports/{{night}}.html"\nafter = "{shlex.quote(str(script))}"'
    file = job(tmp_path, top=top, refit="every = 2")
    for _ in range(3):
        nightly(file)
        machine.night(30)
    reports = [f"{tmp_path}/reports/{night}.html" for night in ("000001", "000003")]
    log = (tmp_path / "after.sh.log").read_text().splitlines()
    assert log == [f"1 first 200 {reports[0]}", f"2  230 {reports[0]}", f"3 every 260 {reports[1]}"]
    assert sorted(map(str, (tmp_path / "reports").iterdir())) == reports


def test_a_report_is_written_again_only_where_it_shows_something_else(tmp_path, machine):
    machine.night(200)
    file, place = job(tmp_path, top='report = "report.html"'), tmp_path / "report.html"

    def night():
        """Do a night; whether the report was written."""
        before = place.stat().st_mtime_ns if place.exists() else 0
        machine.night(20)
        assert nightly(file).steps["report"]["report"] == str(place)
        return place.stat().st_mtime_ns != before

    assert [night(), night()] == [True, False]
    Result.open(tmp_path / "nights" / "latest").set_names({0: "idle"})
    assert [night(), night()] == [True, False]
    assert "idle" in place.read_text()
    place.unlink()
    assert [night(), night()] == [True, False]
    place.write_text("<!doctype html><!-- something else -->")
    with pytest.raises(RunError, match=r"failed: report: .*report\.html exists and is not a report"):
        night()


def test_the_output_of_the_command_leaves_stdout_to_the_result(tmp_path, machine, capfd):
    machine.night(200)
    nightly(job(tmp_path, top='after = "echo told"'))
    written = capfd.readouterr()
    assert (written.out, written.err.count("told\n")) == ("", 1)


def test_a_command_that_fails_does_not_hold_back_new_rows(tmp_path, machine):
    machine.night(200)
    flag = tmp_path / "flag"
    file = job(tmp_path, top=f'after = ["test", "-e", "{flag}"]')
    for rows in (200, 250):
        with pytest.raises(RunError, match=f"{rows} rows.* labels are kept, but this failed: after: test ended with 1"):
            nightly(file)
        assert len(Result.open(tmp_path / "nights" / "latest").archive_labels()) == rows
        machine.night(50)
    flag.touch()
    assert (nightly(file).night, nightly(file).night) == (3, 0)
    assert history(tmp_path / "nights").rows.tolist() == [200, 250, 300]
    with pytest.raises(RunError, match="after: nowhere cannot be run"):
        machine.night(10), nightly(job(tmp_path, top='after = "nowhere"'))


def test_a_command_that_fails_is_run_again_and_nothing_else(tmp_path, machine, monkeypatch):
    machine.night(200)
    flag = tmp_path / "flag"
    file = job(tmp_path, top=f'after = ["test", "-e", "{flag}"]')
    with pytest.raises(RunError, match="after: test ended with 1"):
        nightly(file)
    assert json.loads((tmp_path / "nights" / "journal.json").read_text())["begun"]["failed"] == {
        "after": "after: test ended with 1"
    }
    monkeypatch.setattr(steps.pipeline, "fit", None)
    with pytest.raises(RunError, match="after: test ended with 1"):
        nightly(file)
    flag.touch()
    outcome = nightly(file)
    assert (outcome.night, outcome.resumed, outcome.rows) == (1, True, 200)
    assert nightly(file).night == 0
    assert len(history(tmp_path / "nights")) == 1


def test_a_job_that_was_changed_after_its_command_failed_fits_again(tmp_path, machine):
    machine.night(240)
    with pytest.raises(RunError, match="after: false ended with 1"):
        nightly(job(tmp_path, fit="c = 2\nvalleys = false", top='after = "false"'))
    outcome = nightly(job(tmp_path, fit="c = 3"))
    assert (outcome.night, outcome.steps["decide"]["refit"], outcome.steps["fit"]["clusters"]) == (2, "job", 3)


@pytest.mark.parametrize("package", ["jinja2", "openTSNE"])
def test_without_the_extra_for_reports_nothing_is_begun(tmp_path, machine, monkeypatch, package):
    machine.night(200)
    monkeypatch.setitem(sys.modules, package, None)
    file = job(tmp_path, top='report = "reports/{night}.html"')
    for call in (check, nightly):
        with pytest.raises(InputError, match=rf"report: {package} is not installed; pip install 'bigsmic\[report\]'"):
            call(file)
    assert not (tmp_path / "nights").exists()


def test_a_report_that_cannot_be_written_is_written_by_the_next_call(tmp_path, machine):
    machine.night(200)
    told = tmp_path / "told"
    file = job(tmp_path, top=f"""report = "reports/{{night}}.html"\nafter = ["sh", "-c", 'echo >> "$0"', "{told}"]""")
    (tmp_path / "reports").touch()
    for _ in range(2):
        with pytest.raises(RunError, match=r"this failed: .*which is not a directory"):
            nightly(file)
    (tmp_path / "reports").unlink()
    outcome = nightly(file)
    assert (outcome.night, outcome.resumed, nightly(file).night) == (1, True, 0)
    assert (tmp_path / "reports" / "000001.html").exists()
    assert told.read_text() == "\n", "the command was run once"


def test_errors_of_a_report_that_nobody_foresaw_do_not_hold_back_new_rows(tmp_path, machine, monkeypatch):
    machine.night(200)
    monkeypatch.setattr(Result, "report", lambda self, *place, **options: 1 / 0)
    file = job(tmp_path, top='report = "report.html"')
    for rows in (200, 230):
        with pytest.raises(RunError, match=f"{rows} rows.*failed: ZeroDivisionError: division by zero") as caught:
            nightly(file)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        machine.night(30)
