"""The methods by name, and calls to them by their common interface, which :mod:`bigsmic.methods` documents.

Other packages add methods by entry points of the group ``bigsmic.methods``: their names are those of the methods, and
they refer to settings classes. Settings and modules are loaded by name, so that results, predictions and stages, which
lie below the methods, can use the method of a run, and the command line can read options without the rest.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.settings import MethodSettings
from bigsmic.spelling import refuse_unknown
from bigsmic.validation import brief, check_seed, plain
from bigsmic.warning import warn

DEFAULT = "smic"
GROUP = "bigsmic.methods"
BUILT_IN = {
    "smic": "bigsmic.settings.smic:Settings",
    "3smic": "bigsmic.settings.semisupervised:Settings",
    "rim": "bigsmic.settings.rim:Settings",
    "kernel_rim": "bigsmic.settings.kernel_rim:Settings",
    "mic": "bigsmic.settings.mic:Settings",
    "mspc": "bigsmic.settings.mspc:Settings",
    "mwca": "bigsmic.settings.mwca:Settings",
}
"""Settings of each built-in method, which name the module with the rest; found without installed metadata."""
OFFERED = ("plan", "run", "summary", "model", "Result")
"""Names that the module of a method must define."""
OF_EVERY_FIT = frozenset(
    (
        *("data", "c", "method", "out", "like", "memory_limit", "component", "rows", "storage_options"),
        *("missing_chunks", "n_threads", "progress", "client", "scheduler", "engine", "performance_report"),
        "block_sizes",
    )
)
"""Parameters of :func:`bigsmic.fit` whatever the method, so that no method's option may have one of these names."""
_NUMBER = "the number of clusters is c="
_SEED = "the seed is seed="
OF_OTHER_LIBRARIES = {
    **dict.fromkeys(("n_clusters", "num_clusters", "n_components", "k", "n_classes"), _NUMBER),
    **dict.fromkeys(("random_state", "random_seed"), _SEED),
    "n_jobs": "the number of threads is n_threads=",
    "verbose": "progress=True shows what is done",
}
"""By name of an option in other libraries, what it is here."""


def names() -> tuple[str, ...]:
    """Names of the methods, those of other packages last."""
    return (*BUILT_IN, *sorted({entry.name for entry in _offered()} - BUILT_IN.keys()))


def _offered() -> EntryPoints:
    """Methods of other packages, looked up again where packages may have been installed since."""
    return _found_in(tuple((path, _changed(path)) for path in sys.path))


@lru_cache(maxsize=1)
def _found_in(places: tuple[tuple[str, float], ...]) -> EntryPoints:
    """Methods of the packages in `places`; to find them, the metadata of all installed packages are read."""
    return entry_points(group=GROUP)


def _changed(path: str) -> float:
    """Time at which a folder was last changed; 0 for one that does not exist."""
    try:
        return os.stat(path or ".").st_mtime
    except OSError:
        return 0.0


def loadable() -> dict[str, type[Any]]:
    """Settings classes of all methods that can be loaded, by name; `settings_of` raises the reason for the others."""
    found = {}
    for name in names():
        try:
            found[name] = settings_of(name)
        except InputError:
            if name in BUILT_IN:
                raise
    return found


def settings_of(name: str) -> type[Any]:
    """Settings class of a method, loaded without the rest of the method.

    Raises
    ------
    InputError
        There is no such method, two packages offer it, or it cannot be loaded.
    """
    if not isinstance(name, str):
        raise InputError(f"method: got {brief(name)}; use one of {', '.join(names())}")
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    entries = _offered().select(name=name)
    if not entries:
        raise InputError(f"method: got {brief(name)}; use one of {', '.join(names())}")
    if len({entry.value for entry in entries}) > 1:
        raise InputError(f"method: {name!r} is offered by {' and '.join(map(_source, entries))}; uninstall one of them")
    return _loaded(next(iter(entries)))


def _loaded(entry: EntryPoint) -> type[Any]:
    """Settings class that an entry point refers to; InputError if it cannot be loaded, or is none."""
    try:
        kind: type[Any] = entry.load()
    except Exception as error:
        raise InputError(
            f"method: {entry.name!r} of {_source(entry)} cannot be loaded ({type(error).__name__}: {error}); repair "
            "or uninstall that package"
        ) from error
    wrong = _what_is_wrong(kind, entry.name)
    if wrong:
        raise InputError(
            f"method: {entry.name!r} of {_source(entry)} is not a method: {wrong}; repair or uninstall that package"
        )
    return kind


