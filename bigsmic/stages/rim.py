"""rim: categories to begin with, the ascent to where some of them stay alive, and what comes out.

A *ascent* goes from one classifier to another at one strength of the penalty; what it reaches is a *point*. An
ascent by
minibatches is a chain of rounds, each a task that reads the state of the one before and writes its own; one by L-BFGS
is a row of evaluations, each two sums over blocks by actors that keep what the second needs of the first; the
evaluations are kept and found again by an ascent that begins anew.
"""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

from bigsmic.errors import CollapseError
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.moments import class_sums
from bigsmic.numerics.objectives import rim
from bigsmic.numerics.objectives.rim import Adam, Aim, Linear, Point, Reference, Weighting
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import rowwise_output
from bigsmic.store import checksum

GROUP_BYTES = 32 << 20  # float32 bytes of the rows that batches are drawn from at a time
READERS = 2  # threads that read ahead of an ascent
ROUND_ROWS = 1 << 21  # rows that go by between two checkpoints, roughly
LEAST_STEPS = 200  # of an ascent by minibatches, where the number of epochs is not given; twice as many from the start
LOOK_ROWS = 1 << 15  # that go by before an ascent looks for categories that have died
DEAD_MASS = 0.01  # summed posterior over so many rows below which a category has: it comes back no more
THROWN = 10.0  # how far down, in units of the objective, a step throws only a classifier that it leaves nothing of
UNCERTAIN_ROWS = 100  # that the run remembers


# -- rows


def scaled(context: Context, s: int):
    """Scaled rows of one block of input, float32; kept where this process may keep all of them."""
    if 4 * context.n * context.d <= context.block_cache.limit:
        return context.block_cache.get(("scaled", s), partial(context.scaled_block, s))
    return context.scaled_block(s)


def keep_rows(context: Context):
    """Keep scaled rows in this process from now on."""
    context.block_cache.limit = max(context.block_cache.limit, 4 * context.n * context.d)


def weighting(context: Context, s: int):
    """Weights and labels of one block of input."""
    names = side_inputs(context)
    if not names:
        return rim.EVERY_ROW
    read = context.run.reader("side_inputs", s)
    return Weighting(*(read(name) if name in names else None for name in ("sample_weight", "labels")))


def side_inputs(context: Context):
    """Names of what came beside the rows."""
    return context.run.identity["input"].get("side_inputs", {})


def keep_side_inputs(job: Job):
    """Write what came beside the rows to the run directory, block by block."""
    context = job.context
    for s in context.source_blocks if job.side_inputs else ():
        lo, hi = context.source_bounds[s : s + 2]
        if not job.run.done("side_inputs", s):
            job.run.write("side_inputs", s, {name: array[lo:hi] for name, array in job.side_inputs.items()})


# -- start


def n_known(context: Context):
    """Categories that labels name: they stay first, alive or not."""
    if "labels" not in side_inputs(context):
        return 0
    return 1 + max(int(context.run.read("side_inputs", s, "labels").max()) for s in context.source_blocks)


def start(job: Job, attempt: int, reg: float):
    """Find categories to begin with, twice as many at each attempt; the number found."""
    job.run_steps("start", [attempt], partial(_start, reg=reg))
    return job.run.info("start", attempt)["categories"]


def _start(job, attempt, reg):
    context, settings = job.context, job.context.settings
    known = n_known(context)
    k = min(max(settings.first_categories(context.n) * 2**attempt, known), context.n)
    sample = context.sample
    centers, labels = rim.first_centers(sample, k, settings.seed, _known_centers(job, known) if known else None)
    order = _order(np.bincount(labels, minlength=len(centers)), settings.prior, known)
    place = np.argsort(order, kind="stable")
    model = rim.supervised_start(sample, place[labels], len(centers), reg)
    job.run.write("start", attempt, model._asdict(), info={"categories": len(centers)})


def _known_centers(job, known):
    """Mean of the rows of each label; of all rows where a label has none."""
    sums = job.sum_blocks("start", job.context.source_blocks, partial(_class_sums, n_classes=known))
    return (sums[:, :-1] / np.maximum(sums[:, -1:], 1)).astype(np.float32)


def _class_sums(context, s, n_classes):
    return class_sums(scaled(context, s), weighting(context, s).labels, n_classes)


def _order(sizes, prior, known):
    """Categories in an order in which the larger of them have the larger prior, which is best for the objective."""
    order = np.arange(len(sizes))
    if prior is None or isinstance(prior, str) or known:
        return order
    order[np.argsort(-np.asarray(prior)[: len(sizes)], kind="stable")] = np.argsort(-sizes, kind="stable")
    return order


