"""wider: more eigenvectors, where those that a fit began with are too few.

A fit that leaves the number of clusters open may find nearly as many as it has columns; one that was given it begins
with the labelings that are read by valleys, and the others may read more columns.
What was made of fewer columns is deleted, and the stages begin again at the eigenvectors. The stage ``wider`` says how
many columns are read, so that an interrupted fit goes on with them.
"""

from dataclasses import replace

from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages.labeling_specs import most_valley_columns, valley_columns
from bigsmic.stages.labelings import NUMBER, VALLEYS

WIDER = "wider"
FULL = 0.75
"""Share of the columns from which on so many clusters ask for more columns."""
FACTOR, LEAST_FACTOR = 2, 1.5
"""By which columns grow; where rows do not allow as many more as the second says, they stay."""
OF_COLUMNS = ("spectrum", "basis.", "restart.", "frame.", "assigned", "labeling.", VALLEYS, NUMBER)


def wanted(job: Job) -> int:
    """Columns to begin again with, 0 for none."""
    settings, n = job.context.settings, job.context.n
    m = valley_columns(settings, n)
    wider = min(FACTOR * m, most_valley_columns(n))
    votes = job.run.info(NUMBER, 0)["votes"]
    return wider if not settings.open_to and max(votes) > FULL * m and wider >= LEAST_FACTOR * m else 0


def begin(job: Job, n_columns: int) -> None:
    """Note the number of columns from now on; what was made of fewer is deleted by :func:`resumed`."""
    if job.run.done(WIDER, 0):
        job.run.forget(WIDER, 0)
    job.run.write(WIDER, 0, {}, info={"columns": n_columns, "ready": False})


def resumed(job: Job) -> Job:
    """The job with the columns that the run has noted, and nothing left that was made of fewer."""
    context = job.context
    if not job.run.done(WIDER, 0):
        return job
    info = job.run.info(WIDER, 0)
    if not info["ready"]:
        _delete_narrow(context)
        job.run.forget(WIDER, 0)
        job.run.write(WIDER, 0, {}, info=info | {"ready": True})
    return job.under(replace(context.settings, columns_read=info["columns"])) if context.settings.undecided else job


def _delete_narrow(context: Context) -> None:
    left: dict[str, list[int]] = {}
    for stage, block in context.run.blocks():
        if stage.startswith(OF_COLUMNS):
            left.setdefault(stage, []).append(block)
    for stage, blocks in left.items():
        context.run.drop(stage, blocks)
