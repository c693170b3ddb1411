"""3SMIC beside spectral learning and constrained spectral clustering: ARI against the share of links.

    python benchmarks/semisupervised.py sets [--seeds 20] [--sets parkinsons sonar ...] [--ways random subset]
    python benchmarks/semisupervised.py large

sets   links between random pairs, or all links among a random subset of rows; the share is of all pairs. Every seed
       draws links, and of the digits and faces the rows too. 3SMIC chooses everything itself; the others are given t,
       and constrained spectral clustering solves a dense eigenproblem of all rows, so that it is left out above 1,000.
       Cells that results/semisupervised.json has are not made again.
large  319,209 simulated spikes with 10,000 links beside SMIC without any: seconds and links kept

Figures to stand beside: parkinsons .13 without links, .61, .98, .99 at 1, 3, 6 %; sonar 0 without, .97, 1.0 at 3, 5 %;
faces .70 without, .80 at 2 %.
"""

import argparse
import warnings

import _links_peers
import numpy as np
from _data import _file, as_zarr, labels_of, load
from _harness import Stopwatch, known, save, table
from _ours import ari, fit_rows

import bigsmic

PEER_T = (4, 7, 10)
COLUMNS = ("links", "violated", "seconds", "3SMIC", *(f"{peer} {t}" for peer in ("SL", "CSC") for t in PEER_T))
WAYS = ("random", "subset")
LARGE, LARGE_LINKS = "tetrodes319k", 10_000


def parkinsons(seed):
    return _two_classes("parkinsons")


def sonar(seed):
    return _two_classes("mlbench_sonar")


def spam(seed):
    return _two_classes("spambase")


def digits(seed, per_class):
    X, y, c = load("usps")
    rng = np.random.default_rng(seed)
    rows = np.sort(np.concatenate([rng.choice(np.flatnonzero(y == k), per_class, replace=False) for k in range(c)]))
    return X[rows], y[rows]


def faces(seed):
    X, y, c = load("olivetti")
    rows = np.isin(y, np.random.default_rng(seed).choice(c, 10, replace=False))
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


SETS = {
    "parkinsons": (parkinsons, (0, 0.01, 0.03, 0.06), (0.1, 0.2, 0.39)),
    "sonar": (sonar, (0, 0.01, 0.03, 0.05), (0.05, 0.1, 0.2)),
    "faces": (faces, (0, 0.02, 0.05, 0.1), (0.1, 0.2, 0.4)),
    "digits500": (lambda seed: digits(seed, 50), (0, 0.01, 0.02, 0.04), (0.1, 0.2, 0.4)),
    "digits5k": (lambda seed: digits(seed, 500), (0, 0.0002, 0.0004, 0.0008), (0.01,)),
    "spam": (spam, (0, 0.0004, 0.001, 0.0019), (0.01,)),
}
"""Rows and labels of a seed; shares of random links; shares of all links among a subset."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["sets", "large"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--ways", nargs="+", default=["random", "subset"], choices=["random", "subset"])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if args.part == "sets":
        sets(args)
    else:
        print(save("semisupervised_large", large(args.threads), threads=args.threads))


def sets(args):
    found = known("semisupervised")
    for seed in range(args.seeds):
        for name, way, share in _rows(args):
            cells = found.setdefault(f"{name} {way} {share:g}", {})
            if len(cells.get("3SMIC", [])) == seed:
                for column, value in _cell(name, way, share, seed, args.threads).items():
                    cells.setdefault(column, []).append(value)
                save("semisupervised", found, threads=args.threads)
        print(f"seed {seed} done", flush=True)
    shown = {row: {column: _mean(values) for column, values in cells.items()} for row, cells in found.items()}
    table(shown, COLUMNS, "mean (sd) over seeds")


def _rows(args):
    return [(name, way, share) for name in args.sets for way in args.ways for share in SETS[name][WAYS.index(way) + 1]]


def _cell(name, way, share, seed, threads):
    X, y = SETS[name][0](seed)
    must, cannot = LINKS[way](y, share, seed)
    c = int(y.max()) + 1
    with Stopwatch() as watch:
        score, result = fit_rows(
            X, y, c, method="3smic", must_links=must, cannot_links=cannot, seed=seed, n_threads=threads
        )
    found = {"links": len(must) + len(cannot), "violated": result.n_violated, "seconds": watch.cpu_s, "3SMIC": score}
    Z = _links_peers.standardised(X)
    for t in PEER_T:
        K = _links_peers.kernel(Z, t)
        found[f"SL {t}"] = ari(y, _links_peers.spectral_learning(K, must, cannot, c, seed))
        if len(X) <= _links_peers.DENSE_ROWS:
            found[f"CSC {t}"] = ari(y, _links_peers.constrained_spectral(K, must, cannot, c, seed))
    return found


def random_links(y, share, seed):
    """Must-links and cannot-links of distinct random pairs, a share of all."""
    n, rng = len(y), np.random.default_rng(seed)
    wanted, keys = round(share * n * (n - 1) / 2), np.zeros(0, np.int64)
    while len(keys) < wanted:
        pairs = np.sort(rng.integers(0, n, (2 * wanted, 2)), axis=1)
        pairs = pairs[pairs[:, 0] < pairs[:, 1]]
        keys = np.unique(np.concatenate([keys, pairs[:, 0] * n + pairs[:, 1]]))
    return _sorted_out(y, np.stack(np.divmod(rng.permutation(keys)[:wanted], n), axis=1))


def subset_links(y, share, seed):
    """All links among so many random rows that they are a share of all pairs."""
    n = len(y)
    m = round((1 + np.sqrt(1 + 4 * share * n * (n - 1))) / 2) if share else 0
    rows = np.sort(np.random.default_rng(seed).choice(n, m, replace=False))
    first, second = np.triu_indices(m, 1)
    return _sorted_out(y, np.stack([rows[first], rows[second]], axis=1))


LINKS = {"random": random_links, "subset": subset_links}


def large(threads):
    """Seconds and links kept on many rows; SMIC without links beside it."""
    y = labels_of(LARGE)
    pairs = np.random.default_rng(0).integers(0, len(y), (LARGE_LINKS + 100, 2))
    must, cannot = _sorted_out(y, pairs[pairs[:, 0] != pairs[:, 1]][:LARGE_LINKS])
    found = {}
    for name, options in (("SMIC", {}), ("3SMIC", {"method": "3smic", "must_links": must, "cannot_links": cannot})):
        with Stopwatch() as watch:
            result = bigsmic.fit(as_zarr(LARGE), int(y.max()) + 1, n_threads=threads, **options)
        labels = result.labels
        found[name] = {
            "ari": ari(y, labels),
            "cpu_s": watch.cpu_s,
            "wall_s": watch.wall_s,
            "must_kept": float(np.mean(labels[must[:, 0]] == labels[must[:, 1]])),
            "cannot_kept": float(np.mean(labels[cannot[:, 0]] != labels[cannot[:, 1]])),
            "stages": {stage: round(cost["cpu"], 1) for stage, cost in result.diagnostics["stages"].items()},
            "matvecs": [eigenproblem["n_matvecs"] for eigenproblem in result.diagnostics["eigen"]],
        }
        table({name: found[name]}, ("ari", "cpu_s", "wall_s", "must_kept", "cannot_kept"), LARGE)
    return found


def _two_classes(name):
    z = _file(name)
    return z["X"].astype(np.float32), np.unique(z["y"], return_inverse=True)[1]


def _sorted_out(y, pairs):
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[same], pairs[~same]


def _mean(values):
    return f"{np.mean(values):.3f} ({np.std(values):.3f})"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
