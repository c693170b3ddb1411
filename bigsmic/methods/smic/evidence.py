"""Evidence for the number of clusters: valleys between clusters, as a function of their number."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.labeling.blobs import CLUMPED
from bigsmic.numerics.labeling.valleys import THRESHOLD
from bigsmic.runtime.context import Context
from bigsmic.stages import choice, eigenvalue_counts, numbering, shown_number, trimming, valley_trees, valleys
from bigsmic.stages.labeling_specs import specs_of
from bigsmic.stages.shown_number import PLAIN

if TYPE_CHECKING:
    import pandas as pd

LITTLE_AGREED = 0.8
"""Mean adjusted Rand index between the labelings below which the sentence gives it."""
FAR_APART = 1.5
"""Quotient of the largest and the least vote, or of parts of the graph and clusters, from which both are reported."""


@dataclass(frozen=True)
class Valleys:
    """Number of clusters that the data show, and the evidence for it.

    A valley separates two clusters if the density of both, along the direction that best separates them, has a minimum
    between them that is at least four standard errors deep, or two or three among few rows if
    labelings agree. See :attr:`bigsmic.methods.smic.result.LabelingsResult.valleys`.

    Attributes
    ----------
    n_clusters : int
        Number of groups that valleys separate from all of their neighbours, the median over labelings; or `parts` or
        `surer`. Where labelings agree to 0.9, small groups that only one of them has, and that are loosely held
        together, do not count.
    clear : bool
        Whether this number is reliable. It is not if there is only one group, if one group has most of the rows and is
        not a single blob while the others are tiny, or if the labelings do not agree on the groups.
    votes : list of int
        Number of groups by each labeling, with those that do not count.
    largest, second : float
        Shares of all rows in the two largest of the groups.
    clumpiness : float or None
        How much nearer the rows of the largest group are to their neighbours than in a Gaussian blob: the difference of
        log distances; 0 for a blob. None if it is not needed, as the largest group does not have most of the rows or
        the others are not tiny.
    agreement : float
        Mean adjusted Rand index between the labelings, cut into as many groups as they show; below 0.4 they do not
        agree. If they would not because of noise that lies among clusters, that of the other rows.
    parts : int or None
        Number of parts that the neighbour graph falls into by an eigengap, or without sparse rows, where the groups
        are pieces of these: the answer, then. None elsewhere.
    surer : int or None
        Number of clusters of nearly the largest modularity that is the answer in the place of the groups that valleys
        separate: the labelings agree to less than 0.9 on these, and more on it, or these are too few, as the next
        valley is only just too shallow and the largest group is no blob. None elsewhere.
    graph_parts : int or None
        About how many parts the neighbour graph has, those of few rows included, estimated from the number of its
        eigenvalues above .98; None if it does not fall into parts, or c was given.
    asked : int or None
        Number of clusters that the fit was given.
    unlinked : int or None
        Of a fit with links: number of groups that valleys separate if links are ignored, the median over labelings.
    forced : bool
        Whether `n_clusters` is the smallest number that the links allow, as groups are fewer.
    on_pieces : bool
        Whether the groups are pieces of curves, and c was not given or labelings do not agree on them.
    dense_parts : bool
        Whether `parts` are those of the graph without sparse rows.
    one_curve : bool
        Whether the groups are pieces of a single curve, so that they are no answer.
    trimmed : float
        Share of the rows that are outlying, and hardly weigh in the graph; 0 if none were trimmed, see `trim`.
    threshold : float
        Standard errors from which on a valley separates: 4, or down to 2 among less than 1,000 rows if labelings
        plainly agree on what that separates.
    """

    n_clusters: int
    clear: bool
    votes: list[int]
    largest: float
    second: float
    clumpiness: float | None
    agreement: float
    parts: int | None
    asked: int | None
    _curve: dict[str, NDArray[Any]] = field(repr=False)
    _pairs: dict[str, NDArray[Any]] = field(repr=False)
    unlinked: int | None = None
    forced: bool = False
    graph_parts: int | None = None
    surer: int | None = None
    on_pieces: bool = False
    dense_parts: bool = False
    one_curve: bool = False
    trimmed: float = 0.0
    threshold: float = THRESHOLD

    @cached_property
    def curve(self) -> "pd.DataFrame":
        """Evidence for each number of clusters: a pandas DataFrame.

        Columns ``n_clusters``; ``weakest_z``: z of the weakest valley, infinite if no clusters are neighbours, nan if
        there are more clusters than groups of enough rows for the test; ``stability``: mean ARI between labelings, each
        cut into as many clusters by valleys; and ``modularity`` of clusters merged by density.
        """
        import pandas as pd

        names = {"n_clusters": "numbers", "weakest_z": "weakest"} | {name: name for name in ("stability", "modularity")}
        found = pd.DataFrame({name: self._curve[key] for name, key in names.items()})
        measured = np.flatnonzero(np.isfinite(found["weakest_z"]))
        if len(measured):
            found.loc[measured[-1] + 1 :, "weakest_z"] = np.nan
        return found

    @cached_property
    def pairs(self) -> "pd.DataFrame":
        """Pairs of neighbouring clusters of the result, weakest valley first: a pandas DataFrame.

        Columns ``cluster`` and ``neighbor``; ``depth``: the density at the bottom of the valley over that at the lower
        of the two peaks, 1 for no valley; ``z``: the difference of the two densities in standard errors, the root of a
        deviance. Empty without labels.
        """
        import pandas as pd

        pairs = self._pairs["pairs"] if self._pairs else np.zeros((0, 2), np.int64)
        table = pd.DataFrame(pairs, columns=["cluster", "neighbor"])
        for name in ("depth", "z"):
            table[name] = self._pairs[name] if self._pairs else np.zeros(0)
        return table.sort_values("z", kind="stable", ignore_index=True)

    def of_clusters(self, n_clusters: int) -> dict[str, NDArray[Any]]:
        """The weakest valley of every cluster of the result, as arrays by name.

        Parameters
        ----------
        n_clusters : int
            Number of clusters of the result, c.

        Returns
        -------
        valley_to : ndarray of int64, shape (c,)
            The cluster on its other side; -1 for a cluster without neighbours.
        valley_depth, valley_z : ndarray of float64, shape (c,)
            As in `pairs`; nan and infinity for a cluster without neighbours.
        """
        found = {
            "valley_to": np.full(n_clusters, -1),
            "valley_depth": np.full(n_clusters, np.nan),
            "valley_z": np.full(n_clusters, np.inf),
        }
        for _, y, z, *values in self.pairs[::-1].itertuples():  # the weakest comes last, and overwrites the others
            for one, other in ((y, z), (z, y)):
                for array, value in zip(found.values(), (other, *values), strict=True):
                    array[one] = value
        return found

    @property
    def best(self) -> int:
        """Number of clusters to try first: the one that the data show, or else that of largest modularity.

        Modularity is larger the more pieces a curve is cut into, and tells nothing then.
        """
        if self.clear or self.on_pieces or not len(self._curve["numbers"]):
            return self.n_clusters
        return int(self._curve["numbers"][np.argmax(self._curve["modularity"])])

    @property
    def sentence(self) -> str:
        """The evidence as a sentence, or two."""
        trimmed = f" {self.trimmed:.1%} of the rows are outlying, and hardly count." if self.trimmed else ""
        return self._evidence() + trimmed

    def _evidence(self) -> str:
        if not self.clear:
            advice = ": give c" if self.asked is None else ""
            return f"{self._no_answer()}{advice}. {self._hint()}."
        if self.parts == self.n_clusters:
            return self._parts()
        if self.surer == self.n_clusters:
            return self._surer()
        linked = self.unlinked is not None
        separate = "valleys and links separate" if linked else "valleys separate"
        text = f"The data show {self.n_clusters} groups that {separate} from each other{self._candidates()}."
        if self.forced:
            text = f"The links need at least {self.n_clusters} clusters, more than the groups that {separate}."
        elif self.unlinked not in (None, self.n_clusters):
            text = f"{text[:-1]}; without links they would show {self.unlinked}."
        if max(self.votes) > FAR_APART * min(self.votes):
            text = f"{text[:-1]}, though single labelings show {min(self.votes)} to {max(self.votes)}."
        if self.agreement < LITTLE_AGREED:
            text = f"{text[:-1]}; labelings agree on them to {self.agreement:.2f} only."
        if (self.graph_parts or 0) > FAR_APART * self.n_clusters:
            text += f" The neighbour graph has about {self.graph_parts} parts: some may be too small to show valleys."
        return text + self._asked()

    def _hint(self) -> str:
        if not self.on_pieces:
            return f"Modularity is largest with {self.best} clusters"
        return "There may be fewer clusters"

    def _parts(self) -> str:
        disagree = f"but agree on these to {self.agreement:.2f} only"
        why = disagree if self.agreement < PLAIN else "which are pieces of curves"
        falls = "Without sparse rows, the" if self.dense_parts else "The"
        falls += f" neighbour graph falls into {self.n_clusters} parts"
        falls += "" if self.dense_parts else " by an eigengap"
        return f"{falls}; labelings show {self._shown()} groups that valleys separate, {why}.{self._asked()}"

    def _surer(self) -> str:
        stability = float(self._curve["stability"][self._curve["numbers"] == self.n_clusters].sum())
        why = (
            f"labelings agree on these to {self.agreement:.2f} only; they"
            if self.agreement < PLAIN
            else "the next valley is only just too shallow, and the largest group is no blob; labelings"
        )
        return (
            f"Valleys separate {self._shown()} groups, but {why} agree to {stability:.2f} "
            f"on {self.n_clusters} clusters, whose modularity is nearly the largest.{self._asked()}"
        )

    def _shown(self) -> str:
        few, many = min(self.votes), max(self.votes)
        return f"{few}" if few == many else f"{few} to {many}"

    def _asked(self) -> str:
        return "" if self.asked in (None, self.n_clusters) else f" {self.asked} clusters were asked for."

    def _no_answer(self) -> str:
        if self.n_clusters < 2:
            return "The data show no valleys"
        if self.one_curve:
            return f"The {self.n_clusters} groups that valleys separate are pieces of a single curve"
        if not (self.clumpiness or 0.0) > CLUMPED:
            pieces = ", which are pieces of curves" if self.on_pieces else ""
            return (
                f"Labelings do not agree on the groups that valleys separate{pieces}: they show {self._shown()}, and "
                f"agree to {self.agreement:.2f}"
            )
        small = self.n_clusters - 1
        return (
            f"The data show no valleys within a group of {self.largest:.0%} of the rows, which is no single blob; "
            f"{small} small {'one is' if small == 1 else 'ones are'} apart from it"
        )

    def _candidates(self) -> str:
        numbers, weakest = self._curve["numbers"], self._curve["weakest"]
        at = {int(k): float(z) for k, z in zip(numbers, weakest, strict=True)}
        own = at.get(self.n_clusters, np.inf)
        if self._pairs and self.asked in (None, self.n_clusters):
            own = float(self._pairs["z"].min(initial=np.inf))
        stronger = [k for k, z in at.items() if k < self.n_clusters and z > max(own, self.threshold)]
        weaker = [k for k in at if k > self.n_clusters]
        parts = ["no two of them touch" if np.isinf(own) else f"the weakest valley is {_errors(own)} deep"]
        parts += [f"next stronger {max(stronger)} ({_errors(at[max(stronger)])})"] if stronger else []
        parts += [f"next weaker {min(weaker)} ({_errors(at[min(weaker)])})"] if weaker else []
        return f" ({'; '.join(parts)})"

    def __str__(self) -> str:
        return self.sentence


def _errors(z: float) -> str:
    return "none touch" if np.isinf(z) else f"{max(z, 0.0) + 0.0:.1f} standard errors"


def read(context: Context) -> Valleys | None:
    """The evidence stored by a finished fit; None if valleys were not tested."""
    run, settings = context.run, context.settings
    if not settings.reads_valleys or not shown_number.was_run(run):
        return None
    curve = {name: run.read(shown_number.NUMBER, 0, name) for name in ("numbers", "weakest", "stability", "modularity")}
    pairs = {}
    if not settings.undecided and (specs_of(context).valley_sets or settings.propagates):
        read_pairs = run.reader(valleys.EVIDENCE, choice.chosen_set(context))
        pairs = {name: read_pairs(name) for name in ("pairs", "depth", "z")}
        pairs["pairs"] = numbering.labels(context, pairs["pairs"])
    stored = run.info(shown_number.NUMBER, 0)
    facts = {name: stored[name] for name in ("n_clusters", "clear", "votes", "largest", "second", "clumpiness")}
    facts |= {name: stored[name] for name in ("agreement", "parts", "surer", "on_pieces", "dense_parts", "one_curve")}
    found = settings.undecided or (settings.open and settings.n_clusters == stored["n_clusters"])
    facts |= {name: stored[name] for name in ("unlinked", "forced") if name in stored}
    facts |= {"graph_parts": eigenvalue_counts.parts(run) or None}
    facts |= {"threshold": run.info(valley_trees.VALLEYS, 0)["threshold"]}
    if trimming.are_trimmed(context):
        facts |= {"trimmed": run.info(trimming.TRIMMED, 0)["rows"] / context.n}
    return Valleys(**facts, asked=None if found else settings.n_clusters, _curve=curve, _pairs=pairs)
