"""Published settings: the four toys and USPS 5000 over many draws, both bandwidths; and the family by default.

    python benchmarks/papers.py [--draws 20] [--default-draws 10] [--threads 2]

Figures to stand beside: K with bandwidth 2: .991, .476, 1.00, .54; bandwidth 1: .991, .993, .963, .69;
USPS 5000 .573 and .577; the family of K and N, rotated or not, by LSMI: USPS 5000 .61 standardised, .62 unscaled.
"""

import argparse
import warnings

import numpy as np
from _data import load
from _harness import save, table
from _ours import fit_rows

from bigsmic import datasets

TOYS = ("four_blobs", "circle_and_gaussian", "double_spirals", "two_densities")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--default-draws", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    rows = {}
    for toy in TOYS:
        rows[toy] = {f"bandwidth {b}": over(args.draws, lambda s, toy=toy, b=b: _toy(toy, s, b, args)) for b in (2, 1)}
        table(rows, ("bandwidth 2", "bandwidth 1"), "preset='paper', ARI mean (sd)")
    rows["usps 5000"] = {f"bandwidth {b}": over(args.draws, lambda s, b=b: _usps(s, args, bandwidth=b)) for b in (2, 1)}
    table(rows, ("bandwidth 2", "bandwidth 1"), "preset='paper', ARI mean (sd)")
    family = {
        "usps 5000 standardised": over(args.default_draws, lambda s: _usps(s, args, rotation="auto")),
        "usps 5000 unscaled": over(args.default_draws, lambda s: _usps(s, args, rotation="auto", scale=None)),
    }
    table({name: {"ARI": cell} for name, cell in family.items()}, ("ARI",), "K and N, rotated or not, by LSMI")
    print(save("papers", {"paper": rows, "family": family}, **vars(args)))


def over(draws, score):
    """Mean and standard deviation over seeds, as text."""
    scores = [score(seed) for seed in range(draws)]
    return f"{np.mean(scores):.3f} ({np.std(scores):.3f})"


def _toy(name, seed, bandwidth, args):
    X, y = getattr(datasets, name)(seed=seed)
    c = int(y.max()) + 1
    return fit_rows(X, y, c, preset="paper", bandwidth=bandwidth, seed=seed, n_threads=args.threads)[0]


def _usps(seed, args, **options):
    X, y, c = load("usps")
    rng = np.random.default_rng(seed)
    rows = np.sort(np.concatenate([rng.choice(np.flatnonzero(y == k), 500, replace=False) for k in range(c)]))
    options = {"preset": "paper"} | options if "bandwidth" in options else options
    return fit_rows(X[rows], y[rows], c, seed=seed, n_threads=args.threads, **options)[0]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
