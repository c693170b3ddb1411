"""Measures the rates by which ``bigsmic plan`` predicts how long a fit takes, and checks them on larger fits.

::

    python benchmarks/scaling_model.py                  # fits of 20,000 to a million rows, then the rates
    python benchmarks/scaling_model.py --check blobs2000000x64 mixture3000000x16   # fits that the rates are not from
    python benchmarks/scaling_model.py --model          # only fit the rates to the runs that are there
    python benchmarks/scaling_model.py --install        # and write them to bigsmic/runtime/rates.json

Rows are flat clusters that overlap (mixture), and round ones far apart (blobs). Runs that results/scaling_model.json
has are not repeated, unless ``--fresh`` forgets them. The rates of a stage are the non-negative least squares of its
errors in shares of the whole fit; the bytes of the cache are those of several with which these errors are least. The
table has the seconds that follow from the products that a solver made, and the range that a plan gives beforehand.
"""

import argparse
import json
import re

import numpy as np
from _clusters import SIMULATORS
from _data import as_zarr, n_clusters
from _harness import machine, measure, save, table
from scipy.optimize import nnls

from bigsmic import datasets
from bigsmic.methods.smic import planning as smic_planning
from bigsmic.methods.smic.work import Solve, work, works
from bigsmic.runtime import planning
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.runtime.duration import RATES, ROUNDS, SENT, Answer, Rates, duration_of
from bigsmic.runtime.probe import probe
from bigsmic.settings.smic import resolve
from bigsmic.stages.labeling_specs import valley_columns
from bigsmic.validation import parse_bytes

ONE_THREAD = (
    *("mixture20000x16", "mixture50000x16", "mixture100000x16", "mixture200000x16"),
    *("mixture20000x64", "mixture50000x152"),
    *("blobs20000x64", "blobs50000x16", "blobs100000x64", "blobs1000000x32"),
)
LARGE_GROUPS = {"blobs500000x64": 200_000, "mixture300000x16": 200_000}
"""Sets that are also fitted with groups of so many rows, as sets of millions have: their vectors leave the cache."""
LIMITED = {"mixture200000x64": "500MiB", "blobs500000x64": "520MiB"}
"""Memory limits that the basis, or basis and matrix, do not fit."""
SHARED = ("mixture50000x16", "mixture100000x16", "mixture300000x16")
"""Sets that also two threads, and two workers, fit."""
CACHES = [2.0**power for power in range(19, 31)]
SEPARATION = 5.0  # of blobs: standard deviation of the centres' coordinates, in units of that of the rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", nargs="*", default=[], help="sets that the rates are not fitted to")
    parser.add_argument("--most", type=int, default=10**6, help="leave out sets of more rows that rates are fitted to")
    parser.add_argument("--threads", type=int, default=2, help="of the checks")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are there")
    parser.add_argument("--model", action="store_true", help="run nothing")
    parser.add_argument("--install", action="store_true")
    args = parser.parse_args()
    runs = {} if args.fresh else stored()
    checks = [{"name": name, "threads": args.threads} for name in args.check]
    for call in [] if args.model else [*fitted_calls(args.most), *checks]:
        run(call, runs)
    rates = fit_rates([of for of in runs.values() if of["name"] in {*ONE_THREAD, *LIMITED, *LARGE_GROUPS}])
    show(rates, runs)
    save("scaling_model", runs, rates=as_json(rates))
    if args.install:
        RATES.write_text(json.dumps(as_json(rates), indent=1) + "\n")


def fitted_calls(most):
    calls = [{"name": name} for name in ONE_THREAD]
    calls += [{"name": name, "limit": limit} for name, limit in LIMITED.items()]
    calls += [{"name": name, "group_rows": rows} for name, rows in LARGE_GROUPS.items()]
    calls += [{"name": name, "threads": 2} for name in SHARED] + [{"name": name, "workers": 2} for name in SHARED]
    return [call for call in calls if shape(call["name"])[1] <= most]


def shape(name):
    """Kind, rows and columns that a name says."""
    kind, n, d = re.fullmatch(r"([a-z]+)(\d+)x(\d+)", name).groups()
    return kind, int(n), int(d)


