"""scikit-learn clusterer by regularized information maximization with a kernel."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

from numpy.typing import ArrayLike
from sklearn.utils import Tags

from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.types import MemoryLimit, RandomState, Rows, Scale, StrPath


class KernelRIM(Clusterer):
    """Regularized information maximization with a kernel: clusters of rows, on disk or in memory.

    Linear RIM on features of the kernel, computed from the rows when they are read; with "local_scaling", on the sparse
    kernel of the neighbour graph.

    Parameters
    ----------
    n_clusters : int, optional
        The strength of the penalty is searched for at which so many categories stay alive. None: as many as stay alive
        at `reg`.
    {options}

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.Result
        Posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Number of strengths that were tried; with "local_scaling", iterations.
    n_features_in_ : int

    See Also
    --------
    MIC : The neighbour graph, with a choice of its neighbour number.

    References
    ----------
    .. [1] Gomes, Krause, Perona, "Discriminative clustering by regularized information maximization", NIPS 2010.

    Examples
    --------
    >>> from bigsmic import KernelRIM
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> KernelRIM(3, random_state=0).fit(X).predict_proba(X[:5]).shape
    (5, 3)
    """

    _method = "kernel_rim"

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        length_scale: float | None = None,
        approximation: Literal["nystrom", "fourier"] = "nystrom",
        n_components: int = 256,
        t: int | Sequence[int] = 7,
        bandwidth: float = 2.0,
        reg: float | str | None = None,
        solver: Literal["auto", "minibatch", "lbfgs"] = "auto",
        n_init_categories: int | None = None,
        prior: ArrayLike | Literal["power"] | None = None,
        tau: float = 1.0,
        scale: Scale = "auto",
        max_iter: int = 200,
        batch_size: int = 2048,
        learning_rate: float = 0.3,
        n_epochs: int | None = None,
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
            Known categories 0, 1, ..; -1 for unknown. They are clusters of the same numbers. Not with "local_scaling".
        sample_weight : array_like of float, shape (n,), optional
            At least 0. Not with "local_scaling".

        Returns
        -------
        self
        """
        return self._fit(X, labels=labels, sample_weight=sample_weight)

    def _take(self, result: Result) -> None:
        chosen = [found["n_iter"] for found in result.diagnostics.get("ascents", []) if found["chosen"]]
        self.n_iter_ = chosen[0] if chosen else max(1, len(result.diagnostics.get("path", [])))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags
