"""False alarms of drift, and nights until three kinds of it are found, in simulated nights of a machine.

    python benchmarks/drift.py [--quiet 300] [--repeats 20]

A night has 1,500 windows of six features in regimes that last 10 or 100 windows on average, with a level of its own
in each stretch of a regime. A fit of 8 or 20 nights is followed by quiet nights, or by nights that change: a regime
that was not there takes a share that grows by a hundredth a night; all features move by a fiftieth of their spread more
every night; the shares of the regimes turn by a hundredth a night. Beside: a Kolmogorov-Smirnov test of every feature,
at one hundredth over their number, of the night against the fit, and river's ADWIN on the first principal component.
"""

import argparse

import numpy as np
from _harness import save, table
from river.drift import ADWIN
from scipy.stats import ks_2samp

from bigsmic.numerics import drift
from bigsmic.numerics.drift import Batches

N, D, C = 1500, 6, 3
CENTERS = np.random.default_rng(7).normal(0, 4, (C + 1, D))
SHARES = np.array([0.5, 0.3, 0.2, 0.0])
SAMPLE, MOST_NIGHTS = 256, 60
PEER_TURNS = 3  # tens of quiet nights that peers see: they call most of them drift
KINDS = ("new regime", "slow shift", "changed shares")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args()
    rows = {}
    for hold in (10, 100):
        for nights in (8, 20):
            rows[f"hold {hold}, fit of {nights} nights"] = one(hold, nights, args)
    table(rows, list(next(iter(rows.values()))), "")
    print(save("drift", rows, **vars(args)))


def one(hold, n_nights, args):
    rng = np.random.default_rng(hold + n_nights)
    per_fit = 10
    alarms: dict = {name: [] for name in PEERS}
    for turn in range(args.quiet // per_fit):
        fit = Fit([night(rng, hold) for _ in range(n_nights)])
        for _ in range(per_fit):
            new = night(rng, hold)
            for name, peer in PEERS.items():
                if name == "bigsmic" or turn < PEER_TURNS:
                    alarms[name].append(peer(fit, new))
    found = {f"{name}: false alarms": float(np.mean(said)) for name, said in alarms.items()}
    for kind in KINDS:
        waits = [wait(rng, hold, n_nights, kind) for _ in range(args.repeats)]
        found |= {f"{name}: {kind}": float(np.median([one[name] for one in waits])) for name in PEERS}
    return found


def wait(rng, hold, n_nights, kind):
    """Nights until each finds a change that grows."""
    fit = Fit([night(rng, hold) for _ in range(n_nights)])
    found = {}
    for k in range(1, MOST_NIGHTS + 1):
        new = night(rng, hold, **change(kind, k))
        for name, peer in PEERS.items():
            if name not in found and peer(fit, new):
                found[name] = k
        if len(found) == len(PEERS):
            break
    return {name: found.get(name, MOST_NIGHTS) for name in PEERS}


def change(kind, k):
    if kind == "new regime":
        share = min(0.01 * k, 0.5)
        return {"shares": SHARES * (1 - share) + np.eye(C + 1)[C] * share}
    if kind == "slow shift":
        return {"move": 0.02 * k}
    turned = min(0.01 * k, 0.3)
    return {"shares": SHARES + np.array([-turned, 0, turned, 0])}


def night(rng, hold, shares=SHARES, move=0.0):
    """Features of a night, and the cluster that each row would have: the nearest of those that the fit has."""
    stretches = rng.geometric(1 / hold, 4 * N // hold + 8)
    regimes = rng.choice(C + 1, len(stretches), p=shares / shares.sum())
    regime, stretch = (np.repeat(of, stretches)[:N] for of in (regimes, np.arange(len(stretches))))
    X = CENTERS[regime] + rng.normal(0, 0.5, (len(stretches), D))[stretch] + rng.normal(size=(len(regime), D)) + move
    apart = ((X[:, None] - CENTERS[None, :C]) ** 2).sum(axis=2)
    return X, apart.argmin(axis=1), np.sqrt(apart.min(axis=1) / D)


class Fit:
    """What is known of the nights that were fitted."""

    def __init__(self, nights):
        self.X = np.concatenate([X for X, _, _ in nights])
        self.limit = np.quantile(np.concatenate([far for _, _, far in nights]), 0.99)
        self.batches = [self.facts(one) for one in nights]
        self.reference = Batches(*(np.concatenate(arrays) for arrays in zip(*self.batches, strict=True)))
        self.spreads = np.full((C, D), np.sqrt(1.25))
        self.quiet = []  # shares of nights that were not called drift
        self.axis = np.linalg.svd(self.X[::10] - self.X.mean(axis=0), full_matrices=False)[2][0]

    def facts(self, one):
        X, labels, far = one
        drawn = np.random.default_rng(len(X)).choice(len(X), SAMPLE, replace=False)
        sums = np.zeros((C, D))
        np.add.at(sums, labels[drawn], X[drawn])
        counts = [np.bincount(y, minlength=C).astype(float)[None] for y in (labels, labels[drawn])]
        return Batches(*counts, sums[None], np.array([float((far[drawn] > self.limit).sum())]))


def ours(fit, new):
    tonight = fit.facts(new)
    tests = [drift.shares(fit.reference, tonight, 1.0), drift.novelty(fit.reference, tonight, 1.0)]
    tests.append(drift.shift(fit.reference, tonight, fit.spreads, 1.0))
    if fit.quiet:
        tests.append(drift.recent_shares(fit.reference, tonight, np.array(fit.quiet), 1.0))
    found = min(test["p"] for test in tests) < drift.LEVEL
    if not found:
        fit.quiet.append(tonight.counts[0])
    return found


def kolmogorov(fit, new):
    return min(ks_2samp(fit.X[:, j], new[0][:, j]).pvalue for j in range(D)) < 0.01 / D


def adwin(fit, new):
    detector = ADWIN(delta=0.002)
    for value in fit.X[-3 * N :] @ fit.axis:
        detector.update(value)
    found = False
    for value in new[0] @ fit.axis:
        detector.update(value)
        found = found or detector.drift_detected
    return found


PEERS = {"bigsmic": ours, "Kolmogorov-Smirnov": kolmogorov, "ADWIN": adwin}


if __name__ == "__main__":
    main()
