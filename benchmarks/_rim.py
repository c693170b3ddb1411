"""What benchmarks of RIM measure, each a function that the harness runs in a process of its own."""

import os
import time
from functools import cache

import numpy as np
from _data import as_zarr, labels_of, load, n_clusters
from _ours import ari

import bigsmic
from bigsmic.methods.rim import planning as rim_planning
from bigsmic.numerics.objectives.rim import adam
from bigsmic.numerics.objectives.rim.linear import Linear, linear_information, penalty
from bigsmic.numerics.objectives.rim.logits import objective
from bigsmic.runtime.context import Context
from bigsmic.stages.rim.classifier import read_model

PLAIN = ("usps", "mnist70k", "mnist20k", "mearec")  # unscaled, as everywhere in these benchmarks
PANEL = 16_384


def scale_of(name):
    return None if name in PLAIN else "standard"


def fit(name, c=None, n_threads=1, **options):
    """One fit from disk."""
    options = {"scale": scale_of(name)} | options
    result = bigsmic.fit(as_zarr(name), c, method="rim", n_threads=n_threads, **options)
    facts = result.diagnostics
    return {
        "ari": ari(labels_of(name), result.labels),
        "n_clusters": result.n_clusters,
        "reg": facts["reg"],
        "objective": facts["objective"],
        "largest": int(max(facts["cluster_sizes"])),
        "path": facts["path"],
        "stages": facts["stages"],
    }


def path(name, **options):
    """Categories alive, objective and ARI at every strength of a path that doubles, from one start."""
    options = {"scale": scale_of(name), "n_init_categories": 100} | options
    result = bigsmic.fit(as_zarr(name), method="rim", reg="lsmi", n_threads=1, **options)
    context, y = Context(None, result._run, result.settings), labels_of(name)
    models = [read_model(context, "point", p) for p in range(len(result.diagnostics["path"]))]
    labels = [[] for _ in models]
    X = as_rows(name)
    for lo in range(0, len(y), PANEL):
        rows = context.scaler.apply(X[lo : lo + PANEL])
        for found, model in zip(labels, models, strict=True):
            found.append(model.logits(rows).argmax(axis=1))
    shares = [ari(y, np.concatenate(found)) for found in labels]
    points = [p | {"ari": share} for p, share in zip(result.diagnostics["path"], shares, strict=True)]
    return {"points": points, "chosen_by_lsmi": result.diagnostics["reg"], "ari": ari(y, result.labels)}


def as_rows(name):
    import zarr

    return zarr.open_array(as_zarr(name), mode="r")


@cache
def scaled(name):
    """Scaled rows in memory, as peers need them."""
    X = load(name)[0]
    if scale_of(name) == "standard":
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    else:
        X = X - X.mean(axis=0)
    return np.ascontiguousarray(X, np.float32)


def exact(X, W, b, reg):
    """Objective on all rows, and rows of each category."""
    model = Linear(np.asarray(W, np.float32), np.asarray(b, np.float32).ravel())
    parts = (linear_information(X[lo : lo + PANEL], model) for lo in range(0, len(X), PANEL))
    total = next(parts)
    for part in parts:
        total = total + part
    return objective(total) - penalty(model, reg), total.counts


def gemclus(name, n_categories, reg, unit=False, **options):
    """RIM of gemclus: the objective on all rows after each epoch, and the seconds that it took to come there.

    With `unit`, rows are divided by the root mean square of their entries.
    """
    from gemclus.linear import RIM

    class Traced(RIM):
        def _batchify(self, *args):
            if not hasattr(self, "trace"):
                self.trace, self.began = [], (time.process_time(), time.perf_counter())
            now = time.process_time() - self.began[0], time.perf_counter() - self.began[1]
            self.trace.append((*now, self.W_.copy(), self.b_.copy()))
            yield from super()._batchify(*args)

    y, X = load(name)[1], scaled(name)
    if unit:
        X = X / adam.spread(X)
    model = Traced(n_clusters=n_categories, reg=reg, random_state=options.pop("seed", 0), **options)
    model.fit(X)
    seconds = time.process_time() - model.began[0], time.perf_counter() - model.began[1]
    model.trace.append((*seconds, model.W_, model.b_))
    trace = []
    for cpu, wall, W, b in thinned(model.trace):
        F, counts = exact(X, W, b, reg)
        trace.append({"cpu": cpu, "wall": wall, "objective": F, "alive": int((counts > 0).sum())})
    return {
        "trace": trace,
        "ari": ari(y, model.labels_),
        "alive": trace[-1]["alive"],
        "objective": trace[-1]["objective"],
    }


def thinned(trace, kept=11):
    return (
        trace if len(trace) <= kept else [trace[i] for i in np.unique(np.linspace(0, len(trace) - 1, kept).astype(int))]
    )


def ours_at(name, n_categories, reg, **options):
    """One ascent at one strength from disk, everything included: scan, start, ascent, output."""
    began = time.process_time(), time.perf_counter()
    result = bigsmic.fit(
        as_zarr(name),
        method="rim",
        reg=reg,
        n_init_categories=n_categories,
        n_threads=1,
        scale=scale_of(name),
        **options,
    )
    cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
    point = result.diagnostics["path"][0]
    return {
        "cpu": cpu,
        "wall": wall,
        "objective": point["objective"],
        "alive": point["alive"],
        "ari": ari(labels_of(name), result.labels),
        "stages": result.diagnostics["stages"],
    }


