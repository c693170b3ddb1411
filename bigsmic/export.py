"""Export of the labels of a finished fit, and of how certain they are, as a table for other programs.

The table has one row for each row of the input. It is written block by block, and renamed to its path when complete.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.runtime.context import Context
from bigsmic.stages import naming, selected
from bigsmic.stages.rowwise_output import read_array
from bigsmic.store import absolute, as_location, create_arrays, new_place
from bigsmic.types import StrPath
from bigsmic.validation import brief

STORED = ("agreement", "noise", "posterior")
"""Per-row arrays beside the labels, where a run has them."""
ORDER = ("row", "label", "name", "agreement", "noise", "posterior")
PIECE_ENTRIES = 1 << 20
"""Entries that are converted to text, or form a row group, at once."""
Block = dict[str, NDArray[Any]]


def export(context: Context, labels: Any, path: StrPath, columns: Sequence[str] | None = None) -> str:
    """Write a table of a finished fit; see :meth:`bigsmic.Result.export`.

    Labels, of every row, are sliced by block: those of the run, or of memory where a pickle has no others.
    """
    address = absolute(as_location(path, "path"))
    write = _writer(address)
    table = _Table.of(context, labels, columns)
    with new_place(address, "export") as partial:
        write(partial, table)
    return address


class _Column(NamedTuple):
    """A column of a table.

    Parameters
    ----------
    dtype : dtype
    shape : tuple of int
        Of an entry.
    read : callable
        ``read(lo, hi)`` gives the entries of the rows of one block.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    read: Callable[[int, int], NDArray[Any]]

    @classmethod
    def stored(cls, array: Any) -> "_Column":
        """An array of the run."""
        return cls(array.dtype, array.shape[1:], lambda lo, hi: array[lo:hi])

    @classmethod
    def of_names(cls, names: dict[int, str], labels: Any) -> "_Column":
        """Names of the clusters that rows are in: texts, empty where a cluster has none, and of rows in no cluster."""
        texts = np.array([*(names.get(k, "") for k in range(1 + max(names))), ""])
        return cls(texts.dtype, (), lambda lo, hi: texts[np.minimum(labels[lo:hi], len(texts) - 1)])


@dataclass(frozen=True)
class _Table:
    """Columns of a run, read in blocks.

    Parameters
    ----------
    n : int
        Rows.
    height : int
        Rows of a block of the run.
    columns : dict of str to _Column
    """

    n: int
    height: int
    columns: dict[str, _Column]

    @classmethod
    def of(cls, context: Context, labels: Any, wanted: Sequence[str] | None) -> "_Table":
        if isinstance(wanted, str):
            raise InputError(f"columns: got {wanted!r}; give a list of names, such as columns=[{wanted!r}]")
        if not (wanted is None or isinstance(wanted, Iterable)):
            raise InputError(f"columns: got {brief(wanted)}; give a list of names, such as columns=['label'], or None")
        there = _columns(context, labels)
        given = list(there if wanted is None else wanted)
        unknown = [name for name in given if not (isinstance(name, str) and name in there)]
        names = [] if unknown else list(dict.fromkeys(given))
        if unknown or not names:
            raise InputError(f"columns: got {unknown or names}; this run has {list(there)}: choose among them")
        return cls(context.n, int(context.source_bounds[1]), {name: there[name] for name in names})

    def fields(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Dtype, and shape of an entry, of every column."""
        return {name: (column.dtype, column.shape) for name, column in self.columns.items()}

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Yield the first row and the columns of every block."""
        for lo in range(0, self.n, self.height):
            hi = min(lo + self.height, self.n)
            yield lo, {name: column.read(lo, hi) for name, column in self.columns.items()}

    def flat_pieces(self) -> Iterator[Block]:
        """Yield one-dimensional columns in pieces; a posterior becomes one column per cluster."""
        for _, block in self.blocks():
            flat = _flat(block)
            rows, step = len(next(iter(flat.values()))), max(1, PIECE_ENTRIES // len(flat))
            for lo in range(0, rows, step):
                yield {name: values[lo : lo + step] for name, values in flat.items()}


def _columns(context: Context, labels: Any) -> dict[str, _Column]:
    """Columns that a run has, in the order of :data:`ORDER`."""
    there = [name for name in STORED if name in context.run.info("output", 0)]
    found = {"label": _Column.stored(labels)} | {name: _Column.stored(read_array(context, name)) for name in there}
    found["row"] = _Column(np.dtype(np.int64), (), selected.read(context.run).numbers)
    if names := naming.given(context):
        found["name"] = _Column.of_names(names, labels)
    return {name: found[name] for name in ORDER if name in found}


def _flat(block: Block) -> Block:
    found: Block = {}
    for name, values in block.items():
        found |= {name: values} if values.ndim == 1 else {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
    return found


# -- formats: each writes a table to a path


def _write_csv(path: str, table: _Table) -> None:
    import pandas as pd

    with open(path, "x", encoding="utf-8", newline="") as file:
        for i, piece in enumerate(table.flat_pieces()):
            pd.DataFrame(piece).to_csv(file, index=False, header=i == 0, lineterminator="\n")


def _write_parquet(path: str, table: _Table) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {name: (dtype, shape) for name, (dtype, shape) in table.fields().items()}
    empty = _flat({name: np.empty((0, *shape), dtype) for name, (dtype, shape) in kinds.items()})
    schema = pa.table(empty).schema
    with pq.ParquetWriter(path, schema) as writer:
        for piece in table.flat_pieces():
            writer.write_table(pa.table(piece, schema=schema))


def _write_npy(path: str, table: _Table) -> None:
    dtype = np.dtype([(name, kind, shape) for name, (kind, shape) in table.fields().items()])
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (table.n,)}
    with open(path, "xb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for _, block in table.blocks():
            rows = np.empty(len(next(iter(block.values()))), dtype)
            for name, values in block.items():
                rows[name] = values
            file.write(rows.data)


def _write_zarr(path: str, table: _Table) -> None:
    text = np.dtypes.StringDType()
    shapes = {
        name: ((table.n, *shape), text if dtype.kind == "U" else dtype)
        for name, (dtype, shape) in table.fields().items()
    }
    arrays = create_arrays(path, shapes, table.height)
    for lo, block in table.blocks():
        for name, values in block.items():
            arrays[name][lo : lo + len(values)] = values


_FORMATS = {".csv": _write_csv, ".parquet": _write_parquet, ".npy": _write_npy, ".zarr": _write_zarr}


def _writer(address: str) -> Any:
    suffix = os.path.splitext(address)[1].lower()
    if suffix not in _FORMATS:
        raise InputError(f"export: got a path with suffix {suffix!r}; use one of {', '.join(_FORMATS)}")
    if suffix == ".parquet":
        _refuse_without_pyarrow()
    return _FORMATS[suffix]


def _refuse_without_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"export: .parquet is written by pyarrow, which is not installed ({error}); "
            "pip install 'bigsmic[parquet]', or use the suffix .csv, .npy or .zarr"
        ) from None
