"""MWCA: scan -> bandwidth -> [route -> neighbors -> graph ->] memberships -> output; see `numerics.objectives.mwca`.

A product with the dense kernel takes time proportional to the squared number of rows, and memory proportional to it; on
the neighbour graph both are proportional to the number of rows.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from bigsmic.errors import AbsentResultError, ConvergenceWarning, InputError
from bigsmic.methods.sections.mwca import pages, sights
from bigsmic.methods.smic import planning as smic_planning
from bigsmic.numerics import moments
from bigsmic.numerics.graph.equal_rows import find_equal
from bigsmic.numerics.objectives.mwca import parzen
from bigsmic.numerics.objectives.mwca.ascent import COLUMNS, FACTORS, AscentSettings
from bigsmic.numerics.objectives.mwca.association import extend_vector, read_association, read_vector
from bigsmic.numerics.objectives.mwca.parzen import Gaussian, add_gaussian_product
from bigsmic.result import Result as BaseResult
from bigsmic.runtime import planning
from bigsmic.runtime.context import BLOCK_CACHE_BYTES, Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.planning import Size, StagePlan
from bigsmic.settings.mwca import Settings
from bigsmic.stages import graph_pipeline
from bigsmic.stages import mwca as stages
from bigsmic.stages.graph_pipeline import temporary
from bigsmic.stages.mwca import Ascent, Dense, Sparse
from bigsmic.stages.out_of_sample import Neighborhood, Reads
from bigsmic.types import Floats, Integers
from bigsmic.validation import CLUSTERS
from bigsmic.warning import warn

__all__ = ["Result", "Settings", "model", "pages", "plan", "run", "sights", "summary", "temporary"]

START_ROWS = 20_000  # of the sample for k-means and the bandwidth
ROUNDS = 30  # products; more are seldom needed
PANEL = 2048  # new rows that are compared with the fitted ones at a time
LEAST_NEIGHBORS = 0.01
"""Least sum of a row's kernel values with the others of its cluster, on average. Below it, starts differ by rounding,
and the best had an adjusted Rand index of 0 on far clusters of 60 columns, or the labels of k-means, by chance."""
_MORE_THAN_A_ROW = 1.5  # mass of a cluster
LIBRARY_BYTES = 64 << 20
"""Memory of scikit-learn, and of pandas, which it imports if installed, besides the compiler of the search."""


def plan(size: Size, settings: Any, memory_limit: int | None, n_threads: int, checkpoints: bool) -> planning.Plan:
    """Plan a fit.

    Raises
    ------
    PlanError
        A stage does not fit; the message names the stage and the remedy.
    """
    limit = planning.limit_of(memory_limit)
    wanted, in_memory = min(size.n, START_ROWS), True
    if settings.kernel == "dense":
        tail = [_width_stage(size, settings, wanted), _dense_stage(size, settings), _output_stage(size, settings)]
        stages = planning.widened([planning.scan_stage(size, wanted), *tail], limit, n_threads)
        return planning.Plan(size, limit, stages, wanted, checkpoints=checkpoints)
    common = smic_planning.described(size, settings.graph(Gaussian(1.0)), memory_limit, n_threads, checkpoints)
    stages = {name: stage for name, stage in common.stages.items() if name not in ("eigen", "assign", "select")}
    if settings.n_clusters > 1:
        for in_memory in (True, False):
            stage = _sparse_stage(size, settings, stages["graph"].tasks, in_memory)
            if stage.peak_bytes <= limit:
                break
        last = stages.pop("output")
        stage = replace(stage, fixed_bytes=stage.fixed_bytes + LIBRARY_BYTES)
        rows = -(-size.n // stages["graph"].tasks)
        building = planning.building_bytes(rows, settings.n_neighbors, settings.t)  # under the name of the graph
        graph = replace(stages["graph"], task_bytes=max(stages["graph"].task_bytes, int(building)))
        early = {
            name: replace(found, fixed_bytes=found.fixed_bytes + LIBRARY_BYTES)
            for name, found in (stages | {"graph": graph}).items()
        }
        width = _width_stage(size, settings, common.sample_rows)
        stages = {**early, width.name: width, stage.name: stage, last.name: last}
    return replace(common, stages=planning.widened(stages.values(), limit, n_threads), kernel_in_memory=in_memory)


def _columns_bytes(settings: Any) -> int:
    """Bytes per row of logits, products, trial steps and their products, or of the eigensolver's basis."""
    if settings.solver == "spectral":
        return 4 * (stages.EIGEN.size(1 << 30) + 4 * stages.EIGEN.block_width)
    every = settings.n_starts * settings.n_clusters
    return 4 * (2 * every + 3 * len(FACTORS) * every + 2 * min(COLUMNS, 2 * every))


