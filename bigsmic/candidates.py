"""What is solved, and how the solutions are read: eigenproblems, and the labelings made of their eigenvectors."""

from typing import NamedTuple

from bigsmic.merge import candidate_widths


class Problem(NamedTuple):
    """One eigenproblem: the kernel of one t-graph.

    Parameters
    ----------
    kernel : {"local_scaling", "normalized", "callable", "precomputed"}
    t : int
    """

    kernel: str
    t: int

    @property
    def name(self):
        """Name of its artifacts."""
        return f"{self.kernel}.t{self.t}"


class Reading(NamedTuple):
    """One labeling: some eigenvectors of one problem, and how they are read.

    Parameters
    ----------
    problem : Problem
    assignment : {"paper", "rotation", "merge"}
        Signs of the columns; columns turned; more columns than clusters, turned, merged and moved.
    width : int
        Columns that are read.
    """

    problem: Problem
    assignment: str
    width: int

    @property
    def name(self):
        """Name of its artifacts."""
        return f"{self.problem.name}.{self.assignment}.m{self.width}"


def problems(settings):
    """All eigenproblems of a fit, neighbouring t next to each other."""
    return [Problem(kernel, t) for kernel in settings.kernels for t in settings.t]


def readings(settings, n):
    """All labelings of a fit to n rows; of equal scores the first is chosen.

    Where n leaves no room for more columns than clusters, there is nothing to merge and the columns are only turned.
    """
    found = []
    for problem in problems(settings):
        for assignment in settings.assignments:
            widths = _widths(settings, n) if assignment == "merge" else []
            if widths:
                found += [Reading(problem, "merge", m) for m in widths]
            else:
                kind = "rotation" if assignment == "merge" else assignment
                found.append(Reading(problem, kind, min(settings.n_clusters, n)))
    return found


def _widths(settings, n):
    """Columns of the over-segmented labelings."""
    if settings.columns is not None:
        return [m for m in settings.columns if m >= settings.n_clusters]
    return candidate_widths(settings.n_clusters, settings.widths, n)
