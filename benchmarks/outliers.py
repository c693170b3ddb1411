"""A few outliers beside clusters: bigsmic and what else one would try, number of clusters known and unknown.

    python benchmarks/outliers.py [--kinds moons ...] [--draws 2] [--save outliers] [--show]

2,000 rows of two moons, two circles, a table of five Gaussian blobs whose columns have units of their own, or 5,000
simulated spikes of eight units, beside no outliers, ten rows anywhere, four far groups of three rows, or 20 rows with
one wrong entry, a thousand times too large. bigsmic gets the rows as they are, with its defaults; its peers get columns
that are divided by their standard deviations, and rows as they are. Mean ARI of the draws, over all rows but outliers.
Where bigsmic finds no valleys, its figure without a number is 0. Draws that are there are not run again.
"""

import warnings

import numpy as np
from _given_and_open import main
from sklearn.datasets import make_blobs, make_circles, make_moons

from bigsmic.datasets import tetrodes

N_ROWS = 2000
GIVEN = ("k_means", "spectral", "leiden", "umap_k_means")
OPEN = ("leiden", "umap_hdbscan_200", "hdbscan_200")


def _table(seed):
    X, y = make_blobs(N_ROWS, n_features=6, centers=5, center_box=(-5, 5), random_state=seed)
    return X * 10 ** np.random.default_rng(seed).uniform(-2, 2, 6), y


KINDS = {
    "moons": lambda seed: make_moons(N_ROWS, noise=0.05, random_state=seed),
    "circles": lambda seed: make_circles(N_ROWS, noise=0.05, factor=0.5, random_state=seed),
    "table": _table,
    "spikes": lambda seed: tetrodes(n_rows=5000, n_units=8, seed=seed),
}


def _anywhere(X, draw):
    return X.mean(axis=0) + draw.uniform(-6, 6, (10, X.shape[1])) * X.std(axis=0)


def _groups(X, draw):
    far = draw.uniform(-6, 6, (4, X.shape[1]))
    return X.mean(axis=0) + (np.repeat(far, 3, axis=0) + draw.normal(0, 0.05, (12, X.shape[1]))) * X.std(axis=0)


def _wrong_entries(X, draw):
    wrong = X[draw.choice(len(X), 20, replace=False)]
    wrong[np.arange(20), draw.integers(0, X.shape[1], 20)] *= 1000
    return wrong


OUTLIERS = {
    "none": lambda X, draw: X[:0],
    "rows": _anywhere,
    "groups": _groups,
    "entries": _wrong_entries,
}


def drawn(kind, outliers, seed):
    """Rows in random order, and their clusters, -1 for outliers."""
    X, y = KINDS[kind](seed)
    draw = np.random.default_rng([seed, 1])
    added = OUTLIERS[outliers](X, draw)
    order = draw.permutation(len(X) + len(added))
    X, y = np.concatenate([X, added]), np.concatenate([y, np.full(len(added), -1)])
    return X[order].astype(np.float32), y[order]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(__doc__, "outliers", KINDS, OUTLIERS, drawn, given=GIVEN, without=OPEN)
