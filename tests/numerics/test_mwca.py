"""MWCA against dense references: association, gradient, products in tiles, ascents, widths."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from places import group_of
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.metrics import adjusted_rand_score
from small_rows import ring

from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import InputError
from bigsmic.numerics.objectives.mwca import ascent, parzen
from bigsmic.numerics.objectives.mwca.ascent import (
    DIRECTIONS,
    FACTORS,
    LEAST_STEP,
    RETREAT,
    AscentSettings,
    AssociationRows,
    State,
    _LineSearch,
    ascend,
    logits_of,
    random_logits,
)
from bigsmic.numerics.objectives.mwca.association import (
    association,
    centred,
    direction,
    extend_vector,
    gradient,
    pull,
    read_association,
    read_vector,
)
from bigsmic.numerics.objectives.mwca.parzen import DenseProduct, Gaussian, add_gaussian_product, bandwidth
from bigsmic.numerics.row_blocks import LocalGroup, Shard


def gaussian(X, Y, sigma):
    return np.exp(-cdist(X, Y, "sqeuclidean") / (4 * sigma**2))


def slow_association(G, Z):
    """L, sum by sum."""
    total = 0.0
    for z in Z.T:
        pairs = sum(z[n] * z[m] * G[n, m] for n in range(len(z)) for m in range(len(z)))
        total += pairs / z.sum()
    return total


def blobs(seed=0, n=60, d=3):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], n // 3)
    return (rng.normal(size=(n, d)) + 8 * np.eye(3, d)[y]).astype(np.float32), y


@pytest.fixture
def engine():
    with ThreadEngine(2) as opened:
        yield opened


def share_of(engine, n, height=70):
    bounds = np.append(np.arange(0, n, height), n)
    return Shard(engine, bounds, range(len(bounds) - 1))


def dense(engine, X, sigma, height=70):
    shard = share_of(engine, len(X), height)
    return shard, DenseProduct(shard, lambda p: X[shard.rows(p)], sigma)


def run_ascent(engine, X, sigma, logits, **settings):
    shard, product = dense(engine, X, sigma)
    settings = AscentSettings(**settings)
    rows = AssociationRows(shard, product, logits.copy(), settings.direction)
    return ascend(LocalGroup(rows), logits.shape, settings), rows


def starts(n, k, n_starts=3, seed=0):
    return np.stack([random_logits(seed, s, np.arange(n), k) for s in range(n_starts)], axis=1)


# --- association and gradient


def test_the_association_is_its_sums():
    X, _ = blobs(n=24)
    G, Z = gaussian(X, X, 1.0), softmax(np.random.default_rng(0).normal(size=(24, 3)), axis=1)
    _, within = association(Z, G @ Z)
    assert within.sum() == pytest.approx(slow_association(G, Z), rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sharp", [0.3, 3.0])
def test_the_gradient_is_that_of_finite_differences(seed, sharp):
    X, _ = blobs(seed, n=18)
    G, theta = gaussian(X, X, 1.2), sharp * np.random.default_rng(seed).normal(size=(18, 3))

    def value(theta):
        Z = softmax(theta, axis=1)
        return association(Z, G @ Z)[1].sum()

    found, h = np.empty_like(theta), 1e-5
    for at in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[at] = h
        found[at] = (value(theta + step) - value(theta - step)) / (2 * h)
    Z = softmax(theta, axis=1)
    assert_allclose(gradient(Z, G @ Z), found, atol=1e-8 * np.abs(found).max() + 1e-9)


def test_both_directions_ascend():
    X, _ = blobs()
    G, Z = gaussian(X, X, 1.0), softmax(np.random.default_rng(0).normal(size=(60, 3)), axis=1).astype(np.float32)
    totals = np.stack(association(Z, G @ Z))
    slope = gradient(Z, G @ Z)
    for kind in DIRECTIONS:
        assert (slope * direction(kind, Z, G @ Z, totals, 60)).sum() > 0
    assert_allclose(direction("gradient", Z, G @ Z, totals, 60), 60 * slope, rtol=1e-4, atol=1e-5)


# --- products in tiles


@pytest.mark.parametrize("sigma", [0.01, 0.5, 3.0])
def test_tiles_are_the_kernel(engine, sigma, monkeypatch):
    monkeypatch.setattr(parzen, "_TILE", (16, 32))
    X, _ = ring()
    Z = np.random.default_rng(0).normal(size=(len(X), 5)).astype(np.float32)
    shard, product = dense(engine, X, sigma)
    out = np.empty_like(Z)
    operand = product.operand(Z)
    shard.for_each_block(lambda p: product.multiply(p, (2.0, 0.5, 0.25), operand, Z[shard.rows(p)], out[shard.rows(p)]))
    wanted = 2 * gaussian(X, X, sigma) @ Z - 0.75 * Z
    assert_allclose(out, wanted, atol=2e-5 * np.abs(wanted).max())


def test_far_rows_do_not_spoil_near_distances(engine):
    X, _ = ring()
    X[0] = 1e4  # in units of 2 sigma its squared norm is beyond what float32 resolves
    out = np.zeros((len(X), 1))
    add_gaussian_product(X, X, np.ones((len(X), 1), np.float32), 0.5, out)
    assert_allclose(out[:, 0], gaussian(X.astype(float), X.astype(float), 0.5).sum(axis=1), rtol=1e-5)


# --- the ascent


def reference_ascent(G, logits, settings):
    """One start, in memory, in double precision."""
    n, theta, step, value = len(G), logits.astype(np.float64), 1.0, None
    for _ in range(settings.max_iter):
        Z = softmax(theta, axis=1)
        totals = np.stack(association(Z, G @ Z))
        if value is None:
            value = totals[1].sum()
        D = centred(Z, n * pull(G @ Z, *totals, n))
        D = D if settings.direction == "natural" else Z * D
        tried = {f: theta + f * step * D for f in FACTORS}
        values = {f: association(softmax(T, axis=1), G @ softmax(T, axis=1))[1].sum() for f, T in tried.items()}
        best = max(values, key=values.get)
        if values[best] <= value:
            step *= RETREAT
            if step < LEAST_STEP:
                break
            continue
        gain, value, theta, step = values[best] - value, values[best], tried[best], step * best
        if gain <= settings.tol * value:
            break
    return value / n, theta.argmax(axis=1)


@pytest.mark.parametrize("kind", DIRECTIONS)
def test_an_ascent_is_that_in_memory(engine, kind):
    X, _ = ring(n=80)
    logits = starts(160, 2)
    optimum, rows = run_ascent(engine, X, 0.5, logits, direction=kind, max_iter=4, tol=0)
    for s in range(3):
        value, labels = reference_ascent(gaussian(X, X, 0.5), logits[:, s], AscentSettings(kind, 4, 0))
        assert optimum.values[s] / 160 == pytest.approx(value, rel=1e-4)
        assert (rows.logits[:, s].argmax(axis=1) == labels).mean() > 0.98


def test_places_make_no_difference():
    X, _ = ring(n=120)
    bounds, logits = np.array([0, 70, 140, 200, 240]), starts(240, 2, 2)

    def make(shard):
        product = DenseProduct(shard, lambda p: X[bounds[p] : bounds[p + 1]], 0.5)
        return AssociationRows(shard, product, logits[shard.lo : shard.hi].copy())

    found = []
    for cuts in ((), (1,), (1, 3)):
        with group_of(make, bounds, cuts) as group:
            found.append(ascend(group, logits.shape, AscentSettings(max_iter=6)))
    for optimum in found[1:]:
        assert_array_equal(optimum.totals, found[0].totals)
        assert_array_equal(optimum.n_iter, found[0].n_iter)


def test_an_ascent_goes_on_where_it_was(engine):
    X, _ = ring(n=100)
    logits, settings = starts(200, 2, 2), AscentSettings(max_iter=9)
    whole, _ = run_ascent(engine, X, 0.5, logits, max_iter=9)
    shard, product = dense(engine, X, 0.5)
    rows, kept = AssociationRows(shard, product, logits.copy()), {}

    def keep(iteration, state):
        if iteration == 4:
            kept.update(state=state, logits=rows.logits.copy(), images=rows.images.copy())

    ascend(LocalGroup(rows), logits.shape, settings, on_step=keep)
    again = AssociationRows(shard, product, kept["logits"])
    again.images = kept["images"]
    resumed = ascend(LocalGroup(again), logits.shape, settings, state=kept["state"])
    assert_array_equal(resumed.totals, whole.totals)
    assert_array_equal(resumed.n_iter, whole.n_iter)


def test_every_step_gains(engine):
    X, _ = ring()
    shard, product = dense(engine, X, 0.5)
    seen = []

    class Watched(_LineSearch):
        def step(self, tol):
            super().step(tol)
            seen.append(self.values.copy())

    logits = starts(len(X), 2)
    ascent = Watched(LocalGroup(AssociationRows(shard, product, logits)), len(X), State.fresh(3, 2))
    ascent.measure()
    seen.append(ascent.values.copy())
    for _ in range(8):
        ascent.step(0.0)
    assert (np.diff(seen, axis=0) >= 0).all()
    assert seen[-1].min() > seen[0].max()


def test_the_ring_is_found(engine):
    X, y = ring()
    sigma = bandwidth("deviation", len(X), X.var(axis=0), X)
    optimum, rows = run_ascent(engine, X, sigma, starts(len(X), 2, 5))
    labels = rows.logits[:, optimum.best].argmax(axis=1)
    assert adjusted_rand_score(y, labels) > 0.75
    assert optimum.converged[optimum.best]
    of_truth = association(np.eye(2)[y], gaussian(X, X, sigma) @ np.eye(2)[y])[1].sum()
    assert optimum.values[optimum.best] >= of_truth


def test_three_blobs_are_found_from_labels_nearby(engine):
    X, y = blobs(n=90)
    logits = logits_of(np.where(np.arange(90) % 7 == 0, 0, y), 3)[:, None]
    optimum, rows = run_ascent(engine, X, 1.0, logits)
    assert_array_equal(rows.logits[:, 0].argmax(axis=1), y)
    assert optimum.totals[0, 0] == pytest.approx([30, 30, 30], rel=1e-2)


def test_columns_beyond_the_limit_are_multiplied_in_turn(engine, monkeypatch):
    X, _ = ring(n=60)
    whole = run_ascent(engine, X, 0.5, starts(120, 3, 4), max_iter=5)[0]
    monkeypatch.setattr(ascent, "COLUMNS", 7)
    parts = run_ascent(engine, X, 0.5, starts(120, 3, 4), max_iter=5)[0]
    assert_allclose(parts.values, whole.values, rtol=1e-5)


def test_a_cluster_without_mass_pulls_nothing_and_is_no_nan(engine):
    X, _ = ring(n=40)
    logits = np.zeros((80, 1, 3), np.float32)
    logits[:, 0, 2] = -1e4
    optimum, rows = run_ascent(engine, X, 0.5, logits + 0.1 * starts(80, 3, 1), max_iter=20)
    assert np.isfinite(optimum.totals).all()
    assert np.isfinite(rows.logits).all()
    assert optimum.totals[0, 0, 2] == 0


# --- the width


def test_the_widths_are_those_of_the_formulas():
    X = np.random.default_rng(0).standard_t(2, size=(500, 3)) * [1, 2, 3]
    s = np.sqrt(X.var(axis=0).mean())
    assert bandwidth("deviation", 500, X.var(axis=0), X) == pytest.approx(1.06 * s * 500**-0.2)
    low, high = np.quantile(X, (0.25, 0.75), axis=0)
    assert bandwidth("quartile", 500, X.var(axis=0), X) == pytest.approx(1.06 * (high - low).mean() / 1.34 * 500**-0.2)
    assert bandwidth(0.3, 500, X.var(axis=0), X) == 0.3


def test_the_likely_width_is_near_that_of_a_known_density():
    """For normal rows the best width is (4 / (d + 2))^(1 / (d + 4)) n^(-1 / (d + 4)) standard deviations."""
    for d in (1, 2, 5):
        X = np.random.default_rng(d).normal(size=(1000, d)).astype(np.float32)
        wanted = (4 / (d + 2)) ** (1 / (d + 4)) * 1000 ** (-1 / (d + 4))
        assert bandwidth("likelihood", 1000, X.var(axis=0), X) == pytest.approx(wanted, rel=0.6)


def test_the_likely_width_shrinks_with_the_rows_as_the_best_does():
    X = np.random.default_rng(0).normal(size=(500, 1))
    few, many = (bandwidth("likelihood", n, X.var(axis=0), X) for n in (500, 32 * 500))  # the same grid
    assert many / few == pytest.approx(32**-0.2)


def test_windows_on_a_graph_are_as_wide_as_between_all_rows():
    X, Y = np.random.default_rng(0).normal(size=(2, 20, 3)).astype(np.float32)
    dense = np.zeros((20, 20))
    add_gaussian_product(X, Y, np.eye(20, dtype=np.float32), 0.7, dense)
    squares, ones = cdist(X, Y, "sqeuclidean").astype(np.float32), np.ones((20, 20), np.float32)
    assert_allclose(Gaussian(0.7)(squares, ones, ones), dense, rtol=1e-4)


@pytest.mark.parametrize("rule", ["deviation", "quartile", "likelihood"])
def test_columns_that_do_not_vary_make_no_window_narrower(rule):
    X = np.random.default_rng(0).standard_t(5, size=(300, 2))
    wider = np.column_stack([X[:, :1], np.full((300, 3), 7.0), X[:, 1:]])
    sigma = bandwidth(rule, 300, X.var(axis=0), X)
    assert bandwidth(rule, 300, wider.var(axis=0), wider) == pytest.approx(sigma)
    with pytest.raises(InputError, match="gives a width of 0"):
        bandwidth(rule, 300, np.zeros(3), wider[:, 1:4])


def test_rows_that_coincide_have_no_width():
    X = np.repeat([[0.0, 1.0]] * 4 + [[5.0, 7.0]], 4, axis=0)
    with pytest.raises(InputError, match=r"'quartile' gives a width of 0.*give a number"):
        bandwidth("quartile", 20, X.var(axis=0), X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"direction": "up"}, "direction: got 'up'"),
        ({"max_iter": 0}, "max_iter: got 0"),
        ({"tol": -1}, "tol: got -1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InputError, match=message):
        AscentSettings(**settings)


# --- spec


def test_new_rows_where_no_kernel_reaches_have_a_flat_posterior():
    posterior, labels = read_association(np.array([[0.0, 0.0], [1.0, 3.0]]), np.array([[10, 10], [2.0, 2]]), 20)
    assert_allclose(posterior, [[0.5, 0.5], [0.25, 0.75]])
    assert_array_equal(labels, [0, 1])


def test_a_narrow_kernel_sends_new_rows_to_the_only_cluster_that_it_reaches():
    totals = np.array([[40, 60], [2.0, 1.5]])  # the second is larger and less dense, so that a row costs it less
    _, labels = read_association(np.array([[0.1, 0.0], [0.0, 0.1]]), totals, 100)
    assert_array_equal(labels, [0, 1])


def test_an_empty_cluster_takes_no_new_row():
    _, labels = read_association(np.zeros((1, 2)), np.array([[0, 10], [0.0, 2.0]]), 10)
    assert_array_equal(labels, [1])


def test_the_entry_of_a_new_row_has_its_own_share():
    X = np.random.default_rng(0).standard_normal((60, 2))
    G = np.exp(-cdist(X, X, "sqeuclidean"))
    values, vectors = np.linalg.eigh(G)
    value, v = values[-1], vectors[:, -1]
    others = (G - np.eye(60)) @ v  # images of rows that are not compared with themselves
    assert_allclose(extend_vector(others, value, np.full(60, np.nan)), v, rtol=1e-10, atol=1e-12)
    assert_allclose(extend_vector(np.zeros(60), value, v), v)
    assert np.isfinite(extend_vector(others, 1 - 1e-15, np.full(60, np.nan))).all()


def test_the_vector_is_cut_at_its_mean():
    posterior, labels = read_vector(np.array([-1e-9, 0.5, 2.0]), 0.5)
    assert_array_equal(labels, [0, 0, 1])
    assert_allclose(posterior[:, 1], [0, 0.5, 0.8])
