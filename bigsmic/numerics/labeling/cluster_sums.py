"""Statistics of clusters from sums of posteriors and labels over rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling.merge_tree import NEGLIGIBLE_MEAN, MergeTree, gram, merge_tree
from bigsmic.types import Floats, Integers


class ClusterSums(NamedTuple):
    """Sums over rows; the sum of two is that of all rows.

    Parameters
    ----------
    counts : ndarray of int64, shape (c,)
        Rows of each cluster; rows of label -1 are in none.
    posterior : ndarray of float64, shape (c,)
        Sum of the cluster's posterior over its rows.
    agreement : ndarray of float64, shape (c,)
        Sum of the agreement of labelings over its rows.
    gram : ndarray of float64, shape (c, c)
        Sum over all rows of the outer product of the posterior with itself.
    """

    counts: np.ndarray
    posterior: np.ndarray
    agreement: np.ndarray
    gram: np.ndarray

    def __add__(self, other: "ClusterSums") -> "ClusterSums":  # type: ignore[override]
        """Sums over the rows of both."""
        return ClusterSums(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def cluster_sums(labels: Integers, posterior: Floats, agreement: Floats) -> ClusterSums:
    """Sums over one block of rows.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
        -1 for none.
    posterior : ndarray of float32, shape (b, c)
    agreement : ndarray of float32, shape (b,)

    Returns
    -------
    ClusterSums
        Add over blocks.
    """
    rows = np.flatnonzero(labels >= 0)
    known, c = labels[rows], posterior.shape[1]
    own = posterior[rows, known].astype(np.float64)
    return ClusterSums(
        np.bincount(known, minlength=c),
        np.bincount(known, own, c),
        np.bincount(known, agreement[rows].astype(np.float64), c),
        gram(posterior),
    )


def density_ratios(sums: Floats) -> NDArray[np.float64]:
    """How much more often than by chance two clusters have posterior mass at the same row.

    ``r_yz = G_yz / (p_y p_z)`` with G the mean over rows of the outer product of the posterior, ``p = G 1``: the ratio
    ``p(y, z) / (p(y) p(z))`` of two labels drawn at one row. It is what the objective of SMIC is made of, and by which
    :func:`~bigsmic.numerics.labeling.merge_tree.merge_tree` merges.

    Parameters
    ----------
    sums : ndarray of float64, shape (c, c)
        Total of ``ClusterSums.gram``, over any number of rows.

    Returns
    -------
    ratios : ndarray of float64, shape (c, c)
        0 for clusters that never share a row, 1 if they do as often as by chance; 0 for clusters without posterior.
    """
    G = sums / max(sums.sum(), np.finfo(float).tiny)
    p = G.sum(axis=1)
    chance = np.outer(p, p)
    return np.divide(G, chance, out=np.zeros_like(G), where=np.minimum.outer(p, p) >= NEGLIGIBLE_MEAN)


def cluster_tree(sums: Floats) -> MergeTree:
    """Merge tree of clusters by their density ratios; those without posterior are merged last.

    Parameters
    ----------
    sums : ndarray of float64, shape (c, c)
        Total of ``ClusterSums.gram``.

    Returns
    -------
    MergeTree
        Every cluster is a column of it, also one without posterior.
    """
    tree = merge_tree(sums / max(sums.sum(), np.finfo(float).tiny))
    every = np.arange(len(sums))
    merges, root = tree.merges.tolist(), int(tree.columns[0]) if len(tree.columns) else 0
    for z in np.setdiff1d(every, [*tree.columns, root]).tolist():
        merges.append(sorted((root, z)))
        root = min(root, z)
    ratios = np.append(tree.ratios, np.zeros(len(merges) - len(tree.ratios)))
    return MergeTree(len(sums), every, np.array(merges, np.int64).reshape(-1, 2), ratios)


def best_jaccard(table: Integers) -> Floats:
    """How well each cluster is recovered by another labeling: its largest Jaccard index with one of the labels [1]_.

    ``J = rows in both / rows in either``.

    Parameters
    ----------
    table : ndarray of int, shape (c, m)
        Rows by cluster and by label of the other labeling.

    Returns
    -------
    jaccard : ndarray of float64, shape (c,)
        1 if a label has exactly the same rows; nan for a cluster without rows.

    References
    ----------
    .. [1] Hennig, "Cluster-wise assessment of cluster stability", Computational Statistics & Data Analysis 52 (2007).
       doi:10.1016/j.csda.2006.11.025
    """
    own, other = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    either = own + other - table
    jaccard = np.divide(table, either, out=np.zeros(table.shape), where=either > 0).max(axis=1)
    return np.where(own[:, 0] > 0, jaccard, np.nan)
