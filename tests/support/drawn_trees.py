"""Merge trees drawn at random."""

import numpy as np

from bigsmic.numerics.labeling.merge_tree import MergeTree


def random_tree(n_columns, rng, dropped=()):
    """Merges in a random order, with random ratios."""
    columns = np.setdiff1d(np.arange(n_columns), dropped)
    left, merges = columns.tolist(), []
    while len(left) > 1:
        y, z = sorted(rng.choice(left, 2, replace=False).tolist())
        merges.append((y, z))
        left.remove(z)
    return MergeTree(n_columns, columns, np.array(merges).reshape(-1, 2), rng.random(len(merges)))
