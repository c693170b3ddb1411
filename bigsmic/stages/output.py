"""output: labels and posteriors of the chosen labeling or consensus, in input order."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import calibration, consensus, rotation
from bigsmic.numerics.labeling import gaussians as gaussians_numerics
from bigsmic.numerics.labeling.noise import is_noise
from bigsmic.numerics.row_blocks import tiles
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import gaussians, link_propagation, neighbor_votes, noise, rowwise_output, valleys
from bigsmic.stages.choice import chosen, chosen_set, members
from bigsmic.stages.consensus import ballots, tied_classes
from bigsmic.stages.labeling_specs import specs_of
from bigsmic.stages.labelings import TILE_ROWS, Reader, read_basis, read_labels
from bigsmic.stages.neighbor_votes import DRAFT
from bigsmic.types import Floats, Integers

SHARPNESS_ROWS = 10_000  # on which the posterior is calibrated


def run(job: Job) -> None:
    """Write ``labels`` (n,), ``posterior`` (n, c), ``agreement`` (n,) and, if requested, ``noise`` (n,)."""
    context = job.context
    gaussians.run(job)
    _finalise(job)
    if chosen(context) is None:
        job.run_steps("sharpness", [0], _sharpness)
    if context.settings.finds_noise:
        noise.run(job)
    create(context)
    job.fill("output", context.source_blocks, _write_sharpened)


def _finalise(job: Job) -> None:
    """Write the labels that all later stages read, of which neighbours may outvote some."""
    context = job.context
    if not neighbor_votes.are_counted(context):
        job.fill("final", context.blocks, _final)
        return
    if not job.complete("final", context.blocks):
        job.fill(DRAFT, context.blocks, _draft)
        job.fill("final", context.blocks, partial(_final_of_draft, may_leave=neighbor_votes.run(job)))
    neighbor_votes.drop(job)


def _final(context: Context, p: int) -> None:
    """Labels, posteriors and agreement of one row block, in parts by block of input."""
    posterior, has_mass = _posterior(context, p)
    b = chosen(context)
    if b is None:
        labels, agreement, posterior = _consensus(context, p, posterior)
    else:
        labels, agreement = _one(context, p, b)
    _write_final(context, p, {"labels": labels, "posterior": posterior, "agreement": agreement}, has_mass)


def _draft(context: Context, p: int) -> None:
    """Labels and posteriors of one row block by the consensus."""
    posterior, has_mass = _posterior(context, p)
    labels, _, posterior = _consensus(context, p, posterior)
    context.run.write(DRAFT, p, {"labels": labels, "posterior": posterior, "has_mass": has_mass.astype(np.uint8)})


def _final_of_draft(context: Context, p: int, may_leave: NDArray[np.bool_]) -> None:
    """Labels, posteriors and agreement of one row block after the vote of neighbours."""
    read = context.run.reader(DRAFT, p)
    before, labels = neighbor_votes.read(context, p, may_leave)
    posterior = gaussians_numerics.halved(read("posterior"), labels, labels != before)
    votes, n_labelings = _votes(context, p)
    agreement = consensus.agreement(votes, labels, n_labelings)
    arrays = {"labels": labels, "posterior": posterior, "agreement": agreement}
    _write_final(context, p, arrays, read("has_mass").astype(bool))


def _write_final(context: Context, p: int, arrays: dict[str, NDArray[Any]], has_mass: NDArray[np.bool_]) -> None:
    parts = dict.fromkeys(arrays, context.layout.before[:, p])
    sums = rotation.assignment_sums(arrays["labels"], arrays["posterior"], has_mass)
    context.run.write("final", p, arrays | {"sums": sums}, parts=parts)


def _one(context: Context, p: int, b: int) -> tuple[Integers, Floats]:
    """Labels of the chosen labeling, and an agreement of 1."""
    labels = read_labels(context, p, b)
    return labels, np.ones(len(labels), np.float32)


def _consensus(context: Context, p: int, posterior: Floats) -> tuple[Integers, Floats, Floats]:
    """Labels of most votes, or propagated ones; the share of labelings that agree with them; posteriors.

    Both take the Gaussians of the clusters into account, where these are used.
    """
    votes, n_labelings = _votes(context, p)
    if context.settings.propagates:
        labels = link_propagation.read_labels(context, p)
    else:
        labels = consensus.consensus_labels(votes, posterior, tied_classes(context, chosen_set(context)))
    shapes = gaussians.read(context)
    if shapes is not None:
        labels, posterior = shapes.relabelled(valleys.components(context, p), votes / n_labelings, labels, posterior)
    return labels, consensus.agreement(votes, labels, n_labelings), posterior


def _votes(context: Context, p: int) -> tuple[Integers, int]:
    """Labelings of the consensus that vote for each cluster, int32 (b, c), and the number of these labelings."""
    labels, sizes, classes = ballots(context, p, chosen_set(context))
    return consensus.vote(labels, sizes, classes, context.settings.n_clusters), len(sizes)


def _posterior(context: Context, p: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Mean of the labelings' posteriors before local moving, and the mask of rows where any of them has mass."""
    height, c = context.layout.heights[p], context.settings.n_clusters
    has_mass, total = np.zeros(height, bool), np.zeros((height, c))
    classes = members(context)
    for b, to in classes.items():
        _add_posterior(context, p, (b, to), total, has_mass)
    return (total / len(classes)).astype(np.float32), has_mass


