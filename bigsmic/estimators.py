"""scikit-learn clusterers on the pipeline."""

import numbers
import os

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bigsmic.pipeline import fit


class SMIC(ClusterMixin, BaseEstimator):
    """Squared-loss mutual information clustering of rows, on disk or in memory.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, c.
    t : tuple of int, optional
        Candidate neighbour numbers of the local-scaling kernel.
    kernel : {"auto", "local_scaling", "normalized", "precomputed"} or callable
        "precomputed": X is a sparse symmetric (n, n) matrix of affinities.
        ``callable(squared_distances, sigma_i, sigma_j) -> weights``, elementwise, symmetric, non-negative.
    metric : {"euclidean", "precomputed"}
        "precomputed": X is a sparse distance graph, as KNeighborsTransformer makes it.
    assignment : {"merge", "rotation", "paper", "auto"}, optional
        How eigenvectors become labels; "merge" unless `prior` or `preset` say otherwise.
    selection : {"consensus", "lsmi", "medoid"}, optional
        What is returned of several labelings.
    prior : array_like of float, shape (c,), optional
        Class prior, positive, sum 1; uniform by default.
    preset : {None, "paper"}
        "paper": as published.
    scale : {"standard", "variance", None}
        Divide the centred columns by their standard deviation, by their variance, or by nothing.
    bandwidth : float
        2 as in SMIC's local scaling, 1 as in self-tuning spectral clustering.
    repair : bool, optional
        Connect the components of the neighbour graph; True unless `preset` says otherwise.
    memory_limit : int or str, optional
        What the process may use, such as ``"1GiB"``.
    n_jobs : int, optional
        Threads; by default all processors that the process may use.
    random_state : int, RandomState or None
        Seed; None draws one, kept as ``seed_``.

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.Result
        Scores, posteriors, diagnostics.
    seed_ : int
    n_features_in_ : int

    See Also
    --------
    bigsmic.fit : The same as a function, for archives in Zarr.

    References
    ----------
    .. [1] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss mutual
       information", Neural Computation 26(1), 2014. doi:10.1162/NECO_a_00534
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        t=None,
        assignment=None,
        selection=None,
        kernel="auto",
        metric="euclidean",
        prior=None,
        preset=None,
        scale="standard",
        bandwidth=2.0,
        repair=None,
        memory_limit=None,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.t = t
        self.assignment = assignment
        self.selection = selection
        self.kernel = kernel
        self.metric = metric
        self.prior = prior
        self.preset = preset
        self.scale = scale
        self.bandwidth = bandwidth
        self.repair = repair
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

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
        X = self._rows(X, reset=True)
        self.seed_ = _seed(self.random_state)
        self.result_ = fit(
            X,
            self.n_clusters,
            seed=self.seed_,
            preset=self.preset,
            memory_limit=self.memory_limit,
            n_threads=self.n_jobs,
            **self._chosen(),
        )
        self.labels_ = self.result_.labels
        self.classes_ = np.arange(self.n_clusters)
        self.n_features_in_ = self.result_.diagnostics["columns"]
        return self

    def _chosen(self):
        """Parameters that the caller set; the others are the preset's to fill in."""
        defaults = type(self)().get_params()
        names = ("t", "assignment", "selection", "kernel", "metric", "prior", "scale", "bandwidth", "repair")
        return {name: value for name in names if (value := getattr(self, name)) is not defaults[name]}

    def predict(self, X):
        """Labels of new rows, int32, shape (m,); see :meth:`bigsmic.Result.predict`."""
        check_is_fitted(self)
        return self.result_.predict(self._rows(X, reset=False))

    def predict_proba(self, X):
        """Posteriors of new rows, float32, shape (m, c); a row's do not depend on the other rows."""
        check_is_fitted(self)
        return self.result_.predict_proba(self._rows(X, reset=False))

    def _rows(self, X, reset):
        """Validate what is in memory; leave alone what is read in blocks, which the pipeline checks."""
        if isinstance(X, str | os.PathLike) or hasattr(X, "nchunks_initialized") or hasattr(X, "dask"):
            return X
        sparse = "csr" if self._is_pairwise() else False
        return validate_data(
            self, X, reset=reset, accept_sparse=sparse, dtype="numeric", ensure_min_samples=2 if reset else 1
        )

    def _is_pairwise(self):
        return "precomputed" in (self.metric, self.kernel if isinstance(self.kernel, str) else None)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = self._is_pairwise()
        return tags


def _seed(random_state):
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
