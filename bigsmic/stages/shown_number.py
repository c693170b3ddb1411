"""What the stage ``number`` says of a number of clusters: whether labelings show it, and how trees are cut there."""

import numpy as np

from bigsmic.store import Run
from bigsmic.types import Integers

NUMBER = "number"
NOISE_FROM, REACH = "noise_from", "reach"
"""What the stage notes of the distance beyond which rows are noise, if some lies among clusters; and the same again if
labelings were compared without it."""
ABOUT = 0.05
"""Share of the number of clusters by which the median of the votes may differ from it."""
FAR_MORE = 2
"""Times the clusters shown: of fewer, some are too small to show a valley; of more, valleys were missed."""
NOT_FAR = 0.1
"""Share of a number of clusters by which the median of the votes may differ from it, if half of them are near it."""
PLAIN = 0.9
"""Mean adjusted Rand index between the labelings, cut at some number, at which they plainly agree on the clusters."""
PLAIN_OF_ONE_VOICE = 0.8
"""The same where all of them show that number, or about that."""
AGREED = 0.85
"""The same from which trees of valleys may be preferred where two clusters by density have no valley between them."""
FEWER_AGREED = 0.8
"""The same at a smaller number that they show, from which trees of valleys may cut off those beyond it."""
BEYOND_AGREED = 0.7
"""The same where two clusters by density are clearly halves of one."""


def was_run(run: Run) -> bool:
    """Whether the stage was run.

    Raises
    ------
    CorruptBlockError
        A finished run has lost it, and would seem to have been fitted without.
    """
    if not run.is_writable and "valleys" in (run.attribute("summary") or {}):
        run.entry(NUMBER, 0)
    return bool(run.done(NUMBER, 0))


def counted(run: Run) -> int | None:
    """Number of clusters that the data show; None if they show none, or the stage was not run."""
    info = run.info(NUMBER, 0) if was_run(run) else {"clear": False}
    return info["n_clusters"] if info["clear"] else None


def noise_from(run: Run) -> float:
    """Distance to neighbours beyond which rows are noise that lies among clusters; infinite if there is none."""
    return _distance(run, NOISE_FROM)


def reach(run: Run) -> float:
    """The same, without which labelings were compared; infinite if they were compared in all rows."""
    return _distance(run, REACH)


def _distance(run: Run, name: str) -> float:
    found: float = run.info(NUMBER, 0).get(name, np.inf) if run.done(NUMBER, 0) else np.inf
    return found


def is_shown(run: Run, n_clusters: int) -> bool:
    """Whether at least half of the labelings show so many clusters, and their median is about the same."""
    shown, votes = run.info(NUMBER, 0)["shown"], decisive_votes(run)
    return is_near(shown, n_clusters) and 2 * votes.count(n_clusters) >= len(votes)


def decisive_votes(run: Run) -> list[int]:
    """Clusters that each labeling shows; if labelings agree, those that count, of labelings that have not collapsed."""
    info = run.info(NUMBER, 0)
    votes: list[int] = info["common"] or info["votes"]
    return votes


def is_near(found: int, n_clusters: int, about: float = ABOUT) -> bool:
    """Whether a number of clusters that was found is about the one asked for."""
    return abs(found - n_clusters) <= about * n_clusters


def are_some_more(n_clusters: int, shown: int) -> bool:
    """Whether clusters are more than labelings show, but not :data:`FAR_MORE` times as many."""
    return shown < n_clusters < FAR_MORE * shown


def parted_from(run: Run) -> int:
    """Number of clusters beyond which they are parted by shape; 0 for earlier runs, whose clusters are not."""
    found: int = run.info(NUMBER, 0).get("parted_from", 0)  # earlier runs lack it
    return found


def are_by_shape(run: Run, n_clusters: int) -> bool:
    """Whether so many clusters are those of which there is some sign, with others parted from them by shape."""
    return 0 < parted_from(run) < n_clusters


def are_by_size(run: Run, n_clusters: int) -> bool:
    """Whether so many clusters of an earlier run are those shown, with the smallest groups parted from them."""
    return n_clusters in run.info(NUMBER, 0).get("by_size", ())


