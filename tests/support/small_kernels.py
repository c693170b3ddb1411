"""Sparse kernels of few rows, cut into blocks."""

from itertools import pairwise

import numpy as np

from bigsmic.numerics.graph.affinity import KernelBlock


def symmetric(n, seed=0, density=0.3):
    draw = np.random.default_rng(seed)
    W = np.triu(draw.uniform(size=(n, n)) * (draw.uniform(size=(n, n)) < density), 1).astype(np.float32)
    return W + W.T


def kernel_blocks(W, cuts):
    edges = [0, *sorted(cuts), len(W)]
    return [kernel_block(W, lo, hi) for lo, hi in pairwise(edges) if hi > lo]


def kernel_block(W, lo, hi):
    rows, columns = np.nonzero(W[lo:hi])
    halo = np.setdiff1d(columns, np.arange(lo, hi))
    outside = (columns < lo) | (columns >= hi)
    local = np.where(outside, hi - lo + np.searchsorted(halo, columns), columns - lo)
    order = np.lexsort((local, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=hi - lo))])
    return KernelBlock(lo, hi, halo, indptr, local[order].astype(np.int32), W[lo:hi][rows, columns][order])


def to_dense(blocks):
    """The whole matrix, float64."""
    n = max(block.hi for block in blocks)
    dense = np.zeros((n, n))
    for block in blocks:
        columns = np.concatenate([np.arange(block.lo, block.hi), block.halo])[block.indices]
        rows = np.repeat(np.arange(block.lo, block.hi), np.diff(block.indptr))
        dense[rows, columns] = block.data
    return dense
