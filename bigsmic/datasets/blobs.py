"""Gaussian blobs of very uneven sizes, some of which may overlap, and rows in no blob."""

from typing import Any

import numpy as np

from bigsmic.datasets.row_generators import require, require_at_most
from bigsmic.types import Sample

SMALLEST = 30
"""Least number of rows of a blob."""


def uneven_blobs(
    n_rows: int = 6000, c: int | None = None, d: int | None = None, *, noise: float = 0.0, seed: int = 0
) -> Sample:
    """Draw Gaussian blobs whose sizes follow a power law, most of them well apart.

    Means are uniform in a cube of side 20; standard deviations, one for each blob, are uniform from .5 to 1.5; sizes
    are proportional to Pareto variables of exponent 1, so the largest blob often has most of the rows.

    Parameters
    ----------
    n_rows : int
        Approximate number of rows in blobs: a blob has at least 30.
    c, d : int, optional
        Blobs and columns; by default drawn from 4 to 14 and from 2 to 19.
    noise : float
        Number of rows in no blob, as a share of those in blobs, after which they come. They are uniform in the bounding
        box of the blobs.
    seed : int
        From 0 to 2**32 - 1. Equal seeds give equal data; the blobs do not depend on `noise`.

    Returns
    -------
    X : ndarray of float32, shape (n, d)
    labels : ndarray of int32, shape (n,)
        Blobs from 0, the largest first; -1 for rows in no blob.

    Raises
    ------
    InputError
        A parameter is out of its range.
    """
    require("seed", seed, 0)
    require_at_most("seed", seed, 2**32 - 1)
    draw = np.random.default_rng(seed)
    drawn_c, drawn_d = int(draw.integers(4, 15)), int(draw.integers(2, 20))
    c, d = drawn_c if c is None else c, drawn_d if d is None else d
    for name, value in {"n_rows": n_rows, "c": c, "d": d}.items():
        require(name, value, 1)
    require("noise", noise, 0)
    require_at_most("noise", noise, 100)
    sizes = np.sort(draw.pareto(1.0, c) + 0.05)[::-1]
    sizes = np.maximum((n_rows * sizes / sizes.sum()).astype(int), SMALLEST)
    X, labels = _blobs(sizes, d, draw.uniform(0.5, 1.5, c), seed)
    at_random = draw.uniform(X.min(axis=0), X.max(axis=0), (int(noise * len(X)), d))
    labels = np.concatenate([labels, np.full(len(at_random), -1)])
    return np.concatenate([X, at_random]).astype(np.float32), labels.astype(np.int32)


def _blobs(sizes: Any, d: int, deviations: Any, seed: int) -> Any:
    from sklearn.datasets import make_blobs

    return make_blobs(sizes, n_features=d, cluster_std=deviations, center_box=(-10, 10), random_state=seed)
