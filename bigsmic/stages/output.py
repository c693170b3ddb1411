"""output: labels and posteriors of the chosen candidate, put back into the order of the input."""

import numpy as np

from bigsmic import merge, smic
from bigsmic.context import Context, Job
from bigsmic.stages.assign import Reader, read_basis, read_labels
from bigsmic.stages.select import all_labels, chosen, sizes
from bigsmic.store import checksum


def run(job: Job):
    """Write ``labels`` (n,), ``posterior`` (n, c) and ``agreement`` (n,) of the run."""
    context = job.context
    job.fill("final", context.blocks, _final)
    create(context)
    job.fill("output", context.source_blocks, write_block)


def _final(context: Context, p: int):
    """Labels, posteriors and agreement of one row block, in parts by block of input."""
    posterior, labels, agreement, has_mass = _consensus(context, p) if chosen(context) is None else _one(context, p)
    arrays = {"labels": labels, "posterior": posterior, "agreement": agreement}
    parts = dict.fromkeys(arrays, context.layout.before[:, p])
    arrays["sums"] = smic.assignment_sums(labels, posterior, has_mass)
    context.run.write("final", p, arrays, parts=parts)


def _one(context: Context, p: int):
    """One labeling: its posterior before the moves, its labels after them, the share of labelings that agree."""
    b = chosen(context)
    found = Reader(context, b)(read_basis(context, context.readings[b], p))
    labels = read_labels(context, p, b)
    posterior = padded(found.posterior, context.settings.n_clusters)
    return posterior, labels, np.ones(len(labels), np.float32), found.has_mass


def _consensus(context: Context, p: int):
    """All labelings: mean of their grouped posteriors, the label with the most votes."""
    of, c = sizes(context), context.settings.n_clusters
    classes = context.run.read("consensus", 0, "classes")
    votes = merge.vote(all_labels(context, p), of, classes, c)
    posterior, has_mass = mean_posterior(context, p, of, classes, c)
    labels = merge.consensus_labels(votes, posterior)
    return posterior, labels, merge.agreement(votes, labels, len(of)), has_mass


def mean_posterior(context: Context, p: int, of, classes, c):
    """Mean over labelings of the posteriors grouped by the consensus, and rows where any labeling has mass."""
    height = context.layout.heights[p]
    has_mass, total = np.zeros(height, bool), np.zeros((height, c))
    for b, to in enumerate(np.split(classes, merge.label_offsets(of)[1:-1])):
        found = Reader(context, b)(read_basis(context, context.readings[b], p))
        total = total + merge.group_columns(found.posterior, to, c).astype(np.float64)
        has_mass = has_mass | found.has_mass
    return (total / len(of)).astype(np.float32), has_mass


def padded(posterior, c):
    """Posterior with c columns, where a labeling has fewer groups."""
    return np.pad(posterior, ((0, 0), (0, c - posterior.shape[1])))


def create(context: Context):
    """Make the arrays that users read, one chunk per block of input."""
    rows = int(context.source_bounds[1])
    context.run.create("labels", (context.n,), rows, np.int32)
    context.run.create("posterior", (context.n, context.settings.n_clusters), rows, np.float32)
    context.run.create("agreement", (context.n,), rows, np.float32)


def write_block(context: Context, s: int):
    """Gather one block of input from the row blocks that its rows went to."""
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
    _write(context, s, found)


def _write(context: Context, s: int, found):
    lo = int(context.source_bounds[s])
    for name, array in found.items():
        context.run.write_rows(name, lo, array)
    context.run.write("output", s, {}, info={name: checksum(array) for name, array in found.items()})


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

    def write(c, s):
        height = int(c.source_bounds[s + 1] - c.source_bounds[s])
        ones = np.ones(height, np.float32)
        _write(c, s, {"labels": np.zeros(height, np.int32), "posterior": ones[:, None], "agreement": ones})

    job.fill("output", context.source_blocks, write)
