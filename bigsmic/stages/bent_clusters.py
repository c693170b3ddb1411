"""begun_again: a fit whose clusters are pieces of curves, and no dense parts, begins again without outlying rows.

Valleys cut bent clusters into pieces, and the graph falls into bent clusters only if no rows in between connect them.
On round clusters, outlying rows do no harm; and where clusters differ in density, trimming would dissolve sparse ones.
Neighbours, graph and repair stay, and all that was made of weights is deleted. An interrupted fit goes on with what the
stage says.
"""

from bigsmic.runtime.job import Job
from bigsmic.stages import graph_parts, trimming, wider_columns
from bigsmic.stages.eigenvalue_counts import EIGENVALUE_COUNTS
from bigsmic.stages.shown_number import NUMBER

LEAST_NOISE = 0.001
"""Share of rows that are noise among all rows, above which these are considered to connect clusters."""
OF_WEIGHTS = ("weights.", "degree.", "matrix.", EIGENVALUE_COUNTS, wider_columns.WIDER)


def begin_again(job: Job) -> Job | None:
    """The job to begin again with, of which nothing is left that depends on weights; None if it need not begin again.

    It begins again with ``trim="auto"``, unless rows are trimmed already, if the clusters shown are pieces of curves
    that were not put together to dense parts, and some rows are noise. Rows on a line are never trimmed so: the tails
    of a single cluster would be parted from it.
    """
    context, run = job.context, job.run
    if not context.settings.may_trim or graph_parts.have_one_column(context):
        return None
    if trimming.are_trimmed(context) or not run.done(NUMBER, 0):
        return None
    found = run.info(NUMBER, 0)
    if not found["on_pieces"] or found["dense_parts"] or found["noise"] <= LEAST_NOISE:
        return None
    run.write(trimming.BEGUN_AGAIN, 0, {}, info={"ready": False, "limit": found["sparse"]})
    return resumed(job)


def resumed(job: Job) -> Job:
    """The job with trimmed rows known and nothing left of a first attempt, if it has begun again; else the same job."""
    run = job.run
    if not run.done(trimming.BEGUN_AGAIN, 0):
        return job
    info = run.info(trimming.BEGUN_AGAIN, 0)
    if not info["ready"]:
        run.drop_stages((*OF_WEIGHTS, *wider_columns.OF_EIGENVECTORS, *wider_columns.OF_LABELINGS))
        run.write(trimming.BEGUN_AGAIN, 0, {}, info=info | {"ready": True})
    job = job.afresh()  # which knew weights of the first attempt, and that it had not begun again
    with job.timed("graph"):
        trimming.run(job)
    return job