def are_joined(run: Run, n_clusters: int) -> bool:
    """Whether distances, and not the graph, tell which groups to join into so few clusters."""
    return n_clusters in run.info(NUMBER, 0)["joined"]


def are_parts(run: Run, n_clusters: int) -> bool:
    """Whether so many clusters are the parts that the graph falls into, which may be bent."""
    return run.done(NUMBER, 0) and run.info(NUMBER, 0)["parts"] == n_clusters


def dense_parts(run: Run, labeling: int, n_groups: int) -> Integers:
    """Number of the dense part of each group of a labeling: int64, shape (n_groups,).

    Parameters
    ----------
    run : Run
    labeling : int
        Number among those that are merged by valleys, which all have as many groups.
    n_groups : int
    """
    part_of: Integers = run.read(NUMBER, 0, "part_of").reshape(-1, n_groups)[labeling]
    return part_of


def are_dense_parts(run: Run, n_clusters: int) -> bool:
    """Whether so many clusters are the parts of the graph without sparse rows."""
    return are_parts(run, n_clusters) and run.info(NUMBER, 0)["dense_parts"]


def is_plain(run: Run, n_clusters: int) -> bool:
    """Whether the data show as many clusters, and the labelings agree on which ones they are, or show dense parts.

    Labelings of few rows also agree on a faint valley, as all see it at the same place, which some of the rows tell.
    """
    if counted(run) is None:
        return False
    info = run.info(NUMBER, 0)
    if are_joined(run, n_clusters) or are_dense_parts(run, n_clusters):
        return True
    votes = decisive_votes(run)
    n_near = sum(is_near(vote, n_clusters) for vote in votes)
    half, one_voice = 2 * n_near >= len(votes), n_near == len(votes)
    shown = half and is_near(info["shown"], n_clusters, NOT_FAR) and not info.get("faint")  # earlier runs lack it
    return shown and _agreement_at(run, n_clusters) >= (PLAIN_OF_ONE_VOICE if one_voice else PLAIN)


def is_disputed(run: Run, n_clusters: int) -> bool:
    """Whether valleys show the number, but the labelings do not agree plainly on the clusters.

    Where the answer is parts of the graph, the eigengap decides the number, but labelings, cut by density into the
    parts, may disagree.
    """
    info = run.info(NUMBER, 0)
    return info["parts_disputed"] if info["parts"] == n_clusters else not is_plain(run, n_clusters)


def are_agreed(run: Run, n_clusters: int) -> bool:
    """Whether the labelings agree on the requested clusters, cut by valleys."""
    return _agreement_at(run, n_clusters) >= AGREED


def are_fewer(run: Run, n_clusters: int) -> bool:
    """Whether the labelings agree which clusters the data show, and those asked for are some more, or cut off these."""
    shown = _separated(run)
    if shown is None:
        return False
    more = are_some_more(n_clusters, shown) or are_by_size(run, n_clusters)
    return more and _agreement_at(run, shown) >= FEWER_AGREED


def are_beyond(run: Run, n_clusters: int) -> bool:
    """Whether more clusters are asked for than the data show, on which the labelings agree, if not quite."""
    shown = _separated(run)
    if shown is None or not run.info(NUMBER, 0).get("beyond", False):  # earlier runs lack it, and have other labels
        return False
    return n_clusters > shown and _agreement_at(run, shown) >= BEYOND_AGREED


def _separated(run: Run) -> int | None:
    """Number of clusters that valleys separate; None if the data show none."""
    shown = counted(run)
    if shown is not None and run.info(NUMBER, 0)["surer"]:
        shown = run.info(NUMBER, 0)["shown"]
    return shown


def _agreement_at(run: Run, n_clusters: int) -> float:
    """Mean adjusted Rand index between the labelings, cut at so many clusters; 0 outside the curve."""
    return float(run.read(NUMBER, 0, "stability")[run.read(NUMBER, 0, "numbers") == n_clusters].sum())


def weakest_shown(run: Run) -> float:
    """Z of the weakest valley between the clusters that the data show, median over labelings."""
    numbers = run.read(NUMBER, 0, "numbers")
    return float(run.read(NUMBER, 0, "weakest")[numbers == run.info(NUMBER, 0)["n_clusters"]].min(initial=np.inf))
