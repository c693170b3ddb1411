"""Rows past memory: a mixture of 20 clusters in 64 dimensions at 5e4, 5e5 and 5e6 rows, within 1 GiB.

python benchmarks/past_memory.py [--threads 2] [--memory-limit 1GiB] [--sets mixture50k mixture500k mixture5m]
"""

import argparse

from _data import as_zarr
from _harness import measure, save, table

SIZES = {"mixture50k": 50_000, "mixture500k": 500_000, "mixture5m": 5_000_000}
STAGES = ("scan", "route", "neighbors", "graph", "eigen", "assign", "select", "output")
OPTIONS = {"normalization": "symmetric", "assignment": "rotation", "t": [5, 10], "scale": None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SIZES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-limit", default="1GiB")
    args = parser.parse_args()
    found, rows = {}, {}
    for name in args.sets:
        as_zarr(name)
        call = {"name": name, "n_threads": args.threads, "memory_limit": args.memory_limit, **OPTIONS}
        found[name] = m = measure("_ours:fit", call, threads=1)
        if m.error:
            print(m.error)
            continue
        rows[name] = {
            "ari": m.result["ari"],
            "cpu_s": m.cpu_s,
            "us/row": 1e6 * m.cpu_s / SIZES[name],
            "wall_s": m.wall_s,
            "peak_mb": m.peak_mb,
            "recall": m.result["recall"],
        } | {stage: m.result["stages"][stage]["cpu"] for stage in STAGES}
        table(rows, ("ari", "cpu_s", "us/row", "wall_s", "peak_mb", "recall", *STAGES), "CPU s by stage")
        print(flush=True)
        save("past_memory", found, **vars(args))


if __name__ == "__main__":
    main()
