"""Column moments that add up, the centers and spreads of columns, and the scaling made of them."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigsmic.errors import InputError
from bigsmic.numerics import class_sums, moments, scaling, spreads
from bigsmic.numerics.row_blocks import tree_sum


def rows(n=500, d=7, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d) + rng.normal(size=d) * 50).astype(dtype)


@given(st.lists(st.integers(1, 499), max_size=6))
def test_one_block_is_many_blocks(cuts):
    X = rows()
    parts = np.split(X, sorted(set(cuts)))
    found, whole = tree_sum([moments.moments(part) for part in parts]), moments.moments(X)
    assert found.n == 500
    np.testing.assert_allclose(found.mean, X.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(found.m2, np.square(X - X.mean(axis=0, dtype=np.float64)).sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.m2, whole.m2, rtol=1e-10)
    np.testing.assert_array_equal(found.low, X.min(axis=0))
    np.testing.assert_array_equal(found.high, X.max(axis=0))


def test_panels_are_blocks_too(monkeypatch):
    whole = moments.moments(rows())
    monkeypatch.setattr(moments, "_TILE_ENTRIES", 60)
    for found, wanted in zip(moments.moments(rows()), whole, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11)


def test_a_large_offset_takes_no_digits_of_the_variance():
    X = rows(d=1, dtype=np.float64) / np.ptp(rows(d=1)) + 1e8
    np.testing.assert_allclose(moments.moments(X).m2, np.square(X - X.mean(axis=0)).sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", ">f4", "f8"])
def test_any_real_dtype(dtype):
    X = np.abs(rows(40, 3)).clip(0, 100).astype(dtype)
    np.testing.assert_allclose(moments.moments(X).mean, X.astype(np.float64).mean(axis=0))
    scaled = scaling.scaler(moments.moments(X), "standard").apply(X)
    assert scaled.dtype == np.float32
    assert scaled.flags.c_contiguous


@pytest.mark.parametrize("scale", ["standard", "variance", None])
def test_scaling_is_what_it_says(scale):
    X = rows()
    variance = X.astype(np.float64).var(axis=0)
    divisor = {"standard": np.sqrt(variance), "variance": variance, None: 1.0}[scale]
    wanted = (X - X.mean(axis=0, dtype=np.float64)) / divisor
    np.testing.assert_allclose(
        scaling.scaler(moments.moments(X), scale).apply(X), wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max()
    )


@pytest.mark.parametrize("offset", [0, -3, 1e6])
@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f4", "f8"])
def test_columns_of_two_values_are_told_by_their_moments(dtype, offset):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 4)).astype(np.float64)
    X[:, 1] = rng.random(400) < 0.01
    if dtype != "?":
        X[0, 2], X[:, 3] = 0.5 if dtype[0] == "f" else 2, 1
        X += offset if dtype != "u1" else 0
    wanted = [len(np.unique(column)) == 2 for column in X.astype(dtype).T]
    total = tree_sum([moments.moments(part) for part in np.split(X.astype(dtype), 4)])
    assert spreads.two_valued(total).tolist() == wanted


def test_categories_count_as_much_as_their_shares_say_and_other_columns_two():
    rng = np.random.default_rng(1)
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    categories = np.eye(4)[np.repeat(np.arange(4), (400 * shares).astype(int))]
    X = np.hstack([7.0 * categories - 2, 300 * rng.normal(size=(400, 1))])
    Z = scaling.scaler(moments.moments(X), "mixed").apply(X).astype(np.float64)
    distances = np.square(Z[:, None] - Z).mean(axis=(0, 1))
    np.testing.assert_allclose(distances[:4].sum(), 2 * (1 - np.square(shares).sum()), rtol=1e-5)
    np.testing.assert_allclose(distances[4], 2, rtol=1e-5)
    np.testing.assert_array_equal(Z[:, 4], scaling.scaler(moments.moments(X), "standard").apply(X)[:, 4])


def typical_distance(column):
    """Root mean square distance of the other rows from the value of most rows; NaN if there is none."""
    values, counts = np.unique(column, return_counts=True)
    if 2 * counts.max() <= len(column):
        return np.nan
    others = column[column != values[counts.argmax()]].astype(np.float64)
    return np.sqrt(np.square(others - float(values[counts.argmax()])).mean())


@pytest.mark.parametrize("dtype", ["i2", "i8", "f4", "f8"])
def test_the_value_of_most_rows_tells_the_unit_of_the_others(dtype):
    rng = np.random.default_rng(4)
    X = np.stack([rng.permutation(np.arange(500) * (np.arange(500) < k) + k // 7) for k in (30, 200, 249, 252, 400)], 1)
    X = np.column_stack([X, -X[:, 1] - 3, rng.poisson(0.1, 500), rng.integers(0, 2, 500), np.ones(500)]).astype(dtype)
    total = tree_sum([moments.moments(part) for part in np.split(X, 4)])
    wanted = [typical_distance(column) for column in X.T[:-2]]
    found = spreads.spreads(total, X).all
    np.testing.assert_allclose(found, [*wanted, 1, np.nan], rtol=1e-12)
    assert np.isnan(found).tolist() == [False, False, False, True, True, False, False, False, True]
    Z = scaling.scaler(total, "mixed", spread=found).apply(X).astype(np.float64)
    known = np.flatnonzero(~np.isnan(found))
    np.testing.assert_allclose([typical_distance(column) for column in Z.T[known]], 1, rtol=1e-5)
    np.testing.assert_array_equal(Z[:, 3:5], scaling.scaler(total, "standard").apply(X)[:, 3:5])


def test_events_that_no_drawn_row_has_are_divided_by_their_range():
    X = np.zeros((1000, 2))
    X[[5, 700], 0], X[[5, 9], 1] = [3, 8], [3e100, 8e100]
    drawn = np.arange(10, 300)
    np.testing.assert_array_equal(spreads.spreads(moments.moments(X[:, :1]), X[drawn, :1]).of_others, [8])
    np.testing.assert_allclose(spreads.spreads(moments.moments(X), X).all, np.sqrt((9 + 64) / 2) * np.array([1, 1e100]))


@pytest.mark.parametrize("n_extremes", [0, 1, 20])
@pytest.mark.parametrize("unit", [1.0, 1e-150])
def test_a_few_extremes_do_not_tell_the_spread_of_a_column(n_extremes, unit):
    X = unit * np.random.default_rng(0).normal(size=(2000, 3))
    deviations = X.std(axis=0)
    X[:n_extremes, 0], X[5 : 5 + n_extremes, 1] = 1e6 * unit, -3 * unit
    found = spreads.spreads(moments.moments(X), X)
    assert np.isnan(found.of_others).all()
    assert np.isnan(found.of_most).tolist() == [n_extremes == 0, True, True]
    if n_extremes:
        np.testing.assert_allclose(found.of_most[0], deviations[0], rtol=0.1)


@pytest.mark.parametrize("far", [1e11, 1e14])  # beside the second, the moments of the others are those of two values
def test_far_extremes_do_not_leave_float32_without_digits(far):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    X[3, 0], X[5, 1] = far, 30
    total = moments.moments(X)
    found = spreads.centers(total, X)
    assert abs(found[0]) < 0.1
    assert found[1] == total.mean[1]
    Z = scaling.scaler(total, "mixed", spread=spreads.spreads(total, X).all, center=found).apply(X)
    np.testing.assert_allclose(Z[10:, 0].std(), 1, rtol=0.1)
    assert len(np.unique(Z[:, 0])) > 1900


def lost(X):
    total = moments.moments(X)
    scaling.refuse_without_distances(
        total, scaling.scaler(total, "mixed", spread=spreads.spreads(total, X).all, center=spreads.centers(total, X)), X
    )


def test_a_row_so_far_out_that_all_others_are_equal_beside_it_is_refused():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    for far in (1e5, 1e13):
        X[7] = far
        lost(X)
    X[7] = 9.96921e36  # what netCDF has in the place of missing values
    with pytest.raises(InputError, match=r"reach 1\.\d+e\+37 from their mean.* to 9\.97e\+36: drop"):
        lost(X)


def test_rows_among_many_so_far_out_that_all_others_are_equal_beside_them_are_refused():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    X[:40] = 1e5
    lost(X)
    for far in (1e13, 9.96921e36):
        X[:40] = far
        with pytest.raises(InputError, match=r"within .*e-(13|37) of their median .* to (1e\+13|9\.97e\+36): drop"):
            lost(X)


def test_distances_of_wide_rows_are_judged_some_at_a_time():
    X = rows(1000, 5000)
    total = moments.moments(X)
    scaler = scaling.scaler(total, "standard")
    tracemalloc.start()
    scaling.refuse_without_distances(total, scaler, X)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < X.nbytes / 2


def test_rows_are_not_lost_beside_those_that_differ_in_another_column():
    rng = np.random.default_rng(0)
    X = 1e-20 * rng.random((2000, 50))
    X[np.arange(2000), rng.permutation(2000) % 50] = 1
    lost(X)  # probabilities of fifty classes
    lost(np.where(X == 1, X, 0) * (np.arange(2000) % 40 == 0)[:, None])  # rare events


@pytest.mark.parametrize("n", [3, 5, 19])
def test_few_rows_have_no_extremes(n):
    X = np.random.default_rng(0).normal(size=(n, 1)) ** 9
    assert np.isnan(spreads.spreads(moments.moments(X), X).all).all()
    np.testing.assert_array_equal(spreads.without_extremes(X), X)


def test_extremes_that_are_not_drawn_do_not_tell_the_spread_either():
    X = np.random.default_rng(0).normal(size=(2000, 1))
    X[7] = 1e5
    np.testing.assert_allclose(spreads.spreads(moments.moments(X), X[100:]).of_most, 1, rtol=0.05)


@pytest.mark.parametrize("usual", [0.0, -300.0])
def test_a_few_extremes_of_a_rare_event_do_not_tell_its_spread(usual):
    """The usual value, of most rows, is what the others are apart from."""
    X = np.zeros((2000, 1))
    X[:500, 0] = 1 + np.random.default_rng(0).random(500)
    wanted = np.sqrt(np.square(X[:500]).mean())
    X[:2] = 1e8
    X += usual
    np.testing.assert_allclose(spreads.spreads(moments.moments(X), X).of_others, wanted, rtol=0.05)


def test_without_extremes_the_few_smallest_and_largest_values_are_those_of_the_next():
    X = np.random.default_rng(0).permuted(np.tile(np.arange(1000, dtype=np.int16), (2, 1)), axis=1).T
    np.testing.assert_array_equal(spreads.without_extremes(X), np.clip(X, 10, 989), strict=True)
    np.testing.assert_array_equal(spreads.without_extremes(X[:, 0]), np.clip(X[:, 0], 10, 989), strict=True)
    for rows in (X[:1], X[:2]):
        np.testing.assert_array_equal(spreads.without_extremes(rows), rows)


def test_integers_beyond_floats_have_a_value_of_most_rows():
    X = np.full((300, 2), 2**60) + np.array([[0, 1]])
    X[::10, 0] += np.arange(1, 31)
    origin = moments.origin_of(X[1])
    found = spreads.spreads(moments.moments(X, origin), X, origin).all
    np.testing.assert_allclose(found, [np.sqrt(np.square(np.arange(1, 31)).mean()), np.nan])


def test_rows_are_scaled_alone(monkeypatch):
    scaler = scaling.scaler(moments.moments(rows()), "standard")
    wanted = scaler.apply(rows())
    monkeypatch.setattr(moments, "_TILE_ENTRIES", 20)
    np.testing.assert_array_equal(scaler.apply(rows()), wanted)
    np.testing.assert_array_equal(scaler.apply(rows()[77:78]), wanted[77:78])


@pytest.mark.parametrize("d", [300, 50_000])
def test_components_of_many_columns_are_products_of_whole_blocks_of_rows(d, monkeypatch):
    X, heights = rows(200, d), []
    scaler = scaling.scaler(moments.moments(X), "standard")._replace(axes=np.eye(d, 2))
    product = scaling.row_product
    monkeypatch.setattr(scaling, "row_product", lambda A, B: (heights.append(len(A)), product(A, B))[1])
    np.testing.assert_array_equal(scaler.apply(X), scaler._replace(axes=None).apply(X)[:, :2])
    assert [height for height in heights[:-1] if height % scaling.HEIGHT] == []
    assert sum(heights) == 200


def test_constant_columns_become_zero():
    X = rows(50, 3)
    X[:, 1] = 0.1
    scaler = scaling.scaler(moments.moments(X), "standard")
    assert scaler.constant.tolist() == [1]
    np.testing.assert_array_equal(scaler.apply(X)[:, 1], 0)


@pytest.mark.parametrize(("factor", "reach"), [(1e20, "e\\+2"), (1e-20, "e-2")])
def test_what_float32_cannot_square_is_refused(factor, reach):
    total = moments.moments(np.random.default_rng(0).normal(size=(50, 2)) * factor)
    scaling.scaler(total, "standard")
    with pytest.raises(InputError, match=rf"scale=None the rows reach .*{reach}.* use scale='standard'"):
        scaling.scaler(total, None)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_the_first_entry_that_is_not_finite_is_found(dtype, monkeypatch):
    X = np.zeros((60, 4), dtype)
    assert moments.first_nonfinite(X) == (0, -1, -1)
    X[31, 2], X[31, 3], X[50, 0] = np.nan, np.inf, -np.inf
    assert moments.first_nonfinite(X) == (3, 31, 2)
    monkeypatch.setattr(moments, "_TILE_ENTRIES", 28)
    assert moments.first_nonfinite(X) == (3, 31, 2)


def test_integers_are_finite():
    assert moments.first_nonfinite(np.zeros((3, 2), int)) == (0, -1, -1)


@given(st.lists(st.integers(0, 50), max_size=4))
def test_class_sums_add_up(cuts):
    X, labels = rows(50, 3), np.random.default_rng(1).integers(-1, 4, 50)
    bounds = [0, *sorted(cuts), 50]
    parts = [class_sums.class_sums(X[a:b], labels[a:b], 5) for a, b in itertools.pairwise(bounds)]
    wanted = [[*X[labels == y].sum(axis=0, dtype=np.float64), (labels == y).sum()] for y in range(5)]
    np.testing.assert_allclose(tree_sum(parts), wanted, rtol=1e-12, atol=1e-9)


def test_the_nearest_mean_is_of_a_class_that_has_rows():
    X = np.array([[0.0, 0], [10, 0], [0, 10]], np.float32)
    sums = class_sums.class_sums(X, np.array([0, 2, 3]), 5)
    found = class_sums.nearest_mean(np.array([[1, 1], [9, 0], [0, 4], [0, 9], [5, 0]], np.float32), sums)
    assert found.tolist() == [0, 2, 0, 3, 0]
    assert found.dtype == np.int32


@pytest.mark.parametrize(
    ("dtype", "base"),
    [("i8", 2**62), (">i8", -(2**62)), ("i8", -(2**63)), ("u8", 2**63 - 50), ("u8", 2**64 - 200), (">u8", 2**62)],
)
def test_large_integers_are_centred_before_they_become_floats(dtype, base):
    small = np.random.default_rng(0).integers(0, 100, (50, 3))
    X = np.array([[base + int(v) for v in row] for row in small], dtype)
    wanted = scaling.scaler(moments.moments(small), "standard")
    origin = moments.origin_of(X[0])
    found = scaling.scaler(moments.moments(X, origin), "standard", origin)
    np.testing.assert_allclose(found.apply(X), wanted.apply(small), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.center, base, rtol=1e-12)


def test_integers_that_floats_hold_have_no_origin():
    assert moments.origin_of(np.array([2**53, -(2**53), 0])) is None
    assert moments.origin_of(np.array([2**40], np.uint64)) is None
    assert moments.origin_of(np.array([1e300])) is None
    assert moments.origin_of(np.array([2**53 + 1, 5])).tolist() == [2**53 + 1, 0]


def test_integers_at_both_ends_of_the_range():
    X = np.array([[2**64 - 1], [0], [2**63]], np.uint64)
    found = scaling.scaler(moments.moments(X, moments.origin_of(X[0])), "standard", moments.origin_of(X[0])).apply(X)
    np.testing.assert_allclose(found.ravel(), np.sqrt(1.5) * np.array([1, -1, 0]), atol=1e-6)


def test_rows_beyond_the_reach_are_moved_in_their_direction():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1, 1e3, 0] + [0, -5, 2]
    scaler = scaling.scaler(moments.moments(X), "standard")
    np.testing.assert_array_equal(scaler.within_reach(X), scaler.apply(X))
    far = np.array([[1e308, 1e308, 2], [-1.7e308, 0, 2], [1e39, 1e42, 2], [1e17, 0, 2], [1, 1, 1.7e308]])
    near = scaler.within_reach(far)
    factor = scaler.factor / scaler.factor[0]
    np.testing.assert_allclose(near[0], [scaling.REACH, scaling.REACH * factor[1], 0], rtol=1e-6)
    np.testing.assert_allclose(near[1], [-scaling.REACH, 0, 0], rtol=1e-6, atol=1)
    np.testing.assert_allclose(
        near[2], scaling.REACH * np.array([1, 1e3 * factor[1], 0]) / max(1, 1e3 * factor[1]), rtol=1e-6
    )
    np.testing.assert_allclose(near[3], [scaling.REACH, 0, 0], rtol=1e-6, atol=100)
    np.testing.assert_array_equal(near[4], scaler.apply(far[4:])[0])  # far in a constant column only
