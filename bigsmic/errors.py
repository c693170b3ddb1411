"""Exceptions and warnings of bigsmic.

::

    BigsmicError
    ├── InputError (ValueError)      the data or a parameter cannot be used
    │   ├── NonFiniteError           NaN or infinity among the rows
    │   ├── OptionError (TypeError)  an option that the method, or the function, lacks
    │   ├── AbsentResultError (AttributeError)  what only fits by other methods, or with other options, have
    │   ├── SingularCovarianceError  clusters without extent in some direction
    │   └── CollapseError            an iteration does not reach a usable result
    ├── PlanError (MemoryError)      the work does not fit the allowed memory or disk
    ├── RunError (RuntimeError)      the run directory cannot be used
    │   ├── RunMismatchError         it belongs to other input or other parameters
    │   ├── RunVersionError          it was written in another format
    │   ├── RunLockedError           another process is writing to it
    │   └── CorruptBlockError        a stored block is missing, or differs from what was written
    ├── ClusterError (RuntimeError)  the cluster does not answer, or its workers cannot be used
    │   └── LostBlocksError          blocks that kill their workers
    └── StorageError (OSError)       a read or write failed (no space, no permission, torn chunk)

Every message names the action, the value received, the limit, and the remedy.

Warnings are :class:`BigsmicWarning`; :class:`ConvergenceWarning` is one of them.
"""

from typing import Self


class BigsmicError(Exception):
    """Base class of the errors that bigsmic raises deliberately."""


class InputError(BigsmicError, ValueError):
    """The data or a parameter cannot be used as given."""


class NonFiniteError(InputError):
    """NaN or infinity among the rows."""


class OptionError(InputError, TypeError):
    """An option that the method, or the function that was called, lacks."""


class AbsentResultError(InputError, AttributeError):
    """An attribute of a Result that only fits by another method, with other options or of other rows have."""


class SingularCovarianceError(InputError):
    """Clusters have no extent in some direction, and no regularisation was given."""


class CollapseError(InputError):
    """An iteration does not reach a usable result: all rows are in one cluster, or the objective falls."""


class PlanError(BigsmicError, MemoryError):
    """The work does not fit the allowed memory or disk."""


class RunError(BigsmicError, RuntimeError):
    """The run directory, or another location to write to, cannot be used."""


class RunMismatchError(RunError):
    """The run directory belongs to other input or other parameters."""


class RunVersionError(RunError):
    """The run directory was written in a format that this version does not read."""


class RunLockedError(RunError):
    """Another process is writing to the run directory."""


class CorruptBlockError(RunError):
    """A stored block is missing, or differs from what was written.

    Parameters
    ----------
    message : str
    stage : str
        Stage of the block.
    block : int
        Number of the block.
    """

    def __init__(self, message: str, stage: str = "", block: int = -1) -> None:
        super().__init__(message)
        self.stage, self.block = stage, block

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, int]]:
        return type(self), (str(self), self.stage, self.block)


class ClusterError(BigsmicError, RuntimeError):
    """The cluster does not answer, or its workers cannot be used."""


class LostBlocksError(ClusterError):
    """Workers died repeatedly while they ran the same blocks.

    Parameters
    ----------
    message : str
    stage : str
    blocks : list of int
        At least one of them causes the deaths.
    """

    def __init__(self, message: str, stage: str = "", blocks: list[int] | None = None) -> None:
        super().__init__(message)
        self.stage, self.blocks = stage, blocks or []

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, list[int]]]:
        return type(self), (str(self), self.stage, self.blocks)


class StorageError(BigsmicError, OSError):
    """A read or write failed."""


FITS_GO_ON = "a fit with out= goes on from its finished blocks"
"""What a StorageError says that may be of a fit, or of predictions, an export or a save, which begin anew."""


class BigsmicWarning(UserWarning):
    """Base class of bigsmic's warnings."""


class ConvergenceWarning(BigsmicWarning):
    """An iteration ended before it met its tolerance."""
