"""Arrays for the user, at the top of a run: read in blocks of rows, which are checked against the fit's checksums."""

import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bigsmic.errors import StorageError
from bigsmic.store.objects import checksum, releasing_errors, storage_errors
from bigsmic.types import Floats, Integers

SPAN_BYTES = 16 << 20  # read at once when all rows are read


class CheckedArray:
    """Array of a finished run on disk: a slice reads its rows and checks them against the checksums of the fit.

    A slice reads every block of rows that it touches. ``numpy.asarray`` takes all rows, ``dask.array.from_array`` makes
    a lazy array of it. Rows are indexed as in NumPy, by a number, a slice, numbers or booleans; an index of columns may
    follow.

    Parameters
    ----------
    run : Run
    stage : str
        Has a block for each block of rows, whose info contains the CRC-32 of the rows under the name of the array.
    name : str
    shape : tuple of int
    dtype : dtype

    Attributes
    ----------
    shape, dtype, ndim, size, nbytes
        As of an ndarray.
    chunks : tuple of int
        Shape of a block: rows that are read together.

    Raises
    ------
    RunError
        The array is missing, or of another shape or dtype.
    CorruptBlockError
        On reading, if rows differ from what the fit wrote.
    StorageError
        On reading, if the file system or the store gives no answer.
    """

    def __init__(self, run: Any, stage: str, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._run, self._stage, self._name = run, stage, name
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self._rows = run.stored_array(name, self.shape, self.dtype)
        self.chunks = self._rows.chunks

    def __len__(self) -> int:
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        is_flag = isinstance(other, bool)  # as of `array in (None, False)`, which asks for the object
        if isinstance(other, numbers.Number | np.ndarray) and not is_flag:
            raise TypeError(f"==: {self._remedy()}")
        return NotImplemented

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            return object.__getattribute__(self, name)  # raises AttributeError
        raise AttributeError(f"{name}: {self._remedy()}", name=name, obj=self)

    def _remedy(self) -> str:
        """Why nothing computes with all entries, which may not fit into memory, and what does."""
        name = self._name
        return (
            "not computed on disk; "
            f"take {name} into memory, {self.nbytes / 2**20:,.1f} MiB, by result.{name}[:] or "
            f"numpy.asarray(result.{name}), some of its {len(self):,} rows by result.{name}[lo:hi], or compute in "
            f"blocks with dask.array.from_array(result.{name})"
        )

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array in memory."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, key: Any) -> Any:
        first, *rest = (key if isinstance(key, tuple) else (key,)) or (...,)
        if isinstance(first, slice):
            return self._slice(first)[(slice(None), *rest)]
        numbers = _row_numbers(first, len(self))
        if numbers is None:  # an ellipsis, a new axis, a mask of all entries
            return self._slice(slice(None))[key]
        place = np.arange(numbers.size).reshape(numbers.shape)
        return self._take(numbers.ravel())[(place if numbers.ndim else 0, *rest)]

    def __iter__(self) -> Iterator[Floats]:
        for s in range(self._n_blocks):
            yield from self._read(s, s + 1)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self._name}: rows on disk cannot be an array without a copy; leave copy=False out")
        return self._slice(slice(None)).astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> Any:
        return type(self), (self._run, self._stage, self._name, self.shape, self.dtype)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return type(self).__name__, self._run.id, self._run.address, self._name

    def __repr__(self) -> str:
        return f"<{self._name} of {self._run.location}: shape {self.shape}, {self.dtype}, read when sliced>"

    @property
    def _n_blocks(self) -> int:
        return -(-len(self) // self.chunks[0])

    def _slice(self, rows: Any) -> Floats:
        """Rows of a slice, in memory."""
        picked = range(len(self))[rows]
        if abs(picked.step) > 1 or not len(picked):
            return self._take(np.asarray(picked, np.int64))
        lo, hi = min(picked), max(picked) + 1
        out, height = np.empty((hi - lo, *self.shape[1:]), self.dtype), self.chunks[0]
        span = max(1, SPAN_BYTES // max(1, height * self.nbytes // max(1, len(self))))
        end = -(-hi // height)
        for s in range(lo // height, end, span):
            found, start = self._read(s, min(s + span, end)), s * height
            a, b = max(lo, start), min(hi, start + len(found))
            out[a - lo : b - lo] = found[a - start : b - start]
        return out[:: picked.step]

    def _take(self, numbers: Integers) -> NDArray[Any]:
        """Rows of the given numbers, in the order of these; each block is read once."""
        out, height = np.empty((len(numbers), *self.shape[1:]), self.dtype), self.chunks[0]
        order = np.argsort(numbers, kind="stable")
        blocks, starts = np.unique(numbers[order] // height, return_index=True)
        for s, places in zip(blocks.tolist(), np.split(order, starts[1:]), strict=False):
            out[places] = self._read(s, s + 1)[numbers[places] - s * height]
        return out

    def _read(self, first: int, last: int) -> NDArray[Any]:
        """Rows of consecutive blocks, after checking the checksum of each."""
        height = self.chunks[0]
        lo, hi = first * height, min(last * height, len(self))
        infos = self._run.infos(self._stage, range(first, last))
        with storage_errors(f"{self._name}: reading rows {lo}:{hi} of {self._run.location}"):
            found, why = decoded(lambda: np.asarray(self._rows[lo:hi]))
        if found is not None:
            parts = (found[at : at + height] for at in range(0, hi - lo, height))
            if [checksum(part) for part in parts] == [info.get(self._name) for info in infos]:
                return found
        if last - first > 1:  # finds the damaged block
            return np.concatenate([self._read(s, s + 1) for s in range(first, last)])
        what = why or "are missing, or are not what the fit wrote"
        raise self._run.damaged(
            f"{self._name}: rows {lo}:{hi} in {self._run.location}/{self._name} {what}", self._stage, first
        )


def _refusing(symbol: str) -> Callable[..., NoReturn]:
    def operator(array: CheckedArray, other: Any = None) -> NoReturn:
        raise TypeError(f"{symbol}: {array._remedy()}")

    return operator


_ALONE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "pos": "+", "invert": "~", "abs": "abs"}
_REFLECTED = {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@"},
    **{"and": "&", "or": "|", "xor": "^"},
}
for _name, _symbol in (_ALONE | _REFLECTED | {f"r{name}": symbol for name, symbol in _REFLECTED.items()}).items():
    setattr(CheckedArray, f"__{_name}__", _refusing(_symbol))


def _row_numbers(index: Any, n: int) -> Integers | None:
    """Row numbers of an index of one integer, integers or booleans; None for any other index."""
    if index is None or index is Ellipsis or isinstance(index, bool | np.bool_):
        return None
    index = np.asarray(index)
    if index.dtype == bool and index.ndim == 1:
        if len(index) != n:
            raise IndexError(f"got {len(index)} booleans for {n} rows")
        return np.flatnonzero(index)
    if index.size == 0 and index.ndim == 1:
        index = index.astype(np.int64)
    if index.dtype.kind not in "iu":
        return None
    if index.size and not -n <= index.min() <= index.max() < n:
        raise IndexError(f"got row {index.min()} to {index.max()} of {n} rows")
    return np.where(index < 0, index + n, index).astype(np.int64)


def decoded(read: Callable[..., Any]) -> tuple[Any, ...]:
    """Return ``read()`` and None, or None and the reason where the stored bytes cannot be decoded.

    Metadata and chunks are input: at torn ones Zarr and its codecs raise errors of any type, such as a MemoryError
    where a flipped bit has made a size huge.

    Raises
    ------
    StorageError, OSError
        Errors that are not about the bytes: the store does not answer, or there is no permission.
    """
    try:
        with releasing_errors():
            return read(), None
    except StorageError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        return None, _cannot(error)
    except Exception as error:
        return None, _cannot(error)


def _cannot(error: BaseException) -> str:
    return f"cannot be read ({type(error).__name__}: {str(error)[:200]})"
