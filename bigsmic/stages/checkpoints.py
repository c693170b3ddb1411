"""Checkpoints: states of a long computation, from which it is resumed after an interruption."""

import math
import os
import time
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.runtime.job import Job

INTERVAL = "BIGSMIC_CHECKPOINT_SECONDS"
SECONDS = 60.0


class Checkpoints:
    """Checkpoints of one computation in two generations, so that one is complete while the other is written.

    A generation is a stage with a block for every row block, and one more for the state itself, which is written last.

    Parameters
    ----------
    job : Job
    name : str
        Name of the computation.
    last : int
        Number of the block of the state.
    """

    def __init__(self, job: Job, name: str, last: int) -> None:
        self.run, self.last = job.run, last
        self.names = [f"restart.{name}.{generation}" for generation in (0, 1)]
        self.seconds = interval() if job.plan.checkpoints else math.inf
        self._number, self._since = 0, time.monotonic()

    @property
    def due(self) -> bool:
        """Whether the interval has passed since the last checkpoint, or since the start."""
        return time.monotonic() - self._since >= self.seconds

    def write(
        self, save: Callable[[str], object], arrays: dict[str, NDArray[Any]], info: dict[str, Any] | None = None
    ) -> None:
        """Write a checkpoint in place of the older generation.

        Parameters
        ----------
        save : callable
            ``save(stage)`` writes the row blocks.
        arrays, info : dict
            The state, as for :meth:`bigsmic.store.Run.write`.
        """
        name = self.names[self._number % 2]
        self.run.forget(name, self.last)
        save(name)
        self.run.write(name, self.last, arrays, info={"number": self._number} | (info or {}))
        self._number, self._since = self._number + 1, time.monotonic()

    def restore(self, read: Callable[[str], Any]) -> Any:
        """Return ``read(stage)`` for the newest complete generation; None if there is none.

        Parameters
        ----------
        read : callable
            Returns None if the generation is damaged, which is then ignored.
        """
        if math.isinf(self.seconds):
            return None
        numbers = {name: self.run.info(name, self.last)["number"] for name in self.names if self._has(name)}
        for name in sorted(numbers, key=lambda name: -numbers[name]):
            self._number = numbers[name] + 1
            state = read(name)
            if state is not None:
                return state
            self.run.forget(name, self.last)
        return None

    def drop(self) -> None:
        """Delete both generations."""
        for name in self.names:
            self.run.drop(name, range(self.last + 1))

    def _has(self, name: str) -> bool:
        return self.run.done(name, self.last) and "number" in self.run.info(name, self.last)


def interval() -> float:
    """Seconds between two checkpoints: a minute, or the value of the environment variable.

    Raises
    ------
    InputError
        The value is not a number of seconds.
    """
    given = os.environ.get(INTERVAL, SECONDS)
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"checkpoints: {INTERVAL}={given!r}; use a number of seconds, such as 60, or 0 for all")
    return seconds
