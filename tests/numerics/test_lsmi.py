import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bigsmic
from bigsmic.errors import InputError, NonFiniteError
from bigsmic.numerics import hashing
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information import gaussian_basis, lsmi_scores, lsmi_sums
from bigsmic.numerics.mutual_information import lsmi as lsmi_module
from bigsmic.numerics.mutual_information.gaussian_basis import PAPER_GAMMAS, fold_of, median_distance
from bigsmic.numerics.mutual_information.lsmi import lsmi, lsmi_of_each
from bigsmic.numerics.mutual_information.lsmi_scores import finish, first_equal, join_sweeps, score_one
from bigsmic.numerics.mutual_information.lsmi_sums import (
    PAPER_DELTAS,
    LSMIDesign,
    LSMISettings,
    block_sums,
    sums_bytes,
    tile_bytes,
)
from bigsmic.numerics.row_blocks import tree_sum


def direct(X, labels, design, n_classes):
    """Cross-validation table and estimate of one labelling, term by term, float64, nothing shared."""
    folds = fold_of(np.arange(len(X)), design)
    squared = np.square(X[:, None, :] - design.centers).sum(axis=2)
    owners = labels[design.center_rows]

    def fit(L, y, delta):
        theta = {}
        for k in range(n_classes):
            B = L[:, owners == k]
            H = np.sum(y == k) / len(y) ** 2 * B.T @ B
            h = B[y == k].sum(axis=0) / len(y)
            theta[k] = np.linalg.solve(H + delta * np.eye(len(h)), h), H, h
        return theta

    def loss(L, y, theta):
        total = 0.0
        for k in range(n_classes):
            r = L[:, owners == k] @ theta[k][0]
            total += np.sum(y == k) * np.sum(r**2) / (2 * len(y) ** 2) - r[y == k].sum() / len(y)
        return total

    table = np.empty((len(design.gammas), len(design.deltas)))
    for g, gamma in enumerate(design.gammas):
        L = np.exp(-squared / (2 * gamma**2))
        for d, delta in enumerate(design.deltas):
            cv = []
            for m in np.unique(folds):
                held = folds == m
                cv.append(loss(L[held], labels[held], fit(L[~held], labels[~held], delta)))
            table[g, d] = np.mean(cv)
    g, d = np.unravel_index(table.argmin(), table.shape)
    L = np.exp(-squared / (2 * design.gammas[g] ** 2))
    fitted = fit(L, labels, design.deltas[d]).values()
    return table, sum(theta @ h - theta @ H @ theta / 2 for theta, H, h in fitted) - 0.5


def problem(n=300, n_classes=3, n_centers=40, dtype=np.float64, gammas=None):
    rng = np.random.default_rng(n)
    truth = rng.integers(0, n_classes, n)
    X = (rng.normal(size=(n_classes, 4))[truth] * 1.5 + rng.normal(size=(n, 4))).astype(dtype)
    labels = np.stack([truth, (X[:, 0] > 0) + 0, rng.integers(0, n_classes, n)]).astype(np.int32)
    rows = draw_rows(n, n_centers, 0, "lsmi-center")
    design = LSMISettings(n_centers, gammas=gammas).design(X[rows], rows, X)
    return X, labels, design


def scores_of(X, labels, design, **options):
    sums = block_sums(X, np.arange(len(X)), labels, design, n_classes=3, **options)
    return finish(sums, labels[:, design.center_rows], design)


@pytest.mark.parametrize("gammas", [None, PAPER_GAMMAS])
def test_every_cell_and_estimate_agree_with_the_formulas(gammas):
    X, labels, design = problem(gammas=gammas)
    for y, score in zip(labels, scores_of(X, labels, design), strict=True):
        table, value = direct(X, y, design, 3)
        np.testing.assert_allclose(score.cv_table, table, rtol=0, atol=1e-9)
        assert score.lsmi == pytest.approx(value, abs=1e-9)
        assert score.cv == score.cv_table.min()


