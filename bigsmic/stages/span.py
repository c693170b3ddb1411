"""Splits of MSPC for fewer rows than columns; see :mod:`bigsmic.numerics.objectives.mspc.span`.

Sums over columns are computed for two blocks of rows at a time. In memory are only matrices of a node's rows by its
rows.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from bigsmic.numerics.objectives.mspc import questions
from bigsmic.numerics.objectives.mspc import span as mspc_span
from bigsmic.numerics.objectives.mspc.questions import Node
from bigsmic.numerics.objectives.mspc.separation import COLUMNS
from bigsmic.numerics.objectives.mspc.solvers import Split
from bigsmic.numerics.objectives.mspc.tree import best_of
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.types import Floats

N_MATRICES = 20
"""Number of n by n matrices in memory: products before and after centring, and those of a solver; measured 19.1."""
TILE_ENTRIES = 1 << 18  # of rows, or of columns, that are in float64 at a time
PASSES = "restart.passes"  # temporary, deleted when the fit has ended


class Splits:
    """Best splits of nodes, one after the other; a resumed fit reads the sums of finished passes.

    Parameters
    ----------
    job : Job
    n_starts : int
        Starts of k-means.
    """

    def __init__(self, job: Job, n_starts: int) -> None:
        self.job, self.n_starts, self.n_passes = job, n_starts, 0

    def __call__(self, nodes: Mapping[int, Node]) -> dict[int, Split]:
        """The best split of each node that can be split."""
        found = {y: self._best(node) for y, node in nodes.items()}
        return {y: split for y, split in found.items() if split is not None}

    def _best(self, node: Node) -> Split | None:
        moments = self._pass(partial(self._moments, node))
        inside, n = moments["inside"], moments["inside"].sum()
        mean = moments["sums"][0] / n
        variances = moments["sums"][1] / n - mean**2
        varies = COLUMNS.varies(variances, mean)
        factor = np.where(varies, 1 / np.where(varies, variances, 1), 0)
        products = self._pass(partial(self._products, inside, factor))
        span = mspc_span.Span(*(mspc_span.centred(products[name]) for name in ("divided", "plain")))
        settings = self.job.context.settings
        start = two_means(span.plain, settings.seed, self.n_starts)
        tried = [found for candidate in settings.candidates if (found := span.split(start, candidate)) is not None]
        best = best_of([split for split, _ in tried])
        if best is None:
            return None
        (dual,) = (dual for split, dual in tried if split is best)
        w = self._pass(partial(self._direction, inside, dual.a))["w"] - mean * dual.a.sum()
        return mspc_span.brought_back(best, w * factor if dual.is_divided else w, mean)

    def _pass(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The arrays of ``make()``, stored if an interrupted fit has computed them."""
        run, b = self.job.run, self.n_passes
        self.n_passes += 1
        if not run.done(PASSES, b):
            run.write(PASSES, b, make())
        read = run.reader(PASSES, b)
        return {name: read(name) for name in run.entry(PASSES, b)["arrays"]}

    def _moments(self, node: Node) -> dict[str, Any]:
        found = self.job.map_blocks("passes", self.job.context.source_blocks, partial(_moments, node=node))
        inside, sums = zip(*found, strict=True)
        return {"inside": np.concatenate(inside), "sums": np.sum(sums, axis=0)}

    def _products(self, inside: NDArray[np.bool_], factor: Any) -> dict[str, Any]:
        blocks, bounds = self.job.context.source_blocks, self.job.context.source_bounds
        pairs = [(p, q) for q in blocks for p in range(q + 1)]
        task = partial(_products, inside=inside, factor=factor)
        found = dict(zip(pairs, self.job.map_blocks("passes", pairs, task), strict=True))
        at = np.concatenate([[0], np.cumsum(inside)])[bounds]
        whole = np.empty((2, at[-1], at[-1]))
        for (p, q), tile in found.items():
            whole[:, at[p] : at[p + 1], at[q] : at[q + 1]] = tile
            whole[:, at[q] : at[q + 1], at[p] : at[p + 1]] = tile.transpose(0, 2, 1)
        return {"divided": whole[0], "plain": whole[1]}

    def _direction(self, inside: NDArray[np.bool_], a: Floats) -> dict[str, Any]:
        coefficients = np.zeros(len(inside))
        coefficients[inside] = a
        task = partial(_direction, coefficients=coefficients)
        return {"w": self.job.sum_blocks("passes", self.job.context.source_blocks, task)}


def two_means(products: Floats, seed: int, n_starts: int) -> tuple[Floats, float]:
    """Coefficients and threshold of the halfspace between two k-means centres of centred rows.

    Parameters
    ----------
    products : ndarray of float64, shape (m, m)
        K.
    seed, n_starts : int
    """
    values, vectors = mspc_span.coordinates(products)
    if len(values) == 0:
        return np.zeros(len(products)), 0.0
    labels = KMeans(2, n_init=n_starts, random_state=seed % 2**32).fit(vectors * np.sqrt(values)).labels_
    first, second = (np.where(labels == y, 1 / np.count_nonzero(labels == y), 0) for y in (0, 1))
    return 2 * (second - first), float(second @ products @ second - first @ products @ first)


def _tiles(context: Context, s: int) -> Iterator[Floats]:
    """Scaled rows of one block, float64, some rows at a time."""
    X, rows = context.scaled_block(s), max(1, TILE_ENTRIES // context.d)
    return (X[lo : lo + rows].astype(np.float64) for lo in range(0, len(X), rows))


def _moments(context: Context, s: int, node: Node) -> Any:
    """Mask of the rows of a block in a node, and the sums of these rows and of their squares."""
    inside, sums = [], np.zeros((2, context.d))
    for X in _tiles(context, s):
        found = np.zeros(len(X), bool)
        found[questions.inside(node, X)] = True
        inside.append(found)
        sums += found @ X, found @ X**2
    return np.concatenate(inside), sums


def _products(context: Context, pair: tuple[int, int], inside: NDArray[np.bool_], factor: Any) -> Floats:
    """Products of the rows in a node between two blocks, divided and plain: (2, m, m')."""
    bounds = context.source_bounds
    first, second = (context.scaled_block(s)[inside[bounds[s] : bounds[s + 1]]] for s in pair)
    total, columns = np.zeros((2, len(first), len(second))), max(1, TILE_ENTRIES // max(1, len(first)))
    for lo in range(0, context.d, columns):
        A, B = (X[:, lo : lo + columns].astype(np.float64) for X in (first, second))
        total += (A * factor[lo : lo + columns]) @ B.T, A @ B.T
    return total


def _direction(context: Context, s: int, coefficients: Floats) -> Floats:
    """Sum of the rows of one block weighted by their coefficients."""
    at, w = int(context.source_bounds[s]), np.zeros(context.d)
    for X in _tiles(context, s):
        w += coefficients[at : at + len(X)] @ X
        at += len(X)
    return w
