"""Dense parts: parts of the graph without sparse rows, which are clusters of any shape."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling import density_tree, noise
from bigsmic.numerics.labeling.curves import FEWEST_ROWS, Pieces
from bigsmic.numerics.labeling.metrics import contingency
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import density, drawn_clusters, graph_parts
from bigsmic.stages.density import NONE, Neighbors
from bigsmic.stages.drawn_clusters import DrawnClusters
from bigsmic.stages.shown_number import NUMBER
from bigsmic.types import Floats, Integers

LARGE = 0.05
"""Share of the dense rows from which on a part counts even if most rows of no cluster are in it."""
LONG = 0.6
"""Share of the variance along the first axes from which on pieces are long; sparse rows around them do not count."""
INSIDE = 0.9
"""Least share of the dense rows of a cluster in its part, unless it lies across several."""
LEVELS = np.linspace(0.5, 1.0, 16)
"""Shares of the drawn rows that are dense at the limits of the hierarchy."""
NEARLY_ALL = 0.9
"""Share of all dense rows that are in clusters which persist, or in several large parts together, and in none alone, if
these are clusters in a dispute."""


class DenseParts(NamedTuple):
    """Drawn rows in dense parts of the graph.

    Parameters
    ----------
    labels : ndarray of int64, shape (s,)
        Number of the part of each row; ``NONE`` for sparse rows, and others in none.
    roots : ndarray of int64, shape (n_parts,)
        Smallest position in each part.
    neighbors : bigsmic.stages.density.Neighbors
        Of the graph in which these are components.
    limits : ndarray of float64, shape (n_parts,)
        Distances above which rows are sparse there.
    """

    labels: Integers
    roots: Integers
    neighbors: Neighbors
    limits: Floats

    @property
    def where(self) -> dict[str, Any]:
        """What tells the rows of each part."""
        return {"neighbors": self.neighbors, "limits": self.limits, "roots": self.roots}

    def among(self, counts: NDArray[np.bool_]) -> "DenseParts":
        """Some of the parts, bool (n_parts,), numbered through."""
        numbers = np.append(np.where(counts, np.cumsum(counts) - 1, NONE), NONE)
        return DenseParts(numbers[self.labels], self.roots[counts], self.neighbors, self.limits[counts])

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


def of_pieces(job: Job, found: DrawnClusters, disputed: bool) -> DenseParts | None:
    """Dense parts, if the clusters that are not one of them each are pieces of a curve: then each part is a cluster.

    So it is, whatever the clusters are, if large parts are as many as were asked for, or if there are several and
    labelings do not agree on the clusters: of many rows, pieces of a wide curve are not long. Parts are those that
    persist as sparse rows are taken away, or else those without rows that are sparse by one limit. If every cluster is
    a part, it is one of the former, or None.

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
    first = None
    for find, persist in ((_that_persist, True), (_of_one_limit, False)):
        parts = _clusters_of(find(job, found, limit), persist, found, dense, shapes, (asked, disputed))
        if parts is not None and len(parts.roots) == (asked or len(parts.roots)):
            return parts
        first = first or parts
    return first


def _clusters_of(
    parts: DenseParts,
    persist: bool,
    found: DrawnClusters,
    dense: NDArray[np.bool_],
    shapes: Pieces,
    wanted: tuple[int, bool],
) -> DenseParts | None:
    """The parts that are clusters; None if those found are no pieces of these, nor the same, if the parts persist."""
    inside = dense & (parts.labels != NONE)
    table = contingency(parts.labels[inside], found.labels[inside], len(parts.roots), found.labels.max() + 1)
    n_dense = np.count_nonzero(dense)
    shares = table.sum(axis=1) / n_dense
    counts = shares >= LARGE
    if len(shares) == 0:
        return None
    if not _are_plain(shares, *wanted):
        known = table.sum(axis=0) >= np.maximum(FEWEST_ROWS, np.bincount(found.labels) / 2)
        holds, is_piece = _held(table, known)
        are_same = persist and not is_piece.any() and table[:, known].sum() >= NEARLY_ALL * n_dense
        if not (are_same or shapes.are_of_curves(is_piece[: len(shapes.sizes)], LONG)):
            return None
        counts |= holds
    return parts.among(counts)


def _that_persist(job: Job, found: DrawnClusters, limit: float) -> DenseParts:
    """Clusters that persist as sparse rows are taken away; none unless nearly all dense rows are in one."""
    task = partial(_levels, positions=found.positions)
    sigma, limits, components = job.map_blocks(NUMBER, [0], task)[0]
    chosen = density_tree.clusters(components, limits, max(FEWEST_ROWS, LARGE * len(sigma)))
    labels = np.full(len(sigma), NONE)
    for number, cluster in enumerate(chosen):
        labels[cluster.rows] = number
    if (labels[found.sigma <= limit] != NONE).mean() < NEARLY_ALL:
        chosen, labels = [], np.full(len(sigma), NONE)
    levels = np.array([cluster.level for cluster in chosen], int)
    roots = np.array([components[cluster.level, cluster.rows[0]] for cluster in chosen], np.int64)
    return DenseParts(labels, roots, density.near_edges(job.context), limits[levels])


def _of_one_limit(job: Job, found: DrawnClusters, limit: float) -> DenseParts:
    """All components of the graph without sparse rows."""
    roots = job.map_blocks(NUMBER, [0], partial(_roots, positions=found.positions, limit=limit))[0]
    dense, labels = found.sigma <= limit, np.full(len(roots), NONE)
    numbers, labels[dense] = np.unique(roots[dense], return_inverse=True)
    return DenseParts(labels, numbers, density.all_edges(job.context), np.full(len(numbers), limit))


def _are_plain(shares: Floats, asked: int, disputed: bool) -> bool:
    """Whether large parts are the clusters, whatever the shapes of others, by the shares of all parts.

    They are as many as were asked for, or several, none of which has nearly all rows, beside nothing else.
    """
    large = shares[shares >= LARGE]
    return len(large) > 1 and bool(len(large) == asked or (disputed and large.sum() >= NEARLY_ALL > large.max()))


def _held(table: Integers, known: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each part has most dense rows of a cluster, and whether each cluster is a piece of a part.

    Parameters
    ----------
    table : ndarray of int64, shape (n_parts, c)
        Dense rows of each cluster in each part.
    known : ndarray of bool, shape (c,)
        Clusters that are mostly dense, and have enough rows to tell.
    """
    most = table.argmax(axis=0)
    held = np.bincount(most[known], minlength=len(table))
    return held > 0, known & ((held[most] > 1) | (table.max(axis=0) < INSIDE * table.sum(axis=0)))


def _roots(context: Context, _: int, positions: Integers, limit: float) -> Integers:
    """Smallest position of the component of rows at some positions in the graph without sparse rows."""
    (found,) = density.components(context, density.all_edges(context), [limit])
    return found[positions].astype(np.int64)


def _levels(context: Context, _: int, positions: Integers) -> tuple[Floats, Floats, Integers]:
    """Distances of rows at some positions, the limits of the hierarchy, and components at each, (levels, s)."""
    neighbors = density.near_edges(context)
    sigma = density.sigma_at(context, neighbors.t, positions)
    limits = np.unique(np.quantile(sigma, LEVELS).astype(np.float32))
    roots = [found[positions].astype(np.int64) for found in density.components(context, neighbors, limits)]
    dense = sigma <= limits[:, None]
    return sigma, limits.astype(np.float64), np.where(dense, roots, density_tree.ABSENT)
