"""The development table: bigsmic and its peers on nine sets and simulated tetrodes, several seeds, ARI and CPU.

    python benchmarks/development.py [--seeds 5] [--sets ...] [--methods ...] [--threads 1] [--save development]

c is known to all; all see the same rows. Settings were chosen on these sets; `--sets fresh` stands for new draws of
them, other rows and other seeds, and `--sets uneven` for blobs of very uneven size. What `--save` names holds a cell
per method, set and seed; cells that are there are not run again, so that a table may be filled little by little. A fit
of bigsmic is a process of its own; peers run in this one, after a warm-up: compilation counts for nobody.
"""

import argparse
import functools
import json

import _peers
import numpy as np
from _data import FRESH, UNEVEN
from _harness import RESULTS, measure, save, table
from _ours import peers
from _peers import PEERS

EIGHT = ("usps", "satellite", "olivetti", "mnist20k", "chest20k", "news", "letter", "tetrode30k")
SHORT = {"fresh": FRESH, "uneven": UNEVEN}
SETS = (*EIGHT, "mnist70k", "tetrodes80k")
OURS = {
    "bigsmic": {},
    "plain degrees": {"shrinkage": 0, "t": [5, 7, 10]},
    "merge, medoid": {"selection": "medoid"},
    "merge, lsmi": {"selection": "lsmi"},
    "rotation, consensus": {"assignment": "rotation", "selection": "consensus"},
    "rotation, medoid": {"assignment": "rotation", "selection": "medoid"},
    "rotation, lsmi": {"assignment": "rotation", "selection": "lsmi"},
    "K and N, lsmi": {"assignment": "auto", "selection": "lsmi"},
    "paper": {"preset": "paper"},
}
OURS |= {f"{name}, no repair": options | {"repair": False} for name, options in OURS.items() if name != "paper"}
METHODS = ("bigsmic", "k_means", "gaussian_mixture", "spectral_approximate", "leiden", "leiden_fuzzy")
METHODS += ("umap_k_means", "umap_hdbscan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help=f"of {[*OURS, *PEERS]}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600, help="CPU seconds after which a peer is given up")
    parser.add_argument("--save", default="development")
    args = parser.parse_args()
    args.sets = [name for given in args.sets for name in SHORT.get(given, [given])]
    path = RESULTS / f"{args.save}.json"
    found = json.loads(path.read_text())["measurements"] if path.exists() else {}
    for seed in range(args.seeds):
        for name in args.sets:
            for group in groups(args.methods):
                missing = [method for method in group if f"{method}/{name}/{seed}" not in found]
                for method, cell in run(missing, name, seed, args) if missing else ():
                    found[f"{method}/{name}/{seed}"] = cell
                    print(f"{method}/{name}/{seed}", cell, flush=True)
                    save(args.save, found, threads=args.threads, limit=args.limit)
    show(found)


def groups(methods):
    """Methods that run in one process: peers that share something."""
    shared = {}
    for method in methods:
        key = PEERS[method][2] or method if method in PEERS else method
        shared.setdefault(key, []).append(method)
    return shared.values()


def run(methods, name, seed, args):
    """ARI and CPU seconds of each method."""
    if methods[0] in OURS:
        options = {"name": name, "n_threads": args.threads, "scale": None, "seed": seed} | OURS[methods[0]]
        m = measure("_ours:fit", options, threads=1)
        yield methods[0], {"ari": m.result.get("ari"), "cpu_s": m.call_cpu_s, "error": m.error}
        return
    warm_up(tuple(methods), args.threads)
    yield from peers(name, methods, seed, args.limit)


@functools.cache
def warm_up(methods, threads):
    """Once in this process."""
    _peers.warm_up(methods, threads)


def show(found):
    """Print ARI, with the standard deviation over several seeds, and CPU seconds below."""
    by = {}
    for key, cell in found.items():
        method, name, _ = key.split("/")
        if cell["ari"] is not None:
            by.setdefault(method, {}).setdefault(name, []).append((cell["ari"], cell["cpu_s"]))
    cells, seconds = {}, {}
    for method, row in by.items():
        figures = {name: np.transpose(pairs) for name, pairs in row.items()}
        cells[method] = {name: _with_spread(scores) for name, (scores, _) in figures.items()}
        seconds[method] = {name: f"{cpu.mean():.0f}" for name, (_, cpu) in figures.items()}
        if all(name in figures for name in EIGHT):
            cells[method]["mean of 8"] = f"{np.mean([figures[name][0].mean() for name in EIGHT]):.3f}"
    names = list(dict.fromkeys(name for row in by.values() for name in row))
    table(cells, ("mean of 8", *names), "ARI")
    table(seconds, names, "CPU s")


def _with_spread(scores):
    return f"{scores.mean():.3f}" + (f" ({scores.std():.3f})" if len(scores) > 1 else "")


if __name__ == "__main__":
    main()
