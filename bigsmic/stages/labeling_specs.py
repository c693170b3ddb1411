"""Eigenproblems and labeling specifications of a fit."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from bigsmic.runtime.context import Context
from bigsmic.settings.sequences import EIGENVECTOR_SETS, FINE_SET, are_default, cut_set
from bigsmic.types import Floats

MAX_COLUMNS, MOST_PER_CLUSTER = 100, 2.0
"""Most columns of an over-segmented labeling, and most for each cluster if that is more; given ones may be more."""
FINE_COLUMNS = 36  # most columns of `FINE_SET`
FINEST_CUT = 3  # multiple of c into which a consensus is cut at most, to find c classes that win rows
VALLEY_COLUMNS, ROWS_PER_COLUMN, LEAST_COLUMNS, FEWEST_COLUMNS = 60, 25, 10, 4
"""Bounds of the columns of a labeling merged by valleys, if the number of clusters is open. There are twice the largest
number, and at least the first; at most one for as many rows as the second says, but not fewer than the third; at most a
third of the rows. With fewer than the fourth there is no such labeling."""
ROWS_PER_WIDER_COLUMN = 10  # likewise, where the first columns are too few for the clusters, or the parts of the graph
FULL = 0.75
"""Number of clusters, as a share of the columns of these labelings, from which more columns are needed."""
MOST_COLUMNS = 960
LEAST_DISTANCE = 1e-7  # of an eigenvalue from 1 in quotients
LONG = 1.6  # least power with which 1 minus the eigenvalues after long parts grow


class Eigenproblem(NamedTuple):
    """Specification of one eigenproblem: the kernel of one t-graph.

    Parameters
    ----------
    kernel : {"local_scaling", "normalized", "callable", "precomputed"}
    t : int
    link_weights : bigsmic.numerics.constraints.links.LinkWeights, optional
        Weights of links, if the matrix contains links.
    shrinkage : float
        Shrinkage of the degrees towards their mean before normalisation.
    """

    kernel: str
    t: int
    link_weights: Any = None
    shrinkage: float = 0.0

    @property
    def graph(self) -> "Eigenproblem":
        """The eigenproblem whose weights and degrees this one shares."""
        return self._replace(link_weights=None, shrinkage=0.0)

    @property
    def matrix(self) -> "Eigenproblem":
        """The eigenproblem whose matrix this one shares."""
        return self._replace(link_weights=None)

    @property
    def name(self) -> str:
        """Name of its artifacts."""
        links = "" if self.link_weights is None else ".gamma{:g}.eta{:g}".format(*self.link_weights).replace("+", "")
        shrunk = f".s{self.shrinkage:g}" if self.shrinkage else ""
        return f"{self.kernel}.t{self.t}{shrunk}{links}"


class LabelingSpec(NamedTuple):
    """Specification of one labeling: eigenvectors of one eigenproblem, and the way in which labels are derived.

    Parameters
    ----------
    eigenproblem : Eigenproblem
    assignment : {"paper", "rotation", "merge", "valleys"}
        "paper": signs of the columns; "rotation": rotated columns; "merge": more columns than clusters, rotated, merged
        and moved; "valleys": more columns than clusters, rotated, moved, and merged where no valley separates them.
    n_eigenvectors : int
        Number of columns that are used.
    """

    eigenproblem: Eigenproblem
    assignment: str
    n_eigenvectors: int

    @property
    def name(self) -> str:
        """Name of its artifacts."""
        return f"{self.eigenproblem.name}.{self.assignment}.m{self.n_eigenvectors}"

    @property
    def frame(self) -> "LabelingSpec":
        """The labeling whose rotation this one shares."""
        return self._replace(assignment="merge") if self.assignment == "valleys" else self


def eigenproblems(settings: Any) -> list[Eigenproblem]:
    """All eigenproblems of a fit, with those of one kernel and shrinkage, and of successive t, adjacent."""
    return [
        Eigenproblem(kernel, t, link_weights, shrinkage)
        for kernel in settings.kernels
        for shrinkage in (settings.shrinkages if kernel == "normalized" else (0.0,))
        for t in settings.t
        for link_weights in settings.link_weights
    ]


def widest(context: Context) -> Eigenproblem:
    """The eigenproblem in whose kernel rows have most neighbours: the first one of largest t."""
    return max(eigenproblems(context.settings), key=lambda eigenproblem: eigenproblem.t)


def cut_specs(settings: Any, n: int) -> list[LabelingSpec]:
    """Labelings merged by the density ratio, or not at all; for a fit with an open c, those with frames.

    If n does not allow more columns than clusters, there is nothing to merge and the columns are only rotated.
    """
    found = []
    for eigenproblem in eigenproblems(settings):
        for assignment in settings.assignments:
            columns = [*eigenvector_sets(settings, n), fine_columns(settings, n)] if assignment == "merge" else []
            widths = sorted(set().union(*columns))
            if widths:
                found += [LabelingSpec(eigenproblem, "merge", m) for m in widths]
            else:
                kind = "rotation" if assignment == "merge" else assignment
                found += [LabelingSpec(eigenproblem, kind, min(m, n)) for m in settings.numbers]
    return found


def valley_specs(settings: Any, n: int) -> list[LabelingSpec]:
    """Labelings whose groups are merged by valleys, one for each eigenproblem; none if rows are too few."""
    m = valley_columns(settings, n)
    return [LabelingSpec(eigenproblem, "valleys", m) for eigenproblem in eigenproblems(settings)] if m else []


def valley_columns(settings: Any, n: int) -> int:
    """Columns of the labelings merged by valleys; 0 for none.

    With a given number of clusters, no more than the other labelings have, as these eigenvectors exist anyway, but
    twice as many as clusters if the first columns are too few for these; for a cut, as many as the fit had.
    """
    if not settings.reads_valleys:
        return 0
    if settings.columns_read:
        wanted = settings.columns_read
    elif settings.open:
        wanted = max(VALLEY_COLUMNS, 2 * settings.open_to)
    else:
        widest = max((columns[-1] for columns in eigenvector_sets(settings, n)), default=0)
        wanted = min(widest, max(VALLEY_COLUMNS, 2 * settings.n_clusters))
    m = min(wanted, most_valley_columns(n, ROWS_PER_WIDER_COLUMN if settings.columns_read else ROWS_PER_COLUMN))
    if not (settings.open or settings.columns_read) and settings.n_clusters > FULL * m:
        m = max(m, min(wanted, 2 * settings.n_clusters, most_valley_columns(n, ROWS_PER_WIDER_COLUMN)))
    return m if m >= FEWEST_COLUMNS and (settings.open or m > settings.n_clusters) else 0


def most_valley_columns(n: int, rows_per_column: int) -> int:
    """Largest number of columns that n rows allow for a labeling merged by valleys."""
    return min(MOST_COLUMNS, max(LEAST_COLUMNS, n // rows_per_column), n // 3)


def eigenvector_sets(settings: Any, n: int) -> list[tuple[int, ...]]:
    """Numbers of columns whose labelings form one consensus: a tuple for each candidate consensus.

    Returns
    -------
    eigenvector_sets : list of tuple of int
        Distinct; unless the number of clusters is open, each set has a number above it. Numbers above a third of the
        rows are left out, and those above :data:`MAX_COLUMNS` and :data:`MOST_PER_CLUSTER` times c, except in a first
        set that was given.
    """
    c = settings.n_clusters
    if settings.undecided and (m := valley_columns(settings, n)):
        return [(m,)]
    if settings.columns is not None:
        return [tuple(m for m in settings.columns if m >= c)]
    per_cluster = MOST_PER_CLUSTER if are_default(settings.widths) else max(settings.widths[0])
    most = max(MAX_COLUMNS, round(per_cluster * c))
    most = min(most, settings.columns_read) if settings.disputed else most  # no more were found
    found: list[tuple[int, ...]] = []
    given = (cut_set(settings.widths),) if settings.open and not settings.disputed else settings.widths
    for factors in given[:-1] if given == EIGENVECTOR_SETS else given:
        columns = sorted({min(round(f * c), n // 3) for f in factors if round(f * c) <= most})
        eigenvector_set = tuple(m for m in columns if m >= c)
        if (
            eigenvector_set
            and eigenvector_set[-1] > c
            and eigenvector_set not in found
            and (len(eigenvector_set) > 1 or not found)
        ):
            found.append(eigenvector_set)
    return found


def fine_columns(settings: Any, n: int) -> tuple[int, ...]:
    """Numbers of columns of the labelings of :data:`FINE_SET`; none if they are too many for the rows or the clusters.

    Long and bent clusters need several columns each, however few clusters there are. Columns of blobs that touch split
    these into more even parts, of larger modularity.
    """
    columns = tuple(round(factor * settings.n_clusters) for factor in FINE_SET)
    most = min(FINE_COLUMNS, n // ROWS_PER_COLUMN, settings.columns_read if settings.disputed else n)
    return columns if _has_fine_set(settings) and columns[-1] <= most else ()


def _has_fine_set(settings: Any) -> bool:
    may_choose = settings.selection == "consensus" and settings.columns is None
    may_choose &= not settings.open or settings.disputed
    return may_choose and settings.widths == EIGENVECTOR_SETS


class LabelingSpecs(Sequence[LabelingSpec]):
    """All labelings of a fit by their number, and which of them form a consensus together.

    Of equal scores the first is chosen.

    Parameters
    ----------
    settings : Settings
    n : int
        Number of rows.
    """

    def __init__(self, settings: Any, n: int) -> None:
        specs = {"density": cut_specs, "valleys": valley_specs}
        self._specs = [spec for merging in settings.mergings for spec in specs[merging](settings, n)]
        self._n_clusters, self._columns = settings.n_clusters, eigenvector_sets(settings, n)
        self._fine_columns = fine_columns(settings, n)

    @overload
    def __getitem__(self, b: int) -> LabelingSpec: ...

    @overload
    def __getitem__(self, b: slice) -> list[LabelingSpec]: ...

    def __getitem__(self, b: int | slice) -> LabelingSpec | list[LabelingSpec]:
        """Specification of a labeling."""
        return self._specs[b]

    def __len__(self) -> int:
        """Number of labelings."""
        return len(self._specs)

    @property
    def most_eigenvectors(self) -> int:
        """Largest number of eigenvectors of a labeling."""
        return max(spec.n_eigenvectors for spec in self)

    @cached_property
    def by_valleys(self) -> list[int]:
        """Numbers of the labelings that are read by valleys."""
        return self._assigned("valleys")

    @cached_property
    def candidates(self) -> list[int]:
        """Numbers of the labelings among which LSMI may choose: those not merged by valleys, or else all."""
        return [b for b in range(len(self)) if b not in self.by_valleys] or self.by_valleys

    @cached_property
    def plain(self) -> list[int]:
        """Numbers of those that over-segment nothing, though they could: c eigenvectors, and plain degrees."""
        merged, c = self._assigned("merge"), self._n_clusters
        return [b for b in merged if self[b].n_eigenvectors == c and not self[b].eigenproblem.shrinkage]

    @cached_property
    def shrinkages(self) -> list[tuple[float, ...]]:
        """Shrinkages whose labelings form one consensus: all of them together, and each alone."""
        every = tuple(dict.fromkeys(spec.eigenproblem.shrinkage for spec in self))
        return [every, *((s,) for s in every)] if len(every) > 1 else [every]

    @cached_property
    def sets(self) -> list[list[int]]:
        """Numbers of the labelings that form a consensus together: one list per eigenvector set.

        Every eigenvector set with all shrinkages, then every eigenvector set with each shrinkage alone; beside several
        of them :attr:`plain`; then the fine sets, and those that are merged by valleys, likewise.
        """
        by_valleys = self._with_shrinkages([self.by_valleys])
        return [*self._density_sets, *self._fine_sets, *by_valleys] or [list(range(len(self)))]

    @cached_property
    def fine_sets(self) -> range:
        """Numbers of the eigenvector sets that are only taken if their cut is smaller."""
        first = len(self._density_sets)
        return range(first, first + len(self._fine_sets))

    @cached_property
    def valley_sets(self) -> list[int]:
        """Numbers of the eigenvector sets whose labelings are merged by valleys."""
        return [w for w, of_set in enumerate(self.sets) if of_set[0] in self.by_valleys]

    @cached_property
    def _density_sets(self) -> list[list[int]]:
        merged = self._assigned("merge")
        grid = self._with_shrinkages(
            [[b for b in merged if self[b].n_eigenvectors in columns] for columns in self._columns]
        )
        return [*grid, self.plain] if self.plain and len(grid) > 1 else grid

    @cached_property
    def _fine_sets(self) -> list[list[int]]:
        merged = self._assigned("merge")
        return self._with_shrinkages([[b for b in merged if self[b].n_eigenvectors in self._fine_columns]])

    def _with_shrinkages(self, sets: list[list[int]]) -> list[list[int]]:
        """Every set of labelings with all shrinkages, then every one with each shrinkage alone; none without any."""
        return [
            [b for b in of_set if self[b].eigenproblem.shrinkage in shrinkages]
            for shrinkages in self.shrinkages
            for of_set in sets
            if of_set
        ]

    def _assigned(self, assignment: str) -> list[int]:
        return [b for b, spec in enumerate(self) if spec.assignment == assignment]


def specs_of(context: Context) -> LabelingSpecs:
    """All labelings of the fit of a context."""
    return context.cached("labeling_specs", lambda: LabelingSpecs(context.settings, context.n))


def numbers_of(context: Context) -> list[NDArray[np.intp]]:
    """Numbers of the labelings that have the same number of clusters: an array for each, if several are open."""
    if not context.settings.undecided:
        return [np.arange(len(specs_of(context)))]
    widths = np.array([spec.n_eigenvectors for spec in specs_of(context)])
    return [np.flatnonzero(widths == n_eigenvectors) for n_eigenvectors in np.unique(widths)]


def eigenvector_sets_of(context: Context) -> list[list[int]]:
    """Numbers of the labelings that form a consensus together: a list for each eigenvector set.

    They are :attr:`LabelingSpecs.sets`; with links, a single list of the labelings that violate fewest of them, which
    :mod:`bigsmic.stages.link_scores` has taken.
    """
    if context.settings.propagates:
        return context.cached("kept_set", lambda: [context.run.read("kept", 0, "taken").tolist()])
    return specs_of(context).sets


def clearest_gap(spectra: Sequence[Floats], n_clusters: int) -> float:
    """Largest eigengap, common to all graphs, after more than half of the clusters.

    Parameters
    ----------
    spectra : list of ndarray of float64
        Eigenvalues of each graph; see :func:`eigengap`.
    n_clusters : int
        c.

    Returns
    -------
    gap : float
        ``max_k min_g gap_gk``, c/2 < k <= c and k > 1. A single graph can have a gap by chance, after its components
        that the repair connects by weak edges.
    """
    return float(common_gaps(spectra, range(max(2, n_clusters // 2 + 1), n_clusters + 1)).max(initial=1.0))


def common_gaps(spectra: Sequence[Floats], numbers: Iterable[int]) -> Floats:
    """The least :func:`eigengap` of all graphs after each of some numbers of parts: float64, one for each number."""
    gaps = [[eigengap(values, k) for values in spectra] for k in numbers]
    return np.array([min(of_k) for of_k in gaps])


def eigengap(values: Floats, k: int) -> float:
    """Eigengap of the normalised kernel after the k-th eigenvalue: (1 - l_k+1) / (1 - l_k).

    Parameters
    ----------
    values : ndarray of float64, shape (m,), descending
        The largest is 1.
    k : int

    Returns
    -------
    gap : float
        At least 1; large if the graph falls into k parts, between which cuts are far cheaper than within one. 1 if m is
        not above k.
    """
    if len(values) <= k:
        return 1.0
    within, between = 1.0 - values[k], 1.0 - values[k - 1]
    return float(max(within, LEAST_DISTANCE) / max(between, LEAST_DISTANCE))


def growth(values: Floats, numbers: Sequence[int]) -> Floats:
    """Powers with which 1 minus the eigenvalues of the normalised kernel grow with their number.

    Parameters
    ----------
    values : ndarray of float64, shape (m,), descending
        The largest is 1.
    numbers : sequence of int, length q + 1, ascending
        Between 1 and m.

    Returns
    -------
    powers : ndarray of float64, shape (q,)
        From each number to the next.
    """
    at = np.array(numbers)
    distances = np.maximum(1.0 - values[at - 1], LEAST_DISTANCE)
    powers: Floats = np.diff(np.log(distances)) / np.diff(np.log(at))
    return powers


def growth_after(values: Floats, n_parts: int) -> float:
    """Power with which eigenvalues grow that are after those of some parts of a graph, from number 2 k to 4 k.

    One minus the eigenvalues of k equal curves is 0 k times, then a, 4 a and 9 a k times each, or a and 4 a twice as
    often if they are closed, and so at least fourfold from number 2 k to 4 k, or to the last. It is twofold for disks,
    and less for balls, and for groups of several clusters.

    Parameters
    ----------
    values : ndarray of float64, shape (m,), descending
        Of the normalised kernel; the largest is 1.
    n_parts : int

    Returns
    -------
    power : float
        As :func:`growth`; nan if there are fewer than 3 k values.
    """
    numbers = 2 * n_parts, min(4 * n_parts, len(values))
    return growth(values, numbers).item() if len(values) >= 3 * n_parts else float("nan")


def are_long(values: Floats, n_parts: int) -> bool:
    """Whether parts of a graph are long, as :func:`growth_after` them tells; not if there are too few values."""
    return growth_after(values, n_parts) >= LONG
