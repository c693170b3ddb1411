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
NOT_FAR = 0.1
"""Share of a number of clusters by which the median of the votes may differ from it, if half of them are near it."""
PLAIN = 0.9
"""Mean adjusted Rand index between the labelings, cut at some number, at which they plainly agree on the clusters."""
PLAIN_OF_ONE_VOICE = 0.8
"""The same where all of them show that number, or about that."""
AGREED = 0.7
"""The same at the number that valleys show, from which on they may tell which clusters density has halved."""


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


def parted_from(run: Run) -> int:
    """Number of clusters beyond which they are parted by shape, as there is no sign of more."""
    return int(run.info(NUMBER, 0)["parted_from"])


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
    shown = half and is_near(info["shown"], n_clusters, NOT_FAR) and not info["faint"]
    return shown and _agreement_at(run, n_clusters) >= (PLAIN_OF_ONE_VOICE if one_voice else PLAIN)


def is_disputed(run: Run, n_clusters: int) -> bool:
    """Whether valleys show the number, but the labelings do not agree plainly on the clusters.

    Where the answer is parts of the graph, the eigengap decides the number, but labelings, cut by density into the
    parts, may disagree.
    """
    info = run.info(NUMBER, 0)
    return info["parts_disputed"] if info["parts"] == n_clusters else not is_plain(run, n_clusters)


def agree_on_shown(run: Run) -> bool:
    """Whether valleys separate some clusters, and the labelings agree on these, if not quite."""
    if counted(run) is None:
        return False
    info = run.info(NUMBER, 0)
    return _agreement_at(run, info["shown"] if info["surer"] else info["n_clusters"]) >= AGREED


def _agreement_at(run: Run, n_clusters: int) -> float:
    """Mean adjusted Rand index between the labelings, cut at so many clusters; 0 outside the curve."""
    return float(run.read(NUMBER, 0, "stability")[run.read(NUMBER, 0, "numbers") == n_clusters].sum())


def weakest_shown(run: Run) -> float:
    """Z of the weakest valley between the clusters that the data show, median over labelings."""
    numbers = run.read(NUMBER, 0, "numbers")
    return float(run.read(NUMBER, 0, "weakest")[numbers == run.info(NUMBER, 0)["n_clusters"]].min(initial=np.inf))
