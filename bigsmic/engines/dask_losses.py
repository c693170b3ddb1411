"""How often workers that hold actors may be lost."""

from bigsmic.engines.dask_tasks import DEATHS
from bigsmic.errors import ClusterError

RETIREMENTS = 20
"""How often workers may be retired, at the end of their lifetime or because a cluster shrinks, without progress of
their actors."""


class Losses:
    """Counter of successive losses of a group without progress.

    Parameters
    ----------
    name : str
        Name of the group's work.
    """

    def __init__(self, name: str) -> None:
        self.name, self.deaths, self.retirements = name, 0, 0

    def count(self, error: Exception, progress: bool, on_purpose: bool) -> None:
        """Count one more loss.

        Parameters
        ----------
        error : LostWorkerError
        progress : bool
            Whether the group had saved something.
        on_purpose : bool
            Whether the workers that left were retired.

        Raises
        ------
        ClusterError
            There were too many losses.
        """
        if progress:
            self.deaths = self.retirements = 0
        self.deaths += not on_purpose
        self.retirements += on_purpose
        if self.deaths >= DEATHS:
            raise ClusterError(
                f"{self.name}: workers were lost {self.deaths} times without progress; {error}. Give workers more "
                "memory, or check their logs; the same call resumes from the last checkpoint"
            ) from error
        if self.retirements >= RETIREMENTS:
            raise ClusterError(
                f"{self.name}: workers have left {self.retirements} times before the next checkpoint; {error}. Give "
                "them a longer lifetime, or keep more workers in the cluster; the same call resumes from the last "
                "checkpoint"
            ) from error