def _add_posterior(
    context: Context, p: int, member: tuple[int, Integers], total: NDArray[Any], has_mass: NDArray[np.bool_]
) -> None:
    """Add the posterior of one labeling; its basis is freed before the next one is read."""
    b, to = member
    reader, V = Reader(context, specs_of(context)[b]), read_basis(context, specs_of(context)[b], p)
    for rows in tiles(len(V), TILE_ROWS):
        found = reader(V[rows])
        total[rows] += consensus.group_columns(found.posterior, to, total.shape[1])
        has_mass[rows] |= found.has_mass


def _sharpness(job: Job, block: int) -> None:
    """Find the power by which posteriors are calibrated."""
    job.run.write(
        "sharpness", block, {"power": calibration.power_of(job.sum_blocks("sharpness", job.context.blocks, _claims))}
    )


def _claims(context: Context, p: int) -> NDArray[Any]:
    read = context.run.reader("final", p)
    rows = draw_rows(context.n, min(context.n, SHARPNESS_ROWS), context.settings.seed, "sharpness")
    drawn = np.isin(context.run.read("rows", p, "rows"), rows)
    return calibration.claim_sums(read("posterior")[drawn], read("agreement")[drawn])


def sharpness(context: Context) -> float:
    """Power by which posteriors are calibrated; 1 except for a consensus, which has an agreement of labelings."""
    return float(context.run.read("sharpness", 0, "power")) if chosen(context) is None else 1.0


def create(context: Context) -> None:
    """Create the arrays that users read, one chunk per block of input."""
    names = ("labels", "posterior", "agreement", *(["noise"] if context.settings.finds_noise else []))
    rowwise_output.create_arrays(context, names, context.settings.n_clusters)


def _write_sharpened(context: Context, s: int) -> None:
    write_block(context, s, sharpness(context))


def write_block(context: Context, s: int, power: float = 1.0) -> None:
    """Write the output of one block of input, gathered from the row blocks of its rows; raise posteriors to a power.

    Rows in no cluster, if they are detected, have label -1.
    """
    lo, hi = (int(b) for b in context.source_bounds[s : s + 2])
    home = context.layout.block_of_group[context.run.read("route", s, "home")]
    found = {
        "labels": np.empty(hi - lo, np.int32),
        "posterior": np.empty((hi - lo, context.settings.n_clusters), np.float32),
        "agreement": np.empty(hi - lo, np.float32),
    }
    for p in np.unique(home):
        read, at = context.run.reader("final", p), home == p
        for name, array in found.items():
            array[at] = read(name, s)
    found["posterior"] = calibration.sharpened(found["posterior"], power)
    if context.settings.finds_noise:
        found["noise"] = _noise(context, s, home)
        found["labels"][is_noise(found["noise"])] = -1
    rowwise_output.write(context, s, found)


def _noise(context: Context, s: int, home: Integers) -> NDArray[np.float32]:
    """Noise scores of one block of input, whose rows are in the row blocks `home`."""
    scores = np.empty(len(home), np.float32)
    for p in np.unique(home):
        scores[home == p] = context.run.read(noise.SCORES, p, "score", s)
    return scores
