"""MWCA on a ring and an ellipse: where starts end, what width and number of rows do; and 100,000 rows, dense.

    python benchmarks/mwca.py [--parts toys sizes large] [--draws 10] [--rows 100000]

The published geometry is not stated. Here: *ring*, half of the rows normal with deviation .6 in the plane, half uniform
in angle and in radius from 2.7 to 3.3 around them; *ellipse*, two thirds of the rows in two normal clusters with
deviation .5 at (-2, 0) and (2, 0), a third on an ellipse with half axes 5 and 2.5, scaled by a factor uniform in .93 to
1.07. Rows are not scaled.

toys   ARI of every start by itself and of the best by association, over draws; k-means, and the eigenvector, beside
sizes  the same ring with more rows: the association prefers dense spots the more the narrower the windows are
large  dense and on the neighbour graph, by ascent and by the eigenvector, in bounded memory; what
       results/mwca_large.json has is not measured again
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
from _harness import known, measure, save, table
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import bigsmic


def ring(n=400, seed=0):
    rng = np.random.default_rng(seed)
    inner = n // 2
    angle, radius = rng.uniform(0, 2 * np.pi, n - inner), rng.uniform(2.7, 3.3, n - inner)
    outer = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return np.concatenate([0.6 * rng.normal(size=(inner, 2)), outer]), np.repeat([0, 1], [inner, n - inner])


def ellipse(n=600, seed=0):
    rng = np.random.default_rng(seed)
    k = n // 3
    angle, factor = rng.uniform(0, 2 * np.pi, n - 2 * k), rng.uniform(0.93, 1.07, n - 2 * k)
    outer = np.column_stack([5 * factor * np.cos(angle), 2.5 * factor * np.sin(angle)])
    inner = [0.5 * rng.normal(size=(k, 2)) + [side, 0] for side in (-2, 2)]
    return np.concatenate([*inner, outer]), np.repeat([0, 1, 2], [k, k, n - 2 * k])


TOYS = {"ring": (ring, 2), "ellipse": (ellipse, 3)}
WIDTHS = ("deviation", "quartile", "likelihood")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in args.parts:
        print(save(f"mwca_{part}", PARTS[part](args), **vars(args)), flush=True)


def fit(X, c, **options):
    return bigsmic.fit(X, c, method="mwca", scale=None, n_threads=1, **options)


def toys(args):
    found = {}
    for name, (draw, c) in TOYS.items():
        for direction in ("natural", "gradient"):
            for sigma in WIDTHS:
                rows = [_starts(*draw(seed=seed), c, direction, sigma, seed) for seed in range(args.draws)]
                key = f"{name}, {direction}, {sigma}"
                found[key] = {field: [row[field] for row in rows] for field in rows[0]}
                table({k: _toy_cells(f) for k, f in found.items()}, list(_toy_cells(found[key])), "ARI mean (sd)")
                print(flush=True)
    return found


def _starts(X, y, c, direction, sigma, seed):
    """ARI of k-means, of the start from it, of random starts, of the best of all, and of the eigenvector."""
    shared = {"direction": direction, "sigma": sigma}
    runs = [fit(X, c, n_starts=1, seed=seed, **shared)]
    every = fit(X, c, n_starts=6, seed=seed, **shared)
    singles = [_random_start(X, c, s, seed, shared) for s in range(1, 6)]
    scores = [adjusted_rand_score(y, labels) for labels in singles]
    row = {
        "k-means": adjusted_rand_score(y, KMeans(c, n_init=10, random_state=0).fit_predict(X)),
        "from k-means": adjusted_rand_score(y, runs[0].labels),
        "random": scores,
        "best of 6": adjusted_rand_score(y, every.labels),
        "sigma": every.sigma,
        "association": every.association.tolist(),
        "n_iter": every.diagnostics["ascent"]["n_iter"],
    }
    if c == 2:
        row["eigenvector"] = adjusted_rand_score(y, fit(X, c, solver="spectral", sigma=sigma).labels)
    return row


def _random_start(X, c, s, seed, shared):
    """Labels from one random start alone: k-means' place is taken by it."""
    from bigsmic.numerics.objectives.mwca.ascent import random_logits
    from bigsmic.stages import mwca as stages

    first = stages._start
    stages._start = lambda context, p, wanted: random_logits(
        seed, s, wanted.layout.rows(context, p)[1], wanted.shape[1]
    )[:, None]
    try:
        return fit(X, c, n_starts=1, seed=seed, **shared).labels
    finally:
        stages._start = first


