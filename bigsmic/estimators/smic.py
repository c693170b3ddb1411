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
    n_clusters : int, sequence of int, or None
        Number of clusters, c. With None, or a range that limits it, ``(least, most)`` or ``range(least, most + 1)``, as
        many as valleys separate. If there are no valleys, all rows are one cluster, with a ConvergenceWarning about the
        evidence, and `result_` has no labels but can be cut.
    {options}

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
        -1 for rows in no cluster, with `noise`.
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    n_clusters_ : int
        Number of clusters, given or found.
    result_ : bigsmic.Result
        Scores, posteriors, diagnostics, and the evidence for the number of clusters (``result_.valleys``).
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
        kernel: Literal["local_scaling", "precomputed"] | str | WeightFunction = "local_scaling",
        normalization: Literal["auto", "symmetric"] | None = "auto",
        metric: Literal["euclidean", "precomputed"] = "euclidean",
        prior: ArrayLike | None = None,
        preset: Preset = None,
        scale: Scale = "auto",
        bandwidth: float = 2.0,
        repair: bool | None = None,
        rotation: Literal["auto", True, False] | None = None,
        neighbors: NeighborSearch = "auto",
        n_neighbors: int = 20,
        n_candidates: int | None = None,
        widths: float | Sequence[float] | Sequence[Sequence[float]] | None = None,
        shrinkage: float | Sequence[float] | None = None,
        valleys: bool = True,
        noise: bool = False,
        trim: Literal["auto", True, False] = "auto",
        n_components: int | None = 50,
        n_centers: int | None = None,
        lsmi_rows: int | None = 200_000,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self._keep(locals())

    def _is_pairwise(self) -> bool:
        return any(isinstance(given, str) and given == "precomputed" for given in (self.metric, self.kernel))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = self._is_pairwise()
        return tags
