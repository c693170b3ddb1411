"""Squared-loss mutual information between rows and labels, by least squares: one pass for every candidate.

The density ratio ``r(x, y) = p(x, y) / (p(x) p(y))`` is modelled by Gaussians on the centres of class y,

    r(x, y) = sum_{l in C_y} theta_l L(x, u_l),       L(x, u) = exp(-|x - u|^2 / (2 gamma^2))

and ``(H_y + delta I) theta_y = h_y`` is the ridge fit to it. The fit, its cross-validation over gamma and delta, and
the estimate depend on the rows only through three sums, which add up over blocks::

    sums = tree_sum([block_sums(X, rows, labels, design) for each block])
    scores = finish(sums, labels[:, design.center_rows], design)

Only one of them depends on the labels, so that many labelings cost little more than one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bigsmic.numerics.mutual_information.gaussian_basis import (
    check_data,
    check_preset,
    described,
    draw_design,
    row_blocks,
)
from bigsmic.numerics.mutual_information.lsmi_scores import LSMIScore, score_one
from bigsmic.numerics.mutual_information.lsmi_sums import LSMIDesign, LSMISettings, LSMISums, accumulate
from bigsmic.numerics.one_thread import one_thread
from bigsmic.types import Floats, Integers, Preset


@dataclass(frozen=True, eq=False)
class LSMIResult:
    """Result of :func:`lsmi`.

    Parameters
    ----------
    value : float
        The estimate.
    gamma, delta : float
        Width and ridge parameter that cross-validation chose.
    n_centers : int
    gammas, deltas : ndarray of float64
        The grids.
    cv_table : ndarray of float64, shape (n_gammas, n_deltas)
        Cross-validated loss of every pair.
    classes : ndarray, shape (c,)
        The labels, sorted.
    centers_per_class : ndarray of int64, shape (c,)
    without_center : ndarray
        The labels without a centre; they add nothing to the estimate.
    """

    value: float
    gamma: float
    delta: float
    n_centers: int
    gammas: np.ndarray = field(repr=False)
    deltas: np.ndarray = field(repr=False)
    cv_table: np.ndarray = field(repr=False)
    classes: np.ndarray = field(repr=False)
    centers_per_class: np.ndarray = field(repr=False)
    without_center: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return f"LSMIResult({self.value:.4f}, gamma={self.gamma:.4g}, delta={self.delta:.4g}; {described(self)})"


def lsmi(  # noqa: PLR0913 - a public function lists its settings
    X: ArrayLike,
    labels: ArrayLike,
    *,
    n_centers: int | None = None,
    gammas: Sequence[float] | None = None,
    deltas: Sequence[float] | None = None,
    n_folds: int = 5,
    seed: int = 0,
    preset: Preset = None,
) -> LSMIResult:
    """Squared-loss mutual information between rows and labels.

    ``LSMI = sum_y (theta_y' h_y - theta_y' H_y theta_y / 2) - 1/2``, an estimate of
    ``1/2 sum_y int p(x) p(y) (r(x, y) - 1)^2 dx``; [1]_, [2]_. 0 if independent, ``(c - 1) / 2`` if x determines y.

    Parameters
    ----------
    X : array_like of float, shape (n, d)
        At least two rows. float32 is computed in float32 with sums in float64, all else in float64.
    labels : array_like, shape (n,)
        Any sortable values. That of rows in no cluster, -1 with ``noise=True``, counts as a cluster, unless these rows
        are left out.
    n_centers : int, optional
        Gaussians in the model; 800, or 200 with ``preset="paper"``; at most n.
    gammas, deltas : sequence of float, optional
        Widths and ridge parameters to choose from. By default seven widths from 0.1 to 3.2 times the median
        distance to the centres (with the preset nine from .01 to 100, for standardised data) and nine ridge
        parameters from .001 to 10.
    n_folds : int
        Folds of the cross-validation; at most n.
    seed : int
        Seed of the centres and of the folds.
    preset : {None, "paper"}
        "paper": centres and widths as published.

    Returns
    -------
    result : LSMIResult
        Its ``value`` is the estimate.

    Raises
    ------
    InputError
        X is not 2-d or has fewer than two rows, lengths differ, labels cannot be sorted, a setting is out of range, or
        the squares of X are out of that of float64.
    NonFiniteError
        NaN or infinity in X.

    Notes
    -----
    Memory: :func:`~bigsmic.numerics.mutual_information.lsmi_sums.sums_bytes` for the sums,
    :func:`~bigsmic.numerics.mutual_information.lsmi_sums.tile_bytes` for the work.

    References
    ----------
    .. [1] Suzuki, Sugiyama, Sese, Kanamori, "Mutual information estimation reveals global associations
       between stimuli and biological processes", BMC Bioinformatics 10:S52, 2009.
       doi:10.1186/1471-2105-10-S1-S52
    .. [2] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss
       mutual information", Neural Computation 26, 2014. doi:10.1162/NECO_a_00534

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> lsmi(x, x[:, 0] > 0.5, seed=1)  # doctest: +ELLIPSIS
    LSMIResult(0.49..., gamma=0.029..., delta=0.001; 2 classes, 200 centers)
    """
    features, classes, codes = check_data(X, labels, "lsmi")
    given: dict[str, Any] = {
        "n_centers": n_centers,
        "gammas": gammas,
        "deltas": deltas,
        "n_folds": min(n_folds, len(features)),
    }
    check_preset("lsmi", preset)
    settings = LSMISettings(seed=seed) if preset is None else LSMISettings.paper(seed)
    design = draw_design(replace(settings, **{k: v for k, v in given.items() if v is not None}), features)
    of_centers = codes[design.center_rows]
    (score,) = _scores(features, codes[None], len(classes), design)
    return LSMIResult(
        value=score.lsmi,
        gamma=score.gamma,
        delta=score.delta,
        n_centers=design.n_centers,
        gammas=design.gammas,
        deltas=design.deltas,
        cv_table=score.cv_table,
        classes=classes,
        centers_per_class=np.bincount(of_centers, minlength=len(classes)),
        without_center=classes[list(score.without_center)],
    )


def lsmi_of_each(X: ArrayLike, labelings: Iterable[ArrayLike], *, n_centers: int, seed: int = 0) -> NDArray[np.float64]:
    """Squared-loss mutual information between rows and each of several labelings, from the same Gaussians.

    Parameters
    ----------
    X, n_centers, seed
        As of :func:`lsmi`.
    labelings : iterable of array_like, shape (n,)

    Returns
    -------
    values : ndarray of float64, shape (n_labelings,)
        What :func:`lsmi` gives for each, but for the last digits.

    Raises
    ------
    InputError, NonFiniteError
        As of :func:`lsmi`.
    """
    checked = [check_data(X, labels, "lsmi") for labels in labelings]
    features, n_classes = checked[0][0], max(len(classes) for _, classes, _ in checked)
    settings = LSMISettings(n_centers=n_centers, n_folds=min(LSMISettings().n_folds, len(features)), seed=seed)
    codes = np.stack([codes for _, _, codes in checked])
    return np.array([score.lsmi for score in _scores(features, codes, n_classes, draw_design(settings, features))])


def _scores(features: Floats, codes: Integers, n_classes: int, design: LSMIDesign) -> list[LSMIScore]:
    """Score of every labeling: labels of shape (n_labelings, n) below `n_classes`."""
    sums, rows = LSMISums.zeros(design, len(codes), n_classes), np.arange(len(features))
    with one_thread():  # tiles are small, so that more threads would only wait for each other
        for block in row_blocks(len(features)):
            accumulate(sums, features[block], rows[block], codes[:, block], design)
        return [score_one(sums, b, labels[design.center_rows], design) for b, labels in enumerate(codes)]
