"""eigenvector_sets: modularity, normalised association and cut of the consensus of every eigenvector set."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bigsmic.numerics.labeling import local_moving
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import consensus, kernel_matrix
from bigsmic.stages.consensus import most_voted
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems, eigenvector_sets_of
from bigsmic.types import Floats

EIGENVECTOR_SETS = "eigenvector_sets"


def rate(job: Job) -> None:
    """Rate the consensus of every eigenvector set."""
    job.run_steps(EIGENVECTOR_SETS, [0], _rate)


def _rate(job: Job, block: int) -> None:
    """Modularity and normalised association of the consensus of each eigenvector set on the graph of every t.

    At a given number of clusters they determine how far to over-segment: far for clusters of even size, little for
    skewed sizes, where the largest would be split and the smallest joined.
    """
    totals = job.run_actors(EIGENVECTOR_SETS, EigenvectorSetLabels, lambda group: _weight_sums(job, group))
    criteria = {"modularity": local_moving.modularity, "association": local_moving.normalized_association}
    rates = {
        name: np.array([[criterion(sums) for sums in total] for total in totals]).T
        for name, criterion in criteria.items()
    }
    job.context.run.write(EIGENVECTOR_SETS, 0, rates)


def _weight_sums(job: Job, group: Group) -> Any:
    """Sums of `bigsmic.numerics.labeling.local_moving.modularity_sums` for every graph and eigenvector set."""
    totals = []
    for graph in dict.fromkeys(eigenproblem.graph for eigenproblem in eigenproblems(job.context.settings)):
        kernel_matrix.prepare(job, graph)
        totals.append(group.call_sum(("modularity_sums", graph, job.plan.kernel_in_memory)))
    return totals


class EigenvectorSetLabels:
    """Labels of the rows of one shard under the consensus of every eigenvector set.

    Parameters
    ----------
    context : Context
    shard : Shard
    """

    def __init__(self, context: Context, shard: Shard) -> None:
        self.context, self.shard = context, shard
        found = [[most_voted(context, p, w) for w in range(len(eigenvector_sets_of(context)))] for p in shard.blocks]
        self.labels = np.concatenate([np.stack(of_block, axis=1) for of_block in found])

    def modularity_sums(self, eigenproblem: Eigenproblem, in_memory: bool) -> Any:
        """Sums of `local_moving.modularity` for every eigenvector set: float64, shape (n_sets, 2, c)."""
        load = kernel_matrix.loader(self.context, self.shard, kernel_matrix.weights_name(eigenproblem), in_memory)
        halo = self.shard.halo(lambda p: load(p).halo)
        extended, c = halo.extend(self.labels), self.context.settings.n_clusters

        def task(p: int) -> Any:
            block = load(p)
            known = halo.around(p, block.halo, extended)
            return np.stack([local_moving.modularity_sums(block, labels, c) for labels in known.T])

        return self.shard.sum_over_blocks(task)


def modularities(context: Context) -> Floats:
    """Modularity of the consensus of every eigenvector set, mean over graphs."""
    found: Floats = context.run.read(EIGENVECTOR_SETS, 0, "modularity").mean(axis=1)
    return found


def associations(context: Context) -> Floats:
    """Normalised association of the consensus of every eigenvector set, mean over graphs."""
    found: Floats = context.run.read(EIGENVECTOR_SETS, 0, "association").mean(axis=1)
    return found


def normalized_cuts(context: Context, numbers: Sequence[int]) -> Floats:
    """Normalised cut of the consensus of eigenvector sets; infinite for a set without one of c clusters."""
    lacking = context.run.info(consensus.STAGE, 0)["lacking"]
    return np.where(np.isin(numbers, lacking), np.inf, 1 - associations(context)[numbers])
