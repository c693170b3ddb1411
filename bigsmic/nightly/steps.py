"""Steps of a night, each of which can be repeated and records its result.

A step that was cut short, or whose note was lost, is done again and comes to the same; the command after the night is
the one thing that may then run twice.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bigsmic import pipeline, registry
from bigsmic.errors import BigsmicError, RunError, RunMismatchError
from bigsmic.features import windows
from bigsmic.nightly import records
from bigsmic.nightly.job import NIGHT, Job
from bigsmic.nightly.journal import FILE, Begun, Ended, Journal
from bigsmic.nightly.wording import told_by_keys
from bigsmic.numerics.selection import Selection, reservoir
from bigsmic.report.rendering import first_line
from bigsmic.result import Result
from bigsmic.stages import update_log
from bigsmic.store import Run, WorkFolder, WrittenFile, digest, is_local, open_source
from bigsmic.types import Progress, StorageOptions
from bigsmic.updates.drift import RECOMMENDED
from bigsmic.version import __version__

LATEST = "latest"
RUNS = "runs"
WINDOWS = "windows-"
RESERVOIR_SEED = 0
_RUN = re.compile(r"(\d{6,})\.zarr")
_WINDOWS = re.compile(rf"{WINDOWS}[0-9a-f]{{12}}\.zarr")
STDERR = 2
"""File descriptor for the output of the command after a night, as stdout is for the result."""

Facts = dict[str, Any]


@dataclass
class Night:
    """A night, and the objects that its steps use.

    Parameters
    ----------
    job : Job
    folder : WorkFolder
        Locked.
    ended : Ended
        The night before.
    begun : Begun
        This one; the steps that are done are noted there.
    resources : dict
        ``storage_options`` and ``progress``.
    """

    job: Job
    folder: WorkFolder
    ended: Ended
    begun: Begun
    resources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Number of the night, from 1."""
        return self.begun.number

    def noted(self, step: str) -> Facts:
        """Recorded result of a step."""
        return self.begun.steps.get(step, {})

    @property
    def refit(self) -> str:
        """Reason for a refit; empty for none."""
        reason: str = self.noted("decide").get("refit", "")
        return reason

    @property
    def run(self) -> int:
        """Night whose run `latest` will point at after this night; 0 for none."""
        return self.number if self.noted("fit").get("labels") else self.ended.run

    @cached_property
    def before(self) -> Result | None:
        """The run at which `latest` pointed when the night started."""
        return None if not self.ended.run else Result.open(self.folder.at(run_name(self.ended.run)))

    @cached_property
    def rows(self) -> Any:
        """Archive of the rows."""
        return rows_of(self.job, self.folder)

    @property
    def reading(self) -> Facts:
        """Options for reading them."""
        of_archive = self.job.reading if self.job.windows is None else {}
        return of_archive | {name: value for name, value in self.resources.items() if value is not None}


def run_name(night: int) -> str:
    """Run directory of a night, within the folder."""
    return f"{RUNS}/{night:06d}.zarr"


def windows_name(rows_of: str) -> str:
    """Archive of windows, within the folder, of rows of this identity."""
    return f"{WINDOWS}{rows_of[:12]}.zarr"


def next_night(folder: WorkFolder, ended: Ended) -> int:
    """Number of the next night: above those of all runs and of the history.

    A journal that was moved away, or restored, lacks some of them, which are not to be written again.
    """
    runs = [int(found[1]) for found in map(_RUN.fullmatch, folder.names(RUNS)) if found]
    recorded = len(records.table(folder.path).read()["night"])
    return 1 + max(ended.nights, recorded, *runs)


def rows_of(job: Job, folder: WorkFolder) -> str:
    """Location of the rows of a job."""
    return job.archive if job.windows is None else folder.at(windows_name(job.rows_of))


def count_rows(job: Job, folder: WorkFolder, storage_options: StorageOptions, progress: Progress) -> int:
    """Count the rows of the archive, after adding windows of new samples."""
    if job.windows is None:
        return open_source(job.archive, **job.reading, storage_options=storage_options).complete_rows
    limits = {"memory_limit": job.memory_limit, "n_threads": job.threads, **job.reading}
    shown = {"storage_options": storage_options, "progress": progress}
    made = windows(job.archive, out=rows_of(job, folder), **{**job.windows, **limits, **shown})
    return len(made)


# -- the steps


