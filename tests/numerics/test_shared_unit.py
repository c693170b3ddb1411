"""Columns that share a unit are told from columns that do not, by sums that add up over blocks."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from bigsmic.numerics.moments import moments
from bigsmic.numerics.shared_unit import ALIKE, EXTREME_SHARE, LEVEL, likeness, need_no_scaling
from bigsmic.numerics.spreads import spreads, without_extremes


def waveforms(n=400, d=40, seed=0):
    """Bumps in noise that neighbouring samples share."""
    rng = np.random.default_rng(seed)
    at, place = np.arange(d), rng.uniform(0.2 * d, 0.8 * d, (n, 1))
    noise = rng.normal(size=(n, d + 2))
    return 5 * np.exp(-((at - place) ** 2) / 8) + (noise[:, :-2] + noise[:, 1:-1] + noise[:, 2:]) / 3


def images(n=300, seed=0):
    """Grey values of a spot that moves, 12 by 12, in a black border."""
    rng = np.random.default_rng(seed)
    at, place = np.arange(12), rng.uniform(2, 10, (n, 2, 1))
    across, down = np.exp(-((at - place) ** 2) / 4).transpose(1, 0, 2)
    return (255 * down[:, :, None] * across[:, None, :]).astype(np.uint8).reshape(n, -1)


def units(d, seed=1):
    return 10.0 ** np.random.default_rng(seed).uniform(-3, 3, d)


def shuffled(X, seed=2):
    return X[:, np.random.default_rng(seed).permutation(X.shape[1])]


def found(X):
    return likeness(np.asarray(X))


def scale(X):
    total = moments(np.asarray(X))
    if need_no_scaling(found(X), total):
        return None
    return "standard" if np.isnan(spreads(total, np.asarray(X)).all).all() else "mixed"


@pytest.mark.parametrize(
    "X",
    [waveforms(), waveforms().astype(np.float32) * 1e-5, images(), (1000 * waveforms()).astype(np.int64) + 2**40],
    ids=["waveforms", "volts", "grey values", "integers"],
)
def test_columns_that_share_a_unit_are_not_divided(X):
    assert scale(X) is None


TABLE = np.random.default_rng(3).normal(size=(300, 12)) * units(12)


@pytest.mark.parametrize(
    "X",
    [
        TABLE,
        TABLE[:, :1],
        TABLE[:, :2],
        waveforms() * units(40),
        np.hstack([waveforms(), 100 * waveforms(seed=1)]),
        waveforms()[:, 10:20],
        np.repeat(waveforms()[:, 20:21], 10, axis=1),
        np.random.default_rng(4).normal(size=(300, 1)) + np.random.default_rng(5).normal(size=(300, 30)) * units(30),
        np.zeros((20, 30)),
        np.full((20, 3), 7),
        np.hstack([waveforms(), 1e6 * TABLE[:1].repeat(400, axis=0) * np.random.default_rng(7).normal(size=(400, 1))]),
    ],
    ids=[
        "table",
        "one column",
        "two columns",
        "a unit each",
        "two sensors",
        "ten columns",
        "ten equal columns",
        "one factor",
        "zeros",
        "constant",
        "few large columns",
    ],
)
def test_others_are_divided(X):
    assert scale(X) == "standard"


def noisy(n_noise=20):
    """Two columns that tell three clusters apart, beside noise as wide as each of these."""
    draw = np.random.default_rng(6)
    return np.column_stack([2 * draw.normal(size=(3, 2))[draw.integers(0, 3, 900)], np.zeros((900, n_noise))]) + (
        draw.normal(size=(900, n_noise + 2))
    )


@pytest.mark.parametrize("X", [noisy(), shuffled(1e-6 * noisy()), shuffled(waveforms())])
def test_columns_with_spreads_of_one_order_are_not_divided(X):
    assert found(X).sign == "spreads"
    assert scale(X) is None


def test_narrowest_is_the_ratio_of_extreme_spreads():
    spread = without_extremes(noisy(), EXTREME_SHARE).std(axis=0)
    assert found(noisy()).narrowest == pytest.approx(spread.min() / spread.max(), abs=1e-9)
    assert found(np.column_stack([noisy(), np.ones(900)])).narrowest == found(noisy()).narrowest


def faint(n_noise=20):
    """As :func:`noisy`, but hardly wider than the noise."""
    X = noisy(n_noise)
    X[:, :2] *= 1.3 / X[:, :2].std(axis=0)
    return X


def test_noise_of_one_level_beside_columns_that_are_hardly_wider_is_not_divided():
    assert ALIKE[1] < found(faint()).narrowest < LEVEL < found(faint()).level
    assert scale(faint()) is None


def test_columns_hardly_wider_than_others_are_divided_unless_half_of_them_are_noise_of_one_level():
    evenly = noisy() * np.linspace(1.0, 1.8, 22)[np.random.default_rng(0).permutation(22)] / noisy().std(axis=0)
    assert ALIKE[1] < found(evenly).narrowest < LEVEL
    assert found(evenly).level < LEVEL
    assert scale(evenly) == "standard"
    assert found(noisy()[:, 2:]).narrowest > LEVEL  # nothing but noise
    assert scale(noisy()[:, 2:]) == "standard"


def test_level_is_the_ratio_of_the_narrowest_spread_to_the_median_one():
    spread = without_extremes(noisy(), EXTREME_SHARE).std(axis=0)
    assert found(noisy()).level == pytest.approx(spread.min() / np.sort(spread)[len(spread) // 2], abs=1e-9)
    assert found(noisy(8)).level == 0


def test_columns_are_divided_if_they_are_few_or_one_is_far_wider_or_narrower():
    assert scale(noisy(8)) == "standard"
    for factor in (12.0, 0.1):
        assert scale(noisy() * np.where(np.arange(22) == 5, factor, 1.0)) == "standard"


def test_flags_are_as_wide_as_each_other_in_no_unit():
    flags = np.random.default_rng(0).integers(0, 2, (900, 20))
    assert scale(np.column_stack([flags, noisy()[:, :2]])) == "mixed"
    assert scale(np.column_stack([2 * flags[:, :5], noisy()])) is None


def test_of_others_columns_of_two_values_are_divided_by_their_difference():
    X, table = waveforms(), waveforms() * units(40)
    categories = np.eye(5)[np.random.default_rng(6).integers(0, 5, len(X))]
    assert scale(np.hstack([table, categories])) == "mixed"
    assert scale(np.hstack([table, X[:, :1] > X[:, :1].mean()])) == "mixed"
    assert scale(categories) == "mixed"
    assert scale(np.hstack([table, np.random.default_rng(7).poisson(0.3, (len(X), 1))])) == "mixed"
    assert scale(np.hstack([X, categories[:, :1]])) is None


def test_a_black_border_and_a_column_more_change_nothing():
    X = waveforms()
    border = np.zeros((len(X), 60))
    rare = border.copy()
    rare[::50] = 1e-3
    assert scale(np.hstack([border, X])) is None
    assert scale(np.hstack([rare[:, :8], X, border])) is None


def components(d=20):
    return np.linalg.svd(np.random.default_rng(9).normal(size=(300, d)) * np.linspace(12, 1, d), full_matrices=False)


@pytest.mark.parametrize("d", [11, 20])
def test_principal_components_share_a_unit_in_their_order_alone(d):
    U, s, _ = components(d)
    assert found(U * s).sign == "order"
    assert scale(U * s) is None
    assert scale((U * s)[:, ::-1]) == scale(shuffled(U * s)) == "standard"


def test_ten_components_cannot_be_told():
    U, s, _ = components(10)
    assert found(U * s).order == 1
    assert scale(U * s) == "standard"


def test_columns_of_a_table_in_order_of_spread_are_divided_where_units_step():
    assert scale(np.random.default_rng(0).normal(size=(300, 12)) * 20.0 ** -np.arange(12)) == "standard"


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_rows_that_float32_would_not_hold_are_divided(unit):
    assert found(waveforms() * unit).sign == "neighbors"
    assert scale(waveforms() * unit) == "standard"


def test_the_unit_does_not_matter():
    X = waveforms()
    assert found(X * 2.0**-40) == found(X)
    np.testing.assert_allclose(found(X + 1e4), found(X), rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-160, 1e150])
def test_squares_near_the_ends_of_float64_do_no_harm(unit):
    assert np.isfinite(found(waveforms() * unit)).all()


def test_all_pairs_are_the_mean_over_every_order():
    X = np.random.default_rng(0).normal(size=(50, 5)) @ np.random.default_rng(1).normal(size=(5, 5))
    covariance = np.cov(without_extremes(X, EXTREME_SHARE).T)
    orders = [sum(covariance[i, j] for i, j in pairwise(o)) for o in permutations(range(5))]
    wanted = np.mean(orders) / 4 / np.trace(covariance) * 5
    assert found(X).all_pairs == pytest.approx(wanted, abs=1e-9)


def test_neighbors_are_covariances_over_variances():
    X = waveforms()
    covariance = np.cov(without_extremes(X, EXTREME_SHARE).T)
    v, c = np.diag(covariance), np.diag(covariance, 1)
    assert found(X).neighbors == pytest.approx(2 * c.sum() / (v[1:] + v[:-1]).sum(), abs=1e-9)


def test_evidence_is_at_most_the_root_of_the_number_of_pairs():
    equal = np.repeat(waveforms()[:, 20:21], 10, axis=1) + 1e-3 * waveforms()[:, :10]
    assert found(equal).evidence <= 3 < found(waveforms()).evidence <= np.sqrt(39)


@pytest.mark.parametrize("X", [waveforms(), images()], ids=["waveforms", "grey values"])
def test_outliers_do_not_hide_a_shared_unit(X):
    """A row far out, and one with a wrong entry, which have nearly all of the variance."""
    X = np.tile(X.astype(np.float64), (3, 1))
    draw = np.random.default_rng(0)
    X[3] = 1e4 * np.abs(X).max() * draw.normal(size=X.shape[1])
    X[5, 7] = 1e6 * np.abs(X).max()
    assert found(X).sign == "neighbors"
    assert scale(X) is None


def test_a_spectrum_whose_lines_differ_by_orders_is_one_quantity():
    rng, at = np.random.default_rng(8), np.arange(60)
    lines = 10.0 ** np.array([3, 2, 1, 3, 1, 2])[:, None] * np.exp(-((at - np.arange(5, 60, 10)[:, None]) ** 2) / 20)
    X = rng.gamma(1, 1, (300, 6)) @ (lines + 1)
    ranges = np.ptp(X, axis=0)
    assert np.quantile(ranges, 0.75) > 10 * np.quantile(ranges, 0.25)
    assert scale(X) is None
