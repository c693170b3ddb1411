"""Settings of MIC."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bigsmic.settings import sequences, smic
from bigsmic.settings.base import MethodSettings
from bigsmic.settings.options import COUNT_OR_ALL, FROM_ZERO, INTEGER, INTEGERS, POSITIVE, option
from bigsmic.validation import check_clusters

GRID = (3, 5, 7, 10)
PAPER_GRID = tuple(range(1, 11))


@dataclass(frozen=True)
class Settings(MethodSettings):
    """Settings of a fit by MIC; some of ``n_clusters`` may have no rows if ``reg`` is large."""

    method: ClassVar[str] = "mic"
    home: ClassVar[str | None] = "bigsmic.methods.mic"

    n_clusters: int
    t: Any = option(
        None,
        INTEGERS,
        help="Neighbour numbers of the kernel, among which MLMI chooses. By default (3, 5, 7, 10), with the preset "
        "1..10.",
    )
    start_t: int = option(7, INTEGER, least=1, help="Neighbour number of the spectral start.")
    reg: float = option(
        0.5,
        POSITIVE,
        help="""Weight k of the penalty ``k/n sum |a|^2`` on the kernel's coefficients. Categories become empty if it is
        large: from about 1 at t = 2, from 4 at t = 10.""",
    )
    preset: str | None = option(
        None,
        choices=(None, "paper"),
        help="""Settings as published. "paper": t = 1..10, widths of MLMI from .01 to 100, for standardised rows.""",
    )
    scale: str | None = option("auto", choices=smic.SCALES, help=smic.SCALE_HELP + smic.PAPER_SCALE)
    bandwidth: float = option(2.0, POSITIVE, help=smic.BANDWIDTH_HELP + " That of the start is 1.")
    repair: bool = option(
        True,
        choices=(True, False),
        help="Connect the components of the neighbour graph. Without it the start is arbitrary if there are many.",
    )
    neighbors: str = option("auto", choices=("auto", "exact", "pynndescent"), help=smic.NEIGHBORS_HELP)
    n_neighbors: int = option(smic.MIN_NEIGHBORS, INTEGER, least=1, help=smic.N_NEIGHBORS_HELP)
    n_centers: int = option(200, INTEGER, least=1, help="Gaussians of the MLMI estimate.")
    mlmi_rows: int | None = option(
        20_000,
        COUNT_OR_ALL,
        least=2,
        optional=True,
        help="Rows whose likelihood MLMI maximises: a number or all. Drawn by hash; None for all.",
    )
    max_iter: int = option(200, INTEGER, least=1, help="Largest number of iterations of an ascent.")
    tol: float = option(1e-6, FROM_ZERO, help="Nats per row that two successive iterations must gain to continue.")
    seed: int = option(0, INTEGER, help=smic.SEED_HELP)

    def __post_init__(self) -> None:
        check_clusters(self.n_clusters)
        super().__post_init__()
        sequences.check_neighbor_number("start_t", self.start_t)
        if self.t is None:
            object.__setattr__(self, "t", PAPER_GRID if self.preset == "paper" else GRID)
        graph = self.of_graph(t=self.t)
        for name in ("t", "scale"):
            object.__setattr__(self, name, getattr(graph, name))
        _ = self.graph

    def of_graph(self, **changes: Any) -> smic.Settings:
        """Settings of the stages shared with SMIC."""
        names = (
            "n_clusters",
            "preset",
            "scale",
            "bandwidth",
            "repair",
            "neighbors",
            "n_neighbors",
            "n_centers",
            "seed",
        )
        given = {name: getattr(self, name) for name in names} | {"n_candidates": self.n_neighbors} | changes
        return smic.Settings(
            normalization=None, assignment="rotation", selection="consensus", n_components=None, **given
        )

    @property
    def graph(self) -> smic.Settings:
        """Settings of the neighbour graph: the start's t first, then those of the ascents."""
        return self.of_graph(t=tuple(dict.fromkeys((int(self.start_t), *self.t))))

    @property
    def start(self) -> smic.Settings:
        """Settings of the spectral start."""
        return replace(self.graph, t=(int(self.start_t),), normalization="symmetric", bandwidth=1.0)

    def fitted_to(self, n: int) -> tuple["Settings", dict[str, Any]]:
        """Reduce the neighbours to what n rows allow."""
        fitted, cuts = self.of_graph(t=self.t).fitted_to(n)
        names = ("t", "n_neighbors", "n_centers")
        start_t = min(self.start_t, max(n - 1, 1))
        return replace(self, start_t=start_t, **{name: getattr(fitted, name) for name in names}), cuts
