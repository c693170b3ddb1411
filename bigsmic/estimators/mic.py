"""scikit-learn clusterer by MIC."""

from collections.abc import Sequence

from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.types import MemoryLimit, NeighborSearch, Preset, RandomState, Scale, StrPath


class MIC(Clusterer):
    """Mutual information clustering of rows, on disk or in memory: kernel RIM on the neighbour graph.

    Starts from self-tuning spectral clustering, ascends for every neighbour number, and takes the one whose labels have
    the largest maximum-likelihood mutual information with the rows.

    Parameters
    ----------
    n_clusters : int
        Number of clusters; some are left without rows where `reg` is large, which is warned of.
    t : int or sequence of int, optional
        Neighbour numbers of the local-scaling kernel; (3, 5, 7, 10), with the preset 1..10.
    start_t : int
        Neighbour number of the spectral start.
    reg : float
        Weight k of the penalty ``k/n sum |a|^2`` on the kernel's coefficients.
    preset : {None, "paper"}
        "paper": t = 1..10, and MLMI's widths from .01 to 100.
    scale : {"standard", "variance", None}
        Divide the centred columns by their standard deviation, by their variance, or by nothing.
    bandwidth : float
        2 as in SMIC's local scaling, 1 as in self-tuning spectral clustering.
    max_iter : int
        Iterations of an ascent at most.
    tol : float
        Nats per row that two iterations in a row must gain to go on.
    repair : bool
        Connect the components of the neighbour graph.
    neighbors : {"auto", "exact", "pynndescent"}
        Search inside the cells into which the rows are cut.
    n_neighbors : int
        Neighbours kept per row; at least the largest t.
    n_centers : int
        Gaussians of the MLMI estimate.
    mlmi_rows : int or None
        Rows whose likelihood is maximised; None for all.
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
        Scores of the neighbour numbers, posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Iterations of the ascent that was chosen.
    n_features_in_ : int

    See Also
    --------
    bigsmic.mlmi : The criterion alone.

    References
    ----------
    .. [1] Gomes, Krause, Perona, "Discriminative clustering by regularized information maximization", NIPS 2010.
    .. [2] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss mutual
       information", Neural Computation 26(1), 2014, section 3.8. doi:10.1162/NECO_a_00534

    Examples
    --------
    >>> from bigsmic import MIC
    >>> from bigsmic.datasets import double_spirals
    >>> X, y = double_spirals(seed=1)
    >>> labels = MIC(2, random_state=0).fit_predict(X)
    >>> bool(((labels == labels[0]) == (y == y[0])).all())
    True
    """

    _method = "mic"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        t: int | Sequence[int] | None = None,
        start_t: int = 7,
        reg: float = 0.5,
        preset: Preset = None,
        scale: Scale = "standard",
        bandwidth: float = 2.0,
        max_iter: int = 200,
        tol: float = 1e-6,
        repair: bool = True,
        neighbors: NeighborSearch = "auto",
        n_neighbors: int = 20,
        n_centers: int = 200,
        mlmi_rows: int | None = 20_000,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.t = t
        self.start_t = start_t
        self.reg = reg
        self.preset = preset
        self.scale = scale
        self.bandwidth = bandwidth
        self.max_iter = max_iter
        self.tol = tol
        self.repair = repair
        self.neighbors = neighbors
        self.n_neighbors = n_neighbors
        self.n_centers = n_centers
        self.mlmi_rows = mlmi_rows
        self.out = out
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _take(self, result: Result) -> None:
        ascents = result.diagnostics.get("ascents", [])
        self.n_iter_ = max((found["n_iter"] for found in ascents if found["chosen"]), default=0)
