"""What methods begin with: scan; then route -> neighbors -> graph -> repair for those on the neighbour graph."""

from bigsmic.runtime.job import Job
from bigsmic.stages import connectivity, distinct, graph, neighbors, output, precomputed, route, scan


def scan_rows(job: Job):
    """Scan the rows; where all of them are to be one cluster, or no more differ than are to be clusters, label them.

    Returns
    -------
    goes_on : bool
        Whether there is more to find.
    """
    settings = job.context.settings
    with job.timed("scan"):
        precomputed.run(job) if settings.precomputed else scan.run(job, job.plan.sample_rows)
    if settings.n_clusters != 1:
        return not distinct.settle(job)
    with job.timed("output"):
        output.run_single(job)
    return False


def build_graph(job: Job):
    """Find the neighbours of scanned rows, and connect the graph that they make."""
    if not job.context.settings.precomputed and not route.searched(job.context):
        with job.timed("route"):
            route.run(job)
        with job.timed("neighbors"):
            neighbors.run(job)
    with job.timed("graph"):
        graph.run(job)
        connectivity.run(job)
