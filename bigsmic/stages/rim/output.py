"""Output of RIM: labels, posteriors, and sums over the rows of each cluster."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling.column_sums import column_sums
from bigsmic.numerics.objectives.rim.linear import summed_information
from bigsmic.numerics.objectives.rim.logits import Information, log_softmax
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import rowwise_output
from bigsmic.stages.rim.classifier import read_model
from bigsmic.stages.rim.rows import scaled, weighting
from bigsmic.types import Floats, Integers

UNCERTAIN_ROWS = 100  # least certain rows of a block that are stored


def write_output(job: Job) -> None:
    """Write labels, posteriors, and sums over the rows of each cluster."""
    context, run = job.context, job.run
    model = read_model(context, "model", 0)
    rowwise_output.create_arrays(context, ("labels", "posterior"), model.n_categories)
    for s in context.source_blocks:
        if not run.done("clusters", s):
            run.forget("output", s)
    job.fill("output", context.source_blocks, _write)


def _write(context: Context, s: int) -> None:
    X, model, lo = scaled(context, s), read_model(context, "model", 0), int(context.source_bounds[s])
    logs, _ = log_softmax(model.row_logits(X))  # as predictions are made, which have the same bits
    labels, posterior = logs.argmax(axis=1).astype(np.int32), np.exp(logs)
    sums = summed_information(logs, posterior, weighting(context, s))
    rows = np.argsort(np.einsum("ij,ij->i", posterior, logs), kind="stable")[:UNCERTAIN_ROWS]
    arrays = {"rows": lo + rows, "log_posterior": logs[rows], "shapes": _shapes(X, labels, model.n_categories)}
    context.run.write("clusters", s, arrays | {"information": np.concatenate([field.ravel() for field in sums])})
    rowwise_output.write(context, s, {"labels": labels, "posterior": posterior})


def _shapes(X: Floats, labels: Integers, k: int) -> NDArray[np.float64]:
    """Sums of the scaled rows of every cluster, and of their squares, float64, shape (2, k, d)."""
    # in float64 throughout: the spread of a narrow cluster is the small difference of two of its sums
    sums = column_sums(X, labels, k, np.zeros(X.shape[1]))
    return np.stack([sums.total, sums.squares])


def found_information(context: Context) -> Information:
    """Sums over all rows for the classifier of a finished fit."""
    total: Any = sum(context.run.read("clusters", s, "information") for s in context.source_blocks)
    k = (len(total) - 3) // 2
    weight, mass, negentropy, counts, likelihood = np.split(total, [1, 1 + k, 2 + k, 2 + 2 * k])
    return Information(weight[0], mass, negentropy[0], counts.astype(np.int64), likelihood[0])


def unevenness(context: Context) -> float:
    """Share of the rows that are in a cluster beyond its share of all rows, in their block of input.

    0 if all blocks have the same shares of the clusters, and nearly 1 if each has rows of one of many.
    """
    sums = np.array([context.run.read("clusters", s, "information") for s in context.source_blocks])
    k = (sums.shape[1] - 3) // 2
    counts = sums[:, 2 + k : 2 + 2 * k]
    even = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / context.n
    return float(np.maximum(counts - even, 0).sum() / context.n)


def found_shapes(context: Context) -> Any:
    """Sums of the scaled rows of every cluster, and of their squares, shape (2, k, d)."""
    return sum(context.run.read("clusters", s, "shapes") for s in context.source_blocks)
