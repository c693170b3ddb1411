"""The methods that bigsmic is compared with, at settings a competent user would pick.

A peer is a function ``rows -> labels`` of `Rows`, labels int array of shape (n,). All get the same rows, the same
number of clusters and the same threads, and none sees the true labels. Neighbours and embeddings are made once for all
peers that use the same, and their CPU seconds are counted for each of them.
"""

import signal
from contextlib import contextmanager
from functools import cached_property, partial

import numpy as np
from _harness import Stopwatch
from scipy import sparse

N_NEIGHBORS = 15
RESOLUTION_TRIALS = 15


class Rows:
    """What peers get.

    Parameters
    ----------
    X : ndarray of float32, shape (n, d)
    c : int
        Number of clusters.
    seed : int
    """

    def __init__(self, X, c, seed):
        self.X, self.c, self.seed = X, c, seed

    @cached_property
    def neighbors(self):
        """Lists of neighbours and their distances; the lists of all peers that bring no search of their own."""
        return neighbors(self.X, self.seed)

    @cached_property
    def embedding(self):
        """The rows in the plane."""
        return embed(self.X, self.seed)

    def ones(self):
        """Ones at each row's neighbours, CSR (n, n), not symmetric."""
        indices, _ = self.neighbors
        indptr = np.arange(0, indices.size + 1, indices.shape[1], dtype=np.int32)  # scikit-learn refuses 64 bits
        ones = np.ones(indices.size, np.float32)
        return sparse.csr_array((ones, indices.ravel().astype(np.int32), indptr), shape=(len(indices), len(indices)))

    @property
    def union(self):
        """Ones where either row is among the other's neighbours, CSR (n, n)."""
        graph = self.ones()
        return graph.maximum(graph.T)

    @property
    def fuzzy(self):
        """UMAP's fuzzy weights, CSR (n, n); a row counts as one of its own neighbours there."""
        from umap.umap_ import fuzzy_simplicial_set

        indices, distances = (lists[:, :-1] for lists in self.neighbors)
        own = np.arange(len(indices))[:, None]
        graph, _, _ = fuzzy_simplicial_set(
            self.X,
            N_NEIGHBORS,
            np.random.RandomState(self.seed),
            "euclidean",
            knn_indices=np.hstack([own, indices]),
            knn_dists=np.hstack([np.zeros_like(distances[:, :1]), distances]),
        )
        return graph

    def principal(self, n_components):
        """The leading principal components, or the rows if they have no more columns; float64."""
        from sklearn.decomposition import PCA

        if self.X.shape[1] <= n_components:
            return self.X.astype(np.float64)
        return PCA(min(n_components, len(self.X)), random_state=self.seed).fit_transform(self.X).astype(np.float64)


def k_means(rows):
    return _k_means(rows.X, rows)


def mini_batch_k_means(rows):
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(rows.c, n_init=10, batch_size=4096, random_state=rows.seed).fit_predict(rows.X)


def gaussian_mixture(rows, n_components=20):
    """Full covariances on 20 principal components; diagonal ones where clusters are too small for full."""
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    X, c, seed = rows.X, rows.c, rows.seed
    n_components = min(n_components, *X.shape)
    Z = PCA(n_components, random_state=seed).fit_transform(X).astype(np.float64)
    kind = "full" if len(X) >= 5 * c * n_components else "diag"
    reg = 1e-3 * Z.var(axis=0).mean()  # better on every set tried than scikit-learn's absolute 1e-6
    return GaussianMixture(c, covariance_type=kind, reg_covar=reg, n_init=3, random_state=seed).fit_predict(Z)


def spectral(rows):
    """scikit-learn's own neighbour graph, which is exact: quadratic in n."""
    return _spectral(rows.X, rows, affinity="nearest_neighbors", n_neighbors=N_NEIGHBORS)


def spectral_approximate(rows):
    """The same on the graph of approximate neighbours that the other peers use."""
    graph = rows.ones()
    return _spectral(0.5 * (graph + graph.T), rows, affinity="precomputed")


def leiden(rows):
    """Leiden communities of the union of neighbour lists; resolution found for c."""
    return communities(rows.union, rows.c, rows.seed)


def leiden_fuzzy(rows):
    """The same on UMAP's fuzzy weights."""
    return communities(rows.fuzzy, rows.c, rows.seed)


def umap_k_means(rows):
    return _k_means(rows.embedding, rows)


