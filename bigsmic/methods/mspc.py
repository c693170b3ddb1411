"""MSPC: scan -> passes -> output; sums over all rows are kept between passes. See `numerics.objectives.mspc`.

Every pass answers the next question of all splits at once, and its sums go to the run directory. A fit that is killed
asks the same questions again and finds the answers there.
"""

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from sklearn.cluster import KMeans

from bigsmic.errors import ConvergenceWarning
from bigsmic.numerics.objectives.mspc.questions import Halfspace, inside
from bigsmic.numerics.objectives.mspc.tree import Tree, grow, grow_by
from bigsmic.result import Result as BaseResult
from bigsmic.runtime import planning
from bigsmic.runtime.context import Context, source_bounds
from bigsmic.runtime.job import Job
from bigsmic.settings.mspc import Settings
from bigsmic.stages import distinct, rowwise_output, scan, span

__all__ = ["Result", "Settings", "model", "plan", "run", "summary"]

START_ROWS = 20_000  # of the sample that k-means starts from
N_STARTS = 10
PASSES = span.PASSES  # temporary: deleted once the fit has ended
TREE = Tree._fields


def plan(size, settings, memory_limit, n_threads, checkpoints):
    """Plan a fit: sums of (d + 1)^2 for both sides of every problem, n^2 where rows are fewer, and blocks of input.

    Raises
    ------
    PlanError
        d x d matrices, or n x n, do not fit; the message says what would.
    """
    limit = planning.limit_of(memory_limit)
    n, d = size.n, size.d
    bounds = source_bounds(n, d)
    wanted = 0 if in_span(n, d) else min(n, START_ROWS)
    sums = 16 * (d + 1) ** 2 * len(settings.candidates) * (1 if settings.n_clusters == 2 else 2)
    block = int(bounds[1]) * d * (size.itemsize + 12) + (16 << 20)
    depth = 2 + math.ceil(math.log2(len(bounds)))  # sums that wait in the tree
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
        ),
    )
    return planning.Plan(size, limit, planning.widened(stages, limit, n_threads), wanted, checkpoints=checkpoints)


def in_span(n, d):
    """Whether splits are found in the span of the rows, which has fewer dimensions than there are columns."""
    return n <= d


def _span_stage(size, settings, rows):
    """Products of all rows with all, and what the solvers make of them; two blocks of rows a task."""
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
    )


def run(job: Job):
    """Run the stages of a fit; each does what the ledger lacks."""
    with job.timed("scan"):
        scan.run(job)
        job = distinct.fewer(job)
    with job.timed("passes"):
        job.run_steps("tree", [0], _grow)
    with job.timed("output"):
        rowwise_output.run(job)


def _grow(job, _):
    """Find the tree of splits."""
    context, settings = job.context, job.context.settings
    if settings.n_clusters == 1:
        job.run.write("tree", 0, {}, info={"splits": []})
        return
    if in_span(context.n, context.d):
        tree, splits = grow_by(settings.n_clusters, span.Splits(job, N_STARTS))
    else:
        start = partial(two_means, context.read_sample(), settings.seed)
        tree, splits = grow(settings.n_clusters, start, settings.candidates, Passes(job))
    info = {"splits": [_told(split) for split in splits]}
    job.run.write("tree", 0, tree._asdict(), info=info)
    unfinished = [s for s, split in enumerate(splits) if split.ended != "converged"]
    if unfinished:
        warnings.warn(
            f"mspc: splits {unfinished} ended as {sorted({splits[s].ended for s in unfinished})}: labels after "
            f"max_iter={settings.max_iter} changes, or the last ones before a side would have been empty; "
            "try another reg",
            ConvergenceWarning,
            stacklevel=2,
        )


def _told(split):
    return {
        "counts": split.counts.tolist(),
        "msp": split.msp,
        "score": split.score,
        "reg": split.reg,
        "n_iter": split.n_iter,
        "ended": split.ended,
    }


def two_means(sample, seed, node):
    """Halfspace between the two k-means centres of the sample's rows in a node; None where they do not make two.

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
    """Answers to questions about all rows, read from the run directory or found by a pass over the rows.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job):
        self.job, self.n_passes = job, 0

    def __call__(self, questions):
        """Answers in the order of the questions."""
        run, b = self.job.run, self.n_passes
        self.n_passes += 1
        if not run.done(PASSES, b):
            answers = self.job.sum_blocks("passes", self.job.context.source_blocks, partial(_answer, questions))
            run.write(PASSES, b, {str(i): answer for i, answer in enumerate(answers)})
        read = run.reader(PASSES, b)
        return [read(str(i)) for i in range(len(questions))]


def _answer(questions, context: Context, s: int):
    """Answers of one block, tile by tile, so that masks and copies of a tile stay in the processor's cache."""
    X = context.scaled_block(s)
    rows = max(256, TILE_ENTRIES // context.d)
    total: Answers | None = None
    for lo in range(0, len(X), rows):
        tile = X[lo : lo + rows].astype(np.float64)
        found = Answers(question(tile) for question in questions)
        total = found if total is None else total + found
    return total


TILE_ENTRIES = 1 << 18


class Answers(tuple):
    """Arrays that add up one by one."""

    def __add__(self, other):
        return Answers(a + b for a, b in zip(self, other, strict=True))


def summary(job: Job):
    """Splits of the tree: rows on either side, separation probabilities, and how each ended."""
    return job.run.info("tree", 0)


def model(context: Context):
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
    def n_clusters(self):
        """Number of clusters, c."""
        return self.tree.n_clusters

    def __call__(self, X):
        """Posteriors and labels of scaled rows."""
        return self.tree.read(X)


class Result(BaseResult):
    """Result of a fit by MSPC: the tree of splits and its separation probabilities."""

    @property
    def msp(self):
        """Minimum separation probability of every split, in the order in which they were made, shape (c - 1,)."""
        return np.array([split["msp"] for split in self.diagnostics["splits"]])

    @property
    def halfspaces(self):
        """Hyperplanes in the units of the input: w (c - 1, d) and thresholds (c - 1,).

        Split s takes the rows with ``x @ w[s] > threshold[s]`` from label `of[s]` to label s + 1.
        """
        tree = model(self._context).tree
        w = tree.w * self._context.scaler.factor
        return w, tree.threshold + w @ self._context.scaler.center
