"""Separation of clusters: a score of any labeling, for rows in memory or on disk."""

from functools import partial, reduce
from itertools import combinations
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import InputError, NonFiniteError
from bigsmic.numerics.moments import first_nonfinite
from bigsmic.numerics.objectives.mspc.separation import COLUMNS, Two, separate
from bigsmic.numerics.products import self_product
from bigsmic.runtime import block_sizes
from bigsmic.store import Source, open_source
from bigsmic.types import Floats, Integers, Rows, StorageOptions
from bigsmic.validation import check_at_least_zero, classes_of, to_array

TILE_ENTRIES = 1 << 18
_ROUNDING = 1e-28  # variance of equal values by the rounding of their mean, relative to its square


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
        At least two different values of any sortable type. That of rows in no cluster, -1 with ``noise=True``, counts
        as a cluster, unless these rows are left out.
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
        rows, labels cannot be sorted, or rows have NaN.

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
    classes, labels = classes_of(labels)
    if len(classes) < 2:
        raise InputError(f"labels: got {len(classes)} cluster; a separation needs at least 2")
    bounds = block_sizes.DEFAULT.source_bounds(n, d)
    center = source.read(0, int(bounds[1])).mean(axis=0, dtype=np.float64)
    task = partial(_block_moments, source, bounds, center, (labels, len(classes)))
    with ThreadEngine(n_threads) as engine:
        moments = engine.reduce(task, range(len(bounds) - 1))
    return min(_separation(moments, classes, pair, reg) for pair in combinations(range(len(classes)), 2))


class _Moments(NamedTuple):
    """Number, mean and scatter of the rows of each cluster; the sum of two is that of all rows [1]_.

    Each scatter is about the mean of its own rows: about one center for all clusters, that of a narrow cluster far from
    it would be the difference of two large sums.

    Parameters
    ----------
    counts : ndarray of float64, shape (c,)
    means : ndarray of float64, shape (c, d)
    scatters : ndarray of float64, shape (c, d, d)

    References
    ----------
    .. [1] Chan, Golub, LeVeque, "Algorithms for computing the sample variance", The American Statistician 37, 1983.
    """

    counts: np.ndarray
    means: np.ndarray
    scatters: np.ndarray

    def __add__(self, other: "_Moments") -> "_Moments":  # type: ignore[override]
        """Moments of the rows of both."""
        counts = self.counts + other.counts
        share, apart = other.counts / np.maximum(counts, 1), other.means - self.means
        between = (self.counts * share)[:, None, None] * apart[:, :, None] * apart[:, None, :]
        return _Moments(counts, self.means + share[:, None] * apart, self.scatters + other.scatters + between)


def _separation(moments: _Moments, classes: NDArray[np.generic], pair: tuple[int, int], reg: float) -> float:
    """Minimum separation probability of two clusters."""
    counts, means, scatters = (of_all[list(pair)] for of_all in moments)
    both = _Moments(counts[:1], means[:1], scatters[:1]) + _Moments(counts[1:], means[1:], scatters[1:])
    total = both.scatters[0] / both.counts[0]
    rounding = _ROUNDING * np.square(means).max(axis=0)
    varies = np.diag(total) > rounding  # a column may vary among other clusters only
    if not varies.any():
        one, other = classes[list(pair)].tolist()
        raise InputError(
            f"msp_score: all rows of clusters {one!r} and {other!r} are equal, and no hyperplane separates them; "
            "give one label to equal rows"
        )
    kept = np.ix_(varies, varies)
    covariances = np.array([scatter[kept] / count for scatter, count in zip(scatters, counts, strict=True)])
    two = Two(counts, means[:, varies], covariances, total[kept], varies, COLUMNS)
    first, second = two.regularised(reg)
    return float(separate(two.difference, first, second, rounding[varies]).msp)


def _block_moments(
    source: Source,
    bounds: Integers,
    center: NDArray[np.float64],
    labeling: tuple[NDArray[np.intp], int],
    s: int,
) -> _Moments:
    """Moments of each cluster's rows in one block, minus the center."""
    lo, hi = (int(b) for b in bounds[s : s + 2])
    X, (labels, n_classes) = source.read(lo, hi), labeling
    count, row, column = first_nonfinite(X)
    if count:
        raise NonFiniteError(
            f"msp_score: {source.name} contains NaN or infinity: first at row {lo + row}, column {column}; "
            "drop or impute these rows"
        )
    step = max(256, TILE_ENTRIES // X.shape[1])
    parts = (
        (X[at : at + step] - center, labels[lo + at : lo + min(at + step, len(X))]) for at in range(0, len(X), step)
    )
    return reduce(add, (_tile_moments(panel, of_panel, n_classes) for panel, of_panel in parts))


def _tile_moments(X: Floats, labels: Integers, n_classes: int) -> _Moments:
    d = X.shape[1]
    counts = np.bincount(labels, minlength=n_classes).astype(np.float64)
    means, scatters = np.zeros((n_classes, d)), np.zeros((n_classes, d, d))
    for y in np.flatnonzero(counts):
        rows = X[labels == y]
        means[y] = rows.mean(axis=0)
        scatters[y] = self_product(rows - means[y])
    return _Moments(counts, means, scatters)
