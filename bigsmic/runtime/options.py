"""Options of how and where a fit runs, which do not change its labels."""

import os
from dataclasses import dataclass

from bigsmic.engines.base import Engine
from bigsmic.runtime.progress import check_progress
from bigsmic.store import as_location
from bigsmic.types import Client, MemoryLimit, Progress, StorageOptions, StrPath
from bigsmic.validation import check_storage_options


@dataclass(frozen=True)
class RunOptions:
    """Options of how and where a fit runs, which do not change its labels.

    Parameters
    ----------
    out : str or Path, optional
        Run directory; a temporary one by default, deleted with the Result.
    storage_options : dict, optional
        For file systems behind URLs; never written anywhere.
    memory_limit : int or str, optional
        Memory that the process may use, interpreter included, such as ``"1GiB"``.
    n_threads : int, optional
        Concurrent tasks; by default as many as processors that the process may use.
    progress : bool or callable, optional
        On stderr, or ``progress(stage, done, total)``.
    client : distributed.Client, optional
        A Dask cluster.
    scheduler : str, optional
        Address of a cluster's scheduler.
    engine : bigsmic.engines.base.Engine, optional
        Runs the tasks instead of a cluster or threads.
    performance_report : str or Path, optional
        HTML file for Dask's report of the run.
    """

    out: StrPath | None = None
    storage_options: StorageOptions = None
    memory_limit: MemoryLimit = None
    n_threads: int | None = None
    progress: Progress = None
    client: Client = None
    scheduler: str | None = None
    engine: Engine | None = None
    performance_report: StrPath | None = None

    def __post_init__(self) -> None:
        check_storage_options(self.storage_options)
        check_progress(self.progress)
        if self.out is not None:
            as_location(self.out)

    @property
    def threads(self) -> int:
        """Number of concurrent tasks."""
        if self.n_threads is not None:
            return self.n_threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
