"""Eigenproblems and labeling specifications of a fit."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bigsmic.runtime.context import Context
from bigsmic.types import Floats

MAX_COLUMNS = 100  # of an over-segmented labeling, where the first eigenvector set asks for less
FINEST_CUT = 3  # times the number of clusters, into which a consensus is cut to find as many that win rows
VALLEY_COLUMNS, ROWS_PER_COLUMN, LEAST_COLUMNS, FEWEST_COLUMNS = 60, 25, 10, 4
"""Columns of a labeling that is read by valleys where the number of clusters is open: twice the largest number, but the
first at least; a column for so many rows at most, but the third; a third of the rows at most. None below the fourth."""
MOST_COLUMNS = 960
LEAST_DISTANCE = 1e-7  # from 1 of an eigenvalue, by which two of them differ


class Eigenproblem(NamedTuple):
    """Specification of one eigenproblem: the kernel of one t-graph.

    Parameters
    ----------
    kernel : {"local_scaling", "normalized", "callable", "precomputed"}
    t : int
    link_weights : bigsmic.numerics.constraints.links.LinkWeights, optional
        Of the links that the matrix is made of beside the kernel.
    shrinkage : float
        How far degrees are drawn to their mean before they normalise the kernel.
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
        links = "" if self.link_weights is None else ".gamma{:g}.eta{:g}".format(*self.link_weights)
        shrunk = f".s{self.shrinkage:g}" if self.shrinkage else ""
        return f"{self.kernel}.t{self.t}{shrunk}{links}"


