"""Counts over all rows of a finished run, in one pass over its labels."""

from typing import NamedTuple, Self

import numpy as np

from bigsmic.runtime.context import Context
from bigsmic.views.clusters import blocks_of

FEW_AGREE = 0.75
"""Share of the labelings below which they disagree on a row."""
UNSURE = 0.5
"""Posterior of its label below which a row may as well be elsewhere."""


class Tally(NamedTuple):
    """How many rows something is to be said of.

    Parameters
    ----------
    rows : int
    disputed : int
        Rows on which fewer labelings agree than :data:`FEW_AGREE` of them.
    unsure : int
        Rows whose label has a posterior below :data:`UNSURE`.
    outside : int
        Rows of label -1.
    """

    rows: int = 0
    disputed: int = 0
    unsure: int = 0
    outside: int = 0

    @classmethod
    def of(cls, context: Context) -> Self:
        """Counts over all rows, a block in memory at a time."""
        total = np.zeros(len(cls._fields), np.int64)
        for _, labels, posterior, agreement in blocks_of(context):
            known = labels >= 0
            own = posterior[np.flatnonzero(known), labels[known]]
            disputed = np.count_nonzero(agreement[known] < FEW_AGREE)
            total += np.array([len(labels), disputed, np.count_nonzero(own < UNSURE), len(labels) - len(own)])
        return cls(*total.tolist())
