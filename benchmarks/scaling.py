"""How time and memory grow with rows and workers; ``scaling_model.py`` predicts more of both.

    python benchmarks/scaling.py [--rows 100000 300000 1000000] [--workers 1 2] [--scheduler tcp://...]

Runs that are in results/scaling.json are not repeated; results/scaling_xeon.json has some of another machine. Strong
scaling: the same rows on more workers; weak scaling: rows in proportion to workers. Rows are a mixture of 20 clusters
in 16 dimensions.
"""

import argparse
import json

from _clusters import SIZES
from _data import as_zarr, n_clusters
from _harness import RESULTS, measure, save, table

RESULT = RESULTS / "scaling.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=SIZES[:3])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--scheduler", help="address of a cluster; otherwise workers are started here")
    args = parser.parse_args()
    run(args)
    runs = stored()
    show(runs)
    plot(runs)


def run(args):
    found = stored()
    for n in args.rows:
        archive = str(as_zarr(f"mixture{n}x16"))
        for n_workers in args.workers:
            key = f"{n} {n_workers} {args.threads}"
            if key in found:
                continue
            call = {"archive": archive, "c": n_clusters(f"mixture{n}x16"), "n_workers": n_workers, "scale": None}
            m = measure("_clusters:fit", call | {"n_threads": args.threads, "scheduler": args.scheduler})
            if m.error:
                print(key, m.error)
                continue
            found[key] = {"n": n, "workers": n_workers, "threads": args.threads, **m.result}
            save("scaling", found)


def stored():
    return json.loads(RESULT.read_text())["measurements"] if RESULT.exists() else {}


def show(runs):
    rows = {}
    for key, of in runs.items():
        stages = of["stages"]
        wall, cpu = (sum(stage[what] for stage in stages.values()) for what in ("wall", "cpu"))
        rows[key] = {"wall_s": wall, "cpu_s": cpu, "cpu_us/row": 1e6 * cpu / of["n"]}
        rows[key]["worker_peak_mb"] = max(stage["peak_bytes"] for stage in stages.values()) / 2**20
        alone = runs.get(f"{of['n']} 1 {of['threads']}")
        if alone:
            rows[key]["speedup"] = sum(stage["wall"] for stage in alone["stages"].values()) / wall
    table(rows, ("wall_s", "cpu_s", "cpu_us/row", "worker_peak_mb", "speedup"), "rows, workers, threads")


def plot(runs):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 4))
    for workers in sorted({of["workers"] for of in runs.values()}):
        of_width = sorted((of for of in runs.values() if of["workers"] == workers), key=lambda of: of["n"])
        walls = [sum(stage["wall"] for stage in of["stages"].values()) for of in of_width]
        axes.loglog([of["n"] for of in of_width], walls, "o-", label=f"{workers} workers")
    axes.set(xlabel="rows", ylabel="seconds")
    axes.legend()
    figure.savefig(RESULTS / "scaling.png", dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
