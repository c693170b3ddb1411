"""links: positions of the linked rows in cell order, and the kernel with links."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bigsmic.numerics.constraints.links import LinkAlgebra, Links, group_degree, linked_block
from bigsmic.numerics.constraints.operator import Coupling
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages.labeling_specs import Eigenproblem
from bigsmic.types import Integers

FIELDS = ("rows", "must", "cannot", "group", "apart")
GIVEN, PLACED = 0, 1  # blocks of the stage


def run(job: Job) -> None:
    """Write the given links, then the positions of their rows."""
    job.run_steps("links", [GIVEN], _write_given)
    job.run_steps("links", [PLACED], _write_positions)


def _write_given(job: Job, block: int) -> None:
    job.run.write("links", block, {name: job.side_inputs[name] for name in FIELDS})


def _write_positions(job: Job, block: int) -> None:
    found = job.map_blocks("links", job.context.blocks, _positions)
    rows, positions = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    job.run.write("links", block, {"positions": positions[np.argsort(rows)]})


def _positions(context: Context, p: int) -> tuple[Integers, Integers]:
    """Linked rows of one block, and their positions."""
    rows = context.run.read("rows", p, "rows")
    linked = np.flatnonzero(np.isin(rows, context.run.read("links", GIVEN, "rows")))
    return rows[linked].astype(np.int64), linked + context.layout.bounds[p]


def given(context: Context) -> Links:
    """The links between row numbers."""
    read = context.run.reader("links", GIVEN)
    return Links(context.n, *(read(name) for name in FIELDS))


def placed(context: Context) -> Links:
    """The links between positions."""
    return given(context).reordered(context.run.read("links", PLACED, "positions"))


def linked(context: Context, block: KernelBlock) -> tuple[KernelBlock, Any]:
    """Row block of the kernel with the links of the fit, if any, and the contribution of groups to row sums."""
    if context.settings.link_weights == (None,):
        return block, 0.0
    links = placed(context)
    of_groups = np.zeros(block.hi - block.lo)
    own = slice(*np.searchsorted(links.rows, [block.lo, block.hi]))
    of_groups[links.rows[own] - block.lo] = group_degree(links)[own]
    return linked_block(block, links), of_groups


def coupling(context: Context, eigenproblem: Eigenproblem, degree_at: Callable[..., Any]) -> Coupling:
    """Coupling of linked rows in the matrix of an eigenproblem; ``degree_at(positions)`` gives row sums."""
    links = placed(context)
    if eigenproblem.kernel != "normalized":
        return Coupling(LinkAlgebra(links), eigenproblem.link_weights, 1.0, 1.0, np.ones(len(links.rows)))
    degree = degree_at(links.rows)
    root = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    return Coupling(LinkAlgebra(links), eigenproblem.link_weights, 0.5, 0.5, root)
