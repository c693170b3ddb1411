"""output: labels and posteriors of the chosen candidate, put back into the order of the input."""

import numpy as np

from bigsmic import smic
from bigsmic.candidates import candidates
from bigsmic.context import Context, Job
from bigsmic.stages.assign import read_assignment, read_basis, read_labels
from bigsmic.stages.select import chosen
from bigsmic.store import checksum


def run(job: Job):
    """Write ``labels`` (n,) and ``posterior`` (n, c) of the run."""
    context = job.context
    job.fill("final", context.blocks, _final)
    create(context)
    job.fill("output", context.source_blocks, write_block)


def _final(context: Context, p: int):
    """Labels and posteriors of one row block, in parts by block of input."""
    i = chosen(context)
    candidate = candidates(context.settings)[i]
    found = read_assignment(context, candidate, read_basis(context, candidate.problem, p))
    labels = read_labels(context, p, i)
    sums = smic.assignment_sums(labels, found.posterior, found.has_mass)
    parts = dict.fromkeys(("labels", "posterior"), context.layout.before[:, p])
    context.run.write("final", p, {"labels": labels, "posterior": found.posterior, "sums": sums}, parts=parts)


def create(context: Context):
    """Make the arrays that users read, one chunk per block of input."""
    rows = int(context.source_bounds[1])
    context.run.create("labels", (context.n,), rows, np.int32)
    context.run.create("posterior", (context.n, context.settings.n_clusters), rows, np.float32)


def write_block(context: Context, s: int):
    """Gather one block of input from the row blocks that its rows went to."""
    lo, hi = (int(b) for b in context.source_bounds[s : s + 2])
    home = context.layout.block_of_group[context.run.read("route", s, "home")]
    labels = np.empty(hi - lo, np.int32)
    posterior = np.empty((hi - lo, context.settings.n_clusters), np.float32)
    for p in np.unique(home):
        read, at = context.run.reader("final", p), home == p
        labels[at], posterior[at] = read("labels", s), read("posterior", s)
    context.run.write_rows("labels", lo, labels)
    context.run.write_rows("posterior", lo, posterior)
    info = {"labels": checksum(labels), "posterior": checksum(posterior)}
    context.run.write("output", s, {}, info=info)


def run_single(job: Job):
    """One cluster: labels 0, posteriors 1, nothing to solve."""
    context = job.context
    create(context)

    def write(c, s):
        lo, hi = c.source_bounds[s : s + 2]
        c.run.write_rows("labels", lo, np.zeros(hi - lo, np.int32))
        c.run.write_rows("posterior", lo, np.ones((hi - lo, 1), np.float32))
        c.run.write("output", s, {})

    job.fill("output", context.source_blocks, write)
