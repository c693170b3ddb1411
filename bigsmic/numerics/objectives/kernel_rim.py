"""Kernel RIM on a sparse kernel: coefficients and logits of row blocks, and their ascent by conjugate gradients.

The model is ``p(k|x_i) = softmax_k(z_i + b)`` with logits ``Z = K A``. Over n rows it maximises

    F = n H(mean_i p_i) - sum_i H(p_i) - reg sum_k |a_k|^2

The penalty is on the coefficients, as the local-scaling kernel is indefinite, so that ``a' K a`` may be negative. At
the maximum of F, A lies in the range of K. With ``A = K B`` the problem is RIM on the kernel K^2, which is positive
semi-definite; in the inner product ``<U, V> = tr(U' K^2 V)`` of that kernel the gradient is

    dF/dB = G - 2 reg B,      G_ik = p_ik (l_ik - sum_c p_ic l_ic),   l_ik = log(p_ik / mean_j p_jk)

and the problem is well conditioned: the Hessian's eigenvalues are within ``2 reg`` and ``2 reg + |K|^2 / 2``. So F is
maximised by conjugate gradients in that inner product. Logits are linear in B: a step along a direction whose image
under K^2 is known needs no product, and an iteration needs one image, that of the new gradient.

A :class:`KernelRows` has the rows of one shard; :func:`ascend` controls those of all workers.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import line_search

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.basis import Basis
from bigsmic.numerics.eigen.block_vectors import PANEL, WithDiagonal
from bigsmic.numerics.objectives.rim.logits import log_softmax
from bigsmic.numerics.row_blocks import Group, Shard, TreeSum, tiles
from bigsmic.types import Floats, Integers

COEFFICIENTS, LOGITS, DIRECTION, RISE, GRADIENT, PREVIOUS, IMAGE = range(7)
"""Columns kept for every row, c each: B, Z, direction and its image, gradient, the previous one, the newest image."""
SLOTS = 7
PRODUCT_COLUMNS = 16  # multiplied at a time, to bound the memory for all rows
_TINY = np.finfo(np.float32).tiny
_CURVATURE = 0.5  # of the strong Wolfe condition; finer searches cost more than the iterations that they save
_TRIALS = 10


@dataclass(frozen=True)
class AscentSettings:
    """Settings of the ascent.

    Parameters
    ----------
    reg : float
        Weight of the penalty, a multiple of 1/n in the objective per row; above 0.
    max_iter : int
        Largest number of iterations.
    tol : float
        Nats per row that two successive iterations must gain for the ascent to continue.
    """

    reg: float = 0.5
    max_iter: int = 200
    tol: float = 1e-6

    def __post_init__(self) -> None:
        if not 0 < self.reg < np.inf:
            raise InputError(f"reg: got {self.reg!r}; use a positive number, such as 0.5")
        if self.max_iter < 1:
            raise InputError(f"max_iter: got {self.max_iter}; use at least 1")
        if not 0 <= self.tol < np.inf:
            raise InputError(f"tol: got {self.tol!r}; use a number of at least 0, such as 1e-6")


class Optimum(NamedTuple):
    """Optimum reached by the ascent.

    Parameters
    ----------
    value : float
        Objective per row, in nats.
    bias : ndarray of float64, shape (c,)
    n_iter : int
    converged : bool
        Whether it ended because the gain fell below the tolerance.
    """

    value: float
    bias: np.ndarray
    n_iter: int
    converged: bool


# -- objectives over logits


class Information:
    """``n H(mean p) - sum_i H(p_i)``: rows times the information between rows and categories.

    ``sums`` adds up over rows; from the total, ``read`` computes the objective, its slope along a direction, and the
    quantities of all rows that ``gradient`` needs.
    """

    @staticmethod
    def sums(Z: Floats, D: Floats, labels: Integers | None = None) -> Floats:
        """Sums over rows of one pass.

        Parameters
        ----------
        Z, D : ndarray of float, shape (m, c)
            Logits, bias included, and their direction.
        labels : ignored

        Returns
        -------
        sums : ndarray of float64, shape (2 c + 2,)
            ``p``, ``dp``, ``sum_k p log p`` and ``sum_k dp log p``.
        """
        P, logs = _softmax(Z)
        dP = P * (D - _dot(P, D))
        columns = [P.sum(axis=0, dtype=np.float64), dP.sum(axis=0, dtype=np.float64)]
        return np.concatenate([*columns, [np.vdot(P, logs), np.vdot(dP, logs)]])

    @staticmethod
    def read(total: Floats, n: int) -> tuple[float, float, Floats]:
        """Objective, slope, and the logarithm of the mean posterior."""
        c = len(total) // 2 - 1
        log_mean = np.log(np.maximum(total[:c] / n, _TINY))
        return total[-2] - total[:c] @ log_mean, total[-1] - total[c : 2 * c] @ log_mean, log_mean

    @staticmethod
    def gradient(Z: Floats, log_mean: Floats, labels: Integers | None = None) -> Floats:
        """Derivative by the logits, (m, c)."""
        P, logs = _softmax(Z)
        gains = logs - log_mean.astype(logs.dtype)
        return P * (gains - _dot(P, gains))


class Likelihood:
    """``sum_i log p(y_i | x_i)`` of given labels, by the same three steps, for the start of the categories."""

    @staticmethod
    def sums(Z: Floats, D: Floats, labels: Integers) -> Floats:
        """``sum log p_y`` and its slope."""
        P, logs = _softmax(Z)
        rows = np.arange(len(Z))
        slopes = D[rows, labels] - _dot(P, D)[:, 0]
        return np.array([logs[rows, labels].sum(dtype=np.float64), slopes.sum(dtype=np.float64)])

    @staticmethod
    def read(total: Floats, n: int) -> tuple[float, float, None]:
        """Objective and slope; nothing else is needed."""
        return total[0], total[1], None

    @staticmethod
    def gradient(Z: Floats, _: None, labels: Integers) -> Floats:
        """Derivative by the logits, (m, c)."""
        P = _softmax(Z)[0]
        P[np.arange(len(Z)), labels] -= 1
        return -P


OBJECTIVES: dict[str, Any] = {"information": Information, "likelihood": Likelihood}


def _softmax(Z: Floats) -> tuple[Floats, Floats]:
    """Posteriors and their logarithms."""
    logs, P = log_softmax(np.array(Z))
    return P, logs


def _dot(P: Floats, Q: Floats) -> Floats:
    return np.einsum("ik,ik->i", P, Q)[:, None]


def posterior(Z: Floats, bias: Floats) -> tuple[Floats, Integers]:
    """Posteriors and labels of rows from their logits: float32 (m, c), int32 (m,)."""
    Z = Z + bias.astype(Z.dtype)
    P, _ = _softmax(Z)
    return P.astype(np.float32), np.argmax(Z, axis=1).astype(np.int32)


# -- the rows of one shard


class KernelRows:
    """Coefficients, logits and directions of the rows of one shard.

    Sums are over the rows of this shard; they are complete if the shard has all rows.

    Parameters
    ----------
    shard : Shard
    load_block : callable
        ``load_block(p)`` returns `numerics.graph.affinity.KernelBlock` p of K, without its diagonal, which is 1.
    basis : Basis
        Storage for ``7 c`` columns; its row blocks are those of the shard.
    labels : ndarray of int32, shape (rows of the shard,)
        Initial labels of the categories.
    """

    def __init__(self, shard: Shard, load_block: Callable[..., Any], basis: Basis, labels: Integers) -> None:
        self.shard, self.basis, self.labels = shard, basis, labels
        self.product = WithDiagonal(shard, load_block)
        self.c = basis.capacity // SLOTS
        self.shard.for_each_block(lambda p: basis.write(p - shard.blocks.start, 0, self._zeros(p)))

    def measure(self, objective: str, step: float, bias: Floats, bias_direction: Floats) -> Floats:
        """Sums of the objective and of the penalty, `step` along the direction; see :func:`_read`."""
        number, offset = self.basis.dtype.type(step), bias + step * bias_direction

        def task(p: int) -> Floats:
            B, Z, D, R = (self._read(p, slot) for slot in (COEFFICIENTS, LOGITS, DIRECTION, RISE))
            labels, total = self.labels[self.shard.rows(p)], []
            for tile in tiles(len(B), PANEL):
                b, z, r = B[tile] + number * D[tile], Z[tile] + number * R[tile], R[tile]
                parts = OBJECTIVES[objective].sums(*self._shifted(z, r, offset, bias_direction), labels[tile])
                total.append(np.concatenate([parts, [np.vdot(b, z), np.vdot(b, r)]]))
            return np.sum(total, axis=0)

        return self.shard.sum_over_blocks(task)

    def trial_step(self, objective: str, common: Floats | None, step: float, bias: Floats, reg: float) -> Floats:
        """Take `step` along the direction, compute the gradient there, and return the sums of G, float64 (c,)."""
        number = self.basis.dtype.type(step)

        def task(p: int) -> Floats:
            B = self._read(p, COEFFICIENTS) + number * self._read(p, DIRECTION)
            Z = self._read(p, LOGITS) + number * self._read(p, RISE)
            self._write(p, COEFFICIENTS, B)
            self._write(p, LOGITS, Z)
            self._write(p, PREVIOUS, self._read(p, GRADIENT))
            labels, total, H = self.labels[self.shard.rows(p)], [], np.empty_like(B)
            for tile in tiles(len(B), PANEL):
                z = Z[tile] + bias.astype(Z.dtype)
                G = OBJECTIVES[objective].gradient(z, common, labels[tile])
                total.append(G.sum(axis=0, dtype=np.float64))
                H[tile] = G - Z.dtype.type(2 * reg) * B[tile]
            self._write(p, GRADIENT, H)
            return np.sum(total, axis=0)

        return self.shard.sum_over_blocks(task)

    def image(self) -> Floats:
        """Multiply the gradient with K twice; return its inner products with itself and with the previous one."""
        for start in range(0, self.c, PRODUCT_COLUMNS):
            columns = slice(start, min(start + PRODUCT_COLUMNS, self.c))
            self._put(IMAGE, columns, self._times_kernel(self._times_kernel(self._take(GRADIENT, columns))))

        def task(p: int) -> Floats:
            image = self._read(p, IMAGE)
            return np.array([_inner(self._read(p, slot), image) for slot in (GRADIENT, PREVIOUS)])

        return self.shard.sum_over_blocks(task)

    def turn(self, factor: float) -> None:
        """``D <- H + factor D``, and its image."""
        number = self.basis.dtype.type(factor)

        def task(p: int) -> None:
            for old, new in ((DIRECTION, GRADIENT), (RISE, IMAGE)):
                self._write(p, old, self._read(p, new) + number * self._read(p, old))

        self.shard.for_each_block(task)

    def kernel_sum(self) -> float | TreeSum:
        """Sum of the entries of K, its diagonal included."""
        return self.shard.sum_over_blocks(
            lambda p: float(self.product.load_block(p).data.sum(dtype=np.float64) + self._height(p))
        )

    def finish(self) -> None:
        """Store the kernel's coefficients ``A = K B`` in place of the gradient."""
        for start in range(0, self.c, PRODUCT_COLUMNS):
            columns = slice(start, min(start + PRODUCT_COLUMNS, self.c))
            self._put(GRADIENT, columns, self._times_kernel(self._take(COEFFICIENTS, columns)))

    def coefficients(self, p: int) -> Floats:
        """A of one block after :meth:`finish`, shape (b, c)."""
        return np.ascontiguousarray(self._read(p, GRADIENT))

    def logits(self, p: int) -> Floats:
        """Z of one block without bias, shape (b, c)."""
        return np.ascontiguousarray(self._read(p, LOGITS))

    def _shifted(self, z: Floats, r: Floats, bias: Floats, bias_direction: Floats) -> tuple[Floats, Floats]:
        return z + bias.astype(z.dtype), r + bias_direction.astype(z.dtype)

    def _times_kernel(self, X: Floats) -> Floats:
        """``K X`` on the rows of the shard."""
        operand, out = self.product.operand(X), np.empty_like(X)

        def task(p: int) -> None:
            own = self.shard.rows(p)
            self.product.multiply(p, (1.0, 0.0, 0.0), operand, X[own], out[own])

        self.shard.for_each_block(task)
        return out

    def _take(self, slot: int, columns: slice) -> Floats:
        """Some columns of all rows of the shard, C-ordered."""
        X = np.empty((self.shard.n_rows, columns.stop - columns.start), self.basis.dtype)

        def task(p: int) -> None:
            X[self.shard.rows(p)] = self._read(p, slot)[:, columns]

        self.shard.for_each_block(task)
        return X

    def _put(self, slot: int, columns: slice, X: Floats) -> None:
        def task(p: int) -> None:
            first = slot * self.c + columns.start
            self.basis.write(p - self.shard.blocks.start, first, np.asfortranarray(X[self.shard.rows(p)]))

        self.shard.for_each_block(task)

    def _zeros(self, p: int) -> Floats:
        return np.zeros((self._height(p), self.basis.capacity), self.basis.dtype, order="F")

    def _height(self, p: int) -> int:
        return int(self.shard.bounds[p + 1] - self.shard.bounds[p])

    def _read(self, p: int, slot: int) -> Floats:
        return self.basis.read(p - self.shard.blocks.start, slot * self.c, (slot + 1) * self.c)

    def _write(self, p: int, slot: int, columns: Floats) -> None:
        self.basis.write(p - self.shard.blocks.start, slot * self.c, np.asfortranarray(columns))


