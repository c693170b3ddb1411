"""Context of the tasks of a fit: input, run directory and settings, and values derived from them."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import RunMismatchError
from bigsmic.numerics import moments, scaling
from bigsmic.numerics.row_blocks import TreeSum
from bigsmic.numerics.scaling import Scaler
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.store import Run, checksum
from bigsmic.types import Integers

PROJECTION = "projection"
"""Stage of the principal axes of the rows."""
BLOCK_CACHE_BYTES = 64 << 20  # of per-row arrays kept for neighbouring blocks, which read them too


@dataclass
class Context:
    """Input, run directory and settings of a fit, which its tasks read; independent of workers and memory limits.

    Parameters
    ----------
    source : Source or None
        None once the fit is finished.
    run : Run
    settings : MethodSettings
        Reduced to what the number of rows allows.
    """

    source: Any
    run: Run
    settings: Any

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.run.identity["input"]["rows"]

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.run.identity["input"]["columns"]

    @property
    def n_features(self) -> int:
        """Number of columns of the rows that stages after the scan read: d, or of principal components."""
        return self.d if self._axes is None else self._axes.shape[1]

    @cached_property
    def block_sizes(self) -> BlockSizes:
        """Sizes with which the run was started."""
        return BlockSizes.of_run(self.run.identity)

    @cached_property
    def source_bounds(self) -> Integers:
        """Bounds of the blocks of input rows, shape (n_source_blocks + 1,)."""
        if self.settings.precomputed:
            return self.block_sizes.graph_bounds(self.n)
        return self.block_sizes.source_bounds(self.n, max(self.d, self.settings.block_columns))

    @property
    def source_blocks(self) -> range:
        """Numbers of the blocks of input rows."""
        return range(len(self.source_bounds) - 1)

    @property
    def scaler(self) -> Scaler:
        """From stored rows to those of all later stages: scaled, and their principal components once axes are known."""
        return self.column_scaler if self._axes is None else self.column_scaler._replace(axes=self._axes)

    @property
    def _axes(self) -> Any:
        return self.known(PROJECTION, self._read_axes) if self.settings.n_axes(self.d) else None

    def _read_axes(self) -> Any:
        return self.run.read(PROJECTION, 0, "axes") if self.run.done(PROJECTION, 0) else None  # none before its stage

    @cached_property
    def column_scaler(self) -> Scaler:
        """Centring and scaling of the rows, from the scan."""
        total, info = self.scanned(moments.Moments), self.scaling
        spreads = self.run.read("scaling", 0, "spreads") if "majority" in info else None
        center = self.run.read("scaling", 0, "centers") if "centred" in info else None
        return scaling.scaler(total, self.scale, self.origin, spreads, center)

    @property
    def origin(self) -> Integers | None:
        """Integers that were subtracted from all rows; see `moments.origin_of`."""
        origin = self.run.info("scan", 0).get("origin")  # which has the stored dtype of the rows
        return None if origin is None else np.array(origin, self.run.identity["input"]["dtype"])

    @property
    def scaling(self) -> dict[str, Any]:
        """What the scan found about the scaling of columns; empty if the caller gave it, and it needs no search."""
        return self.run.info("scaling", 0) if self.run.done("scaling", 0) else {}

    @property
    def scale(self) -> str | None:
        """Scaling of the columns: the requested one, or the one that the scan chose."""
        asked = self.settings.scale
        return self.run.info("scaling", 0)["scale"] if asked == "auto" else asked

    def scanned(self, kind: Any) -> Any:
        """Sum over all blocks of arrays of the scan; `kind` is a NamedTuple of arrays that adds up."""
        tree = TreeSum(len(self.source_blocks))  # as the sums of all blocks together would be large for many columns
        for s, arrays in enumerate(self.run.gather("scan", self.source_blocks, kind._fields)):
            tree.add(s, kind(*arrays))
        return tree.total()

    def input_block(self, s: int) -> NDArray[Any]:
        """Stored rows of one block of input, shape (b, d), checked against the checksum of the scan.

        Every stage except the scan reads them here, so that no stage uses rows that were changed after the scan.

        Raises
        ------
        RunMismatchError
        """
        lo, hi = (int(b) for b in self.source_bounds[s : s + 2])
        X = self.source.read(lo, hi)
        if checksum(X) != self.run.info("scan", s)["crc32"]:
            raise RunMismatchError(
                f"input: rows {lo}:{hi} are not those with which {self.run.location} was started; restore the input, "
                "or give another out= for a fit of these rows"
            )
        return X

    def input_rows(self, lo: int, hi: int) -> NDArray[Any]:
        """Stored rows ``lo:hi``, from cached blocks of input; see :meth:`input_block`."""
        bounds = self.source_bounds
        first, last = np.searchsorted(bounds, lo, side="right") - 1, np.searchsorted(bounds, hi, side="left")
        parts = []
        for s in range(int(first), int(last)):
            X = self.block_cache.get(("input", s), partial(self.input_block, s))
            parts.append(X[max(lo - bounds[s], 0) : hi - bounds[s]])
        return np.concatenate(parts)

    def scaled_block(self, s: int) -> NDArray[np.float32]:
        """Scaled rows of one block of input, float32, shape (b, n_features); see :meth:`input_block`."""
        return self.scaler.apply(self.input_block(s))

    def scaled_columns(self, s: int) -> NDArray[np.float32]:
        """The same with all columns, float32, shape (b, d)."""
        return self.column_scaler.apply(self.input_block(s))

    def scan(self, s: int, *names: str) -> list[NDArray[Any]]:
        """Arrays of one block of the scan."""
        read = self.run.reader("scan", s)
        return [read(name) for name in names]

    def read_sample(self) -> NDArray[np.float32]:
        """Scaled rows drawn by hash, float32, shape (m, n_features); not cached, as they are tens of megabytes."""
        return self.scaler.apply(self.drawn_rows())

    def drawn_rows(self) -> NDArray[Any]:
        """The same rows as stored."""
        return np.concatenate([drawn for (drawn,) in self.run.gather("scan", self.source_blocks, ["sample"])])

    def drawn_numbers(self) -> Integers:
        """Numbers of the same rows, ascending: int64, shape (m,)."""
        return np.concatenate([rows for (rows,) in self.run.gather("scan", self.source_blocks, ["sample_rows"])])

    @cached_property
    def layout(self) -> "Layout":
        """Positions of the rows in cell order."""
        return Layout(np.stack([counts for (counts,) in self.run.gather("route", self.source_blocks, ["counts"])]))

    @property
    def blocks(self) -> range:
        """Numbers of the row blocks in cell order."""
        return range(len(self.layout.bounds) - 1)

    @cached_property
    def block_cache(self) -> "BlockCache":
        """Cache of per-row arrays of the row blocks that were read last."""
        return BlockCache()

    def at(self, key: Any, read: Callable[..., Any], positions: Integers) -> NDArray[Any]:
        """Entries of a per-row array at some positions.

        Parameters
        ----------
        key : str
            Key of the array in the cache.
        read : callable
            ``read(p)`` returns its entries for row block p.
        positions : ndarray of int64, shape (m,), ascending

        Returns
        -------
        entries : ndarray, shape (m, ...)
        """
        cuts = np.searchsorted(positions, self.layout.bounds)
        touched = [p for p in self.blocks if cuts[p + 1] > cuts[p]] or [0]
        bounds = self.layout.bounds
        parts = [
            self.block_cache.get((key, p), partial(read, p))[positions[cuts[p] : cuts[p + 1]] - bounds[p]]
            for p in touched
        ]
        return np.concatenate(parts)

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return ``make()``, computed once per key, for values derived from the settings or the run."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def known(self, key: Any, make: Callable[[], Any]) -> Any:
        """Like `cached`, but None is not cached, as the value may be written later."""
        if self._derived.get(key) is None:
            self._derived[key] = make()
        return self._derived[key]

    @cached_property
    def _derived(self) -> dict[Any, Any]:
        return {}

    def under(self, settings: Any) -> "Context":
        """Context of the same run with other settings: those with which a method goes on, or those of another one."""
        return Context(self.source, self.run, settings)

    def afresh(self) -> "Context":
        """The same context with empty caches."""
        return self.under(self.settings)

    def __getstate__(self) -> dict[str, Any]:
        """State to pickle, without values that another process can read again."""
        return {"source": self.source, "run": self.run, "settings": self.settings}

    @property
    def position_dtype(self) -> np.dtype[Any]:
        """Integer type that holds a position."""
        return np.dtype(np.int32 if self.n < 2**31 else np.int64)


class BlockCache:
    """Thread-safe cache of the arrays that were read last, up to `limit` bytes."""

    def __init__(self, limit: int = BLOCK_CACHE_BYTES) -> None:
        self.limit, self.size = limit, 0
        self._kept: OrderedDict[Any, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, read: Callable[..., Any]) -> NDArray[Any]:
        """Return the cached array of a key, or ``read()``."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        array = read()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = array
                self.size += array.nbytes
            while self.size > self.limit and len(self._kept) > 1:
                self.size -= self._kept.popitem(last=False)[1].nbytes
        return array


class Layout:
    """Positions of rows in cell order: by home group, and in input order within a group.

    A row block is a group with at least one row at home.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_source_blocks, n_groups)
        Rows of each block of input whose home is each group.
    """

    def __init__(self, counts: Integers) -> None:
        self.group_ids = np.flatnonzero(counts.sum(axis=0))
        """Group of each row block."""
        self.block_of_group = np.full(counts.shape[1], -1)
        self.block_of_group[self.group_ids] = np.arange(len(self.group_ids))
        self.before = np.zeros((len(counts) + 1, len(self.group_ids)), np.int64)
        """Rows of each row block in earlier blocks of input, shape (n_source_blocks + 1, n_blocks)."""
        np.cumsum(counts[:, self.group_ids], axis=0, out=self.before[1:])
        self.bounds = np.append(0, np.cumsum(self.before[-1]))
        """Bounds of the row blocks in cell order, shape (n_blocks + 1,)."""

    @property
    def heights(self) -> Integers:
        """Rows of each row block."""
        return np.diff(self.bounds)