def umap_hdbscan(rows):
    """HDBSCAN of the embedding; c only sets what is too small; noise goes to the nearest clustered point."""
    from hdbscan import HDBSCAN
    from sklearn.neighbors import KNeighborsClassifier

    Z = rows.embedding.astype(np.float64)
    smallest = max(5, len(Z) // (10 * rows.c))
    labels = HDBSCAN(min_cluster_size=smallest, min_samples=min(10, smallest)).fit_predict(Z)
    noise = labels < 0
    if noise.any() and not noise.all():
        labels[noise] = KNeighborsClassifier(1).fit(Z[~noise], labels[~noise]).predict(Z[noise])
    return labels


PEERS = {
    "k_means": ("k-means", k_means, None),
    "mini_batch_k_means": ("mini-batch k-means", mini_batch_k_means, None),
    "gaussian_mixture": ("Gaussian mixture on 20 PCs", gaussian_mixture, None),
    "spectral": ("spectral, cluster_qr", spectral, None),
    "spectral_approximate": ("spectral, cluster_qr, approximate neighbours", spectral_approximate, "neighbors"),
    "leiden": ("Leiden on 15-NN", leiden, "neighbors"),
    "leiden_fuzzy": ("Leiden on fuzzy weights", leiden_fuzzy, "neighbors"),
    "umap_k_means": ("UMAP 2-d + k-means", umap_k_means, "embedding"),
    "umap_hdbscan": ("UMAP 2-d + HDBSCAN", umap_hdbscan, "embedding"),
}
"""By name in tables of results: what it is, the function, and what it shares with others."""


def run(rows, names, limit=None, peers=PEERS):
    """Labels of several peers on the same rows.

    Parameters
    ----------
    rows : Rows
    names : sequence of str
    limit : float, optional
        CPU seconds after which a peer is given up.
    peers : dict, optional
        What `names` name; those that know c if not given.

    Yields
    ------
    name : str
    labels : ndarray of int, shape (n,), or None
    cpu_s : float
        With that of what it shares.
    error : str or None
    """
    cost = {None: 0.0}
    for name in names:
        _, method, need = peers[name]
        if need not in cost:
            with Stopwatch() as watch:
                getattr(rows, need)
            cost[need] = watch.cpu_s
        with Stopwatch() as watch:
            labels, error = _attempt(method, rows, limit)
        yield name, labels, cost[need] + watch.cpu_s, error


def warm_up(names, threads, peers=PEERS):
    """Import and compile what peers need, and hold them to so many threads."""
    import numba
    from threadpoolctl import threadpool_limits

    numba.set_num_threads(threads)
    threadpool_limits(threads)
    X = np.random.default_rng(0).normal(size=(5000, 16)).astype(np.float32)
    for _ in run(Rows(X, 3, 0), names, 60, peers):
        pass


def _attempt(method, rows, limit):
    try:
        with given_up_after(limit):
            return method(rows), None
    except Exception as failure:  # one peer's failure is a figure, and must not take the others along
        return None, f"{type(failure).__name__}: {failure}"[:200]


@contextmanager
def given_up_after(cpu_s):
    """Raise TimeoutError in the block once the process has used so much CPU; compiled code is not interrupted.

    None: never.
    """

    def stop(*_):
        raise TimeoutError(f"not done after {cpu_s:g} CPU s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, cpu_s or 0.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def neighbors(X, seed, k=N_NEIGHBORS):
    """The k nearest rows of each row, itself not counted, with their distances; approximate."""
    from pynndescent import NNDescent

    indices, distances = NNDescent(X, n_neighbors=k + 1, random_state=seed).neighbor_graph
    others = np.argsort(indices == np.arange(len(X))[:, None], axis=1, kind="stable")[:, :k]
    return np.take_along_axis(indices, others, 1), np.take_along_axis(distances, others, 1)


def embed(X, seed):
    """UMAP to the plane as its manual advises for clustering: no minimum distance, some more neighbours."""
    from umap import UMAP

    return UMAP(n_neighbors=2 * N_NEIGHBORS, min_dist=0.0, random_state=seed, n_jobs=1).fit_transform(X)


def communities(graph, c, seed):
    """Leiden partition of a symmetric graph with c communities, or the nearest number that bisection finds."""
    import leidenalg

    network, weights = as_network(graph)
    partition = partial(
        leidenalg.find_partition, network, leidenalg.RBConfigurationVertexPartition, weights=weights, seed=seed
    )
    return bisect_resolution(lambda r: np.array(partition(resolution_parameter=r).membership), c)


def as_network(graph):
    """A symmetric sparse matrix as igraph's network without weights, and the weights of its edges."""
    import igraph

    upper = sparse.triu(graph, k=1).tocoo()
    return igraph.Graph(n=graph.shape[0], edges=np.stack([upper.row, upper.col], axis=1)), upper.data


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


def _k_means(points, rows):
    from sklearn.cluster import KMeans

    return KMeans(rows.c, n_init=10, random_state=rows.seed).fit_predict(points)


def _spectral(graph, rows, **options):
    from sklearn.cluster import SpectralClustering

    model = SpectralClustering(rows.c, assign_labels="cluster_qr", random_state=rows.seed, **options)
    return model.fit_predict(graph)
