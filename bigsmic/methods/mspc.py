"""MSPC: scan -> passes -> output; sums over all rows are stored. See `numerics.objectives.mspc`.

Every pass answers the next question of all splits at once, and writes its sums to the run directory. A resumed fit asks
the same questions again and finds the answers there.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from bigsmic.errors import ConvergenceWarning
from bigsmic.methods.sections.mspc import pages
from bigsmic.numerics.objectives.mspc.questions import Halfspace, Node, Question, inside
from bigsmic.numerics.objectives.mspc.solvers import Split
from bigsmic.numerics.objectives.mspc.tree import Tree, grow, grow_by
from bigsmic.result import Result as BaseResult
from bigsmic.runtime import planning
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.planning import Size, StagePlan
from bigsmic.settings.mspc import Settings
from bigsmic.stages import distinct, rowwise_output, scan, span
from bigsmic.stages.span import PASSES, TILE_ENTRIES
from bigsmic.types import Floats
from bigsmic.warning import warn

__all__ = ["Result", "Settings", "model", "pages", "plan", "run", "summary"]

START_ROWS = 20_000  # of the sample for the k-means start
N_STARTS = 10
TREE = Tree._fields


def plan(size: Size, settings: Any, memory_limit: int | None, n_threads: int, checkpoints: bool) -> planning.Plan:
    """Plan a fit: sums of (d + 1)^2 for both sides of every problem, or n^2 for fewer rows, and blocks of input.

    Raises
    ------
    PlanError
        d x d matrices, or n x n, do not fit; the message names the remedy.
    """
    limit = planning.limit_of(memory_limit)
    n, d = size.n, size.d
    bounds = size.source_bounds
    wanted = min(n, START_ROWS)
    if in_span(n, d):  # the start needs no sample, but a scaling that is chosen does, as do later comparisons and maps
        is_needed = settings.scale in scan.CHOSEN or 4 * n * d <= scan.SAMPLE_BYTES
        wanted = min(scan.sample_rows(n, d, n), wanted) if is_needed else 0
    sums = 16 * (d + 1) ** 2 * len(settings.candidates) * (1 if settings.n_clusters == 2 else 2)
    block = int(bounds[1]) * d * (size.itemsize + 12) + (16 << 20)
    depth = 2 + math.ceil(math.log2(len(bounds)))  # partial sums in the tree
    if in_span(n, d):
        passes = _span_stage(size, settings, int(bounds[1]))
    else:
        passes = planning.StagePlan(
            "passes",
            len(bounds) - 1,
            size.band_bytes + sums * depth + 10 * 8 * d * d + 12 * wanted * d,
            block + 2 * sums,
            flops=20.0 * n * d * d,
            disk_bytes=20 * sums,
            remedy=_remedy(settings, "columns"),
        )
    stages = (
        planning.scan_stage(size, wanted),
        passes,
        planning.StagePlan(
            "output",
            len(bounds) - 1,
            size.band_bytes,
            block + int(bounds[1]) * 24 * settings.n_clusters,
            disk_bytes=4 * n * (settings.n_clusters + 1),
            remedy="ask for fewer clusters",
        ),
    )
    return planning.Plan(size, limit, planning.widened(stages, limit, n_threads), wanted, checkpoints=checkpoints)


def in_span(n: int, d: int) -> bool:
    """Whether splits are computed in the span of the rows, as rows are fewer than columns."""
    return n <= d


def _remedy(settings: Settings, sides: str) -> str:
    """How the matrices of the splits need less memory; those of every candidate are summed at once."""
    several = len(settings.candidates) > 1 and sides == "columns"
    return f"give one number for reg, or fewer {sides}" if several else f"give fewer {sides}"


def _span_stage(size: Size, settings: Any, rows: int) -> StagePlan:
    """Products between all rows, and arrays of the solvers; two blocks of rows per task."""
    n, d = size.n, size.d
    n_blocks = -(-n // rows)
    n_nodes = 2 * settings.n_clusters - 3
    fixed = size.band_bytes + span.N_MATRICES * 8 * n * n + 10 * 8 * d
    task = 2 * rows * d * (size.itemsize + 4) + 16 * rows * rows + (16 << 20) + 3 * 8 * d
    return planning.StagePlan(
        "passes",
        n_blocks * (n_blocks + 1) // 2,
        fixed,
        task,
        flops=max(1, n_nodes) * (2.0 * n * n * d + 60.0 * float(n) ** 3 * len(settings.candidates)),
        disk_bytes=max(1, n_nodes) * (16 * n * n + 32 * d),
        passes=max(1, 3 * n_nodes),
        remedy=_remedy(settings, "rows"),
    )


def run(job: Job) -> None:
    """Run the stages of a fit; each runs the blocks that the ledger lacks."""
    with job.timed("scan"):
        scan.run(job)
        job = distinct.fewer(job)
    with job.timed("passes"):
        job.run_steps("tree", [0], _grow)
    with job.timed("output"):
        rowwise_output.run(job)


def _grow(job: Job, _: int) -> None:
    """Compute the tree of splits."""
    context, settings = job.context, job.context.settings
    if settings.n_clusters == 1:
        job.run.write("tree", 0, {}, info={"splits": []})
        return
    if in_span(context.n, context.d):
        tree, splits = grow_by(settings.n_clusters, span.Splits(job, N_STARTS))
    else:
        start = partial(two_means, context.read_sample(), settings.seed)
        tree, splits = grow(settings.n_clusters, start, settings.candidates, Passes(job))
    info = {"splits": [_facts_of(split) for split in splits]}
    job.run.write("tree", 0, tree._asdict(), info=info)
    unfinished = [s for s, split in enumerate(splits) if split.ended != "converged"]
    if unfinished:
        warn(
            f"mspc: splits {unfinished} ended as {sorted({splits[s].ended for s in unfinished})}: labels after "
            f"max_iter={settings.max_iter} changes, or the last ones before a side would have been empty; "
            "try another reg",
            ConvergenceWarning,
        )


def _facts_of(split: Split) -> dict[str, Any]:
    return {
        "counts": split.counts.tolist(),
        "msp": split.msp,
        "score": split.score,
        "reg": split.reg,
        "n_iter": split.n_iter,
        "ended": split.ended,
    }


def two_means(sample: Floats, seed: int, node: Node) -> Halfspace | None:
    """Halfspace between the two k-means centres of the sample's rows in a node; None if there are no two.

    Parameters
    ----------
    sample : ndarray of float32, shape (m, d)
    seed : int
    node : mspc.Node
    """
    X = sample[inside(node, sample)].astype(np.float64)
    if len(X) < 2 or not np.ptp(X, axis=0).any():
        return None
    a, b = KMeans(2, n_init=N_STARTS, random_state=seed % 2**32).fit(X).cluster_centers_
    return Halfspace(2 * (b - a), float(b @ b - a @ a))


class Passes:
    """Answers to questions about all rows, read from the run directory or computed by a pass over the rows.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job) -> None:
        self.job, self.n_passes = job, 0

    def __call__(self, questions: Sequence[Question]) -> list[NDArray[Any]]:
        """Answers in the order of the questions."""
        run, b = self.job.run, self.n_passes
        self.n_passes += 1
        if not run.done(PASSES, b):
            answers = self.job.sum_blocks("passes", self.job.context.source_blocks, partial(_answer, questions))
            run.write(PASSES, b, {str(i): answer for i, answer in enumerate(answers)})
        read = run.reader(PASSES, b)
        return [read(str(i)) for i in range(len(questions))]


