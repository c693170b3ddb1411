"""Fits of bigsmic and its peers with the number of clusters and without, on rows in memory, for several benchmarks."""

import _peers
import numpy as np
from _harness import table
from _unknown_peers import PEERS as UNKNOWN_PEERS
from sklearn.metrics import adjusted_rand_score as ari

import bigsmic

GIVEN = ("k_means", "gaussian_mixture", "spectral", "leiden", "umap_k_means")
OPEN = ("leiden", "umap_hdbscan_200")


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
    """Print the mean over draws, a line for each method and a column for each kind: keys are ``kind/draw``."""
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
