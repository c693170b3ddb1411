"""Tables of numbers beside flags, integers and categories: bigsmic and what else one would try, c known and unknown.

    python benchmarks/mixed_tables.py [--kinds flags ...] [--draws 2] [--save mixed_tables] [--show]

Three to five Gaussian blobs, 7 standard deviations apart, each column in a unit of its own, beside columns that say
nothing of them: the graph has a part for each combination of their values. bigsmic gets the rows as they are, with its
defaults; its peers get columns that are divided by their standard deviations, and rows as they are. Mean ARI of the
draws. Where bigsmic finds no valleys, its figure without c is 0. Draws that are there are not run again.
"""

import warnings

import numpy as np
from _given_and_open import main

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


def drawn(kind, n, seed):
    """Rows and blobs of one draw."""
    c, beside = KINDS[kind]
    draw = np.random.default_rng([seed, n])
    y = draw.integers(0, c, n)
    blobs = draw.normal(size=(n, c)) + SEPARATION * np.eye(c)[y]
    return np.column_stack([blobs * 10 ** draw.uniform(*UNITS, c), *beside(draw, n)]).astype(np.float32), y


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(__doc__, "mixed_tables", KINDS, SIZES, drawn)
