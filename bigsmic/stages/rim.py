"""rim: categories to begin with, the climb to where some of them stay alive, and what comes out.

A *climb* goes from one classifier to another at one strength of the penalty; what it reaches is a *point*. A climb by
minibatches is a chain of rounds, each a task that reads the state of the one before and writes its own; one by L-BFGS
is a row of evaluations, each two sums over blocks, which are kept and found again by a climb that begins anew.
"""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize

from bigsmic import rim
from bigsmic.context import PIECE_BYTES, Context, Job
from bigsmic.errors import CollapseError
from bigsmic.hashing import row_uniform
from bigsmic.moments import class_sums
from bigsmic.rim import Adam, Aim, Linear, Point, Reference, Weighting
from bigsmic.store import checksum

GROUP_BYTES = 32 << 20  # float32 bytes of the rows that batches are drawn from at a time
ROUND_ROWS = 1 << 21  # rows that go by between two checkpoints, roughly
LEAST_STEPS = 200  # of a climb by minibatches, where the number of epochs is not given
THROWN = 10.0  # how far down, in units of the objective, a step throws only a classifier that it leaves nothing of
UNCERTAIN_ROWS = 100  # that the run remembers


# --------------------------------------------------------------------------------------------------- rows


def scaled(context: Context, s: int):
    """Scaled rows of one block of input, float32; kept in memory where all rows are few."""
    if 4 * context.n * context.d <= PIECE_BYTES:
        return context.pieces.get(("scaled", s), partial(_scaled, context, s))
    return _scaled(context, s)


def _scaled(context, s):
    """The same in float32 throughout where the rows are no finer: a shift of all rows alike is a bias's to take."""
    X = context.source.read(*(int(b) for b in context.source_bounds[s : s + 2]))
    mean, factor = context.scaler.mean.astype(np.float32), context.scaler.factor.astype(np.float32)
    coarse = X.dtype.itemsize <= (4 if X.dtype.kind == "f" else 2)
    if not coarse or np.abs((context.scaler.mean - mean) * context.scaler.factor).max(initial=0) > 1e-6:
        return context.scaler.apply(X)
    X = np.subtract(X, mean, dtype=np.float32)
    X *= factor
    return X


def weighting(context: Context, s: int):
    """Weights and labels of one block of input."""
    names = beside(context)
    if not names:
        return rim.EVERY_ROW
    read = context.run.reader("beside", s)
    return Weighting(*(read(name) if name in names else None for name in ("sample_weight", "labels")))


def beside(context: Context):
    """Names of what came beside the rows."""
    return context.run.identity["input"].get("beside", {})


def keep_beside(job: Job):
    """Write what came beside the rows to the run directory, block by block."""
    context = job.context
    for s in context.source_blocks if job.beside else ():
        lo, hi = context.source_bounds[s : s + 2]
        if not job.run.done("beside", s):
            job.run.write("beside", s, {name: array[lo:hi] for name, array in job.beside.items()})


# -------------------------------------------------------------------------------------------------- start


def n_known(context: Context):
    """Categories that labels name: they stay first, alive or not."""
    if "labels" not in beside(context):
        return 0
    return 1 + max(int(context.run.read("beside", s, "labels").max()) for s in context.source_blocks)


def start(job: Job, attempt: int, reg: float):
    """Find categories to begin with, twice as many at each attempt; the number found."""
    job.steps("start", [attempt], partial(_start, reg=reg))
    return job.run.info("start", attempt)["categories"]


def _start(job, attempt, reg):
    context, settings = job.context, job.context.settings
    known = n_known(context)
    k = min(max(settings.first_categories(context.n) * 2**attempt, known), context.n)
    sample = context.sample
    centers, labels = rim.first_centers(sample, k, settings.seed, _known_centers(job, known) if known else None)
    order = _order(np.bincount(labels, minlength=len(centers)), settings.prior, known)
    place = np.argsort(order, kind="stable")
    model = rim.taught(sample, place[labels], len(centers), reg)
    job.run.write("start", attempt, model._asdict(), info={"categories": len(centers)})


def _known_centers(job, known):
    """Mean of the rows of each label; of all rows where a label has none."""
    sums = job.sum("start", job.context.source_blocks, partial(_class_sums, n_classes=known))
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


