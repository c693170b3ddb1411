"""Cuts of the merge trees of a fit at other numbers of clusters."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic import registry
from bigsmic.engines import choose_engine
from bigsmic.errors import AbsentResultError
from bigsmic.methods.smic import planning as smic_planning
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import consensus
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.runtime import planning
from bigsmic.runtime.context import Context
from bigsmic.runtime.diagnostics import diagnose
from bigsmic.runtime.job import Job
from bigsmic.runtime.options import RunOptions
from bigsmic.stages import recovery
from bigsmic.stages.labeling_specs import LabelingSpec, cut_specs
from bigsmic.stages.labelings import Reader, read_basis
from bigsmic.store import Overlay, Run, remove_unfinished
from bigsmic.types import Floats
from bigsmic.validation import check_integer

SAMPLE_ROWS = 20_000


def _merged_specs(context: Context) -> list[LabelingSpec]:
    """Labelings that have a tree."""
    specs = cut_specs(context.settings.as_requested, context.n)
    return [spec for spec in specs if spec.assignment == "merge"]


def has_trees(context: Context) -> bool:
    """Whether an open fit has labelings to cut; few rows do not allow more columns than clusters."""
    return bool(_merged_specs(context))


def _merged(context: Context) -> list[Reader]:
    """Readers of the labelings that have a tree."""
    readers = [Reader(context, spec) for spec in _merged_specs(context)]
    if not readers:
        raise AbsentResultError("tree: this fit has no over-segmented labeling; use assignment='merge', or more rows")
    return readers


def _sampled_labels(context: Context, readers: list[Reader], numbers: Sequence[int]) -> dict[int, NDArray[Any]]:
    """Labels of sampled rows under every labeling with enough columns, at every cut: dict of int to (rows, B)."""
    rows = draw_rows(context.n, SAMPLE_ROWS, context.settings.seed, "stability")
    found: dict[int, list[Any]] = {number: [] for number in numbers}
    for reader in readers:
        cuts = [number for number in numbers if number <= len(reader.tree.columns)]
        parts = []
        for p in context.blocks:
            V = read_basis(context, reader.spec, p)[np.isin(context.run.read("rows", p, "rows"), rows)]
            parts.append(consensus.cut_labels(reader.columns(V).posterior, reader.tree, cuts))
        for number, labels in zip(cuts, np.concatenate(parts).T, strict=True):
            found[number].append(labels)
    return {number: np.stack(labels, axis=1) for number, labels in found.items() if labels}


def stability(context: Context) -> tuple[list[int], list[float]]:
    """Mean pairwise ARI of the labelings at every cut of at least two of them.

    Returns
    -------
    numbers : list of int
    mean_ari : list of float
    """
    readers = _merged(context)
    most = sorted(len(reader.tree.columns) for reader in readers)[-2:][0]  # that two have, if there are two
    found = _sampled_labels(context, readers, range(2, most + 1))
    return list(found), [consensus.stability(_pairwise_ari(labels, number)) for number, labels in found.items()]


def _pairwise_ari(labels: NDArray[Any], number: int) -> Floats:
    """ARI of every two labelings (rows, B) into the same number of clusters: float64, shape (B, B)."""
    sizes = [number] * labels.shape[1]
    return consensus.pairwise_ari(consensus.label_gram(labels, sizes), sizes)


def medoid_tree(context: Context) -> tuple[MergeTree, NDArray[Any]]:
    """Tree of the medoid labeling, and the number of rows of its columns.

    Returns
    -------
    tree : MergeTree
    counts : ndarray of float64, shape (m,)
    """
    readers = _merged(context)
    least = min(context.settings.n_clusters, *(len(reader.tree.columns) for reader in readers))
    labels = _sampled_labels(context, readers, [least])[least]
    best = readers[consensus.medoid(_pairwise_ari(labels, least))]
    return best.tree, best.counts


def cut(run: Run, settings: Any, n_clusters: int) -> tuple[Overlay, Any]:
    """Cut the trees of a finished SMIC fit into another number of clusters.

    See :meth:`~bigsmic.methods.smic.result.SMICResult.cut`.

    Returns
    -------
    run : Overlay
        In a temporary directory, on top of that of the fit.
    settings : Settings

    Raises
    ------
    InputError
        The number is no integer, or none that the fit can be cut into.
    """
    check_integer("cut", n_clusters)
    kind = registry.of(settings)
    overlay, settings = kind.cut_run(run, settings, n_clusters)
    context = Context(None, overlay, settings)
    n, d = context.n, context.d
    run_options = RunOptions()
    try:
        with choose_engine(None, False, n_threads=run_options.threads) as engine:
            size = planning.Size(n, d, block_sizes=context.block_sizes, graph=_graph_size(context))
            planned = smic_planning.plan(size, settings, None, run_options.threads, checkpoints=False)
            job = Job(context, engine, planned)
            kind.choose(job)
            diagnose(job, {}, kind.summary(job), recovery.kept(job))
    except BaseException:
        remove_unfinished(overlay.address)
        raise
    finally:
        overlay.close()
    return overlay, settings


def _graph_size(context: Context) -> planning.GraphSize | None:
    """Size of the graph of a fit that was given one, whose matrix is not there any more."""
    if not context.settings.precomputed:
        return None
    entries = [int(context.run.read("graph", p, "indptr")[-1]) for p in context.blocks]
    return planning.GraphSize(sum(entries), max(entries))
