"""select: consensus and choice of labelings, and LSMI of those that it may choose, or that are reported."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import consensus, local_moving
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.valleys import LEAST_SIGN, THRESHOLD
from bigsmic.numerics.mutual_information.lsmi_scores import LSMIScore, first_equal, join_sweeps, score_one
from bigsmic.numerics.mutual_information.lsmi_sums import LSMIDesign, LSMISettings, LSMISums, block_sums
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import kernel_matrix, link_scores, mi_samples, number, valleys
from bigsmic.stages.graph_parts import falls_apart
from bigsmic.stages.labeling_specs import (
    FINEST_CUT,
    Eigenproblem,
    eigenproblems,
    eigenvector_sets_of,
    specs_of,
)
from bigsmic.stages.labelings import Reader, read_labels
from bigsmic.stages.shown_number import all_vote, are_joined
from bigsmic.types import Floats, Integers

CONSENSUS = -1
"""Stands for the consensus in place of a labeling's number."""
CUTS, CUTS_AT_ONCE = 64, 8
"""Cuts of a consensus that are tried for c classes more, and those of them in one pass, which reads all labels."""
FINER = 0.8
"""Largest ratio of the cut of a consensus of a fine set, or by valleys, to that of one in whose place it is taken."""
ROUNDING = 1e-9  # by which associations of equal labelings may differ if their clusters are numbered differently


def run(job: Job, n_gammas: int | None = None) -> None:
    """Compare the labelings, and score those that LSMI may choose, or the result and the medoid labeling.

    Parameters
    ----------
    job : Job
    n_gammas : int, optional
        Widths per pass, as planned for the memory limit; all at once by default. The scores do not depend on it.
    """
    agree(job)
    if len(eigenvector_sets_of(job.context)) > 1 and job.context.settings.selection == "consensus":
        job.run_steps("eigenvector_sets", [0], _rate)
    if specs_of(job.context).valley_sets:
        valleys.test(job, {w: partial(most_voted, w=w) for w in _rivals(job.context)})
    if not job.context.settings.precomputed:
        score(job, n_gammas)


def agree(job: Job) -> None:
    """Compare the labelings, and compute the classes into which their labels are merged."""
    job.run_steps("consensus", [0], _agree)


def score(job: Job, n_gammas: int | None = None) -> None:
    """Estimate the LSMI of labelings; see :func:`run`."""
    job.run_steps("scores", [0], partial(_score, n_gammas=n_gammas))


def _score(job: Job, block: int, n_gammas: int | None) -> None:
    context = job.context
    design, center_labels = mi_samples.drawn_design(job, "scores", _wanted(context), _labels)
    count = context.settings.n_lsmi_rows(context.n)
    drawn = None if count == context.n else draw_rows(context.n, count, context.settings.seed, "lsmi")
    parts = []
    for sweep in design.sweeps(n_gammas or len(design.gammas)):
        sums = job.sum_blocks("scores", context.blocks, partial(_sums, drawn=drawn, design=sweep))
        first = first_equal(sums, center_labels)
        distinct = np.unique(first).tolist()
        found = job.map_here(partial(_score_one, sums=sums, labels=center_labels, design=sweep), distinct)
        of = dict(zip(distinct, found, strict=True))
        parts.append([of[b] for b in first.tolist()])
    scores = [join_sweeps(list(of_one)) for of_one in zip(*parts, strict=True)]
    info = {"rows": count, "centers": design.n_centers, "numbers": _scored(context)}
    job.run.write("scores", 0, _table(scores, design), info=info)


def _scored(context: Context) -> list[int]:
    """Numbers of the labelings that are scored, and :data:`CONSENSUS`."""
    return context.cached(
        "scored", lambda: _most_telling(context) if context.settings.reports_lsmi else specs_of(context).candidates
    )


def _most_telling(context: Context) -> list[int]:
    """The medoid labeling, and the consensus if that is the result."""
    numbers = specs_of(context).candidates
    medoid = numbers[consensus.medoid(context.run.read("consensus", 0, "ari")[np.ix_(numbers, numbers)])]
    return [medoid, CONSENSUS] if chosen(context) is None else [medoid]


