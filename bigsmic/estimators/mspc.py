"""scikit-learn clusterer by MSPC."""

from typing import Literal

from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.types import MemoryLimit, RandomState, Scale, StrPath


class MSPC(Clusterer):
    """Maximin separation probability clustering of rows, on disk or in memory: clusters on both sides of hyperplanes.

    Parameters
    ----------
    n_clusters : int
        2, or more by repeatedly splitting the cluster whose split separates most rows.
    {options}

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.Result
        Separation probabilities, posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Largest number of labelings after the start of any split.
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
        n_clusters: int = 2,
        *,
        solver: Literal["mpm", "gep", "eig"] = "mpm",
        reg: float | Literal["auto"] = 1.0,
        scale: Scale | Literal["range"] = "standard",
        max_iter: int = 100,
        tol: float = 1e-5,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self._keep(locals())

    def _take(self, result: Result) -> None:
        self.n_iter_ = max((split["n_iter"] for split in result.diagnostics["splits"]), default=0)
