"""reopen: before a run goes on, what it holds is made sure of; after it, what nobody reads any more is deleted."""

from functools import partial

from bigsmic.engines.base import TaskOptions
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.progress import ticks
from bigsmic.stages import output

TEMPORARY = ("input", "routed_rows", "neighbors", "edges", "lists", "weights.", "matrix.", "restart.")


def check(job: Job):
    """Strike off the ledger what is not as it was written.

    Later stages would not read it again, predictions would. Temporary stages are checked by those who read them.
    """
    job.run.sweep()
    job.run.strike_attributes()
    kept = [(stage, block) for stage, block in job.run.blocks() if not stage.startswith(TEMPORARY)]
    if kept:
        options = TaskOptions("check", tick=ticks(job.progress, "check", len(kept)))
        job.engine.for_each(partial(_check, job.context, kept), range(len(kept)), options)


def _check(context: Context, kept, i: int):
    stage, block = kept[i]
    if stage == "output":
        output.check(context, block)
    else:
        context.run.check(stage, block)


def tidy(job: Job):
    """Delete what a run that was killed between its last use and its deletion has left."""
    run, undecided = job.run, job.context.settings.undecided
    left: dict[str, list[int]] = {}
    for stage, block in run.blocks():
        if stage.startswith(TEMPORARY) and not (undecided and stage.startswith("weights.")):  # cuts move rows by them
            left.setdefault(stage, []).append(block)
    for stage, blocks in left.items():
        run.drop(stage, blocks)
    run.sweep()
