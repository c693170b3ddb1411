"""What tables.py compares with, as (Sugiyama et al., 2014) ran them: ``(X, c, seed) -> labels``, dense, in memory."""

import numba
import numpy as np
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances

SELF_TUNING = 7
REPETITIONS = 10


def k_means(X, c, seed):
    """Best of a hundred random starts; of ten for digits, where a hundred take 30 s and end no better."""
    return KMeans(c, init="random", n_init=100 if len(X) <= 1000 else 10, random_state=seed).fit_predict(X)


def self_tuning_spectral(X, c, seed):
    """Dense local-scaling affinity at t = 7, unit rows of c eigenvectors, best of ten k-means from far-apart rows."""
    squares = pairwise_distances(X.astype(np.float64), metric="sqeuclidean")
    scale = np.sqrt(np.partition(squares, SELF_TUNING, axis=1)[:, SELF_TUNING])
    A = np.exp(-squares / np.maximum(2 * np.multiply.outer(scale, scale), 1e-300))
    np.fill_diagonal(A, 0)
    root = 1 / np.sqrt(np.maximum(A.sum(axis=1), 1e-300))
    V = eigsh(A * np.multiply.outer(root, root), c, which="LA", v0=np.ones(len(X)))[1]
    V /= np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
    rng = np.random.default_rng(seed)
    found = [KMeans(c, init=_far_apart(V, c, rng), n_init=1).fit(V) for _ in range(REPETITIONS)]
    return min(found, key=lambda fit: fit.inertia_).labels_


def _far_apart(V, c, rng):
    """A random row, then again and again the one farthest from those that were taken."""
    taken = [int(rng.integers(len(V)))]
    nearest = np.square(V - V[taken[0]]).sum(axis=1)
    while len(taken) < c:
        taken.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.square(V - V[taken[-1]]).sum(axis=1))
    return V[taken]


def mean_nearest_neighbor(X, c, seed):
    """Faivishevsky and Goldberger: least ``sum_y 1/(n_y - 1) sum_{i != j in y} log(|x_i - x_j|^2 + 1/n)``, greedily.

    Rows move one after the other to the cluster that is best for the sum, until none moves; best of ten random starts.
    """
    logs = np.log(pairwise_distances(X.astype(np.float64), metric="sqeuclidean") + 1 / len(X))
    np.fill_diagonal(logs, 0)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(REPETITIONS):
        labels = rng.permutation(np.arange(len(X)) % c)
        found.append((_descend(logs, labels, c), labels))
    return min(found, key=lambda pair: pair[0])[1]


@numba.njit
def _descend(logs, labels, c):
    """Move rows until none gains; labels in place, the objective returned."""
    n = len(labels)
    sums, counts, within = np.zeros((n, c)), np.zeros(c), np.zeros(c)
    for i in range(n):
        counts[labels[i]] += 1
        for j in range(n):
            sums[i, labels[j]] += logs[i, j]
    for i in range(n):
        within[labels[i]] += sums[i, labels[i]]
    moved = 1
    while moved > 0:
        moved = 0
        for i in range(n):
            a, b = labels[i], _best(sums[i], counts, within, labels[i])
            if a == b:
                continue
            moved += 1
            labels[i] = b
            counts[a] -= 1
            counts[b] += 1
            within[a] -= 2 * sums[i, a]
            within[b] += 2 * sums[i, b]
            sums[:, a] -= logs[:, i]
            sums[:, b] += logs[:, i]
    return np.sum(within / (counts - 1))


@numba.njit
def _best(sums, counts, within, a):
    """The cluster that a row of cluster a should be in; two rows stay in each."""
    if counts[a] <= 2:
        return a
    best, least = a, -1e-9
    left = (within[a] - 2 * sums[a]) / (counts[a] - 2) - within[a] / (counts[a] - 1)
    for b in range(len(counts)):
        change = left + (within[b] + 2 * sums[b]) / counts[b] - within[b] / (counts[b] - 1)
        if b != a and change < least:
            best, least = b, change
    return best


PEERS = {
    "k-means": k_means,
    "self-tuning spectral": self_tuning_spectral,
    "mean nearest neighbour": mean_nearest_neighbor,
}
