"""The door to the methods: every one offers the same names, and takes its own options only."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import bigsmic
from bigsmic import registry
from bigsmic.errors import InputError, OptionError, RunMismatchError
from bigsmic.result import Result
from bigsmic.settings import MethodSettings

ROWS = np.random.default_rng(0).standard_normal((60, 3))


class Broken(Result):
    """A Result with a fault in a property."""

    @property
    def share(self):
        return self.settings.no_such_setting


def test_what_a_result_lacks_does_not_hide_a_fault_in_what_it_has():
    with pytest.raises(AttributeError, match="no_such_setting"):
        Broken(SimpleNamespace(location="run"), SimpleNamespace(method="rim")).share  # noqa: B018


@pytest.mark.parametrize("name", registry.names())
def test_every_method_offers_the_same_names(name):
    settings, kind = registry.settings_of(name), registry.load(name)
    assert issubclass(settings, MethodSettings)
    assert dataclasses.is_dataclass(settings)
    assert issubclass(kind.Result, Result)
    assert all(callable(getattr(kind, what)) for what in ("plan", "run", "summary", "model"))
    assert settings.method == name


@pytest.mark.parametrize("call", [bigsmic.fit, bigsmic.plan])
def test_what_a_method_does_not_have_is_refused(call):
    with pytest.raises(InputError, match="method: got 'fancy'; use one of smic"):
        call(ROWS, 3, method="fancy")
    of_others = "it is an option of method 'kernel_rim' and 'mic' and 'mspc' and 'rim'"
    with pytest.raises(OptionError, match=rf"smic: got unexpected option reg= \({of_others}\); it takes assignment=, "):
        call(ROWS, 3, reg=0.1)
    with pytest.raises(TypeError, match=r"unexpected option xyzzy=;"):
        call(ROWS, 3, xyzzy=1)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"assigment": "merge"}, r"option assigment= \(did you mean assignment=\?\); it takes"),
        ({"n_clusters": 3}, r"option n_clusters= \(the number of clusters is c=\); it takes"),
        ({"n_cluster": 3}, r"option n_cluster= \(the number of clusters is c=\); it takes"),
        ({"n_neighbours": 9}, r"option n_neighbours= \(did you mean n_neighbors=\?\); it takes"),
        ({"random_state": 0}, r"option random_state= \(the seed is seed=\); it takes"),
        ({"n_jobs": 2}, r"option n_jobs= \(the number of threads is n_threads=\); it takes"),
        ({"memory_limits": "1GiB"}, r"option memory_limits= \(did you mean memory_limit=\?\); it takes"),
        ({"zzz": 1, "sed": 1}, r"options sed= \(did you mean seed=\?\), zzz=; it takes"),
    ],
)
def test_what_may_have_been_meant_is_said(given, hint):
    with pytest.raises(OptionError, match=hint):
        bigsmic.fit(ROWS, 3, **given)


def test_a_run_of_another_method_is_refused_in_a_line(tmp_path):
    bigsmic.fit(ROWS, 2, out=tmp_path / "run.zarr", t=3, n_centers=20)
    with pytest.raises(RunMismatchError) as caught:
        bigsmic.fit(ROWS, 2, method="rim", out=tmp_path / "run.zarr")
    _, *differences, remedy = str(caught.value).splitlines()
    assert differences == ["  method: stored 'smic', asked 'rim'"]
    assert remedy == "give another out=, or the stored values"


def test_of_many_differences_some_are_shown(tmp_path):
    bigsmic.fit(ROWS, 2, out=tmp_path / "run.zarr", t=3, n_centers=20)
    with pytest.raises(RunMismatchError, match=r"\n  and \d+ more\n") as caught:
        bigsmic.fit(ROWS[:50, :2], 3, preset="paper", seed=3, n_neighbors=30, out=tmp_path / "run.zarr")
    assert len(str(caught.value).splitlines()) == 11


def test_runs_that_name_no_method_are_smic_s(tmp_path):
    result = bigsmic.fit(ROWS, 2, out=tmp_path / "run.zarr", t=3, n_centers=20)
    stored = result._run.identity["settings"]
    assert "method" not in stored
    assert registry.of_stored(stored) is registry.settings_of("smic")
    assert Result.open(tmp_path / "run.zarr").settings == result.settings
