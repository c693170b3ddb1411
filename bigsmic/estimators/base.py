"""Base class of the scikit-learn clusterers."""

import numbers
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from bigsmic import registry, resuming
from bigsmic.errors import ConvergenceWarning, InputError
from bigsmic.estimators.scores import lsmi_score
from bigsmic.pipeline import fit
from bigsmic.result import Result
from bigsmic.runtime.options import RunOptions
from bigsmic.settings import Option
from bigsmic.settings.options import documented
from bigsmic.store import Source, in_blocks, is_dask_frame, names_of, refuse_unreadable
from bigsmic.types import Labels, MemoryLimit, Posterior, RandomState, Rows, StrPath
from bigsmic.validation import check_seed, refuse_other_rank
from bigsmic.warning import warn

OF_EVERY_FIT = ("n_clusters", "out", "memory_limit", "n_jobs", "random_state")
"""Parameters of every estimator, whatever its method."""
_DESCRIBED = """
out : str or Path, optional
    Run directory: the same fit resumes there, and the fitted estimator is pickled as the path.
memory_limit : int or str, optional
    Memory that the process may use, such as ``"1GiB"``; by default three quarters of that of the machine.
n_jobs : int, optional
    Threads; by default, and with -1, all processors that the process may use.
random_state : int, RandomState or None
    Seed, 0 to 2**64 - 1; None draws one, kept as ``seed_``, or takes that of a run that is in `out`.
"""
"""Those of them that the docstrings of all estimators describe alike."""
_PLAIN = (bool, numbers.Number, str, tuple)
"""Types of parameters that are compared by value."""


