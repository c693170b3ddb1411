"""memberships: MWCA by ascent or by the leading eigenvector, on a dense kernel in tiles or on the graph.

Two layouts. Dense: row blocks are ranges of the input, and a product compares every row with every other. Sparse: row
blocks are those of the neighbour graph, in cell order.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bigsmic.errors import CorruptBlockError
from bigsmic.numerics import class_sums
from bigsmic.numerics.eigen.basis import MemoryBasis
from bigsmic.numerics.eigen.block_vectors import GroupSpace, Product, RowSpace, WithDiagonal
from bigsmic.numerics.eigen.lanczos import solve
from bigsmic.numerics.eigen.lanczos_state import LanczosParams
from bigsmic.numerics.objectives.mwca import ascent
from bigsmic.numerics.objectives.mwca.ascent import AscentSettings, AssociationRows, State, logits_of, random_logits
from bigsmic.numerics.objectives.mwca.association import memberships, read_vector
from bigsmic.numerics.objectives.mwca.parzen import DenseProduct
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import graph_pipeline, kernel_matrix, output, rowwise_output
from bigsmic.stages.checkpoints import Checkpoints
from bigsmic.stages.labeling_specs import Eigenproblem
from bigsmic.store import Run
from bigsmic.types import Floats, Integers

MEMBERSHIPS, OPTIMUM, TILES = "memberships", "optimum", "tiles"
EIGEN = LanczosParams(1, tol=1e-5, block_width=4, degree=1)
"""Degree 1, as a product with a dense kernel costs its exponentials, so that filters of several products do not pay."""


def tile_bounds(context: Context) -> Integers:
    """Bounds of the row blocks of the dense layout."""
    return context.block_sizes.tile_bounds(context.n, context.d)


@dataclass(frozen=True)
class Dense:
    """Layout of the dense kernel, between all pairs of rows.

    Parameters
    ----------
    sigma : float
    """

    sigma: float

    def bounds(self, context: Context) -> Integers:
        """Bounds of the row blocks."""
        return tile_bounds(context)

    def prepare(self, job: Job) -> None:
        """Write the scaled rows, which every task reads."""
        job.fill(TILES, range(len(self.bounds(job.context)) - 1), _write_tile)

    def begin(self, job: Job) -> None:
        """Nothing to write: tiles are computed when they are multiplied."""

    def product(self, context: Context, shard: Shard) -> Product:
        """Operator that multiplies columns by the kernel."""
        return DenseProduct(shard, partial(read_tile, context), self.sigma)

    def rows(self, context: Context, p: int) -> tuple[Floats, Integers]:
        """Scaled rows of a block, and their numbers."""
        lo, hi = self.bounds(context)[p : p + 2]
        return read_tile(context, p), np.arange(lo, hi)

    def finish(self, job: Job) -> None:
        """Write ``labels`` and ``posterior`` in the order of the input, which is that of the memberships."""
        context = job.context
        rowwise_output.create(context)
        job.fill("output", context.source_blocks, partial(_write_range, bounds=self.bounds(context)))


@dataclass(frozen=True)
class Sparse:
    """Layout of the sparse kernel, between neighbours in either direction, with ones on the diagonal.

    Parameters
    ----------
    settings : Settings
        Settings of the stages shared with SMIC: one t, and the kernel.
    in_memory : bool
        Whether the kernel is kept in memory.
    """

    settings: Any
    in_memory: bool = True

    @property
    def eigenproblem(self) -> Eigenproblem:
        """The kernel."""
        return Eigenproblem("local_scaling", self.settings.t[0])

    def context(self, context: Context) -> Context:
        """The same run under the settings of the graph."""
        return context.under(self.settings)

    def bounds(self, context: Context) -> Integers:
        """Bounds of the row blocks."""
        return self.context(context).layout.bounds

    def prepare(self, job: Job) -> None:
        """Find neighbours."""
        graph_pipeline.build_graph(job.under(self.settings))

    def begin(self, job: Job) -> None:
        """Write the kernel."""
        job = job.under(self.settings)
        with job.timed("graph"):
            kernel_matrix.prepare(job, self.eigenproblem)

    def product(self, context: Context, shard: Shard) -> Product:
        """Operator that multiplies columns by the kernel."""
        of_graph = self.context(context)
        load = kernel_matrix.loader(of_graph, shard, kernel_matrix.weights_name(self.eigenproblem), self.in_memory)
        return WithDiagonal(shard, load)

    def rows(self, context: Context, p: int) -> tuple[Floats, Integers]:
        """Scaled rows of a block, and their numbers."""
        read = context.run.reader("rows", p)
        return read("X"), read("rows")

    def finish(self, job: Job) -> None:
        """Write ``labels`` and ``posterior`` in the order of the input; drop the kernel."""
        of_graph = self.context(job.context)
        job.fill("final", of_graph.blocks, partial(_final, layout=self))
        output.create(of_graph)
        job.fill("output", job.context.source_blocks, partial(_gather, layout=self))
        kernel_matrix.drop_weights(job.under(self.settings))


def _write_tile(context: Context, p: int) -> None:
    lo, hi = (int(b) for b in tile_bounds(context)[p : p + 2])
    context.run.write(TILES, p, {"X": context.scaler.apply(context.input_rows(lo, hi))})


def read_tile(context: Context, p: int) -> Floats:
    """Scaled rows of one block of the dense layout, float32."""
    return context.block_cache.get((TILES, p), partial(context.run.read, TILES, p, "X"))


# -- the ascent


@dataclass(frozen=True)
class Ascent:
    """Settings of an ascent of MWCA.

    Parameters
    ----------
    layout : Dense or Sparse
    shape : tuple of int
        Starts and clusters.
    seed : int
    settings : AscentSettings
    centers : ndarray of float64, shape (c, d)
        Centres of k-means, for the first start.
    """

    layout: Any
    shape: tuple[int, int]
    seed: int
    settings: AscentSettings
    centers: np.ndarray


def ascend(job: Job, wanted: Ascent) -> None:
    """Ascend from every start, unless that is done; write memberships of the best one, and diagnostics of all."""
    bounds = wanted.layout.bounds(job.context)
    if job.run.done(OPTIMUM, 0) and job.complete(MEMBERSHIPS, range(len(bounds) - 1)):
        return
    wanted.layout.begin(job)
    make = partial(StoredRows, wanted=wanted)
    kept = Checkpoints(job, MEMBERSHIPS, len(bounds) - 1)
    job.run_actors(MEMBERSHIPS, make, lambda group: _ascend(job, wanted, kept, group), bounds)


def _ascend(job: Job, wanted: Ascent, kept: Checkpoints, group: Group) -> None:
    def on_step(iteration: int, state: State) -> None:
        job.report(MEMBERSHIPS, iteration, wanted.settings.max_iter)
        if kept.due:
            kept.write(lambda name: group.call(("save", name)), state._asdict())

    state = kept.restore(partial(_restore, job.run, group, kept.last))
    if state is None:
        group.call(("begin",))
    state = ascent.ascend(group, (job.context.n, *wanted.shape), wanted.settings, state, on_step)
    group.call(("write_rows", state.best))
    info = {"best": state.best, "n_iter": state.n_iter.tolist(), "converged": state.converged.tolist()}
    values = state.values / job.context.n
    job.run.write(OPTIMUM, 0, {"values": values, "totals": state.totals[state.best]}, info=info)


def _restore(run: Run, group: Group, last: Any, name: str) -> State | None:
    """Restore the rows of a checkpoint and return its state; None if it is damaged."""
    try:
        read = run.reader(name, last)
        state = State(*(read(field) for field in State._fields))
    except CorruptBlockError:
        return None
    return state if all(group.call(("restore", name))) else None


class StoredRows(AssociationRows):
    """Rows of an ascent whose kernel, start and result are in the run directory.

    Parameters
    ----------
    context : Context
    shard : Shard
    wanted : Ascent
    """

    def __init__(self, context: Context, shard: Shard, wanted: Ascent) -> None:
        self.context, self.wanted = context, wanted
        logits = np.empty((shard.n_rows, *wanted.shape), np.float32)
        super().__init__(shard, wanted.layout.product(context, shard), logits, wanted.settings.direction)

    def begin(self) -> None:
        """Set the logits of the starts."""

        def task(p: int) -> None:
            rows = self.shard.rows(p)
            self.logits[rows], self.images[rows] = _start(self.context, p, self.wanted), 0

        self.shard.for_each_block(task)

    def save(self, name: str) -> None:
        """Write logits and products to a generation of checkpoints."""

        def task(p: int) -> None:
            rows = self.shard.rows(p)
            self.context.run.write(name, p, {"logits": self.logits[rows], "images": self.images[rows]})

        self.shard.for_each_block(task)

    def restore(self, name: str) -> bool:
        """Read logits and products from a generation; False if it is damaged."""

        def task(p: int) -> None:
            read, rows = self.context.run.reader(name, p), self.shard.rows(p)
            self.logits[rows], self.images[rows] = read("logits"), read("images")

        try:
            self.shard.for_each_block(task)
        except CorruptBlockError:
            return False
        return True

    def write_rows(self, best: int) -> None:
        """Write the memberships of one start."""

        def task(p: int) -> None:
            Z = memberships(self.logits[self.shard.rows(p), best])
            labels = Z.argmax(axis=1).astype(np.int32)
            self.context.run.write(MEMBERSHIPS, p, {"columns": Z, "posterior": Z, "labels": labels})

        self.shard.for_each_block(task)


def _start(context: Context, p: int, wanted: Ascent) -> Floats:
    """Logits of every start: k-means first, then hashed ones, shape (b, n_starts, c)."""
    (X, numbers), (n_starts, c) = wanted.layout.rows(context, p), wanted.shape
    labels = class_sums.nearest_mean(X, np.column_stack([wanted.centers, np.ones(len(wanted.centers))]))
    first = logits_of(labels, c)
    others = [random_logits(wanted.seed, s, numbers, c) for s in range(1, n_starts)]
    return np.stack([first, *others], axis=1)


# -- the eigenvector


def spectral(job: Job, layout: Any, seed: int) -> None:
    """Compute the leading eigenvector, its mean and its eigenvalue, unless they exist."""
    bounds = layout.bounds(job.context)
    if job.run.done(OPTIMUM, 0) and job.complete(MEMBERSHIPS, range(len(bounds) - 1)):
        return
    layout.begin(job)
    make = partial(StoredVector, layout=layout, seed=seed)
    job.run_actors(MEMBERSHIPS, make, lambda group: _solve(job, group), bounds)


def _solve(job: Job, group: Group) -> Any:
    result = solve(GroupSpace(group, job.context.n), EIGEN)
    total = float(group.call_sum(("column_sums",))[0, 0])
    sign, mean = np.sign(total) or 1.0, abs(total) / job.context.n
    group.call(("write_rows", sign, mean))
    info = {"converged": [bool(result.converged)], "n_iter": [int(result.n_matvecs)], "best": 0}
    arrays = {"values": result.ritz_values[:1] / job.context.n, "totals": np.array([mean, result.ritz_values[0]])}
    job.run.write(OPTIMUM, 0, arrays, info=info)


class StoredVector(RowSpace):
    """Rows of the eigenproblem.

    Parameters
    ----------
    context : Context
    shard : Shard
    layout : Dense or Sparse
    seed : int
    """

    def __init__(self, context: Context, shard: Shard, layout: Any, seed: int) -> None:
        self.context = context
        basis = MemoryBasis(shard.own_bounds, EIGEN.size(context.n))
        super().__init__(shard, layout.product(context, shard), basis, seed)

    def write_rows(self, sign: float, mean: float) -> None:
        """Write entries of the vector, and the labels and posteriors that follow from them."""

        def task(p: int) -> None:
            v = np.ascontiguousarray(self.basis.read(p - self.shard.blocks.start, 0, 1)) * np.float32(sign)
            posterior, labels = read_vector(v[:, 0], mean)
            self.context.run.write(MEMBERSHIPS, p, {"columns": v, "posterior": posterior, "labels": labels})

        self.shard.for_each_block(task)


# -- labels and posteriors in the order of the input


def _write_range(context: Context, s: int, bounds: Integers) -> None:
    lo, hi = (int(b) for b in context.source_bounds[s : s + 2])
    blocks = range(int(np.searchsorted(bounds, lo, side="right")) - 1, int(np.searchsorted(bounds, hi)))
    found = {}
    for name in ("labels", "posterior"):
        rows = np.concatenate([context.run.read(MEMBERSHIPS, p, name) for p in blocks])
        found[name] = rows[lo - int(bounds[blocks[0]]) :][: hi - lo]
    rowwise_output.write(context, s, found)


def _final(context: Context, p: int, layout: Any) -> None:
    """Labels and posteriors of one row block of the graph, in parts by block of input."""
    read = context.run.reader(MEMBERSHIPS, p)
    arrays = {name: read(name) for name in ("labels", "posterior")}
    arrays["agreement"] = np.ones(len(arrays["labels"]), np.float32)
    before = layout.context(context).layout.before[:, p]
    context.run.write("final", p, arrays, parts=dict.fromkeys(arrays, before))


def _gather(context: Context, s: int, layout: Any) -> None:
    output.write_block(layout.context(context), s)
