"""Signatures of the rows of a graph, which tell whether another graph is the same with its rows in another order."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bigsmic.numerics.hashing import row_hash
from bigsmic.types import Integers

ROUNDS = 2
"""The first tells rows of other entries apart; the second those of other neighbours, even if all entries are 1."""

ENTRIES = 1 << 18
"""Entries that are hashed at once, so that their hashes take little memory beside the block."""


def row_signatures(blocks: Callable[[], Iterable[tuple[int, Any]]], n_rows: int) -> Integers:
    """64 bits of each row of a square sparse matrix, which move with the row if rows and columns are reordered.

    They are sums of hashes of the entries in the row and in its column, with the digits of float32, and of the
    signatures of the rows to which these lead, by colour refinement. Integer sums do not depend on the order.

    Parameters
    ----------
    blocks : callable
        Returns all rows, in blocks: the number of the first one, and a csr_array of shape (h, n_rows).
    n_rows : int

    Returns
    -------
    signatures : ndarray of uint64, shape (n_rows,)
    """
    found = np.zeros(n_rows, np.uint64)
    for _ in range(ROUNDS):
        before, found = found, np.zeros(n_rows, np.uint64)
        for lo, rows in blocks():
            row = lo + np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            for first in range(0, len(row), ENTRIES):
                part = slice(first, first + ENTRIES)
                source, target = row[part], rows.indices[part]
                with np.errstate(over="ignore", under="ignore"):
                    bits = rows.data[part].astype(np.float32).view(np.uint32).astype(np.uint64)
                np.add.at(found, source, row_hash(0, "leaves", bits ^ before[target]))
                np.add.at(found, target, row_hash(0, "enters", bits ^ before[source]))
    return found
