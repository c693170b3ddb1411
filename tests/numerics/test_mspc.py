"""MSPC against dense references: the machine, the cut, the relaxation, the loops, and what must not change them."""

import pickle
from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from scipy.optimize import minimize

from bigsmic.errors import InputError, SingularCovarianceError
from bigsmic.numerics.objectives.mspc import questions
from bigsmic.numerics.objectives.mspc.cuts import best_cut
from bigsmic.numerics.objectives.mspc.questions import Halfspace, Moved, Rows, Sides, second_moments, solve
from bigsmic.numerics.objectives.mspc.separation import Two, separate
from bigsmic.numerics.objectives.mspc.solvers import SOLVERS, SplitSettings, split


def blobs(seed=0, n=300, d=5, distance=3.0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    spread = np.where(y[:, None], np.linspace(0.5, 1.5, d), np.linspace(2, 0.3, d))
    return rng.normal(size=(n, d)) * spread + distance * y[:, None] * np.eye(d)[0], y


def covariances(seed, d=6):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(2, d, d))
    return rng.normal(size=d), A @ A.T / d, B @ B.T / d


def kappa_of(w, difference, first, second):
    return w @ difference / (np.sqrt(w @ first @ w) + np.sqrt(w @ second @ w))


def axis(X, y):
    """The halfspace across the line between the means of y, which labels it nearly as y does."""
    w = X[y].mean(axis=0) - X[~y].mean(axis=0)
    return Halfspace(w, w @ (X[y].mean(axis=0) + X[~y].mean(axis=0)) / 2)


def conditioned(seed, d, condition=1e3):
    """A random invertible map of the condition number given."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    return (U * np.geomspace(1, 1 / condition, d)) @ V


def one(start, rows, **settings):
    return solve([split((), start, SplitSettings(**settings))], rows)[0]


# ---------------------------------------------------------------- the minimax probability machine


@pytest.mark.parametrize("seed", range(5))
def test_the_machine_finds_the_largest_kappa(seed):
    problem = covariances(seed)
    found = separate(*problem)
    tries = [minimize(lambda w: -kappa_of(w, *problem), w, tol=1e-12) for w in np.eye(6) + problem[0]]
    assert found.kappa == pytest.approx(max(-t.fun for t in tries), rel=1e-8)
    assert kappa_of(found.w, *problem) == pytest.approx(found.kappa, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_machine_is_at_a_stationary_point(seed):
    difference, first, second = covariances(seed)
    w = separate(difference, first, second).w
    pull = first @ w / np.sqrt(w @ first @ w) + second @ w / np.sqrt(w @ second @ w)
    assert_allclose(pull / np.linalg.norm(pull), difference / np.linalg.norm(difference), atol=1e-9)


def test_one_cluster_without_extent_leaves_the_other_to_decide():
    difference, _, second = covariances(0)
    found = separate(difference, np.zeros((6, 6)), second)
    assert found.kappa == pytest.approx(np.sqrt(difference @ np.linalg.solve(second, difference)), rel=1e-6)


def test_equal_means_are_not_separated():
    _, first, second = covariances(0)
    found = separate(np.zeros(6), first, second)
    assert (found.kappa, found.msp) == (0, 0)


def test_what_is_singular_is_refused():
    difference, first, second = covariances(0)
    first[-1] = first[:, -1] = second[-1] = second[:, -1] = 0
    with pytest.raises(SingularCovarianceError, match=r"rank 5 of 6.*give reg > 0"):
        separate(difference, first, second)


def test_a_column_that_copies_another_is_singular_too():
    X, y = blobs()
    with pytest.raises(SingularCovarianceError, match="rank 5 of 6"):
        one(axis(np.c_[X, X[:, 0]], y), Rows(np.c_[X, X[:, 0]]), reg=0)
    assert one(axis(np.c_[X, X[:, 0]], y), Rows(np.c_[X, X[:, 0]]), reg=0.1).ended == "converged"


def test_a_column_that_the_labels_determine_is_singular_too():
    X, y = blobs(distance=8)
    X = np.c_[X, np.where(y, 0.1, 0.7) + 5]
    with pytest.raises(SingularCovarianceError, match="rank 5 of 6"):
        one(axis(Rows(X).X, y), Rows(X), reg=0)


# ---------------------------------------------------------------- the best cut


def best_bound(t, scatter):
    """Maximise the lower bound over every cut between sorted projections: its value."""
    t, n, best = np.sort(t), len(t), -np.inf
    for m in range(1, n):
        if t[m] > t[m - 1]:
            D = t[m:].mean() - t[:m].mean()
            r, R = min(m, n - m) / n, max(m, n - m) / n
            best = max(best, D**2 / (2 * scatter / r - 2 * R * D**2))
    return best


def bound_of(t, scatter, threshold):
    inside = t > threshold
    D = t[inside].mean() - t[~inside].mean()
    r = inside.mean()
    return D**2 / (2 * scatter / min(r, 1 - r) - 2 * max(r, 1 - r) * D**2)


APART = st.floats(-5, 5).map(lambda value: round(value, 3))  # between values as near as rounding there is no cut


@given(
    st.lists(st.integers(-50, 50) | APART, min_size=2, max_size=60).filter(lambda t: np.ptp(t) > 1e-3),
    st.sampled_from([0.01, 1.0]),
)
def test_the_cut_is_the_best_of_all(t, reg):
    rows = Rows(np.array(t)[:, None])
    moments = second_moments(rows.X)
    (found,) = solve([best_cut((), np.ones(1), moments, reg)], rows)
    scatter = rows.X.var() * (1 + reg)
    assert bound_of(rows.X[:, 0], scatter, found.threshold) == pytest.approx(
        best_bound(rows.X[:, 0], scatter), rel=1e-7
    )


def test_the_cut_of_many_rows_is_the_best_of_all():
    rng = np.random.default_rng(3)
    rows = Rows(np.concatenate([rng.normal(size=9000), rng.normal(4, 0.5, 3000), rng.standard_cauchy(50)])[:, None])
    (found,) = solve([best_cut((), np.ones(1), second_moments(rows.X), 0.1)], rows)
    scatter = rows.X.var() * 1.1
    assert bound_of(rows.X[:, 0], scatter, found.threshold) == pytest.approx(
        best_bound(rows.X[:, 0], scatter), rel=1e-9
    )


# ---------------------------------------------------------------- the three solvers


def reference_mpm(X, is_in, reg):
    """The loop as published: covariances of the rows themselves, the machine by a general minimiser's direction."""
    ridge = reg * np.diag(X.var(axis=0))
    for _ in range(100):
        means = [X[~is_in].mean(axis=0), X[is_in].mean(axis=0)]
        S = [np.cov(X[side].T, bias=True) + ridge for side in (~is_in, is_in)]
        w = separate(means[1] - means[0], *S).w
        deviations = np.sqrt([w @ s @ w for s in S])
        b = (deviations[1] * (means[0] @ w) + deviations[0] * (means[1] @ w)) / deviations.sum()
        found = X @ w > b
        if (found == is_in).all():
            return is_in
        is_in = found
    raise AssertionError("no end")


