"""scikit-learn clusterer by MWCA."""

from typing import Literal

from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.types import MemoryLimit, NeighborSearch, RandomState, Scale, StrPath


class MWCA(Clusterer):
    """Clustering by maximum within-cluster association: clusters whose Parzen densities overlap least.

    Parameters
    ----------
    n_clusters : int
        Number of clusters; 2 with the solver "spectral".
    {options}

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.Result
        Association of every start, posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Number of products of the best start.
    n_features_in_ : int

    References
    ----------
    .. [1] Lee, Choi, "Maximum within-cluster association", Pattern Recognition Letters 26, 2005.
    """

    _method = "mwca"

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        solver: Literal["gradient", "spectral"] = "gradient",
        kernel: Literal["dense", "graph", "local_scaling"] = "dense",
        sigma: float | Literal["deviation", "quartile", "likelihood"] = "deviation",
        direction: Literal["natural", "gradient"] = "natural",
        n_starts: int = 5,
        t: int = 10,
        n_neighbors: int = 20,
        bandwidth: float = 2.0,
        neighbors: NeighborSearch = "auto",
        scale: Scale = "auto",
        max_iter: int = 100,
        tol: float = 1e-6,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self._keep(locals())

    def _take(self, result: Result) -> None:
        ascent = result.diagnostics.get("ascent", {"n_iter": [0], "best": 0})
        self.n_iter_ = ascent["n_iter"][ascent["best"]]
