import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, eigh, polar

from bigsmic.errors import InputError
from bigsmic.numerics.labeling import rotation

rng = np.random.default_rng(0)
seeds = st.integers(0, 2**31)


def components(sizes, seed=0):
    """A kernel of separated components, and its top eigenvectors in an arbitrary basis of their span."""
    draw = np.random.default_rng(seed)
    blocks = [np.exp(-draw.uniform(0, 1, (s, s))) for s in sizes]
    K = block_diag(*[(B + B.T) / 2 for B in blocks])
    degrees = K.sum(axis=1)
    N = K / np.sqrt(np.outer(degrees, degrees))
    values, vectors = eigh(N)
    top = np.argsort(-values)[: len(sizes)]
    return N, degrees, values[top], vectors[:, top]


def random_orthogonal(m, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(m, m)))[0]


# ---- rotation


@pytest.mark.parametrize(("m", "k"), [(1, 1), (5, 3), (10, 8), (33, 33), (40, 57)])
def test_every_entry_is_summed_in_the_order_of_the_columns(m, k):
    V, R = (np.random.default_rng(m).normal(size=shape).astype(np.float32) for shape in ((70, m), (m, k)))
    expected = np.zeros((70, k), np.float32)
    for j in range(m):
        expected += V[:, j, None] * R[j]
    np.testing.assert_array_equal(rotation.rotate(V, R), expected)


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 8), st.integers(0, 20), st.integers(1, 8))
def test_rotation_is_orthogonal_whatever_the_sample(seed, m, s, rank):
    draw = np.random.default_rng(seed)
    sample = draw.normal(size=(s, rank)) @ draw.normal(size=(rank, m))
    sample[::3] = 0.0
    R = rotation.rotation(sample)
    np.testing.assert_allclose(R.T @ R, np.eye(m), atol=1e-12)


def test_rotation_finds_the_separated_components():
    sizes = (30, 10, 5, 40)
    truth = np.repeat(np.arange(4), sizes)
    V = components(sizes)[3] @ random_orthogonal(4)
    found = rotation.posterior_rotated(V.astype(np.float32), rotation.rotation(V))
    assert len(set(zip(truth.tolist(), found.labels.tolist(), strict=True))) == 4
    assert found.posterior.max(axis=1).min() > 1 - 1e-5


def test_rotation_undoes_a_rotation_of_the_basis():
    members = rng.integers(0, 5, (200, 1)) == np.arange(5)
    V = np.linalg.qr(np.abs(rng.normal(size=(200, 5))) * members + 0.01)[0]
    turned = V @ random_orthogonal(5)
    np.testing.assert_allclose(
        np.sort(turned @ rotation.rotation(turned), axis=1), np.sort(V @ rotation.rotation(V), axis=1), atol=1e-6
    )


def mass(Z, R):
    return np.square(np.maximum(Z @ R, 0)).sum()


def step(Z, R):
    return polar(Z.T @ np.maximum(Z @ R, 0))[0]


def test_rotation_converges_to_where_a_step_leads_nowhere_and_momentum_takes_fewer_of_them():
    masses = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        members = draw.integers(0, 20, (1000, 1)) == np.arange(20)
        V = np.linalg.qr(members + 0.3 * draw.normal(size=members.shape))[0]
        Z = V / np.linalg.norm(V, axis=1, keepdims=True)
        R = rotation.rotation(V)
        np.testing.assert_allclose(step(Z, R), R, atol=1e-6)
        plain = rotation.rotation(V, max_iterations=0)
        for _ in range(24):
            plain = step(Z, plain)
        masses.append((mass(Z, plain), mass(Z, rotation.rotation(V, max_iterations=12)), mass(Z, R) * (1 + 1e-12)))
    twice_as_many, with_momentum, converged = np.transpose(masses)
    assert (with_momentum <= converged).all()
    assert twice_as_many.mean() < with_momentum.mean()  # the path, and so which is ahead, hangs on last bits of V


def test_rotation_is_reproducible_and_ignores_zero_rows():
    V = rng.normal(size=(50, 4))
    R = rotation.rotation(V)
    np.testing.assert_array_equal(R, rotation.rotation(V))
    np.testing.assert_allclose(rotation.rotation(np.vstack([V, np.zeros((9, 4))])), R, atol=1e-6)