# -- sums over all rows


def information(job: Job, model: Linear):
    """Sums over all rows for a classifier; it goes with the task, as it is small."""
    return job.sum_blocks("objective", job.context.source_blocks, partial(_information, model=model))


def _information(context, s, model):
    return rim.linear_information(scaled(context, s), model, weighting(context, s))


def read_model(context: Context, stage: str, block: int):
    """The classifier that a block of a stage holds."""
    read = context.run.reader(stage, block)
    return Linear(read("W"), read("b"))


def aim(context: Context, reg: float):
    """What is maximised at one strength."""
    settings = context.settings
    prior = settings.prior if settings.prior is None or isinstance(settings.prior, str) else np.array(settings.prior)
    return Aim(reg, prior, settings.tau)


def objective(context: Context, sums, model, reg):
    """F of all rows."""
    goal = aim(context, reg)
    return rim.objective(sums, goal.prior, goal.tau) - rim.penalty(model, reg)


# -- minibatches


@dataclass(frozen=True)
class Ascent:
    """An ascent, as its tasks see it.

    Parameters
    ----------
    number : int
        Of the point that it leads to.
    reg : float
    n_epochs : int
    spread : float
        Root mean square of a scaled column.
    n_fixed : int
        Categories, the first ones, that are never given up.
    """

    number: int
    reg: float
    n_epochs: int
    spread: float = 1.0
    n_fixed: int = 0

    @property
    def stage(self):
        """Where its states are."""
        return f"restart.ascent.{self.number}"

    def epochs(self, r, n):
        """Epochs of round r, 1 and up."""
        each = max(1, ROUND_ROWS // n)
        return range((r - 1) * each, min(r * each, self.n_epochs))

    def rounds(self, n):
        """Number of rounds."""
        return -(-self.n_epochs // max(1, ROUND_ROWS // n))


def ascend_by_batches(job: Job, ascent: Ascent, model: Linear):
    """Go up by Adam on minibatches; the classifier reached."""
    n = job.context.n
    if not job.run.done(ascent.stage, 0):
        _write_state(job.context, ascent, 0, Adam.start(model), [])
    for r in range(1, ascent.rounds(n) + 1):
        job.fill(ascent.stage, [r], partial(_round, ascent=ascent))
        if r > 1:
            job.run.forget(ascent.stage, r - 2)
    read = job.run.reader(ascent.stage, ascent.rounds(n))
    history = read("history")
    tenth = max(1, len(history) // 10)
    rate = job.context.settings.learning_rate
    rim.refuse_divergence(history[-tenth:].mean(), history[0], rate)
    if history.min() < history[0] - THROWN * max(1.0, abs(history[0])):  # a falling rate may yet have hidden it
        rim.refuse_divergence(history.min(), history[0], rate)
    return Linear(read("W"), read("b"))


def _round(context, r, ascent):
    """Some epochs, from the state that the round before has left."""
    read = context.run.reader(ascent.stage, r - 1)
    model, first, second = (Linear(read(f"{name}W"), read(f"{name}b")) for name in ("", "first_", "second_"))
    state, history = Adam(model, first, second, int(read("steps"))), read("history").tolist()
    goal, settings, seen = aim(context, ascent.reg), context.settings, _Seen(ascent.n_fixed)
    for done, X, weights, share in _batches(context, ascent, ascent.epochs(r, context.n)):
        F, gradient, mass = rim.batch_gradient(X, state.model, goal, weights, share)
        if not np.isfinite(F):
            rim.refuse_divergence(F, F, settings.learning_rate)
        state = state.step(gradient, settings.learning_rate * rim.cosine(done), ascent.spread)
        history.append(F)
        living = seen.living(mass, len(X))
        if living is not None:
            state = state.columns(living)
    _write_state(context, ascent, r, state, history)


class _Seen:
    """Summed posteriors of the rows that went by, by which an ascent finds categories that have died.

    Parameters
    ----------
    n_fixed : int
        Categories, the first ones, that are never given up.
    """

    def __init__(self, n_fixed):
        self.n_fixed, self.n_rows, self.mass = n_fixed, 0, 0.0

    def living(self, mass, n_rows):
        """Categories to go on with, bool, shape (k,), after a batch; None unless it is time to look and some are dead.

        Parameters
        ----------
        mass : ndarray of float64, shape (k,)
            Summed posteriors of the batch.
        n_rows : int
            Rows in it.
        """
        self.mass, self.n_rows = self.mass + mass, self.n_rows + n_rows
        if self.n_rows < LOOK_ROWS:
            return None
        living = (self.mass > DEAD_MASS) | (np.arange(len(mass)) < self.n_fixed)
        self.mass, self.n_rows = 0.0, 0
        return None if living.all() else living


def _write_state(context, ascent, r, state, history):
    names = ("", "first_", "second_")
    arrays = {
        f"{name}{key}": a for name, pair in zip(names, state[:3], strict=True) for key, a in pair._asdict().items()
    }
    arrays |= {"steps": np.asarray(state.steps), "history": np.asarray(history, np.float64)}
    context.run.write(ascent.stage, r, arrays)


def _batches(context, ascent, epochs):
    """Share of the ascent that is done, rows, their weighting, and their share of all rows; batch by batch."""
    seed, size = context.settings.seed, context.settings.batch_size
    for e, g, n_groups, (X, weights, rows) in _groups(context, ascent, epochs):
        n_batches = max(1, round(len(X) / size))
        order = np.argsort(row_uniform(seed, f"rows.{ascent.number}.{e}", rows), kind="stable")
        for i, batch in enumerate(np.array_split(order, n_batches)):
            done = (e + (g + i / n_batches) / n_groups) / ascent.n_epochs
            taken = slice(None) if n_batches == 1 else batch
            yield done, X[taken], weights[taken], len(batch) / context.n


def _groups(context, ascent, epochs):
    """Blocks in an order drawn anew for every epoch, some at a time; the next ones are read meanwhile."""
    n_groups = max(1, round(4 * context.n * context.d / GROUP_BYTES))
    n_groups = min(n_groups, len(context.source_blocks))
    plan = [(e, g) for e in epochs for g in range(n_groups)]
    with ThreadPoolExecutor(READERS) as readers:
        if n_groups == 1:
            whole = _Coming(context, context.source_blocks, readers).wait()
            yield from ((e, g, 1, whole) for e, g in plan)
            return
        blocks = {e: _shuffled(context, ascent, e, n_groups) for e in epochs}
        coming = _Coming(context, blocks[plan[0][0]][0], readers)
        for (e, g), after in itertools.zip_longest(plan, plan[1:]):
            group = coming.wait()
            if after is not None:
                coming = _Coming(context, blocks[after[0]][after[1]], readers)
            yield e, g, n_groups, group


def _shuffled(context, ascent, e, n_groups):
    blocks = np.array(context.source_blocks)
    drawn = row_uniform(context.settings.seed, f"blocks.{ascent.number}.{e}", blocks)
    return np.array_split(blocks[np.argsort(drawn, kind="stable")], n_groups)


class _Coming:
    """Rows of some blocks on their way to memory: while one reader waits for the disk, another one decodes and scales.

    Parameters
    ----------
    context : Context
    blocks : sequence of int
    readers : ThreadPoolExecutor
    """

    def __init__(self, context, blocks, readers):
        bounds = context.source_bounds
        self.context, self.rows = context, np.concatenate([np.arange(bounds[s], bounds[s + 1]) for s in blocks])
        self.X = np.empty((len(self.rows), context.d), np.float32)
        ends = np.cumsum([bounds[s + 1] - bounds[s] for s in blocks])
        self.parts = [readers.submit(self._read, int(s), int(end)) for s, end in zip(blocks, ends, strict=True)]

    def _read(self, s, end):
        part = scaled(self.context, s)
        self.X[end - len(part) : end] = part
        return weighting(self.context, s)

    def wait(self):
        """Rows, their weighting, and their numbers."""
        weights = [part.result() for part in self.parts]
        columns = (None if column[0] is None else np.concatenate(column) for column in zip(*weights, strict=True))
        return self.X, Weighting(*columns), self.rows


# -- L-BFGS


def ascend_by_gradients(job: Job, ascent: Ascent, model: Linear, max_iter: int):
    """Go up by L-BFGS on exact gradients; the classifier reached.

    An evaluation that the run directory has is not made again: the optimiser is deterministic, so an ascent that was
    interrupted comes by the same places.
    """
    make = partial(Sweeps, plan=job.plan)
    work = partial(_ascend, job, ascent, model, max_iter)
    return job.run_actors(f"ascent {ascent.number}", make, work, job.context.source_bounds)


def _ascend(job, ascent, model, max_iter, group):
    numbers, iterations = itertools.count(), itertools.count(1)

    def loss(vector):
        i = next(numbers)
        F, slope = _kept_evaluation(job, ascent, i, vector) or _evaluate(job, ascent, i, vector, group)
        if not np.isfinite(F):
            raise CollapseError(f"rim: the objective became {F}; look for extreme rows, or use solver='minibatch'")
        return -F, -slope

    def on_step(_):
        job.report(f"ascent {ascent.number}", next(iterations), max_iter)

    options = {"maxiter": max_iter, "ftol": 1e-7, "gtol": 1e-6}
    found = minimize(loss, model.vector, jac=True, method="L-BFGS-B", callback=on_step, options=options)
    return Linear.of_vector(found.x, job.context.d)


def _kept_evaluation(job, ascent, i, vector):
    """Objective and gradient of evaluation i, if it was made at the same place."""
    if not job.plan.checkpoints or not job.run.done(ascent.stage, i):
        return None
    if job.run.info(ascent.stage, i)["at"] != checksum(vector):
        return None
    read = job.run.reader(ascent.stage, i)
    return float(read("F")), read("slope")


def _evaluate(job, ascent, i, vector, group):
    """Objective and gradient at one place: a sweep for the mean posterior, and one that needs it."""
    context, model = job.context, Linear.of_vector(vector, job.context.d)
    goal, sums = aim(context, ascent.reg), group.call_sum(("information", model))
    reference = Reference.of(sums, goal.prior, goal.tau)
    slope = rim.penalised(group.call_sum(("gradient", reference)), model, ascent.reg)
    F = objective(context, sums, model, ascent.reg)
    if job.plan.checkpoints:
        job.run.write(ascent.stage, i, {"F": np.asarray(F), "slope": slope}, info={"at": checksum(vector)})
    return F, slope


class Sweeps:
    """The rows of one place, gone through twice for every gradient.

    Where memory holds the posteriors of all rows, the second time takes them from the first, and has one product of
    matrices instead of two; where it holds the rows, too, they are read once. The sums are the same bits.

    Parameters
    ----------
    context : Context
    shard : Shard
        Of the blocks of input.
    plan : bigsmic.methods.rim.planning.Plan
    """

    def __init__(self, context: Context, shard, plan):
        self.context, self.shard, self.plan = context, shard, plan
        self.log_posteriors: dict[int, np.ndarray] = {}
        if plan.rows_in_memory:
            keep_rows(context)

    def information(self, model: Linear):
        """Sums over all rows for a classifier."""

        def task(s):
            X = scaled(self.context, s)
            if self.plan.posteriors_in_memory:
                self.log_posteriors[s] = self._room(s, (len(X), model.n_categories))
            return rim.linear_information(X, model, weighting(self.context, s), self.log_posteriors.get(s))

        self.model = model
        return self.shard.sum_over_blocks(task)

    def _room(self, s, shape):
        """The array of the sweep before, or a first one."""
        kept = self.log_posteriors.get(s)
        return np.empty(shape, np.float32) if kept is None else kept

    def gradient(self, reference: Reference):
        """Sum over all rows of ``(x_i, 1) (dF/dz_i)'`` for the same classifier."""

        def task(s):
            arguments = (scaled(self.context, s), self.model, reference, weighting(self.context, s))
            return rim.linear_gradient(*arguments, self.log_posteriors.get(s))

        return self.shard.sum_over_blocks(task)


# -- points


class Search:
    """Points of a fit, numbered as they are asked for; those in the run directory are not ascended to again.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job):
        self.job, self.context, self.settings = job, job.context, job.context.settings
        self.known, self.attempt, self.count = n_known(self.context), 0, 0
        self.spread = rim.spread(self.context.sample)

    def solve(self, reg, parent):
        """The point reached at one strength from another point's living categories, or from the start."""
        model = read_model(self.context, "start", self.attempt) if parent is None else self.living(parent)
        return self.ascend(reg, model, fresh=parent is None and self.settings.n_clusters is None)

    def ascend(self, reg, model, fresh=False, polish=0):
        """The point reached at one strength from a classifier."""
        number, self.count = self.count, self.count + 1
        if not self.job.run.done("point", number):
            fixed = model.n_categories if isinstance(self.settings.prior, tuple) else self.known
            ascent = Ascent(number, float(reg), self._epochs(fresh), self.spread, fixed)
            self._ascend_to(ascent, model, polish)
        return Point(number, float(reg), self.job.run.info("point", number)["alive"])

    def _ascend_to(self, ascent, model, polish):
        job, settings = self.job, self.settings
        if polish or not settings.by_batches(self.context.n):
            model = ascend_by_gradients(job, ascent, model, polish or settings.max_iter)
        else:
            model = ascend_by_batches(job, ascent, model)
        sums = information(job, model)
        info = {
            "reg": ascent.reg,
            "alive": int(self._kept(sums.counts).sum()),
            "objective": objective(self.context, sums, model, ascent.reg),
        }
        arrays = model._asdict() | {"mass": sums.mass, "counts": sums.counts}
        job.run.write("point", ascent.number, arrays, info=info)
        job.run.drop(ascent.stage, [block for stage, block in job.run.blocks() if stage == ascent.stage])

    def _epochs(self, fresh):
        """Epochs of an ascent; a path goes on from where one was, and needs fewer."""
        if self.settings.n_epochs is not None:
            return self.settings.n_epochs
        steps = max(1, round(self.context.n / self.settings.batch_size))
        return math.ceil((2 if fresh else 1) * LEAST_STEPS / steps)

    def _kept(self, counts):
        """Categories that are alive, or that labels name."""
        return (counts > 0) | (np.arange(len(counts)) < self.known)

    def living(self, point):
        """The classifier of a point without the categories that have died."""
        kept = self._kept(self.job.run.read("point", point.number, "counts"))
        return read_model(self.context, "point", point.number).columns(kept)

    def masses(self, point):
        """Summed posteriors of the living categories of a point."""
        read = self.job.run.reader("point", point.number)
        return read("mass")[self._kept(read("counts"))]

    def close(self, point, n_clusters):
        """The living categories of a point without the smallest ones; the others ascend anew after each one closed.

        Where an ascent would lose more than the one, the category's rows just go to the next best.
        """
        model, masses = self.living(point), self.masses(point)
        while model.n_categories > n_clusters:
            smallest = self.known + int(masses[self.known :].argmin())
            kept = np.arange(len(masses)) != smallest
            model, masses = model.columns(kept), masses[kept]
            found = self.ascend(point.reg, model)
            if found.alive == model.n_categories:
                model, masses = self.living(found), self.masses(found)
        return model


# -- output


def write_output(job: Job):
    """Labels and posteriors, and what clusters look like."""
    context, run = job.context, job.run
    model = read_model(context, "model", 0)
    rowwise_output.create_arrays(context, ("labels", "posterior"), model.n_categories)
    for s in context.source_blocks:
        if not run.done("clusters", s):
            run.forget("output", s)
    job.fill("output", context.source_blocks, _write)


def _write(context, s):
    X, model, lo = scaled(context, s), read_model(context, "model", 0), int(context.source_bounds[s])
    logs = np.empty((len(X), model.n_categories), np.float32)
    sums = rim.linear_information(X, model, weighting(context, s), logs)
    labels, posterior = logs.argmax(axis=1).astype(np.int32), np.exp(logs)
    rows = np.argsort(np.einsum("ij,ij->i", posterior, logs), kind="stable")[:UNCERTAIN_ROWS]
    arrays = {"rows": lo + rows, "log_posterior": logs[rows], "shapes": _shapes(X, labels, model.n_categories)}
    context.run.write("clusters", s, arrays | {"information": np.concatenate([field.ravel() for field in sums])})
    rowwise_output.write(context, s, {"labels": labels, "posterior": posterior})


def _shapes(X, labels, k):
    """Sums of the scaled rows of every cluster, and of their squares, float64, shape (2, k, d)."""
    member = csr_array((np.ones(len(X), np.float32), (labels, np.arange(len(X)))), shape=(k, len(X)))
    return np.stack([member @ X, member @ np.square(X)]).astype(np.float64)


def found_information(context: Context):
    """Sums over all rows of the classifier that came out."""
    total = sum(context.run.read("clusters", s, "information") for s in context.source_blocks)
    k = (len(total) - 3) // 2
    weight, mass, negentropy, counts, likelihood = np.split(total, [1, 1 + k, 2 + k, 2 + 2 * k])
    return rim.Information(weight[0], mass, negentropy[0], counts.astype(np.int64), likelihood[0])


def found_shapes(context: Context):
    """Sums of the scaled rows of every cluster, and of their squares, shape (2, k, d)."""
    return sum(context.run.read("clusters", s, "shapes") for s in context.source_blocks)
