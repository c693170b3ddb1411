"""Rows with copies: bigsmic and what else one would try, number of clusters known and unknown.

    python benchmarks/copies.py [--kinds moons ...] [--draws 2] [--save copies] [--show]

Two moons, two circles, and Gaussian blobs in two, three and five columns, 1,000 different rows. "copies" repeats each
of them so many times; "distinct" rounds values, the same step in every column, until so many per cent of the rows
differ. bigsmic gets the rows as they are, with its defaults; its peers get columns that are divided by their standard
deviations, and rows as they are. Where bigsmic finds no valleys, its figure without a number is 0. Draws that are there
are not run again.
"""

import warnings

import numpy as np
from _given_and_open import main
from sklearn.datasets import make_blobs, make_circles, make_moons

N = 1000
GIVEN = ("k_means", "gaussian_mixture", "spectral", "leiden")
OPEN = ("leiden", "umap_hdbscan_200", "hdbscan_200")
KINDS = {
    "moons": lambda seed: make_moons(N, noise=0.07, random_state=seed),
    "circles": lambda seed: make_circles(N, noise=0.05, factor=0.5, random_state=seed),
    "blobs 2": lambda seed: make_blobs(N, 2, centers=4, random_state=seed),
    "blobs 3": lambda seed: make_blobs(N, 3, centers=5, cluster_std=1.5, random_state=seed),
    "blobs 5": lambda seed: make_blobs(N, 5, centers=4, cluster_std=2, random_state=seed),
}
VARIANTS = ["copies 2", "copies 4", "distinct 45", "distinct 20", "distinct 10"]


def drawn(kind, variant, seed):
    """Rows, in random order, and clusters of one draw."""
    what, number = variant.split()
    draw = np.random.default_rng([seed, int(number), list(KINDS).index(kind)])
    X, y = KINDS[kind](int(draw.integers(1 << 30)))
    if what == "copies":
        X, y = np.tile(X, (int(number), 1)), np.tile(y, int(number))
    else:
        X = _rounded(X, int(number) / 100)
    order = draw.permutation(len(X))
    return X[order].astype(np.float32), y[order]


def _rounded(X, share):
    """Rows as multiples of a step, which bisection finds, of which this share differ."""
    low, high = 0.0, float(np.ptp(X))
    for _ in range(40):
        step = (low + high) / 2
        is_fine = len(np.unique(np.round(X / step), axis=0)) > share * len(X)
        low, high = (step, high) if is_fine else (low, step)
    return np.round(X / high)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(__doc__, "copies", KINDS, VARIANTS, drawn, given=GIVEN, without=OPEN)
