"""scikit-learn clusterer by regularized information maximization."""

import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from bigsmic import registry
from bigsmic.errors import InputError
from bigsmic.estimators.base import Clusterer, seed_of
from bigsmic.estimators.rim_stream import Stream, prior_of
from bigsmic.estimators.scores import blocks, objective_score, refuse_other_columns
from bigsmic.methods.rim.result import Result
from bigsmic.methods.rim.side_inputs import checked_side_inputs
from bigsmic.numerics.objectives.rim.adam import Aim
from bigsmic.settings.rim import Settings
from bigsmic.stages import columns
from bigsmic.store import in_blocks, open_source, refuse_unreadable, shown
from bigsmic.types import Labels, MemoryLimit, Posterior, RandomState, Rows, Scale, StrPath

if TYPE_CHECKING:
    import pandas as pd

FAR = 1e300  # largest logit of a row whose logits overflow


class RIM(Clusterer):
    """Regularized information maximization with a linear classifier: clusters of rows, on disk, in memory or streamed.

    Parameters
    ----------
    n_clusters : int, optional
        The strength of the penalty is searched for at which so many categories stay alive. None: as many as stay alive
        at `reg`.
    {options}

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
        Of the fitted rows; of the last chunk after `partial_fit`.
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    coef_ : ndarray of float64, shape (c, d)
        Weights on the unscaled columns.
    intercept_ : ndarray of float64, shape (c,)
    marginal_ : ndarray of float64, shape (c,)
        Mean posterior.
    path_ : pandas.DataFrame
        Strengths that were tried: ``reg``, categories ``alive``, ``objective``, ``lsmi``. After `fit` only.
    result_ : bigsmic.Result
        Further results: the least certain rows, means and spreads, diagnostics. After `fit` only.
    n_iter_ : int
        Number of strengths that were tried; after `partial_fit`, number of chunks.
    seed_ : int
    n_features_in_ : int

    References
    ----------
    .. [1] Gomes, Krause, Perona, "Discriminative clustering by regularized information maximization", NIPS 2010.

    Examples
    --------
    >>> from bigsmic import RIM
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> RIM(3, random_state=0).fit(X).coef_.shape
    (3, 13)
    """

    _method = "rim"

    result_: Result
    _stream: Stream | None

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        reg: float | str | None = None,
        solver: Literal["auto", "minibatch", "lbfgs"] = "auto",
        n_init_categories: int | None = None,
        prior: ArrayLike | Literal["power"] | None = None,
        tau: float = 1.0,
        scale: Scale = "standard",
        batch_size: int = 2048,
        learning_rate: float = 0.3,
        n_epochs: int | None = None,
        max_iter: int = 200,
        polish: int = 0,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self._keep(locals())

    def fit(
        self, X: Rows, y: object = None, *, labels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or dataframe, or path, shape (n, d)
            Out-of-core arrays are read in blocks, and never held whole.
        y : ignored
        labels : array_like of int, shape (n,), optional
            Known categories 0, 1, ..; -1 for unknown. They are clusters of the same numbers.
        sample_weight : array_like of float, shape (n,), optional
            At least 0.

        Returns
        -------
        self
        """
        return self._fit(X, labels=labels, sample_weight=sample_weight)

    def _take(self, result: Any) -> None:
        self.n_iter_ = max(1, len(result.diagnostics["path"]))
        self._classify_by(result.coef, result.intercept, result.marginal)
        self._stream = None

    def partial_fit(
        self, X: ArrayLike, y: object = None, *, labels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Continue learning from a chunk of rows.

        The scaling and the categories are those of the first chunk, which should have thousands of rows of every kind.
        Later ones may be small, even single rows: those with fewer rows than a batch are learned in shorter steps.
        There are `n_clusters` categories from the start, and no strength is searched for: it is `reg`, or 4 over the
        number of rows seen.

        Parameters
        ----------
        X : array_like, shape (m, d)
        y : ignored
        labels, sample_weight
            As in `fit`, for these rows.

        Returns
        -------
        self

        Raises
        ------
        InputError
            The chunk cannot be used, such as for labels of more categories than there are, or a first chunk of fewer
            rows than clusters. The estimator stays as it was, after any error.
        """
        with self._unchanged_by_errors(), np.errstate(under="ignore"):
            self._learn(X, {"labels": labels, "sample_weight": sample_weight})
        return self

    def _learn(self, X: ArrayLike, given: Mapping[str, ArrayLike | None]) -> None:
        stream: Any = getattr(self, "_stream", None)
        first = stream is None
        _refuse_paths(X)
        rows = self._in_memory(X, reset=first)
        side_inputs = checked_side_inputs(
            {name: array for name, array in given.items() if array is not None}, len(rows)
        )
        if first:
            self.seed_ = seed_of(self.random_state)
            stream = Stream(self._settings())
            self.n_iter_ = 0
            self.__dict__.pop("result_", None)  # of an earlier fit
        self._stream = stream = replace(stream)
        stream.learn(rows, side_inputs.get("labels"), side_inputs.get("sample_weight"))
        coef, intercept = stream.classifier
        self._classify_by(coef, intercept, stream.memory.marginal)
        self.labels_ = LinearClassifier(coef, intercept).predict(rows)
        self.n_iter_ += 1

    def _settings(self) -> Settings:
        given = {"seed": self.seed_, **self._options()}
        settings: Settings = registry.settings(self._method, self.n_clusters, given)
        if settings.reg == "lsmi":
            raise InputError("partial_fit: reg='lsmi' needs all rows; give a number, or a share such as '4/N'")
        return settings

    def _classify_by(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64], marginal: NDArray[np.float64]
    ) -> None:
        self.coef_, self.intercept_, self.marginal_ = coef, intercept, marginal
        self.classes_ = np.arange(len(intercept))

    @property
    def path_(self) -> "pd.DataFrame":
        """Strengths that were tried."""
        check_is_fitted(
            self, "result_", msg="path_: %(name)s has one after fit, partial_fit tries no strengths; call fit"
        )
        path: pd.DataFrame = self.result_.path
        return path

    @property
    def _names(self) -> list[str]:
        """Names of the columns of the fitted rows, or of the first chunk; empty if they have none."""
        if hasattr(self, "feature_names_in_"):
            return list(self.feature_names_in_)
        return columns.read(self.result_._context.run) if hasattr(self, "result_") else []

    def decision_function(self, X: Rows) -> NDArray[np.float64] | Any:
        """Logits ``X @ coef_.T + intercept_``, float64, shape (m, c), lazy for a dask array or dataframe."""
        check_is_fitted(self)
        return self._classify("decision_function", X, np.float64, len(self.classes_))

    def predict(self, X: Rows) -> Labels:
        """Labels of new rows, int32, shape (m,)."""
        check_is_fitted(self)
        if getattr(self, "_stream", None) is None:
            return super().predict(X)
        return self._classify("predict", X, np.int32)

    def predict_proba(self, X: Rows) -> Posterior:
        """Posteriors of new rows, float32, shape (m, c)."""
        check_is_fitted(self)
        if getattr(self, "_stream", None) is None:
            return super().predict_proba(X)
        return self._classify("predict_proba", X, np.float32, len(self.classes_))

    def _classify(self, method: str, X: Any, dtype: DTypeLike, width: int | None = None) -> Any:
        """Results of a method of the classifier for rows: as an array, or lazy for a dask array or dataframe."""
        classifier = LinearClassifier(self.coef_, self.intercept_)
        if not in_blocks(X):
            return getattr(classifier, method)(self._in_memory(X, reset=False))
        if not hasattr(X, "dask"):
            return np.concatenate([getattr(classifier, method)(rows) for rows in self._in_blocks(X, method)])
        from bigsmic.lazy import Answer, Lazily, rows_of

        lazily = Lazily(classifier, self.n_features_in_, f"bigsmic-logits-{uuid.uuid4().hex}")
        return lazily(method, rows_of(self._rows(X, reset=False), lengths=False), Answer(dtype, width))

    def _in_memory(self, X: Any, reset: bool) -> NDArray[Any]:
        """Rows in memory, refused as by `fit`: scikit-learn takes masked entries, and times, for numbers."""
        refuse_unreadable(X)
        rows: NDArray[Any] = validate_data(self, X, reset=reset, dtype="numeric", ensure_min_samples=2 if reset else 1)
        if rows.dtype.kind not in "fiub":
            raise InputError(f"input: dtype {rows.dtype} is not real or integer; convert the array to a numeric dtype")
        return rows

    def _in_blocks(self, X: Any, who: str) -> Iterator[NDArray[Any]]:
        """Rows that are not in memory, block by block, after none; `who` is the method that asks, for messages."""
        source = open_source(X)
        refuse_other_columns(source, self.n_features_in_, who)
        columns.refuse_other_names(self._names, source.column_names, who)
        yield np.empty((0, self.n_features_in_))
        for _, rows in blocks(source, who):
            yield rows

    def score(self, X: Rows, y: object = None) -> float:
        """Objective of RIM on X: information minus penalty, in nats; larger is better.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or dataframe, or path, shape (m, d)
            Read in blocks.
        y : ignored

        Returns
        -------
        score : float
            Mutual information between rows and clusters, or its equivalent under `prior`, minus ``reg |W|^2``. For the
            fitted rows, without labels and weights, it equals ``result_.diagnostics["objective"]``.
        """
        check_is_fitted(self)
        stream = getattr(self, "_stream", None)
        classifier, reg, settings = (
            (self.result_.classifier, self.result_.diagnostics["reg"], self.result_.settings)
            if stream is None
            else ((stream.state.model, stream.scaler), stream.reg(stream.n_seen), stream.settings)
        )
        aim = Aim(reg, prior_of(settings), settings.tau)
        return objective_score(classifier, aim, self._rows(X, reset=False))


