import numpy as np
import pytest
from places import group_of
from small_kernels import kernel_blocks, symmetric

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.block_vectors import KernelProduct
from bigsmic.numerics.eigen.eigenvalue_counts import N_PRODUCTS, N_VECTORS, SignVectors, counts, traces
from bigsmic.numerics.hashing import row_uniform
from bigsmic.store import FileBasis

N, BOUNDS, SEED = 300, np.array([0, 40, 41, 170, 300]), 3


@pytest.fixture(scope="module")
def K():
    W = symmetric(N) + np.eye(N, k=1, dtype=np.float32) + np.eye(N, k=-1, dtype=np.float32)
    d = W.sum(axis=1) ** -0.5
    return (d[:, None] * W * d).astype(np.float32)


def found(K, places=(), spare_of=lambda shard: None):
    blocks = kernel_blocks(K, BOUNDS[1:-1])

    def make(shard):
        return SignVectors(shard, KernelProduct(shard, blocks.__getitem__), SEED, spare_of(shard))

    with group_of(make, BOUNDS, places) as group:
        return traces(group, N)


def test_traces_are_those_of_the_polynomials_of_the_matrix_for_vectors_of_signs(K):
    values, U = np.linalg.eigh(K.astype(np.float64))
    signs = np.stack(
        [np.sign(row_uniform(SEED, f"eigenvalue counts {j}", np.arange(N)) - 0.5) for j in range(N_VECTORS)]
    )
    angles, weights = np.arccos(np.clip(values, -1, 1)), ((signs @ U) ** 2).mean(axis=0)
    expected = [np.cos(j * angles) @ weights for j in range(2 * N_PRODUCTS + 1)]
    np.testing.assert_allclose(found(K), expected, atol=1e-3 * N)


@pytest.mark.parametrize("places", [[], [1]])
def test_vectors_in_files_do_not_change_a_bit(K, places, tmp_path):
    def spare_of(shard):
        return FileBasis(tmp_path / str(shard.lo), shard.own_bounds, N_VECTORS)

    np.testing.assert_array_equal(found(K, places, spare_of), found(K))


@pytest.mark.parametrize("places", [[1], [2], [1, 2, 3]])
def test_places_do_not_change_a_bit(K, places):
    np.testing.assert_array_equal(found(K, places), found(K))


@pytest.mark.parametrize("n_parts", [1, 17, 200])
def test_eigenvalues_of_parts_are_counted(n_parts):
    draw = np.random.default_rng(n_parts)
    values = np.concatenate([1 - draw.uniform(0, 1e-4, n_parts), draw.uniform(-0.5, 0.85, 2000)])
    exact = [np.cos(j * np.arccos(values)).sum() for j in range(2 * N_PRODUCTS + 1)]
    np.testing.assert_allclose(counts(exact, [0.1, 0.2]), n_parts, rtol=0.01, atol=0.5)


def test_of_values_spread_as_in_a_plane_a_double_angle_has_four_times_as_many():
    values = 1 - np.arange(1, 5001) / 2500
    exact = [np.cos(j * np.arccos(values)).sum() for j in range(2 * N_PRODUCTS + 1)]
    near, far = counts(exact, [0.1, 0.2])
    np.testing.assert_allclose([near, far], [2500 * (1 - np.cos(a)) for a in (0.1, 0.2)], rtol=0.2)


@pytest.mark.parametrize("angle", [0.0, -0.1, np.pi, np.nan])
def test_angles_outside_the_half_circle_are_refused(angle):
    with pytest.raises(InputError, match="give angles between 0 and pi"):
        counts(np.ones(5), [0.1, angle])
