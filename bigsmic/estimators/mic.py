"""scikit-learn clusterer by MIC."""

from collections.abc import Sequence

from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.types import MemoryLimit, NeighborSearch, Preset, RandomState, Scale, StrPath


class MIC(Clusterer):
    """Mutual information clustering of rows, on disk or in memory: kernel RIM on the neighbour graph.

    Starts from self-tuning spectral clustering, ascends for every neighbour number, and chooses the one whose labels
    have the largest maximum-likelihood mutual information with the rows.

    Parameters
    ----------
    n_clusters : int
        Number of clusters; some may have no rows if `reg` is large, which gives a warning.
    {options}

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.Result
        Scores of the neighbour numbers, posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Iterations of the chosen ascent.
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
        scale: Scale = "auto",
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
        self._keep(locals())

    def _take(self, result: Result) -> None:
        ascents = result.diagnostics.get("ascents", [])
        self.n_iter_ = max((found["n_iter"] for found in ascents if found["chosen"]), default=0)
