"""Entries of kernels that no neighbour list has: edges that connect components, and links."""

import numpy as np

from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.types import Floats, Integers


def with_edges(kernel: KernelBlock, source: Integers, target: Integers, weights: Floats) -> KernelBlock:
    """Return the kernel with additional entries, which must be new.

    Parameters
    ----------
    kernel : KernelBlock
    source : ndarray of int64, shape (e,), ascending
        Positions in ``lo:hi``.
    target : ndarray of int64, shape (e,)
        Positions.
    weights : ndarray of float32, shape (e,)

    Returns
    -------
    kernel : KernelBlock
    """
    if len(source) == 0:
        return kernel
    lo, hi = kernel.lo, kernel.hi
    outside = target[(target < lo) | (target >= hi)]
    halo = np.union1d(kernel.halo, outside)
    place = np.concatenate([np.arange(hi - lo), hi - lo + np.searchsorted(halo, kernel.halo)])
    columns = _local(target, lo, hi, halo)
    rows = np.concatenate([np.repeat(np.arange(hi - lo), np.diff(kernel.indptr)), source - lo])
    order = np.argsort(rows, kind="stable")
    indices = np.concatenate([place[kernel.indices], columns]).astype(np.int32)[order]
    data = np.concatenate([kernel.data, weights.astype(kernel.data.dtype)])[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=hi - lo))])
    return KernelBlock(lo, hi, halo, indptr, indices, data)


def with_least(kernel: KernelBlock, source: Integers, target: Integers, least: float) -> KernelBlock:
    """Return the kernel in which some of its entries are at least `least`.

    Parameters
    ----------
    kernel : KernelBlock
    source, target : ndarray of int64, shape (e,)
        As in :func:`with_edges`; of entries that exist, and are few.
    least : float

    Returns
    -------
    kernel : KernelBlock
    """
    if len(source) == 0:
        return kernel
    data, columns = kernel.data.copy(), _local(target, kernel.lo, kernel.hi, kernel.halo)
    for row, column in zip((source - kernel.lo).tolist(), columns.tolist(), strict=True):
        start, stop = kernel.indptr[row], kernel.indptr[row + 1]
        at = start + np.flatnonzero(kernel.indices[start:stop] == column)
        data[at] = np.maximum(data[at], data.dtype.type(least))
    return kernel._replace(data=data)


def _local(positions: Integers, lo: int, hi: int, halo: Integers) -> Integers:
    """Local numbers of the columns at some positions."""
    inside = (positions >= lo) & (positions < hi)
    return np.where(inside, positions - lo, hi - lo + np.searchsorted(halo, positions))