def register(name):
    kind, n, d = shape(name)
    form = {"rank": 0, "separation": SEPARATION} if kind == "blobs" else {}
    SIMULATORS[name] = datasets.MixtureSimulator(n_rows=n, d=d, c=20, **form)


def run(call, runs):
    call = {"name": "", "limit": None, "threads": 1, "workers": 0, "group_rows": None} | call
    key, name = " ".join(f"{value}" for value in call.values()), call["name"]
    if key in runs:
        return
    register(name)
    options = {"memory_limit": call["limit"], "group_rows": call["group_rows"], "scale": None}
    options |= {"n_workers": call["workers"], "n_threads": call["threads"]}
    m = measure("_clusters:fit", {"archive": str(as_zarr(name)), "c": n_clusters(name)} | options)
    if m.error:
        print(key, m.error)
        return
    runs[key] = call | m.result
    print(key, f"{total(runs[key]):.1f} CPU s, {total(runs[key], 'wall'):.1f} s, plain {m.result['plain']}", flush=True)
    save("scaling_model", runs)


def stored():
    path = RATES.parents[2] / "benchmarks" / "results" / "scaling_model.json"
    found = json.loads(path.read_text())["measurements"] if path.exists() else {}
    return {key: of for key, of in found.items() if "solves" in of}


def total(of, what="cpu"):
    return sum(stage[what] for stage in of["stages"].values())


# -- the work of a run, and the rates that explain its seconds


def plan_of(of):
    """The plan of a run, and the settings by which it found its labels."""
    n, d = of["shape"]
    settings, _ = resolve(20).fitted_to(n)
    settings = settings.by_valleys(valley_columns(settings, n)) if of["plain"] else settings
    n_workers, sizes = of["workers"] or 1, BlockSizes(group_rows=of["group_rows"])
    size = planning.Size(n, d, n_workers=n_workers, block_sizes=sizes, workers_per_machine=n_workers)
    return smic_planning.plan(size, resolve(20).fitted_to(n)[0], parse_bytes(of["limit"]), of["threads"]), settings


def work_of(of, cache_bytes):
    plan, settings = plan_of(of)
    missed = Rates("", {}, cache_bytes, 1.0, {}, 1.0).missed
    return work(plan, settings, [Solve(*solve) for solve in of["solves"]], missed)


def fit_rates(runs):
    """Rates from fits in one process with one thread, then efficiency and messages from those that share the work."""
    alone = [of for of in runs if of["threads"] == 1 and not of["workers"]]
    tries = {cache: _fit_stages(alone, cache) for cache in CACHES}
    cache = min(tries, key=lambda cache: tries[cache][1])
    seconds = tries[cache][0]
    return Rates(
        machine()["processor"], seconds | _messages(runs, cache), cache, _efficiency(runs), _answers(runs), probe()
    )


def _fit_stages(runs, cache):
    """Seconds of every unit, and the sum of squared errors in shares of the whole."""
    works, seconds, left = [work_of(of, cache) for of in runs], {}, 0.0
    weights = np.array([1 / total(of) for of in runs])
    for stage in dict.fromkeys(name.split(".")[0] for name in works[0]):
        names = [name for name in works[0] if name.startswith(f"{stage}.")]
        A = np.array([[found[name] for name in names] for found in works]) * weights[:, None]
        scale = A.max(axis=0)
        scale[scale == 0] = 1.0
        measured = np.array([of["stages"].get(stage, {"cpu": 0.0})["cpu"] for of in runs]) * weights
        found, error = nnls(A / scale, measured)
        seconds |= dict(zip(names, (found / scale).tolist(), strict=True))
        left += error**2
    return seconds, left


def _answers(runs):
    """Least work of the eigensolver for labels from valleys alone, and most work where these were not enough.

    Products, and steps, of a vector are a power of the number of rows, the same for all sets, times a factor of the
    family of sets.
    """
    sets = {of["name"]: of for of in runs}.values()
    means = [np.mean([[solve[2] / solve[1], solve[3] / solve[1]] for solve in of["solves"]], axis=0) for of in sets]
    families = [(kind, d) for kind, _, d in (shape(of["name"]) for of in sets)]
    of_family = np.array([[family == other for other in dict.fromkeys(families)] for family in families], float)
    logs = np.log([of["shape"][0] / 1e6 for of in sets])
    fitted = np.linalg.lstsq(np.column_stack([logs, of_family]), np.log(means)[:, 0], rcond=None)[0]
    growth = max(0.0, float(fitted[0]))
    at_million = np.array(means) * np.exp(-growth * logs)[:, None]
    plain = np.array([of["plain"] for of in sets])
    return {
        "clear": Answer(*at_million[plain].min(axis=0).tolist(), growth),
        "unclear": Answer(*at_million[~plain].max(axis=0).tolist(), growth),
    }


