"""What the scikit-learn clusterers share."""

import numbers

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from bigsmic.pipeline import Place, fit
from bigsmic.store import in_blocks, refuse_unreadable

OF_EVERY_FIT = ("n_clusters", "memory_limit", "n_jobs", "random_state")


class Clusterer(ClusterMixin, BaseEstimator):
    """A clusterer whose parameters, but for those of every fit, are the options of its method by the same names.

    A subclass has the method's name, a constructor with the defaults of the method's settings, or None for what is the
    method's to fill in, and :meth:`_take`.
    """

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
        self.seed_ = seed_of(self.random_state)
        self.result_ = fit(
            X,
            self.n_clusters,
            method=self._method,
            seed=self.seed_,
            memory_limit=self.memory_limit,
            n_threads=threads_of(self.n_jobs),
            **self._options(),
            **{name: value for name, value in beside.items() if value is not None},
        )
        self.labels_ = self.result_.labels
        self.classes_ = np.arange(self.result_.n_clusters)
        self.n_features_in_ = self.result_.diagnostics["columns"]
        self._take(self.result_)
        return self

    def _take(self, result):
        """Set the attributes that not every method has."""

    def _options(self):
        """Options that the caller set: of others, what has to be cut to few rows needs no warning."""
        defaults = type(self)().get_params(deep=False)
        given = self.get_params(deep=False)
        return {
            name: value for name, value in given.items() if value is not defaults[name] and name not in OF_EVERY_FIT
        }

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
        if in_blocks(X):
            return X
        sparse = "csr" if get_tags(self).input_tags.sparse else False
        if not sparse:  # what scikit-learn takes for an array as well as what it refuses in other words
            refuse_unreadable(X)
        return validate_data(
            self, X, reset=reset, accept_sparse=sparse, dtype="numeric", ensure_min_samples=2 if reset else 1
        )


def seed_of(random_state):
    """Seed that a `random_state` stands for; None, or a generator, draws one."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def threads_of(n_jobs):
    """Threads that an `n_jobs` stands for: as in scikit-learn, -1 is all processors, -2 all but one."""
    if not isinstance(n_jobs, numbers.Integral) or int(n_jobs) >= 0:
        return n_jobs
    return max(1, Place().threads + 1 + int(n_jobs))
