"""Ascent by Adam on minibatches: a chain of rounds, each a task.

A round reads the state of the previous one, runs some epochs, and writes its own state.
"""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.objectives.rim.adam import Adam, batch_gradient, cosine
from bigsmic.numerics.objectives.rim.linear import Linear
from bigsmic.numerics.objectives.rim.logits import Weighting
from bigsmic.numerics.objectives.rim.path import refuse_divergence
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages.rim.ascent import Ascent
from bigsmic.stages.rim.classifier import aim, information, objective
from bigsmic.stages.rim.rows import labels, scaled, side_inputs, weighting
from bigsmic.types import Floats, Integers

READERS = 2  # threads that read ahead
LOOK_ROWS = 1 << 15  # after which an ascent checks for dead categories
DEAD_MASS = 0.01  # summed posterior over so many rows below which a category is dead, as it does not recover
FEW_LABELLED = 0.25  # of a batch, up to which labelled rows are in every one
LABELLED = "restart.labelled"  # temporary, deleted when the fit has ended
THROWN = 10.0  # fall, in units of the objective, that shows that a step has destroyed the classifier


def ascend_by_batches(job: Job, ascent: Ascent, model: Linear) -> Linear:
    """Maximise the objective by Adam on minibatches; return the classifier."""
    n = job.context.n
    if not job.run.done(ascent.stage, 0):
        _write_state(job.context, ascent, 0, Adam.start(model), [])
    n_labelled = job.context.cached("n_labelled", lambda: _count_labelled(job.context))  # of all ascents of a search
    is_in_all = 0 < n_labelled <= FEW_LABELLED * job.context.settings.batch_size
    if is_in_all:
        job.fill(LABELLED, [0], _keep_labelled)
    for r in range(1, ascent.rounds(n) + 1):
        job.fill(ascent.stage, [r], partial(_round, ascent=ascent, is_in_all=is_in_all))
        if r > 1:
            job.run.forget(ascent.stage, r - 2)
    read = job.run.reader(ascent.stage, ascent.rounds(n))
    found, rate = Linear(read("W"), read("b")), job.context.settings.learning_rate
    if n_labelled and not is_in_all:  # few batches have labelled rows, which stand for all and decide the objective
        before, lowest = (_objective(job, reached, ascent.reg) for reached in (model, found))
    else:
        history = read("history")
        before, lowest, tenth = history[0], history.min(), max(1, len(history) // 10)
        refuse_divergence(history[-tenth:].mean(), before, rate)
    if not lowest >= before - THROWN * max(1.0, abs(before)):  # the falling rate may have hidden it at the end
        refuse_divergence(lowest, before, rate)
    return found


def _count_labelled(context: Context) -> int:
    return int(sum((labels(context, s) >= 0).sum() for s in context.source_blocks))


def _objective(job: Job, model: Linear, reg: float) -> float:
    """Objective of all rows."""
    return objective(job.context, information(job, model), model, reg)


def _keep_labelled(context: Context, b: int) -> None:
    """Write the labelled rows of all blocks, with their weighting."""
    found: list[tuple[Any, ...]] = []
    for s in context.source_blocks:
        rows = np.flatnonzero(labels(context, s) >= 0)
        if len(rows):
            own: Any = weighting(context, s)[rows]
            found.append((scaled(context, s)[rows], own.weights, own.labels))
    arrays = zip(("X", "sample_weight", "labels"), zip(*found, strict=True), strict=True)
    context.run.write(LABELLED, b, {name: np.concatenate(parts) for name, parts in arrays if parts[0] is not None})


def _round(context: Context, r: int, ascent: Ascent, is_in_all: bool) -> None:
    """Run some epochs from the state that the previous round has written."""
    read = context.run.reader(ascent.stage, r - 1)
    model, first, second = (Linear(read(f"{name}W"), read(f"{name}b")) for name in ("", "first_", "second_"))
    state, history = Adam(model, first, second, int(read("steps"))), read("history").tolist()
    goal, settings, seen = aim(context, ascent.reg), context.settings, _Seen(ascent.n_fixed)
    known = _labelled(context) if is_in_all else None
    for done, X, weights, share in _batches(context, ascent, ascent.epochs(r, context.n)):
        n_rows = len(X)
        if known is not None:
            X, weights, share = *_joined(X, weights, known), 1.0
        F, gradient, mass = batch_gradient(X, state.model, goal, weights, share)
        if not np.isfinite(F):
            refuse_divergence(F, F, settings.learning_rate)
        state = state.step(gradient, settings.learning_rate * cosine(done), ascent.spread)
        history.append(F)
        living = seen.living(mass, n_rows)
        if living is not None:
            state = state.columns(living)
    _write_state(context, ascent, r, state, history)


def _labelled(context: Context) -> tuple[Floats, Weighting]:
    """All labelled rows, with their weighting."""
    read, names = context.run.reader(LABELLED, 0), ("sample_weight", "labels")
    return read("X"), Weighting(*(read(name) if name in side_inputs(context) else None for name in names))


def _joined(X: Floats, weights: Any, known: tuple[Floats, Weighting]) -> tuple[Floats, Weighting]:
    """The rows of a batch without a label, and all rows with one.

    If a few labelled rows came with their batches instead, each would count as many times as there are batches in one,
    and not at all in the others.
    """
    rows = np.flatnonzero(weights.labels < 0)
    pairs: Any = zip(weights[rows], known[1], strict=True)
    columns = (None if pair[0] is None else np.concatenate(pair) for pair in pairs)
    return np.concatenate([X[rows], known[0]]), Weighting(*columns)


class _Seen:
    """Summed posteriors of recent rows, by which an ascent finds dead categories.

    Parameters
    ----------
    n_fixed : int
        Number of first categories that are never dropped.
    """

    def __init__(self, n_fixed: int) -> None:
        self.n_fixed, self.n_rows = n_fixed, 0
        self.mass: Any = 0.0

    def living(self, mass: Floats, n_rows: int) -> NDArray[np.bool_] | None:
        """Living categories after a batch, bool, shape (k,); None unless it is time to check and some are dead.

        Parameters
        ----------
        mass : ndarray of float64, shape (k,)
            Summed posteriors of the batch.
        n_rows : int
            Rows of the batch.
        """
        self.mass, self.n_rows = self.mass + mass, self.n_rows + n_rows
        if self.n_rows < LOOK_ROWS:
            return None
        living = (self.mass > DEAD_MASS) | (np.arange(len(mass)) < self.n_fixed)
        self.mass, self.n_rows = 0.0, 0
        return None if living.all() else living


def _write_state(context: Context, ascent: Ascent, r: int, state: Adam, history: list[float]) -> None:
    names = ("", "first_", "second_")
    arrays = {
        f"{name}{key}": a for name, pair in zip(names, state[:3], strict=True) for key, a in pair._asdict().items()
    }
    arrays |= {"steps": np.asarray(state.steps), "history": np.asarray(history, np.float64)}
    context.run.write(ascent.stage, r, arrays)


def _batches(context: Context, ascent: Ascent, epochs: range) -> Iterator[tuple[float, Floats, Weighting, float]]:
    """Yield for each batch the share of the ascent done, its rows, their weighting, and their share of all rows."""
    seed, size = context.settings.seed, context.settings.batch_size
    for e, g, n_groups, (X, weights, rows) in _groups(context, ascent, epochs):
        n_batches = max(1, round(len(X) / size))
        order = np.argsort(row_uniform(seed, f"rows.{ascent.number}.{e}", rows), kind="stable")
        for i, batch in enumerate(np.array_split(order, n_batches)):
            done = (e + (g + i / n_batches) / n_groups) / ascent.n_epochs
            taken = slice(None) if n_batches == 1 else batch
            yield done, X[taken], weights[taken], len(batch) / context.n


def n_pools(context: Context) -> int:
    """Number of groups of blocks in an epoch; a batch has rows of one of them."""
    wanted = round(4 * context.n * context.d / context.block_sizes.pool_bytes)
    return max(1, min(wanted, len(context.source_blocks)))


def _groups(context: Context, ascent: Ascent, epochs: range) -> Iterator[tuple[int, int, int, Any]]:
    """Yield some blocks at a time, in a random order for every epoch, while the next ones are read."""
    n_groups = n_pools(context)
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


def _shuffled(context: Context, ascent: Ascent, e: int, n_groups: int) -> list[NDArray[Any]]:
    blocks = np.array(context.source_blocks)
    drawn = row_uniform(context.settings.seed, f"blocks.{ascent.number}.{e}", blocks)
    return np.array_split(blocks[np.argsort(drawn, kind="stable")], n_groups)


class _Coming:
    """Rows of blocks that are read ahead: while one thread waits for the disk, another one decodes and scales.

    Parameters
    ----------
    context : Context
    blocks : sequence or ndarray of int
    readers : ThreadPoolExecutor
    """

    def __init__(self, context: Context, blocks: Sequence[int] | Integers, readers: ThreadPoolExecutor) -> None:
        bounds = context.source_bounds
        self.context, self.rows = context, np.concatenate([np.arange(bounds[s], bounds[s + 1]) for s in blocks])
        self.X = np.empty((len(self.rows), context.d), np.float32)
        ends = np.cumsum([bounds[s + 1] - bounds[s] for s in blocks])
        self.parts = [readers.submit(self._read, int(s), int(end)) for s, end in zip(blocks, ends, strict=True)]

    def _read(self, s: int, end: int) -> Weighting:
        part = scaled(self.context, s)
        self.X[end - len(part) : end] = part
        return weighting(self.context, s)

    def wait(self) -> tuple[Floats, Weighting, Integers]:
        """Rows, their weighting, and their numbers."""
        weights = [part.result() for part in self.parts]
        columns = (None if column[0] is None else np.concatenate(column) for column in zip(*weights, strict=True))
        return self.X, Weighting(*columns), self.rows
