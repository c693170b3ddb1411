"""Trees that merge the groups of labelings by valleys, as the stage ``valleys`` has them."""

from bigsmic.numerics.labeling.merge_tree import MergeTree
from bigsmic.numerics.labeling.valleys import ValleyTree
from bigsmic.runtime.context import Context
from bigsmic.stages.labeling_specs import LabelingSpec, specs_of
from bigsmic.stages.shown_number import parted_from
from bigsmic.types import Floats

VALLEYS = "valleys"
TREE_FIELDS = ("columns", "merges", "ratios")
VALLEY_FIELDS = (*TREE_FIELDS, "weakest")


def valley_tree_of(context: Context, spec: LabelingSpec) -> ValleyTree:
    """The tree that merges the groups of a labeling by valleys; see :mod:`bigsmic.stages.valleys`."""
    read, i = context.run.reader(VALLEYS, 0), number_of(context, spec)
    *fields, weakest = (read(f"{name}.{i}") for name in VALLEY_FIELDS)
    tree, info = MergeTree(spec.n_eigenvectors, *fields), context.run.info(VALLEYS, 0)
    nearest = tree.ending_in(info["nearest"][i])
    return ValleyTree(tree, info["n_clusters"][i], weakest, nearest, read(f"gains.{i}"))


def parted(context: Context, spec: LabelingSpec, n_clusters: int) -> MergeTree:
    """The same tree, whose cut into more clusters than there is some sign of parts these by shape."""
    found, last = valley_tree_of(context, spec), parted_from(context.run)
    return found.by_shape(last, weights_between(context, spec).sum(axis=1)) if 0 < last < n_clusters else found.tree


def weights_between(context: Context, spec: LabelingSpec) -> Floats:
    """Weight of the graph between every two groups of a labeling: float64, shape (m, m)."""
    weights: Floats = context.run.read(VALLEYS, 0, f"weights.{number_of(context, spec)}")
    return weights


def number_of(context: Context, spec: LabelingSpec) -> int:
    """Number of a labeling among those that are merged by valleys."""
    specs = specs_of(context)
    return [specs[b] for b in specs.by_valleys].index(spec)