def _width_stage(size: Size, settings: Any, wanted: int) -> StagePlan:
    """The sample, and for k-means a copy in float64, of which scikit-learn makes another one for variances."""
    entry = 20 if settings.solver == "gradient" else 12
    fixed = BLOCK_CACHE_BYTES + entry * min(size.n, wanted) * size.d
    return planning.StagePlan("bandwidth", 1, fixed, 0)


def _dense_stage(size: Size, settings: Any) -> StagePlan:
    """Columns of all rows; two blocks of rows and a tile of the kernel per task."""
    n, d = size.n, size.d
    height = int(size.block_sizes.tile_bounds(n, d)[1])
    task = height * (4 * 8 * (d + 2) + 8 * COLUMNS) + (16 << 20)
    fixed = size.band_bytes + n * _columns_bytes(settings) + BLOCK_CACHE_BYTES + 12 * min(n, START_ROWS) * d
    columns = min(COLUMNS, 2 * settings.n_starts * settings.n_clusters)
    flops = ROUNDS * float(n) ** 2 * (2 * d + 2 * columns + 20)
    disk = 4 * n * (d + 2 * settings.n_clusters)
    stage = planning.StagePlan("memberships", -(-n // height), int(fixed), int(task), flops=flops, disk_bytes=disk)
    return replace(stage, remedy=_remedy(settings))


def _sparse_stage(size: Size, settings: Any, n_blocks: int, in_memory: bool) -> StagePlan:
    """Columns of all rows, and the kernel, if it is in memory."""
    n, entries = size.n, planning.EDGES_PER_NEIGHBOR * settings.t
    rows = -(-n // max(1, n_blocks))
    kernel = int(n * (8 * entries + 8))
    building = planning.building_bytes(rows, settings.n_neighbors, settings.t)
    task = rows * (8 * entries + 8) * (not in_memory) + 12 * rows * COLUMNS
    fixed = n * _columns_bytes(settings) + in_memory * kernel
    flops = ROUNDS * n * 4.0 * entries * settings.n_starts * settings.n_clusters
    stage = planning.StagePlan(
        "memberships", n_blocks, int(fixed), int(max(task, building)), flops=flops, disk_bytes=kernel
    )
    return replace(stage, remedy=_remedy(settings))


def _remedy(settings: Any) -> str:
    """How the columns of all rows need less memory; there is but one set for the spectral solver."""
    if settings.solver == "spectral":
        return ""
    starts = f"give n_starts below {settings.n_starts}, or " if settings.n_starts > 1 else ""
    return f"{starts}ask for fewer clusters"


def _output_stage(size: Size, settings: Any) -> StagePlan:
    bounds = size.source_bounds
    task = int(bounds[1]) * 12 * (settings.n_clusters + 1)
    disk = 4 * size.n * (settings.n_clusters + 1)
    return planning.StagePlan("output", len(bounds) - 1, 0, task, disk_bytes=disk)


# -- the fit


def run(job: Job) -> None:
    """Run the stages of a fit; each runs the blocks that the ledger lacks."""
    if not graph_pipeline.scan_rows(job, job.context.settings.kernel != "dense"):
        return
    job.run_steps("bandwidth", [0], _width)
    layout = _layout(job.context, job.plan.kernel_in_memory)
    layout.prepare(job)
    with job.timed("memberships"):
        _find(job, layout)
    with job.timed("output"):
        layout.finish(job)


def _width(job: Job, _: int) -> None:
    """Compute the bandwidth, in units of the scaled rows, and k-means centres, from the sample."""
    context, settings = job.context, job.context.settings
    sigma, sample = 1.0, context.read_sample()
    centers: Floats = np.empty((0, context.d))
    if settings.kernel != "local_scaling":
        total = context.scanned(moments.Moments)
        variances = total.m2 / total.n * context.scaler.factor**2
        sigma = parzen.bandwidth(settings.sigma, context.n, variances, sample, settings.seed)
    if settings.solver == "gradient":
        centers = _centers(sample, settings)
    job.run.write("bandwidth", 0, {"centers": centers}, info={"sigma": sigma})


def _centers(sample: Floats, settings: Any) -> Floats:
    c, n_distinct = settings.n_clusters, len(np.unique(sample, axis=0))
    if n_distinct < c:
        raise InputError(f"{CLUSTERS}: got {c} clusters for {n_distinct} distinct rows; ask for at most as many")
    # centred in place: the sample is the largest array of a fit of wide rows
    k_means = KMeans(c, n_init=10, random_state=settings.seed % 2**32, copy_x=False)
    return k_means.fit(sample.astype(np.float64)).cluster_centers_


def _layout(context: Context, in_memory: bool = True) -> Any:
    """Layout of the kernel: dense in tiles, or on the neighbour graph."""
    settings, sigma = context.settings, context.run.info("bandwidth", 0)["sigma"]
    return Dense(sigma) if settings.kernel == "dense" else Sparse(settings.graph(Gaussian(sigma)), in_memory)


def _find(job: Job, layout: Any) -> None:
    """Compute the memberships, and warn if they mean little."""
    settings, run = job.context.settings, job.run
    if settings.solver == "spectral":
        stages.spectral(job, layout, settings.seed)
        _warn_of_no_neighbors(job)
        return
    ascent = AscentSettings(settings.direction, settings.max_iter, settings.tol)
    shape, centers = (settings.n_starts, settings.n_clusters), run.read("bandwidth", 0, "centers")
    stages.ascend(job, Ascent(layout, shape, settings.seed, ascent, centers))
    _warn_of_ascent(job, settings)
    _warn_of_no_neighbors(job)


def _warn_of_ascent(job: Job, settings: Any) -> None:
    """Warn of a best start that did not converge, and of clusters without a whole row."""
    info, totals = job.run.info(stages.OPTIMUM, 0), job.run.read(stages.OPTIMUM, 0, "totals")
    if not info["converged"][info["best"]]:
        warn(
            f"mwca: the best start still gained more than tol={settings.tol:g} a step after max_iter="
            f"{settings.max_iter} products; raise max_iter or tol",
            ConvergenceWarning,
        )
    empty = np.flatnonzero(totals[0] < 1)
    if len(empty):
        warn(f"mwca: clusters {empty.tolist()} are left without a whole row; ask for fewer, or a smaller sigma")


def _warn_of_no_neighbors(job: Job) -> None:
    """Warn of a kernel that is all but the identity, for which all labelings have the same association.

    ``z' G z / N`` of hard memberships is 1 for the rows themselves, plus a row's kernel values with the others of its
    cluster, on average. So is the eigenvalue, with rows weighted by the squares of the eigenvector.
    """
    settings, totals = job.context.settings, job.run.read(stages.OPTIMUM, 0, "totals")
    if settings.kernel == "local_scaling":
        return  # whose width is that of the neighbours
    if settings.solver == "spectral":
        mass, associations = np.ones(1), totals[1:]
    else:
        mass, associations = totals[:, totals[0] > _MORE_THAN_A_ROW]
    if len(mass) and (reach := float(np.average(associations, weights=mass)) - 1) < LEAST_NEIGHBORS:
        warn(
            f"sigma: at {job.run.info('bandwidth', 0)['sigma']:.3g}, rows have next to no neighbours, so that labels "
            f"are arbitrary: kernel values with the other rows of a cluster sum to {max(reach, 0.0):.2g} on average, "
            f"of at least {LEAST_NEIGHBORS:g} that labels need; give a larger sigma, of the order of the distances "
            "between neighbouring scaled rows"
        )


# -- result


def summary(job: Job) -> dict[str, Any]:
    """Diagnostics: the bandwidth, and the end of every start."""
    if job.context.settings.n_clusters == 1:
        return {}
    run = job.run
    values = run.read(stages.OPTIMUM, 0, "values").tolist()
    return run.info("bandwidth", 0) | {"ascent": run.info(stages.OPTIMUM, 0) | {"association": values}}


def model(context: Context) -> Any:
    """Model of a finished fit, for predictions."""
    return DenseModel(context) if context.settings.kernel == "dense" else SparseModel(context)


_READING: Reads = {"bandwidth": (), stages.OPTIMUM: ("totals",), stages.MEMBERSHIPS: ("columns",)}


class Reading:
    """Posteriors and labels from products of new rows with the memberships or the eigenvector.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self.spectral, self.n = context.settings.solver == "spectral", context.n
        self.totals = context.run.read(stages.OPTIMUM, 0, "totals")

    def __call__(self, images: Floats, own: Floats) -> tuple[Floats, Integers]:
        """Posteriors and labels; `own` has the eigenvector at the equal fitted row, NaN where there is none: (b,)."""
        if self.spectral:
            mean, value = self.totals
            return read_vector(extend_vector(images[:, 0], value, own), mean)
        return read_association(images, self.totals, self.n)


class DenseModel:
    """Model that compares new rows with every fitted row, a tile at a time.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self.context, self.n_clusters = context, context.settings.n_clusters
        self.reads = _READING | {stages.TILES: ("X",)}
        self.layout, self.reading = _layout(context), Reading(context)

    def __call__(self, X: Floats) -> tuple[Floats, Integers]:
        """Posteriors and labels of scaled rows."""
        parts = [self._tile(X[lo : lo + PANEL]) for lo in range(0, len(X), PANEL)]
        posterior, labels = zip(*parts, strict=True)
        return np.concatenate(posterior), np.concatenate(labels)

    def _tile(self, X: Floats) -> tuple[Floats, Integers]:
        """Posteriors and labels of a tile, padded so that products always have one shape, and the same last bits."""
        padded = np.zeros((PANEL, X.shape[1]), np.float32)
        padded[: len(X)] = X
        n_columns = 1 if self.reading.spectral else self.n_clusters
        images, own = np.zeros((PANEL, n_columns)), np.full(len(X), np.nan)
        for p in range(len(self.layout.bounds(self.context)) - 1):
            columns, tile = self.context.run.read(stages.MEMBERSHIPS, p, "columns"), stages.read_tile(self.context, p)
            add_gaussian_product(padded, tile, columns, self.layout.sigma, images)
            if self.reading.spectral:
                at = find_equal(X, tile)
                own[at >= 0] = columns[at[at >= 0], 0]
        return self.reading(images[: len(X)], own)


class SparseModel(Neighborhood):
    """Model that compares new rows with their neighbours among the fitted rows.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self.layout, self.reading = _layout(context), Reading(context)
        super().__init__(self.layout.context(context))
        self.reads = self.reads | _READING
        self.n_clusters = context.settings.n_clusters

    def read(
        self, indices: Integers, squares: Floats, X: Floats | None = None, remainders: Floats | None = None
    ) -> Any:
        """Posteriors and labels of rows with known neighbours among the fitted rows."""
        read = partial(self.context.run.read, stages.MEMBERSHIPS, name="columns")
        images = self._product((indices, squares), self.layout.eigenproblem, read).astype(np.float64)
        own, is_fitted = np.full(len(images), np.nan), (squares[:, 0] == 0) & (indices[:, 0] >= 0)
        if self.reading.spectral and is_fitted.any():
            positions, local = self._touched(indices[is_fitted, 0])
            own[is_fitted] = self._gather(read, positions)[local, 0]
        return self.reading(images, own)


class Result(BaseResult):
    """Result of a fit by MWCA: labels, posteriors, predictions, and the association of every start."""

    @property
    def sigma(self) -> float:
        """Width of the Parzen windows, in units of the scaled rows; 1 with local scaling, which does not use it.

        AbsentResultError after a fit that needed no windows, as of a single cluster, or of no more distinct rows than
        clusters.
        """
        if "sigma" not in self.diagnostics:
            raise AbsentResultError(
                "sigma: the fit had a single cluster, or no more rows that differ than clusters, and needed no Parzen "
                "windows; fit more rows, or more clusters"
            )
        return self.diagnostics["sigma"]

    @property
    def association(self) -> Floats:
        """Association per row of every start: ndarray of float64, shape (n_starts,); for "spectral" the eigenvalue.

        Empty if the fit needed no start, as of a single cluster, or of no more distinct rows than clusters.
        """
        return np.array(self.diagnostics.get("ascent", {}).get("association", []), np.float64)
