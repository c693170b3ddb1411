"""Settings of RIM."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bigsmic.errors import InputError
from bigsmic.settings.base import MethodSettings
from bigsmic.settings.options import ARRAY, INTEGER, NUMBER_OR_WORD, POSITIVE, SHARES_OR_WORD, Option, declared, option
from bigsmic.settings.smic import SCALE_HELP, SCALES, SEED_HELP
from bigsmic.validation import check_clusters, check_positive, to_array

CATEGORIES = 100  # at the start, if the number of clusters is open
_PER_ROW = re.compile(r"\s*([0-9.eE+-]+)\s*/\s*[nN]\s*\Z")


@dataclass(frozen=True)
class Settings(MethodSettings):
    """Settings of a fit by RIM.

    ``n_clusters``: the strength of the penalty is searched for at which so many categories stay alive. None: as many
    clusters as stay alive at ``reg``.
    """

    method: ClassVar[str] = "rim"
    home: ClassVar[str | None] = "bigsmic.methods.rim.method"
    side_inputs: ClassVar[Mapping[str, Option]] = {
        "labels": declared(
            ARRAY,
            help="""Known labels, -1 where there is none: .npy, .csv or Zarr. Categories 0, 1, .. are clusters of
            the same numbers.""",
        ),
        "sample_weight": declared(ARRAY, help="Weights of the rows: .npy, .csv or Zarr. At least 0."),
    }

    n_clusters: int | None = None
    reg: float | str | None = option(
        None,
        NUMBER_OR_WORD,
        help="""Strength of the penalty: a number, a share such as 4/N, or lsmi. The penalty is ``reg |W|^2``;
        ``"2/N"``: 2 over the number of rows; ``"lsmi"``: the strength, along a path, whose labels have the largest
        squared-loss mutual information. None: found for the number of clusters, or 4/N without one.""",
    )
    solver: str = option(
        "auto",
        choices=("auto", "minibatch", "lbfgs"),
        help="""Adam on batches, or exact gradients. "auto": the latter if all rows fit in one batch.""",
    )
    n_init_categories: int | None = option(
        None,
        INTEGER,
        least=2,
        help="""Categories at the start; those that stay alive are the clusters. By default 100, or three for each
        requested cluster and at least 30.""",
    )
    prior: tuple[float, ...] | str | None = option(
        None,
        SHARES_OR_WORD,
        help="""Share of each cluster, such as .5,.3,.2, or power. "power": shares fall as a power of the rank, with
        the exponent that fits best.""",
    )
    tau: float = option(1.0, POSITIVE, help="Weight of the information against given labels.")
    scale: str | None = option(
        "standard",
        choices=SCALES,
        help=SCALE_HELP + " Not left to auto by default, because ``reg`` is in the units of the scaled columns.",
    )
    seed: int = option(0, INTEGER, help=SEED_HELP)
    batch_size: int = option(2048, INTEGER, least=2, help="Rows of a batch.")
    learning_rate: float = option(
        0.3,
        POSITIVE,
        help="Learning rate of Adam: roughly the change of a row's logits in the first step. It falls to 0 along a "
        "cosine.",
    )
    n_epochs: int | None = option(
        None,
        INTEGER,
        least=1,
        help="""Passes over the rows at each strength of the penalty. By default as many as make 200 steps, or 400 for a
        single strength; in `partial_fit` passes over a chunk.""",
    )
    max_iter: int = option(200, INTEGER, least=1, help="Largest number of iterations of L-BFGS.")
    polish: int = option(0, INTEGER, least=0, help="Iterations of L-BFGS after the last batch.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_clusters is not None:
            check_clusters(self.n_clusters, ", or None, with which reg decides how many are left")
        self._check_reg()
        object.__setattr__(self, "prior", _checked_prior(self.prior, self.n_clusters))
        if self.n_init_categories is not None and self.n_init_categories < (self.n_clusters or 0):
            raise InputError(
                f"n_init_categories: got {self.n_init_categories} for {self.n_clusters} clusters; use at least as "
                "many, or leave it out"
            )
        if isinstance(self.prior, tuple) and (self.n_init_categories or 0) > len(self.prior):
            raise InputError(
                f"n_init_categories: got {self.n_init_categories} with a prior of {len(self.prior)} shares, one for "
                "each category from the start; leave n_init_categories out, or give prior='power' or none"
            )

    def _check_reg(self) -> None:
        if self.reg is None or _share(self.reg) is not None:
            return
        if self.reg == "lsmi":
            if self.n_clusters is not None:
                raise InputError(
                    "reg: got 'lsmi' together with n_clusters, but each of them determines the "
                    "strength; give one of them"
                )
            return
        if isinstance(self.reg, str):
            raise InputError(f"reg: got {self.reg!r}; use a positive number, a share such as '4/N', or 'lsmi'")
        check_positive("reg", self.reg)

    def strength(self, n: int) -> Any:
        """The given strength, or the default; None if it is to be found for a number of clusters."""
        if self.reg is None:
            return None if self.n_clusters is not None else 4 / n
        if self.reg == "lsmi":
            return None
        share = _share(self.reg)
        return float(self.reg) if share is None else share / n

    def by_batches(self, n: int) -> bool:
        """Whether ascents use minibatches."""
        return self.solver == "minibatch" or (self.solver == "auto" and n > self.batch_size)

    def first_categories(self, n: int) -> int:
        """Number of categories at the start."""
        if self.n_init_categories is not None:
            return self.n_init_categories
        if isinstance(self.prior, tuple):
            return len(self.prior)
        if self.n_clusters is None:
            return max(2, min(CATEGORIES, n // 3))
        return max(self.n_clusters, min(max(3 * self.n_clusters, 30), n // 2))


def _share(reg: Any) -> Any:
    """The k of "k/N"; None for anything else."""
    found = _PER_ROW.match(reg) if isinstance(reg, str) else None
    try:
        value = float(found.group(1)) if found else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < math.inf else None


def _checked_prior(prior: Any, n_clusters: Any) -> Any:
    if prior is None or (isinstance(prior, str) and prior == "power"):
        return prior
    if isinstance(prior, str):
        raise InputError(f"prior: got {prior!r}; use one positive value for each cluster, or 'power'")
    values = np.ravel(to_array("prior", prior, np.float64))
    if not (values > 0).all() or not np.isfinite(values).all():
        raise InputError(f"prior: got {values.tolist()}; use positive values")
    if n_clusters != len(values):
        raise InputError(f"prior: got {len(values)} values for n_clusters={n_clusters}; give one per cluster")
    return tuple((values / values.sum()).tolist())
