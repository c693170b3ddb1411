"""Settings of 3SMIC, SMIC with links."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from bigsmic.errors import InputError
from bigsmic.numerics.graph import weights
from bigsmic.settings import smic
from bigsmic.settings.options import (
    ARRAY,
    COUNT_OR_ALL,
    FROM_ZERO,
    INTEGER,
    INTEGERS,
    NUMBERS,
    Option,
    declared,
    option,
)
from bigsmic.settings.sequences import MANY_SETS, number_of_clusters
from bigsmic.validation import brief

ETA = (0.0, 1.0, 10.0)
MOST_ETA = 1e6
"""Weight whose square leaves the digits of float64 to rows without links."""
MOST_GAMMA = 1e100
"""Weight whose square is a number in float64."""
FEW_ROWS, FEW_T = 1000, (2, 3, 5, 10)
"""Up to so many rows, t = 2 is a candidate: a cluster may have only ten rows, and an eigenproblem costs little."""
MANY_T = (3, 10)


@dataclass(frozen=True)
class Settings(smic.Settings):
    """Settings of a fit by 3SMIC; further options are those of SMIC.

    A number of clusters that is left open, with None or a range, ``(least, most)`` or ``range(least, most + 1)``, is
    found where valleys and links show it. Else the Result has a curve over numbers, up to 30 with None, and gives
    labels by ``cut``. ``counting`` is for the part of a fit that finds the number; it reads the labelings that valleys
    and links merge.
    """

    method: ClassVar[str] = "3smic"
    home: ClassVar[str | None] = "bigsmic.methods.semisupervised"
    shorthands: ClassVar[Mapping[str, Option]] = {}
    renamed: ClassVar[Mapping[str, str]] = {
        "kernel": "'normalized' is normalization='symmetric', 'local_scaling' None, 'auto' 'auto'"
    }
    side_inputs: ClassVar[Mapping[str, Option]] = {
        "must_links": declared(
            ARRAY,
            help="""Pairs of rows that belong together: .npy, .csv or Zarr of row numbers, shape (m, 2). They number the
            fitted rows, from 0: where `rows` selects some, or an archive of windows has invalid ones, ``Result.rows``
            has their numbers in the archive.""",
        ),
        "cannot_links": declared(ARRAY, help="Pairs of rows that do not."),
        "labels": declared(
            ARRAY,
            help="""Known labels, -1 where there is none: .npy, .csv or Zarr. They link all labelled rows, and do not
            determine the numbers of the clusters.""",
        ),
    }
    numbered_by_labels: ClassVar[bool] = False

    t: tuple[int, ...] | None = option(  # type: ignore[assignment]
        None,
        INTEGERS,
        help="Neighbour numbers of the kernel. By default (2, 3, 5, 10) up to 1,000 rows, and (3, 10) for more.",
    )
    valleys: bool = option(
        True,
        choices=(True, False),
        help="""Find the number of clusters from valleys and links if none is given. Groups of over-segmented labelings
        are merged where neither a valley of the density nor cannot-links separate them, and where a majority of
        must-links joins them. With False, another `assignment` than "merge" or another `selection` than "consensus",
        the fit only has the curve over the number of clusters.""",
    )
    counting: bool = False
    noise: bool = False  # a linked row has a label
    trim: bool = False
    normalization: str | None = option(
        "symmetric",
        choices=smic.NORMALIZATIONS,
        help="""Normalisation of the weights K before their eigenvectors are computed. "symmetric": ``D^-1/2 K D^-1/2``,
        where D has the row sums of K. None: K itself, as published. "auto": both are candidates, or only "symmetric"
        with "merge".""",
    )
    assignment: str | None = option(  # type: ignore[assignment]
        None,
        choices=smic.ASSIGNMENTS,
        help="""How labels are derived from eigenvectors. "paper", "rotation": c of them, with a sign each as published,
        or rotated; "auto": both are candidates. "merge": more than c of them, rotated, over-segmented, merged and
        moved, as in SMIC by default. By default "rotation" with two clusters, and "merge" with more.""",
    )
    selection: str = option(
        "consensus",
        choices=("consensus", "links"),
        help="""Choice among several labelings. "consensus": the consensus of the labelings of largest criterion, after
        propagation by votes, neighbours and links. "links": the one of largest criterion, as published.""",
    )
    scale: str | None = option("auto", choices=smic.SCALES, help=smic.SCALE_HELP)  # there is no preset
    gamma: tuple[float, ...] = option(
        (0.0, 1.0), NUMBERS, help="Strengths of must-links to choose from, such as 0,1. At least 0."
    )
    eta: tuple[float, ...] | None = option(
        None,
        NUMBERS,
        help="""Strengths of cannot-links, of two clusters, such as 0,1,10. (0, 1, 10) with two clusters by default, and
        0 with more, where two rows that are cannot-linked with a third need not belong together.""",
    )
    link_weight: float = option(
        10.0,
        FROM_ZERO,
        help="Weight of violated links against information in the choice; 10 by default, 1 as published.",
    )
    close_links: bool = option(False, choices=(True, False), help="Add the links implied by the given ones.")
    lsmi_rows: int | None = option(
        20_000,
        COUNT_OR_ALL,
        least=2,
        optional=True,
        help=smic.LSMI_ROWS_HELP,
    )
    n_centers: int = option(800, INTEGER, least=1, help="Gaussians of the LSMI estimate.")
    repair: bool = option(True, choices=(True, False), help="Connect the components of the neighbour graph.")
    max_matvecs: int | None = option(
        None,
        INTEGER,
        least=1,
        help="Largest number of matrix-vector products for each eigenproblem.",
    )
    # fields that are not options of this method:
    kernel: str = weights.DEFAULT
    metric: str = "euclidean"
    prior: tuple[float, ...] | None = None
    preset: str | None = None
    widths: tuple[tuple[float, ...], ...] = MANY_SETS
    shrinkage: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        reads_valleys = self.open and self.selection == "consensus" and self.assignment in (None, "merge")
        if self.valleys is True and not reads_valleys:  # what is no flag is refused below
            object.__setattr__(self, "valleys", False)
        if self.assignment is None:
            merges = self.valleys if self.undecided else self.n_clusters != 2
            object.__setattr__(self, "assignment", "merge" if merges else "rotation")
        if self.t is None:
            object.__setattr__(self, "t", MANY_T)
        super().__post_init__()
        object.__setattr__(self, "gamma", _link_weights("gamma", self.gamma, MOST_GAMMA))
        object.__setattr__(self, "eta", self._checked_eta())
        if self.undecided and self.assignment == "merge" and not self.valleys:
            raise InputError(
                "assignment: got 'merge' with an open number of clusters; use 'rotation', or give a number"
            )

    @classmethod
    def of(cls, c: int | Sequence[int] | None, **given: Any) -> Self:
        """Settings for `c`: a number, or None or a range, which leave it open; see :class:`Settings`."""
        n_clusters, least = number_of_clusters(c)
        settings = cls(n_clusters, undecided=least > 0, open_from=least, **given)
        return replace(settings, open_to=n_clusters) if settings.valleys and c is not None else settings

    def identity(self) -> dict[str, Any]:
        """JSON-like form by which settings are compared on resume."""
        found = {"method": self.method} | super().identity()
        del found["counting"]  # a part of a fit, and not an option
        return found

    @property
    def reads_valleys(self) -> bool:
        """Whether the number of clusters is found from valleys and links."""
        return self.valleys

    @property
    def mergings(self) -> tuple[str, ...]:
        """What the groups of over-segmented labelings are merged by: "density", "valleys", or both."""
        if self.counting:
            return ("valleys",)
        return ("density", "valleys") if self.undecided and self.valleys else ("density",)

    def counted(self) -> Self:
        """The settings of the part of a fit that finds the number of clusters."""
        return replace(self, undecided=False, counting=True)

    def curved(self) -> Self:
        """The settings for the curve over the number of clusters, where none is found."""
        return replace(self, assignment="rotation", columns_read=0)

    def decided(self, n_clusters: int, n_columns: int = 0) -> Self:
        """The settings with the number of clusters that was found, for labelings of at most so many columns."""
        n_columns = n_columns or self.columns_read
        wanted = {min(round(factor * n_clusters), n_columns) for factors in self.widths for factor in factors}
        columns = tuple(sorted(m for m in wanted if m >= n_clusters))
        return replace(self, n_clusters=n_clusters, undecided=False, columns_read=n_columns, columns=columns)

    def found_in(self, summary: Mapping[str, Any]) -> Self:
        """The settings with the number of clusters that the fit found, if it found one, from its summary."""
        if not (self.undecided and "n_clusters" in summary):
            return self
        return self.decided(summary["n_clusters"], summary["valleys"]["columns"])

    def _checked_eta(self) -> tuple[float, ...]:
        two = self.n_clusters == 2 and not self.undecided
        eta = (ETA if two else (0.0,)) if self.eta is None else _link_weights("eta", self.eta, MOST_ETA)
        if any(eta) and not two:
            raise InputError(
                f"eta: got {eta} for more than two clusters, with which the weight of cannot-links is 0; leave eta "
                "out: cannot-links set entries of the kernel to 0 anyway"
            )
        return eta

    @property
    def propagates(self) -> bool:
        """Whether labels of a consensus are propagated."""
        return self.selection == "consensus" and not self.undecided

    @property
    def reports_lsmi(self) -> bool:
        """False, as links and LSMI choose together."""
        return False

    @property
    def shares_lsmi_width(self) -> bool:
        """Whether candidates are compared by LSMI with one width and ridge; as published, each has its own."""
        return self.selection == "consensus"

    @property
    def link_weights(self) -> tuple[Any, ...]:
        """Strengths of links to choose from."""
        from bigsmic.numerics.constraints.links import LinkWeights

        return tuple(LinkWeights(gamma, eta) for gamma in self.gamma for eta in self.eta or ())

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of clusters for which labels are derived."""
        return tuple(range(2, self.n_clusters + 1)) if self.undecided else (self.n_clusters,)


def _link_weights(name: str, given: Any, most: float) -> tuple[float, ...]:
    values = tuple(given) if isinstance(given, Iterable) else (given,)
    if not values or not all(isinstance(v, numbers.Real) and 0 <= float(v) <= most for v in values):
        raise InputError(f"{name}: got {brief(given)}; use numbers of at least 0 and at most {most:g}, such as (0, 1)")
    return tuple(dict.fromkeys(float(v) for v in values))
