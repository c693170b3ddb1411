"""Recovery of a run: blocks are checked before it is resumed, temporary artifacts are deleted after it."""

from collections.abc import Sequence
from functools import partial

from bigsmic import registry
from bigsmic.engines.base import TaskOptions
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.progress import ticks
from bigsmic.settings import MethodSettings
from bigsmic.stages import naming, precomputed, rowwise_output, scan, update_log

OF_EVERY_METHOD = ("input", "restart.")
"""Prefixes of names of temporary stages, in addition to those of the method."""


def temporary(settings: MethodSettings) -> tuple[str, ...]:
    """Prefixes of the names of stages that are deleted when the fit has ended."""
    return (*OF_EVERY_METHOD, *registry.temporary(settings))


def check(job: Job) -> None:
    """Check every block that predictions may read, and strike the damaged ones off the ledger.

    Blocks of temporary stages are checked by the stages that read them.
    """
    job.run.sweep()
    job.run.strike_attributes()
    naming.warn_of_lost(job.run)
    ending = temporary(job.context.settings)
    kept = [(stage, block) for stage, block in job.run.blocks() if not stage.startswith(ending)]
    if kept:
        options = TaskOptions("check", tick=ticks(job.progress, "check", len(kept)))
        job.engine.for_each(partial(_check, job.context, kept), range(len(kept)), options)


def _check(context: Context, kept: Sequence[tuple[str, int]], i: int) -> None:
    stage, block = kept[i]
    if stage == "output":
        rowwise_output.check(context, block)
    else:
        context.run.check(stage, block)


def kept(job: Job) -> list[str]:
    """Stages with a first block that stay when the fit has ended, without those that others write after it."""
    others = {naming.STAGE, *update_log.AFTER_FIT}
    ending = temporary(job.context.settings)
    names = [name for name in job.run.stages() if name not in others and not name.startswith(ending)]
    missing = set(job.run.missing_first(names))
    return [name for name in names if name not in missing]


def check_input(job: Job) -> None:
    """Check that a finished run which can only be read is one of this input; readers check its blocks.

    Raises
    ------
    RunMismatchError
    """
    with job.timed("scan"):
        (precomputed if job.context.settings.precomputed else scan).verify(job)


def tidy(job: Job) -> None:
    """Delete temporary artifacts, including those left by a killed run."""
    job.run.drop_stages(temporary(job.context.settings))
    job.run.sweep()
