"""dask-ml's clusterings of an archive, as a function that the harness runs in a process of its own.

Like bigsmic they read the archive in blocks; their threads are those of Dask in one process.
"""

import dask
import dask.array as da
import numpy as np
from _data import as_zarr, labels_of, n_clusters
from _ours import ari

ROWS_BYTES = 8 << 20  # of a chunk, as bigsmic reads them
LANDMARKS = 300


def k_means(rows, c, seed):
    """Lloyd's algorithm from k-means||."""
    from dask_ml.cluster import KMeans

    return KMeans(c, random_state=seed).fit(rows).labels_


def spectral(rows, c, seed):
    """Nystrom's eigenvectors on landmarks; the width is that of scikit-learn's "scale", as 1 suits no data."""
    from dask_ml.cluster import SpectralClustering

    gamma = 1 / (rows.shape[1] * float(rows.var().compute()))
    options = {"gamma": gamma, "persist_embedding": True, "random_state": seed}  # or every step embeds all rows again
    return SpectralClustering(c, n_components=max(LANDMARKS, 2 * c), **options).fit(rows).labels_


METHODS = {"dask_ml_k_means": k_means, "dask_ml_spectral": spectral}


def fit(name, which, n_threads=1, seed=0):
    """Cluster an archive by dask-ml and compare the labels with the truth."""
    rows = da.from_zarr(as_zarr(name))
    height = max(1, ROWS_BYTES // (rows.dtype.itemsize * rows.shape[1]))
    with dask.config.set(scheduler="threads", num_workers=n_threads):
        rows = rows.rechunk({0: height, 1: -1}).astype(np.float32)
        labels = np.asarray(METHODS[which](rows, n_clusters(name), seed))
    return {"ari": ari(labels_of(name), labels)}
