"""Rows that only this process can read, copied into the run for tasks in other processes."""

import itertools
from typing import Any

import numpy as np

from bigsmic.store.sources.base import Source
from bigsmic.store.sources.sparse import SparseSource


class StagedSource(Source):
    """Rows that were copied into a run, for tasks in other processes; see :func:`stage_input`.

    Parameters
    ----------
    run : Run
    bounds : array_like of int, shape (blocks + 1,)
    facts : dict
        ``shape``, ``dtype``, ``name`` and, of a sparse matrix, ``largest``.
    """

    STAGE = "input"
    travels = True

    def __init__(self, run: Any, bounds: Any, facts: Any) -> None:
        self._run, self._bounds, self._facts = run, np.asarray(bounds, np.int64), facts
        self.name, self.largest = facts["name"], facts.get("largest")

    @property
    def shape(self) -> Any:
        """(n, d)."""
        return tuple(self._facts["shape"])

    @property
    def dtype(self) -> Any:
        """Dtype of the rows."""
        return np.dtype(self._facts["dtype"])

    def read(self, lo: int, hi: int) -> Any:
        """Return rows ``lo:hi``; cheapest if they are a block of `bounds`."""
        first = int(np.searchsorted(self._bounds, lo, side="right")) - 1
        last = int(np.searchsorted(self._bounds, hi, side="left"))
        pieces = []
        for block in range(first, last):
            start = self._bounds[block]
            pieces.append(self._block(block)[max(lo - start, 0) : hi - start])
        return pieces[0] if len(pieces) == 1 else _joined(pieces)

    def _block(self, block: int) -> Any:
        read = self._run.reader(self.STAGE, block)
        if self.largest is None:
            return read("X")
        from scipy.sparse import csr_array

        indptr = read("indptr")
        shape = (len(indptr) - 1, self.shape[1])
        return csr_array((read("data"), read("indices"), indptr), shape=shape)

    def drop(self) -> None:
        """Delete the copy."""
        self._run.drop(self.STAGE, range(len(self._bounds) - 1))


def stage_input(source: Any, run: Any, bounds: Any) -> Any:
    """Copy rows that only this process can read into the run directory, where tasks read them.

    Parameters
    ----------
    source : Source
    run : Run
        Open for writing. The copy is the run's stage ``input``, which is deleted with the other temporary stages.
    bounds : array_like of int, shape (blocks + 1,)
        Row ranges that tasks will ask for; each is written as one block.

    Returns
    -------
    staged : StagedSource

    Raises
    ------
    StorageError
    """
    for block, (lo, hi) in enumerate(itertools.pairwise(int(b) for b in bounds)):
        rows = source.read(lo, hi)
        if isinstance(source, SparseSource):
            arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        else:
            arrays = {"X": rows}
        run.write_changed(StagedSource.STAGE, block, arrays)
    facts = {"shape": source.shape, "dtype": source.dtype.str, "name": source.name}
    if isinstance(source, SparseSource):
        facts["largest"] = source.largest
    return StagedSource(run, bounds, facts)


def _joined(pieces: Any) -> Any:
    if isinstance(pieces[0], np.ndarray):
        return np.concatenate(pieces)
    from scipy.sparse import vstack

    return vstack(pieces, format="csr")
