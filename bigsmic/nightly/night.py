"""A night from start to end, or resumed after an interruption."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from bigsmic.errors import InputError, PlanError, RunMismatchError
from bigsmic.nightly.job import Job
from bigsmic.nightly.journal import Begun, Journal
from bigsmic.nightly.steps import STEPS, Night, count_rows, ended_after, refuse_shrunk, run_name
from bigsmic.report.rendering import needed
from bigsmic.store import WorkFolder
from bigsmic.types import Progress, StorageOptions, StrPath


@dataclass(frozen=True)
class Outcome:
    """Result of a call.

    Attributes
    ----------
    night : int
        Number of the night; 0 where there was nothing to do.
    resumed : bool
        Whether an earlier call had begun it.
    rows : int
        Of the archive.
    steps : dict of str to dict
        What the steps of the night noted; empty where there was nothing to do.
    folder : str
        Where all of it is.
    """

    night: int
    resumed: bool
    rows: int
    steps: dict[str, dict[str, Any]]
    folder: str

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        if not self.night:
            return f"Nothing to do: {self.rows:,} rows, as before."
        refit, fitted, found = (self.steps.get(name, {}) for name in ("decide", "fit", "label"))
        begun = f"Night {self.night}{', which had been begun' if self.resumed else ''}: {self.rows:,} rows"
        parts = [f"{found['new']:,} of them new, {found['novel']:,} novel"] if found.get("new", -1) >= 0 else []
        parts += [f"fitted ({refit['refit']}), {_clusters(fitted)}"] if refit.get("refit") else ["no refit"]
        parts += [f"{len(self.steps['tidy']['deleted'])} old deleted"] if self.steps["tidy"]["deleted"] else []
        return f"{begun}; {'; '.join(parts)}."

    def document(self) -> dict[str, Any]:
        """JSON-like form."""
        return asdict(self) | {"sentence": self.sentence}


def _clusters(fitted: dict[str, Any]) -> str:
    if not fitted["labels"]:
        return "no number of clusters found, so that the run before stays"
    return f"{fitted['clusters']} clusters" + (f": {fitted['sentence'].rstrip('.')}" if "sentence" in fitted else "")


def nightly(job: Job | StrPath, *, storage_options: StorageOptions = None, progress: Progress = None) -> Outcome:
    """Do the steps that are due for a growing archive, and nothing else.

    Rows that have come are labelled by the run that ``latest`` names; where the job file has it so, there is a refit,
    whose clusters keep their numbers; then a report, a row of the history, old runs deleted, a command. A call that was
    killed is finished by the next one, with the rows that were there when it began.

    Parameters
    ----------
    job : str, Path or Job
        The job file.
    storage_options : dict, optional
        For the file system behind the archive's URL; never written anywhere.
    progress : bool or callable, optional
        As of :func:`bigsmic.fit`.

    Returns
    -------
    outcome : Outcome

    Raises
    ------
    InputError
        The job file, or the archive, cannot be used: the night is begun anew by the next call.
    RunLockedError
        Another process works for this job.
    RunMismatchError
        The archive was rewritten, or has become shorter.
    RunError
        Something in the folder cannot be used, or the command after the night has failed.
    PlanError, StorageError
        As of :func:`bigsmic.fit`.
    """
    job = job if isinstance(job, Job) else Job.read(job)
    if job.report is not None:
        needed()
    folder = WorkFolder(job.folder)
    with folder.locked():
        journal = Journal(folder)
        resumed = _resumed(job, journal)
        begun = journal.begun if resumed else _begin(job, journal, storage_options, progress)
        if begun is None:
            return Outcome(0, False, journal.ended.rows, {}, folder.path)
        night = Night(job, folder, journal.ended, begun, {"storage_options": storage_options, "progress": progress})
        try:
            _go_through(night, journal)
        except (InputError, PlanError, RunMismatchError):
            if "fit" not in begun.steps:
                _abandon(journal)
            raise
        return Outcome(begun.number, resumed, begun.rows, begun.steps, folder.path)


def _resumed(job: Job, journal: Journal) -> bool:
    """Whether an unfinished night is to be finished; one of another job is started again."""
    if journal.begun is not None and journal.begun.fit_of != job.fit_of:
        _abandon(journal)
    return journal.begun is not None


def _begin(job: Job, journal: Journal, storage_options: StorageOptions, progress: Progress) -> Begun | None:
    """Start a night, if one is due."""
    rows = count_rows(job, journal.folder, storage_options, progress)
    ended = journal.ended
    refuse_shrunk(job, ended, rows)
    if not rows or (rows == ended.rows and ended.fit_of == job.fit_of):
        return None
    journal.begin(Begun(ended.nights + 1, time.time(), rows, job.rows_of, job.fit_of))
    return journal.begun


def _go_through(night: Night, journal: Journal) -> None:
    """Run the steps that the journal lacks."""
    for name, step in STEPS.items():
        if name not in night.begun.steps:
            journal.note(name, step(night))
    journal.end(ended_after(night))


def _abandon(journal: Journal) -> None:
    """Discard a night that cannot be finished, with its unfinished run, unless `latest` points at that."""
    if journal.begun is None:
        return
    if "point" not in journal.begun.steps:
        journal.folder.delete(run_name(journal.begun.number))
    journal.end()
