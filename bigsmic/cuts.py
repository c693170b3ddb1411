"""What the merge trees of a fit say of other numbers of clusters."""

import numpy as np

from bigsmic import merge
from bigsmic.context import Context
from bigsmic.errors import InputError
from bigsmic.hashing import draw_rows
from bigsmic.stages.assign import Reader, read_basis

SAMPLE_ROWS = 20_000


def _merged(context):
    """Readers of the labelings that have a tree."""
    readers = [Reader(context, b) for b in range(len(context.readings))]
    readers = [reader for reader in readers if reader.reading.assignment == "merge"]
    if not readers:
        raise InputError("tree: this fit has no over-segmented labeling; use assignment='merge', or more rows")
    return readers


def _sampled_labels(context, readers, numbers):
    """Labels of sampled rows under every labeling that has enough columns, at every cut: dict of int to (rows, B)."""
    rows = draw_rows(context.n, SAMPLE_ROWS, context.settings.seed, "stability")
    found: dict[int, list] = {number: [] for number in numbers}
    for reader in readers:
        cuts = [number for number in numbers if number <= len(reader.tree.columns)]
        parts = []
        for p in context.blocks:
            V = read_basis(context, reader.reading, p)[np.isin(context.run.read("rows", p, "rows"), rows)]
            parts.append(merge.cut_labels(reader.columns(V).posterior, reader.tree, cuts))
        for number, labels in zip(cuts, np.concatenate(parts).T, strict=True):
            found[number].append(labels)
    return {number: np.stack(labels, axis=1) for number, labels in found.items() if labels}


def stability(run, settings):
    """Mean pairwise ARI of the labelings at every cut that at least two of them have.

    Parameters
    ----------
    run : Run
    settings : Settings

    Returns
    -------
    numbers : list of int
    mean_ari : list of float
    """
    context = Context(None, run, settings)
    readers = _merged(context)
    widest = sorted(len(reader.tree.columns) for reader in readers)[-2:][0]
    found = _sampled_labels(context, readers, range(2, widest + 1))
    mean_ari = [
        merge.stability(
            merge.pairwise_ari(merge.label_gram(labels, [number] * labels.shape[1]), [number] * labels.shape[1])
        )
        for number, labels in found.items()
    ]
    return list(found), mean_ari


def medoid_tree(run, settings):
    """Tree of the labeling that is most like the others, and the rows of its columns.

    Returns
    -------
    tree : MergeTree
    counts : ndarray of float64, shape (m,)
    """
    context = Context(None, run, settings)
    readers = _merged(context)
    least = min(settings.n_clusters, *(len(reader.tree.columns) for reader in readers))
    labels = _sampled_labels(context, readers, [least])[least]
    sizes = [least] * labels.shape[1]
    best = readers[merge.medoid(merge.pairwise_ari(merge.label_gram(labels, sizes), sizes))]
    return best.tree, best.counts