def test_rotation_in_single_precision_differs_by_rounding_alone():
    V = components((30, 10, 5, 40))[3] @ random_orthogonal(4)
    R = rotation.rotation(V, dtype=np.float32)
    assert R.dtype == np.float64
    np.testing.assert_allclose(R.T @ R, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(R, rotation.rotation(V), atol=1e-5)


def test_a_step_decomposes_only_what_squares_would_spoil(monkeypatch):
    well, ill = rng.normal(size=(6, 6)), random_orthogonal(6) * np.logspace(0, -5, 6)
    wanted = [rotation._polar(A) for A in (well, ill)]
    decomposed = []
    exact = rotation._polar
    monkeypatch.setattr(rotation, "_polar", lambda A: decomposed.append(A) or exact(A))
    for A, R in zip((well, ill), wanted, strict=True):
        np.testing.assert_allclose(rotation._near_polar(A), R, atol=1e-8)
    assert len(decomposed) == 1
    assert decomposed[0] is ill


# ---- posteriors


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(1, 40), st.integers(1, 9))
def test_posteriors_are_distributions(seed, n, m):
    draw = np.random.default_rng(seed)
    V = draw.normal(size=(n, m)).astype(np.float32)
    for found in (
        rotation.posterior_rotated(V, random_orthogonal(m, seed)),
        rotation.posterior_paper(V, *rotation.orient(rotation.column_sums(V)), draw.dirichlet(np.ones(m) * 9)),
    ):
        assert found.posterior.dtype == np.float32
        assert found.labels.dtype == np.int32
        np.testing.assert_allclose(found.posterior.sum(axis=1), 1.0, atol=1e-6)
        assert found.posterior.min() >= 0.0
        has = found.has_mass
        np.testing.assert_array_equal(found.labels[has], found.posterior.argmax(axis=1)[has])


def test_paper_posterior_agrees_with_its_formula():
    V = rng.normal(size=(50, 3))
    turned = V * np.sign(V.sum(axis=0))
    direct = np.maximum(turned, 0) / np.maximum(turned, 0).sum(axis=0)
    direct = direct[direct.sum(axis=1) > 0]
    found = rotation.posterior_paper(V, *rotation.orient(rotation.column_sums(V)))
    np.testing.assert_allclose(
        found.posterior[found.has_mass], direct / direct.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7
    )


def test_smallest_prior_takes_the_largest_eigenvalue():
    V = np.eye(3)
    found = rotation.posterior_paper(V, np.ones(3), np.ones(3), [0.5, 0.2, 0.3])
    np.testing.assert_array_equal(found.labels, [1, 2, 0])


def test_prior_weighs_the_classes():
    V = np.ones((1, 2))
    found = rotation.posterior_paper(V, np.ones(2), np.array([1.0, 1.0]), [0.75, 0.25])
    np.testing.assert_allclose(found.posterior, [[0.75, 0.25]])


def test_sign_makes_the_sum_positive():
    V = np.array([[1.0, -3.0, 0.0], [2.0, 1.0, 0.0]])
    signs, positive_sums = rotation.orient(rotation.column_sums(V))
    np.testing.assert_array_equal(signs, [1, -1, 1])
    np.testing.assert_array_equal(positive_sums, [3, 3, 0])


def test_ties_go_to_the_smallest_label():
    V = np.full((4, 3), 0.5, dtype=np.float32)
    assert (rotation.posterior_rotated(V, np.eye(3)).labels == 0).all()
    assert (rotation.posterior_paper(V, np.ones(3), np.ones(3)).labels == 0).all()


def test_rows_without_mass_are_flat_and_said_so():
    V = np.array([[0.0, 0.0], [-1.0, -2.0], [1.0, 0.0]], dtype=np.float32)
    for found in (rotation.posterior_rotated(V, np.eye(2)), rotation.posterior_paper(V, np.ones(2), np.ones(2))):
        np.testing.assert_array_equal(found.has_mass, [False, False, True])
        np.testing.assert_array_equal(found.posterior, [[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]])


@pytest.mark.parametrize("prior", [[0.5, 0.6], [1.0, 0.0], [1.5, -0.5], [np.nan, 1.0]])
def test_prior_that_is_none_is_refused(prior):
    with pytest.raises(InputError, match="positive values that sum to 1"):
        rotation.posterior_paper(np.ones((1, 2)), np.ones(2), np.ones(2), prior)


def test_prior_of_the_wrong_length_is_refused():
    with pytest.raises(InputError, match="one per cluster"):
        rotation.check_prior([0.5, 0.5], 3)


