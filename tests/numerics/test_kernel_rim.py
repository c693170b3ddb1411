"""Kernel RIM's ascent against dense formulas, finite differences and a general optimiser."""

import numpy as np
import pytest
from places import group_of
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import entr, log_softmax, softmax

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.basis import MemoryBasis
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.objectives.kernel_rim import (
    GRADIENT,
    SLOTS,
    AscentSettings,
    Information,
    KernelRows,
    Likelihood,
    ascend,
    posterior,
)
from bigsmic.store import FileBasis

C = 3


def problem(n=90, seed=0):
    """Sparse symmetric kernel of three loose groups on a line, without its diagonal, and labels with some errors."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(C), n // C)
    x = np.sort(rng.normal(size=n)) * 0.5 + 3 * y
    K = np.exp(-(np.subtract.outer(x, x) ** 2))
    K[K < 0.2] = 0
    np.fill_diagonal(K, 0)
    return K, np.where(rng.random(n) < 0.1, rng.integers(0, C, n), y).astype(np.int32)


def block_of(K, bounds, p):
    lo, hi = int(bounds[p]), int(bounds[p + 1])
    rows = sparse.csr_array(K[lo:hi])
    outside = (rows.indices < lo) | (rows.indices >= hi)
    halo = np.unique(rows.indices[outside]).astype(np.int64)
    local = np.where(outside, hi - lo + np.searchsorted(halo, rows.indices), rows.indices - lo)
    return KernelBlock(lo, hi, halo, rows.indptr.astype(np.int64), local.astype(np.int32), rows.data)


def maker(K, labels, bounds, dtype=np.float64, folder=None):
    """What makes the rows of a shard."""
    bounds = np.asarray(bounds)

    def make(shard):
        own = bounds[shard.blocks.start : shard.blocks.stop + 1] - shard.lo
        basis = MemoryBasis(own, SLOTS * C, dtype) if folder is None else FileBasis(folder, own, SLOTS * C, dtype)
        load = {p: block_of(K.astype(dtype), bounds, p) for p in range(len(bounds) - 1)}.__getitem__
        return KernelRows(shard, load, basis, labels[shard.lo : shard.hi])

    return make


def fit(K, labels, bounds=(0, 90), cuts=(), settings=None, **options):
    """Ascent from the labels; where it ended, and Z and A of all rows."""
    settings = settings or AscentSettings(reg=0.3, max_iter=300, tol=1e-12)
    with group_of(maker(K, labels, bounds, **options), np.asarray(bounds), cuts) as group:
        begun = ascend(group, len(K), "likelihood", AscentSettings(0.3, 5), np.zeros(C))
        ended = ascend(group, len(K), "information", settings, begun.bias)
        group.call(("finish",))
        places = [(actor, p) for actor in group.actors for p in actor.shard.blocks]
        return ended, *(np.concatenate([getattr(r, name)(p) for r, p in places]) for name in ("logits", "coefficients"))


def objective(A, bias, K, reg):
    """Penalised information, n times, straight from its definition."""
    P = softmax((K + np.eye(len(K))) @ A + bias, axis=1)
    return len(K) * entr(P.mean(axis=0)).sum() - entr(P).sum() - reg * np.sum(A**2)


def test_the_value_is_the_objective_of_the_model():
    K, labels = problem()
    ended, Z, A = fit(K, labels)
    np.testing.assert_allclose((K + np.eye(90)) @ A, Z, atol=1e-10)
    assert ended.value * 90 == pytest.approx(objective(A, ended.bias, K, 0.3), rel=1e-10)


def test_the_gradient_vanishes_where_it_ends():
    K, labels = problem()
    ended, _, A = fit(K, labels)
    at = np.concatenate([A.ravel(), ended.bias])

    def value(x):
        return objective(x[:-C].reshape(-1, C), x[-C:], K, 0.3)

    gradient = [(value(at + step) - value(at - step)) / 2e-5 for step in 1e-5 * np.eye(len(at))]
    assert ended.converged
    assert np.abs(gradient).max() < 1e-4


@pytest.mark.parametrize(("kind", "name"), [(Information, "information"), (Likelihood, "likelihood")])
def test_gradients_are_the_finite_differences(kind, name):
    K, labels = problem(n=30)
    rng = np.random.default_rng(1)
    B, bias, reg = rng.normal(size=(30, C)), rng.normal(size=C), 0.7
    full = K + np.eye(30)

    def value(x):
        B, bias = x[:-C].reshape(-1, C), x[-C:]
        Z = full @ full @ B
        if name == "information":
            return objective(full @ B, bias, K, reg)
        return log_softmax(Z + bias, axis=1)[np.arange(30), labels].sum() - reg * np.sum((full @ B) ** 2)

    def gradient(x):
        B, bias = x[:-C].reshape(-1, C), x[-C:]
        with group_of(maker(K, labels, (0, 30)), np.array([0, 30])) as group:
            rows = group.actors[0]
            rows._write(0, 0, B)
            rows._write(0, 1, full @ full @ B)
            common = kind.read(rows.measure(name, 0.0, bias, np.zeros(C))[:-2], 30)[2]
            sums = rows.trial_step(name, common, 0.0, bias, reg)
            return np.concatenate([(full @ full @ rows._read(0, GRADIENT)).ravel(), sums])

    x, h = np.concatenate([B.ravel(), bias]), 1e-5
    expected = [(value(x + step) - value(x - step)) / (2 * h) for step in h * np.eye(len(x))]
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [Information, Likelihood])
def test_slopes_are_the_finite_differences(kind):
    rng = np.random.default_rng(2)
    Z, D, labels = rng.normal(size=(40, C)), rng.normal(size=(40, C)), rng.integers(0, C, 40)
    ahead, behind = (kind.read(kind.sums(Z + h * D, D, labels), 40)[0] for h in (1e-5, -1e-5))
    slope = kind.read(kind.sums(Z, D, labels), 40)[1]
    assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_a_general_optimiser_gets_no_higher():
    K, labels = problem()
    ended, _, _ = fit(K, labels)
    with group_of(maker(K, labels, (0, 90)), np.array([0, 90])) as group:
        begun = ascend(group, 90, "likelihood", AscentSettings(0.3, 5), np.zeros(C))
        group.call(("finish",))
        start = np.concatenate([group.actors[0].coefficients(0).ravel(), begun.bias])

    def negative(x):
        return -objective(x[:-C].reshape(-1, C), x[-C:], K, 0.3)

    other = minimize(negative, start, method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 10**6, "ftol": 1e-13})
    assert ended.value == pytest.approx(-other.fun / 90, abs=1e-6)


@pytest.mark.parametrize(("bounds", "cuts"), [((0, 7, 50, 90), ()), ((0, 7, 50, 90), (1,)), ((0, 30, 60, 90), (1, 2))])
def test_blocks_and_places_do_not_matter(bounds, cuts):
    K, labels = problem()
    whole, Z, A = fit(K, labels)
    cut, Z_cut, A_cut = fit(K, labels, bounds, cuts)
    assert cut.value == pytest.approx(whole.value, abs=1e-10)
    np.testing.assert_allclose(Z_cut, Z, atol=1e-5)
    np.testing.assert_allclose(A_cut, A, atol=1e-5)


def test_a_basis_on_disk_is_a_basis_in_memory(tmp_path):
    K, labels = problem()
    kept = fit(K, labels, (0, 20, 90), dtype=np.float32)
    stored = fit(K, labels, (0, 20, 90), dtype=np.float32, folder=tmp_path)
    np.testing.assert_array_equal(stored[1], kept[1])
    np.testing.assert_array_equal(stored[2], kept[2])


def test_float32_is_enough():
    K, labels = problem()
    settings = AscentSettings(reg=0.3)
    wide, Z, _ = fit(K, labels, settings=settings)
    narrow, Z32, _ = fit(K, labels, settings=settings, dtype=np.float32)
    assert narrow.value == pytest.approx(wide.value, abs=1e-5)
    np.testing.assert_array_equal(Z32.argmax(axis=1), Z.argmax(axis=1))


def test_wrong_labels_of_the_start_are_put_right():
    K, labels = problem()
    ended, Z, _ = fit(K, labels)
    P, found = posterior(Z, ended.bias)
    truth = np.repeat(np.arange(C), 30)
    assert (found == truth).mean() > (labels == truth).mean()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    assert (P.dtype, found.dtype) == (np.float32, np.int32)


def test_more_penalty_closes_categories():
    K, labels = problem()
    strong = fit(K, labels, settings=AscentSettings(reg=1e3))
    assert len(np.unique(posterior(strong[1], strong[0].bias)[1])) == 1


def test_settings_may_be_integers_of_any_length():
    settings = AscentSettings(reg=10**30, tol=10**30)
    assert (settings.reg, settings.tol) == (10**30, 10**30)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"reg": 0.0}, "reg: got 0.0"), ({"reg": np.nan}, "reg"), ({"max_iter": 0}, "max_iter"), ({"tol": -1.0}, "tol")],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        AscentSettings(**options)


def test_an_objective_that_is_not_finite_is_refused():
    K, labels = problem()
    with pytest.raises(InputError, match="the objective is"):
        fit(np.where(K > 0, 1e30, 0), labels, dtype=np.float32)
