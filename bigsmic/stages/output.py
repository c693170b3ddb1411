"""output: labels and posteriors of the chosen candidate, put back into the order of the input."""

import numpy as np

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import calibration, consensus, rotation
from bigsmic.numerics.row_blocks import tiles
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import link_propagation, rowwise_output
from bigsmic.stages.labeling_specs import specs_of
from bigsmic.stages.labelings import TILE_ROWS, Reader, read_basis, read_labels
from bigsmic.stages.selection import ballots, chosen, chosen_set, members

SHARPNESS_ROWS = 10_000  # on which it is found how sure the posterior may be


def run(job: Job):
    """Write ``labels`` (n,), ``posterior`` (n, c) and ``agreement`` (n,) of the run."""
    context = job.context
    job.fill("final", context.blocks, _final)
    if chosen(context) is None:
        job.run_steps("sharpness", [0], _sharpness)
    create(context)
    job.fill("output", context.source_blocks, _write_sharpened)


def _final(context: Context, p: int):
    """Labels, posteriors and agreement of one row block, in parts by block of input."""
    posterior, has_mass = _posterior(context, p)
    labels, agreement = _one(context, p) if chosen(context) is not None else _consensus(context, p, posterior)
    arrays = {"labels": labels, "posterior": posterior, "agreement": agreement}
    parts = dict.fromkeys(arrays, context.layout.before[:, p])
    arrays["sums"] = rotation.assignment_sums(labels, posterior, has_mass)
    context.run.write("final", p, arrays, parts=parts)


def _one(context: Context, p: int):
    """Labels of one labeling, and an agreement of 1: nothing is there to disagree."""
    labels = read_labels(context, p, chosen(context))
    return labels, np.ones(len(labels), np.float32)


def _consensus(context: Context, p: int, posterior):
    """Labels with the most votes, or that rows propagated with, and the share of labelings that cast them."""
    labels, of, classes = ballots(context, p, chosen_set(context))
    votes = consensus.vote(labels, of, classes, context.settings.n_clusters)
    propagated = context.settings.propagates
    labels = link_propagation.read_labels(context, p) if propagated else consensus.consensus_labels(votes, posterior)
    return labels, consensus.agreement(votes, labels, len(of))


def _posterior(context: Context, p: int):
    """Mean over labelings of their posteriors, before any move, and rows where any of them has mass."""
    height, c = context.layout.heights[p], context.settings.n_clusters
    has_mass, total = np.zeros(height, bool), np.zeros((height, c))
    classes = members(context)
    for b, to in classes.items():
        _add_posterior(context, p, (b, to), total, has_mass)
    return (total / len(classes)).astype(np.float32), has_mass


def _add_posterior(context: Context, p: int, member, total, has_mass):
    """Add the posterior of one labeling; its basis goes before the next one is read."""
    b, to = member
    reader, V = Reader(context, b), read_basis(context, specs_of(context)[b], p)
    for rows in tiles(len(V), TILE_ROWS):
        found = reader(V[rows])
        total[rows] += consensus.group_columns(found.posterior, to, total.shape[1])
        has_mass[rows] |= found.has_mass


def _sharpness(job: Job, block: int):
    """Find the power that posteriors are raised to."""
    job.run.write(
        "sharpness", block, {"power": calibration.power_of(job.sum_blocks("sharpness", job.context.blocks, _claims))}
    )


def _claims(context: Context, p: int):
    read = context.run.reader("final", p)
    rows = draw_rows(context.n, min(context.n, SHARPNESS_ROWS), context.settings.seed, "sharpness")
    drawn = np.isin(context.run.read("rows", p, "rows"), rows)
    return calibration.claim_sums(read("posterior")[drawn], read("agreement")[drawn])


def sharpness(context: Context):
    """Power that posteriors are raised to; 1 but for a consensus, which knows what labelings agree on."""
    return float(context.run.read("sharpness", 0, "power")) if chosen(context) is None else 1.0


def create(context: Context):
    """Make the arrays that users read, one chunk per block of input."""
    rowwise_output.create_arrays(context, ("labels", "posterior", "agreement"), context.settings.n_clusters)


def _write_sharpened(context: Context, s: int):
    write_block(context, s, sharpness(context))


def write_block(context: Context, s: int, power=1.0):
    """Gather one block of input from the row blocks that its rows went to; raise its posteriors to a power."""
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
    rowwise_output.write(context, s, found)


def check(context: Context, s: int):
    """Strike one block of input off the ledger if a top-level array is not what was written there."""
    if not context.run.done("output", s):
        return
    lo, hi = (int(b) for b in context.source_bounds[s : s + 2])
    if not all(context.run.check_rows(name, lo, hi, crc32) for name, crc32 in context.run.info("output", s).items()):
        context.run.forget("output", s)


def run_single(job: Job):
    """One cluster: labels 0, posteriors 1, nothing to solve."""
    context = job.context
    create(context)

    job.fill("output", context.source_blocks, _write_single)


def _write_single(context: Context, s: int):
    height = int(context.source_bounds[s + 1] - context.source_bounds[s])
    ones = np.ones(height, np.float32)
    rowwise_output.write(
        context, s, {"labels": np.zeros(height, np.int32), "posterior": ones[:, None], "agreement": ones}
    )