def smic(name, n_threads=1):
    """The default method."""
    result = bigsmic.fit(as_zarr(name), n_clusters(name), scale=scale_of(name), n_threads=n_threads)
    return {"ari": ari(labels_of(name), result.labels)}


def k_means(name, seed=0):
    from sklearn.cluster import MiniBatchKMeans

    labels = MiniBatchKMeans(n_clusters(name), random_state=seed, n_init=3).fit_predict(scaled(name))
    return {"ari": ari(labels_of(name), labels)}


def collapse(name, seeds):
    """Categories alive and the largest share of rows in one, for several seeds."""
    from sklearn import datasets

    if name == "toy":
        found = [toy(seed) for seed in range(seeds)]
        return {"alive": [f["alive"] for f in found], "ari": [f["ari"] for f in found]}
    if name in ("iris", "wine", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    else:
        X, y, _ = load(name)
    c, alive, largest, shares = len(np.unique(y)), [], [], []
    for seed in range(seeds):
        result = bigsmic.fit(X, c, method="rim", seed=seed, n_threads=1, scale=scale_of(name))
        alive.append(len(np.unique(result.labels)))
        largest.append(max(result.diagnostics["cluster_sizes"]) / len(y))
        shares.append(ari(y, result.labels))
    return {"alive": alive, "largest_share": largest, "ari": shares, "c": c}


def toy(seed, reg="4/N"):
    """Three clusters in the plane, fifty categories to begin with, drawn anew for every seed."""
    from sklearn.datasets import make_blobs

    X, y = make_blobs(450, 2, centers=[[-4, 0], [4, 0], [0, 5]], cluster_std=1.0, random_state=seed)
    result = bigsmic.fit(X, method="rim", reg=reg, n_init_categories=50, seed=seed, n_threads=1)
    return {"alive": result.n_clusters, "ari": ari(y, result.labels)}


def taught(per_class, taus, regs, seed=0):
    """MNIST with some labels of each class: errors on the other rows, of RIM and of a supervised multilogit."""
    from sklearn.linear_model import LogisticRegression

    X, y, c = load("mnist70k")
    X = X / 255
    drawn = np.random.default_rng(seed).permutation(len(y))
    known = np.concatenate([drawn[y[drawn] == k][:per_class] for k in range(c)])
    rest = np.setdiff1d(np.arange(len(y)), known)
    labels = np.full(len(y), -1)
    labels[known] = y[known]
    supervised = {
        f"C={C:g}": float(
            np.mean(LogisticRegression(C=C, max_iter=500).fit(X[known], y[known]).predict(X[rest]) != y[rest])
        )
        for C in (0.01, 0.1, 1.0, 10.0)
    }
    ours = {}
    for tau in (share * len(known) for share in taus):
        for reg in regs:
            options = {"labels": labels, "tau": tau, "reg": reg * tau, "n_init_categories": c, "n_epochs": 10}
            result = bigsmic.fit(X, c, method="rim", scale=None, n_threads=1, **options)
            ours[f"tau={tau:g}, reg={reg:g} tau"] = float(np.mean(result.labels[rest] != y[rest]))
    return {"supervised": supervised, "rim": ours}


def reading(name, repeats=5, n_threads=2, **options):
    """MB/s of plain Zarr, and of every stage of a fit, with the pages of the archive dropped before each."""
    options = {"reg": 0.01, "n_epochs": 1, "scale": scale_of(name), "n_threads": n_threads} | options
    rim_planning.ROWS_BYTES = 0  # rows that are larger than memory
    bigsmic.fit(np.random.default_rng(0).random((500, 5)), 2, method="rim")  # imports
    found = [_cold(name, options) for _ in range(repeats)]
    rates = {key: [run[key] for run in found] for key in found[0]}
    shares = {key: [a / b for a, b in zip(rates[key], rates["plain"], strict=True)] for key in rates}
    middle = {key: float(np.median(share)) for key, share in shares.items()}
    return {"MB_per_s": rates, "share_of_plain": middle, "load": os.getloadavg()[0]}


def _cold(name, options):
    """MB/s of plain Zarr, and of the stages."""
    megabytes, began, ended = np.prod(as_rows(name).shape) * 4 / 1e6, {}, {}

    def progress(stage, done, total):
        if done == 0:
            drop_pages(as_zarr(name))
            began[stage] = time.perf_counter()
        if done == total:
            ended[stage] = time.perf_counter()

    progress("plain", 0, 1)
    rows = as_rows(name)
    for lo in range(0, rows.shape[0], 13_797):
        rows[lo : lo + 13_797]
    progress("plain", 1, 1)
    bigsmic.fit(as_zarr(name), method="rim", progress=progress, **options)
    names = {
        "plain": "plain",
        "scan": "scan",
        "ascent": "restart.ascent.0",
        "objective": "objective",
        "output": "output",
    }
    return {key: megabytes / (ended[stage] - began[stage]) for key, stage in names.items()}


def drop_pages(folder):
    """Tell the system that the files of a folder will not be read again."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
