"""Separation of clusters: a score of any labeling, for rows in memory or on disk."""

from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import InputError, NonFiniteError
from bigsmic.numerics.moments import first_nonfinite
from bigsmic.numerics.objectives.mspc.questions import second_moments
from bigsmic.numerics.objectives.mspc.separation import Two
from bigsmic.runtime import block_sizes
from bigsmic.store import Source, open_source
from bigsmic.types import Integers, Rows, StorageOptions
from bigsmic.validation import check_at_least_zero, to_array

TILE_ENTRIES = 1 << 18


def msp_score(
    X: Rows,
    labels: ArrayLike,
    *,
    reg: float = 0.0,
    component: str | None = None,
    storage_options: StorageOptions = None,
    n_threads: int = 1,
) -> float:
    """Minimum separation probability of a labeling: the share of rows that a hyperplane separates in the worst case.

    For two clusters with means m_k and covariances S_k, the best hyperplane puts at least a share p of each on its own
    side, whatever distributions have these moments [1]_::

        p = kappa^2 / (1 + kappa^2),      kappa = max_w |w'(m_1 - m_0)| / (sqrt(w' S_0 w) + sqrt(w' S_1 w))

    It needs no true labels, lies in [0, 1], and with ``reg=0`` is the same for ``X @ P`` with an invertible P. It
    cannot be used to choose between numbers of clusters, and a cluster of a few distant rows scores high.

    Parameters
    ----------
    X : str, Path, zarr.Array, dask array or array_like, shape (n, d)
        Rows; read once, in blocks.
    labels : array_like, shape (n,)
        At least two different values of any sortable type.
    reg : float
        Multiple of the total variances, added to both covariances.
    component, storage_options
        As in :func:`bigsmic.fit`.
    n_threads : int
        Number of blocks that are read and summed at once.

    Returns
    -------
    p : float
        For more than two clusters, the smallest p of any pair.

    Raises
    ------
    SingularCovarianceError
        The covariances are jointly singular, and ``reg`` is 0.
    InputError
        There is only one cluster, all rows of two clusters are equal, the number of labels differs from that of the
        rows, or rows have NaN.

    References
    ----------
    .. [1] Huang, Zhang, Song, Chen, "Maximin separation probability clustering", AAAI 2015, definition 1.

    Examples
    --------
    >>> import bigsmic
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(bigsmic.msp_score(X, y == 0), 2), round(bigsmic.msp_score(X, y == 1), 2)
    (0.94, 0.32)
    """
    check_at_least_zero("reg", reg)
    source = open_source(X, component, storage_options)
    n, d = source.shape
    labels = to_array("labels", labels)
    if labels.shape != (n,):
        raise InputError(f"labels: got shape {labels.shape} for {n} rows; give one label per row")
    classes, labels = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"labels: got {len(classes)} cluster; a separation needs at least 2")
    bounds = block_sizes.DEFAULT.source_bounds(n, d)
    center = source.read(0, int(bounds[1])).mean(axis=0, dtype=np.float64)
    task = partial(_block_sums, source, bounds, center, (labels, len(classes)))
    with ThreadEngine(n_threads) as engine:
        sums = engine.reduce(task, range(len(bounds) - 1))
    return min(_separation(sums, classes, pair, reg) for pair in combinations(range(len(classes)), 2))


def _separation(sums: NDArray[np.float64], classes: NDArray[np.generic], pair: tuple[int, int], reg: float) -> float:
    """Minimum separation probability of two clusters."""
    two = Two.of(sums[list(pair)])
    if not two.varies.any():
        first, second = classes[list(pair)].tolist()
        raise InputError(
            f"msp_score: all rows of clusters {first!r} and {second!r} are equal, and no hyperplane separates them; "
            "give one label to equal rows"
        )
    return float(two.separation(reg).msp)


def _block_sums(
    source: Source,
    bounds: Integers,
    center: NDArray[np.float64],
    labeling: tuple[NDArray[np.intp], int],
    s: int,
) -> NDArray[np.float64]:
    """Second moments of each cluster's rows in one block, shape (c, d + 1, d + 1)."""
    lo, hi = (int(b) for b in bounds[s : s + 2])
    X, (labels, n_classes) = source.read(lo, hi), labeling
    count, row, column = first_nonfinite(X)
    if count:
        raise NonFiniteError(
            f"msp_score: {source.name} contains NaN or infinity: first at row {lo + row}, column {column}; "
            "drop or impute these rows"
        )
    sums = np.zeros((n_classes, X.shape[1] + 1, X.shape[1] + 1))
    step = max(256, TILE_ENTRIES // X.shape[1])
    for at in range(0, len(X), step):
        panel = X[at : at + step] - center
        classes = labels[lo + at : lo + at + len(panel)]
        for y in np.unique(classes):
            sums[y] += second_moments(panel[classes == y])
    return sums
