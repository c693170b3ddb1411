import warnings
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eig_banded

from bigsmic.errors import ConvergenceWarning, InputError
from bigsmic.numerics.eigen import lanczos, refinement
from bigsmic.numerics.eigen.bulk import BulkRule, Spectrum
from bigsmic.numerics.eigen.chebyshev import Filter
from bigsmic.numerics.eigen.lanczos import _expand, begin, solve
from bigsmic.numerics.eigen.lanczos_state import MANY, LanczosParams, LanczosState
from bigsmic.numerics.eigen.refinement import SMOOTH


class DenseSpace:
    """The protocol on one matrix, with dense columns."""

    def __init__(self, K, known=None, dtype=np.float64):
        self.K, self.n_rows, self.eps = K.astype(dtype), K.shape[0], float(np.finfo(dtype).eps)
        self.V = np.zeros((self.n_rows, 0), dtype) if known is None else known.astype(dtype)
        self.W = self.last = self.V[:, :0]
        self.largest_basis = 0

    n_columns = property(lambda self: self.V.shape[1])

    def _set(self, W):
        self.W = W.astype(self.V.dtype)
        return np.vstack([self.V.T @ self.W, self.W.T @ self.W]).astype(np.float64)

    def apply(self, filter):
        older, newer = None, self.last
        for _ in range(filter.degree):
            product = (self.K @ newer - filter.center * newer) / filter.half_width
            older, newer = newer, product if older is None else 2 * product - older
        return self._set(newer)

    def project(self, S, Q):
        return self._set((self.W - self.V @ S) @ Q)

    def draw(self, n_kept, n_new, key):
        new = np.random.default_rng(key).standard_normal((self.n_rows, n_new))
        return self._set(np.hstack([self.W[:, :n_kept], new]))

    def recall(self, Q, start):
        mixed, self.V = self.V[:, start:] @ Q, self.V[:, :start]
        return self._set(mixed)

    def take(self, start, width):
        self.last = self.V[:, start : start + width]

    def filter(self, filters, start, width):
        for filter in filters:
            self.take(start, width)
            self.apply(filter)
            self.V = np.hstack([self.V[:, :start], self.W, self.V[:, start + width :]])

    def append(self, Q):
        self.last = (self.W @ Q).astype(self.V.dtype)
        self.V = np.hstack([self.V, self.last])
        self.largest_basis = max(self.largest_basis, self.n_columns)

    def rotate(self, Q, start):
        self.V = np.hstack([self.V[:, :start], (self.V[:, start:] @ Q).astype(self.V.dtype)])

    def residual_norms(self, values, start):
        V = self.V[:, start : start + len(values)]
        return np.linalg.norm(self.K @ V - V * values, axis=0)

    def column_sums(self):
        weights = np.random.default_rng(0).random(self.n_rows)
        return np.stack([self.V.sum(axis=0), weights @ self.V])


def symmetric(n, seed=0, spectrum=None):
    """A random symmetric matrix: indefinite, or with the spectrum given."""
    rng = np.random.default_rng(seed)
    if spectrum is None:
        A = rng.standard_normal((n, n))
        return (A + A.T) / np.sqrt(n)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * spectrum) @ Q.T


def gapped(n, c, seed=0):
    """Spectrum with c values in [1, 2] above a bulk in [-1.5, .8]."""
    return symmetric(n, seed, np.concatenate([np.linspace(2, 1, c), np.linspace(0.8, -1.5, n - c)]))


def disconnected(sizes, seed=0):
    """``D^-1/2 K D^-1/2`` of a graph with components of these sizes, and the component of every row."""
    component = np.repeat(np.arange(len(sizes)), sizes)
    K = np.random.default_rng(seed).random((len(component), len(component)))
    K = (K + K.T) * (component[:, None] == component)
    np.fill_diagonal(K, 0)
    degree = K.sum(axis=1)
    return K / np.sqrt(np.outer(degree, degree)), component, degree


def top(K, c):
    values, V = np.linalg.eigh(K)
    return values[::-1][:c], V[:, ::-1][:, :c]


def run(K, params, dtype=np.float64, **options):
    space = DenseSpace(K, dtype=dtype)
    return solve(space, params, **options), space


def projector_distance(V, U):
    return np.abs(V @ V.T - U @ U.T).max()


