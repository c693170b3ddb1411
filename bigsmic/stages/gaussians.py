"""gaussians: shapes of the clusters, which have a say where labelings disagree; the stage ``gaussians``."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.labeling import consensus, gaussians, noise
from bigsmic.numerics.labeling.noise import Spacing
from bigsmic.numerics.labeling.valleys import GroupMoments, group_moments, is_drawn
from bigsmic.numerics.row_blocks import tiles
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import valleys
from bigsmic.stages.labelings import TILE_ROWS
from bigsmic.stages.noise import log_distances
from bigsmic.stages.selection import ballots, chosen, chosen_set
from bigsmic.types import Floats, Integers

GAUSSIANS = "gaussians"
HEARD = "shapes"
"""What the ledger of ``final`` says of a block: whether shapes had a say in its labels."""


def are_used(context: Context) -> bool:
    """Whether the shapes of clusters have a say."""
    return context.settings.knows_shapes and not context.settings.undecided and chosen(context) is None


def run(job: Job) -> None:
    """Find the Gaussian of every cluster, and between which clusters it is believed.

    Nothing is found for a run of which an earlier version has labelled rows by votes alone: all rows of a run, and
    those that it predicts, are labelled in one way.
    """
    if are_used(job.context) and not _voted_alone(job.context):
        job.run_steps(GAUSSIANS, [0], _find)


def _voted_alone(context: Context) -> bool:
    """Whether some rows of the run have labels in which shapes had no say."""
    run = context.run
    return any(not run.info("final", p).get(HEARD, False) for p in context.blocks if run.done("final", p))


def _find(job: Job, block: int) -> None:
    context = job.context
    valleys.find_axes(job)
    of_clusters = _spacing(job)
    moments = job.sum_blocks(GAUSSIANS, context.blocks, partial(_moments, spacing=of_clusters))
    (found,) = job.map_here(gaussians.of_moments, [moments])
    confused = job.sum_blocks(GAUSSIANS, context.blocks, partial(_confusion, spacing=of_clusters, found=found))
    mean, axes = (context.run.read(valleys.AXES, 0, name) for name in ("mean", "axes"))
    arrays = {"mean": mean, "axes": axes, "may_move": gaussians.believed(confused).astype(np.uint8)}
    job.run.write(GAUSSIANS, block, arrays | found._asdict())


def _spacing(job: Job) -> Spacing:
    """How far apart the rows of every cluster lie, from samples of its rows."""
    context = job.context
    counts = job.sum_blocks(GAUSSIANS, context.blocks, _counts)
    parts = job.map_blocks(GAUSSIANS, context.blocks, partial(_sample, counts=counts))
    log_sigma, labels, in_common = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return noise.spacing(log_sigma, labels, len(counts), in_common)[0]


def _counts(context: Context, p: int) -> Integers:
    return np.bincount(_votes(context, p)[1], minlength=context.settings.n_clusters)


def _sample(context: Context, p: int, counts: Floats) -> tuple[Floats, Integers, NDArray[np.bool_]]:
    labels = _votes(context, p)[1]
    uniform = row_uniform(context.settings.seed, GAUSSIANS, context.run.read("rows", p, "rows"))
    drawn = is_drawn(uniform, counts[labels])
    in_common = is_drawn(uniform, np.full(len(labels), context.n))
    return log_distances(context, p)[drawn], labels[drawn], in_common[drawn]


def _votes(context: Context, p: int) -> tuple[Floats, Integers]:
    """Shares of the labelings that vote for each cluster, and the one that most vote for, of one block."""
    labels, of, classes = ballots(context, p, chosen_set(context))
    votes = consensus.vote(labels, of, classes, context.settings.n_clusters)
    return votes / len(of), votes.argmax(axis=1)


def _moments(context: Context, p: int, spacing: Spacing) -> GroupMoments:
    """Moments of the rows that lie amid their clusters."""
    labels = _votes(context, p)[1]
    amid = noise.is_amid(log_distances(context, p), labels, spacing)
    return group_moments(valleys.components(context, p)[amid], labels[amid], context.settings.n_clusters)


def _confusion(context: Context, p: int, spacing: Spacing, found: gaussians.Gaussians) -> Integers:
    """Rows that all labelings agree on, and that lie amid their clusters, by cluster and by Gaussian."""
    votes, labels = _votes(context, p)
    sure = noise.is_amid(log_distances(context, p), labels, spacing) & (votes.max(axis=1) == 1.0)
    sure &= np.isfinite(found.offsets)[labels]
    P, c = valleys.components(context, p)[sure], context.settings.n_clusters
    total, labels = np.zeros((c, c), np.int64), labels[sure]
    for rows in tiles(len(P), TILE_ROWS):
        total += gaussians.confusion(labels[rows], gaussians.log_densities(P[rows], found))
    return total


class Shapes(NamedTuple):
    """What a run keeps of the shapes of its clusters.

    Parameters
    ----------
    mean : ndarray of float32, shape (d,)
    axes : ndarray of float32, shape (d, r)
        Of the principal components.
    may_move : ndarray of bool, shape (c, c)
        Clusters between which Gaussians are believed.
    gaussians : Gaussians
    """

    mean: NDArray[np.float32]
    axes: NDArray[np.float32]
    may_move: NDArray[np.bool_]
    gaussians: gaussians.Gaussians

    def labels(self, X: Floats, votes: NDArray[Any], labels: Integers) -> NDArray[np.int32]:
        """Labels of scaled rows after the shapes had their say.

        Parameters
        ----------
        X : ndarray of float32, shape (b, d)
        votes : ndarray of float64, shape (b, c)
            Shares of the labelings.
        labels : ndarray of int32, shape (b,)

        Returns
        -------
        labels : ndarray of int32, shape (b,)
        """
        found = np.empty(len(X), np.int32)
        for rows in tiles(len(X), TILE_ROWS):
            densities = gaussians.log_densities((X[rows] - self.mean) @ self.axes, self.gaussians)
            found[rows] = gaussians.moved(labels[rows], votes[rows], densities, self.may_move)
        return found


def read(context: Context) -> Shapes | None:
    """The shapes of the clusters of a run; None where they have no say."""
    if not (are_used(context) and context.run.done(GAUSSIANS, 0)):
        return None
    found = context.run.reader(GAUSSIANS, 0)
    parts = gaussians.Gaussians(*(found(name) for name in gaussians.Gaussians._fields))
    return Shapes(found("mean"), found("axes"), found("may_move").astype(bool), parts)
