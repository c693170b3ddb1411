"""Gaussian basis of the estimates of mutual information: centres, widths and folds.

`numerics.mutual_information.lsmi` and `numerics.mutual_information.mlmi` model the density ratio by the same Gaussians,
and differ in the fitting criterion.
"""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bigsmic.errors import InputError, NonFiniteError
from bigsmic.numerics.hashing import draw_rows, row_hash
from bigsmic.numerics.row_blocks import tiles
from bigsmic.types import Floats, Integers
from bigsmic.validation import classes_of, to_array

PAPER_GAMMAS = 10.0 ** (np.arange(-4, 5) / 2)
GAMMA_MULTIPLES = 10.0 ** (np.arange(-4, 3) / 4)
SAMPLE_ROWS = 2000  # whose distances to the centres determine the scale of the widths
LEAST_REACH, LARGEST_REACH = 1e-150, 1e150
"""Range of the widest column of the rows: its square, and sums of squares over rows, are in the range of float64."""
_BLOCK_ROWS = 65536


class GaussianSettings:
    """Validated settings of an estimate; base of frozen dataclasses.

    Attributes
    ----------
    what : str
        Name of the estimate in errors.
    grids : tuple of str
        Fields with grids of values to choose from.
    """

    what: ClassVar[str]
    grids: ClassVar[tuple[str, ...]] = ("gammas",)

    n_centers: int
    gammas: Sequence[float] | None
    n_folds: int
    seed: int

    def __post_init__(self) -> None:
        if self.n_centers < 1:
            raise InputError(f"{self.what}: got n_centers={self.n_centers}; use at least 1")
        if self.n_folds < 2:
            raise InputError(f"{self.what}: got n_folds={self.n_folds}; use at least 2, as one is held out")
        for name in self.grids:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(check_grid(f"{self.what}: {name}", getattr(self, name)).tolist()))

    def widths(self, centers: Floats, sample: Floats) -> np.ndarray:
        """Widths to choose from: those given, or multiples of the median distance between rows and centres."""
        if self.gammas is None:
            return GAMMA_MULTIPLES * median_distance(sample, centers)
        return np.asarray(self.gammas)


class GaussianDesign:
    """Validated centres, grids and folds that all candidates share; base of frozen dataclasses."""

    what: ClassVar[str]
    grids: ClassVar[tuple[str, ...]] = ("gammas",)

    centers: np.ndarray
    center_rows: np.ndarray
    n_folds: int
    seed: int

    def __post_init__(self) -> None:
        centers, rows = np.asarray(self.centers, np.float64), np.asarray(self.center_rows, np.int64)
        if centers.ndim != 2 or rows.shape != centers.shape[:1] or len(rows) == 0:
            raise InputError(
                f"{self.what}: got centers of shape {centers.shape} and center_rows of shape {rows.shape}; use (b, d) "
                "and (b,) with b >= 1"
            )
        grids = {name: check_grid(f"{self.what}: {name}", getattr(self, name)) for name in self.grids}
        for name, value in {"centers": centers, "center_rows": rows, **grids}.items():
            object.__setattr__(self, name, value)

    @property
    def n_centers(self) -> int:
        """Number of centres, b."""
        return len(self.center_rows)


Design = TypeVar("Design", bound=GaussianDesign, covariant=True)


class Drawable(Protocol[Design]):
    """Protocol of settings that make a design of drawn centres."""

    @property
    def n_centers(self) -> int:
        """Number of centres."""

    @property
    def seed(self) -> int:
        """Seed of the draw."""

    def design(self, centers: Floats, center_rows: Integers, sample: Floats) -> Design:
        """Fix the grids for these centres."""


def draw_design(settings: Drawable[Design], X: Floats) -> Design:
    """Design with centres drawn from rows in memory: the same rows for both estimates.

    Parameters
    ----------
    settings : LSMISettings or MLMISettings
    X : ndarray of float, shape (n, d)

    Returns
    -------
    LSMIDesign or MLMIDesign
    """
    rows = draw_rows(len(X), settings.n_centers, settings.seed, "lsmi-center")
    return settings.design(X[rows], rows, X[draw_rows(len(X), SAMPLE_ROWS, settings.seed, "lsmi-sample")])


def fold_of(rows: Integers, design: GaussianDesign) -> np.ndarray:
    """Fold of each row, ``hash(seed, row) mod n_folds``, int64; `design` has the seed and the number."""
    return (row_hash(design.seed, "fold", rows) % np.uint64(design.n_folds)).astype(np.int64)


