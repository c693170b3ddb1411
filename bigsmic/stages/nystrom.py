"""extension: what carries the eigenvectors of U that the result is made of over to new rows.

A new row x has no link, so that the middle of U is 1 there, and with ``K' = a K + e I`` on it and Z = middle K' V

    mu v(x) = a K(x, X) Z + e u(x),     u(x) = (K' v)(x) = a K(x, X) V + e v(x)

from which ``v(x) = K(x, X) E`` with ``E = a (Z + e V) / (mu - e^2)``. Without links it is ``K(x, X) V Lambda^-1``.
"""

from functools import partial

import numpy as np

from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import eigenvectors, kernel_matrix
from bigsmic.stages.labeling_specs import problems
from bigsmic.stages.selection import members

COLUMNS = 8  # that are extended at a time
LEAST = 0.01  # of the largest eigenvalue: below it, what is divided by says nothing


def run(job: Job):
    """Write E for the problems of the labelings that the result is made of."""
    context = job.context
    for problem in dict.fromkeys(context.readings[b].problem for b in members(context)):
        _extend(job, problem)


def _extend(job: Job, problem):
    context = job.context
    if not job.complete(name(problem), context.blocks):
        kernel_matrix.prepare(job, problem)
        kernel_matrix.normalise(job, problem)
        make = partial(Extension, problem=problem, in_memory=job.plan.kernel_in_memory)
        job.reside(name(problem), make, lambda group: group.gather(("write",)))
        if problem.kernel == "normalized":
            job.run.drop(kernel_matrix.matrix_name(problem), context.blocks)


def name(problem):
    """Stage of E."""
    return f"extension.{problem.name}"


class Extension:
    """E for the rows of one share.

    Parameters
    ----------
    context, share, problem, in_memory
        As of :class:`bigsmic.stages.labelings.StoredLabels`.
    """

    def __init__(self, context: Context, share, problem, in_memory):
        self.context, self.share, self.problem = context, share, problem
        load = kernel_matrix.loader(context, share, kernel_matrix.matrix_name(problem), in_memory)
        self.product = eigenvectors.product_of(context, share, problem, load)
        self.width = max(r.width for r in (context.readings[b] for b in members(context)) if r.problem == problem)
        self.values = context.run.read("spectrum", problems(context.settings).index(problem), "ritz_values")

    def write(self):
        """Extend all columns, a few at a time, and write them."""
        parts = [self._columns(lo) for lo in range(0, self.width, COLUMNS)]

        def task(p):
            rows = self.share.rows(p)
            self.context.run.write(name(self.problem), p, {"E": np.concatenate([part[rows] for part in parts], axis=1)})

        self.share.each(task)

    def _columns(self, lo):
        read = partial(self.context.run.read, eigenvectors.basis_name(self.problem), name="V")
        columns = slice(lo, min(lo + COLUMNS, self.width))
        V = np.concatenate([read(p)[:, columns] for p in self.share.blocks])
        Z, _ = self.product.middle_of(V)
        a, e = np.float32(self.product.coupling.factor), np.float32(self.product.coupling.diagonal)
        gain = self.values[columns] - e**2
        usable = gain > LEAST * self.values.max()
        return a * (Z + e * V) * np.where(usable, 1 / np.where(usable, gain, 1), 0).astype(np.float32)
