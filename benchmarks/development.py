"""The development table: bigsmic and its peers on nine sets and simulated tetrodes, several seeds, ARI and CPU.

    python benchmarks/development.py [--seeds 5] [--peer-seeds 1] [--sets ...] [--methods ...] [--threads 1]

c is known to all; all see the same rows. Settings were chosen on these sets: new draws of them are in `--fresh`.
"""

import argparse

import numpy as np
from _harness import measure, save, table

EIGHT = ("usps", "satellite", "olivetti", "mnist20k", "chest20k", "news", "letter", "tetrode30k")
SETS = (*EIGHT, "mnist70k", "tetrodes80k")
OURS = {
    "bigsmic": {},
    "bigsmic, medoid": {"selection": "medoid"},
    "bigsmic, lsmi": {"selection": "lsmi"},
    "bigsmic, no repair": {"repair": False},
    "rotation, lsmi": {"assignment": "rotation", "selection": "lsmi"},
    "rotation, consensus": {"assignment": "rotation", "selection": "consensus"},
    "rotation, medoid": {"assignment": "rotation", "selection": "medoid"},
    "K and N, lsmi": {"assignment": "auto", "selection": "lsmi"},
    "paper": {"preset": "paper"},
}
PEERS = ("k_means", "gaussian_mixture", "spectral", "leiden", "leiden_fuzzy", "umap_k_means", "umap_hdbscan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--methods", nargs="+", default=["bigsmic", *PEERS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer-seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=1800)
    parser.add_argument("--save", default="development")
    args = parser.parse_args()
    found = {}
    for name in args.sets:
        for method in args.methods:
            found[f"{method}/{name}"] = run(name, method, args)
            show(found, args)
            save(args.save, found, **vars(args))


def run(name, method, args):
    """ARI of every seed, and mean CPU seconds of a process."""
    scores, cpu, errors = [], [], []
    for seed in range(args.seeds if method in OURS else args.peer_seeds):
        call = ("_ours:peer", {"name": name, "which": method, "seed": seed})
        if method in OURS:
            options = {"name": name, "n_threads": args.threads, "scale": None, "seed": seed}
            call = ("_ours:fit", options | OURS[method])
        m = measure(*call, threads=1 if method in OURS else args.threads, timeout=args.timeout)
        errors += [m.error] if m.error else []
        scores += [] if m.error else [m.result["ari"]]
        cpu += [] if m.error else [m.cpu_s]
    return {"ari": scores, "cpu_s": cpu, "errors": errors}


def show(found, args):
    """Print ARI with the standard deviation of several seeds and, below, CPU seconds."""
    cells, seconds = {}, {}
    for key, entry in found.items():
        method, name = key.split("/")
        if entry["ari"]:
            spread = f" ({np.std(entry['ari']):.2f})" if len(entry["ari"]) > 1 else ""
            cells.setdefault(method, {})[name] = f"{np.mean(entry['ari']):.3f}{spread}"
            seconds.setdefault(method, {})[name] = f"{np.mean(entry['cpu_s']):.0f}"
    for method, row in cells.items():
        if all(name in row for name in EIGHT):
            row["mean of 8"] = f"{np.mean([np.mean(found[f'{method}/{name}']['ari']) for name in EIGHT]):.3f}"
    print()
    table(cells, (*args.sets, "mean of 8"), "ARI")
    table(seconds, args.sets, "CPU s")


if __name__ == "__main__":
    main()
