"""direct: labels and posteriors where a row alone decides, by the model of the fit; no graph, no cell order."""

import numpy as np

from bigsmic import registry
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.store import checksum


def run(job: Job):
    """Write ``labels`` (n,) and ``posterior`` (n, c) of the run."""
    create(job.context)
    job.fill("output", job.context.source_blocks, _write)


def create(context: Context):
    """Make the arrays that users read, one chunk per block of input."""
    create_arrays(context, ("labels", "posterior"), context.settings.n_clusters)


def create_arrays(context: Context, names, n_clusters):
    """Make those of the arrays that users read; where one was made anew, all its rows are written again."""
    shapes = {"labels": (context.n,), "posterior": (context.n, n_clusters), "agreement": (context.n,)}
    rows = int(context.source_bounds[1])
    dtypes = {"labels": np.int32}
    if any([context.run.create(name, shapes[name], rows, dtypes.get(name, np.float32)) for name in names]):
        context.run.drop("output", ())  # its blocks are ledger entries and nothing else


def write(context: Context, s: int, found):
    """Write rows of the arrays that users read, and note in the ledger what they are."""
    for name, array in found.items():
        context.run.write_rows(name, int(context.source_bounds[s]), array)
    context.run.write("output", s, {}, info={name: checksum(array) for name, array in found.items()})


def _write(context: Context, s: int):
    posterior, labels = registry.of(context.settings).model(context)(context.scaled_block(s))
    write(context, s, {"labels": labels, "posterior": posterior})
