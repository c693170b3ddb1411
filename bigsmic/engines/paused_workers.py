"""Workers of a Dask cluster that are all paused, as their memory is full."""

import time
from typing import Any

from bigsmic.engines.dask_tasks import _statuses
from bigsmic.errors import ClusterError

PAUSED_SECONDS = 120
"""Seconds after which the fit fails if all workers are out of memory."""


class PausedWorkers:
    """Raises an error if all workers are out of memory, as Dask would wait forever.

    Parameters
    ----------
    client : distributed.Client
    address : str
        Of the scheduler, as messages name it.
    """

    def __init__(self, client: Any, address: str) -> None:
        self.client, self.address = client, address
        self.paused_since: float | None = None

    def look(self) -> None:
        """Check the workers once.

        Raises
        ------
        ClusterError
        """
        if self.client.status != "running":
            return
        statuses = self.client.run_on_scheduler(_statuses)
        if not statuses or {*statuses.values()} != {"paused"}:
            self.paused_since = None
            return
        now = time.monotonic()
        self.paused_since = self.paused_since or now
        if now - self.paused_since >= PAUSED_SECONDS:
            raise ClusterError(
                f"cluster: all {len(statuses)} workers of {self.address} have been paused for {PAUSED_SECONDS} "
                "s: their memory is full and cannot be spilled to their disks, which may be full too; give workers "
                "more memory, or free space in their local_directory; the same call resumes"
            )