def _inner(U: Floats, V: Floats) -> float:
    """``tr(U' V)`` with sums of tiles in float64."""
    return float(sum(np.vdot(U[tile], V[tile]) for tile in tiles(len(U), PANEL)))


# -- the ascent


def ascend(
    group: Group,
    n: int,
    objective: str,
    settings: AscentSettings,
    bias: Floats,
    on_step: Callable[..., Any] | None = None,
) -> Optimum:
    """Ascend from the current coefficients by conjugate gradients, with Hestenes and Stiefel's factor bounded by Dai's.

    Parameters
    ----------
    group : Group
        Of :class:`KernelRows`.
    n : int
        Rows of all shards.
    objective : {"information", "likelihood"}
    settings : AscentSettings
    bias : array_like of float, shape (c,)
    on_step : callable, optional
        ``on_step(iteration)``.

    Returns
    -------
    optimum : Optimum

    Raises
    ------
    InputError
        The objective is not finite.
    """
    ascent = _LineSearch(group, n, objective, settings, bias)
    gains = [np.inf, np.inf]
    iteration = 0
    while iteration < settings.max_iter and max(gains[-2:]) > settings.tol * n:
        before, iteration = ascent.value, iteration + 1
        moved = ascent.step()
        gains.append(ascent.value - before)
        if not moved:
            if ascent.steepest:
                gains.append(ascent.promise)
                break
            ascent.turn(0.0)
        if on_step is not None:
            on_step(iteration)
    converged = max(gains[-2:]) <= settings.tol * n
    return Optimum(float(ascent.value / n), ascent.bias, iteration, bool(converged))


