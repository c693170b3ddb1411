"""Speed of a thread of this machine, from a sparse and a dense product."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from bigsmic.numerics.eigen.sparse_product import Rows, multiply
from bigsmic.numerics.graph.affinity import KernelBlock

N_ROWS, N_ENTRIES, WIDTH = 200_000, 16, 8
"""Rows, entries of each and columns of the sparse product; its vectors are in no processor's fastest caches."""
SIDE = 1024  # of the dense product, which takes about as long
REPEATS = 15


@cache
def probe() -> float:
    """CPU seconds of one sparse and one dense product in float32, each the least of several."""
    return _sparse_seconds() + _dense_seconds()


def _sparse_seconds() -> float:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, WIDTH), np.float32)
    indices = rng.integers(0, N_ROWS, N_ROWS * N_ENTRIES, np.int32)
    indptr = np.arange(0, len(indices) + 1, N_ENTRIES)
    no_halo = np.empty(0, np.int64)
    block = KernelBlock(0, N_ROWS, no_halo, indptr, indices, rng.random(len(indices), np.float32))
    rows, out = Rows(X, X[:0], slice(0, N_ROWS), no_halo), np.empty_like(X)
    return least_seconds(lambda: multiply(block, (1.0, 0.0, 0.0), rows, X, out))


def _dense_seconds() -> float:
    A = np.random.default_rng(0).standard_normal((SIDE, SIDE), np.float32)
    return least_seconds(lambda: A @ A)


def least_seconds(call: Callable[[], Any]) -> float:
    """CPU seconds of the fastest of several calls; the first one, which may compile, does not count."""
    call()
    found = []
    for _ in range(REPEATS):
        started = time.process_time()
        call()
        found.append(time.process_time() - started)
    return min(found)
