"""bigsmic without the number of clusters, as a function that the harness runs in a process of its own."""

import _peers
from _data import as_zarr, labels_of, load
from _unknown_scores import figures

import bigsmic


def fit(name, n_threads=1, **options):
    """Fit an archive and compare the labels with the truth; options are those of ``bigsmic.fit``."""
    fitted = bigsmic.fit(as_zarr(name), n_threads=n_threads, **options)
    result, verdict = decided(fitted)
    labels, truth = result.labels, labels_of(name)
    found = figures(truth, labels, lambda: _peers.Rows(load(name)[0], None, 0).principal(10))
    return found | verdict | _noise_auc(result, truth, options) | {"stages": fitted.diagnostics["stages"]}


def decided(result):
    """The fit, and whether it found valleys; where it did not, the cut that its curve speaks for."""
    valleys = getattr(result, "valleys", None)
    if valleys is not None and valleys.clear:
        return result, {"clear": True, "sentence": valleys.sentence}
    if valleys is None:
        best, sentence = int(result.stability.idxmax()), "valleys were not looked for"
    else:
        best, sentence = valleys.best, valleys.sentence
    return result.cut(max(best, 2)), {"clear": False, "sentence": sentence}


def _noise_auc(result, truth, options):
    """How well the score ranks rows in none before others."""
    if not options.get("noise") or (truth >= 0).all():
        return {}
    from sklearn.metrics import roc_auc_score

    return {"noise_auc": roc_auc_score(truth < 0, result.noise)}
