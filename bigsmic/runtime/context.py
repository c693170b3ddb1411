"""What every task of one fit needs to know: where to read, where to write, what was asked."""

import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from bigsmic.engines.memory import release_memory
from bigsmic.errors import RunMismatchError
from bigsmic.numerics import moments
from bigsmic.numerics.graph.cells import Cells, PartitionSettings, group_rows
from bigsmic.numerics.graph.neighbors import NeighborSettings
from bigsmic.numerics.row_blocks import TreeSum
from bigsmic.store import Run, checksum

SOURCE_BYTES = 8 << 20  # float32 bytes of one block of input rows
MAX_BLOCKS = 1024  # of input rows: bounds the number of pieces that routing makes
OF_INPUT = ("verify", "scan", "routed_rows", "route", "output")  # stages whose blocks are blocks of input
BLOCK_CACHE_BYTES = 64 << 20  # of per-row arrays kept because neighbouring blocks read them too
GRAPH_ROWS = 32_768  # of one block of a precomputed graph


def source_bounds(n, d):
    """Bounds of the blocks of input rows: functions of the shape alone, whatever the archive's chunks."""
    rows = max(SOURCE_BYTES // (4 * d), 256, -(-n // MAX_BLOCKS))
    return np.append(np.arange(0, n, rows), n)


@dataclass
class Context:
    """One fit, as its tasks see it: nothing here depends on workers, threads or the memory limit.

    Parameters
    ----------
    source : Source or None
        None once the fit is finished.
    run : Run
    settings : MethodSettings
        Cut to what the number of rows allows.
    """

    source: Any
    run: Run
    settings: Any

    @property
    def n(self):
        """Number of rows."""
        return self.run.identity["input"]["rows"]

    @property
    def d(self):
        """Number of columns."""
        return self.run.identity["input"]["columns"]

    @cached_property
    def source_bounds(self):
        """Bounds of the blocks of input rows, shape (n_source_blocks + 1,)."""
        if self.settings.precomputed:
            return np.append(np.arange(0, self.n, max(GRAPH_ROWS, -(-self.n // MAX_BLOCKS))), self.n)
        return source_bounds(self.n, max(self.d, self.settings.block_columns))

    @property
    def source_blocks(self):
        """Numbers of the blocks of input rows."""
        return range(len(self.source_bounds) - 1)

    @cached_property
    def scaler(self):
        """Centring and scaling of the rows, from the scan."""
        tree = TreeSum(len(self.source_blocks))  # of many columns, moments of all blocks at once would be large
        for s, arrays in enumerate(self.run.gather("scan", self.source_blocks, moments.Moments._fields)):
            tree.add(s, moments.Moments(*arrays))
        total = tree.total()
        origin = self.run.info("scan", 0).get("origin")
        if origin is not None:  # it is as the rows are stored
            origin = np.array(origin, self.run.identity["input"]["dtype"])
        return moments.scaler(total, self.settings.scale, origin)

    def input_block(self, s):
        """Rows of one block of input as stored, shape (b, d), which must be those that were scanned.

        Every stage but the scan reads them here, so that none mixes what the archive held then with what it holds now.

        Raises
        ------
        RunMismatchError
        """
        lo, hi = (int(b) for b in self.source_bounds[s : s + 2])
        X = self.source.read(lo, hi)
        if checksum(X) != self.run.info("scan", s)["crc32"]:
            raise RunMismatchError(
                f"input: rows {lo}:{hi} are not those that {self.run.location} was started with; "
                "restore the input, or give another out="
            )
        return X

    def input_rows(self, lo, hi):
        """Rows ``lo:hi`` as stored, from blocks of input that several ranges share; see :meth:`input_block`."""
        bounds = self.source_bounds
        first, last = np.searchsorted(bounds, lo, side="right") - 1, np.searchsorted(bounds, hi, side="left")
        parts = []
        for s in range(int(first), int(last)):
            X = self.block_cache.get(("input", s), partial(self.input_block, s))
            parts.append(X[max(lo - bounds[s], 0) : hi - bounds[s]])
        return np.concatenate(parts)

    def scaled_block(self, s):
        """Scaled rows of one block of input, float32, shape (b, d); see :meth:`input_block`."""
        return self.scaler.apply(self.input_block(s))

    def rows_of(self, stage, block):
        """Name the rows of a block, for messages."""
        if stage in OF_INPUT:
            lo, hi = self.source_bounds[block : block + 2]
            return f"rows {lo} to {hi - 1}"
        if "layout" in self.__dict__ and block < len(self.blocks):
            lo, hi = self.layout.bounds[block : block + 2]
            return f"positions {lo} to {hi - 1} in cell order"
        return "all rows"

    @property
    def partition_settings(self):
        """How rows are cut into cells and groups."""
        return PartitionSettings(self.n, self.settings.seed, group_rows=group_rows(self.n, self.d))

    @property
    def neighbor_settings(self):
        """How a group is searched."""
        return NeighborSettings(self.settings.n_neighbors, self.settings.neighbors, self.settings.seed)

    def array(self, name):
        """What users read of a finished fit, ``labels``, ``posterior`` or ``agreement``: lazy, and checked."""
        n_clusters = (self.run.attribute("summary") or {}).get("n_clusters", self.settings.n_clusters)
        shape = (self.n, n_clusters) if name == "posterior" else (self.n,)
        return self.run.array("output", name, shape, np.int32 if name == "labels" else np.float32)

    def scan(self, s, *names):
        """Arrays of one block of the scan."""
        read = self.run.reader("scan", s)
        return [read(name) for name in names]

    @cached_property
    def sample(self):
        """Scaled rows drawn by hash, float32, shape (m, d)."""
        drawn = [sample for (sample,) in self.run.gather("scan", self.source_blocks, ["sample"])]
        return self.scaler.apply(np.concatenate(drawn))

    @cached_property
    def cells(self):
        """The hierarchy of cells."""
        read = self.run.reader("cells", 0)
        return Cells.from_arrays({name: read(name) for name in self.run.entry("cells", 0)["arrays"]})

    @cached_property
    def layout(self):
        """Where every row goes in cell order."""
        return Layout(np.stack([counts for (counts,) in self.run.gather("route", self.source_blocks, ["counts"])]))

    @property
    def blocks(self):
        """Numbers of the row blocks in cell order."""
        return range(len(self.layout.bounds) - 1)

    @cached_property
    def block_cache(self):
        """Per-row arrays of row blocks that were read lately."""
        return BlockCache()

    def at(self, key, read, positions):
        """Entries of a per-row array at some positions.

        Parameters
        ----------
        key : str
            Of the array.
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

    def cached(self, key, make):
        """What stages derive from the settings or the run: ``make()``, once under each key."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    @cached_property
    def _derived(self):
        return {}

    def forget(self, *names):
        """Give up properties that were read before: they are large, or the run holds something else by now."""
        for name in names:
            self.__dict__.pop(name, None)

    def under(self, settings):
        """The same run as stages see it that have other settings."""
        return Context(self.source, self.run, settings)

    def __getstate__(self):
        """What another process needs; what can be read again stays here."""
        return {"source": self.source, "run": self.run, "settings": self.settings}

    @property
    def position_dtype(self):
        """Integer type that holds a position."""
        return np.dtype(np.int32 if self.n < 2**31 else np.int64)


class BlockCache:
    """Small arrays that are read again and again: the latest ones, up to `limit` bytes; safe among threads."""

    def __init__(self, limit=BLOCK_CACHE_BYTES):
        self.limit, self.size = limit, 0
        self._kept: OrderedDict[tuple, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key, read):
        """Return what was kept under a key, or ``read()``."""
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
    """Positions: rows in the order of their home group, in input order within a group.

    A row block is a group with at least one row at home.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_source_blocks, n_groups)
        Rows of each block of input whose home is each group.
    """

    def __init__(self, counts):
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
    def heights(self):
        """Rows of each row block."""
        return np.diff(self.bounds)


@contextmanager
def _releasing():
    """Leave no memory that was freed to the next verb, whose arrays may not fit into the holes."""
    try:
        yield
    finally:
        release_memory()
