"""What can go wrong, as a tree.

::

    BigsmicError
    ├── InputError (ValueError)      the data or a parameter cannot be used
    │   ├── NonFiniteError           NaN or infinity among the rows
    │   ├── OptionError (TypeError)  an option that the method does not have
    │   ├── AbsentResultError (AttributeError)  what only results of another method have
    │   └── CollapseError            parameters under which an iteration leads nowhere
    ├── PlanError (MemoryError)      the work does not fit the memory or disk that is allowed
    ├── RunError (RuntimeError)      the run directory cannot be used
    │   ├── RunMismatchError         it belongs to other input or other parameters
    │   ├── RunVersionError          it was written in another format
    │   ├── RunLockedError           another process is writing to it
    │   └── CorruptBlockError        a stored block is missing or is not what was written
    ├── ClusterError (RuntimeError)  the cluster does not answer, or cannot be used
    │   └── LostBlocksError          blocks that kill the workers that run them
    └── StorageError (OSError)       the store refused to read or write (no space, no permission, torn chunk)

Every message says what was being done, what was got, what the limit is, and what to do about it.

Warnings are :class:`BigsmicWarning`; :class:`ConvergenceWarning` is one of them.
"""

from typing import Self


class BigsmicError(Exception):
    """Base of every error that bigsmic raises on purpose."""


class InputError(BigsmicError, ValueError):
    """The data or a parameter cannot be used as given."""


class NonFiniteError(InputError):
    """NaN or infinity among the rows."""


class OptionError(InputError, TypeError):
    """An option that the method does not have."""


class AbsentResultError(InputError, AttributeError):
    """Something that only results of another method have."""


class SingularCovarianceError(InputError):
    """Clusters have no extent in some direction, and no regularisation was given."""


class CollapseError(InputError):
    """Parameters under which an iteration leads nowhere: all rows in one cluster, or an objective that falls."""


class PlanError(BigsmicError, MemoryError):
    """The work does not fit the memory or the disk that is allowed."""


class RunError(BigsmicError, RuntimeError):
    """The run directory, or another place to write to, cannot be used."""


class RunMismatchError(RunError):
    """The run directory belongs to other input or other parameters."""


class RunVersionError(RunError):
    """The run directory was written in a format that this version does not read."""


class RunLockedError(RunError):
    """Another process is writing to the run directory."""


class CorruptBlockError(RunError):
    """A stored block is missing, or is not what was written.

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
    """Workers died, again and again, while they ran the same blocks.

    Parameters
    ----------
    message : str
    stage : str
    blocks : list of int
        One of them is to blame.
    """

    def __init__(self, message: str, stage: str = "", blocks: list[int] | None = None) -> None:
        super().__init__(message)
        self.stage, self.blocks = stage, blocks or []

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, list[int]]]:
        return type(self), (str(self), self.stage, self.blocks)


class StorageError(BigsmicError, OSError):
    """The store refused to read or write."""


class BigsmicWarning(UserWarning):
    """Base of every warning that bigsmic gives."""


class ConvergenceWarning(BigsmicWarning):
    """An iteration ended before its tolerance was met."""
