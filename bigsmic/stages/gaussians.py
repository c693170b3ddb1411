"""gaussians: shapes of the clusters, by which rows are relabelled where labelings disagree."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling import gaussians, noise
from bigsmic.numerics.labeling.group_moments import GroupMoments, group_moments
from bigsmic.numerics.labeling.noise import Spacing, spacing
from bigsmic.numerics.products import product
from bigsmic.numerics.row_blocks import tiles
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import connectivity, valleys
from bigsmic.stages.choice import chosen, chosen_set
from bigsmic.stages.consensus import voted
from bigsmic.stages.labelings import TILE_ROWS
from bigsmic.stages.noise import log_distances, sampled
from bigsmic.stages.shown_number import are_dense_parts, are_parts
from bigsmic.types import Floats, Integers

GAUSSIANS = "gaussians"


def are_used(context: Context) -> bool:
    """Whether the shapes of clusters affect labels."""
    return context.settings.knows_shapes and not context.settings.undecided and chosen(context) is None


def run(job: Job) -> None:
    """Estimate the Gaussian of every cluster, and the pairs of clusters between which Gaussians are used.

    There are none where the clusters are dense parts, or untied ones, of the graph, which may be bent.
    """
    run, c = job.run, job.context.settings.n_clusters
    if are_dense_parts(run, c) or (are_parts(run, c) and connectivity.n_untied(job.context) > 1):
        return
    if are_used(job.context):
        if not (run.done(GAUSSIANS, 0) and job.complete("final", job.context.blocks)):
            valleys.find_axes(job)  # rows are labelled by their components, also if the shapes are known
        job.run_steps(GAUSSIANS, [0], _find)


def _find(job: Job, block: int) -> None:
    context = job.context
    w = chosen_set(context)
    counts = job.sum_blocks(GAUSSIANS, context.blocks, partial(_counts, w=w))
    of_clusters, _ = spacing(*sampled(job, GAUSSIANS, counts, partial(_voted, w=w), log_distances), len(counts))
    moments = job.sum_blocks(GAUSSIANS, context.blocks, partial(_moments, w=w, of_clusters=of_clusters))
    (found,) = job.map_here(gaussians.of_moments, [moments])
    confused = job.sum_blocks(GAUSSIANS, context.blocks, partial(_confusion, w=w, of_clusters=of_clusters, found=found))
    mean, axes = (context.run.read(valleys.AXES, 0, name) for name in ("mean", "axes"))
    arrays = {"mean": mean, "axes": axes, "may_move": gaussians.believed(confused).astype(np.uint8)}
    job.run.write(GAUSSIANS, block, arrays | found._asdict() | of_clusters._asdict())


def _counts(context: Context, p: int, w: int) -> Integers:
    return np.bincount(_voted(context, p, w), minlength=context.settings.n_clusters)


def _voted(context: Context, p: int, w: int) -> Integers:
    """Cluster that most labelings vote for, of one block: int64, shape (b,)."""
    return voted(context, p, w).astype(np.int64)


def _moments(context: Context, p: int, w: int, of_clusters: Spacing) -> GroupMoments:
    """Moments of the rows that lie well inside their clusters."""
    labels = _voted(context, p, w)
    amid = noise.is_amid(log_distances(context, p), labels, of_clusters)
    return group_moments(valleys.components(context, p)[amid], labels[amid], context.settings.n_clusters)


def _confusion(context: Context, p: int, w: int, of_clusters: Spacing, found: gaussians.Gaussians) -> Integers:
    """Counts by cluster and by Gaussian of rows that lie well inside their clusters."""
    labels = _voted(context, p, w)
    amid = noise.is_amid(log_distances(context, p), labels, of_clusters) & np.isfinite(found.offsets)[labels]
    P, c = valleys.components(context, p)[amid], context.settings.n_clusters
    total, labels = np.zeros((c, c), np.int64), labels[amid]
    for rows in tiles(len(P), TILE_ROWS):
        total += gaussians.confusion(labels[rows], gaussians.log_densities(P[rows], found))
    return total


class Shapes(NamedTuple):
    """Stored shapes of the clusters of a run.

    Parameters
    ----------
    mean : ndarray of float32, shape (d,)
    axes : ndarray of float32, shape (d, r)
        Axes of the principal components.
    may_move : ndarray of bool, shape (c, c)
        Pairs of clusters between which Gaussians are used.
    gaussians : Gaussians
    spacing : Spacing
        Of the rows for which most labelings vote.
    """

    mean: NDArray[np.float32]
    axes: NDArray[np.float32]
    may_move: NDArray[np.bool_]
    gaussians: gaussians.Gaussians
    spacing: Spacing

    def components(self, X: Floats) -> Floats:
        """Components of scaled rows X (b, d) along the axes, float32, shape (b, r)."""
        return np.concatenate([product(X[rows] - self.mean, self.axes) for rows in tiles(len(X), TILE_ROWS)])

    def relabelled(
        self, P: Floats, votes: NDArray[Any], labels: Integers, posterior: Floats
    ) -> tuple[NDArray[np.int32], Floats]:
        """Labels and posteriors of rows after relabelling by shapes.

        Parameters
        ----------
        P : ndarray of float32, shape (b, r)
            Components of the rows along the axes.
        votes : ndarray of float64, shape (b, c)
            Shares of the labelings.
        labels : ndarray of int32, shape (b,)
        posterior : ndarray of float32, shape (b, c)

        Returns
        -------
        labels : ndarray of int32, shape (b,)
        posterior : ndarray of float32, shape (b, c)
        """
        found = np.empty(len(P), np.int32)
        for rows in tiles(len(P), TILE_ROWS):
            densities = gaussians.log_densities(P[rows], self.gaussians)
            found[rows] = gaussians.moved(labels[rows], votes[rows], densities, self.may_move)
        return found, gaussians.halved(posterior, found, found != labels)


def read(context: Context) -> Shapes | None:
    """The shapes of the clusters of a run, read once; None if they are not used."""
    if not (are_used(context) and context.run.done(GAUSSIANS, 0)):
        return None
    shapes: Shapes = context.cached(GAUSSIANS, lambda: _read(context))
    return shapes


def _read(context: Context) -> Shapes:
    found = context.run.reader(GAUSSIANS, 0)
    parts = gaussians.Gaussians(*(found(name) for name in gaussians.Gaussians._fields))
    of_clusters = Spacing(found("center"), found("spread"))
    return Shapes(found("mean"), found("axes"), found("may_move").astype(bool), parts, of_clusters)
