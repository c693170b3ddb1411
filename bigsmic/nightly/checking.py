"""Check of a job before its first night: everything that can be known without reading its rows."""

import os
import shutil
from typing import Any

import numpy as np

from bigsmic import pipeline
from bigsmic.errors import InputError
from bigsmic.features import foresee
from bigsmic.nightly import records
from bigsmic.nightly.job import NIGHT, Job
from bigsmic.nightly.journal import FILE, Journal
from bigsmic.nightly.steps import LATEST, RUNS, refuse_disturbed, refuse_shrunk, run_name, windows_name
from bigsmic.nightly.wording import told_by_keys
from bigsmic.report.rendering import needed
from bigsmic.report.writing import admit
from bigsmic.result import Result
from bigsmic.stages import update_log
from bigsmic.store import WorkFolder, WrittenFile, is_local, lies_in, open_source, refuse_unwritable
from bigsmic.types import StorageOptions, StrPath
from bigsmic.updates.updating import Archive

OF_NIGHTS = (FILE, LATEST, RUNS, records.NAME)
"""Names in the folder of a job."""


def check(job: Job | StrPath, *, storage_options: StorageOptions = None) -> int:
    """Check a job file, its archive, its windows, memory for a fit, and the places that a night writes to.

    Nothing is written, and no rows are read. Not checked are values of the rows, and room on the disk.

    Parameters
    ----------
    job : str, Path or Job
        The job file.
    storage_options : dict, optional
        For the file system behind the archive's URL; never written anywhere.

    Returns
    -------
    rows : int
        Present number of rows of the archive, or of windows of the recordings.

    Raises
    ------
    InputError, RunError, PlanError, StorageError
        As in :func:`bigsmic.nightly.nightly`.
    """
    job = job if isinstance(job, Job) else Job.read(job)
    with told_by_keys():
        WorkFolder.foresee(job.folder)
        journal = Journal(WorkFolder(job.folder)) if os.path.isdir(job.folder) else None
        if journal is not None:
            refuse_disturbed(journal)
        rows = _check_rows(job, storage_options)
        if journal is not None:
            refuse_shrunk(job, journal.ended, rows)
            _check_columns(job, journal, storage_options)
    if job.report is not None:
        _check_report(job.report, job.folder, storage_options)
    if job.after and shutil.which(job.after[0]) is None:
        raise InputError(f"after: {job.after[0]} is no program that can be run; give the path of one, or install it")
    return rows


def _check_rows(job: Job, storage_options: StorageOptions) -> int:
    """Check the archive, the windows, and the memory for a fit of the present rows."""
    limits: dict[str, Any] = {
        "memory_limit": job.memory_limit,
        "n_threads": job.threads,
        "storage_options": storage_options,
    }
    data: Any = job.archive
    reading = job.reading
    if job.windows is None:
        rows = open_source(job.archive, **reading, storage_options=storage_options).complete_rows
    else:
        out = os.path.join(job.folder, windows_name(job.rows_of))
        rows, columns = foresee(job.archive, **job.windows, **reading, **limits, out=out)
        data, reading = np.broadcast_to(np.float32(0), (rows, columns)), {}  # of their shape, and without memory
    taken = min(rows, job.refits.last or job.refits.reservoir or rows)
    if taken:
        out = os.path.join(job.folder, run_name(1))
        pipeline.plan(data, job.c, method=job.method, n_rows=taken, out=out, **reading, **limits, **job.options)
    return rows


def _check_columns(job: Job, journal: Journal, storage_options: StorageOptions) -> None:
    """Check that new rows can be labelled by the run at `latest`; archives of windows are checked by themselves."""
    run, rows_of = journal.latest
    if run and rows_of == job.rows_of and job.windows is None:
        context = Result.open(journal.folder.at(run_name(run)))._context
        source = open_source(job.archive, **job.reading, storage_options=storage_options)
        Archive(context, source, update_log.entries_within(context.run, source.shape[0])).refuse_other()


def _check_report(report: str, folder: str, storage_options: StorageOptions) -> None:
    """Check that a report can be written, and would overwrite nothing but a report."""
    needed(with_map=True)
    place = report.replace(NIGHT, f"{0:06d}")
    if any(lies_in(place, os.path.join(folder, name)) for name in OF_NIGHTS) or lies_in(folder, place):
        raise InputError(f"report: {place} would be among what nights write to {folder}; give another place")
    if is_local(place):
        refuse_unwritable(os.path.dirname(place), "report")
    if not is_local(place) or os.path.isdir(os.path.dirname(place)):
        with told_by_keys({"out": "report"}):
            admit(WrittenFile(place, storage_options), "", overwrite=True)
