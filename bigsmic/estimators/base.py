"""What the scikit-learn clusterers share."""

import numbers
import sys
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from bigsmic import registry
from bigsmic.errors import InputError
from bigsmic.estimators.scores import lsmi_score
from bigsmic.pipeline import fit
from bigsmic.result import Result
from bigsmic.runtime.options import RunOptions
from bigsmic.settings import Option
from bigsmic.settings.options import documented
from bigsmic.store import in_blocks, refuse_unreadable
from bigsmic.types import Labels, MemoryLimit, Posterior, RandomState, Rows, StrPath

OF_EVERY_FIT = ("n_clusters", "out", "memory_limit", "n_jobs", "random_state")
_OF_EVERY_FIT = """
out : str or Path, optional
    Run directory: the same fit resumes there, and the fitted estimator is pickled as the path.
memory_limit : int or str, optional
    What the process may use, such as ``"1GiB"``.
n_jobs : int, optional
    Threads; by default all processors that the process may use, as -1 says.
random_state : int, RandomState or None
    Seed; None draws one, kept as ``seed_``.
"""


class Clusterer(ClusterMixin, BaseEstimator):
    """A clusterer whose parameters, but for those of every fit, are the options of its method by the same names.

    A subclass has the method's name, a constructor with the defaults of the method's settings, or None for what follows
    from others, and :meth:`_take`. Its docstring has the mark ``{options}`` where the options are described.
    """

    _method: str

    n_clusters: Any
    out: StrPath | None
    memory_limit: MemoryLimit
    n_jobs: int | None
    random_state: RandomState
    result_: Result

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "_method" in vars(cls) and cls.__doc__:
            cls.__doc__ = documented(cls.__doc__, _options_of(cls._method), _OF_EVERY_FIT)

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Set the parameters of a constructor as attributes, as scikit-learn wants them: ``self._keep(locals())``."""
        for name in given.keys() - {"self", "__class__"}:
            setattr(self, name, given[name])

    def fit(self, X: Rows, y: object = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or dataframe, or path, shape (n, d)
            Arrays out of core are read in blocks and never held.
        y : ignored

        Returns
        -------
        self
        """
        return self._fit(X)

    def _fit(self, X: Rows, **side_inputs: Any) -> Self:
        """Cluster the rows of X, with what came beside them."""
        X = self._rows(X, reset=True)
        self.seed_ = seed_of(self.random_state)
        given = {name: value for name, value in side_inputs.items() if value is not None}
        self.result_ = self._result(X, self.n_clusters, out=self.out, **self._options(), **given)
        self._one_cluster = self._without_answer(X)
        self.labels_ = self._answering.labels
        self.classes_ = np.arange(self._answering.n_clusters)
        self.n_features_in_ = self.result_.diagnostics["columns"]
        self._take(self.result_)
        return self

    def _result(self, X: Any, n_clusters: Any, **options: Any) -> Result:
        """Result of a fit by the method, where and with what memory the caller wants it."""
        place = {"memory_limit": self.memory_limit, **self._place(X)}
        return fit(X, n_clusters, method=self._method, seed=self.seed_, **place, **options)

    def _without_answer(self, X: Any) -> Result | None:
        """What answers in the place of a result without labels; None where it has some."""
        return None

    @property
    def _answering(self) -> Result:
        """The result whose labels and predictions are the estimator's."""
        return getattr(self, "_one_cluster", None) or self.result_

    @property
    def n_clusters_(self) -> int:
        """Number of clusters, given or found."""
        check_is_fitted(self, "classes_")
        return len(self.classes_)

    def _take(self, result: Result) -> None:
        """Set the attributes that not every method has."""

    def _options(self) -> dict[str, Any]:
        """Options that the caller set: of others, what has to be cut to few rows needs no warning."""
        defaults = type(self)().get_params(deep=False)
        given = self.get_params(deep=False)
        return {
            name: value
            for name, value in given.items()
            if name not in OF_EVERY_FIT and not _same(value, defaults[name])
        }

    def _place(self, X: Any) -> dict[str, Any]:
        """Where the fit runs: within a task of Dask, rows in memory are fitted there, without asking for more tasks."""
        n_threads = threads_of(self.n_jobs)
        if "distributed" in sys.modules and isinstance(X, np.ndarray):
            from bigsmic.engines.dask import within_task

            if within_task():
                return {"client": False, "n_threads": n_threads or 1}
        return {"n_threads": n_threads}

    def predict(self, X: Rows) -> Labels:
        """Labels of new rows, int32, shape (m,), lazy for a dask array; see :meth:`bigsmic.Result.predict`."""
        check_is_fitted(self)
        return self._answering.predict(self._rows(X, reset=False))

    def predict_proba(self, X: Rows) -> Posterior:
        """Posteriors of new rows, float32, shape (m, c); a row's do not depend on the other rows."""
        check_is_fitted(self)
        return self._answering.predict_proba(self._rows(X, reset=False))

    def score(self, X: Rows, y: object = None) -> float:
        """Squared-loss mutual information between rows and their predicted labels: larger is better.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or dataframe, or path, shape (m, d)
            At least two rows; of more than 10,000, so many are drawn.
        y : ignored

        Returns
        -------
        score : float
            0 where labels say nothing of the rows, up to (c - 1) / 2; it grows with the number of clusters that can be
            told apart, so that it compares settings better than numbers of clusters.

        Raises
        ------
        InputError
            X is a graph or a kernel, which has no features.
        """
        check_is_fitted(self)
        if get_tags(self).input_tags.pairwise:
            raise InputError("score: needs features, which what is precomputed has not; give scoring=")
        return lsmi_score(self._answering, self._rows(X, reset=False), self.seed_)

    def _rows(self, X: Any, reset: bool) -> Any:
        """Validate what is in memory; leave alone what is read in blocks, which the pipeline checks."""
        if hasattr(X, "dask"):
            from bigsmic.lazy import rows_of

            return rows_of(X, lengths=reset)
        if in_blocks(X):
            return X
        sparse = "csr" if get_tags(self).input_tags.sparse else False
        if not sparse:  # what scikit-learn takes for an array as well as what it refuses in other words
            refuse_unreadable(X)
        return validate_data(
            self, X, reset=reset, accept_sparse=sparse, dtype="numeric", ensure_min_samples=2 if reset else 1
        )


def _options_of(method: str) -> dict[str, Option]:
    """Options of a method that are parameters of its estimator; `random_state` is the seed."""
    return {name: option for name, option in registry.settings_of(method).options().items() if name != "seed"}


def seed_of(random_state: RandomState) -> int:
    """Seed that a `random_state` stands for; None, or a generator, draws one."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def threads_of(n_jobs: int | None) -> int | None:
    """Threads that an `n_jobs` stands for: as in scikit-learn, -1 is all processors, -2 all but one."""
    if not isinstance(n_jobs, numbers.Integral) or int(n_jobs) >= 0:
        return n_jobs
    return max(1, RunOptions().threads + 1 + int(n_jobs))


def _same(value: object, default: object) -> bool:
    """Whether a parameter has its default, also after a copy or a pickle has made another object of it."""
    return value is default or (type(value) is type(default) and isinstance(value, _PLAIN) and value == default)


_PLAIN = (bool, numbers.Number, str, tuple)
