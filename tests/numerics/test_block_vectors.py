import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from places import group_of

from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import InputError
from bigsmic.numerics.eigen.basis import MemoryBasis
from bigsmic.numerics.eigen.block_vectors import PANEL, GroupSpace, KernelProduct, RowSpace
from bigsmic.numerics.eigen.chebyshev import Filter
from bigsmic.numerics.eigen.lanczos import solve
from bigsmic.numerics.eigen.lanczos_state import LanczosParams
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.row_blocks import Shard


class FileBasis:
    """A basis in one file per row block, columns contiguous."""

    def __init__(self, folder, bounds, capacity, dtype=np.float32):
        self.bounds, self.capacity, self.dtype = np.asarray(bounds), capacity, np.dtype(dtype)
        self.paths = [folder / str(p) for p in range(len(bounds) - 1)]
        for path in self.paths:
            path.touch()

    def read(self, block, start, stop):
        height = self.bounds[block + 1] - self.bounds[block]
        offset = height * start * self.dtype.itemsize
        flat = np.fromfile(self.paths[block], self.dtype, height * (stop - start), offset=offset)
        return flat.reshape(height, stop - start, order="F")

    def write(self, block, start, columns):
        with open(self.paths[block], "r+b") as file:
            file.seek(columns.shape[0] * start * self.dtype.itemsize)
            file.write(columns.T.tobytes())


def kernel_blocks(K, bounds, dtype=np.float32):
    K = scipy.sparse.csr_matrix(K)
    return [kernel_block(K, int(lo), int(hi), dtype) for lo, hi in pairwise(bounds)]


def kernel_block(K, lo, hi, dtype):
    rows = K[lo:hi]
    inside = (rows.indices >= lo) & (rows.indices < hi)
    halo = np.unique(rows.indices[~inside]).astype(np.int64)
    local = np.where(inside, rows.indices - lo, hi - lo + np.searchsorted(halo, rows.indices))
    return KernelBlock(lo, hi, halo, rows.indptr.astype(np.int64), local.astype(np.int32), rows.data.astype(dtype))