def _what_is_wrong(kind: object, name: str) -> str:
    """Why a class cannot be the settings of a method; empty if it can."""
    if not (isinstance(kind, type) and issubclass(kind, MethodSettings) and is_dataclass(kind)):
        return f"{kind!r} is not a dataclass derived from bigsmic.settings.MethodSettings"
    if getattr(kind, "method", None) != name:
        return f"its settings belong to a method {getattr(kind, 'method', None)!r}"
    if "n_clusters" not in {field.name for field in fields(kind)}:
        return "its settings have no field n_clusters"
    taken = sorted(OF_EVERY_FIT & {*kind.options(), *kind.side_inputs})
    return f"its option {taken[0]} is a parameter of every fit" if taken else ""


def _source(entry: EntryPoint) -> str:
    """Package and object of an entry point, for messages."""
    package = f"package {entry.dist.name}" if entry.dist is not None else "an unknown package"
    return f"{package} ({entry.value})"


def load(name: str) -> Any:
    """Module of a method.

    Raises
    ------
    InputError
        There is no such method, or it cannot be loaded.
    """
    return of(settings_of(name))


def of_stored(settings: dict[str, Any]) -> type[Any]:
    """Settings class for stored settings; SMIC's if they name no method."""
    return settings_of(settings.get("method", DEFAULT))


def of(settings: Any) -> Any:
    """Module of the method of some settings."""
    kind = settings if isinstance(settings, type) else type(settings)
    return importlib.import_module(vars(kind).get("home") or kind.__module__)


def settings(name: str, c: Any, given: Any, others: Any = ()) -> Any:
    """Settings of a method from a caller's options.

    Parameters
    ----------
    name : str
    c : int, None, or what else the method makes of a number of clusters
    given : dict
        Options by name.
    others : iterable of str
        Names of the caller's own parameters, one of which may have been meant.

    Raises
    ------
    OptionError
        An option that the method lacks.
    InputError
        A value cannot be used, or the module of the method is incomplete.
    """
    kind, taken = settings_of(name), options(name)
    _warn_of_clash(name)
    refuse_unknown(name, given, taken, {*taken, *others}, partial(_meant, kind.renamed), OF_OTHER_LIBRARIES)
    lacking = [part for part in OFFERED if not hasattr(of(kind), part)]
    if lacking:
        raise InputError(
            f"method: {name!r} lacks {', '.join(lacking)} in module {of(kind).__name__}; see bigsmic.methods"
        )
    chosen = {key: plain(value) for key, value in given.items() if key not in kind.side_inputs}
    if name in BUILT_IN and "seed" in chosen:
        check_seed("seed", chosen["seed"])
    return kind.of(plain(c), **chosen)


def _warn_of_clash(name: str) -> None:
    """Warn that a built-in method is used where another package offers one of the same name."""
    clashing = _offered().select(name=name) if name in BUILT_IN else ()
    for entry in clashing:
        warn(f"method: {name!r} is bigsmic's own; that of {_source(entry)} is refused and must take another name")


def options(name: str) -> dict[str, Any]:
    """Options of a method by name, side inputs included."""
    kind = settings_of(name)
    return {**kind.options(), **kind.side_inputs}


def _meant(renamed: Mapping[str, str], option: str) -> str:
    """Hint to what was meant by an option that the method lacks; empty if nothing suggests itself."""
    if option in renamed:
        return renamed[option]
    if option in OF_OTHER_LIBRARIES:
        return OF_OTHER_LIBRARIES[option]
    if other := sorted(name for name in loadable() if option in options(name)):
        return f"it is an option of method {' and '.join(map(repr, other))}"
    return ""


def admit(settings: Any, given: dict[str, Any], n_rows: int, storage_options: Any = None) -> tuple[Any, dict[str, Any]]:
    """Settings and side inputs, read and checked by the method.

    Parameters
    ----------
    settings : MethodSettings
    given : dict
        Options by name.
    n_rows : int
    storage_options : dict, optional
        For file systems behind URLs.

    Returns
    -------
    settings : MethodSettings
    side_inputs : dict of str to ndarray
    """
    kind = of(settings)
    if hasattr(kind, "admit"):
        return kind.admit(settings, given, n_rows, storage_options)
    return settings, {name: np.asarray(given[name]) for name in settings.side_inputs if given.get(name) is not None}


def temporary(settings: Any) -> tuple[str, ...]:
    """Names, or prefixes of names, of a method's temporary stages, which are deleted when a fit has ended."""
    kind = of(settings)
    return tuple(kind.temporary(settings)) if hasattr(kind, "temporary") else ()
