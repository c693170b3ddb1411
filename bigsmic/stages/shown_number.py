"""What the stage ``number`` says of a number of clusters: whether labelings show it, and how trees are cut there."""

from bigsmic.store import Run

NUMBER = "number"
ABOUT = 0.05
"""Share of the number of clusters by which the median of the votes may differ from it."""
FAR_MORE = 2
"""Times the clusters shown: of fewer, some are too small to show a valley; of more, valleys were missed."""


def is_shown(run: Run, n_clusters: int) -> bool:
    """Whether at least half of the labelings show so many clusters, and their median is about the same."""
    shown, votes = run.info(NUMBER, 0)["shown"], decisive_votes(run)
    return is_near(shown, n_clusters) and 2 * votes.count(n_clusters) >= len(votes)


def decisive_votes(run: Run) -> list[int]:
    """Clusters that each labeling shows; if labelings agree, those that count, of labelings that have not collapsed."""
    info = run.info(NUMBER, 0)
    votes: list[int] = info.get("common") or info["votes"]  # which earlier runs lack
    return votes


def is_near(found: int, n_clusters: int, about: float = ABOUT) -> bool:
    """Whether a number of clusters that was found is about the one asked for."""
    return abs(found - n_clusters) <= about * n_clusters


def are_some_more(n_clusters: int, shown: int) -> bool:
    """Whether clusters are more than labelings show, but not :data:`FAR_MORE` times as many."""
    return shown < n_clusters < FAR_MORE * shown


def are_by_size(run: Run, n_clusters: int) -> bool:
    """Whether so many clusters are those that labelings show, with the smallest groups parted from them."""
    return n_clusters in run.info(NUMBER, 0).get("by_size", [])  # none in earlier runs


def are_joined(run: Run, n_clusters: int) -> bool:
    """Whether distances, and not the graph, tell which groups to join into so few clusters."""
    return n_clusters in run.info(NUMBER, 0).get("joined", [])  # none in earlier runs


def are_parts(run: Run, n_clusters: int) -> bool:
    """Whether so many clusters are the parts that the graph falls into, which may be bent."""
    return run.done(NUMBER, 0) and run.info(NUMBER, 0).get("parts") == n_clusters


def all_vote(run: Run, n_clusters: int) -> bool:
    """Whether all labelings vote, also where some alone are rated as high: on parts, those may disagree row by row.

    Not so in runs of earlier versions.
    """
    return are_parts(run, n_clusters) and bool(run.info(NUMBER, 0).get("all_vote"))
