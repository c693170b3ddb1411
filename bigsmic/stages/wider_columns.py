"""wider: another number of columns, which are eigenvectors, than that with which a fit begins.

A labeling that is read by valleys shows at most about as many clusters as it has columns. If the number of clusters is
open, there are

- fewer columns from the beginning, if few rows differ, or more, if the graph has many parts: :func:`suited`;
- twice as many, once labelings show nearly as many clusters as they have columns, or give no plain answer where nearly
  as many clusters have the largest modularity: :func:`widened`.

If the number was given, the fit begins with the labelings that are read by valleys alone. Then there are more columns

- for the other labelings, if these are needed and read more: :func:`begin`;
- for those by valleys, which remain the only ones, if the graph has at least as many parts as columns:
  :func:`for_parts`.

Eigenvectors stay, and others are added to them, unless they tell arbitrary parts of the graph apart, or have not all
converged. Labelings stay if the fit reads them again; they are deleted if those by valleys are made of other columns.
The stage ``wider`` says how many columns are read, and how many there were before, so that an interrupted fit goes on
with them.
"""

import math
from dataclasses import replace

import numpy as np

from bigsmic.errors import PlanError
from bigsmic.numerics.graph.equal_rows import first_equal
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import eigenvalue_counts, graph_parts
from bigsmic.stages.density import DENSE_PARTS
from bigsmic.stages.eigenvectors import can_go_on
from bigsmic.stages.labeling_specs import (
    FEWEST_COLUMNS,
    FULL,
    ROWS_PER_COLUMN,
    ROWS_PER_WIDER_COLUMN,
    VALLEY_COLUMNS,
    most_valley_columns,
    specs_of,
    valley_columns,
)
from bigsmic.stages.shown_number import NUMBER
from bigsmic.stages.valley_trees import VALLEYS
from bigsmic.stages.valleys import TEMPORARY as OF_GROUPS
from bigsmic.store import Run
from bigsmic.validation import CLUSTERS
from bigsmic.warning import warn

WIDER = "wider"
FACTOR, LEAST_FACTOR = 2, 1.5
"""Factor by which columns grow, and the least factor: if the rows do not allow it, columns are not increased."""
COLUMNS_PER_PART = 1.5
"""Number of columns for each part of the graph, if it has too many for the first number; 1 / :data:`FULL` is needed."""
MOST_FOR_PARTS = 300
"""Most columns for the parts of the graph if the number of clusters was given: the time of a solve grows with their
square, and of many more parts, with few rows each, valleys do not tell which belong together."""
COUNTED_ROWS = 5000
"""Rows of the sample, about as many, in which copies are counted."""
COPIES = 6
"""Rows for each one that differs, from which on they have many copies. With fewer, valleys are those of other rows."""
OF_EIGENVECTORS = ("spectrum", "basis.", "ahead.", "restart.")
OF_LABELINGS = ("frame.", "assigned", "labeling.", VALLEYS, NUMBER, DENSE_PARTS, *OF_GROUPS)


def widened(job: Job, found: Job) -> Job | None:
    """The job with more columns, if the labelings of `found` show too many clusters for its columns; else None.

    Raises
    ------
    PlanError
        The memory limit does not allow so many columns.
    """
    n_columns = _wanted(found.context)
    if not n_columns:
        return None
    try:
        job.replanned(replace(job.context.settings, columns_read=n_columns))
    except PlanError as error:
        most = valley_columns(job.context.settings, job.context.n) // 2
        raise PlanError(f"{error} such as range(2, {most + 1})") from None
    begin(job, job.context, n_columns)
    return resumed(job)


def _wanted(context: Context) -> int:
    """Number of columns with which to repeat the stages, 0 for none. Dense parts, not their pieces, need columns."""
    info, m = context.run.info(NUMBER, 0), valley_columns(context.settings, context.n)
    n_clusters = info["parts"] if info["dense_parts"] else max(info["votes"])
    are_few = n_clusters > FULL * m or (m <= VALLEY_COLUMNS and info["hidden"])
    if context.settings.open_to or not are_few or graph_parts.lie_along_curves(context):
        return 0  # more columns would cut curves into more pieces
    wider = min(FACTOR * m, _most_columns(context, ROWS_PER_WIDER_COLUMN))
    return wider if wider >= LEAST_FACTOR * m else 0


def suited(job: Job) -> Job:
    """The job with as many columns as the run has noted or, if it begins, as its rows allow and the graph's parts need.

    Where the memory limit does not allow these, it begins with fewer.
    """
    settings, m = job.context.settings, valley_columns(job.context.settings, job.context.n)
    if m and settings.undecided and not settings.open_to and not job.run.done(WIDER, 0):
        first = min(m, _most_columns(job.context, ROWS_PER_COLUMN))
        with job.timed("eigen"):
            eigenvalue_counts.find(job)
        n_columns = _columns_for_parts(job.context, first) or first
        if n_columns != m and _has_room(job, n_columns):
            _note(job, n_columns, [])
    return resumed(job)