def test_public_function_agrees_with_the_formulas():
    X, labels, design = problem()
    result = lsmi(X, labels[0], n_centers=40)
    np.testing.assert_allclose(result.cv_table, direct(X, labels[0], design, 3)[0], rtol=0, atol=1e-9)
    assert result.value == pytest.approx(direct(X, labels[0], design, 3)[1], abs=1e-9)
    assert result.gamma in design.gammas
    assert result.delta in design.deltas


@settings(deadline=None, max_examples=20)
@given(cuts=st.sets(st.integers(1, 299), max_size=5))
def test_one_block_is_many_blocks(cuts):
    X, labels, design = problem()
    edges = [0, *sorted(cuts), 300]
    blocks = [slice(lo, hi) for lo, hi in pairwise(edges)]
    rows = np.arange(300)
    parts = tree_sum([block_sums(X[b], rows[b], labels[:, b], design, n_classes=3) for b in blocks])
    whole = block_sums(X, rows, labels, design, n_classes=3)
    np.testing.assert_array_equal(parts.counts, whole.counts)
    np.testing.assert_allclose(parts.G, whole.G, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.S, whole.S, rtol=1e-12, atol=1e-12)


def test_panels_do_not_show(monkeypatch):
    X, labels, _ = problem()
    before = lsmi(X, labels[0])
    monkeypatch.setattr(lsmi_sums, "_TILE_ROWS", 7)
    monkeypatch.setattr(gaussian_basis, "_BLOCK_ROWS", 64)
    np.testing.assert_allclose(lsmi(X, labels[0]).cv_table, before.cv_table, rtol=0, atol=1e-10)


def test_float32_changes_the_estimate_by_less_than_1e_5():
    X, labels, design = problem(n=3000)
    wide = scores_of(X, labels, design)
    narrow = scores_of(X.astype(np.float32), labels, design)
    forced = scores_of(X, labels, design, dtype=np.float32)
    for a, b, c in zip(wide, narrow, forced, strict=True):
        assert (a.gamma, a.delta) == (b.gamma, b.delta) == (c.gamma, c.delta)
        assert max(abs(a.lsmi - b.lsmi), abs(a.lsmi - c.lsmi)) < 1e-5


def test_names_of_classes_do_not_matter():
    X, labels, _ = problem()
    names = np.array(["pear", "apple", "quince"])
    result = lsmi(X, names[labels[0]])
    assert result.value == pytest.approx(lsmi(X, labels[0]).value, abs=1e-12)
    assert result.classes.tolist() == ["apple", "pear", "quince"]
    assert result.centers_per_class.sum() == result.n_centers == 300


def test_shift_and_scale_do_not_matter_to_the_default_grid():
    X, labels, _ = problem()
    assert lsmi(1e3 * X + 1e6, labels[0]).value == pytest.approx(lsmi(X, labels[0]).value, abs=1e-6)
    tiny = lsmi((1e-25 * X).astype(np.float32), labels[0])
    assert tiny.value == pytest.approx(lsmi(X, labels[0]).value, abs=1e-5)


def test_independent_labels_have_no_information():
    rng = np.random.default_rng(1)
    assert abs(lsmi(rng.normal(size=(3000, 3)), rng.integers(0, 3, 3000), n_centers=100).value) < 0.01


@pytest.mark.parametrize("n_classes", [2, 4])
def test_separated_blobs_reach_the_maximum(n_classes):
    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(n_classes), 200)
    X = 20.0 * y[:, None] + rng.normal(size=(len(y), 2))
    assert lsmi(X, y).value == pytest.approx((n_classes - 1) / 2, abs=0.03)
    assert lsmi(X, y).value < (n_classes - 1) / 2


def test_class_without_center_is_reported_and_adds_nothing():
    X, labels, design = problem()
    labels = labels[:1].copy()
    labels[0, design.center_rows] %= 2
    assert (labels == 2).any()
    (score,) = scores_of(X, labels, design)
    assert score.without_center == (2,)
    assert score.lsmi == pytest.approx(direct(X, labels[0], design, 3)[1], abs=1e-9)


