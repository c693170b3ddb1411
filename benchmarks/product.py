"""The sparse product against a plain loop, in turns in one process: nanoseconds per entry and vector.

    python benchmarks/product.py [--run demo/run.zarr] [--rows 100000 500000] [--widths 8 16 32]

Graphs: ten nearest neighbours of random points in the plane, in blocks of 16,384 rows along a space-filling curve, in
random order inside a block; and, with ``--run``, the graph of a finished fit. Weights are drawn. Both ways give the
same bits, which is checked. Writes results/product.json.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numba
import numpy as np
from scipy.spatial import cKDTree

import bigsmic
from bigsmic.numerics.eigen.sparse_product import Rows, multiply
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.runtime.context import Context
from bigsmic.stages.graph import read_graph

OUT = Path(__file__).parent / "results" / "product.json"
BLOCK_ROWS = 16_384
FACTORS = (2.0, 0.5, 1.0)


@numba.njit(nogil=True)
def _loop(csr, factors, operands, out, lanes):
    """Own rows or halo, entry by entry; the length of a tuple tells the compiler the width."""
    indptr, indices, data = csr
    a, b, g = factors
    X, outside, Y = operands
    height, width = out.shape[0], len(lanes)
    row = np.zeros(width, out.dtype)
    for i in range(height):
        for c in range(width):
            row[c] = 0
        for p in range(indptr[i], indptr[i + 1]):
            j, value = indices[p], data[p]
            if j < height:
                for c in range(width):
                    row[c] += value * X[j, c]
            else:
                for c in range(width):
                    row[c] += value * outside[j - height, c]
        for c in range(width):
            out[i, c] = a * row[c] - b * X[i, c] - g * Y[i, c]


@numba.njit(nogil=True)
def _gather(X, where, taken, lanes):
    for i in range(len(where)):
        for c in range(len(lanes)):
            taken[i, c] = X[where[i], c]


def by_loop(block, X, Y, out):
    """The product as a plain loop makes it."""
    lanes, outside = (np.float32(0),) * X.shape[1], np.empty((len(block.halo), X.shape[1]), X.dtype)
    _gather(X, block.halo, outside, lanes)
    factors = tuple(np.float32(factor) for factor in FACTORS)
    own = X[block.lo : block.hi]
    _loop((block.indptr, block.indices, block.data), factors, (own, outside, Y), out, lanes)


def by_lanes(block, X, Y, out):
    """The product as the library makes it."""
    multiply(block, FACTORS, Rows(X, X[:0], slice(block.lo, block.hi), block.halo), Y, out)


def in_plane(n, k=10):
    """Blocks of the graph of random points."""
    rng = np.random.default_rng(0)
    points = rng.random((n, 2))
    order = np.argsort(_interleaved((points * 65_535).astype(np.uint64)))
    points = np.concatenate([rng.permutation(points[order[lo : lo + BLOCK_ROWS]]) for lo in range(0, n, BLOCK_ROWS)])
    columns = cKDTree(points).query(points, k + 1)[1][:, 1:]
    weights = rng.random((n, k), np.float32)
    return [_block(columns[lo : lo + BLOCK_ROWS], weights[lo : lo + BLOCK_ROWS], lo) for lo in range(0, n, BLOCK_ROWS)]


def _interleaved(cells):
    """Morton order of pairs of 16-bit integers."""
    bits = np.arange(16, dtype=np.uint64)
    spread = [
        (((cells[:, [axis]] >> bits) & np.uint64(1)) << (2 * bits + np.uint64(axis))).sum(axis=1) for axis in (0, 1)
    ]
    return spread[0] + spread[1]


def _block(columns, weights, lo):
    hi = lo + len(columns)
    inside = (columns >= lo) & (columns < hi)
    halo = np.unique(columns[~inside])
    local = np.where(inside, columns - lo, hi - lo + np.searchsorted(halo, columns)).astype(np.int32)
    indptr = columns.shape[1] * np.arange(len(columns) + 1)
    return KernelBlock(lo, hi, halo, indptr, local.ravel(), weights.ravel())


def of_run(location):
    """Blocks of the graph of a fit, weights drawn."""
    result = bigsmic.Result.open(location)
    context, rng = Context(None, result._run, result.settings), np.random.default_rng(1)
    graphs = [read_graph(context, p) for p in context.blocks]
    return [
        KernelBlock(g.lo, g.hi, g.halo, g.indptr, g.indices, rng.random(len(g.indices), np.float32)) for g in graphs
    ]


def compare(name, blocks, width, repeats):
    """Both ways in turns; the least of several."""
    n, entries = blocks[-1].hi, sum(len(block.data) for block in blocks)
    X, Y = np.random.default_rng(0).standard_normal((2, n, width)).astype(np.float32)
    seconds, outs = {}, {}
    for repeat in range(repeats + 1):
        for way in (by_loop, by_lanes):
            out = outs.setdefault(way, np.empty_like(X))
            start = time.process_time()
            for block in blocks:
                rows = slice(block.lo, block.hi)
                way(block, X, Y[rows], out[rows])
            if repeat:  # the first one compiles
                seconds.setdefault(way, []).append(time.process_time() - start)
    if outs[by_loop].tobytes() != outs[by_lanes].tobytes():
        raise AssertionError(f"{name}, width {width}: the two ways differ")
    loop, lanes = (min(seconds[way]) * 1e9 / entries / width for way in (by_loop, by_lanes))
    return {
        "graph": name,
        "rows": n,
        "entries": entries,
        "width": width,
        "loop_ns": round(loop, 3),
        "ns": round(lanes, 3),
        "ns_per_row_and_vector": round(lanes * entries / n, 2),
        "ratio": round(lanes / loop, 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run")
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 500_000])
    parser.add_argument("--widths", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    graphs = {f"plane, {n} rows": in_plane(n) for n in options.rows}
    if options.run:
        graphs["run"] = of_run(options.run)
    rows = []
    for name, blocks in graphs.items():
        for width in options.widths:
            rows.append(compare(name, blocks, width, options.repeats))
            print(rows[-1], flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(
        json.dumps({"machine": platform.machine(), "processor": platform.processor(), "rows": rows}, indent=1)
    )


if __name__ == "__main__":
    main()
