"""scikit-learn clusterer by SMIC, the default method."""

from collections.abc import Sequence
from typing import Literal

from numpy.typing import ArrayLike
from sklearn.utils import Tags

from bigsmic.estimators.base import Clusterer
from bigsmic.types import MemoryLimit, NeighborSearch, Preset, RandomState, Scale, StrPath, WeightFunction


class SMIC(Clusterer):
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
    rotation : {None, "auto", True, False}
        Short for assignment "auto", "rotation" and "paper".
    neighbors : {"auto", "exact", "pynndescent"}
        Search inside the cells into which the rows are cut.
    n_neighbors : int
        Neighbours kept per row; at least the largest t.
    widths : sequence of float, or of several such, optional
        Columns of the over-segmented labelings, in multiples of c.
    shrinkage : float or sequence of float, optional
        How far the degrees that normalise the kernel are drawn to their mean, from 0 to 1.
    n_centers : int, optional
        Gaussians of the LSMI estimate.
    lsmi_rows : int or None
        Rows on which LSMI is estimated; None for all.
    out : str or Path, optional
        Run directory: the same fit resumes there, and the fitted estimator is pickled as the path.
    memory_limit : int or str, optional
        What the process may use, such as ``"1GiB"``.
    n_jobs : int, optional
        Threads; by default all processors that the process may use, as -1 says.
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

    _method = "smic"

    def __init__(
        self,
        n_clusters: int | Sequence[int] | None = 8,
        *,
        t: int | Sequence[int] | None = None,
        assignment: Literal["merge", "rotation", "paper", "auto"] | None = None,
        selection: Literal["consensus", "lsmi", "medoid"] | None = None,
        kernel: Literal["auto", "local_scaling", "normalized", "precomputed"] | WeightFunction = "auto",
        metric: Literal["euclidean", "precomputed"] = "euclidean",
        prior: ArrayLike | None = None,
        preset: Preset = None,
        scale: Scale = "standard",
        bandwidth: float = 2.0,
        repair: bool | None = None,
        rotation: Literal["auto", True, False] | None = None,
        neighbors: NeighborSearch = "auto",
        n_neighbors: int = 20,
        widths: float | Sequence[float] | Sequence[Sequence[float]] | None = None,
        shrinkage: float | Sequence[float] | None = None,
        n_centers: int | None = None,
        lsmi_rows: int | None = 200_000,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
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
        self.rotation = rotation
        self.neighbors = neighbors
        self.n_neighbors = n_neighbors
        self.widths = widths
        self.shrinkage = shrinkage
        self.n_centers = n_centers
        self.lsmi_rows = lsmi_rows
        self.out = out
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _is_pairwise(self) -> bool:
        return "precomputed" in (self.metric, self.kernel if isinstance(self.kernel, str) else None)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = self._is_pairwise()
        return tags