def label(night: Night) -> Facts:
    """Label the new rows with the run at which `latest` points, and test whether they differ from the fitted ones.

    What is noted is read from the run: a call before may have labelled them.
    """
    if night.before is None or night.ended.run_rows_of != night.begun.rows_of:
        return {"new": -1, "novel": -1}
    night.before.update(night.rows, stop=night.begun.rows, n_threads=night.job.threads, **night.reading)
    run = Run(night.before._run.address, writable=False)
    entries = [entry for entry in update_log.entries(run) if entry.first >= night.ended.rows]
    novel = sum(int((novelty > 1).sum()) for novelty in update_log.read_blocks(run, entries, "novelty"))
    judged = [drift for drift in night.before.drift if drift["first"] >= night.ended.rows]
    return {"new": sum(entry.last - entry.first for entry in entries), "novel": novel, "drift": judged}


def decide(night: Night) -> Facts:
    """Decide whether there is a fit, and why.

    If the last fit was of a new archive and found no clusters, no run can label the rows of that archive: it is fitted
    again when it has more of them.
    """
    ended, begun, refits = night.ended, night.begun, night.job.refits
    due = {
        "first": not ended.run,
        "job": ended.fit_of != begun.fit_of or ended.run_rows_of != begun.rows_of,
        "drift": refits.drift
        and any(judged["verdict"] == RECOMMENDED for judged in night.noted("label").get("drift", [])),
        "growth": refits.growth is not None and begun.rows >= ended.fitted_rows * (1 + refits.growth),
        "every": refits.every is not None and begun.number - ended.fitted_night >= refits.every,
    }
    return {"refit": next((reason for reason, is_due in due.items() if is_due), "")}


def fit(night: Night) -> Facts:
    """Fit the rows, if that is due; clusters keep the numbers of the previous run."""
    if not night.refit:
        return {}
    job = night.job
    result = pipeline.fit(
        night.rows,
        job.c,
        method=job.method,
        out=night.folder.at(run_name(night.number)),
        like=_like(night),
        rows=_taken(night),
        memory_limit=job.memory_limit,
        n_threads=job.threads,
        **night.reading,
        **job.options,
    )
    if result.settings.undecided:
        return {"labels": False, "clusters": 0}
    match = result.matched
    counts = (
        {"continued": len(match.continued), "new": len(match.new), "vanished": len(match.vanished)} if match else {}
    )
    said = {"sentence": match.sentence} if match else {}
    return {"labels": True, "clusters": len(result.numbers)} | counts | said


def _like(night: Night) -> Result | None:
    """The run whose numbers a fit keeps; None if its rows have other columns, or known labels number its clusters."""
    job = night.job
    if night.before is None or ("labels" in job.options and registry.settings_of(job.method).numbered_by_labels):
        return None
    reading = {name: value for name, value in night.reading.items() if name != "progress"}
    columns = open_source(night.rows, **reading).shape[1]
    return night.before if night.before.diagnostics["columns"] == columns else None


def _taken(night: Night) -> slice | Selection:
    """Rows of a fit."""
    refits, n = night.job.refits, night.begun.rows
    if refits.reservoir is not None and refits.reservoir < n:
        return reservoir(n, refits.reservoir, RESERVOIR_SEED)
    return slice(0 if refits.last is None else max(0, n - refits.last), n)


def point(night: Night) -> Facts:
    """Point `latest` at the run of the night, if it has labels."""
    if night.run:
        night.folder.point(LATEST, run_name(night.run))
    return {"run": night.run}


def report(night: Night) -> Facts:
    """Write the report on the run at which `latest` points, unless the last one shows the same."""
    if night.job.report is None or not night.run:
        return {}
    result = Result.open(night.folder.at(run_name(night.run)))
    shows = digest([result._context.run.id, sorted(result.names.items()), night.job.report, __version__])
    options = night.resources.get("storage_options")
    if shows == night.ended.report_shows and _is_there(night.ended.report, result._context.run.id, options):
        return {"report": night.ended.report, "shows": shows}
    place = night.job.report.replace(NIGHT, f"{night.number:06d}")
    if is_local(place):
        with suppress(OSError):  # the report says it
            os.makedirs(os.path.dirname(place), exist_ok=True)
    with told_by_keys({"out": "report"}):
        result.report(place, overwrite=True, storage_options=options)
    return {"report": place, "shows": shows}


def _is_there(place: str, run: str, storage_options: StorageOptions) -> bool:
    """Whether a report of the run is still at the place."""
    with suppress(BigsmicError):
        head = WrittenFile(place, storage_options).head()
        return head is not None and head.startswith(first_line(run).encode())
    return False


