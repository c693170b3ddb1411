"""Directions in which groups of rows differ, from sums over blocks of rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bigsmic.numerics.products import self_product
from bigsmic.numerics.row_blocks import tiles
from bigsmic.types import Floats, Integers

TILE_ROWS = 8192
WITHIN = 0.01
"""Share of the covariance of all rows that is added to that between groups, and orders what no group differs in."""


class GroupSums(NamedTuple):
    """Rows and sums of the groups of several labelings; the sum of two is that of all rows.

    Parameters
    ----------
    counts : ndarray of float64, shape (k, m)
    sums : ndarray of float64, shape (k, m, r)
    outer : ndarray of float64, shape (r, r)
        Sum of the outer products of all rows.
    """

    counts: np.ndarray
    sums: np.ndarray
    outer: np.ndarray

    def __add__(self, other: "GroupSums") -> "GroupSums":  # type: ignore[override]
        """Sums over the rows of both."""
        return GroupSums(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def group_sums(P: Floats, labelings: Sequence[Integers], n_groups: int) -> GroupSums:
    """Sums of the groups of every labeling, of one block of rows.

    Parameters
    ----------
    P : ndarray of float32, shape (b, r)
    labelings : sequence of ndarray of int, shape (b,)
        Group of each row, k times.
    n_groups : int

    Returns
    -------
    GroupSums
        Add over blocks.
    """
    r = P.shape[1]
    found = GroupSums(np.zeros((len(labelings), n_groups)), np.zeros((len(labelings), n_groups, r)), np.zeros((r, r)))
    for at in tiles(len(P), TILE_ROWS):
        rows = P[at].astype(np.float64)
        found.outer[:] += self_product(rows)
        for labels, counts, sums in zip(labelings, found.counts, found.sums, strict=True):
            order = np.argsort(labels[at], kind="stable")
            groups, first, n = np.unique(labels[at][order], return_index=True, return_counts=True)
            counts[groups] += n
            sums[groups] += np.add.reduceat(rows[order], first, axis=0)
    return found


def between_axes(found: GroupSums, n_axes: int) -> Floats:
    """Orthonormal axes along which the means of groups differ most, and after these the rows.

    They are the leading eigenvectors of ``B + 0.01 T``: B is the covariance of the means of all groups of all
    labelings, weighted by their rows, and T that of the rows. Principal components are led by T alone, in which what
    separates clusters may be little, if columns are many.

    Parameters
    ----------
    found : GroupSums
        Sums over all rows.
    n_axes : int

    Returns
    -------
    axes : ndarray of float32, shape (r, min(n_axes, r))
    """
    n = found.counts[0].sum()
    mean = found.sums[0].sum(axis=0) / n
    weights = np.sqrt(np.maximum(found.counts, 1.0))
    differences = np.concatenate(found.sums / weights[:, :, None] - np.sqrt(found.counts)[:, :, None] * mean)
    B = differences.T @ differences / (n * len(found.counts))
    T = found.outer / n - np.outer(mean, mean)
    axes: Floats = np.linalg.eigh(B + WITHIN * T)[1][:, ::-1][:, :n_axes]
    return np.ascontiguousarray(axes, np.float32)