class _LineSearch:
    """State of an ascent, and quantities of its previous step.

    The bias is an additional coordinate with a constant kernel, `weight`, so that it does not change faster than the
    rest.
    """

    def __init__(self, group: Any, n: int, objective: str, settings: AscentSettings, bias: Floats) -> None:
        self.group, self.n, self.objective, self.settings = group, n, objective, settings
        mean_degree = group.call_sum(("kernel_sum",)) / n
        self.weight = mean_degree**2 / n
        # the Hessian of a softmax is at most 1/2
        self.length = self.cautious = 1 / (2 * settings.reg + mean_degree**2 / 4)
        self.bias = np.array(bias, np.float64)
        self.bias_direction = np.zeros_like(self.bias)
        self.bias_gradient = np.zeros_like(self.bias)
        self.value, self.slope, self.common = self._measure(0.0)
        self._gradient(0.0)
        self.turn(0.0)

    @property
    def promise(self) -> float:
        """Gain of a cautious step as predicted by the gradient."""
        return self.squared * self.cautious / 2

    def step(self) -> bool:
        """Search along the direction, take the step, and choose a new direction; False if no step gains."""
        line = _Line(self._measure, self.length, self.value, self.slope)
        length = line.search()
        if length is None:
            return False
        self.value, ahead, self.common = line.at(length)
        drop, before = self.slope - ahead, self.squared
        self.bias = self.bias + length * self.bias_direction
        mixed = self._gradient(length)
        conjugate, dai_yuan = (self.squared - mixed) / drop, self.squared / drop
        self.turn(max(0.0, min(conjugate, dai_yuan)), ahead)
        self.length = length * before / max(self.slope, 1e-300)
        return True

    def turn(self, factor: float, ahead: float = 0.0) -> None:
        """Choose a new direction; `ahead` is the slope along the old one at the present point."""
        self.slope = self.squared + factor * ahead
        self.steepest = factor == 0.0 or self.slope <= 0
        if self.slope <= 0:
            factor, self.slope = 0.0, self.squared
        self.group.call(("turn", factor))
        self.bias_direction = self.weight * self.bias_gradient + factor * self.bias_direction

    def _gradient(self, length: float) -> float:
        """Take the step, and compute the gradient; return its inner product with the previous one."""
        old = self.bias_gradient
        call = ("trial_step", self.objective, self.common, length, self.bias, self.settings.reg)
        self.bias_gradient = self.group.call_sum(call)
        squared, mixed = self.group.call_sum(("image",))
        self.squared = squared + self.weight * self.bias_gradient @ self.bias_gradient
        return mixed + self.weight * self.bias_gradient @ old

    def _measure(self, step: float) -> tuple[Any, ...]:
        total = self.group.call_sum(("measure", self.objective, step, self.bias, self.bias_direction))
        value, slope, common = OBJECTIVES[self.objective].read(total[:-2], self.n)
        value, slope = value - self.settings.reg * total[-2], slope - 2 * self.settings.reg * total[-1]
        if not np.isfinite(value):
            raise InputError(
                f"reg: at {self.settings.reg:.3g}, the objective is {value} after a step of {step:.3g}; use one nearer "
                "to 0.5, or scale the kernel down"
            )
        return float(value), float(slope), common


