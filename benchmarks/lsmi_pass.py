"""LSMI of many labelings: one pass over the rows against the formulas term by term.

    OPENBLAS_NUM_THREADS=1 python benchmarks/lsmi_pass.py [--quick] [--only {formulas,scale}]

``formulas``  n = 20,000, d = 64, ten labelings, 200 centres, 81 pairs (gamma, delta), 5 folds, float64.
``scale``     n = 70,000, d = 64, sixteen labelings, 800 centres, 63 pairs, 5 folds, float32.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information.gaussian_basis import PAPER_GAMMAS, fold_of
from bigsmic.numerics.mutual_information.lsmi_scores import finish
from bigsmic.numerics.mutual_information.lsmi_sums import LSMISettings, block_sums

OUT = Path(__file__).parent / "results" / "lsmi_pass.json"


class Clock:
    """CPU and wall seconds of a with block."""

    def __enter__(self):
        self.cpu, self.wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *exc):
        self.cpu, self.wall = time.process_time() - self.cpu, time.perf_counter() - self.wall


def eigenproblem(n, d, n_classes, n_labelings, dtype):
    """Gaussian clusters, standardised, and the truth with ever more labels drawn anew."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n_classes, d))[truth] + 1.5 * rng.normal(size=(n, d))
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(dtype)
    draws = rng.integers(0, n_classes, (n_labelings, n))
    redraw = rng.random((n_labelings, n)) < 0.04 * np.arange(n_labelings)[:, None]
    return X, np.where(redraw, draws, truth).astype(np.int32)


def design_for(X, n_centers, gammas):
    rows = draw_rows(len(X), n_centers, 0, "lsmi-center")
    return LSMISettings(n_centers, gammas=gammas).design(X[rows], rows, X[:2000])


def direct(X, y, design, n_classes):
    """One labelling by the formulas as they read, on BLAS; what does not depend on delta is computed once."""
    folds = fold_of(np.arange(len(X)), design)
    U = design.centers
    squared = np.square(X).sum(axis=1)[:, None] + np.square(U).sum(axis=1) - 2 * X @ U.T
    members = [np.flatnonzero(y[design.center_rows] == k) for k in range(n_classes)]
    table = np.zeros((len(design.gammas), len(design.deltas)))
    for g, gamma in enumerate(design.gammas):
        L = np.exp(-squared / (2 * gamma**2))
        for out in (folds == m for m in range(design.n_folds)):
            train, held = moments(L[~out], y[~out], members), [L[out][:, C] for C in members]
            for d, delta in enumerate(design.deltas):
                table[g, d] += loss(held, y[out], solve(train, delta)) / design.n_folds
    g, d = np.unravel_index(table.argmin(), table.shape)
    whole = moments(np.exp(-squared / (2 * design.gammas[g] ** 2)), y, members)
    thetas = solve(whole, design.deltas[d])
    return table, sum(a @ h - a @ H @ a / 2 for (H, h), a in zip(whole, thetas, strict=True)) - 0.5


def moments(L, y, members):
    """H and h of every class."""
    basis = [(y == k, L[:, C]) for k, C in enumerate(members)]
    return [(own.sum() / len(y) ** 2 * (B.T @ B), B[own].sum(axis=0) / len(y)) for own, B in basis]


def solve(classes, delta):
    return [np.linalg.solve(H + delta * np.eye(len(h)), h) for H, h in classes]


def loss(bases, y, thetas):
    total = 0.0
    for k, (B, theta) in enumerate(zip(bases, thetas, strict=True)):
        r = B @ theta
        total += np.sum(y == k) * (r @ r) / (2 * len(y) ** 2) - r[y == k].sum() / len(y)
    return total


def formulas(n=20_000, n_labelings=10):
    """One pass against the formulas: seconds, ratio and the largest differences."""
    X, labels = eigenproblem(n, 64, 10, n_labelings, np.float64)
    design = design_for(X, 200, PAPER_GAMMAS)
    with Clock() as one_pass:
        sums = block_sums(X, np.arange(n), labels, design)
        scores = finish(sums, labels[:, design.center_rows], design)
    with Clock() as plain:
        expected = [direct(X, y, design, 10) for y in labels]
    pairs = list(zip(scores, expected, strict=True))
    return {
        "n": n,
        "labelings": n_labelings,
        "one_pass_cpu_s": one_pass.cpu,
        "one_pass_wall_s": one_pass.wall,
        "formulas_cpu_s": plain.cpu,
        "formulas_wall_s": plain.wall,
        "cpu_ratio": plain.cpu / one_pass.cpu,
        "max_difference_lsmi": max(abs(s.lsmi - v) for s, (_, v) in pairs),
        "max_difference_cv": max(abs(s.cv_table - t).max() for s, (t, _) in zip(scores, expected, strict=True)),
        "lsmi": [s.lsmi for s in scores],
    }


def scale(n=70_000, n_labelings=16):
    """Seconds of the pass and of the finish at few and many classes."""
    return [scale_at(n, n_labelings, n_classes) for n_classes in (2, 10, 33)]


def scale_at(n, n_labelings, n_classes):
    X, labels = eigenproblem(n, 64, n_classes, n_labelings, np.float32)
    design = design_for(X, 800, None)
    with Clock() as one_pass:
        sums = block_sums(X, np.arange(n), labels, design)
    with Clock() as small:
        scores = finish(sums, labels[:, design.center_rows], design)
    return {
        "n": n,
        "classes": n_classes,
        "labelings": n_labelings,
        "pass_cpu_s": one_pass.cpu,
        "pass_wall_s": one_pass.wall,
        "finish_cpu_s": small.cpu,
        "finish_wall_s": small.wall,
        "sums_mb": sums.nbytes / 1e6,
        "lsmi_first": scores[0].lsmi,
    }


def show(title, row):
    print(title)
    for name, value in row.items():
        if not isinstance(value, list):
            print(f"  {name:22s} {value:.4g}" if isinstance(value, float) else f"  {name:22s} {value:,}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, no file written")
    parser.add_argument("--only", choices=["formulas", "scale"])
    options = parser.parse_args()
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    results["machine"] = f"{platform.machine()}, numpy {np.__version__}, BLAS on one thread"
    part = 10 if options.quick else 1
    with threadpool_limits(limits=1):
        if options.only != "scale":
            results["formulas"] = formulas(20_000 // part)
            show("one pass and the formulas", results["formulas"])
        if options.only != "formulas":
            results["scale"] = scale(70_000 // part)
            for row in results["scale"]:
                show(f"pass and finish, {row['classes']} classes", row)
    if not options.quick:
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
