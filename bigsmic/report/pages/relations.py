"""Relations between clusters: density ratios, and their merge tree."""

from functools import partial

from bigsmic import plots
from bigsmic.report.document import WIDTH, Figure, Section
from bigsmic.report.subject import Subject
from bigsmic.tables import count


def section(subject: Subject) -> Section | None:
    """The relations, if there are at least two clusters."""
    result = subject.result
    if result.settings.undecided or subject.n_clusters < 2:
        return None
    clusters = count(subject.n_clusters, "cluster")
    tree = Figure(
        partial(plots.tree, result),
        f"Merge tree of {clusters}",
        "Merge tree: clusters that share rows most are merged first, at the bottom.",
        (WIDTH, 4.2),
    )
    ratios = Figure(
        partial(plots.relations, result),
        f"Density ratios between {clusters}, as an image",
        "Density ratios, in the order of the tree: how much more often than by chance two clusters have posterior at "
        "one row. Bright pairs are hard to tell apart.",
        (WIDTH, 4.8),
    )
    return Section("relations", "Relations between clusters", [tree, ratios])
