"""Neighbour lists: cells with exact search inside against pynndescent, and both against the truth.

    OPENBLAS_NUM_THREADS=1 python benchmarks/neighbors.py [--quick] [--only NAME ...]

``tetrodes``  319,209 simulated spikes of 33 units, 152 columns, standardised.
``mnist``     70,000 images, 784 columns, centred; from ``mnist.npz`` in the folder that BIGSMIC_DATA names.

Every method runs in a process of its own that imports, compiles and reads the rows from a file; seconds are of CPU on
one thread. Ours holds one group of cells at a time; it runs with an empty and with a filled numba cache. pynndescent
has no cache and compiles in every process: the part of its seconds that 2,000 rows take is given as well.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

OUT = Path(__file__).parent / "results" / "neighbors.json"
K, BLOCK, QUERIES, AT = 20, 16_384, 2000, 10
INDEX = {
    "pynndescent, default": {"n_neighbors": 16},
    "pynndescent, raised": {"n_neighbors": 25, "max_candidates": 24},
    "pynndescent, raised twice": {"n_neighbors": 36, "max_candidates": 36},
}
OURS = {
    "cells, cold cache": {},
    "cells": {},
    "cells, 4000 candidates": {"candidates": 4000},
    "cells, one group": {"group_rows": 10**9},
}


def write_tetrodes(path, n):
    from bigsmic.datasets import TetrodeSimulator

    spikes = TetrodeSimulator(n_rows=n, n_units=33, seed=0)
    X = np.lib.format.open_memmap(path, "w+", np.float32, spikes.shape)
    for lo in range(0, n, BLOCK):
        X[lo : lo + BLOCK] = spikes.block(lo, min(lo + BLOCK, n))[0]
    mean, std = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    for lo in range(0, n, BLOCK):
        X[lo : lo + BLOCK] = (X[lo : lo + BLOCK] - mean) / std


def write_mnist(path, n):
    X = np.load(Path(os.environ["BIGSMIC_DATA"]) / "mnist.npz")["X"][:n].astype(np.float32) / 255
    np.save(path, X - X.mean(axis=0, dtype=np.float64).astype(np.float32))


def read(path, lo, hi):
    """Rows of the file without mapping it: mapped pages would count as memory of ours."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        assert version == (1, 0)
        (_, d), _, dtype = np.lib.format.read_array_header_1_0(file)
        file.seek(lo * d * dtype.itemsize, 1)
        return np.fromfile(file, dtype, (hi - lo) * d).reshape(-1, d)


def blocks(n):
    return [(lo, min(lo + BLOCK, n)) for lo in range(0, n, BLOCK)]


