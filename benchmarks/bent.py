"""Bent clusters in noise: bigsmic and what else one would try, number of clusters known and unknown.

    python benchmarks/bent.py [--kinds moons ...] [--draws 2] [--save bent] [--show]

Two moons, two circles, two spirals of one and a half turns, three rings, four bars, two linked rings in space, and
moons beside three round blobs; 1,000 and 5,000 rows, beside as many rows of uniform noise as the second number says, in
per cent. bigsmic gets the rows as they are, with its defaults; its peers get columns that are divided by their standard
deviations, and rows as they are. Mean ARI of the draws, over all rows but noise. Where bigsmic finds no valleys, its
figure without a number is 0. Draws that are there are not run again.
"""

import itertools
import warnings

import numpy as np
from _given_and_open import main
from sklearn.datasets import make_circles, make_moons

GIVEN = ("k_means", "spectral", "leiden", "umap_k_means")
OPEN = ("leiden", "umap_hdbscan_200", "hdbscan_200", "hdbscan_default")
BEYOND = 0.1
"""Share of the range of each column by which noise reaches beyond it on both sides."""


def _moons(draw, n):
    return make_moons(n, noise=0.05, random_state=int(draw.integers(1 << 30)))


def _circles(draw, n):
    return make_circles(n, noise=0.05, factor=0.5, random_state=int(draw.integers(1 << 30)))


def _spirals(draw, n):
    y, angle = draw.integers(0, 2, n), np.sqrt(draw.uniform(0.03, 1, n)) * 3 * np.pi
    turned = angle + np.pi * y
    return (angle * np.stack([np.cos(turned), np.sin(turned)])).T + draw.normal(0, 0.3, (n, 2)), y


def _rings(draw, n):
    y, angle = draw.integers(0, 3, n), draw.uniform(0, 2 * np.pi, n)
    return ((y + 1) * np.stack([np.cos(angle), np.sin(angle)])).T + draw.normal(0, 0.08, (n, 2)), y


def _bars(draw, n):
    y = draw.integers(0, 4, n)
    return np.column_stack([draw.uniform(-4, 4, n), 1.5 * y + draw.normal(0, 0.15, n)]), y


def _links(draw, n):
    y, angle = draw.integers(0, 2, n), draw.uniform(0, 2 * np.pi, n)
    first = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)])
    second = np.stack([1 + np.cos(angle), np.zeros(n), np.sin(angle)])
    return np.where(y, second, first).T + draw.normal(0, 0.06, (n, 3)), y


def _moons_and_blobs(draw, n):
    bent, which = _moons(draw, n // 2)
    of = draw.integers(0, 3, n - n // 2)
    blobs = np.array([(-2, 2), (3, 2), (0, -3)])[of] + draw.normal(0, 0.2, (len(of), 2))
    return np.concatenate([bent, blobs]), np.concatenate([which, of + 2])


KINDS = {
    "moons": _moons,
    "circles": _circles,
    "spirals": _spirals,
    "rings": _rings,
    "bars": _bars,
    "links": _links,
    "moons and blobs": _moons_and_blobs,
}
VARIANTS = [f"{n} {percent}" for n, percent in itertools.product((1000, 5000), (0, 2, 5, 10, 20))]


def drawn(kind, variant, seed):
    """Rows, and clusters, -1 for noise, of one draw."""
    n, percent = map(int, variant.split())
    draw = np.random.default_rng([seed, n, percent, list(KINDS).index(kind)])
    X, y = KINDS[kind](draw, n)
    low, high = X.min(axis=0), X.max(axis=0)
    margin = BEYOND * (high - low)
    noise = draw.uniform(low - margin, high + margin, (n * percent // 100, X.shape[1]))
    X, y = np.concatenate([X, noise]), np.concatenate([y, np.full(len(noise), -1)])
    order = draw.permutation(len(X))
    return X[order].astype(np.float32), y[order]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(__doc__, "bent", KINDS, VARIANTS, drawn, given=GIVEN, without=OPEN)
