"""matrix: the kernel of one eigenproblem in row blocks, with its degrees."""

import numpy as np

from bigsmic import kernel
from bigsmic.context import Context, Job
from bigsmic.errors import InputError
from bigsmic.stages.graph import read_graph


def run(job: Job, problem):
    """Write the matrix of `problem`, unless it is there."""
    context, name = job.context, f"matrix.{problem.name}"
    if job.complete(name, context.blocks):
        return
    sigma = read_sigma(context, problem.t)
    if problem.kernel != "normalized":
        job.fill(name, context.blocks, lambda c, p: _write(c, name, p, weights(c, problem, p, sigma)))
        return
    job.fill(f"degree.t{problem.t}", context.blocks, lambda c, p: _write_degree(c, problem, p, sigma))
    degree = read_degree(context, problem.t)

    def normalised(c, p):
        block = weights(c, problem, p, sigma)
        _write(c, name, p, kernel.normalise(block, degree[block.lo : block.hi], degree[block.halo]))

    job.fill(name, context.blocks, normalised)


def weights(context: Context, problem, p: int, sigma):
    """Kernel before normalisation, with the weight floor where it is to be normalised."""
    graph = read_graph(context, p)
    block = kernel.kernel_block(graph, problem.t, weight_of(context), sigma[graph.lo : graph.hi], sigma[graph.halo])
    _refuse_bad_weights(block.data)
    return kernel.with_floor(block) if problem.kernel == "normalized" else block


def weight_of(context: Context):
    """The function of (squared distances, sigma_i, sigma_j) that the fit uses."""
    given = context.settings.kernel
    return given if callable(given) else kernel.LocalScaling(context.settings.bandwidth)


def _refuse_bad_weights(data):
    if not (np.isfinite(data).all() and (data >= 0).all()):
        bad = data[~(np.isfinite(data) & (data >= 0))][0]
        raise InputError(f"kernel: the callable returned {bad}; weights must be finite and at least 0")


def read_sigma(context: Context, t: int):
    """Distance of every row to its t-th neighbour, in cell order, float32, shape (n,)."""
    i = context.settings.t.index(t)
    return np.concatenate([context.run.read("graph", p, "sigma", i)[0] for p in context.blocks])


def read_degree(context: Context, t: int):
    """Row sums of the kernel with its floor, in cell order, float64, shape (n,)."""
    return np.concatenate([context.run.read(f"degree.t{t}", p, "degree") for p in context.blocks])


def _write_degree(context: Context, problem, p: int, sigma):
    context.run.write(f"degree.t{problem.t}", p, {"degree": kernel.degree(weights(context, problem, p, sigma))})


def _write(context: Context, name: str, p: int, block):
    arrays = {field: getattr(block, field) for field in ("halo", "indptr", "indices", "data")}
    context.run.write(name, p, arrays)


def read_matrix(context: Context, problem, p: int):
    """Return one row block of the matrix of `problem`."""
    read = context.run.reader(f"matrix.{problem.name}", p)
    lo, hi = (int(b) for b in context.layout.bounds[p : p + 2])
    return kernel.KernelBlock(lo, hi, *(read(name) for name in ("halo", "indptr", "indices", "data")))
