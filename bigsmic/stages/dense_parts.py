"""Dense parts: parts of the graph without sparse rows, which are clusters of any shape."""

from functools import partial
from typing import NamedTuple

import numpy as np

from bigsmic.numerics.graph import affinity
from bigsmic.numerics.graph.affinity import GraphBlock
from bigsmic.numerics.labeling import noise
from bigsmic.numerics.labeling.metrics import adjusted_rand_index, contingency
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import drawn_clusters, graph_parts, trimming
from bigsmic.stages.drawn_clusters import DrawnClusters
from bigsmic.stages.graph import read_graph
from bigsmic.stages.shown_number import NUMBER
from bigsmic.types import Integers

NONE = -1
"""Part of a sparse row, and of a row in a part too small to be one."""
LARGE = 0.05
"""Share of the dense rows from which on a part counts even if most rows of no cluster are in it."""
INSIDE = 0.9
"""Least share of the dense rows of a cluster in its part, unless it lies across several."""
ALIKE = 0.99
"""Adjusted Rand index of parts and clusters from which these are the parts."""


class DenseParts(NamedTuple):
    """Drawn rows in dense parts of the graph.

    Parameters
    ----------
    labels : ndarray of int64, shape (s,)
        Number of the part of each row; :data:`NONE` for sparse rows, and others in none.
    """

    labels: Integers

    @property
    def sizes(self) -> Integers:
        """Rows of each part."""
        return np.bincount(self.labels[self.labels != NONE])

    def are(self, labels: Integers) -> bool:
        """Whether clusters, of labels of the same rows, are the parts."""
        inside = self.labels != NONE
        table = contingency(self.labels[inside], labels[inside], len(self.sizes), labels.max() + 1)
        return adjusted_rand_index(table) >= ALIKE


def of_pieces(job: Job, found: DrawnClusters) -> DenseParts | None:
    """Dense parts, if the clusters that are not one of them each are pieces of a curve: then each part is a cluster.

    So it is, whatever the clusters are, if large parts are as many as were asked for. None if every cluster is a part.

    Parameters
    ----------
    job : Job
    found : DrawnClusters
    """
    limit = noise.distance(found.sigma, noise.AMID)
    dense = found.sigma <= limit
    shapes = drawn_clusters.pieces(job, found._replace(P=found.P[dense], labels=found.labels[dense]))
    asked = job.context.settings.n_clusters if job.context.settings.number_given else 0
    if graph_parts.lie_on_a_line(job.context) or not (asked or shapes.n_of_curves() > 1):
        return None
    task = partial(_roots, positions=found.positions, limit=limit)
    roots = job.map_blocks(NUMBER, [0], task)[0]
    numbers, of_row = np.unique(roots[dense], return_inverse=True)
    table = contingency(of_row, found.labels[dense], len(numbers), found.labels.max() + 1)
    most, known = table.argmax(axis=0), table.any(axis=0)
    held = np.bincount(most[known], minlength=len(numbers))
    are_large = table.sum(axis=1) >= LARGE * table.sum()
    are_as_asked = asked > 1 and np.count_nonzero(are_large) == asked
    counts = are_large if are_as_asked else are_large | (held > 0)
    is_piece = known & ((held[most] > 1) | (table.max(axis=0) < INSIDE * table.sum(axis=0)))
    if not (are_as_asked or shapes.are_of_curves(is_piece[: len(shapes.sizes)])):
        return None
    labels = np.full(len(roots), NONE)
    labels[dense] = np.where(counts, np.cumsum(counts) - 1, NONE)[of_row]
    return DenseParts(labels)


def _roots(context: Context, _: int, positions: Integers, limit: float) -> Integers:
    """Smallest position of the dense part of each row at ascending positions, its own for a sparse row.

    All edges count: with fewer, a curve of some thousand rows falls apart where a few of them are missing by chance.
    """
    forest, widest = affinity.new_forest(context.n), context.settings.n_neighbors
    for p in context.blocks:
        affinity.join_block(forest, _without_sparse(context, read_graph(context, p), limit), widest)
    return affinity.roots(forest, positions)


def _without_sparse(context: Context, graph: GraphBlock, limit: float) -> GraphBlock:
    """The block, with a rank beyond all of those of edges to or from sparse rows."""
    places = np.arange(graph.lo, graph.hi), graph.halo
    sparse = np.concatenate([trimming.are_beyond(context, at, limit) for at in places])
    ends = sparse[graph.indices] | np.repeat(sparse[: graph.hi - graph.lo], np.diff(graph.indptr))
    return graph._replace(ranks=np.where(ends, np.iinfo(graph.ranks.dtype).max, graph.ranks))
