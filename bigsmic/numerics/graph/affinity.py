"""The kernel on the neighbour graph in row blocks: its weights, degrees and normalisation."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph.neighbor_graph import GraphBlock, counts_before
from bigsmic.types import Floats, Integers

WEIGHT_FLOOR = 1e-10  # least weight of an edge where weights are normalised by degrees, so that no degree is 0


class KernelBlock(NamedTuple):
    """Rows ``lo:hi`` of a sparse symmetric matrix, columns numbered locally.

    Parameters
    ----------
    lo, hi, halo, indptr, indices
        As in :class:`~bigsmic.numerics.graph.neighbor_graph.GraphBlock`.
    data : ndarray of float32, shape (nnz,)
    """

    lo: int
    hi: int
    halo: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


def column_positions(block: GraphBlock | KernelBlock) -> Integers:
    """Row that each local column of a block stands for: int64, shape (hi - lo + h,)."""
    return np.concatenate([np.arange(block.lo, block.hi), block.halo])


def kernel_block(graph: GraphBlock, t: int, weight: Any, sigma_own: Floats, sigma_halo: Floats) -> KernelBlock:
    """Kernel of one block on the edges of the t-graph; zero diagonal.

    Parameters
    ----------
    graph : GraphBlock
    t : int
        Number of neighbours.
    weight : callable
        ``weight(sq_distances, sigma_i, sigma_j)``, elementwise on edges; see :mod:`bigsmic.numerics.graph.weights`.
    sigma_own, sigma_halo : ndarray of float32, shape (hi - lo,) and (h,)
        Distance to the t-th neighbour.

    Returns
    -------
    kernel : KernelBlock
    """
    kept = graph.ranks <= t
    indptr = counts_before(kept)[graph.indptr]
    indices = graph.indices[kept]
    sigma = np.concatenate([sigma_own, sigma_halo])
    rows = np.repeat(np.arange(graph.hi - graph.lo), np.diff(indptr))
    data = weight(graph.sq_distances[kept], sigma[rows], sigma[indices])
    halo, indices = _compact(graph.halo, indices, graph.hi - graph.lo)
    return KernelBlock(graph.lo, graph.hi, halo, indptr, indices, data)


def _compact(halo: Integers, indices: Integers, height: int) -> tuple[Integers, Integers]:
    """Leave out the halo rows that no entry refers to."""
    used = np.zeros(len(halo), bool)
    used[indices[indices >= height] - height] = True
    place = np.concatenate([np.arange(height), height + np.cumsum(used) - 1]).astype(np.int32)
    return halo[used], place[indices]


def with_floor(kernel: KernelBlock) -> KernelBlock:
    """Return the kernel with weights of at least :data:`WEIGHT_FLOOR`, so that no row of it is empty."""
    return kernel._replace(data=np.maximum(kernel.data, kernel.data.dtype.type(WEIGHT_FLOOR)))


def scaled(kernel: Any, factor_own: Any, factor_halo: Any) -> Any:
    """Return the kernel with entries ``K_ij f_i f_j``.

    Parameters
    ----------
    kernel : KernelBlock
    factor_own, factor_halo : ndarray of float32, shape (hi - lo,) and (h,)

    Returns
    -------
    kernel : KernelBlock
    """
    both = np.concatenate([factor_own, factor_halo])
    rows = np.repeat(np.arange(kernel.hi - kernel.lo), np.diff(kernel.indptr))
    return kernel._replace(data=kernel.data * (both[rows] * both[kernel.indices]))


def degree(kernel: KernelBlock) -> NDArray[Any]:
    """Row sums, ``D = diag(K 1)``, float64, shape (hi - lo,)."""
    rows = np.repeat(np.arange(kernel.hi - kernel.lo), np.diff(kernel.indptr))
    return np.bincount(rows, weights=kernel.data, minlength=kernel.hi - kernel.lo)


def normalise(kernel: KernelBlock, degree_own: Floats, degree_halo: Floats) -> KernelBlock:
    """``N = D^-1/2 K D^-1/2`` of one block.

    Parameters
    ----------
    kernel : KernelBlock
    degree_own, degree_halo : ndarray of float64, shape (hi - lo,) and (h,)

    Returns
    -------
    normalised : KernelBlock
    """
    both = np.concatenate([degree_own, degree_halo])
    root = 1 / np.sqrt(np.where(both > 0, both, 1)).astype(kernel.data.dtype)
    rows = np.repeat(np.arange(kernel.hi - kernel.lo), np.diff(kernel.indptr))
    return kernel._replace(data=kernel.data * root[rows] * root[kernel.indices])


def shrunk(degree: Floats, mean: float, shrinkage: float) -> Floats:
    """Degrees shrunk towards their mean: ``(1 - s) d + s mean``.

    Small groups of rows that few edges connect with the rest of the graph have degrees below the mean. If the kernel is
    normalised by plain degrees, they appear as well separated as clusters, and occupy eigenvectors; their number grows
    with n [1]_.

    Parameters
    ----------
    degree : ndarray of float64
    mean : float
        Over all rows.
    shrinkage : float
        s, from 0 to 1.

    Returns
    -------
    degree : ndarray of float64

    References
    ----------
    .. [1] Zhang, Rohe, "Understanding regularized spectral clustering via graph conductance", NeurIPS 2018.
    """
    return (1 - shrinkage) * degree + shrinkage * mean if shrinkage else degree
