"""How time and memory grow with rows and workers, and what that says of more of both.

::

    python benchmarks/scaling.py [--rows 100000 300000 1000000] [--workers 1 2] [--scheduler tcp://...]
    python benchmarks/scaling.py --model

Runs that are in results/scaling.json are not repeated. Strong scaling: the same rows on more workers; weak scaling:
rows in proportion to workers. ``--model`` fits a cost per stage to the runs, holds it against one that was left out,
and predicts larger ones. Rows are a mixture of 20 clusters in 16 dimensions.
"""

import argparse
import json

import numpy as np
from _clusters import SIZES
from _data import as_zarr, n_clusters
from _harness import RESULTS, measure, save, table

from bigsmic.methods.smic import planning as smic_planning
from bigsmic.runtime import planning
from bigsmic.settings.smic import resolve
from bigsmic.stages.labeling_specs import LabelingSpecs, eigenproblems

STAGES = ("scan", "route", "neighbors", "graph", "eigen", "assign", "select", "output")
D, C = 16, 20
PREDICTED = [(n, w) for n in (10**8, 10**9) for w in (16, 64, 256)]
THREADS, WORKER_BYTES = 8, 16 << 30  # of a worker that is predicted
EDGE_HALO = 0.4  # rows of others that a share touches, over its rows; falls with its size
RESULT = RESULTS / "scaling.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=SIZES[:3])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--scheduler", help="address of a cluster; otherwise workers are started here")
    parser.add_argument("--model", action="store_true", help="only fit the model to what is there, and predict")
    args = parser.parse_args()
    if not args.model:
        run(args)
    runs = stored()
    show(runs)
    model(runs)
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


# -- the model: wall of a stage = fixed + work / (workers threads) + exchange / workers, both in proportion to rows;
# work a little more in route, and in the eigensolver, which takes more steps on more rows


def features(stage, n, workers, threads):
    """What the seconds of a stage are made of, with coefficients that are at least 0."""
    growth = {"route": np.sqrt(n), "eigen": np.log(n)}.get(stage, 1.0)  # cells to compare a row with; steps
    return np.array([1.0, n * growth / (workers * threads), n / workers if workers > 1 else 0.0])


def fitted(runs, stage):
    from scipy.optimize import nnls

    A = np.array([features(stage, of["n"], of["workers"], of["threads"]) for of in runs])
    walls = np.array([of["stages"][stage]["wall"] for of in runs])
    weight = 1 / np.maximum(walls, 0.05)  # relative errors
    return nnls(A * weight[:, None], walls * weight)[0]


def predicted(coefficients, n, workers, threads):
    return {stage: float(features(stage, n, workers, threads) @ c) for stage, c in coefficients.items()}


def model(runs):
    every = sorted(runs.values(), key=lambda of: (of["n"], of["workers"]))
    if len(every) < 4:
        print("\nno model: it takes four runs")
        return
    left_out = every[-1]
    coefficients = {stage: fitted(every[:-1], stage) for stage in STAGES}
    foretold = predicted(coefficients, left_out["n"], left_out["workers"], left_out["threads"])
    rows = {
        stage: {"measured_s": left_out["stages"][stage]["wall"], "predicted_s": foretold[stage]} for stage in STAGES
    }
    rows["all"] = {what: sum(row[what] for row in rows.values()) for what in ("measured_s", "predicted_s")}
    print()
    table(rows, ("measured_s", "predicted_s"), f"left out: {left_out['n']} rows, {left_out['workers']} workers")
    coefficients = {stage: fitted(every, stage) for stage in STAGES}
    n_products = sum(left_out["matvecs"])
    rows = {f"{n:,} {workers}": outlook(coefficients, n, workers, n_products) for n, workers in PREDICTED}
    print()
    table(rows, ("hours", "worker_gib", "moved_tib", "tasks"), f"rows, workers of {THREADS} threads")
    save("scaling_model", {"left_out": {"measured": left_out["stages"], "predicted": foretold}, "outlook": rows})


def outlook(coefficients, n, workers, n_products):
    """Time, memory of a worker, bytes that cross between workers and the store, and scheduler tasks.

    A product of the matrix with one vector moves four bytes for each row of others that a share touches. What is stored
    is written once and read once; the eigenvectors of every eigenproblem are read once more for every window of
    labelings.
    """
    settings = resolve(C)
    plan = smic_planning.plan(planning.Size(n, D, n_workers=workers), settings, WORKER_BYTES, THREADS)
    n_vectors = max(reading.n_eigenvectors for reading in LabelingSpecs(settings, n))
    halo = EDGE_HALO * n * 4 * n_products
    store = 2 * plan.disk_bytes + len(settings.widths) * len(eigenproblems(settings)) * 4 * n * n_vectors
    return {
        "hours": sum(predicted(coefficients, n, workers, THREADS).values()) / 3600,
        "worker_gib": plan.peak_bytes / 2**30,
        "moved_tib": (halo + store) / 2**40,
        "tasks": plan.scheduler_tasks,
    }


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