def _pairs(runs, shared):
    """Runs of one set by one thread, and by two threads or workers."""
    alone = {
        of["name"]: of for of in runs if of["threads"] == 1 and not (of["workers"] or of["limit"] or of["group_rows"])
    }
    return [(alone[of["name"]], of) for of in runs if shared(of) and of["name"] in alone]


def _efficiency(runs):
    pairs = _pairs(runs, lambda of: of["threads"] == 2 and not of["workers"])
    return float(np.mean([total(one) / (2 * total(two, "wall")) for one, two in pairs])) if pairs else 1.0


def _messages(runs, cache):
    """Seconds of a round and of a byte: what two workers take longer than two threads in eigen and assign."""
    threads = {of["name"]: of for of in runs if of["threads"] == 2}
    found = [of for of in runs if of["workers"] and of["name"] in threads]
    if len(found) < 2:
        return {ROUNDS: 0.01, SENT: 2e-9}
    A, more = [], []
    for of in found:
        amounts = work_of(of, cache)
        A.append([sum(amounts[f"{stage}.{kind}"] for stage in ("eigen", "assign")) for kind in (ROUNDS, SENT)])
        A[-1][1] /= of["workers"]
        other = threads[of["name"]]["stages"]
        more.append(sum(of["stages"][stage]["wall"] - other[stage]["wall"] for stage in ("eigen", "assign")))
    A, more = np.array(A), np.maximum(more, 0.0)
    scale = A.max(axis=0)
    return dict(zip((ROUNDS, SENT), (nnls(A / scale, more)[0] / scale).tolist(), strict=True))


# -- what the rates say


def show(rates, runs):
    for name, value in rates.seconds.items():
        print(f"{name:20} {value:.3g} s")
    print(
        f"cache {rates.cache_bytes / 2**20:.1f} MiB, efficiency {rates.efficiency:.2f}, probe {rates.probe_seconds} s"
    )
    print(*(f"{kind}: {answer}" for kind, answer in rates.answers.items()), "", sep="\n")
    rows = {}
    for key, of in sorted(runs.items(), key=lambda item: item[1]["shape"]):
        plan, settings = plan_of(of)
        amounts = work(plan, settings, [Solve(*solve) for solve in of["solves"]], rates.missed)
        by_stage = rates.cpu_seconds(amounts)
        cpu, wall, duration = sum(by_stage.values()), rates.wall_seconds(amounts, plan), expected(plan, rates)
        rows[key] = {"cpu_s": total(of), "model_s": cpu, "ratio": cpu / total(of), "wall_s": total(of, "wall")}
        rows[key] |= {"model_wall_s": wall, "wall_ratio": wall / total(of, "wall")}
        rows[key] |= {"least_s": duration.cpu_seconds[0], "most_s": duration.cpu_seconds[1]}
        rows[key] |= {
            stage: by_stage[stage] / max(cost["cpu"], 1e-9) for stage, cost in of["stages"].items() if stage in by_stage
        }
    columns = ("cpu_s", "model_s", "ratio", "wall_s", "model_wall_s", "wall_ratio", "least_s", "most_s")
    table(rows, columns, "model")
    print()
    table(
        rows,
        ("scan", "route", "neighbors", "graph", "eigen", "assign", "valleys", "select", "output"),
        "model / measured",
    )


def expected(plan, rates):
    settings, _ = resolve(20).fitted_to(plan.size.n)
    return duration_of(plan, works(plan, settings, rates), rates)


def as_json(rates):
    return vars(rates) | {"answers": {kind: vars(answer) for kind, answer in rates.answers.items()}}


if __name__ == "__main__":
    main()
