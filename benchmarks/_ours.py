"""bigsmic on one of the sets, as a function that the harness runs in a process of its own."""

import numpy as np

import bigsmic
from bigsmic.numerics.labeling import metrics


def fit(name, n_threads=1, **options):
    """Fit an archive and compare the labels with the truth; options are those of ``bigsmic.fit``."""
    from _data import as_zarr, labels_of, n_clusters

    result = bigsmic.fit(as_zarr(name), n_clusters(name), n_threads=n_threads, **options)
    figures = result.diagnostics
    return {
        "ari": ari(labels_of(name), result.labels),
        "stages": figures["stages"],
        "recall": figures["neighbors"]["recall"],
        "in_degree_zero": figures["neighbors"]["in_degree_zero"],
        "matvecs": [eigenproblem["n_matvecs"] for eigenproblem in figures["eigen"]],
        "converged": all(eigenproblem["converged"] for eigenproblem in figures["eigen"]),
        "chosen": [(row["kernel"], row["assignment"], row["t"]) for row in figures["candidates"] if row["chosen"]],
    }


def fit_rows(X, y, c, **options):
    """Fit rows in memory; labels and the Result."""
    result = bigsmic.fit(X, c, **options)
    return ari(y, result.labels), result


def ari(truth, labels):
    """Adjusted Rand index, over the rows that have a true label."""
    truth, labels = np.asarray(truth), np.asarray(labels)
    return metrics.adjusted_rand_index(metrics.contingency(truth, labels, truth.max() + 1, labels.max() + 1))


def peers(name, names, seed=0, limit=None):
    """Figures of some of the peers, one after the other, on the same rows, which they hold in memory."""
    import _peers
    from _data import load

    X, y, c = load(name)
    for which, labels, cpu_s, error in _peers.run(_peers.Rows(X, c, seed), names, limit):
        score = None if error else ari(y, np.unique(labels, return_inverse=True)[1])
        yield which, {"ari": score, "cpu_s": cpu_s, "error": error}


def peer(name, which, seed=0):
    """One of the peers."""
    ((_, figures),) = peers(name, [which], seed)
    if figures["error"]:
        raise RuntimeError(figures["error"])
    return figures
