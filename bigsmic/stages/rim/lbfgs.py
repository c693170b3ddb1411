"""Ascent by L-BFGS on exact gradients: each evaluation is two sums over blocks, by actors.

An actor keeps the results of the first sum that the second one needs. Evaluations are stored in the run directory,
where an ascent that is repeated finds them.
"""

import itertools
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bigsmic.errors import CollapseError
from bigsmic.numerics.objectives.rim.linear import Linear, linear_gradient, linear_information, penalised
from bigsmic.numerics.objectives.rim.logits import Reference
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages.rim.ascent import Ascent
from bigsmic.stages.rim.classifier import aim, objective
from bigsmic.stages.rim.rows import keep_rows, scaled, weighting
from bigsmic.store import checksum
from bigsmic.types import Floats


def ascend_by_gradients(job: Job, ascent: Ascent, model: Linear, max_iter: int) -> Linear:
    """Maximise the objective by L-BFGS on exact gradients; return the classifier.

    An evaluation in the run directory is not repeated: as the optimiser is deterministic, a resumed ascent evaluates
    the same points.
    """
    make = partial(Sweeps, plan=job.plan)
    work = partial(_ascend, job, ascent, model, max_iter)
    return job.run_actors(f"ascent {ascent.number}", make, work, job.context.source_bounds)


def _ascend(job: Job, ascent: Ascent, model: Linear, max_iter: int, group: Group) -> Linear:
    numbers, iterations = itertools.count(), itertools.count(1)

    def loss(vector: Floats) -> tuple[float, Floats]:
        i = next(numbers)
        F, slope = _kept_evaluation(job, ascent, i, vector) or _evaluate(job, ascent, i, vector, group)
        if not np.isfinite(F):
            raise CollapseError(
                f"solver: the objective of L-BFGS became {F}; use a smaller reg or tau, check for extreme rows, or use "
                "solver='minibatch'"
            )
        return -F, -slope

    def on_step(_: object) -> None:
        job.report(f"ascent {ascent.number}", next(iterations), max_iter)

    options = {"maxiter": max_iter, "ftol": 1e-7, "gtol": 1e-6}
    found = minimize(loss, model.vector, jac=True, method="L-BFGS-B", callback=on_step, options=options)
    return Linear.of_vector(found.x, job.context.d)


def _kept_evaluation(job: Job, ascent: Ascent, i: int, vector: Floats) -> tuple[float, Floats] | None:
    """Stored objective and gradient of evaluation i, if it was made at the same point."""
    if not job.plan.checkpoints or not job.run.done(ascent.stage, i):
        return None
    if job.run.info(ascent.stage, i)["at"] != checksum(vector):
        return None
    read = job.run.reader(ascent.stage, i)
    return float(read("F")), read("slope")


def _evaluate(job: Job, ascent: Ascent, i: int, vector: Floats, group: Group) -> tuple[float, Floats]:
    """Objective and gradient at one point: a pass for the mean posterior, and one that needs it."""
    context, model = job.context, Linear.of_vector(vector, job.context.d)
    goal, sums = aim(context, ascent.reg), group.call_sum(("information", model))
    reference = Reference.of(sums, goal.prior, goal.tau)
    slope = penalised(group.call_sum(("gradient", reference)), model, ascent.reg)
    F = objective(context, sums, model, ascent.reg)
    if job.plan.checkpoints:
        job.run.write(ascent.stage, i, {"F": np.asarray(F), "slope": slope}, info={"at": checksum(vector)})
    return F, slope


class Sweeps:
    """Rows of one worker, with two passes for every gradient.

    If memory can hold the posteriors of all rows, the second pass uses those of the first, and computes one matrix
    product instead of two; if it can also hold the rows, they are read once. The sums have the same bits.

    Parameters
    ----------
    context : Context
    shard : Shard
        Shard of the blocks of input.
    plan : bigsmic.methods.rim.planning.Plan
    """

    def __init__(self, context: Context, shard: Shard, plan: Any) -> None:
        self.context, self.shard, self.plan = context, shard, plan
        self.log_posteriors: dict[int, np.ndarray] = {}
        if plan.rows_in_memory:
            keep_rows(context)

    def information(self, model: Linear) -> Any:
        """Sums over all rows for a classifier."""

        def task(s: int) -> Any:
            X = scaled(self.context, s)
            if self.plan.posteriors_in_memory:
                self.log_posteriors[s] = self._room(s, (len(X), model.n_categories))
            return linear_information(X, model, weighting(self.context, s), self.log_posteriors.get(s))

        self.model = model
        return self.shard.sum_over_blocks(task)

    def _room(self, s: int, shape: tuple[int, int]) -> NDArray[Any]:
        """The array of the previous pass, or a new one."""
        kept = self.log_posteriors.get(s)
        return np.empty(shape, np.float32) if kept is None else kept

    def gradient(self, reference: Reference) -> Any:
        """Sum over all rows of ``(x_i, 1) (dF/dz_i)'`` for the same classifier."""

        def task(s: int) -> Any:
            arguments = (scaled(self.context, s), self.model, reference, weighting(self.context, s))
            return linear_gradient(*arguments, self.log_posteriors.get(s))

        return self.shard.sum_over_blocks(task)
