"""links: where the linked rows lie in cell order, and what every labeling makes of the links."""

import numpy as np

from bigsmic.numerics.constraints.links import LinkAlgebra, Links, group_degree, linked_block
from bigsmic.numerics.constraints.operator import Coupling
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job

FIELDS = ("rows", "must", "cannot", "group", "apart")
GIVEN, PLACED = 0, 1  # blocks of the stage


def run(job: Job):
    """Write the links as they were given, then the positions of their rows."""
    job.run_steps("links", [GIVEN], _write_given)
    job.run_steps("links", [PLACED], _write_positions)


def _write_given(job: Job, block: int):
    job.run.write("links", block, {name: job.side_inputs[name] for name in FIELDS})


def _write_positions(job: Job, block: int):
    found = job.map_blocks("links", job.context.blocks, _positions)
    rows, positions = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    job.run.write("links", block, {"positions": positions[np.argsort(rows)]})


def _positions(context: Context, p: int):
    """Linked rows of one block, and their positions."""
    rows = context.run.read("rows", p, "rows")
    linked = np.flatnonzero(np.isin(rows, context.run.read("links", GIVEN, "rows")))
    return rows[linked].astype(np.int64), linked + context.layout.bounds[p]


def given(context: Context):
    """The links, between rows as they came."""
    read = context.run.reader("links", GIVEN)
    return Links(context.n, *(read(name) for name in FIELDS))


def placed(context: Context):
    """The links, between positions."""
    return given(context).reordered(context.run.read("links", PLACED, "positions"))


def linked(context: Context, eigenproblem, block):
    """One row block of the kernel with links, where the eigenproblem has any, and what groups add to its row sums."""
    if eigenproblem.link_weights is None:
        return block, 0.0
    links = placed(context)
    of_groups = np.zeros(block.hi - block.lo)
    own = slice(*np.searchsorted(links.rows, [block.lo, block.hi]))
    of_groups[links.rows[own] - block.lo] = group_degree(links)[own]
    return linked_block(block, links), of_groups


def coupling(context: Context, eigenproblem, degree_at):
    """What the matrix of an eigenproblem is made of beside its kernel; ``degree_at(positions)`` gives row sums."""
    links = placed(context)
    if eigenproblem.kernel != "normalized":
        return Coupling(LinkAlgebra(links), eigenproblem.link_weights, 1.0, 1.0, np.ones(len(links.rows)))
    degree = degree_at(links.rows)
    root = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    return Coupling(LinkAlgebra(links), eigenproblem.link_weights, 0.5, 0.5, root)
