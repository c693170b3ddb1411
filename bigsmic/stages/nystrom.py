"""extension: Nystrom extension of the eigenvectors of U to new rows, with links.

A new row x has no link, so that the middle factor of U is 1 there. With ``K' = a K + e I`` there and Z = middle K' V,

    mu v(x) = a K(x, X) Z + e u(x),     u(x) = (K' v)(x) = a K(x, X) V + e v(x)

from which ``v(x) = K(x, X) E`` with ``E = a (Z + e V) / (mu - e^2)``. Without links it is ``K(x, X) V Lambda^-1``.
"""

from functools import partial
from typing import Any

import numpy as np

from bigsmic.numerics.row_blocks import Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import eigenvectors, kernel_matrix
from bigsmic.stages.choice import members
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems, specs_of
from bigsmic.types import Floats

COLUMNS = 8  # extended at a time
LEAST = 0.01  # of the largest eigenvalue; a division by smaller ones is meaningless


def run(job: Job) -> None:
    """Write E for the eigenproblems of the labelings of the result."""
    context = job.context
    for eigenproblem in dict.fromkeys(specs_of(context)[b].eigenproblem for b in members(context)):
        _extend(job, eigenproblem)


def _extend(job: Job, eigenproblem: Eigenproblem) -> None:
    context = job.context
    if not job.complete(name(eigenproblem), context.blocks):
        kernel_matrix.prepare(job, eigenproblem)
        kernel_matrix.normalise(job, eigenproblem)
        make = partial(Extension, eigenproblem=eigenproblem, in_memory=job.plan.kernel_in_memory)
        job.run_actors(name(eigenproblem), make, lambda group: group.call(("write",)))
        if eigenproblem.kernel == "normalized":
            job.run.drop(kernel_matrix.matrix_name(eigenproblem), context.blocks)


def name(eigenproblem: Eigenproblem) -> str:
    """Stage of E."""
    return f"extension.{eigenproblem.name}"


class Extension:
    """E for the rows of one shard.

    Parameters
    ----------
    context, shard, eigenproblem, in_memory
        As in :class:`bigsmic.stages.labelings.StoredLabels`.
    """

    def __init__(self, context: Context, shard: Shard, eigenproblem: Eigenproblem, in_memory: bool) -> None:
        self.context, self.shard, self.eigenproblem = context, shard, eigenproblem
        load = kernel_matrix.loader(context, shard, kernel_matrix.matrix_name(eigenproblem), in_memory)
        self.product: Any = eigenvectors.product_of(context, shard, eigenproblem, load)
        self.n_eigenvectors = max(
            r.n_eigenvectors for r in (specs_of(context)[b] for b in members(context)) if r.eigenproblem == eigenproblem
        )
        self.values = context.run.read("spectrum", eigenproblems(context.settings).index(eigenproblem), "ritz_values")

    def write(self) -> None:
        """Extend all columns, a few at a time, and write them."""
        parts = [self._columns(lo) for lo in range(0, self.n_eigenvectors, COLUMNS)]

        def task(p: int) -> None:
            rows = self.shard.rows(p)
            self.context.run.write(
                name(self.eigenproblem), p, {"E": np.concatenate([part[rows] for part in parts], axis=1)}
            )

        self.shard.for_each_block(task)

    def _columns(self, lo: int) -> Floats:
        read = partial(self.context.run.read, eigenvectors.basis_name(self.eigenproblem), name="V")
        columns = slice(lo, min(lo + COLUMNS, self.n_eigenvectors))
        V = np.concatenate([read(p)[:, columns] for p in self.shard.blocks])
        Z, _ = self.product.middle_of(V)
        a, e = np.float32(self.product.coupling.factor), np.float32(self.product.coupling.diagonal)
        gain = self.values[columns] - e**2
        usable = gain > LEAST * self.values.max()
        return a * (Z + e * V) * np.where(usable, 1 / np.where(usable, gain, 1), 0).astype(np.float32)
