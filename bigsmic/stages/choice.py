"""choice: the labeling, or the consensus of an eigenvector set, that a fit returns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling import consensus as numerics
from bigsmic.numerics.labeling.halves import rows_cut_off
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import consensus, link_scores, number, valleys
from bigsmic.stages.graph_parts import falls_apart
from bigsmic.stages.labeling_specs import eigenvector_sets_of, specs_of
from bigsmic.stages.labelings import Reader
from bigsmic.stages.ratings import associations, modularities, normalized_cuts
from bigsmic.stages.shown_number import agree_on_shown, are_joined, are_parts, counted
from bigsmic.types import Floats

STAGE = "choice"
FINER = 0.8
"""Largest ratio of the cut of a consensus of a fine set, or by valleys, to that of one in whose place it is taken."""
LEAST_ASSOCIATION = 0.6
"""Normalised association that clusters by valleys need: with less, most of the weight of the smallest lies outside, and
these are crumbs."""
FAINT, FLAT = 1.0, -0.5
"""Standard errors below which a valley may be one between halves of a cluster, if these are no flatter together than a
cluster is: excess kurtosis from which on they are not. Below it are two Gaussians of the same size that are more than
two standard deviations apart, so that their density has two peaks."""
SAME_MODULARITY = 0.005
"""Difference of modularities that says nothing: labelings of another seed have as much."""
ROUNDING = 1e-9  # by which associations of equal labelings may differ if their clusters are numbered differently


def chosen(context: Context) -> int | None:
    """Number of the labeling that the fit returns, the first among equals; None for a consensus."""
    if len(specs_of(context)) == 1 and not context.settings.propagates:
        return 0
    if context.settings.selection == "lsmi":
        return int(np.argmax(context.run.read("scores", 0, "lsmi")))
    if context.settings.selection == "links":
        return link_scores.chosen(context)
    if context.settings.selection == "medoid":
        return numerics.medoid(context.run.read(consensus.STAGE, 0, "ari"))
    return None


def rivals(context: Context) -> dict[int, None]:
    """Eigenvector sets between which valleys decide: the best of those merged by density, and of those by valleys."""
    sets = eigenvector_sets_of(context)
    by_valleys = specs_of(context).valley_sets
    every = range(len(sets) - len(by_valleys)), by_valleys
    return dict.fromkeys(best_rated(context, numbers) for numbers in every if len(numbers))


def decide(job: Job) -> None:
    """Decide which of several eigenvector sets the fit returns; the stage ``choice``."""
    job.run_steps(STAGE, [0], _decide)


def _decide(job: Job, block: int) -> None:
    job.run.write(STAGE, block, {}, info={"eigenvector_set": best_claim(job.context)})


def chosen_set(context: Context) -> int:
    """Number of the eigenvector set whose consensus the fit returns; known once :func:`decide` has run."""
    if len(eigenvector_sets_of(context)) == 1:
        return 0
    return int(context.cached("chosen_set", lambda: context.run.info(STAGE, 0)["eigenvector_set"]))


def best_claim(context: Context) -> int:
    """Number of the eigenvector set that should be returned.

    That is the best rated of those that are cut by density, unless those by valleys have a better claim:

    - Distances tell which groups belong together, and the graph does not.
    - The data show clusters, on which the labelings agree, and density has cut off more rows from their cluster
      (:func:`_rows_cut_off`); clusters by valleys may not be crumbs.
    - They have more modularity, which prefers even sizes, as density does; or as much, and density has cut off more
      rows. In many columns clusters that touch show few valleys, and labelings need not agree on these.
    - Of two or three clusters, they cut clearly less: modularity halves a large one rather than part a small one that
      touches it.
    """
    if not specs_of(context).valley_sets:
        return best_rated(context, range(len(eigenvector_sets_of(context))))
    by_density, *others = rivals(context)
    if not others:
        return by_density
    (by_valleys,) = others
    are_few, are_shown = bool(specs_of(context).fine_sets), agree_on_shown(context.run)
    are_crumbs = associations(context)[by_valleys] < LEAST_ASSOCIATION
    cut_off = _rows_cut_off(context, by_valleys)
    cut_off_less = cut_off < _rows_cut_off(context, by_density)
    rates = modularities(context)
    modularity_gain = rates[by_valleys] - rates[by_density]
    have_claim = (
        are_joined(context.run, context.settings.n_clusters)
        or (cut_off_less and are_shown and not are_crumbs)
        or (np.isfinite(cut_off) and modularity_gain > (-SAME_MODULARITY if cut_off_less else SAME_MODULARITY))
        or (are_few and _cuts_less(context, by_valleys, by_density))
    )
    return by_valleys if have_claim else by_density


def _rows_cut_off(context: Context, w: int) -> float:
    """Rows that an eigenvector set has cut off from their cluster; infinite if some requested cluster has none.

    Two clusters are halves of one if they have a faint valley, and are together no flatter than one cluster is. Two
    that touch may have no valley, either, but are flatter.
    """
    read = context.run.reader(valleys.EVIDENCE, w)
    is_half = (read("z") < FAINT) & (read("kurtosis") >= FLAT)
    counts = read("counts")
    return rows_cut_off(counts, read("pairs")[is_half]) if counts.all() else np.inf


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
    among these. Of sets merged by valleys, the first is taken if more clusters are requested than the data show: with
    larger modularity, others halve the largest cluster. Either way, a set without a consensus of c clusters, for which
    one labeling votes, counts only if all are.

    Fine sets only count if one cuts clearly less: that of largest association among them is then the best.
    """
    fine = [w for w in numbers if w in specs_of(context).fine_sets]
    best = _best_of_coarse(context, [w for w in numbers if w not in fine])
    if not fine:
        return best
    finest = fine[int(normalized_cuts(context, fine).argmin())]
    return finest if _cuts_less(context, finest, best) else best


