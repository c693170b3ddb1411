"""Clusters of the labelings merged by valleys in rows that are drawn by hash: their shares, and their shapes."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import blobs, consensus, curves, noise
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import density, valleys
from bigsmic.stages.shown_number import NUMBER
from bigsmic.types import Integers

SHAPE_ROWS = 20_000
"""Number of rows, drawn by hash, from which the shapes of clusters are known."""
INSIDE = 2.5
"""Spreads above the centre of the log distances to neighbours up to which rows count in clumpiness. Farther ones may be
noise, which widens the covariance: beside a Gaussian of the same, the rows of a blob would seem to lie in clumps."""


class DrawnRows(NamedTuple):
    """Rows drawn by hash, and their groups.

    Parameters
    ----------
    P : ndarray of float32, shape (s, r)
        Components of the rows.
    groups : ndarray of int32, shape (s, B)
        Their groups in each labeling.
    positions : ndarray of int64, shape (s,)
        Their places in cell order, ascending.
    sigma : ndarray of float32, shape (s,)
        Distances to their neighbours of the largest t.
    """

    P: NDArray[np.float32]
    groups: Integers
    positions: Integers
    sigma: NDArray[np.float32]


class DrawnClusters(NamedTuple):
    """Drawn rows, and the clusters in which labelings have them.

    Parameters
    ----------
    P : ndarray of float32, shape (s, r)
        Components of the rows.
    labels : ndarray of int64, shape (s,)
        Clusters for which most labelings vote.
    positions : ndarray of int64, shape (s,)
        Places of the rows in cell order, ascending.
    sigma : ndarray of float32, shape (s,)
        Distances to their neighbours of the largest t.
    """

    P: NDArray[np.float32]
    labels: NDArray[np.int64]
    positions: Integers
    sigma: NDArray[np.float32]

    def within(self, reach: float) -> "DrawnClusters":
        """Those that are at most so far from their neighbours."""
        near = self.sigma <= reach
        return DrawnClusters(self.P[near], self.labels[near], self.positions[near], self.sigma[near])

    def of_largest(self) -> NDArray[np.float32]:
        """Components of the rows of the largest cluster."""
        return self.P[self.labels == np.bincount(self.labels).argmax()]


def draw(job: Job) -> DrawnRows:
    """Draw rows, in one pass."""
    rows = draw_rows(job.context.n, SHAPE_ROWS, job.context.settings.seed, NUMBER)
    valleys.find_axes(job)
    parts = job.map_blocks(NUMBER, job.context.blocks, partial(_drawn, rows=rows))
    return DrawnRows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def clusters(rows: DrawnRows, trees: Sequence[MergeTree], shared: Integers, n_clusters: int) -> DrawnClusters:
    """Clusters of drawn rows, where the trees of the labelings are cut at a number of clusters.

    Parameters
    ----------
    rows : DrawnRows
    trees : list of MergeTree, length B
        Of the groups of each labeling.
    shared : ndarray of int64, shape (S, S)
        Number of rows that every two groups of all labelings share.
    n_clusters : int
    """
    groups_of = cut(trees, n_clusters)
    gram, merged = consensus.merged_gram(shared, groups_of)
    tree = consensus.overlap_tree(gram)
    classes = tree.cut(min(n_clusters, len(tree.columns)))
    labels = np.stack([of[column] for of, column in zip(groups_of, rows.groups.T, strict=True)], axis=1)
    votes = consensus.vote(labels, merged, classes, classes.max() + 1)
    return DrawnClusters(rows.P, votes.argmax(axis=1), rows.positions, rows.sigma)


def cut(trees: Sequence[MergeTree], n_clusters: int) -> list[Integers]:
    """Cluster of every group of each tree, cut at a number of clusters, or at all if there are fewer."""
    return [tree.cut(min(n_clusters, len(tree.columns))) for tree in trees]


def _drawn(context: Context, p: int, rows: Integers) -> tuple[Any, ...]:
    """Components, groups, positions and distances of the drawn rows of one block."""
    drawn = np.flatnonzero(np.isin(context.run.read("rows", p, "rows"), rows))
    of_block = valleys.components(context, p), valleys.all_groups(context, p), density.distances(context, p)
    P, groups, sigma = (array[drawn] for array in of_block)
    return P, groups, context.layout.bounds[p] + drawn, sigma


def shape(job: Job, found: DrawnClusters) -> dict[str, float | None]:
    """Shares of the rows in the two largest clusters; and clumpiness of the largest, if all others are crumbs.

    Returns
    -------
    shape : dict
        ``largest`` and ``second``, float, and ``clumpiness``, float or None.
    """
    shares = shape_of(np.bincount(found.labels, minlength=2))
    beside_crumbs = shares["largest"] > blobs.LARGEST and shares["second"] < blobs.CRUMB * shares["largest"]
    return shares | {"clumpiness": clumpiness(job, found) if beside_crumbs else None}


def shape_of(sizes: Integers) -> dict[str, Any]:
    """The same from the number of drawn rows in each cluster, without clumpiness."""
    first, second = (np.sort(sizes)[::-1][:2] / sizes.sum()).tolist()
    return {"largest": first, "second": second, "clumpiness": None}


def clumpiness(job: Job, found: DrawnClusters) -> float:
    """How much nearer rows of the largest cluster are than those of a blob; sparse rows do not count."""
    rows = found.within(noise.distance(found.sigma, INSIDE)).of_largest()
    values: list[float] = job.map_here(partial(blobs.clumpiness, seed=job.context.settings.seed), [rows])
    return values[0]


def dominates(shape: Mapping[str, float | None]) -> bool:
    """Whether the largest cluster has most of the rows, beside crumbs, and is no single blob; see :func:`shape`."""
    return (shape["clumpiness"] or 0.0) > blobs.CLUMPED


def pieces(job: Job, found: DrawnClusters) -> curves.Pieces:
    """Shapes of the clusters, which may be pieces of curves."""
    shapes: list[curves.Pieces] = job.map_here(lambda drawn: curves.pieces(drawn.P, drawn.labels), [found])
    return shapes[0]
