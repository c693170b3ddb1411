"""Settings of RIM, and the checks of the arrays that are given beside the rows."""

import math
import numbers
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bigsmic.errors import InputError
from bigsmic.methods.base import MethodSettings
from bigsmic.store.side_inputs import read_array

SIDE_INPUTS = ("labels", "sample_weight")
SOLVERS = ("auto", "minibatch", "lbfgs")
SCALES = ("standard", "variance", None)
CATEGORIES = 100  # to begin with where the number of clusters is open
_PER_ROW = re.compile(r"\s*([0-9.eE+-]+)\s*/\s*[nN]\s*\Z")


@dataclass(frozen=True)
class Settings(MethodSettings):
    """What a fit by RIM is asked to do.

    Parameters
    ----------
    n_clusters : int, optional
        The strength of the penalty is found at which so many categories stay alive. None: as many as do at `reg`.
    reg : float or str, optional
        Strength of the penalty ``reg |W|^2``. ``"2/N"``: over the number of rows. ``"lsmi"``: the strength, along a
        path, whose labels have the largest squared-loss mutual information. None: found for `n_clusters`, or 4/N.
    solver : {"auto", "minibatch", "lbfgs"}
        Adam on batches, or exact gradients; "auto": the latter where all rows are no more than a batch.
    n_init_categories : int, optional
        Categories to begin with; by default 100, or three for each cluster that is asked for and at least 30.
    prior : array_like of float, shape (n_clusters,), or "power", optional
        Shares of the clusters; "power": shares fall as a power of the rank, with the exponent that fits best.
    tau : float
        Weight of the information against labels that are given.
    scale : {"standard", "variance", None}
        What centred columns are divided by.
    seed : int
    batch_size : int
        Rows of a batch.
    learning_rate : float
        Of Adam: about how far its first step moves the logits of a row; it falls to 0 along a cosine.
    n_epochs : int, optional
        Passes over the rows of an ascent; by default as many as make 200 steps, or 400 from the start of a single one.
    max_iter : int
        Iterations of L-BFGS at most.
    polish : int
        Iterations of L-BFGS after the last ascent by minibatches.
    """

    method: ClassVar[str] = "rim"

    n_clusters: int | None = None
    reg: float | str | None = None
    solver: str = "auto"
    n_init_categories: int | None = None
    prior: tuple[float, ...] | str | None = None
    tau: float = 1.0
    scale: str | None = "standard"
    seed: int = 0
    batch_size: int = 2048
    learning_rate: float = 0.3
    n_epochs: int | None = None
    max_iter: int = 200
    polish: int = 0

    def __post_init__(self):
        least = {"n_clusters": 1, "n_init_categories": 2, "batch_size": 2, "n_epochs": 1, "max_iter": 1, "polish": 0}
        for name, low in least.items():
            _whole(name, getattr(self, name), low, optional=name in ("n_clusters", "n_init_categories", "n_epochs"))
        _whole("seed", self.seed, None)
        for name in ("tau", "learning_rate"):
            _positive(name, getattr(self, name))
        if self.solver not in SOLVERS:
            raise InputError(f"solver: got {self.solver!r}; method 'rim' has {SOLVERS}")
        if self.scale not in SCALES:
            raise InputError(f"scale: got {self.scale!r}; method 'rim' has {SCALES}")
        self._check_reg()
        object.__setattr__(self, "prior", _checked_prior(self.prior, self.n_clusters))
        if self.n_init_categories is not None and self.n_init_categories < (self.n_clusters or 0):
            raise InputError(
                f"n_init_categories: got {self.n_init_categories} for {self.n_clusters} clusters; use at least as "
                "many, or leave it out"
            )

    def _check_reg(self):
        if self.reg is None or _share(self.reg) is not None:
            return
        if self.reg == "lsmi":
            if self.n_clusters is not None:
                raise InputError("reg: got 'lsmi' beside n_clusters, which asks for a strength of its own; give one")
            return
        if isinstance(self.reg, str):
            raise InputError(f"reg: got {self.reg!r}; use a positive number, a share such as '4/N', or 'lsmi'")
        _positive("reg", self.reg)

    def strength(self, n):
        """Strength that the caller gave, or the default where nothing is to be found; None where it is."""
        if self.reg is None:
            return None if self.n_clusters is not None else 4 / n
        if self.reg == "lsmi":
            return None
        share = _share(self.reg)
        return float(self.reg) if share is None else share / n

    def by_batches(self, n):
        """Whether ascents go by minibatches."""
        return self.solver == "minibatch" or (self.solver == "auto" and n > self.batch_size)

    def first_categories(self, n):
        """Categories to begin with."""
        if self.n_init_categories is not None:
            return self.n_init_categories
        if isinstance(self.prior, tuple):
            return len(self.prior)
        if self.n_clusters is None:
            return max(2, min(CATEGORIES, n // 3))
        return max(self.n_clusters, min(max(3 * self.n_clusters, 30), n // 2))


def _whole(name, value, least, optional=False):
    if value is None and optional:
        return
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name}: got {value!r}; use an integer")
    if least is not None and value < least:
        raise InputError(f"{name}: got {value!r}; use an integer of at least {least}")


def _positive(name, value):
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name}: got {value!r}; use a positive number")


def _share(reg):
    """The k of "k/N"; None for anything else."""
    found = _PER_ROW.match(reg) if isinstance(reg, str) else None
    try:
        value = float(found.group(1)) if found else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < math.inf else None


def _checked_prior(prior, n_clusters):
    if prior is None or (isinstance(prior, str) and prior == "power"):
        return prior
    if isinstance(prior, str):
        raise InputError(f"prior: got {prior!r}; use one positive value for each cluster, or 'power'")
    values = np.ravel(np.asarray(prior, np.float64))
    if not (values > 0).all() or not np.isfinite(values).all():
        raise InputError(f"prior: got {values.tolist()}; use positive values")
    if n_clusters != len(values):
        raise InputError(f"prior: got {len(values)} values for n_clusters={n_clusters}; give one per cluster")
    return tuple((values / values.sum()).tolist())


def admit(settings, given, n_rows, storage_options=None):
    """Settings, and the labels and weights that came beside the rows, in memory or as places where they lie."""
    read = {name: read_array(name, given.get(name), storage_options) for name in SIDE_INPUTS}
    return settings, checked_side_inputs({name: array for name, array in read.items() if array is not None}, n_rows)


def checked_side_inputs(side_inputs, n_rows):
    """What came beside the rows, in the dtypes that are computed with; weights are made to sum to the number of rows.

    Raises
    ------
    InputError
        Not one value per row, negative weights, labels that are not 0, 1, .. or -1.
    """
    arrays = {name: np.asarray(array) for name, array in side_inputs.items()}
    for name, array in arrays.items():
        if array.shape != (n_rows,):
            raise InputError(f"{name}: got shape {array.shape}; give one value for each of the {n_rows} rows")
    if "sample_weight" in arrays:
        weights = arrays["sample_weight"] = arrays["sample_weight"].astype(np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise InputError("sample_weight: got negative or infinite weights; use finite ones, 0 or more")
        if not weights.any():
            raise InputError("sample_weight: every weight is zero; give some rows a positive one")
        weights *= n_rows / weights.sum()
    if "labels" in arrays:
        labels = arrays["labels"]
        if labels.dtype.kind not in "iu" or labels.min() < -1:
            raise InputError(f"labels: got {labels.dtype}, least {labels.min()}; use integers 0, 1, .. and -1 for none")
        arrays["labels"] = labels.astype(np.int32)
    return arrays
