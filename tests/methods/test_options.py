"""An option is declared once, in the settings of its method; whatever shows it to users agrees with that."""

import inspect
import json
import re
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction

import numpy as np
import pytest

import bigsmic
from bigsmic import registry
from bigsmic.cli import method_options
from bigsmic.cli import options as cli_options
from bigsmic.errors import InputError
from bigsmic.estimators.base import OF_EVERY_FIT, Clusterer, seed_of
from bigsmic.numerics.objectives.mspc import solvers
from bigsmic.numerics.objectives.mwca import ascent, parzen
from bigsmic.settings import INTEGER, UNSET, MethodSettings, option
from bigsmic.settings.mwca import WIDTHS
from bigsmic.settings.options import defaults_of

pytestmark = pytest.mark.unit

PUBLIC = [getattr(bigsmic, name) for name in bigsmic.__all__]
ESTIMATORS = [kind for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, Clusterer)]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_constructors_are_the_settings(kind):
    settings = registry.settings_of(kind._method)
    options, defaults = settings.options(), defaults_of(settings)
    parameters = inspect.signature(kind).parameters
    assert set(parameters) == set(options) - {"seed"} | set(OF_EVERY_FIT)
    for name in set(options) - {"seed"}:
        left_out = None if options[name].follows else defaults.get(name)
        assert (parameters[name].default, parameters[name].kind) == (left_out, inspect.Parameter.KEYWORD_ONLY), name
    (c,) = (f for f in fields(settings) if f.name == "n_clusters")
    assert c.default in (MISSING, parameters["n_clusters"].default)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fits_take_the_arrays_of_the_settings(kind):
    taken = {*inspect.signature(kind.fit).parameters} - {"self", "X", "y"}
    assert taken == {*registry.settings_of(kind._method).side_inputs}


def test_fit_shows_the_options_of_the_default_method():
    settings = registry.settings_of(registry.DEFAULT)
    parameters = inspect.signature(bigsmic.fit).parameters
    assert {*parameters} - registry.OF_EVERY_FIT == {*settings.options(), "options"}
    assert {*parameters} >= registry.OF_EVERY_FIT
    for name, declared in settings.options().items():
        assert parameters[name].default is (UNSET if declared.follows else defaults_of(settings).get(name))
        assert f"\n{name} : " in inspect.getdoc(bigsmic.fit)


@pytest.mark.parametrize("name", registry.names())
def test_help_speaks_of_a_preset_only_where_there_is_one(name):
    options = registry.options(name)
    assert "preset" in options or not [other for other, declared in options.items() if "preset" in declared.help]


@pytest.mark.parametrize("name", registry.names())
def test_the_command_line_has_every_option(name):
    shown = [flag.name for panel in cli_options.FIT.values() for flag in panel]
    assert len(shown) == len(set(shown))
    assert {option for option, declared in registry.options(name).items() if declared.typed} <= set(shown)


@pytest.mark.parametrize("name", registry.names())
def test_help_is_sentences_of_which_the_first_stands_alone(name):
    for declared in registry.options(name).values():
        assert re.fullmatch(r"[A-Z0-9\"].*\.", declared.help), declared.help
        assert len(declared.summary) < 120, declared.summary


def test_what_is_declared_is_what_numerics_have():
    assert WIDTHS == parzen.WIDTHS
    assert registry.options("mwca")["direction"].choices == ascent.DIRECTIONS
    assert registry.options("mspc")["solver"].choices == solvers.SOLVERS
    defaults = defaults_of(registry.settings_of("mspc"))
    assert (defaults["max_iter"], defaults["tol"]) == (solvers.MAX_ITER, solvers.TOL)