def by_cells(path, n, options):
    """Sample, cells, routing to one file per group, search of each group, merge: (indices, notes)."""
    from bigsmic.numerics.graph import cells as cells_module
    from bigsmic.numerics.graph import neighbor_lists, neighbors
    from bigsmic.numerics.hashing import row_uniform

    clock, seconds = time.process_time(), {}

    def lap(name):
        nonlocal clock
        clock, seconds[name] = time.process_time(), round(time.process_time() - clock, 2)

    d = read(path, 0, 1).shape[1]
    settings = cells_module.PartitionSettings(n, **{"group_rows": cells_module.group_rows(n, d), **options})
    share = min(1, max(20_000, 30 * n // settings.cell_rows) / n)
    sample = [read(path, lo, hi)[row_uniform(0, "sample", np.arange(lo, hi)) < share] for lo, hi in blocks(n)]
    cells = cells_module.build_cells(np.concatenate(sample), settings)
    del sample
    lap("cells")
    with tempfile.TemporaryDirectory() as scratch:
        copies = route_to_files(path, n, cells, settings.overlap, Path(scratch))
        lap("route")
        best = neighbor_lists.empty_lists(n, K)
        for group in range(cells.n_groups):
            X, rows, member_cells = read_group(Path(scratch), group, d, settings.overlap)
            found, squares = neighbors.group_neighbors(X, rows, member_cells, neighbors.NeighborSettings(K))
            found = np.where(found >= 0, rows[found], -1)
            known = best[0][rows], best[1][rows]
            best[0][rows], best[1][rows] = neighbor_lists.merge_neighbors([known, (found, squares)])
    lap("search and merge")
    return best[0], {"groups": cells.n_groups, "cells": cells.n_cells, "copies": round(copies / n, 2), "parts": seconds}


def route_to_files(path, n, cells, overlap, folder):
    """Append every row to the files of the groups that it belongs to; return the number of copies."""
    from bigsmic.numerics.graph.cells import route

    copies = 0
    for lo, hi in blocks(n):
        X, rows = read(path, lo, hi), np.arange(lo, hi)
        member_cells = route(X, rows, cells, overlap)
        groups = cells.group[member_cells]
        for group in np.unique(groups):
            here = groups == group
            at = np.flatnonzero(here.any(axis=1))
            copies += len(at)
            local = np.where(here[at], member_cells[at], -1).astype(np.int32)
            for name, array in ("X", X[at]), ("rows", rows[at]), ("cells", local):
                with open(folder / f"{name}-{group}", "ab") as file:
                    array.tofile(file)
    return copies


def read_group(folder, group, d, overlap):
    X = np.fromfile(folder / f"X-{group}", np.float32).reshape(-1, d)
    rows = np.fromfile(folder / f"rows-{group}", np.int64)
    return X, rows, np.fromfile(folder / f"cells-{group}", np.int32).reshape(-1, overlap)


def by_index(path, n, options):
    """One pynndescent index over everything, in memory: (indices, notes)."""
    import pynndescent

    X = read(path, 0, n)
    clock = time.process_time()
    pynndescent.NNDescent(X[:2000].copy(), random_state=0, n_jobs=1, **options)
    compiling = round(time.process_time() - clock, 2)
    indices = pynndescent.NNDescent(X, random_state=0, n_jobs=1, **options).neighbor_graph[0]
    return indices, {"parts": {"compile and 2,000 rows": compiling}}


def child(name, path, n):
    """Run one method and print its figures as a line of JSON; lists of the sampled rows go beside the data."""
    from bigsmic.engines.memory import peak_memory

    wall = time.perf_counter()
    method, options = (by_cells, OURS[name]) if name in OURS else (by_index, INDEX[name])
    indices, notes = method(path, n, options)
    figures = {"cpu_s": round(time.process_time(), 2), "wall_s": round(time.perf_counter() - wall, 2)}
    figures["peak_mb"] = round(peak_memory() / 2**20)
    figures["recall"] = recall(np.load(path.with_suffix(".truth.npz")), indices)
    print(json.dumps({"method": name} | figures | notes))


def write_truth(path, n):
    """Exact neighbours of sampled rows, streamed over blocks."""
    from bigsmic.numerics.graph import neighbor_lists, neighbors

    queries = np.sort(np.random.default_rng(1).choice(n, min(QUERIES, n), replace=False))
    Q = np.concatenate([read(path, lo, hi)[queries[(queries >= lo) & (queries < hi)] - lo] for lo, hi in blocks(n)])
    best = neighbor_lists.empty_lists(len(queries), AT + 1)
    for lo, hi in blocks(n):
        found, squares = neighbors.exact_neighbors(Q, read(path, lo, hi), AT + 1)
        best = neighbor_lists.merge_neighbors([best, (np.where(found >= 0, found.astype(np.int64) + lo, -1), squares)])
    np.savez(path.with_suffix(".truth.npz"), queries=queries, indices=best[0])


def recall(truth, indices):
    """Share of the nearest rows, self left out, that are among the first of the lists."""
    shares = []
    for row, exact in zip(truth["queries"], truth["indices"], strict=True):
        exact, found = exact[exact != row][:AT], indices[row][indices[row] != row][:AT]
        shares.append(np.isin(exact, found).mean())
    return round(float(np.mean(shares)), 4)


def measure(name, path, n, folder):
    cache = folder / ("cold" if name.endswith("cold cache") else "warm")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", name, str(path), str(n)]
    lines = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(lines.splitlines()[-1])


def table(figures):
    print(f"{'method':28s} {'CPU s':>7s} {'wall s':>7s} {'peak MB':>8s} {'recall@10':>9s}  notes")
    for f in figures:
        notes = {k: v for k, v in f.items() if k not in ("method", "cpu_s", "wall_s", "peak_mb", "recall")}
        print(f"{f['method']:28s} {f['cpu_s']:7.1f} {f['wall_s']:7.1f} {f['peak_mb']:8d} {f['recall']:9.4f}  {notes}")


def run(data, methods, quick):
    write, n = {"tetrodes": (write_tetrodes, 319_209), "mnist": (write_mnist, 70_000)}[data]
    n = 30_000 if quick else n
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        write(path, n)
        write_truth(path, n)
        if any(name in OURS for name in methods):
            measure("cells", path, n, Path(folder))  # fills the cache
        figures = [measure(name, path, n, Path(folder)) for name in methods]
    print(f"\n{data}: {n:,} rows")
    table(figures)
    return {"rows": n, "methods": figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="30,000 rows")
    parser.add_argument("--only", nargs="+", choices=[*OURS, *INDEX], default=[*OURS, *INDEX])
    parser.add_argument("--data", nargs="+", choices=["tetrodes", "mnist"], default=["tetrodes", "mnist"])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, path, n = arguments.child
        child(name, Path(path), int(n))
        return
    results = {"cpu": platform.processor() or platform.machine(), "threads": 1, "k": K}
    for data in arguments.data:
        if data == "mnist" and "BIGSMIC_DATA" not in os.environ:
            print("mnist: skipped, BIGSMIC_DATA is not set")
            continue
        results[data] = run(data, arguments.only, arguments.quick)
    if not arguments.quick:
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
