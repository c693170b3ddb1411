"""Tables of numbers beside flags, integers and categories: bigsmic and what else one would try, c known and unknown.

    python benchmarks/mixed_tables.py [--kinds flags ...] [--draws 2] [--save mixed_tables] [--show]

Three to five Gaussian blobs, 7 standard deviations apart, each column in a unit of its own, beside columns that say
nothing of them: the graph has a part for each combination of their values. bigsmic gets the rows as they are, with its
defaults; its peers get columns that are divided by their standard deviations, and rows as they are. Mean ARI of the
draws. Where bigsmic finds no valleys, its figure without c is 0. Draws that are there are not run again.
"""

import argparse
import warnings

import _peers
import numpy as np
from _harness import known, save, table
from _unknown_peers import PEERS as UNKNOWN_PEERS
from sklearn.metrics import adjusted_rand_score as ari

import bigsmic

KINDS = {
    "integers": (3, lambda draw, n: [draw.integers(0, 4, n), draw.integers(0, 2, n)]),
    "ten values": (3, lambda draw, n: [draw.integers(0, 10, n)]),
    "flags": (4, lambda draw, n: [draw.integers(0, 2, (n, 5))]),
    "category": (4, lambda draw, n: [np.eye(6)[draw.integers(0, 6, n)]]),
    "categories": (5, lambda draw, n: [np.eye(k)[draw.integers(0, k, n)] for k in (12, 3)]),
}
"""Number of blobs, and the columns beside them."""
SIZES = (1000, 10_000)
SEPARATION = 5.0
UNITS = (-2.0, 2.0)
"""Decimal logarithms between which the units of columns are."""
GIVEN = ("k_means", "gaussian_mixture", "spectral", "leiden", "umap_k_means")
OPEN = ("leiden", "umap_hdbscan_200")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--save", default="mixed_tables")
    parser.add_argument("--show", action="store_true", help="print what was saved, and run nothing")
    args = parser.parse_args()
    cells = dict(known(args.save))
    wanted = [(kind, n, seed) for kind in args.kinds for n in SIZES for seed in range(args.draws)]
    for kind, n, seed in [] if args.show else wanted:
        key = f"{kind}/{n}/{seed}"
        if key not in cells:
            cells[key] = cell(*drawn(kind, n, seed))
            print(key, cells[key], flush=True)
            save(args.save, cells)
    show(cells)


def drawn(kind, n, seed):
    """Rows and blobs of one draw."""
    c, beside = KINDS[kind]
    draw = np.random.default_rng([seed, n])
    y = draw.integers(0, c, n)
    blobs = draw.normal(size=(n, c)) + SEPARATION * np.eye(c)[y]
    return np.column_stack([blobs * 10 ** draw.uniform(*UNITS, c), *beside(draw, n)]).astype(np.float32), y


def cell(X, y):
    """ARI of every method, by its name and ``given`` or ``open``."""
    c, result = int(y.max()) + 1, bigsmic.fit(X)
    found = {"bigsmic, given": bigsmic.fit(X, c).labels}
    found |= {"bigsmic, open": result.labels if result.n_clusters else np.zeros(len(X), int)}
    for kind, Z in (("scaled", (X - X.mean(axis=0)) / X.std(axis=0)), ("as they are", X)):
        rows = _peers.Rows(Z.astype(np.float32), c, 0)
        found |= {f"{peer}, {kind}, given": _peers.PEERS[peer][1](rows) for peer in GIVEN}
        found |= {f"{peer}, {kind}, open": UNKNOWN_PEERS[peer][1](rows) for peer in OPEN}
    return {method: ari(y, np.asarray(labels)) for method, labels in found.items()}


def show(cells):
    """Print the mean over draws, a line for each method and a column for each kind and size."""
    kinds = list(dict.fromkeys(key.rsplit("/", 1)[0] for key in cells))
    methods = sorted(next(iter(cells.values())), key=lambda method: (method.endswith("open"), "bigsmic" not in method))
    means = {
        method: {
            kind: float(np.mean([cell[method] for key, cell in cells.items() if key.rsplit("/", 1)[0] == kind]))
            for kind in kinds
        }
        for method in methods
    }
    table(means, kinds, "mean ARI")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
