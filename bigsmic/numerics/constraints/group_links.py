"""Links between groups of rows: counts of the links whose ends lie in two groups of a labeling."""

import numpy as np

from bigsmic.numerics.constraints.links import Links
from bigsmic.types import Floats, Integers


def links_between(links: Links, labels: Integers, n_groups: int) -> Floats:
    """Must-links and cannot-links between every two groups of a labeling.

    Parameters
    ----------
    links : Links
    labels : ndarray of int, shape (T,)
        Group of each linked row.
    n_groups : int
        m.

    Returns
    -------
    counts : ndarray of float64, shape (2, m, m)
        Symmetric; links within a group, on the diagonals, count twice.
    """
    table = np.zeros((links.n_groups, n_groups))
    members = np.flatnonzero(links.group >= 0)
    np.add.at(table, (links.group[members], labels[members]), 1.0)
    apart = table[links.apart[:, 0]].T @ table[links.apart[:, 1]]
    must, cannot = table.T @ table - np.diag(table.sum(axis=0)), apart + apart.T
    for pairs, counts in ((links.must, must), (links.cannot, cannot)):
        first, second = labels[pairs[~links.grouped(pairs)]].T
        np.add.at(counts, (first, second), 1.0)
        np.add.at(counts, (second, first), 1.0)
    return np.stack([must, cannot])
