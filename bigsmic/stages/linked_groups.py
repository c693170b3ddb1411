"""Links between the groups of labelings, and the least and the largest number of clusters that links allow."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bigsmic.numerics.constraints.consistency import Quotient
from bigsmic.numerics.constraints.group_links import links_between
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import link_scores, links
from bigsmic.types import Floats, Integers

ReadLabels = Callable[[Context, int], Integers]


def has_links(context: Context) -> bool:
    """Whether the fit was given links."""
    return context.settings.link_weights != (None,) and links.given(context).n_links > 0


def between(job: Job, stage: str, reads: Sequence[ReadLabels], n_groups: Sequence[int]) -> list[Floats]:
    """Must-links and cannot-links between the groups of labelings.

    Parameters
    ----------
    job : Job
    stage : str
        Name for progress reports.
    reads : sequence of callable
        ``f(context, p)`` gives the groups of row block p under a labeling.
    n_groups : sequence of int

    Returns
    -------
    counts : list of ndarray of float64, shapes (2, n_groups[b], n_groups[b])
        Zeros if the fit was given no links; see :func:`~bigsmic.numerics.constraints.group_links.links_between`.
    """
    if not has_links(job.context):
        return [np.zeros((2, m, m)) for m in n_groups]
    given, groups = links.given(job.context), link_scores.of_linked_rows(job, stage, partial(_linked, reads=reads))
    return [links_between(given, of_one, m) for of_one, m in zip(groups, n_groups, strict=True)]


def _linked(context: Context, p: int, reads: Sequence[ReadLabels]) -> Integers:
    """Groups of the linked rows of one block under every labeling, int32, shape (B, l)."""
    linked = link_scores.is_linked(context, p)
    return np.stack([read(context, p)[linked] for read in reads])


def least_clusters(context: Context) -> int:
    """Smallest number of clusters for which no contradiction among the links is found; 1 without links."""
    return Quotient.of(links.given(context)).least_clusters() if has_links(context) else 1


def most_clusters(context: Context) -> int:
    """Largest number of clusters that rows joined by must-links and equal labels can form; n without links."""
    return Quotient.of(links.given(context)).most_clusters if has_links(context) else context.n
