from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from bigsmic.errors import InputError, NonFiniteError
from bigsmic.numerics.mutual_information.gaussian_basis import fold_of
from bigsmic.numerics.mutual_information.mixture_weights import TOLERANCE, mixture_weights
from bigsmic.numerics.mutual_information.mlmi import (
    Drawn,
    MLMIDesign,
    MLMISettings,
    block_sums,
    distances,
    drawn_rows,
    mlmi,
    score,
)


def problem(n=300, n_centers=24, seed=0):
    """Three classes that touch, and the design of their estimate."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) + 1.5 * y[:, None]
    rows = np.sort(rng.choice(n, n_centers, replace=False))
    return X, y, MLMIDesign(X[rows], rows, [0.5, 1.0, 2.0], n_folds=4, seed=seed)


def score_of(X, y, design):
    rows = np.arange(len(X))
    drawn = Drawn(rows, distances(X, design))
    return score(block_sums(X, rows, design), drawn, y, y[design.center_rows], design)


def ratios(X, y, found, design):
    """``r(x_i, k)`` of every row and class, (n, c), straight from the coefficients."""
    L = np.exp(-np.square(X[:, None] - design.centers).sum(axis=2) / (2 * found.gamma**2))
    owners = y[design.center_rows]
    return np.stack([L[:, owners == k] @ found.theta[owners == k] for k in range(y.max() + 1)], axis=1), L


def test_optimality_conditions_of_the_whole_problem():
    X, y, design = problem()
    found = score_of(X, y, design)
    r, L = ratios(X, y, found, design)
    n, owners = len(X), y[design.center_rows]
    own = r[np.arange(n), y]
    assert found.mlmi == pytest.approx(np.log(own).mean(), abs=1e-12)
    assert (found.theta >= 0).all()
    assert sum(r[:, k].sum() for k in y) / n**2 == pytest.approx(1, abs=1e-12)
    shard = np.bincount(y) / n
    price = shard[owners] * L.mean(axis=0)  # of a unit of each coefficient, in the constraint
    gain = np.array([(L[y == k, j] / own[y == k]).sum() / n for j, k in enumerate(owners)]) / price
    used = found.theta > 1e-10
    np.testing.assert_allclose(gain[used], 1, atol=1e-6)
    assert gain.max() <= 1 + 1e-6
    assert 0 <= found.gap <= TOLERANCE


def test_the_gap_bounds_what_other_weights_gain():
    rng = np.random.default_rng(0)
    R = rng.random((200, 12)) ** 4
    R /= R.max(axis=1, keepdims=True)
    first, best = (mixture_weights(R, np.zeros(200), tol) for tol in (np.inf, TOLERANCE))
    np.testing.assert_allclose(first.weights, 1 / 12)
    assert first.gap == pytest.approx((R / R.mean(axis=1, keepdims=True)).mean(axis=0).max() - 1)
    assert 0 < best.value - first.value <= first.gap


def test_no_general_solver_does_better():
    X, y, design = problem(n=120, n_centers=8)
    found = score_of(X, y, design)
    L = np.exp(-np.square(X[:, None] - design.centers).sum(axis=2) / (2 * found.gamma**2))
    own = L * (y[:, None] == y[design.center_rows])
    price = np.bincount(y)[y[design.center_rows]] / len(y) * L.mean(axis=0)
    other = minimize(
        lambda theta: -np.log(own @ theta).mean(),
        np.full(8, 1 / price.sum()),
        jac=lambda theta: -(own / (own @ theta)[:, None]).mean(axis=0),
        bounds=[(0, None)] * 8,
        constraints={"type": "eq", "fun": lambda theta: price @ theta - 1, "jac": lambda theta: price},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert found.mlmi == pytest.approx(-other.fun, abs=1e-6)


def test_cross_validation_leaves_rows_and_centers_out():
    X, y, design = problem(n=150, n_centers=20)
    found = score_of(X, y, design)
    folds, owners = fold_of(np.arange(150), design), y[design.center_rows]
    squares = np.square(X[:, None] - design.centers).sum(axis=2)
    for gamma, value in zip(design.gammas, found.cv_table, strict=True):
        L = np.exp(-squares / (2 * gamma**2))
        logs = np.zeros(150)
        for fold in range(4):
            train = folds != fold
            for k in range(3):
                mine = (owners == k) & (folds[design.center_rows] != fold)
                R = L[:, mine] / L[train][:, mine].mean(axis=0)
                w = np.full(mine.sum(), 1 / mine.sum())
                for _ in range(2_000):
                    w = w * (R[train & (y == k)] / (R[train & (y == k)] @ w)[:, None]).mean(axis=0)
                out = ~train & (y == k)
                logs[out] = np.log(R[out] @ w)
        assert value == pytest.approx(logs.mean(), abs=5e-3)
    assert found.gamma == design.gammas[found.cv_table.argmax()]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=5))
def test_sums_of_blocks_are_the_sums_of_the_whole(cuts):
    X, _, design = problem()
    rows = np.arange(300)
    bounds = [0, *sorted(cuts), 300]
    parts = [block_sums(X[lo:hi], rows[lo:hi], design) for lo, hi in pairwise(bounds)]
    whole, added = block_sums(X, rows, design), sum(parts[1:], start=parts[0])
    np.testing.assert_allclose(added.L, whole.L, rtol=1e-12)
    np.testing.assert_array_equal(added.counts, whole.counts)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_separated_blobs_reach_the_entropy_of_the_labels(n_classes):
    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(n_classes), 200)
    X = 20.0 * y[:, None] + rng.normal(size=(len(y), 2))
    assert mlmi(X, y).value == pytest.approx(np.log(n_classes), abs=0.01)


def test_a_gaussian_s_information_is_found():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 4000)
    X = rng.normal(size=(4000, 1)) + 2 * y[:, None]
    x = np.linspace(-6, 8, 20_001)
    p0, p1 = np.exp(-(x**2) / 2), np.exp(-((x - 2) ** 2) / 2)
    mean = (p0 + p1) / 2
    true = sum((p * np.log(p / mean)).sum() for p in (p0, p1)) / (2 * p0.sum())
    assert mlmi(X, y).value == pytest.approx(true, abs=0.02)


def test_independent_labels_have_no_information():
    rng = np.random.default_rng(1)
    assert abs(mlmi(rng.normal(size=(2000, 3)), rng.integers(0, 3, 2000), n_centers=60).value) < 0.01


def test_class_without_center_is_reported_and_adds_nothing():
    X, y, design = problem()
    owners = y[design.center_rows]
    keep = owners != 2
    fewer = MLMIDesign(design.centers[keep], design.center_rows[keep], design.gammas, 4)
    found = score_of(X, y, fewer)
    assert found.without_center == (2,)
    r, _ = ratios(X, y, found, fewer)
    r[:, 2] = 1
    assert found.mlmi == pytest.approx(np.log(r[np.arange(len(X)), y]).mean(), abs=1e-12)
    assert sum(r[:, k].sum() for k in y) / len(X) ** 2 == pytest.approx(1, abs=1e-12)


def test_names_of_classes_do_not_matter():
    X, y, _ = problem()
    names = np.array(["pear", "apple", "quince"])
    result = mlmi(X, names[y])
    assert result.value == pytest.approx(mlmi(X, y).value, abs=1e-7)
    assert result.classes.tolist() == ["apple", "pear", "quince"]
    assert "1 classes without a center" not in repr(result)
    assert "without a center" in repr(mlmi(X, names[y], n_centers=1))


def test_shift_and_scale_do_not_matter_to_the_default_grid():
    X, y, _ = problem()
    assert mlmi(1e3 * X + 1e6, y).value == pytest.approx(mlmi(X, y).value, abs=1e-5)


def test_some_rows_tell_nearly_as_much_as_all():
    X, y, _ = problem(n=3000)
    every, some = mlmi(X, y, n_rows=None), mlmi(X, y, n_rows=1000)
    assert some.value == pytest.approx(every.value, abs=0.05)
    assert some.value == mlmi(X, y, n_rows=1000).value
    assert every.value == mlmi(X, y).value


def test_drawn_rows_have_the_centers_among_them():
    _, _, design = problem()
    rows = drawn_rows(300, 50, design)
    assert set(design.center_rows) <= set(rows)
    assert 50 <= len(rows) <= 50 + 24
    assert drawn_rows(300, None, design).tolist() == list(range(300))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_tiny_samples(n):
    assert np.isfinite(mlmi(np.arange(n, dtype=float)[:, None], np.arange(n) % 2).value)


def test_single_class_and_coincident_rows():
    rng = np.random.default_rng(0)
    assert mlmi(rng.normal(size=(300, 2)), np.zeros(300)).value == pytest.approx(0, abs=0.02)
    assert mlmi(np.ones((50, 2)), np.arange(50) % 2).value == pytest.approx(0, abs=1e-6)


def test_narrow_widths_stay_finite():
    X, y, _ = problem()
    result = mlmi(X, y, gammas=[1e-6, 1])
    assert np.isfinite(result.cv_table).all()
    assert result.gamma == 1


def test_paper_preset():
    X, y, _ = problem()
    result = mlmi(X, y, preset="paper")
    assert (result.gammas[0], result.gammas[-1], len(result.gammas)) == (0.01, 100, 9)
    assert result.n_centers == 200


@pytest.mark.parametrize("k", [1, 5, 60])
def test_mixture_weights_are_optimal(k):
    rng = np.random.default_rng(k)
    R = rng.random((80, k))
    R[:, : k // 2] = R[:, :1]  # equal columns: any split of their weight will do
    R /= R.max(axis=1, keepdims=True)
    found = mixture_weights(R, np.zeros(80))
    assert found.weights.sum() == pytest.approx(1)
    assert found.gap <= TOLERANCE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(5), np.zeros(5)), r"mlmi: got X of shape \(5,\)"),
        ((np.zeros((5, 2)), np.zeros(4)), r"labels of shape \(4,\)"),
        ((np.zeros((1, 2)), np.zeros(1)), "at least two rows"),
    ],
)
def test_wrong_data_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        mlmi(*arguments)


def test_missing_values_are_refused():
    X = np.zeros((5, 2))
    X[3, 1] = np.inf
    with pytest.raises(NonFiniteError, match="mlmi: got NaN or infinity in row 3"):
        mlmi(X, np.arange(5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_centers": 0}, "n_centers=0"),
        ({"n_folds": 1}, "n_folds=1"),
        ({"n_rows": 1}, "n_rows=1"),
        ({"gammas": [0.0, 1]}, "mlmi: gammas"),
        ({"preset": "fast"}, "preset='fast'"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        mlmi(np.zeros((5, 2)), np.arange(5), **options)


def test_blocks_that_do_not_fit_are_refused():
    X, _, design = problem()
    with pytest.raises(InputError, match="are needed"):
        block_sums(X[:, :1], np.arange(300), design)
    with pytest.raises(InputError, match="cannot be added"):
        block_sums(X, np.arange(300), design) + block_sums(
            X, np.arange(300), MLMIDesign(design.centers, design.center_rows, [1.0], 4)
        )
    with pytest.raises(InputError, match="center_rows"):
        MLMIDesign(X, np.arange(5), [1.0])
    assert MLMISettings(gammas=[2, 1]) == MLMISettings(gammas=(1.0, 2.0))
