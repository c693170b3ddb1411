"""Result of a fit by RIM: the classifier, its predictions, and the path to it."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bigsmic.errors import InputError
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information.lsmi_scores import finish
from bigsmic.numerics.mutual_information.lsmi_sums import LSMISettings, block_sums
from bigsmic.numerics.objectives.rim.linear import Linear
from bigsmic.numerics.objectives.rim.logits import Information, log_softmax
from bigsmic.numerics.one_thread import one_thread
from bigsmic.numerics.scaling import Scaler
from bigsmic.result import Result as BaseResult
from bigsmic.runtime.context import Context
from bigsmic.stages import numbering
from bigsmic.stages.rim.classifier import read_model
from bigsmic.stages.rim.output import UNCERTAIN_ROWS, found_information, found_shapes
from bigsmic.types import Floats, Integers
from bigsmic.validation import brief

LSMI_ROWS, LSMI_CENTERS = 5000, 200
SHRINKING, SHRINKINGS = np.float32(1e3), 10  # of rows whose logits overflow, as those of a polynomial kernel do


def scores_of(context: Context, numbers: Iterable[int]) -> list[float]:
    """LSMI of the labels of some points, on the same rows of the sample."""
    seed = context.settings.seed
    sample = context.read_sample()
    X = sample[draw_rows(len(sample), LSMI_ROWS, seed, "rim-lsmi")]
    labels = np.array([read_model(context, "point", p).logits(X).argmax(axis=1) for p in numbers])
    centers = draw_rows(len(X), LSMI_CENTERS, seed, "rim-centers")
    design = LSMISettings(len(centers), seed=seed).design(X[centers], centers, X)
    with one_thread():
        sums = block_sums(X, np.arange(len(X)), labels, design)
        return [score.lsmi for score in finish(sums, labels[:, centers], design)]


class Model:
    """Model that predicts posteriors and labels of scaled rows.

    Parameters
    ----------
    context : Context
    features : callable, optional
        Map to the features that are classified in place of the rows.
    """

    def __init__(self, context: Context, features: Callable[[Floats], Floats] | None = None) -> None:
        self.linear, self.features = read_model(context, "model", 0), features
        self.reads = {"model": None} if features is None else {"model": None, "map": None}
        self.n_clusters = self.linear.n_categories

    def __call__(self, X: Floats) -> tuple[Floats, Integers]:
        """Posteriors, float32 (b, c), and labels, int32 (b,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            logits = self._logits(X)
            for _ in range(SHRINKINGS):
                far = np.logical_not(np.isfinite(logits).all(axis=1))
                if not far.any():
                    break
                X = np.where(far[:, None], X / SHRINKING, X)
                logits[far] = self._logits(X[far])
        logs, _ = log_softmax(logits)
        return np.exp(logs), logs.argmax(axis=1).astype(np.int32)

    def _logits(self, X: Floats) -> Floats:
        return self.linear.row_logits(X if self.features is None else self.features(X))


class Result(BaseResult):
    """Labels, posteriors and the classifier of a fit by RIM."""

    _tells: ClassVar = {"clusters": None, "point": None, "scan": None}

    @cached_property
    def _linear(self) -> Linear:
        found, context = read_model(self._context, "model", 0), self._context
        weights, biases = numbering.spread(context, found.W.T), numbering.spread(context, found.b, -np.inf)
        return Linear(weights.T, biases)

    @property
    def classifier(self) -> tuple[Linear, Scaler]:
        """The classifier of scaled rows, :class:`bigsmic.numerics.objectives.rim.linear.Linear`, and the scaler."""
        return self._linear, self._context.scaler

    @property
    def coef(self) -> Floats:
        """Weights of every cluster on the unscaled columns: ndarray of float64, shape (c, d)."""
        return (self._linear.W * self._context.scaler.factor[:, None]).T

    @property
    def intercept(self) -> Floats:
        """Bias of every cluster: ndarray of float64, shape (c,). ``X @ coef.T + intercept`` are the logits.

        ``-inf`` for numbers without a cluster of the fit; see :attr:`numbers`.
        """
        return self._linear.b - self.coef @ self._context.scaler.center

    def weights(self, shape: Sequence[int]) -> Floats:
        """The weights of `coef` in the shape of an input row.

        Parameters
        ----------
        shape : sequence of int
            Its product is the number of columns, d: (4, 38) for waveforms of 38 samples on four wires.

        Returns
        -------
        weights : ndarray of float64, shape (c,) + shape

        Raises
        ------
        InputError
            The shape has another number of entries.
        """
        try:
            return self.coef.reshape(self.n_clusters, *shape)
        except (TypeError, ValueError):
            raise InputError(
                f"weights: got the shape {brief(shape)} for {self.coef.shape[1]} columns; give one with as many entries"
            ) from None

    @cached_property
    def marginal(self) -> Floats:
        """Mean posterior: ndarray of float64, shape (c,)."""
        return numbering.spread(self._context, self._sums.marginal)

    @cached_property
    def _sums(self) -> Information:
        return found_information(self._context)

    @cached_property
    def means(self) -> Floats:
        """Unscaled mean row of every cluster: ndarray of float64, shape (c, d); without rows, the mean of all."""
        return self._context.scaler.center + self._scaled_moments[0] * self._divisor

    @cached_property
    def spreads(self) -> Floats:
        """Unscaled standard deviation of the columns in every cluster: ndarray of float64, shape (c, d)."""
        mean, square = self._scaled_moments
        return np.sqrt(np.maximum(square - mean**2, 0)) * self._divisor

    @property
    def _divisor(self) -> Floats:
        factor = self._context.scaler.factor
        return np.divide(1, factor, out=np.zeros_like(factor), where=factor != 0)

    @cached_property
    def _scaled_moments(self) -> Floats:
        own = found_shapes(self._context) / np.maximum(self._sums.counts, 1)[:, None]
        return np.stack([numbering.spread(self._context, of_clusters) for of_clusters in own])

    @cached_property
    def uncertain(self) -> Any:
        """The rows of least certain cluster, the least certain first: a pandas DataFrame.

        ``row``, ``entropy`` of its posterior in nats, its ``label``, and ``other``, the next most probable cluster.
        """
        import pandas as pd

        reads = [self._run.reader("clusters", s) for s in self._context.source_blocks]
        rows, logs = (np.concatenate([r(name) for r in reads]) for name in ("rows", "log_posterior"))
        entropy = -np.einsum("ij,ij->i", np.exp(logs), logs)
        order = np.lexsort((rows, -entropy))[:UNCERTAIN_ROWS]
        ranked = np.argsort(-logs[order], axis=1, kind="stable")
        other = ranked[:, min(1, ranked.shape[1] - 1)]
        label, second = (numbering.labels(self._context, of_stage) for of_stage in (ranked[:, 0], other))
        return pd.DataFrame({"row": rows[order], "entropy": entropy[order], "label": label, "other": second})

    @cached_property
    def path(self) -> Any:
        """Strengths that were tried, ascending: a pandas DataFrame with ``reg``, ``alive``, ``objective``, ``lsmi``.

        LSMI is estimated from the labels of up to 5,000 rows, which takes some seconds at the first access. Without
        rows for a single cluster, which needs no penalty.
        """
        import pandas as pd

        points = self.diagnostics["path"]
        found = pd.DataFrame(points, columns=["reg", "alive", "objective"])
        found["lsmi"] = scores_of(self._context, range(len(points))) if points else np.empty(0)
        return found.sort_values("reg", kind="stable", ignore_index=True)

    def _choice_lines(self) -> list[str]:
        facts = self.diagnostics
        return [
            f"  categories {facts['n_init_categories']} to begin with, {facts['n_clusters']} alive at "
            f"reg = {facts['reg']:.3g}, {len(facts['path'])} strengths tried",
            f"  objective  {facts['objective']:.4f}",
        ]
