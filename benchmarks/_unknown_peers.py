"""Methods that find the number of clusters themselves, at settings that their users would pick.

A peer is a function of ``_peers.Rows`` as those that are told the number, which these do not look at. Labels are int
arrays of shape (n,), -1 where a row is in no cluster.
"""

from functools import partial

import numpy as np
from _peers import Rows, as_network

SORTER_COMPONENTS = 10  # as sorters that cluster by isosplit take
GAUSSIAN_COMPONENTS = 20
GAUSSIAN_ROWS = 20_000
GAUSSIAN_SURELY = 16  # BIC of what is no Gaussian rises before it falls
GAUSSIAN_TRIALS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def leiden(rows):
    """Leiden at resolution 1 on the union of lists of 15 neighbours, twice over it as the package does."""
    import leidenalg

    return _leiden(rows.union, rows.seed, leidenalg.RBConfigurationVertexPartition, resolution_parameter=1.0)


def leiden_fuzzy(rows):
    """The same on UMAP's fuzzy weights."""
    import leidenalg

    return _leiden(rows.fuzzy, rows.seed, leidenalg.RBConfigurationVertexPartition, resolution_parameter=1.0)


def leiden_modularity(rows):
    """Largest modularity of five runs, each repeated until nothing improves."""
    import leidenalg

    network, weights = as_network(rows.union)
    find = partial(leidenalg.find_partition, network, leidenalg.ModularityVertexPartition, weights=weights)
    partitions = [find(seed=5 * rows.seed + i, n_iterations=-1) for i in range(5)]
    return np.array(max(partitions, key=lambda partition: partition.quality()).membership)


def umap_hdbscan_default(rows):
    """HDBSCAN, as it is, of the rows in the plane."""
    return _hdbscan(rows.embedding.astype(np.float64), 5)


def umap_hdbscan_200(rows):
    """The same with clusters of at least one row in 200."""
    return _hdbscan(rows.embedding.astype(np.float64), max(5, len(rows.X) // 200))


def hdbscan_default(rows):
    """HDBSCAN, as it is, of the rows, or of ten principal components if they have more columns than 20."""
    return _hdbscan(_few_columns(rows), 5)


def hdbscan_30(rows):
    """The same with clusters of at least 30 rows."""
    return _hdbscan(_few_columns(rows), 30)


def hdbscan_200(rows):
    """The same with clusters of at least one row in 200."""
    return _hdbscan(_few_columns(rows), max(5, len(rows.X) // 200))


def isosplit(rows):
    """isosplit6 of ten principal components."""
    from isosplit6 import isosplit6

    return isosplit6(rows.principal(SORTER_COMPONENTS)).astype(int) - 1


def isosplit_subdivided(rows):
    """The same, on either half again with components of its own until it is one cluster, as spike sorters do."""
    labels = np.empty(len(rows.X), int)
    pending, found = [np.arange(len(rows.X))], 0
    while pending:
        part = pending.pop()
        halves = _halves(Rows(rows.X[part], None, rows.seed))
        if len(halves) == 1:
            labels[part], found = found, found + 1
        pending.extend(part[half] for half in halves if len(halves) > 1)
    return labels


def gaussian_bic(rows):
    """Gaussian mixture on 20 principal components of at most 20,000 rows; as many as BIC likes best."""
    Z = rows.principal(GAUSSIAN_COMPONENTS)
    sample = np.random.default_rng(rows.seed).permutation(len(Z))[:GAUSSIAN_ROWS]
    return best_mixture(Z[np.sort(sample)], rows.seed).predict(Z)


PEERS = {
    "leiden": ("Leiden, resolution 1", leiden, "neighbors"),
    "leiden_fuzzy": ("Leiden on fuzzy weights, resolution 1", leiden_fuzzy, "neighbors"),
    "leiden_modularity": ("Leiden, best modularity", leiden_modularity, "neighbors"),
    "umap_hdbscan_200": ("UMAP + HDBSCAN, n/200", umap_hdbscan_200, "embedding"),
    "umap_hdbscan_default": ("UMAP + HDBSCAN", umap_hdbscan_default, "embedding"),
    "isosplit": ("isosplit6 on 10 PCs", isosplit, None),
    "isosplit_subdivided": ("isosplit6 on 10 PCs, subdivided", isosplit_subdivided, None),
    "gaussian_bic": ("Gaussian mixture by BIC", gaussian_bic, None),
    "hdbscan_default": ("HDBSCAN", hdbscan_default, None),
    "hdbscan_30": ("HDBSCAN, 30", hdbscan_30, None),
    "hdbscan_200": ("HDBSCAN, n/200", hdbscan_200, None),
}
"""By name in tables of results: what it is, the function, and what it shares with others."""


def best_mixture(Z, seed):
    """The mixture of lowest BIC: numbers up a ladder until BIC stays up, then between the best one's rungs."""
    tried = {}
    risen = 0
    for c in GAUSSIAN_TRIALS:
        if c > len(Z) // 5 or (risen > 1 and c > GAUSSIAN_SURELY):
            break
        tried[c] = _mixture(Z, c, seed)
        risen = risen + 1 if tried[c][0] > min(score for score, _ in tried.values()) else 0
    for _ in range(3):
        for c in _between(sorted(tried), min(tried, key=lambda c: tried[c][0])):
            tried[c] = _mixture(Z, c, seed)
    return min(tried.values(), key=lambda pair: pair[0])[1]


def _halves(rows):
    """Where the rows are that go to either side of the widest gap between clusters; all in one if there is one."""
    from scipy.cluster.hierarchy import cut_tree, linkage

    small = len(rows.X) <= SORTER_COMPONENTS
    labels = np.zeros(len(rows.X), int) if small else np.unique(isosplit(rows), return_inverse=True)[1]
    if labels.max() == 0:
        return [np.arange(len(labels))]
    means = np.stack([rows.X[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
    side = cut_tree(linkage(means), 2).ravel()[labels]
    return [np.flatnonzero(side == k) for k in (0, 1)]


def _mixture(Z, c, seed):
    from sklearn.mixture import GaussianMixture

    kind = "full" if len(Z) >= 5 * c * Z.shape[1] else "diag"
    model = GaussianMixture(c, covariance_type=kind, reg_covar=1e-3 * Z.var(axis=0).mean(), random_state=seed).fit(Z)
    return model.bic(Z), model


def _between(numbers, best):
    """Halfway from the best number to those tried below and above it."""
    i = numbers.index(best)
    neighbors = numbers[max(0, i - 1) : i + 2]
    return {(best + other) // 2 for other in neighbors} - set(numbers)


def _leiden(graph, seed, kind, **options):
    import leidenalg

    network, weights = as_network(graph)
    return np.array(leidenalg.find_partition(network, kind, weights=weights, seed=seed, **options).membership)


def _hdbscan(Z, smallest):
    from hdbscan import HDBSCAN

    return HDBSCAN(min_cluster_size=smallest, core_dist_n_jobs=1).fit_predict(Z)


def _few_columns(rows):
    return rows.principal(SORTER_COMPONENTS) if rows.X.shape[1] > GAUSSIAN_COMPONENTS else rows.X.astype(np.float64)