def _score_one(b: int, sums: LSMISums, labels: Integers, design: LSMIDesign) -> LSMIScore:
    return score_one(sums, b, labels[b], design)


def _wanted(context: Context) -> LSMISettings:
    """Settings of the estimate."""
    settings = context.settings
    return replace(
        LSMISettings.paper() if settings.preset == "paper" else LSMISettings(),
        n_centers=settings.n_centers,
        n_folds=min(5, context.n),
        seed=settings.seed,
    )


def _labels(context: Context, p: int, chosen: Any) -> Integers:
    return np.stack([_scored_labels(context, p, b, chosen) for b in _scored(context)]).astype(np.int32)


def _scored_labels(context: Context, p: int, b: int, rows: Any) -> Integers:
    if b != CONSENSUS:
        return read_labels(context, p, b)[rows]
    return most_voted(context, p, context.cached("chosen_set", lambda: chosen_set(context)), rows)


def _sums(context: Context, p: int, drawn: Integers | None, design: LSMIDesign) -> LSMISums:
    read = context.run.reader("rows", p)
    rows = read("rows")
    chosen = slice(None) if drawn is None else np.isin(rows, drawn)
    labels = _labels(context, p, chosen)
    return block_sums(read("X")[chosen], rows[chosen], labels, design, n_classes=_most_labels(context))


def _most_labels(context: Context) -> int:
    """Largest number of labels of a labeling; one merged by valleys may have more than there are clusters."""
    found = (Reader(context, specs_of(context)[b]).n_groups for b in _scored(context) if b != CONSENSUS)
    return context.cached("most_labels", lambda: max(context.settings.n_clusters, *found))


def _table(scores: Sequence[LSMIScore], design: LSMIDesign) -> dict[str, Any]:
    columns = {name: np.array([getattr(s, name) for s in scores]) for name in ("lsmi", "gamma", "delta", "cv")}
    uncovered = np.array([len(score.without_center) for score in scores])
    tables = np.stack([score.cv_table for score in scores])
    grids = {"gammas": design.gammas, "deltas": design.deltas}
    return columns | {"classes_without_center": uncovered, "cv_table": tables} | grids


# -- consensus and choice


def _agree(job: Job, block: int) -> None:
    """Write ARIs of all pairs of labelings, and the classes of labels in the consensus of each eigenvector set.

    If no cut of a consensus has c classes that win rows, the labeling with c labels that agrees most with the others of
    its set votes alone, as no cluster may be empty.
    """
    context = job.context
    of = [Reader(context, spec).n_groups for spec in specs_of(context)]
    total = job.sum_blocks("consensus", context.blocks, partial(_label_gram, of=of))
    at, trees = consensus.label_offsets(of), []
    by_valleys = specs_of(context).valley_sets
    for w, eigenvector_set in enumerate(eigenvector_sets_of(context)):
        columns = np.concatenate([np.arange(at[b], at[b + 1]) for b in eigenvector_set])
        shared, sizes = total[np.ix_(columns, columns)], [of[b] for b in eigenvector_set]
        trees.append(consensus.overlap_tree(shared) if w in by_valleys else consensus.consensus_tree(shared, sizes))
    found, tied = _cut_full(job, trees, of)
    ari = consensus.pairwise_ari(total, of)
    lacking = [w for w, classes in enumerate(found) if classes.max(initial=-1) + 1 < context.settings.n_clusters]
    for w in lacking:
        found[w], tied[w] = _of_one(eigenvector_sets_of(context)[w], of, ari, context.settings.n_clusters, found[w]), []
    arrays = {"ari": ari} | {f"classes.{w}": classes for w, classes in enumerate(found)}
    context.run.write("consensus", 0, arrays, info={"sizes": of, "tied": tied, "lacking": lacking})


def _label_gram(context: Context, p: int, of: Sequence[int]) -> Integers:
    """Number of rows of one block shared by every two labels of the labelings."""
    return consensus.label_gram(all_labels(context, p, range(len(of))), of)