def reference_gep(X, is_in, reg):
    """The loop as published: generalised eigenproblem, sorted projections."""
    S = np.cov(X.T, bias=True)
    S += reg * np.diag(np.diag(S))
    for _ in range(100):
        difference = X[is_in].mean(axis=0) - X[~is_in].mean(axis=0)
        w = eigh(np.outer(difference, difference), S)[1][:, -1]
        t = X @ (w * np.sign(w @ difference))
        cuts = (np.sort(t)[1:] + np.sort(t)[:-1]) / 2
        found = t > cuts[np.argmax([bound_of(t, w @ S @ w, cut) for cut in cuts])]
        if (found == is_in).all():
            return is_in
        is_in = found
    raise AssertionError("no end")


@pytest.mark.parametrize(("solver", "reference"), [("mpm", reference_mpm), ("gep", reference_gep)])
@pytest.mark.parametrize("reg", [0, 0.1, 10])
def test_the_loops_are_the_published_ones(solver, reference, reg):
    X, _ = blobs(seed=1, distance=1.5)
    rows, w = Rows(X), np.ones(5)
    found = one(Halfspace(w, 0.0), rows, solver=solver, reg=reg)
    assert found.ended == "converged"
    assert found.n_iter > 2
    assert_array_equal(found.halfspace.contains(rows.X), reference(rows.X, rows.X @ w > 0, reg))


@pytest.mark.parametrize("reg", [1e-4, 1, 1e4])
def test_the_relaxation_is_the_published_matrix(reg):
    X, y = blobs(n=120)
    rows = Rows(X)
    S = rows.X.T @ rows.X / 120
    q = eigh(rows.X @ np.linalg.solve(S + reg * np.diag(np.diag(S)), rows.X.T))[1][:, -1]
    is_in = one(axis(rows.X, y), rows, solver="eig", reg=reg).halfspace.contains(rows.X)
    published = rows.X @ rows.X.T @ q > 0
    assert (is_in == published).all() or (is_in != published).all()


