"""Whether columns share a unit, so that they are not scaled: samples of a waveform, grey values, principal components.

Samples, pixels and lines of a spectrum covary with their neighbours, with similar variances, and more than with distant
ones. Principal components are uncorrelated, but ordered by their spreads. Descriptors, coefficients, embeddings, and
noise of one level have spreads that differ, but not by much, in any order. Columns of a table in different units have
none of these properties.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.moments import Moments, less
from bigsmic.numerics.scaling import in_range
from bigsmic.numerics.spreads import without_extremes
from bigsmic.types import Floats, Integers

CORRELATION = 0.2
"""Least covariance of neighbouring columns that share a unit, as a share of their variance."""
EVIDENCE = 3.0
"""Excess over columns in random order, in standard errors, that counts as evidence; ten columns cannot exceed it."""
ORDER = 0.9
"""Least rank correlation of the places of principal components with their spreads."""
ALIKE = (0.125, 0.5)
"""Spread of the narrowest column over that of the widest, between which all are in one unit: with less, some are in
units of their own; with more, they may be the same by chance."""
LEVEL = 0.9
"""Spread of the narrowest column over that of the median one, from which half of the columns are noise of one level, if
it is no more than that over the widest: else all columns are equally wide, and there is nothing to see."""
PREVAILED = 1 / 3
"""Largest share of such columns in which one value has half of the rows: their spreads tell how rare others are."""
FEWEST_COLUMNS = 11
"""Least number of columns whose spreads are alike by no chance."""
EXTREME_SHARE = 0.0025
"""Share of the rows, at either end of a column, without which it is judged."""
RANGE_RATIO = 10.0
"""Largest ratio between ranges of columns in one unit: of their quartiles, or of neighbours."""

DIGITS = 9  # of a statistic, so that equal columns fall on the same side of a threshold on every processor


class Likeness(NamedTuple):
    """Statistics by which columns are judged to share a unit.

    Parameters
    ----------
    neighbors : float
        Covariance of neighbouring columns over their mean variance, both summed over all pairs: 1 if neighbours are
        equal, near 0 if they are uncorrelated or have very different variances.
    all_pairs : float
        The same expected for columns in random order.
    evidence : float
        Excess of `neighbors` over `all_pairs`, in standard errors.
    range_ratio : float
        Ratio of the ranges of non-constant columns: upper over lower quartile or, if that is less, the largest ratio of
        neighbours. If columns of two quantities follow each other, both are large. Lines of a spectrum differ without a
        step between neighbours, and deviating pixels at a border are few.
    order : float
        Rank correlation of the places of these columns with their variances: 1 if each has a smaller variance than the
        one before.
    order_evidence : float
        The same in standard errors.
    narrowest : float
        Standard deviation of the narrowest of these columns over that of the widest; 0 if there are few columns, or in
        more than a third of them one value has half of the rows.
    level : float
        Standard deviation of the narrowest over that of the median of these columns; 0 likewise.
    """

    neighbors: float
    all_pairs: float
    evidence: float
    range_ratio: float
    order: float
    order_evidence: float
    narrowest: float
    level: float

    @property
    def sign(self) -> str | None:
        """The evidence that the columns share a unit: "neighbors", "order", "spreads", or None."""
        if self.range_ratio > RANGE_RATIO:
            return None
        if self.neighbors >= CORRELATION and self.evidence > EVIDENCE:
            return "neighbors"
        if self.order >= ORDER and self.order_evidence > EVIDENCE:
            return "order"
        is_noise = self.narrowest <= LEVEL <= self.level
        return "spreads" if ALIKE[0] <= self.narrowest and (self.narrowest <= ALIKE[1] or is_noise) else None


_APART = Likeness(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)


def likeness(sample: NDArray[Any], origin: Integers | None = None) -> Likeness:
    """Likeness of the columns, without their extremes: a few outliers have most of all covariances.

    With ``v_j`` the variance of column j, ``c_j`` its covariance with the next one and ``w_j = (v_j + v_j+1) / 2``::

        neighbors = sum c / sum w
        all_pairs = (variance of the sum of all columns - sum v) / ((d - 1) sum v)
        evidence  = sum e / sqrt(sum e^2),    e_j = c_j - all_pairs w_j

    Parameters
    ----------
    sample : ndarray, shape (m, d)
        Rows as stored.
    origin : ndarray, shape (d,), optional
        Subtracted from integers; see :func:`~bigsmic.numerics.moments.origin_of`.

    Returns
    -------
    likeness : Likeness

    Notes
    -----
    If the signs of e were random, ``evidence > 3`` would have a probability of at most ``exp(-9 / 2)``, whatever the
    sizes [1]_. The evidence is at most the square root of the number of pairs, so that few columns, or few with all of
    the variance, cannot be judged.

    References
    ----------
    .. [1] Hoeffding, "Probability inequalities for sums of bounded random variables", J. American Statistical
       Association 58, 1963. doi:10.1080/01621459.1963.10500830
    """
    if not len(sample) or sample.shape[1] == 1:
        return _APART
    with np.errstate(over="ignore", invalid="ignore"):
        total, c, of_sums, prevails = _sums(sample, origin)
    largest, d = total.m2.max(), len(total.m2)
    if not 0 < largest < np.inf or not np.isfinite(of_sums):
        return _APART
    if not np.any(total.high > total.low):  # the squares are of rounding
        return _APART
    v, c = total.m2 / largest, c / largest
    w = (v[1:] + v[:-1]) / 2
    all_pairs = (of_sums / largest - v.sum()) / ((d - 1) * v.sum())
    excess = c - all_pairs * w
    spread = np.sqrt((excess**2).sum())
    evidence = excess.sum() / spread if spread > 0 else 0.0
    of_neighbors = (c.sum() / w.sum(), all_pairs, evidence)
    figures = (*of_neighbors, _range_ratio(total), *_order(total), *_narrowest(total, prevails))
    return Likeness(*(round(float(figure), DIGITS) for figure in figures))


def need_no_scaling(found: Likeness, total: Moments) -> bool:
    """Whether the columns share a unit, and float32 can represent the squared distances of their rows as they are."""
    return found.sign is not None and in_range(total)


def _sums(sample: NDArray[Any], origin: Integers | None) -> tuple[Moments, Floats, float, NDArray[np.bool_]]:
    """Moments of the columns without their extremes, products with the next column, and of the sum of all columns.

    Both are sums over the rows, of deviations from the means: float64 (d - 1,), and a square. Last, whether one value
    of a column has at least half of the rows, bool (d,).
    """
    m, d = sample.shape
    mean, m2, low, high, products = np.zeros((5, d))
    before, of_all = np.zeros((2, m))
    prevails = np.zeros(d, bool)
    for j in range(d):
        column = less(sample[:, j], None if origin is None else origin[j])
        column = without_extremes(column, EXTREME_SHARE).astype(np.float64)
        mean[j], low[j], high[j] = column.mean(), column.min(), column.max()
        prevails[j] = 2 * np.count_nonzero(column == np.partition(column, m // 2)[m // 2]) >= m
        column -= mean[j]
        m2[j], products[j] = column @ column, column @ before
        of_all += column
        before = column
    return Moments(np.asarray(m), mean, m2, low, high), products[1:], float(of_all @ of_all), prevails


def _range_ratio(total: Moments) -> float:
    ranges = (total.high - total.low)[total.high > total.low]
    lower, upper = np.quantile(ranges, [0.25, 0.75])
    steps = np.abs(np.diff(np.log(ranges)))
    return min(upper / lower, np.exp(steps.max(initial=0.0)))


def _order(total: Moments) -> tuple[float, float]:
    """Negative Spearman correlation of place and variance among the non-constant columns."""
    variances = total.m2[total.high > total.low]
    d = len(variances)
    if d == 1 or np.ptp(variances) == 0:
        return 0.0, 0.0
    _, of_value, counts = np.unique(-variances, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[of_value]  # like rankdata of scipy.stats, which is slow to import
    order = np.corrcoef(ranks, np.arange(d))[0, 1]
    return order, order * np.sqrt(d - 1)


def _narrowest(total: Moments, prevails: NDArray[np.bool_]) -> tuple[float, float]:
    """Smallest over largest and over median spread of the non-constant columns; see :class:`Likeness`."""
    varies = (total.high > total.low) & (total.m2 > 0)
    m2 = np.sort(total.m2[varies])
    if len(m2) < FEWEST_COLUMNS or np.mean(prevails[varies]) > PREVAILED:
        return 0.0, 0.0
    return np.sqrt(m2[0] / m2[-1]), np.sqrt(m2[0] / m2[len(m2) // 2])
