"""Nights of an archive that grows: what is due is done, once, whatever is killed in between."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr
from nights import CENTERS, Killed, Killer, Machine, finish, job, labels_of, written

from bigsmic import Result
from bigsmic.errors import InputError, PlanError, RunError, RunLockedError, RunMismatchError, StorageError
from bigsmic.nightly import Job, check, history, nightly, steps
from bigsmic.store import WorkFolder
from bigsmic.updates.drift import RECOMMENDED


def folder_of(tmp_path):
    return WorkFolder(tmp_path / "nights")


@pytest.mark.parametrize(("name", "message"), [("nihgts", "nihgts does not exist"), ("", "is not that of a job")])
def test_the_history_of_another_folder_is_refused(tmp_path, name, message):
    with pytest.raises(InputError, match=f"history: the folder .*{message}; give what job.toml names as folder"):
        history(tmp_path / name)


# -- what is due


def test_the_first_night_fits_and_the_next_ones_label_what_has_come(tmp_path, machine):
    machine.night(300)
    file = job(tmp_path)
    first = nightly(file)
    assert (first.night, first.resumed, first.steps["decide"]) == (1, False, {"refit": "first"})
    machine.night(60)
    second = nightly(file)
    assert (second.night, second.steps["decide"]["refit"]) == (2, "")
    assert (second.steps["label"]["new"], second.steps["fit"]) == (60, {})
    result = Result.open(tmp_path / "nights" / "latest")
    assert len(result.archive_labels()) == 360
    table = history(tmp_path / "nights")
    assert table.rows.tolist() == [300, 360]
    assert table.new_rows.tolist() == [-1, 60]
    assert table.refit.tolist() == ["first", ""]
    assert table.run.tolist() == [1, 1]
    assert table.clusters.tolist() == [3, 3]
    assert (table.ended >= table.begun).all()


def test_a_line_of_text_that_is_being_written_is_left_to_the_next_night(tmp_path, machine):
    machine.night(300)
    lines = "a,b,c\n" + "".join(f"{x},{y},{z}\n" for x, y, z in machine.array[:].tolist())
    (tmp_path / "machine.csv").write_text(lines + "1,2,12.3")
    file = written(tmp_path, 'archive = "machine.csv"\nfolder = "nights"\n[fit]\nc = 3\nt = 5\nshrinkage = 0\n')
    assert (check(file), nightly(file).rows) == (300, 300)
    assert nightly(file).steps == {}
    (tmp_path / "machine.csv").write_text(lines + "1,2,12.345\n")
    assert nightly(file).rows == 301
    assert len(labels_of(tmp_path / "nights")) == 301


@pytest.mark.parametrize("text", ["", "[windows]\nlength = 10\nrate = 25\n"])
def test_chunks_that_the_writer_leaves_out_are_read_as_fill_values_if_the_job_says_so(tmp_path, machine, text):
    machine.night(900)
    (tmp_path / "machine.zarr" / "c" / "2" / "0").unlink()
    with pytest.raises((StorageError, RunError), match="missing_chunks = 'fill'"):
        nightly(job(tmp_path, text, fit="c = 3"))
    file = job(tmp_path, text, fit="c = 3", top='missing_chunks = "fill"')
    n = 90 if text else 900
    assert check(file) == n
    assert nightly(file).rows == n
    machine.night(100)
    assert nightly(file).steps["label"]["new"] == n // 9


def test_nothing_is_done_where_nothing_is_due(tmp_path, machine):
    machine.night(300)
    file = job(tmp_path)
    nightly(file)
    before = snapshot(tmp_path / "nights")
    again = nightly(file)
    assert (again.night, again.steps) == (0, {})
    assert again.sentence == "Nothing to do: 300 rows, as before."
    assert snapshot(tmp_path / "nights") == before


def snapshot(folder):
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_an_archive_without_rows_waits(tmp_path, machine):
    machine.night(0)
    assert nightly(job(tmp_path)).night == 0


def test_refits_by_nights_and_by_growth(tmp_path, machine):
    machine.night(200)
    every, growth = job(tmp_path, fit="c = 3\nvalleys = false", refit="every = 2"), tmp_path / "growth.toml"
    growth.write_text(every.read_text().replace("nights", "others").replace("every = 2", "growth = 0.5"))
    found = {every: [], growth: []}
    for _ in range(5):
        for file, reasons in found.items():
            reasons.append(nightly(file).steps["decide"]["refit"])
        machine.night(50)
    assert found[every] == ["first", "", "every", "", "every"]
    assert found[growth] == ["first", "", "growth", "", ""]  # 200, 250, 300, 350, 400 rows


def test_refits_keep_numbers_and_a_new_regime_gets_a_new_one(tmp_path, machine):
    machine.night(300)
    file = job(tmp_path, refit="every = 1", fit="c = 4\nvalleys = false", top="keep = 9")
    file.write_text(file.read_text().replace("c = 4", "c = 3"))
    nightly(file)
    first = Result.open(tmp_path / "nights" / "latest")
    labels = first.set_names({0: "idle"}).labels
    machine.regimes.append(3)
    machine.night(300)
    file.write_text(file.read_text().replace("c = 3", "c = 4"))
    outcome = nightly(file)
    second = Result.open(tmp_path / "nights" / "latest")
    assert outcome.steps["decide"]["refit"] == "job"  # another number of clusters is another fit
    assert second.names == {0: "idle"}
    assert (second.labels[:300] == labels).mean() > 0.98
    assert outcome.steps["fit"]["new"] == 1
    assert "fitted (job), 4 clusters: 3 of 3 clusters continue; new: 3" in outcome.sentence


@pytest.mark.parametrize(("method", "kept"), [("3smic", {2: "fast"}), ("rim", {})])
def test_known_labels_take_the_place_of_earlier_numbers_only_where_they_number_clusters(
    tmp_path, machine, method, kept
):
    """Those of 3SMIC are links, so that its clusters would have other numbers every night."""
    machine.night(300)
    known = np.square(machine.array[:20][:, None] - CENTERS[:3]).sum(axis=2).argmin(axis=1)
    file = job(tmp_path, fit=f'c = 3\nmethod = "{method}"\nlabels = "known.npy"', refit="every = 1")
    for rows in (300, 360):
        np.save(tmp_path / "known.npy", np.append(known, np.full(rows - 20, -1)))
        nightly(file)
        result = Result.open(tmp_path / "nights" / "latest")
        if rows == 300:
            result.set_names({2: "fast"})
            machine.night(60)
    assert (result.matched is not None, result.names) == (bool(kept), kept)


def test_drift_leads_to_a_refit_where_that_is_asked_for(tmp_path, machine, monkeypatch):
    machine.night(300)
    on, off = job(tmp_path, refit="drift = true"), tmp_path / "off.toml"
    off.write_text(on.read_text().replace("nights", "others").replace("drift = true", ""))
    for file in (on, off):
        nightly(file)
    machine.night(60)
    judged = [{"first": 300, "verdict": RECOMMENDED, "reason": "", "tests": {"novelty": {"p": 1e-9}}}]
    monkeypatch.setattr(Result, "drift", property(lambda self: judged))
    assert [nightly(file).steps["decide"]["refit"] for file in (on, off)] == ["drift", ""]
    assert history(tmp_path / "nights").drift.tolist() == [-1, 1]
    assert history(tmp_path / "nights").drift_p[2] == 1e-9


@pytest.mark.parametrize(("rule", "rows"), [("last = 150", range(250, 400)), ("reservoir = 150", None)])
def test_a_fit_takes_the_rows_that_the_job_says(tmp_path, machine, rule, rows):
    machine.night(400)
    nightly(job(tmp_path, refit=rule))
    taken = Result.open(tmp_path / "nights" / "latest").rows
    assert len(taken) == 150
    if rows is not None:
        assert taken.tolist() == list(rows)
    machine.night(50)
    outcome = nightly(job(tmp_path, refit=rule))
    assert outcome.steps["label"]["new"] == 50
    archive = Result.open(tmp_path / "nights" / "latest").archive_labels()
    assert (len(archive), (archive >= 0).sum()) == (450, 200)


def test_windows_of_recordings(tmp_path, machine):
    machine.record(4000)
    file = job(tmp_path, text='[windows]\nlength = 20\nfeatures = "summary"\n', fit="c = 2")
    assert nightly(file).rows == 200
    machine.record(10)
    assert nightly(file).night == 0, "no window is whole yet"
    machine.record(490)
    outcome = nightly(file)
    assert (outcome.rows, outcome.steps["label"]["new"]) == (225, 25)
    (windows,) = (tmp_path / "nights").glob("windows-*")
    file.write_text(file.read_text().replace("length = 20", "length = 25"))
    assert nightly(file).steps["decide"]["refit"] == "job"
    assert [path for path in (tmp_path / "nights").glob("windows-*") if path == windows] == []


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 2, but the data show")  # as both channels part them
def test_a_channel_that_dies_is_drift_and_is_fitted(tmp_path, machine):
    """The first fit has no window of the dead channel, the second one has 300 beside 100 of the living one."""
    windows = '[windows]\nlength = 20\nfeatures = "summary"\n'
    file = job(tmp_path, text=windows, fit="c = 2", refit="drift = true\nlast = 400")
    machine.record(8000)
    nightly(file)
    for samples, dead, refit in ((2000, (), ""), (6000, [1], "drift")):
        machine.record(samples, dead=dead)
        outcome = nightly(file)
        assert (outcome.steps["label"]["new"], outcome.steps["decide"]["refit"]) == (samples // 20, refit)
    assert len(np.unique(labels_of(tmp_path / "nights")[-400:])) == 2


def test_windows_of_the_run_that_latest_names_stay_when_those_of_the_job_are_others(tmp_path, machine):
    file = job(tmp_path, text='[windows]\nlength = 20\nfeatures = "summary"\n', fit="c = 2", refit="last = 300")
    machine.record(4000)
    nightly(file)
    first, (old,) = labels_of(tmp_path / "nights"), (tmp_path / "nights").glob("windows-*")
    machine.record(9000, loudness=1)
    file = job(tmp_path, text='[windows]\nlength = 25\nfeatures = "summary"\n', fit="", refit="last = 300")
    outcome = nightly(file)
    assert (outcome.steps["decide"]["refit"], outcome.steps["fit"]["labels"]) == ("job", False)
    machine.record(500, loudness=1)
    again = nightly(file)
    assert again.steps["label"]["new"] == -1, "the run that latest names is of other windows"
    assert old.is_dir()
    assert len([*(tmp_path / "nights").glob("windows-*")]) == 2
    np.testing.assert_array_equal(labels_of(tmp_path / "nights"), first)
    assert Result.open(tmp_path / "nights" / "latest").update(old).rows == 0


def test_a_fit_that_finds_no_clusters_leaves_the_run_before(tmp_path):
    rng = np.random.default_rng(0)
    array = zarr.create_array(tmp_path / "machine.zarr", shape=(0, 3), dtype="f4", chunks=(64, 3))
    array.append((rng.normal(size=(300, 3)) + 9 * np.eye(3)[np.arange(300) % 3]).astype("f4"))
    file = job(tmp_path, fit="", refit="every = 1\nlast = 400")
    assert nightly(file).steps["fit"]["labels"]
    array.append(rng.normal(size=(400, 3)).astype("f4"))
    outcome = nightly(file)
    assert outcome.steps["fit"] == {"labels": False, "clusters": 0}
    assert "no number of clusters found" in outcome.sentence
    assert os.readlink(folder_of(tmp_path).at("latest")) == steps.run_name(1)


def test_another_archive_without_clusters_is_fitted_again_when_it_has_more_rows(tmp_path, machine):
    """No run labels its rows until then, as `latest` names one of the archive before."""
    machine.night(300)
    nightly(job(tmp_path))
    rng = np.random.default_rng(0)
    other = zarr.create_array(tmp_path / "other.zarr", shape=(0, 3), dtype="f4", chunks=(64, 3))
    other.append(rng.normal(size=(400, 3)).astype("f4"))
    file = written(tmp_path, 'archive = "other.zarr"\nfolder = "nights"\n[fit]\nshrinkage = 0\n')
    assert nightly(file).steps["fit"] == {"labels": False, "clusters": 0}
    assert nightly(file).night == 0
    other.append((rng.normal(size=(600, 3)) + 9 * np.eye(3)[np.arange(600) % 3]).astype("f4"))
    again = nightly(file)
    assert (again.steps["decide"]["refit"], again.steps["fit"]["labels"]) == ("job", True)
    assert len(labels_of(tmp_path / "nights")) == 1000
    other.append(other[:50])
    assert nightly(file).steps["decide"]["refit"] == ""


def test_old_runs_are_deleted_and_never_the_latest(tmp_path, machine):
    machine.night(200)
    file = job(tmp_path, refit="every = 1", top="keep = 2")
    for _ in range(4):
        nightly(file)
        machine.night(40)
    folder = folder_of(tmp_path)
    assert folder.names("runs") == ["000003.zarr", "000004.zarr"]
    assert os.readlink(folder.at("latest")) == "runs/000004.zarr"
    night = steps.Night(
        Job.read(job(tmp_path, top="keep = 1")), folder, steps.Ended(run=3), steps.Begun(5, 0, 0, "", "")
    )
    assert steps.tidy(night)["deleted"] == []  # the last one is of a fit without labels
    assert folder.names("runs") == ["000003.zarr", "000004.zarr"]


def test_what_is_not_of_the_nights_is_never_deleted(tmp_path, machine):
    mine = [tmp_path / name for name in ("windows-10s.zarr", "runs/000-trial.zarr", "runs/notes.txt")]
    for path in mine:
        (path if path.suffix == ".zarr" else path.parent).mkdir(parents=True, exist_ok=True)
        (path / "kept" if path.is_dir() else path).write_text("mine")
    file = written(
        tmp_path, 'archive = "machine.zarr"\nfolder = "."\nkeep = 1\n[fit]\nc = 3\nt = 5\n[refit]\nevery = 1\n'
    )
    for _ in range(3):
        machine.night(200)
        outcome = nightly(file)
    assert outcome.steps["tidy"] == {"deleted": ["000002.zarr"]}
    assert all((path / "kept" if path.is_dir() else path).read_text() == "mine" for path in mine)


# -- cut short


def sequence(tmp_path, name, killer=None):
    """Twelve nights with a regime that appears, as labels, history and what is on the disk."""
    folder = tmp_path / name
    folder.mkdir()
    machine = Machine(folder / "machine.zarr", seed=1)
    file = job(folder, refit="every = 4\ngrowth = 0.9", fit="c = 3\nvalleys = false", top="keep = 2")
    kills = 0
    for night in range(12):
        if night == 5:
            machine.regimes.append(3)
        machine.night(240 if night == 0 else 40)
        kills += finish(file, killer)
        assert nightly(file).night == 0
    return labels_of(folder / "nights"), history(folder / "nights"), kills


@pytest.mark.end_to_end
def test_nights_that_are_killed_again_and_again_come_to_the_same(tmp_path):
    labels, table, _ = sequence(tmp_path, "calm")
    others, disturbed, kills = sequence(tmp_path, "killed", Killer(seed=7, mean=60))
    assert kills >= 12
    np.testing.assert_array_equal(others, labels)
    columns = [name for name in table.columns if name not in ("begun", "ended")]
    assert disturbed[columns].equals(table[columns])
    assert len(table) == 12
    assert (table.refit == "every").sum() + (table.refit == "growth").sum() >= 2
    left = [
        sorted(path.name for path in (tmp_path / name / "nights" / "runs").iterdir()) for name in ("calm", "killed")
    ]
    assert left[0] == left[1]
    assert len(left[0]) == 2


@pytest.mark.end_to_end
def test_a_process_that_is_killed_is_gone_on_from(tmp_path, machine):
    machine.night(3000)
    file = job(tmp_path)
    command = [sys.executable, "-m", "bigsmic", "nightly", str(file), "--json", "--quiet"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (tmp_path / "nights" / "runs" / "000001.zarr" / "scan").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    machine.night(500)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    earlier = document["earlier"]
    assert (earlier["night"], earlier["resumed"], earlier["rows"]) == (1, True, 3000)
    assert (document["night"], document["resumed"], document["rows"]) == (2, False, 3500)
    assert document["steps"]["label"]["new"] == 500
    assert document["sentence"].startswith("Night 1, begun by an earlier call: 3,000 rows; ")
    assert "Night 2: 3,500 rows; 500 of them new" in document["sentence"]
    assert nightly(file).night == 0


def test_rows_that_come_while_a_night_is_worked_on_are_the_next_ones(tmp_path, machine, monkeypatch):
    machine.night(200)
    file = job(tmp_path, refit="every = 2")
    nightly(file)
    machine.night(40)
    update = Result.update

    def growing(self, *args, **options):
        machine.night(30)
        return update(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Result, "update", growing)
        outcome = nightly(file)
    assert (outcome.rows, outcome.steps["label"]["new"]) == (240, 40)
    assert nightly(file).steps["label"]["new"] == 30


def test_two_at_once(tmp_path, machine):
    machine.night(200)
    file = job(tmp_path)
    with folder_of(tmp_path).locked():
        with pytest.raises(RunLockedError, match="nights is being written by"):
            nightly(file)
        done = subprocess.run([sys.executable, "-m", "bigsmic", "nightly", str(file)], capture_output=True, check=False)
        assert done.returncode == 75
    assert nightly(file).night == 1


def test_a_job_that_was_changed_while_its_night_was_cut_short_begins_anew(tmp_path, machine, monkeypatch):
    machine.night(240)
    file = job(tmp_path, fit="c = 2\nvalleys = false")
    with monkeypatch.context() as patch:
        patch.setitem(steps.STEPS, "point", _kill)
        with pytest.raises(Killed):
            nightly(file)
    assert folder_of(tmp_path).names("runs") == ["000001.zarr"]
    outcome = nightly(job(tmp_path, fit="c = 3"))
    assert (outcome.night, outcome.resumed, outcome.steps["fit"]["clusters"]) == (1, False, 3)


def test_a_job_that_was_changed_after_latest_was_pointed_keeps_that_night(tmp_path, machine, monkeypatch):
    """Its run must not be fitted over, as `latest` names it; nor its windows deleted before there are others."""
    machine.record(4000)
    windows = '[windows]\nlength = 20\nfeatures = "summary"\n'
    with monkeypatch.context() as patch:
        patch.setitem(steps.STEPS, "record", _kill)
        with pytest.raises(Killed):
            nightly(job(tmp_path, text=windows, fit="c = 2"))
    (old,) = (tmp_path / "nights").glob("windows-*")
    outcome = nightly(job(tmp_path, text=windows.replace("20", "25"), fit="c = 2"))
    assert (outcome.earlier.night, outcome.earlier.steps["tidy"]["deleted"]) == (1, [])
    assert (outcome.night, outcome.steps["decide"]["refit"]) == (2, "job")
    assert outcome.steps["tidy"]["deleted"] == [old.name]
    assert history(tmp_path / "nights").run.tolist() == [1, 2]


def test_a_night_that_was_cut_short_after_it_had_deleted_the_run_before_is_finished(tmp_path, machine, monkeypatch):
    machine.night(240)
    file = job(tmp_path, top="keep = 1", refit="every = 1")
    nightly(file)
    machine.night(40)
    with monkeypatch.context() as patch:
        patch.setitem(steps.STEPS, "report", _kill)
        with pytest.raises(Killed):
            nightly(file)
    assert folder_of(tmp_path).names("runs") == ["000002.zarr"]
    assert check(file) == 280
    outcome = nightly(file)
    assert (outcome.night, outcome.resumed) == (2, True)
    assert history(tmp_path / "nights").run.tolist() == [1, 2]
    shutil.rmtree(tmp_path / "nights" / "runs" / "000002.zarr")
    with pytest.raises(RunError, match=r"000002\.zarr, the run at which latest points, is not there"):
        nightly(file)


def _kill(night):
    raise Killed


# -- what cannot be used


def test_rows_that_cannot_be_fitted_today_may_be_tomorrow(tmp_path, machine):
    machine.night(2)
    file = job(tmp_path, fit="c = 3")
    with pytest.raises(InputError, match=r"fit\.c: got 3 clusters for 2 rows"):
        nightly(file)
    machine.night(200)
    assert (nightly(file).night, nightly(file).night) == (1, 0)


def test_memory_that_does_not_do(tmp_path, machine):
    machine.night(200)
    with pytest.raises(PlanError):
        nightly(job(tmp_path, top='memory_limit = "10MiB"'))
    assert nightly(job(tmp_path)).night == 1


def test_archives_that_shrank_or_were_rewritten_are_refused(tmp_path, machine):
    machine.night(300)
    file = job(tmp_path)
    nightly(file)
    machine.array.resize((200, 3))
    with pytest.raises(RunMismatchError, match=r"machine\.zarr has 200 rows, fewer than the 300 of the night before"):
        nightly(file)
    machine.array.resize((300, 3))
    machine.array[:] = 7
    machine.night(20)
    for _ in range(2):
        with pytest.raises(RunMismatchError, match="have changed"):
            nightly(file)
    assert Result.open(tmp_path / "nights" / "latest").labels.shape == (300,)


def test_messages_name_keys_of_the_job_file(tmp_path, machine):
    machine.record(4000)
    windows = '[windows]\nlength = 20\nfeatures = "summary"\n'
    nightly(job(tmp_path, text=windows, fit="c = 2"))
    machine.array.resize((3000, 3))
    with pytest.raises(RunMismatchError, match=r"3,000 samples, and had 4,000 .*; restore it, or give another folder$"):
        nightly(job(tmp_path, text=windows, fit="c = 2"))
    with pytest.raises(InputError, match=r"^windows\.channels: got \('x',\) for 3 channels"):
        nightly(job(tmp_path, text=f"{windows}channels = ['x']\n"))


def test_a_journal_that_is_damaged_is_said(tmp_path, machine):
    machine.night(200)
    file = job(tmp_path)
    nightly(file)
    journal = tmp_path / "nights" / "journal.json"
    of_night = '{"format": 1, "ended": {"nights": "1"}, "begun": null}'
    for text, why in (
        ("{", "is damaged"),
        ('{"format": 2}', "of format 2"),
        ('{"format": 1}', "cannot be read"),
        (of_night, "cannot be read .nights is '1'."),
    ):
        journal.write_text(text)
        with pytest.raises(RunError, match=why):
            nightly(file)


@pytest.mark.parametrize("damage", ["lost", "short"])
def test_a_history_that_lost_a_column_is_said(tmp_path, machine, damage):
    machine.night(300)
    file = job(tmp_path)
    nightly(file)
    column = tmp_path / "nights" / "history.zarr" / "rows"
    if damage == "lost":
        shutil.rmtree(column)
    else:
        zarr.open_array(column).resize((0,))
    machine.night(30)
    why = "lacks the column rows" if damage == "lost" else "has 1 rows, and 0 of the column rows"
    for call in (lambda: history(tmp_path / "nights"), lambda: nightly(file)):
        with pytest.raises(RunError, match=f"history.zarr {why}; restore it, or move .*history.zarr away"):
            call()
    shutil.move(column.parent, tmp_path / "away")
    assert nightly(file).steps["label"]["new"] == 30
    assert history(tmp_path / "nights").index.tolist() == [2]


def test_a_journal_that_is_moved_away_begins_anew_beside_the_runs_that_are_there(tmp_path, machine):
    machine.night(200)
    file, folder = job(tmp_path, fit="c = 3\nvalleys = false"), tmp_path / "nights"
    nightly(file)
    machine.night(50)
    nightly(file)
    labels = labels_of(folder)
    machine.night(50)
    (folder / "journal.json").rename(tmp_path / "journal.json")
    assert nightly(file).steps["decide"] == {"refit": "first"}
    np.testing.assert_array_equal(Result.open(folder / "runs" / "000001.zarr").archive_labels(), labels)
    assert len(labels_of(folder)) == 300
    shutil.rmtree(folder / "history.zarr")
    machine.night(50)
    nightly(file)
    assert history(folder).rows.to_dict() == {4: 350}


def test_the_command_line(tmp_path, machine, monkeypatch):
    from typer.testing import CliRunner

    from bigsmic.cli import main

    machine.night(200)
    file = job(tmp_path)
    checked = CliRunner().invoke(main.app, ["nightly", str(file), "--check"])
    assert (checked.exit_code, os.path.exists(tmp_path / "nights")) == (0, False)
    done = CliRunner().invoke(main.app, ["nightly", str(file), "--json"])
    assert json.loads(done.stdout)["sentence"].startswith("Night 1: 200 rows; fitted (first), 3 clusters")
    again = CliRunner().invoke(main.app, ["nightly", str(file)])
    assert (again.exit_code, again.stdout) == (0, "Nothing to do: 200 rows, as before.\n")
    few = job(tmp_path, fit="c = 900")
    wrong = CliRunner().invoke(main.app, ["nightly", str(few)])
    assert (wrong.exit_code, wrong.stderr.count("fit.c: got 900 clusters for 200 rows")) == (3, 1)
    with monkeypatch.context() as patch:
        patch.setitem(steps.STEPS, "label", _interrupt)
        stopped = CliRunner().invoke(main.app, ["nightly", str(file)])
    assert (stopped.exit_code, "interrupted; the same command goes on" in stopped.stderr) == (130, True)
    file = job(tmp_path)
    file.write_text(file.read_text() + "memori = 3")
    wrong = CliRunner().invoke(main.app, ["nightly", str(file)])
    assert (wrong.exit_code, "line 10" in wrong.stderr) == (3, True)


def _interrupt(night):
    raise KeyboardInterrupt
