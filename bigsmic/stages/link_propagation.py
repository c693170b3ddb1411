"""propagated: labels of a consensus after propagation by votes, neighbours and links."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.constraints import propagation
from bigsmic.numerics.constraints.links import violations
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.labeling import consensus as consensus_numerics
from bigsmic.numerics.labeling import local_moving
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import choice, consensus, kernel_matrix, labelings, link_scores, links
from bigsmic.stages.labeling_specs import widest
from bigsmic.types import Integers

N_SWEEPS = 20
LISTS = ("must", "cannot", "strays")


def run(job: Job) -> None:
    """Write the final labels, and the links that they violate."""
    context = job.context
    if choice.chosen(context) is None and not job.complete("propagated", context.blocks):
        kernel_matrix.prepare(job, widest(context))
        make = partial(PropagatedLabels, in_memory=job.plan.kernel_in_memory)
        job.run_actors("propagated", make, _settle)
    job.run_steps("violated", [0], _list)


def _settle(group: Group) -> None:
    local_moving.local_moves(group, n_sweeps=N_SWEEPS)
    group.call(("write",))


def read_labels(context: Context, p: int) -> Integers:
    """Final labels of one block, int32, shape (b,)."""
    return context.run.read("propagated", p, "labels")


class PropagatedLabels(local_moving.RowMoves):
    """Labels of the rows of one shard during propagation; sums of a sweep have an additional row per group of links.

    Parameters
    ----------
    context : Context
    shard : Shard
    in_memory : bool
        Whether the kernel is kept in memory.
    """

    def __init__(self, context: Context, shard: Shard, in_memory: bool) -> None:
        self.context, self.links = context, links.placed(context)
        rows = np.concatenate([context.run.read("rows", p, "rows") for p in shard.blocks])
        super().__init__(shard, self._loader(shard, in_memory), np.zeros(shard.n_rows), rows, context.settings.seed)
        c = context.settings.n_clusters
        ballots = [_ballots(context, p) for p in shard.blocks]
        self.ballots = np.concatenate([cast for cast, _ in ballots])
        own = slice(*np.searchsorted(self.links.rows, [shard.lo, shard.hi]))
        self.group = np.full(shard.n_rows, -1)
        self.group[self.links.rows[own] - shard.lo] = self.links.group[own]
        self.start([np.concatenate([first for _, first in ballots])], [c])

    def _loader(self, shard: Shard, in_memory: bool) -> Callable[[int], KernelBlock]:
        name = kernel_matrix.weights_name(widest(self.context))

        def load(p: int) -> KernelBlock:
            return propagation.pull(kernel_matrix.read_block(self.context, name, p), self.links)

        return kernel_matrix.kept(shard, load, in_memory)

    def _label_sums(self, p: int) -> NDArray[Any]:
        own = self.shard.rows(p)
        grouped = self.group[own] >= 0
        of_groups = np.zeros((self.links.n_groups, int(self.n_clusters[0])))
        np.add.at(of_groups, (self.group[own][grouped], self.labels[own, 0][grouped]), 1)
        return np.vstack([super()._label_sums(p), of_groups])

    def _moved(
        self,
        p: int,
        block: KernelBlock,
        known: Integers,
        movable: NDArray[np.bool_],
        sums: NDArray[Any],
        resolution: float,
    ) -> Integers:
        own, pulls = self.shard.rows(p), propagation.group_pull(sums[2:], self.links)
        return propagation.propagate(block, known, self.ballots[own], self.group[own], pulls, movable)

    def write(self) -> None:
        """Write the labels."""

        def task(p: int) -> None:
            labels = self.labels[self.shard.rows(p), 0].astype(np.int32)
            self.context.run.write("propagated", p, {"labels": labels})

        self.shard.for_each_block(task)


def _ballots(context: Context, p: int) -> Any:
    """Votes of the labelings of the consensus, and the label of most votes, for the rows of one block."""
    labels, sizes, classes = consensus.ballots(context, p, 0)
    c = context.settings.n_clusters
    cast = classes[labels + consensus_numerics.label_offsets(sizes)[:-1]]
    first = consensus_numerics.vote(labels, sizes, classes, c).argmax(axis=1)
    return cast.astype(np.min_scalar_type(-c)), first.astype(np.int32)


def _list(job: Job, block: int) -> None:
    """List the links that the labels violate."""
    context = job.context
    (labels,) = link_scores.of_linked_rows(job, "violated", _linked)
    found = violations(links.given(context), labels, context.settings.n_clusters)
    info = {"n_violated": found.n_violated, "n_links": found.n_links}
    context.run.write("violated", block, {name: getattr(found, name) for name in LISTS}, info=info)


def _linked(context: Context, p: int) -> Integers:
    b = choice.chosen(context)
    labels = read_labels(context, p) if b is None else labelings.read_labels(context, p, b)
    return labels[link_scores.is_linked(context, p)][None]