def _answer(questions: Sequence[Question], context: Context, s: int) -> "Answers":
    """Answers of one block, tile by tile, so that masks and copies of a tile stay in the processor's cache."""
    X = context.scaled_block(s)
    rows = max(256, TILE_ENTRIES // context.d)
    tiles = (X[lo : lo + rows].astype(np.float64) for lo in range(0, len(X), rows))
    return reduce(operator.add, (Answers(question(tile) for question in questions) for tile in tiles))


class Answers(tuple[Any, ...]):
    """Arrays that add up one by one."""

    def __add__(self, other: Any) -> "Answers":
        return Answers(a + b for a, b in zip(self, other, strict=True))


def summary(job: Job) -> dict[str, Any]:
    """Diagnostics: the splits of the tree with rows on both sides, separation probabilities, and reasons of ending."""
    return job.run.info("tree", 0)


def model(context: Context) -> "Model":
    """Model of a finished fit, for predictions."""
    if not context.run.info("tree", 0)["splits"]:
        return Model(Tree.single(context.d))
    read = context.run.reader("tree", 0)
    return Model(Tree(*(read(name) for name in TREE)))


@dataclass(frozen=True)
class Model:
    """Model of the tree, for predictions.

    Parameters
    ----------
    tree : Tree
    """

    tree: Tree
    reads: ClassVar = {"tree": None}

    @property
    def n_clusters(self) -> int:
        """Number of clusters, c."""
        return self.tree.n_clusters

    def __call__(self, X: Floats) -> Any:
        """Posteriors and labels of scaled rows."""
        return self.tree.read(X)


class Result(BaseResult):
    """Result of a fit by MSPC: the tree of splits and its separation probabilities."""

    @property
    def msp(self) -> Floats:
        """Minimum separation probability of every split, in the order of splits: ndarray of float64, shape (c - 1,)."""
        return np.array([split["msp"] for split in self.diagnostics["splits"]])

    @property
    def halfspaces(self) -> tuple[Floats, Floats]:
        """Hyperplanes in the units of the input: a tuple of float64, ``w`` (c - 1, d) and ``threshold`` (c - 1,).

        Split s divides one of the clusters 0 to s: its rows with ``x @ w[s] > threshold[s]`` become cluster s + 1, the
        others keep their number. The array ``of`` of the stage ``tree`` in the run directory has the divided clusters.
        These are the fit's own numbers: with ``like=``, c is the number of clusters that the fit made, and cluster i is
        number ``numbers[i]`` in ``labels``, by the array ``numbers`` of the stage ``numbering`` in the run directory.
        """
        tree = model(self._context).tree
        w = tree.w * self._context.scaler.factor
        return w, tree.threshold + w @ self._context.scaler.center
