"""Many rows in a plane: bigsmic and what else one would try, number of clusters known and unknown.

    python benchmarks/planes.py [--kinds steep ...] [--draws 1] [--save planes] [--show]

Gaussian clusters that touch: twenty of equal width; twelve of uneven widths and sizes; twelve in 5 % of uniform noise;
twenty-five whose sizes follow a power law, of uneven widths, in 3 % of noise, like places that people visit. Noise does
not count. bigsmic gets the rows as they are, with its defaults; its peers get columns divided by their standard
deviations, and rows as they are. Where bigsmic finds no valleys, its figure without a number is 0. Draws that are there
are not run again.
"""

import warnings

import numpy as np
from _given_and_open import main

GIVEN = ("k_means", "gaussian_mixture")
OPEN = ("leiden", "hdbscan_200")
SIDE = 10.0  # of the square with the centres, from its middle
KINDS = {  # clusters, their width and its unevenness, share of noise
    "even": (20, 0.5, 0.0, 0.0),
    "uneven": (12, 0.6, 0.5, 0.0),
    "noise": (12, 0.5, 0.0, 0.05),
    "steep": (25, 0.3, 0.6, 0.03),
}
CONCENTRATION = {"even": 3.0, "uneven": 1.5, "noise": 3.0}  # of the Dirichlet distribution of sizes
ROWS = ["30000", "100000"]


def drawn(kind, rows, seed):
    """Rows and clusters of one draw, -1 for noise."""
    k, width, unevenness, noise = KINDS[kind]
    draw, n = np.random.default_rng([seed, int(rows), list(KINDS).index(kind)]), int(rows)
    centers, widths = draw.uniform(-SIDE, SIDE, (k, 2)), width * np.exp(unevenness * draw.normal(size=k))
    sizes = draw.dirichlet(np.full(k, CONCENTRATION[kind])) if kind in CONCENTRATION else np.arange(1, k + 1) ** -0.8
    y = draw.choice(k, n, p=sizes / sizes.sum())
    X = centers[y] + widths[y, None] * draw.normal(size=(n, 2))
    is_noise = draw.random(n) < noise
    X[is_noise] = draw.uniform(-1.2 * SIDE, 1.2 * SIDE, (int(is_noise.sum()), 2))
    return X.astype(np.float32), np.where(is_noise, -1, y)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(__doc__, "planes", KINDS, ROWS, drawn, given=GIVEN, without=OPEN)
