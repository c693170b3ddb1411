"""Figures of labels that were found without knowing the number of clusters; -1 is a row in none, on both sides."""

import numpy as np
from _ours import ari


def figures(truth, labels, points):
    """How many clusters were found, and how well they and the rows in none fit the truth.

    Parameters
    ----------
    truth, labels : ndarray of int, shape (n,)
    points : callable
        Gives the (n, k) rows in which a row in no cluster is given to the nearest in one, for the ARI.

    Returns
    -------
    dict
        ``c`` clusters found, ``c_true``; ``ari`` over the rows that have a class; ``noise``, the share in no cluster;
        where the truth has such rows also ``noise_precision``, ``noise_recall``, and ``units``: rows of each class,
        and the recall and precision of the cluster that fits it best.
    """
    classed, outside = truth >= 0, labels < 0
    everywhere = in_clusters(labels, points)
    found = {
        "n": len(truth),
        "c_true": len(np.unique(truth[classed])),
        "c": len(np.unique(labels[~outside])),
        "ari": ari(_dense(truth[classed]), _dense(everywhere[classed])),
        "noise": float(outside.mean()),
    }
    if not classed.all():
        found |= noise_scores(~classed, outside) | {"units": best_clusters(truth, labels)}
    return found


def in_clusters(labels, points):
    """The labels, where -1 became the label of the nearest row in a cluster; 0 if none is."""
    outside = labels < 0
    if not outside.any():
        return labels
    if outside.all():
        return np.zeros_like(labels)
    from sklearn.neighbors import KNeighborsClassifier

    Z, labels = points(), labels.copy()
    labels[outside] = KNeighborsClassifier(1).fit(Z[~outside], labels[~outside]).predict(Z[outside])
    return labels


def noise_scores(truth, found):
    """Precision and recall of the rows said to be in no cluster; precision is None if none was."""
    right = np.count_nonzero(truth & found)
    said = np.count_nonzero(found)
    return {"noise_precision": right / said if said else None, "noise_recall": right / np.count_nonzero(truth)}


def best_clusters(truth, labels):
    """Of each class its rows, and recall and precision of the cluster with the largest share of both in common."""
    sizes = np.unique(labels[labels >= 0], return_counts=True)
    of = dict(zip(*(values.tolist() for values in sizes), strict=True))
    return [_best_cluster(labels[truth == unit], of) for unit in np.unique(truth[truth >= 0])]


def accuracy(recall, precision):
    """Rows in common over rows in either, as spike sorters are compared."""
    return 1 / (1 / recall + 1 / precision - 1) if recall and precision else 0.0


def _best_cluster(labels, sizes):
    found = zip(*(values.tolist() for values in np.unique(labels[labels >= 0], return_counts=True)), strict=True)
    scores = [(common / len(labels), common / sizes[cluster]) for cluster, common in found]
    recall, precision = max(scores, key=lambda pair: accuracy(*pair), default=(0.0, 0.0))
    return [len(labels), recall, precision]


def _dense(labels):
    return np.unique(labels, return_inverse=True)[1]