class _Line:
    """The objective along one direction; each point is evaluated once."""

    def __init__(self, measure: Callable[..., Any], length: float, value: float, slope: float) -> None:
        self.measure, self.length, self.value, self.slope = measure, length, value, slope
        self.known: dict[float, tuple[Any, ...]] = {}

    def at(self, length: float) -> tuple[Any, ...]:
        """Objective, slope and common part at a length."""
        if length not in self.known:
            self.known[length] = self.measure(length)
        return self.known[length]

    def search(self) -> float | None:
        """Length at which the strong Wolfe conditions hold, or else the best one evaluated; None if none gains."""
        scale = self.length
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a search that does not converge: the best evaluated point is used
            found = line_search(
                lambda x: -self.at(x[0] * scale)[0],
                lambda x: np.array([-self.at(x[0] * scale)[1] * scale]),
                np.zeros(1),
                np.ones(1),
                gfk=np.array([-self.slope * scale]),
                old_fval=-self.value,
                c2=_CURVATURE,
                maxiter=_TRIALS,
            )[0]
        if found is not None and found * scale in self.known:
            return found * scale
        gains = {length: point[0] for length, point in self.known.items() if length > 0 and point[1] < self.slope}
        best = max(gains, key=gains.__getitem__, default=None)
        return best if best is not None and gains[best] > self.value else None
