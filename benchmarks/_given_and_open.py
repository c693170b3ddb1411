"""Fits of bigsmic and its peers with the number of clusters and without, on rows in memory, for several benchmarks."""

import argparse
import itertools

import _peers
import numpy as np
from _harness import known, save, table
from _unknown_peers import PEERS as UNKNOWN_PEERS
from sklearn.metrics import adjusted_rand_score as ari

import bigsmic

GIVEN = ("k_means", "gaussian_mixture", "spectral", "leiden", "umap_k_means")
OPEN = ("leiden", "umap_hdbscan_200")


def main(doc, name, kinds, variants, drawn, **peers):
    """Command line of a benchmark with a cell for every draw ``drawn(kind, variant, seed) -> X, y``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=list(kinds), choices=list(kinds))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--save", default=name)
    parser.add_argument("--show", action="store_true", help="print what was saved, and run nothing")
    args = parser.parse_args()
    cells = dict(known(args.save))
    for wanted in [] if args.show else itertools.product(args.kinds, variants, range(args.draws)):
        key = "/".join(map(str, wanted))
        if key not in cells:
            cells[key] = cell(*drawn(*wanted), **peers)
            print(key, cells[key], flush=True)
            save(args.save, cells)
    show(cells)


def cell(X, y, given=GIVEN, without=OPEN):
    """ARI of every method, by its name and ``given`` or ``open``, on the rows whose y is not negative.

    bigsmic gets the rows as they are, with its defaults; if it finds no valleys, its figure without a number is 0. Its
    peers get columns that are divided by their standard deviations, and rows as they are.
    """
    c, result = int(y.max()) + 1, bigsmic.fit(X)
    found = {"bigsmic, given": bigsmic.fit(X, c).labels}
    found |= {"bigsmic, open": result.labels if result.n_clusters else np.zeros(len(X), int)}
    for kind, Z in (("scaled", (X - X.mean(axis=0)) / X.std(axis=0)), ("as they are", X)):
        rows = _peers.Rows(Z.astype(np.float32), c, 0)
        found |= {f"{peer}, {kind}, given": _peers.PEERS[peer][1](rows) for peer in given}
        found |= {f"{peer}, {kind}, open": UNKNOWN_PEERS[peer][1](rows) for peer in without}
    return {method: ari(y[y >= 0], np.asarray(labels)[y >= 0]) for method, labels in found.items()}


def show(cells):
    """Print the mean over draws, a line for each method and a column for each kind and variant."""
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
