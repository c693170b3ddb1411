"""MIC: scan -> route -> neighbors -> graph -> eigen -> assign -> ascent -> choice -> output.

Kernel RIM on the sparse local-scaling kernel [1]_, from a self-tuning spectral start [2]_; among several neighbour
numbers, the one is chosen whose labels have the largest maximum-likelihood mutual information with the rows [3]_.

References
----------
.. [1] Gomes, Krause, Perona, "Discriminative clustering by regularized information maximization", NIPS 2010.
.. [2] Zelnik-Manor, Perona, "Self-tuning spectral clustering", NIPS 2004.
.. [3] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss mutual
   information", Neural Computation 26(1), 2014, section 3.8.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bigsmic.errors import ConvergenceWarning
from bigsmic.methods.sections.mic import pages
from bigsmic.methods.smic import planning as smic_planning
from bigsmic.numerics.mutual_information import mlmi
from bigsmic.numerics.mutual_information.gaussian_basis import PAPER_GAMMAS
from bigsmic.numerics.mutual_information.mlmi import (
    Drawn,
    MLMIDesign,
    MLMIScore,
    MLMISettings,
    MLMISums,
    block_sums,
    drawn_rows,
)
from bigsmic.numerics.objectives.kernel_rim import PRODUCT_COLUMNS, SLOTS, AscentSettings, posterior
from bigsmic.numerics.objectives.rim.logits import LEAST_INFORMATION
from bigsmic.result import Result as BaseResult
from bigsmic.runtime import planning
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.planning import Size, StagePlan
from bigsmic.settings.mic import Settings
from bigsmic.stages import (
    eigenvectors,
    graph_pipeline,
    kernel_matrix,
    kernel_rim,
    labelings,
    mi_samples,
    numbering,
    output,
)
from bigsmic.stages.graph_pipeline import temporary
from bigsmic.stages.labeling_specs import Eigenproblem
from bigsmic.stages.out_of_sample import Neighborhood
from bigsmic.types import Floats, Integers
from bigsmic.warning import warn

__all__ = ["Result", "Settings", "model", "pages", "plan", "run", "summary", "temporary"]


@dataclass(frozen=True, repr=False)
class Plan(planning.Plan):
    """Plan of a fit; `ascent_in_memory`: whether coefficients, and the kernel, are in memory during the ascents."""

    ascent_in_memory: tuple[bool, bool] = (True, True)


def plan(
    size: Size,
    settings: Any,
    memory_limit: int | None,
    n_threads: int,
    checkpoints: bool,
    remedy: str = "use a smaller mlmi_rows",
) -> planning.Plan:
    """Plan a fit: the stages of SMIC, and the ascents. `remedy` is that of a choice that needs too much memory.

    Raises
    ------
    PlanError
        A stage does not fit; the message names the stage and the remedy.
    """
    common = smic_planning.described(size, settings.graph, memory_limit, n_threads, checkpoints)
    stages, in_memory = dict(common.stages), (True, True)
    if settings.n_clusters > 1:
        eigen = stages["eigen"]
        for in_memory in ((True, True), (True, False), (False, False)):
            stage = _ascent_stage(size, settings, eigen.tasks, in_memory)
            if stage.peak_bytes <= common.memory_limit:
                break
        select, last = stages.pop("select"), stages.pop("output")
        select = replace(_select_stage(size, settings, select), remedy=remedy)
        stages |= {"ascent": stage, "select": select, "output": last}
    planned = planning.widened(stages.values(), common.memory_limit, n_threads)
    return Plan(**{**vars(common), "stages": planned}, ascent_in_memory=in_memory)


def _ascent_stage(size: Size, settings: Any, n_blocks: int, in_memory: tuple[bool, bool]) -> StagePlan:
    """Seven matrices of c columns, the kernel, operands of products for all rows; three c-column blocks per task."""
    n, c, t = size.n, settings.n_clusters, max(settings.t)
    rows = -(-n // max(1, n_blocks))
    entries = planning.EDGES_PER_NEIGHBOR * t
    matrices, kernel = 4 * n * c * SLOTS, int(n * (8 * entries + 8))
    products = 3 * 4 * n * min(c, PRODUCT_COLUMNS) + 8 * n
    building = planning.building_bytes(rows, settings.n_neighbors, t)
    task = rows * (8 * entries + 8) * (not in_memory[1]) + 6 * 4 * rows * c + 8 * rows * min(c, PRODUCT_COLUMNS)
    fixed = products + in_memory[0] * matrices + in_memory[1] * kernel
    disk = len(settings.t) * 4 * n * (2 * c + 1) + kernel + (not in_memory[0]) * matrices
    flops = 50.0 * len(settings.t) * n * c * (4 * entries + 60)  # fifty iterations are seldom exceeded
    stage = planning.StagePlan("ascent", n_blocks, int(fixed), int(max(task, building)), flops=flops)
    remedy = "ask for fewer clusters, or smaller values of t"
    return replace(stage, disk_bytes=int(disk), passes=1 + len(settings.t), remedy=remedy)


def _select_stage(size: Size, settings: Any, of_smic: StagePlan) -> StagePlan:
    """Distances of the drawn rows to the centres, while they are gathered and fitted; a block of rows."""
    drawn = min(size.n, (settings.mlmi_rows or size.n) + settings.n_centers)
    rows = -(-size.n // max(1, of_smic.tasks))
    task = 8 * rows * size.d + 3 * 8 * 2048 * settings.n_centers + drawn * settings.n_centers * 8 * rows // size.n
    gathered = 5 * 8 * drawn * settings.n_centers
    return replace(of_smic, fixed_bytes=int(gathered), task_bytes=int(task))


# -- the fit


def run(job: Job) -> None:
    """Run the stages of a fit; each runs the blocks that the ledger lacks."""
    settings = job.context.settings
    on_graph, of_start = job.under(settings.graph), job.under(settings.start)
    if not graph_pipeline.scan_rows(on_graph):
        return
    graph_pipeline.build_graph(on_graph)
    _begin(of_start)
    with on_graph.timed("ascent"):
        _ascend(on_graph, settings, job.plan.ascent_in_memory)
    with job.timed("select"):
        job.run_steps("choice", [0], _choose)
    with job.timed("output"):
        _output(job)


def _begin(job: Job) -> None:
    """Self-tuning spectral clustering, with rotated eigenvectors of the normalised kernel."""
    with job.timed("eigen"):
        eigenvectors.run(job)
    with job.timed("assign"):
        labelings.run(job)
        kernel_matrix.drop_weights(job)


def _read_start(context: Context, p: int, settings: Any) -> Integers:
    return labelings.read_labels(context.under(settings), p, 0)


def _ascend(job: Job, settings: Any, in_memory: tuple[bool, bool]) -> None:
    """Ascend for every t; after the choice, only for t whose results were damaged."""
    chosen = _chosen(job.context) if job.run.done("choice", 0) else None
    ascent = AscentSettings(settings.reg, settings.max_iter, settings.tol)
    for t in settings.t:
        if chosen not in (None, t) and job.run.done(kernel_rim.optimum_name(t), 0):
            continue
        kernel_rim.run(job, t, ascent, partial(_read_start, settings=settings.start), in_memory)
        optimum = job.run.info(kernel_rim.optimum_name(t), 0)
        if not optimum["converged"]:
            warn(
                f"mic: t={t} still gained more than tol={settings.tol:g} nats per row after {optimum['n_iter']} "
                "iterations; raise max_iter or tol",
                ConvergenceWarning,
            )


# -- the choice of t


def _choose(job: Job, block: int) -> None:
    """Score the labels of every t by MLMI; among equal ones the first t is chosen."""
    context, settings = job.context, job.context.settings
    found = _scores(job)
    best = int(np.argmax([score.mlmi for score in found]))
    columns = {name: np.array([getattr(s, name) for s in found]) for name in ("mlmi", "gamma", "gap")}
    tables = {"cv_table": np.stack([score.cv_table for score in found])}
    without = [len(score.without_center) for score in found]
    info = {"t": int(settings.t[best]), "classes_without_center": without}
    context.run.write("choice", 0, columns | tables, info=info)
    _warn_of_collapse(context.run.info(kernel_rim.optimum_name(settings.t[best]), 0), settings)


def _warn_of_collapse(optimum: dict[str, Any], settings: Any) -> None:
    alive, c = np.count_nonzero(optimum["sizes"]), settings.n_clusters
    if alive == c and optimum["value"] > LEAST_INFORMATION:
        return
    found = f"{c - alive} of {c} clusters are left without rows"
    if alive == 1:
        found = "all rows are in one cluster"
    elif optimum["value"] <= LEAST_INFORMATION:
        found = f"all rows have nearly the same posterior, {optimum['value']:.2g} nats of information"
    warn(f"{settings.method}: {found}; lower reg, which is {settings.reg:g}")


def _scores(job: Job) -> list[MLMIScore]:
    """MLMI of the labels of every t."""
    context, settings = job.context, job.context.settings
    gammas = tuple(PAPER_GAMMAS) if settings.preset == "paper" else None
    wanted = MLMISettings(settings.n_centers, gammas, min(5, context.n), settings.seed)
    design, of_centers = mi_samples.drawn_design(job, "choice", wanted, _labels)
    drawn = drawn_rows(context.n, settings.mlmi_rows, design)
    sums = job.sum_blocks("choice", context.blocks, partial(_sums, design=design))
    at, distances, labels = mi_samples.gather(job, "choice", drawn, partial(mlmi.distances, design=design), _labels)
    taken = Drawn(at, distances)
    return job.map_here(lambda i: mlmi.score(sums, taken, labels[i], of_centers[i], design), range(len(settings.t)))


def _labels(context: Context, p: int, chosen: Any) -> Integers:
    """Labels of some rows of a block for every t, shape (T, m)."""
    return np.stack([context.run.read(kernel_rim.stage_name(t), p, "labels")[chosen] for t in context.settings.t])


def _sums(context: Context, p: int, design: MLMIDesign) -> MLMISums:
    read = context.run.reader("rows", p)
    return block_sums(read("X"), read("rows"), design)


# -- labels and posteriors


def _chosen(context: Context) -> int:
    return context.run.info("choice", 0)["t"]


def _output(job: Job) -> None:
    """Write ``labels``, ``posterior`` and ``agreement`` in input order; drop the ascents of other t."""
    context = job.context
    job.fill("final", context.blocks, _final)
    output.create(context)
    job.fill("output", context.source_blocks, output.write_block)
    for t in set(context.settings.t) - {_chosen(context)}:
        job.run.drop(kernel_rim.stage_name(t), context.blocks)


def _final(context: Context, p: int) -> None:
    """Labels and posteriors of one row block, in parts by block of input."""
    t = _chosen(context)
    bias = context.run.read(kernel_rim.optimum_name(t), 0, "bias")
    P, labels = posterior(context.run.read(kernel_rim.stage_name(t), p, "logits"), bias)
    arrays = {"labels": labels, "posterior": P, "agreement": np.ones(len(labels), np.float32)}
    context.run.write("final", p, arrays, parts=dict.fromkeys(arrays, context.layout.before[:, p]))


# -- result


def summary(job: Job) -> dict[str, Any]:
    """Diagnostics of the start, the ascents and the choice of t."""
    context, settings = job.context, job.context.settings
    if settings.n_clusters == 1:
        return {}
    read, run = context.run.reader("choice", 0), context.run
    info = run.info("choice", 0)
    scores = {name: read(name) for name in ("mlmi", "gamma", "gap")}
    candidates = [
        {"t": t, "chosen": t == info["t"], "classes_without_center": info["classes_without_center"][i]}
        | run.info(kernel_rim.optimum_name(t), 0)
        | {name: values[i].item() for name, values in scores.items()}
        for i, t in enumerate(settings.t)
    ]
    for candidate in candidates:  # whose clusters all come from one start, and so have its numbers
        candidate["sizes"] = numbering.spread(context, np.array(candidate["sizes"])).tolist()
    spectrum = {"t": settings.start_t} | run.info("spectrum", 0)
    sizes = run.info(kernel_rim.optimum_name(info["t"]), 0)["sizes"]
    return {
        "neighbors": run.info("recall", 0),
        "start": spectrum,
        "ascents": candidates,
        "output": {
            "cluster_sizes": numbering.spread(context, np.array(sizes)).tolist(),
            "empty_clusters": numbering.labels(context, np.flatnonzero(np.equal(sizes, 0))).tolist(),
        },
    }


def model(context: Context) -> "Model":
    """Model of a finished fit, for predictions."""
    return Model(context)


class Model(Neighborhood):
    """Logits of new rows, ``z(x) = K(x, X) A + b``, from their neighbours among the fitted rows.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context.under(context.settings.graph))
        self.n_clusters, t = context.settings.n_clusters, _chosen(context)
        self.eigenproblem, self.stage = Eigenproblem("local_scaling", t), kernel_rim.stage_name(t)
        self.bias = context.run.read(kernel_rim.optimum_name(t), 0, "bias")
        self.reads = self.reads | {"choice": (), self.stage: ("coefficients",), kernel_rim.optimum_name(t): ("bias",)}

    def read(
        self, indices: Integers, squares: Floats, X: Floats | None = None, remainders: Floats | None = None
    ) -> Any:
        """Posteriors and labels of rows with known neighbours among the fitted rows."""
        read = partial(self.context.run.read, self.stage, name="coefficients")
        return posterior(self._product((indices, squares), self.eigenproblem, read), self.bias)


class Result(BaseResult):
    """Result of a fit by MIC: labels, posteriors, predictions, and the scores of every t."""

    @property
    def scores(self) -> Any:
        """Every neighbour number with the ascent from it: a pandas DataFrame with one row each.

        Columns ``t``; ``chosen``; ``value`` of the objective in nats per row; ``n_iter`` and ``converged``; ``sizes``
        of the clusters by number; ``mlmi`` of the labels in nats, its width ``gamma``, and ``gap``, by which it may be
        too low; ``classes_without_center``, the number of clusters that add nothing to it.
        """
        import pandas as pd

        return pd.DataFrame(self.diagnostics.get("ascents", []))

    def _choice_lines(self) -> list[str]:
        found = self.diagnostics.get("ascents", [])
        return [
            f"  chosen     t = {row['t']} of {len(found)}; MLMI {row['mlmi']:.4f}, {row['n_iter']} iterations"
            for row in found
            if row["chosen"]
        ]
