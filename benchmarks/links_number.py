"""3SMIC without a number of clusters: the number that valleys and links show, and labels, by number of links.

    python benchmarks/links_number.py [--half development|confirmation] [--links 50 200 1000] [--threads 1]

Links are between random pairs of rows, by their true classes. Beside it SMIC without links, whose number is unknown
too, and 3SMIC with the true number. Sets with more rows than are named are sampled.
"""

import argparse

import numpy as np
from _data import load
from _harness import table
from _ours import ari

import bigsmic

ROWS = {
    "development": {
        "usps": 5000,
        "satellite": None,
        "mnist20k": 6000,
        "tetrode30k": 6000,
        "spikes-d3": None,
        "moons-d2": None,
        "rings-d2": None,
    },
    "confirmation": {
        "mnist20k-b": 6000,
        "tetrode30k-b": 6000,
        "spikes-c0": None,
        "spikes-c2": None,
        "moons-c2": None,
        "rings-c2": None,
        "uneven-c1": None,
    },
}
COLUMNS = ("SMIC", "ARI of SMIC", "found", "ARI", "ARI, c given")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=ROWS, default="development")
    parser.add_argument("--links", nargs="+", type=int, default=[50, 200, 1000])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    rows = {}
    for name, n_rows in ROWS[args.half].items():
        X, y, c = sampled(name, n_rows)
        alone = found(y, bigsmic.fit(X, n_threads=args.threads))
        for n_links in args.links:
            options = {"method": "3smic", "n_threads": args.threads, **links(y, n_links)}
            number, score = found(y, bigsmic.fit(X, **options))
            given = ari(y, bigsmic.fit(X, c, **options).labels)
            values = *alone, number, score, given
            rows[f"{name}, {c}, {n_links} links"] = dict(zip(COLUMNS, values, strict=True))
            print(name, n_links, *values, flush=True)
    table(rows, COLUMNS)


def sampled(name, n_rows):
    """Rows, classes and number of classes of a set, of `n_rows` rows at most."""
    X, y, c = load(name)
    if n_rows is None:
        return X, y, c
    rows = np.random.default_rng(0).permutation(len(X))[:n_rows]
    return X[rows], y[rows], c


def links(y, n_links):
    """Must-links and cannot-links between rows drawn at random, by their classes."""
    pairs = np.random.default_rng(0).choice(np.flatnonzero(y >= 0), (n_links, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return {"must_links": pairs[same], "cannot_links": pairs[~same]}


def found(y, result):
    """Number of clusters and score; None where there are no labels."""
    return (None, None) if result.settings.undecided else (result.n_clusters, ari(y, result.labels))


if __name__ == "__main__":
    main()
