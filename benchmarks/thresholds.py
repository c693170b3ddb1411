"""What depends on the constants of the valleys and of noise: each halved and doubled, on development draws.

    python benchmarks/thresholds.py [--sets ...] [--threads 1]

Every set is fitted once, with the number of clusters unknown; groups, weights, components and distances are kept, and
the trees, the votes, the consensus and the noise are found again with one constant changed. Labels do not move after
the cut, so that ARI is a little below that of a fit. A set is "exact" if the number found is the true one, or where
classes are not parted, if no number is found.
"""

import argparse
import contextlib
import tempfile
from dataclasses import replace

import numpy as np
from _data import as_zarr, labels_of
from _harness import known, save, table
from _ours import ari

import bigsmic
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.labeling import blobs, consensus, density_valley, groups, noise, valleys
from bigsmic.numerics.labeling.between_groups import between_axes, group_sums
from bigsmic.numerics.labeling.group_moments import group_moments
from bigsmic.numerics.principal_axes import principal_axes
from bigsmic.runtime.context import Context
from bigsmic.stages import labelings
from bigsmic.stages import number_evidence as evidence
from bigsmic.stages.labeling_specs import specs_of

PARTED = ("spikes12", "spikes15", "spikes30", "spikes60", "spikes-d0", "spikes-d1", "spikes-d2", "spikes-d3")
UNEVEN = tuple(f"uneven{seed}" for seed in range(20, 26))
NOISY = tuple(f"noisy{share}-d{draw}" for share in (5, 20) for draw in range(3))
REAL = ("usps", "satellite", "mnist20k", "tetrode30k")
TOUCHING = ("letter", "olivetti")
CONSTANTS = {
    valleys: ("THRESHOLD", "NEARLY", "SCATTERED", "SMALLEST_ROWS"),
    groups: ("SAMPLE_ROWS", "N_AXES", "PRIOR_ROWS", "RIDGE", "NEIGHBOR_WEIGHT"),
    density_valley: ("BANDWIDTH",),
    evidence: ("COLLAPSED",),
    blobs: ("LARGEST", "CRUMB", "CLUMPED"),
    noise: ("THRESHOLD", "SPARSE", "LEAST_OF_SCORES", "BIN", "WINDOW", "CERTAIN", "WITHOUT_ANY", "DEPTH"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=[*PARTED, *UNEVEN, *NOISY, *REAL, *TOUCHING])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    rows = known("thresholds")
    for name in args.sets:
        fitted = Fitted(name, args.threads)
        for setting, figures in sweep(fitted):
            rows[f"{name}/{setting}"] = figures
        print(name, rows[f"{name}/as it is"], flush=True)
        save("thresholds", rows, threads=args.threads)
    table(summary(rows, args.sets), ["exact", "off", "ari", "refused", "precision", "recall", "alarms"], "constant")


class Fitted:
    """What one fit knows of its groups, in memory: the sets are small."""

    def __init__(self, name, n_threads):
        self.name, self.truth = name, labels_of(name)
        with tempfile.TemporaryDirectory() as place:
            result = bigsmic.fit(as_zarr(name), out=f"{place}/run", n_threads=n_threads, noise=True)
            self._read(result)

    def _read(self, result):
        run, settings = result._run, result.settings
        if run.done("wider", 0):
            settings = replace(settings, columns_read=run.info("wider", 0)["columns"])
        context = Context(None, run, settings)
        every = [(b, spec) for b, spec in enumerate(specs_of(context)) if spec.assignment == "valleys"]
        rows = np.concatenate([run.read("rows", p, "rows") for p in context.blocks])
        X = np.concatenate([run.read("rows", p, "X") for p in context.blocks])
        mean, axes = principal_axes(context.read_sample(), 4 * groups.N_AXES)
        self.P, self.uniform = (X - mean) @ axes, row_uniform(settings.seed, "valleys", rows)
        self.truth = np.asarray(self.truth)[rows]
        self.sizes = [spec.n_eigenvectors for _, spec in every]
        self.weights = [run.read("valleys", 0, f"weights.{i}") for i in range(len(every))]
        self.groups = [np.concatenate([labelings.read_groups(context, p, b) for p in context.blocks]) for b, _ in every]
        shared = consensus.label_gram(np.stack(self.groups, axis=1).astype(np.int32), self.sizes)
        self.shared = evidence.SharedRows(shared, self.sizes, self.weights)
        at = settings.t.index(max(settings.t))
        self.log_sigma = noise.log_distance(
            np.concatenate([run.read("graph", p, "sigma", at)[0] for p in context.blocks])
        )

    def components(self):
        """Components of the rows along the axes in which groups differ most."""
        P = self.P[:, : 2 * groups.N_AXES].astype(np.float32)
        return P @ between_axes(group_sums(P, self.groups, max(self.sizes)), groups.N_AXES)

    def trees(self):
        """Trees of valleys of every labeling, with the constants as they are now."""
        P, found = self.components(), []
        for m, W, of_rows in zip(self.sizes, self.weights, self.groups, strict=True):
            moments = group_moments(P, of_rows, m)
            drawn = groups.is_drawn(self.uniform, moments.counts[of_rows])
            sample = P[drawn], self.uniform[drawn], of_rows[drawn]
            found.append(valleys.valley_tree(groups.Groups(moments, W, sample), valleys.THRESHOLD))
        return found


def sweep(fitted):
    """Figures of one set, by what was changed: nothing, and each constant halved and doubled."""
    trees = fitted.trees()
    yield "as it is", figures(fitted, trees)
    for module, names in CONSTANTS.items():
        for name in names:
            for factor in (0.5, 2):
                with changed(module, name, factor):
                    found = fitted.trees() if module in (valleys, density_valley) else trees
                    yield f"{module.__name__.split('.')[-1]}.{name} x {factor:g}", figures(fitted, found)


@contextlib.contextmanager
def changed(module, name, factor):
    value = getattr(module, name)
    setattr(module, name, type(value)(value * factor))
    try:
        yield
    finally:
        setattr(module, name, value)


def figures(fitted, trees):
    """Number of clusters, whether there is an answer, ARI, and how well noise is found."""
    k, *_ = evidence._shown(trees, fitted.shared)
    truth, in_cluster = fitted.truth, fitted.truth >= 0
    labels = _consensus(fitted, trees, k)
    found = {"n_clusters": k, "true": int(truth.max()) + 1, "answer": k > 1 and not _is_clumped(fitted, labels)}
    found["ari"] = float(ari(truth[in_cluster], labels[in_cluster]))
    counts = np.bincount(labels)
    spacing, _ = noise.spacing(fitted.log_sigma, labels, np.ones(len(labels), bool), len(counts))
    measure = noise.for_scores(spacing, noise.gap(fitted.log_sigma, labels, counts))
    is_noise = noise.is_noise(noise.scores(fitted.log_sigma, labels, measure))
    if in_cluster.all():
        return found | {"alarms": float(is_noise.mean())}
    right = np.count_nonzero(is_noise & ~in_cluster)
    return found | {
        "precision": float(right) / max(1, np.count_nonzero(is_noise)),
        "recall": float(right) / np.count_nonzero(~in_cluster),
    }


def _consensus(fitted, trees, k):
    cuts = [found.tree.cut(min(max(k, found.n_clusters), len(found.tree.columns))) for found in trees]
    merged = [int(cut.max()) + 1 for cut in cuts]
    labels = np.stack([cut[groups] for cut, groups in zip(cuts, fitted.groups, strict=True)], axis=1).astype(np.int32)
    tree = consensus.overlap_tree(consensus.label_gram(labels, merged))
    classes = tree.cut(min(max(k, 1), len(tree.columns)))
    won = consensus.vote(labels, merged, classes, int(classes.max()) + 1).argmax(axis=1)
    return np.unique(won, return_inverse=True)[1]


def _is_clumped(fitted, labels):
    counts = np.sort(np.bincount(labels, minlength=2))[::-1] / len(labels)
    if counts[0] <= blobs.LARGEST or counts[1] >= blobs.CRUMB * counts[0]:
        return False
    rows = np.flatnonzero(labels == np.bincount(labels).argmax())
    rows = rows[np.argsort(fitted.uniform[rows])]  # the first ones are a draw
    return blobs.clumpiness(fitted.components()[rows]) > blobs.CLUMPED


def summary(rows, names):
    """Means over the sets, by what was changed."""
    settings = dict.fromkeys(key.split("/", 1)[1] for key in rows)
    return {setting: _mean({name: rows[f"{name}/{setting}"] for name in names}) for setting in settings}


def _mean(of_sets):
    parted = [cell for name, cell in of_sets.items() if name not in (*TOUCHING, *REAL)]
    answered = [cell for name, cell in of_sets.items() if name not in TOUCHING]

    def mean(cells, name):
        values = [cell[name] for cell in cells if name in cell]
        return float(np.mean(values)) if values else None

    return {
        "exact": float(np.mean([cell["n_clusters"] == cell["true"] for cell in parted])),
        "off": float(np.mean([abs(np.log(cell["n_clusters"] / cell["true"])) for cell in parted])),
        "ari": mean(answered, "ari"),
        "refused": sum(not cell["answer"] for cell in of_sets.values()),
    } | {name: mean(of_sets.values(), name) for name in ("precision", "recall", "alarms")}


if __name__ == "__main__":
    main()
