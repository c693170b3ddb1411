"""Settings of SMIC, the default method."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from bigsmic.errors import InputError
from bigsmic.numerics.graph import weights
from bigsmic.settings import sequences
from bigsmic.settings.base import UNSET, MethodSettings
from bigsmic.settings.options import (
    COUNT_OR_ALL,
    FUNCTION,
    INTEGER,
    INTEGERS,
    NUMBERS,
    POSITIVE,
    SETS_OF_NUMBERS,
    SHARES,
    Option,
    declared,
    option,
)
from bigsmic.settings.smic_checks import check_bandwidth, check_kernel, check_rows_in_no_cluster
from bigsmic.validation import CLUSTERS, check_choice, check_integer, to_array
from bigsmic.weight_functions import identity_of

NORMALIZATIONS = ("auto", "symmetric", None)
ASSIGNMENTS = ("merge", "rotation", "paper", "auto")
SHRINKAGES = (0.0, 0.75)  # of over-segmented labelings
SELECTIONS = ("consensus", "lsmi", "medoid")
REPORTED_CENTERS = 200  # of LSMI, if it is only reported
CANDIDATES_PER_NEIGHBOR = 2
MIN_NEIGHBORS = 20  # one graph then serves every t up to 20
SCALES = ("auto", "standard", "mixed", "variance", None)
SCALE_HELP = """Divisor of centred columns: standard deviation, variance, nothing. "mixed": standard deviation or, where
one value has most rows, the typical distance of the others from it or, where a few rows have most of the variance, that
without them. "auto": nothing if columns share a unit, as grey values, components or coefficients do, else mixed; see
``Result.diagnostics["scaling"]``. Constant columns become 0."""
PAPER_SCALE = ' With the preset "paper", "auto" is "standard".'
BANDWIDTH_HELP = """Factor b of the kernel ``exp(-d^2 / (b s_i s_j))``. 2, the default, as in SMIC's local scaling; 1 as
in self-tuning spectral clustering."""
SEED_HELP = """0 by default, at most 2**64 - 1; equal seeds give equal labels. The bits are the same with any number of
threads and any memory limit, on processors of one type with one set of package versions."""
NEIGHBORS_HELP = """How neighbours are searched. "exact" compares all rows of the cells into which the rows are cut;
"pynndescent" searches an approximate index of each group of cells; "auto" does for each group what costs less."""
N_NEIGHBORS_HELP = "Neighbours to find for each row. At least the largest t."
REPORTED_ROWS = 20_000
LSMI_ROWS_HELP = "Rows from which LSMI is estimated: a number or all. Drawn by hash; None for all."
REPORTED_HELP = f"{LSMI_ROWS_HELP} At most {REPORTED_ROWS:,} if LSMI is only reported."


@dataclass(frozen=True)
class Settings(MethodSettings):
    """Parameters of a SMIC fit.

    ``columns`` replaces ``widths`` by one eigenvector set of absolute numbers. ``undecided`` leaves the number of
    clusters open, from ``open_from`` to ``open_to``, 0 for no limit; once it is found, :meth:`decided` sets
    ``n_clusters`` to it, and ``columns_read`` to the columns that were used, 0 for the default. ``plain`` means that a
    number was given but labels come from valleys alone, ``disputed`` that it was left open but labels come from all
    labelings. ``merge_power`` and ``max_matvecs`` are for tests and benchmarks.

    Raises
    ------
    InputError
        A value cannot be used; the message lists valid ones.
    """

    method: ClassVar[str] = "smic"
    home: ClassVar[str | None] = "bigsmic.methods.smic.method"
    shorthands: ClassVar[Mapping[str, Option]] = {
        "rotation": declared(
            choices=(None, "auto", True, False),
            optional=True,
            help='Short for assignment "auto", "rotation" and "paper". True is "rotation", False "paper".',
        )
    }

    n_clusters: int
    t: tuple[int, ...] = option(
        (5, 10),
        INTEGERS,
        follows=True,
        help="Neighbour numbers of the kernel. By default (5, 10), and (3, 5, 7, 10) without merging.",
    )
    assignment: str = option(
        "merge",
        choices=ASSIGNMENTS,
        follows=True,
        help="""How labels are derived from eigenvectors. "merge", the default without `prior` and `preset`: more than c
        of them, rotated, over-segmented, merged by the density ratio and moved along the graph. "rotation": c of them,
        rotated. "paper": c of them with a sign each, as published. "auto": both of the last two are candidates.""",
    )
    selection: str = option(
        "consensus",
        choices=SELECTIONS,
        follows=True,
        help="""Choice among several labelings. "consensus" of all, the default with "merge"; "lsmi": the one of largest
        LSMI, the default otherwise; "medoid": the one most similar to the others.""",
    )
    kernel: str | Callable[..., Any] = option(
        weights.DEFAULT,
        FUNCTION,
        text="{" + ", ".join(f'"{name}"' for name in (*weights.NAMED, "precomputed")) + "} or callable",
        help="""Weight function of the edges of the neighbour graph, by name. "local_scaling": K of [1]_ eq. (7), where
        the smaller of two local scales counts as at least a quarter of the larger one, except with the preset "paper".
        A callable ``f(squared_distances, sigma_i, sigma_j) -> weights`` works elementwise on edges; it must be
        symmetric, and return finite weights of at least 0. With `out` it needs a unique name: it is identified by its
        name and code, or by its attribute ``__bigsmic_name__``. "precomputed": the input is a sparse symmetric (n, n)
        matrix of affinities, at least 0.""",
    )
    normalization: str | None = option(
        "auto",
        choices=NORMALIZATIONS,
        help="""Normalisation of the weights K before their eigenvectors are computed. "symmetric": ``D^-1/2 K D^-1/2``,
        where D has the row sums of K. None: K itself. "auto": "symmetric" for "merge"; otherwise both as candidates
        with "local_scaling", and None with other weights.""",
    )
    metric: str = option(
        "euclidean",
        choices=("euclidean", "precomputed"),
        typed=False,  # of sparse matrices, which are in memory
        help="""Kind of input: rows, or distances. "precomputed": a sparse (n, n) matrix of distances to neighbours, as
        from scikit-learn's KNeighborsTransformer. Without features there is no LSMI.""",
    )
    prior: tuple[float, ...] | None = option(
        None,
        SHARES,
        help="""Share of each cluster, such as .5,.3,.2; equal by default. Positive, sum 1; unequal shares imply
        assignment "paper".""",
    )
    preset: str | None = option(
        None,
        choices=(None, "paper"),
        help="""Settings as published. "paper": kernel of eq. (7), signs, t = 1..10, 200 centres, published grids,
        columns divided by their standard deviations, no principal components, the nearest neighbours in any case, no
        repair of the graph.""",
    )
    scale: str | None = option("auto", choices=SCALES, help=SCALE_HELP + PAPER_SCALE)
    bandwidth: float = option(2.0, POSITIVE, help=BANDWIDTH_HELP)
    repair: bool = option(
        True,
        choices=(True, False),
        follows=True,
        help="""Connect the components of the neighbour graph. Uses their shortest outgoing edges; True without
        `preset`.""",
    )
    seed: int = option(0, INTEGER, help=SEED_HELP)
    neighbors: str = option("auto", choices=("auto", "exact", "pynndescent"), help=NEIGHBORS_HELP)
    n_neighbors: int = option(MIN_NEIGHBORS, INTEGER, least=1, help=N_NEIGHBORS_HELP)
    n_candidates: int | None = option(
        None,
        INTEGER,
        least=1,
        optional=True,
        help="""Nearest rows among which neighbours are chosen if there are hubs. These are dense rows in the lists of
        very many sparser ones, while others are in none, as in many columns; they then count as farther. By default
        twice `n_neighbors`; with `n_neighbors` or fewer, the nearest are taken in any case.""",
    )
    widths: tuple[tuple[float, ...], ...] = option(
        sequences.EIGENVECTOR_SETS,
        SETS_OF_NUMBERS,
        follows=True,
        help="""Numbers of eigenvectors of the over-segmented labelings in multiples of c, such as 1.5,2,2.5. Several
        sets give one consensus each, of which that of largest modularity is the result; by default (1, 1.5, 2), (2, 3,
        4) and (3, 4, 6), with at most 100 eigenvectors, or 2 for each cluster, and (6, 8, 12) for two or three
        clusters, whose consensus is the result if it cuts less of the graph.""",
    )
    columns: tuple[int, ...] | None = None
    shrinkage: tuple[float, ...] | None = option(
        None,
        NUMBERS,
        follows=True,
        help="""Shrinkage of the kernel's degrees towards their mean, from 0 to 1. 0 does not change them, 1 gives the
        plain kernel. Each value gives labelings of its own; by default 0 and 0.75 with "merge", else 0. Shrinkage
        prevents groups of few rows with only one or two edges to the rest from becoming clusters; used alone it loses
        clusters in sparse regions.""",
    )
    undecided: bool = False
    open_from: int = 0
    open_to: int = 0
    columns_read: int = 0
    plain: bool = False
    disputed: bool = False
    valleys: bool = option(
        True,
        choices=(True, False),
        help="""Test for valleys of the density between clusters. Groups of over-segmented labelings without a valley
        between them are then also merged. This finds the number of clusters if none is given, and is the result if a
        number is given and some clusters of the other labelings are not separated by a valley.""",
    )
    noise: bool = option(
        False,
        choices=(True, False),
        help="""Detect rows in no cluster. Their label is -1, and ``Result.noise`` has a score from 0 to 1 for every
        row, above 0.5 for noise: rows whose t-th neighbour (largest `t`) is much farther away than those of the other
        rows of their cluster. Their posteriors are not changed. A cluster of sparse noise keeps its number and loses
        its rows. Needs at least two clusters, and distances: not kernel "precomputed".""",
    )
    trim: Literal["auto", True, False] = option(
        "auto",
        choices=("auto", True, False),
        help="""Leave outlying rows out of the kernel, except for a tiny weight: they follow their neighbours. A row is
        outlying if the log distance to its t-th neighbour is three spreads above the median of all rows. "auto" does so
        beyond two spreads, but only if the clusters of a first attempt are pieces of curves that dense rows do not put
        together, as those of few rows in noise are. True is useful for spikes, whose overlaps connect clusters; it is
        harmful if clusters differ in density, as a sparse one is trimmed as a whole. Needs distances, like `noise`.""",
    )
    n_components: int | None = option(
        50,
        COUNT_OR_ALL,
        least=1,
        optional=True,
        help="""Principal components of the scaled columns, which replace these if they are more; None (all) keeps the
        columns. Distances over many noisy columns say little of clusters, and take longer.""",
    )
    merge_power: float = 1.2
    n_centers: int = option(
        800,
        INTEGER,
        least=1,
        follows=True,
        help="Gaussians of the LSMI estimate. By default 800 if LSMI chooses, and 200 if it is only reported.",
    )
    lsmi_rows: int | None = option(200_000, COUNT_OR_ALL, least=2, optional=True, help=REPORTED_HELP)
    max_matvecs: int | None = None

    def __post_init__(self) -> None:
        check_integer(CLUSTERS, self.n_clusters, 1)
        super().__post_init__()
        if self.max_matvecs is not None:
            check_integer("max_matvecs", self.max_matvecs, 1)
        check_kernel(self.kernel)
        check_bandwidth(self.bandwidth)
        check_rows_in_no_cluster(self)
        if self.precomputed and self.selection == "lsmi":
            raise InputError("selection: 'lsmi' needs features, which a precomputed graph lacks; use 'consensus'")
        if self.preset == "paper":
            object.__setattr__(self, "n_components", None)
        if self.preset == "paper" and self.scale == "auto":
            object.__setattr__(self, "scale", "standard")  # the published widths are for standardised columns
        t = (1,) if self.kernel == "precomputed" else self.t
        object.__setattr__(self, "t", sequences.neighbor_numbers(t))
        object.__setattr__(self, "widths", sequences.eigenvector_sets(self.widths))
        object.__setattr__(self, "shrinkage", sequences.shrinkages(self.shrinkage))
        object.__setattr__(self, "prior", sequences.prior_of(self.prior, self.n_clusters, self.assignment))
        object.__setattr__(self, "n_neighbors", max(self.n_neighbors, *self.t))
        n_candidates = CANDIDATES_PER_NEIGHBOR * self.n_neighbors if self.n_candidates is None else self.n_candidates
        are_as_given = self.preset == "paper" or self.precomputed  # neighbours as published, or of a matrix
        object.__setattr__(self, "n_candidates", max(self.n_neighbors, 0 if are_as_given else n_candidates))

    @classmethod
    def of(cls, c: int | Sequence[int] | None, **given: Any) -> "Settings":
        """Settings for `c`: a number, or None or a range, which leave it open; see :func:`resolve`."""
        n_clusters, least = sequences.number_of_clusters(c)
        settings = resolve(n_clusters, **given)
        if not least:
            return settings
        return replace(settings, undecided=True, open_from=least, open_to=0 if c is None else n_clusters)

    @property
    def open(self) -> bool:
        """Whether the number of clusters was left open, or labels come from valleys alone, as if it had been."""
        return self.open_from > 0

    @property
    def number_given(self) -> bool:
        """Whether the caller gave the number of clusters."""
        return self.plain or not self.open

    @property
    def found(self) -> bool:
        """Whether the number of clusters was left open, and has been found."""
        return self.open and not self.undecided

    @property
    def as_requested(self) -> Self:
        """The settings as they were before the number of clusters was found."""
        return replace(self.decided(self.open_to or sequences.UNDECIDED), undecided=True) if self.found else self

    def decided(self, n_clusters: int, disputed: bool = False) -> Self:
        """The settings with the number of clusters that was found, and whether labelings disagree on the clusters."""
        return replace(self, n_clusters=n_clusters, undecided=False, disputed=disputed)

    def by_valleys(self, n_columns: int) -> Self:
        """The settings for labels from valleys alone, with labelings of so many columns."""
        return replace(self, open_from=1, columns_read=n_columns, plain=True)

    def found_in(self, summary: Mapping[str, Any]) -> Self:
        """The settings with the number of clusters, or plain labels, that the fit found, from its summary."""
        if summary.get("plain"):
            return self.by_valleys(summary["valleys"]["columns"])
        if not self.undecided:
            return self
        columns = summary.get("valleys", {}).get("columns", summary.get("columns_read", 0))
        settings = replace(self, columns_read=columns)
        found = summary.get("n_clusters")
        return settings.decided(found, summary["disputed"]) if found else settings

    @property
    def chooses_neighbors(self) -> bool:
        """Whether neighbours are chosen among more candidates."""
        return int(self.n_candidates or 0) > self.n_neighbors

    @property
    def reads_valleys(self) -> bool:
        """Whether groups are also merged by the valleys between them, which needs features."""
        return self.valleys and self.knows_shapes

    @property
    def mergings(self) -> tuple[str, ...]:
        """What the groups of over-segmented labelings are merged by: "density", "valleys", or both."""
        return ("valleys",) if self.found and not self.disputed else ("density", "valleys")

    @property
    def knows_shapes(self) -> bool:
        """Whether shapes of clusters affect labels: in a consensus of merged labelings of features."""
        merged = (self.assignment, self.selection) == ("merge", "consensus")
        return merged and not (self.precomputed or self.propagates)

    @property
    def begins_with_valleys(self) -> bool:
        """Whether labels by valleys are computed before any others, unless the others were asked for."""
        return self.reads_valleys and not self.open and self.columns is None and sequences.are_default(self.widths)

    @property
    def finds_noise(self) -> bool:
        """Whether rows in no cluster are detected."""
        return self.noise

    def n_axes(self, d: int) -> int:
        """Number of principal components that take the place of d columns; 0 if none do."""
        wanted = self.n_components or d
        return wanted if wanted < d and not self.precomputed else 0

    @property
    def trims(self) -> bool:
        """Whether outlying rows are left out of the kernel."""
        return self.trim is True

    @property
    def may_trim(self) -> bool:
        """Whether outlying rows are left out of the kernel if clusters are pieces of curves."""
        return self.trim == "auto" and self.reads_valleys

    @property
    def reports_lsmi(self) -> bool:
        """Whether LSMI is only reported, and chooses nothing."""
        return self.selection != "lsmi"

    def n_lsmi_rows(self, n: int) -> int:
        """Number of the n rows from which LSMI is estimated."""
        drawn = min(n, self.lsmi_rows or n)
        return min(drawn, REPORTED_ROWS) if self.reports_lsmi else drawn

    @property
    def propagates(self) -> bool:
        """Whether labels of a consensus are propagated, as with links."""
        return False

    @property
    def kernels(self) -> tuple[str, ...]:
        """Kernels of the eigenproblems: "normalized", or the plain weights by their name."""
        if self.normalization == "symmetric" or (self.normalization == "auto" and self.assignment == "merge"):
            return ("normalized",)
        plain = "callable" if callable(self.kernel) else self.kernel
        both = self.normalization == "auto" and plain == weights.DEFAULT
        return (plain, "normalized") if both else (plain,)

    @property
    def precomputed(self) -> bool:
        """Whether the input is a graph, and not features."""
        return "precomputed" in (self.kernel, self.metric)

    @property
    def shrinkages(self) -> tuple[float, ...]:
        """Shrinkages of the degrees; by default only 0 without over-segmented labelings."""
        if self.shrinkage is not None:
            return self.shrinkage
        return SHRINKAGES if self.assignment == "merge" and self.link_weights == (None,) else (0.0,)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of clusters for which labels are derived without merging."""
        return (self.n_clusters,)

    @property
    def assignments(self) -> tuple[str, ...]:
        """Ways in which labels are derived from every basis."""
        return ("paper", "rotation") if self.assignment == "auto" else (self.assignment,)

    def fitted_to(self, n: int) -> tuple[Self, dict[str, str]]:
        """Reduce neighbours, every t and centres to what `n` rows allow; repeated values are dropped.

        Returns
        -------
        settings : Settings
        cuts : dict of str to str
            The reductions, for the diagnostics.
        """
        k = min(self.n_neighbors, n - 1)
        t = tuple(dict.fromkeys(min(v, max(k, 1)) for v in self.t))
        cuts = {}
        if self.undecided and self.n_clusters > n:
            cuts["c"] = f"cut to {n}"
        if t != self.t:
            cuts["t"] = f"{self.t} cut to {t}: {n} rows have {n - 1} neighbours"
        if k != self.n_neighbors:
            cuts["n_neighbors"] = f"{self.n_neighbors} cut to {k}"
        if self.n_centers > n:
            cuts["n_centers"] = f"{self.n_centers} cut to {n}"
        n_candidates = max(min(self.n_candidates or 0, n - 1), 1)
        found = replace(self, t=t, n_neighbors=max(k, 1), n_candidates=n_candidates, n_centers=min(self.n_centers, n))
        if self.undecided:
            found = replace(found, n_clusters=min(self.n_clusters, n), open_to=min(self.open_to, n))
        return found, cuts

    def identity(self) -> dict[str, Any]:
        """JSON-like form by which settings are compared on resume; without a method name."""
        found = asdict(replace(self, kernel=weights.DEFAULT) if callable(self.kernel) else self)
        found |= {"kernel": identity_of(self.kernel)} if callable(self.kernel) else {}
        del found["plain"], found["disputed"]  # found by a fit, and no options
        return found


def resolve(n_clusters: int, preset: Any = None, rotation: Any = None, **chosen: Any) -> Settings:
    """Build Settings from the given options; options that were left out follow from them.

    Parameters
    ----------
    n_clusters : int
    preset : {None, "paper"}
        "paper": kernel of eq. (7), signs, t = 1..10, 200 centres, the published grids, no repair of the graph.
    rotation : {None, "auto", True, False}
        Without `assignment`: use c eigenvectors rotated, as they are, or both ("auto"), among which LSMI chooses.
    **chosen
        Fields of Settings; UNSET means left out.

    Raises
    ------
    InputError
        Choices that exclude each other.
    """
    chosen = {key: value for key, value in chosen.items() if value is not UNSET}
    if chosen.get("kernel") == "callable":  # as a stored fit names a function
        raise InputError("kernel: got the name 'callable'; give the function itself")
    return Settings(n_clusters=n_clusters, preset=preset, **{**_implied(preset, rotation, chosen), **chosen})


def _implied(preset: Any, rotation: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    """Defaults that follow from the given options."""
    if preset == "paper" and rotation is None:
        return _PAPER
    check_choice("rotation", rotation, (None, "auto", True, False))
    prior = chosen.get("prior")
    uneven = prior is not None and len(np.unique(to_array("prior", prior, np.float64))) > 1
    if uneven and rotation is True:
        raise InputError(
            "rotation: got True with a non-uniform prior, whose objective a rotation changes; leave rotation out"
        )
    if rotation is not None and "assignment" in chosen:
        raise InputError(
            f"rotation: got {rotation!r} together with assignment={chosen['assignment']!r}; give one of the two"
        )
    implied: dict[str, Any] = {}
    if uneven or rotation is not None:
        implied["assignment"] = "paper" if uneven else {"auto": "auto", True: "rotation", False: "paper"}[rotation]
    if chosen.get("assignment", implied.get("assignment", "merge")) != "merge":
        graph = "precomputed" in (chosen.get("kernel"), chosen.get("metric"))
        implied |= {"selection": "consensus" if graph else "lsmi", "t": (3, 5, 7, 10)}
    elif chosen.get("selection") != "lsmi":
        implied["n_centers"] = REPORTED_CENTERS
    return implied


_PAPER = {
    "t": tuple(range(1, 11)),
    "normalization": None,
    "assignment": "paper",
    "selection": "lsmi",
    "n_centers": 200,
    "repair": False,
}
