"""The methods that bigsmic is compared with, at settings a competent user would pick.

A peer is a function ``(X, c, seed) -> labels``, X float32 of shape (n, d), labels int array of shape (n,). All get the
same rows, the same number of clusters and the same threads, and none sees the true labels. Nearest neighbours
come from pynndescent wherever a peer does not bring its own search, so peers on graphs pay the same for them.
"""

from functools import partial

import numpy as np
from scipy import sparse

N_NEIGHBORS = 15
RESOLUTION_TRIALS = 15


def k_means(X, c, seed):
    from sklearn.cluster import KMeans

    return KMeans(c, n_init=10, random_state=seed).fit_predict(X)


def mini_batch_k_means(X, c, seed):
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(c, n_init=10, batch_size=4096, random_state=seed).fit_predict(X)


def gaussian_mixture(X, c, seed, n_components=20):
    """Full covariances on 20 principal components; diagonal ones where clusters are too small for full."""
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    n_components = min(n_components, *X.shape)
    Z = PCA(n_components, random_state=seed).fit_transform(X).astype(np.float64)
    kind = "full" if len(X) >= 5 * c * n_components else "diag"
    reg = 1e-3 * Z.var(axis=0).mean()  # better on every set tried than scikit-learn's absolute 1e-6
    return GaussianMixture(c, covariance_type=kind, reg_covar=reg, n_init=3, random_state=seed).fit_predict(Z)


def spectral(X, c, seed):
    """scikit-learn's own neighbour graph, which is exact: quadratic in n."""
    return _spectral(X, c, seed, affinity="nearest_neighbors", n_neighbors=N_NEIGHBORS)


def spectral_approximate(X, c, seed):
    """The same on the graph of approximate neighbours that the other peers use."""
    graph = connectivity(X, seed)
    return _spectral(0.5 * (graph + graph.T), c, seed, affinity="precomputed")


def leiden(X, c, seed):
    """Leiden communities of the union of neighbour lists; resolution found for c."""
    graph = connectivity(X, seed)
    return communities(graph.maximum(graph.T), c, seed)


def leiden_fuzzy(X, c, seed):
    """The same on UMAP's fuzzy weights; a row counts as one of its own neighbours there."""
    from umap.umap_ import fuzzy_simplicial_set

    indices, distances = (lists[:, :-1] for lists in neighbors(X, seed))
    own = np.arange(len(X))[:, None]
    graph, _, _ = fuzzy_simplicial_set(
        X,
        N_NEIGHBORS,
        np.random.RandomState(seed),
        "euclidean",
        knn_indices=np.hstack([own, indices]),
        knn_dists=np.hstack([np.zeros_like(distances[:, :1]), distances]),
    )
    return communities(graph, c, seed)


def umap_k_means(X, c, seed):
    return k_means(embed(X, seed), c, seed)


def umap_hdbscan(X, c, seed):
    """HDBSCAN of the embedding; c only sets what is too small; noise goes to the nearest clustered point."""
    from hdbscan import HDBSCAN
    from sklearn.neighbors import KNeighborsClassifier

    Z = embed(X, seed).astype(np.float64)
    smallest = max(5, len(X) // (10 * c))
    labels = HDBSCAN(min_cluster_size=smallest, min_samples=min(10, smallest)).fit_predict(Z)
    noise = labels < 0
    if noise.any() and not noise.all():
        labels[noise] = KNeighborsClassifier(1).fit(Z[~noise], labels[~noise]).predict(Z[noise])
    return labels


PEERS = {
    "k-means": k_means,
    "mini-batch k-means": mini_batch_k_means,
    "Gaussian mixture on 20 PCs": gaussian_mixture,
    "spectral, cluster_qr": spectral,
    "spectral, cluster_qr, approximate neighbours": spectral_approximate,
    "Leiden on 15-NN": leiden,
    "Leiden on fuzzy weights": leiden_fuzzy,
    "UMAP 2-d + k-means": umap_k_means,
    "UMAP 2-d + HDBSCAN": umap_hdbscan,
}


def neighbors(X, seed, k=N_NEIGHBORS):
    """The k nearest rows of each row, itself not counted, with their distances; approximate."""
    from pynndescent import NNDescent

    indices, distances = NNDescent(X, n_neighbors=k + 1, random_state=seed).neighbor_graph
    others = np.argsort(indices == np.arange(len(X))[:, None], axis=1, kind="stable")[:, :k]
    return np.take_along_axis(indices, others, 1), np.take_along_axis(distances, others, 1)


def connectivity(X, seed, k=N_NEIGHBORS):
    """Ones at each row's k neighbours, CSR (n, n), not symmetric."""
    indices, _ = neighbors(X, seed, k)
    ones = np.ones(indices.size, np.float32)
    indptr = np.arange(0, indices.size + 1, k, dtype=np.int32)  # scikit-learn refuses 64-bit indices
    return sparse.csr_array((ones, indices.ravel().astype(np.int32), indptr), shape=(len(X), len(X)))


def embed(X, seed):
    """UMAP to the plane as its manual advises for clustering: no minimum distance, some more neighbours."""
    from umap import UMAP

    return UMAP(n_neighbors=2 * N_NEIGHBORS, min_dist=0.0, random_state=seed, n_jobs=1).fit_transform(X)


def communities(graph, c, seed):
    """Leiden partition of a symmetric graph with c communities, or the nearest number that bisection finds."""
    import igraph
    import leidenalg

    upper = sparse.triu(graph, k=1).tocoo()
    edges = np.stack([upper.row, upper.col], axis=1)
    network = igraph.Graph(n=graph.shape[0], edges=edges)
    partition = partial(
        leidenalg.find_partition, network, leidenalg.RBConfigurationVertexPartition, weights=upper.data, seed=seed
    )
    return bisect_resolution(lambda r: np.array(partition(resolution_parameter=r).membership), c)


def bisect_resolution(cut, c, trials=RESOLUTION_TRIALS):
    """Labels ``cut(resolution)`` whose number of communities is nearest to c.

    The number grows with the resolution, though not strictly: bisection on its logarithm, at most `trials` cuts.
    """
    lo, hi = 0.01, 100.0
    best, resolution = None, 1.0
    for _ in range(trials):
        labels = cut(resolution)
        found = labels.max() + 1
        if best is None or abs(found - c) < abs(best.max() + 1 - c):
            best = labels
        if found == c:
            break
        lo, hi = (resolution, hi) if found < c else (lo, resolution)
        resolution = np.sqrt(lo * hi)
    return best


def _spectral(X, c, seed, **options):
    from sklearn.cluster import SpectralClustering

    return SpectralClustering(c, assign_labels="cluster_qr", random_state=seed, **options).fit_predict(X)
