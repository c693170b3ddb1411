"""First stages of a fit on the neighbour graph: scan, then route -> neighbors -> graph -> repair, then eigen."""

from bigsmic.runtime.job import Job
from bigsmic.settings import MethodSettings
from bigsmic.stages import (
    connectivity,
    distinct,
    eigenvectors,
    graph,
    neighbors,
    precomputed,
    projection,
    route,
    scan,
    trimming,
    wider_columns,
)

TEMPORARY = (
    "routed_rows",
    "neighbors",
    "lists",
    "more_neighbors",
    "candidates",
    "chosen",
    "edges",
    "matrix.",
    "ahead.",
)


def temporary(settings: MethodSettings) -> tuple[str, ...]:
    """Stages that are deleted when a fit has ended; weights are kept if cuts of an open c need them."""
    return TEMPORARY if settings.undecided else (*TEMPORARY, "weights.")


def scan_rows(job: Job, on_graph: bool = True) -> bool:
    """Scan the rows, and label them if the fit is trivial; see :mod:`bigsmic.stages.distinct`.

    Parameters
    ----------
    job : Job
    on_graph : bool
        Whether the method uses the neighbour graph, which may part equal rows.

    Returns
    -------
    goes_on : bool
        Whether the fit is not trivial, so that further stages run.
    """
    with job.timed("scan"):
        precomputed.run(job) if job.context.settings.precomputed else scan.run(job)
        is_trivial = distinct.is_trivial(job, on_graph)
    if is_trivial:
        with job.timed("output"):
            distinct.label(job)
    return not is_trivial


def build_graph(job: Job) -> None:
    """Find the neighbours of scanned rows, and connect their graph."""
    if not job.context.settings.precomputed:
        with job.timed("route"):
            projection.run(job)  # also if all rows were routed, as predictions read the axes
            searched = route.searched(job.context)
            if not searched:
                route.run(job)
        if not searched:
            with job.timed("neighbors"):
                neighbors.run(job)
    with job.timed("graph"):
        graph.run(job)
        connectivity.run(job)
        trimming.run(job)


def solve(job: Job, then: int = 0) -> None:
    """Compute the eigenvectors that labelings use, from those of fewer columns where the run has any.

    Parameters
    ----------
    job : Job
    then : int
        Number of eigenvectors that the fit may want later.
    """
    with job.timed("eigen"):
        eigenvectors.run(job, wider_columns.steps(job.run), then)
