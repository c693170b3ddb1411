"""What 3SMIC stands beside: spectral learning and constrained spectral clustering, on the same local-scaling kernel.

Both take one neighbour number t, which nothing chooses for them. Kamvar, Klein, Manning, "Spectral learning",
IJCAI 2003; Wang, Davidson, "Flexible constrained spectral clustering", KDD 2010.
"""

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

DENSE_ROWS = 1000


def standardised(X):
    """Columns of mean 0 and variance 1, constant ones 0."""
    X = np.asarray(X, np.float64)
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)


def kernel(X, t):
    """Local-scaling kernel on the t-graph, zero diagonal, sparse."""
    distances, indices = NearestNeighbors(n_neighbors=t).fit(X).kneighbors()
    sigma, n = distances[:, -1], len(X)
    rows = np.repeat(np.arange(n), t)
    weights = np.exp(-(distances.ravel() ** 2) / np.maximum(2 * sigma[rows] * sigma[indices.ravel()], 1e-300))
    K = csr_array((weights, (rows, indices.ravel())), shape=(n, n))
    return K.maximum(K.T)


def spectral_learning(K, must, cannot, c, seed=0):
    """Must-links 1, cannot-links 0, ``(K + d_max I - D) / d_max``; k-means of the rows of its c top eigenvectors."""
    A = _linked(K, must, cannot)
    degree = np.asarray(A.sum(axis=1)).ravel()
    return _k_means(_unit(_top((A + diags_array(degree.max() - degree)) / degree.max(), c, seed)), c, seed)


def constrained_spectral(K, must, cannot, c, seed=0):
    """Least cut among the vectors that keep enough of the links: a dense generalised eigenproblem of all rows.

    Two clusters are read off by the sign, more by k-means of the c - 1 best.
    """
    A, n = K.toarray(), K.shape[0]
    degree = np.maximum(A.sum(axis=1), 1e-12)
    root, volume = 1 / np.sqrt(degree), degree.sum()
    Q = np.eye(n)
    for pairs, value in ((must, 1.0), (cannot, -1.0)):
        Q[pairs[:, 0], pairs[:, 1]] = Q[pairs[:, 1], pairs[:, 0]] = value
    laplacian = np.eye(n) - A * np.multiply.outer(root, root)
    wanted = Q * np.multiply.outer(root, root)
    largest = eigh(wanted, eigvals_only=True, subset_by_index=[n - c + 1, n - 1])[0] * volume
    beta = largest * (0.5 + 0.4 * 2 * (len(must) + len(cannot)) / n**2)
    # q v = mu (L + epsilon I) v, the right-hand side definite: feasible vectors are those of positive mu
    values, vectors = eigh(wanted - beta / volume * np.eye(n), laplacian + 1e-9 * np.eye(n))
    vectors = vectors[:, values > 0]
    vectors *= np.sqrt(volume) / np.linalg.norm(vectors, axis=0)
    cost = np.einsum("ij,ij->j", vectors, laplacian @ vectors)
    best = root[:, None] * vectors[:, np.argsort(cost)[: c - 1]]
    if best.shape[1] == 0:
        return np.zeros(n, int)
    return (best[:, 0] > 0).astype(int) if c == 2 else _k_means(best, c, seed)


def _linked(K, must, cannot):
    links = np.concatenate([must, cannot]).reshape(-1, 2)
    both = np.concatenate([links, links[:, ::-1]])
    at = coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=K.shape).tocsr()
    at.data[:] = 1
    tied = np.concatenate([must, must[:, ::-1]]).reshape(-1, 2)
    ones = coo_array((np.ones(len(tied)), (tied[:, 0], tied[:, 1])), shape=K.shape).tocsr()
    return csr_array(K - K.multiply(at) + ones)


def _top(A, c, seed):
    n = A.shape[0]
    if n <= DENSE_ROWS:
        return eigh(A.toarray(), subset_by_index=[n - c, n - 1])[1]
    start = np.random.default_rng(seed).normal(size=n)
    return eigsh(A, c, which="LA", v0=start, tol=1e-5)[1]


def _unit(V):
    return V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)


def _k_means(V, c, seed):
    return KMeans(c, n_init=10, random_state=seed).fit_predict(V)
