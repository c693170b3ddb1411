"""A night from start to end, or resumed after an interruption."""

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Self

from bigsmic.errors import InputError, PlanError, RunError, RunMismatchError
from bigsmic.nightly.job import Job
from bigsmic.nightly.journal import Begun, Journal
from bigsmic.nightly.steps import (
    MAY_FAIL,
    STEPS,
    Night,
    count_rows,
    ended_after,
    next_night,
    refuse_disturbed,
    refuse_shrunk,
    run_name,
)
from bigsmic.nightly.wording import told_by_keys
from bigsmic.report.rendering import needed
from bigsmic.store import WorkFolder
from bigsmic.tables import count
from bigsmic.types import Progress, StorageOptions, StrPath


@dataclass(frozen=True)
class Outcome:
    """Result of a call of :func:`nightly`.

    Attributes
    ----------
    night : int
        Number of the night; 0 if there was nothing to do.
    resumed : bool
        Whether an earlier call had begun the night.
    rows : int
        Number of rows of the archive.
    steps : dict of str to dict
        Facts that the steps of the night recorded, by name of the step: ``label``, ``decide``, ``fit``, ``point``,
        ``record``, ``tidy``, ``report`` and ``after``; empty if there was nothing to do.
    folder : str
        Absolute path of the folder of the job.
    earlier : Outcome, optional
        Outcome of the night that an earlier call had begun, if this call has finished it before its own.
    """

    night: int
    resumed: bool
    rows: int
    steps: dict[str, dict[str, Any]]
    folder: str
    earlier: Self | None = None

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        if not self.night:
            return f"Nothing to do: {count(self.rows, 'row')}, as before."
        refit, fitted, found = (self.steps.get(name, {}) for name in ("decide", "fit", "label"))
        begun = f"Night {self.night}{', begun by an earlier call' if self.resumed else ''}: {count(self.rows, 'row')}"
        parts = [f"{found['new']:,} of them new, {found['novel']:,} novel"] if found.get("new", -1) >= 0 else []
        parts += [f"fitted ({refit['refit']}), {_clusters(fitted)}"] if refit.get("refit") else ["no refit"]
        parts += [f"{len(self.steps['tidy']['deleted'])} old deleted"] if self.steps["tidy"]["deleted"] else []
        sentence = f"{begun}; {'; '.join(parts)}."
        return sentence if self.earlier is None else f"{self.earlier.sentence} {sentence}"

    def document(self) -> dict[str, Any]:
        """JSON-like form."""
        earlier = None if self.earlier is None else self.earlier.document()
        return asdict(self) | {"earlier": earlier, "sentence": self.sentence}


def _clusters(fitted: dict[str, Any]) -> str:
    if not fitted["labels"]:
        return "no number of clusters found, so that the run before stays"
    said = f": {fitted['sentence'].rstrip('.')}" if "sentence" in fitted else ""
    return f"{count(fitted['clusters'], 'cluster')}{said}"


def nightly(job: Job | StrPath, *, storage_options: StorageOptions = None, progress: Progress = None) -> Outcome:
    """Do the steps that are due for a growing archive, and nothing else.

    New rows are labelled by the run to which ``latest`` points. If the job file asks for it, the rows are fitted again,
    and clusters keep their numbers. Then the history gets a row, old runs are deleted, a report is written, and a
    command is run. A call that was killed is finished by the next one, with the rows that were there when it began; the
    same call then labels rows that have come since, as the next night. A report or a command that fails does not hold
    back the next night.

    Parameters
    ----------
    job : str, Path or Job
        The job file.
    storage_options : dict, optional
        For the file system behind the archive's URL; never written anywhere.
    progress : bool or callable, optional
        As in :func:`bigsmic.fit`.

    Returns
    -------
    outcome : Outcome

    Raises
    ------
    InputError
        The job file, or the archive, cannot be used. The next call begins the night anew.
    RunLockedError
        Another process runs this job.
    RunMismatchError
        Earlier rows of the archive have changed, or it has become shorter.
    RunError
        Something in the folder cannot be used; or, after a finished night, its report or command has failed, which the
        next call tries again if it finds no new rows.
    PlanError, StorageError
        As in :func:`bigsmic.fit`.
    """
    job = job if isinstance(job, Job) else Job.read(job)
    if job.report is not None:
        needed(with_map=True)
    with told_by_keys(), (folder := WorkFolder(job.folder)).locked():
        journal = Journal(folder)
        refuse_disturbed(journal)
        resources = {"storage_options": storage_options, "progress": progress}
        work = partial(_work, job, journal, resources)
        _abandon_that_of_another_job(job, journal)
        earlier = work(resumed=True) if journal.is_unfinished else None
        if _begin(job, journal, storage_options, progress):
            done = replace(work(), earlier=earlier)
        elif journal.begun is not None and earlier is None:
            done = work(resumed=True)  # only what has failed of the last night
        else:
            done = earlier or Outcome(0, False, journal.ended.rows, {}, folder.path)
        _raise_failure(done, journal)
        return done


def _abandon_that_of_another_job(job: Job, journal: Journal) -> None:
    """Discard an unfinished night if the job file has changed since, unless `latest` already points at its run.

    The steps that are left then do not depend on what has changed.
    """
    begun = journal.begun
    if journal.is_unfinished and begun is not None and begun.fit_of != job.fit_of and "point" not in begun.steps:
        _abandon(journal)


def _begin(job: Job, journal: Journal, storage_options: StorageOptions, progress: Progress) -> bool:
    """Start a night, if one is due."""
    rows = count_rows(job, journal.folder, storage_options, progress)
    ended = journal.ended
    refuse_shrunk(job, ended, rows)
    if not rows or (rows == ended.rows and ended.fit_of == job.fit_of):
        return False
    journal.begin(Begun(next_night(journal.folder, ended), time.time(), rows, job.rows_of, job.fit_of))
    return True


def _work(job: Job, journal: Journal, resources: dict[str, Any], resumed: bool = False) -> Outcome:
    """Run the steps that the journal lacks."""
    begun = journal.begun
    assert begun is not None
    night = Night(job, journal.folder, journal.ended, begun, resources)
    try:
        _go_through(night, journal)
    except (InputError, PlanError, RunMismatchError):
        if "fit" not in begun.steps:
            _abandon(journal)
        raise
    return Outcome(begun.number, resumed, begun.rows, begun.steps, journal.folder.path)


def _go_through(night: Night, journal: Journal) -> None:
    for name, step in STEPS.items():
        if name in night.begun.steps:
            continue
        try:
            journal.note(name, step(night))
        except Exception as error:
            if name not in MAY_FAIL:
                raise
            journal.fail(name, error)
    journal.end(ended_after(night))


def _abandon(journal: Journal) -> None:
    """Discard a night that cannot be finished, with its unfinished run."""
    if journal.begun is not None:
        journal.folder.delete(run_name(journal.begun.number))
        journal.discard()


def _raise_failure(done: Outcome, journal: Journal) -> None:
    """Raise RunError if the report or the command of the last night has failed."""
    if journal.begun is None:
        return
    failed = "; ".join(journal.begun.failed.values())
    raise RunError(
        f"{done.sentence} The night is finished and its labels are kept, but this failed: {failed}; mend it: the next "
        "call tries again, or goes on with new rows"
    ) from journal.cause
