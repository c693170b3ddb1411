"""Few rows whose clusters are known."""

import numpy as np


def ring(seed=0, n=200):
    """A disc and a ring around it."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, n), rng.uniform(2.7, 3.3, n)
    X = np.concatenate(
        [0.6 * rng.normal(size=(n, 2)), np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)]
    )
    return X.astype(np.float32), np.repeat([0, 1], n)
