"""weights and matrix: kernel of one eigenproblem in row blocks, before and after normalisation, and its degrees."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.numerics.graph import added_edges, affinity
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.graph.weights import DEFAULT, NAMED, LocalScaling
from bigsmic.numerics.row_blocks import Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import connectivity, crowding, links, trimming
from bigsmic.stages.density import sigma_at
from bigsmic.stages.graph import read_graph
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems
from bigsmic.types import Floats, Integers, WeightFunction
from bigsmic.weight_functions import called

CHECKED_EDGES = 1000  # of a block, on which a callable is tested for symmetry in sigma_i and sigma_j
FIELDS = ("halo", "indptr", "indices", "data")


def prepare(job: Job, eigenproblem: Eigenproblem) -> None:
    """Write weights and degrees of `eigenproblem`, unless they exist."""
    context, name = job.context, weights_name(eigenproblem)
    if not job.complete(name, context.blocks) or not job.complete(degree_name(eigenproblem), context.blocks):
        for p in context.blocks:
            if not job.run.done(degree_name(eigenproblem), p):
                job.run.forget(name, p)
        job.fill(name, context.blocks, partial(_write_weights, eigenproblem=eigenproblem))


def normalise(job: Job, eigenproblem: Eigenproblem) -> None:
    """Write the matrix of a normalised eigenproblem, unless it exists."""
    if eigenproblem.kernel == "normalized":
        mean, s = mean_degree(job, eigenproblem), shrinkage(job.context, eigenproblem)
        task = partial(_write_normalised, eigenproblem=eigenproblem, mean=mean, shrinkage=s)
        job.fill(matrix_name(eigenproblem), job.context.blocks, task)


def mean_degree(job: Job, eigenproblem: Eigenproblem) -> float:
    """Mean of the row sums of weights; 0 if degrees are not shrunk."""
    if not eigenproblem.shrinkage:
        return 0.0
    return (
        float(job.sum_blocks("mean degree", job.context.blocks, partial(_degree_sum, eigenproblem=eigenproblem)))
        / job.context.n
    )


def shrinkage(context: Context, eigenproblem: Eigenproblem) -> float:
    """Shrinkage of the degrees: that of the eigenproblem, or less where the eigenvalues of its graph crowd below 1.

    Degrees vary at random, too. If these variations outweigh the distances of eigenvalues from 1, the eigenvectors are
    those of the places where degrees happen to be largest, and none tells clusters apart. Shrinkage falls with these
    distances, the square of the factor: with the factor alone, solves along curves do not converge.
    """
    if not eigenproblem.shrinkage:
        return 0.0
    q = eigenproblems(context.settings).index(eigenproblem)
    if not context.run.done("spectrum", q):
        return eigenproblem.shrinkage * crowding.factor(context, eigenproblem) ** 2
    used: float = context.run.info("spectrum", q)["shrinkage"]
    return used


def _degree_sum(context: Context, p: int, eigenproblem: Eigenproblem) -> Any:
    return read_degree(context, eigenproblem, p).sum()


def drop_weights(job: Job) -> None:
    """Delete the weights of every eigenproblem, which no stage after the choice reads."""
    for eigenproblem in eigenproblems(job.context.settings):
        job.run.drop(weights_name(eigenproblem), job.context.blocks)


def weights_name(eigenproblem: Eigenproblem) -> str:
    """Stage of the kernel before normalisation."""
    return f"weights.{eigenproblem.graph.name}"


def matrix_name(eigenproblem: Eigenproblem) -> str:
    """Stage of the matrix whose eigenvectors are wanted."""
    return f"matrix.{eigenproblem.matrix.name}" if eigenproblem.kernel == "normalized" else weights_name(eigenproblem)


def degree_name(eigenproblem: Eigenproblem) -> str:
    """Stage of the row sums of the weights."""
    return f"degree.{eigenproblem.graph.name}"


def _write_weights(context: Context, p: int, eigenproblem: Eigenproblem) -> None:
    block, of_groups = links.linked(context, weights_block(context, eigenproblem, p))
    context.run.write(degree_name(eigenproblem), p, {"degree": affinity.degree(block) + of_groups})
    _write_block(context, weights_name(eigenproblem), p, block)


def weights_block(context: Context, eigenproblem: Eigenproblem, p: int) -> KernelBlock:
    """One row block of the kernel before normalisation, without links, from the graph."""
    graph = read_graph(context, p)
    own, outside = (sigma_at(context, eigenproblem.t, at) for at in (np.arange(graph.lo, graph.hi), graph.halo))
    block = affinity.kernel_block(graph, eigenproblem.t, weight_of(context), own, outside)
    if eigenproblem.kernel == "normalized":
        block = affinity.with_floor(block)
    source, target, squares, least = connectivity.bridges(context, eigenproblem.t, p)
    distinct, where = np.unique(target, return_inverse=True)
    sigmas = own[source - graph.lo], sigma_at(context, eigenproblem.t, distinct)[where]
    added = np.maximum(weight_of(context)(squares, *sigmas), least)
    block = added_edges.with_edges(block, source, target, added)
    if not trimming.are_trimmed(context):
        return block
    own, outside = (trimming.factors(context, at) for at in (np.arange(block.lo, block.hi), block.halo))
    return affinity.scaled(block, own, outside)


def _write_normalised(context: Context, p: int, eigenproblem: Eigenproblem, mean: float, shrinkage: float) -> None:
    block = read_block(context, weights_name(eigenproblem), p)
    if eigenproblem.shrinkage:
        between = connectivity.bridges_between_parts(context, eigenproblem.t, p)
        block = added_edges.with_least(block, *between, connectivity.LEAST_WEIGHT)
    degrees = read_degree(context, eigenproblem, p), degree_at(context, eigenproblem, block.halo)
    own, outside = (affinity.shrunk(degree, mean, shrinkage) for degree in degrees)
    _write_block(context, matrix_name(eigenproblem), p, affinity.normalise(block, own, outside))


def weight_of(context: Context) -> WeightFunction:
    """Return the function of (squared distances, sigma_i, sigma_j) that the fit uses."""
    given = context.settings.kernel
    if given == "precomputed":
        return _precomputed
    if callable(given):
        return partial(_given, given)
    published = given == DEFAULT and getattr(context.settings, "preset", None) == "paper"
    found = LocalScaling(context.settings.bandwidth, np.inf) if published else NAMED[given](context.settings.bandwidth)
    return cast(WeightFunction, found)


def _precomputed(squares: Floats, sigma_i: Floats, sigma_j: Floats) -> Floats:
    """Affinities relative to the largest one, from their logarithms in the graph."""
    return np.exp(-squares)


def _given(weight: WeightFunction, squares: Floats, sigma_i: Floats, sigma_j: Floats) -> NDArray[np.float32]:
    """Validated weights of a callable, float32.

    Raises
    ------
    InputError
    """
    found = np.asarray(called(weight, ("squared_distances", "sigma_i", "sigma_j"), squares, sigma_i, sigma_j))
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
        raise InputError(
            "kernel: the callable is not symmetric in sigma_i and sigma_j; make it a function of d2 and s_i s_j"
        )
    return found


def read_degree(context: Context, eigenproblem: Eigenproblem, p: int) -> Floats:
    """Row sums of the weights of one block, float64, shape (b,)."""
    return context.run.read(degree_name(eigenproblem), p, "degree")


def degree_at(context: Context, eigenproblem: Eigenproblem, positions: Integers) -> Floats:
    """Row sums of the weights, at ascending positions, float64."""
    return context.at(degree_name(eigenproblem), partial(read_degree, context, eigenproblem), positions)


def _write_block(context: Context, name: str, p: int, block: KernelBlock) -> None:
    context.run.write(name, p, {field: getattr(block, field) for field in FIELDS})


def read_block(context: Context, name: str, p: int) -> KernelBlock:
    """Return one row block of weights or matrix."""
    read = context.run.reader(name, p)
    lo, hi = (int(b) for b in context.layout.bounds[p : p + 2])
    return affinity.KernelBlock(lo, hi, *(read(field) for field in FIELDS))


def loader(context: Context, shard: Shard, name: str, in_memory: bool) -> Callable[[int], KernelBlock]:
    """Return a function that reads row block p of a stage, from memory or each time from disk."""
    return kept(shard, partial(read_block, context, name), in_memory)


def kept(shard: Shard, load: Callable[[int], KernelBlock], in_memory: bool) -> Callable[[int], KernelBlock]:
    """Return `load`, or a function that returns what it has loaded, for the row blocks of a shard."""
    if not in_memory:
        return load
    return dict(zip(shard.blocks, shard.engine.map(load, shard.blocks), strict=True)).__getitem__