def for_parts(job: Job, found: Job) -> Job | None:
    """The job with labelings by valleys of more columns, if the graph has at least as many parts as there are columns.

    Of nearly the same eigenvalue, those that were found tell arbitrary parts apart, and are a bad start for more. The
    other labelings have hardly more columns, and do not count. If the parts need more columns than are allowed, the job
    goes on with those that it has, and warns. Parts among rows with many copies are copies.
    """
    context = found.context
    m = valley_columns(context.settings, context.n)
    if job.run.done(WIDER, 0) or not eigenvalue_counts.may_have_parts(context, m) or have_many_copies(context):
        return None
    with job.timed("eigen"):
        eigenvalue_counts.find(found)
    n_parts = eigenvalue_counts.parts(job.run)
    if n_parts < m:
        return None
    n_columns = math.ceil(COLUMNS_PER_PART * n_parts)
    if n_columns > min(MOST_FOR_PARTS, most_valley_columns(found.context.n, ROWS_PER_WIDER_COLUMN)):
        warn(
            f"{CLUSTERS}: got {job.context.settings.n_clusters}, but the neighbour graph has about {n_parts} parts, "
            "as of rows with the same flags, integers or categories; clusters may be arbitrary unions of them: leave "
            "such columns out, or divide them by more"
        )
        return None
    job.replanned(job.context.settings.by_valleys(n_columns))
    _note(job, n_columns, [], for_parts=True)
    return resumed(job)


def are_for_parts(run: Run) -> bool:
    """Whether a fit that was given its number of clusters has taken more columns as the graph has many parts."""
    return run.done(WIDER, 0) and run.info(WIDER, 0)["for_parts"]


def _most_columns(context: Context, rows_per_column: int) -> int:
    """Largest number of columns that the rows allow; of rows with copies, no more later than at first.

    Equal rows are one point of the graph: further eigenvectors would tell copies apart.
    """
    if not have_many_copies(context):
        return most_valley_columns(context.n, rows_per_column)
    return max(FEWEST_COLUMNS, most_valley_columns(_counted(context)[1], ROWS_PER_COLUMN))


def have_many_copies(context: Context) -> bool:
    """Whether rows have many copies. Any two points then have a valley between them, which is no evidence alone."""
    n_counted, n_distinct = _counted(context)
    return COPIES * n_distinct <= n_counted


def _counted(context: Context) -> tuple[int, int]:
    """Number of some rows of the sample, and of those of them that differ."""

    def count() -> tuple[int, int]:
        sample = context.drawn_rows()
        some = context.column_scaler.apply(sample[:: -(-len(sample) // COUNTED_ROWS)])
        return len(some), int(np.count_nonzero(first_equal(some) == np.arange(len(some))))

    found: tuple[int, int] = context.cached("distinct rows of the sample", count)
    return found


def _columns_for_parts(context: Context, m: int) -> int:
    """Number of columns that suffices for the parts of the graph; 0 if m do, or the rows do not allow more."""
    n_parts = eigenvalue_counts.parts(context.run)
    wanted = min(math.ceil(COLUMNS_PER_PART * n_parts), _most_columns(context, ROWS_PER_WIDER_COLUMN))
    return wanted if n_parts > FULL * m and wanted > m else 0


def _has_room(job: Job, n_columns: int) -> bool:
    try:
        job.replanned(replace(job.context.settings, columns_read=n_columns))
    except PlanError:
        return False
    return True


def begin(job: Job, found: Context, n_columns: int) -> None:
    """Note the number of columns from now on; what was made of those of `found` is deleted by :func:`resumed`."""
    _note(job, n_columns, [*steps(job.run), specs_of(found).most_eigenvectors] if can_go_on(found) else [])


def _note(job: Job, n_columns: int, steps: list[int], for_parts: bool = False) -> None:
    info = {"columns": n_columns, "ready": False, "steps": steps, "for_parts": for_parts}
    job.run.write(WIDER, 0, {}, info=info)


def steps(run: Run) -> list[int]:
    """Numbers of eigenvectors that the fit has found before it took more, which the solve for more starts from."""
    return run.info(WIDER, 0)["steps"] if run.done(WIDER, 0) else []


def resumed(job: Job) -> Job:
    """The job with the columns that the run has noted, a plan for them, and nothing left that is made of fewer."""
    context = job.context
    if not job.run.done(WIDER, 0):
        return job
    info = job.run.info(WIDER, 0)
    if not info["ready"]:
        _delete_narrow(context)
        job.run.write(WIDER, 0, {}, info=info | {"ready": True})
    if info["for_parts"]:
        return job.replanned(context.settings.by_valleys(info["columns"]))
    wide = replace(context.settings, columns_read=info["columns"])
    return job.replanned(wide) if context.settings.undecided else job


def _outdated(context: Context) -> tuple[str, ...]:
    """Prefixes of the names of the stages that are computed again with more columns."""
    if not steps(context.run):
        return *OF_EIGENVECTORS, *OF_LABELINGS
    return OF_LABELINGS if context.settings.undecided else ()


def _delete_narrow(context: Context) -> None:
    context.run.drop_stages(_outdated(context))
