"""A map: some rows of a finished fit in the plane, laid out by t-SNE from affinities between them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from bigsmic.errors import AbsentResultError, InputError
from bigsmic.numerics.graph.coarsening import transition_shares
from bigsmic.numerics.hashing import row_hash, row_uniform
from bigsmic.numerics.principal_axes import principal_axes
from bigsmic.runtime.context import Context
from bigsmic.types import Floats, Integers

MOST_ROWS = 20_000
"""Largest number of rows of a map: more would make it slower, but no clearer."""
LEAST_ROWS = 4
"""Least number of rows for t-SNE; fewer are placed on a line."""
NEIGHBORS, SCALE_NEIGHBOR, AXES = 30, 10, 50
"""For a fit without a graph: neighbours of each row of the map; the one that sets its scale; principal components."""
SHARES = 90
"""Rows that attract each row, as many as in t-SNE at its usual perplexity of 30."""
ROUNDS, EXAGGERATED_ROUNDS, EXAGGERATION = 500, 250, 12.0
"""Steps of t-SNE, steps before with larger affinities, and by how much: the defaults of openTSNE."""
ROWS_PER_EXAGGERATION = 40
"""Rows for each unit of early exaggeration: few rows, mostly neighbours, would collapse to one point under more."""
FEW_ROWS = 10_000
"""Largest number of rows whose forces are computed by Barnes-Hut; with more, interpolation (FFT) is faster."""
SPREAD, JITTER = 1e-4, 1e-6
"""Standard deviation of t-SNE's start, and of the displacement that separates rows with the same start."""


class Map(NamedTuple):
    """Rows in the plane.

    Parameters
    ----------
    rows : ndarray of int64, shape (m,), ascending
        Row numbers.
    points : ndarray of float32, shape (m, 2)
        Coordinates, without a unit. What is near belongs together; distances between islands mean little.
    """

    rows: NDArray[np.int64]
    points: NDArray[np.float32]


class Neighborhoods(NamedTuple):
    """Affinities and start from which a map is laid out.

    Parameters
    ----------
    rows : ndarray of int64, shape (m,), ascending
    affinities : csr_array, shape (m, m)
    start : ndarray of float, shape (m, 2 at most)
        Where t-SNE starts, up to a factor.
    """

    rows: Integers
    affinities: csr_array
    start: Floats


def check_rows(n_rows: int) -> None:
    """Refuse a map of too many rows.

    Raises
    ------
    InputError
    """
    if n_rows > MOST_ROWS:
        raise InputError(f"map: got n_rows={n_rows:,}; a map has {MOST_ROWS:,} rows at most, drawn by hash")


def laid_out(found: Neighborhoods, seed: int) -> Map:
    """Lay rows out by t-SNE; equal input gives equal points.

    Parameters
    ----------
    found : Neighborhoods
        Rows that have no affinity to another one are left out.
    seed : int

    Returns
    -------
    Map
    """
    tied = np.flatnonzero(np.asarray(found.affinities.sum(axis=1)).ravel() > 0)
    if len(tied) < LEAST_ROWS:
        line = np.stack([np.arange(len(found.rows)), np.zeros(len(found.rows))], axis=1)
        return Map(found.rows.astype(np.int64), line.astype(np.float32))
    rows = found.rows[tied]
    start = _start(found.start[tied], rows, seed)
    return Map(
        rows.astype(np.int64), _tsne(transition_shares(found.affinities[tied][:, tied], NEIGHBORS, SHARES), start, seed)
    )


def _start(columns: Floats, rows: Integers, seed: int) -> Floats:
    """Two columns, the first of unit length times :data:`SPREAD`, and moved by the hashes of the rows."""
    start = np.zeros((len(rows), 2))
    start[:, : columns.shape[1]] = columns[:, :2] - columns[:, :2].mean(axis=0)
    spread = start[:, 0].std()
    start *= SPREAD / spread if spread > 0 else 0.0
    moved = [row_uniform(seed, stage, rows) - 0.5 for stage in ("map-x", "map-y")]
    return start + (JITTER if spread > 0 else SPREAD) * np.stack(moved, axis=1)


def _tsne(shares: csr_array, start: Floats, seed: int) -> NDArray[np.float32]:
    """Coordinates by t-SNE, on one thread: its sums depend on their number."""
    openTSNE = _imported()
    how = "bh" if len(start) <= FEW_ROWS else "fft"
    embedding = openTSNE.TSNEEmbedding(
        start,
        openTSNE.affinity.PrecomputedAffinities(csr_matrix(shares)),
        negative_gradient_method=how,
        n_jobs=1,
        random_state=seed % 2**32,
    )
    exaggeration = float(np.clip(len(start) / ROWS_PER_EXAGGERATION, 1.0, EXAGGERATION))
    embedding = embedding.optimize(EXAGGERATED_ROUNDS, exaggeration=exaggeration, momentum=0.5, inplace=True)
    embedding = embedding.optimize(ROUNDS, momentum=0.8, inplace=True)
    return np.asarray(embedding, np.float32)


def _imported() -> Any:
    try:
        import openTSNE
        import openTSNE.affinity
    except ImportError as error:
        raise InputError(f"map: {error.name} is not installed; pip install 'bigsmic[plots]', which brings it") from None
    return openTSNE


def among_sample(context: Context, n_rows: int) -> Neighborhoods:
    """Affinities and start of a map for a fit without a graph, from nearest neighbours among rows drawn by its scan.

    Distances are those of the scaled rows in their leading principal components.

    Raises
    ------
    AbsentResultError
        The fit was made of a graph, or of rows so large that its scan drew none.
    """
    if context.settings.precomputed:
        raise AbsentResultError("map: the fit was made of a graph, of which it kept none; lay out the graph itself")
    numbers = context.drawn_numbers()
    if not len(numbers):
        raise AbsentResultError(
            f"map: rows of {context.d:,} columns are so large that the scan of the fit kept none to lay out; lay out "
            "principal components of the rows themselves"
        )
    order = np.argsort(row_hash(context.settings.seed, "view", numbers), kind="stable")[:n_rows]
    kept = np.sort(order)
    X = context.read_sample()[kept]
    P = _projected(X, min(AXES, len(X)))
    return Neighborhoods(numbers[kept], _nearest(P), _projected(P, 2))


def _projected(X: Floats, n_axes: int) -> Floats:
    mean, axes = principal_axes(X, n_axes)
    projected: Floats = (X - mean) @ axes
    return projected


def _nearest(P: Floats) -> csr_array:
    """Affinities of every row with its nearest neighbours, scaled by the distances to the tenth neighbours of both."""
    from sklearn.neighbors import NearestNeighbors

    m, k = len(P), min(NEIGHBORS, -(-(len(P) - 1) // 3))
    if k < 1:
        return csr_array((m, m))
    distances, indices = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(P).kneighbors()
    sigma = distances[:, min(SCALE_NEIGHBOR, k) - 1]
    scale = np.maximum(sigma[:, None] * sigma[indices], np.finfo(np.float32).tiny)
    weights = np.exp(-(distances.astype(np.float64) ** 2) / scale)
    found = csr_array((weights.ravel(), indices.ravel(), np.arange(0, m * k + 1, k)), shape=(m, m))
    return found.maximum(found.T)