def _toy_cells(found):
    cells = {k: found[k] for k in ("k-means", "from k-means", "random", "best of 6", "eigenvector") if k in found}
    return {k: f"{np.mean(v):.2f} ({np.std(v):.2f})" for k, v in cells.items()} | {
        "sigma": float(np.mean(found["sigma"]))
    }


def sizes(args):
    found = {}
    for n in (400, 1600, 6400):
        X, y = ring(n)
        for sigma in ("deviation", "likelihood", 0.5):
            result = fit(X, 2, sigma=sigma)
            found[f"ring of {n}, {sigma}"] = {
                "ari": adjusted_rand_score(y, result.labels),
                "eigenvector": adjusted_rand_score(y, fit(X, 2, solver="spectral", sigma=sigma).labels),
                "sigma": result.sigma,
                "association": float(result.association.max()),
                "of the truth": of_labels(X, y, result.sigma),
            }
        table(found, list(next(iter(found.values()))), "gradient, 5 starts")
        print(flush=True)
    return found


def of_labels(X, y, sigma):
    """Association per row of a labeling."""
    from bigsmic.numerics.objectives.mwca.association import association
    from bigsmic.numerics.objectives.mwca.parzen import add_gaussian_product

    X, Z = (X - X.mean(axis=0)).astype(np.float32), np.eye(y.max() + 1, dtype=np.float32)[y]
    images = np.zeros(Z.shape)
    add_gaussian_product(X, X, Z, sigma, images)
    return float(association(Z, images)[1].sum() / len(X))


LARGE = {
    "dense, sigma=.5": {"sigma": 0.5, "n_starts": 2, "max_iter": 30, "tol": 1e-3},
    "graph, t=10": {"kernel": "graph", "n_starts": 3},
    "graph, t=10, eigenvector": {"kernel": "graph", "solver": "spectral"},
    "local scaling, t=10, eigenvector": {"kernel": "local_scaling", "solver": "spectral"},
    "dense, eigenvector, sigma=.5": {"sigma": 0.5, "solver": "spectral"},
}


def large(args):
    import zarr

    folder = Path(tempfile.mkdtemp(prefix="mwca-"))
    X, y = ring(args.rows)
    order = np.random.default_rng(1).permutation(len(X))
    zarr.create_array(folder / "X", data=X[order].astype(np.float32), chunks=(20_000, 2), compressors=None)
    zarr.create_array(folder / "y", data=y[order], compressors=None)
    found = known("mwca_large")
    for name in [name for name in LARGE if name not in found]:
        arguments = {"folder": str(folder), "n_threads": args.threads} | LARGE[name]
        m = found[name] = measure("mwca:fit_archive", arguments, threads=1)
        print(name, m.wall_s, m.cpu_s, m.peak_mb, m.result, m.error, flush=True)
        save("mwca_large", found, rows=args.rows, threads=args.threads, options=LARGE)
    return found


def fit_archive(folder, n_threads, **options):
    import zarr

    folder = Path(folder)
    options |= {"scale": None, "n_threads": n_threads, "memory_limit": "1GiB"}
    result = bigsmic.fit(folder / "X", 2, method="mwca", out=Path(tempfile.mkdtemp(prefix="mwca-")) / "run", **options)
    return {
        "ari": adjusted_rand_score(zarr.open_array(folder / "y", mode="r")[:], result.labels),
        "ascent": result.diagnostics["ascent"],
        "stages": result.diagnostics["stages"],
    }


PARTS = {"toys": toys, "sizes": sizes, "large": large}

if __name__ == "__main__":
    main()