# -- values of NumPy's types


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("smic", {"seed": np.int64(4), "n_neighbors": np.uint8(15), "bandwidth": np.float32(1.5)}),
        ("smic", {"noise": np.True_, "valleys": np.False_, "trim": np.bool_(True), "repair": np.False_}),
        ("smic", {"rotation": np.True_, "normalization": np.str_("symmetric"), "t": np.array([5, 8])}),
        ("smic", {"bandwidth": Fraction(3, 2), "widths": np.array([[1.5, 2], [2, 3]]), "lsmi_rows": np.int32(300)}),
        ("3smic", {"gamma": [np.float32(0.5)], "link_weight": np.float16(5), "max_matvecs": np.int64(500)}),
        ("rim", {"reg": np.float32(0.1), "tau": np.float32(2), "batch_size": np.int64(64), "polish": np.int64(3)}),
        ("rim", {"n_epochs": np.int64(3), "n_init_categories": np.int64(9), "max_iter": np.int64(9)}),
        ("kernel_rim", {"length_scale": np.float32(2), "n_components": np.int64(9), "t": range(5, 7)}),
        ("mic", {"reg": np.float32(0.5), "start_t": np.int64(5), "tol": np.longdouble(0.25), "repair": np.False_}),
        ("mspc", {"reg": np.float32(0.5), "max_iter": np.int64(9)}),
        ("mwca", {"sigma": np.float32(0.5), "n_starts": np.int64(2)}),
    ],
)
def test_equal_values_of_other_types_are_the_same_run(name, given):
    own = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in given.items()}
    own |= {key: float(value) for key, value in given.items() if isinstance(value, Fraction | np.longdouble)}
    identity = registry.settings(name, np.int64(4), given).identity()
    assert json.dumps(identity) == json.dumps(registry.settings(name, 4, own).identity())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": np.True_}, "seed: got True; use an integer"),
        ({"n_neighbors": np.float64(15)}, "n_neighbors: got 15.0; use an integer"),
        ({"noise": np.int64(1)}, "noise: got 1; use one of"),
    ],
)
def test_other_types_are_checked_like_python_s(given, message):
    with pytest.raises(InputError, match=message):
        registry.settings("smic", 4, given)


@pytest.mark.parametrize("seed", [-1, 1 << 64, 1 << 70, np.int64(-1)])
def test_seeds_have_64_bits_in_all_methods(seed):
    message = f": got {seed}; use an integer from 0 to 2\\*\\*64 - 1"
    for name in registry.BUILT_IN:
        with pytest.raises(InputError, match="seed" + message):
            registry.settings(name, 2, {"seed": seed})
    with pytest.raises(InputError, match="random_state" + message):
        seed_of(seed)
    assert seed_of((1 << 64) - 1) == registry.settings("smic", 2, {"seed": (1 << 64) - 1}).seed


def test_runs_with_other_seeds_are_still_opened():
    kind = registry.settings_of("rim")
    assert kind.stored(kind(2, seed=-1).identity()).seed == -1


# -- what a declaration makes


@dataclass(frozen=True)
class Settings(MethodSettings):
    method = "example"

    n_clusters: int = 2
    depth: int | None = option(None, INTEGER, least=1, help="How deep. Deeper takes longer.")
    way: str = option("down", choices=("down", "up", None), help="Which way.")
    inner: float = 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"depth": 0}, "depth: got 0; use at least 1"),
        ({"depth": 1.5}, "depth: got 1.5; use an integer"),
        ({"way": "left"}, r"way: got 'left'; use one of \('down', 'up', None\)"),
    ],
)
def test_values_are_checked_as_declared(given, message):
    with pytest.raises(InputError, match=message):
        Settings(**given)
    assert Settings(depth=None, way=None) == Settings(2, None, None)


def test_fields_that_are_not_declared_are_no_options():
    assert [*Settings.options()] == ["depth", "way"]


def test_an_option_describes_itself():
    declared = Settings.options()
    assert declared["depth"].described("depth") == "depth : int, optional\n    How deep. Deeper takes longer."
    assert declared["way"].described("way") == 'way : {"down", "up", None}\n    Which way.'
    assert declared["depth"].summary == "How deep."


@dataclass(frozen=True)
class Other(MethodSettings):
    method = "other"

    n_clusters: int = 2
    depth: float = option(1.0, choices=(1.0, "all"), help="How far.")
    way: str = option("in", choices=("in", "out"), help="Which way.")


def flag(name):
    return method_options.flag_of(name, {kind.method: kind.options()[name] for kind in (Settings, Other)})


def test_one_name_is_one_option_of_the_command_line_and_converted_by_its_method():
    way, depth = flag("way"), flag("depth")
    assert way.help == "Which way (example: down, up, none); Which way (other: in, out)"
    assert [way.value(typed, "example") for typed in ("up", "none", "in")] == ["up", None, "in"]
    assert depth.value("3", "example") == 3
    with pytest.raises(ValueError, match="invalid literal"):
        depth.value("deep", "example")


def test_several_values_are_for_those_who_take_several():
    t = next(found for found in cli_options.FIT["Model"] if found.name == "t")
    assert t.value(["3,5", "7"], "smic") == (3, 5, 7)
    assert t.value(["3"], "mwca") == 3
    with pytest.raises(ValueError, match="got 2 of them; give one"):
        t.value(["3", "5"], "mwca")