def _cut_full(job: Job, trees: list[MergeTree], of: Sequence[int]) -> tuple[list[NDArray[Any]], list[list[int]]]:
    """Cut the tree of every eigenvector set so that c classes win rows.

    A cut into c often contains classes that occur in few labelings and are outvoted in every row. Such a tree is cut
    finer, up to `FINEST_CUT` c classes, and classes that win no row are left out. The coarsest cut is taken in which c
    classes win rows, among a cut for each 64th of c and those around a place where the winners pass c. If there is
    none, that of the most winners below c.

    Returns
    -------
    classes : list of ndarray of int64
        Class of each label of the labelings of an eigenvector set.
    tied : list of list of int
        Classes of a set that win no row alone; see :func:`bigsmic.numerics.labeling.consensus.consensus_labels`.
    """
    c = job.context.settings.n_clusters
    most = [min(FINEST_CUT * c, len(tree.columns)) for tree in trees]
    found: list[np.ndarray] = [np.empty(0, np.int64)] * len(trees)
    tied: list[list[int]] = [[] for _ in trees]
    ahead = {w: range(min(c, most[w]), min(c, most[w]) + 1) for w in range(len(trees))}
    while ahead:
        cuts = [(w, k) for w, numbers in ahead.items() for k in numbers]
        classes = [(w, trees[w].cut(k)) for w, k in cuts]
        total = job.sum_blocks("consensus", job.context.blocks, partial(_rows_won, of=of, classes=classes))
        n_winners: dict[int, list[int]] = {w: [] for w in ahead}
        parts = np.split(total, np.cumsum([k for _, k in cuts])[:-1], axis=1)
        for (w, of_cut), (counts, alone) in zip(classes, parts, strict=True):
            n_winners[w].append(int(np.count_nonzero(counts)))
            if found[w].max(initial=-1) + 1 < n_winners[w][-1] <= c:
                found[w] = consensus.winners(of_cut, counts)
                tied[w] = np.flatnonzero(alone[counts > 0] == 0).tolist()
        ahead = {w: _finer(numbers, n_winners[w], c, most[w]) for w, numbers in ahead.items()}
        ahead = {w: numbers for w, numbers in ahead.items() if numbers}
    return found, tied


