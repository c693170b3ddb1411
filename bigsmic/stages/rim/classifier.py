"""The linear classifier in the run directory, and its objective over all rows."""

from functools import partial

import numpy as np

from bigsmic.numerics.objectives.rim import logits
from bigsmic.numerics.objectives.rim.adam import Aim
from bigsmic.numerics.objectives.rim.linear import Linear, linear_information, penalty
from bigsmic.numerics.objectives.rim.logits import Information
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages.rim.rows import scaled, weighting


def information(job: Job, model: Linear) -> Information:
    """Sums over all rows for a classifier, which is sent with the task, as it is small."""
    return job.sum_blocks("objective", job.context.source_blocks, partial(_information, model=model))


def _information(context: Context, s: int, model: Linear) -> Information:
    return linear_information(scaled(context, s), model, weighting(context, s))


def read_model(context: Context, stage: str, block: int) -> Linear:
    """The classifier in a block of a stage."""
    read = context.run.reader(stage, block)
    return Linear(read("W"), read("b"))


def aim(context: Context, reg: float) -> Aim:
    """Objective at one strength of the penalty."""
    settings = context.settings
    prior = settings.prior if settings.prior is None or isinstance(settings.prior, str) else np.array(settings.prior)
    return Aim(reg, prior, settings.tau)


def objective(context: Context, sums: Information, model: Linear, reg: float) -> float:
    """Value of the objective over all rows."""
    goal = aim(context, reg)
    return logits.objective(sums, goal.prior, goal.tau) - penalty(model, reg)