def median_distance(sample: Floats, centers: Floats) -> float:
    """Median Euclidean distance between sample rows and centres that do not coincide; 1 if all do."""
    centers = np.asarray(centers, np.float64)
    squared = 2 * half_squared_distances(sample, centers)
    # rounding error of a zero after the cancellation of squared norms
    rounding = 1e-12 * np.square(centers - centers.mean(axis=0)).sum(axis=1)
    positive = squared[squared > rounding]
    return float(np.sqrt(np.median(positive))) if len(positive) else 1.0


def half_squared_distances(X: Floats, centers: Floats) -> NDArray[np.float64]:
    """``|x - u|^2 / 2``, float64, shape (m, b)."""
    origin = centers.mean(axis=0, dtype=np.float64)
    U = centers - origin
    Z = X - origin
    half_squared = Z @ -U.T
    half_squared += np.square(Z).sum(axis=1)[:, None] / 2
    half_squared += np.square(U).sum(axis=1) / 2
    return np.maximum(half_squared, 0, out=half_squared)


def row_blocks(n: int) -> list[slice]:
    """Cut rows in memory into blocks, as slices, to bound the memory of derived arrays."""
    return tiles(n, _BLOCK_ROWS)


class Estimate(Protocol):
    """Protocol of the results of both estimators."""

    @property
    def n_centers(self) -> int:
        """Number of centres."""

    @property
    def classes(self) -> np.ndarray:
        """The labels, sorted."""

    @property
    def without_center(self) -> np.ndarray:
        """The labels without a centre."""


def described(result: Estimate) -> str:
    """Describe classes and centres of an estimate, for its repr."""
    silent = f", {len(result.without_center)} classes without a center" if len(result.without_center) else ""
    return f"{len(result.classes)} classes, {result.n_centers} centers{silent}"


def check_preset(what: str, preset: str | None) -> None:
    """InputError unless the preset is None or "paper"; `what` is the name of the estimate in errors."""
    if preset not in (None, "paper"):
        raise InputError(f"{what}: got preset={preset!r}; use None or 'paper'")


def check_grid(name: str, values: ArrayLike) -> np.ndarray:
    """Return a grid as sorted float64; InputError unless it has positive finite numbers."""
    values = np.sort(np.asarray(values, np.float64).ravel())
    if not len(values) or not np.isfinite(values).all() or values[0] <= 0:
        raise InputError(f"{name}: got {values.tolist()}; use positive finite numbers")
    return values


def check_data(X: ArrayLike, labels: ArrayLike, what: str) -> tuple[Floats, NDArray[Any], NDArray[np.int32]]:
    """Return float rows, classes, and labels as numbers into them."""
    if isinstance(X, str | os.PathLike):
        raise InputError(
            f"{what}: got the path {os.fspath(X)!r}, and reads no files; give an array of the rows, such as "
            "zarr.open_array(path)[:]"
        )
    rows, labels = np.asarray(to_array("X", X)), np.asarray(to_array("labels", labels))
    if rows.dtype.kind not in "fiub":
        rows = np.asarray(to_array("X", X, np.float64))  # refuses what are no numbers, and names its type
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if rows.ndim != 2 or labels.shape != rows.shape[:1]:
        raise InputError(f"{what}: got X of shape {rows.shape} and labels of shape {labels.shape}; use (n, d) and (n,)")
    if len(rows) < 2 or rows.shape[1] < 1:
        raise InputError(f"{what}: got X of shape {rows.shape}; give at least two rows and one column")
    for block in row_blocks(len(rows)):
        bad = ~np.isfinite(rows[block]).all(axis=1)
        if bad.any():
            row = block.start + int(np.argmax(bad))
            raise NonFiniteError(f"{what}: got NaN or infinity in row {row} of X; drop or impute such rows")
    _check_range(rows, what)
    classes, codes = classes_of(labels)
    return rows, classes, codes.astype(np.int32)


def _check_range(X: Floats, what: str) -> None:
    """Refuse rows whose squared distances leave the range of float64."""
    with np.errstate(over="ignore"):
        reach = float((X.max(axis=0).astype(np.float64) - X.min(axis=0)).max())
    if reach and not LEAST_REACH <= reach <= LARGEST_REACH:
        raise InputError(
            f"{what}: the widest column of X extends over {reach:.3g}; squared distances need {LEAST_REACH:g} to "
            f"{LARGEST_REACH:g} in float64: change the unit, or drop extreme rows"
        )
