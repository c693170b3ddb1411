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
    out : str or Path, optional
        Run directory: the same fit resumes there, and the fitted estimator is pickled as the path.
    memory_limit : int or str, optional
        What the process may use, such as ``"1GiB"``.
    n_jobs : int, optional
        Threads; by default all processors that the process may use, as -1 says.
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
        scale: Scale = "standard",
        max_iter: int = 100,
        tol: float = 1e-6,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
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
        self.out = out
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _take(self, result: Result) -> None:
        ascent = result.diagnostics.get("ascent", {"n_iter": [0], "best": 0})
        self.n_iter_ = ascent["n_iter"][ascent["best"]]
