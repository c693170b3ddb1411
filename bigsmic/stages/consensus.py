"""consensus: the classes into which the labels of every eigenvector set are merged, and the votes for them."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling import consensus as numerics
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import density
from bigsmic.stages.labeling_specs import FINEST_CUT, eigenvector_sets_of, specs_of
from bigsmic.stages.labelings import Reader, read_labels
from bigsmic.stages.shown_number import reach
from bigsmic.types import Floats, Integers

STAGE = "consensus"
CUTS, CUTS_AT_ONCE = 64, 8
"""Cuts of a consensus that are tried for c classes more, and those of them in one pass, which reads all labels."""


def agree(job: Job) -> None:
    """Compare the labelings, and compute the classes into which their labels are merged."""
    job.run_steps(STAGE, [0], _agree)


def _agree(job: Job, block: int) -> None:
    """Write ARIs of all pairs of labelings, and the classes of labels in the consensus of each eigenvector set.

    If no cut of a consensus has c classes that win rows, the labeling with c labels that agrees most with the others of
    its set votes alone, as no cluster may be empty.
    """
    context = job.context
    total, sizes = _shared_rows(job, range(len(specs_of(context))))
    at, trees = numerics.label_offsets(sizes), []
    by_valleys = specs_of(context).valley_sets
    for w, eigenvector_set in enumerate(eigenvector_sets_of(context)):
        columns = np.concatenate([np.arange(at[b], at[b + 1]) for b in eigenvector_set])
        shared, of_set = total[np.ix_(columns, columns)], [sizes[b] for b in eigenvector_set]
        trees.append(numerics.overlap_tree(shared) if w in by_valleys else numerics.consensus_tree(shared, of_set))
    found, tied = _cut_full(job, trees, sizes)
    ari = numerics.pairwise_ari(total, sizes)
    lacking = [w for w, classes in enumerate(found) if classes.max(initial=-1) + 1 < context.settings.n_clusters]
    for w in lacking:
        eigenvector_set = eigenvector_sets_of(context)[w]
        found[w], tied[w] = _of_one(eigenvector_set, sizes, ari, context.settings.n_clusters, found[w]), []
    arrays = {"ari": ari} | {f"classes.{w}": classes for w, classes in enumerate(found)}
    context.run.write(STAGE, 0, arrays, info={"sizes": sizes, "tied": tied, "lacking": lacking})


def medoid(job: Job, chosen: Sequence[int]) -> int:
    """Number of the labeling among the chosen ones that is most like the others."""
    return chosen[numerics.medoid(numerics.pairwise_ari(*_shared_rows(job, chosen)))]


def _shared_rows(job: Job, chosen: Sequence[int]) -> tuple[Integers, list[int]]:
    """Number of rows shared by every two labels of the chosen labelings, and the number of labels of each of these."""
    sizes = [Reader(job.context, specs_of(job.context)[b]).n_groups for b in chosen]
    return job.sum_blocks(STAGE, job.context.blocks, partial(_label_gram, chosen=chosen, sizes=sizes)), sizes


def _label_gram(context: Context, p: int, chosen: Sequence[int], sizes: Sequence[int]) -> Integers:
    """Number of rows of one block shared by every two labels of the chosen labelings, without noise among clusters."""
    in_clusters = density.within(context, p, reach(context.run))
    return numerics.label_gram(all_labels(context, p, chosen)[in_clusters], sizes)


def _cut_full(job: Job, trees: list[MergeTree], sizes: Sequence[int]) -> tuple[list[NDArray[Any]], list[list[int]]]:
    """Cut the tree of every eigenvector set so that c classes win rows.

    A cut into c often contains classes that occur in few labelings and are outvoted in every row. Such a tree is cut
    finer, up to `FINEST_CUT` c classes, and classes that win no row are left out. The coarsest cut is taken in which c
    classes win rows, among a cut for each 64th of c and those around a place where the winners pass c. If there is
    none, that of the most winners below c.

    Parameters
    ----------
    job : Job
    trees : list of MergeTree
        Of the labels of each eigenvector set.
    sizes : sequence of int
        Number of labels of every labeling.

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
        total = job.sum_blocks(STAGE, job.context.blocks, partial(_rows_won, sizes=sizes, classes=classes))
        n_winners: dict[int, list[int]] = {w: [] for w in ahead}
        parts = np.split(total, np.cumsum([k for _, k in cuts])[:-1], axis=1)
        for (w, of_cut), (counts, alone) in zip(classes, parts, strict=True):
            n_winners[w].append(int(np.count_nonzero(counts)))
            if found[w].max(initial=-1) + 1 < n_winners[w][-1] <= c:
                found[w] = numerics.winners(of_cut, counts)
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
    eigenvector_set: Sequence[int], sizes: Sequence[int], ari: Floats, c: int, found: NDArray[Any]
) -> NDArray[Any]:
    """Classes by which one labeling with c labels votes alone; as they were found, if there is none in the set."""
    full = [i for i, b in enumerate(eigenvector_set) if sizes[b] == c]
    if not full:
        return found
    agreement = ari[np.ix_(eigenvector_set, eigenvector_set)].mean(axis=1)
    best = max(full, key=lambda i: agreement[i])
    classes = [np.arange(c) if i == best else np.full(sizes[b], -1) for i, b in enumerate(eigenvector_set)]
    return np.concatenate(classes)


