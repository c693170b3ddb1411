"""Maximum within-cluster association: memberships whose Parzen densities overlap least, by ascent.

With ``G_nm = exp(-|x_n - x_m|^2 / (4 sigma^2))``, the product of two Gaussians of width sigma integrated, and
memberships ``z_in = softmax_i(theta_in)`` that add up to N_i,

    L = sum_i L_i,    L_i = z_i' G z_i / N_i

which is, up to a constant, minus the squared distances of the clusters' densities from that of all rows, weighted by
N_i. The derivative by a membership, and by a logit, are

    a_in = dL/dz_in = (2 [G z_i]_n - L_i) / N_i,       dL/dtheta_in = z_in (a_in - sum_j z_jn a_jn)

G enters through products with columns alone, so it is never held: neither the dense one, whose tiles are made and
dropped, nor the sparse one, which is read block by block. Steps of several lengths, of several starts, share a product.

References
----------
.. [1] Lee, Choi, "Maximum within-cluster association", Pattern Recognition Letters 26, 2005.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.block_vectors import Product
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.row_blocks import Group, Shard

WIDTHS = ("deviation", "quartile", "likelihood")
DIRECTIONS = ("natural", "gradient")
FACTORS = (2.0, 0.5)  # of the last step that are tried in one product
RETREAT = 0.125  # of the step, where neither gains
LEAST_STEP = 2.0**-40
COLUMNS = 64  # multiplied at a time: bounds what is in memory of all rows
_TILE = 512, 2048  # rows and columns of G at a time: stays in the processor's cache
_REACH = 4096.0  # squared norm in units of 2 sigma, beyond which float32 is too coarse for distances
_LIKELIHOOD_ROWS = 2000
_LIKELIHOOD_GRID = 2.0 ** (np.arange(-8, 5) / 2)
_FOLDS = 5
_LEAST_MASS = 1e-12  # of all rows: what an empty cluster is divided by


# -- the kernel and its width


class Gaussian(NamedTuple):
    """``exp(-d^2 / (4 sigma^2))`` as a weight of graph edges, float32.

    Parameters
    ----------
    sigma : float
        Width of the Parzen windows.
    """

    sigma: float

    def __call__(self, squares, sigma_i, sigma_j):
        """Weights of edges of squared lengths `squares`; local scales are not used."""
        return np.exp(-np.asarray(squares) / np.float32(4 * self.sigma**2))


def bandwidth(rule, n, variances, sample, seed=0):
    """Width sigma of the Parzen windows.

    Parameters
    ----------
    rule : {"deviation", "quartile", "likelihood"} or float
        ``1.06 s n^-0.2`` with s^2 the mean variance of the columns ([1]_ eq. 36); ``1.06 min(s, R / 1.34) n^-0.2``
        with R the mean interquartile range (eq. 37); or the multiple of the first, from 1/16 to 4, at which rows that
        are held out are most likely; or a number.
    n : int
        Rows.
    variances : ndarray of float64, shape (d,)
    sample : ndarray of float, shape (m, d)
        Rows for what is estimated from rows.
    seed : int

    Returns
    -------
    sigma : float

    Raises
    ------
    InputError
        It is not positive: the rows coincide, or half of them do.
    """
    if not isinstance(rule, str):
        return float(rule)
    s = np.sqrt(variances.mean())
    if rule == "quartile":
        low, high = np.quantile(sample.astype(np.float64), (0.25, 0.75), axis=0)
        s = min(s, (high - low).mean() / 1.34)
    sigma = 1.06 * s * n**-0.2
    if sigma > 0 and rule == "likelihood":
        sigma = _most_likely(sigma * _LIKELIHOOD_GRID, sample, n, seed)
    if not sigma > 0:
        raise InputError(f"sigma: the rule {rule!r} gives a width of {sigma:g}, as rows coincide; give a number")
    return float(sigma)


def _most_likely(widths, sample, n, seed):
    """The width of largest held-out likelihood on some rows, brought to n rows as the optimal width goes."""
    drawn = np.argsort(row_uniform(seed, "mwca likelihood", np.arange(len(sample))))[:_LIKELIHOOD_ROWS]
    X = sample[drawn].astype(np.float64)
    m, d = X.shape
    squares = np.maximum((X**2).sum(axis=1)[:, None] + (X**2).sum(axis=1) - 2 * X @ X.T, 0)
    fold = np.arange(m) % _FOLDS  # of rows in random order
    squares[fold[:, None] == fold] = np.inf
    known = np.isfinite(squares).sum(axis=1)
    if (known == 0).any():
        raise InputError(f"sigma: 'likelihood' holds rows out and needs at least {_FOLDS} rows; got {m}")
    scores = [(logsumexp(-squares / (2 * w**2), axis=1) - np.log(known)).mean() - d * np.log(w) for w in widths]
    return widths[int(np.argmax(scores))] * (m / n) ** (1 / (d + 4))


def add_gaussian_product(X, Y, Z, sigma, out):
    """``out += G(X, Y) Z``, tile by tile.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    Y : ndarray of float32, shape (m, d)
    Z : ndarray of float32, shape (m, w)
    sigma : float
    out : ndarray of float64, shape (b, w)
    """
    A, B = _halves(X, sigma), _halves(Y, sigma)
    reach = max((half**2).sum(axis=1).max(initial=0) for half in (A, B))
    dtype = np.float32 if reach < _REACH else np.float64
    left: np.ndarray = np.column_stack([2 * A, -(A**2).sum(axis=1), np.ones(len(A))]).astype(dtype)
    right: np.ndarray = np.column_stack([B, np.ones(len(B)), -(B**2).sum(axis=1)]).astype(dtype).T
    for i in range(0, len(X), _TILE[0]):
        rows = slice(i, i + _TILE[0])
        for j in range(0, len(Y), _TILE[1]):
            tile = (left[rows] @ right[:, j : j + _TILE[1]]).astype(np.float32, copy=False)
            np.minimum(tile, 0, out=tile)
            np.exp(tile, out=tile)
            out[rows] += tile @ Z[j : j + _TILE[1]]


def _halves(X, sigma):
    return X.astype(np.float64) / (2 * sigma)


class DenseProduct:
    """G of all rows, as it multiplies those of one shard; a :class:`bigsmic.numerics.eigen.block_vectors.Product`.

    Parameters
    ----------
    shard : Shard
    load_rows : callable
        ``load_rows(p)`` returns the rows of block p, float32, (b, d); any block.
    sigma : float
    """

    def __init__(self, shard: Shard, load_rows, sigma: float):
        self.shard, self.load_rows, self.sigma = shard, load_rows, sigma
        first = shard.blocks.start
        outside = np.concatenate([np.arange(shard.lo), np.arange(shard.hi, shard.bounds[-1])])
        self._halo = shard.halo(lambda p: outside if p == first else outside[:0])

    def operand(self, X):
        """X, and then the rows of others."""
        return self._halo.extend(X)

    def multiply(self, p, factors, operand, Y, out):
        """One row block of ``out = a G X - b X - g Y``."""
        a, b, g = factors
        rows = self.load_rows(p)
        total = np.zeros((len(rows), operand.shape[1]))
        for q in range(len(self.shard.bounds) - 1):
            add_gaussian_product(rows, self.load_rows(q), operand[self._place(q)], self.sigma, total)
        total *= a
        if b:
            total -= b * operand[self.shard.rows(p)]
        if g:
            total -= g * Y
        out[...] = total

    def _place(self, q):
        """Where the rows of block q lie in an operand: own ones first, then others in order."""
        shard, (lo, hi) = self.shard, (int(bound) for bound in self.shard.bounds[q : q + 2])
        if q in shard.blocks:
            return shard.rows(q)
        shift = shard.n_rows if q < shard.blocks.start else 0
        return slice(lo + shift, hi + shift)


# -- memberships, association, gradient


def memberships(logits):
    """Softmax over the last axis."""
    Z = np.exp(logits - logits.max(axis=-1, keepdims=True))
    Z /= Z.sum(axis=-1, keepdims=True)
    return Z


def association(Z, GZ):
    """``N_i`` and ``L_i`` of every cluster.

    Parameters
    ----------
    Z, GZ : ndarray of float, shape (n, k)
        Memberships, and their products with G.

    Returns
    -------
    mass, within : ndarray of float64, shape (k,)
    """
    mass = Z.sum(axis=0, dtype=np.float64)
    return mass, np.einsum("nk,nk->k", Z, GZ, dtype=np.float64) / np.maximum(mass, _LEAST_MASS * len(Z))


def pull(GZ, mass, within, n):
    """``dL/dz``, shape (b, k); a cluster without mass pulls nothing."""
    return (2 * GZ - within) / np.maximum(mass, _LEAST_MASS * n)


def centred(Z, pulls):
    """Pulls less their mean under the memberships of the row."""
    return pulls - np.einsum("...k,...k->...", Z, pulls)[..., None]


def gradient(Z, GZ):
    """``dL/dtheta`` of all rows, shape (n, k); [1]_ eq. 28 and 29."""
    mass, within = association(Z, GZ)
    return Z * centred(Z, pull(GZ, mass, within, len(Z)))


def direction(kind, Z, GZ, totals, n):
    """Where the logits go, times n: along the gradient, or along the pulls.

    The pulls, centred, are the gradient in the metric of the memberships (Fisher's): it does not vanish where
    memberships are near 0 or 1, as that in the logits does, and both vanish together otherwise.

    Parameters
    ----------
    kind : {"natural", "gradient"}
    Z, GZ : ndarray of float32, shape (b, k)
    totals : ndarray of float64, shape (2, k)
        Mass and association of the clusters over all rows.
    n : int
        Rows.
    """
    mass, within = totals
    D = centred(Z, (n * pull(GZ, mass, within, n)).astype(np.float32))
    return D if kind == "natural" else Z * D


# -- the ascent


@dataclass(frozen=True)
class AscentSettings:
    """How far to ascend, and how.

    Parameters
    ----------
    direction : {"natural", "gradient"}
    max_iter : int
        Products at most, that of the start not counted.
    tol : float
        Relative gain of a step below which a start has converged.
    """

    direction: str = "natural"
    max_iter: int = 100
    tol: float = 1e-6

    def __post_init__(self):
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

    def __init__(self, shard: Shard, product: Product, logits, kind="natural"):
        self.shard, self.product, self.kind = shard, product, kind
        self.logits, self.images = logits, np.zeros_like(logits)
        self.n = int(shard.bounds[-1])
        self._tried: np.ndarray = logits[:, :0]

    def trial_step(self, starts, steps, totals):
        """Try steps of several lengths for some starts; return mass and ``z'Gz`` of each.

        Parameters
        ----------
        starts : list of int
        steps : ndarray of float64, shape (len(starts), e)
            A step of 0 along no direction measures the start itself.
        totals : ndarray of float64, shape (len(starts), 2, k)
            Mass and association where the starts are.

        Returns
        -------
        sums : ndarray of float64, shape (len(starts), e, 2, k)
        """
        k, (m, e) = self.logits.shape[2], steps.shape
        Z = np.empty((self.shard.n_rows, m, e, k), np.float32)

        def make(p):
            Z[self.shard.rows(p)] = memberships(self._moved(p, starts, steps, totals))

        self.shard.for_each_block(make)
        flat = Z.reshape(len(Z), -1)
        self._tried = np.empty_like(Z)
        images = self._tried.reshape(flat.shape)
        for lo in range(0, flat.shape[1], COLUMNS):
            columns = slice(lo, min(lo + COLUMNS, flat.shape[1]))
            self._multiply(np.ascontiguousarray(flat[:, columns]), images[:, columns])

        def add(p):
            rows = self.shard.rows(p)
            mass = Z[rows].sum(axis=0, dtype=np.float64)
            return np.stack([mass, np.einsum("nsek,nsek->sek", Z[rows], self._tried[rows], dtype=np.float64)], axis=2)

        return self.shard.sum_over_blocks(add)

    def take(self, starts, steps, totals, chosen):
        """Go the step ``chosen[i]`` of those tried for ``starts[i]``; a negative one stays where it is."""

        def go(p):
            rows = self.shard.rows(p)
            moved = self._moved(p, starts, steps, totals)
            for i, (start, j) in enumerate(zip(starts, chosen, strict=True)):
                if j >= 0:
                    self.logits[rows, start] = moved[:, i, j]
                    self.images[rows, start] = self._tried[rows, i, j]

        self.shard.for_each_block(go)
        self._tried = self.logits[:, :0]

    def _moved(self, p, starts, steps, totals):
        """Logits of block p after every step, float32, shape (b, len(starts), e, k)."""
        rows, moved = self.shard.rows(p), []
        for start, lengths, total in zip(starts, steps, totals, strict=True):
            T = self.logits[rows, start]
            D = direction(self.kind, memberships(T), self.images[rows, start], total, self.n)
            T = T[:, None] + lengths.astype(np.float32)[:, None] * D[:, None]
            moved.append(np.maximum(T - T.max(axis=-1, keepdims=True), np.float32(-1e4)))
        return np.stack(moved, axis=1)

    def _multiply(self, Z, out):
        operand = self.product.operand(Z)

        def task(p):
            rows = self.shard.rows(p)
            self.product.multiply(p, (1.0, 0.0, 0.0), operand, Z[rows], out[rows])

        self.shard.for_each_block(task)


class State(NamedTuple):
    """Where every start is.

    Parameters
    ----------
    values : ndarray of float64, shape (n_starts,)
        L.
    totals : ndarray of float64, shape (n_starts, 2, k)
        Mass N and association L_i of every cluster.
    lengths : ndarray of float64, shape (n_starts,)
        The last step.
    n_iter : ndarray of int64, shape (n_starts,)
        Products, that of the start not counted.
    converged : ndarray of bool, shape (n_starts,)
    """

    values: np.ndarray
    totals: np.ndarray
    lengths: np.ndarray
    n_iter: np.ndarray
    converged: np.ndarray

    @classmethod
    def fresh(cls, n_starts, k):
        """Before anything was measured."""
        return cls(
            np.full(n_starts, -np.inf),
            np.zeros((n_starts, 2, k)),
            np.ones(n_starts),
            np.zeros(n_starts, np.int64),
            np.zeros(n_starts, bool),
        )

    @property
    def best(self):
        """The start that is highest; the first among equals."""
        return int(np.argmax(self.values))


def ascend(group: Group, shape, settings: AscentSettings, state: State | None = None, on_step=None) -> State:
    """Ascend from all starts side by side, each with a line search of its own.

    In one product a start tries twice and half its last step, and goes the better one if it gains. Where neither does,
    the step becomes an eighth. It has converged when it goes on and gains less than `tol`, or the step is nothing.

    Parameters
    ----------
    group : Group
        Of :class:`AssociationRows`.
    shape : tuple of int
        Rows, starts, clusters.
    settings : AscentSettings
    state : State, optional
        To go on from; the rows are where they were with it.
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
    """A state that goes on."""

    def __init__(self, group, n, state):
        self.group, self.n = group, n
        self.values, self.totals, self.lengths, self.n_iter, self.converged = (np.array(part) for part in state)

    @property
    def state(self):
        """A copy of where the starts are."""
        return State(*(part.copy() for part in (self.values, self.totals, self.lengths, self.n_iter, self.converged)))

    @property
    def active(self):
        """Starts that are on their way."""
        return np.flatnonzero(~self.converged).tolist()

    def measure(self):
        """Find the association of the starts."""
        self._go(np.zeros((len(self.values), 1)))

    def step(self, tol):
        """Try steps for every start that is still on its way."""
        starts = self.active
        before = self.values[starts]
        chosen = self._go(self.lengths[starts, None] * FACTORS)
        for start, j, value in zip(starts, chosen, before, strict=True):
            self.n_iter[start] += 1
            self.lengths[start] *= RETREAT if j < 0 else FACTORS[j]
            gained = j >= 0 and self.values[start] - value > tol * abs(value)
            self.converged[start] = self.lengths[start] < LEAST_STEP if j < 0 else not gained

    def _go(self, steps):
        """Go the best step of each active start if it gains; return which, -1 for none."""
        starts = self.active
        here = self.totals[starts]
        sums = self.group.call_sum(("trial_step", starts, steps, here))
        mass = sums[:, :, 0]
        within = sums[:, :, 1] / np.maximum(mass, _LEAST_MASS * self.n)
        values = within.sum(axis=-1)
        if not np.isfinite(values).all():
            raise InputError("mwca: the association is not finite; scale the kernel down")
        best = values.argmax(axis=1)
        chosen = np.where(values[np.arange(len(starts)), best] > self.values[starts], best, -1)
        self.group.call(("take", starts, steps, here, chosen.tolist()))
        for i in np.flatnonzero(chosen >= 0):
            start, j = starts[i], chosen[i]
            self.values[start] = values[i, j]
            self.totals[start] = mass[i, j], within[i, j]
        return chosen


def random_logits(seed, start, positions, k):
    """Logits of a random start: hashed uniform numbers in [-1, 1), float32, shape (b, k)."""
    columns = [2 * row_uniform(seed, f"mwca start {start} {j}", positions) - 1 for j in range(k)]
    return np.stack(columns, axis=1).astype(np.float32)


def logits_of(labels, k, height=4.0):
    """Logits of a start from labels: `height` for the label, 0 elsewhere, float32, shape (b, k)."""
    return (height * (labels[:, None] == np.arange(k))).astype(np.float32)


# -- reading what was found


def read_association(GZ, totals, n):
    """Posteriors and labels of new rows from ``g_i(x) = sum_m z_im G(x, x_m)``.

    The label is the cluster whose association the row would raise most, ``argmax_i (2 g_i - L_i) / N_i``, as at the
    maximum for rows that are in it. The posterior is that of the Parzen densities, ``g_i / sum_j g_j``.

    Parameters
    ----------
    GZ : ndarray of float, shape (b, k)
        Any multiple per row does for the posterior; the label needs g itself.
    totals : ndarray of float64, shape (2, k)
    n : int

    Returns
    -------
    posterior : ndarray of float32, shape (b, k)
        Flat where no kernel reaches.
    labels : ndarray of int32, shape (b,)
    """
    total = GZ.sum(axis=1, keepdims=True)
    posterior = np.full(GZ.shape, 1 / GZ.shape[1])
    np.divide(GZ, total, out=posterior, where=total > 0)
    mass, within = totals
    pulls = pull(GZ, mass, within, n)
    pulls[:, mass < _LEAST_MASS * n] = -np.inf
    return posterior.astype(np.float32), pulls.argmax(axis=1).astype(np.int32)


def read_vector(v, mean):
    """Posteriors and labels of the two sides of the leading eigenvector, cut at its mean.

    The posterior of label 1 is ``v / (v + mean)``: 1/2 at the cut. Entries of either sign by rounding count as 0.

    Parameters
    ----------
    v : ndarray of float, shape (b,)
        Entries of the eigenvector, turned so that its mean is positive.
    mean : float

    Returns
    -------
    posterior : ndarray of float32, shape (b, 2)
    labels : ndarray of int32, shape (b,)
    """
    inside = np.maximum(v, 0) / (np.maximum(v, 0) + mean)
    return np.column_stack([1 - inside, inside]).astype(np.float32), (v > mean).astype(np.int32)
