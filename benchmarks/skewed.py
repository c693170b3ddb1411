"""Many clusters of even and of skewed sizes, such as places or species: bigsmic and its peers, c known and unknown.

    python benchmarks/skewed.py [--kinds even ...] [--draws 2] [--save skewed] [--show]

Thirty clusters of 5,000 rows, whose centres are anywhere in a square or cube and whose widths differ. Sizes are even,
the inverse of their rank ("zipf"), or of its power of 1.3 ("steep"); of "noise", sizes are those of "zipf", and a tenth
of as many rows lie anywhere and do not count. bigsmic gets the rows as they are, with its defaults; its peers get
columns that are divided by their standard deviations, and rows as they are. Mean ARI of the draws. Where bigsmic finds
no valleys, its figure without c is 0. Draws that are there are not run again.
"""

import warnings

import numpy as np
from _given_and_open import main

N_ROWS, N_CLUSTERS = 5000, 30
KINDS = {"even": 0.0, "zipf": 1.0, "steep": 1.3, "noise": 1.0}
"""Powers of the rank to which sizes are inverse."""
SIDES = {2: 55.0, 3: 22.0, 8: 5.5}
"""Side of the square or cube in usual deviations of a cluster, for each number of columns."""


def drawn(kind, d, seed):
    """Rows and clusters of one draw; -1 for noise."""
    draw = np.random.default_rng([7, seed, d])
    shares = np.arange(1, N_CLUSTERS + 1) ** -KINDS[kind]
    sizes = np.maximum(N_ROWS * shares / shares.sum(), 5).astype(int)
    y = np.repeat(np.arange(N_CLUSTERS), sizes)
    centers = draw.uniform(0, SIDES[d], (N_CLUSTERS, d))
    X = centers[y] + np.exp(draw.normal(-0.2, 0.4, N_CLUSTERS))[y, None] * draw.normal(size=(len(y), d))
    if kind == "noise":
        X = np.concatenate([X, draw.uniform(0, SIDES[d], (N_ROWS // 10, d))])
        y = np.concatenate([y, np.full(N_ROWS // 10, -1)])
    return X.astype(np.float32), y


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(__doc__, "skewed", KINDS, SIDES, drawn)
