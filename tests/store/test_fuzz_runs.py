"""A stored run is input: whatever befalls it, the answer is right or one of bigsmic's errors says what is wrong.

``BIGSMIC_FUZZ=10000 pytest -m slow tests/test_fuzz_runs.py -s`` tries more of them than by default.
"""

import os
import re
import shutil
import sys
from collections import Counter

import numpy as np
import pytest
from damage import FITS, cut_smaller, finished, fit, half_finished, mutate, rows

import bigsmic
from bigsmic.errors import BigsmicError

N_CASES = int(os.environ.get("BIGSMIC_FUZZ", "1200"))
HALF = 3  # of so many cases one is of a fit that was killed
WAY_OUT = re.compile(r"another out=|run fit on it|remove it|restore|run the same|fit again|give the out= of a")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch):
    cut_smaller(monkeypatch)


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Runs of other rows, and of the same: what is foreign comes from them."""
    folder = tmp_path_factory.mktemp("others")
    return {
        name: [finished(name, folder / f"{name}-{seed}".replace(" ", "_"), rows(seed)).out for seed in (0, 1)]
        for name in FITS
    }


def told(error, wants_way_out):
    """Class of a bigsmic error that says something; any other goes through."""
    if not isinstance(error, BigsmicError):
        raise error
    assert len(str(error)) > 20, repr(error)
    assert not wants_way_out or WAY_OUT.search(str(error)), repr(error)
    return type(error).__name__


def read(out, wanted, wants_way_out=False):
    """Open a run and ask it everything: "right", or the error that it gives."""
    try:
        result = bigsmic.Result.open(out)
        right = wanted.is_like(result)
        repr(result)
    except Exception as error:
        return told(error, wants_way_out)
    assert right, "wrong without an error"
    return "right"


def refit(name, out, wanted):
    """Fit on a run again, and read it anew: "right", or the error that it gives."""
    try:
        right = wanted.is_like(fit(name, out))
    except Exception as error:
        return told(error, True)
    assert right, "wrong without an error"
    return read(out, wanted, True)


@pytest.mark.parametrize("name", FITS)
def test_whatever_befalls_a_run(name, tmp_path, others, capsys):
    wanted = finished(name, tmp_path / "whole")
    foreign = [*others[name], others["smic" if name == "mspc" else "mspc"][0]]
    halves = [tmp_path / f"half{i}" for i in range(4)]
    for i, half in enumerate(halves):
        half_finished(name, half, int((0.3 + 0.18 * i) * wanted.n_events))
    counts: Counter = Counter()
    wrong = []
    for case in range(-(-N_CASES // len(FITS))):
        rng = np.random.default_rng([sum(map(ord, name)), case])
        state, out = "finished" if case % HALF else "half", tmp_path / "run"
        shutil.copytree(wanted.out if case % HALF else halves[case // HALF % 4], out)
        what = mutate(rng, out, foreign)
        try:
            seen = read(out, wanted)
            assert (state, seen) != ("half", "right"), "a run that is not finished was read"
            counts[state, what.split()[0], seen, refit(name, out, wanted)] += 1
        except Exception as error:
            wrong.append(f"case {case}: {state} run, {what}: {type(error).__name__}: {error}"[:600])
        for path in tmp_path.glob("run*"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {counts.total()} cases, {len(wrong)} wrong\n")
        for (state, how, seen, again), count in sorted(counts.items()):
            sys.stdout.write(f"  {count:4} {state:8} {how:9} read: {seen:18} fitted again: {again}\n")
    assert not wrong, "\n".join(wrong)
