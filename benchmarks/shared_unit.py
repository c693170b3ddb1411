"""Whether columns are divided: ARI with either fixed choice and with scale="auto", and a sweep of the rule's constants.

    python benchmarks/shared_unit.py [--half {chosen,held}] [--seeds 2]

A fit with scale="auto" is bit for bit one of the others, so that only these are run; without columns of which one
value has most rows, "mixed" is "standard". What a choice costs on a set is the ARI of the best one less its own. Sets
that ``results/shared_unit.json`` has are not run again.
"""

import argparse
import warnings

import numpy as np
from _harness import known, save, table
from _ours import fit_rows
from _shared_unit import load, names

import bigsmic
from bigsmic.numerics import shared_unit
from bigsmic.numerics.moments import moments
from bigsmic.numerics.spreads import spreads

CHOICES = {"none": None, "standard": "standard", "mixed": "mixed"}
CONSTANTS = ("CORRELATION", "EVIDENCE", "RANGE_RATIO", "ORDER", "ALIKE", "LEVEL")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("chosen", "held"))
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore", bigsmic.errors.BigsmicWarning)
    rows = known("shared_unit")
    for half in (args.half,) if args.half else ("chosen", "held"):
        for name in names(half):
            row = rows.setdefault(name, {"half": half})
            row |= told(name)
            for choice in [choice for choice in CHOICES if choice not in row]:  # "standard" before "mixed"
                is_standard = choice == "mixed" and not row["majority"]
                row[choice] = row["standard"] if is_standard else scored(name, choice, args.seeds)
            save("shared_unit", rows, seeds=args.seeds)
        report({name: row for name, row in rows.items() if row["half"] == half}, half)


def scored(name, choice, seeds):
    """ARI of every seed with the columns scaled in one way."""
    X, y, c = load(name)
    return [fit_rows(X, y, c, scale=CHOICES[choice], seed=seed, n_threads=1)[0] for seed in range(seeds)]


def told(name):
    """What the rule goes by."""
    X, _, c = load(name)
    total, found = moments(X), shared_unit.likeness(X)
    facts = {"shape": X.shape, "c": c, "in_range": shared_unit.need_no_scaling(_shared(found), total)}
    return facts | {"majority": int(np.isfinite(spreads(total, X).all).sum())} | found._asdict()


def _shared(found):
    return found._replace(neighbors=1.0, evidence=np.inf, range_ratio=1.0)


def divides(row):
    """The choice of the rule, with the constants as they are now."""
    found = shared_unit.Likeness(*(row[name] for name in shared_unit.Likeness._fields))
    return "none" if found.sign and row["in_range"] else "mixed"


def costs(rows, choice):
    """Mean over sets of what a choice, given as a function of a set's row, costs."""
    means = [{name: np.mean(row[name]) for name in CHOICES} for row in rows.values()]
    return float(np.mean([max(m.values()) - m[choice(row)] for m, row in zip(means, rows.values(), strict=True)]))


def report(rows, half):
    """Print the table, the costs, and the sweep of the constants."""
    shown = {
        name: {
            "none": float(np.mean(row["none"])),
            "standard": float(np.mean(row["standard"])),
            "mixed": float(np.mean(row["mixed"])),
            "majority": row["majority"],
            "auto": divides(row),
            "neighbors": row["neighbors"],
            "all": row["all_pairs"],
            "evidence": row["evidence"],
            "ranges": row["range_ratio"],
            "order": row["order"],
            "narrow": row["narrowest"],
            "level": row["level"],
        }
        for name, row in rows.items()
    }
    table(
        shown,
        (*CHOICES, "majority", "auto", "neighbors", "all", "evidence", "ranges", "order", "narrow", "level"),
        half,
    )
    kinds = {}
    for name, row in rows.items():
        kind, _, draw = name.partition("-")
        kinds.setdefault(kind if draw else "real", {})[name] = row
    kinds["all"] = rows
    choices = {choice: lambda row, choice=choice: choice for choice in CHOICES} | {"auto": divides}
    table({k: {n: costs(part, f) for n, f in choices.items()} for k, part in kinds.items()}, (*choices,), "mean cost")
    sweep = {
        f"{name} x {factor:.2g}": swept(rows, name, factor) for name in CONSTANTS for factor in (0.5, 0.71, 1, 1.41, 2)
    }
    table(sweep, ("value", "cost", "otherwise"), "sweep")


def swept(rows, name, factor):
    """Cost with one constant multiplied, and the sets that are then decided otherwise."""
    before = {key: divides(row) for key, row in rows.items()}
    value = getattr(shared_unit, name)
    changed = _multiplied(name, value, factor)
    setattr(shared_unit, name, changed)
    try:
        otherwise = [key for key, row in rows.items() if divides(row) != before[key]]
        shown = changed if np.isscalar(changed) else ", ".join(f"{end:.2g}" for end in changed)
        return {"value": shown, "cost": costs(rows, divides), "otherwise": f"{len(otherwise)} {otherwise[:3]}"}
    finally:
        setattr(shared_unit, name, value)


def _multiplied(name, value, factor):
    """A constant multiplied by a factor: of a correlation or level its distance from 1, of a range its lower end."""
    if name in ("ORDER", "LEVEL"):
        return 1 - factor * (1 - value)
    return (value[0] * factor, value[1]) if name == "ALIKE" else factor * value


if __name__ == "__main__":
    main()
