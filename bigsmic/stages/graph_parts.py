"""Parts that the graph falls into, and rows along curves, as the eigenvalues of its normalised kernel tell."""

from collections.abc import Collection
from typing import Any

import numpy as np

from bigsmic.numerics.constraints.links import LinkWeights
from bigsmic.runtime.context import Context
from bigsmic.stages.labeling_specs import (
    LONG,
    are_long,
    clearest_gap,
    common_gaps,
    eigenproblems,
    growth,
    growth_after,
)
from bigsmic.types import Floats

CLEAR_GAP = 2.2  # eigengap from which the graph is considered to fall into parts
GAP_BESIDE_CURVE = 5.0  # the same if dense rows lie along one curve: it has 4 after two parts, or three of a ring
NEXT_GAP = 1.5  # largest gap within parts; along a single curve it is 2.25 after the second eigenvalue
OF_CURVES = (LONG, 2.5)  # powers with which 1 minus the eigenvalues of curves grow: 2, and 2 / r in r dimensions
SOLID = 1.0  # power from which parts may lie in a plane: 2 / r in r dimensions
UNWEIGHTED = LinkWeights()


def falls_apart(context: Context, n_clusters: int) -> bool:
    """Whether the graphs have a clear eigengap that separates more than half of the clusters."""
    spectra = _plain_spectra(context)
    return bool(spectra) and clearest_gap(spectra, n_clusters) >= CLEAR_GAP


def clear_parts(context: Context, most: int, along_curves: bool, on_one: bool = False) -> int | None:
    """Number of parts, at most `most`, that the graphs fall into by the clearest eigengap; None if none is clear.

    All parts must be long: bent clusters are, and labelings by valleys fail on them; far groups of clusters are not,
    and have valleys within them. If rows lie along curves, the next gap must be small, as it is after n equal curves:
    along one, there are gaps after each of the first eigenvalues. If the graph of dense rows is a single curve, the gap
    must be larger than those of a single curve or ring are.
    """
    spectra, numbers = _plain_spectra(context, (None, UNWEIGHTED)), range(2, most + 1)
    if not (spectra and numbers):
        return None
    gaps = common_gaps(spectra, numbers)
    n_parts = numbers[int(gaps.argmax())]
    if along_curves and common_gaps(spectra, [n_parts + 1]).item() > NEXT_GAP:
        return None
    long = all(are_long(values, n_parts) for values in spectra)
    return n_parts if long and gaps.max() >= (GAP_BESIDE_CURVE if on_one else CLEAR_GAP) else None


def have_gap(context: Context, n_parts: int, least: float = NEXT_GAP) -> bool:
    """Whether the graphs have an eigengap after so many parts; by default one that is rare within parts."""
    spectra = _plain_spectra(context, (None, UNWEIGHTED))
    return bool(spectra) and common_gaps(spectra, [n_parts]).item() > least


def are_solid(context: Context, n_parts: int) -> bool:
    """Whether so many clusters have more than two dimensions, as the eigenvalues after those of parts tell.

    Any two halves of a line, or of a part of a plane, are as loosely connected as two clusters may be.
    """
    spectra = _plain_spectra(context, (None, UNWEIGHTED))
    return bool(spectra) and all(growth_after(values, n_parts) < SOLID for values in spectra)


def lie_along_curves(context: Context) -> bool:
    """Whether rows lie along curves, so that any place where these are sparse looks like a valley.

    The eigenvalues of Laplacians grow with the power 2 / r of their number in r dimensions [Weyl]_. A single column is
    a line, whatever the eigenvalues of few rows are.

    References
    ----------
    .. [Weyl] Weyl, "Das asymptotische Verteilungsgesetz der Eigenwerte linearer partieller Differentialgleichungen",
       Mathematische Annalen 71, 1912. doi 10.1007/BF01456804
    """
    if have_one_column(context):
        return True
    spectra = _plain_spectra(context, (None, UNWEIGHTED))
    powers = np.array([growth(values, (len(values) // 4, len(values) // 2, len(values))) for values in spectra])
    return bool(spectra) and bool(np.all((powers > OF_CURVES[0]) & (powers < OF_CURVES[1])))


def have_one_column(context: Context) -> bool:
    """Whether rows have a single column that is not constant, by the scaling: known before there are groups.

    Groups of rows of several columns may lie on a line too: :attr:`~bigsmic.numerics.labeling.groups.Groups.on_a_line`.
    """
    return not context.settings.precomputed and context.d - len(context.column_scaler.constant) == 1


def _plain_spectra(context: Context, link_weights: Collection[Any] = ()) -> list[Floats]:
    """Eigenvalues of the normalised kernel of every t, without shrinkage; all, or those of some weights of links."""
    return [
        context.run.read("spectrum", q, "ritz_values")
        for q, eigenproblem in enumerate(eigenproblems(context.settings))
        if eigenproblem.kernel == "normalized"
        and not eigenproblem.shrinkage
        and (not link_weights or eigenproblem.link_weights in link_weights)
    ]
