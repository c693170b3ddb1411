"""The initial categories of a fit, found on a sample."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.class_sums import class_sums
from bigsmic.numerics.objectives.rim.start import class_means, first_centers, ordered_by_prior, supervised_start
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages.rim.rows import n_known, scaled, weighting
from bigsmic.types import Floats


def find_categories(job: Job, attempt: int, reg: float) -> int:
    """Find initial categories, twice as many at each attempt; return the number found."""
    job.run_steps("start", [attempt], partial(_start, reg=reg))
    return job.run.info("start", attempt)["categories"]


def _start(job: Job, attempt: int, reg: float) -> None:
    context, settings = job.context, job.context.settings
    known = n_known(context)
    k = min(max(settings.first_categories(context.n) * 2**attempt, known), context.n)
    sample = context.read_sample()
    centers, labels = first_centers(sample, k, settings.seed, _known_centers(job, known) if known else None)
    if not known:
        labels = ordered_by_prior(labels, len(centers), settings.prior)
    model = supervised_start(sample, labels, len(centers), reg)
    job.run.write("start", attempt, model._asdict(), info={"categories": len(centers)})


def _known_centers(job: Job, known: int) -> NDArray[np.float32]:
    """Mean of the rows of each label; NaN for a label without rows."""
    return class_means(job.sum_blocks("start", job.context.source_blocks, partial(_class_sums, n_classes=known)))


def _class_sums(context: Context, s: int, n_classes: int) -> Floats:
    return class_sums(scaled(context, s), weighting(context, s).labels, n_classes)
