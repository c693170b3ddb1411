"""Run a bigsmic command whose workers are SLURM jobs.

    python driver.py fit /shared/spikes.zarr -c 33 --out /shared/run.zarr

Dask's scheduler lives in this process and goes with it. The worker jobs are as jobqueue.yaml says, BIGSMIC_JOBS of them
(4); those that reach the end of their lifetime, or are preempted, are replaced. After BIGSMIC_WAIT seconds (600) the
command begins with the workers that there are, and otherwise waits for the first. All traffic is encrypted with keys
made for this run: without them, every user of the cluster could have the workers run code.
"""

import os
import signal
import sys
from contextlib import suppress

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

from bigsmic.cli.main import app


def interrupt(signum, frame):
    """Unwind as for Ctrl-C, so that the worker jobs are cancelled; SLURM and the batch script may both ask for it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    """Run the command line; its exit code becomes ours."""
    signal.signal(signal.SIGTERM, interrupt)
    jobs, patience = int(os.environ.get("BIGSMIC_JOBS", "4")), float(os.environ.get("BIGSMIC_WAIT", "600"))
    with SLURMCluster(security=True) as cluster:
        cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)  # as many at any time, others where some are gone
        with Client(cluster) as client:
            with suppress(TimeoutError):
                client.wait_for_workers(jobs, timeout=patience)
            client.wait_for_workers(1)
            app(sys.argv[1:], prog_name="bigsmic")


if __name__ == "__main__":
    main()
