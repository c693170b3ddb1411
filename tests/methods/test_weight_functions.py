"""Functions as kernels: known by name and code, in every process."""

import functools
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import bigsmic
from bigsmic.errors import InputError, RunMismatchError
from bigsmic.numerics.graph import weights
from bigsmic.settings.smic import Settings
from bigsmic.stages import kernel_matrix
from bigsmic.weight_functions import identity_of

OPTIONS = {"t": (3,), "n_centers": 40, "n_threads": 1}
POWER = 1.0


def weight(d2, si, sj, power=1.0):
    return np.exp(-((d2 / (si * sj)) ** power))


def by_global(d2, si, sj):
    return np.exp(-((d2 / (si * sj)) ** POWER))


def made(power):
    def inner(d2, si, sj):
        return np.exp(-((d2 / (si * sj)) ** power))

    return inner


class Cauchy(NamedTuple):
    bandwidth: float = 2.0

    def __call__(self, d2, si, sj):
        return 1 / (1 + d2 / np.maximum(d2.dtype.type(self.bandwidth) * si * sj, np.float32(1e-30)))


def test_a_named_one_is_an_entry_of_a_table_and_used_where_it_is_asked_for(blobs, monkeypatch):
    before = [Settings(4, assignment=assignment).kernels for assignment in ("merge", "rotation", "auto")]
    with pytest.raises(InputError, match=r"kernel: got 'cauchy'; use a function or one of \('local_scaling',"):
        bigsmic.fit(blobs[0], 4, kernel="cauchy")
    monkeypatch.setitem(weights.NAMED, "cauchy", Cauchy)
    assert before == [Settings(4, assignment=assignment).kernels for assignment in ("merge", "rotation", "auto")]
    result = bigsmic.fit(blobs[0], 4, kernel="cauchy", assignment="rotation", **OPTIONS)
    wanted = bigsmic.fit(blobs[0], 4, kernel=Cauchy(2.0), assignment="rotation", **OPTIONS)
    assert {solve["kernel"] for solve in result.diagnostics["eigen"]} == {"cauchy"}
    np.testing.assert_array_equal(result.labels, wanted.labels)
    np.testing.assert_array_equal(result.predict(blobs[0][:50]), wanted.predict(blobs[0][:50]))


@pytest.mark.parametrize(
    "kernel", [lambda d2, si, sj: np.exp(-d2 / (si * sj)), made(1), functools.partial(weight, power=2.0)]
)
@pytest.mark.parametrize("method", ["smic", "kernel_rim"])
def test_a_function_without_a_name_is_refused_with_a_run_directory(tmp_path, blobs, kernel, method):
    with pytest.raises(InputError, match=r"has no name by which.*__bigsmic_name__"):
        bigsmic.fit(blobs[0], 4, kernel=kernel, method=method, out=tmp_path / "run", n_threads=1)
    assert not (tmp_path / "run").exists()


def test_without_a_run_directory_it_needs_no_name(blobs):
    result = bigsmic.fit(blobs[0], 4, kernel=made(1), **OPTIONS)
    assert len(result.predict(blobs[0][:5])) == 5


def test_a_name_that_is_given_will_do(tmp_path, blobs):
    first, second = made(1), made(2)
    first.__bigsmic_name__, second.__bigsmic_name__ = "gaussian", "steep"
    result = bigsmic.fit(blobs[0], 4, kernel=first, out=tmp_path / "run", **OPTIONS)
    assert identity_of(first) == "callable named gaussian"
    assert np.array_equal(bigsmic.fit(blobs[0], 4, kernel=first, out=tmp_path / "run", **OPTIONS).labels, result.labels)
    with pytest.raises(RunMismatchError, match=r"gaussian.*steep"):
        bigsmic.fit(blobs[0], 4, kernel=second, out=tmp_path / "run", **OPTIONS)


def test_a_function_whose_code_has_changed_is_another_one(tmp_path, blobs, monkeypatch):
    bigsmic.fit(blobs[0], 4, kernel=weight, out=tmp_path / "run", **OPTIONS)
    monkeypatch.setattr(weight, "__defaults__", (2.0,))
    with pytest.raises(RunMismatchError, match="kernel"):
        bigsmic.fit(blobs[0], 4, kernel=weight, out=tmp_path / "run", **OPTIONS)
    with pytest.raises(InputError, match=r"the run was made with callable .*weight .*; pass the function of the fit"):
        bigsmic.Result.open(tmp_path / "run", kernel=weight)


def test_what_tells_functions_apart(monkeypatch):
    lambdas = [lambda a: a + 1, lambda a: a + 2, lambda a: a - 1, lambda a, b=1: a + 1]
    kinds = [weight, made(1), made(2), functools.partial(weight, power=1.0), functools.partial(weight, power=2.0)]
    digests = {identity_of(function) for function in [*lambdas, *kinds]}
    assert len(digests) == 9
    assert identity_of(made(1)) == identity_of(made(1))
    before = identity_of(by_global)
    monkeypatch.setitem(globals(), "POWER", 2.0)
    assert identity_of(by_global) != before


def test_the_digest_is_the_same_in_another_process(tmp_path):
    code = "def f(x, y={'b': 1, 'a': 2}):\n    return x in {'one', 'two', 'three'} or [v for v in y]\n"
    (tmp_path / "mine.py").write_text(code)
    command = "from bigsmic.weight_functions import identity_of; import mine; print(identity_of(mine.f))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {command}"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].startswith("callable mine.f ")


@pytest.mark.parametrize(("preset", "expected"), [("paper", np.exp(-2)), (None, np.exp(-0.08))])
def test_only_the_preset_of_the_paper_has_its_formula_for_outliers(preset, expected):
    """``exp(-4 / (2 s))`` with ``s = 10 x 0.1``, and with the smaller scale as large as a quarter of the larger."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    weight_of_fit = kernel_matrix.weight_of(bigsmic.fit(X, 2, preset=preset, n_threads=1)._context)
    np.testing.assert_allclose(weight_of_fit(*(np.array([value]) for value in (4.0, 10.0, 0.1))), expected)
