"""Tables 1 and 2 of the paper that SMIC was published in, and its toys: ARI and CPU seconds over many draws.

    python benchmarks/tables.py [--draws 20] [--rows digit face ...] [--threads 1]

Every draw takes other rows of a set, standardises them, and gives them to k-means, self-tuning spectral clustering,
mean nearest-neighbour clustering, MIC and SMIC; the last two choose t in 1..10 by MLMI and LSMI, and are timed with
that choice and, at the t that they chose, without it. Published figures stand beside. Word, accelerometry and speech
are not to be had. Draws that results/tables.json has are not made again.
"""

import argparse
import time
import warnings

import numpy as np
from _data import _file as raw
from _harness import known, save
from _ours import ari
from _table_peers import PEERS

import bigsmic
from bigsmic import datasets

OURS = {
    "MIC": {"method": "mic", "preset": "paper"},
    "SMIC": {"preset": "paper"},
    "SMIC, bandwidth 1": {"preset": "paper", "bandwidth": 1.0},
}
COLUMNS = (*PEERS, *OURS)
PUBLISHED = {
    "four blobs": {"MIC": "1", "SMIC": "1"},
    "circle and Gaussian": {"MIC": "1", "SMIC": "1"},
    "double spirals": {"MIC": ".021", "SMIC": "1"},
    "high and low densities": {"MIC": ".173", "SMIC": ".773"},
    "digit": dict(zip(COLUMNS, (".42 (.01)", ".24 (.02)", ".44 (.03)", ".63 (.08)", ".63 (.05)"), strict=False)),
    "digit m=2": dict(zip(COLUMNS, (".52 (.01)", ".21 (.02)", ".43 (.04)", ".60 (.05)", ".63 (.05)"), strict=False)),
    "face": dict(zip(COLUMNS, (".60 (.11)", ".62 (.11)", ".47 (.10)", ".64 (.12)", ".65 (.11)"), strict=False)),
    "document": dict(zip(COLUMNS, (".00 (.00)", ".09 (.02)", ".09 (.02)", ".01 (.02)", ".19 (.03)"), strict=False)),
    "document m=2": dict(zip(COLUMNS, (".01 (.01)", ".10 (.03)", ".10 (.02)", ".01 (.02)", ".19 (.04)"), strict=False)),
    "document m=3": dict(
        zip(COLUMNS, (".01 (.01)", ".10 (.03)", ".09 (.02)", "-.01 (.03)", ".16 (.05)"), strict=False)
    ),
    "document m=4": dict(
        zip(COLUMNS, (".02 (.01)", ".09 (.03)", ".08 (.02)", "-.00 (.04)", ".14 (.05)"), strict=False)
    ),
}
SECONDS = {
    "digit": ("835.9", "973.3", "318.5", "84.4 [3631.7]", "14.4 [359.5]"),
    "face": ("93.3", "2.1", "1.0", "1.4 [30.8]", "0.0 [19.3]"),
    "document": ("77.8", "9.7", "6.4", "3.4 [530.5]", "0.3 [115.3]"),
}
TOP_LEVEL = ("comp", "rec", "sci", "talk", "alt", "misc", "soc")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20, help="100 as published")
    parser.add_argument("--rows", nargs="*", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    found = known("tables")
    for seed in range(args.draws):
        for row in args.rows:
            columns = {name: found.setdefault(row, {}).setdefault(name, _empty()) for name in COLUMNS}
            missing = [name for name, cells in columns.items() if len(cells["ari"]) == seed]
            X, y = draw(row, seed) if missing else (None, None)
            for name in missing:
                _add(columns[name], name, X, y, seed, args.threads)
                save("tables", found, draws=args.draws, threads=args.threads)
        print(f"draw {seed} done", flush=True)
    show(found)


def _empty():
    return {"ari": [], "seconds": [], "alone": []}


def _add(cells, name, X, y, seed, threads):
    c = int(y.max()) + 1
    begun = time.process_time()
    if name in PEERS:
        labels, alone = PEERS[name](X, c, seed), None
    else:
        options = OURS[name] | {"seed": seed, "n_threads": threads, "scale": None}  # the rows are standardised
        result = bigsmic.fit(X, c, **options)
        labels, alone = result.labels, int(result.scores.loc[result.scores["chosen"], "t"].iloc[0])
    cells["seconds"].append(time.process_time() - begun)
    cells["ari"].append(ari(y, labels))
    if alone is not None:
        begun = time.process_time()
        bigsmic.fit(X, c, **options | {"t": (alone,)})
        cells["alone"].append(time.process_time() - begun)


def show(found):
    """The tables, measured over published, and the seconds."""
    for row, columns in found.items():
        print(f"\n{row}, {len(columns[COLUMNS[0]]['ari'])} draws")
        for i, name in enumerate(COLUMNS):
            cells = columns[name]
            alone = f"{np.mean(cells['alone']):.1f} " if cells["alone"] else ""
            seconds = f"{alone}[{np.mean(cells['seconds']):.1f}]" if alone else f"{np.mean(cells['seconds']):.1f}"
            published = PUBLISHED[row].get(name, "-")
            then = SECONDS[row][i] if row in SECONDS and i < len(SECONDS[row]) else "-"
            print(
                f"  {name:24s} ARI {np.mean(cells['ari']):6.3f} ({np.std(cells['ari']):.3f})  published {published:10s}"
                f"  CPU s {seconds:>14s}  2011 {then}"
            )


# -- the rows


def draw(row, seed):
    """Standardised rows of one draw, float32, and their classes."""
    if row in datasets.TOYS:
        X, y = datasets.TOYS[row](seed=seed)
    else:
        name, _, larger = row.partition(" m=")
        X, y = {"digit": _digit, "face": _face, "document": _document}[name](seed, int(larger or 1))
    X = X.astype(np.float64)
    deviation = X.std(axis=0)
    return ((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)).astype(np.float32), y


def _digit(seed, larger):
    z = raw("usps")
    rows = _balanced(z["y"], 5000, larger, np.random.default_rng(seed))
    return z["X"][rows] / 1000, z["y"][rows]


def _face(seed, _):
    z = raw("olivetti_faces")
    people = np.random.default_rng(seed).choice(40, 10, replace=False)
    rows = np.flatnonzero(np.isin(z["y"], people))
    return z["X"][rows], np.searchsorted(np.sort(people), z["y"][rows])


def _document(seed, larger):
    """Seven top-level groups, 700 articles, tf-idf of the 10,000 most frequent words, 50 principal components."""
    from scipy import sparse
    from sklearn.decomposition import PCA

    z = raw("newsgroups20")
    counts = sparse.csr_array((z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=z["shape"])
    tops = [str(name).split(".")[0] for name in z["target_names"]]
    y = np.array([TOP_LEVEL.index(top) for top in tops])[z["y"]]
    kept = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[:10_000])
    containing = np.maximum(np.bincount(counts.indices, minlength=counts.shape[1])[kept], 1)
    rows = _balanced(y, 700, larger, np.random.default_rng(seed))
    weights = counts[rows][:, kept].toarray() * np.log(counts.shape[0] / containing)
    return PCA(50, svd_solver="full").fit_transform(weights), y[rows]


def _balanced(y, total, larger, rng):
    """Rows of classes of one size, the first `larger` times as large."""
    c = int(y.max()) + 1
    size = total // (c - 1 + larger)
    sizes = [total - (c - 1) * size, *[size] * (c - 1)] if larger > 1 else [size] * c
    return np.sort(np.concatenate([rng.choice(np.flatnonzero(y == k), m, replace=False) for k, m in enumerate(sizes)]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
