"""The method once more, dense and in float64, as the formulas read: what the pipeline is compared with at small n.

Nothing here is shared with the package but the hashed draws of centres and folds, which are choices and not results.
"""

import numpy as np
from scipy.linalg import qr, svd


def standardised(X):
    """Columns of mean 0 and variance 1; constant ones 0."""
    X = np.asarray(X, np.float64)
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) * np.where(deviation > 0, 1 / np.where(deviation > 0, deviation, 1), 0)


def sq_distances(X, Y):
    """Squared distances of all pairs, as sums of squared differences."""
    return np.array([np.square(Y - x).sum(axis=1) for x in X])


def kernel(X, t, bandwidth=2.0, floor=0.0):
    """Local-scaling kernel on the t-graph, zero diagonal."""
    squares = sq_distances(X, X)
    np.fill_diagonal(squares, np.inf)
    order = np.argsort(squares, axis=1, kind="stable")[:, :t]
    sigma = np.sqrt(np.take_along_axis(squares, order[:, -1:], axis=1))[:, 0]
    linked = np.zeros(squares.shape, bool)
    np.put_along_axis(linked, order, True, axis=1)
    linked |= linked.T
    scale = bandwidth * np.multiply.outer(sigma, sigma)
    weights = np.exp(-np.divide(squares, scale, out=np.full(squares.shape, np.inf), where=scale > 0))
    weights[(scale == 0) & (squares == 0)] = 1
    return np.where(linked, np.maximum(weights, floor), 0)


def normalised(K):
    """``D^-1/2 K D^-1/2``."""
    root = 1 / np.sqrt(K.sum(axis=1))
    return K * np.multiply.outer(root, root)


def shrunk(K, shrinkage):
    """The same with every degree drawn to their mean."""
    degrees = K.sum(axis=1)
    root = 1 / np.sqrt((1 - shrinkage) * degrees + shrinkage * degrees.mean())
    return K * np.multiply.outer(root, root)


def top_eigenvectors(A, m):
    """The m algebraically largest eigenpairs, largest first."""
    values, vectors = np.linalg.eigh(A)
    return values[::-1][:m], vectors[:, ::-1][:, :m]


def paper_posterior(V, prior=None):
    """Signs of the column sums; ``pi_y [phi_y]+ / sum_j [phi_y]+_j`` normalised per row."""
    c = V.shape[1]
    prior = np.full(c, 1 / c) if prior is None else np.asarray(prior)
    positive = np.maximum(V * np.where(V.sum(axis=0) < 0, -1, 1), 0)
    P = np.empty(V.shape)
    for vector, y in enumerate(np.argsort(prior, kind="stable")):
        P[:, y] = prior[y] * positive[:, vector] / positive[:, vector].sum()
    return P / P.sum(axis=1, keepdims=True)


def rotated_posterior(V, n_iterations=2000):
    """Turn V until its columns are as non-negative as they get; positive parts normalised per row."""
    Z = V / np.linalg.norm(V, axis=1, keepdims=True)
    pivots = qr(Z.T, mode="r", pivoting=True)[1][: V.shape[1]]
    R = _polar(Z[pivots].T)
    for _ in range(n_iterations):
        R = _polar(Z.T @ np.maximum(Z @ R, 0))
    positive = np.maximum(V @ R, 0)
    return positive / positive.sum(axis=1, keepdims=True)


def _polar(A):
    U, _, Vt = svd(A)
    return U @ Vt


def lsmi(X, labels, centers, folds, gammas, deltas):
    """LSMI of one labeling: (estimate, gamma, delta), the pair with the least loss over the folds.

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
    labels, folds : ndarray of int, shape (n,)
    centers : ndarray of int, shape (b,)
        Rows that are centres.
    gammas, deltas : ndarray of float64
    """
    squares, of_centers = sq_distances(X, X[centers]), labels[centers]
    losses = [[_loss(_basis(squares, gamma), labels, of_centers, folds, delta) for delta in deltas] for gamma in gammas]
    i, j = np.unravel_index(np.argmin(losses), np.shape(losses))
    gain = 0.0
    for _, theta, H, h in _ratio(_basis(squares, gammas[i]), labels, of_centers, deltas[j]):
        gain += theta @ h - theta @ H @ theta / 2
    return gain - 0.5, gammas[i], deltas[j]


def _basis(squares, gamma):
    return np.exp(-squares / (2 * gamma**2))


def _ratio(L, labels, of_centers, delta):
    """For each class that has a centre: ridge fit of the density ratio on these rows."""
    n = len(L)
    for y in np.unique(of_centers):
        own = L[:, of_centers == y]
        H = np.count_nonzero(labels == y) / n**2 * own.T @ own
        h = own[labels == y].sum(axis=0) / n
        yield y, np.linalg.solve(H + delta * np.eye(len(h)), h), H, h


def _loss(L, labels, of_centers, folds, delta):
    """Mean over folds of ``sum r(x_i, y)^2 n_y / (2 n^2) - sum r(x_i, y_i) / n`` on the rows left out."""
    losses = []
    for fold in np.unique(folds):
        out = folds == fold
        n, loss = np.count_nonzero(out), 0.0
        for y, theta, _, _ in _ratio(L[~out], labels[~out], of_centers, delta):
            ratio, of_class = L[out][:, of_centers == y] @ theta, labels[out] == y
            loss += np.count_nonzero(of_class) / (2 * n**2) * np.sum(ratio**2) - ratio[of_class].sum() / n
        losses.append(loss)
    return np.mean(losses)
