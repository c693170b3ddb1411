"""Dense parts: parts of the graph without sparse rows, which are clusters of any shape."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling import noise
from bigsmic.numerics.labeling.curves import FEWEST_ROWS
from bigsmic.numerics.labeling.metrics import contingency
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import density, drawn_clusters, graph_parts
from bigsmic.stages.density import NONE
from bigsmic.stages.drawn_clusters import DrawnClusters
from bigsmic.stages.shown_number import NUMBER
from bigsmic.types import Floats, Integers

LARGE = 0.05
"""Share of the dense rows from which on a part counts even if most rows of no cluster are in it."""
LONG = 0.6
"""Share of the variance along the first axes from which on pieces are long; sparse rows around them do not count."""
INSIDE = 0.9
"""Least share of the dense rows of a cluster in its part, unless it lies across several."""
NEARLY_ALL = 0.9
"""Share of all dense rows that several large parts have together, and none alone, if they are clusters in a dispute."""


class DenseParts(NamedTuple):
    """Drawn rows in dense parts of the graph.

    Parameters
    ----------
    labels : ndarray of int64, shape (s,)
        Number of the part of each row; ``NONE`` for sparse rows, and others in none.
    roots : ndarray of int64, shape (n_parts,)
        Smallest position in each part.
    """

    labels: Integers
    roots: Integers

    @property
    def sizes(self) -> Integers:
        """Rows of each part."""
        return np.bincount(self.labels[self.labels != NONE])

    def of_groups(self, groups: Integers, weights: Floats) -> Integers:
        """Part of every group of a labeling: int64, shape (m,).

        A group without drawn dense rows is of the part to whose groups its weight is largest.

        Parameters
        ----------
        groups : ndarray of int, shape (s,)
            Of the drawn rows.
        weights : ndarray of float64, shape (m, m)
            Of the graph between every two groups.
        """
        inside = self.labels != NONE
        table = contingency(self.labels[inside], groups[inside], len(self.roots), len(weights))
        known, part_of = table.any(axis=0), table.argmax(axis=0)
        to_parts = [weights[:, known & (part_of == y)].sum(axis=1) for y in range(len(self.roots))]
        return np.where(known, part_of, np.argmax(to_parts, axis=0))


def of_pieces(job: Job, found: DrawnClusters, disputed: bool = False) -> DenseParts | None:
    """Dense parts, if the clusters that are not one of them each are pieces of a curve: then each part is a cluster.

    So it is, whatever the clusters are, if large parts are as many as were asked for, or if there are several and
    labelings do not agree on the clusters: of many rows, pieces of a wide curve are not long. None if every cluster is
    a part.

    Parameters
    ----------
    job : Job
    found : DrawnClusters
    disputed : bool
        Whether labelings do not agree on the clusters.
    """
    limit = noise.distance(found.sigma, noise.AMID)
    dense = found.sigma <= limit
    shapes = drawn_clusters.pieces(job, found._replace(P=found.P[dense], labels=found.labels[dense]))
    settings = job.context.settings
    asked = settings.n_clusters if settings.number_given and settings.n_clusters <= 1 / LARGE else 0
    if graph_parts.have_one_column(job.context) or not (asked or disputed or shapes.n_of_curves() > 1):
        return None
    task = partial(_roots, positions=found.positions, limit=limit)
    roots = job.map_blocks(NUMBER, [0], task)[0]
    numbers, of_row = np.unique(roots[dense], return_inverse=True)
    table = contingency(of_row, found.labels[dense], len(numbers), found.labels.max() + 1)
    shares = table.sum(axis=1) / table.sum()
    counts = shares >= LARGE
    if not _are_plain(shares, asked, disputed):
        holds, is_piece = _held(table, np.bincount(found.labels, minlength=table.shape[1]))
        if not shapes.are_of_curves(is_piece[: len(shapes.sizes)], LONG):
            return None
        counts |= holds
    labels = np.full(len(roots), NONE)
    labels[dense] = np.where(counts, np.cumsum(counts) - 1, NONE)[of_row]
    return DenseParts(labels, numbers[counts])


def _are_plain(shares: Floats, asked: int, disputed: bool) -> bool:
    """Whether large parts are the clusters, whatever the shapes of others, by the shares of all parts.

    They are as many as were asked for, or several, none of which has nearly all rows, beside nothing else.
    """
    large = shares[shares >= LARGE]
    return len(large) > 1 and bool(len(large) == asked or (disputed and large.sum() >= NEARLY_ALL > large.max()))


def _held(table: Integers, rows: Integers) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each part has most dense rows of a cluster, and whether each cluster is a piece of a part.

    Parameters
    ----------
    table : ndarray of int64, shape (n_parts, c)
        Dense rows of each cluster in each part.
    rows : ndarray of int64, shape (c,)
        All rows of each cluster.
    """
    known = table.sum(axis=0) >= np.maximum(FEWEST_ROWS, rows / 2)
    most = table.argmax(axis=0)
    held = np.bincount(most[known], minlength=len(table))
    return held > 0, known & ((held[most] > 1) | (table.max(axis=0) < INSIDE * table.sum(axis=0)))


def _roots(context: Context, _: int, positions: Integers, limit: float) -> Integers:
    """Smallest position of the component of rows at some positions in the graph without sparse rows."""
    return density.components(context, limit)[positions].astype(np.int64)