class Clusterer(ClusterMixin, BaseEstimator):
    """A clusterer whose parameters, except those of every fit, are the options of its method.

    A subclass has the method's name, a constructor with the defaults of the method's settings, or None for options that
    follow from others, and :meth:`_take`. In its docstring the mark ``{options}`` is replaced by descriptions of the
    options.
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
            cls.__doc__ = documented(cls.__doc__, _options_of(cls._method), _DESCRIBED)

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Set the parameters of a constructor as attributes, as scikit-learn requires: ``self._keep(locals())``."""
        for name in given.keys() - {"self", "__class__"}:
            setattr(self, name, given[name])

    def fit(self, X: Rows, y: object = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or dataframe, or path, shape (n, d)
            Out-of-core arrays are read in blocks, and never held whole. A graph is a sparse matrix, shape (n, n).
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InputError, PlanError, RunError, StorageError, ClusterError
            As of :func:`bigsmic.fit`. Rows in memory are also checked by scikit-learn, whose errors are ValueError. The
            estimator stays as it was, after any error.

        Warns
        -----
        ConvergenceWarning
            The number of clusters was left open and the rows show none, so that all of them are one cluster.
        """
        return self._fit(X)

    def _fit(self, X: Rows, **side_inputs: Any) -> Self:
        """Cluster the rows of X with side inputs."""
        with self._unchanged_by_errors():
            X = self._rows(X, reset=True)
            self.seed_ = self._seed()
            given = {name: value for name, value in side_inputs.items() if value is not None}
            self.result_ = self._result(X, self.n_clusters, out=self.out, **self._options(), **given)
            self._one_cluster = self._without_answer(X)
            self.labels_ = self._answering.labels
            self.classes_ = np.arange(self._answering.n_clusters or 0)
            self.n_features_in_ = self.result_.diagnostics["columns"]
            self._take(self.result_)
        return self

    @contextmanager
    def _unchanged_by_errors(self) -> Iterator[None]:
        """Context manager after whose errors, interruptions among them, the estimator is what it was before."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _seed(self) -> int:
        """Seed of the fit; if any will do, that of the run in ``out``, which is resumed."""
        stored = None if self.out is None or self.random_state is not None else resuming.seed_of(self.out)
        return seed_of(self.random_state) if stored is None else stored

    def _result(self, X: Any, n_clusters: Any, **options: Any) -> Result:
        """Result of a fit by the method, with the parameters of every fit."""
        place = {"memory_limit": self.memory_limit, **self._place(X)}
        return fit(X, n_clusters, method=self._method, seed=self.seed_, **place, **options)

    def _without_answer(self, X: Any) -> Result | None:
        """A result with a single cluster in place of one without labels, with a warning; None if it has labels."""
        settings: Any = self.result_.settings
        if not (settings.undecided and getattr(settings, "reads_valleys", False)):  # other methods have no valleys
            return None
        found = getattr(self.result_, "valleys", None)
        why = found.sentence if found else "The rows that differ are too few to show valleys: give c."
        warn(f"n_clusters: one cluster has all rows. {why}", ConvergenceWarning)
        return self._result(X, 1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")  # a fit that failed may have set the number of columns, or the seed

    @property
    def _answering(self) -> Result:
        """The result that gives the estimator's labels and predictions."""
        return getattr(self, "_one_cluster", None) or self.result_

    @property
    def n_clusters_(self) -> int:
        """Number of clusters, given or found."""
        check_is_fitted(self, "classes_")
        return len(self.classes_)

    def _take(self, result: Result) -> None:
        """Set the attributes that only some methods have."""

    def _options(self) -> dict[str, Any]:
        """Options that the caller set; others are left out, as reductions of them for few rows need no warning."""
        defaults = type(self)().get_params(deep=False)
        given = self.get_params(deep=False)
        return {
            name: value
            for name, value in given.items()
            if name not in OF_EVERY_FIT and not _same(value, defaults[name])
        }

    def _place(self, X: Any) -> dict[str, Any]:
        """Options of where the fit runs: within a Dask task, rows in memory are fitted in that task."""
        n_threads = threads_of(self.n_jobs)
        if "distributed" in sys.modules and (isinstance(X, np.ndarray) or type(X) is Source):
            from bigsmic.engines.dask import within_task

            if within_task():
                return {"client": False, "n_threads": n_threads or 1}
        return {"n_threads": n_threads}

    def predict(self, X: Rows) -> Labels:
        """Labels of new rows, int32, shape (m,), lazy for a dask array or dataframe: :meth:`bigsmic.Result.predict`.

        NotFittedError before `fit`; ValueError, such as InputError, for rows of other columns, or with NaN.
        """
        check_is_fitted(self)
        return self._answering.predict(self._rows(X, reset=False))

    def predict_proba(self, X: Rows) -> Posterior:
        """Posteriors of new rows, float32, shape (m, c), lazy for a dask array or dataframe.

        The posterior of a row does not depend on the other rows. Errors are those of :meth:`predict`.
        """
        check_is_fitted(self)
        return self._answering.predict_proba(self._rows(X, reset=False))

    def score(self, X: Rows, y: object = None) -> float:
        """Squared-loss mutual information between rows and their predicted labels: larger is better.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or dataframe, or path, shape (m, d)
            At least two rows; if there are more than 10,000, so many are drawn.
        y : ignored

        Returns
        -------
        score : float
            From 0, if labels are independent of the rows, to (c - 1) / 2. It grows with the number of clusters that can
            be separated, so that it compares settings better than numbers of clusters.

        Raises
        ------
        InputError
            X is a graph or a kernel, which has no features.
        """
        check_is_fitted(self)
        if get_tags(self).input_tags.pairwise:
            raise InputError("score: needs features, which precomputed input lacks; give scoring=")
        return lsmi_score(self._answering, self._rows(X, reset=False), self.seed_)

    def _rows(self, X: Any, reset: bool) -> Any:
        """Validate rows in memory, and the names of columns; rows that are read in blocks are validated by the fit.

        Rows in memory keep the names of their columns as a Source.
        """
        if is_dask_frame(X):
            validate_data(self, X._meta, reset=reset, skip_check_array=True)
            return X
        if in_blocks(X):
            if reset:
                self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            return X
        sparse = "csr" if get_tags(self).input_tags.sparse else False
        if not sparse:  # arrays, and objects that scikit-learn refuses with its own messages
            refuse_unreadable(X)
            if getattr(X, "ndim", 2) > 2:  # such as waveforms of several channels; fewer have scikit-learn's text
                refuse_other_rank("input", X.shape)
        names = [] if get_tags(self).input_tags.pairwise else names_of(X)
        rows = validate_data(
            self, X, reset=reset, accept_sparse=sparse, dtype="numeric", ensure_min_samples=2 if reset else 1
        )
        return Source(rows, "array").named(names) if names else rows


def _options_of(method: str) -> dict[str, Option]:
    """Options of a method that are parameters of its estimator; `random_state` is the seed."""
    return {name: option for name, option in registry.settings_of(method).options().items() if name != "seed"}


def seed_of(random_state: RandomState) -> int:
    """Seed for a `random_state`; None, or a generator, draws one."""
    if isinstance(random_state, numbers.Integral):
        check_seed("random_state", random_state)
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def threads_of(n_jobs: int | None) -> int | None:
    """Number of threads for an `n_jobs`: as in scikit-learn, -1 is all processors, -2 all but one."""
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, numbers.Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise InputError(f"n_jobs: got {n_jobs!r}; give a number of threads, -1 for all processors, or None")
    if n_jobs > 0:
        return int(n_jobs)
    return max(1, RunOptions().threads + 1 + int(n_jobs))


def _same(value: object, default: object) -> bool:
    """Whether a parameter has its default value, also after a copy or a pickle."""
    return value is default or (type(value) is type(default) and isinstance(value, _PLAIN) and value == default)
