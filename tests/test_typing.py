"""Every function and method that the public names reach says what it takes and what it returns."""

import inspect
from functools import cached_property
from pathlib import Path

import pytest

import bigsmic
from bigsmic import datasets, errors
from bigsmic.engines.base import Engine, Resources, TaskOptions
from bigsmic.engines.threads import ThreadEngine
from bigsmic.methods.smic.result import SMICResult
from bigsmic.runtime.options import RunOptions
from bigsmic.runtime.planning import Plan, Size, StagePlan
from bigsmic.settings import MethodSettings

pytestmark = pytest.mark.unit

PACKAGE = Path(bigsmic.__file__).parent


def defined_in(module):
    return [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]


BEHIND = [Engine, Resources, TaskOptions, ThreadEngine, MethodSettings, SMICResult, RunOptions, Plan, Size, StagePlan]
LISTED = [getattr(module, name) for module in (bigsmic, datasets) for name in module.__all__]
PUBLIC = LISTED + BEHIND + defined_in(errors)
REACHED = {f"{value.__module__}.{value.__qualname__}": value for value in PUBLIC if hasattr(value, "__qualname__")}


def functions_of(value):
    """Functions by qualified name: of a class those that it or a base of ours defines, properties among them."""
    if inspect.isfunction(value):
        return {value.__qualname__: value}
    members = [vars(base) for base in value.__mro__ if base.__module__.startswith("bigsmic")]
    found = [inspect.unwrap(unbound(member)) for namespace in members for member in namespace.values()]
    return {f.__qualname__: f for f in found if inspect.isfunction(f) and is_ours(f)}


def is_ours(function):
    """Whether a function is written here, and not by NamedTuple or Protocol."""
    return Path(function.__code__.co_filename).is_relative_to(PACKAGE)


def unbound(member):
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return member.__func__ if isinstance(member, classmethod | staticmethod) else member


def bare(function):
    """Names of the parameters, and "return", that have no annotation."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    names = [p.name for p in parameters if p.annotation is p.empty]
    return names + ["return"] * (signature.return_annotation is signature.empty and function.__name__ != "__init__")


@pytest.mark.parametrize("name", REACHED)
def test_what_is_public_is_annotated(name):
    found = {qualname: bare(function) for qualname, function in functions_of(REACHED[name]).items()}
    assert {qualname: names for qualname, names in found.items() if names} == {}


def test_public_names_reach_the_functions_that_they_are_known_for():
    reached = {qualname for value in REACHED.values() for qualname in functions_of(value)}
    assert {"fit", "plan", "lsmi", "Result.predict", "Result.labels", "Result.open", "Clusterer.fit"} <= reached
    assert len(reached) > 100


def test_what_has_no_annotation_is_found():
    def half(a: int, b, *rest, c: str = ""):
        return a, b, rest, c

    assert bare(half) == ["b", "rest", "return"]