def _cuts_less(context: Context, w: int, other: int) -> bool:
    """Whether an eigenvector set has a consensus of c clusters that cuts clearly less than that of another set."""
    return bool(normalized_cuts(context, [w])[0] <= FINER * (1 - associations(context)[other]))


def _are_beyond_valleys(context: Context) -> bool:
    """Whether more clusters are requested than the data show, so that no valleys separate some of them."""
    shown = counted(context.run)
    return shown is not None and shown < context.settings.n_clusters


def _best_of_coarse(context: Context, numbers: Sequence[int]) -> int:
    if len(numbers) == 1:
        return numbers[0]
    if falls_apart(context, context.settings.n_clusters):
        rates, read = associations(context)[numbers], context.run.reader(consensus.STAGE, 0)
        sizes = np.array([read(f"classes.{w}").max() for w in numbers])
        rates[~_are_eligible(context, numbers) | (sizes < sizes.max())] = -np.inf
        return _best_of_parts(context, numbers, rates)
    if numbers[0] in specs_of(context).valley_sets and _are_beyond_valleys(context):
        return numbers[int(np.argmax(_are_eligible(context, numbers)))]
    if eigenvector_sets_of(context)[numbers[-1]] == specs_of(context).plain:
        numbers = numbers[:-1]
    rates = modularities(context)[numbers]
    rates = rates.reshape(len(specs_of(context).shrinkages), -1)
    whole = _are_eligible(context, numbers).reshape(rates.shape)
    best = int(np.argmax(np.where(whole.any(axis=1), rates.mean(axis=1), -np.inf)))
    return numbers[best * rates.shape[1] + int(np.argmax(np.where(whole[best], rates[best], -np.inf)))]


def _best_of_parts(context: Context, numbers: Sequence[int], rates: Floats) -> int:
    """Number of the best of some eigenvector sets with these associations, where the graph falls into parts."""
    equal = [numbers[i] for i in np.flatnonzero(rates >= rates.max() - ROUNDING).tolist()]
    if numbers[0] in specs_of(context).valley_sets and are_parts(context.run, context.settings.n_clusters):
        return equal[0]
    agreement = [_agreement(context, w) for w in equal]
    return [w for w, ari in zip(equal, agreement, strict=True) if ari >= max(agreement) - ROUNDING][-1]


def _agreement(context: Context, w: int) -> float:
    """Mean adjusted Rand index of two labelings of an eigenvector set; 1 if it has one."""
    numbers = eigenvector_sets_of(context)[w]
    return numerics.stability(context.run.read(consensus.STAGE, 0, "ari")[np.ix_(numbers, numbers)])


def _are_eligible(context: Context, numbers: Sequence[int]) -> NDArray[np.bool_]:
    """Whether eigenvector sets have a consensus of c clusters: bool, one for each; true for all if none has.

    Where valleys show c, not either if more of its labelings miss one of the valleys than of another set's.
    """
    lacking = context.run.info(consensus.STAGE, 0)["lacking"]
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
    of = [context.run.info(consensus.STAGE, 0)["sizes"][b] for b in eigenvector_sets_of(context)[w]]
    classes = np.split(context.run.read(consensus.STAGE, 0, f"classes.{w}"), numerics.label_offsets(of)[1:-1])
    return dict(zip(eigenvector_sets_of(context)[w], classes, strict=True))
