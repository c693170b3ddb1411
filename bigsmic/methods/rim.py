"""RIM: scan -> start -> ascent -> output. An unsupervised linear classifier; see `numerics.objectives.rim`.

No graph: what a fit holds is some blocks of rows and the classifier, so that its memory does not grow with the rows.
"""

import math
import numbers
import re
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from bigsmic.errors import BigsmicWarning, InputError
from bigsmic.methods.base import MethodSettings
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information.lsmi import LSMISettings, block_sums, finish
from bigsmic.numerics.objectives import rim
from bigsmic.result import Result as BaseResult
from bigsmic.runtime import planning
from bigsmic.runtime.context import BLOCK_CACHE_BYTES, Context, source_bounds
from bigsmic.runtime.job import Job
from bigsmic.stages import distinct, scan
from bigsmic.stages import rim as stages
from bigsmic.store.side_inputs import read_array

__all__ = ["SIDE_INPUTS", "Result", "Settings", "admit", "model", "plan", "run", "summary"]

SIDE_INPUTS = ("labels", "sample_weight")
SOLVERS = ("auto", "minibatch", "lbfgs")
SCALES = ("standard", "variance", None)
START_ROWS = 10_000  # of the sample that categories are found on
FIRST_REG = 0.003  # times the mean variance of a column: few categories die at it
CATEGORIES = 100  # to begin with where the number of clusters is open
ATTEMPTS = 4  # at finding enough categories to begin with
LSMI_ROWS, LSMI_CENTERS = 5000, 200
MAX_DYING = 20
ROWS_BYTES = 256 << 20  # of scaled rows that stay in memory at most; more of them are read again
_PER_ROW = re.compile(r"\s*([0-9.eE+-]+)\s*/\s*[nN]\s*\Z")