def test_empty_class_is_not_reported():
    X, labels, design = problem()
    assert scores_of(X, labels[1:2], design)[0].without_center == ()


@pytest.mark.parametrize("n", [2, 3, 5])
def test_tiny_samples(n):
    X = np.arange(n, dtype=float)[:, None]
    result = lsmi(X, np.arange(n) % 2)
    assert np.isfinite(result.value)
    assert result.n_centers == n


def test_single_class_and_coincident_rows():
    rng = np.random.default_rng(0)
    assert lsmi(rng.normal(size=(500, 2)), np.zeros(500)).value == pytest.approx(0, abs=0.02)
    assert lsmi(np.ones((50, 2)), np.arange(50) % 2).value == pytest.approx(0, abs=0.05)


def test_paper_preset():
    X, labels, _ = problem()
    result = lsmi(X, labels[0], preset="paper")
    assert result.n_centers == 200
    np.testing.assert_allclose(result.gammas, PAPER_GAMMAS)
    np.testing.assert_allclose(result.deltas, PAPER_DELTAS)
    assert (PAPER_GAMMAS[0], PAPER_GAMMAS[-1], len(PAPER_GAMMAS)) == (0.01, 100, 9)
    assert (PAPER_DELTAS[0], PAPER_DELTAS[-1], len(PAPER_DELTAS)) == (0.001, 10, 9)
    assert lsmi(X, labels[0], preset="paper", n_centers=20, gammas=[1]).cv_table.shape == (1, 9)


def test_default_grid_is_multiples_of_the_median_distance():
    X, _, design = problem()
    distances = np.linalg.norm(X[:, None] - design.centers, axis=2)
    median = np.median(distances[distances > 0])
    assert median_distance(X, design.centers) == pytest.approx(median, rel=1e-9)
    np.testing.assert_allclose(design.gammas, median * 10.0 ** np.arange(-1, 0.6, 0.25), rtol=1e-9)


def test_sweeps_join_to_the_whole():
    X, labels, design = problem()
    whole = scores_of(X, labels, design)
    parts = [scores_of(X, labels, sweep) for sweep in design.sweeps(3)]
    assert len(parts) == 3
    for t, score in enumerate(whole):
        joined = join_sweeps([part[t] for part in parts])
        assert (joined.gamma, joined.delta) == (score.gamma, score.delta)
        assert joined.lsmi == pytest.approx(score.lsmi, abs=1e-12)
        np.testing.assert_allclose(joined.cv_table, score.cv_table, rtol=0, atol=1e-12)


def test_equal_labelings_are_scored_once():
    X, labels, design = problem()
    apart, again = block_sums(X, np.arange(len(X)), labels, design, n_classes=3), [0, 1, 0, 2, 1]
    labels = labels[again]
    # with the bits of the first ones: in a product, those of a row may depend on its place, as on Nehalem
    sums = replace(apart, S=apart.S[:, :, again], counts=apart.counts[:, again])
    np.testing.assert_allclose(block_sums(X, np.arange(len(X)), labels, design, n_classes=3).S, sums.S, rtol=1e-12)
    center_labels = labels[:, design.center_rows]
    assert first_equal(sums, center_labels).tolist() == [0, 1, 0, 3, 1]
    scores = finish(sums, center_labels, design)
    assert scores[2] is scores[0]
    assert scores[3].lsmi == score_one(sums, 3, center_labels[3], design).lsmi


