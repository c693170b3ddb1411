"""SMIC's options that are or may be sequences: validation, by which they become tuples or limits, and defaults."""

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.validation import CLUSTERS, check_integer, check_prior

UNDECIDED = 30
"""Largest number of clusters of a fit that was given none."""
FINE_SET = (6.0, 8.0, 12.0)
"""Of two or three clusters, which may be long and bent; a consensus of this set is only taken if its cut is smaller."""
EIGENVECTOR_SETS = ((1.0, 1.5, 2.0), (2.0, 3.0, 4.0), (3.0, 4.0, 6.0), FINE_SET)
MANY_SETS = ((1.5, 2.0, 2.5), (1.0, 1.25, 1.5), (2.0, 3.0, 4.0), (3.0, 4.0, 6.0))
"""Of fits with links, which choose among all labelings."""
CUT_SET = (1.5, 2.0, 2.5)
"""Of both, in cuts; see :func:`cut_set`."""
MOST_NEIGHBORS = 1000


def are_default(widths: tuple[tuple[float, ...], ...]) -> bool:
    """Whether the columns of the labelings merged by density are those of a default, and not given by the caller."""
    return widths in (EIGENVECTOR_SETS, MANY_SETS)


def cut_set(widths: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """Columns for each cluster in the cuts of a fit with an open number, by the density ratio."""
    return CUT_SET if are_default(widths) else widths[0]


def eigenvector_sets(widths: Any) -> tuple[tuple[float, ...], ...]:
    """Sets of factors; one flat sequence, or a single factor, is one set."""
    values = tuple(widths) if isinstance(widths, Iterable) else (widths,)
    found = (values,) if all(isinstance(v, numbers.Real) for v in values) else tuple(_factors(w) for w in values)
    if not found or not all(
        w and all(isinstance(f, numbers.Real) and 1 <= float(f) < math.inf for f in w) for w in found
    ):
        raise InputError(f"widths: got {widths!r}; use factors of at least 1, such as (1.5, 2, 2.5), or several such")
    return tuple(tuple(float(f) for f in w) for w in found)


def _factors(eigenvector_set: Any) -> tuple[Any, ...]:
    return tuple(eigenvector_set) if isinstance(eigenvector_set, Iterable) else (eigenvector_set,)


def shrinkages(shrinkage: Any) -> tuple[float, ...] | None:
    """Distinct shrinkages from 0 to 1; None if they follow from other options."""
    if shrinkage is None:
        return None
    values = tuple(shrinkage) if isinstance(shrinkage, Iterable) else (shrinkage,)
    if not values or not all(isinstance(s, numbers.Real) and 0 <= float(s) <= 1 for s in values):
        raise InputError(f"shrinkage: got {shrinkage!r}; use numbers from 0 to 1, such as 0, or several as (0, 0.75)")
    return tuple(dict.fromkeys(float(s) for s in values))


def check_neighbor_number(name: str, value: Any) -> None:
    """InputError unless a setting is a neighbour number from 1 to 1,000."""
    check_integer(name, value, 1)
    if value > MOST_NEIGHBORS:
        raise InputError(f"{name}: got {value}; use at most {MOST_NEIGHBORS} neighbours")


def neighbor_numbers(t: Any) -> tuple[int, ...]:
    """Distinct neighbour numbers from 1 to 1,000."""
    if not isinstance(t, numbers.Integral | Iterable) or isinstance(t, str):
        raise InputError(f"t: got {t!r}; use an integer, or several such as (5, 7, 10)")
    values = (t,) if isinstance(t, numbers.Integral) else tuple(t)
    if not values:
        raise InputError("t: got no value; give at least one neighbour number, such as t=(5,)")
    for value in values:
        check_neighbor_number("t", value)
    return tuple(dict.fromkeys(int(v) for v in values))


def ends(c: Any) -> tuple[int, int]:
    """Ends of a range of numbers of clusters: ``(least, most)``, or all its numbers in order."""
    values = list(c) if isinstance(c, Iterable) else []
    if not values or not all(isinstance(v, numbers.Integral) and not isinstance(v, bool) for v in values):
        raise InputError(f"{CLUSTERS}: got {c!r}; use an integer, a range of integers, or None")
    found = [int(v) for v in values]
    least, most = found[0], found[-1]
    if not 1 <= least < most or (len(found) > 2 and found != [*range(least, most + 1)]):
        raise InputError(
            f"{CLUSTERS}: got {c!r}; a range is (least, most), such as (2, 8), or all its integers, such as "
            "range(2, 9), with 1 <= least < most; give a single number as itself"
        )
    return least, most


def prior_of(prior: Any, c: int, assignment: str) -> tuple[float, ...] | None:
    """Shares of the c clusters, which may be unequal only with assignment "paper"; None for equal ones."""
    if prior is None:
        return None
    values = tuple(check_prior(prior, c).tolist())
    if len(set(values)) == 1:
        return None
    if assignment != "paper":
        raise InputError(
            f"prior: a non-uniform prior needs assignment='paper', got {assignment!r}: its objective changes if the "
            "eigenvectors are rotated or merged; leave assignment out"
        )
    return values


def number_of_clusters(c: Any) -> tuple[Any, int]:
    """Largest number of clusters that `c` allows, and the least one if it leaves the number open.

    Parameters
    ----------
    c : int, None, or sequence of int
        None for any number; where labelings need one, 30. A sequence is a range: see :func:`ends`.

    Returns
    -------
    n_clusters : int
        A float is returned as it is; the settings refuse it.
    least : int
        0 where `c` is a number.

    Raises
    ------
    InputError
        `c` is a text, or no range.
    """
    if c is None:
        return UNDECIDED, 1
    if isinstance(c, str):
        raise InputError(
            f"{CLUSTERS}: got {c!r}; use an integer, a range such as (2, 30), or None, with which the number is found"
        )
    if isinstance(c, numbers.Integral | float):
        return int(c) if isinstance(c, np.integer) else c, 0
    least, most = ends(c)
    return most, least