class LabelingSpec(NamedTuple):
    """Specification of one labeling: eigenvectors of one eigenproblem, and how they are turned into labels.

    Parameters
    ----------
    eigenproblem : Eigenproblem
    assignment : {"paper", "rotation", "merge", "valleys"}
        Signs of the columns; columns turned; more columns than clusters, turned, merged and moved; more columns than
        clusters, turned, moved, and merged where no valley parts them.
    n_eigenvectors : int
        Columns that are read.
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
    """All eigenproblems of a fit, neighbouring t next to each other, and those of one kernel and shrinkage."""
    return [
        Eigenproblem(kernel, t, link_weights, shrinkage)
        for kernel in settings.kernels
        for shrinkage in (settings.shrinkages if kernel == "normalized" else (0.0,))
        for t in settings.t
        for link_weights in settings.link_weights
    ]


def labeling_specs(settings: Any, n: int) -> list[LabelingSpec]:
    """All labelings of a fit to n rows; of equal scores the first is chosen.

    Where n leaves no room for more columns than clusters, there is nothing to merge and the columns are only turned.
    """
    by_valleys = valley_specs(settings, n)
    return by_valleys if settings.found else [*cut_specs(settings, n), *by_valleys]


def most_eigenvectors(settings: Any, n: int) -> int:
    """Eigenvectors of the labeling that reads most."""
    return max(spec.n_eigenvectors for spec in labeling_specs(settings, n))


def cut_specs(settings: Any, n: int) -> list[LabelingSpec]:
    """Labelings that are cut by the density ratio, or not at all; of a fit that leaves c open, those it has frames of.

    Where n leaves no room for more columns than clusters, there is nothing to merge and the columns are only turned.
    """
    found = []
    for eigenproblem in eigenproblems(settings):
        for assignment in settings.assignments:
            widths = sorted(set().union(*eigenvector_sets(settings, n))) if assignment == "merge" else []
            if widths:
                found += [LabelingSpec(eigenproblem, "merge", m) for m in widths]
            else:
                kind = "rotation" if assignment == "merge" else assignment
                found += [LabelingSpec(eigenproblem, kind, min(m, n)) for m in settings.numbers]
    return found


def valley_specs(settings: Any, n: int) -> list[LabelingSpec]:
    """Labelings whose groups are merged by valleys, one for each eigenproblem; none where rows are too few for it."""
    m = valley_columns(settings, n)
    return [LabelingSpec(eigenproblem, "valleys", m) for eigenproblem in eigenproblems(settings)] if m else []


def valley_columns(settings: Any, n: int) -> int:
    """Columns of the labelings that are read by valleys; 0 for none.

    With a given number of clusters, no more than other labelings have: the eigenvectors are there.
    """
    if not settings.reads_valleys:
        return 0
    if settings.open:
        wanted = settings.columns_read or max(VALLEY_COLUMNS, 2 * settings.open_to)
    else:
        widest = max((columns[-1] for columns in eigenvector_sets(settings, n)), default=0)
        wanted = min(widest, max(VALLEY_COLUMNS, 2 * settings.n_clusters))
    m = min(wanted, most_valley_columns(n))
    return m if m >= FEWEST_COLUMNS and (settings.open or m > settings.n_clusters) else 0


def most_valley_columns(n: int) -> int:
    """Columns of a labeling that is read by valleys which n rows allow."""
    return min(MOST_COLUMNS, max(LEAST_COLUMNS, n // ROWS_PER_COLUMN), n // 3)


def eigenvector_sets(settings: Any, n: int) -> list[tuple[int, ...]]:
    """Numbers of columns whose labelings form a consensus together, one tuple per candidate consensus.

    Returns
    -------
    eigenvector_sets : list of tuple of int
        Distinct; each with a number above that of the clusters, if this is not left open. Numbers above
        :data:`MAX_COLUMNS`, unless the first eigenvector set has them, and above a third of the rows are left out.
    """
    c = settings.n_clusters
    if settings.undecided and (m := valley_columns(settings, n)):
        return [(m,)]
    if settings.columns is not None:
        return [tuple(m for m in settings.columns if m >= c)]
    most = max(MAX_COLUMNS, round(max(settings.widths[0]) * c))
    found: list[tuple[int, ...]] = []
    for factors in settings.widths[:1] if settings.open else settings.widths:
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


def plain(settings: Any, n: int) -> list[int]:
    """Labelings that over-segment nothing, though they could: c eigenvectors, and plain degrees.

    Returns
    -------
    numbers : list of int
        Among :func:`specs`.
    """
    return [
        b
        for b, spec in enumerate(labeling_specs(settings, n))
        if (spec.assignment, spec.n_eigenvectors) == ("merge", settings.n_clusters) and not spec.eigenproblem.shrinkage
    ]


def specs_of(context: Context) -> list[LabelingSpec]:
    """All labelings of the fit that tasks see."""
    return context.cached("labeling_specs", lambda: labeling_specs(context.settings, context.n))


def plain_of(context: Context) -> list[int]:
    """Those of :func:`plain`, of the fit that tasks see."""
    return context.cached("plain", lambda: plain(context.settings, context.n))


def shrinkages_of(context: Context) -> list[tuple[float, ...]]:
    """Shrinkages whose labelings form a consensus together: all of them, and each alone."""
    every = tuple(dict.fromkeys(spec.eigenproblem.shrinkage for spec in specs_of(context)))
    return [every, *((s,) for s in every)] if len(every) > 1 else [every]


def eigenvector_sets_of(context: Context) -> list[list[int]]:
    """Labelings that form a consensus together: one list of their numbers per candidate consensus.

    Every eigenvector set with all shrinkages, then every eigenvector set with each shrinkage alone; beside several of
    them :func:`plain_of`; then those that are read by valleys, likewise. With links one, of the labelings that were
    taken for keeping them.
    """
    return context.cached("eigenvector_sets", lambda: _candidates(context))


def _candidates(context: Context) -> list[list[int]]:
    if context.settings.propagates:
        return [context.run.read("kept", 0, "taken").tolist()]
    specs, plain_ones = specs_of(context), plain_of(context)
    merged = [b for b, spec in enumerate(specs) if spec.assignment == "merge"]
    by_valleys = [b for b, spec in enumerate(specs) if spec.assignment == "valleys"]
    shrinkage_of = {b: specs[b].eigenproblem.shrinkage for b in by_valleys}
    valley_sets = [[b for b, s in shrinkage_of.items() if s in shrinkages] for shrinkages in shrinkages_of(context)]
    found = eigenvector_sets(context.settings, context.n) if merged else []
    if not found:
        return valley_sets if by_valleys else [list(range(len(specs)))]
    grid = [
        [b for b in merged if specs[b].n_eigenvectors in w and specs[b].eigenproblem.shrinkage in shrinkages]
        for shrinkages in shrinkages_of(context)
        for w in found
    ]
    grid += [plain_ones] if plain_ones and len(grid) > 1 else []
    return [*grid, *valley_sets] if by_valleys else grid


def candidates_of(context: Context) -> list[int]:
    """Numbers of the labelings that LSMI may choose from: those that are not read by valleys, or else all."""
    numbers = [b for b, spec in enumerate(specs_of(context)) if spec.assignment != "valleys"]
    return numbers or list(range(len(specs_of(context))))


def valley_sets_of(context: Context) -> list[int]:
    """Numbers of the eigenvector sets whose labelings are read by valleys."""
    specs = specs_of(context)
    return [w for w, of_set in enumerate(eigenvector_sets_of(context)) if specs[of_set[0]].assignment == "valleys"]


def clearest_gap(spectra: Iterable[Floats], n_clusters: int) -> float:
    """Largest eigengap after more than half of the clusters that all graphs have in common.

    Parameters
    ----------
    spectra : list of ndarray of float64
        Eigenvalues of each graph; see :func:`eigengap`.
    n_clusters : int
        c.

    Returns
    -------
    gap : float
        ``max_k min_g gap_gk``, c/2 < k <= c and k > 1. A single graph can have a gap by chance, after the last of
        its islands that repair hangs on a thread.
    """
    ks = range(max(2, n_clusters // 2 + 1), n_clusters + 1)
    gaps = np.array([[eigengap(values, k) for values in spectra] for k in ks])
    return float(gaps.min(axis=1).max(initial=1.0))


def eigengap(values: Floats, k: int) -> float:
    """How much farther from 1 the next eigenvalue of the normalised kernel is than the k-th: (1 - l_k+1) / (1 - l_k).

    Parameters
    ----------
    values : ndarray of float64, shape (m,), descending
        The largest is 1.
    k : int

    Returns
    -------
    gap : float
        At least 1; large where the graph falls into k parts, the cuts between which are far cheaper than any within
        one. 1 where m is not above k.
    """
    if len(values) <= k:
        return 1.0
    within, between = 1.0 - values[k], 1.0 - values[k - 1]
    return float(max(within, LEAST_DISTANCE) / max(between, LEAST_DISTANCE))
