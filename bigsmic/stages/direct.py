"""direct: labels and posteriors where a row alone decides, by the model of the fit; no graph, no cell order."""

import numpy as np

from bigsmic import methods
from bigsmic.context import Context, Job
from bigsmic.store import checksum


def run(job: Job):
    """Write ``labels`` (n,) and ``posterior`` (n, c) of the run."""
    context = job.context
    rows = int(context.source_bounds[1])
    job.run.create("labels", (context.n,), rows, np.int32)
    job.run.create("posterior", (context.n, context.settings.n_clusters), rows, np.float32)
    job.fill("output", context.source_blocks, _write)


def _write(context: Context, s: int):
    lo = int(context.source_bounds[s])
    posterior, labels = methods.of(context.settings).model(context)(scaled(context, s))
    found = {"labels": labels, "posterior": posterior}
    for name, array in found.items():
        context.run.write_rows(name, lo, array)
    context.run.write("output", s, {}, info={name: checksum(array) for name, array in found.items()})


def scaled(context: Context, s: int):
    """Scaled rows of one block of input, float32, shape (b, d)."""
    return context.scaler.apply(context.source.read(*(int(b) for b in context.source_bounds[s : s + 2])))
