"""How near each stage of a fit is to what the machine can do: bytes and operations that it cannot do without.

    python benchmarks/roofline.py [--sets tetrodes80k mixture300000x16]

In one process with one thread: the bandwidth of a sum of two arrays and the speed of a float32 matrix product, then
a fit. Bytes are those that cross between memory (or disk) and processor if caches hold nothing from one pass to the
next, operations those of the formulas; both are counted from shapes and from the products that the solver made. The
bound is the longer of what bytes and operations would take at the machine's speeds, and the share is the bound over the
seconds measured: caches can bring it above 1. Writes results/roofline.json.
"""

import argparse
import math

import numpy as np
from _clusters import SIMULATORS  # noqa: F401  registers its sets
from _data import as_zarr, n_clusters
from _harness import measure, save, table

from bigsmic.numerics.eigen.lanczos_state import LanczosParams
from bigsmic.numerics.labeling.local_moving import N_SWEEPS
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.runtime.planning import GHOSTS
from bigsmic.runtime.probe import least_seconds
from bigsmic.settings.smic import resolve
from bigsmic.stages.labeling_specs import LabelingSpecs, eigenproblems

ENTRIES = 1.5  # of the matrix, per row and neighbour
COLUMNS = ("cpu_s", "gbyte", "gflop", "gb/s", "gflop/s", "bound_s", "share")


def speeds():
    """Bytes a second of the sum of two arrays of 256 MiB, and operations a second of a product of 2,048 columns."""
    a, b, c = (np.ones(1 << 26, np.float32) for _ in range(3))
    A = np.ones((2048, 2048), np.float32)
    return {
        "bytes": 3 * a.nbytes / least_seconds(lambda: np.add(a, b, out=c)),
        "flops": 2 * 2048**3 / least_seconds(lambda: A @ A),
    }


def demands(shape, c, fit):
    """Gigabytes and Gflop of each stage.

    Parameters
    ----------
    shape : tuple of int
    c : int
        Clusters.
    fit : dict
        What `_clusters.fit` returns.
    """
    (n, d), settings = shape, resolve(c)
    partition, specs = BlockSizes().partition(n, d), LabelingSpecs(settings, n)
    k, row, width = settings.n_neighbors, 4 * d, LanczosParams(1).block_width
    entries = [ENTRIES * n * problem.t for problem in eigenproblems(settings)]
    made = [spec for spec in specs if spec.assignment == "valleys" or not fit["plain"]]
    widest = max(spec.n_eigenvectors for spec in made)
    turned = sum(spec.n_eigenvectors**2 for spec in made)
    basis = 4 * n * widest * len(entries)
    found = {
        "scan": (n * row, 6 * n * d),
        "route": (2 * n * row + 2 * GHOSTS * n * row, 2 * n * d * 24 * math.sqrt(n / partition.cell_rows)),
        "neighbors": (2 * GHOSTS * n * row + 6 * n * k * 8, 2 * n * d * partition.candidates),
        "graph": (n * k * 8 * 2 + ENTRIES * n * k * 10 * (1 + len(settings.t)), 0),
        "eigen": _eigen(n, entries, fit["matvecs"], width),
        "assign": (3 * basis + N_SWEEPS * sum(entries) * 8 / 2, 6 * n * turned),
        "output": (basis + 8 * n * c, 2 * n * widest * widest * len(entries)),
    }
    return {stage: {"gbyte": moved / 1e9, "gflop": done / 1e9} for stage, (moved, done) in found.items()}


def _eigen(n, entries, matvecs, width):
    """Products alone: the matrix once a block of vectors, a row of the operand for every entry; not the basis."""
    moved = done = 0.0
    for of_matrix, count in zip(entries, matvecs, strict=True):
        products = count / width
        moved += products * (of_matrix * (8 + 4 * width) + 3 * n * 4 * width)
        done += 2 * count * of_matrix
    return moved, done


def measured(name, machine):
    archive, c = str(as_zarr(name)), n_clusters(name)
    m = measure("_clusters:fit", {"archive": archive, "c": c, "n_threads": 1, "scale": None})
    if m.error:
        raise SystemExit(m.error)
    rows = demands(m.result["shape"], c, m.result)
    for stage, cells in rows.items():
        cells["cpu_s"] = cpu = m.result["stages"][stage]["cpu"]
        cells["gb/s"], cells["gflop/s"] = cells["gbyte"] / cpu, cells["gflop"] / cpu
        cells["bound_s"] = max(1e9 * cells["gbyte"] / machine["bytes"], 1e9 * cells["gflop"] / machine["flops"])
        cells["share"] = cells["bound_s"] / cpu
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["tetrodes80k"])
    args = parser.parse_args()
    machine = speeds()
    print(f"{machine['bytes'] / 1e9:.1f} GB/s, {machine['flops'] / 1e9:.0f} Gflop/s in float32\n")
    found = {"machine": machine}
    for name in args.sets:
        found[name] = measured(name, machine)
        table(found[name], COLUMNS, name)
        print()
        save("roofline", found)


if __name__ == "__main__":
    main()
