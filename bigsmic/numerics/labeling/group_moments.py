"""Numbers of rows, means and covariances of groups, from sums over blocks of rows."""

from typing import NamedTuple

import numpy as np

from bigsmic.numerics.products import self_product
from bigsmic.types import Floats, Integers


class GroupMoments(NamedTuple):
    """Rows, sums and sums of outer products of the rows of each group; the sum of two is that of all rows.

    Parameters
    ----------
    counts : ndarray of float64, shape (..., m)
        With a leading axis if they are of several labelings, as are the others.
    sums : ndarray of float64, shape (..., m, r)
    outers : ndarray of float64, shape (..., m, r, r)
    """

    counts: np.ndarray
    sums: np.ndarray
    outers: np.ndarray

    def __add__(self, other: "GroupMoments") -> "GroupMoments":  # type: ignore[override]
        """Moments of the rows of both."""
        return GroupMoments(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def group_moments(P: Floats, labels: Integers, n_groups: int) -> GroupMoments:
    """Moments of the groups, of one block of rows.

    Parameters
    ----------
    P : ndarray of float32, shape (b, r)
        Principal components of the rows.
    labels : ndarray of int, shape (b,)
        Group of each row.
    n_groups : int

    Returns
    -------
    GroupMoments
        Add over blocks.
    """
    order = np.argsort(labels, kind="stable")
    cuts = np.searchsorted(labels[order], np.arange(n_groups + 1))
    r = P.shape[1]
    sums, outers = np.zeros((n_groups, r)), np.zeros((n_groups, r, r))
    for y in np.flatnonzero(np.diff(cuts)):
        rows = P[order[cuts[y] : cuts[y + 1]]].astype(np.float64)
        sums[y], outers[y] = rows.sum(axis=0), self_product(rows)
    return GroupMoments(np.diff(cuts).astype(np.float64), sums, outers)
