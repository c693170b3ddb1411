"""Settings of MWCA."""

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bigsmic.errors import InputError
from bigsmic.settings import smic
from bigsmic.settings.base import MethodSettings
from bigsmic.settings.options import FROM_ZERO, INTEGER, NUMBER_OR_WORD, POSITIVE, option
from bigsmic.validation import check_clusters

WIDTHS = ("deviation", "quartile", "likelihood")


@dataclass(frozen=True)
class Settings(MethodSettings):
    """Settings of a fit by MWCA."""

    method: ClassVar[str] = "mwca"
    home: ClassVar[str | None] = "bigsmic.methods.mwca"

    n_clusters: int = 2
    solver: str = option(
        "gradient",
        choices=("gradient", "spectral"),
        help="Ascent from several starts, or for two clusters the leading eigenvector of the kernel, cut at its mean.",
    )
    kernel: str = option(
        "dense",
        choices=("dense", "graph", "local_scaling"),
        help="Gaussians between all rows, those on the edges of the neighbour graph, or its local-scaling kernel.",
    )
    sigma: float | str = option(
        "deviation",
        NUMBER_OR_WORD,
        text='{"deviation", "quartile", "likelihood"} or float',
        help="""Width of the Parzen windows: a number, deviation, quartile or likelihood. In the units of the scaled
        rows; not used with local scaling. "deviation": ``1.06 s n^-0.2``, s^2 the mean variance of the columns that
        vary; "quartile": with the mean interquartile range over 1.34 instead of s, if that is less; "likelihood": 1/16
        to 4 times the first, whichever has the largest held-out likelihood.""",
    )
    direction: str = option(
        "natural",
        choices=("natural", "gradient"),
        help="Direction of the ascent: in the metric of the memberships, or in the logits, as published.",
    )
    n_starts: int = option(
        5,
        INTEGER,
        least=1,
        help="Number of starts, of which the best is kept. The first is from k-means, the others are random.",
    )
    t: int = option(10, INTEGER, least=1, help="Neighbours of each row in the graph; none with a dense kernel.")
    n_neighbors: int = option(smic.MIN_NEIGHBORS, INTEGER, least=1, help=smic.N_NEIGHBORS_HELP)
    bandwidth: float = option(2.0, POSITIVE, help=smic.BANDWIDTH_HELP)
    neighbors: str = option("auto", choices=("auto", "exact", "pynndescent"), help=smic.NEIGHBORS_HELP)
    scale: str | None = option("auto", choices=smic.SCALES, help=smic.SCALE_HELP)
    max_iter: int = option(100, INTEGER, least=1, help="Largest number of products per start.")
    tol: float = option(1e-6, FROM_ZERO, help="Relative gain of a step below which a start has converged.")
    seed: int = option(0, INTEGER, help=smic.SEED_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_clusters(self.n_clusters)
        for name in ("n_clusters", "n_starts", "t", "n_neighbors", "max_iter"):
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.solver == "spectral" and self.n_clusters > 2:
            raise InputError(
                f"solver: 'spectral' cuts one eigenvector in two, but got {self.n_clusters} clusters; use 'gradient' "
                "or c=2"
            )
        self._check_sigma()
        _ = self.graph("callable")

    def _check_sigma(self) -> None:
        if isinstance(self.sigma, str):
            if self.sigma not in WIDTHS:
                raise InputError(f"sigma: got {self.sigma!r}; use a positive number or one of {WIDTHS}")
        elif not (isinstance(self.sigma, numbers.Real) and 0 < self.sigma < math.inf):
            raise InputError(f"sigma: got {self.sigma!r}; use a positive number or one of {WIDTHS}")

    def graph(self, weight: str) -> Any:
        """Settings of the stages shared with SMIC."""
        names = ("n_clusters", "scale", "bandwidth", "neighbors", "n_neighbors", "seed")
        given = {name: getattr(self, name) for name in names} | {"n_candidates": self.n_neighbors}
        kernel: Any = "local_scaling" if self.kernel == "local_scaling" else weight
        return smic.Settings(
            kernel=kernel,
            normalization=None,
            t=(self.t,),
            assignment="rotation",
            selection="consensus",
            repair=False,
            n_components=None,
            **given,
        )

    def fitted_to(self, n: int) -> tuple["Settings", dict[str, Any]]:
        """Reduce the neighbours to what n rows allow."""
        if self.kernel == "dense":
            return self, {}
        fitted, cuts = self.graph("callable").fitted_to(n)
        return replace(self, t=fitted.t[0], n_neighbors=fitted.n_neighbors), cuts
