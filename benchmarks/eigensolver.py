"""Block Lanczos against ARPACK on the kernels of a simulated nearest-neighbour graph.

    OPENBLAS_NUM_THREADS=1 python benchmarks/eigensolver.py [--rows 70000 319209] [--threads 1]

Prints CPU seconds, products, true residuals, the error of the eigenvalues and the agreement of the labels with those
of a float64 solve to 1e-10 under one rotation; writes results/eigensolver.json. Graphs are built once and kept in
the temporary folder.
"""

import argparse
import json
import platform
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.metrics import adjusted_rand_score

from bigsmic.engines.threads import ThreadEngine
from bigsmic.numerics.eigen.basis import MemoryBasis
from bigsmic.numerics.eigen.block_vectors import KernelProduct, RowSpace
from bigsmic.numerics.eigen.lanczos import solve
from bigsmic.numerics.eigen.lanczos_state import LanczosParams
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.row_blocks import Shard

N_BLOCKS = 8
N_CLUSTERS = 33
N_NEIGHBORS = 10
TOL = {"N": 1e-4, "K": 1e-6}


def simulate(n, c=N_CLUSTERS, d=152, latent=8, seed=0):
    """Curved clusters of power-law sizes near 8-dimensional manifolds in 152-d; 3 % of the rows are mixtures."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, c + 1)
    sizes = np.maximum(735 * n // 319_209, (weight / weight.sum() * n).astype(int))
    sizes[0] += n - sizes.sum()
    frame = 3 * rng.standard_normal((3 * latent, d)) / np.sqrt(d)
    parts = []
    for size in sizes:
        z = rng.standard_normal((size, latent)) * np.exp(0.3 * rng.standard_normal(latent))
        z = z @ rng.standard_normal((latent, 3 * latent)) / np.sqrt(latent) / 2
        curved = 2 * np.tanh(z) + z + 0.7 * rng.standard_normal(3 * latent)
        parts.append((curved @ frame + 0.35 * rng.standard_normal((size, d))).astype(np.float32))
    X = np.concatenate(parts)
    mixed = rng.choice(n, int(0.03 * n), replace=False)
    share = rng.random((len(mixed), 1), dtype=np.float32)
    X[mixed] = share * X[mixed] + (1 - share) * X[rng.permutation(n)[: len(mixed)]]
    return X


def in_cell_order(X):
    """Rows sorted by k-means cell, near cells next to each other, as the pipeline lays them out."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from sklearn.cluster import MiniBatchKMeans

    means = MiniBatchKMeans(max(2, len(X) // 1250), random_state=0, n_init=1, batch_size=8192, max_iter=15).fit(X[::5])
    rank = np.argsort(leaves_list(linkage(means.cluster_centers_, "average")))
    return X[np.argsort(rank[means.predict(X)], kind="stable")]


def neighbors(n):
    """Return indices and distances of 10 near neighbours by pynndescent, cached."""
    path = Path(tempfile.gettempdir()) / f"bigsmic_eigensolver_graph_{n}.npz"
    if not path.exists():
        import pynndescent

        X = in_cell_order(simulate(n))
        found = pynndescent.NNDescent(X, n_neighbors=16, random_state=0, n_jobs=1).neighbor_graph
        indices, distances = (array[:, 1 : N_NEIGHBORS + 1] for array in found)
        np.savez(path, indices=indices.astype(np.int32), distances=distances.astype(np.float64))
    stored = np.load(path)
    return stored["indices"], stored["distances"]


def kernel(n, t, name):
    """Return K, or N = D^-1/2 K D^-1/2, with zero diagonal; CSR, float64."""
    indices, distances = neighbors(n)
    rows, columns = np.repeat(np.arange(n), t), indices[:, :t].ravel()
    sigma = distances[:, t - 1]
    weights = np.exp(-(distances[:, :t].ravel() ** 2) / (2 * sigma[rows] * sigma[columns]))
    K = sp.csr_matrix((weights, (rows, columns)), shape=(n, n))
    K = K.maximum(K.T).tocsr()
    K.setdiag(0)
    K.eliminate_zeros()
    if name == "K":
        return K
    D = sp.diags(np.asarray(K.sum(axis=1)).ravel() ** -0.5)
    return (D @ K @ D).tocsr()


def kernel_blocks(K, bounds, dtype):
    blocks = []
    for lo, hi in pairwise(bounds.tolist()):
        rows = K[lo:hi]
        inside = (rows.indices >= lo) & (rows.indices < hi)
        halo = np.unique(rows.indices[~inside]).astype(np.int64)
        local = np.where(inside, rows.indices - lo, hi - lo + np.searchsorted(halo, rows.indices))
        csr = rows.indptr.astype(np.int64), local.astype(np.int32), rows.data.astype(dtype)
        blocks.append(KernelBlock(lo, hi, halo, *csr))
    return blocks


def run_lanczos(K, c, tol, dtype, n_threads=1):
    n, params = K.shape[0], LanczosParams(c, tol=tol)
    bounds = np.linspace(0, n, N_BLOCKS + 1).astype(np.int64)
    blocks, basis = kernel_blocks(K, bounds, dtype), MemoryBasis(bounds, params.size(n), dtype)
    with ThreadEngine(n_threads) as engine:
        start = time.process_time()
        share = Shard(engine, bounds, range(N_BLOCKS))
        result = solve(RowSpace(share, KernelProduct(share, blocks.__getitem__), basis), params)
        seconds = time.process_time() - start
    V = np.concatenate([basis.read(p, 0, c) for p in range(N_BLOCKS)])
    return result.ritz_values, V, seconds, result.n_matvecs


def run_arpack(K, c, tol, dtype):
    K = K.astype(dtype)
    K.indices, K.indptr = K.indices.astype(np.int32), K.indptr.astype(np.int32)
    n_matvecs = 0

    def multiply(x):
        nonlocal n_matvecs
        n_matvecs += 1
        return K @ x

    v0 = np.random.default_rng(0).standard_normal(K.shape[0]).astype(dtype)
    start = time.process_time()
    try:
        values, V = eigsh(LinearOperator(K.shape, matvec=multiply, dtype=dtype), c, which="LA", tol=tol, v0=v0)
    except ArpackNoConvergence as failure:
        values, V = failure.eigenvalues, failure.eigenvectors
    return values[::-1], V[:, ::-1], time.process_time() - start, n_matvecs


def true_residual(K, values, V):
    V = V.astype(np.float64)
    return np.linalg.norm(K @ V - V * values, axis=0).max() / np.abs(values).max()


def rotation(V):
    """R for which the rows of V R are nearly one-hot: pivoted QR of the rows, then polar factors."""
    Z = _unit_rows(V)
    sample = Z[:: max(1, len(Z) // 20_000)]
    _, _, pivots = scipy.linalg.qr(sample.T, mode="economic", pivoting=True)
    R = _polar(sample[pivots[: V.shape[1]]].T)
    for _ in range(30):
        R = _polar(sample.T @ np.maximum(sample @ R, 0))
    return R


def labels(V, U, R):
    """Cluster of every row, by the rotation that was found for the basis U of the same space."""
    return np.argmax(V @ (_polar(V.astype(np.float64).T @ U) @ R), axis=1)


def _unit_rows(V):
    Z = V.astype(np.float64)
    return Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)


def _polar(A):
    U, _, Wt = np.linalg.svd(A)
    return U @ Wt


def compare(n, t, name, c, n_threads):
    """One matrix, all solvers, as rows of the table."""
    K, tol = kernel(n, t, name), TOL[name]
    warnings.simplefilter("ignore")
    run_lanczos(K[:2000, :2000].tocsr(), 5, 0.1, np.float32)  # compiles
    values, U, _, _ = run_lanczos(K, c, 1e-10, np.float64)
    R = rotation(U)
    truth = labels(U, U, R)
    solvers = {
        "lanczos float32": lambda: run_lanczos(K, c, tol, np.float32, n_threads),
        "lanczos float64": lambda: run_lanczos(K, c, tol, np.float64, n_threads),
        "eigsh float32": lambda: run_arpack(K, c, tol, np.float32),
        "eigsh float64": lambda: run_arpack(K, c, tol, np.float64),
    }
    for solver, solve_it in solvers.items():
        found, V, seconds, n_matvecs = solve_it()
        complete = len(found) == c
        yield {
            "matrix": f"{name}, n={n}, t={t}, c={c}",
            "solver": solver,
            "cpu_seconds": round(seconds, 2),
            "matvecs": n_matvecs,
            "true_residual": float(true_residual(K, found, V)) if complete else None,
            "value_error": float(np.abs(found - values).max()) if complete else None,
            "label_ari": round(float(adjusted_rand_score(truth, labels(V, U, R))), 5) if complete else None,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[70_000, 319_209])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    cases = [(n, t, name, N_CLUSTERS) for n in options.rows for t in (7, 10) for name in "NK"]
    cases += [(n, 10, "N", 5 * N_CLUSTERS // 2) for n in options.rows if n <= 100_000]
    rows = []
    for case in cases:
        for row in compare(*case, options.threads):
            rows.append(row)
            error = "failed" if row["value_error"] is None else f"{row['value_error']:.1e}"
            residual = "failed" if row["true_residual"] is None else f"{row['true_residual']:.1e}"
            print(
                f"{row['matrix']:28} {row['solver']:16} {row['cpu_seconds']:7.2f} s {row['matvecs']:5} products, "
                f"residual {residual}, values {error}, ARI {row['label_ari']}",
                flush=True,
            )
    path = Path(__file__).parent / "results" / "eigensolver.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps({"machine": platform.machine(), "processor": platform.processor(), "rows": rows}, indent=1)
    )


if __name__ == "__main__":
    main()
