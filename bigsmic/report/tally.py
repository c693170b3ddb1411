"""Counts over all rows of a finished run, in one pass over its labels."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from bigsmic.views.passes import Block, Sight

FEW_AGREE = 0.75
"""Share of the labelings below which they disagree on a row."""
UNSURE = 0.5
"""Posterior of its label below which a row counts as uncertain."""


class Tally(NamedTuple):
    """Numbers of rows of which reports tell.

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

    def __add__(self, other: Any) -> "Tally":  # tuples would grow longer
        """Counts over the rows of both."""
        return Tally(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Tallied(Sight):
    """Counts rows in a pass over them."""

    def __call__(self, block: Block) -> Tally:
        """Counts over a block."""
        known = block.labels >= 0
        own, agreement = block.own[known], block.agreement[known]
        disputed, unsure = int((agreement < FEW_AGREE).sum()), int((own < UNSURE).sum())
        return Tally(len(known), disputed, unsure, len(known) - len(own))