def test_several_labelings_have_the_values_of_each_from_the_same_gaussians(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    labelings = [X[:, 0] > 0, rng.integers(0, 5, 300), np.digitize(X[:, 1], [-1, 0, 1]), np.zeros(300)]
    alone = [lsmi(X, labels, n_centers=60, seed=2).value for labels in labelings]
    drawn = []
    draw = lsmi_module.draw_design
    monkeypatch.setattr(lsmi_module, "draw_design", lambda *args: drawn.append(args) or draw(*args))
    np.testing.assert_allclose(lsmi_of_each(X, labelings, n_centers=60, seed=2), alone, atol=1e-10)
    assert len(drawn) == 1


def test_sums_of_many_classes_and_of_few_agree(monkeypatch):
    X, labels, design = problem()
    dense = block_sums(X, np.arange(len(X)), labels, design)
    monkeypatch.setattr(lsmi_sums, "_DENSE_CLASSES", 0)
    sparse = block_sums(X, np.arange(len(X)), labels, design)
    np.testing.assert_allclose(sparse.S, dense.S, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(sparse.counts, dense.counts)


def test_gram_of_almost_nothing_leaves_out_the_zeros():
    L = np.zeros((100, 30))
    L[[3, 50, 50], [4, 4, 9]] = [1, 2, 3]
    np.testing.assert_array_equal(lsmi_sums._gram(L), np.einsum("il,im->lm", L, L))


@pytest.mark.parametrize("k", [1, 2, 3, 60])
def test_shifted_systems_are_solved(k):
    rng = np.random.default_rng(k)
    B, h, deltas = rng.normal(size=(4, k, 2 * k)), rng.normal(size=(4, k)), np.array([1e-3, 0.1, 10])
    H = B @ B.transpose(0, 2, 1) / k
    shifted = H[:, None] + deltas[:, None, None] * np.eye(k)
    expected = np.linalg.solve(shifted, np.broadcast_to(h[:, None, :, None], (4, 3, k, 1)))[..., 0]
    np.testing.assert_allclose(lsmi_scores._solve_shifted(H.copy(), h, deltas), expected, rtol=1e-9, atol=1e-9)


def test_draw_does_not_depend_on_its_blocks(monkeypatch):
    rows = draw_rows(1000, 50, 3, "lsmi-center")
    monkeypatch.setattr(hashing, "_DRAW_ROWS", 17)
    np.testing.assert_array_equal(draw_rows(1000, 50, 3, "lsmi-center"), rows)
    assert len(np.unique(rows)) == 50
    assert set(draw_rows(1000, 20, 3, "lsmi-center")) <= set(rows)
    assert draw_rows(4, 50, 3, "lsmi-center").tolist() == [0, 1, 2, 3]


def test_folds_are_even():
    _, _, design = problem()
    counts = np.bincount(fold_of(np.arange(10_000), design))
    assert len(counts) == 5
    assert abs(counts - 2000).max() < 200


def test_memory_is_what_was_said():
    X, labels, design = problem(n=4000, n_centers=300, gammas=[0.5, 2])
    tracemalloc.start()
    sums = block_sums(X, np.arange(len(X)), labels, design)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sums.nbytes == sums_bytes(300, 2, 5, 3, 3)
    assert peak - sums.nbytes < 1.1 * tile_bytes(300, 4, 3, 8) + 100_000


def test_results_read_well():
    X, labels, _ = problem()
    text = repr(lsmi(X, labels[0], n_centers=30))
    assert text.startswith("LSMIResult(0.")
    assert text.endswith("3 classes, 30 centers)")
    assert "2 classes without a center" in repr(lsmi(X, labels[0], n_centers=1))


def test_settings_are_values():
    assert LSMISettings(gammas=np.array([2.0, 1])) == LSMISettings(gammas=[1, 2])
    assert LSMISettings.paper(seed=3).seed == 3


def test_same_seed_same_bits_and_another_seed_other_centers():
    X, labels, _ = problem()
    one, other, another = (lsmi(X, labels[0], n_centers=20, seed=seed) for seed in (4, 4, 5))
    assert one.value == other.value
    np.testing.assert_array_equal(one.cv_table, other.cv_table)
    assert abs(one.value - another.value) > 1e-4, "of other centres, and no rounding"


@pytest.mark.parametrize(
    ("X", "labels", "message"),
    [
        (np.zeros(5), np.zeros(5), r"X of shape \(5,\)"),
        (np.zeros((5, 2)), np.zeros(4), r"labels of shape \(4,\)"),
        (np.zeros((1, 2)), np.zeros(1), "at least two rows"),
        (np.zeros((5, 0)), np.zeros(5), "one column"),
    ],
)
def test_wrong_data_is_refused(X, labels, message):
    with pytest.raises(InputError, match=message):
        lsmi(X, labels)


def test_missing_values_are_refused():
    X = np.zeros((5, 2))
    X[3, 1] = np.nan
    with pytest.raises(NonFiniteError, match="row 3"):
        lsmi(X, np.arange(5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_centers": 0}, "n_centers=0"),
        ({"n_folds": 1}, "n_folds=1"),
        ({"gammas": [0.0, 1]}, "gammas"),
        ({"deltas": []}, "deltas"),
        ({"preset": "fast"}, "preset='fast'"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        lsmi(np.zeros((5, 2)), np.arange(5), **options)


def test_blocks_that_do_not_fit_are_refused():
    X, labels, design = problem()
    rows = np.arange(len(X))
    with pytest.raises(InputError, match="are needed"):
        block_sums(X[:, :2], rows, labels, design)
    with pytest.raises(InputError, match="labels from 0 to 2 with n_classes=2"):
        block_sums(X, rows, labels, design, n_classes=2)
    with pytest.raises(InputError, match="cannot be added"):
        block_sums(X, rows, labels, design) + block_sums(X, rows, labels, design, n_classes=4)
    with pytest.raises(InputError, match="center_rows"):
        LSMIDesign(X, rows[:5], [1.0], [1.0])


def test_deltas_below_rounding_are_refused():
    H = np.array([[[1.0, 1 + 1e-9], [1 + 1e-9, 1.0]]])
    with pytest.raises(InputError, match="not positive definite"):
        lsmi_scores._solve_shifted(H, np.ones((1, 2)), np.array([1e-12]))


@pytest.mark.parametrize("score", [bigsmic.lsmi, bigsmic.mlmi, bigsmic.msp_score])
def test_labels_without_an_order_are_refused(score):
    labels = np.array(["one", None, "two"] * 10, dtype=object)
    with pytest.raises(InputError, match=r"labels: got values that cannot be sorted .* place of None or NaN"):
        score(np.random.default_rng(0).normal(size=(30, 2)), labels)


@pytest.mark.parametrize("estimate", [bigsmic.lsmi, bigsmic.mlmi])
@pytest.mark.parametrize("unit", [1e-200, 1e160, 1e308])
def test_rows_whose_squares_leave_float64_are_refused(estimate, unit):
    X = np.linspace(-1, 1, 60)[:, None]
    with pytest.raises(InputError, match=r"the widest column of X extends over .* change the unit"):
        estimate(X * unit, X[:, 0] > 0)
    wide, usual = (estimate(X * unit, X[:, 0] > 0).value for unit in (1e140, 1))
    assert wide == pytest.approx(usual, rel=1e-6)
    most = np.float32(3e38)  # whose range float32 cannot hold
    assert estimate(X.astype(np.float32) * most, X[:, 0] > 0).value == pytest.approx(usual, rel=1e-4)


@pytest.mark.parametrize("estimate", [bigsmic.lsmi, bigsmic.mlmi])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("rows.zarr", r"got the path 'rows.zarr', .* zarr.open_array\(path\)"),
        (Path("rows.zarr"), "got the path 'rows.zarr'"),
        ([["one"], ["two"]], "X: got a list that is no array of numbers"),
        (csr_array(np.eye(2)), "X: got a csr_array that is no array of numbers"),
        (np.array([[1.0], [1j]]), "dtype complex128 is not real"),
    ],
)
def test_what_are_no_rows_of_numbers_is_refused(estimate, X, message):
    with pytest.raises(InputError, match=message):
        estimate(X, [0, 1])
