"""Make resources.yaml, what a worker of cluster.yaml asks for, from a plan.

    bigsmic plan s3://bigsmic/spikes.zarr -c 33 --threads 2 --memory-limit 6GiB --json |
        python resources.py > resources.yaml

Threads are those of a worker, as --nthreads in cluster.yaml has them. The plan is that of one worker alone, which more
of them do not exceed.
"""

import json
import math
import sys

SPARE = 1.4  # Dask spills from .7 of the limit on, and counts what the plan does not: its own buffers
GIB = 1 << 30
PATCH = """\
- op: replace
  path: /spec/worker/spec/containers/0/resources
  value:
    requests: {{cpu: "{cpu}", memory: {memory}Gi, ephemeral-storage: {disk}Gi}}
    limits: {{memory: {memory}Gi, ephemeral-storage: {disk}Gi}}
"""


def resources(plan):
    """Processors, memory and disk in GiB of a worker.

    The disk is for what Dask spills, as much as the memory at most, and for the eigensolver's basis where that does
    not stay in memory.
    """
    stages = plan["stages"].values()
    memory = math.ceil(SPARE * plan["peak_bytes"] / GIB)
    basis = 0 if plan["basis_in_memory"] else max(stage["disk_bytes"] for stage in stages)
    return {
        "cpu": max(stage["max_concurrency"] for stage in stages),
        "memory": memory,
        "disk": memory + math.ceil(basis / GIB),
    }


if __name__ == "__main__":
    sys.stdout.write(PATCH.format(**resources(json.load(sys.stdin))))
