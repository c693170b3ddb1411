"""A run on top of a base run: blocks that it lacks are read from the base, which is never written."""

from collections.abc import Callable, Iterable
from typing import Any

from bigsmic.store.run import Run
from bigsmic.store.temporary import temporary_run


class Overlay(Run):
    """A run that reads missing blocks from another run, and writes only to itself.

    Parameters
    ----------
    base : Run
        Finished; only read.
    top : Run
    own : sequence of str
        Stages that are never read from the base.
    """

    def __init__(self, base: Any, top: Any, own: Any) -> None:
        self.__dict__.update(top.__dict__)
        self._name = None
        self._base, self._top, self._own = base, top, frozenset(own)

    @classmethod
    def over(cls, base: Any, own: Any) -> "Overlay":
        """Return a run over a finished one, in a new temporary directory that the caller deletes."""
        top = Run(temporary_run())
        top.bind({"over": base.id})
        return cls(base, top, own)

    @property
    def places(self) -> list[str]:
        """Paths and URLs that it reads."""
        return [*self._base.places, *self._top.places]

    def recipe(self) -> Any:
        """Return how a task in another process opens the same two runs."""
        return Overlay, (self._base, self._top, sorted(self._own))

    @property
    def base_id(self) -> str:
        """Identifier of the base run."""
        found: str = self._base.id
        return found

    @property
    def identity(self) -> Any:
        """Identity of the base run."""
        return self._base.identity

    def delete_when_unused(self) -> None:
        """Delete the directory on top; see :meth:`Run.delete_when_unused`."""
        super().delete_when_unused()
        self._top._is_temporary = True

    def _map(self, function: Any, items: Iterable[Any]) -> Any:
        return self._base._map(function, items)

    def _holder(self, stage: str, block: int) -> Any:
        return self._top if stage in self._own or self._top.done(stage, block) else self._base

    def blocks(self) -> list[tuple[str, int]]:
        """Return stage and number of every block of either run that can be read, in order."""
        below = [found for found in self._base.blocks() if found[0] not in self._own]
        return sorted({*below, *super().blocks()})

    def stages(self) -> list[str]:
        """Return the names of the stages of either run that can be read, in order."""
        below = [stage for stage in self._base.stages() if stage not in self._own]
        return sorted({*below, *super().stages()})

    def done(self, stage: str, block: int) -> bool:
        """Whether the ledger of either has the block."""
        return self._holder(stage, block).done(stage, block)

    def is_torn(self, stage: str, block: int) -> bool:
        """Whether there is an entry of the block that cannot be used; see :meth:`Run.is_torn`."""
        found: bool = self._holder(stage, block).is_torn(stage, block)
        return found

    def reader(self, stage: str, block: int) -> Callable[..., Any]:
        """Return a function that reads arrays of a block; see :meth:`Run.reader`."""
        return self._holder(stage, block).reader(stage, block)

    def entry(self, stage: str, block: int) -> dict[str, Any]:
        """Return the ledger entry of a block."""
        return self._holder(stage, block).entry(stage, block)
