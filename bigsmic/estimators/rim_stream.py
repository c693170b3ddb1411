"""RIM on a stream: a classifier that learns chunk by chunk, without keeping the chunks.

The scaling and the categories are those of the first chunk. Adam makes a few passes over every chunk. The gradient uses
the chunk's own mean posterior if it has at least as many rows as a batch; for a smaller chunk, earlier ones contribute
the missing weight, and steps are shorter in proportion to the chunk's own share.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.methods.rim.side_inputs import refuse_more_categories
from bigsmic.numerics.class_sums import class_sums
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.moments import first_nonfinite, moments, refuse_overflow
from bigsmic.numerics.objectives.rim import adam
from bigsmic.numerics.objectives.rim.adam import Adam, Aim
from bigsmic.numerics.objectives.rim.linear import Linear, linear_gradient, linear_information, penalised
from bigsmic.numerics.objectives.rim.logits import Information, Reference, Weighting
from bigsmic.numerics.objectives.rim.path import refuse_divergence
from bigsmic.numerics.objectives.rim.start import class_means, first_centers, ordered_by_prior, supervised_start
from bigsmic.numerics.one_thread import one_thread
from bigsmic.numerics.scaling import Scaler, refuse_without_distances, scaler
from bigsmic.numerics.shared_unit import likeness, need_no_scaling
from bigsmic.numerics.spreads import centers, spreads
from bigsmic.stages.scan import CHOSEN
from bigsmic.types import Floats, Integers

PASSES = 5  # over a chunk, if the number of epochs is not given


@dataclass
class Stream:
    """A classifier and its statistics of earlier rows.

    Parameters
    ----------
    settings : bigsmic.settings.rim.Settings
    n_seen : int
        Rows so far.
    scaler : Scaler
        That of the first chunk, as all that follow; None before it.
    spread : float
        Root mean square of the scaled entries of the first chunk.
    state : Adam
        The classifier and the moments of its gradients.
    memory : Information
        Sums over rows of earlier batches, of the weight of a batch at most; None before the first.
    """

    settings: Any
    n_seen: int = 0
    scaler: Any = None
    spread: float = 1.0
    state: Any = None
    memory: Information | None = field(default=None, repr=False)

    @property
    def classifier(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights on the unscaled columns, shape (c, d), and biases (c,), float64."""
        model = self.state.model
        coef = (model.W * self.scaler.factor[:, None]).T
        return coef, model.b - coef @ self.scaler.mean

    def learn(self, X: Floats, labels: Integers | None = None, weights: Floats | None = None) -> None:
        """Learn from a chunk of rows.

        Parameters
        ----------
        X : ndarray, shape (m, d)
            Finite; in the first chunk at least two rows, and as many that differ as there are clusters.
        labels : ndarray of int, shape (m,), optional
            -1 for none.
        weights : ndarray of float, shape (m,), optional

        Raises
        ------
        InputError
            Labels of more categories than there are, rows too far from those of the first chunk, or a first chunk with
            too few rows for the clusters.
        CollapseError
            The ascent diverges. The stream is then of no further use: learn with a copy of it.
        """
        with one_thread():
            n_known = 0 if labels is None else int(labels.max(initial=-1)) + 1
            if self.state is None:
                refuse_more_categories(n_known, self.settings.n_clusters or len(X))
                self._refuse_fewer_groups(len(X), "rows")
                self.scaler = _scaler(X, self.settings.scale)
                scaled = self._scaled(X)
                self._begin(scaled, labels)
            else:
                self._refuse_new_categories(n_known)
                scaled = self._scaled(X)
            rows = self.n_seen + np.arange(len(X))
            self.n_seen += len(X)
            weighting = Weighting(None if weights is None else weights * len(X) / weights.sum(), labels)
            self._ascend_to(scaled, weighting, rows)

    def _refuse_new_categories(self, n_known: int) -> None:
        k = self.state.model.n_categories
        if n_known > k:
            raise InputError(
                f"labels: got the label {n_known - 1}, but since the first chunk there are {k} categories; use labels "
                f"below {k}, or begin with rows of all categories"
            )

    def _scaled(self, X: Floats) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            scaled: NDArray[np.float32] = self.scaler.apply(X)
        count, row, column = first_nonfinite(scaled)
        if count:
            raise InputError(
                f"partial_fit: row {row}, column {column} is {X[row, column]:.3g}, which after the scaling of the "
                "first chunk leaves the range of float32; drop such rows"
            )
        return scaled

    def _begin(self, scaled: NDArray[np.float32], labels: Integers | None) -> None:
        settings = self.settings
        self.spread = adam.spread(scaled)
        k = min(settings.n_clusters or settings.first_categories(len(scaled)), len(scaled))
        known = None
        if labels is not None and labels.max(initial=-1) >= 0:
            known = class_means(class_sums(scaled, labels, int(labels.max()) + 1))
        centers, found = first_centers(scaled, k, settings.seed, known)
        self._refuse_fewer_groups(len(centers), "groups of rows that differ")
        if known is None:
            found = ordered_by_prior(found, len(centers), settings.prior)
        self.state = Adam.start(supervised_start(scaled, found, len(centers), self.reg(len(scaled))))

    def _refuse_fewer_groups(self, n: int, of_what: str) -> None:
        """Refuse a first chunk in which not every cluster can begin: none is added later."""
        if n < (self.settings.n_clusters or 0):
            raise InputError(
                f"partial_fit: the first chunk has {n} {of_what} for n_clusters={self.settings.n_clusters}, and all "
                "clusters begin in it; give a first chunk of more rows, of every kind, or fewer clusters"
            )

    def reg(self, n: int) -> float:
        """Strength of the penalty after n rows; it is not searched for, as the number of categories is fixed."""
        given = self.settings.strength(n)
        return 4 / n if given is None else given

    def _ascend_to(self, X: Floats, weighting: Weighting, rows: Integers) -> None:
        settings, aim = self.settings, Aim(self.reg(self.n_seen), prior_of(self.settings), self.settings.tau)
        passes = settings.n_epochs or PASSES
        for e in range(passes):
            order = np.argsort(row_uniform(settings.seed, f"stream.{e}", rows), kind="stable")
            for batch in np.array_split(order, max(1, round(len(X) / settings.batch_size))):
                gradient, sums, share = self._slope(X[batch], weighting[batch], aim)
                if not all(np.isfinite(part).all() for part in gradient):
                    refuse_divergence(np.nan, 0.0, settings.learning_rate)
                self.state = self.state.step(gradient, share * settings.learning_rate, self.spread)
                if e == passes - 1:
                    self._remember(sums)

    def _slope(self, X: Floats, weighting: Any, aim: Aim) -> tuple[Linear, Information, float]:
        """Gradient of a batch, with a mean posterior to which earlier rows contribute, its own sums, and its share.

        Posteriors of earlier rows are those of earlier classifiers. If steps were as long as those of whole batches,
        the classifier would be far from these before they are forgotten, and categories would die.
        """
        model = self.state.model
        sums = linear_information(X, model, weighting)
        with_memory = self._lent(sums)
        share = len(X) / (len(X) + float(with_memory.weight - sums.weight))
        reference = Reference.of(with_memory, aim.prior, aim.tau)
        information = aim.tau / float(sums.weight) if sums.weight > 0 else 0.0  # of the batch alone
        slope = linear_gradient(X, model, reference._replace(information=information), weighting)
        return Linear.of_vector(penalised(slope, model, aim.reg), X.shape[1]), sums, share

    def _lent(self, sums: Information) -> Information:
        """Sums of a batch, plus those of earlier rows for the missing weight."""
        lacking = self.settings.batch_size - float(sums.weight)
        if self.memory is None or lacking <= 0 or self.memory.weight == 0:
            return sums
        share = min(1.0, lacking / float(self.memory.weight))
        return sums._replace(mass=sums.mass + share * self.memory.mass, weight=sums.weight + share * self.memory.weight)

    def _remember(self, sums: Information) -> None:
        self.memory = self._lent(sums)


def _scaler(X: Floats, scale: str | None) -> Scaler:
    with np.errstate(over="ignore", invalid="ignore"):
        total = moments(X)
    refuse_overflow(total.m2)
    center = centers(total, X) if scale in CHOSEN else None
    if scale == "auto":
        scale = None if need_no_scaling(likeness(X), total) else "mixed"
    found = scaler(total, scale, spread=spreads(total, X).all if scale == "mixed" else None, center=center)
    if center is not None:
        refuse_without_distances(total, found, X)
    return found


def prior_of(settings: Any) -> NDArray[np.float64] | str | None:
    """Prior over categories for the objective."""
    return settings.prior if settings.prior is None or isinstance(settings.prior, str) else np.array(settings.prior)
