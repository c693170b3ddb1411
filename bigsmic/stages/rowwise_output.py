"""output of methods whose model labels each row independently; and, for all methods, the arrays that users read."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic import registry
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import numbering
from bigsmic.store import CheckedArray, checksum


def run(job: Job) -> None:
    """Write ``labels`` (n,) and ``posterior`` (n, c) of the run."""
    create(job.context)
    job.fill("output", job.context.source_blocks, _write)


def create(context: Context) -> None:
    """Create the arrays that users read, one chunk per block of input."""
    create_arrays(context, ("labels", "posterior"), context.settings.n_clusters)


def create_arrays(context: Context, names: Iterable[str], n_clusters: int) -> None:
    """Create arrays that users read; if one is new, all rows of all of them are written again."""
    made = [_create(context, name, n_clusters) for name in names]
    if any(made):
        context.run.drop("output", ())  # its blocks are only ledger entries


def _create(context: Context, name: str, n_clusters: int) -> bool:
    shape, dtype = _shape_and_dtype(context, name, n_clusters)
    return context.run.create(name, shape, int(context.source_bounds[1]), dtype)


def read_array(context: Context, name: str) -> CheckedArray:
    """Return ``labels``, ``posterior`` or ``agreement`` of a finished fit: a lazy array, checked on reading."""
    n_clusters = (context.run.attribute("summary") or {}).get("n_clusters", context.settings.n_clusters)
    return context.run.array("output", name, *_shape_and_dtype(context, name, n_clusters))


def _shape_and_dtype(
    context: Context, name: str, n_clusters: int
) -> tuple[tuple[int, ...], type[np.int32] | type[np.float32]]:
    shape = (context.n, numbering.width(context, n_clusters)) if name == "posterior" else (context.n,)
    return shape, np.int32 if name == "labels" else np.float32


def write(context: Context, s: int, found: dict[str, NDArray[Any]]) -> None:
    """Write rows of the arrays that users read, and their checksums to the ledger.

    Clusters have the stages' numbers in `found`, and are renumbered when they are written.
    """
    numbers = numbering.of(context)
    found = found if numbers is None else numbers.rows(found)
    for name, array in found.items():
        context.run.write_rows(name, int(context.source_bounds[s]), array)
    context.run.write("output", s, {}, info={name: checksum(array) for name, array in found.items()})


def check(context: Context, s: int) -> None:
    """Strike one block of input off the ledger if a top-level array differs from what was written."""
    if not context.run.done("output", s):
        return
    lo, hi = (int(b) for b in context.source_bounds[s : s + 2])
    if not all(context.run.check_rows(name, lo, hi, crc32) for name, crc32 in context.run.info("output", s).items()):
        context.run.forget("output", s)


def _write(context: Context, s: int) -> None:
    posterior, labels = registry.of(context.settings).model(context)(context.scaled_block(s))
    write(context, s, {"labels": labels, "posterior": posterior})
