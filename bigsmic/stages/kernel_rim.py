"""ascent: kernel RIM on the sparse kernel of one t, from initial labels; gives coefficients, logits and labels."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bigsmic.numerics.objectives.kernel_rim import SLOTS, AscentSettings, KernelRows, ascend, posterior
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import eigenvectors, kernel_matrix
from bigsmic.stages.labeling_specs import Eigenproblem
from bigsmic.types import Floats, Integers

START_ITERATIONS = 10  # that fit the categories to the initial labels; few, as these are only a start


def run(
    job: Job, t: int, settings: AscentSettings, read_start: Callable[..., Any], in_memory: tuple[bool, bool]
) -> None:
    """Ascend on the kernel of one t, unless it has been done.

    Parameters
    ----------
    job : Job
        With the settings of the graph.
    t : int
    settings : AscentSettings
    read_start : callable
        ``read_start(context, p)`` returns the initial labels of block p.
    in_memory : tuple of bool
        Whether coefficients and directions, and the kernel, are kept in memory.
    """
    if job.run.done(optimum_name(t), 0) and job.complete(stage_name(t), job.context.blocks):
        return
    eigenproblem = Eigenproblem("local_scaling", t)
    kernel_matrix.prepare(job, eigenproblem)
    make = partial(StoredKernelRows, eigenproblem=eigenproblem, read_start=read_start, in_memory=in_memory)
    job.run_actors(f"ascent t={t}", make, lambda group: _ascend(job, t, settings, group))
    for name in (kernel_matrix.weights_name(eigenproblem), kernel_matrix.degree_name(eigenproblem)):
        job.run.drop(name, job.context.blocks)


def _ascend(job: Job, t: int, settings: AscentSettings, group: Group) -> None:
    """Fit the start and ascend with the actors of a group, and write the optimum."""
    context, to_start = job.context, AscentSettings(settings.reg, START_ITERATIONS)
    begun = ascend(group, context.n, "likelihood", to_start, np.zeros(context.settings.n_clusters))

    def on_step(iteration: int) -> None:
        job.report(f"ascent t={t}", iteration, settings.max_iter)

    ended = ascend(group, context.n, "information", settings, begun.bias, on_step)
    group.call(("finish",))
    sizes = group.call_sum(("write_rows", ended.bias))
    info = {"value": ended.value, "n_iter": ended.n_iter, "converged": ended.converged, "sizes": sizes.tolist()}
    context.run.write(optimum_name(t), 0, {"bias": ended.bias}, info=info)


class StoredKernelRows(KernelRows):
    """Rows of a kernel RIM whose kernel, start and result are in the run directory.

    Parameters
    ----------
    context : Context
    shard : Shard
    eigenproblem : Eigenproblem
    read_start : callable
    in_memory : tuple of bool
    """

    def __init__(
        self,
        context: Context,
        shard: Shard,
        eigenproblem: Eigenproblem,
        read_start: Callable[..., Any],
        in_memory: tuple[bool, bool],
    ) -> None:
        self.context, self.eigenproblem = context, eigenproblem
        capacity = SLOTS * context.settings.n_clusters
        n_held = len(shard.blocks) * in_memory[0]
        basis = eigenvectors.columns_of(context, shard, f"ascent.{eigenproblem.name}", capacity, n_held)
        load = kernel_matrix.loader(context, shard, kernel_matrix.weights_name(eigenproblem), in_memory[1])
        labels = np.concatenate([read_start(context, p) for p in shard.blocks])
        super().__init__(shard, load, basis, labels)

    def write_rows(self, bias: Floats) -> Integers:
        """Write coefficients, logits and labels of every block; return the rows of each category."""

        def task(p: int) -> Any:
            Z = self.logits(p)
            labels = posterior(Z, bias)[1]
            arrays = {"coefficients": self.coefficients(p), "logits": Z, "labels": labels}
            self.context.run.write(stage_name(self.eigenproblem.t), p, arrays)
            return np.bincount(labels, minlength=self.c)

        return self.shard.sum_over_blocks(task)

    def close(self) -> None:
        """Delete the files of the basis."""
        self.basis.close()


def stage_name(t: int) -> str:
    """Stage of the coefficients, logits and labels for one t."""
    return f"ascent.t{t}"


def optimum_name(t: int) -> str:
    """Stage of the bias and the diagnostics of the ascent for one t."""
    return f"optimum.t{t}"
