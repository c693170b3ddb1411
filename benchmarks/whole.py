"""The whole fit on large sets, on disk, beside what one would use instead: CPU, wall, peak memory, ARI.

    python benchmarks/whole.py [--sets tetrodes319k mearec] [--threads 2] [--memory-limit 1GiB] [--peers ...]

bigsmic and dask-ml read the archive; the other peers hold the rows, as they must. Each run is a process of its own.
"""

import argparse

from _data import as_zarr
from _harness import measure, save, table

OURS = {
    "bigsmic": {},
    "bigsmic, 16 candidates by LSMI": {"rotation": "auto"},
    "bigsmic, all rows for LSMI": {"rotation": "auto", "lsmi_rows": None},
}
PEERS = ("mini_batch_k_means", "spectral_approximate", "spectral", "umap_hdbscan", "leiden")
OUT_OF_CORE = ("dask_ml_k_means", "dask_ml_spectral")
COLUMNS = ("ari", "cpu_s", "wall_s", "peak_mb", "error")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["tetrodes319k", "mearec"])
    parser.add_argument("--ours", nargs="*", default=list(OURS))
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument("--out-of-core", nargs="*", default=list(OUT_OF_CORE))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-limit", default="1GiB")
    parser.add_argument("--timeout", type=float, default=3600)
    parser.add_argument("--save", default="whole")
    args = parser.parse_args()
    found = {}
    for name in args.sets:
        as_zarr(name)
        for label in args.ours:
            options = {"name": name, "n_threads": args.threads, "memory_limit": args.memory_limit, "scale": None}
            call = ("_ours:fit", options | OURS[label])
            run(found, f"{name}: {label}", call, args)
        for which in args.out_of_core:
            call = ("_dask_ml:fit", {"name": name, "which": which, "n_threads": args.threads})
            run(found, f"{name}: {which}", call, args)
        for peer in args.peers:
            run(found, f"{name}: {peer}", ("_ours:peer", {"name": name, "which": peer}), args)


def run(found, label, call, args):
    m = measure(*call, threads=args.threads if "peer" in call[0] else 1, timeout=args.timeout)
    found[label] = m
    rows = {
        key: {
            "ari": m.result.get("ari"),
            "cpu_s": m.cpu_s,
            "wall_s": m.wall_s,
            "peak_mb": m.peak_mb,
            "error": m.error and m.error.strip().splitlines()[-1][:60],
        }
        for key, m in found.items()
    }
    table(rows, COLUMNS, "set: method")
    print(flush=True)
    save(args.save, found, **vars(args))


if __name__ == "__main__":
    main()