def record(night: Night) -> Facts:
    """Write the night's row of the history."""
    found, fitted = night.noted("label"), night.noted("fit")
    judged = [drift for drift in found.get("drift", []) if drift["verdict"] != "unknown"]
    counted = fitted.get("clusters") or _clusters_of(night)
    records.table(night.folder.path).write(
        night.number - 1,
        {
            "night": night.number,
            "begun": night.begun.begun,
            "ended": time.time(),
            "rows": night.begun.rows,
            "new_rows": found["new"],
            "novel_rows": found["novel"],
            "drift": int(any(drift["verdict"] == RECOMMENDED for drift in judged)) if judged else -1,
            "drift_p": min((test["p"] for drift in judged for test in drift["tests"].values()), default=np.nan),
            "refit": records.REASONS.index(night.refit),
            "run": night.run,
            "clusters": counted,
            "continued": fitted.get("continued", -1),
            "new_clusters": fitted.get("new", -1),
            "vanished": fitted.get("vanished", -1),
        },
    )
    return {}


def _clusters_of(night: Night) -> int:
    return 0 if night.before is None else len(night.before.numbers)


def tidy(night: Night) -> Facts:
    """Delete old runs, except the one at which `latest` points, and windows that no run uses.

    Whatever else is in the folder, which may be that of the job file, is the user's.
    """
    folder, kept = night.folder, os.path.basename(run_name(night.run))
    runs = [name for name in folder.names(RUNS) if _RUN.fullmatch(name)]
    old = [name for name in runs[: -night.job.keep] if name != kept]
    for name in old:
        folder.delete(f"{RUNS}/{name}")
    are_old = _run_rows_of(night) in ("", night.begun.rows_of)  # else they are those of the run that `latest` names
    of_night = windows_name(night.begun.rows_of)
    windows_there = [name for name in folder.names(".") if _WINDOWS.fullmatch(name) and name != of_night]
    others = windows_there if are_old else []
    for name in others:
        folder.delete(name)
    return {"deleted": old + others}


def after(night: Night) -> Facts:
    """Run the job file's command after the night.

    Raises
    ------
    RunError
        It cannot be run, or has failed.
    """
    command = night.job.after
    if not command:
        return {}
    told = {
        "BIGSMIC_NIGHT": str(night.number),
        "BIGSMIC_RUN": night.folder.at(run_name(night.run)) if night.run else "",
        "BIGSMIC_REFIT": night.refit,
        "BIGSMIC_REPORT": night.noted("report").get("report", ""),
        "BIGSMIC_ROWS": str(night.begun.rows),
    }
    try:
        status = subprocess.run(command, env=os.environ | told, stdout=STDERR, check=False).returncode
    except OSError as error:
        raise RunError(f"after: {command[0]} cannot be run ({error})") from None
    if status:
        raise RunError(f"after: {command[0]} ended with {status}")
    return {"status": 0}


STEPS: dict[str, Callable[[Night], Facts]] = {
    "label": label,
    "decide": decide,
    "fit": fit,
    "point": point,
    "record": record,
    "tidy": tidy,
    "report": report,
    "after": after,
}
"""The steps in order."""
MAY_FAIL = frozenset(("report", "after"))
"""Steps that tell others of a night, so that their failure must not hold back the next one."""


def _run_rows_of(night: Night) -> str:
    """Rows of the run at which `latest` points after the night."""
    return night.begun.rows_of if night.run == night.begun.number else night.ended.run_rows_of


def ended_after(night: Night) -> Ended:
    """State after a night with all steps done."""
    begun, fitted, told = night.begun, bool(night.refit), night.noted("report")
    return Ended(
        nights=begun.number,
        rows=begun.rows,
        rows_of=begun.rows_of,
        fit_of=begun.fit_of,
        run=night.run,
        run_rows_of=_run_rows_of(night),
        fitted_night=begun.number if fitted else night.ended.fitted_night,
        fitted_rows=begun.rows if fitted else night.ended.fitted_rows,
        report=told.get("report", night.ended.report),
        report_shows=told.get("shows", night.ended.report_shows),
    )


def refuse_disturbed(journal: Journal) -> None:
    """Refuse a folder in which others have put something where a night writes, or from which they took a run.

    Raises
    ------
    RunError
    """
    folder, (run, _) = journal.folder, journal.latest
    folder.admit_link(LATEST)
    records.table(folder.path).admit()
    if run and not os.path.isdir(folder.at(run_name(run))):
        raise RunError(
            f"folder: {folder.at(run_name(run))}, the run at which {LATEST} points, is not there; bring it back, "
            f"or move {folder.at(FILE)} away, and the next call begins with a fit"
        )


def refuse_shrunk(job: Job, ended: Ended, rows: int) -> None:
    """Refuse an archive that has become shorter.

    Raises
    ------
    RunMismatchError
    """
    if rows < ended.rows and ended.rows_of == job.rows_of:
        raise RunMismatchError(
            f"archive: {job.archive} has {rows:,} rows, fewer than the {ended.rows:,} of the night before; restore it, "
            "or give another folder to start again"
        )