def clusters(n=1500, c=6, seed=0):
    """Normalised sparse kernel with c groups and a few links between them."""
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(0, c, n))
    rows = np.repeat(np.arange(n), 6)
    near = np.searchsorted(group, group[rows]) + rng.integers(0, n // c // 2, len(rows))
    columns = np.where(rng.random(len(rows)) < 0.02, rng.integers(0, n, len(rows)), np.minimum(near, n - 1))
    K = scipy.sparse.csr_matrix((rng.random(len(rows)) + 0.1, (rows, columns)), shape=(n, n))
    K = K.maximum(K.T)
    K.setdiag(0)
    K = K + scipy.sparse.diags([1e-3, 1e-3], [1, -1], shape=(n, n))
    degree = np.asarray(K.sum(axis=1)).ravel() ** -0.5
    return (scipy.sparse.diags(degree) @ K @ scipy.sparse.diags(degree)).tocsr()


def vectors(basis, c):
    return np.concatenate([basis.read(p, 0, c) for p in range(len(basis.bounds) - 1)])


def spare_in(folder, bounds):
    """Files for a second block of vectors."""
    (folder / "spare").mkdir()
    return FileBasis(folder / "spare", bounds, 8)


def row_space(engine, blocks, basis, **options):
    """All rows in one place."""
    shard = Shard(engine, basis.bounds, range(len(basis.bounds) - 1))
    return RowSpace(shard, KernelProduct(shard, blocks.__getitem__), basis, **options)


def run(K, bounds, params, *, basis=None, spare=None, threads=1, dtype=np.float32, **options):
    basis = basis or MemoryBasis(bounds, params.size(K.shape[0]), dtype)
    blocks = kernel_blocks(K, bounds, dtype)
    with ThreadEngine(threads) as engine:
        space = row_space(engine, blocks, basis, seed=3, spare=spare)
        result = solve(space, params, **options)
    return result, vectors(basis, params.n_wanted)


BOUNDS = np.array([0, 100, 101, 640, 1500])


@pytest.mark.parametrize(("dtype", "tol", "atol"), [(np.float64, 1e-10, 1e-8), (np.float32, 2e-6, 1e-4)])
def test_projector_agrees_with_dense(dtype, tol, atol):
    K = clusters()
    values, U = np.linalg.eigh(K.toarray())
    c = 6
    assert values[-c] - values[-c - 1] > 1e-3
    result, V = run(K, BOUNDS, LanczosParams(c, tol=tol), dtype=dtype)
    assert result.converged
    np.testing.assert_allclose(result.ritz_values, values[::-1][:c], atol=atol)
    V, U = V.astype(float), U[:, ::-1][:, :c]
    np.testing.assert_allclose(V @ V.T, U @ U.T, atol=atol)


@given(cuts=st.lists(st.integers(0, 1500), max_size=9))
@settings(deadline=None, max_examples=8)
def test_one_block_equals_many(cuts):
    K, params = clusters(), LanczosParams(6, tol=1e-9)
    whole, V = run(K, [0, 1500], params, dtype=np.float64)
    parts, U = run(K, np.unique([0, *cuts, 1500]), params, dtype=np.float64)
    np.testing.assert_allclose(parts.ritz_values, whole.ritz_values, atol=1e-12)
    np.testing.assert_allclose(U, V, atol=1e-6)  # signs too


def test_threads_do_not_change_a_bit():
    K, params = clusters(), LanczosParams(12)
    one, V = run(K, BOUNDS, params, threads=1)
    two, U = run(K, BOUNDS, params, threads=2)
    np.testing.assert_array_equal(U, V)
    np.testing.assert_array_equal(one.residual_norms, two.residual_norms)


@pytest.mark.parametrize("n_copies", [1, 12])
def test_vectors_in_files_do_not_change_a_bit(tmp_path, n_copies):
    """With more copies of an eigenvalue than a block has columns, blocks become narrower and have to be drawn anew."""
    n = 1500 // n_copies
    K, params = scipy.sparse.block_diag([clusters(n)] * n_copies), LanczosParams(2 * n_copies, tol=1e-5)
    bounds = np.minimum(BOUNDS, K.shape[0])
    usual, V = run(K, bounds, params)
    stored, U = run(K, bounds, params, spare=spare_in(tmp_path, bounds))
    np.testing.assert_array_equal(U, V)
    np.testing.assert_array_equal(stored.residual_norms, usual.residual_norms)


@pytest.mark.parametrize("places", [[], [1], [2], [1, 2, 3]])
def test_places_do_not_change_a_bit(places):
    K, params = clusters(), LanczosParams(12)
    blocks = kernel_blocks(K, BOUNDS)

    def make(shard):
        bounds = BOUNDS[shard.blocks.start : shard.blocks.stop + 1] - shard.lo
        return RowSpace(shard, KernelProduct(shard, blocks.__getitem__), MemoryBasis(bounds, params.size(1500)), seed=3)

    with group_of(make, BOUNDS, places) as group:
        space = GroupSpace(group, 1500)
        found = solve(space, params)
        space.finish()
        V = np.concatenate([vectors(actor.basis, 12) for actor in group.actors])
    whole, U = run(K, BOUNDS, params)
    np.testing.assert_array_equal(V, U)
    np.testing.assert_array_equal(found.residual_norms, whole.residual_norms)


def test_a_step_is_two_rounds():
    K, params, calls = clusters(), LanczosParams(12), []
    blocks = kernel_blocks(K, BOUNDS)

    def make(shard):
        bounds = BOUNDS[shard.blocks.start : shard.blocks.stop + 1] - shard.lo
        return RowSpace(shard, KernelProduct(shard, blocks.__getitem__), MemoryBasis(bounds, params.size(1500)), seed=3)

    with group_of(make, BOUNDS, [2]) as group:
        call = group.call
        group.call = lambda *of_round: (calls.append(of_round[-1][0]), call(*of_round))[1]
        found = solve(GroupSpace(group, 1500), params)
    others = [call for call in calls if call not in ("apply", "project")]
    assert calls.count("project") <= calls.count("apply") + 2
    assert len(others) <= 2 * found.n_restarts + 4


def test_basis_on_disk_is_bit_identical(tmp_path):
    K, params = clusters(), LanczosParams(12, tol=1e-5)
    memory, V = run(K, BOUNDS, params)
    disk, U = run(K, BOUNDS, params, basis=FileBasis(tmp_path, BOUNDS, params.size(1500)), threads=2)
    np.testing.assert_array_equal(U, V)
    np.testing.assert_array_equal(memory.ritz_values, disk.ritz_values)


def test_resume_from_any_restart_is_bit_identical():
    K, params, saved = clusters(), LanczosParams(12, tol=1e-6, block_width=4), []
    blocks, capacity = kernel_blocks(K, BOUNDS), params.size(1500)
    with ThreadEngine(2) as engine:
        basis = MemoryBasis(BOUNDS, capacity)
        space = row_space(engine, blocks, basis)
        solve(space, params, on_restart=lambda state: saved.append((state, vectors(basis, space.n_columns).copy())))
        assert len(saved) > 3
        for state, V in saved:
            again = MemoryBasis(BOUNDS, capacity)
            for p in range(len(BOUNDS) - 1):
                again.write(p, 0, V[BOUNDS[p] : BOUNDS[p + 1]])
            space = row_space(engine, blocks, again, n_columns=V.shape[1])
            space.reopen(state.width)
            solve(space, params, state=state)
            np.testing.assert_array_equal(vectors(again, 12), vectors(basis, 12))


def test_warm_start_gives_the_same_space():
    K, params = clusters(), LanczosParams(6, tol=1e-9)
    _, V = run(K, BOUNDS, params, dtype=np.float64)
    basis = MemoryBasis(BOUNDS, params.size(1500), np.float64)
    noise = 0.01 * np.random.default_rng(0).standard_normal(V.shape)
    for p in range(len(BOUNDS) - 1):
        basis.write(p, 0, (V + noise)[BOUNDS[p] : BOUNDS[p + 1]])
    with ThreadEngine() as engine:
        space = row_space(engine, kernel_blocks(K, BOUNDS, np.float64), basis, n_columns=6)
        solve(space, params)
    U = vectors(basis, 6)
    np.testing.assert_allclose(U @ U.T, V @ V.T, atol=1e-7)


@pytest.mark.parametrize("filter", [Filter(), Filter(5, 0.1, 0.8)])
@pytest.mark.parametrize("in_memory", [True, False])
def test_verbs_agree_with_dense(filter, in_memory, tmp_path):
    K, rng = clusters(700), np.random.default_rng(0)
    bounds, dense = np.array([0, 10, 300, 700]), K.toarray()
    V = np.linalg.qr(rng.standard_normal((700, 12)))[0]
    basis = MemoryBasis(bounds, 20, np.float64)
    (tmp_path / "spare").mkdir()
    spare = None if in_memory else FileBasis(tmp_path / "spare", bounds, 8, np.float64)
    for p in range(3):
        basis.write(p, 0, V[bounds[p] : bounds[p + 1]])
    with ThreadEngine() as engine:
        space = row_space(engine, kernel_blocks(K, bounds, np.float64), basis, n_columns=12, spare=spare)
        space.reopen(5)
        values, U = np.linalg.eigh(dense)
        W = (U * filter(values)) @ (U.T @ V[:, 7:])
        np.testing.assert_allclose(space.apply(filter), np.vstack([V.T @ W, W.T @ W]), atol=1e-10)
        S, Q = V.T @ W, rng.standard_normal((5, 3))
        W = (W - V @ S) @ Q
        np.testing.assert_allclose(space.project(S, Q), np.vstack([V.T @ W, W.T @ W]), atol=1e-10)
        drawn = space.draw(2, 4, 1)
        np.testing.assert_allclose(drawn[12:14, :2], (W.T @ W)[:2, :2], atol=1e-10)
        assert np.linalg.matrix_rank(drawn[12:]) == 6
        mix = rng.standard_normal((4, 4))
        W = V[:, 8:] @ mix
        np.testing.assert_allclose(space.recall(mix, 8), np.vstack([V[:, :8].T @ W, W.T @ W]), atol=1e-10)
        space.append(mix)
        V = np.hstack([V[:, :8], W @ mix])
        np.testing.assert_allclose(vectors(basis, 12), V, atol=1e-10)
        expected = np.linalg.norm(dense @ V[:, 1:11] - V[:, 1:11] * np.arange(10), axis=0)
        np.testing.assert_allclose(space.residual_norms(np.arange(10.0), 1), expected, atol=1e-10)
        filters = [filter, Filter(3, 0.0, 0.9)]
        space.filter(filters, 2, 5)
        V[:, 2:7] = (U * np.prod([one(values) for one in filters], axis=0)) @ (U.T @ V[:, 2:7])
        np.testing.assert_allclose(vectors(basis, 12), V, atol=1e-10)
        turn = rng.standard_normal((9, 6))
        space.rotate(turn, 3)
        np.testing.assert_allclose(vectors(basis, 9), np.hstack([V[:, :3], V[:, 3:] @ turn]), atol=1e-10)
        np.testing.assert_allclose(space.column_sums()[0], vectors(basis, 9).sum(axis=0), atol=1e-10)


def test_a_full_basis_is_refused():
    basis = MemoryBasis([0, 10], 3)
    with ThreadEngine() as engine:
        space = row_space(engine, kernel_blocks(scipy.sparse.identity(10), [0, 10]), basis)
        space.draw(0, 4, 0)
        with pytest.raises(InputError, match="4 columns do not fit its capacity of 3"):
            space.append(np.eye(4))


def _solve_bytes(bounds, params, n_on_disk):
    """Bytes of a solve in float32 on one thread, without kernel blocks.

    The basis, or two blocks of it if it is on disk; two n x b blocks, or one if the other is on disk, too; and the rows
    that a product needs, of a block and of a halo as large, tiles and their results, or the rows of a block on disk.
    """
    heights, b = np.diff(bounds), params.block_width
    n, tallest, dimension = heights.sum(), heights.max(), params.size(heights.sum())
    basis = 2 * tallest * dimension if n_on_disk else n * dimension
    of_task = tallest * (4 * b + 2) + PANEL * (dimension + 3 * b)
    n_blocks = 1 if n_on_disk == 2 else 2
    small = 8 * (len(heights) + 8) * (dimension + b) * b + 64 * dimension**2
    return 4 * (basis + n_blocks * n * b + of_task) + 16 * tallest + small


@pytest.mark.parametrize("n_on_disk", [0, 1, 2])
def test_memory_of_a_solve_is_the_basis_and_a_few_blocks(tmp_path, n_on_disk):
    K, params = clusters(20_000), LanczosParams(10, tol=1e-3)
    bounds = np.linspace(0, 20_000, 9).astype(np.int64)
    run(clusters(), BOUNDS, params)  # compiles
    blocks = kernel_blocks(K, bounds)
    with ThreadEngine(1) as engine:  # whether two threads peak at once is chance
        tracemalloc.start()
        sizes = bounds, params.size(20_000)
        basis = FileBasis(tmp_path, *sizes) if n_on_disk else MemoryBasis(*sizes)
        spare = spare_in(tmp_path, bounds) if n_on_disk == 2 else None
        solve(row_space(engine, blocks, basis, spare=spare), params)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert 0.3 < peak / _solve_bytes(bounds, params, n_on_disk) < 1.0
