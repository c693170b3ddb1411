"""direct: labels and posteriors where a row alone decides, by the model of the fit; no graph, no cell order."""

import numpy as np

from bigsmic import methods
from bigsmic.context import Context, Job
from bigsmic.store import checksum


def run(job: Job):
    """Write ``labels`` (n,) and ``posterior`` (n, c) of the run."""
    create(job.context)
    job.fill("output", job.context.source_blocks, _write)


def create(context: Context):
    """Make the arrays that users read, one chunk per block of input."""
    rows = int(context.source_bounds[1])
    context.run.create("labels", (context.n,), rows, np.int32)
    context.run.create("posterior", (context.n, context.settings.n_clusters), rows, np.float32)


def write(context: Context, s: int, found):
    """Write rows of the arrays that users read, and note in the ledger what they are."""
    for name, array in found.items():
        context.run.write_rows(name, int(context.source_bounds[s]), array)
    context.run.write("output", s, {}, info={name: checksum(array) for name, array in found.items()})


def _write(context: Context, s: int):
    posterior, labels = methods.of(context.settings).model(context)(context.scaled_block(s))
    write(context, s, {"labels": labels, "posterior": posterior})
