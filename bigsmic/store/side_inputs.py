"""Auxiliary per-row inputs, such as links, known labels and weights: arrays in memory, or files."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from bigsmic.errors import InputError, StorageError
from bigsmic.store import absolute, is_local, open_array
from bigsmic.store.objects import releasing_errors
from bigsmic.store.redaction import shown
from bigsmic.store.shards import Shards, is_sharded
from bigsmic.store.sources.zarr_arrays import insisting, is_zarr, mend_of
from bigsmic.types import StorageOptions
from bigsmic.validation import to_array

TEXT = (".csv", ".txt")
INSTEAD = "give an array in memory, or an .npy file"
REMEDY = "give an .npy file, a .csv file of numbers, or a Zarr array"


def read_array(name: str, given: Any, storage_options: StorageOptions = None) -> Any:
    """Read an array given in memory or by its location.

    Parameters
    ----------
    name : str
        Name of the option in messages.
    given : array_like, Zarr array, dask array, str or Path, or None
        A path with suffix ``.npy`` is a NumPy file; one with ``.csv`` or ``.txt`` a comma-separated table, whose first
        line may be a header; any other path, or a URL, a Zarr array.
    storage_options : dict, optional
        For the file system behind a URL.

    Returns
    -------
    array : ndarray or None
        As stored; the caller checks dtype and shape.

    Raises
    ------
    InputError
        The location cannot be read.
    StorageError
        A chunk of a Zarr array is missing, or torn.
    """
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        return np.asarray(to_array(name, _whole(name, given) if is_zarr(given) else given))
    place = absolute(given)
    suffix = Path(place).suffix.lower()
    if not is_local(place) or suffix not in (".npy", *TEXT):
        try:
            found = open_array(place, None, storage_options)
        except InputError as error:  # of the kind that rows raise, in their name
            reason = re.split("; (?:give|name) ", str(error).removeprefix("input: "))[0]
            raise InputError(f"{name}: {reason}; {REMEDY}") from error
        return _whole(name, found)
    try:
        return np.load(place, allow_pickle=False) if suffix == ".npy" else _table(Path(place))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{name}: {os.fspath(given)!r} could not be read ({type(error).__name__}: {error}); {REMEDY}"
        ) from error


def _whole(name: str, array: Any) -> Any:
    """Values of a Zarr array of which all chunks are there, as Zarr reads absent ones as fill values."""
    from bigsmic.store.retrying import AbsentChunkError, refusing_absent_chunks, settle

    where = shown(array.store_path)
    array = insisting(array, "error")
    try:
        with releasing_errors(), refusing_absent_chunks():
            if is_sharded(array) and array.ndim in (1, 2):  # others are refused by their shape
                Shards(array, where, name, INSTEAD).refuse_holes(0, array.shape[0])
            return np.asarray(array[...])
    except AbsentChunkError as error:
        key = error.args[0].removeprefix(f"{array.path}/")
        raise StorageError(
            f"{name}: chunk {key} of {where} is missing, and would read as fill values; restore it, or, if the writer "
            f"leaves out chunks that hold only the fill value, {INSTEAD}"
        ) from None
    except InputError:
        raise
    except StorageError as error:
        if str(error).startswith(f"{name}: "):
            raise
        raise StorageError(f"{name}: {where} could not be read; {error}") from None
    except Exception as error:
        settle()
        raise StorageError(
            f"{name}: {where} could not be read ({type(error).__name__}: {error}); " + mend_of(error, "it")
        ) from error


def _table(path: Any) -> Any:
    """Numbers of a text file: a matrix, or a vector if each line has one number; integers if all are integers."""
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if lines and not _are_numbers(lines[0].split(",")):
        if _has_number(lines[0]):
            raise ValueError(f"its first line, {lines[0]!r}, is neither a header nor numbers with commas between them")
        lines = lines[1:]
    if not lines:
        return np.zeros((0, 2), np.int64)
    table = np.loadtxt(lines, dtype=np.float64, delimiter=",", ndmin=2)
    if np.isfinite(table).all() and (table == np.rint(table)).all():
        table = table.astype(np.int64)
    return table[:, 0] if table.shape[1] == 1 else table


def _are_numbers(fields: Any) -> Any:
    try:
        return [float(field) for field in fields] != []
    except ValueError:
        return False


def _has_number(line: str) -> bool:
    """Whether a field of a line is a number, or the line is numbers with something else than commas between them."""
    parts = [part for part in re.split(r"[\s,;]+", line) if part]
    return any(map(_is_number, line.split(","))) or (bool(parts) and all(map(_is_number, parts)))


def _is_number(field: str) -> bool:
    """Whether it is a number with digits; nan and inf may be names."""
    return _are_numbers([field]) and any(map(str.isdigit, field))
