"""Whether columns share a unit, and so are not divided: samples of a waveform, grey values, principal components.

Samples, pixels and lines of a spectrum vary with the ones beside them, by about as much, and more than with those that
are far apart. Principal components do not vary together, but come in the order of their spreads. Columns of a table,
each in a unit of its own, do neither.
"""

from typing import NamedTuple

import numpy as np

from bigsmic.numerics.moments import Moments, NeighborProducts, in_range

CORRELATION = 0.2
"""Least covariance of neighbouring columns that share a unit, in shares of their variance."""
EVIDENCE = 3.0
"""Excess over columns in random order, in standard errors, beyond which it is none; ten columns cannot have more."""
ORDER = 0.9
"""Least rank correlation of the places of principal components with their spreads."""
RANGE_RATIO = 10.0
"""Largest ratio between the ranges of columns in one unit: of their quartiles, or of neighbours."""

DIGITS = 9  # of a figure, so that equal columns are on one side of a threshold on every processor


class Likeness(NamedTuple):
    """What tells whether columns share a unit.

    Parameters
    ----------
    neighbors : float
        Covariance of neighbouring columns over their mean variance, both summed over all of them: 1 where a column is
        the next one over again, near 0 where they vary apart, or one of them much more than the other.
    all_pairs : float
        The same, expected of columns in random order.
    evidence : float
        Excess of the neighbours over that, in standard errors.
    range_ratio : float
        By how much the ranges of columns differ that are not constant: upper over lower quartile or, if it is less, the
        largest ratio of neighbours. Where two quantities stand one after the other, both are large; lines of a spectrum
        differ without a step, pixels at a border without being many.
    order : float
        Rank correlation of the places of these columns with their variances: 1 where each has less than the one before.
    order_evidence : float
        The same in standard errors.
    """

    neighbors: float
    all_pairs: float
    evidence: float
    range_ratio: float
    order: float
    order_evidence: float

    @property
    def sign(self) -> str | None:
        """By what it is seen that the columns share a unit: "neighbors", "order", or None."""
        if self.range_ratio > RANGE_RATIO:
            return None
        if self.neighbors >= CORRELATION and self.evidence > EVIDENCE:
            return "neighbors"
        return "order" if self.order >= ORDER and self.order_evidence > EVIDENCE else None


_APART = Likeness(0.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def likeness(total: Moments, products: NeighborProducts) -> Likeness:
    """Likeness of the columns.

    With ``v_j`` the variance of column j, ``c_j`` its covariance with the next one and ``w_j = (v_j + v_j+1) / 2``::

        neighbors = sum c / sum w
        all_pairs = (variance of the sum of all columns - sum v) / ((d - 1) sum v)
        evidence  = sum e / sqrt(sum e^2),    e_j = c_j - all_pairs w_j

    Parameters
    ----------
    total : Moments
        Of all rows.
    products : NeighborProducts
        Of all rows.

    Returns
    -------
    likeness : Likeness

    Notes
    -----
    If the signs of e were random, ``evidence > 3`` would have a probability of at most ``exp(-9 / 2)``, whatever the
    sizes [1]_. It is at most the square root of the number of pairs: few columns, or few of them with all of the
    variance, cannot tell.

    References
    ----------
    .. [1] Hoeffding, "Probability inequalities for sums of bounded random variables", J. American Statistical
       Association 58, 1963. doi:10.1080/01621459.1963.10500830
    """
    largest, d = total.m2.max(), len(total.m2)
    if d == 1 or not 0 < largest < np.inf or not np.isfinite(products.row_sums):
        return _APART
    v, c = total.m2 / largest, products.products / largest
    w = (v[1:] + v[:-1]) / 2
    all_pairs = (products.row_sums / largest - v.sum()) / ((d - 1) * v.sum())
    excess = c - all_pairs * w
    spread = np.sqrt((excess**2).sum())
    evidence = excess.sum() / spread if spread > 0 else 0.0
    figures = (c.sum() / w.sum(), all_pairs, evidence, _range_ratio(total), *_order(total))
    return Likeness(*(round(float(figure), DIGITS) for figure in figures))


def scale_of(found: Likeness, total: Moments) -> str | None:
    """What to divide columns by: None where they share a unit and can be taken as they are, else "standard"."""
    return None if found.sign and in_range(total) else "standard"


def _range_ratio(total: Moments) -> float:
    ranges = (total.high - total.low)[total.high > total.low]
    lower, upper = np.quantile(ranges, [0.25, 0.75])
    steps = np.abs(np.diff(np.log(ranges)))
    return min(upper / lower, np.exp(steps.max(initial=0.0)))


def _order(total: Moments) -> tuple[float, float]:
    """Spearman's correlation of place and variance among the columns that are not constant, its sign turned."""
    variances = total.m2[total.high > total.low]
    d = len(variances)
    if d == 1 or np.ptp(variances) == 0:
        return 0.0, 0.0
    _, of_value, counts = np.unique(-variances, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[of_value]  # as scipy.stats' rankdata, which is long to load
    order = np.corrcoef(ranks, np.arange(d))[0, 1]
    return order, order * np.sqrt(d - 1)