def _finer(numbers: range, n_winners: Sequence[int], c: int, most: int) -> range:
    """Cuts to try after these, of which so many classes win rows; none once c do, or all of the cuts have more."""
    step, over = -(-c // CUTS), [k for k, n in zip(numbers, n_winners, strict=True) if n > c]
    if c in n_winners or len(over) == len(numbers):
        return range(0)
    if over and step > 1:
        return range(max(over[0] - step, c) + 1, over[0]) if numbers.step > 1 else range(0)
    first = numbers[-1] + step
    return range(first, min(first + CUTS_AT_ONCE * step, most + 1), step)


def _of_one(
    eigenvector_set: Sequence[int], of: Sequence[int], ari: Floats, c: int, found: NDArray[Any]
) -> NDArray[Any]:
    """Classes by which one labeling with c labels votes alone; as they were found, if there is none in the set."""
    full = [i for i, b in enumerate(eigenvector_set) if of[b] == c]
    if not full:
        return found
    agreement = ari[np.ix_(eigenvector_set, eigenvector_set)].mean(axis=1)
    best = max(full, key=lambda i: agreement[i])
    classes = [np.arange(c) if i == best else np.full(of[b], -1) for i, b in enumerate(eigenvector_set)]
    return np.concatenate(classes)


def _rows_won(context: Context, p: int, of: Sequence[int], classes: Sequence[tuple[int, Integers]]) -> Integers:
    """Numbers of rows won by each class of each cut of an eigenvector set: int64, shape (2, classes of all)."""
    counts, sets = [], eigenvector_sets_of(context)
    labels = all_labels(context, p, range(len(of)))
    for w, of_set in groupby(classes, key=itemgetter(0)):
        of_labelings, columns = [of[b] for b in sets[w]], labels[:, sets[w]]
        counts += [consensus.rows_won(columns, of_labelings, of_cut, of_cut.max() + 1) for _, of_cut in of_set]
    return np.concatenate(counts, axis=1)


def _rate(job: Job, block: int) -> None:
    """Modularity and normalised association of the consensus of each eigenvector set on the graph of every t.

    At a given number of clusters they determine how far to over-segment: far for clusters of even size, little for
    skewed sizes, where the largest would be split and the smallest joined.
    """
    totals = job.run_actors("eigenvector_sets", EigenvectorSetLabels, lambda group: _weight_sums(job, group))
    criteria = {"modularity": local_moving.modularity, "association": local_moving.normalized_association}
    rates = {
        name: np.array([[criterion(sums) for sums in total] for total in totals]).T
        for name, criterion in criteria.items()
    }
    job.context.run.write("eigenvector_sets", 0, rates, info={"by_agreement": True})


def _weight_sums(job: Job, group: Group) -> Any:
    """Sums of `bigsmic.numerics.labeling.local_moving.modularity_sums` for every graph and eigenvector set."""
    totals = []
    for graph in dict.fromkeys(eigenproblem.graph for eigenproblem in eigenproblems(job.context.settings)):
        kernel_matrix.prepare(job, graph)
        totals.append(group.call_sum(("modularity_sums", graph, job.plan.kernel_in_memory)))
    return totals


class EigenvectorSetLabels:
    """Labels of the rows of one shard under the consensus of every eigenvector set.

    Parameters
    ----------
    context : Context
    shard : Shard
    """

    def __init__(self, context: Context, shard: Shard) -> None:
        self.context, self.shard = context, shard
        found = [[most_voted(context, p, w) for w in range(len(eigenvector_sets_of(context)))] for p in shard.blocks]
        self.labels = np.concatenate([np.stack(of_block, axis=1) for of_block in found])

    def modularity_sums(self, eigenproblem: Eigenproblem, in_memory: bool) -> Any:
        """Sums of `local_moving.modularity` for every eigenvector set: float64, shape (n_sets, 2, c)."""
        load = kernel_matrix.loader(self.context, self.shard, kernel_matrix.weights_name(eigenproblem), in_memory)
        halo = self.shard.halo(lambda p: load(p).halo)
        extended, c = halo.extend(self.labels), self.context.settings.n_clusters

        def task(p: int) -> Any:
            block = load(p)
            known = halo.around(p, block.halo, extended)
            return np.stack([local_moving.modularity_sums(block, labels, c) for labels in known.T])

        return self.shard.sum_over_blocks(task)


def most_voted(context: Context, p: int, w: int, rows: Any = slice(None)) -> Integers:
    """Class of most votes of the labelings of an eigenvector set, for rows of one block; unsigned, shape (b,)."""
    labels, of, classes = ballots(context, p, w)
    c = context.settings.n_clusters
    # kept for every row and eigenvector set, hence as bytes if there are few clusters
    return consensus.vote(labels[rows], of, classes, c).argmax(axis=1).astype(np.min_scalar_type(c))


def ballots(context: Context, p: int, w: int) -> tuple[Integers, list[int], Integers]:
    """Labels of one block under the labelings of an eigenvector set, their sizes, and the classes of the labels."""
    eigenvector_set, read = eigenvector_sets_of(context)[w], context.run.reader("consensus", 0)
    of = context.run.info("consensus", 0)["sizes"]
    return all_labels(context, p, eigenvector_set), [of[b] for b in eigenvector_set], read(f"classes.{w}")


def tied_classes(context: Context, w: int) -> list[int]:
    """Clusters of the consensus of an eigenvector set that win no row alone; none in runs of earlier versions."""
    tied = context.run.info("consensus", 0).get("tied")
    return [] if tied is None else tied[w]


def all_labels(context: Context, p: int, numbers: Iterable[int]) -> Integers:
    """Labels of one block under the given labelings, int32, shape (b, B)."""
    return np.stack([read_labels(context, p, b) for b in numbers], axis=1)


def chosen(context: Context) -> int | None:
    """Number of the labeling that the fit returns, the first among equals; None for a consensus."""
    if len(specs_of(context)) == 1 and not context.settings.propagates:
        return 0
    if context.settings.selection == "lsmi":
        return int(np.argmax(context.run.read("scores", 0, "lsmi")))
    if context.settings.selection == "links":
        return link_scores.chosen(context)
    if context.settings.selection == "medoid":
        return consensus.medoid(context.run.read("consensus", 0, "ari"))
    return None


def _rivals(context: Context) -> dict[int, None]:
    """Eigenvector sets between which valleys decide: the best of those merged by density, and of those by valleys."""
    sets = eigenvector_sets_of(context)
    by_valleys = specs_of(context).valley_sets
    every = range(len(sets) - len(by_valleys)), by_valleys
    return dict.fromkeys(best_rated(context, numbers) for numbers in every if len(numbers))


def chosen_set(context: Context) -> int:
    """Number of the eigenvector set whose consensus the fit returns.

    The best rated of those that are cut by density, unless trees of valleys have a better claim:

    - The labelings agree on the requested clusters by valleys, or on those that the data show; the requested ones are
      all there and separated, and two of the first are clearly not, or one of them has no rows. Half of the threshold
      is enough where they agree on the requested ones, and the data show clusters.
    - They agree on the requested ones where the data show clusters, or on fewer that the data show, and there is no
      sign of a valley between two of the first. Then density has halved a large cluster, and valleys cut off what hangs
      on least; no cut may have all clusters separated.
    - The data show this number, there is some sign of a valley between all of the second, and none between two of the
      first.
    - Distances tell which groups belong together, and the graph does not.
    - Of two or three clusters, they cut clearly less: modularity halves a large one rather than part a small one that
      touches it.

    Where labelings agree on neither, clusters by valleys may be separated with one seed and not with the next.
    """
    if not specs_of(context).valley_sets:
        return best_rated(context, range(len(eigenvector_sets_of(context))))
    by_density, *by_valleys = _rivals(context)
    if not by_valleys:
        return by_density
    c, shown = context.settings.n_clusters, number.counted(context.run)
    if are_joined(context.run, c):
        return by_valleys[0]
    on_asked = number.are_agreed(context.run, c)
    on_shown = shown is not None and number.are_agreed(context.run, shown)
    sure, limits = on_asked and shown is not None, []
    if on_asked or on_shown or not number.asks_agreement(context.run):
        limits.append((THRESHOLD / 2, THRESHOLD / 2 if sure else THRESHOLD))
    if sure or number.are_fewer(context.run, c):
        limits.append((LEAST_SIGN, 0.0))
    if shown == c:
        limits.append((LEAST_SIGN, LEAST_SIGN))
    for in_doubt, least in limits:
        if not are_separated(context, by_density, in_doubt) and are_separated(context, by_valleys[0], least):
            return by_valleys[0]
    are_few = bool(specs_of(context).fine_sets) and number.asks_cuts(context.run)
    return by_valleys[0] if are_few and _cuts_less(context, by_valleys[0], by_density) else by_density


def are_separated(context: Context, w: int, threshold: float = THRESHOLD) -> bool:
    """Whether the requested number of clusters have rows, and valleys of at least this z separate all neighbours."""
    read = context.run.reader(valleys.EVIDENCE, w)
    return np.count_nonzero(read("counts")) == context.settings.n_clusters and bool(np.all(read("z") >= threshold))


def weakest_valley(context: Context) -> float:
    """Z of the weakest valley between neighbouring clusters of the result; infinite without neighbours."""
    return float(context.run.read(valleys.EVIDENCE, chosen_set(context), "z").min(initial=np.inf))


def best_rated(context: Context, numbers: Sequence[int]) -> int:
    """Number of the best rated of some eigenvector sets, all merged by density or all by valleys.

    If the graph falls into parts by itself, of the sets of largest normalised association, which differ only in how
    ties are broken, the one whose labelings agree most, the last among equals, which over-segments least; or, where
    parts are the answer and labelings by valleys may disagree, the first, in which all vote. A set of fewer clusters
    has more association in any case, and does not count. Otherwise first the shrinkages of largest mean modularity over
    their eigenvector sets, since the modularity of one consensus is random in the third digit; then the eigenvector set
    among these. Either way, a set without a consensus of c clusters, for which one labeling votes, counts only if all
    are.

    Fine sets only count if one cuts clearly less: that of largest association among them is then the best.
    """
    fine = [w for w in numbers if w in specs_of(context).fine_sets]
    best = _best_of_coarse(context, [w for w in numbers if w not in fine])
    if not fine:
        return best
    finest = fine[int(_cuts(context, fine).argmin())]
    return finest if _cuts_less(context, finest, best) else best


def _cuts_less(context: Context, w: int, other: int) -> bool:
    """Whether an eigenvector set has a consensus of c clusters that cuts clearly less than that of another set."""
    return bool(_cuts(context, [w])[0] <= FINER * (1 - _associations(context, [other])[0]))


def _cuts(context: Context, numbers: Sequence[int]) -> Floats:
    """Normalised cut of the consensus of eigenvector sets; infinite for a set without one of c clusters."""
    lacking = context.run.info("consensus", 0).get("lacking", [])
    return np.where(np.isin(numbers, lacking), np.inf, 1 - _associations(context, numbers))


def _best_of_coarse(context: Context, numbers: Sequence[int]) -> int:
    if len(numbers) == 1:
        return numbers[0]
    if falls_apart(context, context.settings.n_clusters):
        rates, read = _associations(context, numbers), context.run.reader("consensus", 0)
        sizes = np.array([read(f"classes.{w}").max() for w in numbers])
        rates[~_are_eligible(context, numbers) | (sizes < sizes.max())] = -np.inf
        return _best_of_parts(context, numbers, rates)
    if eigenvector_sets_of(context)[numbers[-1]] == specs_of(context).plain:
        numbers = numbers[:-1]
    rates = context.run.read("eigenvector_sets", 0, "modularity").mean(axis=1)[numbers]
    rates = rates.reshape(len(specs_of(context).shrinkages), -1)
    whole = _are_eligible(context, numbers).reshape(rates.shape)
    best = int(np.argmax(np.where(whole.any(axis=1), rates.mean(axis=1), -np.inf)))
    return numbers[best * rates.shape[1] + int(np.argmax(np.where(whole[best], rates[best], -np.inf)))]


def _associations(context: Context, numbers: Sequence[int]) -> Floats:
    found: Floats = context.run.read("eigenvector_sets", 0, "association").mean(axis=1)[numbers]
    return found


def _best_of_parts(context: Context, numbers: Sequence[int], rates: Floats) -> int:
    """Number of the best of some eigenvector sets with these associations, where the graph falls into parts."""
    equal = [numbers[i] for i in np.flatnonzero(rates >= rates.max() - ROUNDING).tolist()]
    if numbers[0] in specs_of(context).valley_sets and all_vote(context.run, context.settings.n_clusters):
        return equal[0]
    if not context.run.info("eigenvector_sets", 0).get("by_agreement"):
        return equal[-1]
    agreement = [_agreement(context, w) for w in equal]
    return [w for w, ari in zip(equal, agreement, strict=True) if ari >= max(agreement) - ROUNDING][-1]


def _agreement(context: Context, w: int) -> float:
    """Mean adjusted Rand index of two labelings of an eigenvector set; 1 if it has one."""
    numbers = eigenvector_sets_of(context)[w]
    ari = context.run.read("consensus", 0, "ari")[np.ix_(numbers, numbers)]
    return float(ari[~np.eye(len(numbers), dtype=bool)].mean()) if len(numbers) > 1 else 1.0


def _are_eligible(context: Context, numbers: Sequence[int]) -> NDArray[np.bool_]:
    """Whether eigenvector sets have a consensus of c clusters: bool, one for each; true for all if none has.

    Where valleys show c, not either if more of its labelings miss one of the valleys than of another set's.
    """
    lacking = context.run.info("consensus", 0).get("lacking", [])
    found = ~np.isin(numbers, lacking)
    found = found if found.any() else ~found
    missing = number.that_miss_valleys(context, context.settings.n_clusters)
    shares = np.array([np.isin(eigenvector_sets_of(context)[w], missing).mean() for w in numbers])
    return found & (shares == shares[found].min())


def members(context: Context) -> dict[int, NDArray[Any]]:
    """Class of every label of the labelings of the result: dict of number to int64 array."""
    b = chosen(context)
    if b is not None:
        return {b: np.arange(Reader(context, specs_of(context)[b]).n_groups)}
    w = chosen_set(context)
    of = [context.run.info("consensus", 0)["sizes"][b] for b in eigenvector_sets_of(context)[w]]
    classes = np.split(context.run.read("consensus", 0, f"classes.{w}"), consensus.label_offsets(of)[1:-1])
    return dict(zip(eigenvector_sets_of(context)[w], classes, strict=True))
