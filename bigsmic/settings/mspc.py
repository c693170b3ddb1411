"""Settings of MSPC."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bigsmic.errors import InputError
from bigsmic.settings.base import MethodSettings
from bigsmic.settings.options import FROM_ZERO, INTEGER, NUMBER_OR_WORD, option
from bigsmic.settings.smic import SEED_HELP
from bigsmic.validation import check_clusters

if TYPE_CHECKING:
    from bigsmic.numerics.objectives.mspc.solvers import SplitSettings

GRID = tuple(10.0 ** (k / 2) for k in range(-4, 5))
JUDGE = 0.1  # reg at which labelings of different reg are compared


@dataclass(frozen=True)
class Settings(MethodSettings):
    """Settings of a fit by MSPC; ``n_clusters`` above 2 are found by recursive splitting."""

    method: ClassVar[str] = "mspc"
    home: ClassVar[str | None] = "bigsmic.methods.mspc"

    n_clusters: int = 2
    solver: str = option(
        "mpm",
        choices=("mpm", "gep", "eig"),
        help="""The separation probability itself, a bound, or the relaxed bound. "mpm" raises the probability,
        "gep" a lower bound of it, in turns with the labels; "eig" relaxes the bound and is the first principal axis
        of standardised columns.""",
    )
    reg: float | str = option(
        1.0,
        NUMBER_OR_WORD,
        text='float or "auto"',
        help="""Multiple of the variances that is added to covariances, or auto. "auto": the value of .01 to 100 whose
        labeling has the largest separation probability at reg .1; no better than 1 on average.""",
    )
    scale: str | None = option(
        "standard",
        choices=("auto", "standard", "mixed", "range", "variance", None),
        help="""Scaling of the centred columns. It affects only the k-means start, which uses standardised columns as
        published. "auto": none if columns share a unit, else mixed: their standard deviation or, if one value has most
        rows, the typical distance of the others from it, both without extremes that have most of the variance.""",
    )
    max_iter: int = option(100, INTEGER, least=1, help="Largest number of labelings after the start.")
    tol: float = option(
        1e-5, FROM_ZERO, help="Share of the rows that may still change sides at convergence of a split."
    )
    seed: int = option(0, INTEGER, help=SEED_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_clusters(self.n_clusters)
        for name in ("n_clusters", "max_iter"):
            object.__setattr__(self, name, int(getattr(self, name)))
        if isinstance(self.reg, str) and self.reg != "auto":
            raise InputError(f"reg: got {self.reg!r}; use a number or 'auto'")
        _ = self.candidates

    @property
    def candidates(self) -> "Sequence[SplitSettings]":
        """Settings of the splits to choose from."""
        from bigsmic.numerics.objectives.mspc.solvers import SplitSettings

        if not isinstance(self.reg, str):
            return (SplitSettings(self.solver, self.reg, self.max_iter, self.tol),)
        return tuple(SplitSettings(self.solver, reg, self.max_iter, self.tol, JUDGE) for reg in GRID)