def _rows_won(context: Context, p: int, sizes: Sequence[int], classes: Sequence[tuple[int, Integers]]) -> Integers:
    """Numbers of rows won by each class of each cut of an eigenvector set: int64, shape (2, classes of all)."""
    counts, sets = [], eigenvector_sets_of(context)
    labels = all_labels(context, p, range(len(sizes)))
    for w, of_set in groupby(classes, key=itemgetter(0)):
        of_labelings, columns = [sizes[b] for b in sets[w]], labels[:, sets[w]]
        counts += [numerics.rows_won(columns, of_labelings, of_cut, of_cut.max() + 1) for _, of_cut in of_set]
    return np.concatenate(counts, axis=1)


def most_voted(context: Context, p: int, w: int, rows: Any = slice(None)) -> Integers:
    """Class of most votes of the labelings of an eigenvector set, for rows of one block; unsigned, shape (b,)."""
    labels, sizes, classes = ballots(context, p, w)
    c = context.settings.n_clusters
    # kept for every row and eigenvector set, hence as bytes if there are few clusters
    return numerics.vote(labels[rows], sizes, classes, c).argmax(axis=1).astype(np.min_scalar_type(c))


def voted(context: Context, p: int, w: int) -> Integers:
    """`most_voted` of all rows of one block; several passes read it, and most find it in the cache."""
    return context.block_cache.get((STAGE, w, p), partial(most_voted, context, p, w))


def ballots(context: Context, p: int, w: int) -> tuple[Integers, list[int], Integers]:
    """Labels of one block under the labelings of an eigenvector set, their sizes, and the classes of the labels."""
    eigenvector_set, read = eigenvector_sets_of(context)[w], context.run.reader(STAGE, 0)
    sizes = context.run.info(STAGE, 0)["sizes"]
    return all_labels(context, p, eigenvector_set), [sizes[b] for b in eigenvector_set], read(f"classes.{w}")


def tied_classes(context: Context, w: int) -> list[int]:
    """Clusters of the consensus of an eigenvector set that win no row alone."""
    tied: list[list[int]] = context.run.info(STAGE, 0)["tied"]
    return tied[w]


def all_labels(context: Context, p: int, numbers: Iterable[int]) -> Integers:
    """Labels of one block under the given labelings, int32, shape (b, B)."""
    return np.stack([read_labels(context, p, b) for b in numbers], axis=1)
