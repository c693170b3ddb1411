"""Numbers that clusters of a fit take from an earlier run: found while the fit runs, and stored in its run."""

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
    """What became of the clusters of an earlier fit in a later one."""
    return count(later, earlier).match(earlier.numbers, later.numbers)


def give(job: Job, n_clusters: int, earlier: Labelled, info: Mapping[str, Any]) -> None:
    """Give the clusters of a fit, whose rows are written, the numbers of those of an earlier run that they continue.

    Parameters
    ----------
    job : Job
    n_clusters : int
        That the fit found.
    earlier : Labelled
    info : dict
        What else is noted, JSON-like.
    """
    found = find(Labelled(job.context, n_clusters), earlier)
    before = np.array([found.continued.get(j, -1) for j in range(n_clusters)], np.int64)
    numbers = matching.numbered(before, earlier.width)
    width = max(earlier.width, int(numbers.max()) + 1)
    noted = {"match": found.renumbered(numbers.tolist()).document(), **info}
    numbering.write(job, numbering.Numbering(numbers, width), noted)


def stored(context: Context) -> Match | None:
    """What was found of the clusters of the run whose numbers a fit has taken; None where it took none."""
    info = numbering.info(context)
    return Match.of_document(info["match"]) if info else None
