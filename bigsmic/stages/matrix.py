"""weights and matrix: the kernel of one eigenproblem in row blocks, before and after normalisation, and its degrees."""

from functools import partial

import numpy as np

from bigsmic import kernel
from bigsmic.candidates import problems
from bigsmic.context import Context, Job
from bigsmic.errors import InputError
from bigsmic.stages import repair
from bigsmic.stages.graph import read_graph

CHECKED_EDGES = 1000  # of a block, on which a callable is tried with sigma_i and sigma_j exchanged
FIELDS = ("halo", "indptr", "indices", "data")


def prepare(job: Job, problem):
    """Write weights and degrees of `problem`, unless they are there."""
    context, name = job.context, weights_name(problem)
    if not job.complete(name, context.blocks) or not job.complete(degree_name(problem), context.blocks):
        for p in context.blocks:
            if not job.run.done(degree_name(problem), p):
                job.run.forget(name, p)
        sigma = read_sigma(context, problem.t)
        job.fill(name, context.blocks, lambda c, p: _write_weights(c, problem, p, sigma))


def normalise(job: Job, problem):
    """Write the matrix of a normalised problem, unless it is there."""
    context, name = job.context, matrix_name(problem)
    if problem.kernel == "normalized" and not job.complete(name, context.blocks):
        degree = read_degree(context, problem)

        def task(c, p):
            block = read_block(c, weights_name(problem), p)
            _write_block(c, name, p, kernel.normalise(block, degree[block.lo : block.hi], degree[block.halo]))

        job.fill(name, context.blocks, task)


def drop_weights(job: Job):
    """Delete the weights of every problem: nothing after the choice reads them."""
    for problem in problems(job.context.settings):
        job.run.drop(weights_name(problem), job.context.blocks)


def weights_name(problem):
    """Stage of the kernel before normalisation."""
    return f"weights.{problem.name}"


def matrix_name(problem):
    """Stage of the matrix whose eigenvectors are wanted."""
    return f"matrix.{problem.name}" if problem.kernel == "normalized" else weights_name(problem)


def degree_name(problem):
    """Stage of the row sums of the weights."""
    return f"degree.{problem.name}"


def _write_weights(context: Context, problem, p: int, sigma):
    graph = read_graph(context, p)
    block = kernel.kernel_block(graph, problem.t, weight_of(context), sigma[graph.lo : graph.hi], sigma[graph.halo])
    if problem.kernel == "normalized":
        block = kernel.with_floor(block)
    source, target, squares = repair.bridges(context, problem.t, p)
    added = np.maximum(weight_of(context)(squares, sigma[source], sigma[target]), np.float32(repair.LEAST_WEIGHT))
    block = kernel.with_edges(block, source, target, added)
    context.run.write(degree_name(problem), p, {"degree": kernel.degree(block)})
    _write_block(context, weights_name(problem), p, block)


def weight_of(context: Context):
    """Return the function of (squared distances, sigma_i, sigma_j) that the fit uses."""
    given = context.settings.kernel
    if given == "precomputed":
        return _precomputed
    return partial(_given, given) if callable(given) else kernel.LocalScaling(context.settings.bandwidth)


def _precomputed(squares, sigma_i, sigma_j):
    """Affinities, over the largest, of which the graph holds the logarithms."""
    return np.exp(-squares)


def _given(weight, squares, sigma_i, sigma_j):
    """Weights of a callable, float32, if they can be used.

    Raises
    ------
    InputError
    """
    found = np.asarray(weight(squares, sigma_i, sigma_j))
    if found.shape != squares.shape or found.dtype.kind not in "fiub":
        raise InputError(
            f"kernel: for {len(squares)} edges the callable returned {found.dtype} of shape {found.shape}; "
            "return one weight for each"
        )
    with np.errstate(over="ignore"):
        found = found.astype(np.float32)
    good = np.isfinite(found) & (found >= 0)
    if not good.all():
        raise InputError(f"kernel: the callable returned {found[~good][0]}; weights must be finite and at least 0")
    some = slice(0, CHECKED_EDGES)
    if not np.allclose(found[some], weight(squares[some], sigma_j[some], sigma_i[some]), rtol=1e-4):
        raise InputError("kernel: the callable is not symmetric: it tells sigma_i from sigma_j; make it f(d2, s_i s_j)")
    return found


def read_sigma(context: Context, t: int):
    """Distance of every row to its t-th neighbour, in cell order, float32, shape (n,)."""
    i = context.settings.t.index(t)
    return np.concatenate([context.run.read("graph", p, "sigma", i)[0] for p in context.blocks])


def read_degree(context: Context, problem):
    """Row sums of the weights, in cell order, float64, shape (n,)."""
    return np.concatenate([context.run.read(degree_name(problem), p, "degree") for p in context.blocks])


def _write_block(context: Context, name: str, p: int, block):
    context.run.write(name, p, {field: getattr(block, field) for field in FIELDS})


def read_block(context: Context, name: str, p: int):
    """Return one row block of weights or matrix."""
    read = context.run.reader(name, p)
    lo, hi = (int(b) for b in context.layout.bounds[p : p + 2])
    return kernel.KernelBlock(lo, hi, *(read(field) for field in FIELDS))


def loader(job: Job, name: str):
    """Return a function that gives row block p of a stage: from memory where the plan says so, else from disk."""
    context = job.context
    if job.plan.kernel_in_memory:
        return job.collect(name, context.blocks, lambda c, p: read_block(c, name, p)).__getitem__
    return lambda p: read_block(context, name, p)
