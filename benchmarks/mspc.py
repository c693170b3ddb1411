"""MSPC beside its published figures: errors over reg, seconds, the score against accuracy; and past memory.

    python benchmarks/mspc.py [--parts errors seconds pairs clusters streamed] [--rows 10000000]

errors    error in % of the three solvers for every reg, beside the published ones, which take the best reg by the true
          labels; beside them reg=1, and reg="auto", which do not look at them
seconds   one fit from given k-means labels, beside LDA-KM and an iterated LinearSVC
pairs     accuracy of MPM and its separation probability on all pairs of digits and of satellite classes, reg .1, 1, 10
clusters  recursive splitting above two clusters beside k-means: by worth, by score alone, by size alone
streamed  rows x 20 on disk, two clusters and four
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from _harness import measure, save, table
from _two_classes import PUBLISHED, PUBLISHED_SECONDS, load, pairs

from bigsmic import mspc
from bigsmic.methods.mspc import GRID, JUDGE, two_means

PAIR_REGS = (0.1, 1.0, 10.0)
REGS = tuple(10.0**k for k in range(-4, 5))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    for part in args.parts:
        for found in PARTS[part](args):
            path = save(f"mspc_{part}", found, **vars(args))
        print(path, flush=True)


def error(is_in, y):
    """Error in %, of the better of the two ways to name the sides."""
    share = float((is_in != y).mean())
    return 100 * min(share, 1 - share)


def fit(X, start, regs, **options):
    """A split for each reg, and which rows are inside."""
    rows = mspc.Rows(X)
    settings = [mspc.SplitSettings(reg=reg, **options) for reg in regs]
    splits = mspc.solve([mspc.split((), start, s) for s in settings], rows)
    return splits, [split.halfspace.contains(rows.X) for split in splits]


def errors(args):
    found = {}
    for name, published in PUBLISHED.items():
        X, y = load(name)
        start = two_means(X, 0, ())
        found[name] = {"shape": X.shape, "k-means": error(start.contains(X), y), "published": published}
        for solver in mspc.SOLVERS:
            splits, sides = fit(X, start, REGS, solver=solver)
            over = [error(side, y) for side in sides]
            autos, auto_sides = fit(X, start, GRID, solver=solver, judge=JUDGE)
            auto = int(np.argmax([split.score for split in autos]))
            found[name][solver] = {
                "error_over_reg": over,
                "msp_over_reg": [split.msp for split in splits],
                "iterations": [split.n_iter for split in splits],
                "best": min(over),
                "reg=1": over[REGS.index(1)],
                "auto": error(auto_sides[auto], y),
                "auto_reg": GRID[auto],
                "largest_msp": over[int(np.argmax([split.msp for split in splits]))],
            }
        show = {n: _error_cells(f) for n, f in found.items()}
        table(show, list(next(iter(show.values()))), "error in %")
        print(flush=True)
        yield found


def _error_cells(found):
    cells = {"km": f"{found['k-means']:.2f} ({found['published'][0]:.2f})"}
    for solver, published in zip(mspc.SOLVERS, found["published"][1:], strict=True):
        f = found[solver]
        cells[f"{solver} best (publ.)"] = f"{f['best']:.2f} ({published:.2f})"
        cells[f"{solver} 1/auto"] = f"{f['reg=1']:.2f}/{f['auto']:.2f}"
    return cells


def seconds(args):
    found = {}
    for name, published in PUBLISHED_SECONDS.items():
        X, y = load(name)
        begun = time.process_time()
        start = two_means(X, 0, ())
        found[name] = {"k-means start": {"cpu_s": time.process_time() - begun}}
        for way in WAYS:
            begun = time.process_time()
            sides = WAYS[way](X, start)
            found[name][way] = {"cpu_s": time.process_time() - begun, "error": error(sides, y)}
        found[name]["published_seconds"] = dict(zip(("lda-km", *mspc.SOLVERS), published, strict=True))
        show = {
            n: {way: f"{f[way]['cpu_s']:.2f} s, {f[way].get('error', np.nan):.1f} %" for way in f if "pub" not in way}
            for n, f in found.items()
        }
        table(show, list(next(iter(show.values()))), "from the same k-means labels")
        print(flush=True)
        yield found


def lda_km(X, is_in, reg=1.0, max_iter=100):
    """Linear discriminant direction, k-means along it, and again, until no label changes."""
    S = np.cov(X.T, bias=True)
    S += reg * np.diag(np.diag(S))
    for _ in range(max_iter):
        t = X @ np.linalg.solve(S, X[is_in].mean(axis=0) - X[~is_in].mean(axis=0))
        found = is_in
        while True:
            border = (t[found].mean() + t[~found].mean()) / 2
            if ((t > border) == found).all():
                break
            found = t > border
        if (found == is_in).all():
            break
        is_in = found
    return is_in


def linear_svc(X, is_in, max_iter=20):
    """A linear support vector classifier on its own labels, until none changes."""
    from sklearn.svm import LinearSVC

    for _ in range(max_iter):
        found = LinearSVC(dual="auto", random_state=0, max_iter=10_000).fit(X, is_in).predict(X)
        if (found == is_in).all() or found.all() or not found.any():
            break
        is_in = found
    return is_in


WAYS = {
    "mpm": lambda X, start: fit(X, start, (1.0,), solver="mpm")[1][0],
    "gep": lambda X, start: fit(X, start, (1.0,), solver="gep")[1][0],
    "eig": lambda X, start: fit(X, start, (1.0,), solver="eig")[1][0],
    "lda-km": lambda X, start: lda_km(X, start.contains(X)),
    "linear-svc": lambda X, start: linear_svc(X, start.contains(X)),
}


def score_against_accuracy(args):
    found = {}
    for name in ("usps", "mlbench_satellite"):
        rows = {pair: _pair(X, y) for pair, X, y in pairs(name)}
        figures = {key: np.array([row[key] for row in rows.values()]) for key in next(iter(rows.values()))}
        found[name] = {
            "pairs": rows,
            "correlation, reg=1": float(np.corrcoef(figures["accuracy at 1"], figures["msp at 1"])[0, 1]),
            "correlation, best reg": float(np.corrcoef(figures["best accuracy"], figures["its msp"])[0, 1]),
            "correlation, best reg, msp at .1": float(
                np.corrcoef(figures["best accuracy"], figures["its msp at .1"])[0, 1]
            ),
            "published": {"usps": 0.81, "mlbench_satellite": 0.86}[name],
            "mean accuracy, k-means": float(figures["k-means"].mean()),
            "mean accuracy, reg=1": float(figures["accuracy at 1"].mean()),
            "mean accuracy, best reg": float(figures["best accuracy"].mean()),
            "mean accuracy, auto": float(figures["auto"].mean()),
        }
        print(name, {key: value for key, value in found[name].items() if key != "pairs"}, flush=True)
        yield found


def _pair(X, y):
    start = two_means(X, 0, ())
    splits, sides = fit(X, start, PAIR_REGS, judge=JUDGE)
    over = [100 - error(side, y) for side in sides]
    best, one = int(np.argmax(over)), PAIR_REGS.index(1)
    return {
        "k-means": 100 - error(start.contains(X), y),
        "accuracy at 1": over[one],
        "msp at 1": splits[one].msp,
        "best accuracy": over[best],
        "best reg": PAIR_REGS[best],
        "its msp": splits[best].msp,
        "its msp at .1": splits[best].score,
        "auto": over[int(np.argmax([split.score for split in splits]))],
    }


def clusters(args):
    from _data import load as load_set
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits, load_iris, load_wine
    from sklearn.metrics import adjusted_rand_score

    small = {"digits": load_digits, "iris": load_iris, "wine": load_wine}
    found = {}
    for name in ("iris", "wine", "digits", "satellite", "usps"):
        X, y = small[name](return_X_y=True) if name in small else load_set(name)[:2]
        X, c = np.asarray(X, np.float64), len(np.unique(y))
        X = X[:, X.std(axis=0) > 0]
        X = (X - X.mean(axis=0)) / (X.std(axis=0) if name in ("iris", "wine") else 1)
        found[name] = {"k-means": adjusted_rand_score(y, KMeans(c, n_init=10, random_state=0).fit_predict(X))}
        for way, worth in WORTHS.items():
            found[name][way] = adjusted_rand_score(y, _grown(X, c, worth))
        table(found, ("k-means", *WORTHS), "ARI")
        print(flush=True)
        yield found


WORTHS = {
    "rows x score": lambda split: split.score * split.counts.sum(),
    "score": lambda split: split.score,
    "rows": lambda split: split.counts.sum(),
}


def _grown(X, c, worth):
    """Labels of a tree that splits what a rule says is worth most."""
    settings, rule = [mspc.SplitSettings()], mspc.Split.worth
    mspc.Split.worth = property(worth)
    try:
        tree, _ = mspc.grow(c, lambda node: two_means(X, 0, node), settings, mspc.Rows(X))
    finally:
        mspc.Split.worth = rule
    return tree.read(X)[1]


def streamed(args):
    folder = Path(os.environ.get("BIGSMIC_BENCH_CACHE") or tempfile.gettempdir())
    archive = folder / f"mspc-{args.rows}x20.zarr"
    if not archive.exists():
        write_mixture(archive, args.rows)
    found = {}
    for c, solver in ((2, "mpm"), (2, "gep"), (2, "eig"), (4, "mpm")):
        options = {"archive": str(archive), "c": c, "solver": solver, "n_threads": args.threads}
        m = measure("mspc:fit_archive", options, threads=1)
        found[f"{solver}, c={c}"] = m
        print(c, solver, m.wall_s, m.cpu_s, m.peak_mb, m.result, m.error, flush=True)
        yield found


def write_mixture(archive, n, d=20, chunk=100_000):
    """Four overlapping clusters of unequal covariance, rows drawn chunk by chunk; labels beside them."""
    import zarr

    rng = np.random.default_rng(0)
    means, maps = 2.5 * rng.normal(size=(4, d)) / np.sqrt(d) * 2, rng.normal(size=(4, d, d)) / np.sqrt(d)
    X = zarr.create_array(archive / "X", shape=(n, d), chunks=(chunk, d), dtype="f4", compressors=None)
    labels = zarr.create_array(archive / "labels", shape=(n,), chunks=(chunk,), dtype="i4", compressors=None)
    for lo in range(0, n, chunk):
        size = min(chunk, n - lo)
        y = rng.integers(4, size=size)
        noise = rng.normal(size=(size, d)).astype(np.float32)
        rows = np.empty((size, d), np.float32)
        for k in range(4):
            rows[y == k] = noise[y == k] @ (maps[k] + np.eye(d) * 0.5).astype(np.float32) + means[k]
        X[lo : lo + size], labels[lo : lo + size] = rows, y


def fit_archive(archive, c, solver, n_threads):
    import zarr
    from sklearn.metrics import adjusted_rand_score

    import bigsmic

    labels = zarr.open_array(Path(archive) / "labels", mode="r")
    out = Path(tempfile.mkdtemp(prefix="mspc-")) / "run.zarr"
    result = bigsmic.fit(
        Path(archive) / "X", c, method="mspc", solver=solver, n_threads=n_threads, memory_limit="1GiB", out=out
    )
    diagnostics = result.diagnostics
    sample = slice(0, 1_000_000)
    return {
        "n_iter": [split["n_iter"] for split in diagnostics["splits"]],
        "msp": result.msp.tolist(),
        "ari_of_the_first_million": adjusted_rand_score(labels[sample], result.labels[sample]),
        "stages": diagnostics["stages"],
    }


PARTS = {
    "errors": errors,
    "seconds": seconds,
    "pairs": score_against_accuracy,
    "clusters": clusters,
    "streamed": streamed,
}

if __name__ == "__main__":
    main()
