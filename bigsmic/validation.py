"""Checks of values that a caller gives; each refusal names the value and the accepted ones."""

import math
import numbers
from collections.abc import Collection, Container, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bigsmic.errors import BigsmicError, InputError
from bigsmic.warning import warn

CLUSTERS = "c (n_clusters)"
"""Name of the number of clusters in messages: functions call it c, estimators n_clusters."""
_SHOWN = 60
SEEDS = 1 << 64
"""Number of seeds."""
_UNITS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}


def warn_of_cuts(cuts: Mapping[str, str], given: Container[str]) -> None:
    """Warn of parameters that the caller gave and that had to be reduced."""
    for name, what in cuts.items():
        if name in given:
            warn(f"{name}: {what}")


def parse_bytes(size: object) -> int | None:
    """Bytes in ``"1.5GiB"``, ``"800MB"`` or a plain number; None stays None.

    Raises
    ------
    InputError
    """
    if size is None:
        return None
    text = str(plain(size)).strip().lower()
    digits = text.rstrip("bkmgti ")
    unit = text[len(digits) :].strip()
    unit = unit[:-1] if unit.endswith("b") and len(unit) > 1 else unit
    try:
        value = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        value = 0
    if not 1 <= value < math.inf:
        raise InputError(
            f"memory_limit: got {size!r}; use a number of bytes, or a size such as '1GiB' or '512MiB'; at least 1"
        )
    return int(value)


def plain(value: Any) -> Any:
    """Numbers, truth values and texts of NumPy and other libraries as Python's own; also in sequences and arrays.

    A run's identity has only Python's own, so that equal values give equal runs, whatever their type.
    """
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if type(value) in (list, tuple):  # and not a function that is a named tuple
        return type(value)(plain(v) for v in value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return str(value) if isinstance(value, np.str_) else value


def to_array(name: str, given: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """An array of what was given; InputError if it is ragged, masked, or has texts where a dtype has numbers.

    So it is for complex numbers where the dtype is real, of which NumPy would take the real parts.
    """
    try:
        found = np.asanyarray(given)
        if dtype is not None and found.dtype.kind == "c" and np.dtype(dtype).kind != "c":
            raise TypeError(f"dtype {found.dtype} is not real")
        found = np.asanyarray(found, dtype)
    except BigsmicError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name}: got a {type(given).__name__} that is no array of numbers ({error}); give numbers, and rows of "
            "equal length"
        ) from error
    if np.ma.is_masked(found):
        raise InputError(
            f"{name}: the array has {np.ma.count_masked(found)} masked entries; give an array without, such as "
            "array.filled(-1) for labels some of which are unknown"
        )
    return found


def classes_of(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Different labels, sorted, and the labels as numbers into these; InputError if they have no order."""
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise InputError(
            f"labels: got values that cannot be sorted ({error}); give numbers or texts, and one of these in the place "
            "of None or NaN"
        ) from None
    return classes, codes


def check_storage_options(storage_options: object) -> None:
    """InputError unless options of a file system are a dict or None; the message has no value, which may be secret."""
    if storage_options is not None and not isinstance(storage_options, Mapping):
        kind = type(storage_options).__name__
        raise InputError(f"storage_options: got a value of type {kind}; give a dict of the file system's options")


def refuse_other_rank(name: str, shape: tuple[Any, ...], data: Any = None) -> None:
    """InputError unless a shape is that of rows and columns; the message says how to make it one.

    Parameters
    ----------
    name : str
    shape : tuple of int
    data : object, optional
        What has the shape: a DataArray of xarray is stacked by the names of its dimensions.
    """
    if len(shape) == 2:
        return
    remedy = ". Reshape your data: array.reshape(-1, 1) for a single feature, array.reshape(1, -1) for a single sample"
    if len(shape) > 2:
        remedy = f"; make all numbers of a sample one row: array.reshape({shape[0]}, -1), in NumPy or dask"
        if hasattr(data, "isel") and hasattr(data, "dims"):
            remedy += f", or data.stack(feature={[str(dim) for dim in data.dims[1:]]}) in xarray"
    raise InputError(f"{name}: expected a 2-dimensional array (n_samples, n_features), got shape {shape}{remedy}")


def brief(value: Any) -> str:
    """What was given, for a message of one line; long values, such as arrays, by their beginning."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.. ({type(value).__name__})"


def check_integer(name: str, value: Any, least: int | None = None) -> None:
    """InputError unless a setting is an integer, and at least `least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name}: got {brief(value)}; use an integer")
    if least is not None and value < least:
        raise InputError(f"{name}: got {value}; use at least {least}")


def check_clusters(value: Any, also: str = "") -> None:
    """InputError unless a number of clusters, of a method that does not find it, is an integer above 0.

    Parameters
    ----------
    value : object
    also : str
        What else the method takes, for the message.
    """
    if not isinstance(value, numbers.Real):  # a text, None or a range, by which the number is to be found
        raise InputError(
            f"{CLUSTERS}: got {brief(value)}; use an integer{also}. Methods that find the number, with None or a range "
            "such as (2, 30), are 'smic' and '3smic': SMIC and SemiSupervisedSMIC"
        )
    check_integer(CLUSTERS, value, 1)


def check_seed(name: str, value: Any) -> None:
    """InputError unless a seed is an integer from 0 to 2**64 - 1, of which draws have that many bits."""
    check_integer(name, value)
    if not 0 <= value < SEEDS:
        raise InputError(f"{name}: got {value}; use an integer from 0 to 2**64 - 1")


def check_positive(name: str, value: Any) -> None:
    """InputError unless a setting is a finite number above 0."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise InputError(f"{name}: got {brief(value)}; use a positive number")


def check_at_least_zero(name: str, value: Any) -> None:
    """InputError unless a setting is a finite number of at least 0."""
    if not _is_number(value) or not 0 <= value < math.inf:
        raise InputError(f"{name}: got {brief(value)}; use a number of at least 0")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def check_choice(name: str, value: object, allowed: Collection[object]) -> None:
    """InputError unless a setting is one of those allowed; True and 1 differ."""
    if not any(value is a or (type(value) is type(a) and value == a) for a in allowed):
        raise InputError(f"{name}: got {brief(value)}; use one of {allowed}")


def check_prior(prior: ArrayLike | None, c: int) -> NDArray[np.float64]:
    """Check the prior over labels.

    Parameters
    ----------
    prior : array_like of float, c of them, or None
        None is uniform.
    c : int

    Returns
    -------
    prior : ndarray of float64, shape (c,)

    Raises
    ------
    InputError
        The prior is not c positive numbers of sum 1.
    """
    if prior is None:
        return np.full(c, 1.0 / c)
    values = np.ravel(to_array("prior", prior, np.float64))
    if len(values) != c:
        raise InputError(f"prior: got {len(values)} values for c = {c} clusters; give one per cluster")
    if not (values > 0).all() or abs(values.sum() - 1) > 1e-6:
        raise InputError(
            f"prior: got {tuple(values.tolist())}, sum {values.sum():.6g}; give positive values that sum to 1"
        )
    return values
