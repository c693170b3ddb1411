"""scikit-learn clusterers on the methods beside SMIC."""

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bigsmic.estimators import _seed
from bigsmic.pipeline import fit


class _Clusterer(ClusterMixin, BaseEstimator):
    """A clusterer whose parameters, but for three, are the options of its method by the same names."""

    _method: str

    def fit(self, X, y=None):
        """Cluster the rows of X.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or path, shape (n, d)
            Arrays out of core are read in blocks and never held.
        y : ignored

        Returns
        -------
        self
        """
        return self._fit(X)

    def _fit(self, X, **beside):
        """Cluster the rows of X, with what came beside them."""
        X = self._rows(X, reset=True)
        self.seed_ = _seed(self.random_state)
        options = self._chosen() | beside
        limit, threads = options.pop("memory_limit", None), options.pop("n_jobs", None)
        self.result_ = fit(
            X,
            self.n_clusters,
            method=self._method,
            seed=self.seed_,
            memory_limit=limit,
            n_threads=threads,
            **options,
        )
        self.labels_ = self.result_.labels
        self.classes_ = np.arange(self.result_.n_clusters)
        self.n_features_in_ = self.result_.diagnostics["columns"]
        self.n_iter_ = self._iterations(self.result_.diagnostics)
        return self

    def _chosen(self):
        """Parameters that the caller set: of others, what has to be cut to few rows needs no warning."""
        defaults = type(self)().get_params()
        chosen = {name: value for name, value in self.get_params().items() if value is not defaults[name]}
        return {name: value for name, value in chosen.items() if name not in ("n_clusters", "random_state")}

    def _iterations(self, diagnostics):
        """Iterations that the fit took."""
        raise NotImplementedError

    def predict(self, X):
        """Labels of new rows, int32, shape (m,)."""
        check_is_fitted(self)
        return self.result_.predict(self._rows(X, reset=False))

    def predict_proba(self, X):
        """Posteriors of new rows, float32, shape (m, c); a row's do not depend on the other rows."""
        check_is_fitted(self)
        return self.result_.predict_proba(self._rows(X, reset=False))

    def _rows(self, X, reset):
        """Validate what is in memory; leave alone what is read in blocks, which the pipeline checks."""
        if isinstance(X, str) or any(hasattr(X, name) for name in ("__fspath__", "nchunks_initialized", "dask")):
            return X
        return validate_data(self, X, reset=reset, dtype="numeric", ensure_min_samples=2 if reset else 1)


class MSPC(_Clusterer):
    """Maximin separation probability clustering of rows, on disk or in memory: clusters on two sides of hyperplanes.

    Parameters
    ----------
    n_clusters : int
        2; more by splitting the cluster again whose split separates most rows.
    solver : {"mpm", "gep", "eig"}
        "mpm" raises the separation probability itself, "gep" a lower bound of it, in turns with the labels; "eig"
        relaxes the bound and is the first principal axis of standardised columns.
    reg : float or "auto"
        Multiple of the variances that is added to covariances.
    scale : {"standard", "range", "variance", None}
        What centred columns are divided by, for the k-means start.
    max_iter : int
        Labelings after the start at most.
    tol : float
        Share of the rows that may still change sides when a split has converged.
    memory_limit : int or str, optional
        What the process may use, such as ``"1GiB"``.
    n_jobs : int, optional
        Threads; by default all processors that the process may use.
    random_state : int, RandomState or None
        Seed of the k-means start; None draws one, kept as ``seed_``.

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.Result
        Separation probabilities, posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Labelings after the start, of the split that took most.
    n_features_in_ : int

    References
    ----------
    .. [1] Huang, Zhang, Song, Chen, "Maximin separation probability clustering", AAAI 2015.

    Examples
    --------
    >>> from bigsmic import MSPC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> labels = MSPC(random_state=0).fit_predict(X)
    >>> int((labels == labels[0]).sum())
    50
    """

    _method = "mspc"

    def __init__(
        self,
        n_clusters=2,
        *,
        solver="mpm",
        reg=1.0,
        scale="standard",
        max_iter=100,
        tol=1e-5,
        memory_limit=None,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.solver = solver
        self.reg = reg
        self.scale = scale
        self.max_iter = max_iter
        self.tol = tol
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _iterations(self, diagnostics):
        return max((split["n_iter"] for split in diagnostics["splits"]), default=0)


class MWCA(_Clusterer):
    """Clustering by maximum within-cluster association: clusters whose Parzen densities overlap least.

    Parameters
    ----------
    n_clusters : int
    solver : {"gradient", "spectral"}
        Ascent from several starts, or for two clusters the leading eigenvector of the kernel, cut at its mean.
    kernel : {"dense", "graph", "local_scaling"}
        Gaussians between all rows, on the edges of the neighbour graph, or its local-scaling kernel.
    sigma : {"deviation", "quartile", "likelihood"} or float
        Width of the Parzen windows, in the units of the scaled rows.
    direction : {"natural", "gradient"}
        Of the ascent: in the metric of the memberships, or as published.
    n_starts : int
        Starts, of which the best is kept: one from k-means, the others random.
    t, n_neighbors : int
        Neighbours whose edges the graph has, and that are searched.
    bandwidth : float
        Of the local-scaling kernel.
    neighbors : {"auto", "exact", "pynndescent"}
    scale : {"standard", "variance", None}
        What centred columns are divided by.
    max_iter : int
        Products of a start at most.
    tol : float
        Relative gain of a step below which a start has converged.
    memory_limit : int or str, optional
        What the process may use, such as ``"1GiB"``.
    n_jobs : int, optional
        Threads; by default all processors that the process may use.
    random_state : int, RandomState or None
        Seed of the starts; None draws one, kept as ``seed_``.

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.Result
        Association of every start, posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Products that the best start took.
    n_features_in_ : int

    References
    ----------
    .. [1] Lee, Choi, "Maximum within-cluster association", Pattern Recognition Letters 26, 2005.
    """

    _method = "mwca"

    def __init__(
        self,
        n_clusters=2,
        *,
        solver="gradient",
        kernel="dense",
        sigma="deviation",
        direction="natural",
        n_starts=5,
        t=10,
        n_neighbors=20,
        bandwidth=2.0,
        neighbors="auto",
        scale="standard",
        max_iter=100,
        tol=1e-6,
        memory_limit=None,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.solver = solver
        self.kernel = kernel
        self.sigma = sigma
        self.direction = direction
        self.n_starts = n_starts
        self.t = t
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.neighbors = neighbors
        self.scale = scale
        self.max_iter = max_iter
        self.tol = tol
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _iterations(self, diagnostics):
        ascent = diagnostics.get("ascent", {"n_iter": [0], "best": 0})
        return ascent["n_iter"][ascent["best"]]