def _refuse_paths(X: Any) -> None:
    """Refuse an archive by its location, which `fit` reads in blocks: a chunk is in memory."""
    if isinstance(X, str | os.PathLike):
        raise InputError(
            f"partial_fit: got the path {shown(X)!r}, and learns from chunks in memory; give rows of it, such as "
            "zarr.open_array(path)[:10_000], or call fit, which reads a path in blocks"
        )


@dataclass(frozen=True)
class LinearClassifier:
    """A linear classifier of unscaled rows.

    Parameters
    ----------
    coef : ndarray of float64, shape (c, d)
    intercept : ndarray of float64, shape (c,)
    """

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def decision_function(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Logits, float64, shape (m, c). Where they overflow, those of a nearer row in the same direction."""
        X = X.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            found: NDArray[np.float64] = X @ self.coef.T + self.intercept
        far = ~np.isfinite(found).all(axis=1)
        if far.any():
            units = X[far] / np.abs(X[far]).max(axis=1, keepdims=True) @ (self.coef / np.abs(self.coef).max()).T
            found[far] = units / np.abs(units).max(axis=1, keepdims=True) * FAR
        return found

    def predict(self, X: NDArray[Any]) -> NDArray[np.int32]:
        """Labels, int32, shape (m,)."""
        labels: NDArray[np.int32] = self.decision_function(X).argmax(axis=1).astype(np.int32)
        return labels

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Posteriors, float32, shape (m, c)."""
        with np.errstate(under="ignore"):
            posterior: NDArray[np.float32] = softmax(self.decision_function(X), axis=1).astype(np.float32)
        return posterior
