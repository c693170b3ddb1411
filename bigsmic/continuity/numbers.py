"""Numbers that clusters take from an earlier run: computed by the fit, and stored in its run."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bigsmic.continuity.counting import Labelled, count
from bigsmic.continuity.match import Match
from bigsmic.numerics.labeling import matching
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import numbering


def find(later: Labelled, earlier: Labelled) -> Match:
    """Match the clusters of a later fit with those of an earlier one."""
    return count(later, earlier).match(earlier.numbers, later.numbers)


def give(job: Job, n_clusters: int, earlier: Labelled, info: Mapping[str, Any]) -> None:
    """Number the clusters of a fit, after its output, like the clusters of an earlier run that they continue.

    Parameters
    ----------
    job : Job
    n_clusters : int
        Number of clusters of the fit.
    earlier : Labelled
    info : dict
        JSON-like facts to store as well.
    """
    found = find(Labelled(job.context, n_clusters), earlier)
    before = np.array([found.continued.get(j, -1) for j in range(n_clusters)], np.int64)
    numbers = matching.numbered(before, earlier.width)
    width = max(earlier.width, int(numbers.max()) + 1)
    noted = {"match": found.renumbered(numbers.tolist()).document(), **info}
    numbering.write(job, numbering.Numbering(numbers, width), noted)


def stored(context: Context) -> Match | None:
    """The stored match with the run whose numbers a fit uses; None if it uses none."""
    info = numbering.info(context)
    return Match.of_document(info["match"]) if info else None