# ---- blocks


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, 70), max_size=5))
def test_posteriors_of_blocks_are_those_of_the_whole(seed, cuts):
    V = np.random.default_rng(seed).normal(size=(70, 9)).astype(np.float32)
    R, parts = random_orthogonal(9, seed), np.split(V, sorted(cuts))
    oriented = rotation.orient(sum(rotation.column_sums(part) for part in parts))
    np.testing.assert_allclose(oriented, rotation.orient(rotation.column_sums(V)), rtol=1e-12)
    for read in (
        lambda rows: rotation.posterior_rotated(rows, R),
        lambda rows: rotation.posterior_paper(rows, *oriented),
    ):
        joined = [np.concatenate(arrays) for arrays in zip(*map(read, parts), strict=True)]
        for got, whole in zip(joined, read(V), strict=True):
            np.testing.assert_array_equal(got, whole)


def test_summary_counts_over_blocks():
    labels = np.array([0, 0, 2, 2, 0])
    posterior = np.eye(4, dtype=np.float32)[[0, 2, 2, 2, 0]]
    has_mass = np.array([True, True, True, False, True])
    whole = rotation.assignment_sums(labels, posterior, has_mass)
    parts = [rotation.assignment_sums(labels[b], posterior[b], has_mass[b]) for b in (slice(0, 2), slice(2, 5))]
    np.testing.assert_array_equal(sum(parts), whole)
    summary = rotation.summarise(whole)
    np.testing.assert_array_equal(summary.counts, [3, 0, 2, 0])
    np.testing.assert_array_equal(summary.empty, [1, 3])
    assert (summary.n_without_mass, summary.share_off_argmax) == (1, 0.2)


# ---- new rows


def as_neighbors(K):
    indices = np.broadcast_to(np.arange(K.shape[1]), K.shape)
    return K.astype(np.float32), indices


def test_extension_of_training_rows_is_the_eigenvector():
    N, _, values, V = components((8, 12, 5))
    weights, indices = as_neighbors(N)
    np.testing.assert_allclose(rotation.extend(weights, indices, V, values), V, atol=1e-5)


def test_extension_normalises_by_both_degrees():
    N, degrees, values, V = components((8, 12, 5))
    K = N * np.sqrt(np.outer(degrees, degrees))
    weights, indices = as_neighbors(K)
    np.testing.assert_allclose(rotation.extend(weights, indices, V, values, degrees), V, atol=1e-5)


def test_degrees_of_new_rows_may_be_given():
    N, degrees, values, V = components((8, 12, 5))
    K = N * np.sqrt(np.outer(degrees, degrees))
    weights, indices = as_neighbors(K)
    extension = rotation.extend(weights, indices, V, values, degrees, 4 * weights.sum(axis=1))
    np.testing.assert_allclose(2 * extension, V, atol=1e-5)


def test_extension_of_a_row_does_not_depend_on_the_others():
    V = rng.normal(size=(100, 13)).astype(np.float32)
    weights = rng.uniform(size=(37, 7)).astype(np.float32)
    indices = rng.integers(0, 100, (37, 7))
    values, degrees, R = rng.uniform(0.5, 1, 13), rng.uniform(1, 2, 100), random_orthogonal(13)

    def predict(part):
        extension = rotation.extend(weights[part], indices[part], V, values, degrees)
        turned = rotation.posterior_rotated(extension, R).posterior
        paper = rotation.posterior_paper(extension, *rotation.orient(rotation.column_sums(V))).posterior
        return np.hstack([extension, turned, paper])

    whole = predict(slice(None))
    for part in (slice(0, 1), slice(1, 4), slice(4, 37)):
        np.testing.assert_array_equal(predict(part), whole[part])


def test_extension_takes_little_more_than_its_rows():
    V = rng.normal(size=(50, 200)).astype(np.float32)
    weights, indices = np.ones((40_000, 2), np.float32), rng.integers(0, 50, (40_000, 2))
    rotation.extend(weights[:5], indices[:5], V, np.ones(200))  # compiles
    tracemalloc.start()
    found = rotation.extend(weights, indices, V, np.ones(200))
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 2 * found.nbytes
    np.testing.assert_allclose(found[-1], V[indices[-1]].sum(axis=0), rtol=1e-5)


def test_extension_without_neighbors_is_zero():
    V = np.ones((4, 2), dtype=np.float32)
    weights, indices = np.zeros((1, 3), dtype=np.float32), np.full((1, 3), -1)
    np.testing.assert_array_equal(rotation.extend(weights, indices, V, np.ones(2), np.ones(4)), [[0, 0]])


def test_extension_needs_positive_eigenvalues():
    with pytest.raises(InputError, match="must be positive"):
        rotation.extend(np.ones((1, 1)), np.zeros((1, 1), dtype=int), np.ones((1, 2)), np.array([1.0, -0.5]))
