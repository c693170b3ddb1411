"""Adjusted Rand index of two labelings, from tables of counts that add up over blocks of rows."""

import numpy as np

from bigsmic.types import Integers


def contingency(labels_a: Integers, labels_b: Integers, n_a: int, n_b: int) -> Integers:
    """Count the rows of one block by their two labels.

    Parameters
    ----------
    labels_a, labels_b : ndarray of int, shape (b,)
        In ``0..n_a - 1`` and ``0..n_b - 1``.
    n_a, n_b : int

    Returns
    -------
    table : ndarray of int64, shape (n_a, n_b)
        Add over blocks.
    """
    pairs = np.asarray(labels_a, dtype=np.int64) * n_b + labels_b
    return np.bincount(pairs, minlength=n_a * n_b).reshape(n_a, n_b)


def adjusted_rand_index(table: Integers) -> float:
    """Rand index corrected for chance: 1 for equal partitions, 0 expected for independent ones.

    ``(both - a b / total) / ((a + b) / 2 - a b / total)`` on numbers of pairs, in exact integers up to
    the one division.

    Parameters
    ----------
    table : ndarray of int, shape (n_a, n_b)
        Total of `contingency`.

    Returns
    -------
    float
        1 if both labelings are trivial in the same way, where the formula is 0/0.

    References
    ----------
    .. [1] Hubert, Arabie, "Comparing partitions", Journal of Classification 2 (1985). doi:10.1007/BF01908075
    """
    return adjusted_rand_index_of_pairs(*_pair_counts(table))


def adjusted_rand_index_of_pairs(both: int, in_a: int, in_b: int, total: int) -> float:
    """Adjusted Rand index from the numbers of pairs of rows that share a label in both labelings, in a, in b; of all.

    Parameters
    ----------
    both, in_a, in_b, total : int
        Of any size, as products of two exceed 2**63 at a few hundred thousand rows.

    Returns
    -------
    float
        As `adjusted_rand_index`.
    """
    denominator = (in_a + in_b) * total - 2 * in_a * in_b
    return 2 * (both * total - in_a * in_b) / denominator if denominator else 1.0


def _pair_counts(table: Integers) -> tuple[int, ...]:
    table = np.asarray(table)
    return (
        _pairs(table.ravel()),
        _pairs(table.sum(axis=1)),
        _pairs(table.sum(axis=0)),
        _pairs(table.sum(keepdims=True).ravel()),
    )


def _pairs(counts: Integers) -> int:
    # Python integers, as products of two of these exceed 2**63 at a few hundred thousand rows
    return sum(n * (n - 1) // 2 for n in counts[counts > 1].tolist())
