"""Checkpoints of eigensolves at restarts, and the states in which solves for more eigenvectors go on.

Columns that a solve has locked are written once, at their first restart, and only referred to by later checkpoints.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import CorruptBlockError
from bigsmic.numerics.eigen.block_vectors import GroupSpace
from bigsmic.numerics.eigen.chebyshev import Filter
from bigsmic.numerics.eigen.lanczos_state import LanczosState
from bigsmic.numerics.row_blocks import Group
from bigsmic.runtime.job import Job
from bigsmic.stages.checkpoints import Checkpoints
from bigsmic.stages.labeling_specs import Eigenproblem

STATE_ARRAYS = ("images", "norms", "locked_values", "locked_norms")


class Restarts:
    """Checkpoints of one eigensolve.

    Parameters
    ----------
    job : Job
    eigenproblem : Eigenproblem
    n_wanted : int
        Eigenvectors; those of a solve for another number do not count.
    """

    def __init__(self, job: Job, eigenproblem: Eigenproblem, n_wanted: int) -> None:
        self.run, self.eigenproblem, self.n_wanted = job.run, eigenproblem, n_wanted
        self.checkpoints = Checkpoints(job, eigenproblem.name, len(job.context.blocks))
        self.n_turns, self.cuts = 0, [0]

    def save(self, space: GroupSpace, state: LanczosState) -> None:
        """Write a state, and the columns of the basis that are not written yet."""
        if state.n_turns != self.n_turns:
            self.n_turns, self.cuts = state.n_turns, [0]
        arrays, fields = to_stored(state)
        cuts = self.cuts if self.cuts[-1] == state.n_locked else [*self.cuts, state.n_locked]
        new = [("save", self._locked(lo), lo, hi) for lo, hi in pairwise(cuts[len(self.cuts) - 1 :])]
        self.checkpoints.write(
            lambda name: space.finish(*new, ("save", name, state.n_locked, n_columns(state))),
            arrays,
            fields | {"cuts": cuts, "n_wanted": self.n_wanted},
        )
        self.cuts = cuts

    def restore(self, group: Group) -> LanczosState | None:
        """Restore the basis of the newest complete checkpoint, and return its state; None if there is none."""
        state = self.checkpoints.restore(lambda name: self._read(group, name))
        if state is None:
            self.n_turns, self.cuts = 0, [0]
        return state

    def drop(self) -> None:
        """Delete all checkpoints."""
        self.checkpoints.drop()
        for start in self.cuts[:-1]:
            self.run.drop(self._locked(start), range(self.checkpoints.last))

    def _read(self, group: Group, name: str) -> LanczosState | None:
        if self.run.info(name, self.checkpoints.last)["n_wanted"] != self.n_wanted:
            return None
        try:
            state, cuts = self._read_state(name)
        except CorruptBlockError:
            return None
        self.n_turns, self.cuts = state.n_turns, cuts
        parts = [*((self._locked(start), start) for start in cuts[:-1]), (name, state.n_locked)]
        return state if all(group.call(("restore", parts, n_columns(state), state.width))) else None

    def _read_state(self, name: str) -> tuple[LanczosState, list[int]]:
        fields = dict(self.run.info(name, self.checkpoints.last))
        cuts, _, _ = fields.pop("cuts"), fields.pop("number"), fields.pop("n_wanted")
        return from_stored(self.run.reader(name, self.checkpoints.last), fields), cuts

    def _locked(self, start: int) -> str:
        return f"restart.{self.eigenproblem.name}.{self.n_turns}.{start}.locked"


def n_columns(state: LanczosState) -> int:
    """Columns of the basis that belong to a state."""
    return state.n_locked + len(state.images) + state.width


def to_stored(state: LanczosState) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and other fields of a state, as a run stores them."""
    fields = asdict(state)
    arrays = {key: fields.pop(key) for key in STATE_ARRAYS}
    return arrays, plain(fields)


def from_stored(read: Callable[[str], Any], fields: Mapping[str, Any]) -> LanczosState:
    """The state that :func:`to_stored` gave, from a function that reads an array by its name."""
    arrays = {key: read(key) for key in STATE_ARRAYS}
    return LanczosState(**{**fields, **arrays, "filter": Filter(**fields["filter"])})


def plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert NumPy numbers to Python numbers for JSON."""
    found = {key: value.item() if isinstance(value, np.generic) else value for key, value in fields.items()}
    return {key: plain(value) if isinstance(value, dict) else value for key, value in found.items()}