@pytest.mark.parametrize(("dtype", "tol", "atol"), [(np.float64, 1e-10, 1e-8), (np.float32, 1e-6, 1e-4)])
def test_projector_agrees_with_dense(dtype, tol, atol):
    K, c = gapped(300, 9), 9
    result, space = run(K, LanczosParams(c, tol=tol), dtype)
    values, U = top(K, c)
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, values, atol=atol)
    assert projector_distance(space.V[:, :c].astype(float), U) < atol


@pytest.mark.parametrize("degree", [1, 3, 9])
def test_residuals_are_true_and_vectors_orthonormal(degree):
    K, c = symmetric(400), 12
    result, space = run(K, LanczosParams(c, tol=1e-11, degree=degree))
    V = space.V[:, :c]
    true = np.linalg.norm(K @ V - V * result.ritz_values, axis=0) / result.ritz_values[0]
    assert result.converged
    assert true.max() < 1.1e-11
    np.testing.assert_allclose(result.residual_norms, true, atol=1e-13)
    np.testing.assert_allclose(V.T @ V, np.eye(c), atol=1e-12)
    np.testing.assert_allclose(result.ritz_values, top(K, c)[0], atol=1e-10)


@pytest.mark.parametrize("filter", [Filter(), Filter(5, -0.4, 1.1)])
def test_coupling_identity(filter):
    K = symmetric(120)
    space, params = DenseSpace(K), LanczosParams(5, block_width=4, dimension=30)
    state = replace(begin(space, params), filter=filter)
    expansion = _expand(space, params, state)
    V, k = space.V, space.n_columns
    values, U = np.linalg.eigh(K)
    image = (U * filter(values)) @ U.T
    coupled = np.zeros_like(V)
    coupled[:, k - 4 :] = space.W @ expansion.Q @ expansion.coupling
    np.testing.assert_allclose(image @ V, V @ expansion.T + coupled, atol=1e-10 * np.abs(filter(values)).max())
    np.testing.assert_allclose(V.T @ space.W, 0, atol=1e-12)


def test_filter_is_chebyshev_and_inverts():
    x = np.linspace(-2.6, 2.6, 53)
    filter = Filter(5, 0.5, 2.0)
    expected = np.polynomial.chebyshev.Chebyshev([0, 0, 0, 0, 0, 1])((x - 0.5) / 2)
    np.testing.assert_allclose(filter(x), expected, atol=1e-12)
    above = x[x >= filter.edge]
    np.testing.assert_allclose(filter.inverse(filter(above)), above, atol=1e-12)
    np.testing.assert_array_equal(Filter().inverse(x), x)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9, 20, 50])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tiny_matrices(n, dtype):
    K, tol = symmetric(n, seed=n), 1e-9 if dtype == np.float64 else 1e-5
    for n_wanted in {1, (n + 1) // 2, n}:
        result, space = run(K, LanczosParams(n_wanted, tol=tol), dtype)
        assert result.converged
        assert space.V.shape == (n, n_wanted)
        np.testing.assert_allclose(result.ritz_values, top(K, n_wanted)[0], atol=10 * tol)


def test_basis_spanning_everything_is_exact():
    K = symmetric(40)
    result, space = run(K, LanczosParams(40, tol=1e-3))
    np.testing.assert_allclose(space.V * result.ritz_values @ space.V.T, K, atol=1e-12)


@pytest.mark.parametrize(
    "K", [np.zeros((200, 200)), np.eye(200), -np.eye(200), np.diag(np.repeat([3.0, 2, 1], [20, 30, 150]))]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_distinct_eigenvalues_end_quickly(K, dtype):
    result, space = run(K, LanczosParams(33, tol=1e-6), dtype)
    assert result.converged
    assert result.n_matvecs < 400
    np.testing.assert_allclose(result.ritz_values, top(K, 33)[0], atol=1e-5)
    np.testing.assert_allclose(space.V.T @ space.V, np.eye(33), atol=1e-5)


@pytest.mark.parametrize("n_wanted", [10, 30, 35])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_multiplicity_above_the_block_width(n_wanted, dtype):
    K = disconnected([20] * 29 + [60])[0]
    result, _ = run(K, LanczosParams(n_wanted, tol=1e-5, block_width=4), dtype)
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, top(K, n_wanted)[0], atol=1e-5)
    assert np.count_nonzero(result.ritz_values > 1 - 1e-5) == min(30, n_wanted)


@pytest.mark.parametrize("n", [12, 30, 60])
def test_copies_in_small_spaces(n):
    spectrum = np.concatenate([np.full(9, 3.0), np.linspace(2, -2, n - 9)])
    params = LanczosParams(10, tol=1e-8, dimension=26)
    result, space = run(symmetric(n, spectrum=spectrum), params)
    assert result.converged
    assert space.largest_basis <= 26
    np.testing.assert_allclose(result.ritz_values, spectrum[:10], atol=1e-7)


def test_hundreds_of_equal_eigenvalues_end():
    K = disconnected([4] * 300)[0]
    result, _ = run(K, LanczosParams(33, tol=1e-4), np.float32)
    assert result.converged
    assert result.n_matvecs < 3000
    np.testing.assert_allclose(result.ritz_values, 1, atol=1e-4)


@pytest.mark.parametrize("n_known", [1, 17, 30])
def test_known_eigenvectors(n_known):
    K, component, degree = disconnected([20] * 29 + [60])
    known = np.sqrt(degree)[:, None] * (component[:, None] == np.arange(30))
    known = (known / np.linalg.norm(known, axis=0))[:, :n_known]
    space, ones = DenseSpace(K, known), Spectrum(np.ones(n_known), np.zeros(n_known))
    result = solve(space, LanczosParams(33, tol=1e-8, block_width=4), known=ones)
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, top(K, 33)[0], atol=1e-8)
    np.testing.assert_allclose(K @ space.V, space.V * result.ritz_values, atol=1e-7)


