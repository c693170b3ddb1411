"""Is the posterior honest? Reliability of the largest posterior, and of the agreement, on labelled sets.

    python benchmarks/calibration.py [--sets usps satellite mnist20k letter tetrode30k]

A row is right if its class is the one that most rows of its cluster have. ECE is the mean gap between what is stated
and what comes true, over ten bins.
"""

import argparse

import numpy as np
from _data import as_zarr, labels_of, n_clusters
from _harness import save, table
from _reliability import expected_calibration_error, reliability_curve, reliability_sums

import bigsmic
from bigsmic.numerics.labeling import metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["usps", "satellite", "mnist20k", "letter", "tetrode30k"])
    args = parser.parse_args()
    rows, curves = {}, {}
    for name in args.sets:
        result = bigsmic.fit(as_zarr(name), n_clusters(name), scale=None)
        right = correct(labels_of(name), result.labels)
        stated = {"posterior": np.asarray(result.posterior).max(axis=1), "agreement": result.agreement}
        sums = {what: reliability_sums(confidence, right) for what, confidence in stated.items()}
        curves[name] = {what: np.transpose(reliability_curve(s)).tolist() for what, s in sums.items()}
        rows[name] = {"purity": float(right.mean())} | {
            f"ECE {what}": expected_calibration_error(s) for what, s in sums.items()
        }
        sure = result.agreement >= 1
        rows[name] |= {"all agree": float(sure.mean()), "purity there": float(right[sure].mean())}
    table(rows, list(next(iter(rows.values()))), "set")
    print(save("calibration", {name: rows[name] | {"curves": curves[name]} for name in rows}, **vars(args)))


def correct(truth, labels):
    """Whether each row has the class that is most frequent in its cluster."""
    counts = metrics.contingency(truth, labels, truth.max() + 1, labels.max() + 1)
    return counts.argmax(axis=0)[labels] == truth


if __name__ == "__main__":
    main()
