"""Clusters of different widths in few and in many columns: bigsmic and what else one would try, c known and unknown.

    python benchmarks/hubs.py [--kinds normal ...] [--draws 2] [--save hubs] [--show]

Six clusters with deviations from 0.5 to 1.8, whose centres have deviations of .7 in 40 columns and more in fewer; in 20
columns and more, the narrow ones are hubs. Radii are those of Gaussians or have heavier tails, or clusters are oblong.
Of "equal" deviations, none is narrow. bigsmic gets the rows as they are, with its defaults; its peers get columns that
are divided by their standard deviations, and rows as they are. Mean ARI of the draws. Where bigsmic finds no valleys,
its figure without c is 0. Draws that are there are not run again.
"""

import warnings

import numpy as np
from _given_and_open import main

N_ROWS, N_CLUSTERS = 1500, 6
WIDTHS = np.linspace(0.5, 1.8, N_CLUSTERS)
DISTANCE = 4.4
"""Deviation of a centre from the middle, in all columns together."""
KINDS = {
    "normal": lambda draw, X: X,
    "tails": lambda draw, X: X * draw.gamma(2, 0.5, (len(X), 1)),
    "oblong": lambda draw, X: X * np.exp(draw.normal(0, 0.5, X.shape[1])),
    "equal": lambda draw, X: X,
}
"""Shapes of a cluster with deviations of 1."""
COLUMNS = (3, 10, 20, 40)


def drawn(kind, d, seed):
    """Rows and clusters of one draw."""
    draw = np.random.default_rng([seed, d])
    y = draw.integers(0, N_CLUSTERS, N_ROWS)
    X = DISTANCE / np.sqrt(d) * draw.normal(size=(N_CLUSTERS, d))[y]
    widths = np.ones(N_CLUSTERS) if kind == "equal" else WIDTHS
    for k in range(N_CLUSTERS):
        own = y == k
        X[own] += widths[k] * KINDS[kind](draw, draw.normal(size=(np.count_nonzero(own), d)))
    return X.astype(np.float32), y


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(__doc__, "hubs", KINDS, COLUMNS, drawn)