@dataclass(frozen=True)
class Settings(MethodSettings):
    """What a fit by RIM is asked to do.

    Parameters
    ----------
    n_clusters : int, optional
        The strength of the penalty is found at which so many categories stay alive. None: as many as do at `reg`.
    reg : float or str, optional
        Strength of the penalty ``reg |W|^2``. ``"2/N"``: over the number of rows. ``"lsmi"``: the strength, along a
        path, whose labels have the largest squared-loss mutual information. None: found for `n_clusters`, or 4/N.
    solver : {"auto", "minibatch", "lbfgs"}
        Adam on batches, or exact gradients; "auto": the latter where all rows are no more than a batch.
    n_init_categories : int, optional
        Categories to begin with; by default 100, or three for each cluster that is asked for and at least 30.
    prior : array_like of float, shape (n_clusters,), or "power", optional
        Shares of the clusters; "power": shares fall as a power of the rank, with the exponent that fits best.
    tau : float
        Weight of the information against labels that are given.
    scale : {"standard", "variance", None}
        What centred columns are divided by.
    seed : int
    batch_size : int
        Rows of a batch.
    learning_rate : float
        Of Adam: about how far its first step moves the logits of a row; it falls to 0 along a cosine.
    n_epochs : int, optional
        Passes over the rows of an ascent; by default as many as make 200 steps, or 400 from the start of a single one.
    max_iter : int
        Iterations of L-BFGS at most.
    polish : int
        Iterations of L-BFGS after the last ascent by minibatches.
    """

    method: ClassVar[str] = "rim"

    n_clusters: int | None = None
    reg: float | str | None = None
    solver: str = "auto"
    n_init_categories: int | None = None
    prior: tuple[float, ...] | str | None = None
    tau: float = 1.0
    scale: str | None = "standard"
    seed: int = 0
    batch_size: int = 2048
    learning_rate: float = 0.3
    n_epochs: int | None = None
    max_iter: int = 200
    polish: int = 0

    def __post_init__(self):
        least = {"n_clusters": 1, "n_init_categories": 2, "batch_size": 2, "n_epochs": 1, "max_iter": 1, "polish": 0}
        for name, low in least.items():
            _whole(name, getattr(self, name), low, optional=name in ("n_clusters", "n_init_categories", "n_epochs"))
        _whole("seed", self.seed, None)
        for name in ("tau", "learning_rate"):
            _positive(name, getattr(self, name))
        if self.solver not in SOLVERS:
            raise InputError(f"solver: got {self.solver!r}; method 'rim' has {SOLVERS}")
        if self.scale not in SCALES:
            raise InputError(f"scale: got {self.scale!r}; method 'rim' has {SCALES}")
        self._check_reg()
        object.__setattr__(self, "prior", _checked_prior(self.prior, self.n_clusters))
        if self.n_init_categories is not None and self.n_init_categories < (self.n_clusters or 0):
            raise InputError(
                f"n_init_categories: got {self.n_init_categories} for {self.n_clusters} clusters; use at least as "
                "many, or leave it out"
            )

    def _check_reg(self):
        if self.reg is None or _share(self.reg) is not None:
            return
        if self.reg == "lsmi":
            if self.n_clusters is not None:
                raise InputError("reg: got 'lsmi' beside n_clusters, which asks for a strength of its own; give one")
            return
        if isinstance(self.reg, str):
            raise InputError(f"reg: got {self.reg!r}; use a positive number, a share such as '4/N', or 'lsmi'")
        _positive("reg", self.reg)

    def strength(self, n):
        """Strength that the caller gave, or the default where nothing is to be found; None where it is."""
        if self.reg is None:
            return None if self.n_clusters is not None else 4 / n
        if self.reg == "lsmi":
            return None
        share = _share(self.reg)
        return float(self.reg) if share is None else share / n

    def by_batches(self, n):
        """Whether ascents go by minibatches."""
        return self.solver == "minibatch" or (self.solver == "auto" and n > self.batch_size)

    def first_categories(self, n):
        """Categories to begin with."""
        if self.n_init_categories is not None:
            return self.n_init_categories
        if isinstance(self.prior, tuple):
            return len(self.prior)
        if self.n_clusters is None:
            return max(2, min(CATEGORIES, n // 3))
        return max(self.n_clusters, min(max(3 * self.n_clusters, 30), n // 2))


def _whole(name, value, least, optional=False):
    if value is None and optional:
        return
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name}: got {value!r}; use an integer")
    if least is not None and value < least:
        raise InputError(f"{name}: got {value!r}; use an integer of at least {least}")


def _positive(name, value):
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name}: got {value!r}; use a positive number")


def _share(reg):
    """The k of "k/N"; None for anything else."""
    found = _PER_ROW.match(reg) if isinstance(reg, str) else None
    try:
        value = float(found.group(1)) if found else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < math.inf else None


def _checked_prior(prior, n_clusters):
    if prior is None or (isinstance(prior, str) and prior == "power"):
        return prior
    if isinstance(prior, str):
        raise InputError(f"prior: got {prior!r}; use one positive value for each cluster, or 'power'")
    values = np.ravel(np.asarray(prior, np.float64))
    if not (values > 0).all() or not np.isfinite(values).all():
        raise InputError(f"prior: got {values.tolist()}; use positive values")
    if n_clusters != len(values):
        raise InputError(f"prior: got {len(values)} values for n_clusters={n_clusters}; give one per cluster")
    return tuple((values / values.sum()).tolist())


def admit(settings, given, n_rows, storage_options=None):
    """Settings, and the labels and weights that came beside the rows, in memory or as places where they lie."""
    read = {name: read_array(name, given.get(name), storage_options) for name in SIDE_INPUTS}
    return settings, checked_side_inputs({name: array for name, array in read.items() if array is not None}, n_rows)


def checked_side_inputs(side_inputs, n_rows):
    """What came beside the rows, in the dtypes that are computed with; weights are made to sum to the number of rows.

    Raises
    ------
    InputError
        Not one value per row, negative weights, labels that are not 0, 1, .. or -1.
    """
    arrays = {name: np.asarray(array) for name, array in side_inputs.items()}
    for name, array in arrays.items():
        if array.shape != (n_rows,):
            raise InputError(f"{name}: got shape {array.shape}; give one value for each of the {n_rows} rows")
    if "sample_weight" in arrays:
        weights = arrays["sample_weight"] = arrays["sample_weight"].astype(np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise InputError("sample_weight: got negative or infinite weights; use finite ones, 0 or more")
        if not weights.any():
            raise InputError("sample_weight: every weight is zero; give some rows a positive one")
        weights *= n_rows / weights.sum()
    if "labels" in arrays:
        labels = arrays["labels"]
        if labels.dtype.kind not in "iu" or labels.min() < -1:
            raise InputError(f"labels: got {labels.dtype}, least {labels.min()}; use integers 0, 1, .. and -1 for none")
        arrays["labels"] = labels.astype(np.int32)
    return arrays


# -- the fit


@dataclass(frozen=True)
class Plan(planning.Plan):
    """How a fit will run.

    Parameters
    ----------
    rows_in_memory : bool
        Whether scaled rows stay in memory once they have been read.
    posteriors_in_memory : bool
        Whether the second sweep for an exact gradient takes the posteriors of the first.
    """

    rows_in_memory: bool = False
    posteriors_in_memory: bool = False


def plan(size, settings, memory_limit, n_threads, checkpoints, adapted=tuple):
    """Plan a fit: blocks of rows with their posteriors, and the classifier.

    What grows with the rows is kept only where there is room: rows that are few, posteriors for exact gradients.
    ``adapted(stages)`` are the stages of a method that has others beside them.

    Raises
    ------
    PlanError
        The message says what would do.
    """
    limit = planning.limit_of(memory_limit)
    exact = not settings.by_batches(size.n) or settings.polish > 0
    few = 4 * size.n * size.d <= ROWS_BYTES
    for rows, posteriors in ((True, True), (False, True), (True, False), (False, False)):
        if rows <= few and posteriors <= exact:
            described = adapted(_described(size, settings, rows, posteriors))
            if all(stage.peak_bytes <= limit for stage in described):
                break
    planned = planning.widened(described, limit, n_threads)
    plan = Plan(size, limit, planned, min(size.n, START_ROWS), checkpoints=checkpoints)
    return replace(plan, rows_in_memory=rows, posteriors_in_memory=posteriors)


def _described(size, settings, rows_in_memory, posteriors_in_memory):
    """Figures of every stage."""
    n, d = size.n, size.d
    bounds = source_bounds(n, d)
    rows, n_blocks = int(bounds[1]), len(bounds) - 1
    k = max(settings.first_categories(n), settings.n_clusters or 1)
    held = n if size.n_workers == 1 else min(n, math.ceil(planning.HELD * n / size.n_workers))
    wanted = min(n, START_ROWS)
    block = rows * d * (size.itemsize + 4) + rim.TILE_ROWS * 16 * k + 32 * (d + 1) * k
    kept = 4 * held * d if rows_in_memory else min(4 * n * d, BLOCK_CACHE_BYTES)
    posteriors = 4 * held * k if posteriors_in_memory else 0
    group = 2 * min(4 * n * d, stages.GROUP_BYTES + 4 * rows * d) + stages.READERS * rows * d * (size.itemsize + 4)
    batch = min(n, settings.batch_size) * (4 * d + 16 * k)
    passes = 10 * max(1.0, stages.LEAST_STEPS * settings.batch_size / n)
    return (
        planning.scan_stage(size, wanted),
        planning.StagePlan(
            "start", 1, size.band_bytes + 12 * wanted * d, wanted * 8 * d, flops=2.0 * wanted * d * k * 30
        ),
        planning.StagePlan(
            "ascent",
            n_blocks,
            int(size.band_bytes + kept + posteriors + group + batch),
            block,
            flops=4.0 * n * d * k * passes,
            disk_bytes=400 * (d + 1) * k,
        ),
        planning.StagePlan(
            "output",
            n_blocks,
            size.band_bytes + kept,
            block + rows * (8 * d + 16 * k),
            flops=4.0 * n * d * k,
            disk_bytes=4 * n * (k + 1),
        ),
    )


def run(job: Job):
    """Each stage does what the ledger lacks."""
    with job.timed("scan"):
        scan.run(job, job.plan.sample_rows)
        stages.keep_side_inputs(job)
    ascend(distinct.fewer(job))


def ascend(job: Job):
    """From rows that have been scanned to labels and posteriors."""
    if job.plan.rows_in_memory:
        stages.keep_rows(job.context)
    with job.timed("ascent"):
        if not _has_path(job.run):
            job.run.forget("model", 0)
        job.run_steps("model", [0], _find)
    with job.timed("output"):
        stages.write_output(job)


def _has_path(run):
    """Whether every point that the classifier was found by is there, and every start: the search goes by them again."""
    if not run.done("model", 0):
        return False
    info = run.info("model", 0)
    starts = range(info["attempt"] + 1 if info["points"] else 0)
    return not run.missing("point", range(info["points"])) and not run.missing("start", starts)


def _find(job, _):
    """Find the classifier, and write it."""
    n, settings = job.context.n, job.context.settings
    search, reg = stages.Search(job), settings.strength(n)
    if search.known > (settings.n_clusters or n):
        raise InputError(
            f"labels: got {search.known} categories for {settings.n_clusters} clusters; ask for at least as many"
        )
    if settings.n_clusters == 1:
        found, reg = rim.Linear.zeros(job.context.d, 1), 0.0
    elif settings.n_clusters is not None:
        found, reg = _with_clusters(search, settings.n_clusters, reg)
    else:
        found, reg = _at_strength(search, reg) if reg is not None else _by_information(search)
    job.run.write("model", 0, found._asdict(), info={"reg": reg, "attempt": search.attempt, "points": search.count})


def _at_strength(search, reg):
    """As many categories as stay alive."""
    stages.start(search.job, 0, reg)
    point = search.solve(reg, None)
    rim.refuse_collapse(point.alive, reg)
    return _polished(search, search.living(point), reg), reg


def _with_clusters(search, n_clusters, reg):
    """A number of categories: at a strength that is found, or at the given one by closing the smallest."""
    guess = _guess(search.context) if reg is None else reg
    for search.attempt in range(ATTEMPTS):
        enough = stages.start(search.job, search.attempt, guess) >= n_clusters
        point = None
        if enough and reg is None:
            point = rim.find_strength(search.solve, n_clusters, guess)
        elif enough:
            point = search.solve(reg, None)
        if point is not None and point.alive >= n_clusters:
            return _polished(search, search.close(point, n_clusters), point.reg), point.reg
        if reg is not None or search.settings.n_init_categories is not None or isinstance(search.settings.prior, tuple):
            break
    start = search.job.run.info("start", search.attempt)["categories"]
    remedy = "ask for fewer clusters" if reg is None else f"use a reg below {reg:.3g}, or ask for fewer clusters"
    raise InputError(
        f"rim: no {n_clusters} categories stay alive of the {start} to begin with; {remedy}, or give more "
        "n_init_categories if rows are not mostly the same"
    )


def _guess(context):
    """Strength at which few categories die: it goes with the variance of the scaled columns."""
    return FIRST_REG * max(float(np.square(context.sample).mean()), 1e-12)


def _by_information(search):
    """The strength, along a path, whose labels have the largest LSMI on rows of the sample."""
    guess = _guess(search.context)
    stages.start(search.job, 0, guess)
    points: list[rim.Point] = []
    point = search.solve(guess, None)
    while point.alive > 1 and len(points) < MAX_DYING:
        points.append(point)
        point = search.solve(2 * point.reg, point)
    if not points:
        rim.refuse_collapse(point.alive, point.reg)
    scores = scores_of(search.context, [point.number for point in points])
    best = points[int(np.argmax(scores))]
    return _polished(search, search.living(best), best.reg), best.reg


def scores_of(context, numbers):
    """LSMI of the labels of some points, on the same rows of the sample."""
    seed = context.settings.seed
    X = context.sample[draw_rows(len(context.sample), LSMI_ROWS, seed, "rim-lsmi")]
    labels = np.array([stages.read_model(context, "point", p).logits(X).argmax(axis=1) for p in numbers])
    centers = draw_rows(len(X), LSMI_CENTERS, seed, "rim-centers")
    design = LSMISettings(len(centers), seed=seed).design(X[centers], centers, X)
    with threadpool_limits(limits=1):
        sums = block_sums(X, np.arange(len(X)), labels, design)
        return [score.lsmi for score in finish(sums, labels[:, centers], design)]


def _polished(search, found, reg):
    """The classifier after some exact iterations, if they were asked for and lose no category that is asked for."""
    settings = search.settings
    if not settings.polish:
        return found
    point = search.ascend(reg, found, polish=settings.polish)
    if settings.n_clusters is None:
        rim.refuse_collapse(point.alive, reg)
    elif point.alive < found.n_categories:
        warnings.warn("rim: polish would have lost a category, and was left out", BigsmicWarning, stacklevel=2)
        return found
    return search.living(point)


def summary(job: Job):
    """What was found, and the way to it."""
    context, run = job.context, job.run
    sums, info = stages.found_information(context), run.info("model", 0)
    found = stages.read_model(context, "model", 0)
    facts = {
        "n_clusters": found.n_categories,
        "reg": info["reg"],
        "objective": stages.objective(context, sums, found, info["reg"]),
        "cluster_sizes": sums.counts.tolist(),
        "empty_clusters": np.flatnonzero(sums.counts == 0).tolist(),
        "path": run.infos("point", range(info["points"])),
        "n_init_categories": run.info("start", info["attempt"])["categories"] if info["points"] else 1,
    }
    if context.settings.prior == "power":
        facts["prior_exponent"] = rim.power_exponent(sums.marginal)
    return facts


# -- what came out


def model(context: Context):
    """What predictions need of a finished fit."""
    return Model(context)


class Model:
    """Posteriors and labels of scaled rows.

    Parameters
    ----------
    context : Context
    features : callable, optional
        What is classified in the place of the rows.
    """

    def __init__(self, context: Context, features=None):
        self.linear, self.features = stages.read_model(context, "model", 0), features
        self.reads = {"model": None} if features is None else {"model": None, "map": None}
        self.n_clusters = self.linear.n_categories

    def __call__(self, X):
        """Posteriors, float32 (b, c), and labels, int32 (b,)."""
        logs, _ = rim.log_softmax(self.linear.logits(X if self.features is None else self.features(X)))
        return np.exp(logs), logs.argmax(axis=1).astype(np.int32)


class Result(BaseResult):
    """Labels, posteriors and the classifier of a fit by RIM."""

    _tells: ClassVar = {"clusters": None, "point": None, "scan": None}

    @cached_property
    def _linear(self):
        return stages.read_model(self._context, "model", 0)

    @property
    def classifier(self):
        """The classifier of scaled rows, :class:`bigsmic.numerics.objectives.rim.Linear`, and the scaler."""
        return self._linear, self._context.scaler

    @property
    def coef(self):
        """Weights of every cluster on the columns as they came, not scaled: ndarray of float64, shape (c, d)."""
        return (self._linear.W * self._context.scaler.factor[:, None]).T

    @property
    def intercept(self):
        """Bias of every cluster: ndarray of float64, shape (c,). ``X @ coef.T + intercept`` are the logits."""
        return self._linear.b - self.coef @ self._context.scaler.center

    def weights(self, shape):
        """The weights in the shape of the input, (4, 38) for waveforms on four wires: shape (c, 4, 38)."""
        try:
            return self.coef.reshape(self.n_clusters, *shape)
        except ValueError:
            raise InputError(f"weights: {self.coef.shape[1]} columns do not make {tuple(shape)}") from None

    @cached_property
    def marginal(self):
        """Mean posterior: ndarray of float64, shape (c,)."""
        return self._sums.marginal

    @cached_property
    def _sums(self):
        return stages.found_information(self._context)

    @cached_property
    def means(self):
        """Mean row of every cluster, as it came, not scaled: ndarray of float64, shape (c, d); 0 rows give the mean."""
        return self._context.scaler.center + self._scaled_moments[0] * self._divisor

    @cached_property
    def spreads(self):
        """Standard deviation of the columns in every cluster, not scaled: ndarray of float64, shape (c, d)."""
        mean, square = self._scaled_moments
        return np.sqrt(np.maximum(square - mean**2, 0)) * self._divisor

    @property
    def _divisor(self):
        factor = self._context.scaler.factor
        return np.divide(1, factor, out=np.zeros_like(factor), where=factor != 0)

    @cached_property
    def _scaled_moments(self):
        return stages.found_shapes(self._context) / np.maximum(self._sums.counts, 1)[:, None]

    @cached_property
    def uncertain(self):
        """The rows of least certain cluster, the least certain first: a pandas DataFrame.

        ``row``, ``entropy`` of its posterior in nats, its ``label``, and ``other``, the next most probable cluster.
        """
        import pandas as pd

        reads = [self._run.reader("clusters", s) for s in self._context.source_blocks]
        rows, logs = (np.concatenate([r(name) for r in reads]) for name in ("rows", "log_posterior"))
        entropy = -np.einsum("ij,ij->i", np.exp(logs), logs)
        order = np.lexsort((rows, -entropy))[: stages.UNCERTAIN_ROWS]
        ranked = np.argsort(-logs[order], axis=1, kind="stable")
        other = ranked[:, min(1, ranked.shape[1] - 1)]
        return pd.DataFrame({"row": rows[order], "entropy": entropy[order], "label": ranked[:, 0], "other": other})

    @cached_property
    def path(self):
        """Strengths that were tried, ascending: a pandas DataFrame with ``reg``, ``alive``, ``objective``, ``lsmi``.

        LSMI is of the labels of up to 5,000 rows, and takes some seconds when it is first asked for.
        """
        import pandas as pd

        points = self.diagnostics["path"]
        found = pd.DataFrame(points, columns=["reg", "alive", "objective"])
        found["lsmi"] = scores_of(self._context, range(len(points)))
        return found.sort_values("reg", kind="stable", ignore_index=True)

    def _choice_lines(self):
        facts = self.diagnostics
        return [
            f"  categories {facts['n_init_categories']} to begin with, {facts['n_clusters']} alive at "
            f"reg = {facts['reg']:.3g}, {len(facts['path'])} strengths tried",
            f"  objective  {facts['objective']:.4f}",
        ]
