"""The same fit in process and on clusters: are the labels the same bits, and what does the cluster cost?

python benchmarks/cluster.py identical [--sets mnist70k tetrodes319k]
python benchmarks/cluster.py overhead [--sets tetrodes319k mixture3m32]
"""

import argparse

from _clusters import SIMULATORS  # noqa: F401  registers its sets
from _data import as_zarr, n_clusters
from _harness import measure, save, table

from bigsmic.numerics.eigen.lanczos_state import LanczosParams

STAGES = ("scan", "route", "neighbors", "graph", "eigen", "assign", "select", "output")
SHAPES = [(0, 1, None), (0, 2, "1GiB"), (1, 1, None), (2, 1, None), (2, 2, None), (4, 1, None), (2, 1, "1.2GiB")]
"""Workers (0: in process), threads of each, memory limit of each."""


def identical(args):
    found, rows = {}, {}
    for name in args.sets or ("mnist70k", "tetrodes319k"):
        archive, c = str(as_zarr(name)), n_clusters(name)
        for n_workers, n_threads, limit in SHAPES:
            key = f"{name} {n_workers} x {n_threads}" + (f" {limit}" if limit else "")
            call = {"archive": archive, "c": c, "n_workers": n_workers, "n_threads": n_threads, "scale": None}
            found[key] = m = measure("_clusters:fit", call | {"memory_limit": limit, "warm": False})
            rows[key] = {"error": m.error[-60:]} if m.error else {key: m.result[key] for key in ("labels", "posterior")}
            rows[key]["wall_s"] = m.wall_s
            save("cluster_identical", found)
            table({key: rows[key]}, ("labels", "posterior", "wall_s", "error"), "workers x threads")
    table(rows, ("labels", "posterior", "wall_s"), "workers x threads")


def overhead(args):
    found, rows = {}, {}
    for name in args.sets or ("tetrodes319k", "mixture3m32"):
        archive, c = str(as_zarr(name)), n_clusters(name)
        for where, shape in {"here": (0, 2), "cluster": (2, 1)}.items():
            call = {"archive": archive, "c": c, "n_workers": shape[0], "n_threads": shape[1], "scale": None}
            found[f"{name} {where}"] = measure("_clusters:fit", call)
        save("cluster_overhead", found)
        here, there = (found[f"{name} {where}"].result["stages"] for where in ("here", "cluster"))
        for stage in (*STAGES, "all"):
            walls = [sum(part["wall"] for name, part in of.items() if stage in (name, "all")) for of in (here, there)]
            rows[f"{name} {stage}"] = {"here_s": walls[0], "cluster_s": walls[1], "ratio": walls[1] / walls[0]}
        more = there["eigen"]["wall"] - here["eigen"]["wall"]
        products = sum(found[f"{name} cluster"].result["matvecs"]) / LanczosParams(1).block_width
        rows[f"{name} eigen"]["ms/product"] = 1e3 * more / products
        table(rows, ("here_s", "cluster_s", "ratio", "ms/product"), "2 threads, 2 workers of 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["identical", "overhead"])
    parser.add_argument("--sets", nargs="+")
    args = parser.parse_args()
    {"identical": identical, "overhead": overhead}[args.question](args)


if __name__ == "__main__":
    main()
