"""MSPC beside its published figures: errors over reg, seconds, the score against accuracy; and past memory.

    python benchmarks/mspc.py [--parts errors seconds pairs clusters streamed] [--rows 10000000]

errors    error in % of the three solvers for every reg, beside the published ones, which take the best reg by the true
          labels; beside them reg=1, and reg="auto", which do not look at them
seconds   one fit from given k-means labels, beside LDA-KM and an iterated LinearSVC
pairs     accuracy of MPM and its separation probability on all pairs of digits and of satellite classes, over reg
clusters  recursive splitting above two clusters beside k-means: by worth, by score alone, by size alone
streamed  rows x 20 on disk, two clusters and four

What results/mspc_pairs.json and mspc_streamed.json have is not measured again.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from _harness import known, measure, save, table
from _two_classes import PUBLISHED, PUBLISHED_SECONDS, load, pairs

from bigsmic.methods.mspc import two_means
from bigsmic.numerics.objectives.mspc import solvers
from bigsmic.numerics.objectives.mspc.questions import Rows, solve
from bigsmic.numerics.objectives.mspc.solvers import SOLVERS, Split, SplitSettings
from bigsmic.numerics.objectives.mspc.tree import grow
from bigsmic.settings.mspc import GRID, JUDGE

REGS = tuple(10.0**k for k in range(-4, 5))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    for part in args.parts:
        for found in PARTS[part](args):
            save(f"mspc_{part}", found, **vars(args))
        print(f"{part} done", flush=True)


def error(is_in, y):
    """Error in %, of the better of the two ways to name the sides."""
    share = float((is_in != y).mean())
    return 100 * min(share, 1 - share)


def fit(X, start, regs, **options):
    """A split for each reg, and which rows are inside."""
    rows = Rows(X)
    settings = [SplitSettings(reg=reg, **options) for reg in regs]
    splits = solve([solvers.split((), start, s) for s in settings], rows)
    return splits, [split.halfspace.contains(rows.X) for split in splits]


def errors(args):
    found = {}
    for name, published in PUBLISHED.items():
        X, y = load(name)
        start = two_means(X, 0, ())
        found[name] = {"shape": X.shape, "k-means": error(start.contains(X), y), "published": published}
        for solver in SOLVERS:
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
    for solver, published in zip(SOLVERS, found["published"][1:], strict=True):
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
        found[name]["published_seconds"] = dict(zip(("lda-km", *SOLVERS), published, strict=True))
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
    found = known("mspc_pairs")
    for name, published in (("usps", 0.81), ("mlbench_satellite", 0.86)):
        of_set = found.setdefault(name, {"published": published, "reg": REGS, "pairs": {}})
        for pair, X, y in pairs(name):
            if pair not in of_set["pairs"]:
                of_set["pairs"][pair] = _pair(X, y)
                yield found
        found[name] |= _correlations(list(of_set["pairs"].values()))
        print(name, {key: value for key, value in found[name].items() if key != "pairs"}, flush=True)
        yield found


def _pair(X, y):
    start = two_means(X, 0, ())
    splits, sides = fit(X, start, REGS, judge=JUDGE)
    return {
        "k-means": 100 - error(start.contains(X), y),
        "accuracy": [100 - error(side, y) for side in sides],
        "msp": [split.msp for split in splits],
        "msp at .1": [split.score for split in splits],
    }


def _correlations(rows):
    """Of accuracy with separation probability: for every reg, and for the best reg of each pair; mean accuracies."""
    accuracy, msp, judged = (np.array([row[key] for row in rows]) for key in ("accuracy", "msp", "msp at .1"))
    each, best = np.arange(len(rows)), accuracy.argmax(axis=1)
    grid = slice(REGS.index(0.01), REGS.index(100.0) + 1)  # of reg="auto", at whole powers
    auto = judged[:, grid].argmax(axis=1) + grid.start
    return {
        "correlation over reg": [_correlation(accuracy[:, k], msp[:, k]) for k in range(len(REGS))],
        "correlation, best reg": _correlation(accuracy[each, best], msp[each, best]),
        "correlation, best reg, msp at .1": _correlation(accuracy[each, best], judged[each, best]),
        "correlation, all reg": _correlation(accuracy.ravel(), msp.ravel()),
        "mean accuracy, k-means": float(np.mean([row["k-means"] for row in rows])),
        "mean accuracy over reg": accuracy.mean(axis=0).tolist(),
        "mean accuracy, best reg": float(accuracy.max(axis=1).mean()),
        "mean accuracy, auto": float(accuracy[each, auto].mean()),
    }


def _correlation(a, b):
    return float(np.corrcoef(a, b)[0, 1])


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
    settings, rule = [SplitSettings()], Split.worth
    Split.worth = property(worth)
    try:
        tree, _ = grow(c, lambda node: two_means(X, 0, node), settings, Rows(X))
    finally:
        Split.worth = rule
    return tree.read(X)[1]


def streamed(args):
    folder = Path(os.environ.get("BIGSMIC_BENCH_CACHE") or tempfile.gettempdir())
    archive = folder / f"mspc-{args.rows}x20.zarr"
    if not archive.exists():
        write_mixture(archive, args.rows)
    found = known("mspc_streamed")
    for c, solver in ((4, "mpm"), (2, "mpm"), (2, "gep"), (2, "eig")):
        name = f"{args.rows:,} rows, {solver}, c={c}"
        if name in found:
            continue
        options = {"archive": str(archive), "c": c, "solver": solver, "n_threads": args.threads}
        m = found[name] = measure("mspc:fit_archive", options, threads=1)
        print(name, m.wall_s, m.cpu_s, m.peak_mb, m.result, m.error, flush=True)
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
