"""Rows of ``.csv``, ``.tsv`` and ``.parquet`` tables on local disks, read by dask, partition by partition.

Every range of rows parses the partitions that it lies in, so that a partition of text is small. One of Parquet is as
tall as its writer made it, often the whole file, and is read some columns at a time.
"""

import csv
import os
import threading
from contextlib import suppress
from typing import Any

import numpy as np

from bigsmic.errors import InputError, StorageError
from bigsmic.store import admission
from bigsmic.store.destinations import canonical_location
from bigsmic.store.objects import is_local
from bigsmic.store.redaction import shown
from bigsmic.store.sources.column_names import names_of
from bigsmic.store.sources.dask_arrays import DaskSource, numbers_of
from bigsmic.types import Floats

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""By suffix of text, what separates its columns."""
OTHER_SEPARATORS = (";", "\t", "|")
"""What separates columns in files that are named ``.csv`` all the same; numbers and their names do not contain it."""
PARQUET = ".parquet"
TEXT_BYTES = 16 << 20
"""Bytes of text in a partition."""
PART_BYTES = 8 << 20
"""Bytes of the columns of a partition of Parquet that are read at a time, as rows."""
PARSED = 10
"""Bytes that parsing takes for a byte of rows, at most: the text or Arrow's columns, and copies of the frame."""
LIBRARY_BYTES = 80 << 20
"""Memory of pandas, Arrow and dask.dataframe."""
PARSING = threading.Lock()
"""Held while rows are parsed: tasks would parse the same partition at once, or several."""
LOOKED_AT = 1000
"""Rows of text from which the dtypes of columns are inferred."""
FEW_NAMES = 3
"""Numbers that may ascend by chance."""
UNNAMED = "Unnamed: "
"""How pandas begins names of columns that have none, such as an index that was written with a table."""