@pytest.mark.parametrize("n_first", [4, 12])
def test_a_solve_for_more_goes_on_from_that_for_fewer(n_first):
    K, params = symmetric(400), LanczosParams(20, tol=1e-8, block_width=4)
    whole, whole_space = run(K, params)
    first, space = run(K, replace(params, n_wanted=n_first))
    V = space.V.copy()
    result = solve(space, params, known=Spectrum(first.ritz_values, first.residual_norms))
    assert result.converged
    assert result.n_matvecs < whole.n_matvecs
    np.testing.assert_array_equal(space.V[:, :n_first], V)
    np.testing.assert_array_equal(result.ritz_values[:n_first], first.ritz_values)
    np.testing.assert_allclose(K @ space.V, space.V * result.ritz_values, atol=1e-7)
    np.testing.assert_allclose(result.ritz_values, whole.ritz_values, atol=1e-8)
    assert projector_distance(space.V, whole_space.V) < 1e-6


@pytest.mark.parametrize("n_first", [3, 8, 15, 19])
def test_a_solve_for_more_goes_on_from_one_that_has_paused(n_first):
    K, params = symmetric(400), LanczosParams(20, tol=1e-8, block_width=4)
    whole, whole_space = run(K, params)
    fewer = replace(params, n_wanted=n_first)
    plain, plain_space = run(K, fewer)
    first, space = run(K, replace(fewer, pauses=True))
    V = space.V[:, :n_first].copy()
    np.testing.assert_array_equal(V, plain_space.V)
    assert space.n_columns == n_first + len(first.further.images) + first.further.width
    np.testing.assert_allclose(space.V.T @ space.V, np.eye(space.n_columns), atol=1e-10)
    space.take(space.n_columns - first.further.width, first.further.width)
    result = solve(space, params, state=first.further)
    known = solve(plain_space, params, known=Spectrum(plain.ritz_values, plain.residual_norms))
    assert (result.converged, result.further) == (True, None)
    assert result.n_matvecs <= known.n_matvecs or n_first == 3  # a filter for so few misleads about 20
    np.testing.assert_array_equal(space.V[:, :n_first], V)
    np.testing.assert_array_equal(result.ritz_values[:n_first], first.ritz_values)
    np.testing.assert_allclose(K @ space.V, space.V * result.ritz_values, atol=1e-7)
    np.testing.assert_allclose(result.ritz_values, whole.ritz_values, atol=1e-8)
    assert projector_distance(space.V, whole_space.V) < 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_a_solve_that_goes_on_finds_all_copies(seed):
    """A start of four columns has four copies of a value; those that are left straddle the end of the first solve."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((300, 300)))
    values = np.concatenate(
        [np.linspace(2, 1.9, 4), np.full(7, 1.5), np.linspace(1.2, 0.9, 12), np.linspace(0.3, -0.3, 277)]
    )
    K, params = (Q * values) @ Q.T, LanczosParams(7, tol=1e-8, block_width=4, pauses=True)
    first, space = run(K, params)
    space.take(space.n_columns - first.further.width, first.further.width)
    result = solve(space, LanczosParams(20, tol=1e-8, block_width=4), state=first.further)
    np.testing.assert_allclose(result.ritz_values, values[:20], atol=1e-7)


def test_a_solve_that_a_bulk_ends_does_not_pause():
    params = LanczosParams(30, tol=1e-5, block_width=4, bulk=BulkRule(), pauses=True)
    result, space = run(with_bulk(11), params)
    assert (result.n_parts, result.further, space.n_columns) == (11, None, 30)


def test_a_solve_that_has_not_converged_does_not_pause():
    with pytest.warns(ConvergenceWarning, match="of 20 eigenpairs"):
        result, space = run(symmetric(400), LanczosParams(20, tol=1e-8, block_width=4, max_matvecs=80, pauses=True))
    assert (result.further, space.n_columns) == (None, 20)


def test_known_eigenvectors_stay_the_first_though_others_are_of_larger_values():
    U, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 300)))
    values = np.concatenate([np.linspace(1, 0.5, 12), np.zeros(288)])
    known, space = Spectrum(values[[2, 7]], np.zeros(2)), DenseSpace((U * values) @ U.T, U[:, [2, 7]])
    result = solve(space, LanczosParams(6, tol=1e-8, block_width=4), known=known)
    np.testing.assert_array_equal(np.abs(space.V[:, :2]), np.abs(U[:, [2, 7]]))
    np.testing.assert_allclose(result.ritz_values, values[[2, 7, 0, 1, 3, 4]], atol=1e-7)


def test_all_wanted_known():
    K, component, degree = disconnected([20, 30, 40])
    known = np.sqrt(degree)[:, None] * (component[:, None] == np.arange(3))
    space = DenseSpace(K, known / np.linalg.norm(known, axis=0))
    result = solve(space, LanczosParams(3), known=Spectrum(np.ones(3), np.zeros(3)))
    assert result.converged
    assert result.n_matvecs == 0
    assert space.V.shape == (90, 3)


def test_warm_start_reaches_the_same_space_with_fewer_products():
    K, c = gapped(300, 8), 8
    params = LanczosParams(c, tol=1e-9)
    near, space = run(K + 1e-3 * symmetric(300, 7), params)
    cold, _ = run(K, params)
    warm_space = DenseSpace(K, space.V)
    warm = solve(warm_space, params, warm_filter=near.filter)
    assert warm.converged
    assert warm.n_matvecs < cold.n_matvecs
    assert projector_distance(warm_space.V, top(K, c)[1]) < 1e-8


@pytest.mark.parametrize("warm_filter", [Filter(9, 0.8, 1.4), Filter(9, -3.0, 0.1)])
def test_a_misleading_warm_filter_is_dropped(warm_filter):
    K, c = gapped(300, 8), 8
    space = DenseSpace(K, np.random.default_rng(0).standard_normal((300, 3)))
    result = solve(space, LanczosParams(c, tol=1e-9), warm_filter=warm_filter)
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, top(K, c)[0], atol=1e-8)


@pytest.mark.parametrize("long", [6, 10**9])
def test_a_long_solve_takes_a_better_filter(long, monkeypatch):
    """On a path, values crowd near the largest, and the first Ritz values show an edge far below those wanted."""
    monkeypatch.setattr(lanczos, "LONG", long)
    K = (np.diag(np.ones(799), 1) + np.diag(np.ones(799), -1)) / 2
    space, params = DenseSpace(K), LanczosParams(30, tol=1e-6, dimension=62)
    result = solve(space, params)
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, np.linalg.eigvalsh(K)[::-1][:30], atol=1e-8)
    assert (result.filter.degree > params.degree) == (long < 10**9)


@pytest.mark.parametrize("patience", [10, 10**9])
def test_a_filter_is_taken_though_the_largest_values_are_far(patience, monkeypatch):
    """The smallest filter amplifies the first values more than wanted; without it, a solve takes many restarts."""
    monkeypatch.setattr(lanczos, "PATIENCE", patience)
    values = np.concatenate([np.linspace(1, 0.97, 10), np.linspace(0.4, -0.3, 790)])
    result = solve(DenseSpace(np.diag(values)), LanczosParams(40, tol=1e-6))
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, values[:40], atol=1e-8)
    assert result.filter.degree == (5 if patience == 10 else 1)


def test_a_solve_without_filter_takes_none_however_long(monkeypatch):
    monkeypatch.setattr(lanczos, "LONG", 6)
    K = (np.diag(np.ones(799), 1) + np.diag(np.ones(799), -1)) / 2
    result = solve(DenseSpace(K), LanczosParams(30, tol=1e-3, dimension=62, degree=1))
    assert result.filter.degree == 1


@pytest.mark.parametrize(("n_restarts", "is_dropped"), [(1, True), (5, False)])
def test_only_a_warm_filter_is_dropped(n_restarts, is_dropped):
    """Ritz values grow: the edge of a filter of this solve is below those wanted even if a new basis shows less."""
    values = np.linspace(0.9, 0.1, 40)
    state = LanczosState(
        images=values,
        norms=np.ones(40),
        width=0,
        locked_values=np.zeros(0),
        locked_norms=np.zeros(0),
        filter=Filter(3, 0.2, 0.4),
        n_restarts=n_restarts,
    )
    state = replace(state, images=state.filter(values))
    found = lanczos._better_filter(LanczosParams(30), state, 1e-7)
    assert (found == Filter()) == is_dropped


def test_a_value_left_of_a_warm_filter_moves_its_low_end():
    """The filter of another matrix does not know how small the values of this one are."""
    values, lows = np.concatenate([np.linspace(1.0, 0.98, 60), np.linspace(0.9, -0.6, 200), [-0.9]]), []
    space = DenseSpace(np.diag(values), np.random.default_rng(0).standard_normal((len(values), 3)))
    params, warm_filter = LanczosParams(36, tol=1e-6), Filter(5, 0.1, 0.75)
    result = solve(space, params, warm_filter=warm_filter, on_restart=lambda state: lows.append(state.low))
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, values[:36], atol=1e-8)
    assert min(lows) == pytest.approx(-0.9, abs=1e-6)


def test_a_value_at_the_low_end_is_no_edge():
    """A basis that keeps it, beside those near the largest, would have an interval without width."""
    state = LanczosState(
        images=np.append(np.linspace(0.9, 0.86, 40), -0.9),
        norms=np.ones(41),
        width=0,
        locked_values=np.zeros(0),
        locked_norms=np.zeros(0),
        low=-0.9,
        n_restarts=5,
    )
    found = lanczos._better_filter(LanczosParams(10), state, 1e-7)
    assert found.edge == pytest.approx(0.86)
    assert found.center - found.half_width < -0.9


def test_parameters_for_few_pairs_are_the_usual_ones():
    assert LanczosParams.suited(MANY - 1, tol=1e-3) == LanczosParams(MANY - 1, tol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_pairs(dtype):
    """As many copies as parts that a graph falls into, and values that crowd."""
    n, m, rng = 700, 150, np.random.default_rng(0)
    values = np.concatenate([1 - 1e-6 * rng.random(100), np.linspace(0.8, -0.6, n - 100)])
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    K = (Q * values) @ Q.T
    result, space = run((K + K.T) / 2, LanczosParams.suited(m, tol=1e-4), dtype)
    V = space.V[:, :m]
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, values[np.argsort(-values)][:m], atol=1e-4)
    np.testing.assert_allclose(V.T @ V, np.eye(m), atol=1e-4)


def test_resume_from_any_restart_is_bit_identical():
    K, params, saved = symmetric(400), LanczosParams(10, tol=1e-9, block_width=4), []
    space = DenseSpace(K)
    whole = solve(space, params, on_restart=lambda state: saved.append((state, space.V.copy())))
    assert len(saved) > 3
    for state, V in saved:
        again = DenseSpace(K, V)
        again.last = V[:, V.shape[1] - state.width :]
        result = solve(again, params, state=state)
        np.testing.assert_array_equal(again.V, space.V)
        np.testing.assert_array_equal(result.residual_norms, whole.residual_norms)
        assert result.n_matvecs == whole.n_matvecs


@pytest.mark.parametrize(("n_misleading", "n_turns"), [(0, 0), (5, 1)])
def test_locked_columns_are_as_they_were_until_the_state_says_that_they_turned(n_misleading, n_turns):
    values = np.concatenate([np.linspace(1, 0.5, 12), np.zeros(288)])
    U, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 300)))
    params, saved = LanczosParams(5, tol=1e-6, block_width=1), []
    space = DenseSpace((U * values) @ U.T, U[:, 5 : 5 + n_misleading])  # eigenvectors, but not of the largest values
    solve(space, params, on_restart=lambda state: saved.append((state, space.V[:, : state.n_locked].copy())))
    assert saved[-1][0].n_turns == n_turns
    assert saved[-1][0].n_locked > 0
    for (before, V), (after, W) in pairwise(saved):
        if before.n_turns == after.n_turns:
            np.testing.assert_array_equal(W[:, : before.n_locked], V)


def test_the_basis_stays_within_its_size():
    K, params = symmetric(400), LanczosParams(10, tol=1e-6)
    _, space = run(K, params)
    assert space.largest_basis <= params.size(400) == 66


def with_bulk(n_parts, apart=0.0, n=800):
    """Spectrum of N of a graph of so many parts without structure of their own."""
    parts = 1 - apart * np.arange(n_parts)
    return symmetric(n, spectrum=np.concatenate([parts, np.linspace(0.6, -0.4, n - n_parts)]))


@pytest.mark.parametrize("n_parts", [2, 6, 15])
def test_a_bulk_ends_the_solve_early(n_parts):
    K = with_bulk(n_parts, 1e-4)
    params = LanczosParams(30, tol=1e-5, block_width=4)
    whole, _ = run(K, params)
    result, space = run(K, replace(params, bulk=BulkRule()))
    assert result.converged
    assert result.n_parts == n_parts
    assert result.n_matvecs < whole.n_matvecs / 2
    assert projector_distance(space.V[:, :n_parts], top(K, n_parts)[1]) < 1e-4
    np.testing.assert_allclose(space.V.T @ space.V, np.eye(30), atol=1e-10)
    np.testing.assert_allclose(result.ritz_values[:n_parts], whole.ritz_values[:n_parts], atol=1e-8)
    true = np.linalg.norm(K @ space.V - space.V * result.ritz_values, axis=0)
    np.testing.assert_allclose(result.residual_norms, true, atol=1e-10)


@pytest.mark.parametrize("n_copies", [5, 13, 20])
def test_a_bulk_ends_no_solve_that_has_not_found_all_copies_of_a_part(n_copies):
    result, _ = run(with_bulk(n_copies), LanczosParams(30, tol=1e-5, block_width=4, bulk=BulkRule()))
    assert result.n_parts == n_copies


def test_a_rule_that_never_holds_changes_no_bit():
    K, params = gapped(300, 9), LanczosParams(20, tol=1e-6)
    _, space = run(K / 2, params)
    result, ruled = run(K / 2, replace(params, bulk=BulkRule()))
    assert result.n_parts == 0
    np.testing.assert_array_equal(ruled.V, space.V)


def test_a_solve_that_ends_in_a_bulk_resumes_with_the_same_bits():
    K, saved = with_bulk(11), []
    params = LanczosParams(30, tol=1e-5, block_width=4, bulk=BulkRule())
    space = DenseSpace(K)
    whole = solve(space, params, on_restart=lambda state: saved.append((state, space.V.copy())))
    assert max(state.n_starts for state, _ in saved) > 0
    for state, V in saved:
        again = DenseSpace(K, V)
        again.last = V[:, V.shape[1] - state.width :]
        result = solve(again, params, state=state)
        np.testing.assert_array_equal(again.V, space.V)
        assert (result.n_matvecs, result.n_parts) == (whole.n_matvecs, 11)


def test_limit_on_products_warns_and_returns_the_best_so_far():
    K, params = symmetric(400), LanczosParams(10, tol=1e-12, max_matvecs=100)
    with pytest.warns(ConvergenceWarning, match=r"lanczos: \d of 10 .*limit 100"):
        result, space = run(K, params)
    V = space.V
    assert not result.converged
    assert V.shape == (400, 10)
    true = np.linalg.norm(K @ V - V * result.ritz_values, axis=0)
    np.testing.assert_allclose(result.residual_norms * np.abs(result.ritz_values).max(), true, rtol=0.2)


def test_float32_ends_although_more_is_asked_than_it_can_give():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result, _ = run(symmetric(300), LanczosParams(10, tol=1e-12), np.float32)
    assert result.residual_norms.max() < 1e-5


def test_signs_follow_the_sum():
    K = np.abs(symmetric(200))
    _, space = run(K, LanczosParams(1, tol=1e-9))
    assert space.V.sum() > 0


# -- values that crowd


def path(n, n_paths=1):
    """Normalised kernel of rows along lines, sparse, and its eigenvector of eigenvalue 1 on each."""
    beside = sparse.diags_array(np.ones((6, n)), offsets=[-3, -2, -1, 1, 2, 3], shape=(n, n))
    W = sparse.kron(sparse.eye_array(n_paths), beside, format="csr")
    degree = W.sum(axis=1)
    known = np.sqrt(degree)[:, None] * np.kron(np.eye(n_paths), np.ones((n, 1)))
    D = sparse.diags_array(1 / np.sqrt(degree))
    return D @ W @ D, known / np.linalg.norm(known, axis=0)


def top_of_path(K, c):
    """The largest eigenpairs of a band of seven diagonals."""
    n = K.shape[0]
    band = np.array([np.append(K.diagonal(-j), np.zeros(j)) for j in range(4)])
    values, V = eig_banded(band, lower=True, select="i", select_range=(n - c, n - 1))
    return values[::-1], V[:, ::-1]


class Steps:
    """Approximations that are constant on stretches of a line, of some rows each; none if these are too long."""

    def __init__(self, K, space, known, rows):
        groups = np.arange(K.shape[0]) // rows
        P = (groups[:, None] == np.arange(groups[-1] + 1)) * np.linalg.norm(known, axis=1)[:, None]
        self.P, self.space, self.known, self.n_asked = P / np.linalg.norm(P, axis=0), space, known, 0

    def propose(self, k, largest):
        self.n_asked += 1
        assert largest >= np.linalg.norm(self.known, axis=0).max() - 1e-12
        values, U = np.linalg.eigh(self.P.T @ self.space.K @ self.P)
        self.U = self.P @ U[:, ::-1][:, self.known.shape[1] :][:, :k]
        values = values[::-1][self.known.shape[1] :][:k]
        return values if 1 - values[-1] <= SMOOTH else None

    def append(self):
        assert np.array_equal(self.space.V, self.known)
        self.space.V = np.hstack([self.space.V, self.U])


def crowded(rows, n_paths=1, n=2400, begun=None, max_matvecs=None, **options):
    """Solve for ten vectors of paths, from a coarse start of steps of so many rows."""
    K, known = path(n // n_paths, n_paths)
    space = DenseSpace(K, known)
    coarse = Steps(K, space, known, rows)
    ones = Spectrum(np.ones(n_paths), np.zeros(n_paths))
    if begun is not None:
        options["state"], space.V, space.last = begun
    on_restart = partial(options.pop("on_restart"), space) if "on_restart" in options else None
    params = LanczosParams(10, max_matvecs=max_matvecs)
    result = solve(space, params, known=ones, coarse=coarse, on_restart=on_restart, **options)
    return K, space, coarse, result


@pytest.mark.parametrize("n_paths", [1, 3])
def test_values_that_crowd_are_told_apart_from_a_coarse_start(n_paths):
    K, space, coarse, result = crowded(rows=6, n_paths=n_paths)
    assert result.converged
    assert coarse.n_asked == 1
    values, V = top_of_path(K, 10)
    np.testing.assert_allclose(1 - result.ritz_values[n_paths:], 1 - values[n_paths:], rtol=0.1)
    assert projector_distance(space.V, V) < 0.2  # the eleventh value is as near as those before
    assert np.array_equal(space.V[:, :n_paths], coarse.known)
    np.testing.assert_allclose(space.V.T @ space.V, np.eye(10), atol=1e-9)
    residuals = np.linalg.norm(K @ space.V - space.V * result.ritz_values, axis=0)
    np.testing.assert_allclose(residuals[n_paths:], result.residual_norms[n_paths:], rtol=1e-6)
    assert residuals.max() <= 1e-4


def test_filters_smooth_first_and_never_end_nearer_than_the_approximations_allow():
    values = 1 - np.linspace(1e-4, 1e-3, 20)
    first = refinement._filters(values, (5, 11, 25), 2.0)
    assert [filter.degree for filter in first] == [5, 11, 25]
    for filter in first:
        assert filter(1.0) == pytest.approx(refinement.AMPLIFICATION)
        assert filter.edge < 1 - 2e-3
    (last,) = refinement._filters(values, (101,), 2.0)
    assert last.edge == pytest.approx(1 - 2e-3)
    assert 55 < last.degree < 101
    (nearer,) = refinement._filters(values, (101,), 1.5)
    assert nearer.edge == pytest.approx(1 - 1.5e-3)


def test_the_limit_on_products_leaves_the_refined_vectors(monkeypatch):
    monkeypatch.setattr("bigsmic.numerics.eigen.refinement.AMPLIFICATION", 8.0)
    monkeypatch.setattr("bigsmic.numerics.eigen.refinement.FIRST_DEGREES", (11,))
    with pytest.warns(ConvergenceWarning, match="of 10 eigenpairs reached"):
        K, space, _, result = crowded(rows=6, max_matvecs=700)
    assert 1 <= result.n_converged < 10
    np.testing.assert_allclose(1 - result.ritz_values[1:], 1 - top_of_path(K, 10)[0][1:], rtol=0.1)
    residuals = np.linalg.norm(K @ space.V - space.V * result.ritz_values, axis=0)
    np.testing.assert_allclose(residuals[1:], result.residual_norms[1:], rtol=1e-6)


def test_a_coarse_start_that_is_not_near_changes_no_bit():
    K, known = path(1200)
    ones, params = Spectrum(np.ones(1), np.zeros(1)), LanczosParams(6)
    spaces = [DenseSpace(K, known) for _ in range(2)]
    coarse = Steps(K, spaces[1], known, 100)
    for space, start in zip(spaces, (None, coarse), strict=True):
        solve(space, params, known=ones, coarse=start)
    assert coarse.n_asked == 1
    assert np.array_equal(spaces[0].V, spaces[1].V)


def test_a_coarse_start_is_not_asked_for_values_that_do_not_crowd():
    K = gapped(300, 5)
    space = DenseSpace(K / 2)
    coarse = Steps(K, space, np.ones((300, 1)), 5)
    assert solve(space, LanczosParams(5), coarse=coarse).converged
    assert coarse.n_asked == 0


def test_a_solve_that_takes_a_coarse_start_resumes_with_the_same_bits(monkeypatch):
    monkeypatch.setattr("bigsmic.numerics.eigen.refinement.PASSES", 1)  # so that restarts follow
    monkeypatch.setattr("bigsmic.numerics.eigen.refinement.AMPLIFICATION", 8.0)
    monkeypatch.setattr("bigsmic.numerics.eigen.refinement.FIRST_DEGREES", (11,))
    seen = []

    def keep(space, state):
        seen.append((state, space.V.copy(), space.V[:, space.n_columns - state.width :].copy()))

    _, space, _, whole = crowded(rows=6, on_restart=keep)
    assert {state.asked_coarse for state, *_ in seen} == {False, True}
    for begun in seen:
        _, again, coarse, result = crowded(rows=6, begun=begun)
        assert coarse.n_asked == (not begun[0].asked_coarse)
        assert np.array_equal(result.ritz_values, whole.ritz_values)
        assert np.array_equal(again.V, space.V)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_wanted": 0}, "n_wanted=0 must"),
        ({"n_wanted": 3, "block_width": 0}, "block_width=0 must"),
        ({"n_wanted": 3, "tol": 0.0}, r"tol=0.0 must lie in \(0, 1\)"),
        ({"n_wanted": 3, "degree": 4}, "degree=4 must be odd"),
        ({"n_wanted": 3, "dimension": 12}, "dimension=12 must be at least .* = 19"),
    ],
)
def test_params_refuse(options, match):
    with pytest.raises(InputError, match=match):
        LanczosParams(**options)


def test_more_pairs_than_rows_are_refused():
    with pytest.raises(InputError, match="got n_wanted=5 eigenpairs of a matrix with 3 rows"):
        run(np.eye(3), LanczosParams(5))
