"""Concurrent ascents of the association from several starts, each with its own line search."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.block_vectors import Product
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.objectives.mwca.association import LEAST_MASS, direction, memberships
from bigsmic.numerics.row_blocks import Group, Shard, TreeSum
from bigsmic.types import Floats, Integers

DIRECTIONS = ("natural", "gradient")
FACTORS = (2.0, 0.5)  # of the last step, tried in one product
RETREAT = 0.125  # of the step, if neither gains
LEAST_STEP = 2.0**-40
START_LOGIT = 4.0  # of the label that a row starts with; memberships that are surer have smaller gradients
COLUMNS = 64  # multiplied at a time, to bound the memory for all rows


@dataclass(frozen=True)
class AscentSettings:
    """Settings of the ascent.

    Parameters
    ----------
    direction : {"natural", "gradient"}
    max_iter : int
        Largest number of products, without that of the start.
    tol : float
        Relative gain of a step below which a start has converged.
    """

    direction: str = "natural"
    max_iter: int = 100
    tol: float = 1e-6

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise InputError(f"direction: got {self.direction!r}; use one of {DIRECTIONS}")
        if self.max_iter < 1:
            raise InputError(f"max_iter: got {self.max_iter}; use at least 1")
        if not 0 <= self.tol < np.inf:
            raise InputError(f"tol: got {self.tol}; use a number of at least 0, such as 1e-6")


class AssociationRows:
    """Logits, and products of the memberships with G, of the rows of one shard, for several starts.

    Parameters
    ----------
    shard : Shard
    product : Product
    logits : ndarray of float32, shape (rows of the shard, n_starts, k)
    kind : {"natural", "gradient"}
    """

    def __init__(self, shard: Shard, product: Product, logits: Floats, kind: str = "natural") -> None:
        self.shard, self.product, self.kind = shard, product, kind
        self.logits, self.images = logits, np.zeros_like(logits)
        self.n = int(shard.bounds[-1])
        self._tried: np.ndarray = logits[:, :0]

    def trial_step(self, starts: list[int], steps: Floats, totals: Floats) -> Floats | TreeSum:
        """Try steps of several lengths for some starts; return mass and ``z'Gz`` of each.

        Parameters
        ----------
        starts : list of int
        steps : ndarray of float64, shape (len(starts), e)
            A step of 0 evaluates the start itself.
        totals : ndarray of float64, shape (len(starts), 2, k)
            Mass and association at the present points.

        Returns
        -------
        sums : ndarray of float64, shape (len(starts), e, 2, k)
        """
        k, (m, e) = self.logits.shape[2], steps.shape
        Z = np.empty((self.shard.n_rows, m, e, k), np.float32)

        def make(p: int) -> None:
            Z[self.shard.rows(p)] = memberships(self._moved(p, starts, steps, totals))

        self.shard.for_each_block(make)
        flat = Z.reshape(len(Z), -1)
        self._tried = np.empty_like(Z)
        images = self._tried.reshape(flat.shape)
        for lo in range(0, flat.shape[1], COLUMNS):
            columns = slice(lo, min(lo + COLUMNS, flat.shape[1]))
            self._multiply(np.ascontiguousarray(flat[:, columns]), images[:, columns])

        def add(p: Any) -> Floats:
            rows = self.shard.rows(p)
            mass = Z[rows].sum(axis=0, dtype=np.float64)
            return np.stack([mass, np.einsum("nsek,nsek->sek", Z[rows], self._tried[rows], dtype=np.float64)], axis=2)

        return self.shard.sum_over_blocks(add)

    def take(self, starts: list[int], steps: Floats, totals: Floats, chosen: list[int]) -> None:
        """Take the step ``chosen[i]`` of those tried for ``starts[i]``; none if it is negative."""

        def go(p: int) -> None:
            rows = self.shard.rows(p)
            moved = self._moved(p, starts, steps, totals)
            for i, (start, j) in enumerate(zip(starts, chosen, strict=True)):
                if j >= 0:
                    self.logits[rows, start] = moved[:, i, j]
                    self.images[rows, start] = self._tried[rows, i, j]

        self.shard.for_each_block(go)
        self._tried = self.logits[:, :0]

    def _moved(self, p: int, starts: list[int], steps: Floats, totals: Floats) -> Floats:
        """Logits of block p after every step, float32, shape (b, len(starts), e, k)."""
        rows, moved = self.shard.rows(p), []
        for start, lengths, total in zip(starts, steps, totals, strict=True):
            T = self.logits[rows, start]
            D = direction(self.kind, memberships(T), self.images[rows, start], total, self.n)
            T = T[:, None] + lengths.astype(np.float32)[:, None] * D[:, None]
            moved.append(np.maximum(T - T.max(axis=-1, keepdims=True), np.float32(-1e4)))
        return np.stack(moved, axis=1)

    def _multiply(self, Z: Floats, out: Floats) -> None:
        operand = self.product.operand(Z)

        def task(p: int) -> None:
            rows = self.shard.rows(p)
            self.product.multiply(p, (1.0, 0.0, 0.0), operand, Z[rows], out[rows])

        self.shard.for_each_block(task)


class State(NamedTuple):
    """State of the ascents from all starts.

    Parameters
    ----------
    values : ndarray of float64, shape (n_starts,)
        L.
    totals : ndarray of float64, shape (n_starts, 2, k)
        Mass N and association L_i of every cluster.
    lengths : ndarray of float64, shape (n_starts,)
        The last step.
    n_iter : ndarray of int64, shape (n_starts,)
        Number of products, without that of the start.
    converged : ndarray of bool, shape (n_starts,)
    """

    values: np.ndarray
    totals: np.ndarray
    lengths: np.ndarray
    n_iter: np.ndarray
    converged: np.ndarray

    @classmethod
    def fresh(cls, n_starts: int, k: int) -> "State":
        """State before any evaluation."""
        return cls(
            np.full(n_starts, -np.inf),
            np.zeros((n_starts, 2, k)),
            np.ones(n_starts),
            np.zeros(n_starts, np.int64),
            np.zeros(n_starts, bool),
        )

    @property
    def best(self) -> int:
        """The start of largest value; the first among equals."""
        return int(np.argmax(self.values))


def ascend(
    group: Group,
    shape: tuple[int, int, int],
    settings: AscentSettings,
    state: State | None = None,
    on_step: Callable[..., Any] | None = None,
) -> State:
    """Ascend from all starts concurrently, each with its own line search.

    In one product a start tries twice and half its last step, and takes the better one if it gains. If neither gains,
    the step is reduced to an eighth. A start has converged when a step gains less than `tol`, or the step vanishes.

    Parameters
    ----------
    group : Group
        Of :class:`AssociationRows`.
    shape : tuple of int
        Rows, starts, clusters.
    settings : AscentSettings
    state : State, optional
        State to continue from; the rows must have the logits that belong to it.
    on_step : callable, optional
        ``on_step(iteration, state)``.

    Raises
    ------
    InputError
        The association is not finite.
    """
    n, n_starts, k = shape
    ascent = _LineSearch(group, n, state or State.fresh(n_starts, k))
    if state is None:
        ascent.measure()
    while ascent.active and ascent.n_iter.max() < settings.max_iter:
        ascent.step(settings.tol)
        if on_step is not None:
            on_step(int(ascent.n_iter.max()), ascent.state)
    return ascent.state


class _LineSearch:
    """Concurrent line searches of all starts."""

    def __init__(self, group: Any, n: int, state: State) -> None:
        self.group, self.n = group, n
        self.values, self.totals, self.lengths, self.n_iter, self.converged = (np.array(part) for part in state)

    @property
    def state(self) -> State:
        """A copy of the state."""
        return State(*(part.copy() for part in (self.values, self.totals, self.lengths, self.n_iter, self.converged)))

    @property
    def active(self) -> list[int]:
        """Starts that have not converged."""
        return np.flatnonzero(~self.converged).tolist()

    def measure(self) -> None:
        """Evaluate the association of the starts."""
        self._go(np.zeros((len(self.values), 1)))

    def step(self, tol: float) -> None:
        """Try steps for every start that has not converged."""
        starts = self.active
        before = self.values[starts]
        chosen = self._go(self.lengths[starts, None] * FACTORS)
        for start, j, value in zip(starts, chosen, before, strict=True):
            self.n_iter[start] += 1
            self.lengths[start] *= RETREAT if j < 0 else FACTORS[j]
            gained = j >= 0 and self.values[start] - value > tol * abs(value)
            self.converged[start] = self.lengths[start] < LEAST_STEP if j < 0 else not gained

    def _go(self, steps: Floats) -> Integers:
        """Take the best step of each active start if it gains; return its number, -1 for none."""
        starts = self.active
        here = self.totals[starts]
        sums = self.group.call_sum(("trial_step", starts, steps, here))
        mass = sums[:, :, 0]
        within = sums[:, :, 1] / np.maximum(mass, LEAST_MASS * self.n)
        values = within.sum(axis=-1)
        if not np.isfinite(values).all():
            raise InputError(
                "mwca: the association is not finite; use a larger sigma, or scale the kernel function down"
            )
        best = values.argmax(axis=1)
        chosen = np.where(values[np.arange(len(starts)), best] > self.values[starts], best, -1)
        self.group.call(("take", starts, steps, here, chosen.tolist()))
        for i in np.flatnonzero(chosen >= 0):
            start, j = starts[i], chosen[i]
            self.values[start] = values[i, j]
            self.totals[start] = mass[i, j], within[i, j]
        return chosen


def random_logits(seed: int, start: int, positions: Integers, k: int) -> Floats:
    """Logits of a random start: hashed uniform numbers in [-1, 1), float32, shape (b, k)."""
    columns = [2 * row_uniform(seed, f"mwca start {start} {j}", positions) - 1 for j in range(k)]
    return np.stack(columns, axis=1).astype(np.float32)


def logits_of(labels: Integers, k: int) -> Floats:
    """Logits of a start from labels: :data:`START_LOGIT` for the label, 0 elsewhere, float32, shape (b, k)."""
    return (START_LOGIT * (labels[:, None] == np.arange(k))).astype(np.float32)
