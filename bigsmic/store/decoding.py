"""Decoding of stored numbers by the CF conventions in an array's attributes, as xarray writes and reads them.

``decoded = stored * scale_factor + add_offset``, and NaN where `stored` is ``_FillValue`` or ``missing_value``. Other
attributes, such as ``valid_range``, are ignored, as xarray ignores them.

References
----------
.. [1] NetCDF Climate and Forecast (CF) Metadata Conventions, 2.5.1 "Missing data", 8.1 "Packed data".
"""

import base64
import itertools
import math
import re
import struct
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.types import Floats

_TIME = re.compile(r"\s*[a-z]+\s+since\s+\S*\d", re.IGNORECASE)


@dataclass(frozen=True)
class Decoding:
    """Decoding of stored blocks: offset, scale factor, missing values.

    Parameters
    ----------
    dtype : dtype
        Of the decoded numbers; the one that xarray chooses.
    integer : dtype, optional
        Integers as which the stored ones are read, according to ``_Unsigned``.
    missing : tuple of int or float
        Stored values, read as `integer`, that stand for missing ones.
    scale_factor, add_offset : float, optional
    """

    dtype: np.dtype
    integer: np.dtype | None = None
    missing: tuple[Any, ...] = ()
    scale_factor: float | None = None
    add_offset: float | None = None

    @classmethod
    def of(cls, attributes: dict[str, Any], dtype: np.dtype[Any], fill_value: float | None = None) -> "Decoding | None":
        """Decoding that the attributes ask for; None if the stored numbers are used as they are.

        Parameters
        ----------
        attributes : mapping
        dtype : dtype
            Of the stored numbers.
        fill_value : scalar, optional
            Takes the place of the attribute ``_FillValue``.

        Raises
        ------
        InputError
            The array holds times, or an attribute is not a number.
        """
        if dtype.kind not in "iuf":
            return None
        _refuse_times(attributes)
        integer = _integer(attributes.get("_Unsigned"), dtype)
        numbers = {name: _number(name, attributes.get(name)) for name in ("scale_factor", "add_offset")}
        marks = {"_FillValue": attributes.get("_FillValue") if fill_value is None else fill_value}
        marks["missing_value"] = attributes.get("missing_value")
        found = [_marks(name, value, integer or dtype, integer is not None) for name, value in marks.items()]
        missing = tuple(dict.fromkeys(itertools.chain(*found)))
        if integer is None and not missing and all(value is None for value in numbers.values()):
            return None
        decoded = _decoded_dtype(integer or dtype, bool(missing), *numbers.values())
        if dtype.kind == "f" and not missing and any(value is not None for value in marks.values()):
            decoded = dtype  # marked by NaN: xarray, which looks at this first, then leaves the floats as they are
        plain = {name: None if value is None else float(value) for name, value in numbers.items()}
        return cls(decoded, integer, missing, **plain)

    def __call__(self, stored: Any) -> Floats:
        """Decode a block: a C-ordered ndarray of `dtype`, of the same shape."""
        stored = stored if self.integer is None else stored.astype(self.integer)
        out = np.array(stored, self.dtype, order="C")
        if self.scale_factor is not None:
            out *= self.dtype.type(self.scale_factor)
        if self.add_offset is not None:
            out += self.dtype.type(self.add_offset)
        for value in self.missing:
            out[stored == stored.dtype.type(value)] = np.nan
        return out

    def describe(self) -> dict[str, Any]:
        """JSON-like facts by which two decodings are compared."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        facts |= {"dtype": self.dtype.str, "missing": list(self.missing)}
        facts["integer"] = None if self.integer is None else self.integer.str
        return {name: value for name, value in facts.items() if value not in (None, [])}

    def __str__(self) -> str:
        said = [f"taken as {self.integer.name}"] if self.integer is not None else []
        said += [f"{name} {v:g}" for name in ("scale_factor", "add_offset") if (v := getattr(self, name)) is not None]
        said += [f"{' and '.join(f'{value:g}' for value in self.missing)} read as missing"] if self.missing else []
        return ", ".join(said)


def _refuse_times(attributes: dict[str, Any]) -> None:
    units = attributes.get("units")
    if isinstance(units, str) and _TIME.match(units):
        raise InputError(f"input: the array holds times ({units!r}), not features; give durations or other numbers")
    if str(attributes.get("dtype", "")).startswith(("timedelta64", "datetime64")):
        raise InputError(f"input: the array holds {attributes['dtype']}, not features; convert it to numbers")


def _integer(unsigned: str | None, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Dtype as which integers are read, according to ``_Unsigned``; None for the stored one."""
    wanted = {"true": ("i", "u"), "false": ("u", "i")}.get(str(unsigned).lower())
    return np.dtype(f"{wanted[1]}{dtype.itemsize}") if wanted and dtype.kind == wanted[0] else None


def _number(name: str, value: Any) -> Any:
    """A NumPy scalar of the attribute's type, from a scalar or an array of one entry; None for None."""
    if value is None:
        return None
    found = np.asarray(value)
    if found.size != 1 or found.dtype.kind not in "iuf" or not np.isfinite(found).all():
        raise InputError(f"input: the attribute {name} of the array is {value!r}; it must be one finite number")
    return found.reshape(-1)[0]


def _decoded_dtype(dtype: np.dtype[Any], has_missing: bool, scale_factor: Any, add_offset: Any) -> np.dtype[Any]:
    """The dtype that xarray chooses; float64 where it would choose integers."""
    types = {value.dtype for value in (scale_factor, add_offset) if value is not None}
    if not types and not has_missing:
        return dtype
    if not types:
        return dtype if dtype.kind == "f" else np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
    wide = dtype.kind != "f" and dtype.itemsize >= 4
    both = scale_factor is not None and add_offset is not None
    if types == {np.dtype(np.float32)} and not wide and (both or add_offset is None):
        return np.dtype(np.float32)
    return np.dtype(np.float64)


def _marks(name: str, value: Any, dtype: np.dtype[Any], wraps: bool) -> list[Any]:
    """Stored values that an attribute lists, converted to `dtype`, without NaN.

    With `wraps`, an integer out of range stands for the one of the same bytes, as -1 for 255.
    """
    if value is None:
        return []
    values = [value] if isinstance(value, str | bytes) else np.ravel(np.asarray(value)).tolist()
    found = [_mark(name, v, dtype, wraps) for v in values]
    return [mark for mark in found if mark is not None]


def _mark(name: str, value: Any, dtype: np.dtype[Any], wraps: bool) -> float | None:
    """The stored value for `value`; None if there is none, as for NaN."""
    try:
        value = _spelled_out(value) if isinstance(value, str | bytes) else value
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                return None if math.isnan(value) else float(dtype.type(value))
        if not math.isfinite(value) or value != int(value):
            return None
        if wraps:
            return int(np.array(int(value) % 2 ** (8 * dtype.itemsize), f"u{dtype.itemsize}").astype(dtype))
        return int(value) if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max else None
    except (ValueError, TypeError):
        raise InputError(f"input: the attribute {name} of the array is {value!r}; it must be a number") from None


def _spelled_out(text: Any) -> float:
    """The number in a text: in Zarr v3, xarray writes the eight bytes of a double in base64."""
    try:
        return struct.unpack("<d", base64.b64decode(text, validate=True))[0]
    except (ValueError, struct.error):
        return float(text)
