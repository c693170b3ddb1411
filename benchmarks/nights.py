"""What a night costs: CPU seconds per million new rows, after archives of several sizes.

    python benchmarks/nights.py 100000 10000000

Rows of 8 columns from five Gaussian clusters; the fit takes a reservoir of 20,000 rows. Two nights of 20,000 rows each
are labelled: the first one also makes what drift is measured by. Writes results/nights.json.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr

from bigsmic.nightly import nightly

NEW, PIECE, COLUMNS = 20_000, 1_000_000, 8
JOB = 'archive = "X"\nfolder = "nights"\nthreads = 1\n[fit]\nc = 5\n[refit]\nreservoir = 20_000\n'


def append(array, rows, rng):
    """Append rows of five clusters."""
    centers = 8 * np.eye(5, COLUMNS)
    for lo in range(0, rows, PIECE):
        n = min(PIECE, rows - lo)
        array.append((centers[rng.integers(0, 5, n)] + rng.standard_normal((n, COLUMNS))).astype("f4"))


def measure(old):
    """Seconds of CPU of the first night, and of two nights without a fit."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        array = zarr.create_array(f"{folder}/X", shape=(0, COLUMNS), dtype="f4", chunks=(100_000, COLUMNS))
        job = Path(folder, "job.toml")
        job.write_text(JOB)
        seconds = []
        for rows in (old, NEW, NEW):
            append(array, rows, rng)
            start = time.process_time()
            outcome = nightly(job)
            seconds.append(time.process_time() - start)
        assert outcome.steps["label"]["new"] == NEW
    first, with_reference, night = seconds
    per_million = night / NEW * 1e6
    return {"old_rows": old, "fit": first, "with_reference": with_reference, "night": night, "per_million": per_million}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", type=int, help="of the archive that the first night finds")
    found = [measure(old) for old in parser.parse_args().rows]
    path = Path(__file__).parent / "results" / "nights.json"
    path.write_text(json.dumps({"new_rows": NEW, "columns": COLUMNS, "nights": found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))