# ------------------------------------------------------------------------------------------- sums over all rows


def information(job: Job, model: Linear):
    """Sums over all rows for a classifier; it goes with the task, as it is small."""
    return job.sum("objective", job.context.source_blocks, partial(_information, model=model))


def _information(context, s, model):
    return rim.linear_information(scaled(context, s), model, weighting(context, s))


def _gradient(context, s, model, reference):
    return rim.linear_gradient(scaled(context, s), model, reference, weighting(context, s))


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


# -------------------------------------------------------------------------------------------------- minibatches


@dataclass(frozen=True)
class Climb:
    """A climb, as its tasks see it.

    Parameters
    ----------
    number : int
        Of the point that it leads to.
    reg : float
    n_epochs : int
    """

    number: int
    reg: float
    n_epochs: int

    @property
    def stage(self):
        """Where its states are."""
        return f"restart.climb.{self.number}"

    def epochs(self, r, n):
        """Epochs of round r, 1 and up."""
        each = max(1, ROUND_ROWS // n)
        return range((r - 1) * each, min(r * each, self.n_epochs))

    def rounds(self, n):
        """Number of rounds."""
        return -(-self.n_epochs // max(1, ROUND_ROWS // n))


def climb_by_batches(job: Job, climb: Climb, model: Linear):
    """Go up by Adam on minibatches; the classifier reached."""
    n = job.context.n
    if not job.run.done(climb.stage, 0):
        _write_state(job.context, climb, 0, Adam.start(model), [])
    for r in range(1, climb.rounds(n) + 1):
        job.fill(climb.stage, [r], partial(_round, climb=climb))
        if r > 1:
            job.run.forget(climb.stage, r - 2)
    read = job.run.reader(climb.stage, climb.rounds(n))
    history = read("history")
    tenth = max(1, len(history) // 10)
    rate = job.context.settings.learning_rate
    rim.refuse_divergence(history[-tenth:].mean(), history[0], rate)
    if history.min() < history[0] - THROWN * max(1.0, abs(history[0])):  # a falling rate may yet have hidden it
        rim.refuse_divergence(history.min(), history[0], rate)
    return Linear(read("W"), read("b"))


def _round(context, r, climb):
    """Some epochs, from the state that the round before has left."""
    read = context.run.reader(climb.stage, r - 1)
    model, first, second = (Linear(read(f"{name}W"), read(f"{name}b")) for name in ("", "first_", "second_"))
    state, history = Adam(model, first, second, int(read("steps"))), read("history").tolist()
    goal, settings = aim(context, climb.reg), context.settings
    for done, X, weights, share in _batches(context, climb, climb.epochs(r, context.n)):
        F, gradient = rim.batch_gradient(X, state.model, goal, weights, share)
        if not np.isfinite(F):
            rim.refuse_divergence(F, F, settings.learning_rate)
        state = state.step(gradient, settings.learning_rate * rim.cosine(done))
        history.append(F)
    _write_state(context, climb, r, state, history)


def _write_state(context, climb, r, state, history):
    names = ("", "first_", "second_")
    arrays = {
        f"{name}{key}": a for name, pair in zip(names, state[:3], strict=True) for key, a in pair._asdict().items()
    }
    arrays |= {"steps": np.asarray(state.steps), "history": np.asarray(history, np.float64)}
    context.run.write(climb.stage, r, arrays)


def _batches(context, climb, epochs):
    """Share of the climb that is done, rows, their weighting, and their share of all rows; batch by batch."""
    seed, size = context.settings.seed, context.settings.batch_size
    for e, g, n_groups, (X, weights, rows) in _groups(context, climb, epochs):
        n_batches = max(1, round(len(X) / size))
        order = np.argsort(row_uniform(seed, f"rows.{climb.number}.{e}", rows), kind="stable")
        for i, batch in enumerate(np.array_split(order, n_batches)):
            done = (e + (g + i / n_batches) / n_groups) / climb.n_epochs
            taken = slice(None) if n_batches == 1 else batch
            yield done, X[taken], weights[taken], len(batch) / context.n


def _groups(context, climb, epochs):
    """Blocks in an order drawn anew for every epoch, some at a time; the next ones are read meanwhile."""
    n_groups = max(1, round(4 * context.n * context.d / GROUP_BYTES))
    n_groups = min(n_groups, len(context.source_blocks))
    plan = [(e, g) for e in epochs for g in range(n_groups)]
    if n_groups == 1:
        whole = _read_group(context, context.source_blocks)
        yield from ((e, g, 1, whole) for e, g in plan)
        return
    blocks = {e: _shuffled(context, climb, e, n_groups) for e in epochs}
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(_read_group, context, blocks[plan[0][0]][0])
        for (e, g), after in itertools.zip_longest(plan, plan[1:]):
            group = coming.result()
            if after is not None:
                coming = reader.submit(_read_group, context, blocks[after[0]][after[1]])
            yield e, g, n_groups, group


def _shuffled(context, climb, e, n_groups):
    blocks = np.array(context.source_blocks)
    drawn = row_uniform(context.settings.seed, f"blocks.{climb.number}.{e}", blocks)
    return np.array_split(blocks[np.argsort(drawn, kind="stable")], n_groups)


def _read_group(context, blocks):
    """Rows of some blocks, their weighting, and their numbers."""
    bounds = context.source_bounds
    rows = np.concatenate([np.arange(bounds[s], bounds[s + 1]) for s in blocks])
    X, at, weights = np.empty((len(rows), context.d), np.float32), 0, []
    for s in blocks:
        part = scaled(context, int(s))
        X[at : at + len(part)] = part
        at += len(part)
        weights.append(weighting(context, int(s)))
    columns = (None if column[0] is None else np.concatenate(column) for column in zip(*weights, strict=True))
    return X, Weighting(*columns), rows


# ------------------------------------------------------------------------------------------------------- L-BFGS


def climb_by_gradients(job: Job, climb: Climb, model: Linear, max_iter: int):
    """Go up by L-BFGS on exact gradients; the classifier reached.

    An evaluation that the run directory has is not made again: the optimiser is deterministic, so a climb that was
    interrupted comes by the same places.
    """
    numbers = itertools.count()

    def loss(vector):
        i = next(numbers)
        F, slope = _kept_evaluation(job, climb, i, vector) or _evaluate(job, climb, i, vector)
        if not np.isfinite(F):
            raise CollapseError(f"rim: the objective became {F}; look for extreme rows, or use solver='minibatch'")
        return -F, -slope

    options = {"maxiter": max_iter, "ftol": 1e-7, "gtol": 1e-6}
    found = minimize(loss, model.vector, jac=True, method="L-BFGS-B", options=options)
    return Linear.of_vector(found.x, job.context.d)


def _kept_evaluation(job, climb, i, vector):
    """Objective and gradient of evaluation i, if it was made at the same place."""
    if not job.plan.checkpoints or not job.run.done(climb.stage, i):
        return None
    if job.run.info(climb.stage, i)["at"] != checksum(vector):
        return None
    read = job.run.reader(climb.stage, i)
    return float(read("F")), read("slope")


def _evaluate(job, climb, i, vector):
    """Objective and gradient at one place: a sum for the mean posterior, and one that needs it."""
    context, model = job.context, Linear.of_vector(vector, job.context.d)
    goal, sums = aim(context, climb.reg), information(job, model)
    task = partial(_gradient, model=model, reference=Reference.of(sums, goal.prior, goal.tau))
    slope = rim.penalised(job.sum("gradient", context.source_blocks, task), model, climb.reg)
    F = objective(context, sums, model, climb.reg)
    if job.plan.checkpoints:
        job.run.write(climb.stage, i, {"F": np.asarray(F), "slope": slope}, info={"at": checksum(vector)})
    return F, slope


# ------------------------------------------------------------------------------------------------------- points


class Search:
    """Points of a fit, numbered as they are asked for; those in the run directory are not climbed to again.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job):
        self.job, self.context, self.settings = job, job.context, job.context.settings
        self.known, self.attempt, self.count = n_known(self.context), 0, 0

    def solve(self, reg, parent):
        """The point reached at one strength from another point's living categories, or from the start."""
        model = read_model(self.context, "start", self.attempt) if parent is None else self.living(parent)
        return self.climb(reg, model, fresh=parent is None and self.settings.n_clusters is None)

    def climb(self, reg, model, fresh=False, polish=0):
        """The point reached at one strength from a classifier."""
        number, self.count = self.count, self.count + 1
        if not self.job.run.done("point", number):
            self._climb(Climb(number, float(reg), self._epochs(fresh)), model, polish)
        return Point(number, float(reg), self.job.run.info("point", number)["alive"])

    def _climb(self, climb, model, polish):
        job, settings = self.job, self.settings
        if polish or not settings.by_batches(self.context.n):
            model = climb_by_gradients(job, climb, model, polish or settings.max_iter)
        else:
            model = climb_by_batches(job, climb, model)
        sums = information(job, model)
        info = {
            "reg": climb.reg,
            "alive": int(self._kept(sums.counts).sum()),
            "objective": objective(self.context, sums, model, climb.reg),
        }
        arrays = model._asdict() | {"mass": sums.mass, "counts": sums.counts}
        job.run.write("point", climb.number, arrays, info=info)
        job.run.drop(climb.stage, [block for stage, block in job.run.blocks() if stage == climb.stage])

    def _epochs(self, fresh):
        """Epochs of a climb; twice as many from the start as on a path, which goes on."""
        n_epochs, settings = self.settings.n_epochs, self.settings
        if n_epochs is None:
            steps = max(1, round(self.context.n / settings.batch_size))
            n_epochs = max(1, math.ceil(LEAST_STEPS / steps))
        return 2 * n_epochs if fresh else n_epochs

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
        """The living categories of a point without the smallest ones; the others climb again after each that is closed.

        Where a climb would lose more than the one, the category's rows just go to the next best.
        """
        model, masses = self.living(point), self.masses(point)
        while model.n_categories > n_clusters:
            smallest = self.known + int(masses[self.known :].argmin())
            kept = np.arange(len(masses)) != smallest
            model, masses = model.columns(kept), masses[kept]
            found = self.climb(point.reg, model)
            if found.alive == model.n_categories:
                model, masses = self.living(found), self.masses(found)
        return model


# ------------------------------------------------------------------------------------------------------ output


def write_output(job: Job):
    """Labels and posteriors, and what clusters look like."""
    context, run = job.context, job.run
    model = read_model(context, "model", 0)
    rows = int(context.source_bounds[1])
    run.create("labels", (context.n,), rows, np.int32)
    run.create("posterior", (context.n, model.n_categories), rows, np.float32)
    for s in context.source_blocks:
        if not run.done("clusters", s):
            run.forget("output", s)
    job.fill("output", context.source_blocks, _write)


def _write(context, s):
    X = context.scaler.apply(context.source.read(*(int(b) for b in context.source_bounds[s : s + 2])))
    model, lo = read_model(context, "model", 0), int(context.source_bounds[s])
    logits = model.logits(X)
    labels = logits.argmax(axis=1).astype(np.int32)
    log_posterior, posterior = rim.log_softmax(logits)
    entropy = -np.einsum("ij,ij->i", posterior, log_posterior)
    rows = np.argsort(-entropy, kind="stable")[:UNCERTAIN_ROWS]
    arrays = {"rows": lo + rows, "entropy": entropy[rows], "posterior": posterior[rows]} | _shapes(X, labels, model)
    arrays |= rim.linear_information(X, model, weighting(context, s))._asdict()
    context.run.write("clusters", s, arrays)
    found = {"labels": labels, "posterior": posterior}
    for name, array in found.items():
        context.run.write_rows(name, lo, array)
    context.run.write("output", s, {}, info={name: checksum(array) for name, array in found.items()})


def _shapes(X, labels, model):
    """Sums of the scaled rows of every cluster, and of their squares."""
    member = (labels == np.arange(model.n_categories)[:, None]).astype(np.float32)
    return {"sums": (member @ X).astype(np.float64), "squares": (member @ np.square(X)).astype(np.float64)}


def found_information(context: Context):
    """Sums over all rows of the classifier that came out."""
    names = rim.Information._fields
    blocks = [rim.Information(*map(context.run.reader("clusters", s), names)) for s in context.source_blocks]
    return rim.Information(*(np.sum(field, axis=0) for field in zip(*blocks, strict=True)))
