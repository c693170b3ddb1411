"""Workers of a Dask cluster that are paused, as their memory is full."""

import time
from collections.abc import Sequence
from typing import Any

from bigsmic.engines.dask_tasks import move_from_paused, worker_statuses
from bigsmic.engines.memory import release_memory
from bigsmic.errors import ClusterError

PAUSED_SECONDS = 120
"""Seconds after which the fit fails if all workers are out of memory."""


class PausedWorkers:
    """Sees to it that a fit does not wait forever for workers that are out of memory, as Dask would.

    A paused worker goes on with the tasks that it has begun, and keeps the others until it has less memory. It may just
    have kept what its tasks have freed, which it is made to return. Tasks that it has not begun are given to workers
    that run.

    Parameters
    ----------
    client : distributed.Client
    address : str
        Of the scheduler, as messages name it.
    """

    def __init__(self, client: Any, address: str) -> None:
        self.client, self.address = client, address
        self.paused_since: float | None = None

    def look(self, keys: Sequence[Any]) -> None:
        """Check the workers once.

        Parameters
        ----------
        keys : sequence
            Of the tasks that are waited for.

        Raises
        ------
        ClusterError
            All workers are, and have been, out of memory.
        """
        if self.client.status != "running":
            return
        statuses = self.client.run_on_scheduler(worker_statuses)
        paused = [worker for worker, status in statuses.items() if status == "paused"]
        if paused:
            self.client.run(release_memory, 0, workers=paused, on_error="ignore")
            self.client.run_on_scheduler(move_from_paused, list(keys))
        if len(paused) < max(1, len(statuses)):
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