def test_the_relaxation_refuses_no_regularisation():
    with pytest.raises(InputError, match=r"solver='eig'.*give reg > 0"):
        SplitSettings("eig", reg=0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_two_blobs_are_found(solver):
    X, y = blobs(distance=0)
    rows = Rows(X + 4 * y[:, None])
    is_in = one(Halfspace(np.eye(5)[0], 0.0), rows, solver=solver).halfspace.contains(rows.X)
    assert max((is_in == y).mean(), (is_in != y).mean()) > 0.99


# ---------------------------------------------------------------- invariance


@pytest.mark.parametrize("solver", ["mpm", "gep"])
@pytest.mark.parametrize("seed", range(5))
def test_an_invertible_map_changes_nothing(solver, seed):
    X, _ = blobs(seed, distance=2)
    X -= X.mean(axis=0)
    P, w = conditioned(seed, 5), np.ones(5)
    plain = one(Halfspace(w, 0.1), Rows(X), solver=solver, reg=0)
    mapped = one(Halfspace(np.linalg.solve(P, w), 0.1), Rows(X @ P), solver=solver, reg=0)
    assert mapped.msp == pytest.approx(plain.msp, abs=1e-8)
    assert_array_equal(mapped.halfspace.contains(Rows(X @ P).X), plain.halfspace.contains(Rows(X).X))


# ---------------------------------------------------------------- sums


def test_moving_rows_is_counting_anew():
    X, _ = blobs(n=2000)
    rows = Rows(X)
    rng = np.random.default_rng(0)
    hyperplanes = [Halfspace(np.eye(5)[0] + 0.02 * rng.normal(size=5), 0.05 * rng.normal()) for _ in range(30)]
    (sides,) = rows([Sides((), hyperplanes[0])])
    for old, new in pairwise(hyperplanes):
        left, came = rows([Moved((), old, new)])[0]
        sides = sides + np.stack([left - came, came - left])
    (anew,) = rows([Sides((), hyperplanes[-1])])
    assert_array_equal(sides[:, -1, -1], anew[:, -1, -1])
    assert_allclose(sides, anew, atol=1e-10 * np.abs(anew).max())


class Blocks:
    """Rows in blocks, whose answers are added; questions travel pickled."""

    def __init__(self, X, height):
        X = Rows(X).X
        self.blocks = [X[lo : lo + height] for lo in range(0, len(X), height)]
        self.passes = 0

    def __call__(self, questions):
        self.passes += 1
        questions = pickle.loads(pickle.dumps(questions))
        return [reduce(np.add, [question(block) for block in self.blocks]) for question in questions]


@pytest.mark.parametrize("solver", SOLVERS)
def test_blocks_are_the_whole(solver):
    X, y = blobs(n=900, distance=2)
    start = axis(Rows(X).X, y)
    whole, parts = one(start, Rows(X), solver=solver), one(start, Blocks(X, 77), solver=solver)
    assert_allclose(parts.halfspace.w, whole.halfspace.w, rtol=1e-9)
    assert parts.msp == pytest.approx(whole.msp, rel=1e-10)
    assert_array_equal(parts.counts, whole.counts)


def test_problems_share_their_passes():
    X, y = blobs(n=400)
    start, rows = axis(Rows(X).X, y), Blocks(X, 50)
    problem = partial(split, (), start)
    alone = [one(start, Rows(X), reg=reg) for reg in (0, 1, 100)]
    together = solve([problem(SplitSettings(reg=reg)) for reg in (0, 1, 100)], rows)
    assert rows.passes <= 2 * max(s.n_iter for s in alone) + 1
    assert_allclose([s.msp for s in together], [s.msp for s in alone], rtol=1e-10)


def test_a_split_ends_when_few_rows_move():
    X, _ = blobs(n=3000, distance=1.5)
    start = Halfspace(np.ones(5), 0.0)
    exact, loose = (one(start, Rows(X), tol=tol) for tol in (0, 0.01))
    assert loose.n_iter < exact.n_iter
    assert loose.ended == "converged"
    assert loose.msp == pytest.approx(exact.msp, abs=0.02)


# ---------------------------------------------------------------- what cannot be split


def test_rows_that_coincide_are_not_split():
    assert one(Halfspace(np.ones(3), -1.0), Rows(np.ones((5, 3)))) is None


def test_a_start_with_an_empty_side_is_no_split():
    X, _ = blobs()
    assert one(Halfspace(np.ones(5), 1e9), Rows(X)) is None


def test_a_node_holds_the_rows_that_its_halfspaces_say():
    X, _ = blobs()
    node = ((Halfspace(np.eye(5)[0], 0.0), True), (Halfspace(np.eye(5)[1], 0.5), False))
    assert_array_equal(questions.inside(node, X), (X[:, 0] > 0) & (X[:, 1] <= 0.5))


def test_columns_that_do_not_vary_in_a_node_are_left_out():
    X, _ = blobs()
    X = np.c_[X, np.where(X[:, 0] > 0, 7.0, -7.0)]
    node = ((Halfspace(np.eye(6)[5], 0.0), True),)
    found = solve([split(node, Halfspace(np.eye(6)[1], 0.0), SplitSettings(reg=0))], Rows(X))[0]
    assert found.halfspace.w[5] == 0
    assert 0 < found.msp < 1
    assert found.counts.sum() == Two.of(Rows(X)([Sides(node, found.halfspace)])[0]).counts.sum()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "svm"}, "solver: got 'svm'"),
        ({"reg": -1}, "reg: got -1"),
        ({"reg": np.nan}, "reg: got nan"),
        ({"tol": 1}, "tol: got 1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InputError, match=message):
        SplitSettings(**settings)
