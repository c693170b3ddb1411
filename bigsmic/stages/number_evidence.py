"""What the labelings that are merged by valleys say of every number of clusters."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling import consensus, cuts, noise
from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.valleys import LEAST_SIGN, ValleyTree
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import dense_parts, drawn_clusters, graph_parts
from bigsmic.stages import valleys as valley_stage
from bigsmic.stages.drawn_clusters import DrawnRows
from bigsmic.stages.labeling_specs import specs_of
from bigsmic.stages.labelings import Merging, Reader
from bigsmic.stages.shown_number import NUMBER, PLAIN
from bigsmic.stages.valley_trees import valley_tree_of, weights_between
from bigsmic.stages.wider_columns import have_many_copies
from bigsmic.types import Floats, Integers

COLLAPSED = 0.1
"""Difference in modularity from the best labeling beyond which the number of clusters of a labeling is ignored."""
NEARLY_LARGEST = 0.02
"""Difference in modularity from the largest up to which more clusters than are shown may be preferred."""
LEAST_AGREED = 0.7
"""Agreement from which another number of clusters may be preferred to the one shown."""

ValleyTrees = Sequence[ValleyTree]


class SharedRows(NamedTuple):
    """What is known of the groups of all labelings.

    Parameters
    ----------
    rows : ndarray of int64, shape (S, S)
        Number of rows shared by every two groups.
    sizes : list of int, length B
        Groups of each labeling, S in all.
    weights : list of ndarray of float64, shapes (sizes[j], sizes[j])
        Weight of the graph between every two groups of a labeling.
    """

    rows: np.ndarray
    sizes: list[int]
    weights: list[np.ndarray]

    def agreements(self, trees: Sequence[MergeTree], numbers: Integers) -> Floats:
        """Mean adjusted Rand index between the labelings, cut at each number of clusters."""
        return cuts.agreements(self.rows, self.sizes, trees, numbers)

    def modularities(self, trees: Sequence[MergeTree], numbers: Integers) -> Floats:
        """Modularity of the labelings, cut at each number of clusters: mean over labelings."""
        found = [cuts.modularities(tree, W, numbers) for tree, W in zip(trees, self.weights, strict=True)]
        return np.mean(found, axis=0)


class Evidence(NamedTuple):
    """What the labelings say of every number of clusters.

    Parameters
    ----------
    by_valleys : list of ValleyTree, length B
    by_density : list of MergeTree, length B
    shared : SharedRows
    curve : dict of str to ndarray
        ``numbers`` of clusters, and for each of them ``weakest``, ``stability`` and ``modularity``.
    shown : int
        Number of clusters that the labelings show.
    drawn_rows : DrawnRows
        From which the shapes of clusters are known.
    along_curves, doubtful : bool
        Whether rows lie along curves, and whether valleys are no evidence alone.
    reach : float
        Distance to their neighbours beyond which rows are noise, without which labelings were compared. Agreement, and
        how large clusters are, is that of the others; modularity and drawn rows are of all.
    on_pieces : bool
        Whether the clusters shown are pieces of curves, or of dense parts; looked at if labelings do not agree on them,
        or the number is open.
    bent : DenseParts or None
        Dense parts of the graph that are clusters in the place of those shown; or one, of which these are pieces.
    """

    by_valleys: ValleyTrees
    by_density: Sequence[MergeTree]
    shared: SharedRows
    curve: dict[str, NDArray[Any]]
    shown: int
    drawn_rows: DrawnRows
    along_curves: bool = False
    doubtful: bool = False
    reach: float = np.inf
    on_pieces: bool = False
    bent: dense_parts.DenseParts | None = None

    @property
    def trees(self) -> list[MergeTree]:
        """Trees of valleys."""
        return [found.tree for found in self.by_valleys]

    def drawn(self, trees: Sequence[MergeTree], n_clusters: int) -> drawn_clusters.DrawnClusters:
        """Drawn rows in the clusters of the trees' cuts."""
        return drawn_clusters.clusters(self.drawn_rows, trees, self.shared.rows, n_clusters)

    def shape(self, job: Job, trees: Sequence[MergeTree], n_clusters: int) -> dict[str, float | None]:
        """Shares of the two largest clusters of the trees' cuts, and clumpiness of the largest, if it dominates."""
        if n_clusters < 2:
            return {"largest": 1.0, "second": 0.0, "clumpiness": None}
        return drawn_clusters.shape(job, self.drawn(trees, n_clusters).within(self.reach))

    def gap_to_noise(self) -> float:
        """Distance to its neighbours beyond which a row is noise; infinite if there is none that lies among clusters.

        Noise in a cluster of its own is not among others: so clusters are also cut finer than they are shown, until
        there are twice as many.
        """
        log_sigma = noise.log_distance(self.drawn_rows.sigma)
        for n_clusters in sorted({self.shown, self.shown + 1, 3 * self.shown // 2, 2 * self.shown}):
            labels = self.drawn(self.trees, n_clusters).labels
            gap = noise.gap(log_sigma, labels, np.bincount(labels))
            if gap < np.inf:
                return float(np.exp(gap))
        return np.inf

    @property
    def n_columns(self) -> int:
        """Number of groups that all trees of valleys have."""
        return _n_columns(self.by_valleys)

    @property
    def is_one_curve(self) -> bool:
        """Whether the clusters shown are pieces of a single curve."""
        return self.bent is not None and len(self.bent.roots) == 1

    @property
    def dense(self) -> dense_parts.DenseParts | None:
        """Dense parts that may be the answer, as there are several."""
        return None if self.is_one_curve else self.bent

    @property
    def agreement(self) -> float:
        """How much labelings agree on the clusters shown; 1 where these are outside a given range."""
        return self.at("stability", self.shown, 1.0)

    def parted_from(self, n_clusters: int) -> int:
        """Number of clusters from which on they are parted by shape: `n_clusters`, or more while valleys show any sign.

        Parameters
        ----------
        n_clusters : int
            At least as many as are shown.
        """
        while self.at("weakest", n_clusters + 1, 0.0) >= LEAST_SIGN:
            n_clusters += 1
        return n_clusters

    def by_shape(self, n_clusters: int) -> Floats:
        """Agreement of the labelings at each number, if more than `n_clusters` are parted from these by shape."""
        stability, more = self.curve["stability"].copy(), self.curve["numbers"] > n_clusters
        sizes = [W.sum(axis=1) for W in self.shared.weights]
        trees = [found.by_shape(n_clusters, of) for found, of in zip(self.by_valleys, sizes, strict=True)]
        stability[more] = self.shared.agreements(trees, self.curve["numbers"][more])
        return stability

    @property
    def disagree(self) -> bool:
        """Whether labelings do not agree plainly on the clusters shown."""
        return self.agreement < PLAIN

    @property
    def agree_on_some(self) -> bool:
        """Whether labelings plainly agree on the clusters shown, or on more that are nearly as modular as any."""
        more = (self.curve["numbers"] > self.shown) & self.are_nearly_modular
        return not self.disagree or bool((self.curve["stability"][more] >= PLAIN).any())

    @property
    def most_modular(self) -> int:
        """Number of clusters of largest modularity."""
        return int(self.curve["numbers"][np.argmax(self.curve["modularity"])])

    @property
    def are_nearly_modular(self) -> NDArray[np.bool_]:
        """Whether clusters have nearly the largest modularity, for each number."""
        modularity = self.curve["modularity"]
        return modularity >= modularity.max() - NEARLY_LARGEST

    def at(self, name: str, n_clusters: int, missing: float) -> float:
        """Entry of the curve for a number of clusters; `missing` if it has none."""
        return float(self.curve[name][self.curve["numbers"] == n_clusters].sum() if self.has(n_clusters) else missing)

    def has(self, n_clusters: int) -> bool:
        """Whether the curve has a number of clusters."""
        return bool((self.curve["numbers"] == n_clusters).any())


def compare(job: Job, drawn_rows: DrawnRows, reach: float = np.inf) -> tuple[Evidence, dict[str, Any]]:
    """What labelings say of rows at most so far from their neighbours, and what of it the stage notes."""
    context = job.context
    specs = [specs_of(context)[b] for b in Merging.VALLEYS.numbers(context)]
    found = [valley_tree_of(context, spec) for spec in specs]
    by_density = [Reader(context, spec).tree for spec in specs]
    sizes = [spec.n_eigenvectors for spec in specs]
    rows = job.sum_blocks(NUMBER, context.blocks, partial(valley_stage.group_gram, sizes=sizes, reach=reach))
    shared = SharedRows(rows, sizes, [weights_between(context, spec) for spec in specs])
    shown, common, agreed = _shown(found, shared)
    n_columns = _n_columns(found)
    least, most = open_range(context, n_columns)
    numbers = np.arange(max(2, least), max(2, least, min(most, n_columns) + 1))
    stability = shared.agreements([of_one.tree for of_one in found], numbers)
    left_open = not context.settings.number_given
    along_curves = left_open and graph_parts.lie_along_curves(context)
    doubtful = along_curves or (left_open and have_many_copies(context))
    at_shown = numbers == shown
    stability[at_shown] = np.maximum(stability[at_shown], 0.0 if doubtful else agreed)
    curve = {"stability": stability} | _curve(found, by_density, shared, numbers)
    votes = [tree.n_clusters for tree in found]
    noted = {"shown": shown, "votes": votes, "columns": sizes[0], "common": common}
    return Evidence(found, by_density, shared, curve, shown, drawn_rows, along_curves, doubtful, reach), noted


def open_range(context: Context, n_columns: int) -> tuple[int, int]:
    """The least and the largest number of clusters that may be the answer."""
    return context.settings.open_from or 1, context.settings.open_to or n_columns


def _n_columns(found: ValleyTrees) -> int:
    return min(len(of_one.tree.columns) for of_one in found)


def _curve(
    found: ValleyTrees, by_density: Sequence[MergeTree], shared: SharedRows, numbers: Integers
) -> dict[str, NDArray[Any]]:
    """For each number of clusters: z of the weakest valley, median over labelings, and modularity.

    The latter is that of the labelings as they are cut by density.
    """
    weakest = np.stack([tree.weakest[numbers] for tree in found], axis=1)
    return {
        "numbers": numbers,
        "weakest": np.median(weakest, axis=1),
        "modularity": shared.modularities(by_density, numbers),
    }


def _whole_labelings(found: ValleyTrees, shared: SharedRows) -> list[int]:
    """Labelings but collapsed ones, whose modularity is much smaller than that of the best."""
    modularity = [
        cuts.modularities(tree.tree, W, np.array([tree.n_clusters])).item()
        for tree, W in zip(found, shared.weights, strict=True)
    ]
    least = max(modularity) - COLLAPSED
    return [j for j, reached in enumerate(modularity) if reached >= least]


def _shown(found: ValleyTrees, shared: SharedRows) -> tuple[int, list[int], float]:
    """Number of clusters that labelings show; if they plainly agree, those of each that count; and how much they agree.

    Where they agree, each with its own number, clusters count that others have too, and those that are held together
    as well as one of these. Rows that are of no cluster, such as sums of two spikes, are a small cluster in one
    labeling, and not in the next. Without agreement, or if half of the labelings have collapsed, none are told. How
    much they agree is that of the clusters of each, and 0 where labels are not made of these, because half do not show
    the number.
    """
    whole, starts = _whole_labelings(found, shared), consensus.label_offsets(shared.sizes)
    shown = int(np.median([found[j].n_clusters for j in whole]))
    columns = np.concatenate([np.arange(starts[j], starts[j + 1]) for j in whole])
    groups = [of for j in whole for of in drawn_clusters.cut([found[j].tree], found[j].n_clusters)]
    gram, merged = consensus.merged_gram(shared.rows[np.ix_(columns, columns)], groups)
    agreement = consensus.stability(consensus.pairwise_ari(gram, merged))
    if agreement < PLAIN or 2 * len(whole) <= len(found):
        return shown, [], 0.0
    common = np.split(consensus.in_common(gram, merged), consensus.label_offsets(merged)[1:-1])
    held = [cuts.shares_within(of, shared.weights[j]) for of, j in zip(groups, whole, strict=True)]
    counts = [
        int(np.sum(has | (share >= share[has].min(initial=np.inf)))) for has, share in zip(common, held, strict=True)
    ]
    shown = int(np.median(counts))
    return shown, counts, agreement if 2 * counts.count(shown) >= len(counts) else 0.0
