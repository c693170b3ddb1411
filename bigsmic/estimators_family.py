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
        options = self.get_params(deep=False)
        c, limit, threads = (options.pop(name) for name in ("n_clusters", "memory_limit", "n_jobs"))
        options |= beside
        del options["random_state"]
        self.result_ = fit(X, c, method=self._method, seed=self.seed_, memory_limit=limit, n_threads=threads, **options)
        self.labels_ = self.result_.labels
        self.classes_ = np.arange(self.result_.n_clusters)
        self.n_features_in_ = self.result_.diagnostics["columns"]
        self.n_iter_ = self._iterations(self.result_.diagnostics)
        return self

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

    def __init__(  # noqa: PLR0913
        self,
        n_clusters=2,
        *,
        solver="mpm",
        reg=1.0,
        scale="standard",
        max_iter=100,
        memory_limit=None,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.solver = solver
        self.reg = reg
        self.scale = scale
        self.max_iter = max_iter
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _iterations(self, diagnostics):
        return max((split["n_iter"] for split in diagnostics["splits"]), default=0)
