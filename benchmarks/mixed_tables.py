"""Tables of numbers beside flags, integers and categories: bigsmic and what else one would try, c known and unknown.

    python benchmarks/mixed_tables.py [--kinds flags ...] [--draws 2] [--save mixed_tables] [--show]

Three to five Gaussian blobs, 7 standard deviations apart, each column in a unit of its own, beside columns that say
nothing of them: the graph has a part for each combination of their values. bigsmic gets the rows as they are, with its
defaults; its peers get columns that are divided by their standard deviations, and rows as they are. Mean ARI of the
draws. Where bigsmic finds no valleys, its figure without c is 0. Draws that are there are not run again.
"""

import argparse
import warnings

import numpy as np
from _given_and_open import cell, show
from _harness import known, save

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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