class TableSource(DaskSource):
    """Columns of numbers in a table.

    Parameters
    ----------
    path : str
        Absolute: of a ``.csv``, ``.tsv`` or ``.parquet`` file, or of a folder of parquet files.
    component : str, optional
        Names of the columns to read, separated by commas; all columns by default.

    Raises
    ------
    InputError
        The table cannot be read, has no such columns, or others than of numbers.
    """

    def __init__(self, path: str, component: str | None = None) -> None:
        self._path = path
        self._unended_bytes = None
        self._unended_bytes = self._parsed(lambda: _unended_bytes(path))
        frame = self._parsed(lambda: _frame(path, component))
        names, lengths = list(frame.columns), True
        # dask reads a file by columns; of several partitions, it would join some if it reads few columns
        by_columns = _suffix(path) == PARQUET and frame.npartitions == 1 and len(set(names)) == len(names)
        with PARSING, _one_partition_at_a_time():
            if by_columns:
                lengths = self._parsed(lambda: _lengths(frame))
            self._parsed(lambda: super(TableSource, self).__init__(numbers_of(frame, lengths)))
        width = self._part_width = self._width_of_parts() if by_columns else len(names)
        parts = [names[j : j + width] for j in range(0, len(names), width)]
        self._parts = [DaskSource(numbers_of(frame[part], lengths)) for part in parts] if len(parts) > 1 else []
        self.name = path
        self.named(names_of(frame))

    @property
    def places(self) -> list[str]:
        """Path of the table."""
        return [self._path]

    def origin(self) -> Any:
        """Return the path of the table."""
        return canonical_location(self._path)

    @property
    def complete_rows(self) -> int:
        """Number of rows without a last line of text that has no end: its writer may be in the middle of a number."""
        return self.shape[0] - (self._unended_bytes is not None)

    @property
    def band_bytes(self) -> int:
        """Bytes that parsing some columns of a partition takes, and the libraries that parse them."""
        return LIBRARY_BYTES + PARSED * max(self.array.chunks[0]) * self._part_width * self.dtype.itemsize

    def read(self, lo: int, hi: int) -> Floats:
        """Return rows ``lo:hi``."""
        with PARSING:
            rows = self._parsed(lambda: self._read(lo, hi))
        if (
            self._unended_bytes is not None
            and hi == self.shape[0]
            and os.path.getsize(self._path) != self._unended_bytes
        ):
            raise InputError(
                f"input: the last line of {shown(self._path)!r} had no end, and the file has grown since it was "
                f"opened, so that the line may have been half written; fit the complete ones, rows=slice({hi - 1}), or "
                "try again once the file is written"
            )
        return rows

    def _width_of_parts(self) -> int:
        n, d = self.shape
        return min(d, max(1, PART_BYTES // (max(1, n) * self.dtype.itemsize)))

    def _read(self, lo: int, hi: int) -> Any:
        if not self._parts:
            return super().read(lo, hi)
        rows = np.empty((hi - lo, self.shape[1]), self.dtype)
        for k, part in enumerate(self._parts):
            first = k * self._part_width
            rows[:, first : first + self._part_width] = part.read(lo, hi)
        return rows

    def _parsed(self, read: Any) -> Any:
        """What `read` returns; errors of the libraries that read tables name the file and a remedy."""
        try:
            return read()
        except (InputError, StorageError):
            raise
        except ImportError as error:
            raise InputError(
                f"input: {shown(self._path)!r} is read by dask.dataframe, which lacks a package ({error}); "
                "pip install 'bigsmic[parquet]'"
            ) from None
        except OSError as error:
            raise StorageError(
                error.errno, f"input: {shown(self._path)!r} could not be read ({error}); check the file"
            ) from error
        except (ValueError, TypeError, NotImplementedError) as error:  # those of pandas and Arrow are among these
            cause = error.__cause__ or error  # dask wraps the errors of readers
            half = "; its last line has no end: if it is being written, try again later" if self._unended_bytes else ""
            raise InputError(
                f"input: {shown(self._path)!r} could not be read as a table of numbers ({type(cause).__name__}: "
                f"{_first_line(cause)}); mend it, or name its columns of numbers with component={half}"
            ) from error


def _frame(path: str, component: str | None) -> Any:
    """A dask dataframe of the columns asked for, all of numbers."""
    import dask.dataframe

    if _suffix(path) == PARQUET:
        columns = list(dask.dataframe.read_parquet(path).columns)
        _refuse_other_names(columns, path)
        # the index is left out anyway, and Dask does not find one of even numbers that has a name
        frame = dask.dataframe.read_parquet(path, columns=columns, index=False)
    else:
        _refuse_other_separators(path)
        if component is None:
            _refuse_rows_as_header(path)
        reading = {"sep": _separator(path), "dtype": _text_dtypes(path)} | _exact()
        frame = dask.dataframe.read_csv(path, blocksize=TEXT_BYTES, **reading)
    frame = frame[_chosen(list(map(str, frame.columns)), component, path)]
    words = admission.words_of(frame)
    if words:
        numbers = [name for name in map(str, frame.columns) if name not in words]
        others = " and the names of the others" if len(numbers) > admission.NAMED else repr(",".join(numbers))
        remedy = f"leave them out with component={others}, or code them" if numbers else "code them"
        raise InputError(
            f"input: columns {words[: admission.NAMED]} of {shown(path)!r} are not numbers; {remedy} as numbers"
        )
    return frame


def _one_partition_at_a_time() -> Any:
    """Context in which dask computes a frame on the calling thread, and not on a cluster."""
    import dask

    return dask.config.set(scheduler="synchronous")


def _lengths(frame: Any) -> tuple[int, ...]:
    """Rows of the partitions, by a single column: all of them may be far more than is ever read at a time."""
    return tuple(map(int, frame[[frame.columns[0]]].map_partitions(len).compute()))


def _exact() -> dict[str, str]:
    """Option with which pandas reads the bits that were written; from 3.1 on, it does so and is to lose the option."""
    import pandas as pd

    major, minor = map(int, pd.__version__.split(".")[:2])
    return {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}


def _refuse_other_names(columns: list[Any], path: str) -> None:
    """Refuse names that are no texts: pandas restores them as it wrote them to Parquet, and dask then finds none."""
    other = next((name for name in columns if not isinstance(name, str)), None)
    if other is not None:
        copy = f"{os.path.splitext(path)[0]}-named.parquet"
        raise InputError(
            f"input: {shown(path)!r} has a column named {other!r}, which is no text; write the table again with names "
            f'that are: python -c "import pandas; table = pandas.read_parquet({path!r}); table.set_axis([str(name) for '
            f'name in table.columns], axis=1).to_parquet({copy!r})"'
        )


def _unended_bytes(path: str) -> int | None:
    """Bytes of a file of text whose last line has no end, as if it were being written; None for other files."""
    if _suffix(path) == PARQUET:
        return None
    if os.path.isdir(path):
        parts = os.path.join(path, "*" + _suffix(path))
        sep = "" if _separator(path) == "," else f", sep={_separator(path)!r}"
        raise InputError(
            f"input: {shown(path)!r} is a folder; give one of its files, or, in Python, pass those of a table, which "
            f"have the same columns, as dask.dataframe.read_csv({parts!r}{sep})"
        )
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return None if file.read() in (b"", b"\n", b"\r") else size


def _separator(path: str) -> str:
    return SEPARATORS[_suffix(path)]


def _refuse_other_separators(path: str) -> None:
    """Refuse a table whose columns are not separated as its suffix says: its lines would be parted at other places.

    With decimal commas, parts of numbers would be read as numbers.
    """
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        header, row = file.readline(), file.readline()
    for separator in OTHER_SEPARATORS:
        if separator != _separator(path) and 0 < header.count(separator) == row.count(separator):
            decimal = ", decimal=','" if "," in row else ""
            copy = f"{os.path.splitext(path)[0]}-commas.csv"
            raise InputError(
                f"input: the columns of {shown(path)!r} are separated by {separator!r}, not {_separator(path)!r}; copy "
                f'it to a table that is: python -c "import pandas; pandas.read_csv({path!r}, sep={separator!r}'
                f'{decimal}).to_csv({copy!r}, index=False)"'
            )


def _refuse_rows_as_header(path: str) -> None:
    """Refuse a table whose first line is a row, which would be lost as names of columns.

    Numbers that ascend, such as positions, times or wavelengths, are names.
    """
    import pandas as pd

    try:
        first = pd.read_csv(path, sep=_separator(path), nrows=1, header=None, dtype=str).iloc[0].astype(np.float64)
    except ValueError:  # a name that is no number, or nothing at all
        return
    if first.isna().any():  # of an index that was written with the table
        return
    ascend = bool((np.diff(first) > 0).all())
    if not (ascend and (len(first) > FEW_NAMES or (first % 1 == 0).all())):
        raise InputError(
            f"input: the first line of {shown(path)!r} has numbers ({', '.join(first.astype(str)[:3])}, ...) in the "
            "place of names, and would be lost if it is a row; write names above it, or give those of the columns to "
            "read, separated by commas, with component="
        )


def _text_dtypes(path: str) -> dict[str, Any]:
    """Dtypes of columns that can have other entries further down than those that dask infers dtypes from.

    Integers are read as floats: there can be fractions or missing values. Truth values are read as such that may be
    missing: dask would make every other entry True, whatever it is.
    """
    import pandas as pd

    first = pd.read_csv(path, sep=_separator(path), nrows=LOOKED_AT)
    if first.empty:
        raise InputError(f"input: {shown(path)!r} has no rows below its header; give a table of numbers")
    if _entries_of_first_row(path) > len(first.columns):
        raise InputError(
            f"input: rows of {shown(path)!r} have more entries than its first line has names ({len(first.columns)}), "
            "and those in excess would be left out; write a name above every column"
        )
    numbers = {name: np.float64 for name, dtype in first.dtypes.items() if dtype.kind in "iuf"}
    others = first.drop(columns=[*numbers])
    flags = [name for name in others if all(isinstance(value, bool) for value in others[name].dropna())]
    return numbers | {name: "boolean" if name in flags else object for name in others}


def _entries_of_first_row(path: str) -> int:
    """Number of entries below the header: of more than it has names, pandas makes the first ones an index.

    The index does not show it: from pandas 3.1 on, one of integers that are evenly spaced is a RangeIndex.
    """
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file, suppress(csv.Error):
        rows = (row for row in csv.reader(file, delimiter=_separator(path)) if "".join(row).strip() or len(row) > 1)
        next(rows, None)
        return len(next(rows, []))
    return 0


def _chosen(columns: list[str], component: str | None, path: str) -> list[str]:
    """Columns to read; a header may have spaces around names, which need not be given."""
    bare = {name.strip(): name for name in reversed(columns)} | {name: name for name in columns}
    given = [] if component is None else [(name, name.strip()) for name in component.split(",")]
    chosen = columns if component is None else [bare.get(name, bare.get(short, short)) for name, short in given]
    unknown = [name for name in chosen if name not in columns]
    if unknown:
        raise InputError(
            f"input: {shown(path)!r} has no column {unknown[0]!r}, given as component=; its columns are "
            f"{columns[: admission.NAMED]}"
        )
    unnamed = [name for name in chosen if component is None and name.startswith(UNNAMED)]
    if unnamed:
        raise InputError(
            f"input: column {columns.index(unnamed[0])} of {shown(path)!r} has no name, and can be an index rather "
            "than a feature; give it one, or name the columns to read, separated by commas, with component="
        )
    return chosen


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")


def is_table(location: Any) -> bool:
    """Whether a location is a local file or folder that is named as a table."""
    return _suffix(location) in (*SEPARATORS, PARQUET) and is_local(location) and os.path.exists(location)


def _suffix(location: Any) -> str:
    return os.path.splitext(str(location).rstrip("/"))[1].lower()
