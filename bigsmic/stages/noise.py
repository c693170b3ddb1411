"""spacing and noise_scores: rows in no cluster, by the distance to their farthest neighbour in the graph."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.labeling import noise
from bigsmic.numerics.labeling.groups import is_drawn
from bigsmic.numerics.labeling.noise import Spacing
from bigsmic.numerics.labeling.rotation import summarise
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import projection
from bigsmic.stages.density import distances
from bigsmic.stages.shown_number import noise_from
from bigsmic.types import Floats, Integers

SPACING, SCORES = "spacing", "noise_scores"


def run(job: Job) -> None:
    """Score every row.

    The stages are ``remainders``, what components leave of rows; ``spacing``, distances between neighbours in every
    cluster; and ``noise_scores``.
    """
    projection.fill_remainders(job)
    job.run_steps(SPACING, [0], _find_spacing)
    job.fill(SCORES, job.context.blocks, _score)


def _find_spacing(job: Job, block: int) -> None:
    """Centre and spread of every cluster, from a sample of its rows, or all rows of a small one."""
    context = job.context
    sums = context.run.gather("final", context.blocks, ["sums"])
    counts = summarise(np.sum([of_block for (of_block,) in sums], axis=0)).counts
    sample = sampled(job, SPACING, counts, _labels, _over_all_columns)
    of_clusters, of_all = noise.spacing(*sample, len(counts))
    from_labelings = projection.over_all_columns(context, np.array(noise_from(context.run)))
    gap = min(noise.gap(sample.log_sigma, sample.labels, counts), noise.log_distance(from_labelings).item())
    arrays = noise.for_scores(of_clusters, gap)._asdict() | {"all": np.array(of_all)}
    job.run.write(SPACING, block, arrays)


def _labels(context: Context, p: int) -> Integers:
    labels: Integers = context.run.read("final", p, "labels")
    return labels


class Sample(NamedTuple):
    """Rows that were drawn of every cluster.

    Parameters
    ----------
    log_sigma : ndarray of float64, shape (s,)
    labels : ndarray of int, shape (s,)
    in_common : ndarray of bool, shape (s,)
        Rows that belong to the sample of all rows.
    """

    log_sigma: Floats
    labels: Integers
    in_common: NDArray[np.bool_]


def sampled(
    job: Job,
    stage: str,
    counts: NDArray[Any],
    read: Callable[[Context, int], Integers],
    measure: Callable[[Context, int], Floats],
) -> Sample:
    """Log distances and labels of rows of every cluster, drawn by the name of the stage.

    Parameters
    ----------
    job : Job
    stage : str
    counts : ndarray, shape (c,)
        Rows of each cluster.
    read : callable
        ``read(context, p)`` gives the labels of row block p.
    measure : callable
        ``measure(context, p)`` gives its log distances.

    Returns
    -------
    Sample
    """
    task = partial(_sample, stage=stage, counts=counts, read=read, measure=measure)
    parts = job.map_blocks(stage, job.context.blocks, task)
    return Sample(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _sample(
    context: Context,
    p: int,
    stage: str,
    counts: NDArray[Any],
    read: Callable[[Context, int], Integers],
    measure: Callable[[Context, int], Floats],
) -> Sample:
    """The drawn rows of one block."""
    labels = read(context, p)
    uniform = row_uniform(context.settings.seed, stage, context.run.read("rows", p, "rows"))
    drawn = is_drawn(uniform, counts[labels])
    in_common = is_drawn(uniform, np.full(len(labels), context.n))
    return Sample(measure(context, p)[drawn], labels[drawn], in_common[drawn])


def log_distances(context: Context, p: int) -> Floats:
    """Log distance of every row of a block, in the graph, to its neighbour of the largest t."""
    return noise.log_distance(distances(context, p))


def _over_all_columns(context: Context, p: int) -> Floats:
    """The same over all columns, not components alone, as what sets a row apart may be what these leave of it."""
    remainders = projection.read_remainders(context, p)
    return noise.log_distance(projection.over_all_columns(context, distances(context, p), remainders))


def read_spacing(context: Context) -> Spacing:
    """Spacing of the clusters of a fit."""
    read = context.run.reader(SPACING, 0)
    return Spacing(read("center"), read("spread"))


def _score(context: Context, p: int) -> None:
    """Score the rows of one block, in parts by block of input, and count those that are noise by cluster."""
    labels = context.run.read("final", p, "labels")
    scores = noise.scores(_over_all_columns(context, p), labels, read_spacing(context))
    counts = np.bincount(labels[noise.is_noise(scores)], minlength=context.settings.n_clusters)
    arrays = {"score": scores, "counts": counts}
    context.run.write(SCORES, p, arrays, parts={"score": context.layout.before[:, p]})


def rows_of_clusters(context: Context) -> Integers:
    """Number of noise rows that would otherwise be in each cluster: int64, shape (c,)."""
    found = context.run.gather(SCORES, context.blocks, ["counts"])
    total: NDArray[Any] = np.sum([counts for (counts,) in found], axis=0)
    return total
