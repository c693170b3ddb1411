"""Novelty of classes that a fit has not seen, and how honest posteriors of novel rows are.

    python benchmarks/novelty.py [--sets digits usps letter satellite tetrode6k] [--rows 6000]

Up to ten classes of every set are held out, one after the other. Each time, rows of the others are fitted, but for
three tenths; novelty is to tell the rows of the class that was held out from these: area under the ROC curve, mean over
classes. scikit-learn's LocalOutlierFactor (novelty=True, 20 neighbours) and IsolationForest see the same rows. Of rows
that were not held out and have a novelty above 1, the table has the mean of the largest posterior, tempered and not,
and the share whose cluster is that of most rows of their class.
"""

import argparse
import warnings

import numpy as np
from _data import _file as raw
from _harness import save, table
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

import bigsmic
from bigsmic.numerics.labeling import metrics
from bigsmic.prediction import model_of

MOST_CLASSES, HELD_BACK = 10, 0.3
FILES = {
    "usps": "usps",
    "letter": "mlbench_letterrecognition",
    "satellite": "mlbench_satellite",
    "tetrode6k": "tetrode_mearec",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["digits", *FILES])
    parser.add_argument("--rows", type=int, default=6000)
    args = parser.parse_args()
    rows = {name: one_set(*data(name, args.rows)) for name in args.sets}
    table(rows, list(next(iter(rows.values()))), "set")
    print(save("novelty", rows, **vars(args)))


def data(name, most):
    if name == "digits":
        from sklearn.datasets import load_digits

        stored = load_digits()
        X, y = stored.data, stored.target
    else:
        stored = raw(FILES[name])
        X, y = stored["X"], stored["y"]
    drawn = np.sort(np.random.default_rng(0).permutation(len(X))[:most])
    return X[drawn].astype(np.float32), y[drawn]


def one_set(X, y):
    rng = np.random.default_rng(1)
    classes = np.unique(y)
    chosen = classes if len(classes) <= MOST_CLASSES else np.sort(rng.choice(classes, MOST_CLASSES, replace=False))
    found = [one_class(X, y, held_out, rng) for held_out in chosen]
    return {name: float(np.nanmean([row[name] for row in found])) for name in found[0]}


def one_class(X, y, held_out, rng):
    others = np.flatnonzero(y != held_out)
    back = rng.random(len(others)) < HELD_BACK
    fitted, new = X[others[~back]], np.concatenate([X[others[back]], X[y == held_out]])
    is_new = np.repeat([False, True], [back.sum(), (y == held_out).sum()])
    c = len(np.unique(y[others]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = {"smic": bigsmic.fit(fitted, c), "rim": bigsmic.fit(fitted, c, method="rim")}
    smic = results["smic"]
    scores = {f"AUC {name}": result.novelty(new) for name, result in results.items()}
    S, T = smic.scaled(fitted), smic.scaled(new)
    scores["AUC LOF"] = -LocalOutlierFactor(20, novelty=True).fit(S).score_samples(T)
    scores["AUC IsolationForest"] = -IsolationForest(random_state=0).fit(S).score_samples(T)
    found = {name: roc_auc_score(is_new, score) for name, score in scores.items()}
    return found | honesty(smic, y[others[~back]], X[others[back]], y[others[back]])


def honesty(result, of_fitted, back, of_back):
    """Posteriors of rows that are novel but of known classes, before and after tempering, and how many are right."""
    novelty = result.novelty(back)
    novel = novelty > 1
    context = result._context
    plain, labels = model_of(context)(context.scaler.apply(back))
    counts = metrics.contingency(of_fitted, result.labels, int(of_fitted.max()) + 1, result.n_clusters)
    right = counts.argmax(axis=0)[labels] == of_back
    tempered = result.predict_proba(back)
    means = (plain[novel].max(axis=1), tempered[novel].max(axis=1), right[novel])
    names = ("plain posterior", "tempered", "right")
    share = {"novel of known classes": float(novel.mean()), "right of the others": float(right[~novel].mean())}
    return share | {
        name: float(np.mean(values)) if novel.any() else np.nan for name, values in zip(names, means, strict=True)
    }


if __name__ == "__main__":
    main()
